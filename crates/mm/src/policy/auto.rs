//! The rules of `watermarks = "auto"`, in the form of the [table of switches](super::switches).

use super::table::{choice, form, setting, switches};
use super::{Choice, Form, Setting, Switch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

switches! {
    /// The rules by which watermarks adjust themselves; each can be switched off. "Default" is the
    /// watermark that the sysctls give.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct AutoWatermarks, "auto." at |policy| policy.auto;

    before {}

    after {}

    /// When a task enters direct reclaim, its zones that are below min are raised, to twice what
    /// they had above their default and at least by one step.
    raise_on_direct_reclaim: bool = true see "docs/reference/memory-model.md#tunable-watermarks";

    /// When kswapd leaves a zone unbalanced at `trouble_priority` or below, in a run that freed
    /// less than half of the pages it scanned, the zone is raised by a step.
    raise_on_trouble: bool = true see "docs/reference/memory-model.md#tunable-watermarks";

    /// The scan priority for `raise_on_trouble`.
    trouble_priority: u8 = 9 [0, 12, "scan priority"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// When kswapd balances its node at its first priority, the node's zones are lowered.
    lower_on_first_priority: bool = true see "docs/reference/memory-model.md#tunable-watermarks";

    /// When at most `quiet_direct` of the last `quiet_events` reclaim events (runs of kswapd and
    /// direct reclaims) were direct reclaims, all zones of the node are lowered.
    lower_on_quiet: bool = true see "docs/reference/memory-model.md#tunable-watermarks";

    /// The number of events for `lower_on_quiet` (the review: about 1000).
    quiet_events: u32 = 1000 [1, 1_000_000, "events"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// The number of direct reclaims that still counts as "next to no" direct reclaim.
    quiet_direct: u32 = 1 [0, 4_294_967_295, "events"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// A step up, in percent of the default low watermark.
    step_percent: u32 = 100 [1, 10_000, "%"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// How much of its height above its floor a zone loses with each lowering.
    lower_percent: u32 = 1 [1, 100, "%"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// The largest multiple of the sysctls' value that a low watermark may reach (the review: 4 to
    /// 5); min and high watermarks are limited to the same multiple of their own. A profile that is
    /// raised has the same limits.
    cap: u32 = 5 [1, 64, "times"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// The shortest time between two raises of a zone, in milliseconds.
    debounce_ms: u32 = 1 [0, 4_294_967_295, "ms"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// The time in which a zone goes down to its floor after its last raise, in milliseconds; 0:
    /// time lowers nothing.
    decay_ms: u32 = 60_000 [0, 4_294_967_295, "ms"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// How much of a raise by direct reclaim is kept as the zone's floor.
    remember_percent: u32 = 100 [0, 100, "%"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// The time in which the floor goes down to the default after the last raise, in seconds; 0: it
    /// stays.
    forget_s: u32 = 3600 [0, 4_294_967_295, "s"] see "docs/reference/memory-model.md#tunable-watermarks";

    /// When an allocation that cannot wait fails, the min watermarks of its zones are raised by a
    /// step.
    raise_min_on_failure: bool = true see "docs/reference/memory-model.md#tunable-watermarks";
}

impl Default for AutoWatermarks {
    fn default() -> Self {
        Self::defaults()
    }
}
