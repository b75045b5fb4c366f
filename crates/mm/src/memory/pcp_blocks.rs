//! Blocks of up to [`PAGE_ALLOC_COSTLY_ORDER`] on the per-CPU lists, and what a free returns of all
//! of the lists (`per_cpu_lists = "watermark"` and `"tuned"`: Linux 5.13, "mm/page_alloc: allow
//! high-order pages to be stored on the per-cpu lists").
//!
//! There is a list for each order and kind, refilled with as many blocks as make up a batch. Pages
//! of one order that are allocated beside those of another therefore come from runs of their own,
//! and both leave runs when they are freed.

use crate::memory::alloc::PAGE_ALLOC_COSTLY_ORDER;
use crate::memory::frame::flag;
use crate::watch::vmstat::ZoneStat;
use crate::world::{Cost, World};
use crate::{Mm, Pfn};

impl<W: World> Mm<W> {
    /// Returns true if blocks of an order above 0 are kept on per-CPU lists of their own (5.13).
    #[inline(always)]
    pub(crate) fn block_has_list(&self, order: u32) -> bool {
        self.lists_by_watermark() && (1..=PAGE_ALLOC_COSTLY_ORDER).contains(&order)
    }

    /// Returns the index among a CPU's lists of that of an order and a kind of pages (`list`).
    fn list_index(&self, order: u32, list: usize) -> usize {
        order as usize * self.lists + list
    }

    /// Returns every page of the blocks on all CPUs' lists of a zone.
    pub(crate) fn pcp_frames(&self, z: usize) -> impl Iterator<Item = Pfn> + '_ {
        let lists = self.pcps(z).iter();
        lists.flat_map(|pcp| pcp.iter().flat_map(|pfn| pfn..pfn + (1 << pcp.order())))
    }

    /// Takes a block of 2^`order` pages, of an order that has per-CPU lists, from this CPU's list
    /// of the kind `list`, refilling it from the buddy lists if empty. Returns its first page;
    /// `None`: the zone has no such block.
    pub(crate) fn rmqueue_block(&self, z: usize, order: u32, list: usize) -> Option<Pfn> {
        let cpu = self.world.cpu();
        let pcp = self.pcp(z, cpu, self.list_index(order, list));
        // `n`: blocks with which the list was refilled.
        let (block, n) = pcp.with_lock(|| match pcp.pop_front() {
            Some(block) => (Some(block), 0),
            None => {
                let batch = self.nr_blocks_alloc(z, order);
                let queue = |block| pcp.push_back(std::iter::once(block));
                let n = self.take_blocks(z, order, batch, list, queue);
                (pcp.pop_front(), n)
            }
        });
        self.count_blocks(z, cpu, order, n as i32 - i32::from(block.is_some()));
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
        block
    }

    /// Frees a block of 2^`order` pages, of an order that has per-CPU lists, to this CPU's list.
    pub(crate) fn free_block(&self, z: usize, pfn: Pfn, order: u32) {
        debug_assert!(!self.frames.has(pfn, flag::BUDDY));
        let index = self.list_index(order, self.list_of_page(pfn));
        let cpu = self.world.cpu();
        let pcp = self.pcp(z, cpu, index);
        pcp.with_lock(|| pcp.push_front(pfn));
        self.count_blocks(z, cpu, order, 1);
        self.return_over_high(z, order, index);
    }

    /// Returns pages to the buddy lists, after a page or block of 2^`order` pages was added to this
    /// CPU's list number `index`, if its lists then hold more than they should; from that list
    /// first.
    pub(crate) fn return_over_high(&self, z: usize, order: u32, index: usize) {
        let n = self.pages_to_return(z, order);
        if n > 0 {
            self.return_pages(z, self.world.cpu(), n, index);
            self.returned(z);
        }
    }

    /// Returns `n` pages of a CPU's lists of a zone to the buddy lists: all of list number `first`,
    /// then of the next (`free_pcppages_bulk`). Blocks are returned whole.
    pub(crate) fn return_pages(&self, z: usize, cpu: usize, n: u32, first: usize) {
        let mut left = n;
        let (before, from) = self.own_pcps(z, cpu).split_at(first);
        for pcp in from.iter().chain(before) {
            let order = pcp.order();
            let blocks = left.div_ceil(1 << order).min(pcp.count());
            if blocks == 0 {
                continue;
            }
            left = left.saturating_sub(blocks << order);
            match order {
                0 => pcp.return_some(blocks, |pages| self.free_bulk(z, pages)),
                _ => {
                    pcp.return_some(blocks, |pages| self.free_blocks(z, order, pages));
                    self.count_blocks(z, cpu, order, -(blocks as i32));
                }
            }
        }
    }
}
