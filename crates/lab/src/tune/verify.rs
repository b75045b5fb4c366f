//! Tests the answer in a real kernel: runs the chosen setting, in the form that a current Linux
//! takes, and the machine's own settings, under the same seeds in the same guest.
//!
//! Of allocations a guest measures only stalls in direct reclaim (the tracepoints of vmscan): the
//! longest stall stands for the longest allocation, and waits for a lock or a page are not in it.

use super::goals::{Figures, Goal, Goals, mib, time};
use super::space::Setting;
use super::sysctl_d;
use super::trial::{Interrupted, TrialOptions, Trials};
use crate::model::Experiment;
use crate::runner::Simulate;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The figures of the answer in a real kernel.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The kernel's build, such as `6.12`.
    pub build: String,
    /// The kernel's release, where it is known.
    pub release: Option<String>,
    /// The setting that was written in the guest.
    pub setting: Setting,
    /// Figures with the machine's own settings.
    pub own: Figures,
    /// Figures with the chosen setting.
    pub chosen: Figures,
    /// Goals that the chosen setting misses.
    pub missed: Vec<Goal>,
    /// A goal that could not be measured: throughput, if no program reports bytes.
    pub unmeasured: Option<Goal>,
}

/// Tests the chosen setting in the real kernel of an experiment's only cell: runs it, in the form
/// that a current Linux accepts, and the machine's own settings, `runs` times each, and compares
/// the figures with the goals.
///
/// # Panics
/// Panics if the experiment has not exactly one cell, or its cell runs no real kernel.
///
/// # Errors
/// Fails if the user interrupts it.
pub fn verify(
    experiment: &Experiment,
    chosen: &Setting,
    goals: &Goals,
    runs: u32,
    options: TrialOptions,
    simulate: Simulate<'_>,
) -> Result<Verified, Interrupted> {
    let trials = Trials::new(experiment, runs, options, simulate);
    let kernel = trials.cell().kernel.as_ref().expect("a real kernel");
    let setting = sysctl_d::modern(chosen, &trials.cell().spec.machine);
    trials.phase(&format!("in Linux {}", kernel.build), 2 * u64::from(runs));
    let own = trials.figures(&Setting::default())?;
    let figures = trials.figures(&setting)?;
    trials.done();
    let missed = goals.missed(&figures, own.throughput).into_iter();
    // A throughput of NaN may count as a missed goal; it is reported as unmeasured instead.
    let blind = goals.throughput.is_some() && figures.throughput.is_nan();
    let unmeasured = blind.then_some(Goal::Throughput);
    let missed = missed.map(|(goal, _)| goal);
    Ok(Verified {
        build: kernel.build.clone(),
        release: simulate.release(kernel),
        setting,
        missed: missed.filter(|goal| Some(*goal) != unmeasured).collect(),
        unmeasured,
        own,
        chosen: figures,
    })
}

/// Formats a throughput in MB/s, or says that no program reported one (NaN).
fn rate(f: &Figures) -> String {
    match f.throughput.is_nan() {
        true => "throughput not measured".into(),
        false => format!("{:.1} MB/s", f.throughput),
    }
}

impl Verified {
    /// Returns true if the goals are met.
    pub fn holds(&self) -> bool {
        self.missed.is_empty()
    }

    /// Returns a sentence that says whether the goals hold in the real kernel, which are missed,
    /// and which could not be measured.
    pub fn verdict(&self) -> String {
        let release = self.release.as_deref().unwrap_or(&self.build);
        let runs = self.chosen.runs;
        let names: Vec<&str> = self.missed.iter().map(|goal| goal.name()).collect();
        let mut verdict = match self.holds() {
            true => format!("In Linux {release} itself the goals hold, in {runs} runs"),
            false => format!(
                "In Linux {release} itself the goals are missed, in {runs} runs: {}",
                names.join(", ")
            ),
        };
        if let Some(goal) = self.unmeasured {
            let _ = write!(verdict, "; {} is not measured there", goal.name());
        }
        verdict + "."
    }

    /// Returns the verdict, then a line of figures with the machine's own settings and one with the
    /// chosen ones.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n\n", self.verdict());
        for (name, f) in [
            ("the machine's own", &self.own),
            ("these settings", &self.chosen),
        ] {
            let _ = writeln!(
                out,
                "    {name:17}  {} direct reclaims, the longest {}; {}, {} kept free{}",
                f.direct,
                time(f.worst_ns),
                rate(f),
                mib(f.kept_free),
                f.failed
                    .as_ref()
                    .map_or(String::new(), |what| format!(", {what}"))
            );
        }
        out
    }

    /// Returns the verdict of the real kernel, and the figures of both settings in it, as JSON.
    pub fn json(&self) -> Value {
        let figures = |f: &Figures| {
            json!({
                "longest_direct_reclaim_ns": f.worst_ns, "direct_reclaims": f.direct,
                "throughput_mb_per_s": Some(f.throughput).filter(|rate| !rate.is_nan()), "kept_free_bytes": f.kept_free,
                "runs": f.runs, "failed": f.failed,
            })
        };
        json!({
            "kernel": self.build, "release": self.release, "setting": self.setting,
            "own": figures(&self.own), "chosen": figures(&self.chosen), "holds": self.holds(),
            "missed": self.missed.iter().map(|goal| goal.name()).collect::<Vec<_>>(),
            "unmeasured": self.unmeasured.map(Goal::name),
        })
    }
}
