//! Every model parameter of the table at its minimum and maximum, on every filesystem and every
//! kind of disk.

use crate::case::Case;
use crate::dice::Dice;
use crate::machine;
use crate::numbers::whole;
use crate::programs;
use crate::space::Space;
use sim::Params;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Returns the number of cases: each model parameter at two ends, on every filesystem and every
/// kind of disk.
pub fn count(space: &Space) -> u64 {
    let filesystems = space.choices("filesystem").len();
    let disks = space.choices("machine.disk.kind").len();
    (Params::TABLE.len() * 2 * filesystems * disks) as u64
}

/// Returns the case `nth`, counted from 0, of those that have one model parameter at its minimum or
/// maximum: on every filesystem and every kind of disk, with a drawn machine and program.
/// Parameters vary slowest.
///
/// # Panics
/// `nth` is not below [`count`].
pub fn case(nth: u64, space: &Space) -> Case {
    let filesystems = space.choices("filesystem");
    let disks = space.choices("machine.disk.kind");
    let at = nth as usize;
    let (at, disk) = (at / disks.len(), &disks[at % disks.len()]);
    let (at, filesystem) = (at / filesystems.len(), &filesystems[at % filesystems.len()]);
    let info = &Params::TABLE[at / 2];
    let value = if at.is_multiple_of(2) {
        info.min
    } else {
        info.max
    };
    let fits = |m: &machine::Drawn| m.zones.iter().any(|z| z.1 != "Movable");
    let mut machines = (0..).map(|again| machine::machine(nth + (again << 48), space));
    let mut machine = machines.find(fits).expect("machines are drawn for ever");
    machine.table.remove("params");
    machine.table.remove("second");
    // The machine's disk: of the wanted kind, with nothing else set.
    let mut own = Table::new();
    own.insert("kind".into(), disk.clone().into());
    own.insert("capacity".into(), "4G".into());
    if disk == "raid0" {
        own.insert("members".into(), whole(2));
    }
    machine.table.insert("disk".into(), Value::Table(own));
    machine.table.remove("swap");
    machine.table.remove("sysctl");
    machine.disk = 4 << 30;
    machine.mounts.clear();
    let mut table = Table::new();
    table.insert("name".into(), format!("end-{nth}").into());
    table.insert("iterations".into(), Value::Integer(1));
    table.insert("time_limit_s".into(), Value::Integer(4));
    let presets = mm::Policy::PRESETS;
    let policy = Dice::new(nth, "end").pick(presets).to_owned();
    table.insert("policy".into(), policy.into());
    table.insert("filesystem".into(), filesystem.clone().into());
    let mut params = Table::new();
    params.insert(info.name.into(), Value::Float(value));
    if info.name.starts_with("monitor_") || info.name.starts_with("cost_trace_") {
        table.insert("monitors".into(), Value::Boolean(true));
        params
            .entry("monitor_memory")
            .or_insert(Value::Float(65536.0));
    }
    table.insert("params".into(), Value::Table(params));
    let line = programs::line(nth, &machine);
    let mut workload = Table::new();
    workload.insert("command".into(), line.command.into());
    if !line.files.is_empty() {
        workload.insert("files".into(), Value::Table(line.files));
    }
    table.insert("machine".into(), Value::Table(machine.table));
    table.insert("workload".into(), Value::Table(workload));
    Case {
        table,
        beside: BTreeMap::new(),
    }
}
