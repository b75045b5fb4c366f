//! Floating proportions: the share of one member in a stream of events, with a fading memory
//! (docs/reference/writeback.md#limits).
//!
//! 3.0: a period is `2^(shift-1)` events of all members. Whenever a period passes, every member's
//! count is halved, lazily when it is next read. A share is taken of at least one period's
//! events, so that a member's share grows from nothing.
//!
//! 3.6 (`flex_proportions`): a period is three seconds, and both counts are halved: a member that
//! makes all events has the whole share at once.

use crate::world::{ShortLock, Word64, World};

/// The stream of all members' events.
pub(crate) struct Global<W: World> {
    /// Events of all members, ever; 3.6: halved with each period.
    events: W::U64,
    /// 3.0: a period has `2^(shift-1)` events.
    shift: W::U64,
    /// 3.6: periods that have passed, and when the next one ends, in nanoseconds; 0: no period
    /// runs.
    period: W::U64,
    due: W::U64,
    lock: W::Lock,
}

/// `VM_COMPLETIONS_PERIOD_LEN` in nanoseconds.
const PERIOD: u64 = 3_000_000_000;

/// One member's count.
pub(crate) struct Local<W: World> {
    /// The member's events, halved with each period.
    events: W::U64,
    /// The period that the count is of.
    period: W::U64,
    lock: W::Lock,
}

impl<W: World> Local<W> {
    /// Creates the count of a member without events.
    pub fn new() -> Self {
        Self {
            events: bytemuck::Zeroable::zeroed(),
            period: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        }
    }

    /// Moves the member's count to `period`, which is `passed` periods after the one that the count
    /// is of: halves the count for each. Called under the member's lock.
    #[inline]
    fn age(&self, passed: u64, period: u64) {
        self.events.set(if passed < 64 {
            self.events.get() >> passed
        } else {
            0
        });
        self.period.set(period);
    }

    /// Forgets the member's events.
    pub fn reset(&self) {
        self.events.set(0);
    }
}

impl<W: World> Global<W> {
    /// Creates a stream without events, whose periods have 512 events until [`Self::set_limit`] is
    /// called.
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

    /// Sets the shift to `2 + ilog2(limit - 1)`, so that a period, after which counts are halved,
    /// is as many events as one to two times `limit` (the dirty limit in pages).
    pub fn set_limit(&self, limit: u64) {
        let shift = u64::from(2 + limit.saturating_sub(1).max(1).ilog2());
        self.shift.set(shift.min(40));
    }

    /// Halves a member's count for every period of the whole stream that passed since the count was
    /// last updated (3.0: periods are numbers of events). Called under the member's lock.
    #[inline]
    fn norm(&self, member: &Local<W>) {
        let shift = self.shift.get() - 1;
        let period = self.events.get() >> shift << shift;
        if period == member.period.get() {
            return;
        }
        member.age(period.wrapping_sub(member.period.get()) >> shift, period);
    }

    /// Counts `n` events of a member, such as pages that a device has written, with the result of
    /// single calls of `prop_inc` (lib/proportions.c): each time that a period of 2^(`shift` - 1)
    /// events of all members has passed, the member's older events are halved (`norm`), so `n` is
    /// counted in pieces that end there.
    #[inline]
    pub fn inc_by(&self, member: &Local<W>, mut n: u64) {
        member.lock.with(|| {
            while n > 0 {
                self.norm(member);
                let half = 1u64 << (self.shift.get() - 1);
                let in_period = n.min(half - (self.events.get() & (half - 1)));
                member.events.fetch_add(in_period);
                self.events.fetch_add(in_period);
                n -= in_period;
            }
        });
    }

    /// Ends the periods of three seconds that have passed at time `now`. Each halves the count of
    /// events, until there is nothing to halve (`writeout_period`, `fprop_new_period`).
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

    /// Halves a member's count for every period of three seconds that passed since the count was
    /// last updated (3.6). Called under the member's lock.
    fn reflect(&self, member: &Local<W>) {
        let period = self.period.get();
        member.age(period.wrapping_sub(member.period.get()), period);
    }

    /// Counts `n` events of a member, such as pages that a device has written, at time `now` in
    /// nanoseconds, where periods of three seconds halve the counts (3.6).
    pub fn inc_at(&self, member: &Local<W>, n: u64, now: u64) {
        self.pass_time(now);
        member.lock.with(|| {
            self.reflect(member);
            member.events.fetch_add(n);
        });
        // Halving reads and then writes, so no other thread may add in between. The first event
        // begins a period.
        self.lock.with(|| {
            self.events.fetch_add(n);
            if self.due.get() == 0 {
                self.due.set(now + PERIOD);
            }
        });
    }

    /// Returns a member's share of the recent events as numerator and denominator (never 0), at
    /// time `now` in nanoseconds, where periods of three seconds halve the counts (3.6).
    pub fn fraction_at(&self, member: &Local<W>, now: u64) -> (u64, u64) {
        self.pass_time(now);
        let events = member.lock.with(|| {
            self.reflect(member);
            member.events.get()
        });
        // The kernel's count of all events begins with 1.
        (events, (self.events.get() + 1).max(events))
    }

    /// Returns a member's share of the recent events as numerator and denominator (never 0), where
    /// a period is a number of events (3.0).
    pub fn fraction(&self, member: &Local<W>) -> (u64, u64) {
        let events = member.lock.with(|| {
            self.norm(member);
            member.events.get()
        });
        let half = 1u64 << (self.shift.get() - 1);
        // At least one period's events, so that a member's share grows slowly from nothing.
        let denominator = half + (self.events.get() & (half - 1));
        (events.min(denominator), denominator)
    }
}
