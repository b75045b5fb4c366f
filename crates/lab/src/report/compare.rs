//! Compares policies as text: the answer first, then the table, then the warnings.

use super::number::{plain_number, short};
use super::page;
use crate::figures::claim::{SummaryTable, Verdict, baselines, ending, is_equal};
use crate::figures::stats::{self, ALPHA, Summary};
use crate::figures::values::{completed, counter, metric, tally};
use crate::model::Outcomes;
use crate::terminal::{Col, Screen, readable, spaced, titled};
use serde::Serialize;
use sim::{Outcome, RunResult};
use std::fmt::Write as _;
use workload::report::{Median, Medians};

/// One cell of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedCell {
    /// The group: every axis but the policy.
    pub group: String,
    /// The policy.
    pub policy: String,
    /// The policy's or value's text in the compared column.
    #[serde(skip)]
    pub side: String,
    /// True for the baseline of its group.
    pub baseline: bool,
    /// Iterations that completed.
    pub completed: usize,
    /// Endings other than completion, in words, and the number of iterations that ended so.
    pub other_endings: Vec<(String, usize)>,
    /// Elapsed seconds; `None` if no iteration completed.
    pub elapsed: Option<Summary>,
    /// Change of the mean against the baseline, as a share; `None` for the baseline.
    pub change: Option<f64>,
    /// The change's confidence interval; `None` if it can't be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_interval: Option<(f64, f64)>,
    /// Mann–Whitney p-value against the baseline.
    pub p: Option<f64>,
    /// The claim that follows; unclear for the baseline.
    #[serde(skip)]
    verdict: Verdict,
    /// nr_vmscan_write; `None` if no run has it.
    pub nr_vmscan_write: Option<Summary>,
    /// pgactivate; `None` if no run has it.
    pub pgactivate: Option<Summary>,
    /// Indexes of outlying iterations by elapsed time.
    pub outliers: Vec<usize>,
    /// Indexes of iterations that fall into two groups by elapsed time, the shorter ones first;
    /// `None` where they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<[Vec<usize>; 2]>,
}

/// The comparison of all cells of an experiment.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Rows in matrix order.
    pub rows: Vec<ComparedCell>,
    /// Iterations of each cell that the experiment asks for.
    pub iterations: u32,
    /// The heading of the compared column.
    #[serde(skip)]
    pub compared: String,
    /// The elapsed times from which the rows are computed.
    #[serde(skip)]
    elapsed: SummaryTable,
}

impl ComparedCell {
    /// Returns the reason why no iteration of the cell completed, to be added to a sentence, such
    /// as `: POLICY ended with 3 out of memory`; empty if none ran.
    fn endings(&self) -> String {
        let all: Vec<String> = self
            .other_endings
            .iter()
            .map(|(e, n)| format!("{n} {e}"))
            .collect();
        if all.is_empty() {
            return String::new();
        }
        format!(": {} ended with {}", self.policy, all.join(", "))
    }
}

impl Comparison {
    /// Compares the cells of an experiment that was run with their baselines, by elapsed time: a
    /// row for each cell, in matrix order, with the change, its p-value and the endings of runs.
    pub fn new(outcomes: &Outcomes) -> Self {
        let cells = outcomes.experiment.cells.iter().zip(&outcomes.results);
        let elapsed = SummaryTable::elapsed(outcomes);
        let rows = cells
            .zip(&elapsed.rows)
            .map(|((cell, results), elapsed)| {
                let endings = results.iter().flatten().filter_map(|r| ending(&r.outcome));
                ComparedCell {
                    group: cell.group(),
                    policy: cell.said(),
                    side: cell.side().to_owned(),
                    baseline: cell.baseline,
                    completed: elapsed.samples.len(),
                    other_endings: tally(endings.map(str::to_owned)),
                    change: elapsed.comparison.map(|c| c.change),
                    change_interval: elapsed.comparison.and_then(|c| c.interval),
                    p: elapsed.comparison.and_then(|c| c.p),
                    verdict: elapsed.comparison.map_or(Verdict::Unclear, |c| c.verdict),
                    nr_vmscan_write: stats::summary(&counter(results, "nr_vmscan_write")),
                    pgactivate: stats::summary(&counter(results, "pgactivate")),
                    outliers: stats::outliers(&elapsed.samples),
                    groups: groups(results, &elapsed.samples),
                    elapsed: stats::summary(&elapsed.samples),
                }
            })
            .collect();
        Self {
            rows,
            iterations: outcomes.experiment.iterations,
            compared: outcomes.experiment.compared().to_owned(),
            elapsed,
        }
    }

    /// Returns a sentence for each cell except baselines: whether it is faster or slower than its
    /// baseline, by how much, how sure.
    pub fn answers(&self) -> Vec<String> {
        let base = |group: &str| self.rows.iter().find(|r| r.baseline && r.group == group);
        self.rows
            .iter()
            .filter(|r| !r.baseline)
            .map(|r| {
                let b = base(&r.group);
                let (Some(b), Some(e), Some(p), Some(change)) = (b, &r.elapsed, r.p, r.change)
                else {
                    let of = if r.completed == 0 { Some(r) } else { b };
                    let why = of.map_or(String::new(), ComparedCell::endings);
                    return format!("{}: {} can't be compared{why}", r.group, r.policy);
                };
                // The baseline's mean in seconds.
                let be = b.elapsed.as_ref().map_or(f64::NAN, |s| s.mean);
                let numbers = format!(
                    "{} against {}, {}, n={}+{}",
                    time(e.mean),
                    time(be),
                    stats::p_said(p),
                    r.completed,
                    b.completed
                );
                if p < ALPHA && is_equal(change) {
                    format!(
                        "{}: {} and {} differ by less than 0.05 % ({} against {})",
                        r.group,
                        r.policy,
                        b.policy,
                        time(e.mean),
                        time(be)
                    )
                } else if r.verdict.is_claimed() {
                    let word = if change < 0.0 { "faster" } else { "slower" };
                    format!(
                        "{}: {} is {:.1} % {word} than {} ({numbers})",
                        r.group,
                        r.policy,
                        change.abs() * 100.0,
                        b.policy
                    )
                } else {
                    format!(
                        "{}: no difference between {} and {} can be claimed ({numbers})",
                        r.group, r.policy, b.policy
                    )
                }
            })
            .collect()
    }

    /// Returns the whole comparison as text for a screen.
    pub fn to_text(&self, screen: Screen) -> String {
        let mut out = String::new();
        for a in self.answers() {
            out += &screen.wrapped(&a);
        }
        let elapsed = self.rows.iter().filter_map(|r| r.elapsed.as_ref());
        let (by, unit) = readable("s", elapsed.map(|e| e.mean).fold(0.0, f64::max));
        let mut grid = screen.grid(&[
            Col::Words(""),
            Col::Words(&self.compared),
            Col::Figure(&format!("elapsed [{unit}]")),
            Col::Figure("change"),
            Col::Figure("95 % interval"),
            Col::Figure("p"),
            Col::Figure("n"),
            Col::Figure("nr_vmscan_write"),
            Col::Words("other endings"),
        ]);
        // True if all rows have the same text in a column, which is then left empty.
        let same = |f: &dyn Fn(&ComparedCell) -> String| {
            self.rows.iter().all(|r| f(r) == f(&self.rows[0]))
        };
        let groups = !same(&|r| r.group.clone());
        let numbers = !same(&|r| r.completed.to_string());
        for r in &self.rows {
            let endings: Vec<String> = r
                .other_endings
                .iter()
                .map(|(e, n)| format!("{n} {e}"))
                .collect();
            let claimed = r.verdict.is_claimed();
            let [change, interval] = match r.change {
                Some(c) => changed(c, r.change_interval, claimed),
                None => [String::new(), String::new()],
            };
            let good = r.change.filter(|_| claimed).map(|c| c < 0.0);
            let written = r.nr_vmscan_write.as_ref();
            grid.row([
                (group_shown(r.group.clone(), groups), None),
                (r.side.clone(), None),
                (
                    r.elapsed
                        .as_ref()
                        .map_or("-".into(), |s| spread(s.mean / by, s.sd / by)),
                    None,
                ),
                (change, good.map(|g| Some(g).into())),
                (interval, None),
                (r.p.map_or(String::new(), stats::p_value), None),
                (group_shown(r.completed.to_string(), numbers), None),
                (
                    written.map_or("unsupported".into(), |s| s.median.to_string()),
                    None,
                ),
                (endings.join(", "), None),
            ]);
        }
        let _ = writeln!(out, "\n{}", grid.text());
        out += &super::along::text([&self.elapsed], &self.compared, screen);
        out + &self.notes(screen)
    }

    /// Returns the warnings, a line each.
    fn notes(&self, screen: Screen) -> String {
        let mut out = String::new();
        for w in self.warnings() {
            out += &screen.wrapped(&format!("note: {w}"));
        }
        out
    }

    /// Returns the warnings about the comparison, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        let completed = self.rows.iter().map(|r| r.completed).filter(|n| *n > 0);
        out.extend(completed.min().and_then(stats::warning_of_few));
        out.extend(self.cautions());
        out
    }

    /// Returns the warnings about samples: outlying iterations, and those that fall into two
    /// groups.
    pub fn cautions(&self) -> Vec<String> {
        let mut out = Vec::new();
        for r in self.rows.iter().filter(|r| !r.outliers.is_empty()) {
            let which: Vec<String> = r.outliers.iter().map(|i| (i + 1).to_string()).collect();
            out.push(format!(
                "{} {}: outlying iterations {} (kept)",
                r.group,
                r.policy,
                which.join(", ")
            ));
        }
        for (r, [short, long]) in self
            .rows
            .iter()
            .filter_map(|r| Some((r, r.groups.as_ref()?)))
        {
            out.push(format!(
                "{} {}: the iterations fall into two groups by elapsed time, of {} and {}: their \
                 mean says little; `lowmark diverge EXPERIMENT {}:{} {}:{}` shows where they diverge",
                r.group,
                r.policy,
                short.len(),
                long.len(),
                r.policy,
                short[0],
                r.policy,
                long[0]
            ));
        }
        out
    }
}

/// Returns the indexes of the iterations in each of two groups of elapsed times; `None` if they do
/// not fall into two groups. `samples` are the elapsed times of the completed iterations in
/// `results`, in order.
fn groups(results: &[Option<RunResult>], samples: &[f64]) -> Option<[Vec<usize>; 2]> {
    let completed = |(_, r): &(usize, &Option<RunResult>)| {
        let ended = r.as_ref().map(|r| &r.outcome);
        ended == Some(&Outcome::Completed)
    };
    let numbers: Vec<usize> = results
        .iter()
        .enumerate()
        .filter(completed)
        .map(|r| r.0)
        .collect();
    if numbers.len() != samples.len() {
        return None;
    }
    let number = |group: Vec<usize>| group.into_iter().map(|i| numbers[i]).collect();
    stats::two_groups(samples).map(|both| both.map(number))
}

/// Returns a text table with a row for each cell that reports the metric `of` of `table`: medians
/// of the table's metrics over the iterations, and the number of iterations that report `of`; empty
/// if no cell does.
fn medians(outcomes: &Outcomes, table: &Medians, screen: Screen) -> String {
    let Medians { title, of, columns } = *table;
    let heads = [Col::Words(""), Col::Words(outcomes.experiment.compared())].into_iter();
    let figures = columns.iter().map(|c| Col::Figure(c.header));
    let heads: Vec<Col<'_>> = heads.chain(figures).chain([Col::Figure("n")]).collect();
    let mut grid = screen.grid(&heads);
    let cells = &outcomes.experiment.cells;
    let several = cells.iter().any(|c| c.group() != cells[0].group());
    for (cell, results) in outcomes.experiment.cells.iter().zip(&outcomes.results) {
        let n = metric(results, of).len();
        if n == 0 {
            continue;
        }
        let figures = columns.iter().map(|c| {
            let summary = stats::summary(&metric(results, c.metric));
            summary.map_or("-".into(), |s| match s.median {
                0.0 if !c.zero_counts => "0".into(),
                median => format!("{:.*}", c.digits, median / c.unit),
            })
        });
        let row = [group_shown(cell.group(), several), cell.side().to_owned()]
            .into_iter()
            .chain(figures);
        grid.plain(row.chain([n.to_string()]));
    }
    if grid.is_empty() {
        return String::new();
    }
    format!("\n{title}: medians\n{}\n", grid.text())
}

/// Formats a change and its confidence interval, in this order, in per cent; `change` and
/// `interval` are shares. The change is `~` if it is not `claimed`, and empty if it is not finite;
/// the interval is shown for a claimed change only.
pub(crate) fn changed(change: f64, interval: Option<(f64, f64)>, claimed: bool) -> [String; 2] {
    let percent = |x: f64| format!("{:+.1}", x * 100.0);
    let change = match (claimed, change.is_finite()) {
        (true, true) => format!("{} %", percent(change)),
        (false, _) => "~".into(),
        (true, false) => String::new(),
    };
    // An interval beside a difference that cannot be claimed would be read as one.
    let interval = interval
        .filter(|_| claimed)
        .map_or_else(String::new, |(a, b)| {
            format!("{} … {}", percent(a), percent(b))
        });
    [change, interval]
}

/// Formats a mean and the standard deviation in per cent of it.
fn spread(mean: f64, sd: f64) -> String {
    match (mean, sd) {
        (0.0, _) => "0".into(),
        (_, 0.0) => short(mean),
        _ => format!("{} ±{:.0}%", short(mean), 100.0 * sd / mean.abs()),
    }
}

/// Returns the group's label if there are several groups; empty otherwise, because every line would
/// repeat it.
fn group_shown(group: String, several: bool) -> String {
    if several { group } else { String::new() }
}

/// Formats seconds in a unit in which they can be read.
fn time(seconds: f64) -> String {
    if seconds == 0.0 || seconds.abs() >= 1.0 || !seconds.is_finite() {
        return format!("{seconds:.1} s");
    }
    let (by, unit) = readable("s", seconds);
    format!("{:.1} {unit}", seconds / by)
}

/// Returns a sentence that compares cell `i` with its baseline (cell `base`) by the table's figure;
/// `None` if the cell has no comparison.
fn sentence(table: &SummaryTable, base: usize, i: usize) -> Option<String> {
    let claim = table.rows[i].comparison?;
    let word = match (table.is_good(claim.verdict), claim.verdict) {
        (Some(true), _) => "better",
        (Some(false), _) => "worse",
        // Some figures have no better direction.
        (None, Verdict::Less) => "less",
        (None, Verdict::More) => "more",
        (None, Verdict::Unclear | Verdict::TooFew) => "not to be claimed",
    };
    let means = [base, i].map(|cell| table.rows[cell].mean);
    // Means are divided by `by` and shown in `unit`.
    let (by, unit) = readable(&table.unit, means[0].abs().max(means[1].abs()));
    let [old, new] = means.map(|m| plain_number(m / by));
    let p = stats::p_said(claim.p?);
    let claimed = claim.verdict.is_claimed();
    let by_how_much = match (claimed && claim.change.is_finite(), claim.interval) {
        (false, _) => String::new(),
        (true, None) => format!(" by {:.1} %", claim.change.abs() * 100.0),
        (true, Some((a, b))) => {
            let mut ends = [a.abs() * 100.0, b.abs() * 100.0];
            ends.sort_by(f64::total_cmp);
            let whole = claim.change.abs() * 100.0;
            match a.signum() == b.signum() {
                true => format!(" by {whole:.1} % [{:.1} … {:.1}]", ends[0], ends[1]),
                false => format!(" by {whole:.1} %"),
            }
        }
    };
    let unit = spaced(unit);
    Some(format!(
        "{} {old} -> {new}{unit} ({word}{by_how_much}, {p})",
        table.metric
    ))
}

/// Returns, as text, the figures that the experiment's key `compare` names: a sentence for each
/// policy and place, and a table of means; empty if it names none.
pub fn figures_text(outcomes: &Outcomes, screen: Screen) -> String {
    if outcomes.experiment.figures.is_empty() {
        return String::new();
    }
    let (cells, tables) = (&outcomes.experiment.cells, page::summary(outcomes));
    let mut out = String::new();
    for (i, (cell, base)) in cells.iter().zip(baselines(cells)).enumerate() {
        let Some(base) = base else { continue };
        let told: Vec<String> = tables.iter().filter_map(|t| sentence(t, base, i)).collect();
        let (group, policy, against) = (cell.group(), cell.said(), cells[base].said());
        let told = if told.is_empty() {
            "nothing to compare".into()
        } else {
            told.join("; ")
        };
        out += &screen.wrapped(&format!("{group}: {policy} against {against}: {told}"));
    }
    let mut grid = screen.grid(&[
        Col::Words("figure"),
        Col::Words(""),
        Col::Words(outcomes.experiment.compared()),
        Col::Figure("mean ± sd"),
        Col::Figure("change"),
        Col::Figure("95 % interval"),
        Col::Figure("p"),
    ]);
    let several = cells.iter().any(|c| c.group() != cells[0].group());
    for t in &tables {
        let largest = t
            .rows
            .iter()
            .map(|r| r.mean.abs())
            .filter(|m| m.is_finite());
        let (by, unit) = readable(&t.unit, largest.fold(0.0, f64::max));
        // Shown in the figure's first row, and empty in the others.
        let mut name = titled(&t.metric, unit);
        for (r, cell) in t.rows.iter().zip(cells) {
            let c = r.comparison;
            let claimed = c.filter(|c| c.verdict.is_claimed());
            let [change, interval] = c.map_or([String::new(), String::new()], |c| {
                changed(c.change, c.interval, claimed.is_some())
            });
            let mean = match r.samples.is_empty() {
                true => "-".into(),
                false => spread(r.mean / by, r.sd / by),
            };
            grid.row([
                (std::mem::take(&mut name), None),
                (group_shown(cell.group(), several), None),
                (cell.side().to_owned(), None),
                (mean, None),
                (change, claimed.map(|c| t.is_good(c.verdict).into())),
                (interval, None),
                (
                    c.and_then(|c| c.p).map_or(String::new(), stats::p_value),
                    None,
                ),
            ]);
        }
    }
    let _ = writeln!(out, "\n{}", grid.text());
    let elapsed = |t: &&SummaryTable| t.metric != "elapsed";
    let compared = outcomes.experiment.compared();
    out += &super::along::text(tables.iter().filter(elapsed), compared, screen);
    for t in &tables {
        if t.rows.iter().all(|r| r.samples.is_empty()) {
            let _ = writeln!(out, "note: no completed run has `{}`", t.metric);
        }
    }
    out
}

/// Returns the summaries that the workload's own programs print, a line each, for the first
/// iteration of each cell that has any.
pub fn program_text(outcomes: &Outcomes) -> String {
    let mut out = String::new();
    for (cell, results) in outcomes.experiment.cells.iter().zip(&outcomes.results) {
        let told = completed(results).find_map(|r| {
            let figure = |name: &str| r.metrics.get(name).map(|m| m.value);
            let told: Vec<_> = workload::programs::summaries(&figure).collect();
            (!told.is_empty()).then_some(told)
        });
        for (program, text) in told.into_iter().flatten() {
            let _ = writeln!(out, "{program}, {} {}{text}", cell.group(), cell.said());
        }
    }
    out
}

/// Returns a text table of hit ratios and latencies of the page cache, for workloads that report
/// them: medians over the iterations; empty for others.
pub fn cache_text(outcomes: &Outcomes, screen: Screen) -> String {
    const MIB: f64 = (1 << 20) as f64;
    const TABLE: Medians = Medians {
        title: "Page cache",
        of: "read_again",
        columns: &[
            Median::share("hit ratio", "hit_ratio"),
            Median::share("read ahead", "readahead_hit_ratio"),
            Median::new("read p50 us", "read_latency_p50", 1.0, 1),
            Median::new("read p99 us", "read_latency_p99", 1.0, 1),
            Median::new("read max us", "read_latency_max", 1.0, 1),
            Median::new("write p50 us", "write_latency_p50", 1.0, 1),
            Median::new("write p99 us", "write_latency_p99", 1.0, 1),
            Median::new("write max us", "write_latency_max", 1.0, 1),
            Median::new("read from disk MiB", "read_from_disk", MIB, 1),
            Median::new("read again MiB", "read_again", MIB, 1),
        ],
    };
    medians(outcomes, &TABLE, screen)
}

/// Returns for each cell of which runs ended out of memory a sentence (how many, after how long),
/// and the kernel's report of the first of them.
pub(super) fn out_of_memory(outcomes: &Outcomes) -> impl Iterator<Item = (String, &str)> {
    let cells = outcomes.experiment.cells.iter().zip(&outcomes.results);
    cells.filter_map(|(cell, results)| {
        let ended = results.iter().flatten().filter_map(|r| match &r.outcome {
            Outcome::Oom { report } => Some(report),
            _ => None,
        });
        let ended: Vec<_> = ended.collect();
        let report = ended.first()?;
        let (first, rest) = report.split_once('\n').unwrap_or((report, ""));
        let sentence = format!(
            "{}: {} ran out of memory in {} of {} iterations; in the first: {first}",
            cell.group(),
            cell.said(),
            ended.len(),
            results.iter().flatten().count(),
        );
        Some((sentence, rest))
    })
}

/// Returns for each cell with runs that went on after the kernel had killed a process for memory a
/// sentence with the number of such runs, and the kernel's reports of the first of them.
pub(super) fn went_on(outcomes: &Outcomes) -> impl Iterator<Item = (String, &str)> {
    let cells = outcomes.experiment.cells.iter().zip(&outcomes.results);
    cells.filter_map(|(cell, results)| {
        let ran = results.iter().flatten();
        let mut killed = ran.clone().filter(|r| !r.kills.is_empty());
        let first = killed.next()?;
        let sentence = format!(
            "{}: {} went on after the OOM killer in {} of {} iterations; its reports in the first:",
            cell.group(),
            cell.said(),
            killed.count() + 1,
            ran.count(),
        );
        Some((sentence, first.kills.as_str()))
    })
}

/// Describes, as text, the runs in which memory ran out, those that ended so first: how many of
/// each cell, after how long, and the kernel's report of the first of all; empty if there are none.
pub fn oom_text(outcomes: &Outcomes) -> String {
    let mut out = String::new();
    for (sentence, rest) in out_of_memory(outcomes).chain(went_on(outcomes)) {
        // One complete report is enough to see the state of such a machine.
        let rest = if out.is_empty() { rest } else { "" };
        let _ = writeln!(out, "{sentence}");
        for line in rest.lines() {
            let _ = writeln!(out, "    {line}");
            // The report is shown up to the first kill.
            if line.contains("Killed process") {
                break;
            }
        }
    }
    if !out.is_empty() {
        out.insert(0, '\n');
    }
    out
}

/// Returns the tables that programs define for their figures, for workloads that have them: medians
/// over the iterations.
pub fn program_tables(outcomes: &Outcomes, screen: Screen) -> String {
    let tables = workload::programs::medians();
    tables
        .map(|table| medians(outcomes, &table, screen))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Cell;
    use crate::rows;
    use crate::runner::{fixture, iteration_seed};
    use sim::RunResult;
    use sim::result::Metric;

    /// Returns two cells of two iterations; the second cell's ran out of memory.
    fn outcomes() -> Outcomes {
        let mut experiment = fixture::experiment(2);
        experiment.cells.truncate(2);
        let run = |cell: &Cell, i| {
            let mut spec = cell.spec.clone();
            spec.seed = iteration_seed(&experiment, i);
            let mut r = fixture::simulate(&spec, &sim::Control::default());
            for (name, value) in [("response_p50", 1500.0), ("late_responses", 3.0)] {
                let unit = "us";
                r.metrics.insert(name.into(), Metric { unit, value });
            }
            r
        };
        let cells = experiment.cells.iter();
        let mut results: Vec<Vec<_>> = cells
            .map(|cell| (0..2).map(|i| Some(run(cell, i))).collect())
            .collect();
        for r in results[1].iter_mut().flatten() {
            r.metrics.insert(
                "responses".into(),
                Metric {
                    unit: "responses",
                    value: 50.0,
                },
            );
            r.outcome = Outcome::Oom {
                report: "order 0, 12 pages free".into(),
            };
        }
        Outcomes {
            experiment,
            results,
            host: Vec::new(),
            interrupted: false,
            build: None,
        }
    }

    #[test]
    fn two_groups_of_iterations_are_said_with_a_pair_to_look_at() {
        let mut o = outcomes();
        let first = o.results[1][0].clone().expect("a result");
        let run = |elapsed: f64| {
            let mut r = first.clone();
            r.outcome = Outcome::Completed;
            r.metrics.insert(
                "elapsed".into(),
                Metric {
                    unit: "s",
                    value: elapsed,
                },
            );
            Some(r)
        };
        o.results[1] = [145.0, 146.0, 100.0, 101.0].map(run).into();
        let warnings = Comparison::new(&o).warnings();
        let said = warnings
            .iter()
            .find(|w| w.contains("two groups"))
            .expect("a warning");
        let policy = &o.experiment.cells[1].policy;
        assert!(
            said.contains(&format!("diverge EXPERIMENT {policy}:2 {policy}:0`")),
            "{said}"
        );
    }

    #[test]
    fn what_ran_out_of_memory_is_said() {
        let mut o = outcomes();
        let text = oom_text(&o);
        assert!(
            text.contains("ran out of memory in 2 of 2 iterations"),
            "{text}"
        );
        assert!(text.contains("12 pages free"), "{text}");
        let answer = &Comparison::new(&o).answers()[0];
        assert!(answer.contains("ended with 2 out of memory"), "{answer}");
        o.results.truncate(1);
        o.experiment.cells.truncate(1);
        assert_eq!(oom_text(&o), "");
    }

    /// Figures that the experiment names come first, better or worse by their direction, and stand
    /// on the page, too.
    #[test]
    fn an_experiments_own_figures_answer_first() {
        let mut o = outcomes();
        assert_eq!(figures_text(&o, Screen::default()), "");
        o.experiment.figures = vec![rows::figure("walk_rate").unwrap()];
        assert!(
            figures_text(&o, Screen::default()).contains("note: no completed run has `walk_rate`")
        );
        o.experiment.figures = ["alloc_stall_rate_avg", "work_rate_avg"]
            .map(|name| rows::figure(name).unwrap())
            .into();
        let set = |r: &mut RunResult, stalls: f64, units: f64| {
            r.outcome = Outcome::Completed;
            for (name, value) in [("alloc_stall_rate_avg", stalls), ("work_rate_avg", units)] {
                let unit = "1/s";
                r.metrics.insert(name.into(), Metric { unit, value });
            }
        };
        // A claim needs this many iterations.
        for (cell, (stalls, units)) in o.results.iter_mut().zip([(50.0, 4.0), (0.5, 3.0)]) {
            let first = cell[0].clone();
            *cell = vec![first; 6];
            for (i, r) in cell.iter_mut().flatten().enumerate() {
                set(r, stalls + i as f64, units + i as f64 / 10.0);
            }
        }
        let text = figures_text(&o, Screen::default());
        let told = text.lines().next().unwrap();
        assert!(
            told.contains("alloc_stall_rate_avg 52.50 -> 3.000 1/s (better by 94.3 % ["),
            "{told}"
        );
        assert!(
            told.contains("work_rate_avg 4.250 -> 3.250 1/s (worse by 23.5 %"),
            "{told}"
        );
        let page = page::report(&o, &Comparison::new(&o));
        assert!(page.contains("against vanilla, alloc_stall_rate_avg: better."));
        assert!(page.contains("<b>work_rate_avg</b> in 1/s, higher is better"));
        assert!(!page.contains("<b>elapsed</b>"));
    }

    #[test]
    fn programs_say_what_they_have_to_say() {
        let mut o = outcomes();
        assert_eq!(program_text(&o), "");
        let r = o.results[0][0].as_mut().unwrap();
        for (name, value) in [("alloc_stall_rate_avg", 51.63), ("work_rate_avg", 5.24)] {
            r.metrics.insert(name.into(), Metric { unit: "", value });
        }
        let text = program_text(&o);
        assert!(
            text.starts_with("simoop, ") && text.ends_with("\n\n"),
            "{text}"
        );
        assert!(
            text.contains("alloc stall rate = NaN/sec (avg 51.63/sec)"),
            "{text}"
        );
    }

    #[test]
    fn response_times_are_shown_where_there_are_any() {
        let mut o = outcomes();
        assert_eq!(
            program_tables(&o, Screen::default()),
            "",
            "none completed with a response"
        );
        for r in o.results[1].iter_mut().flatten() {
            r.outcome = Outcome::Completed;
        }
        let text = program_tables(&o, Screen::default());
        assert!(text.contains("1.50") && text.contains(" 50 "), "{text}");
        assert_eq!(text.matches("patched").count(), 1, "{text}");
    }
}
