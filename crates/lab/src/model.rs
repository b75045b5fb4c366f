//! What an experiment is and what running it gives: the words that every other module shares.

use crate::diagnostic::Place;
pub use kernel::HostUse;
use kernel::Kernel;
use sim::{RunResult, RunSpec};
use std::collections::BTreeMap;

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better: elapsed time, latency.
    #[default]
    Lower,
    /// More is better: throughput.
    Higher,
    /// It says what happened, and neither is better in itself.
    Neither,
}

/// One cell of the matrix: everything but the iteration.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The values of the axes that vary, in axis order: (key, value as text).
    pub axes: Vec<(String, String)>,
    /// The machine's name.
    pub machine: String,
    /// What published tables call the workload; empty if the experiment does not say.
    pub workload: String,
    /// What they call its number of threads; empty if the experiment does not say.
    pub threads: String,
    /// The filesystem's name.
    pub filesystem: String,
    /// The policy's name.
    pub policy: String,
    /// Whether the others of its group are compared with it.
    pub baseline: bool,
    /// The axis whose values are compared, if it is not the policy.
    pub by: Option<String>,
    /// The real kernel that runs in the engine's place; `None`: the engine. `spec.policy` of such a cell
    /// has the policy's name and nothing else that is asked.
    pub kernel: Option<Kernel>,
    /// Whether its machine says how often the timer ticks; otherwise the engine has its default, and a kernel its build's.
    pub says_hz: bool,
    /// What to run; the seed is set per iteration.
    pub spec: RunSpec,
}

impl Cell {
    /// The axis whose values are compared.
    pub fn compared(&self) -> &str {
        self.by.as_deref().unwrap_or("policy")
    }

    /// What is compared with others of its group: the policy's name, or the axis's value.
    pub fn side(&self) -> &str {
        let by = self.by.as_ref();
        let value = by.and_then(|by| self.axes.iter().find(|(k, _)| k == by));
        value.map_or(&self.policy, |(_, v)| v)
    }

    /// As [`side`](Self::side), where nothing beside it says what it is a value of.
    pub fn said(&self) -> String {
        match &self.by {
            Some(by) if by != "filesystem" => format!("{}={}", last_part(by), self.side()),
            _ => self.side().to_owned(),
        }
    }

    /// The axes other than what is compared, as one label: cells with equal labels are compared.
    pub fn group(&self) -> String {
        let parts: Vec<String> = self
            .axes
            .iter()
            .filter(|(k, _)| k != self.compared())
            .map(|(k, v)| {
                if k == "filesystem" || k == "workload.threads" {
                    v.clone()
                } else {
                    format!("{k}={v}")
                }
            })
            .collect();
        if parts.is_empty() && self.compared() == "filesystem" {
            self.policy.clone()
        } else if parts.is_empty() {
            self.filesystem.clone()
        } else {
            parts.join(" ")
        }
    }

    /// The axes other than what is compared, in axis order: (key, value as text).
    pub fn group_axes(&self) -> Vec<(String, String)> {
        let others = self.axes.iter().filter(|(k, _)| k != self.compared());
        others.cloned().collect()
    }

    /// Every axis as one text: what names the cell in messages.
    pub fn key(&self) -> String {
        let axes: Vec<String> = self.axes.iter().map(|(k, v)| format!("{k}={v}")).collect();
        format!(
            "{}/{}/{}/{}",
            self.machine,
            self.filesystem,
            self.policy,
            axes.join(",")
        )
    }
}

/// The last part of a key: `dirty_ratio` of `machine.sysctl.dirty_ratio`.
pub fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A row, counter or figure of the workload that policies are compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Which way it is good.
    pub better: Better,
}

/// A parsed experiment: its matrix, laid out.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name: the results folder's too.
    pub name: String,
    /// Iterations of each cell.
    pub iterations: u32,
    /// The seed that all iterations' seeds derive from.
    pub seed: u64,
    /// The file's text.
    pub text: String,
    /// Figures that answer the experiment's question, the telling one first; none: elapsed time and
    /// nr_vmscan_write.
    pub figures: Vec<Figure>,
    /// Keys that vary, outermost first.
    pub axes: Vec<String>,
    /// The cells in matrix order.
    pub cells: Vec<Cell>,
    /// Where its text sets what a real kernel may not take: sysctls by their whole names, and `lru_gen`; and the first
    /// `costs = false`, as `costs`.
    pub settings: BTreeMap<String, Place>,
    /// What is to be known before any of its figures is read, a sentence each.
    pub said: Vec<String>,
}

impl Experiment {
    /// What heads the column of what is compared: `policy`, or the axis's name.
    pub fn compared(&self) -> &str {
        self.cells
            .first()
            .map_or("policy", |c| last_part(c.compared()))
    }

    /// The real kernels that its cells run, each build once, in the order of cells.
    pub fn kernels(&self) -> Vec<&Kernel> {
        let mut kernels: Vec<&Kernel> = Vec::new();
        for kernel in self.cells.iter().filter_map(|c| c.kernel.as_ref()) {
            if kernels.iter().all(|k| k.build != kernel.build) {
                kernels.push(kernel);
            }
        }
        kernels
    }
}

/// A finished run of a real kernel: what it simulated, and what that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostRun {
    /// Virtual nanoseconds from boot to the end.
    pub sim_ns: u64,
    /// What it took.
    pub used: HostUse,
}

/// An experiment that was run, wholly or in part.
pub struct Outcomes {
    /// What was run.
    pub experiment: Experiment,
    /// Results by cell and iteration; `None` where an interrupted run did not get.
    pub results: Vec<Vec<Option<RunResult>>>,
    /// What the runs of real kernels took, by cell, in the order in which they finished; with a check both of
    /// an iteration. Those of an earlier process are not among them.
    pub host: Vec<Vec<HostRun>>,
    /// The run was interrupted.
    pub interrupted: bool,
    /// What of the program that ran it `results.json` says: version, revision, build. `None`: nothing, so that
    /// bytes of several builds can be compared.
    pub build: Option<String>,
}

impl Outcomes {
    /// Whether something in it was measured and not run (the room `recorded`): there is no option for more of it.
    pub fn measured(&self) -> bool {
        let kernels = |r: &RunResult| r.origin == sim::Origin::Kernel;
        let runs = self.experiment.cells.iter().zip(&self.results);
        let mut own = runs.filter(|(cell, _)| cell.kernel.is_none());
        own.any(|(_, results)| results.iter().flatten().any(kernels))
    }
}
