//! Searches for the bursts of allocations that defeat a policy's watermarks.
//!
//! The experiment's `burst` command is the start; its size, rate, interval and hold time are
//! searched by CMA-ES for the bursts that cost most, and all else stays. The result is written as
//! an experiment that gives the same figures again.

use super::goals::time;
use super::search::minimize;
use super::space::{mirrored, rounded};
use super::trial::{Interrupted, Trials};
use crate::diagnostic::Diagnostic;
use crate::model::{Cell, Experiment};
use crate::results::File;
use crate::results::csv::Csv;
use mm::policy::Watermarks;
use serde_json::{Value, json};
use sim::{Outcome, RunResult};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use workload::programs::burst::Burst;
use workload::shell;

/// The cost of bursts that the search maximises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worst {
    /// Direct reclaims of the bursts for each MiB that they take: counted without regard to size,
    /// the largest burst would always win.
    DirectReclaim,
    /// The longest allocation of a burst.
    AllocLatency,
}

impl Worst {
    /// The costs by their names on the command line.
    pub const NAMES: [(&str, Self); 2] = [
        ("direct-reclaim", Self::DirectReclaim),
        ("alloc-latency", Self::AllocLatency),
    ];
}

/// The question that a search answers.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// The cost to be maximised.
    pub worst: Worst,
    /// Most patterns that are tried.
    pub budget: usize,
    /// Runs of each pattern.
    pub runs: u32,
    /// The seed of the search itself.
    pub seed: u64,
}

/// A burst pattern, as given by options of `burst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Pattern {
    /// `-s` in kB.
    pub size_kbytes: u64,
    /// `-r` in kB a second; `None`: as fast as memory is allocated.
    pub rate_kbytes: Option<u64>,
    /// `-i` in microseconds.
    pub interval_us: u64,
    /// `-h` in microseconds.
    pub hold_us: u64,
}

/// The ends of the coordinates, each searched in equal ratios: kB, kB a second, microseconds,
/// microseconds. The largest size is a quarter of memory. Above the highest rate, bursts run as
/// fast as memory is allocated.
const SIZES: [f64; 2] = [1024.0, f64::NAN];
const RATES: [f64; 2] = [16.0 * 1024.0, 8.0 * 1024.0 * 1024.0];
const INTERVALS: [f64; 2] = [20e3, 2e6];
const HOLDS: [f64; 2] = [1e3, 500e3];
/// The value of the rate's coordinate (0 to 1) from which on bursts have no rate limit.
const NO_RATE: f64 = 0.75;

/// Returns the value of a searched option at a coordinate `u` (0 to 1) between its ends `least` and
/// `most`, in equal ratios and rounded.
fn value_at([least, most]: [f64; 2], u: f64) -> u64 {
    rounded(least * (most / least).powf(u))
}

/// Returns the coordinate (0 to 1) of the value `x` of a searched option between its ends `least`
/// and `most`: the reverse of `value_at`.
fn coordinate_of([least, most]: [f64; 2], x: u64) -> f64 {
    ((x.max(1) as f64 / least).ln() / (most / least).ln()).clamp(0.0, 1.0)
}

impl Pattern {
    /// Returns the pattern (size, rate, interval, hold time) of a parsed `burst` command.
    fn of(b: &Burst) -> Self {
        Self {
            size_kbytes: b.bytes / 1024,
            rate_kbytes: b.rate.map(|r| r / 1024),
            interval_us: b.interval_ns / 1000,
            hold_us: b.hold_ns / 1000,
        }
    }

    /// Returns the burst pattern at a point of the searched cube, whose coordinates are size, rate,
    /// interval and hold time. Values outside of 0 to 1 are mirrored into that range. `largest` is
    /// the largest size in kB; sizes are whole pages of 4 kB.
    fn at(point: &[f64], largest: u64) -> Self {
        let [size, rate, interval, hold] = [0, 1, 2, 3].map(|i| mirrored(point[i]));
        let pages = value_at([SIZES[0], largest as f64], size).div_ceil(4);
        Self {
            size_kbytes: pages * 4,
            rate_kbytes: (rate < NO_RATE).then(|| value_at(RATES, rate / NO_RATE)),
            interval_us: value_at(INTERVALS, interval),
            hold_us: value_at(HOLDS, hold),
        }
    }

    /// Returns the pattern's coordinates in the searched cube, the reverse of `at`; a pattern
    /// without a rate limit lies at 0.9. `largest` is the largest size in kB.
    fn point(&self, largest: u64) -> Vec<f64> {
        let rate = self.rate_kbytes;
        vec![
            coordinate_of([SIZES[0], largest as f64], self.size_kbytes),
            rate.map_or(0.9, |r| coordinate_of(RATES, r) * NO_RATE),
            coordinate_of(INTERVALS, self.interval_us),
            coordinate_of(HOLDS, self.hold_us),
        ]
    }

    /// Formats the pattern as options of the program `burst`: `-s 1024K -r 512K -i 20000us -h
    /// 1000us`.
    pub fn options(&self) -> String {
        let mut s = format!("-s {}K", self.size_kbytes);
        if let Some(rate) = self.rate_kbytes {
            let _ = write!(s, " -r {rate}K");
        }
        let _ = write!(s, " -i {}us -h {}us", self.interval_us, self.hold_us);
        s
    }
}

/// The cost of a pattern, measured by runs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Cost {
    /// The bursts' entries into direct reclaim, as a mean over the runs.
    pub direct: f64,
    /// `direct` for each MiB that the bursts take.
    pub direct_per_mib: f64,
    /// The longest allocation of a burst in all runs, in nanoseconds.
    pub worst_ns: u64,
    /// The reason why a run did not complete; `None` if all did.
    pub failed: Option<String>,
}

impl Cost {
    /// Measures what a burst pattern cost from the results of its runs: direct reclaims as a mean,
    /// the longest allocation of all runs (reported in microseconds), and the outcome of the first
    /// run that did not complete.
    fn of(pattern: &Pattern, results: &[RunResult]) -> Self {
        let metric = |r: &RunResult, name: &str| r.metrics.get(name).map_or(0.0, |m| m.value);
        let mean = |name: &str| {
            let sum: f64 = results.iter().map(|r| metric(r, name)).sum();
            sum / results.len().max(1) as f64
        };
        let direct = mean("burst_direct_reclaim");
        let mib = mean("bursts") * pattern.size_kbytes as f64 / 1024.0;
        let longest = results.iter().map(|r| metric(r, "burst_alloc_max"));
        Self {
            direct,
            direct_per_mib: if mib > 0.0 { direct / mib } else { 0.0 },
            worst_ns: (longest.fold(0.0, f64::max) * 1000.0) as u64,
            failed: results.iter().find_map(|r| match &r.outcome {
                Outcome::Completed => None,
                other => Some(format!("{other:?}")),
            }),
        }
    }

    /// Returns the cost of the kind asked for; 0 if a run did not complete, because such a run
    /// proves nothing about watermarks.
    fn of_kind(&self, worst: Worst) -> f64 {
        match (&self.failed, worst) {
            (Some(_), _) => 0.0,
            (None, Worst::DirectReclaim) => self.direct_per_mib,
            (None, Worst::AllocLatency) => self.worst_ns as f64,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Found {
    /// The cell that runs the worst pattern.
    pub cell: Cell,
    /// The pattern of the experiment itself.
    pub own: (Pattern, Cost),
    /// The worst pattern found.
    pub worst: (Pattern, Cost),
    /// The cost of the worst pattern with the watermarks of the sysctls.
    pub by_sysctl: Cost,
    /// All patterns that were tried, the worst first.
    pub all: Vec<(Pattern, Cost)>,
}

/// Finds the first `burst` command in a shell line. Returns its range of bytes in the line, its
/// words and its parsed options; `None` if the line has no valid one.
fn burst_in(line: &str) -> Option<(std::ops::Range<usize>, Vec<String>, Burst)> {
    let lists = shell::parse(line).ok()?;
    for command in lists.iter().flat_map(|l| &l.commands) {
        let Some(first) = command.words.iter().position(|w| w.text == "burst") else {
            continue;
        };
        let words = &command.words[first..];
        let span = words[0].span.start..words.last()?.span.end;
        // The command is parsed in the background of a finite one, because a `burst` alone may be
        // endless, which parsing would refuse.
        let parsed = workload::parse(&format!("{} & sleep 1", &line[span.clone()])).ok()?;
        let launched = |step: &workload::Step| match step {
            workload::Step::Background(p) => p.commands.first().cloned(),
            _ => None,
        };
        let Some(workload::Command::Burst(burst)) = parsed.steps.first().and_then(launched) else {
            continue;
        };
        let texts = words.iter().map(|w| w.text.clone()).collect();
        return Some((span, texts, burst));
    }
    None
}

/// Returns the shell line with another pattern in its `burst` command: the pattern's options
/// replace `-s`, `-r`, `-i` and `-h`, the other options stay. `None` if the line has no `burst`
/// command.
fn with_pattern(line: &str, pattern: &Pattern) -> Option<String> {
    let (span, words, _) = burst_in(line)?;
    let mut kept = String::new();
    let mut at = words.iter().skip(1);
    while let Some(option) = at.next() {
        // `-a` is the only option without a value.
        if option == "-a" {
            kept += " -a";
            continue;
        }
        let value = at.next()?;
        if !["-s", "-r", "-i", "-h"].contains(&option.as_str()) {
            let _ = write!(kept, " {option} {value}");
        }
    }
    Some(format!(
        "{}burst {}{kept}{}",
        &line[..span.start],
        pattern.options(),
        &line[span.end..]
    ))
}

/// Returns a copy of the cell whose workload's `burst` command has another pattern; `None` if the
/// workload has no `burst` command.
fn with_burst(cell: &Cell, pattern: &Pattern) -> Option<Cell> {
    let line = with_pattern(&cell.spec.workload.line, pattern)?;
    let mut script = workload::parse(&line).ok()?;
    script.files = cell.spec.workload.files.clone();
    let mut cell = cell.clone();
    cell.spec.workload = script;
    Some(cell)
}

/// Searches for the burst pattern that costs most in the trials' cell, with CMA-ES over size, rate,
/// interval and hold time. Then runs the worst pattern with the watermarks of the sysctls too, so
/// that the policy's own can be compared with them.
///
/// # Errors
/// `Ok(Err)`: the workload has no `burst` command. `Err`: the user interrupted the search.
pub fn search(
    trials: &Trials<'_>,
    question: &Question,
) -> Result<Result<Found, Diagnostic>, Interrupted> {
    let cell = trials.cell();
    let Some((_, _, burst)) = burst_in(&cell.spec.workload.line) else {
        return Ok(Err(Diagnostic::placeless(
            "the workload has no `burst` command whose pattern could be searched",
            "accepted: an experiment whose `workload.command` holds one, such as experiments/auto-adversary.toml",
        )));
    };
    let zones = sim::run::engine_config(&cell.spec.machine).zones;
    // The largest burst in kB: a quarter of memory.
    let largest = mm::memory::watermark::lowmem_kbytes(&zones) / 4;
    // Each pattern is measured once only.
    let known: Mutex<BTreeMap<Pattern, Cost>> = Mutex::default();
    let table = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let cost = |pattern: &Pattern| -> Result<Cost, Interrupted> {
        if let Some(cost) = table().get(pattern) {
            return Ok(cost.clone());
        }
        let cell = with_burst(cell, pattern).ok_or(Interrupted)?;
        let cost = Cost::of(pattern, &trials.one(cell, question.runs)?);
        table().insert(*pattern, cost.clone());
        Ok(cost)
    };
    trials.phase(
        "searching bursts",
        question.budget as u64 * u64::from(question.runs),
    );
    let own = Pattern::of(&burst);
    let own = (own, cost(&own)?);
    minimize(
        trials,
        own.0.point(largest),
        question.budget,
        question.seed,
        &|| table().len(),
        &|point| match cost(&Pattern::at(point, largest)) {
            // The search minimises; the logarithm's offset keeps a cost of 0 finite.
            Ok(c) => -(1e-6 + c.of_kind(question.worst)).ln(),
            Err(Interrupted) => f64::NAN,
        },
    )?;
    let mut all: Vec<(Pattern, Cost)> = table().iter().map(|(p, c)| (*p, c.clone())).collect();
    let bad = |c: &Cost| c.of_kind(question.worst);
    all.sort_by(|a, b| bad(&b.1).total_cmp(&bad(&a.1)));
    let worst = all.first().cloned().ok_or(Interrupted)?;
    let found = with_burst(cell, &worst.0).ok_or(Interrupted)?;
    let mut plain = found.clone();
    plain.spec.policy.watermarks = Watermarks::Sysctl;
    let by_sysctl = Cost::of(&worst.0, &trials.one(plain, question.runs)?);
    trials.done();
    Ok(Ok(Found {
        cell: found,
        own,
        worst,
        by_sysctl,
        all,
    }))
}

/// Writes a cell as an experiment file that needs no other file. With the seed of the cell's
/// experiment, from which the seeds of iterations derive, the file gives the same runs again.
///
/// # Errors
/// Fails on values that TOML can't hold.
pub fn experiment_file(
    cell: &Cell,
    name: &str,
    iterations: u32,
    seed: u64,
) -> Result<String, toml::ser::Error> {
    #[derive(serde::Serialize)]
    struct Workload<'a> {
        command: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        membind: Option<u32>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        files: BTreeMap<&'a str, u64>,
    }
    #[derive(serde::Serialize)]
    struct Whole<'a> {
        name: &'a str,
        iterations: u32,
        seed: u64,
        policy: &'a str,
        filesystem: &'a str,
        sample_s: f64,
        time_limit_s: f64,
        monitors: bool,
        workload: Workload<'a>,
        params: BTreeMap<&'a str, f64>,
        policies: BTreeMap<&'a str, toml::Table>,
        machine: &'a sim::spec::Machine,
    }
    let spec = &cell.spec;
    let mut policy = toml::Table::try_from(&spec.policy)?;
    policy.remove("name");
    // The base is overridden: the table holds every switch of the policy.
    policy.insert("base".into(), "linux-3.0".into());
    let defaults = sim::Params::default();
    let own = sim::Params::TABLE.iter().filter_map(|info| {
        let value = spec.params.get(info.name)?;
        (defaults.get(info.name) != Some(value)).then_some((info.name, value))
    });
    toml::to_string(&Whole {
        name,
        iterations,
        seed,
        policy: &spec.policy.name,
        filesystem: &cell.filesystem,
        sample_s: spec.sample_ns as f64 / 1e9,
        time_limit_s: spec.time_limit_ns as f64 / 1e9,
        monitors: spec.monitors,
        workload: Workload {
            command: &spec.workload.line,
            membind: spec.membind,
            files: spec
                .workload
                .files
                .iter()
                .map(|f| (f.path.as_str(), f.len))
                .collect(),
        },
        params: own.collect(),
        policies: [(spec.policy.name.as_str(), policy)].into(),
        machine: &spec.machine,
    })
}

/// Describes the result of a search in words: the worst pattern as a command, and the costs of the
/// worst pattern under the policy, of the same with the sysctls' watermarks, and of the
/// experiment's own bursts.
pub fn text(found: &Found, question: &Question) -> String {
    let line = |what: &str, cost: &Cost| {
        format!(
            "  {what:<28} {:>8.0} direct reclaims, {:>6.2} a MiB, longest allocation {}{}\n",
            cost.direct,
            cost.direct_per_mib,
            time(cost.worst_ns),
            cost.failed
                .as_ref()
                .map_or(String::new(), |w| format!(", {w}"))
        )
    };
    let policy = &found.cell.policy;
    let mut out = format!(
        "The worst of {} burst patterns for {policy} ({} runs each, search seed {}):\n\n    {}\n\n",
        found.all.len(),
        question.runs,
        question.seed,
        found.cell.spec.workload.line,
    );
    out += &line(&format!("under {policy}"), &found.worst.1);
    out += &line("with the sysctls' watermarks", &found.by_sysctl);
    out += &line("the experiment's own bursts", &found.own.1);
    out
}

/// Returns the result of a search for the worst bursts as JSON: the command, and the patterns with
/// their costs.
pub fn json(found: &Found, question: &Question) -> Value {
    let of = |(p, c): &(Pattern, Cost)| json!({ "pattern": p, "cost": c });
    json!({
        "lowmark": env!("CARGO_PKG_VERSION"),
        "seed": question.seed,
        "runs": question.runs,
        "policy": found.cell.policy,
        "command": found.cell.spec.workload.line,
        "worst": of(&found.worst),
        "worst_with_sysctl_watermarks": found.by_sysctl,
        "own": of(&found.own),
        "all": found.all.iter().map(of).collect::<Vec<_>>(),
    })
}

/// Returns the files of the results folder of a search: the experiment with the worst pattern, the
/// result in words, all patterns as CSV, and the result as JSON.
///
/// # Errors
/// Fails on values that TOML can't hold.
pub fn files(
    found: &Found,
    question: &Question,
    experiment: &Experiment,
) -> Result<Vec<File>, toml::ser::Error> {
    let mut csv = Csv::default();
    csv.row([
        "size_kbytes",
        "rate_kbytes_per_s",
        "interval_us",
        "hold_us",
        "direct_reclaims",
        "direct_reclaims_per_mib",
        "longest_allocation_ns",
    ]);
    for (p, c) in &found.all {
        csv.row([
            p.size_kbytes.to_string(),
            p.rate_kbytes.map_or(String::new(), |r| r.to_string()),
            p.interval_us.to_string(),
            p.hold_us.to_string(),
            c.direct.to_string(),
            c.direct_per_mib.to_string(),
            c.worst_ns.to_string(),
        ]);
    }
    let file = experiment_file(
        &found.cell,
        &experiment.name,
        question.runs,
        experiment.seed,
    )?;
    Ok(vec![
        File::new("adversary.toml", file),
        File::new("adversary.txt", text(found, question)),
        File::new("patterns.csv", csv.into_bytes()),
        File::new("results.json", format!("{:#}\n", json(found, question))),
    ])
}
