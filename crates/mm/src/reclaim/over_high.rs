//! Slows down tasks of a memory control group that is above `memory.high` (mm/memcontrol.c
//! `__mem_cgroup_handle_over_high`, `reclaim_high`, `calculate_high_delay`;
//! docs/reference/memory-groups.md#high).

use super::scan::SWAP_CLUSTER_MAX;
use crate::Mm;
use crate::memory::group::{CHARGE_BATCH, GroupEvent};
use crate::memory::task::PF_DYING;
use crate::world::{Word32, World};

/// Bits behind the point of an overage (`MEMCG_DELAY_PRECISION_SHIFT`).
const PRECISION_SHIFT: u32 = 20;
/// Bits by which the square of an overage is too large for a delay in ticks
/// (`MEMCG_DELAY_SCALING_SHIFT`).
const SCALING_SHIFT: u32 = 14;
/// The longest delay, in seconds (`MEMCG_MAX_HIGH_DELAY_JIFFIES`).
const MOST_SECONDS: u64 = 2;
/// Rounds of reclaim that may free nothing before the task sleeps (`MAX_RECLAIM_RETRIES`).
const RETRIES: u32 = 16;

/// Returns how far `usage` is above `high`, as a share of `high` with `PRECISION_SHIFT` bits behind
/// the point (`calculate_overage`).
fn overage(usage: u64, high: u64) -> u64 {
    (usage.saturating_sub(high) << PRECISION_SHIFT) / high.max(1)
}

/// Returns how many ticks of a clock of `hz` a second a task sleeps that was charged for `pages`
/// pages, if its group is above `memory.high` by `overage`: the square of the overage, scaled
/// (`calculate_high_delay`).
fn high_delay(overage: u64, pages: u64, hz: u64) -> u64 {
    let square = u128::from(overage) * u128::from(overage) * u128::from(hz);
    let ticks = square >> (PRECISION_SHIFT + SCALING_SHIFT);
    let ticks = ticks * u128::from(pages) / u128::from(CHARGE_BATCH);
    ticks.min(u128::from(MOST_SECONDS * hz)) as u64
}

impl<W: World> Mm<W> {
    /// Reclaims for the pages that the calling task was charged for above `memory.high`, and makes
    /// it sleep if reclaim can't keep the group near it. Does nothing for other tasks. Called where
    /// the task returns to user mode, and by a charge once more than a batch is owed.
    pub async fn handle_over_high(&self) {
        let task = self.current();
        let pages = task.over_high.fetch_and(0);
        if pages == 0 {
            return;
        }
        let group = self.current_group();
        debug_assert!(self.has_groups(), "a task owes pages to no group");
        let (hz, mut most, mut retries) = (self.config.hz, u64::from(pages), RETRIES);
        loop {
            if task.flags() & PF_DYING != 0 {
                return;
            }
            let reclaimed = self.reclaim_high(group, most).await;
            let ticks = high_delay(self.max_overage(group), u64::from(pages), hz);
            if ticks <= hz / 100 {
                return;
            }
            if reclaimed == 0 {
                if retries == 0 {
                    self.world.memory_stall(true);
                    self.world.sleep(ticks * self.tick()).await;
                    self.world.memory_stall(false);
                    return;
                }
                retries -= 1;
            }
            most = SWAP_CLUSTER_MAX;
        }
    }

    /// Returns true if the calling task owes reclaim to a group above `memory.high`.
    #[inline(always)]
    pub fn is_over_high(&self) -> bool {
        self.has_groups() && self.current().over_high.get() != 0
    }

    /// Reclaims `n` pages from a group and from each group around it that is above its
    /// `memory.high`. Returns the number of pages freed.
    async fn reclaim_high(&self, group: u32, n: u64) -> u64 {
        let mut reclaimed = 0;
        for g in self.groups.upwards(group) {
            if self.group_pages(g)[0] <= self.groups.group(g).limits.high {
                continue;
            }
            self.count_group(g, GroupEvent::High, 1);
            self.world.memory_stall(true);
            reclaimed += self.try_to_free_group_pages(g, n).await;
            self.world.memory_stall(false);
        }
        reclaimed
    }

    /// Returns the largest overage of a group and the groups around it.
    fn max_overage(&self, group: u32) -> u64 {
        let of = |g| overage(self.group_pages(g)[0], self.groups.group(g).limits.high);
        self.groups.upwards(group).map(of).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 1000 ticks a second: nothing at the limit, and the square of what is above it.
    #[test]
    fn the_delay_is_the_square_of_what_is_above_high() {
        let delay = |usage, pages| high_delay(overage(usage, 10_000), pages, 1000);
        assert_eq!(delay(10_000, 64), 0);
        // One percent above: (0.01 * 2^20)^2 * 1000 >> 34 = 6 ticks, not worth a sleep.
        assert_eq!(delay(10_100, 64), 6);
        // Five percent: 25 times as long; twice the pages: twice as long.
        assert_eq!(delay(10_500, 64), 159);
        assert_eq!(delay(10_500, 128), 318);
        // Never more than two seconds.
        assert_eq!(delay(20_000, 64), 2000);
    }
}
