//! Many cases on several workers; what is found is written down and made small.

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

/// What is hunted.
#[derive(Debug, Clone)]
pub struct Hunt {
    /// The program that workers are (`lowmark-swarm`).
    pub program: PathBuf,
    /// The tasks, in order; unbounded where the hunt is.
    pub tasks: Tasks,
    /// Workers at a time.
    pub jobs: usize,
    /// When to stop, if before the last task. Finds are made small for as long again, all together.
    pub time: Option<Duration>,
    /// Where finds go.
    pub out: PathBuf,
    /// What a case may take.
    pub limits: Limits,
    /// Questions for making a find small; 0: it stays as it is.
    pub questions: u32,
}

/// Tasks by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// Random seeds from the first on, so many.
    Seeds(u64, u64),
    /// Parameters at their ends, from the first on, so many.
    Ends(u64, u64),
    /// Seeds for the laws of medians alone, from the first on, so many.
    Trends(u64, u64),
}

impl Tasks {
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

/// A find: the law, and the files that show it.
#[derive(Debug, Clone)]
pub struct Find {
    /// What was asked.
    pub task: Task,
    /// What was seen.
    pub breach: Breach,
    /// The file that shows it, small if it was made so; none for what is a repetition.
    pub file: Option<PathBuf>,
}

/// What a hunt found and tried.
#[derive(Debug)]
pub struct Bag {
    /// Cases that were examined.
    pub cases: u64,
    /// Finds, in the order of their tasks.
    pub finds: Vec<Find>,
    /// What was tried.
    pub cover: Cover,
    /// CPU time of all answered cases.
    pub cpu: Duration,
    /// The most expensive ones, with their CPU time.
    pub slowest: Vec<(Duration, Task)>,
}

/// Finds of one kind that are written down; more are only counted.
const OF_A_KIND: usize = 3;
/// The most expensive cases that are named.
const SLOWEST: usize = 5;

impl Hunt {
    /// Examines cases until there are no more, the time is over or somebody stops it. `tell` is told of
    /// finds as they come.
    ///
    /// # Errors
    /// Workers that can't be started, finds that can't be written.
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
                    // A worker that was stopped together with the hunt is no failure.
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

    /// The smallest case that shows the same, as far as it is found `until` then.
    ///
    /// # Errors
    /// A worker that can't be started.
    pub fn small(&self, case: &Case, breach: &Breach, until: Option<Instant>) -> io::Result<Case> {
        // Each question about what spins takes all of its time.
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

/// What makes two finds the same kind: the law, and the text up to its first figure.
pub fn signature(breach: &Breach) -> String {
    let what = &breach.what;
    let same = match breach.law {
        // The place of a panic is in the text; its figures are not the point.
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

/// The first words without figures.
fn letters(text: &str) -> String {
    let kept = text.chars().filter(|c| !c.is_ascii_digit());
    kept.take(40).collect()
}

/// The name of a task's files.
pub fn name(task: &Task) -> String {
    match task {
        Task::Seed(seed) => format!("seed-{seed}"),
        Task::End(nth) => format!("end-{nth}"),
        Task::Trend(seed) => format!("trend-{seed}"),
        Task::Case(..) => "case".to_owned(),
        Task::Trouble(_) => "trouble".to_owned(),
    }
}

/// Writes a case as an experiment that says what it shows, with its files beside it under its own name.
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
