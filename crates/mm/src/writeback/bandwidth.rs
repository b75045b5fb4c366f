//! A device's write bandwidth, measured.

use super::queues::State;
use crate::Mm;
use crate::policy::DirtyThrottle;
use crate::world::{ShortLock, Word64, World};
use crate::writeback::bdi::BdiStat;

/// Rates are measured no more often, in nanoseconds (`BANDWIDTH_INTERVAL`).
pub(super) const INTERVAL: u64 = 200_000_000;
/// A device that was not looked at for longer begins anew, in nanoseconds (`WB_BANDWIDTH_IDLE_JIF`).
const IDLE: u64 = 1_000_000_000;

impl<W: World> Mm<W> {
    /// The device's write bandwidth: pages completed, averaged over about three seconds and
    /// smoothed (docs/reference/writeback.md#sleeping-dirtiers), updated at most every 200 ms.
    pub(crate) fn update_bandwidth(&self, bdi: u32) {
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            if let Some(ticks) = self.rates_due(bdi) {
                self.measure_bandwidth(s, ticks);
                self.rates_from_now(bdi);
            }
        });
    }

    /// The ticks since a device's rates were measured, if they are due. Where dirtiers sleep, what was dirtied
    /// is measured over the same time as what was written, whoever looks.
    pub(crate) fn rates_due(&self, bdi: u32) -> Option<u64> {
        let then = self.flusher_state(bdi).bandwidth_time.get();
        // The task that measured last may have been on a CPU whose clock is ahead.
        let elapsed = self.rates_clock().saturating_sub(then);
        let due = match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => elapsed > INTERVAL,
            DirtyThrottle::Write => elapsed >= INTERVAL,
        };
        due.then(|| (elapsed / self.tick()).max(1))
    }

    /// The time that rates are measured by: in ticks where dirtiers sleep.
    fn rates_clock(&self) -> u64 {
        match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => self.world.jiffies(),
            DirtyThrottle::Write => self.world.now(),
        }
    }

    /// What is written and dirtied is counted from now on.
    fn rates_from_now(&self, bdi: u32) {
        let (s, rate) = (self.flusher_state(bdi), &self.bdis[bdi as usize].rate);
        s.bandwidth_time.set(self.rates_clock());
        s.bandwidth_completed.set(s.completed.get());
        rate.dirtied_then.set(rate.dirtied.get());
    }

    /// The flusher turns to an inode: a device that was idle is not measured over that time
    /// (`wb_bandwidth_estimate_start`).
    pub(crate) fn begin_bandwidth(&self, bdi: u32) {
        if self.policy.dirty_throttle != DirtyThrottle::Sleep {
            return;
        }
        let s = self.flusher_state(bdi);
        let elapsed = self.rates_clock().saturating_sub(s.bandwidth_time.get());
        if elapsed > IDLE && self.bdi_stat(bdi, BdiStat::Writeback) == 0 {
            s.lock.with(|| self.rates_from_now(bdi));
        }
    }

    fn measure_bandwidth(&self, s: &State<W>, ticks: u64) {
        let written = s.completed.get() - s.bandwidth_completed.get();
        let hz = self.config.hz;
        let period = (3 * hz).next_power_of_two();
        let old = s.bandwidth.get();
        let bw = if ticks > period {
            written * hz / ticks
        } else {
            (written * hz + old * (period - ticks)) / period
        };
        let mut avg = s.average_bandwidth.get();
        if avg > old && old >= bw {
            avg -= (avg - old) / 8;
        }
        if avg < old && old <= bw {
            avg += (old - avg) / 8;
        }
        s.bandwidth.set(bw);
        s.average_bandwidth.set(avg);
    }
}
