//! The rules of watermarks that adjust themselves: what a zone, or a machine, has above its default low and min
//! watermarks, and what direct reclaim, trouble, quiet and time make of it
//! (docs/reference/memory-model.md#tunable-watermarks). Plain numbers: the engine's zones keep them in words
//! ([`super::auto`]), and who learns on a running system in a variable.

use crate::policy::AutoWatermarks;

/// Decay takes place in so many equal parts.
pub const PARTS: u64 = 16;

/// `percent` of a number of pages, at least one.
pub(crate) fn part(pages: u32, percent: u32) -> u32 {
    ((u64::from(pages) * u64::from(percent)).div_ceil(100) as u32).max(1)
}

/// Pages above the defaults, and what they were when time began to take from them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Above the default low watermark.
    pub extra: u32,
    /// What of `extra` time leaves: what direct reclaim has taught, which is forgotten much more slowly.
    pub floor: u32,
    /// Above the default min watermark.
    pub extra_min: u32,
    /// `extra` less `floor` when decay began.
    pub peak: u32,
    /// `extra_min` then.
    pub peak_min: u32,
    /// The floor when forgetting began.
    pub peak_floor: u32,
    /// The largest `extra` so far: what a profile keeps.
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
    /// Whether the last raise is at least `debounce_ms` ago.
    fn may_raise(&self, rules: &AutoWatermarks, now: u64) -> bool {
        let debounce = u64::from(rules.debounce_ms) * 1_000_000;
        self.raised_at == 0 || now.saturating_sub(self.raised_at) >= debounce
    }

    /// Time takes from `now` on.
    fn begin_decay(&mut self, now: u64) {
        self.raised_at = now.max(1);
        self.parts = 0;
        self.peak = self.extra.saturating_sub(self.floor);
        self.peak_min = self.extra_min;
    }

    /// More above the low watermark, whose default is `low`, up to `room`. `taught`: by direct reclaim, so twice
    /// as much and it is remembered. At most once in `debounce_ms`.
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

    /// More above the min watermark, whose default is `min`, up to `room`. At most once in `debounce_ms`.
    pub fn raise_min(&mut self, rules: &AutoWatermarks, now: u64, min: u32, room: u32) {
        if !self.may_raise(rules, now) {
            return;
        }
        let step = part(min, rules.step_percent);
        self.extra_min = self.extra_min.saturating_add(step).min(room);
        self.learned_min = self.learned_min.max(self.extra_min);
        self.begin_decay(now);
    }

    /// Takes a part of what is above the floor; whether there was any.
    pub fn lower(&mut self, rules: &AutoWatermarks) -> bool {
        let above = self.extra.saturating_sub(self.floor);
        if above == 0 {
            return false;
        }
        self.extra -= part(above, rules.lower_percent).min(above);
        true
    }

    /// Takes what the time since the last raises takes; whether anything may have changed.
    pub fn decay(&mut self, rules: &AutoWatermarks, now: u64) -> bool {
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
            // What lay on the floor goes down with it.
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
