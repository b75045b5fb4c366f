//! Floating proportions: the share of one member in a stream of events, with a fading memory
//! (docs/reference/writeback.md#limits).
//!
//! 3.0: a period is `2^(shift-1)` events of all members. Whenever a period passes, every member's count
//! is halved, lazily when it is next looked at. A share is of half a period's events at least, so that a
//! member's own grows from nothing.
//!
//! 3.6 (`flex_proportions`): a period is three seconds, and both counts are halved: whoever makes all the
//! events has all of the share at once.

use crate::world::{ShortLock, Word64, World};

/// The common stream.
pub(crate) struct Global<W: World> {
    events: W::U64,
    shift: W::U64,
    /// 3.6: periods that have passed, and when the next one has, in nanoseconds; 0: none is counted.
    period: W::U64,
    due: W::U64,
    lock: W::Lock,
}

/// `VM_COMPLETIONS_PERIOD_LEN` in nanoseconds.
const PERIOD: u64 = 3_000_000_000;

/// One member's count.
pub(crate) struct Local<W: World> {
    events: W::U64,
    period: W::U64,
    lock: W::Lock,
}

impl<W: World> Local<W> {
    pub fn new() -> Self {
        Self {
            events: bytemuck::Zeroable::zeroed(),
            period: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        }
    }

    /// It is another period, so many after the last one that the count is of; under the member's lock.
    #[inline]
    fn age(&self, passed: u64, period: u64) {
        self.events.set(if passed < 64 {
            self.events.get() >> passed
        } else {
            0
        });
        self.period.set(period);
    }

    /// The member begins anew.
    pub fn reset(&self) {
        self.events.set(0);
    }
}

impl<W: World> Global<W> {
    pub fn new() -> Self {
        let g = Self {
            events: bytemuck::Zeroable::zeroed(),
            shift: bytemuck::Zeroable::zeroed(),
            period: bytemuck::Zeroable::zeroed(),
            due: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        };
        g.shift.set(10);
        g
    }

    /// Sets the shift to `2 + ilog2(limit - 1)`, so that a period is one to two limits' worth.
    pub fn set_limit(&self, limit: u64) {
        let shift = u64::from(2 + limit.saturating_sub(1).max(1).ilog2());
        self.shift.set(shift.min(40));
    }

    /// Halves a member's count for every period that passed; under the member's lock.
    #[inline]
    fn norm(&self, l: &Local<W>) {
        let shift = self.shift.get() - 1;
        let period = self.events.get() >> shift << shift;
        if period == l.period.get() {
            return;
        }
        l.age(period.wrapping_sub(l.period.get()) >> shift, period);
    }

    /// `n` events of a member, one after the other.
    #[inline]
    pub fn inc_by(&self, l: &Local<W>, mut n: u64) {
        l.lock.with(|| {
            while n > 0 {
                self.norm(l);
                let half = 1u64 << (self.shift.get() - 1);
                let in_period = n.min(half - (self.events.get() & (half - 1)));
                l.events.fetch_add(in_period);
                self.events.fetch_add(in_period);
                n -= in_period;
            }
        });
    }

    /// The periods of three seconds that have passed are over. Each halves what was counted, until there is
    /// nothing to halve (`writeout_period`, `fprop_new_period`).
    fn pass_time(&self, now: u64) {
        self.lock.with(|| {
            while (1..=now).contains(&self.due.get()) {
                if self.events.get() == 0 {
                    self.due.set(0);
                    return;
                }
                self.events.set(self.events.get() >> 1);
                self.period.fetch_add(1);
                self.due.fetch_add(PERIOD);
            }
        });
    }

    /// [`Self::norm`] by time.
    fn reflect(&self, l: &Local<W>) {
        let period = self.period.get();
        l.age(period.wrapping_sub(l.period.get()), period);
    }

    /// `n` events of a member at a time in nanoseconds, where periods pass with time.
    pub fn inc_at(&self, l: &Local<W>, n: u64, now: u64) {
        self.pass_time(now);
        l.lock.with(|| {
            self.reflect(l);
            l.events.fetch_add(n);
        });
        // Halving reads and writes, so that nobody may add meanwhile. The first event begins a period.
        self.lock.with(|| {
            self.events.fetch_add(n);
            if self.due.get() == 0 {
                self.due.set(now + PERIOD);
            }
        });
    }

    /// [`Self::fraction`] at a time in nanoseconds, where periods pass with time.
    pub fn fraction_at(&self, l: &Local<W>, now: u64) -> (u64, u64) {
        self.pass_time(now);
        let events = l.lock.with(|| {
            self.reflect(l);
            l.events.get()
        });
        // The kernel's count of all begins with 1.
        (events, (self.events.get() + 1).max(events))
    }

    /// A member's share as numerator and denominator (the denominator is never 0).
    pub fn fraction(&self, l: &Local<W>) -> (u64, u64) {
        let events = l.lock.with(|| {
            self.norm(l);
            l.events.get()
        });
        let half = 1u64 << (self.shift.get() - 1);
        let denominator = half + (self.events.get() & (half - 1));
        (events.min(denominator), denominator)
    }
}
