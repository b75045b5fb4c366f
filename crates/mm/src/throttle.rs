//! Dirtiers that only sleep (`dirty_throttle = "sleep"`; Linux 3.2,
//! docs/reference/writeback.md#sleeping-dirtiers).
//!
//! A task that dirties pages over the free-run ceiling sleeps so long that it keeps to a rate: the
//! device's base rate times how far the dirty pages are from where they should be. The base rate is
//! adjusted every 200 ms so that N such tasks together dirty as fast as the device writes. All
//! rates are pages a second, times inside are ticks as in the kernel, whose arithmetic this is
//! (Linux 3.16 mm/page-writeback.c).

use crate::Mm;
use crate::dirty::{Limits, ratelimit_pages};
use crate::vmstat::ZoneStat;
use crate::world::{Cost, Waited, WaitedKind, Word32, Word64, World};

/// Fraction bits of a position ratio.
const SHIFT: u32 = 10;
/// A task should dirty at least so many pages between two looks (128 KiB).
const POLL_PAGES: u64 = 32;
/// The same while the device is over its limit (32 KiB).
const POLL_EXCEEDED: u32 = 8;
/// Rates and the falling limit are adjusted no more often (ns).
const INTERVAL: u64 = 200_000_000;
/// Rate and bandwidth before anything is known: 100 MB/s.
const INIT_RATE: u64 = 25_600;

/// A device's rate.
pub(crate) struct Rate<W: World> {
    /// What each of its dirtiers may dirty in a second where it should be.
    base: W::U64,
    /// What the last measurement alone would make of that.
    balanced: W::U64,
    /// Pages of its files that became dirty, ever.
    dirtied: W::U64,
    dirtied_then: W::U64,
    time: W::U64,
}

impl<W: World> Rate<W> {
    pub fn new() -> Self {
        let r = Self {
            base: bytemuck::Zeroable::zeroed(),
            balanced: bytemuck::Zeroable::zeroed(),
            dirtied: bytemuck::Zeroable::zeroed(),
            dirtied_then: bytemuck::Zeroable::zeroed(),
            time: bytemuck::Zeroable::zeroed(),
        };
        r.base.set(INIT_RATE);
        r.balanced.set(INIT_RATE);
        r
    }
}

/// A task's pace.
pub(crate) struct Pace<W: World> {
    /// Pages dirtied since its last pause.
    dirtied: W::U32,
    /// After so many it looks at the limits.
    poll: W::U32,
    /// When its last pause ended, in nanoseconds; 0: it never paused.
    paused: W::U64,
}

impl<W: World> Pace<W> {
    pub fn new() -> Self {
        let p = Self {
            dirtied: bytemuck::Zeroable::zeroed(),
            poll: bytemuck::Zeroable::zeroed(),
            paused: bytemuck::Zeroable::zeroed(),
        };
        p.poll.set(POLL_PAGES as u32);
        p
    }

    pub fn reset(&self) {
        self.dirtied.set(0);
        self.poll.set(POLL_PAGES as u32);
        self.paused.set(0);
    }
}

/// After how many pages a task looks again that is under the free-run ceiling.
fn poll_interval(dirty: u64, limit: u64) -> u64 {
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
    /// The hard limit: never below the dirty limit, and falling slowly.
    pub limit: u64,
    /// The dirty limit.
    pub thresh: u64,
    /// Dirty and under writeback, machine-wide.
    pub dirty: u64,
    /// The device's share of the limit.
    pub bdi_thresh: u64,
    /// Its dirty pages and those under writeback.
    pub bdi_dirty: u64,
    /// Its write bandwidth in pages a second.
    pub bandwidth: u64,
}

impl Position {
    /// How fast dirtiers may go, in 1024ths of the base rate (`bdi_position_ratio`).
    pub(crate) fn ratio(&self) -> u64 {
        if self.dirty >= self.limit {
            return 0;
        }
        let setpoint = (self.freerun + self.limit) / 2;
        let x = ((setpoint as i64 - self.dirty as i64) << SHIFT)
            / (self.limit as i64 - setpoint as i64 + 1);
        let cube = (((x * x) >> SHIFT) * x) >> SHIFT;
        let mut ratio = (cube + (1 << SHIFT)).clamp(0, 2 << SHIFT) as u64;
        let thresh = self.bdi_thresh.min(self.thresh);
        let bdi_thresh = thresh.max((self.limit - self.dirty) / 8);
        let share = (bdi_thresh << 16) / (self.thresh + 1);
        let bdi_setpoint = (setpoint * share) >> 16;
        let span = ((self.thresh.saturating_sub(bdi_thresh) + 8 * self.bandwidth) * share) >> 16;
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

/// How long to sleep, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pauses {
    /// A shorter computed pause is not slept but credited.
    pub min: u64,
    /// A longer one is cut.
    pub max: u64,
    /// Pages to dirty before the next look.
    pub poll: u64,
}

/// `bdi_max_pause` and `bdi_min_pause`: `rate` the base rate, `task` the task's own.
pub(crate) fn pauses(hz: u64, bandwidth: u64, bdi_dirty: u64, rate: u64, task: u64) -> Pauses {
    let round = |n: u64| n.next_power_of_two();
    let max = (bdi_dirty / (1 + bandwidth / round(1 + hz / 8)) + 1).min((hz / 5).max(1));
    let (hi, lo) = (bandwidth.max(1).ilog2(), rate.max(1).ilog2());
    let mut t = (hz / 100).max(1);
    if hi > lo {
        t += u64::from(hi - lo) * (10 * hz) / 1024;
    }
    t = t.min(1 + max / 2);
    let mut pages = rate * t / round(hz);
    if pages < POLL_PAGES {
        t = max;
        pages = rate * t / round(hz);
        if pages > POLL_PAGES {
            pages = POLL_PAGES;
            t = hz * POLL_PAGES / rate.max(1);
        }
    }
    if hz * pages / (task + 1) > max {
        t = max;
        pages = task * t / round(hz);
    }
    Pauses {
        min: if pages >= POLL_PAGES { 1 + t / 2 } else { t },
        max,
        poll: pages,
    }
}

impl<W: World> Mm<W> {
    /// Counts a dirtied page; whether the task must look at the limits now.
    #[inline]
    pub(crate) fn note_dirtied_by_task(&self, bdi: u32, on_cpu: &W::U32) -> bool {
        let (b, pace) = (&self.bdis[bdi as usize], &self.current().pace);
        b.rate.dirtied.fetch_add(1);
        let n = pace.dirtied.fetch_add(1) + 1;
        let cpu = on_cpu.get() + 1;
        let mut poll = pace.poll.get();
        if b.dirty_exceeded.get() != 0 {
            poll = poll.min(POLL_EXCEEDED);
        }
        // Many tasks that dirty a little each are caught by the CPU's count.
        if n >= poll || cpu >= self.writeback.ratelimit.get() {
            on_cpu.set(0);
            return true;
        }
        on_cpu.set(cpu);
        false
    }

    /// The limit that dirtiers are held to: it rises at once and falls by a 32nd of the distance
    /// every 200 ms.
    fn hard_dirty_limit(&self, thresh: u64, dirty: u64) -> u64 {
        let shared = &self.writeback;
        let (now, limit) = (self.world.now(), shared.limit.get());
        if limit < thresh {
            shared.limit.set(thresh);
            shared.limit_time.set(now);
        } else if now.saturating_sub(shared.limit_time.get()) >= INTERVAL {
            shared.limit_time.set(now);
            let floor = thresh.max(dirty);
            if limit > floor {
                shared.limit.set(limit - (limit - floor) / 32);
            }
            let cpus = self.config.cpus as u64;
            let total = 32 * cpus * (thresh / (32 * cpus));
            shared
                .ratelimit
                .set(ratelimit_pages(total.max(1), cpus).max(thresh / (32 * cpus)) as u32);
        }
        shared.limit.get().max(thresh)
    }

    /// Adjusts a device's base rate to what it wrote and what was dirtied since the last time
    /// (`bdi_update_dirty_ratelimit`).
    fn update_ratelimit(&self, bdi: u32, p: &Position) {
        let r = &self.bdis[bdi as usize].rate;
        let now = self.world.now();
        let elapsed = now.saturating_sub(r.time.get());
        if elapsed < INTERVAL {
            return;
        }
        let dirtied = r.dirtied.get();
        let ticks = (elapsed / self.tick()).max(1);
        let dirty_rate = (dirtied - r.dirtied_then.get()) * self.config.hz / ticks;
        r.time.set(now);
        r.dirtied_then.set(dirtied);
        let bandwidth = self.bdis[bdi as usize].flusher.bandwidth.get();
        let base = r.base.get();
        let task = ((base * p.ratio()) >> SHIFT) + 1;
        let balanced = (task * bandwidth / (dirty_rate | 1)).min(bandwidth);
        let before = r.balanced.get();
        let step = if p.dirty < (p.freerun + p.limit) / 2 {
            before.min(balanced).min(task).saturating_sub(base)
        } else {
            base.saturating_sub(before.max(balanced).max(task))
        };
        // A small step is half noise.
        let step = step
            .checked_shr((base / (2 * step + 1)) as u32)
            .unwrap_or(0);
        let step = step.div_ceil(8);
        let base = if base < balanced {
            base + step
        } else {
            base.saturating_sub(step)
        };
        r.base.set(base.max(1));
        r.balanced.set(balanced);
    }

    fn position(&self, bdi: u32, limits: Limits, dirty: u64) -> Position {
        let bdi_thresh = self.bdi_dirty_limit(bdi, limits.dirty);
        let [reclaimable, writeback] = self.bdi_dirty_against(bdi, bdi_thresh);
        Position {
            freerun: limits.freerun(),
            limit: self.hard_dirty_limit(limits.dirty, dirty),
            thresh: limits.dirty,
            dirty,
            bdi_thresh,
            bdi_dirty: reclaimable + writeback,
            bandwidth: self.bdis[bdi as usize].flusher.average_bandwidth.get(),
        }
    }

    /// Holds a dirtier to its rate (`balance_dirty_pages`): mostly one sleep.
    pub(crate) async fn throttle_dirtier(&self, bdi: u32) {
        let b = &self.bdis[bdi as usize];
        let pace = &self.current().pace;
        let dirtied = u64::from(pace.dirtied.get());
        let (hz, tick) = (self.config.hz, self.tick());
        let mut exceeded;
        let mut limits;
        let mut reclaimable;
        loop {
            self.world.charge(Cost::WritebackRound, 1);
            let now = self.world.now();
            reclaimable = self.stat.global(ZoneStat::NrFileDirty);
            let dirty = reclaimable + self.stat.global(ZoneStat::NrWriteback);
            limits = self.dirty_limits();
            if dirty <= limits.freerun() {
                exceeded = false;
                pace.paused.set(now);
                pace.dirtied.set(0);
                pace.poll.set(poll_interval(dirty, limits.dirty) as u32);
                break;
            }
            if !self.flusher_busy(bdi) {
                self.start_background_writeback(bdi);
            }
            let p = self.position(bdi, limits, dirty);
            exceeded = p.bdi_dirty > p.bdi_thresh && dirty > limits.dirty;
            if exceeded {
                b.dirty_exceeded.set(1);
            }
            self.update_bandwidth(bdi);
            self.update_ratelimit(bdi, &p);
            let base = b.rate.base.get();
            let task = (base * p.ratio()) >> SHIFT;
            let pauses = pauses(hz, p.bandwidth, p.bdi_dirty, base, task);
            let pause = if let Some(period) = (hz * dirtied).checked_div(task) {
                let since = match pace.paused.get() {
                    0 => 0,
                    then => (now.saturating_sub(then) / tick) as i64,
                };
                let pause = period as i64 - since;
                if pause < pauses.min as i64 {
                    if pause < -(hz as i64) {
                        pace.paused.set(now);
                        pace.dirtied.set(0);
                    } else if period > 0 {
                        pace.paused.fetch_add(period * tick);
                        pace.dirtied.set(0);
                    } else if u64::from(pace.poll.get()) <= dirtied {
                        pace.poll.fetch_add(dirtied as u32);
                    }
                    break;
                }
                (pause as u64).min(pauses.max)
            } else {
                pauses.max
            };
            self.world
                .waits_on(Waited::on(WaitedKind::DirtyLimit, u64::from(bdi)));
            self.world.sleep(pause * tick).await;
            pace.paused.set(now + pause * tick);
            pace.dirtied.set(0);
            pace.poll
                .set(pauses.poll.clamp(1, u64::from(u32::MAX)) as u32);
            if task > 0 || p.bdi_dirty <= self.bdi_stat_error() {
                break;
            }
        }
        if !exceeded {
            b.dirty_exceeded.set(0);
        }
        if reclaimable > limits.background && !self.flusher_busy(bdi) {
            self.start_background_writeback(bdi);
        }
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
        // At the set point of the machine and of its only device nobody is sped up or slowed down.
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
        let one = pauses(1000, 25_600, 50_000, 25_600, 25_600);
        assert_eq!((one.max, one.poll), (200, 250));
        assert_eq!(one.min, 1 + 10 / 2);
        // A sixteenth of the rate each: longer pauses, so that a look pays.
        let many = pauses(1000, 25_600, 50_000, 1600, 1600);
        assert!(many.poll >= 32 && many.min > one.min, "{many:?}");
        // Without a rate the pause is the longest.
        assert_eq!(pauses(250, 25_600, 50_000, 25_600, 0).min, 50);
    }

    #[test]
    fn far_from_the_limit_a_task_looks_seldom() {
        assert_eq!(poll_interval(0, 1 << 20), 1 << 10);
        assert_eq!(poll_interval(5, 5), 1);
    }
}
