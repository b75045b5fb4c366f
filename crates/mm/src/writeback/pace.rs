//! The rates of dirtiers: the arithmetic of Linux 3.2 to 3.16 (mm/page-writeback.c).

use crate::world::{Word32, Word64, World};

/// Fraction bits of a position ratio.
pub(super) const RATIO_BITS: u32 = 10;
/// Pages that a task should at least dirty between two looks at the limits (128 KiB).
const POLL_PAGES: u64 = 32;
/// Rate and bandwidth before anything is measured, in pages a second: 100 MB/s.
const INIT_RATE: u64 = 25_600;

/// The rate of a device's dirtiers.
pub(crate) struct Rate<W: World> {
    /// Pages a second that each of its dirtiers may dirty while the dirty pages are at their set
    /// point.
    pub(super) base: W::U64,
    /// The base rate that the last measurement alone would give.
    pub(super) balanced: W::U64,
    /// Pages of its files that became dirty, since boot.
    pub(super) dirtied: W::U64,
    /// `dirtied` when the present measurement began.
    pub(crate) dirtied_then: W::U64,
    /// When the timer of the worker that measures the bandwidth expires, in nanoseconds; 0: no
    /// timer is set.
    pub(super) worker_due: W::U64,
}

impl<W: World> Rate<W> {
    /// Creates the rate of a device of which nothing was measured yet: 100 MB/s.
    pub fn new() -> Self {
        let r = Self {
            base: bytemuck::Zeroable::zeroed(),
            balanced: bytemuck::Zeroable::zeroed(),
            dirtied: bytemuck::Zeroable::zeroed(),
            dirtied_then: bytemuck::Zeroable::zeroed(),
            worker_due: bytemuck::Zeroable::zeroed(),
        };
        r.base.set(INIT_RATE);
        r.balanced.set(INIT_RATE);
        r
    }
}

/// A task's pace: what it dirtied since its last pause.
pub(crate) struct Pace<W: World> {
    /// Pages dirtied since its last pause.
    pub(super) dirtied: W::U32,
    /// Pages after which the task looks at the limits.
    pub(super) poll: W::U32,
    /// When its last pause ended, in nanoseconds; 0: it never paused.
    pub(super) paused: W::U64,
}

impl<W: World> Pace<W> {
    /// Creates the pace of a task that has dirtied nothing.
    pub fn new() -> Self {
        let p = Self {
            dirtied: bytemuck::Zeroable::zeroed(),
            poll: bytemuck::Zeroable::zeroed(),
            paused: bytemuck::Zeroable::zeroed(),
        };
        p.poll.set(POLL_PAGES as u32);
        p
    }

    /// Resets the pace of a task that begins.
    pub fn reset(&self) {
        self.dirtied.set(0);
        self.poll.set(POLL_PAGES as u32);
        self.paused.set(0);
    }
}

/// Returns after how many pages a task that is under the free-run ceiling looks at the limits again
/// (`dirty_poll_interval`): about the square root of the `limit - dirty` pages that are left; 1 if
/// none are.
pub(super) fn poll_interval(dirty: u64, limit: u64) -> u64 {
    match limit.checked_sub(dirty) {
        Some(room) if room > 0 => 1 << (room.ilog2() >> 1),
        _ => 1,
    }
}

/// Where a device's dirty pages stand, all in pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Free-run ceiling.
    pub freerun: u64,
    /// The hard limit: never below the dirty limit, and falling slowly towards it.
    pub limit: u64,
    /// The dirty limit.
    pub thresh: u64,
    /// Dirty and under writeback, machine-wide.
    pub dirty: u64,
    /// The device's share of the limit.
    pub bdi_thresh: u64,
    /// The device's dirty pages and pages under writeback.
    pub bdi_dirty: u64,
    /// The device's write bandwidth in pages a second.
    pub bandwidth: u64,
}

impl Position {
    /// Returns true if the device has more dirty pages than its share of the limit, while the limit
    /// is exceeded as a whole.
    pub(crate) fn exceeds(&self) -> bool {
        self.bdi_dirty > self.bdi_thresh && self.dirty > self.thresh
    }

    /// Returns the rate that a device's dirtiers may have, in 1024ths of the base rate
    /// (`bdi_position_ratio`): 1024 at the set point of dirty pages, more below it, 0 at the limit.
    /// A cubic in the machine's dirty pages is multiplied by a line in the device's, and raised for
    /// a device that is nearly idle.
    pub(crate) fn ratio(&self) -> u64 {
        if self.dirty >= self.limit {
            return 0;
        }
        let setpoint = (self.freerun + self.limit) / 2;
        let x = ((setpoint as i64 - self.dirty as i64) << RATIO_BITS)
            / (self.limit as i64 - setpoint as i64 + 1);
        let cube = (((x * x) >> RATIO_BITS) * x) >> RATIO_BITS;
        let mut ratio = (cube + (1 << RATIO_BITS)).clamp(0, 2 << RATIO_BITS) as u64;
        let thresh = self.bdi_thresh.min(self.thresh);
        let bdi_thresh = thresh.max((self.limit - self.dirty) / 8);
        let share = (bdi_thresh << 16) / (self.thresh + 1);
        let bdi_setpoint = (setpoint * share) >> 16;
        // After the limit was lowered a device's share may exceed it. The excess is subtracted from
        // the bandwidth's part (unsigned long in the kernel: the sum wraps).
        let span = self.thresh.wrapping_sub(bdi_thresh);
        let span = span.wrapping_add(8 * self.bandwidth).wrapping_mul(share) >> 16;
        let intercept = bdi_setpoint + span;
        if self.bdi_dirty < intercept - span / 4 {
            ratio = ratio * (intercept - self.bdi_dirty) / (span + 1);
        } else {
            ratio /= 4;
        }
        let gate = bdi_thresh / 2;
        if self.bdi_dirty < gate {
            ratio = if self.bdi_dirty > gate / 8 {
                ratio * gate / self.bdi_dirty
            } else {
                ratio * 8
            };
        }
        ratio
    }
}

/// Lengths of a dirtier's sleep, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pauses {
    /// A shorter computed pause is not slept but credited; at least 1.
    pub min: u64,
    /// A longer pause is cut to this.
    pub max: u64,
    /// Pages to dirty before the next look.
    pub poll: u64,
}

/// Returns the shortest and longest pause of a task in ticks, and the pages to dirty until its next
/// look (`bdi_max_pause` and `bdi_min_pause`). `longest`: the longest pause allowed, in ticks, a
/// fifth of a second in the kernel; `bandwidth`: the device's, in pages a second; `bdi_dirty`: its
/// dirty pages and pages under writeback; `base_rate` and `task_rate`: pages a second of the
/// device's dirtiers at the set point, and of this task.
pub(crate) fn pauses(
    (hz, longest): (u64, u64),
    bandwidth: u64,
    bdi_dirty: u64,
    base_rate: u64,
    task_rate: u64,
) -> Pauses {
    let round_up = |n: u64| n.next_power_of_two();
    let max = (bdi_dirty / (1 + bandwidth / round_up(1 + hz / 8)) + 1).min(longest.max(1));
    let (hi, lo) = (bandwidth.max(1).ilog2(), base_rate.max(1).ilog2());
    // The pause to aim at, in ticks: 10 ms, and about 10 ms more for each halving that leads from
    // the bandwidth to the base rate.
    let mut target = (hz / 100).max(1);
    if hi > lo {
        target += u64::from(hi - lo) * (10 * hz) / 1024;
    }
    target = target.min(1 + max / 2);
    let mut pages = base_rate * target / round_up(hz);
    if pages < POLL_PAGES {
        target = max;
        pages = base_rate * target / round_up(hz);
        if pages > POLL_PAGES {
            pages = POLL_PAGES;
            target = hz * POLL_PAGES / base_rate.max(1);
        }
    }
    if hz * pages / (task_rate + 1) > max {
        target = max;
        pages = task_rate * target / round_up(hz);
    }
    let min = if pages >= POLL_PAGES {
        1 + target / 2
    } else {
        target
    };
    debug_assert!(min > 0 && max > 0);
    Pauses {
        min,
        max,
        poll: pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(dirty: u64) -> Position {
        Position {
            freerun: 15_000,
            limit: 20_000,
            thresh: 20_000,
            dirty,
            bdi_thresh: 20_000,
            bdi_dirty: dirty,
            bandwidth: 5_000,
        }
    }

    #[test]
    fn dirtiers_slow_down_towards_the_limit() {
        // At the set point of the machine and of its only device no task is sped up or slowed down.
        let middle = at(17_500).ratio();
        assert!((1000..=1030).contains(&middle), "{middle}");
        let ratios: Vec<u64> = (15_000..=20_000)
            .step_by(250)
            .map(|d| at(d).ratio())
            .collect();
        assert!(ratios.windows(2).all(|w| w[0] >= w[1]), "{ratios:?}");
        assert_eq!(at(20_000).ratio(), 0);
        assert_eq!(at(25_000).ratio(), 0);
    }

    #[test]
    fn pauses_of_one_and_of_many_dirtiers() {
        // 100 MB/s, one dirtier: pauses around 10 ms at HZ = 1000.
        let one = pauses((1000, 200), 25_600, 50_000, 25_600, 25_600);
        assert_eq!((one.max, one.poll), (200, 250));
        assert_eq!(one.min, 1 + 10 / 2);
        // With a sixteenth of the rate each, pauses are longer, so that a look is worth its cost.
        let many = pauses((1000, 200), 25_600, 50_000, 1600, 1600);
        assert!(many.poll >= 32 && many.min > one.min, "{many:?}");
        // Without a rate the pause is the longest.
        assert_eq!(pauses((250, 50), 25_600, 50_000, 25_600, 0).min, 50);
    }

    #[test]
    fn far_from_the_limit_a_task_looks_seldom() {
        assert_eq!(poll_interval(0, 1 << 20), 1 << 10);
        assert_eq!(poll_interval(5, 5), 1);
    }
}
