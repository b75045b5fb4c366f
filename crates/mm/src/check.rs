//! The full recount: every list, counter and index is computed from scratch.
//!
//! Each frame is checked once, where its list is walked: it is counted by its flags, and compared
//! with its file's index. After that the index can be checked without its frames: if every cached
//! frame is in the slot that it names, and there are as many filled slots as cached frames, both
//! agree.

mod look;

use crate::cache::check::LeafView;
use crate::memory::buddy;
use crate::memory::frame::flag;
use crate::memory::zone::Lru;
use crate::watch::vmstat::ZoneStat;
use crate::world::{Word32, World};
use crate::{Mm, Pfn};
use std::ops::Range;

/// The list on which the recount found a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Place {
    Nowhere,
    Free,
    Pcp,
    Lru,
    Batch,
    Isolated,
}

/// The sums over a zone's allocated frames.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    dirty: u64,
    writeback: u64,
    /// Pages under writeback that a device counts.
    of_devices: u64,
    file: u64,
    anon: u64,
    /// Isolated pages of the anonymous and of the file lists.
    isolated: [u64; 2],
}

impl Tally {
    /// Adds another zone's or counter's sums, except for isolated pages, which are counted
    /// elsewhere.
    fn add(&mut self, other: &Self) {
        self.dirty += other.dirty;
        self.writeback += other.writeback;
        self.of_devices += other.of_devices;
        self.file += other.file;
        self.anon += other.anon;
    }
}

/// A checker with its buffers, which can do any number of recounts.
#[derive(Debug, Default)]
pub struct Recount {
    place: Vec<Place>,
    tally: Vec<Tally>,
    swap_entries: Vec<u32>,
    maps: Vec<u32>,
    /// Pages and objects of each slab cache.
    slabs: Vec<(u64, u64)>,
    looks: look::Looks,
}

impl<W: World> Mm<W> {
    /// Recounts everything once.
    ///
    /// # Errors
    /// Returns a text about the first disagreement.
    pub fn recount(&self) -> Result<(), String> {
        Recount::default().run(self)
    }

    /// Checks that no task waits for something that is already available: tasks for memory, a
    /// throttle or reserves, and daemons for work. A wait that only a timer ends is not checked.
    ///
    /// # Errors
    /// Returns a text about the first such wait.
    fn check_waits(&self) -> Result<(), String> {
        for nid in 0..self.nodes.len() as u32 {
            self.check_kswapd_waits(nid)?;
            self.check_throttled(nid)?;
        }
        self.check_pressure_worker()?;
        for bdi in 0..self.bdi_count() {
            self.check_flusher_waits(bdi)?;
        }
        self.check_swap_bio_waits()?;
        let mut logs = (0..self.super_count()).filter(|&sb| self.is_xfs(sb));
        logs.try_for_each(|sb| self.check_log_waits(sb))
    }

    /// Compares a zone's exact count of an item with the number `found` by a recount. Returns an
    /// error text if they differ.
    fn expect(&self, z: usize, item: ZoneStat, found: u64) -> Result<(), String> {
        let counted = self.stat.exact(z, item);
        if counted == found as i64 {
            Ok(())
        } else {
            Err(format!(
                "{} of {}: {found}, counted {counted}",
                item.name(),
                self.zone_name(z)
            ))
        }
    }
}

impl Recount {
    /// Recounts all lists, counters and indexes of the engine.
    ///
    /// # Errors
    /// Returns a text about the first disagreement.
    pub fn run<W: World>(&mut self, mm: &Mm<W>) -> Result<(), String> {
        self.place.clear();
        self.place.resize(mm.frames.len() as usize, Place::Nowhere);
        self.tally.clear();
        self.tally.resize(mm.zones.len(), Tally::default());
        mm.stat.check()?;
        mm.check_waits()?;
        let pages = check_trees(mm)?;
        mm.check_shadows()?;
        mm.check_hints()?;
        mm.check_limits()?;
        mm.check_numa()?;
        self.slabs.clear();
        self.slabs.resize(mm.caches.len(), (0, 0));
        mm.check_inodes()?;
        for z in 0..mm.zones.len() {
            self.free_pages(mm, z)?;
            self.lru_pages(mm, z)?;
        }
        for pv in &mm.pagevecs {
            for batch in &pv.add {
                for pfn in batch.iter() {
                    self.put(pfn, Place::Batch, "add batch")?;
                    self.count_one(mm, pfn)?;
                }
            }
        }
        for task in 0..mm.config.max_tasks {
            for pfn in mm.frames.iter(mm.isolated_list(task)) {
                self.put(pfn, Place::Isolated, "isolated")?;
                let (z, f) = self.count_one(mm, pfn)?;
                self.tally[z].isolated[usize::from(f & flag::SWAPBACKED == 0)] += 1;
            }
        }
        self.pages_on_no_list(mm)?;
        mm.check_charges()?;
        mm.check_slabs(&self.slabs)?;
        self.compare(mm, pages)?;
        for bdi in 0..mm.bdi_count() {
            mm.check_flusher(bdi)?;
        }
        self.swap_entries.clear();
        self.swap_entries.resize(mm.config.swap_slots as usize, 0);
        mm.check_regions(&mut self.maps, &mut self.swap_entries)?;
        mm.check_swap(&self.swap_entries)?;
        // Last, because this is only a sum: a check that names a page says more.
        mm.check_devices(Some(self.tally.iter().map(|t| t.of_devices).sum()))
    }

    /// Notes that frame `pfn` was found on the list `p`; `what` names the list in errors. Returns
    /// an error text if the frame was found on another list before, or does not exist.
    fn put(&mut self, pfn: Pfn, p: Place, what: &str) -> Result<(), String> {
        match self.place.get_mut(pfn as usize) {
            Some(slot @ Place::Nowhere) => {
                *slot = p;
                Ok(())
            }
            Some(slot) => Err(format!("frame {pfn} is on {slot:?} and on {p:?} ({what})")),
            None => Err(format!("{what}: {pfn} is no frame")),
        }
    }

    /// Recounts a zone's free pages on buddy and per-CPU lists, checks each block, and notes where
    /// each frame was found. Returns a text about the first error.
    fn free_pages<W: World>(&mut self, mm: &Mm<W>, z: usize) -> Result<(), String> {
        let zone = &mm.zones[z];
        let mut free = 0u64;
        for order in 0..buddy::ORDERS {
            let mut blocks = 0;
            let lists = (0..mm.lists).map(|list| mm.free_list(z, order, list));
            for pfn in lists.flat_map(|list| mm.frames.iter(list)) {
                if !mm.frames.has(pfn, flag::BUDDY)
                    || mm.frames.private(pfn) != order as u32
                    || mm.frames.zone(pfn) != z
                    || pfn % (1 << order) != 0
                {
                    return Err(format!("free block {pfn} of order {order} is malformed"));
                }
                for p in pfn..pfn + (1 << order) {
                    self.put(p, Place::Free, "buddy")?;
                }
                blocks += 1;
            }
            if blocks != zone.nr_free[order].get() {
                return Err(format!("zone {z} order {order}: {blocks} blocks"));
            }
            free += u64::from(blocks) << order;
        }
        mm.expect(z, ZoneStat::NrFreePages, free)?;
        for pfn in mm.pcp_frames(z) {
            self.put(pfn, Place::Pcp, "per-CPU list")?;
            if mm.frames.has(pfn, flag::USED) {
                return Err(format!("frame {pfn} is free and in use"));
            }
        }
        mm.check_mobility(z)
    }

    /// Recounts the pages on a zone's LRU lists against its counters, checks each page's flags and
    /// place in its file, and notes where each frame was found. Returns a text about the first
    /// error.
    fn lru_pages<W: World>(&mut self, mm: &Mm<W>, z: usize) -> Result<(), String> {
        if mm.node_lru() {
            return self.lru_pages_of_node(mm, z);
        }
        let mut counter = Counter::new(mm, z);
        for lru in Lru::ALL {
            let mut n = 0;
            for pfn in mm.frames.iter(mm.zones[z].lru + lru as u32) {
                self.put(pfn, Place::Lru, "LRU")?;
                let f = counter.count(pfn).map_err(|w| counter.explain(pfn, w))?;
                if f & flag::LRU == 0 || Lru::of(f) != lru {
                    return Err(format!("frame {pfn} on {lru:?} of zone {z}: flags {f:#x}"));
                }
                n += 1;
            }
            mm.expect(z, lru.size_item(), n)?;
        }
        mm.check_order(z)?;
        self.tally[z].add(&counter.tally);
        Ok(())
    }

    /// Checks the LRU lists of zone `z` and its counters, as [`Self::lru_pages`] does, where nodes
    /// have the lists: walks those of the zone's node and counts only the zone's own pages. The
    /// call for the node's first zone also records the place of every page, of which a page may
    /// have one only.
    fn lru_pages_of_node<W: World>(&mut self, mm: &Mm<W>, z: usize) -> Result<(), String> {
        let first = mm.zones[z].lru_home as usize == z;
        for lru in Lru::ALL {
            let mut all = 0;
            for group in 0..mm.group_count() {
                let mut n = 0;
                for pfn in mm.frames.iter(mm.lru_list_of(z, group, lru)) {
                    if first {
                        self.put(pfn, Place::Lru, "LRU")?;
                    }
                    if mm.frames.zone(pfn) != z {
                        continue;
                    }
                    let (_, f) = self.count_one(mm, pfn)?;
                    let of = mm.frames.page(pfn).group();
                    if f & flag::LRU == 0 || Lru::of(f) != lru || of != group {
                        return Err(format!(
                            "frame {pfn} on {lru:?} of its node, group {group}: flags {f:#x}, group {of}"
                        ));
                    }
                    n += 1;
                }
                mm.check_group_lru(z, group, lru, n)?;
                all += n;
            }
            mm.expect(z, lru.size_item(), all)?;
        }
        Ok(())
    }

    /// Counts one allocated frame of any zone in the sums of its zone. Returns its zone and its
    /// flags, or an error text.
    fn count_one<W: World>(&mut self, mm: &Mm<W>, pfn: Pfn) -> Result<(usize, u32), String> {
        let z = mm.frames.zone(pfn);
        if z >= mm.zones.len() {
            return Err(format!("frame {pfn} is in no zone"));
        }
        let mut counter = Counter::new(mm, z);
        let f = counter.count(pfn).map_err(|w| counter.explain(pfn, w))?;
        self.tally[z].add(&counter.tally);
        Ok((z, f))
    }

    /// Checks the frames that were found on no list: they must be the kernel's, slabs, or just
    /// allocated by a task, and neither lost nor pages of a file. Compares the number of slab pages
    /// of each zone with its counter.
    fn pages_on_no_list<W: World>(&mut self, mm: &Mm<W>) -> Result<(), String> {
        for (z, zone) in mm.zones.iter().enumerate() {
            let mut counter = Counter::new(mm, z);
            let mut slabs = 0;
            let places = &self.place[zone.start as usize..(zone.start + zone.size) as usize];
            for (pfn, place) in (zone.start..).zip(places) {
                if *place != Place::Nowhere {
                    continue;
                }
                let f = counter.count(pfn).map_err(|w| counter.explain(pfn, w))?;
                if f & flag::USED == 0 {
                    return Err(format!("frame {pfn} is lost (flags {f:#x})"));
                }
                if f & (flag::CACHED | flag::ANON) != 0 {
                    return Err(format!("page {pfn} is on no list (flags {f:#x})"));
                }
                if f & flag::SLAB != 0 {
                    mm.count_slab(pfn, &mut self.slabs)?;
                    slabs += 1;
                }
            }
            mm.expect(z, ZoneStat::NrSlabReclaimable, slabs)?;
            self.tally[z].add(&counter.tally);
        }
        Ok(())
    }

    /// Compares the sums over frames with the zones' counters, and the number of cached frames with
    /// the number of `pages` in all trees. Returns a text about the first difference.
    fn compare<W: World>(&self, mm: &Mm<W>, pages: u64) -> Result<(), String> {
        for (z, t) in self.tally.iter().enumerate() {
            mm.expect(z, ZoneStat::NrFileDirty, t.dirty)?;
            mm.expect(z, ZoneStat::NrWriteback, t.writeback)?;
            mm.expect(z, ZoneStat::NrFilePages, t.file)?;
            mm.expect(z, ZoneStat::NrAnonPages, t.anon)?;
            // The pages of a batch are counted until all of it is put back or freed.
            let items = [ZoneStat::NrIsolatedAnon, ZoneStat::NrIsolatedFile];
            for (item, found) in items.into_iter().zip(t.isolated) {
                // So only a counter that is too small is an error.
                if mm.stat.exact(z, item) < found as i64 {
                    mm.expect(z, item, found)?;
                }
            }
        }
        let cached: u64 = self.tally.iter().map(|t| t.file).sum();
        if pages == cached {
            Ok(())
        } else {
            Err(format!(
                "{pages} pages in trees, {cached} frames are cached"
            ))
        }
    }
}

/// Counts allocated frames of one zone by their flags, and compares cached ones with their file's
/// index. Neighbours on a list are mostly neighbours in a file, so the last leaf is kept.
struct Counter<'a, W: World> {
    mm: &'a Mm<W>,
    zone: usize,
    frames: Range<Pfn>,
    tally: Tally,
    mapping: u32,
    accounts_dirty: bool,
    leaf: Option<LeafView<'a, W>>,
}

impl<'a, W: World> Counter<'a, W> {
    /// Makes the counter of a zone's frames, with all sums 0 and no leaf.
    fn new(mm: &'a Mm<W>, zone: usize) -> Self {
        let z = &mm.zones[zone];
        Self {
            mm,
            zone,
            frames: z.start..z.start + z.size,
            tally: Tally::default(),
            mapping: u32::MAX,
            accounts_dirty: false,
            leaf: None,
        }
    }

    /// Adds an allocated frame to the zone's sums by its flags, and checks the place of a cached
    /// one. Returns its flags, or the kind of error found.
    #[inline(always)]
    fn count(&mut self, pfn: Pfn) -> Result<u32, Wrong> {
        let f = self.mm.frames.flags(pfn);
        if (f >> flag::ZONE_SHIFT) as usize != self.zone || !self.frames.contains(&pfn) {
            return Err(Wrong::Zone);
        }
        self.tally.writeback += u64::from(f & flag::WRITEBACK != 0);
        self.tally.anon += u64::from(f & flag::ANON != 0);
        if f & flag::CACHED != 0 {
            self.count_cached(pfn, f)?;
        }
        Ok(f)
    }

    /// Adds a cached frame to the sums, and compares its place and its tags with those in the
    /// file's index. The leaf of the last frame is kept, as neighbours mostly share it.
    #[inline(always)]
    fn count_cached(&mut self, pfn: Pfn, f: u32) -> Result<(), Wrong> {
        let (mapping, index) = (self.mm.frames.mapping(pfn), self.mm.frames.index(pfn));
        if mapping != self.mapping || !self.leaf.as_ref().is_some_and(|l| l.covers(index)) {
            self.turn_to(mapping, index)?;
        }
        self.tally.file += 1;
        self.tally.dirty += u64::from(f & flag::DIRTY != 0 && self.accounts_dirty);
        self.tally.of_devices += u64::from(f & flag::WRITEBACK != 0 && self.accounts_dirty);
        let Some(leaf) = self.leaf.as_ref().filter(|l| l.page(index) == Some(pfn)) else {
            return Err(Wrong::Place);
        };
        let [dirty, writeback] = leaf.tags(index);
        // A page whose dirty bit was just taken for I/O keeps its tag until its write is started or
        // refused.
        let should = f & flag::DIRTY != 0 || f & flag::LOCKED != 0 && dirty;
        if dirty != should || writeback != (f & flag::WRITEBACK != 0) {
            return Err(Wrong::Tags);
        }
        Ok(())
    }

    /// Makes the leaf of page `index` of a file the one that is kept for the next frames. Fails if
    /// the file does not exist.
    #[inline(never)]
    fn turn_to(&mut self, mapping: u32, index: u32) -> Result<(), Wrong> {
        if mapping >= self.mm.mapping_count() {
            return Err(Wrong::File);
        }
        self.mapping = mapping;
        self.accounts_dirty = self.mm.mappings[mapping as usize].accounts_dirty();
        self.leaf = self.mm.leaf_view(mapping, index);
        Ok(())
    }

    /// Returns the text of the error `wrong` about the frame `pfn`.
    #[cold]
    fn explain(&self, pfn: Pfn, wrong: Wrong) -> String {
        let frames = &self.mm.frames;
        let (mapping, index) = (frames.mapping(pfn), frames.index(pfn));
        let what = match wrong {
            Wrong::Zone => format!("is not of zone {}", self.zone),
            Wrong::File => format!("is of file {mapping}, which does not exist"),
            Wrong::Place => format!("is not at index {index} of file {mapping}, where it says"),
            Wrong::Tags => format!("disagrees with its tags at index {index} of file {mapping}"),
        };
        format!("frame {pfn} {what} (flags {:#x})", frames.flags(pfn))
    }
}

/// The errors that counting a frame can find.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    Zone,
    File,
    Place,
    Tags,
}

/// Checks every file's tree and the number of nodes in use; returns the number of pages in all
/// trees.
fn check_trees<W: World>(mm: &Mm<W>) -> Result<u64, String> {
    let (mut pages, mut nodes) = (0u64, 0);
    for mapping in 0..mm.mapping_count() {
        let (p, n) = mm.check_tree(mapping)?;
        if p != mm.mappings[mapping as usize].nrpages.get() {
            return Err(format!("mapping {mapping}: {p} pages, counted otherwise"));
        }
        pages += u64::from(p);
        nodes += n;
    }
    if nodes == mm.tree_nodes() {
        Ok(pages)
    } else {
        Err(format!(
            "{nodes} tree nodes in trees, {} in use",
            mm.tree_nodes()
        ))
    }
}
