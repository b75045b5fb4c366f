//! Reads labels of threads as published tables write them, and command lines with `$threads`.

use super::expand::{Choices, alternatives};
use super::node::{Node, Value};
use super::workload::{Workload, bound, scripts, workloads};
use crate::diagnostic::{Diagnostic, Source};
use sim::spec::Machine;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// The variable in a command line that stands for the number of threads.
pub const VARIABLE: &str = "$threads";

/// The number of processes or threads that a label stands for; at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// `4X`: this number for each CPU.
    PerCpu(u32),
    /// `4P`, or a bare `4`: this number.
    Exactly(u32),
}

impl Threads {
    /// The forms of a label, for complaints.
    pub const ACCEPTED: &str =
        "accepted: `4X` for 4 processes or threads per CPU, `4P` or `4` for 4";

    /// Parses a label of threads such as `4X`, `4P` or `4`; `None` if it states no number of at
    /// least 1.
    pub fn parse(label: &str) -> Option<Self> {
        let number = |digits: &str| {
            let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
            digits.parse().ok().filter(|_| plain)
        };
        if let Some(digits) = label.strip_suffix('X') {
            return number(digits).map(Self::PerCpu);
        }
        number(label.strip_suffix('P').unwrap_or(label)).map(Self::Exactly)
    }

    /// Returns the number on a machine with `cpus` CPUs; `None` if it overflows.
    pub fn on(self, cpus: u32) -> Option<u32> {
        match self {
            Self::PerCpu(n) => n.checked_mul(cpus),
            Self::Exactly(n) => Some(n),
        }
    }
}

/// The workloads of an experiment on each of its machines: if a command line depends on the number
/// of threads, machines with different numbers of CPUs have different workloads.
pub struct OnMachines {
    /// The workloads by number of CPUs; a single entry under 0 if nothing depends on it.
    by_cpus: BTreeMap<u32, Vec<(Choices, Workload)>>,
}

impl OnMachines {
    /// Reads the table `[workload]` of an experiment in `folder`. If its command line has
    /// `$threads`, the workloads are built for each number of CPUs that a machine has, else once.
    ///
    /// # Errors
    /// Fails on a workload that can't be read or run.
    pub fn new<'a>(
        node: &Node,
        folder: &Path,
        machines: impl Iterator<Item = &'a Machine>,
    ) -> Result<Self, Diagnostic> {
        let mut by_cpus = BTreeMap::new();
        match formula(node) {
            None => {
                by_cpus.insert(0, workloads(node, folder)?);
            }
            Some(command) => {
                for machine in machines {
                    if let Entry::Vacant(place) = by_cpus.entry(machine.cpus) {
                        place.insert(counted(node, command, folder, machine)?);
                    }
                }
            }
        }
        Ok(Self { by_cpus })
    }

    /// Returns the number of workloads, which is the same on any machine.
    pub fn count(&self) -> usize {
        self.by_cpus.values().next().map_or(0, Vec::len)
    }

    /// Returns the workloads of all machines; those of machines with other numbers of CPUs differ
    /// in their command lines.
    pub fn all(&self) -> impl Iterator<Item = &Workload> + Clone {
        self.by_cpus
            .values()
            .flatten()
            .map(|(_, workload)| workload)
    }

    /// Returns the workloads of a machine of the experiment.
    pub fn on(&self, machine: &Machine) -> &[(Choices, Workload)] {
        let own = self.by_cpus.get(&machine.cpus);
        own.or(self.by_cpus.get(&0)).map_or(&[], Vec::as_slice)
    }
}

/// Returns the value of the workload's `command`, if it is a command line with `$threads`;
/// otherwise `None`.
fn formula(workload: &Node) -> Option<&Node> {
    let command = workload.table()?.get("command")?;
    command.text().filter(|t| t.contains(VARIABLE))?;
    Some(command)
}

/// Returns true if the command line of an experiment file depends on the number of threads.
///
/// # Errors
/// Fails on a text that is not TOML.
pub fn counts_threads(experiment: &Source) -> Result<bool, Diagnostic> {
    let root = Node::parse(experiment)?;
    Ok(root.at(&["workload"]).and_then(formula).is_some())
}

/// Returns the workloads of a command line with `$threads`, one for every label of
/// `workload.threads`, with the choices that lead to each; the variable is replaced by the label's
/// number of threads on this machine. `node` is the table `[workload]`.
fn counted(
    node: &Node,
    command: &Node,
    folder: &Path,
    machine: &Machine,
) -> Result<Vec<(Choices, Workload)>, Diagnostic> {
    let path = "workload.threads";
    let Some(labels) = node.table().and_then(|t| t.get("threads")) else {
        return Err(Diagnostic::at(
            &command.place,
            format!("`workload.command` has `{VARIABLE}` without `{path}`"),
            format!("{}; one label or a list", Threads::ACCEPTED),
        ));
    };
    let labels = alternatives(labels, path)?;
    let several = labels.len() > 1;
    let mut all = Vec::new();
    for (label, at) in labels {
        let number = Threads::parse(&label).and_then(|t| t.on(machine.cpus));
        let Some(number) = number else {
            let what = format!("`{path}`: `{label}` is not a number of threads");
            return Err(Diagnostic::at(&at.place, what, Threads::ACCEPTED));
        };
        let line = command.text().unwrap_or_default();
        let line = line.replace(VARIABLE, &number.to_string());
        let command = Node {
            place: command.place.clone(),
            value: Value::Text(line),
        };
        for (sizes, script) in scripts(node, folder, Some(&command))? {
            let own = several.then(|| (path.to_owned(), label.clone()));
            let choices: Choices = own.into_iter().chain(sizes).collect();
            all.push((choices, script, label.clone()));
        }
    }
    bound(node, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_number_of_threads() {
        for (label, on_four) in [
            ("1P", Some(1)),
            ("3P", Some(3)),
            ("1X", Some(4)),
            ("32X", Some(128)),
            ("128", Some(128)),
            ("4294967295P", Some(u32::MAX)),
            ("4294967295X", None),
            ("4294967296", None),
            ("0", None),
            ("0X", None),
            ("01", None),
            ("+1", None),
            ("X", None),
            ("P", None),
            ("", None),
            ("all", None),
            ("4x", None),
            ("1XP", None),
        ] {
            let number = Threads::parse(label).and_then(|t| t.on(4));
            assert_eq!(number, on_four, "{label}");
        }
    }
}
