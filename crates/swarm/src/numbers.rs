//! Random values of model parameters, sysctls and switches of policies.

use crate::dice::Dice;
use crate::space::{Fits as Due, Space};
use mm::policy::{Form, switches};
use mm::sysctl::{self, Fits};
use sim::params::ParamInfo;
use toml::{Table, Value};

/// Draws a value of a model parameter within its range: its minimum, its maximum, any value
/// between, or one near the default.
pub fn parameter(d: &mut Dice, info: &ParamInfo) -> Value {
    let (min, max) = (info.min, info.max);
    let between = if min > 0.0 && max / min > 16.0 {
        (min.ln() + (max.ln() - min.ln()) * d.unit()).exp()
    } else {
        min + (max - min) * d.unit()
    };
    let switch = info.unit == "0 or 1";
    let value = match d.between(0, 4) {
        0 => min,
        1 => max,
        2 if !switch => between.clamp(min, max),
        2 => min,
        // Near the default, where the engine's code paths differ most.
        _ if !switch => (info.value * (0.5 + d.unit())).clamp(min, max),
        _ => max,
    };
    Value::Float(value)
}

/// Draws values for up to `most` of the parameters `known`; half the time for none. Returns them by
/// name.
pub fn parameters<'a>(
    d: &mut Dice,
    known: impl Iterator<Item = &'a ParamInfo>,
    most: u64,
) -> Table {
    let known: Vec<&ParamInfo> = known.collect();
    let n = if d.one_in(2) || known.is_empty() {
        0
    } else {
        d.magnitude(1, most)
    };
    let mut table = Table::new();
    for _ in 0..n {
        let info = d.pick(&known);
        table.insert(info.name.to_owned(), parameter(d, info));
    }
    table
}

/// A machine's memory in bytes, on which the ranges of its sysctls depend.
#[derive(Debug, Clone, Copy)]
pub struct Memory(pub u64);

/// Returns the least and the largest value to be drawn for a sysctl, in the sysctl's own unit;
/// `None`: there is no sysctl of this key. The range of some depends on the machine's memory.
pub fn sysctl(key: &str, memory: Memory) -> Option<(u64, u64)> {
    let kbytes = memory.0 / 1024;
    let info = sysctl::info(key.strip_suffix(".#").unwrap_or(key))?;
    Some(match info.fits {
        // Values that every policy accepts: swappiness above 100 needs 5.8, and a `ZeroOr` sysctl
        // other than 0 needs 5.14.
        _ if info.key == "swappiness" => (0, 100),
        Fits::ZeroOr(..) => (0, 0),
        Fits::Number(least, most) => (least, most),
        Fits::Bytes(..) => (0, memory.0),
        Fits::HalfOfMemory => (0, kbytes / 2),
        Fits::Three(least, _) => (least, 4096),
    })
}

/// Draws sysctls of a machine or a policy: none, some or all of those that the space has.
pub fn sysctls(d: &mut Dice, space: &Space, memory: Memory) -> Table {
    let mut table = Table::new();
    if !d.one_in(3) {
        return table;
    }
    let often = d.between(2, 8);
    for (key, fits) in space.below("machine.sysctl") {
        if !d.one_in(often) {
            continue;
        }
        let Some((least, most)) = sysctl(key, memory) else {
            panic!("the range of the sysctl {key} is to stand in numbers.rs");
        };
        let mut value = || match d.between(0, 7) {
            0 => least,
            1 => most,
            _ => d.magnitude(least, most),
        };
        match (key.strip_suffix(".#"), fits) {
            (Some(list), _) => {
                let three = (0..3).map(|_| whole(value())).collect();
                table.insert(list.to_owned(), Value::Array(three));
            }
            (None, _) => {
                table.insert(key.to_owned(), whole(value()));
            }
        }
    }
    ascending(&mut table, memory, d);
    table
}

/// Makes the watermarks in a table of sysctls ascend, as the kernel demands: if one is set, all
/// three are drawn and sorted, because the values of the kernel's formula for the others are not
/// known here. The minimum has two names, of which one suffices.
fn ascending(table: &mut Table, memory: Memory, d: &mut Dice) {
    const MARKS: [&str; 3] = ["wmark_min_kbytes", "wmark_low_kbytes", "wmark_high_kbytes"];
    if !MARKS.iter().any(|key| table.contains_key(*key)) {
        return;
    }
    let mut values: Vec<u64> = (0..3)
        .map(|_| d.magnitude(0, memory.0 / 1024 / 2))
        .collect();
    values.sort_unstable();
    if table.contains_key("min_free_kbytes") {
        table.insert("min_free_kbytes".into(), whole(values[0]));
    }
    for (key, value) in MARKS.into_iter().zip(values) {
        table.insert(key.to_owned(), whole(value));
    }
}

/// Returns a number as a TOML value.
pub fn whole(n: u64) -> Value {
    Value::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Draws a value for the switch `key` of a policy: one of the words that fit, true or false, or a
/// number from its range.
///
/// # Panics
/// The swarm does not know the values of this key of the schema.
pub fn switch(d: &mut Dice, key: &str, fits: &Due) -> Value {
    match fits {
        Due::Choice(words) => Value::String(d.pick(words).clone()),
        Due::Switch => Value::Boolean(d.one_in(2)),
        Due::Whole => {
            let switch = switches().find(|s| s.name == key);
            let Some(Form::Number { least, most, .. }) = switch.map(|s| s.form) else {
                panic!("the policy's {key} is no switch with a range");
            };
            whole(match d.between(0, 3) {
                0 => least,
                1 => most,
                _ => d.magnitude(least, most),
            })
        }
        other => panic!("the policy's {key} is {other:?}, which the swarm can't draw"),
    }
}
