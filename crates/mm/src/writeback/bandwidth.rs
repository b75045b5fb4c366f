//! A device's write bandwidth, measured.

use super::queues::State;
use crate::Mm;
use crate::world::{ShortLock, Word64, World};

impl<W: World> Mm<W> {
    /// The device's write bandwidth: pages completed, averaged over about three seconds and
    /// smoothed (docs/reference/writeback.md#sleeping-dirtiers), updated at most every 200 ms.
    pub(crate) fn update_bandwidth(&self, bdi: u32) {
        let s = self.flusher_state(bdi);
        s.lock.with(|| self.measure_bandwidth(s));
    }

    fn measure_bandwidth(&self, s: &State<W>) {
        let now = self.world.now();
        // The task that measured last may have been on a CPU whose clock is ahead.
        let elapsed = now.saturating_sub(s.bandwidth_time.get());
        if elapsed < 200_000_000 {
            return;
        }
        let written = s.completed.get() - s.bandwidth_completed.get();
        s.bandwidth_time.set(now);
        s.bandwidth_completed.set(s.completed.get());
        let hz = self.config.hz;
        let ticks = (elapsed / self.tick()).max(1);
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
