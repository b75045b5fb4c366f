//! The experiment, its cells and its outcomes: the types that every other module shares.

use crate::diagnostic::Place;
pub use kernel::HostUse;
use kernel::Kernel;
use sim::{RunResult, RunSpec};
use std::collections::BTreeMap;

/// The direction in which a figure gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better: elapsed time, latency.
    #[default]
    Lower,
    /// More is better: throughput.
    Higher,
    /// The figure describes the run; neither direction is better in itself.
    Neither,
}

/// One cell of the matrix: everything but the iteration.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The values of the axes that vary, in axis order: (key, value as text).
    pub axes: Vec<(String, String)>,
    /// The machine's name.
    pub machine: String,
    /// The name of the workload in published tables; empty if the experiment does not say.
    pub workload: String,
    /// The workload's number of threads in published tables; empty if the experiment does not say.
    pub threads: String,
    /// The filesystem's name.
    pub filesystem: String,
    /// The policy's name.
    pub policy: String,
    /// True for the cell that the other cells of its group are compared with.
    pub baseline: bool,
    /// The axis whose values are compared; `None`: policies are compared.
    pub by: Option<String>,
    /// The real kernel that runs this cell; `None`: the engine runs it. With a real kernel,
    /// `spec.policy` holds the policy's name only and its switches are not read.
    pub kernel: Option<Kernel>,
    /// Whether its machine says how often the timer ticks. Where it does not, the engine has its
    /// default and a kernel the ticks of its build.
    pub says_hz: bool,
    /// The run's specification; the seed in it is set per iteration.
    pub spec: RunSpec,
}

impl Cell {
    /// Returns the key of the axis whose values are compared.
    pub fn compared(&self) -> &str {
        self.by.as_deref().unwrap_or("policy")
    }

    /// Returns this cell's value on the compared axis: the policy's name, or the axis's value.
    pub fn side(&self) -> &str {
        let by = self.by.as_ref();
        let value = by.and_then(|by| self.axes.iter().find(|(k, _)| k == by));
        value.map_or(&self.policy, |(_, v)| v)
    }

    /// Returns [`side`](Self::side) with the axis's name in front (`dirty_ratio=20`), for texts
    /// that do not name the axis elsewhere. Policies and filesystems stand without a name.
    pub fn said(&self) -> String {
        match &self.by {
            Some(by) if by != "filesystem" => format!("{}={}", last_part(by), self.side()),
            _ => self.side().to_owned(),
        }
    }

    /// Returns all axes except the compared one as one label, such as `machine.cpus=4 xfs`: cells
    /// with equal labels are compared with each other. Without other axes the label is the
    /// filesystem, or the policy if filesystems are compared.
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

    /// Returns all axes except the compared one, in axis order: (key, value as text).
    pub fn group_axes(&self) -> Vec<(String, String)> {
        let others = self.axes.iter().filter(|(k, _)| k != self.compared());
        others.cloned().collect()
    }

    /// Returns machine, filesystem, policy and all axes as one text, with `/` between, which names
    /// the cell in messages.
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

/// Returns the last part of a key: `dirty_ratio` of `machine.sysctl.dirty_ratio`.
pub fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A row, counter or figure of the workload that policies are compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The name of the row, counter or metric.
    pub name: String,
    /// The unit of its values.
    pub unit: &'static str,
    /// The direction in which it gets better.
    pub better: Better,
}

/// A parsed experiment, expanded to its matrix of cells.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The experiment's name, which is also that of its results folder.
    pub name: String,
    /// Iterations of each cell.
    pub iterations: u32,
    /// The seed from which the seeds of all iterations derive.
    pub seed: u64,
    /// The text of the experiment file.
    pub text: String,
    /// Figures that answer the experiment's question, the most telling one first. Empty: elapsed
    /// time and nr_vmscan_write are used.
    pub figures: Vec<Figure>,
    /// Keys that vary, outermost first.
    pub axes: Vec<String>,
    /// The cells in matrix order.
    pub cells: Vec<Cell>,
    /// The places in the text that set something a real kernel may refuse: sysctls by their whole
    /// names, and `lru_gen`; also the first `costs = false`, under the key `costs`.
    pub settings: BTreeMap<String, Place>,
    /// Notes for the reader of any of its figures, a sentence each.
    pub said: Vec<String>,
}

impl Experiment {
    /// Returns the heading of the compared column: `policy`, or the axis's name.
    pub fn compared(&self) -> &str {
        self.cells
            .first()
            .map_or("policy", |c| last_part(c.compared()))
    }

    /// Returns the real kernels that the experiment's cells run, each build once, in the order of
    /// the cells; empty if all policies are the engine's.
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

/// The simulated time of a finished run of a real kernel, and the resources it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostRun {
    /// Virtual nanoseconds from boot to the end.
    pub sim_ns: u64,
    /// Resources of the host that the run took.
    pub used: HostUse,
}

/// An experiment that was run, wholly or in part.
pub struct Outcomes {
    /// The experiment that was run.
    pub experiment: Experiment,
    /// Results by cell and iteration; `None`: an interrupted run did not reach that iteration.
    pub results: Vec<Vec<Option<RunResult>>>,
    /// Time and resources of the runs of real kernels, by cell, in the order in which they
    /// finished; with a check, both runs of an iteration. Runs of an earlier process are not
    /// included.
    pub host: Vec<Vec<HostRun>>,
    /// True if the run was interrupted.
    pub interrupted: bool,
    /// Version, revision and build of the program that ran the experiment, for `results.json`.
    /// `None`: the file says nothing of the build, so that the bytes of several builds can be
    /// compared.
    pub build: Option<String>,
}

impl Outcomes {
    /// Returns true if a cell of one of the engine's policies holds figures of a real kernel, which
    /// were measured elsewhere and not run (module `recorded`): such results cannot be extended
    /// with more iterations.
    pub fn measured(&self) -> bool {
        let kernels = |r: &RunResult| r.origin == sim::Origin::Kernel;
        let runs = self.experiment.cells.iter().zip(&self.results);
        let mut own = runs.filter(|(cell, _)| cell.kernel.is_none());
        own.any(|(_, results)| results.iter().flatten().any(kernels))
    }
}
