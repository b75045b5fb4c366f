//! Waits of reclaim for congested devices (docs/reference/reclaim.md#waiting).

use crate::Mm;
use crate::memory::zone::ZONE_CONGESTED;
use crate::queue;
use crate::world::event::Event;
use crate::world::{Audience, Class, Waited, WaitedKind, Word32, World};

impl<W: World> Mm<W> {
    /// Returns HZ/`n` ticks, that is 1/`n` second, in nanoseconds, truncated to whole ticks (at
    /// least one).
    pub(crate) fn tick_fraction(&self, n: u64) -> u64 {
        (self.config.hz / n).max(1) * self.tick()
    }

    /// Waits until the end of a congestion of requests of that class (synchronous or not) wakes the
    /// queue, at most `timeout` nanoseconds.
    async fn wait_for_congestion(&self, class: Class, timeout: u64) {
        let q = queue::congestion(class);
        let ticket = self.world.ticket(q);
        self.world
            .waits_on(Waited::on(WaitedKind::Congestion, class as u64));
        self.world.wait(q, ticket, Some(timeout)).await;
    }

    /// Sleeps until a completion finds a device's queue of that class below its "off" threshold, at
    /// most `timeout` nanoseconds, and reports the wait. Sleeps in any case, unlike
    /// [`Self::wait_iff_congested`].
    pub async fn congestion_wait(&self, class: Class, timeout: u64) {
        let start = self.world.now();
        self.wait_for_congestion(class, timeout).await;
        let delayed = self.world.now().saturating_sub(start);
        self.emit(Audience::Sums, || Event::CongestionWait {
            usec_timeout: timeout / 1000,
            usec_delayed: delayed / 1000,
        });
    }

    /// Sleeps as [`Self::congestion_wait`] does, at most `timeout` nanoseconds, if some device is
    /// congested and zone `z` is marked congested; otherwise only yields. Reports the wait.
    pub async fn wait_iff_congested(&self, z: usize, class: Class, timeout: u64) {
        let start = self.world.now();
        let congested = self.lru_home(z).flags.get() & ZONE_CONGESTED != 0;
        if self.world.congested_bdis(class) > 0 && congested {
            self.wait_for_congestion(class, timeout).await;
        } else {
            self.world.relax().await;
        }
        let delayed = self.world.now().saturating_sub(start);
        self.emit(Audience::Sums, || Event::WaitIffCongested {
            usec_timeout: timeout / 1000,
            usec_delayed: delayed / 1000,
        });
    }
}
