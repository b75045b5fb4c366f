//! Slab caches: objects that share pages, so that freeing objects frees pages late
//! (docs/reference/shrinkers-and-xfs.md#callers).
//!
//! A slab is one page of kernel memory. Its frame records which of its objects are in use:
//! `mapping` is the cache, `index` has a bit for each object. A cache takes objects from the slabs
//! that have room, the most recently used one first, and frees a page with its last object.

use crate::memory::frame::flag;
use crate::memory::gfp::Gfp;
use crate::watch::vmstat::ZoneStat;
use crate::world::{Cost, ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};

/// The place of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    pub page: Pfn,
    pub slot: u32,
}

/// A slab cache.
pub(crate) struct Cache<W: World> {
    /// Objects per page, 1..=32.
    per_page: W::U32,
    /// The sentinel of the list of slabs that have room.
    partial: Pfn,
    /// Objects in use.
    objects: W::U64,
    /// Pages of the cache.
    slabs: W::U64,
    /// 1: each object has a record beside it ([`Mm::keep_beside`]).
    beside: W::U32,
    lock: W::Lock,
}

impl<W: World> Cache<W> {
    /// Makes an empty cache; `partial`: the sentinel of its list of slabs that have room.
    pub fn new(partial: Pfn) -> Self {
        Self {
            per_page: bytemuck::Zeroable::zeroed(),
            partial,
            objects: bytemuck::Zeroable::zeroed(),
            slabs: bytemuck::Zeroable::zeroed(),
            beside: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        }
    }

    /// Sets the size of the cache's objects in bytes.
    ///
    /// # Panics
    /// If a page does not hold 1 to 32 of them.
    pub fn holds(&self, bytes: u32) {
        let n = 4096 / bytes;
        assert!((1..=32).contains(&n), "{n} objects a page");
        self.per_page.set(n);
    }

    /// Returns the bits of a slab all of whose objects are in use.
    fn full(&self) -> u32 {
        u32::MAX >> (32 - self.per_page.get())
    }
}

impl<W: World> Mm<W> {
    /// Returns a slab cache by its number.
    fn cache(&self, cache: u32) -> &Cache<W> {
        &self.caches[cache as usize]
    }

    /// Allocates an object of a slab cache: from a slab that has room, or from a new page, for
    /// which the task may wait as `gfp` allows. `None` if there is no page for it.
    pub(crate) async fn slab_alloc(&self, cache: u32, gfp: Gfp) -> Option<Object> {
        if let Some(object) = self.slab_take(cache, None) {
            return Some(object);
        }
        let page = self.alloc_page(gfp.or(Gfp::RECLAIMABLE)).await?;
        let z = self.frames.zone(page);
        self.frames.set_flags(page, flag::SLAB);
        self.frames.set_mapping(page, cache, 0);
        self.stat
            .inc(self.world.cpu(), z, ZoneStat::NrSlabReclaimable);
        self.slab_take(cache, Some(page))
    }

    /// Takes an object from the page `fresh`, which joins the cache, or from a slab that has room;
    /// `None` if there is neither.
    fn slab_take(&self, cache: u32, fresh: Option<Pfn>) -> Option<Object> {
        let c = self.cache(cache);
        self.world.charge(Cost::SlabMake, 1);
        c.lock.with(|| {
            if let Some(page) = fresh {
                c.slabs.fetch_add(1);
                self.frames.add(c.partial, page);
            }
            let page = self.frames.first(c.partial);
            if page == c.partial {
                return None;
            }
            // A slab's frame has a bit in its `index` for each object in use.
            let used = self.frames.index(page);
            let slot = (!used).trailing_zeros();
            assert!(slot < c.per_page.get(), "a slab with room has a slot");
            let used = used | 1 << slot;
            self.frames.set_mapping(page, cache, used);
            if used == c.full() {
                self.frames.del(page);
            }
            c.objects.fetch_add(1);
            Some(Object { page, slot })
        })
    }

    /// Returns true if a cache's objects have records beside them.
    #[inline(always)]
    pub(crate) fn keeps_beside(&self, cache: u32) -> bool {
        self.cache(cache).beside.get() != 0
    }

    /// Gives each object of a slab cache (an inode) a record of the filesystem beside it from now
    /// on, if such records take memory.
    pub(crate) fn keep_beside(&self, cache: u32) {
        debug_assert!(self.cache(cache).objects.get() == 0, "an empty cache");
        self.cache(cache)
            .beside
            .set(u32::from(self.metadata.counts()));
    }

    /// Returns the number of objects that have a record beside them.
    pub(crate) fn with_beside(&self) -> u32 {
        let kept = self.caches.iter().filter(|c| c.beside.get() != 0);
        kept.map(|c| c.objects.get()).sum::<u64>() as u32
    }

    /// Frees an object of a slab cache, and its page if the object was the last one there. The page
    /// counts as reclaimed by the calling task.
    pub(crate) fn slab_free(&self, cache: u32, object: Object) {
        let c = self.cache(cache);
        let empty = c.lock.with(|| {
            let used = self.frames.index(object.page);
            let bit = 1 << object.slot;
            assert!(
                used & bit != 0 && self.frames.has(object.page, flag::SLAB),
                "an object is freed once"
            );
            if used == c.full() {
                self.frames.add(c.partial, object.page);
            }
            self.frames.set_mapping(object.page, cache, used & !bit);
            c.objects.fetch_sub(1);
            if used == bit {
                self.frames.del(object.page);
                c.slabs.fetch_sub(1);
            }
            used == bit
        });
        if empty {
            let z = self.frames.zone(object.page);
            self.frames.clear_flags(object.page, flag::SLAB);
            self.stat
                .dec(self.world.cpu(), z, ZoneStat::NrSlabReclaimable);
            self.free_page(object.page, false);
            self.current().reclaimed_slab.fetch_add(1);
        }
    }

    /// Returns the number of objects in use and the number of pages of a slab cache.
    pub(crate) fn slab_usage(&self, cache: u32) -> (u64, u64) {
        let c = self.cache(cache);
        (c.objects.get(), c.slabs.get())
    }

    /// Adds the slab page `page`, as its frame records it, to the numbers of pages and objects of
    /// its cache in `tally`.
    ///
    /// # Errors
    /// If the frame's record is inconsistent.
    pub(crate) fn count_slab(&self, page: Pfn, tally: &mut [(u64, u64)]) -> Result<(), String> {
        let (cache, used) = (self.frames.mapping(page), self.frames.index(page));
        let Some(c) = self.caches.get(cache as usize) else {
            return Err(format!("slab {page} is of cache {cache}"));
        };
        if used == 0 || used & !c.full() != 0 {
            return Err(format!("slab {page} has objects {used:#x}"));
        }
        tally[cache as usize].0 += 1;
        tally[cache as usize].1 += u64::from(used.count_ones());
        Ok(())
    }

    /// Compares the recounted pages and objects of each cache (`tally`) with the cache's counts,
    /// and checks its list of slabs with room. Returns a text about the first difference.
    pub(crate) fn check_slabs(&self, tally: &[(u64, u64)]) -> Result<(), String> {
        for (i, c) in self.caches.iter().enumerate() {
            let known = (c.slabs.get(), c.objects.get());
            if known != tally[i] {
                return Err(format!(
                    "cache {i}: {:?} pages and objects, counted {known:?}",
                    tally[i]
                ));
            }
            for page in self.frames.iter(c.partial) {
                if !self.frames.has(page, flag::SLAB)
                    || self.frames.mapping(page) != i as u32
                    || self.frames.index(page) == c.full()
                {
                    return Err(format!("slab {page} has no room in cache {i}"));
                }
            }
        }
        Ok(())
    }
}
