//! Laws that hold in the median: more memory never has more demand reads, and a faster disk never
//! writes a file more slowly. Nine seeds are compared first. If their medians break the law, four
//! times as many other seeds decide, because in a run that depends on a few waits of a second the
//! median of nine says little. Timed waits end at a tick, so a difference of up to a tick does not
//! count: of 18,000 machines three with 22 to 40 MiB wrote for 24 to 46 ms, and a part of a tick
//! longer on the faster disk.

use crate::case::Case;
use crate::dice::Dice;
use crate::law::{Law, once};
use crate::machine;
use crate::numbers::whole;
use crate::policy;
use crate::space::Space;
use lab::figures::stats::{mann_whitney, median_of};
use lab::model::{Cell, Experiment};
use lab::runner::iteration_seed;
use sim::spec::DiskKind;
use sim::{Outcome, Params, RunResult};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use toml::{Table, Value};

/// Number of seeds that are compared first.
const SEEDS: u32 = 9;
/// Number of seeds that decide.
const ANSWERS: u32 = 36;
/// Relative difference on the wrong side that a median may have by chance.
const TOLERANCE: f64 = 0.02;
/// Probability of a chance difference below which one counts.
const LEVEL: f64 = 0.001;

/// Draws a case for a law of medians: a machine and a policy like any other, but without faults and
/// extreme parameters, and with a workload that tests the law: random reads for [`Law::Memory`], a
/// written file for the disk's.
pub fn draw(law: Law, seed: u64, space: &Space) -> Case {
    let d = &mut Dice::new(seed, law.name());
    let mut machine = machine::machine(seed, space);
    let (policies, mut names) = policy::policies(seed, space, &machine);
    names.truncate(1);
    for key in ["params", "second", "sysctl", "swap"] {
        machine.table.remove(key);
    }
    let mut disk = Table::new();
    let kinds = space.choices("machine.disk.kind");
    disk.insert("kind".into(), d.pick(kinds).clone().into());
    disk.insert("capacity".into(), "64G".into());
    if disk["kind"].as_str() == Some("raid0") {
        disk.insert("members".into(), whole(2));
    }
    machine.table.insert("disk".into(), Value::Table(disk));
    let filesystem = d.pick(space.choices("filesystem")).clone();
    let mut table = Table::new();
    table.insert("name".into(), format!("swarm-{}-{seed}", law.name()).into());
    table.insert("iterations".into(), Value::Integer(1));
    table.insert("policy".into(), names.remove(0).into());
    table.insert("filesystem".into(), filesystem.into());
    table.insert("time_limit_s".into(), Value::Integer(600));
    table.insert("sample_s".into(), Value::Integer(0));
    if !policies.is_empty() {
        table.insert("policies".into(), Value::Table(policies));
    }
    let mut workload = Table::new();
    let mut beside = BTreeMap::new();
    if law == Law::Memory {
        let size = machine.memory * d.between(1, 4) / 2 / 4096 * 4096;
        let order = match d.between(0, 2) {
            0 => "rw=randread\nrandom_distribution=zipf:0.9\n",
            1 => "rw=randread\nnorandommap=1\n",
            _ => "rw=randread\nrandom_distribution=pareto:0.2\n",
        };
        let text = format!("[job]\n{order}bs=4k\nsize={size}\nio_size={}\n", size * 2);
        beside.insert("jobs.fio".into(), text.into_bytes());
        workload.insert("fio".into(), "jobs.fio".into());
    } else {
        let bytes = machine.memory * d.between(1, 8) / 2;
        let bs = d.between(1, 32) * 4096;
        let command = format!(
            "dd if=/dev/zero of=w bs={bs} count={} conv=fsync",
            bytes / bs + 1
        );
        workload.insert("command".into(), command.into());
    }
    table.insert("machine".into(), Value::Table(machine.table));
    table.insert("workload".into(), Value::Table(workload));
    Case { table, beside }
}

/// Tests a law of medians on a case: compares the runs of nine seeds with those of a better machine
/// (twice the memory, or a faster disk). If its median is worse, 36 other seeds decide. Returns a
/// message if the law is broken; `None`: it holds, or does not apply.
///
/// # Errors
/// A case cannot be written.
pub fn holds(law: Law, case: &Case, folder: &Path) -> io::Result<Option<String>> {
    let mut better = case.clone();
    let changed = match law {
        Law::Memory => more_memory(&mut better.table),
        _ => faster_disk(&mut better.table),
    };
    if !changed {
        return Ok(None);
    }
    let (Ok(small), Ok(large)) = (case.load(folder)?, better.load(folder)?) else {
        return Ok(None);
    };
    // The figure that must not grow: the share of reads that ask the disk, or the elapsed time in
    // seconds.
    let figure: fn(&RunResult) -> Option<f64> = match law {
        Law::Memory => |r| r.metrics.get("read_hit_ratio").map(|m| 1.0 - m.value),
        _ => |r| r.metrics.get("elapsed").map(|m| m.value),
    };
    let sides = [&small, &large];
    // The figures of the machine as it is and of the better one.
    let of = |seeds: Range<u32>| sides.map(|side| figures(side, seeds.clone(), figure));
    let tick = match law {
        Law::Disk => small.cells.first().map_or(0.0, tick_of),
        _ => 0.0,
    };
    let worse = |before, after| is_worse(before, after, tick);
    let [Some(mut before), Some(mut after)] = of(0..SEEDS) else {
        return Ok(None);
    };
    if !worse(median_of(&mut before), median_of(&mut after)) {
        return Ok(None);
    }
    let [Some(mut before), Some(mut after)] = of(SEEDS..SEEDS + ANSWERS) else {
        return Ok(None);
    };
    let chance = mann_whitney(&before, &after);
    let (before, after) = (median_of(&mut before), median_of(&mut after));
    if !worse(before, after) || chance > LEVEL {
        return Ok(None);
    }
    Ok(Some(match law {
        Law::Memory => format!(
            "{after:.4} of the reads ask the disk with twice the memory, {before:.4} before"
        ),
        _ => format!("{after:.4} s on a disk twice as fast, {before:.4} s before"),
    }))
}

/// Returns true if the figure `after` exceeds `before` by more than chance and a tick (in the
/// figure's unit) can explain.
fn is_worse(before: f64, after: f64, tick: f64) -> bool {
    after > before * (1.0 + TOLERANCE) && after > before + tick
}

/// Returns the seconds of a tick.
fn tick_of(cell: &Cell) -> f64 {
    1.0 / f64::from(cell.spec.machine.hz)
}

/// Returns a figure of the runs of several seeds of the first cell; `None` if any run did not
/// complete.
fn figures(
    experiment: &Experiment,
    seeds: Range<u32>,
    figure: fn(&RunResult) -> Option<f64>,
) -> Option<Vec<f64>> {
    let cell = experiment.cells.first()?;
    let run = |nth| {
        let mut spec = cell.spec.clone();
        spec.seed = iteration_seed(experiment, nth);
        let result = once(&spec);
        let completed = result.outcome == Outcome::Completed;
        completed.then(|| figure(&result)).flatten()
    };
    seeds.map(run).collect()
}

/// Doubles the memory of an experiment's machine within the same zones, except a DMA zone, whose
/// size is limited. Returns true if anything changed.
fn more_memory(table: &mut Table) -> bool {
    let nodes = table.get_mut("machine").and_then(|m| m.get_mut("node"));
    let mut changed = false;
    for node in nodes.and_then(Value::as_array_mut).into_iter().flatten() {
        let zones = node.get_mut("zones").and_then(Value::as_array_mut);
        for zone in zones.into_iter().flatten().filter_map(Value::as_table_mut) {
            let dma = zone.get("zone").and_then(Value::as_str) == Some("DMA");
            let size = zone.get("size").and_then(Value::as_integer);
            if let Some(size) = size.filter(|_| !dma) {
                zone.insert("size".into(), Value::Integer(2 * size));
                changed = true;
            }
        }
    }
    changed
}

/// Doubles the rates (MB/s) of the machine's disk by its parameters, up to their maxima. Returns
/// true if anything changed.
fn faster_disk(table: &mut Table) -> bool {
    let kind = table
        .get("machine")
        .and_then(|m| m.get("disk"))
        .and_then(|d| d.get("kind"));
    let kind = kind.and_then(|k| serde_json::to_value(k).ok());
    let Some(kind) = kind.and_then(|k| serde_json::from_value::<DiskKind>(k).ok()) else {
        return false;
    };
    let rates = Params::TABLE
        .iter()
        .filter(|p| kind.takes(p) && p.unit == "MB/s");
    let params = table.entry("params").or_insert(Value::Table(Table::new()));
    let Value::Table(params) = params else {
        return false;
    };
    let mut changed = false;
    for rate in rates {
        let value = (rate.value * 2.0).min(rate.max);
        params.insert(rate.name.to_owned(), Value::Float(value));
        changed = true;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::is_worse;

    #[test]
    fn a_tick_is_no_difference_and_more_than_one_is() {
        let tick = 0.004;
        assert!(!is_worse(0.0424, 0.0462, tick));
        assert!(is_worse(0.0424, 0.0466, tick));
        // In long runs a tick is less than the tolerance.
        assert!(!is_worse(10.0, 10.1, tick) && is_worse(10.0, 10.3, tick));
        assert!(is_worse(0.1, 0.11, 0.0));
    }
}
