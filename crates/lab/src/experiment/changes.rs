//! Reads the sysctls that are written while the workload runs: tables `[[at]]`, each with a `time`
//! since its beginning and a table `sysctl`.

use super::expand::{Choices, expand};
use super::node::{Entry, Node, Table, Value};
use super::range::{self, At};
use super::read::read;
use crate::diagnostic::{Diagnostic, one_of};
use mm::Policy;
use mm::sysctl::{self, Fits, Sysctl};
use sim::spec::{Change, Machine};
use workload::units;

/// One change as the experiment states it.
#[derive(Debug, Clone)]
struct StatedChange {
    at_ns: u64,
    /// The sysctls, by the last part of their names.
    sysctl: Node,
    /// The path of the table in messages: `at.0.sysctl`.
    path: String,
}

/// The changes of one variant, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct Changes(Vec<StatedChange>);

const KEYS: [&str; 2] = ["time", "sysctl"];

/// Reads the value of the key `at`: the sysctls that are written while the workload runs. Returns
/// all variants (lists in it are axes), each as the choices that lead to it and its changes in
/// order of time. Without the key there is one variant without changes.
///
/// # Errors
/// Returns the first mistake that does not depend on the machine, and a time that no run reaches
/// because runs are given up after `limit_s` seconds (0: never).
pub fn changes(node: Option<&Node>, limit_s: f64) -> Result<Vec<(Choices, Changes)>, Diagnostic> {
    let Some(node) = node else {
        return Ok(vec![(Choices::new(), Changes::default())]);
    };
    if !matches!(node.value, Value::List(_)) {
        return Err(Diagnostic::at(
            &node.place,
            format!("`at`: {} does not fit here", node.kind()),
            "accepted: tables [[at]], each with `time` and `sysctl`",
        ));
    }
    let wrapped = Node {
        place: node.place.clone(),
        value: Value::Table(Table(vec![Entry {
            key: "at".into(),
            place: node.place.clone(),
            node: node.clone(),
        }])),
    };
    let mut all = Vec::new();
    for variant in expand(&wrapped, "")? {
        let Value::List(list) = &variant.node.nearest(&["at"]).value else {
            unreachable!("a list stays one")
        };
        let stated = list.iter().enumerate();
        let stated = stated.map(|(i, node)| change(i, node, limit_s));
        let mut stated = stated.collect::<Result<Vec<_>, _>>()?;
        stated.sort_by_key(|c| c.at_ns);
        all.push((variant.choices, Changes(stated)));
    }
    Ok(all)
}

/// Reads the `i`-th table `[[at]]`, and checks its keys, that its time lies before `limit_s`
/// seconds, and that the sysctls exist. Their values are checked later, on each machine
/// (`Changes::on`).
fn change(i: usize, node: &Node, limit_s: f64) -> Result<StatedChange, Diagnostic> {
    let path = format!("at.{i}");
    let Some(table) = node.table() else {
        return Err(Diagnostic::at(
            &node.place,
            format!("`{path}`: {} does not fit here", node.kind()),
            "accepted: a table with `time` and `sysctl`",
        ));
    };
    if let Some(e) = table.0.iter().find(|e| !KEYS.contains(&e.key.as_str())) {
        let what = format!("unknown key `{path}.{}`", e.key);
        return Err(Diagnostic::at(&e.place, what, one_of(&e.key, &KEYS)));
    }
    let due = |key: &str| {
        table.get(key).ok_or_else(|| {
            Diagnostic::at(
                &node.place,
                format!("missing key `{path}.{key}`"),
                "accepted: for example time = \"30s\" and sysctl = { \"vm.dirty_ratio\" = 5 }",
            )
        })
    };
    let at_ns = time(due("time")?, &path, limit_s)?;
    let sysctl = due("sysctl")?.clone();
    let path = format!("{path}.sysctl");
    let empty = sysctl.table().is_none_or(|t| t.0.is_empty());
    if empty {
        return Err(Diagnostic::at(
            &sysctl.place,
            format!("`{path}`: the table sets no sysctl"),
            "accepted: a table of sysctls by their names, such as { \"vm.dirty_ratio\" = 5 }",
        ));
    }
    let unknown = |e: &&Entry| sysctl::info(&e.key).is_none();
    if let Some(e) = sysctl.table().and_then(|t| t.0.iter().find(unknown)) {
        let names: Vec<&str> = sysctl::TABLE.iter().map(|i| i.name).collect();
        return Err(Diagnostic::at(
            &e.place,
            format!("`{path}`: there is no sysctl `{}`", e.key),
            one_of(&e.key, &names),
        ));
    }
    Ok(StatedChange {
        at_ns,
        sysctl,
        path,
    })
}

/// Reads the time of a change in `[[at]]`, in nanoseconds since the workload began. `path` is the
/// table's key in messages. A time that no run reaches, because it is given up after `limit_s`
/// seconds (0: never), is refused.
fn time(node: &Node, path: &str, limit_s: f64) -> Result<u64, Diagnostic> {
    let shown = node.scalar();
    let ns = node.text().and_then(|t| units::scaled(t, units::TIMES));
    let Some(ns) = ns else {
        return Err(Diagnostic::at(
            &node.place,
            match shown {
                Some(shown) => format!("`{path}.time`: `{shown}` is not a time"),
                None => format!("`{path}.time`: {} does not fit here", node.kind()),
            },
            "accepted: a whole number with its unit in quotes, such as \"30s\", \"500ms\", \"20us\" or \"2m\"",
        ));
    };
    // A second passes between boot and workload, and the limit counts from boot.
    let limit = if limit_s == 0.0 { 1e7 } else { limit_s };
    if ns as f64 / 1e9 >= limit {
        return Err(Diagnostic::at(
            &node.place,
            format!(
                "`{path}.time`: `{}` is later than the time limit of a run",
                shown.unwrap_or_default()
            ),
            format!("accepted: less than {limit} s, after which a run is stopped (`time_limit_s`)"),
        ));
    }
    Ok(ns)
}

impl Changes {
    /// Returns the changes as a run on this machine makes them, each with the full set of sysctls
    /// that are in force after it. The machine already has its policy's sysctls; each change is
    /// laid over the result of the one before. Without a policy, the machine is a real kernel's,
    /// which has from boot all sysctls that today's kernels have.
    ///
    /// # Errors
    /// Fails on a value that this machine can't have, or can't have from that time on.
    pub fn on(
        &self,
        machine: &Machine,
        policy: Option<&Policy>,
    ) -> Result<Vec<Change>, Diagnostic> {
        let mut machine = machine.clone();
        if policy.is_none() {
            // The kernel's own defaults (mm/page_alloc.c).
            let sysctl = &mut machine.sysctl;
            sysctl.watermark_scale_factor.get_or_insert(10);
            sysctl.watermark_boost_factor.get_or_insert(15_000);
        }
        let mut changes = Vec::with_capacity(self.0.len());
        for stated in &self.0 {
            let table = stated.sysctl.table().expect("checked when it was read");
            for entry in &table.0 {
                can_be_written(entry, &stated.path, &machine.sysctl)?;
            }
            let below = serde_json::to_value(&machine.sysctl).map_err(|e| {
                let what = format!("sysctls can't be laid out: {e}");
                Diagnostic::at(&stated.sysctl.place, what, "")
            })?;
            let mut laid = Node::from_json(&below, &stated.sysctl.place);
            laid.overlay(stated.sysctl.clone());
            let from: Sysctl = read(&laid, &stated.path)?;
            let keys = table.0.iter().map(|e| &e.key[..]);
            machine.sysctl.write(&from, keys);
            let at = At {
                node: &stated.sysctl,
                path: &stated.path,
            };
            range::sysctl(&machine, &[], &at)?;
            if let Some(policy) = policy {
                range::sysctl_of(policy, &machine.sysctl, &at)?;
            }
            let written = table.0.iter().map(|e| {
                let name = sysctl::info(&e.key).map_or(&e.key[..], |i| i.name);
                (name.to_owned(), shown(&e.node))
            });
            changes.push(Change {
                at_ns: stated.at_ns,
                written: written.collect(),
                sysctl: machine.sysctl.clone(),
            });
        }
        Ok(changes)
    }
}

/// Refuses a sysctl that can't be written to a running kernel, or that this machine's kernel lacks.
/// `before` are the machine's sysctls before the change, and `path` is the table's key in messages.
/// Also refuses 0 for a limit in bytes, because such a limit is removed by writing the sysctl of
/// the ratio.
fn can_be_written(entry: &Entry, path: &str, before: &Sysctl) -> Result<(), Diagnostic> {
    let Some(info) = sysctl::info(&entry.key) else {
        return Ok(());
    };
    if info.from_boot && !before.says(info.key) {
        return Err(Diagnostic::at(
            &entry.place,
            format!(
                "`{path}.{}`: the machine does not have this sysctl at boot, so it can't change during the run",
                info.key
            ),
            format!(
                "accepted: a machine whose `sysctl.{}` has a value",
                info.key
            ),
        ));
    }
    let is_zero = match &entry.node.value {
        Value::Int(n) => *n == 0,
        Value::Text(t) => mm::size::Size::parse(t).is_ok_and(|s| s.0 == 0),
        _ => false,
    };
    if is_zero && matches!(info.fits, Fits::Bytes(..)) {
        return Err(Diagnostic::at(
            &entry.node.place,
            format!("`{path}.{}`: 0 is out of range", info.key),
            format!(
                "accepted: more than 0 bytes; to remove the limit in bytes, write `{}`",
                info.name.replace("_bytes", "_ratio")
            ),
        ));
    }
    Ok(())
}

/// Formats a value as the experiment spells it; a list as its elements with spaces between, and a
/// table as an empty text.
fn shown(node: &Node) -> String {
    let list = match &node.value {
        Value::List(list) => list.iter().map(shown).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    };
    node.scalar().unwrap_or(list)
}
