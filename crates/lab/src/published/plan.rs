//! Plans the runs that the rows of a series ask for.
//!
//! Every row is assigned to one experiment of its series: one with the row's workload and machine,
//! and with monitors if the row was taken with monitors. Values that the experiment lacks and the
//! row asks for are added to it: filesystems and policies by their names, threads by the formula of
//! their label where the experiment's command takes `$threads`, monitors, and other machines where
//! the experiment is said to hold for any. Cells that no row asks for are left out: the results of
//! a cell do not depend on the others. A row whose threads are `all` is the sum over the threads
//! that the experiment's own file names.

use super::series::{Series, Template};
use super::table::PublishedRow;
use crate::diagnostic::{Diagnostic, Source};
use crate::experiment::{self, Overrides, Threads, quoted};
use crate::figures::stats;
use crate::figures::values::{completed, counter, metric};
use crate::model::{Cell, Experiment, Outcomes};
use sim::RunResult;
use sim::account::{TaskClass, TaskTime};
use std::collections::{BTreeMap, BTreeSet};

/// The label of threads in rows for a program that is run with each number of threads in turn.
const ALL_THREADS: &str = "all";

/// The runs for a series.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The runs, in the order of the series' experiments.
    pub runs: Vec<Run>,
    /// The index of the run for each row, or the reason why there is none.
    pub rows: Vec<Result<usize, String>>,
}

/// One run of a plan.
#[derive(Debug, Clone)]
pub struct Run {
    /// The experiment, with the cells that some row asks for.
    pub experiment: Experiment,
    /// The labels of threads in the experiment's file, over which `all` sums.
    sweep: Vec<String>,
}

/// Plans the runs that give the engine's values for the rows of a published series, and the run
/// that each row takes its figure from. `iterations`, if given, replaces the experiments' own
/// numbers.
///
/// # Errors
/// Fails if an experiment of the series can't be read.
pub fn plan(series: &Series, iterations: Option<u32>) -> Result<Plan, Diagnostic> {
    let mut experiments = Vec::new();
    for template in &series.about.experiment {
        experiments.push(Base::new(series, template)?);
    }
    let mut rows: Vec<Result<usize, String>> = Vec::new();
    // Rows of the same run, by experiment, machine and monitors.
    let mut groups: BTreeMap<(usize, String, bool), Vec<usize>> = BTreeMap::new();
    for (i, row) in series.rows.iter().enumerate() {
        rows.push(match home(series, &experiments, row) {
            Ok((at, machine)) => {
                let monitors = experiments[at].monitors || row.monitors;
                groups.entry((at, machine, monitors)).or_default().push(i);
                Ok(0)
            }
            Err(why) => Err(why),
        });
    }
    let mut runs = Vec::new();
    for ((at, machine, monitors), of_group) in groups {
        let base = &experiments[at];
        let mut wider = Wider::new(base, &machine, monitors);
        for &i in &of_group {
            if let Err(why) = wider.take(series, &series.rows[i]) {
                rows[i] = Err(why);
            }
        }
        let mut run = wider.run(series)?;
        let wanted = |cell: &Cell| {
            let mut own = of_group.iter().filter(|&&i| rows[i].is_ok());
            own.any(|&i| is_of(&series.rows[i], cell, &run.sweep))
        };
        let kept = run.experiment.cells.iter().filter(|c| wanted(c));
        run.experiment.cells = kept.cloned().collect();
        run.experiment.iterations = iterations.unwrap_or(run.experiment.iterations);
        // The rows of this group, which no error has dropped, take their figures from this run.
        let index = runs.len();
        let cells = &run.experiment.cells;
        for &i in &of_group {
            if rows[i].is_ok() {
                let row = &series.rows[i];
                let found = cells.iter().any(|c| is_of(row, c, &run.sweep));
                rows[i] = found.then_some(index).ok_or_else(|| no_cell(base, row));
            }
        }
        if !run.experiment.cells.is_empty() {
            runs.push(run);
        }
    }
    Ok(Plan { runs, rows })
}

/// Returns the reason why a row has no run: its experiment has no cell with the row's names.
fn no_cell(base: &Base<'_>, row: &PublishedRow) -> String {
    format!(
        "{} has no cell of machine `{}`, threads `{}`, filesystem `{}` and policy `{}`",
        base.template.file, row.machine, row.threads, row.filesystem, row.policy
    )
}

/// Returns true if the name in a published row and the name in a cell are equal; an empty one
/// matches any.
fn same(published: &str, run: &str) -> bool {
    published.is_empty() || run.is_empty() || published == run
}

/// Returns true if a cell has the machine, workload, threads, filesystem and policy of a published
/// row. `sweep` lists the threads that `all` stands for.
fn is_of(row: &PublishedRow, cell: &Cell, sweep: &[String]) -> bool {
    let threads = match &row.threads[..] {
        ALL_THREADS => sweep.contains(&cell.threads),
        label => same(label, &cell.threads),
    };
    threads
        && same(&row.machine, &cell.machine)
        && same(&row.filesystem, &cell.filesystem)
        && same(&row.workload, &cell.workload)
        && cell.policy == row.policy
}

/// An experiment of a series as its file has it.
struct Base<'a> {
    template: &'a Template,
    source: Source,
    own: Experiment,
    /// True if a cell of it runs with monitors.
    monitors: bool,
    /// True if its command takes the number of threads.
    counts_threads: bool,
}

impl<'a> Base<'a> {
    /// Reads an experiment of a series from the file that `template` names.
    fn new(series: &Series, template: &'a Template) -> Result<Self, Diagnostic> {
        let (shown, text) = series.file(&template.file).map_err(|why| {
            let accepted = "accepted: files beside series.toml, or those of the project";
            Diagnostic::placeless(why, accepted)
        })?;
        let source = Source::new(shown, text);
        let own = parse(series, &source, Vec::new())?;
        Ok(Self {
            monitors: own.cells.iter().any(|c| c.spec.monitors),
            counts_threads: experiment::counts_threads(&source)?,
            template,
            source,
            own,
        })
    }

    /// Returns the different values of one column of the experiment's cells, which `of` selects.
    fn names(&self, of: fn(&Cell) -> &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for cell in &self.own.cells {
            if !all.iter().any(|known| known == of(cell)) {
                all.push(of(cell).to_owned());
            }
        }
        all
    }

    fn has(&self, of: fn(&Cell) -> &str, name: &str) -> bool {
        self.own.cells.iter().any(|c| same(name, of(c)))
    }
}

/// Reads an experiment of a series, with the settings `set` (as for `--set`) laid over it.
fn parse(series: &Series, source: &Source, set: Vec<String>) -> Result<Experiment, Diagnostic> {
    let overrides = Overrides {
        set,
        ..Overrides::default()
    };
    experiment::parse(source, &|name| series.file(name), &overrides)
}

/// Returns the experiment that gives a published row's figure, as its index in `experiments`, and
/// the machine to set in it; an empty name: the experiment's own machine. Prefers an experiment
/// that has the row's machine over one that can run on any.
fn home(
    series: &Series,
    experiments: &[Base<'_>],
    row: &PublishedRow,
) -> Result<(usize, String), String> {
    let runs: Vec<(usize, &Base<'_>)> = experiments
        .iter()
        .enumerate()
        .filter(|(_, b)| b.has(|c| &c.workload, &row.workload) && (row.monitors || !b.monitors))
        .collect();
    if runs.is_empty() {
        return Err(format!(
            "no experiment of the series runs `{}`",
            row.workload
        ));
    }
    // Prefer experiments that agree with the row about monitors.
    let first = |of: &dyn Fn(&Base<'_>) -> bool| {
        let watched = runs
            .iter()
            .find(|(_, b)| of(b) && b.monitors == row.monitors);
        watched
            .or_else(|| runs.iter().find(|(_, b)| of(b)))
            .map(|r| r.0)
    };
    if let Some(at) = first(&|b| b.has(|c| &c.machine, &row.machine)) {
        return Ok((at, String::new()));
    }
    let any = first(&|b| b.template.any_machine).ok_or_else(|| {
        format!(
            "no experiment of the series runs `{}` on machine `{}`",
            row.workload, row.machine
        )
    })?;
    series.file(&machine_file(&row.machine))?;
    Ok((any, row.machine.clone()))
}

/// Returns the path of the file that describes a machine.
fn machine_file(name: &str) -> String {
    format!("machines/{name}.toml")
}

/// An experiment, widened with values that rows ask for beyond its file.
struct Wider<'a> {
    base: &'a Base<'a>,
    /// Settings that are needed in any case, as `--set` takes them.
    set: Vec<String>,
    /// The columns that rows may widen; the names of the experiment's own file come first.
    columns: [Column; 3],
    /// Names that were tried, with the result.
    tried: BTreeMap<(&'static str, String), Result<(), String>>,
}

struct Column {
    /// The key of the experiment file.
    key: &'static str,
    names: Vec<String>,
    widened: bool,
}

impl Column {
    /// Returns the `--set` argument that gives the column's key these names.
    fn setting(&self, names: &[String]) -> String {
        let list =
            serde_json::to_string(names).expect("strings have a JSON form, and TOML's is it");
        format!("{}={list}", self.key)
    }
}

impl<'a> Wider<'a> {
    /// Begins with the experiment's own values. `machine`, unless empty, replaces its machines, and
    /// monitors are switched on if asked for; both are added to the experiment's name.
    fn new(base: &'a Base<'a>, machine: &str, monitors: bool) -> Self {
        let mut set = Vec::new();
        let mut name = base.own.name.clone();
        if !machine.is_empty() {
            set.push(format!("machine={}", quoted(&machine_file(machine))));
            name = format!("{name}-{machine}");
        }
        if monitors && !base.monitors {
            set.push("monitors=true".into());
            name = format!("{name}-monitors");
        }
        if !set.is_empty() {
            set.push(format!("name={}", quoted(&name)));
        }
        let column = |key, of: fn(&Cell) -> &str| Column {
            key,
            names: base.names(of),
            widened: false,
        };
        Self {
            base,
            set,
            columns: [
                column("filesystem", |c| &c.filesystem),
                column("policy", |c| &c.policy),
                column("workload.threads", |c| &c.threads),
            ],
            tried: BTreeMap::new(),
        }
    }

    /// Adds the filesystem, policy and threads of a published row to the experiment's columns, if
    /// they are not there yet.
    ///
    /// # Errors
    /// Returns the reason why the row can't be run.
    fn take(&mut self, series: &Series, row: &PublishedRow) -> Result<(), String> {
        let asked = [&row.filesystem, &row.policy, &row.threads];
        for (i, name) in asked.into_iter().enumerate() {
            let column = &self.columns[i];
            let is_all = column.key == "workload.threads" && name == ALL_THREADS;
            if is_all || column.names.iter().any(|own| same(name, own)) {
                continue;
            }
            let outcome = match self.tried.get(&(column.key, name.clone())) {
                Some(outcome) => outcome.clone(),
                None => {
                    let outcome = self.try_name(series, column, name);
                    self.tried
                        .insert((column.key, name.clone()), outcome.clone());
                    outcome
                }
            };
            outcome?;
            let column = &mut self.columns[i];
            column.names.push(name.clone());
            column.widened = true;
        }
        Ok(())
    }

    /// Checks that the experiment can be read with `name` as another value in a column (filesystem,
    /// policy or threads), and returns the reason if it can't.
    fn try_name(&self, series: &Series, column: &Column, name: &str) -> Result<(), String> {
        let file = &self.base.template.file;
        if column.key == "workload.threads" && !self.base.counts_threads {
            let own = column.names.join(", ");
            return Err(format!("{file} runs with threads {own} only, not {name}"));
        }
        if column.key == "workload.threads" && Threads::parse(name).is_none() {
            return Err(format!(
                "threads `{name}` is not a number of processes or threads"
            ));
        }
        let mut set = self.set.clone();
        set.push(column.setting(&[name.to_owned()]));
        let why = |e: Diagnostic| format!("{file}: {}", e.message);
        parse(series, &self.base.source, set)
            .map(|_| ())
            .map_err(why)
    }

    /// Builds the run: the experiment with all values that rows added to its columns.
    fn run(self, series: &Series) -> Result<Run, Diagnostic> {
        let sweep = self.base.names(|c| &c.threads);
        let mut set = self.set;
        let widened = self.columns.iter().filter(|c| c.widened);
        set.extend(widened.map(|c| c.setting(&c.names)));
        let experiment = match set.is_empty() {
            true => self.base.own.clone(),
            false => parse(series, &self.base.source, set)?,
        };
        Ok(Run { experiment, sweep })
    }
}

impl Plan {
    /// Leaves out the cells that no wanted row asks for, and runs without cells. `wanted` takes the
    /// index of a row in its series. The results of a cell do not depend on the others.
    pub fn keep(&mut self, series: &Series, wanted: impl Fn(usize) -> bool) {
        for (i, run) in self.rows.iter_mut().enumerate() {
            if run.is_ok() && !wanted(i) {
                *run = Err("left out".into());
            }
        }
        let runs = std::mem::take(&mut self.runs);
        for (at, mut run) in runs.into_iter().enumerate() {
            let own = |i: &usize| self.rows[*i] == Ok(at);
            let own: Vec<usize> = (0..self.rows.len()).filter(own).collect();
            if own.is_empty() {
                continue;
            }
            let sweep = &run.sweep;
            let asked = |c: &Cell| own.iter().any(|&i| is_of(&series.rows[i], c, sweep));
            run.experiment.cells.retain(asked);
            for i in own {
                self.rows[i] = Ok(self.runs.len());
            }
            self.runs.push(run);
        }
    }

    /// Shortens the plan for a quick check: keeps the first cell of each policy and filesystem of
    /// each experiment, and ends each run after at most `seconds` simulated seconds.
    pub fn shorten(&mut self, seconds: u32) {
        for run in &mut self.runs {
            let mut seen = BTreeSet::new();
            let cells = &mut run.experiment.cells;
            cells.retain(|cell| seen.insert((cell.policy.clone(), cell.filesystem.clone())));
            for cell in cells {
                let limit = &mut cell.spec.time_limit_ns;
                let short = u64::from(seconds) * 1_000_000_000;
                *limit = match *limit {
                    0 => short,
                    own => own.min(short),
                };
            }
        }
    }

    /// Sets the seeds of the draw with this number, from 1: the first draw has the seeds of the
    /// experiments' files, each further draw the seed after the one before.
    pub fn draw(&mut self, number: u32) {
        for run in &mut self.runs {
            let seed = &mut run.experiment.seed;
            *seed = seed.wrapping_add(u64::from(number.saturating_sub(1)));
        }
    }

    /// Returns the engine's value for the row with this index in the series. `outcomes` are those
    /// of the plan's runs, in their order.
    ///
    /// # Errors
    /// Returns the reason why there is no value.
    pub fn measure(
        &self,
        row: usize,
        series: &Series,
        outcomes: &[Outcomes],
    ) -> Result<f64, String> {
        let run = self.rows[row].clone()?;
        let outcomes = outcomes.get(run).ok_or("the run was left out")?;
        measure(&series.rows[row], outcomes, &self.runs[run].sweep)
    }

    /// Returns the engine's value of every row, or the reason why there is none.
    pub fn values(&self, series: &Series, outcomes: &[Outcomes]) -> Vec<Result<f64, String>> {
        let rows = 0..series.rows.len();
        rows.map(|i| self.measure(i, series, outcomes)).collect()
    }
}

/// Returns the engine's value of a published row, from the outcomes `of` an experiment. `sweep`
/// lists the labels of threads that the row's label `all` stands for, whose values are added up.
///
/// # Errors
/// Returns the reason why there is no value.
pub fn measure(row: &PublishedRow, of: &Outcomes, sweep: &[String]) -> Result<f64, String> {
    let cells = of.experiment.cells.iter().zip(&of.results);
    let row_cells = cells.filter(|(c, _)| is_of(row, c, sweep));
    let mut values = row_cells.map(|(_, results)| value(row, results));
    let not_run = || Err("no cell that was run is of this row".to_owned());
    if row.threads != ALL_THREADS {
        return values.next().unwrap_or_else(not_run);
    }
    // `all` stands for cells that run one after the other, so their values add up.
    let all: Vec<f64> = values.collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => not_run(),
        false => Ok(all.iter().sum()),
    }
}

/// Computes a published row's figure from one cell's iterations: by the row's `metric`, a report
/// row, metric or counter, optionally followed by a statistic (`min`, `median`, …; else the
/// mean). Fails with a reason if no completed iteration has a value.
fn value(row: &PublishedRow, results: &[Option<RunResult>]) -> Result<f64, String> {
    // The name of a report row includes the statistic over a program's loops; over iterations a
    // mean is taken. A metric of the program is preferred to a row of the same name.
    let reported = metric(results, &row.metric);
    if reported.is_empty() && crate::rows::definition::row(&row.metric).is_some() {
        let values = crate::rows::values(results, &row.metric)?;
        return stats::summary(&values)
            .map(|s| s.mean)
            .ok_or_else(|| "no iteration completed".into());
    }
    let (name, how) = match row.metric.rsplit_once(' ') {
        Some((name, how @ ("min" | "median" | "max" | "mean" | "stddev"))) => (name, how),
        _ => (row.metric.as_str(), "mean"),
    };
    let mut values = metric(results, name);
    if values.is_empty() {
        values = counter(results, name);
    }
    if values.is_empty() {
        values = cpu_seconds(results, name);
    }
    let s =
        stats::summary(&values).ok_or_else(|| format!("no completed iteration gave `{name}`"))?;
    Ok(match how {
        "min" => s.min,
        "median" => s.median,
        "max" => s.max,
        "stddev" => s.sd,
        _ => s.mean,
    })
}

/// Returns user or system time of the workload's processes in seconds, as time(1) would measure it;
/// `name` is `user_cpu` or `system_cpu`, others give no values.
fn cpu_seconds(results: &[Option<RunResult>], name: &str) -> Vec<f64> {
    let of = |t: &TaskTime| match name {
        "user_cpu" => Some(t.user),
        "system_cpu" => Some((t.outside.cpu + t.in_reclaim.cpu).saturating_sub(t.user)),
        _ => None,
    };
    completed(results)
        .filter_map(|r| r.tasks.iter().find(|t| t.class == TaskClass::Workload))
        .filter_map(|t| of(t).map(|ns| ns as f64 / 1e9))
        .collect()
}

#[cfg(test)]
mod tests;
