//! Measures the write bandwidth of a device.

use super::queues::State;
use crate::Mm;
use crate::cache::tree::Tag;
use crate::policy::{Bandwidth, DirtyThrottle};
use crate::world::{ShortLock, Word64, World};
use crate::writeback::bdi::BdiStat;

/// The shortest time between two measurements, in nanoseconds (`BANDWIDTH_INTERVAL`).
pub(super) const INTERVAL: u64 = 200_000_000;
/// A device that was idle for longer than this starts a new measurement, in nanoseconds
/// (`WB_BANDWIDTH_IDLE_JIF`).
const IDLE: u64 = 1_000_000_000;

impl<W: World> Mm<W> {
    /// Updates the device's write bandwidth, at most every 200 ms: pages completed, averaged over
    /// about three seconds and smoothed (docs/reference/writeback.md#sleeping-dirtiers).
    pub(crate) fn update_bandwidth(&self, bdi: u32) {
        self.worker_measures(bdi);
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            // `None`: less than 200 ms have passed since the last measurement.
            if let Some(ticks) = self.rates_due(bdi) {
                self.measure_bandwidth(s, ticks);
                self.rates_from(bdi, self.rates_clock());
            }
        });
    }

    /// Sets the timer of the kernel worker that measures a device's bandwidth, 200 ms from now, if
    /// no timer is set and the file `mapping` has no more pages under writeback (Linux 5.15
    /// mm/page-writeback.c `wb_inode_writeback_end`). Does nothing unless a worker measures
    /// (`bandwidth = "worker"`) and dirtiers sleep.
    pub(crate) fn inode_writeback_end(&self, mapping: u32) {
        let by_worker = self.policy.bandwidth == Bandwidth::Worker;
        if !by_worker || self.policy.dirty_throttle != DirtyThrottle::Sleep {
            return;
        }
        let m = &self.mappings[mapping as usize];
        let due = &self.bdis[m.bdi() as usize].rate.worker_due;
        if due.get() == 0 && m.accounts_dirty() && !self.mapping_tagged(mapping, Tag::Writeback) {
            due.set(self.world.timer_expires(INTERVAL));
        }
    }

    /// Makes the bandwidth worker's measurement for a device if the worker's timer has expired. The
    /// worker is not a task of the model, so its measurement is caught up with on demand: before
    /// anything that it counts changes, and before its result is read.
    #[inline(always)]
    pub(crate) fn worker_measures(&self, bdi: u32) {
        let due = self.bdis[bdi as usize].rate.worker_due.get();
        if due != 0 && self.world.now() >= due {
            self.worker_measured(bdi);
        }
    }

    /// Makes the bandwidth worker's overdue measurement, over the time from the last measurement to
    /// the worker's timer, however short (`wb_update_bandwidth_workfn`), and clears the timer.
    #[cold]
    fn worker_measured(&self, bdi: u32) {
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            let due = self.bdis[bdi as usize].rate.worker_due.get();
            // Another thread may have made the measurement meanwhile.
            if due != 0 && self.world.now() >= due {
                self.bdis[bdi as usize].rate.worker_due.set(0);
                let elapsed = due.saturating_sub(s.bandwidth_time.get());
                self.measure_bandwidth(s, (elapsed / self.tick()).max(1));
                self.rates_from(bdi, due);
            }
        });
    }

    /// Returns how many of up to `most` pages, which take `ns` nanoseconds each, a task can dirty
    /// before the timer of the bandwidth worker expires: all, if no timer is set.
    #[inline(always)]
    pub(crate) fn dirtied_unmeasured(&self, bdi: u32, ns: u64, most: u32) -> u32 {
        let due = self.bdis[bdi as usize].rate.worker_due.get();
        if due == 0 || self.world.now() + ns * u64::from(most) < due {
            return most;
        }
        // Nanoseconds that are left before the timer expires.
        let before = due.saturating_sub(self.world.now()).saturating_sub(1);
        before.checked_div(ns).map_or(0, |n| n as u32)
    }

    /// Returns the ticks since a device's rates were last measured, at least 1, if at least 200 ms
    /// have passed; `None`: no measurement is due. Where dirtiers sleep, the dirtied pages are
    /// measured over the same time as the written ones, whichever task measures.
    pub(crate) fn rates_due(&self, bdi: u32) -> Option<u64> {
        let measured_at = self.flusher_state(bdi).bandwidth_time.get();
        // The task that measured last may have been on a CPU whose clock is ahead.
        let elapsed = self.rates_clock().saturating_sub(measured_at);
        let due = match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => elapsed > INTERVAL,
            DirtyThrottle::Write => elapsed >= INTERVAL,
        };
        due.then(|| (elapsed / self.tick()).max(1))
    }

    /// Returns the time by which rates are measured, in nanoseconds: that of the last tick where
    /// dirtiers sleep.
    fn rates_clock(&self) -> u64 {
        match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => self.world.jiffies(),
            DirtyThrottle::Write => self.world.now(),
        }
    }

    /// Starts a new measurement of a device's written and dirtied pages at `time` (ns): notes the
    /// present totals, which the next measurement subtracts.
    fn rates_from(&self, bdi: u32, time: u64) {
        let (s, rate) = (self.flusher_state(bdi), &self.bdis[bdi as usize].rate);
        s.bandwidth_time.set(time);
        s.bandwidth_completed.set(s.completed.get());
        rate.dirtied_then.set(rate.dirtied.get());
    }

    /// Starts a new measurement of bandwidth when the flusher turns to an inode of a device that
    /// was idle for a second, with no page under writeback, so that its idle time is not measured
    /// (`wb_bandwidth_estimate_start`). Does nothing unless dirtiers sleep.
    pub(crate) fn begin_bandwidth(&self, bdi: u32) {
        if self.policy.dirty_throttle != DirtyThrottle::Sleep {
            return;
        }
        self.worker_measures(bdi);
        let s = self.flusher_state(bdi);
        let elapsed = self.rates_clock().saturating_sub(s.bandwidth_time.get());
        if elapsed > IDLE && self.bdi_stat(bdi, BdiStat::Writeback) == 0 {
            s.lock.with(|| self.rates_from(bdi, self.rates_clock()));
        }
    }

    /// Updates the write bandwidth in the flusher state `s`, in pages a second, from the pages
    /// written in the last `ticks` (`bdi_update_write_bandwidth`). The estimate is weighted over a
    /// period of about three seconds, and its smoothed form follows it by eighths. A measurement
    /// over more than a period replaces both, without smoothing.
    fn measure_bandwidth(&self, s: &State<W>, ticks: u64) {
        let written = s.completed.get() - s.bandwidth_completed.get();
        let hz = self.config.hz;
        let period = (3 * hz).next_power_of_two();
        let old = s.bandwidth.get();
        let avg = s.average_bandwidth.get();
        let (bw, avg) = if ticks > period {
            let bw = written * hz / ticks;
            (bw, bw)
        } else {
            let bw = (written * hz + old * (period - ticks)) / period;
            let avg = if avg > old && old >= bw {
                avg - (avg - old) / 8
            } else if avg < old && old <= bw {
                avg + (old - avg) / 8
            } else {
                avg
            };
            (bw, avg)
        };
        s.bandwidth.set(bw);
        s.average_bandwidth.set(avg.max(1));
    }
}
