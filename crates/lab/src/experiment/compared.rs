//! Determines which axis is compared, and with which of its values: `baseline = { dirty_ratio = 20
//! }`.
//!
//! By default policies are compared with the first of them. An experiment with one policy and one
//! axis, which is not of the workload, compares that axis's values with the first.

use super::node::{Node, Value};
use crate::diagnostic::{Diagnostic, one_of};
use crate::model::{Cell, last_part};
use mm::sysctl;

/// Sets in every cell the axis whose values are compared (`by`; `None`: the policies), and whether
/// the cell is a baseline. `axes` are the keys that vary; `said` is the value of the experiment's
/// key `baseline`, if it has one.
///
/// # Errors
/// Fails if `baseline` names an axis that does not vary, or a value that the axis does not have.
pub fn mark(cells: &mut [Cell], axes: &[String], said: Option<&Node>) -> Result<(), Diagnostic> {
    let (axis, value) = match said {
        Some(node) => named(cells, axes, node)?,
        None => match axes {
            // Workloads are not compared by default: a different workload takes a different time
            // anyway.
            [axis] if axis != "policy" && !axis.starts_with("workload") => {
                (axis.clone(), values(cells, axis)[0].clone())
            }
            _ => return Ok(()),
        },
    };
    for cell in cells {
        cell.baseline = of_cell(cell, &axis) == Some(&value);
        cell.by = (axis != "policy").then(|| axis.clone());
    }
    Ok(())
}

fn of_cell<'a>(cell: &'a Cell, axis: &str) -> Option<&'a String> {
    cell.axes.iter().find(|(k, _)| k == axis).map(|(_, v)| v)
}

/// Returns the different values of an axis, in the order in which they first occur in the matrix.
fn values(cells: &[Cell], axis: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for value in cells.iter().filter_map(|c| of_cell(c, axis)) {
        if !all.contains(value) {
            all.push(value.clone());
        }
    }
    all
}

/// Reads the value of `baseline`, such as `{ dirty_ratio = 20 }`. Returns the whole key of the axis
/// that it names (`machine.sysctl.dirty_ratio`), and the value that is the baseline. Fails unless
/// it names one varying axis and one of that axis's values.
fn named(cells: &[Cell], axes: &[String], node: &Node) -> Result<(String, String), Diagnostic> {
    let mut named_values = Vec::new();
    leaves("", node, &mut named_values);
    let [(key, leaf)] = &named_values[..] else {
        return Err(Diagnostic::at(
            &node.place,
            format!("`baseline` names {} axes", named_values.len()),
            "accepted: one axis and the value with which its other values are compared, such as \
             baseline = { dirty_ratio = 20 }",
        ));
    };
    // Axes are named by the last part of a sysctl's name.
    let known = sysctl::info(key).map_or(&key[..], |i| i.key);
    let matching: Vec<&String> = match axes.iter().find(|a| *a == key) {
        Some(whole) => vec![whole],
        None => axes.iter().filter(|a| last_part(a) == known).collect(),
    };
    let [axis] = matching[..] else {
        let what = match matching.is_empty() {
            true => format!("`baseline`: no axis `{key}` varies"),
            false => format!("`baseline`: several axes are called `{key}`"),
        };
        let names: Vec<&str> = axes.iter().map(|a| &a[..]).collect();
        let accepted = match names.is_empty() {
            true => "accepted: an axis of the experiment, which has none yet: a list of values makes a key an axis".into(),
            false => one_of(key, &names),
        };
        return Err(Diagnostic::at(&leaf.place, what, accepted));
    };
    let values = values(cells, axis);
    let value = leaf.scalar().unwrap_or_default();
    if !values.contains(&value) {
        let names: Vec<&str> = values.iter().map(|v| &v[..]).collect();
        return Err(Diagnostic::at(
            &leaf.place,
            format!("`baseline`: `{value}` is not a value of `{axis}`"),
            one_of(&value, &names),
        ));
    }
    Ok((axis.clone(), value))
}

/// Collects every value of a table with its key into `all`, with nested tables flattened: keys are
/// joined with dots. `above` is the key of `node`, empty for the root.
fn leaves<'a>(above: &str, node: &'a Node, all: &mut Vec<(String, &'a Node)>) {
    let Value::Table(table) = &node.value else {
        all.push((above.to_owned(), node));
        return;
    };
    for e in &table.0 {
        let key = match above {
            "" => e.key.clone(),
            above => format!("{above}.{}", e.key),
        };
        leaves(&key, &e.node, all);
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::Source;
    use crate::experiment::{Files, Overrides, parse};
    use crate::model::Experiment;

    const TEXT: &str = "name = 'x'\nfilesystem = 'xfs'\nworkload = { command = 'dd if=/dev/zero of=a' }\n\
        machine = { name = 'm', cpus = 1, sysctl = { dirty_ratio = [5, 10, 20, 40] }, \
        node = [{ zones = [{ zone = 'Normal', size = '256M' }] }], disk = { kind = 'ssd', capacity = '8G' } }\n";

    fn load(more: &str) -> Result<Experiment, String> {
        let files: &Files<'_> = &|p| panic!("{p} is not asked for");
        let source = Source::new("x.toml", format!("{more}\n{TEXT}"));
        parse(&source, files, &Overrides::default()).map_err(|e| e.to_string())
    }

    fn baselines(e: &Experiment) -> Vec<String> {
        let all = e.cells.iter().filter(|c| c.baseline);
        all.map(|c| format!("{}: {}", c.group(), c.said()))
            .collect()
    }

    #[test]
    fn the_values_of_an_axis_are_held_against_the_one_that_is_named() {
        let one = load("policy = 'linux-6.12'").unwrap();
        assert_eq!(baselines(&one), ["xfs: dirty_ratio=5"]);
        for spelt in [
            "baseline = { dirty_ratio = 20 }",
            "baseline = { 'machine.sysctl.dirty_ratio' = 20 }",
            "baseline.vm.dirty_ratio = 20",
            "baseline.machine.sysctl.dirty_ratio = 20",
        ] {
            let e = load(&format!("policy = 'linux-6.12'\n{spelt}")).unwrap();
            assert_eq!(baselines(&e), ["xfs: dirty_ratio=20"], "{spelt}");
        }
        let both = "policy = ['linux-3.1', 'linux-6.12']\n";
        let e = load(&format!("{both}baseline = {{ dirty_ratio = 20 }}")).unwrap();
        assert_eq!(
            baselines(&e),
            [
                "policy=linux-3.1: dirty_ratio=20",
                "policy=linux-6.12: dirty_ratio=20"
            ]
        );
        let e = load(&format!("{both}baseline.policy = 'linux-6.12'")).unwrap();
        assert_eq!(baselines(&e).len(), 4);
        assert_eq!(baselines(&e)[0], "machine.sysctl.dirty_ratio=5: linux-6.12");
        assert_eq!(
            baselines(&load(both).unwrap())[0],
            "machine.sysctl.dirty_ratio=5: linux-3.1"
        );
    }

    #[test]
    fn what_no_axis_has_is_refused() {
        for (said, told) in [
            ("baseline = { dirty_ratio = 7 }", "`7` is not a value of"),
            (
                "baseline = { swappiness = 7 }",
                "no axis `swappiness` varies",
            ),
            (
                "baseline = { policy = 'linux-6.12' }",
                "no axis `policy` varies",
            ),
            ("baseline = { dirty_ratio = 5, policy = 1 }", "names 2 axes"),
            ("baseline = {}", "names 0 axes"),
        ] {
            let e = load(&format!("policy = 'linux-6.12'\n{said}")).unwrap_err();
            assert!(e.contains(told), "{said}: {e}");
        }
    }
}
