//! A supervised worker process: sends it tasks, and ends it when it exceeds its limits.

use crate::case::Case;
use crate::law::{Breach, Law};
use crate::worker::{Answer, NOW, STAGE, Stage, Task};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The limits of a worker for each task.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// CPU time for each law, beyond the CPU time that the machine's own CPUs have within the
    /// case's time limit (at most [`BUSY`] times this): a longer task counts as spinning.
    pub cpu: Duration,
    /// Time without any use of CPU time after which it counts as waiting for ever.
    pub idle: Duration,
    /// Bytes of address space.
    pub memory: u64,
}

impl Default for Limits {
    /// Returns the limits of a worker for each task: 20 s of CPU time, 60 s without any use of CPU
    /// time, 4 GiB of address space.
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(20),
            idle: Duration::from_secs(60),
            memory: 4 << 30,
        }
    }
}

/// The result of a task.
#[derive(Debug, Clone)]
pub enum End {
    /// The worker answered.
    Answered(Box<Answer>),
    /// The worker had to be killed, or ended by itself.
    Lost(Breach),
}

/// A running worker process, with its standard input and a channel of its answers.
struct Process {
    child: Child,
    tasks: ChildStdin,
    answers: Receiver<io::Result<String>>,
}

/// A worker process that is started anew after it was lost.
pub struct Worker {
    program: PathBuf,
    limits: Limits,
    folder: TempDir,
    process: Option<Process>,
}

/// Factor by which a worker may exceed its CPU limit if every CPU of the simulated machine can be
/// busy.
pub const BUSY: u32 = 4;
/// Interval at which a worker's CPU time is read.
const LOOK: Duration = Duration::from_millis(100);

impl Worker {
    /// Makes a worker that runs this program (`lowmark-swarm`); the process starts with the first
    /// task.
    ///
    /// # Errors
    /// The worker's folder cannot be made.
    pub fn new(program: &Path, limits: Limits) -> io::Result<Self> {
        Ok(Self {
            program: program.to_owned(),
            limits,
            folder: tempfile::Builder::new().prefix("lowmark-swarm").tempdir()?,
            process: None,
        })
    }

    /// Makes a worker of the same program with other limits.
    ///
    /// # Errors
    /// As [`Worker::new`].
    pub fn within(&self, limits: Limits) -> io::Result<Self> {
        Self::new(&self.program, limits)
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the limits for all later tasks; the limit of memory takes effect when the process is
    /// next started.
    pub fn hold_to(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the case that the worker examined last, from the file in its folder; `None` if it
    /// had drawn none.
    pub fn last_case(&self) -> Option<Case> {
        let bytes = std::fs::read(self.folder.path().join(NOW)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Sends the worker process a task, starts the process if there is none, and waits for the
    /// answer. A process that exceeds its CPU time, or uses none for too long, is killed; then, or
    /// if it ends by itself, the result is a breach of the law of checks.
    ///
    /// # Errors
    /// The worker cannot be started, or communication with it fails.
    pub fn ask(&mut self, task: &Task) -> io::Result<End> {
        // Files of the previous task must not be taken for this one's.
        for left in [NOW, STAGE] {
            let _ = std::fs::remove_file(self.folder.path().join(left));
        }
        let line = serde_json::to_string(task)? + "\n";
        let give = |mut process: Process| -> io::Result<Process> {
            process.tasks.write_all(line.as_bytes())?;
            process.tasks.flush()?;
            Ok(process)
        };
        // There is no process yet, or it was killed from outside.
        let mut process = match self.process.take().map(give) {
            Some(Ok(process)) => process,
            _ => give(self.start()?)?,
        };
        // CPU time when the law under test began, when it last grew, and the time of that.
        let mut begun = cpu_time(&process.child);
        let (mut used, mut moved) = (begun, Instant::now());
        let mut stage = None;
        loop {
            match process.answers.recv_timeout(LOOK) {
                Ok(line) => {
                    let answer = serde_json::from_str(&line?)?;
                    self.process = Some(process);
                    return Ok(End::Answered(Box::new(answer)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait()?;
                    let what = format!("the process ended by itself: {status}");
                    return Ok(End::Lost(Breach::new(Law::Check, what)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = cpu_time(&process.child);
            if now > used {
                (used, moved) = (now, Instant::now());
            }
            let at = self.stage();
            if at != stage {
                (stage, begun) = (at, now);
            }
            let most = self.limits.cpu + self.busy(stage.as_ref());
            let lost = if now.saturating_sub(begun) > most {
                format!("spins: more than {} s of CPU time", most.as_secs())
            } else if moved.elapsed() > self.limits.idle {
                "waits for ever: uses no CPU time".to_owned()
            } else {
                continue;
            };
            process.child.kill()?;
            process.child.wait()?;
            return Ok(End::Lost(Breach::new(Law::Check, lost)));
        }
    }

    /// Returns the law that the worker is testing; `None`: unknown, or the file is half written.
    fn stage(&self) -> Option<Stage> {
        let bytes = std::fs::read(self.folder.path().join(STAGE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Returns the CPU time beyond its limit that the case at this stage may take, because the CPUs
    /// of its machine can all be busy; limited to a multiple of the limit.
    fn busy(&self, stage: Option<&Stage>) -> Duration {
        let busy_s = stage.map_or(0.0, |s| s.busy_s);
        let most = self.limits.cpu * BUSY;
        Duration::try_from_secs_f64(busy_s).map_or(most, |busy| busy.min(most))
    }

    /// Starts the worker process, and a thread that passes on the lines of its answers.
    fn start(&self) -> io::Result<Process> {
        let mut child = Command::new(&self.program)
            .arg("worker")
            .arg(self.folder.path())
            .arg(self.limits.memory.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C must reach only the hunt, which then ends its workers.
            .process_group(0)
            .spawn()?;
        let tasks = child.stdin.take().expect("piped");
        let out = child.stdout.take().expect("piped");
        let (tx, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                if tx.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Process {
            child,
            tasks,
            answers,
        })
    }
}

impl Drop for Worker {
    /// Kills the worker process, if it runs.
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The process may have ended by itself.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// Returns the CPU time of a process and its threads, user and system; zero if /proc does not have
/// it.
fn cpu_time(child: &Child) -> Duration {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", child.id())) else {
        return Duration::ZERO;
    };
    // The name in parentheses may contain anything; the times are the 12th and 13th word behind it.
    let behind = stat.rsplit_once(')').map_or("", |s| s.1);
    let ticks: u64 = behind
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|w| w.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}
