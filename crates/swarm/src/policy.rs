//! Random policies: a preset, or a table that changes one.

use crate::dice::Dice;
use crate::machine::Drawn;
use crate::numbers::{self, Memory, whole};
use crate::space::Space;
use mm::Policy;
use toml::{Table, Value};

/// Draws one or two policies of a seed: presets, or tables that change one. Returns the tables by
/// name (`[policies]`), and the names to be listed in `policy`, the baseline first.
pub fn policies(seed: u64, space: &Space, machine: &Drawn) -> (Table, Vec<String>) {
    let d = &mut Dice::new(seed, "policies");
    let mut tables = Table::new();
    let mut names = Vec::new();
    let n = if d.one_in(6) { 2 } else { 1 };
    for nth in 0..n {
        if d.one_in(4) {
            let name = (*d.pick(Policy::PRESETS)).to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
            continue;
        }
        let name = format!("p{nth}");
        tables.insert(name.clone(), Value::Table(policy(d, space, machine)));
        names.push(name);
    }
    (tables, names)
}

/// Draws the table of one policy: a preset as base, some changed switches, and sometimes watermarks
/// and sysctls.
fn policy(d: &mut Dice, space: &Space, machine: &Drawn) -> Table {
    let mut table = Table::new();
    table.insert("base".into(), (*d.pick(Policy::PRESETS)).into());
    let often = *d.pick(&[2, 4, 12]);
    let mut auto = Table::new();
    for (key, fits) in space.below("policies.*") {
        let own = !["base", "name"].contains(&key)
            && !key.starts_with("sysctl.")
            && !key.starts_with("profile.");
        if !own || !d.one_in(often) {
            continue;
        }
        let value = numbers::switch(d, key, fits);
        match key.strip_prefix("auto.") {
            Some(rule) => auto.insert(rule.to_owned(), value),
            None => table.insert(key.to_owned(), value),
        };
    }
    if !auto.is_empty() {
        table.insert("auto".into(), Value::Table(auto));
    }
    if table.get("watermarks").and_then(Value::as_str) == Some("learned") || d.one_in(24) {
        table.insert("profile".into(), Value::Table(profile(d, machine)));
    }
    let sysctl = match d.one_in(4) {
        true => numbers::sysctls(d, space, Memory(machine.memory)),
        false => Table::new(),
    };
    if !sysctl.is_empty() {
        table.insert("sysctl".into(), Value::Table(sysctl));
    }
    table
}

/// Draws a profile of learned watermarks: minimum, low and high in kB for some of the machine's
/// zones.
fn profile(d: &mut Dice, machine: &Drawn) -> Table {
    let mut zones = Vec::new();
    for (node, zone, bytes) in &machine.zones {
        if !zones.is_empty() && d.one_in(3) {
            continue;
        }
        let most = bytes / 1024 / 4;
        let mut marks: Vec<u64> = (0..3).map(|_| d.magnitude(0, most)).collect();
        marks.sort_unstable();
        let mut table = Table::new();
        table.insert("node".into(), whole(*node));
        table.insert("zone".into(), zone.clone().into());
        for (key, kbytes) in ["min_kbytes", "low_kbytes", "high_kbytes"]
            .into_iter()
            .zip(marks)
        {
            table.insert(key.into(), whole(kbytes));
        }
        zones.push(Value::Table(table));
    }
    let mut profile = Table::new();
    profile.insert("machine".into(), "m".into());
    profile.insert("zone".into(), Value::Array(zones));
    profile
}
