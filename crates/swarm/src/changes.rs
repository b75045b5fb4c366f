//! Sysctls that are written in the middle of a run.

use crate::dice::Dice;
use crate::machine::Drawn;
use crate::numbers::{self, Memory, whole};
use crate::space::Space;
use mm::sysctl::{self, Fits};
use toml::{Table, Value};

/// Draws the sysctls that an experiment writes in the middle of its run, as the list `at`, from a
/// random stream of their own; most seeds have none. `experiment`: the keys drawn so far, with the
/// time limit.
pub fn changes(seed: u64, space: &Space, machine: &Drawn, experiment: &Table) -> Vec<Value> {
    let d = &mut Dice::new(seed, "changes");
    if !d.one_in(6) {
        return Vec::new();
    }
    let limit = experiment.get("time_limit_s").and_then(Value::as_integer);
    let limit = limit.and_then(|s| u64::try_from(s).ok()).unwrap_or(8);
    let keys: Vec<&str> = space.below("at.#.sysctl").map(|(key, _)| key).collect();
    (0..d.between(1, 3))
        .map(|_| {
            let mut written = Table::new();
            for _ in 0..d.between(1, 3) {
                let key = *d.pick(&keys);
                let name = key.strip_suffix(".#").unwrap_or(key);
                if let Some(value) = value(d, name, machine) {
                    written.insert(name.to_owned(), value);
                }
            }
            if written.is_empty() {
                written.insert("vm.swappiness".to_owned(), whole(d.between(0, 100)));
            }
            let ms = d.between(0, limit * 1000 - 1);
            let mut change = Table::new();
            change.insert("time".into(), format!("{ms}ms").into());
            change.insert("sysctl".into(), Value::Table(written));
            Value::Table(change)
        })
        .collect()
}

/// Draws a value for the sysctl `name` of a running machine. `None`: the sysctl has no range here,
/// or (mostly) writing it in mid-run would be refused.
fn value(d: &mut Dice, name: &str, machine: &Drawn) -> Option<Value> {
    let info = sysctl::info(name)?;
    let (least, most) = numbers::sysctl(info.key, Memory(machine.memory))?;
    let boot = machine.table.get("sysctl").and_then(Value::as_table);
    let at_boot = boot.is_some_and(|s| s.contains_key(info.key));
    if info.from_boot && !at_boot && !d.one_in(32) {
        return None;
    }
    // Watermarks must ascend: a value drawn for one of them seldom fits beside the others.
    if info.key.starts_with("wmark_") && !d.one_in(8) {
        return None;
    }
    let least = match info.fits {
        Fits::Bytes(..) => 1,
        _ => least,
    };
    let mut one = || match d.between(0, 7) {
        0 => whole(least),
        1 => whole(most),
        _ => whole(d.magnitude(least, most)),
    };
    Some(match info.fits {
        Fits::Three(..) => Value::Array((0..3).map(|_| one()).collect()),
        _ => one(),
    })
}
