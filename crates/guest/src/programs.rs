//! The process of the programs: runs a script as its shell would, each process on a thread.
//!
//! It is the second process of a guest and reports to the first over a pipe: a hello once it is
//! ready, then, after the start signal, gauges, notes, the end and the figures.

use crate::host::{Costs, Shared, Spend, TaskHost, lock, sleep_until};
use crate::sys;
use crate::wire::Frame;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use workload::{HostError, HostResult, Instance, Process, Report, Script, Step, Task};

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Nanoseconds from the start to the end of the last step.
    pub at: u64,
    /// The figures of all programs by name, with units ([`workload::report::of_run`]).
    pub figures: BTreeMap<String, (&'static str, f64)>,
    /// The error of the first program that failed, if any.
    pub error: Option<HostError>,
    /// Notes for readers of the results.
    pub notes: Vec<String>,
}

/// The outcomes of a script's processes.
#[derive(Default)]
struct Outcomes {
    reports: Mutex<Vec<(Option<Instance>, Report)>>,
    error: Mutex<Option<HostError>>,
}

impl Outcomes {
    /// Records the outcome of a program: its report, or its error if it is the first. Returns true
    /// if it succeeded.
    fn enter(&self, instance: Option<Instance>, result: HostResult<Report>) -> bool {
        match result {
            Ok(report) => lock(&self.reports).push((instance, report)),
            Err(e) => {
                lock(&self.error).get_or_insert(e);
                return false;
            }
        }
        true
    }
}

/// A script that is ready to run.
pub struct Player {
    script: Script,
    shared: Arc<Shared>,
    outcomes: Arc<Outcomes>,
}

impl Player {
    /// Makes a script ready to run: the state that its programs share. Paths of the script are
    /// below `root`.
    pub fn new(script: Script, root: OwnedFd, costs: Costs, spend: Spend) -> Self {
        let shared = Shared::new(root, script.session(), costs, spend);
        Self {
            script,
            shared: Arc::new(shared),
            outcomes: Arc::default(),
        }
    }

    /// Returns the state that the tasks share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs the steps of the script until one fails; time counts from `start`, a time of
    /// [`clock`](crate::host::clock). Background processes may still run when it returns: they end
    /// with the process. Returns the outcome.
    pub fn run(&self, start: u64) -> Ended {
        self.shared.start(start);
        let mut behind: Vec<JoinHandle<()>> = Vec::new();
        for step in &self.script.steps {
            match step {
                Step::Foreground(process) => {
                    let instances = self.instances(process);
                    if !run_process(process, &instances, &self.shared, &self.outcomes) {
                        break;
                    }
                }
                Step::Background(process) => match self.begin(process) {
                    Ok(thread) => behind.push(thread),
                    Err(e) => {
                        let what = format!("process {} in the background: {e}", behind.len() + 1);
                        self.outcomes.enter(None, Err(HostError::Unsupported(what)));
                        break;
                    }
                },
                Step::Wait => {
                    for thread in behind.drain(..) {
                        if let Err(panic) = thread.join() {
                            std::panic::resume_unwind(panic);
                        }
                    }
                }
            }
        }
        self.ended(self.shared.now())
    }

    /// Returns for each command of a process which instance of its program it is in the script, by
    /// which its figures are named; `None`: the only one.
    fn instances(&self, process: &Process) -> Vec<Option<Instance>> {
        let commands = process.commands.iter();
        commands.map(|c| self.script.instance(c)).collect()
    }

    /// Starts a process of the script in the background, on a thread of its own.
    fn begin(&self, process: &Process) -> io::Result<JoinHandle<()>> {
        let name = process.commands.first().map_or("", Task::name);
        let instances = self.instances(process);
        let (process, shared) = (process.clone(), Arc::clone(&self.shared));
        let outcomes = Arc::clone(&self.outcomes);
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder.stack_size(crate::host::STACK).spawn(move || {
            run_process(&process, &instances, &shared, &outcomes);
        })
    }

    /// Returns the outcome of the run at `at` nanoseconds: figures of all programs, the first error
    /// and notes. Programs in the background keep running.
    fn ended(&self, at: u64) -> Ended {
        let mut reports = lock(&self.outcomes.reports).clone();
        reports.extend(
            self.shared
                .session()
                .report(at)
                .map(|report| (None, report)),
        );
        let figures = workload::report::of_run(reports);
        Ended {
            at,
            figures,
            error: lock(&self.outcomes.error).clone(),
            notes: self.shared.notes(),
        }
    }
}

/// Runs the commands of a process one after the other until one fails, and records their outcomes;
/// returns true if all succeeded.
fn run_process(
    process: &Process,
    instances: &[Option<Instance>],
    shared: &Arc<Shared>,
    outcomes: &Outcomes,
) -> bool {
    let host = TaskHost::new(shared);
    let mut commands = process.commands.iter().zip(instances);
    commands.all(|(command, instance)| outcomes.enter(*instance, host.run(command)))
}

impl Ended {
    /// Converts the outcome into frames for the first process: the end, notes, figures, and the
    /// error if there is one.
    pub fn frames(self) -> Vec<Frame> {
        let mut frames = vec![Frame::End(self.at)];
        frames.extend(self.notes.into_iter().map(Frame::Note));
        let figure = |(name, (unit, value)): (String, (&str, f64))| {
            Frame::Figure(name, unit.to_owned(), value)
        };
        frames.extend(self.figures.into_iter().map(figure));
        frames.extend(self.error.map(|e| Frame::Failed(e.to_string())));
        frames
    }
}

/// A writer of frames that several threads share; each frame is written whole.
pub struct Voice<W>(Mutex<W>);

impl<W: Write> Voice<W> {
    /// Wraps a writer without a buffer.
    pub fn new(to: W) -> Self {
        Self(Mutex::new(to))
    }

    /// Writes frames to the reader at the other end of the pipe, with one call.
    ///
    /// # Errors
    /// The writer fails.
    pub fn say(&self, frames: &[Frame]) -> io::Result<()> {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::to_bytes).collect();
        lock(&self.0).write_all(&bytes)
    }
}

/// Runs as the programs' process: sends a hello when the script is ready, waits for the start time
/// on `from` (8 bytes, little endian, of [`clock`](crate::host::clock)), runs the script, and sends
/// the outcome and a [`Frame::Bye`] to `to`. Gauges are sent every `sample_ns` nanoseconds
/// meanwhile, once if that is 0.
///
/// # Errors
/// A pipe fails.
pub fn live(
    player: &Player,
    sample_ns: u64,
    mut from: impl io::Read,
    to: impl Write + Send + 'static,
) -> io::Result<()> {
    let voice = Arc::new(Voice::new(to));
    voice.say(&[Frame::Hello(String::new())])?;
    let mut start = [0; 8];
    from.read_exact(&mut start)?;
    let start = u64::from_le_bytes(start);
    if !player.shared().session().gauges().is_empty() {
        let (shared, voice) = (Arc::clone(player.shared()), Arc::clone(&voice));
        std::thread::Builder::new()
            .name("gauges".to_owned())
            .stack_size(crate::host::STACK)
            .spawn(move || {
                // Without the right to real-time priority, gauges are sampled a little later.
                let _ = sys::run_first();
                let mut at = 0;
                while voice.say(&gauges(&shared, at)).is_ok() && sample_ns > 0 {
                    at += sample_ns;
                    sleep_until(start + at);
                }
            })?;
    }
    let ended = player.run(start);
    let last = gauges(player.shared(), ended.at);
    let mut frames: Vec<Frame> = last.into_iter().chain(ended.frames()).collect();
    frames.push(Frame::Bye);
    voice.say(&frames)
}

/// Returns the present values of the programs' gauges as frames of the time `at`, in nanoseconds
/// since the start.
fn gauges(shared: &Shared, at: u64) -> Vec<Frame> {
    let gauges = shared.session().gauges().into_iter();
    let frame = |(name, unit, value): (&str, &str, f64)| {
        Frame::Gauge(at, name.to_owned(), unit.to_owned(), value)
    };
    gauges.map(frame).collect()
}
