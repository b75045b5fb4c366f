//! A process that examines cases: a task a line on its standard input, an answer a line on its output.
//!
//! The one that asks watches its CPU time and ends it where it spins. What it was at then lies in its
//! folder, [`NOW`].

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

/// The case under examination, in the worker's folder, as JSON.
pub const NOW: &str = "now.json";
/// What the case is held to now, in the worker's folder: a [`Stage`] as JSON.
pub const STAGE: &str = "stage.json";
/// One seed in so many is a trend: it takes nine runs twice.
const TREND: u64 = 100;

/// What a worker is to examine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// The case of a seed under the laws of that seed.
    Seed(u64),
    /// A parameter at one of its ends.
    End(u64),
    /// A seed's case for a law of medians.
    Trend(u64),
    /// A given case under given laws.
    Case(Box<Case>, Vec<Law>),
    /// What a watchdog is for, to test it.
    Trouble(Trouble),
}

/// What may happen to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// It computes for ever.
    Spins,
    /// It waits for ever.
    Waits,
    /// It is ended by a signal.
    Dies,
    /// It wants more memory than there is.
    Hoards,
    /// It panics.
    Panics,
}

/// A law that a case is held to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The law.
    pub law: Law,
    /// Seconds of CPU time that the case's machines have in their time limits, more where `cost_scale`
    /// has them compute faster: a run in which every CPU is busy is slow, and does not spin.
    pub busy_s: f64,
}

impl Stage {
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

/// What came out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// The first law that did not hold.
    pub breach: Option<Breach>,
    /// What was tried.
    pub seen: Seen,
    /// CPU time that it took, in nanoseconds.
    pub cpu_ns: u64,
}

/// What the last panic said and where.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Answers tasks until the input ends. `memory`: bytes of address space.
///
/// # Errors
/// Input or output that fails; a task that is none.
pub fn serve(folder: &Path, memory: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(memory),
        maximum: Some(memory),
    };
    setrlimit(Resource::As, limit)?;
    // A worker that spins would outlive whoever was to end it.
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

fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn examine(task: &Task, space: &Space, folder: &Path) -> io::Result<(Option<Breach>, Seen)> {
    let mut seen = Seen::default();
    let (case, laws) = match task {
        Task::Trouble(trouble) => {
            get_into(*trouble);
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
            let what = told(payload.as_ref());
            return Ok((Some(Breach::new(Law::Legal, what)), seen));
        }
    };
    let breach = under_laws(&case, &experiment, &laws, folder, &mut seen)?;
    Ok((breach, seen))
}

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

/// Checks an experiment, then holds it to each law.
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
        Err(payload) => return Ok(Some(Breach::new(Law::Check, told(payload.as_ref())))),
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
            Err(payload) => return Ok(Some(Breach::new(law, told(payload.as_ref())))),
        }
    }
    Ok(None)
}

/// What an unwinding says: that there is no memory, or the panic.
fn told(payload: &(dyn Any + Send)) -> String {
    let none = payload.downcast_ref::<NoMemory>();
    none.map_or_else(last_panic, |none| format!("memory: {none}"))
}

fn last_panic() -> String {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn get_into(trouble: Trouble) {
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
