//! Charges pages and swap slots to memory control groups (mm/memcontrol.c `try_charge_memcg`,
//! `uncharge_batch`, `mem_cgroup_try_charge_swap`; docs/reference/memory-groups.md#charging).

use crate::memory::frame::Page;
use crate::memory::gfp::Gfp;
use crate::memory::group::{CHARGE_BATCH, GroupEvent, Groups, NO_LIMIT};
use crate::memory::task::{PF_DYING, PF_MEMALLOC};
use crate::world::{Word32, Word64, World};
use crate::{Mm, Pfn};

/// Rounds of reclaim that freed nothing before a charge at the limit asks for the OOM killer
/// (`MAX_RECLAIM_RETRIES`).
const MAX_RECLAIM_RETRIES: u32 = 16;

impl<W: World> Groups<W> {
    /// Charges `n` pages to a group and all that it lies in (`page_counter_try_charge`).
    ///
    /// # Errors
    /// Returns the innermost group that would be above `max`; nothing is charged then.
    fn try_charge(&self, group: u32, n: u64) -> Result<(), u32> {
        let over = |&g: &u32| {
            let group = self.group(g);
            group.usage.get() + n > group.limits.max
        };
        match self.upwards(group).find(over) {
            Some(over) => Err(over),
            None => {
                self.charge(group, n);
                Ok(())
            }
        }
    }

    /// Charges `n` pages to a group and all that it lies in, whatever their limits.
    fn charge(&self, group: u32, n: u64) {
        for g in self.upwards(group) {
            let now = self.group(g).usage.fetch_add(n) + n;
            let peak = &self.group(g).peak;
            peak.set(peak.get().max(now));
            self.note_protected(g, now);
        }
    }

    /// Takes `n` pages off a group and all that it lies in.
    fn uncharge(&self, group: u32, n: u64) {
        for g in self.upwards(group) {
            let now = self.group(g).usage.fetch_sub(n) - n;
            self.note_protected(g, now);
        }
    }
}

impl<W: World> Mm<W> {
    /// Returns the group that an allocation with these flags is charged to; 0: none.
    #[inline(always)]
    pub(crate) fn charged_group(&self, gfp: Gfp) -> u32 {
        if gfp.has(Gfp::CHARGED) {
            self.current_group()
        } else {
            0
        }
    }

    /// Charges the calling task's group for up to `n` pages without waiting: from this CPU's stock
    /// or, while no limit and no `memory.high` is in the way, from the counters. Returns how many
    /// were charged; with fewer than `n`, the next page needs [`Self::charge_page`].
    pub(crate) fn charge_at_once(&self, group: u32, n: u32) -> u32 {
        let mut charged = 0;
        while charged < n {
            if !self.takes_stock(group) {
                let high = |&g: &u32| {
                    let g = self.groups.group(g);
                    g.usage.get() + CHARGE_BATCH > g.limits.high
                };
                if self.groups.upwards(group).any(|g| high(&g))
                    || self.groups.try_charge(group, CHARGE_BATCH).is_err()
                {
                    break;
                }
                self.refill_stock(group, CHARGE_BATCH - 1);
            }
            charged += 1;
        }
        charged
    }

    /// Takes one page from the stock of this CPU, if that is of the group (`consume_stock`).
    #[inline]
    fn takes_stock(&self, group: u32) -> bool {
        let stock = self.groups.stock(self.world.cpu());
        let takes = stock.group.get() == group && stock.pages.get() > 0;
        if takes {
            stock.pages.fetch_sub(1);
        }
        takes
    }

    /// Puts charged pages that are not needed into this CPU's stock, in place of those of another
    /// group; a stock above a batch is given back (`refill_stock`).
    fn refill_stock(&self, group: u32, n: u64) {
        let stock = self.groups.stock(self.world.cpu());
        if stock.group.get() != group {
            self.drain_stock(self.world.cpu());
            stock.group.set(group);
        }
        if stock.pages.fetch_add(n) + n > CHARGE_BATCH {
            self.drain_stock(self.world.cpu());
        }
    }

    /// Gives the stock of a CPU back to the counters.
    fn drain_stock(&self, cpu: usize) {
        let stock = self.groups.stock(cpu);
        let n = stock.pages.get();
        if n > 0 {
            stock.pages.set(0);
            self.groups.uncharge(stock.group.get(), n);
        }
    }

    /// Gives the stocks of all CPUs back that are of a group inside `over`, or of itself
    /// (`drain_all_stock`).
    fn drain_stocks(&self, over: u32) {
        let below = over..self.groups.group(over).end;
        for cpu in 0..self.config.cpus {
            if below.contains(&self.groups.stock(cpu).group.get()) {
                self.drain_stock(cpu);
            }
        }
    }

    /// Gives `n` pages back that were charged to a group at once and are not used.
    pub(crate) fn refund(&self, group: u32, n: u32) {
        if n > 0 {
            self.refill_stock(group, u64::from(n));
        }
    }

    /// Marks a new page as charged to a group; gives the charge back if there is none.
    pub(crate) fn settle_charge(&self, group: u32, pfn: Option<Pfn>) {
        match pfn {
            Some(pfn) => self.frames.page(pfn).set_group(group),
            None => self.refund(group, 1),
        }
    }

    /// Marks a page as charged to a group.
    #[inline(always)]
    pub(crate) fn give_to(&self, page: Page<'_, W>, group: u32) {
        if group != 0 {
            page.set_group(group);
        }
    }

    /// Takes a page that is freed off its group's charge, if it has a group.
    #[inline(always)]
    pub(crate) fn uncharge_page(&self, page: Page<'_, W>) {
        if self.has_groups() {
            let group = page.group();
            if group != 0 {
                page.set_group(0);
                self.groups.uncharge(group, 1);
            }
        }
    }

    /// Charges a group for one page (`try_charge_memcg`): at its limit reclaims from it, up to 17
    /// rounds after the last one that freed something, and then asks the OOM killer. Above
    /// `memory.high` the task reclaims, and may sleep. Returns false if the page can't be charged;
    /// the allocation fails then. A task that reclaims itself is charged in any case.
    pub(crate) async fn charge_page(&self, group: u32) -> bool {
        let task = self.current();
        let (mut batch, mut retries) = (CHARGE_BATCH, MAX_RECLAIM_RETRIES);
        let (mut drained, mut passed_oom) = (false, false);
        loop {
            if self.takes_stock(group) {
                return true;
            }
            let over = match self.groups.try_charge(group, batch) {
                Ok(()) => break,
                Err(_) if batch > 1 => {
                    batch = 1;
                    continue;
                }
                Err(over) => over,
            };
            if task.flags() & PF_MEMALLOC != 0 {
                self.count_group(over, GroupEvent::Max, 1);
                self.groups.charge(group, 1);
                return true;
            }
            self.count_group(over, GroupEvent::Max, 1);
            self.world.memory_stall(true);
            let reclaimed = self.try_to_free_group_pages(over, 1).await;
            self.world.memory_stall(false);
            if self.group_margin(over) > 0 {
                continue;
            }
            if !std::mem::replace(&mut drained, true) {
                self.drain_stocks(over);
                continue;
            }
            if reclaimed > 0 {
                continue;
            }
            if retries > 0 {
                retries -= 1;
                continue;
            }
            if passed_oom && task.flags() & PF_DYING != 0 {
                return false;
            }
            self.count_group(over, GroupEvent::Oom, 1);
            if !self.group_out_of_memory(over).await {
                return false;
            }
            passed_oom = true;
            retries = MAX_RECLAIM_RETRIES;
        }
        if batch > 1 {
            self.refill_stock(group, batch - 1);
        }
        let above = |g| {
            let g = self.groups.group(g);
            g.usage.get() > g.limits.high
        };
        if self.groups.upwards(group).any(above) {
            let owed = task.over_high.fetch_add(batch as u32) + batch as u32;
            if u64::from(owed) > CHARGE_BATCH && task.flags() & PF_MEMALLOC == 0 {
                self.handle_over_high().await;
            }
        }
        true
    }

    /// Returns the pages that a group may still be charged for (`mem_cgroup_margin`).
    pub(crate) fn group_margin(&self, group: u32) -> u64 {
        let g = self.groups.group(group);
        g.limits.max.saturating_sub(g.usage.get())
    }

    /// Charges the group of an anonymous page for a swap slot (`mem_cgroup_try_charge_swap`).
    /// Returns false if it, or one that it lies in, has as much swap as it may have.
    pub(crate) fn charge_swap(&self, pfn: Pfn, slot: u32) -> bool {
        if !self.has_groups() {
            return true;
        }
        let group = self.frames.page(pfn).group();
        let full = |g| {
            let g = self.groups.group(g);
            g.swap.get() >= g.limits.swap_max
        };
        if self.groups.upwards(group).any(full) {
            return false;
        }
        for g in self.groups.upwards(group) {
            self.groups.group(g).swap.fetch_add(1);
        }
        self.swap.owners[slot as usize].set(group);
        true
    }

    /// Charges a page that was allocated for the contents of a swap slot to the group that had them
    /// (`mem_cgroup_swapin_charge_folio`), in place of the task's.
    pub(crate) fn give_back_to_owner(&self, pfn: Pfn, slot: u32) {
        if let Some(owner) = self.swap.owners.get(slot as usize) {
            let (page, owner) = (self.frames.page(pfn), owner.get());
            if page.group() != owner {
                self.uncharge_page(page);
                self.groups.charge(owner, 1);
                page.set_group(owner);
            }
        }
    }

    /// Takes a swap slot that is freed off its group's charge.
    pub(crate) fn uncharge_swap(&self, slot: u32) {
        if let Some(owner) = self.swap.owners.get(slot as usize) {
            for g in self.groups.upwards(owner.fetch_and(0)) {
                self.groups.group(g).swap.fetch_sub(1);
            }
        }
    }

    /// Returns true if pages of a group may be swapped out: there is free swap, and the group and
    /// all that it lies in may have more (`mem_cgroup_get_nr_swap_pages`).
    pub(crate) fn group_may_swap(&self, group: u32) -> bool {
        let room = |g| {
            let g = self.groups.group(g);
            g.limits.swap_max == NO_LIMIT || g.swap.get() < g.limits.swap_max
        };
        self.free_swap() > 0 && self.groups.upwards(group).all(room)
    }
}
