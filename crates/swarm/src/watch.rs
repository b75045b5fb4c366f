//! A worker under watch: what it is asked and what became of it.

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

/// What a worker may take for a task.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// CPU time for a law, beside what the machine's own CPUs have in the case's time limit (up to
    /// [`BUSY`] times this): longer, and it spins.
    pub cpu: Duration,
    /// Time in which it uses no CPU time at all: longer, and it waits for ever.
    pub idle: Duration,
    /// Bytes of address space.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(20),
            idle: Duration::from_secs(60),
            memory: 4 << 30,
        }
    }
}

/// What became of a task.
#[derive(Debug, Clone)]
pub enum End {
    /// It was answered.
    Answered(Box<Answer>),
    /// The worker had to be ended, or ended itself.
    Lost(Breach),
}

struct Process {
    child: Child,
    tasks: ChildStdin,
    answers: Receiver<io::Result<String>>,
}

/// A worker that is started anew where it got lost.
pub struct Worker {
    program: PathBuf,
    limits: Limits,
    folder: TempDir,
    process: Option<Process>,
}

/// How many times its limit a worker may take where every CPU of the machine can be busy.
pub const BUSY: u32 = 4;
/// How often a worker's CPU time is looked at.
const LOOK: Duration = Duration::from_millis(100);

impl Worker {
    /// A worker of this program (`lowmark-swarm`), which is started with its first task.
    ///
    /// # Errors
    /// There is no room for its folder.
    pub fn new(program: &Path, limits: Limits) -> io::Result<Self> {
        Ok(Self {
            program: program.to_owned(),
            limits,
            folder: tempfile::Builder::new().prefix("lowmark-swarm").tempdir()?,
            process: None,
        })
    }

    /// The same program within other limits.
    ///
    /// # Errors
    /// As [`Worker::new`].
    pub fn within(&self, limits: Limits) -> io::Result<Self> {
        Self::new(&self.program, limits)
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Holds every task from now on to these; the memory, from the next start of its process.
    pub fn hold_to(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The case that was examined last.
    pub fn last_case(&self) -> Option<Case> {
        let bytes = std::fs::read(self.folder.path().join(NOW)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Gives the worker a task and waits for what comes of it.
    ///
    /// # Errors
    /// A worker that can't be started or talked to.
    pub fn ask(&mut self, task: &Task) -> io::Result<End> {
        // What the last task left is not what this one was at.
        for left in [NOW, STAGE] {
            let _ = std::fs::remove_file(self.folder.path().join(left));
        }
        let line = serde_json::to_string(task)? + "\n";
        let give = |mut process: Process| -> io::Result<Process> {
            process.tasks.write_all(line.as_bytes())?;
            process.tasks.flush()?;
            Ok(process)
        };
        // None yet, or one that somebody ended meanwhile.
        let mut process = match self.process.take().map(give) {
            Some(Ok(process)) => process,
            _ => give(self.start()?)?,
        };
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

    /// What the worker is at; `None`: not known, or half written.
    fn stage(&self) -> Option<Stage> {
        let bytes = std::fs::read(self.folder.path().join(STAGE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// CPU time that a busy machine of the case gives reason for.
    fn busy(&self, stage: Option<&Stage>) -> Duration {
        let busy_s = stage.map_or(0.0, |s| s.busy_s);
        let most = self.limits.cpu * BUSY;
        Duration::try_from_secs_f64(busy_s).map_or(most, |busy| busy.min(most))
    }

    fn start(&self) -> io::Result<Process> {
        let mut child = Command::new(&self.program)
            .arg("worker")
            .arg(self.folder.path())
            .arg(self.limits.memory.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the hunt, which ends its workers.
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
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// CPU time of a process and its threads, user and system; zero where /proc does not say.
fn cpu_time(child: &Child) -> Duration {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", child.id())) else {
        return Duration::ZERO;
    };
    // The name in parentheses may hold anything; the 12th and 13th word behind it are the times.
    let behind = stat.rsplit_once(')').map_or("", |s| s.1);
    let ticks: u64 = behind
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|w| w.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}
