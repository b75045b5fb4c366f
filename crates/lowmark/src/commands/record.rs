//! `lowmark record`.

use super::report;
use crate::cli::{Record, Undo};
use crate::{interrupt, text};
use front::failure::Failure;
use front::guarded::{instance, sweep};
use front::place::{claim, settled};
use kernel::running::file::{self, About, Recording};
use kernel::running::live::{self, Live};
use kernel::running::undo::{self, Guard};
use kernel::running::{Cost, Ended, Recorder, childrens_seconds, clock};
use lab::diagnostic::one_of;
use lab::results::{File, Kind, Terms};
use machine::capture::Captured;
use machine::{Root, describe};
use miette::miette;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Waits for the end of the process that wrote an undo log, and undoes its changes. The hidden
/// command `undo` is run as a guard for the case that the process is killed.
pub fn undo(args: &Undo) -> Result<(), Failure> {
    let done = undo::wait_and_undo(&args.file);
    done.map_err(|e| Failure::System(miette!("{}: {e}", args.file.display())))
}

/// Starts this program as the guard of an undo log.
///
/// # Errors
/// The program can't be started.
pub fn guard(log: &undo::Undo) -> std::io::Result<Guard> {
    log.guard(&std::env::current_exe()?, &["undo"])
}

/// The facts about this machine.
struct Here {
    /// The machine file; `None` if the machine can't be described.
    machine: Option<String>,
    /// The machine's name.
    name: String,
    /// The disks shown in series.
    disks: Vec<String>,
    notes: Vec<String>,
}

impl Here {
    /// Returns the facts about a live cache that is recorded instead of this machine.
    fn cache(cache: Live) -> Self {
        Self {
            machine: None,
            name: format!("a live cache at {}", cache.address()),
            disks: vec![live::DISKS.to_owned()],
            notes: Vec::new(),
        }
    }

    /// Reads the facts about this machine: its description, and its disks with that of the root
    /// filesystem first. `wanted` are the disks of `--disk`; an unknown one is an error. A machine
    /// that can't be described is only noted.
    fn look(wanted: &[String]) -> Result<Self, Failure> {
        let root = Root::live();
        let captured = Captured::read(&root).map_err(|e| e.to_string());
        let mut here = Self {
            machine: None,
            name: "this machine".to_owned(),
            disks: Vec::new(),
            notes: Vec::new(),
        };
        let described = captured.as_ref().map_err(Clone::clone).and_then(|c| {
            let options = describe::Options {
                disk: describe::likely_disk(c),
                ..describe::Options::default()
            };
            describe::describe(c, &options).map_err(|e| e.to_string())
        });
        match described {
            Ok(described) => {
                here.name = described.machine.name;
                here.machine = Some(described.text);
            }
            Err(why) => here
                .notes
                .push(format!("no machine.toml was written: {why}")),
        }
        if let Ok(captured) = &captured {
            let likely = describe::likely_disk(captured).map(|d| d.name.as_str());
            let names = captured.disks.iter().map(|d| d.name.as_str());
            let others = names.filter(|n| Some(*n) != likely);
            here.disks = likely
                .into_iter()
                .chain(others)
                .map(str::to_owned)
                .collect();
        }
        if !wanted.is_empty() {
            let all = root.names("sys/block");
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            if let Some(wrong) = wanted.iter().find(|w| !all.contains(&w.as_str())) {
                let help = one_of(wrong, &all);
                return Err(Failure::Input(miette!(help = help, "no disk `{wrong}`")));
            }
            here.disks = wanted.to_vec();
        }
        Ok(here)
    }
}

/// A running command, and a pipe that becomes readable when it ends.
struct Running {
    ended: std::io::PipeReader,
    /// The time of its end; 0: it is running.
    at: Arc<AtomicU64>,
    waiter: std::thread::JoinHandle<std::io::Result<ExitStatus>>,
}

/// Starts the command to record. A thread waits for its end, notes the time and writes to a pipe,
/// on which the recorder waits meanwhile.
fn start(command: &[String]) -> Result<Running, Failure> {
    let [program, arguments @ ..] = command else {
        unreachable!("there is a command")
    };
    let pipe = std::io::pipe().map_err(|e| Failure::System(miette!("a pipe: {e}")))?;
    let (ended, mut tell) = pipe;
    let child = Command::new(program).args(arguments).spawn();
    let mut child: Child = child.map_err(|e| {
        Failure::Input(miette!(
            help = "accepted: a program and its arguments after `--`; `-- sh -c '…'` for a shell command line",
            "`{program}` can't be run: {e}"
        ))
    })?;
    let at = Arc::new(AtomicU64::new(0));
    let end_time = Arc::clone(&at);
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        end_time.store(clock(), SeqCst);
        // The receiver may have ended.
        let _ = tell.write_all(b".");
        status
    });
    Ok(Running { ended, at, waiter })
}

/// Records the running Linux, or a live cache, into a results folder, and prints the rows.
///
/// # Errors
/// The recording fails, the command can't be run or ends with a failure, or the user interrupts.
pub fn run(args: &Record) -> Result<(), Failure> {
    let cache = args.live.as_deref().map(super::top::cache).transpose()?;
    let here = match cache {
        Some(cache) => Here::cache(cache),
        None => {
            sweep();
            Here::look(&args.disk)?
        }
    };
    let terms = Terms {
        kind: Kind::Record,
        title: "record",
        replace: args.replace,
    };
    let place = claim(args.out.as_deref(), "record", terms)?;
    let about = About {
        name: args.name.clone().unwrap_or_else(|| release(args)),
        what: what(args),
        disks: here.disks.clone(),
    };
    // The recording is written to a temporary file, and read back for the results.
    let spool = tempfile::tempfile_in(place.partial().parent().unwrap_or(Path::new(".")));
    let spool = spool.map_err(|e| Failure::System(miette!("a temporary file: {e}")))?;
    let stop = interrupt::flag_saying("stopping; the recording until now is kept");
    let (ended, cost, status) = record((args, cache), &about, &here.notes, &spool, &stop)?;
    let path = PathBuf::from(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&spool)
    ));
    let unreadable = |e: std::io::Error| Failure::System(miette!("the recording: {e}"));
    let recording = Recording::read(&path).map_err(unreadable)?;
    let outcomes = report::outcomes_of(vec![(recording, here.name.clone())]);
    let answer = report::Answer::new(&outcomes);
    let mut files = answer.files.clone();
    files.push(File::new(
        file::NAME,
        std::fs::read(&path).map_err(unreadable)?,
    ));
    files.extend(here.machine.map(|text| File::new("machine.toml", text)));
    let published = place.publish(&|emit| lab::results::files(&outcomes, &files, emit))?;
    let written = settled(&published);
    if args.json {
        text::print(&lab::results::rows_json(&outcomes))?;
    } else if !args.quiet {
        text::print(&answer.text)?;
    }
    if !args.quiet {
        eprintln!("{}", cost_text(&cost, args));
        eprintln!("results in {}", published.dir.display());
    }
    written?;
    if let Some(status) = wait(status, ended)?.filter(|s| !s.success()) {
        return Err(Failure::Results(format!("the command ended with {status}")));
    }
    match ended {
        Ended::Asked => Err(Failure::Stopped(format!(
            "interrupted after {:.1} s; the recording until then is in {}",
            cost.recorded_s,
            published.dir.display()
        ))),
        Ended::Done(_) | Ended::Limit | Ended::Gone(_) => Ok(()),
    }
}

/// Returns the kernel's release, or the word for a live cache.
fn release(args: &Record) -> String {
    if args.live.is_some() {
        return live::RELEASE.to_owned();
    }
    let release = Root::live().text("proc/sys/kernel/osrelease");
    release.map_or_else(|_| "Linux".to_owned(), |text| text.trim().to_owned())
}

/// Describes the recorded workload: the command, or the duration.
fn what(args: &Record) -> String {
    match (&args.command[..], args.duration) {
        ([], Some(time)) => humantime::format_duration(time).to_string(),
        (command, _) => command.join(" "),
    }
}

type Waiter = std::thread::JoinHandle<std::io::Result<ExitStatus>>;

/// Records until the command ends, the duration is over, the user interrupts or the live cache is
/// gone. Returns why the recording ended, its cost, and the thread that waits for the command,
/// which may still be running.
fn record(
    (args, cache): (&Record, Option<Live>),
    about: &About,
    notes: &[String],
    spool: &std::fs::File,
    stop: &AtomicBool,
) -> Result<(Ended, Cost, Option<Waiter>), Failure> {
    let failed = |why: String| Failure::System(miette!("{why}"));
    let writer = file::writer(BufWriter::new(spool), about);
    let writer = writer.map_err(|e| failed(format!("the recording: {e}")))?;
    let interval = args.interval.as_nanos() as u64;
    let (recorder, guard) = match cache {
        Some(cache) => (Recorder::live(writer, cache, interval), None),
        None => {
            let (instance, guard) = instance(args.no_events, guard);
            if let Err(why) = &instance
                && !args.quiet
            {
                eprintln!("note: tracepoints are not recorded: {why}");
            }
            let root = Path::new("/");
            (
                Recorder::new(writer, root, instance, args.ring, interval),
                guard,
            )
        }
    };
    let mut recorder = recorder.map_err(failed)?;
    recorder.begin().map_err(failed)?;
    let children = childrens_seconds();
    let running = match args.command.is_empty() {
        true => None,
        false => Some(start(&args.command)?),
    };
    let pipe = running.as_ref().map(|r| r.ended.try_clone()).transpose();
    let pipe = pipe.map_err(|e| failed(format!("a pipe: {e}")))?;
    let pipe = pipe.map(|p| std::fs::File::from(std::os::fd::OwnedFd::from(p)));
    let limit = args.duration.map(|d| d.as_nanos() as u64);
    let ended = recorder.follow(limit, pipe.as_ref(), &mut || {
        let at = running.as_ref().map_or(0, |r| r.at.load(SeqCst));
        match (at, stop.load(SeqCst)) {
            (0, true) => Some(Ended::Asked),
            (0, false) => None,
            (at, _) => Some(Ended::Done(at)),
        }
    });
    let ended = ended.map_err(failed)?;
    let mut notes = notes.to_vec();
    let at = match ended {
        Ended::Done(at) => {
            if let (Some(before), Some(after)) = (children, childrens_seconds()) {
                let written = recorder
                    .figure("user_time", "s", after.0 - before.0)
                    .and_then(|()| recorder.figure("system_time", "s", after.1 - before.1));
                written.map_err(failed)?;
            }
            Some(at)
        }
        Ended::Limit if running.is_some() => {
            notes.push("the command continued after the recording ended".to_owned());
            None
        }
        Ended::Asked => {
            notes.push("interrupted: later events are not recorded".to_owned());
            None
        }
        Ended::Gone(at) => {
            notes.push("the live cache ended before the recording did".to_owned());
            Some(at)
        }
        Ended::Limit => None,
    };
    let (writer, cost) = recorder.end(at, notes).map_err(failed)?;
    drop(guard);
    let flushed = writer.finish().and_then(|mut to| to.flush());
    flushed.map_err(|e| failed(format!("the recording: {e}")))?;
    Ok((ended, cost, running.map(|r| r.waiter)))
}

/// Waits for the end of the command that `waiter` waits for. Returns its status; `None`: there was
/// no command, or Ctrl-C ended it. `ended` says why the recording was over.
fn wait(waiter: Option<Waiter>, ended: Ended) -> Result<Option<ExitStatus>, Failure> {
    let Some(waiter) = waiter else {
        return Ok(None);
    };
    if matches!(ended, Ended::Limit | Ended::Gone(_)) && !waiter.is_finished() {
        eprintln!("the command is still running; waiting for its end");
    }
    let status = waiter.join().expect("it only waits");
    let status = status.map_err(|e| Failure::System(miette!("the command: {e}")))?;
    // Ctrl-C interrupts the command as well, so its status says nothing.
    Ok(Some(status).filter(|_| ended != Ended::Asked))
}

/// Describes the cost of recording: samples, size of events, CPU time, and lost events.
fn cost_text(cost: &Cost, args: &Record) -> String {
    let mut text = format!(
        "recorded {:.1} s: {} samples, one every {}, {} KiB of events; recording took {:.2} s of CPU, {:.2} % of one",
        cost.recorded_s,
        cost.looks,
        humantime::format_duration(Duration::from_millis(args.interval.as_millis() as u64)),
        cost.event_bytes >> 10,
        cost.cpu_s,
        100.0 * cost.cpu_s / cost.recorded_s.max(1e-9),
    );
    if cost.lost > 0 {
        text += &format!(
            "; {} events were lost: try a larger `--ring` (now {} KiB)",
            cost.lost, args.ring
        );
    }
    text
}
