//! Runs many cases on several workers, writes finds to files and minimises them.

use crate::case::Case;
use crate::cover::Cover;
use crate::law::{Breach, Law};
use crate::minimise::minimise;
use crate::space::Space;
use crate::watch::{End, Limits, Worker};
use crate::worker::Task;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The settings of a hunt.
#[derive(Debug, Clone)]
pub struct Hunt {
    /// The program to run as worker (`lowmark-swarm`).
    pub program: PathBuf,
    /// The tasks, in order; practically endless if the hunt has no limit.
    pub tasks: Tasks,
    /// Number of workers at a time.
    pub jobs: usize,
    /// When to stop before the last task, if at all. Minimising all finds together may take as long
    /// again.
    pub time: Option<Duration>,
    /// Folder for finds.
    pub out: PathBuf,
    /// Limits of a worker for each case.
    pub limits: Limits,
    /// Maximum number of tries for minimising a find; 0: not minimised.
    pub questions: u32,
}

/// The tasks of a hunt, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// Random seeds: the first, and how many.
    Seeds(u64, u64),
    /// Parameters at their ends: the first case, and how many.
    Ends(u64, u64),
    /// Seeds for the laws of medians only: the first, and how many.
    Trends(u64, u64),
}

impl Tasks {
    /// Returns the `n`th task of the hunt, counted from 0: a seed, a parameter's end or a seed for
    /// the laws of medians; `None` behind the last.
    fn nth(self, n: u64) -> Option<Task> {
        let (Self::Seeds(first, count) | Self::Ends(first, count) | Self::Trends(first, count)) =
            self;
        let nth = first.wrapping_add(n);
        (n < count).then_some(match self {
            Self::Seeds(..) => Task::Seed(nth),
            Self::Ends(..) => Task::End(nth),
            Self::Trends(..) => Task::Trend(nth),
        })
    }
}

/// A task whose case broke a law.
#[derive(Debug, Clone)]
pub struct Find {
    /// The task.
    pub task: Task,
    /// The law and what was observed.
    pub breach: Breach,
    /// File with the case, minimised if that was possible; `None` for repetitions of a kind.
    pub file: Option<PathBuf>,
}

/// The result of a hunt.
#[derive(Debug)]
pub struct Bag {
    /// Number of cases that were examined.
    pub cases: u64,
    /// Finds, in the order of their tasks.
    pub finds: Vec<Find>,
    /// Coverage of all cases.
    pub cover: Cover,
    /// CPU time of all answered cases.
    pub cpu: Duration,
    /// The most expensive cases, with their CPU time.
    pub slowest: Vec<(Duration, Task)>,
}

/// Maximum number of finds of one kind that are written to files; further ones are only counted.
const OF_A_KIND: usize = 3;
/// Number of most expensive cases that are listed.
const SLOWEST: usize = 5;

impl Hunt {
    /// Examines cases on `jobs` worker processes until there are no more, the time is over or
    /// `stop` is set; then writes the finds (cases that broke a law) to files and minimises them.
    /// Calls `tell` with a text for each find and for progress. Returns the finds and the coverage.
    ///
    /// # Errors
    /// A worker cannot be started, or a find cannot be written.
    pub fn run(&self, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> io::Result<Bag> {
        let begun = Instant::now();
        let next = AtomicU64::new(0);
        let over = || stop.load(Relaxed) || self.time.is_some_and(|t| begun.elapsed() >= t);
        let mut bag = Bag {
            cases: 0,
            finds: Vec::new(),
            cover: Cover::new(&Space::new()),
            cpu: Duration::ZERO,
            slowest: Vec::new(),
        };
        // Finds as they come: the task's number, the task, the breach, the case if it could be
        // drawn.
        let mut raw: Vec<(u64, Task, Breach, Option<Case>)> = Vec::new();
        std::thread::scope(|scope| -> io::Result<()> {
            let (tx, rx) = channel();
            for _ in 0..self.jobs.max(1) {
                let (tx, next, over) = (tx.clone(), &next, &over);
                scope.spawn(move || {
                    let work = || -> io::Result<()> {
                        let mut worker = Worker::new(&self.program, self.limits)?;
                        while !over() {
                            let n = next.fetch_add(1, Relaxed);
                            let Some(task) = self.tasks.nth(n) else { break };
                            let end = worker.ask(&task)?;
                            let case = worker.last_case();
                            if tx.send(Ok((n, task, end, case))).is_err() {
                                break;
                            }
                        }
                        Ok(())
                    };
                    if let Err(e) = work() {
                        let _ = tx.send(Err(e));
                    }
                });
            }
            drop(tx);
            for message in rx {
                let (n, task, end, case) = match message {
                    Ok(message) => message,
                    // A worker that was ended together with the hunt is no failure.
                    Err(_) if stop.load(Relaxed) => continue,
                    Err(e) => return Err(e),
                };
                let breach = match end {
                    End::Lost(_) if stop.load(Relaxed) => continue,
                    End::Lost(breach) => Some(breach),
                    End::Answered(answer) => {
                        let cpu = Duration::from_nanos(answer.cpu_ns);
                        bag.cpu += cpu;
                        bag.slowest.push((cpu, task.clone()));
                        bag.slowest.sort_by_key(|s| std::cmp::Reverse(s.0));
                        bag.slowest.truncate(SLOWEST);
                        bag.cover.add(answer.seen);
                        answer.breach
                    }
                };
                bag.cases += 1;
                if let Some(breach) = breach {
                    tell(&format!(
                        "{}: law {}: {}",
                        name(&task),
                        breach.law.name(),
                        breach.what
                    ));
                    raw.push((n, task, breach, case));
                }
                if bag.cases.is_multiple_of(1000) {
                    tell(&format!("{} cases, {} finds", bag.cases, raw.len()));
                }
            }
            Ok(())
        })?;
        raw.sort_by_key(|r| r.0);
        bag.finds = self.write_down(raw, stop, tell)?;
        Ok(bag)
    }

    /// Writes the finds of `raw` (number and task, breach, case) to files, a few of each kind, and
    /// minimises the first of each kind. Returns all finds; those beyond have no file.
    fn write_down(
        &self,
        raw: Vec<(u64, Task, Breach, Option<Case>)>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&str),
    ) -> io::Result<Vec<Find>> {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        let mut finds = Vec::new();
        let until = self.time.map(|t| Instant::now() + t);
        for (_, task, breach, case) in raw {
            let seen = kinds.entry(signature(&breach)).or_default();
            *seen += 1;
            let mut file = None;
            if let Some(case) = case.filter(|_| *seen <= OF_A_KIND) {
                let stem = format!("{}-{}", name(&task), breach.law.name());
                let whole = format!("{stem}-whole");
                file = Some(write_case(&self.out, &whole, &case, &breach)?);
                if *seen == 1 && self.questions > 0 && !stop.load(Relaxed) {
                    tell(&format!("making {stem} small"));
                    let small = self.small(&case, &breach, until)?;
                    if until.is_some_and(|t| Instant::now() >= t) {
                        tell("no time is left for making it smaller: `minimise` goes on");
                    }
                    file = Some(write_case(&self.out, &stem, &small, &breach)?);
                }
            }
            finds.push(Find { task, breach, file });
        }
        Ok(finds)
    }

    /// Returns the smallest case that shows the same kind of find as `breach`, as far as tries and
    /// the time `until` allow: keys are removed from `case` and a worker is asked whether the
    /// breach is still there.
    ///
    /// # Errors
    /// A worker cannot be started.
    pub fn small(&self, case: &Case, breach: &Breach, until: Option<Instant>) -> io::Result<Case> {
        // Every try of a case that spins takes all of its time limit.
        let limits = Limits {
            cpu: self.limits.cpu / 4,
            ..self.limits
        };
        let mut worker = Worker::new(&self.program, limits)?;
        let laws: Vec<Law> = match breach.law {
            Law::Legal | Law::Check => Vec::new(),
            law => vec![law],
        };
        let wanted = signature(breach);
        let mut trouble = None;
        let questions = if breach.what.starts_with("spins") {
            self.questions / 4
        } else {
            self.questions
        };
        let small = minimise(case, questions, |case| {
            if until.is_some_and(|t| Instant::now() >= t) {
                return None;
            }
            let task = Task::Case(Box::new(case.clone()), laws.clone());
            match worker.ask(&task) {
                Ok(End::Lost(other)) => Some(signature(&other) == wanted),
                Ok(End::Answered(answer)) => {
                    let other = answer.breach;
                    Some(other.is_some_and(|other| signature(&other) == wanted))
                }
                Err(e) => {
                    trouble = Some(e);
                    None
                }
            }
        });
        trouble.map_or(Ok(small), Err)
    }
}

/// Returns the kind of a find as text, equal for finds that seem to have the same cause: the law,
/// and what was observed without its figures.
pub fn signature(breach: &Breach) -> String {
    let what = &breach.what;
    let same = match breach.law {
        // The text of a panic contains its place; figures in it do not count.
        _ if what.starts_with("panic") => what.splitn(4, ':').take(2).collect::<Vec<_>>().join(":"),
        _ if what.starts_with("recount") => {
            let behind = what
                .split_once(" ns: ")
                .or_else(|| what.split_once("end: "));
            letters(behind.map_or(what, |b| b.1))
        }
        Law::Check | Law::Legal => letters(what),
        Law::NoOp => what.split(':').next().unwrap_or("").to_owned(),
        _ => String::new(),
    };
    format!("{}: {same}", breach.law.name())
}

/// Returns the first 40 characters of a text, without digits.
fn letters(text: &str) -> String {
    let kept = text.chars().filter(|c| !c.is_ascii_digit());
    kept.take(40).collect()
}

/// Returns the name of a task, by which its files begin and messages speak of it.
pub fn name(task: &Task) -> String {
    match task {
        Task::Seed(seed) => format!("seed-{seed}"),
        Task::End(nth) => format!("end-{nth}"),
        Task::Trend(seed) => format!("trend-{seed}"),
        Task::Case(..) => "case".to_owned(),
        Task::Trouble(_) => "trouble".to_owned(),
    }
}

/// Writes a case as an experiment file `STEM.toml` with the breach in its first lines, and the
/// files that it refers to beside it under names that begin with `stem`. Returns the path.
fn write_case(folder: &Path, stem: &str, case: &Case, breach: &Breach) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut case = case.clone();
    for key in ["trace", "fio"] {
        let workload = case
            .table
            .get_mut("workload")
            .and_then(|w| w.as_table_mut());
        let Some(value) = workload.and_then(|w| w.get_mut(key)) else {
            continue;
        };
        let Some(old) = value.as_str().map(str::to_owned) else {
            continue;
        };
        let new = format!("{stem}-{old}");
        if let Some(bytes) = case.beside.remove(&old) {
            std::fs::write(folder.join(&new), bytes)?;
            *value = new.into();
        }
    }
    let path = folder.join(format!("{stem}.toml"));
    let mut text = format!("# law: {}\n", breach.law.name());
    for line in breach.what.chars().take(2000).collect::<String>().lines() {
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(text, "# replay: lowmark-swarm replay {stem}.toml\n");
    std::fs::write(&path, text + &case.text())?;
    Ok(path)
}
