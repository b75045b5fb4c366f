//! The learning mode: stresses the machine with watermarks that adjust themselves until a phase
//! passes without direct reclaim, and keeps the watermarks reached.
//!
//! Feedback can't prevent the first stall (the author's reply in *tunable-watermarks*,
//! docs/reference/memory-model.md#tunable-watermarks): so the stalls are provoked here, and the
//! next boot begins with the result.

use super::trial::{Interrupted, Trials, figures};
use crate::model::Cell;
use mm::policy::{ProfileZone, WatermarkProfile, Watermarks};

/// Most phases. Each begins with the profile that the one before has learned; the cap of `auto` is
/// a multiple of the watermarks given by the sysctls, so it holds for all phases together.
pub const PHASES: usize = 8;

/// One phase of stress.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The sums of the watermarks at the start of the phase, in kB: min, low, high.
    pub sums: [u64; 3],
    /// The most entries into direct reclaim of any run.
    pub direct: u64,
    /// The longest allocation of all runs, in nanoseconds.
    pub worst_ns: u64,
}

/// The result of learning.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The phases, in their order.
    pub phases: Vec<Phase>,
    /// The watermarks reached.
    pub profile: WatermarkProfile,
    /// True if the last phase had no direct reclaim.
    pub calm: bool,
    /// The cap of `auto`, as a multiple of the sysctls' watermarks, if some zone's low watermark
    /// has reached it.
    pub cap: Option<u32>,
}

/// Returns a copy of the cell that runs with a learned profile of watermarks: zone by zone in its
/// policy, and as sums in the sysctls.
pub fn with_profile(cell: &Cell, profile: &WatermarkProfile) -> Cell {
    let mut cell = with_sums(cell, profile);
    cell.spec.policy.watermarks = Watermarks::Learned;
    cell.spec.policy.profile = Some(profile.clone());
    cell
}

/// Returns a copy of the cell for a stress phase: watermarks adjust themselves (`Auto`) and begin
/// with the profile, or with the watermarks of the sysctls if the profile names no zone.
fn stressed(cell: &Cell, profile: &WatermarkProfile) -> Cell {
    let mut cell = cell.clone();
    cell.spec.policy.watermarks = Watermarks::Auto;
    cell.spec.policy.profile = (!profile.zones.is_empty()).then(|| profile.clone());
    cell
}

/// Returns true if the profile's low watermark of some zone has reached the cap of self-adjusting
/// watermarks: `auto.cap` times the low watermark that the sysctls give.
fn at_cap(cell: &Cell, profile: &WatermarkProfile) -> bool {
    let cap = u64::from(cell.spec.policy.auto.cap);
    let zones = sim::run::engine_config(&cell.spec.machine).zones;
    // The watermarks min, low and high of each zone that the sysctls give, in pages of 4 kB.
    let unlearned = sim::run::watermarks(&cell.spec.machine);
    let mut marks = zones.iter().zip(unlearned);
    marks.any(|(zone, [_, low, _])| {
        let mut learned = profile.zones.iter();
        learned.any(|p| {
            (p.node, p.zone) == (zone.node, zone.kind) && low > 0 && p.low_kbytes >= 4 * low * cap
        })
    })
}

/// Returns a copy of the cell whose sysctls ask for the sums of a profile's watermarks; the
/// kernel's formula divides the sums among the zones by size.
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

/// Learns watermarks from runs of the trials' cell, `runs` in each phase: each phase begins with
/// the highest watermarks that the phases before reached. Ends after a phase without direct
/// reclaim, after `PHASES`, or when the cap leaves nothing to learn.
///
/// # Errors
/// Fails if the user interrupts it.
pub fn learn(trials: &Trials<'_>, runs: u32) -> Result<Learned, Interrupted> {
    let mut phases = Vec::new();
    let mut profile = WatermarkProfile::default();
    loop {
        let cell = stressed(trials.cell(), &profile);
        trials.phase(
            &format!("stress phase {}", phases.len() + 1),
            u64::from(runs),
        );
        let sums = match profile.zones.is_empty() {
            true => super::space::sums(&cell.spec.machine),
            false => profile.sums(),
        };
        let before = profile.clone();
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
        let capped = at_cap(trials.cell(), &profile);
        // A phase that changed nothing of a profile at the cap leaves nothing to learn.
        if calm || phases.len() == PHASES || (capped && profile == before) {
            trials.done();
            return Ok(Learned {
                phases,
                profile,
                calm,
                cap: capped.then_some(trials.cell().spec.policy.auto.cap),
            });
        }
    }
}

/// Returns, zone by zone of `a`, the higher of each watermark of two profiles; `b` alone if `a` is
/// empty.
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
