//! How many pages a CPU's lists hold and move at once (docs/reference/memory-model.md#free-lists,
//! `per_cpu_lists`): six batches, or as in kernels of today a share of the low watermark, which
//! grows with pages allocated or freed in a row.

use crate::memory::alloc::PAGE_ALLOC_COSTLY_ORDER;
use crate::memory::pcp::Pcp;
use crate::memory::zone::{Mark, ZONE_BELOW_HIGH, ZONE_RECLAIM_ACTIVE, Zone};
use crate::policy::{BelowHigh, PerCpuLists, Policy};
use crate::watch::vmstat::ZoneStat;
use crate::world::{Word32, World};
use crate::{Config, Mm, ZoneType};

/// The largest number of doublings of a batch (`CONFIG_PCP_BATCH_SCALE_MAX`).
const BATCH_SCALE_MAX: u32 = 5;
/// The inverse of the share of a zone that its CPUs' lists may grow to
/// (`MIN_PERCPU_PAGELIST_HIGH_FRACTION`).
const HIGH_FRACTION: u32 = 8;

/// Returns the number of orders that have per-CPU lists: single pages only, or also blocks since
/// 5.13.
pub(crate) fn orders(policy: &Policy) -> usize {
    match policy.per_cpu_lists {
        PerCpuLists::Batches => 1,
        _ => 1 + PAGE_ALLOC_COSTLY_ORDER as usize,
    }
}

/// Makes the per-CPU lists of all zones and CPUs, with `lists` kinds of lists for each order.
pub(crate) fn lists<W: World>(
    config: &Config,
    policy: &Policy,
    zones: &[Zone<W>],
    lists: usize,
) -> Box<[Pcp<W>]> {
    let most = |z: &Zone<W>| match policy.per_cpu_lists {
        PerCpuLists::Batches => z.pcp_high + z.pcp_batch,
        _ => room(z.size / config.cpus_of(z.node), z.pcp_batch),
    };
    let own = lists * orders(policy);
    let mut all = Vec::with_capacity(zones.len() * config.cpus * own);
    for z in zones {
        let order = |i| (i % own / lists) as u32;
        all.extend((0..config.cpus * own).map(|i| Pcp::new(most(z), order(i))));
    }
    all.into()
}

/// Makes the states by which per-CPU lists tune themselves, by zone and CPU; none if lists hold six
/// batches.
pub(crate) fn tunings<W: World>(config: &Config, policy: &Policy) -> Box<[Tuning<W>]> {
    let n = match policy.per_cpu_lists {
        PerCpuLists::Batches => 0,
        _ => config.zones.len() * config.cpus,
    };
    (0..n).map(|_| Tuning::new()).collect()
}

/// Returns the number of pages that each of a CPU's lists can hold: half of its `share` of the
/// zone, in pages. A low watermark of more than half of a zone therefore counts as that half.
pub(crate) fn room(share: u32, batch: u32) -> u32 {
    (share / 2).max(8 * batch)
}

/// The state by which the lists of one zone on one CPU tune themselves to the calls so far. All
/// values are in pages but the two exponents.
pub(crate) struct Tuning<W: World> {
    /// Pages that the lists may hold now; between `least` and `most`.
    high: W::U32,
    least: W::U32,
    most: W::U32,
    /// How often the batch of the next refill is doubled.
    alloc_factor: W::U32,
    /// 6.7: pages freed in a row, halved with each allocation. 5.14: how often the batch that is
    /// returned is doubled.
    freed: W::U32,
    /// Pages on the lists after the last free or refill; pages missing since then were allocated.
    count: W::U32,
    /// 1 if the last free was one of a block (`PCPF_PREV_FREE_HIGH_ORDER`).
    freed_block: W::U32,
    /// Pages in the blocks on the lists of orders above 0.
    in_blocks: W::U32,
}

impl<W: World> Tuning<W> {
    /// Makes the state of lists that hold nothing.
    pub(crate) fn new() -> Self {
        let zero = bytemuck::Zeroable::zeroed;
        Self {
            high: zero(),
            least: zero(),
            most: zero(),
            alloc_factor: zero(),
            freed: zero(),
            count: zero(),
            freed_block: zero(),
            in_blocks: zero(),
        }
    }
}

impl<W: World> Mm<W> {
    /// Returns true if the low watermark decides how many pages a CPU's lists hold, so that they
    /// may hold more than six batches.
    #[inline(always)]
    pub(crate) fn lists_by_watermark(&self) -> bool {
        !self.pcp_tuning.is_empty()
    }

    /// Returns the state by which one CPU's lists of a zone tune themselves.
    #[inline(always)]
    pub(crate) fn tuning(&self, z: usize, cpu: usize) -> &Tuning<W> {
        &self.pcp_tuning[z * self.config.cpus + cpu]
    }

    /// Returns the number of pages on one CPU's lists of a zone: those of the lists of single
    /// pages, which every free asks for, and the running count of pages in blocks.
    #[inline(always)]
    pub(crate) fn pcp_count(&self, z: usize, cpu: usize) -> u32 {
        let single = &self.own_pcps(z, cpu)[..self.lists];
        let single: u32 = single.iter().map(Pcp::count).sum();
        match self.lists_by_watermark() {
            true => single + self.tuning(z, cpu).in_blocks.get(),
            false => single,
        }
    }

    /// Adds `blocks` blocks of 2^`order` pages, an order above 0, to the count of pages in blocks
    /// on one CPU's lists of a zone; negative: takes them off.
    #[inline(always)]
    pub(crate) fn count_blocks(&self, z: usize, cpu: usize, order: u32, blocks: i32) {
        debug_assert!(order > 0, "single pages are counted by their lists");
        let in_blocks = &self.tuning(z, cpu).in_blocks;
        let now = in_blocks.get().checked_add_signed(blocks << order);
        in_blocks.set(now.expect("blocks leave the lists that they are on"));
    }

    /// Returns the number of pages at which one CPU's lists of zone `z` return some to the buddy
    /// lists.
    pub(crate) fn pcp_high(&self, z: usize, cpu: usize) -> u32 {
        match self.lists_by_watermark() {
            true => self.tuning(z, cpu).high.get(),
            false => self.zones[z].pcp_high,
        }
    }

    /// Sets the bounds within which a zone's per-CPU lists grow, from its low watermark, after its
    /// watermarks were set (`zone_pcp_update`). Does nothing where lists hold six batches.
    pub(crate) fn follow_low_mark(&self, z: usize) {
        if !self.lists_by_watermark() {
            return;
        }
        let zone = &self.zones[z];
        let cpus = self.config.cpus_of(zone.node);
        let low = zone.mark(Mark::Low) as u32;
        let room = self.pcp(z, 0, 0).room() - zone.pcp_batch;
        let share = |pages: u32| (pages / cpus).max(4 * zone.pcp_batch).min(room);
        // If the sysctl gives a size, the lists do not grow (`zone_set_pageset_high_and_batch`).
        let fraction = self.sysctl.percpu_pagelist_high_fraction();
        let least = share(zone.size.checked_div(fraction).unwrap_or(low));
        let grows = self.policy.per_cpu_lists == PerCpuLists::Tuned && fraction == 0;
        for cpu in 0..self.config.cpus {
            let t = self.tuning(z, cpu);
            t.least.set(least);
            t.most.set(match grows {
                true => share(zone.size / HIGH_FRACTION).max(least),
                false => least,
            });
            t.high.set(t.high.get().clamp(t.least.get(), t.most.get()));
        }
    }

    /// Halves the count of pages freed in a row (`freed`) for each page allocated since the last
    /// call. `count`: pages on the CPU's lists now.
    #[inline(always)]
    fn note_allocated(&self, t: &Tuning<W>, count: u32) {
        let allocated = t.count.get().saturating_sub(count).min(31);
        t.freed.set(t.freed.get() >> allocated);
        t.count.set(count);
    }

    /// Records the number of pages on a CPU's lists of a zone after a change that is neither an
    /// allocation nor a free by this CPU, so that it is not taken for one.
    pub(crate) fn forget_count(&self, z: usize, cpu: usize) {
        if self.lists_by_watermark() {
            self.tuning(z, cpu).count.set(self.pcp_count(z, cpu));
        }
    }

    /// Returns how many pages to take from the buddy lists of zone `z` for an empty list of this
    /// CPU (`nr_pcp_alloc`): a batch, or in 6.7 one that doubles with each refill in a row. Lets
    /// the lists grow if the zone is above its high watermark.
    pub(crate) fn nr_pcp_alloc(&self, z: usize) -> u32 {
        let (zone, cpu) = (&self.zones[z], self.world.cpu());
        if self.policy.per_cpu_lists != PerCpuLists::Tuned {
            return zone.pcp_batch;
        }
        let (t, base) = (self.tuning(z, cpu), zone.pcp_batch);
        let count = self.pcp_count(z, cpu);
        self.note_allocated(t, count);
        self.note_refill_below_high(z);
        let mut batch = base << t.alloc_factor.get();
        let mut high = t.high.get();
        if zone.flags.get() & ZONE_BELOW_HIGH == 0 {
            high = (high + batch).min(t.most.get());
            t.high.set(high);
        }
        let most = high.saturating_sub(count + base).max(base);
        if batch <= most && t.alloc_factor.get() < BATCH_SCALE_MAX {
            t.alloc_factor.fetch_add(1);
        }
        batch = batch.min(most);
        // A batch of one belongs to zones whose lists keep nothing.
        if batch > 1 { batch.max(2) } else { batch }
    }

    /// Returns the largest value that [`Self::nr_pcp_alloc`] may return (pages).
    pub(crate) fn most_pcp_alloc(&self, z: usize) -> u32 {
        let batch = self.zones[z].pcp_batch;
        match self.policy.per_cpu_lists {
            PerCpuLists::Tuned => batch << BATCH_SCALE_MAX,
            _ => batch,
        }
    }

    /// Returns how many blocks of 2^`order` pages to take from the buddy lists of zone `z` for an
    /// empty list of this CPU.
    pub(crate) fn nr_blocks_alloc(&self, z: usize, order: u32) -> u32 {
        let (zone, cpu) = (&self.zones[z], self.world.cpu());
        let batch = zone.pcp_batch;
        let t = self.tuning(z, cpu);
        if self.policy.per_cpu_lists == PerCpuLists::Tuned {
            self.note_allocated(t, self.pcp_count(z, cpu));
            self.note_refill_below_high(z);
            if zone.flags.get() & ZONE_BELOW_HIGH == 0 {
                t.high.set((t.high.get() + batch).min(t.most.get()));
            }
        }
        if batch > 1 {
            (batch >> order).max(2)
        } else {
            batch
        }
    }

    /// Notes that a block of 2^`order` pages was taken from a CPU's list; it counts as one
    /// allocation, however many pages it has.
    pub(crate) fn note_block_taken(&self, z: usize, cpu: usize, order: u32) {
        let t = self.tuning(z, cpu);
        self.note_allocated(t, self.pcp_count(z, cpu) + (1 << order));
        t.freed.set(t.freed.get() >> 1);
        self.forget_count(z, cpu);
    }

    /// Notes that pages of zone `z` were taken for a list of this CPU, and with `below_high =
    /// "high"` marks the zone if that leaves it at or below its high watermark.
    pub(crate) fn refilled(&self, z: usize) {
        if self.lists_by_watermark() {
            self.note_refill_below_high(z);
            self.forget_count(z, self.world.cpu());
        }
    }

    /// Marks a zone (`ZONE_BELOW_HIGH`) that has no more free pages than its high watermark, where
    /// refills look at it (`below_high`).
    fn note_refill_below_high(&self, z: usize) {
        let zone = &self.zones[z];
        if self.policy.below_high == BelowHigh::High
            && zone.flags.get() & ZONE_BELOW_HIGH == 0
            && self.stat.zone(z, ZoneStat::NrFreePages) <= zone.mark(Mark::High)
        {
            zone.flags.fetch_or(ZONE_BELOW_HIGH);
        }
    }

    /// Returns true if a walk over the free lists has to test whether a zone is above its high
    /// watermark and the reserve that it keeps from the request: it is not marked as below yet, and
    /// its per-CPU lists go by that mark.
    #[inline(always)]
    pub(super) fn may_be_below_high(&self, zone: &Zone<W>) -> bool {
        self.policy.below_high == BelowHigh::HighAndReserve
            && self.policy.per_cpu_lists == PerCpuLists::Tuned
            && zone.flags.get() & ZONE_BELOW_HIGH == 0
    }

    /// Marks a zone that a request was found to leave below its high watermark and its reserve
    /// (mm/page_alloc.c `get_page_from_freelist`).
    #[inline(always)]
    pub(super) fn mark_below_high(&self, zone: &Zone<W>) {
        zone.flags.fetch_or(ZONE_BELOW_HIGH);
    }

    /// Notes that a page or a block of 2^`order` pages was freed to this CPU's lists of zone `z`
    /// (`free_unref_page_commit`). Returns how many pages are to go back to the buddy lists; 0 if
    /// the lists hold fewer than they may. Blocks freed after many pages, or one after the other,
    /// should be joined: then all pages go back, or 32 batches.
    pub(crate) fn pages_to_return(&self, z: usize, order: u32) -> u32 {
        let cpu = self.world.cpu();
        let count = self.pcp_count(z, cpu);
        self.pages_to_return_of(&self.zones[z], self.tuning(z, cpu), count, order)
    }

    /// Does [`Self::pages_to_return`] for a caller that has looked up the zone, the state of this
    /// CPU's lists there, and the number of pages on them.
    #[inline(always)]
    pub(super) fn pages_to_return_of(
        &self,
        zone: &Zone<W>,
        t: &Tuning<W>,
        count: u32,
        order: u32,
    ) -> u32 {
        let batch = zone.pcp_batch;
        self.note_allocated(t, count - (1 << order));
        t.count.set(count);
        let after_block = t.freed_block.get() != 0;
        t.freed_block.set(u32::from(order > 0));
        match self.policy.per_cpu_lists {
            // The form of 6.7: `freed` counts pages freed in a row.
            PerCpuLists::Tuned => {
                t.alloc_factor.set(t.alloc_factor.get() >> 1);
                let join = order > 0 && after_block && t.freed.get() >= batch;
                if t.freed.get() < batch << BATCH_SCALE_MAX {
                    t.freed.fetch_add(1 << order);
                }
                if join {
                    let most = batch << BATCH_SCALE_MAX;
                    t.high
                        .set(t.high.get().saturating_sub(most).max(t.least.get()));
                    return count.min(most);
                }
                let high = Self::tuned_high(zone, t, count);
                match count >= high {
                    true => t.freed.get().clamp(batch, (high - batch).max(batch)),
                    false => 0,
                }
            }
            _ => {
                if order > 0 && t.freed.get() > 0 {
                    return count;
                }
                // The form of 5.14: `freed` is how often the returned batch is doubled.
                let mut high = t.high.get();
                if zone.flags.get() & ZONE_RECLAIM_ACTIVE != 0 {
                    high = high.min(4 * batch);
                }
                if count < high {
                    return 0;
                }
                let (factor, most) = (t.freed.get(), high - batch);
                let doubled = batch << factor;
                if doubled < most && factor < BATCH_SCALE_MAX {
                    t.freed.set(factor + 1);
                }
                doubled.clamp(batch, most.max(batch))
            }
        }
    }

    /// Returns the number of pages that a CPU's lists of 6.7 may hold at a free, and changes it for
    /// later: smaller while kswapd works or the zone is below its high watermark, larger after many
    /// frees in a row (`nr_pcp_high`). `count`: pages on the lists now.
    #[inline(always)]
    fn tuned_high(zone: &Zone<W>, t: &Tuning<W>, count: u32) -> u32 {
        let (least, most, batch) = (t.least.get(), t.most.get(), zone.pcp_batch);
        let high = t.high.get();
        let freed = t.freed.get().max(batch);
        let flags = zone.flags.get();
        if flags & ZONE_RECLAIM_ACTIVE != 0 {
            let less = high.saturating_sub(freed).max(least);
            t.high.set(less);
            return less.min(4 * batch);
        }
        if least == most {
            return high;
        }
        if flags & ZONE_BELOW_HIGH != 0 {
            t.high.set(high.saturating_sub(freed).max(least));
            return count.max(least);
        }
        let need = t.freed.get() + batch;
        if count >= high && high < need {
            t.high.set(need.clamp(least, most));
        }
        high
    }

    /// Notes that pages of this CPU's lists went back to the buddy lists, and takes the mark off a
    /// zone that is above its high watermark again, and above its largest reserve if that counts
    /// (mm/page_alloc.c `free_unref_page_commit`, whose test is for `ZONE_MOVABLE`).
    pub(crate) fn returned(&self, z: usize) {
        let zone = &self.zones[z];
        self.forget_count(z, self.world.cpu());
        if zone.flags.get() & ZONE_BELOW_HIGH == 0 {
            return;
        }
        let reserve = match self.policy.below_high {
            BelowHigh::High => 0,
            BelowHigh::HighAndReserve => zone.reserve(ZoneType::Movable.index()),
        };
        if self.stat.zone(z, ZoneStat::NrFreePages) > zone.mark(Mark::High) + reserve {
            zone.flags.fetch_and(!ZONE_BELOW_HIGH);
            if self.policy.below_high == BelowHigh::HighAndReserve {
                // Predicted walks did not test a marked zone.
                self.stat.note_change();
            }
        }
    }

    /// Notes that kswapd begins (`active`) or ends to reclaim the zones of node `nid` that a
    /// request up to `classzone` may use, during which CPUs' lists of these zones stay short.
    pub(crate) fn set_reclaim_active(&self, nid: u32, classzone: usize, active: bool) {
        if !self.lists_by_watermark() {
            return;
        }
        for &z in &self.nodes[nid as usize].zones {
            let zone = &self.zones[usize::from(z)];
            if zone.kind.index() <= classzone {
                match active {
                    true => zone.flags.fetch_or(ZONE_RECLAIM_ACTIVE),
                    false => zone.flags.fetch_and(!ZONE_RECLAIM_ACTIVE),
                };
            }
        }
    }

    /// Shrinks what a CPU's lists may hold, once a second, by an eighth or by the pages that they
    /// have not needed, and returns pages beyond it to the buddy lists (`decay_pcp_high`).
    pub(crate) fn decay_pcp_high(&self, cpu: usize) {
        if self.policy.per_cpu_lists != PerCpuLists::Tuned {
            return;
        }
        for z in 0..self.zones.len() {
            let (t, batch) = (self.tuning(z, cpu), self.zones[z].pcp_batch);
            let (high, least) = (t.high.get(), t.least.get());
            let count = self.pcp_count(z, cpu);
            if high > least {
                let slowly = count.saturating_sub(batch << BATCH_SCALE_MAX);
                t.high.set(slowly.max(high - (high >> 3)).max(least));
            }
            let over = count.saturating_sub(t.high.get());
            self.return_in_batches(z, cpu, over, batch);
            self.forget_count(z, cpu);
        }
    }

    /// Returns `left` pages of a CPU's lists of a zone to the buddy lists, a batch at a time.
    fn return_in_batches(&self, z: usize, cpu: usize, mut left: u32, batch: u32) {
        while left > 0 {
            let now = left.min(batch.max(1));
            self.return_pages(z, cpu, now, 0);
            left -= now;
        }
    }

    /// Returns the longest of one CPU's lists of a zone, by number of blocks.
    #[inline(always)]
    pub(crate) fn longest_pcp(&self, z: usize, cpu: usize) -> &Pcp<W> {
        let own = self.own_pcps(z, cpu).iter();
        own.max_by_key(|pcp| pcp.count()).expect("a list")
    }
}
