//! Per-CPU lists of single pages (reference 01 §3).
//!
//! A ring per zone and CPU: hot pages are pushed and taken at the front, cold ones (freed by
//! reclaim) queue at the back. Pages here are not in `nr_free_pages`.

use crate::frame::{NO_PFN, flag};
use crate::vmstat::VmEvent;
use crate::world::{Cost, ShortLock, Word32, World};
use crate::{Mm, Pfn};

/// One zone's list on one CPU.
pub(crate) struct Pcp<W: World> {
    ring: Box<[W::U32]>,
    front: W::U32,
    count: W::U32,
    /// A drain of all CPUs' lists takes pages from lists that are not its CPU's.
    lock: W::Lock,
}

impl<W: World> Pcp<W> {
    pub fn new(most: u32) -> Self {
        Self {
            ring: bytemuck::zeroed_slice_box((most + 1).next_power_of_two() as usize),
            front: bytemuck::Zeroable::zeroed(),
            count: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        }
    }

    #[inline(always)]
    fn slot(&self, i: u32) -> &W::U32 {
        &self.ring[i as usize & (self.ring.len() - 1)]
    }

    #[inline(always)]
    fn push_front(&self, pfn: Pfn) {
        let at = self.front.get().wrapping_sub(1);
        self.slot(at).set(pfn);
        self.front.set(at);
        self.count.fetch_add(1);
    }

    #[inline(always)]
    fn push_back(&self, pfn: Pfn) {
        self.slot(self.front.get().wrapping_add(self.count.get()))
            .set(pfn);
        self.count.fetch_add(1);
    }

    #[inline(always)]
    fn pop_front(&self) -> Option<Pfn> {
        if self.count.get() == 0 {
            return None;
        }
        let at = self.front.get();
        self.front.set(at.wrapping_add(1));
        self.count.fetch_sub(1);
        Some(self.slot(at).get())
    }

    #[inline(always)]
    fn pop_back(&self) -> Option<Pfn> {
        let n = self.count.get();
        if n == 0 {
            return None;
        }
        self.count.set(n - 1);
        Some(self.slot(self.front.get().wrapping_add(n - 1)).get())
    }

    pub fn count(&self) -> u32 {
        self.count.get()
    }

    pub fn iter(&self) -> impl Iterator<Item = Pfn> + '_ {
        (0..self.count.get()).map(|i| self.slot(self.front.get().wrapping_add(i)).get())
    }
}

impl<W: World> Mm<W> {
    #[inline(always)]
    pub(crate) fn pcp(&self, z: usize, cpu: usize) -> &Pcp<W> {
        &self.pcp[z * self.config.cpus + cpu]
    }

    /// Takes a page from this CPU's list, refilling it from the buddy lists when empty.
    #[inline]
    pub(crate) fn rmqueue_pcp(&self, z: usize) -> Option<Pfn> {
        let pcp = self.pcp(z, self.world.cpu());
        pcp.lock.with(|| {
            if let Some(pfn) = pcp.pop_front() {
                return Some(pfn);
            }
            self.rmqueue_bulk(z, self.zones[z].pcp_batch, |pfn| pcp.push_back(pfn));
            pcp.pop_front()
        })
    }

    /// Frees a single page to this CPU's list; over `high`, a batch goes back to the buddy lists.
    #[inline]
    pub fn free_page(&self, pfn: Pfn, cold: bool) {
        let f = self.frames.flags(pfn);
        assert!(
            f & flag::USED != 0 && f & flag::CHECK_AT_FREE == 0,
            "frame {pfn} freed with flags {f:#x}"
        );
        let z = (f >> flag::ZONE_SHIFT) as usize;
        self.frames.word(pfn, 0).set((z as u32) << flag::ZONE_SHIFT);
        self.stat.event(VmEvent::PgFree, 1);
        self.world.charge(Cost::PageFree, 1);
        let zone = &self.zones[z];
        let pcp = self.pcp(z, self.world.cpu());
        pcp.lock.with(|| {
            if cold {
                pcp.push_back(pfn);
            } else {
                pcp.push_front(pfn);
            }
            if pcp.count() >= zone.pcp_high {
                // The coldest pages go back first.
                self.free_bulk(z, (0..zone.pcp_batch).map_while(|_| pcp.pop_back()));
            }
        });
    }

    /// Returns every page of every CPU's lists to the buddy lists.
    pub fn drain_all_pages(&self) {
        for z in 0..self.zones.len() {
            for cpu in 0..self.config.cpus {
                let pcp = self.pcp(z, cpu);
                if pcp.count() > 0 {
                    pcp.lock
                        .with(|| self.free_bulk(z, std::iter::from_fn(|| pcp.pop_back())));
                }
            }
        }
    }

    /// Pages on all per-CPU lists of a zone.
    pub fn pcp_pages(&self, z: usize) -> u64 {
        (0..self.config.cpus)
            .map(|c| u64::from(self.pcp(z, c).count()))
            .sum()
    }
}

const _: () = assert!(NO_PFN == u32::MAX);
