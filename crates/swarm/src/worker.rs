//! The worker process that examines cases: reads one task a line from standard input, and writes
//! one answer a line to standard output.
//!
//! Its parent watches the process's CPU time and kills it if it spins. The case under examination
//! is then found in the worker's folder, [`NOW`].

use crate::case::{Case, TRIES};
use crate::cover::Seen;
use crate::dice::Dice;
use crate::ends;
use crate::law::{Breach, Law, Subject};
use crate::space::Space;
use crate::trend;
use lab::model::{Experiment, Outcomes};
use mm::NoMemory;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// File in the worker's folder that has the case under examination, as JSON.
pub const NOW: &str = "now.json";
/// File in the worker's folder that has the law being tested: a [`Stage`] as JSON.
pub const STAGE: &str = "stage.json";
/// One seed in this many tests a law of medians, which takes nine runs twice.
const TREND: u64 = 100;

/// A task for a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// The case of a seed under the laws of that seed.
    Seed(u64),
    /// The case of a parameter at one of its ends, by number.
    End(u64),
    /// A seed's case for a law of medians.
    Trend(u64),
    /// A given case under given laws.
    Case(Box<Case>, Vec<Law>),
    /// A failure of the worker itself, to test its supervision.
    Trouble(Trouble),
}

/// A way in which a worker may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Computes for ever.
    Spins,
    /// Waits for ever.
    Waits,
    /// Is ended by a signal.
    Dies,
    /// Allocates more memory than its limit.
    Hoards,
    /// Panics.
    Panics,
}

/// The law that is being tested on a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The law.
    pub law: Law,
    /// CPU seconds that the case's machines have in their time limits, more where `cost_scale`
    /// makes them compute faster: a run in which every CPU is busy is slow, but does not spin.
    pub busy_s: f64,
}

impl Stage {
    /// Notes in the worker's folder, for the process that watches it, which law is being tested,
    /// and how many CPU seconds the experiment's machines have.
    fn begin(law: Law, experiment: &Experiment, folder: &Path) -> io::Result<()> {
        let cells = experiment.cells.iter().map(|cell| &cell.spec);
        let seconds = cells.map(|spec| {
            let cpus = f64::from(spec.machine.cpus) / spec.params.cost_scale.min(1.0);
            spec.time_limit_ns as f64 / 1e9 * cpus
        });
        let busy_s = seconds.sum::<f64>() * f64::from(experiment.iterations);
        std::fs::write(
            folder.join(STAGE),
            serde_json::to_vec(&Self { law, busy_s })?,
        )
    }
}

/// The answer to a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// The first law that is broken, if any.
    pub breach: Option<Breach>,
    /// The coverage of the case.
    pub seen: Seen,
    /// CPU time that the task took, in nanoseconds.
    pub cpu_ns: u64,
}

/// Place and message of the last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Runs the worker: answers the tasks on standard input, one a line, until the input ends. The case
/// under examination is kept in `folder`; `memory` limits the address space, in bytes.
///
/// # Errors
/// Input or output fails, or a line is not a task.
pub fn serve(folder: &Path, memory: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(memory),
        maximum: Some(memory),
    };
    setrlimit(Resource::As, limit)?;
    // Otherwise a worker that spins would outlive a parent that was killed.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    std::panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
        let text = info.payload_as_str().unwrap_or("without a message");
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = format!("panic{place}: {text}");
    }));
    let space = Space::new();
    for line in io::stdin().lock().lines() {
        let task: Task = serde_json::from_str(&line?)?;
        let before = cpu_ns();
        let (breach, seen) = examine(&task, &space, folder)?;
        let answer = Answer {
            breach,
            seen,
            cpu_ns: cpu_ns() - before,
        };
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

/// Returns the CPU time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Examines a task: draws its case, has `lab` read it, checks it, and tests its laws. Returns the
/// first breach, `None` if all laws hold, and the coverage.
fn examine(task: &Task, space: &Space, folder: &Path) -> io::Result<(Option<Breach>, Seen)> {
    let mut seen = Seen::default();
    let (case, laws) = match task {
        Task::Trouble(trouble) => {
            fail(*trouble);
            return Ok((None, seen));
        }
        Task::Seed(seed) => {
            let d = &mut Dice::new(*seed, "law");
            if d.one_in(TREND) {
                of_medians(*seed, space, folder)?
            } else {
                let law = *d.pick(&Law::ANY);
                match Case::of_seed(*seed, space, folder)? {
                    Ok((case, _, redrawn)) => {
                        seen.redrawn = redrawn;
                        (case, vec![law])
                    }
                    Err(refused) => {
                        return Ok((Some(Breach::new(Law::Legal, refused.message)), seen));
                    }
                }
            }
        }
        Task::End(nth) => (ends::case(*nth, space), vec![Law::Recounts]),
        Task::Trend(seed) => of_medians(*seed, space, folder)?,
        Task::Case(case, laws) => (Case::clone(case), laws.clone()),
    };
    std::fs::write(folder.join(NOW), serde_json::to_vec(&case)?)?;
    let read = catch_unwind(AssertUnwindSafe(|| case.load(folder)));
    let experiment = match read {
        Ok(loaded) => match loaded? {
            Ok(experiment) => experiment,
            Err(refused) => {
                let what = format!("{}; {}", refused.message, refused.accepted);
                return Ok((Some(Breach::new(Law::Legal, what)), seen));
            }
        },
        Err(payload) => {
            let what = describe(payload.as_ref());
            return Ok((Some(Breach::new(Law::Legal, what)), seen));
        }
    };
    let breach = under_laws(&case, &experiment, &laws, folder, &mut seen)?;
    Ok((breach, seen))
}

/// Draws the case of a seed for one of the laws of medians, again and again until `lab` accepts
/// one. Returns the case and that law.
fn of_medians(seed: u64, space: &Space, folder: &Path) -> io::Result<(Case, Vec<Law>)> {
    let law = *Dice::new(seed, "law of medians").pick(&Law::TRENDS);
    let mut case = trend::draw(law, seed, space);
    for nth in 1..TRIES {
        if case.load(folder)?.is_ok() {
            break;
        }
        case = trend::draw(law, seed.wrapping_add(nth << 48), space);
    }
    Ok((case, vec![law]))
}

/// Checks an experiment, then tests each of `laws` on it. Returns the first breach, a panic
/// included; `None`: all hold. The coverage of the runs is added to `seen`.
fn under_laws(
    case: &Case,
    experiment: &Experiment,
    laws: &[Law],
    folder: &Path,
    seen: &mut Seen,
) -> io::Result<Option<Breach>> {
    let subject = Subject {
        case,
        experiment,
        folder,
    };
    Stage::begin(Law::Check, experiment, folder)?;
    let checked: Outcomes = match catch_unwind(AssertUnwindSafe(|| subject.check())) {
        Ok(Ok(outcomes)) => outcomes,
        Ok(Err(breach)) if breach.what.contains("panicked") => {
            return Ok(Some(Breach::new(Law::Check, last_panic())));
        }
        Ok(Err(breach)) => return Ok(Some(breach)),
        Err(payload) => return Ok(Some(Breach::new(Law::Check, describe(payload.as_ref())))),
    };
    seen.note(&checked);
    for &law in laws {
        seen.laws.insert(law.name().to_owned());
        Stage::begin(law, experiment, folder)?;
        let held = catch_unwind(AssertUnwindSafe(|| subject.holds(law, &checked)));
        match held {
            Ok(held) => {
                if let Some(breach) = held? {
                    return Ok(Some(breach));
                }
            }
            Err(payload) => return Ok(Some(Breach::new(law, describe(payload.as_ref())))),
        }
    }
    Ok(None)
}

/// Describes an unwinding by its payload: lack of memory, or else the last panic.
fn describe(payload: &(dyn Any + Send)) -> String {
    let no_memory = payload.downcast_ref::<NoMemory>();
    no_memory.map_or_else(last_panic, |none| format!("memory: {none}"))
}

/// Returns the place and message of the last panic.
fn last_panic() -> String {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Makes the worker fail in the given way, for tests of its supervision.
fn fail(trouble: Trouble) {
    match trouble {
        Trouble::Spins => loop {
            std::hint::spin_loop();
        },
        Trouble::Waits => loop {
            std::thread::park();
        },
        Trouble::Dies => std::process::abort(),
        Trouble::Hoards => {
            let hoard = vec![1_u8; 1 << 45];
            std::hint::black_box(hoard);
        }
        Trouble::Panics => panic!("as it was told to"),
    }
}
