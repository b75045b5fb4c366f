//! Blocks of up to [`PAGE_ALLOC_COSTLY_ORDER`] on the per-CPU lists, and what a free returns of all of
//! them (`per_cpu_lists = "watermark"` and `"tuned"`: Linux 5.13, "mm/page_alloc: allow high-order pages to be
//! stored on the per-cpu lists").
//!
//! A list for each order and kind, as many blocks at once as make up a batch: pages of one order that are
//! allocated beside those of another come from runs of their own, so that either leave runs when they are
//! freed.

use crate::memory::alloc::PAGE_ALLOC_COSTLY_ORDER;
use crate::memory::frame::flag;
use crate::memory::pcp::Pcp;
use crate::memory::pcp_high::room;
use crate::memory::zone::Zone;
use crate::policy::{PerCpuLists, Policy};
use crate::watch::vmstat::ZoneStat;
use crate::world::{Cost, World};
use crate::{Config, Mm, Pfn};

/// Orders that have lists of blocks.
const BLOCK_ORDERS: usize = PAGE_ALLOC_COSTLY_ORDER as usize;

/// The lists of blocks of all zones and CPUs: by order, then by kind. None where the lists hold single pages.
pub(crate) fn lists<W: World>(
    config: &Config,
    policy: &Policy,
    zones: &[Zone<W>],
    lists: usize,
) -> Box<[Pcp<W>]> {
    let mut all = Vec::new();
    if policy.per_cpu_lists != PerCpuLists::Batches {
        for z in zones {
            let pages = room(z.size / config.cpus_of(z.node), z.pcp_batch);
            for _ in 0..config.cpus {
                let orders = 1..=PAGE_ALLOC_COSTLY_ORDER;
                all.extend(orders.flat_map(|o| (0..lists).map(move |_| Pcp::new(pages >> o))));
            }
        }
    }
    all.into()
}

impl<W: World> Mm<W> {
    /// Whether blocks of an order above 0 have lists.
    #[inline(always)]
    fn block_has_list(&self, order: u32) -> bool {
        self.lists_by_watermark() && (1..=PAGE_ALLOC_COSTLY_ORDER).contains(&order)
    }

    /// The list of a CPU for an order and kind; the single pages' are those of order 0.
    #[inline]
    fn list_at(&self, z: usize, cpu: usize, index: usize) -> (&Pcp<W>, u32) {
        let (order, list) = (index / self.lists, index % self.lists);
        let pcp = match order {
            0 => self.pcp(z, cpu, list),
            _ => &self.pcp_blocks(z, cpu)[index - self.lists],
        };
        (pcp, order as u32)
    }

    /// One CPU's lists of blocks.
    fn pcp_blocks(&self, z: usize, cpu: usize) -> &[Pcp<W>] {
        if self.pcp_blocks.is_empty() {
            return &[];
        }
        let n = BLOCK_ORDERS * self.lists;
        &self.pcp_blocks[(z * self.config.cpus + cpu) * n..][..n]
    }

    /// Pages in the blocks on one CPU's lists.
    #[inline]
    pub(crate) fn pcp_block_pages(&self, z: usize, cpu: usize) -> u32 {
        let lists = self.pcp_blocks(z, cpu).iter().enumerate();
        lists
            .map(|(i, pcp)| pcp.count() << (i / self.lists + 1))
            .sum()
    }

    /// Every page of every CPU's lists of a zone.
    pub(crate) fn pcp_frames(&self, z: usize) -> impl Iterator<Item = Pfn> + '_ {
        let blocks = (0..self.config.cpus).flat_map(move |cpu| {
            let lists = self.pcp_blocks(z, cpu).iter().enumerate();
            lists.flat_map(move |(i, pcp)| {
                let order = i / self.lists + 1;
                pcp.iter().flat_map(move |pfn| pfn..pfn + (1 << order))
            })
        });
        self.pcps(z).iter().flat_map(|pcp| pcp.iter()).chain(blocks)
    }

    /// Takes a block from this CPU's list, refilling it from the buddy lists when empty. `None`: there is none, or
    /// blocks of this order have no lists (`Err`).
    pub(crate) fn rmqueue_block(
        &self,
        z: usize,
        order: u32,
        list: usize,
    ) -> Result<Option<Pfn>, ()> {
        if !self.block_has_list(order) {
            return Err(());
        }
        let cpu = self.world.cpu();
        let (pcp, _) = self.list_at(z, cpu, order as usize * self.lists + list);
        let (block, n) = pcp.with_lock(|| match pcp.pop_front() {
            Some(block) => (Some(block), 0),
            None => {
                let batch = self.nr_blocks_alloc(z, order);
                let queue = |block| pcp.push_back(std::iter::once(block));
                let n = self.take_blocks(z, order, batch, list, queue);
                (pcp.pop_front(), n)
            }
        });
        if n > 0 {
            let pages = (n << order) as i32;
            self.stat.add(cpu, z, ZoneStat::NrFreePages, -pages);
            self.world.charge(Cost::PageBulk, n);
            self.wake_if_boosted(z);
            self.refilled(z);
        }
        if block.is_some() {
            self.note_block_taken(z, cpu, order);
        }
        Ok(block)
    }

    /// Frees a block to this CPU's list, if its order has one: whether it had.
    pub(crate) fn free_block(&self, z: usize, pfn: Pfn, order: u32) -> bool {
        if !self.block_has_list(order) {
            return false;
        }
        debug_assert!(!self.frames.has(pfn, flag::BUDDY));
        let cpu = self.world.cpu();
        let index = order as usize * self.lists + self.list_of_page(pfn);
        let (pcp, _) = self.list_at(z, cpu, index);
        pcp.with_lock(|| pcp.push_front(pfn));
        self.return_over_high(z, order, index);
        true
    }

    /// A page or block came onto a list of this CPU: what its lists are not to hold goes back, that list
    /// first.
    pub(crate) fn return_over_high(&self, z: usize, order: u32, index: usize) {
        let n = self.pages_to_return(z, order);
        if n > 0 {
            self.return_pages(z, self.world.cpu(), n, index);
            self.returned(z);
        }
    }

    /// Returns so many pages of a CPU's lists of a zone: all of one list, then of the next
    /// (`free_pcppages_bulk`). Of a block all pages go.
    pub(crate) fn return_pages(&self, z: usize, cpu: usize, n: u32, first: usize) {
        let all = self.lists + self.pcp_blocks(z, cpu).len();
        let mut left = n;
        for index in (first..all).chain(0..first) {
            if left == 0 {
                return;
            }
            let (pcp, order) = self.list_at(z, cpu, index);
            let blocks = left.div_ceil(1 << order).min(pcp.count());
            if blocks == 0 {
                continue;
            }
            left = left.saturating_sub(blocks << order);
            match order {
                0 => pcp.return_some(blocks, |pages| self.free_bulk(z, pages)),
                _ => pcp.return_some(blocks, |pages| self.free_blocks(z, order, pages)),
            }
        }
    }

    /// Returns every block of every CPU's lists of a zone.
    pub(crate) fn drain_blocks(&self, z: usize) {
        for cpu in 0..self.config.cpus {
            for (i, pcp) in self.pcp_blocks(z, cpu).iter().enumerate() {
                let order = (i / self.lists + 1) as u32;
                if pcp.count() > 0 {
                    pcp.return_some(u32::MAX, |pages| self.free_blocks(z, order, pages));
                }
            }
        }
    }
}
