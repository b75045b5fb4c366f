//! Who decides the watermarks: the sysctls, feedback, or what a stress run has found to be enough.
//!
//! A profile is the answer of *tunable-watermarks*' author to watermarks that adjust themselves: feedback
//! cannot rule out the first stall, so test once and keep the result
//! (docs/reference/memory-model.md#tunable-watermarks).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who decides the watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Watermarks {
    /// The sysctls.
    Sysctl,
    /// Feedback, from what the sysctls say on; see [`AutoWatermarks`].
    Auto,
    /// A profile that a stress run left, in the place of the sysctls.
    Learned,
}

/// The rules by which watermarks adjust themselves; each can be switched off. "Default" is the
/// watermark that the sysctls give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AutoWatermarks {
    /// A task enters direct reclaim: its zones that are below min are raised, to twice what they had
    /// above their default and at least by one step.
    pub raise_on_direct_reclaim: bool,
    /// kswapd leaves a zone unbalanced at `trouble_priority` or below, in a run that has freed less than
    /// half of the pages it scanned: the zone is raised by a step.
    pub raise_on_trouble: bool,
    /// The scan priority for that (0..=12).
    pub trouble_priority: u8,
    /// kswapd balances its node at its first priority: its zones are lowered.
    pub lower_on_first_priority: bool,
    /// Among the last `quiet_events` reclaim events (kswapd's runs and direct reclaims) no more than
    /// `quiet_direct` were direct reclaims: all zones of the node are lowered.
    pub lower_on_quiet: bool,
    /// The number of events for that (the review: about 1000).
    pub quiet_events: u32,
    /// "Next to no" direct reclaim.
    pub quiet_direct: u32,
    /// A step up, in percent of the default low watermark.
    pub step_percent: u32,
    /// What one lowering takes of what a zone has above its floor, in percent (1..=100).
    pub lower_percent: u32,
    /// No low watermark is above this multiple of its default (the review: 4 to 5), and no high or
    /// min watermark above the same multiple of its own. 1..=64.
    pub cap: u32,
    /// A zone is raised again after so many milliseconds at the earliest.
    pub debounce_ms: u32,
    /// After its last raise a zone goes down to its floor in so many milliseconds; 0: time lowers
    /// nothing.
    pub decay_ms: u32,
    /// How much of a raise by direct reclaim stays as the floor, in percent (0..=100).
    pub remember_percent: u32,
    /// After its last raise the floor goes down to the default in so many seconds; 0: it stays.
    pub forget_s: u32,
    /// An allocation that cannot wait fails: the min watermarks of its zones are raised by a step.
    pub raise_min_on_failure: bool,
}

impl Default for AutoWatermarks {
    fn default() -> Self {
        Self {
            raise_on_direct_reclaim: true,
            raise_on_trouble: true,
            trouble_priority: 9,
            lower_on_first_priority: true,
            lower_on_quiet: true,
            quiet_events: 1000,
            quiet_direct: 1,
            step_percent: 100,
            lower_percent: 1,
            cap: 5,
            debounce_ms: 1,
            decay_ms: 60_000,
            remember_percent: 100,
            forget_s: 3600,
            raise_min_on_failure: true,
        }
    }
}
