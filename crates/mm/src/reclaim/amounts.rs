//! The rules of watermarks that adjust themselves: how many pages a zone, or a machine, has above
//! its default low and min watermarks, and how direct reclaim, trouble, quiet and time change that
//! (docs/reference/memory-model.md#tunable-watermarks). Plain numbers: the engine's zones keep them
//! in words ([`super::auto`]), a program that learns on a running system keeps them in a variable.

use crate::policy::AutoWatermarks;

/// The number of equal parts in which decay takes place.
pub const PARTS: u64 = 16;

/// Returns `percent` of a number of pages, rounded up, at least one.
pub(crate) fn part(pages: u32, percent: u32) -> u32 {
    ((u64::from(pages) * u64::from(percent)).div_ceil(100) as u32).max(1)
}

/// Pages above the default marks, and what they were when decay began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Pages above the default low watermark.
    pub extra: u32,
    /// The part of `extra` that decay leaves: direct reclaim has taught it, and it is forgotten
    /// much more slowly.
    pub floor: u32,
    /// Pages above the default min watermark.
    pub extra_min: u32,
    /// `extra` less `floor` when decay began.
    pub peak: u32,
    /// `extra_min` when decay began.
    pub peak_min: u32,
    /// The floor when forgetting began.
    pub peak_floor: u32,
    /// The largest `extra` so far; a profile keeps it.
    pub learned: u32,
    /// The largest `extra_min` so far.
    pub learned_min: u32,
    /// Nanoseconds of the last raise; 0: there was none.
    pub raised_at: u64,
    /// How many parts of the decay since then have passed.
    pub parts: u32,
    /// Nanoseconds of the last raise by direct reclaim.
    pub taught_at: u64,
    /// How many parts of the floor's decay since then have passed.
    pub floor_parts: u32,
}

impl Amounts {
    /// Returns true if the last raise is at least `debounce_ms` ago, or there was none.
    fn may_raise(&self, rules: &AutoWatermarks, now: u64) -> bool {
        let debounce = u64::from(rules.debounce_ms) * 1_000_000;
        self.raised_at == 0 || now.saturating_sub(self.raised_at) >= debounce
    }

    /// Starts decay anew at time `now` (ns), from the present amounts above the floor (`peak`).
    fn begin_decay(&mut self, now: u64) {
        self.raised_at = now.max(1);
        self.parts = 0;
        self.peak = self.extra.saturating_sub(self.floor);
        self.peak_min = self.extra_min;
    }

    /// Raises the low watermark by a step, a share of its default `low`, up to `room` pages above
    /// that default; all in pages. `taught`: direct reclaim raises it, so the amount at least
    /// doubles and a part of it becomes the floor, which is forgotten only slowly. `now`: in ns.
    /// Does nothing within `debounce_ms` of the last raise.
    pub fn raise(&mut self, rules: &AutoWatermarks, now: u64, low: u32, room: u32, taught: bool) {
        if !self.may_raise(rules, now) {
            return;
        }
        let step = part(low, rules.step_percent);
        let more = if taught { self.extra.max(step) } else { step };
        self.extra = self.extra.saturating_add(more).min(room);
        self.learned = self.learned.max(self.extra);
        if taught {
            let kept = u64::from(self.extra) * u64::from(rules.remember_percent) / 100;
            self.floor = self.floor.max(kept as u32);
            self.peak_floor = self.floor;
            self.taught_at = now.max(1);
            self.floor_parts = 0;
        }
        self.begin_decay(now);
    }

    /// Raises the min watermark by a step, a share of its default `min`, up to `room` pages above
    /// that default. `now`: in ns. Does nothing within `debounce_ms` of the last raise.
    pub fn raise_min(&mut self, rules: &AutoWatermarks, now: u64, min: u32, room: u32) {
        if !self.may_raise(rules, now) {
            return;
        }
        let step = part(min, rules.step_percent);
        self.extra_min = self.extra_min.saturating_add(step).min(room);
        self.learned_min = self.learned_min.max(self.extra_min);
        self.begin_decay(now);
    }

    /// Lowers the low watermark by a share of the pages that it has above its floor; returns false
    /// if there were none.
    pub fn lower(&mut self, rules: &AutoWatermarks) -> bool {
        let above = self.extra.saturating_sub(self.floor);
        if above == 0 {
            return false;
        }
        self.extra -= part(above, rules.lower_percent).min(above);
        true
    }

    /// Lets the amounts by which the low and min watermarks are raised decay, in 16 equal parts, by
    /// the time from the last raises to `now` (ns); the floor, which direct reclaim taught, decays
    /// more slowly. Returns true if anything may have changed.
    pub fn decay(&mut self, rules: &AutoWatermarks, now: u64) -> bool {
        // Parts of a decay that takes `whole` ns which have passed; and the rest of a peak after
        // them.
        let passed = |since: u64, whole: u64| match whole {
            0 => 0,
            _ => (now.saturating_sub(since) * PARTS / whole).min(PARTS),
        };
        let left =
            |peak: u32, parts: u64| (u64::from(peak) * (PARTS - parts)).div_ceil(PARTS) as u32;
        let mut changed = false;
        let parts = passed(self.taught_at, u64::from(rules.forget_s) * crate::SECOND);
        if parts > u64::from(self.floor_parts) {
            self.floor_parts = parts as u32;
            let floor = self.floor.min(left(self.peak_floor, parts));
            // The pages above the floor go down with the floor.
            let above = self.extra.saturating_sub(self.floor);
            self.floor = floor;
            self.extra = floor + above;
            changed = true;
        }
        let parts = passed(self.raised_at, u64::from(rules.decay_ms) * 1_000_000);
        if parts > u64::from(self.parts) {
            self.parts = parts as u32;
            let most = self.floor.saturating_add(left(self.peak, parts));
            self.extra = self.extra.min(most);
            self.extra_min = self.extra_min.min(left(self.peak_min, parts));
            changed = true;
        }
        changed
    }
}
