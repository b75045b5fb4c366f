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
use workload::{HostError, HostResult, Instance, Process, Program, Report, Script, Step, Task};

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
    notes: Mutex<Vec<String>>,
    /// Nanoseconds since the start of the first kill by the OOM killer in each group.
    killed: Mutex<BTreeMap<String, u64>>,
}

/// The end of a process of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All its commands succeeded.
    Done,
    /// The OOM killer ended one of its commands, which is a result and no failure of the run.
    Killed,
    /// A command failed.
    Failed,
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
        for (nth, step) in self.script.steps.iter().enumerate() {
            match step {
                Step::Foreground(process) => {
                    let instances = self.instances(process);
                    let end = run_process(nth, process, &instances, &self.shared, &self.outcomes);
                    if end == End::Failed {
                        break;
                    }
                }
                Step::Background(process) => match self.begin(nth, process) {
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

    /// Starts a process of the script in the background, on a thread of its own. `step` is the
    /// number of its step.
    fn begin(&self, step: usize, process: &Process) -> io::Result<JoinHandle<()>> {
        let name = process.commands.first().map_or("", Task::name);
        let instances = self.instances(process);
        let (process, shared) = (process.clone(), Arc::clone(&self.shared));
        let outcomes = Arc::clone(&self.outcomes);
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder.stack_size(crate::host::STACK).spawn(move || {
            run_process(step, &process, &instances, &shared, &outcomes);
        })
    }

    /// Runs one command of the script in this process, which is the command's own: command `nth` of
    /// step `step`. `start` is the start of the workload by [`clock`](crate::host::clock). Returns
    /// the command's measurements or its failure as frames.
    pub fn member(&self, step: usize, nth: usize, start: u64) -> Vec<Frame> {
        self.shared.start(start);
        let process = match self.script.steps.get(step) {
            Some(Step::Foreground(process) | Step::Background(process)) => process,
            _ => return vec![Frame::Failed(format!("the script has no process {step}"))],
        };
        let Some(command) = process.commands.get(nth) else {
            return vec![Frame::Failed(format!(
                "process {step} has no command {nth}"
            ))];
        };
        let mut frames: Vec<Frame> = match TaskHost::new(&self.shared).run(command) {
            Ok(report) => {
                let metrics = report.metrics.into_iter();
                metrics
                    .map(|(name, unit, value)| Frame::Figure(name, unit.to_owned(), value))
                    .collect()
            }
            Err(why) => vec![Frame::Failed(why.to_string())],
        };
        frames.push(Frame::Bye);
        frames
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
        let mut figures = workload::report::of_run(reports);
        for (group, ns) in lock(&self.outcomes.killed).iter() {
            let name = format!("group.{group}.first_kill");
            figures.insert(name, ("s", *ns as f64 / 1e9));
        }
        Ended {
            at,
            figures,
            error: lock(&self.outcomes.error).clone(),
            notes: self
                .shared
                .notes()
                .into_iter()
                .chain(lock(&self.outcomes.notes).clone())
                .collect(),
        }
    }
}

/// Runs the commands of a process, that of step `step`, one after the other until one does not
/// succeed, and records their outcomes.
fn run_process(
    step: usize,
    process: &Process,
    instances: &[Option<Instance>],
    shared: &Arc<Shared>,
    outcomes: &Outcomes,
) -> End {
    let host = TaskHost::new(shared);
    for (nth, (command, instance)) in process.commands.iter().zip(instances).enumerate() {
        let result = match command.group() {
            None => host.run(command),
            Some(group) => match in_group(step, nth, command, group, shared.started()) {
                Ok(Some(report)) => Ok(report),
                Ok(None) => {
                    let now = shared.now();
                    lock(&outcomes.killed)
                        .entry(group.to_owned())
                        .or_insert(now);
                    let note = format!(
                        "at {:.3} s the OOM killer ended {} of the group {group}",
                        now as f64 / 1e9,
                        command.program()
                    );
                    lock(&outcomes.notes).push(note);
                    return End::Killed;
                }
                Err(why) => Err(why),
            },
        };
        if !outcomes.enter(*instance, result) {
            return End::Failed;
        }
    }
    End::Done
}

/// Runs a command of the script in a process of its own, which enters the group, and waits for its
/// end. Returns the measurements; `None`: the OOM killer ended it.
fn in_group(
    step: usize,
    nth: usize,
    command: &workload::Command,
    group: &str,
    start: u64,
) -> HostResult<Option<Report>> {
    let name = command.program();
    let failed =
        |why: String| HostError::Unsupported(format!("{name} in the group `{group}`: {why}"));
    let child = std::process::Command::new("/proc/self/exe")
        .arg(crate::init::MEMBER)
        .args([step.to_string(), nth.to_string(), start.to_string()])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = child.map_err(|why| failed(why.to_string()))?;
    let mut from = child.stdout.take().expect("it was piped");
    let mut report = Report::default();
    let mut why = None;
    let mut whole = false;
    while let Some(frame) = Frame::read(&mut from).map_err(|why| failed(why.to_string()))? {
        match frame {
            // A unit is a word of the program's; the guest ends with the run.
            Frame::Figure(name, unit, value) => {
                report.metrics.push((name, String::leak(unit), value));
            }
            Frame::Failed(text) => why = Some(text),
            Frame::Bye => whole = true,
            _ => {}
        }
    }
    let status = child.wait().map_err(|why| failed(why.to_string()))?;
    match why {
        Some(why) => Err(failed(why)),
        None if whole => Ok(Some(report)),
        None if crate::groups::oom_kills(group) > 0 => Ok(None),
        None => Err(failed(format!("it ended ({status})"))),
    }
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
