//! Coverage: the switches tried on each filesystem, disk and fault, the counters that moved, and
//! the rare paths taken.

use crate::space::{Fits, Space};
use lab::model::Outcomes;
use mm::watch::vmstat::VmEvent;
use serde::{Deserialize, Serialize};
use sim::spec::{DiskSpec, Fault};
use sim::{Outcome, RunResult, RunSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use workload::{Step, Task};

/// Coverage of one case.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The switches of each cell with their surroundings.
    pub cells: Vec<CellSeen>,
    /// Counters that moved.
    pub counters: BTreeSet<String>,
    /// Rare paths that were taken.
    pub rare: BTreeSet<String>,
    /// How runs ended.
    pub outcomes: BTreeSet<String>,
    /// Programs that ran.
    pub programs: BTreeSet<String>,
    /// Laws that it was held to.
    pub laws: BTreeSet<String>,
    /// Number of draws that were refused before it.
    pub redrawn: u64,
}

/// The switches of a cell's policy, and the filesystem, disk and faults it ran on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellSeen {
    filesystem: String,
    disk: String,
    faults: BTreeSet<String>,
    switches: Vec<String>,
}

/// A path that few runs take, with a test on a run's result that it was taken.
struct Rare {
    name: &'static str,
    taken: fn(&RunSpec, &RunResult) -> bool,
}

const RARE: [Rare; 6] = [
    Rare {
        name: "an inode's cluster written by reclaim",
        taken: |_, r| moved(r, "xfs_inode_writes"),
    },
    Rare {
        name: "a swap-out that failed",
        // Where only the disk with the swap area has faults, a failed write must be that of a
        // swapped page.
        taken: |s, r| {
            let swap = s.machine.swap.as_ref().and_then(|s| s.disk.as_ref());
            let mut others = s.machine.mounted();
            moved(r, "write_error")
                && swap.is_some_and(|d| !d.faults.is_empty())
                && others.all(|on| on.disk.faults.is_empty())
        },
    },
    Rare {
        name: "an xfs whose disk is gone",
        taken: |s, r| {
            let stop = |f: &Fault| matches!(f, Fault::Stop { .. });
            s.filesystem == sim::spec::FsKind::Xfs
                && s.machine.disk.faults.iter().any(stop)
                && moved(r, "write_error")
        },
    },
    Rare {
        name: "memory exhausted",
        taken: |_, r| matches!(r.outcome, Outcome::Oom { .. }),
    },
    Rare {
        name: "a full disk",
        taken: |_, r| matches!(&r.outcome, Outcome::Failed { error } if error.contains("space")),
    },
    Rare {
        name: "a read that failed",
        taken: |_, r| matches!(&r.outcome, Outcome::Failed { error } if error.contains("input/output")),
    },
];

/// Counters that are not expected to move, with the reason for each.
const STILL: &[(&str, &str)] = &[(
    "reclaim_flush_dropped",
    "eight requests of one zone and device have to wait at once: not seen in 4,000 machines; sim/tests/policy.rs has them",
)];

/// Returns true if a counter of a result is above 0.
fn moved(r: &RunResult, counter: &str) -> bool {
    r.counters.get(counter).is_some_and(|n| *n > 0)
}

impl Seen {
    /// Adds the runs of an experiment to what a case has covered: the switches of each cell,
    /// programs, counters above 0, rare paths, and how runs ended.
    pub fn note(&mut self, outcomes: &Outcomes) {
        for (cell, results) in outcomes.experiment.cells.iter().zip(&outcomes.results) {
            let spec = &cell.spec;
            self.cells.push(CellSeen::of(spec));
            for step in &spec.workload.steps {
                if let Step::Foreground(p) | Step::Background(p) = step {
                    let names = p.commands.iter().map(|c| c.name().to_owned());
                    self.programs.extend(names);
                }
            }
            for result in results.iter().flatten() {
                let counters = result.counters.iter().filter(|(_, n)| **n > 0);
                self.counters.extend(counters.map(|(name, _)| name.clone()));
                let rare = RARE.iter().filter(|rare| (rare.taken)(spec, result));
                self.rare.extend(rare.map(|rare| rare.name.to_owned()));
                let outcome = match &result.outcome {
                    Outcome::Completed => "completed",
                    Outcome::Oom { .. } => "out of memory",
                    Outcome::Failed { .. } => "failed",
                    Outcome::TimeLimit => "time limit",
                    Outcome::Interrupted => "interrupted",
                };
                self.outcomes.insert(outcome.to_owned());
            }
        }
    }
}

/// Returns a value as the word by which experiment files call it.
fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(e) => e.to_string(),
    }
}

impl CellSeen {
    /// Returns what a cell covers: the switches of its policy that are words or booleans, as
    /// `KEY=VALUE`, with its filesystem, disk and kinds of faults.
    fn of(spec: &RunSpec) -> Self {
        let disk: &DiskSpec = &spec.machine.disk;
        let kind = |f: &Fault| {
            let value = serde_json::to_value(f).ok();
            let kind = value.as_ref().and_then(|v| v.get("kind")?.as_str());
            kind.unwrap_or_default().to_owned()
        };
        let mut faults: BTreeSet<String> = disk.faults.iter().map(kind).collect();
        if faults.is_empty() {
            faults.insert(NO_FAULT.to_owned());
        }
        let policy = serde_json::to_value(&spec.policy).unwrap_or_default();
        let mut switches = Vec::new();
        for (key, value) in policy.as_object().into_iter().flatten() {
            match value {
                serde_json::Value::String(_) | serde_json::Value::Bool(_) => {
                    switches.push(format!("{key}={}", word(value)));
                }
                _ => {}
            }
        }
        Self {
            filesystem: spec.filesystem.name().to_owned(),
            disk: word(&disk.kind),
            faults,
            switches,
        }
    }
}

const NO_FAULT: &str = "none";

/// Coverage of all cases together.
#[derive(Debug, Clone)]
pub struct Cover {
    switches: Vec<String>,
    filesystems: Vec<String>,
    disks: Vec<String>,
    faults: Vec<String>,
    /// Number of runs of each combination of switch, filesystem, disk and fault, by index in the
    /// lists above.
    hits: BTreeMap<(usize, usize, usize, usize), u32>,
    counters: BTreeSet<String>,
    rare: BTreeMap<String, u32>,
    outcomes: BTreeMap<String, u32>,
    programs: BTreeMap<String, u32>,
    laws: BTreeMap<String, u32>,
    redrawn: u64,
}

impl Cover {
    /// Makes an empty coverage: all switches, filesystems, disks and faults of the space, by whose
    /// combinations runs are counted.
    pub fn new(space: &Space) -> Self {
        let mut switches = Vec::new();
        for (key, fits) in space.below("policies.*") {
            if key.contains('.') {
                continue;
            }
            match fits {
                Fits::Choice(words) => switches.extend(words.iter().map(|w| format!("{key}={w}"))),
                Fits::Switch => switches.extend([true, false].map(|on| format!("{key}={on}"))),
                _ => {}
            }
        }
        let mut faults = vec![NO_FAULT.to_owned()];
        faults.extend(space.choices("machine.disk.faults.#.kind").iter().cloned());
        Self {
            switches,
            filesystems: space.choices("filesystem").to_vec(),
            disks: space.choices("machine.disk.kind").to_vec(),
            faults,
            hits: BTreeMap::new(),
            counters: BTreeSet::new(),
            rare: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            programs: BTreeMap::new(),
            laws: BTreeMap::new(),
            redrawn: 0,
        }
    }

    /// Adds what one case covered: a run of each combination of switch, filesystem, disk and fault,
    /// and its counters and words.
    pub fn add(&mut self, seen: Seen) {
        let at = |list: &[String], word: &str| list.iter().position(|w| w == word);
        for cell in &seen.cells {
            let (Some(fs), Some(disk)) = (
                at(&self.filesystems, &cell.filesystem),
                at(&self.disks, &cell.disk),
            ) else {
                continue;
            };
            for fault in cell.faults.iter().filter_map(|f| at(&self.faults, f)) {
                for switch in cell.switches.iter().filter_map(|s| at(&self.switches, s)) {
                    *self.hits.entry((switch, fs, disk, fault)).or_default() += 1;
                }
            }
        }
        self.counters.extend(seen.counters);
        self.redrawn += seen.redrawn;
        for (sum, words) in [
            (&mut self.rare, seen.rare),
            (&mut self.outcomes, seen.outcomes),
            (&mut self.programs, seen.programs),
            (&mut self.laws, seen.laws),
        ] {
            for word in words {
                *sum.entry(word).or_default() += 1;
            }
        }
    }

    /// Returns two numbers: the combinations of switch, filesystem, disk and fault that were tried,
    /// and all that there are.
    pub fn combinations(&self) -> (usize, usize) {
        let all = [&self.switches, &self.filesystems, &self.disks, &self.faults];
        (self.hits.len(), all.iter().map(|l| l.len()).product())
    }

    /// Returns the names of the rare paths and counters that some case should have taken or moved,
    /// and none did.
    pub fn missing(&self) -> Vec<String> {
        let rare = RARE.iter().filter(|r| !self.rare.contains_key(r.name));
        let mut missing: Vec<String> = rare.map(|r| r.name.to_owned()).collect();
        for event in VmEvent::ALL {
            let name = event.name();
            let excused = STILL.iter().any(|(n, _)| *n == name);
            if !self.counters.contains(name) && !excused {
                missing.push(format!("counter {name}"));
            }
        }
        missing
    }

    /// Returns what the cases have covered as text of a few lines: combinations, laws, outcomes,
    /// programs, rare paths, and what is missing.
    pub fn to_text(&self) -> String {
        let (tried, all) = self.combinations();
        let mut out = String::new();
        let share = 100.0 * tried as f64 / all.max(1) as f64;
        let _ = writeln!(
            out,
            "switch x filesystem x disk x fault: {tried} of {all} combinations ({share:.1} %)"
        );
        let never: Vec<&String> = self
            .switches
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.hits.keys().any(|k| k.0 == *at))
            .map(|(_, name)| name)
            .collect();
        if !never.is_empty() {
            let _ = writeln!(out, "switches never tried: {never:?}");
        }
        for (head, sum) in [
            ("laws", &self.laws),
            ("outcomes", &self.outcomes),
            ("programs", &self.programs),
            ("rare paths", &self.rare),
        ] {
            let list: Vec<String> = sum.iter().map(|(name, n)| format!("{name} {n}")).collect();
            let _ = writeln!(out, "{head}: {}", list.join(", "));
        }
        let _ = writeln!(out, "draws refused: {}", self.redrawn);
        let missing = self.missing();
        if !missing.is_empty() {
            let _ = writeln!(out, "never taken: {}", missing.join(", "));
        }
        out
    }
}
