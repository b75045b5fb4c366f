//! The files of `run --ftrace`, `run --zoneinfo` and `run --perfetto`.

use crate::cli::Run;
use front::failure::Failure;
use lab::diagnostic::Diagnostic;
use lab::model::{Cell, Experiment};
use lab::results::file_name;
use lab::runner::Listeners;
use mm::world::event::Event;
use sim::ftrace::{self, Ftrace, Selection};
use sim::perfetto::Perfetto;
use sim::waiting::Ended;
use sim::world::{Listener, Moment};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a trace that are written at a time.
const BUFFER: usize = 1 << 20;

/// The files of all cells, made before the first run starts.
pub struct Files {
    /// The listeners for the runner.
    pub listeners: Listeners,
    /// Each file, with the error of writing it, if any.
    failures: Vec<(PathBuf, ftrace::Failure)>,
}

/// A cell's open files, used by its first iteration.
#[derive(Debug, Default)]
struct Open {
    ftrace: Option<(File, ftrace::Failure)>,
    zoneinfo: Option<(File, ftrace::Failure)>,
    perfetto: Option<(File, ftrace::Failure)>,
}

impl Files {
    /// Makes the files of `--ftrace`, `--zoneinfo` and `--perfetto`, new ones, for every cell of
    /// the experiment; `None`: none is requested. Only the engine has them, so a real kernel in the
    /// experiment is an error.
    pub fn new(args: &Run, experiment: &Experiment) -> Result<Option<Self>, Failure> {
        let wrong = |what: String, accepted: &str| {
            Err(Failure::Input(Diagnostic::placeless(what, accepted).into()))
        };
        let heard = &args.heard;
        if heard.ftrace.is_none() && heard.zoneinfo.is_none() && heard.perfetto.is_none() {
            return Ok(None);
        }
        if let Some(kernel) = experiment.kernels().first() {
            let what = format!(
                "`--ftrace`, `--zoneinfo` and `--perfetto` work only with the engine, and `{}` is a real kernel",
                kernel.build
            );
            return wrong(
                what,
                "accepted: policies of the engine; a guest has its own files under /sys/kernel/tracing and /proc",
            );
        }
        let selection = match Selection::new(&args.heard.ftrace_events) {
            Ok(selection) => selection,
            Err(name) => {
                let known: Vec<&str> = ftrace::text::EVENTS
                    .iter()
                    .map(|(_, event)| *event)
                    .collect();
                let what = format!("`--ftrace-events`: `{name}` is not an event");
                return wrong(
                    what,
                    &format!(
                        "accepted: {}, with `*` at the end, or folders such as `vmscan`",
                        known.join(", ")
                    ),
                );
            }
        };
        let mut failures = Vec::new();
        let mut open: BTreeMap<String, Open> = BTreeMap::new();
        for (nth, cell) in experiment.cells.iter().enumerate() {
            let mut make = |path: &Option<PathBuf>| {
                let Some(path) = path else { return Ok(None) };
                let path = path_of(path, cell, nth, experiment.cells.len());
                let file = File::create_new(&path).map_err(|e| unwritable(&path, &e))?;
                let failure = ftrace::Failure::default();
                failures.push((path, Arc::clone(&failure)));
                Ok::<_, Failure>(Some((file, failure)))
            };
            let files = Open {
                ftrace: make(&args.heard.ftrace)?,
                zoneinfo: make(&args.heard.zoneinfo)?,
                perfetto: make(&args.heard.perfetto)?,
            };
            open.insert(cell.key(), files);
        }
        let open = Mutex::new(open);
        // Gives a cell's files to its first iteration; other iterations have no listener.
        let listen = move |cell: &Cell, iteration: u32| -> Option<Box<dyn Listener>> {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            let files = open.get_mut(&cell.key()).filter(|_| iteration == 0)?;
            Some(Box::new(Writing::new(std::mem::take(files), &selection)))
        };
        Ok(Some(Self {
            listeners: Listeners(Arc::new(listen)),
            failures,
        }))
    }

    /// Checks after the runs that all files were written. The error is that of the first incomplete
    /// file.
    pub fn written(&self) -> Result<(), Failure> {
        for (path, failure) in &self.failures {
            let failure = failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(e) = failure {
                let text = format!("{} is not complete: {e}", path.display());
                return Err(Failure::Results(text));
            }
        }
        Ok(())
    }
}

/// Returns the error that a file can't be made.
fn unwritable(path: &Path, e: &io::Error) -> Failure {
    let what = format!("{} can't be made: {e}", path.display());
    let accepted = "accepted: a new file in an existing folder";
    Failure::Input(Diagnostic::placeless(what, accepted).into())
}

/// Returns the path of a cell's file: the given one, or with several cells one beside it with the
/// cell's number `nth` and key in its name, as in the results' `series/`. `cells` is the number of
/// cells.
fn path_of(path: &Path, cell: &Cell, nth: usize, cells: usize) -> PathBuf {
    if cells == 1 {
        return path.to_owned();
    }
    let width = (cells - 1).to_string().len();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut name = format!("{stem}-{nth:0width$}-{}", file_name(&cell.key()));
    if let Some(ending) = path.extension() {
        name = format!("{name}.{}", ending.to_string_lossy());
    }
    path.with_file_name(name)
}

/// Writes the files of a run.
#[derive(Debug)]
struct Writing {
    ftrace: Option<Ftrace<BufWriter<File>>>,
    zoneinfo: Option<(File, ftrace::Failure)>,
    perfetto: Option<Perfetto<BufWriter<File>>>,
}

impl Writing {
    /// Begins to write a cell's files; `selection` says which events go to the trace.
    fn new(files: Open, selection: &Selection) -> Self {
        let ftrace = files.ftrace.map(|(file, failure)| {
            let buffered = BufWriter::with_capacity(BUFFER, file);
            Ftrace::new(buffered, selection.clone(), failure)
        });
        let perfetto = files
            .perfetto
            .map(|(file, failure)| Perfetto::new(BufWriter::with_capacity(BUFFER, file), failure));
        Self {
            ftrace,
            zoneinfo: files.zoneinfo,
            perfetto,
        }
    }
}

impl Listener for Writing {
    /// Writes an event of the engine to the trace and to Perfetto's.
    fn heard(&mut self, at: Moment<'_>, event: &Event) {
        if let Some(ftrace) = &mut self.ftrace {
            ftrace.heard(at, event);
        }
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.heard(at, event);
        }
    }

    /// Writes a text that marks a moment to the trace and to Perfetto's.
    fn marked(&mut self, at: Moment<'_>, text: &str) {
        if let Some(ftrace) = &mut self.ftrace {
            ftrace.marked(at, text);
        }
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.marked(at, text);
        }
    }

    /// Ends the files of a run. `zoneinfo` makes the text of /proc/zoneinfo at its end. A failure
    /// to write is kept for [`Files::written`].
    fn ended(&mut self, zoneinfo: &dyn Fn() -> String) {
        if let Some(ftrace) = &mut self.ftrace {
            ftrace.ended(zoneinfo);
        }
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.ended(zoneinfo);
        }
        if let Some((file, failure)) = &mut self.zoneinfo
            && let Err(e) = file.write_all(zoneinfo().as_bytes())
        {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
        }
    }

    /// Writes a wait of the task `comm` to Perfetto's trace.
    fn waited(&mut self, wait: &Ended, comm: &str) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.waited(wait, comm);
        }
    }

    /// Writes to Perfetto's trace how many requests a disk's queue has at `ns`, the time of the
    /// run.
    fn queued(&mut self, ns: u64, disk: usize, requests: u32) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.queued(ns, disk, requests);
        }
    }

    /// Returns true if events are to be reported: a trace is written.
    fn hears(&self) -> bool {
        self.ftrace.is_some() || self.perfetto.is_some()
    }

    fn hears_waits(&self) -> bool {
        self.perfetto.is_some()
    }
}
