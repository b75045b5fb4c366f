//! The learning mode: stress the machine with watermarks that adjust themselves until a phase passes
//! without direct reclaim, and keep what they came to.
//!
//! Feedback can't rule out the first stall (the author's reply in *tunable-watermarks*,
//! docs/reference/memory-model.md#tunable-watermarks): so it is had here, and the next boot begins with the
//! result.

use super::trial::{Interrupted, Trials, figures};
use crate::model::Cell;
use mm::policy::{ProfileZone, WatermarkProfile, Watermarks};

/// Phases at most. Each begins with what the one before has learned, so the cap of `auto`, a
/// multiple of what a phase begins with, is no limit to learning.
pub const PHASES: usize = 8;

/// One phase of stress.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The sums of the watermarks it began with in kB: min, low, high.
    pub sums: [u64; 3],
    /// The most entries into direct reclaim of a run.
    pub direct: u64,
    /// The longest allocation of all runs, in nanoseconds.
    pub worst_ns: u64,
}

/// What was learned.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The phases, in their order.
    pub phases: Vec<Phase>,
    /// The profile.
    pub profile: WatermarkProfile,
    /// Whether the last phase had no direct reclaim.
    pub calm: bool,
}

/// The cell with a profile in the place of its watermarks.
pub fn with_profile(cell: &Cell, profile: &WatermarkProfile) -> Cell {
    let mut cell = with_sums(cell, profile);
    cell.spec.policy.watermarks = Watermarks::Learned;
    cell.spec.policy.profile = Some(profile.clone());
    cell
}

/// The cell with a profile's sums as sysctls, which zones share by size.
fn with_sums(cell: &Cell, profile: &WatermarkProfile) -> Cell {
    let [min, low, high] = profile.sums();
    let mut cell = cell.clone();
    let sysctl = &mut cell.spec.machine.sysctl;
    sysctl.min_free_kbytes = Some(min);
    sysctl.wmark_min_kbytes = None;
    sysctl.wmark_low_kbytes = Some(low);
    sysctl.wmark_high_kbytes = Some(high);
    cell
}

/// Learns from runs of the trials' cell, `runs` a phase.
///
/// # Errors
/// The user stopped it.
pub fn learn(trials: &Trials<'_>, runs: u32) -> Result<Learned, Interrupted> {
    let mut phases = Vec::new();
    let mut profile = WatermarkProfile::default();
    loop {
        let mut cell = if profile.zones.is_empty() {
            trials.cell().clone()
        } else {
            with_sums(trials.cell(), &profile)
        };
        cell.spec.policy.watermarks = Watermarks::Auto;
        trials.phase(
            &format!("stress phase {}", phases.len() + 1),
            u64::from(runs),
        );
        let sums = super::space::sums(&cell.spec.machine);
        let results = trials.cells(vec![cell], runs, phases.len() as u64)?;
        let f = figures(0, &results[0]);
        for result in &results[0] {
            if let Some(marks) = &result.watermarks {
                profile = higher(profile, marks);
            }
        }
        phases.push(Phase {
            sums,
            direct: f.direct,
            worst_ns: f.worst_ns,
        });
        let calm = f.direct == 0 && f.failed.is_none();
        if calm || phases.len() == PHASES {
            trials.done();
            return Ok(Learned {
                phases,
                profile,
                calm,
            });
        }
    }
}

/// Zone by zone the higher marks of two profiles.
fn higher(a: WatermarkProfile, b: &WatermarkProfile) -> WatermarkProfile {
    if a.zones.is_empty() {
        return b.clone();
    }
    let zones = a.zones.iter().map(|z| {
        let other = b
            .zones
            .iter()
            .find(|o| (o.node, o.zone) == (z.node, z.zone));
        other.map_or(*z, |o| ProfileZone {
            min_kbytes: z.min_kbytes.max(o.min_kbytes),
            low_kbytes: z.low_kbytes.max(o.low_kbytes),
            high_kbytes: z.high_kbytes.max(o.high_kbytes),
            ..*z
        })
    });
    WatermarkProfile {
        zones: zones.collect(),
        ..a
    }
}
