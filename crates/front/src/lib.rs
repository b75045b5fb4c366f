#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

/// Prints to standard error, escaped as in [`stderr::say`]. If standard error can't be written, the
/// message is lost and the program goes on; the standard macro of this name panics.
macro_rules! eprintln {
    ($($text:tt)*) => {
        $crate::stderr::say(&(format!($($text)*) + "\n"))
    };
}

pub mod bisect;
pub mod curves;
mod digests;
pub mod effects;
mod error;
mod export;
pub mod failure;
pub mod guarded;
pub mod learn;
pub mod machines;
pub mod place;
mod results;
pub mod runs;
pub mod scoring;
pub mod stderr;
pub mod worlds;

pub use curves::{
    Array, Keys, MrcOptions, Writes, curves_csv, curves_text, mrc, mrc_keys, numbered,
    numbered_keys,
};
pub use error::Error;
pub use export::Exports;
pub use lab::model::Experiment;
pub use lab::results::table::{Table, Values};
pub use lab::runner::Check;
pub use mm::NoMemory;
pub use replay::curve::Curves;
pub use results::{Comparison, Results};

use failure::Failure;
use lab::diagnostic::{Diagnostic, Source};
use lab::experiment::{Overrides, files_near};
use lab::published::{self, files};
use lab::results::hex;
use lab::results::log::Header;
use lab::runner::memory::Need;
use lab::runner::{RunOptions, Worlds};
use machine::capture::Captured;
use runs::{Around, Request};
use sha2::{Digest, Sha256};
use std::any::Any;
use std::collections::BTreeMap;
use std::io::Read;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use worlds::Here;

/// The version of this build: that of the crates, with the commit and the profile.
pub const VERSION: &str = env!("LOWMARK_VERSION");

impl From<Failure> for Error {
    /// Keeps the failure's exit code and the text that the command line would print.
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.code(),
            message: failure.text(),
        }
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure::Input(diagnostic.into()).into()
    }
}

/// Returns the command line's text for a panic of a run or of curves: memory has run out (they
/// unwind with a [`NoMemory`] then), or there is a bug.
pub fn panicked(payload: &(dyn Any + Send)) -> String {
    if let Some(e) = payload.downcast_ref::<NoMemory>() {
        return Failure::Memory(e.clone()).text();
    }
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("a bug in lowmark: {}", text.unwrap_or("it panicked"))
}

/// Overrides of an experiment's text: the options `--set`, `--iterations`, `--seed` and
/// `--track-pages`.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Keys of the experiment with their values as TOML: `machine.cpus=2`.
    pub set: Vec<String>,
    /// Iterations of each cell, instead of the text's.
    pub iterations: Option<u32>,
    /// The seed from which iterations derive theirs, instead of the text's.
    pub seed: Option<u64>,
    /// Whether to record which path made and used each page.
    pub track_pages: bool,
}

impl Changes {
    /// Returns the changes as overrides of an experiment's text; the seed is set afterwards.
    fn overrides(&self) -> Overrides {
        Overrides {
            set: self.set.clone(),
            iterations: self.iterations,
            track_pages: self.track_pages,
            ..Overrides::default()
        }
    }

    /// Sets the seed in a parsed experiment, if it is to be changed.
    fn on(&self, mut experiment: Experiment) -> Experiment {
        experiment.seed = self.seed.unwrap_or(experiment.seed);
        experiment
    }
}

/// Reads an experiment file.
///
/// # Errors
/// The file, its machines or the changes have an error; the first one is returned.
pub fn load(path: &Path, changes: &Changes) -> Result<Experiment, Error> {
    let experiment = lab::experiment::load(path, &changes.overrides())?;
    Ok(changes.on(experiment))
}

/// Parses an experiment. `name` is its file name in messages; machines and other files that it
/// names are searched beside that file, in the folders above, and among the included ones.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, name: &str, changes: &Changes) -> Result<Experiment, Error> {
    let near = files_near(Path::new(name));
    let found = |wanted: &str| {
        near(wanted).or_else(|e| {
            let shipped = files::find(wanted).map(|text| (wanted.to_owned(), text.to_owned()));
            shipped.ok_or(e)
        })
    };
    let source = Source::new(name, text);
    let experiment = lab::experiment::parse(&source, &found, &changes.overrides())?;
    Ok(changes.on(experiment))
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Finished iterations, including those of an earlier run.
    pub done: usize,
    /// Iterations of the whole matrix.
    pub total: usize,
    /// Seconds that the iterations finished by this run have simulated.
    pub simulated: f64,
}

/// Options of a run; [`Default`] has those of the command line.
pub struct Options<'a> {
    /// Threads; `None`: as many as cores and memory allow. The results are the same for any number.
    pub jobs: Option<NonZeroUsize>,
    /// Run every iteration twice with checks, and compare.
    pub check: Option<Check>,
    /// The results folder; `None`: the results are kept in memory only.
    pub out: Option<&'a Path>,
    /// The folder of an interrupted run to continue.
    pub resume: Option<&'a Path>,
    /// Whether earlier results in the folder may be replaced.
    pub replace: bool,
    /// Wall time without virtual progress after which a real kernel's guest is killed.
    pub patience: Duration,
    /// Set from any thread to stop: finished iterations are kept in the folder, if there is one.
    pub stop: Arc<AtomicBool>,
    /// The digest of the running program, so that results of another build are not continued;
    /// `None`: that of the running executable.
    pub build: Option<String>,
    /// Called after each iteration.
    pub progress: &'a mut dyn FnMut(Progress),
}

impl Default for Options<'_> {
    /// Returns the options of the command line's defaults, without a results folder and with a
    /// `progress` that does nothing.
    fn default() -> Self {
        Self {
            jobs: None,
            check: None,
            out: None,
            resume: None,
            replace: false,
            patience: kernel::PATIENCE,
            stop: Arc::default(),
            build: None,
            // A closure without captures has no size: nothing is leaked.
            progress: Box::leak(Box::new(|_| {})),
        }
    }
}

/// Runs an experiment and returns its results, or those of `options.resume` if they are complete.
///
/// # Errors
/// The same as of the command line. Failed iterations are no error: [`Results::failed`] describes
/// them.
pub fn run(experiment: &Experiment, options: Options<'_>) -> Result<Results, Error> {
    let folder = options.out.or(options.resume).is_some();
    let request = Request {
        jobs: options.jobs,
        out: options.out,
        replace: options.replace,
        resume: options.resume,
        check: options.check,
        quiet: true,
        progress: None,
        listeners: None,
        command: None,
    };
    let total = experiment.cells.len() * experiment.iterations as usize;
    let (mut simulated, progress) = (0, options.progress);
    let mut finished = |done, last: Option<&sim::RunResult>| {
        simulated += last.map_or(0, |r| r.sim_ns);
        progress(Progress {
            done,
            total,
            simulated: simulated as f64 / 1e9,
        });
    };
    let around = Around {
        stop: options.stop,
        build: options.build.unwrap_or_else(lab::results::log::build),
        folder,
        finished: &mut finished,
    };
    let here = Here {
        patience: options.patience,
    };
    let Some(ran) = runs::outcomes(&request, experiment, &here, around)? else {
        let dir = options.resume.unwrap_or(Path::new(""));
        return Results::open(lab::results::complete_folder(dir));
    };
    Results::of(ran)
}

/// Runs an experiment and returns which policy is better: the answer of the command line, and the
/// results that it is based on.
///
/// ```
/// use front::{Changes, Options};
///
/// let text = r#"
///     name = "which"
///     iterations = 4
///     policy = ["linux-3.0", "linux-3.1"]
///     filesystem = "ext4"
///     machine = "machines/512M.toml"
///     workload = { command = "dd if=/dev/zero of=a bs=64k count=64" }
/// "#;
/// let experiment = front::parse(text, "which.toml", &Changes::default())?;
/// let comparison = front::compare(&experiment, Options::default())?;
/// assert_eq!(comparison.answers.len(), 1, "one policy against the baseline");
/// # Ok::<(), front::Error>(())
/// ```
///
/// # Errors
/// As [`run`].
pub fn compare(experiment: &Experiment, options: Options<'_>) -> Result<Comparison, Error> {
    Ok(run(experiment, options)?.into_comparison())
}

/// Tables of a published series beside the engine's figures.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// The output of `lowmark reproduce --json`.
    pub json: String,
    /// The output of `lowmark reproduce`.
    pub text: String,
}

/// Scores the engine against a published series, or all included ones (`None`). `iterations`
/// replaces the series' own number; `stop` ends the runs.
///
/// # Errors
/// There is no such series, or it could not be run.
pub fn reproduce(
    series: Option<&str>,
    iterations: Option<NonZeroU32>,
    jobs: Option<NonZeroUsize>,
    stop: Arc<AtomicBool>,
) -> Result<Reproduction, Error> {
    let all = published::shipped();
    scoring::known(all, series)?;
    let options = RunOptions {
        jobs: 1,
        check: None,
        progress: None,
        listeners: None,
        stop,
    };
    let chosen = scoring::wanted(all, series);
    let scored = scoring::score(chosen, iterations, NonZeroU32::MIN, jobs, &options)?;
    let json = serde_json::to_string_pretty(&published::text::to_json(&scored));
    let texts = scored
        .iter()
        .map(|(name, rows)| published::text::to_text(name, rows));
    Ok(Reproduction {
        json: json.expect("plain data has a JSON form"),
        text: texts.collect::<Vec<_>>().join("\n"),
    })
}

/// A computer as a machine file.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The machine's name.
    pub name: String,
    /// The machine file.
    pub text: String,
    /// Facts that the engine can't represent, or that were guessed.
    pub notes: Vec<String>,
}

/// Describes this computer, or one whose files of /proc and /sys were saved in `root`. `disk` is
/// the name of the tested disk in /sys/block.
///
/// # Errors
/// The machine can't be read, or can't be represented by the engine.
pub fn capture(
    root: Option<PathBuf>,
    name: Option<String>,
    disk: Option<String>,
) -> Result<Machine, Error> {
    let root = machines::root(root.as_deref())?;
    let captured = Captured::read(&root).map_err(machines::unreadable)?;
    let disk = machines::tested_disk(disk.as_deref(), &captured)?;
    let described = machines::described(name.as_deref(), &captured, disk, None)?;
    Ok(Machine {
        name: described.machine.name,
        text: described.text,
        notes: described.notes,
    })
}

/// Returns the identity of an experiment's results: digests of all inputs that they depend on.
/// These are the experiment with its machines, policies and job files, its seed and iterations, the
/// contents of every trace, root folder and kernel image, and `build`, the digest of the program
/// that runs it. Equal identities have equal results, on any computer.
///
/// # Errors
/// A trace can't be read, or a kernel is not built.
pub fn identity(experiment: &Experiment, build: String) -> Result<String, Error> {
    let header = Header {
        kernels: kernels(experiment)?,
        ..Header::new(experiment, false, build)
    };
    let mut traces = BTreeMap::new();
    for cell in &experiment.cells {
        if let workload::Source::Trace(replay) = &cell.spec.workload.source
            && !traces.contains_key(&replay.path)
        {
            traces.insert(replay.path.clone(), digests::settled(&replay.path)?);
        }
    }
    let all = (&header, experiment.iterations, traces);
    let text = serde_json::to_string(&all).expect("plain data has a JSON form");
    Ok(hex(&Sha256::digest(text)))
}

/// Returns an experiment's kernels, each by name with the digests of its build, image and preloaded
/// library: two builds of the same sources may give different images.
fn kernels(experiment: &Experiment) -> Result<Vec<(String, String)>, Error> {
    let mut all = Vec::new();
    for kernel in experiment.kernels() {
        // A missing kernel gives the same error as a run.
        let hash = Here::default().identity(kernel)?;
        if kernel.guest == kernel::Guest::Qemu {
            // The digest of a kernel for QEMU is one of its files.
            all.push((kernel.build.clone(), hash));
            continue;
        }
        let built = kernel::build::find(&kernel.build);
        let built = built.map_err(|e| Diagnostic::placeless(e.to_string(), ""))?;
        let image = digests::settled(&built.linux)?;
        let preload = digests::settled(&built.preload)?;
        all.push((kernel.build.clone(), format!("{hash} {image} {preload}")));
    }
    Ok(all)
}

/// Returns the SHA-256 digest of a file's contents in hexadecimal digits.
///
/// # Errors
/// The file can't be read.
pub fn digest(path: &Path) -> Result<String, Error> {
    let mut sum = Sha256::new();
    let mut block = vec![0; 1 << 20];
    let read = input::file(path).and_then(|mut file| {
        loop {
            match file.read(&mut block)? {
                0 => return Ok(()),
                n => sum.update(&block[..n]),
            }
        }
    });
    read.map_err(|e| {
        let what = format!("`{}` can't be read: {e}", path.display());
        Error::from(Diagnostic::placeless(what, "accepted: a file"))
    })?;
    Ok(hex(&sum.finalize()))
}

/// Returns the memory in bytes of the largest run of an experiment: the estimate of `lowmark run
/// --list`.
pub fn memory(experiment: &Experiment) -> u64 {
    let needs = experiment.cells.iter().map(|cell| Need::of(cell).touched());
    needs.max().unwrap_or(0)
}
