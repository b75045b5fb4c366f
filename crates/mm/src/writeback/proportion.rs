//! Floating proportions: the share of one member in a stream of events, with a fading memory
//! (docs/reference/writeback.md#limits; the 3.0 form).
//!
//! A period is `2^(shift-1)` events of all members. Whenever a period passes, every member's count
//! is halved, lazily when it is next looked at.

use crate::world::{ShortLock, Word64, World};

/// The common stream.
pub(crate) struct Global<W: World> {
    events: W::U64,
    shift: W::U64,
}

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
        let passed = period.wrapping_sub(l.period.get()) >> shift;
        l.events.set(if passed < 64 {
            l.events.get() >> passed
        } else {
            0
        });
        l.period.set(period);
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
