//! Checks of a running engine between full recounts, at a cost proportional to the work that the
//! engine has done.
//!
//! A recount takes some twenty instructions a frame, and a run may change a few thousand pages in a
//! second of simulated time on a machine of a million. So a look recounts everything only after
//! four times as many pages have been allocated, freed, scanned, dirtied or written as there are
//! frames: this bounds its share of a run, whatever the machine and however slow its disk. In
//! between it checks
//!
//! - **sums** that are kept independently of each other, exactly and in every zone: free blocks
//!   by order against free pages; pages on CPUs' lists against their running counts; file and
//!   anonymous pages against the LRU lists, the batches in front of them and pages that tasks have
//!   isolated; dirty and written pages of devices against those of zones; the pages in files'
//!   indexes against the pages and tags in their leaves;
//! - **ends of lists**, where all of the work is done: links, membership, order;
//! - **waits**: no task waits for memory, a throttle or a reserve, and no daemon for work, that
//!   is available;
//! - **sampled pages**, more after more work: their zone, list, neighbours, place in a file's
//!   index and its tags up to the root, or their entry in a page table.
//!
//! If any of these fails everything is recounted at once, and both errors are reported. The sample
//! follows from the counters, so the same run checks the same pages.

use super::{Counter, Recount};
use crate::memory::frame::flag;
use crate::memory::pcp::Pcp;
use crate::memory::zone::{LRU_LISTS, Lru, Zone};
use crate::memory::{buddy, frame};
use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::world::{Word32, World};
use crate::{Mm, Pfn};

/// Everything is recounted after as much work as this many times the frames.
const FRAMES: u64 = 4;
/// The leaves are summed after as much work as this many times their number.
const LEAVES: u64 = 4;
/// The amount of work after which one more page is sampled.
const WORK_A_PAGE: u64 = 32;
/// The smallest and largest number of pages that a look samples.
const PAGES: (u64, u64) = (64, 4096);
/// Consecutive frames that are sampled together: they share lines of the host's cache, and mostly a
/// leaf.
const TOGETHER: u64 = 8;
/// The number of low bits of a page's index that give its slot in its leaf.
const LEAF_BITS: u32 = 6;
/// Pages at either end of each list that a look checks.
const ENDS: usize = 8;

/// State kept between looks.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Work done up to the last look, in `recounted` up to the last recount, and in `summed` up to
    /// the last sum of the leaves.
    before: u64,
    recounted: u64,
    summed: u64,
    isolated: Vec<[u64; 2]>,
    batched: Vec<u64>,
}

/// Returns the next number of a pseudo-random sequence (splitmix64) and moves its `state` on.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Recount {
    /// Checks a running engine; recounts everything if enough work was done since the last recount.
    ///
    /// # Errors
    /// Returns a text about the first disagreement, with the finding of a recount.
    pub fn look<W: World>(&mut self, mm: &Mm<W>) -> Result<(), String> {
        let work = work_done(mm);
        // `work`, `recounted`: pages allocated, freed, scanned … since boot, now and at the last
        // recount.
        if work - self.looks.recounted >= FRAMES * u64::from(mm.frames.len()) {
            (self.looks.recounted, self.looks.summed) = (work, work);
            self.looks.before = work;
            return self.run(mm);
        }
        let found = self.look_at_some(mm, work);
        self.looks.before = work;
        found.map_err(|e| match self.run(mm) {
            Ok(()) => format!("{e}; a recount finds nothing"),
            Err(all) if all == e => e,
            Err(all) => format!("{e}; a recount finds: {all}"),
        })
    }

    /// Does the checks of a look that are less than a full recount: sums, ends of lists, waits, and
    /// a sample of frames, larger after more work. `work`: the amount of work done since boot
    /// (`work_done`). Returns a text about the first disagreement.
    fn look_at_some<W: World>(&mut self, mm: &Mm<W>, work: u64) -> Result<(), String> {
        mm.stat.check()?;
        mm.check_waits()?;
        self.lists_sum(mm)?;
        mm.check_devices(None)?;
        if work - self.looks.summed >= LEAVES * u64::from(mm.tree_nodes()) {
            self.looks.summed = work;
            mm.check_leaves()?;
            mm.check_metadata()?;
        }
        let mut sampler = Sampler::new(mm);
        for z in 0..mm.zones.len() {
            sampler.ends(z)?;
        }
        let done = work - self.looks.before;
        let pages = (done / WORK_A_PAGE).clamp(PAGES.0, PAGES.1);
        // The seed is the work done, so the same run samples the same frames.
        let mut random_state = work;
        let frames = mm.frames.len();
        for _ in 0..pages / TOGETHER {
            let first = (next_random(&mut random_state) % u64::from(frames)) as Pfn;
            for pfn in (first..frames).take(TOGETHER as usize) {
                sampler.page(pfn)?;
            }
        }
        Ok(())
    }

    /// Checks, zone by zone, lists and counters that are kept independently of each other: free
    /// blocks against free pages, and file and anonymous pages against LRU lists, batches in front
    /// of them and isolated pages. Returns a text about the first difference.
    fn lists_sum<W: World>(&mut self, mm: &Mm<W>) -> Result<(), String> {
        let zones = mm.zones.len();
        let Looks {
            isolated, batched, ..
        } = &mut self.looks;
        isolated.clear();
        isolated.resize(zones, [0; 2]);
        batched.clear();
        batched.resize(zones, 0);
        for pv in &mm.pagevecs {
            for pfn in pv.add.iter().flat_map(|batch| batch.iter()) {
                batched[mm.frames.zone(pfn).min(zones - 1)] += 1;
            }
        }
        for task in 0..mm.config.max_tasks {
            for pfn in mm.frames.iter(mm.isolated_list(task)) {
                let f = mm.frames.flags(pfn);
                let z = frame::zone_of(f).min(zones - 1);
                isolated[z][usize::from(f & flag::SWAPBACKED == 0)] += 1;
            }
        }
        for (z, zone) in mm.zones.iter().enumerate() {
            let blocks = zone.nr_free.iter().enumerate();
            let free: u64 = blocks.map(|(o, n)| u64::from(n.get()) << o).sum();
            mm.expect(z, ZoneStat::NrFreePages, free)?;
            let on_lists: i64 = Lru::ALL
                .iter()
                .map(|lru| mm.stat.exact(z, lru.size_item()))
                .sum();
            // `held`: pages that are isolated or in per-CPU batches, and so on no LRU list.
            let held = isolated[z].iter().sum::<u64>() + batched[z];
            let pages =
                mm.stat.exact(z, ZoneStat::NrFilePages) + mm.stat.exact(z, ZoneStat::NrAnonPages);
            if pages != on_lists + held as i64 {
                return Err(format!(
                    "{}: {pages} pages of files and anonymous, {on_lists} on LRU lists and {held} on their way",
                    mm.zone_name(z)
                ));
            }
            for (item, found) in [ZoneStat::NrIsolatedAnon, ZoneStat::NrIsolatedFile]
                .into_iter()
                .zip(isolated[z])
            {
                // The pages of a batch are counted until all of it is put back or freed.
                if mm.stat.exact(z, item) < found as i64 {
                    mm.expect(z, item, found)?;
                }
            }
            check_range(mm, z, free + mm.pcp_pages(z), pages)?;
            check_cpu_lists(mm, z)?;
        }
        Ok(())
    }
}

/// Checks that every CPU counts the pages that its lists of zone `z` hold.
fn check_cpu_lists<W: World>(mm: &Mm<W>, z: usize) -> Result<(), String> {
    for cpu in 0..mm.config.cpus {
        let on_lists: u32 = mm.own_pcps(z, cpu).iter().map(Pcp::pages).sum();
        let counted = mm.pcp_count(z, cpu);
        if counted != on_lists {
            return Err(format!(
                "{}: CPU {cpu} counts {counted} pages on its lists, which hold {on_lists}",
                mm.zone_name(z)
            ));
        }
    }
    Ok(())
}

/// Returns the number of pages allocated, freed, faulted, scanned, dirtied and written since boot,
/// by which the checks between recounts measure how much the engine has done.
fn work_done<W: World>(mm: &Mm<W>) -> u64 {
    let zones = (0..mm.zones.len()).map(|z| {
        let events = [
            ZoneEvent::PgAlloc,
            ZoneEvent::PgScanKswapd,
            ZoneEvent::PgScanDirect,
        ];
        let counts = [ZoneStat::NrDirtied, ZoneStat::NrWritten];
        let events: u64 = events.map(|e| mm.stat.zone_events(z, e)).iter().sum();
        events + counts.map(|c| mm.stat.zone(z, c)).iter().sum::<u64>()
    });
    zones.sum::<u64>() + mm.stat.events(VmEvent::PgFree) + mm.stat.events(VmEvent::PgFault)
}

/// Checks that the counters of a zone's pages are neither negative nor larger than the zone, and
/// that its `free` pages and those in use (`pages` of files and anonymous, kernel, slabs) do not
/// add up to more than the zone.
fn check_range<W: World>(mm: &Mm<W>, z: usize, free: u64, pages: i64) -> Result<(), String> {
    let exact = |item| mm.stat.exact(z, item);
    let used = pages + exact(ZoneStat::NrKernel) + exact(ZoneStat::NrSlabReclaimable);
    let size = mm.zones[z].size;
    if free as i64 + used > i64::from(size) {
        return Err(format!(
            "{}: {free} free pages and {used} in use, of {size}",
            mm.zone_name(z)
        ));
    }
    let items = [
        ZoneStat::NrFreePages,
        ZoneStat::NrInactiveAnon,
        ZoneStat::NrActiveAnon,
        ZoneStat::NrInactiveFile,
        ZoneStat::NrActiveFile,
        ZoneStat::NrUnevictable,
        ZoneStat::NrFilePages,
        ZoneStat::NrAnonPages,
        ZoneStat::NrFileMapped,
        ZoneStat::NrFileDirty,
        ZoneStat::NrWriteback,
        ZoneStat::NrIsolatedAnon,
        ZoneStat::NrIsolatedFile,
        ZoneStat::NrKernel,
        ZoneStat::NrSlabReclaimable,
    ];
    match items
        .into_iter()
        .find(|&i| exact(i) < 0 || exact(i) > i64::from(size))
    {
        None => Ok(()),
        Some(item) => Err(format!(
            "{} of {}: {} of {size} frames",
            item.name(),
            mm.zone_name(z),
            exact(item)
        )),
    }
}

/// A sampler of pages; it keeps the last leaf and path, as neighbours mostly share a leaf.
struct Sampler<'a, W: World> {
    mm: &'a Mm<W>,
    counter: Counter<'a, W>,
    /// The file and leaf whose path to the root was checked last.
    path: (u32, u32),
}

impl<'a, W: World> Sampler<'a, W> {
    /// Makes a sampler that has checked no path yet.
    fn new(mm: &'a Mm<W>) -> Self {
        Self {
            mm,
            counter: Counter::new(mm, 0),
            path: (u32::MAX, u32::MAX),
        }
    }

    /// Checks the frames at both ends of a zone's LRU lists (or its node's), and the first block of
    /// each of its free lists.
    fn ends(&mut self, z: usize) -> Result<(), String> {
        let mm = self.mm;
        if mm.zones[z].lru_home as usize == z || !mm.node_lru() {
            for n in 0..LRU_LISTS as u32 {
                let list = mm.zones[z].lru + n;
                for pfn in mm.frames.iter(list).take(ENDS) {
                    self.page(pfn)?;
                }
                // From the tail backwards; the list's sentinel ends the walk.
                let mut at = mm.frames.last(list);
                for _ in 0..ENDS {
                    if at == list {
                        break;
                    }
                    self.page(at)?;
                    at = mm.frames.last(at);
                }
            }
        }
        for order in 0..buddy::ORDERS {
            for list in 0..mm.lists {
                let list = mm.free_list(z, order, list);
                if let Some(pfn) = mm.frames.iter(list).next() {
                    self.page(pfn)?;
                }
            }
        }
        Ok(())
    }

    /// Checks one frame: its zone, its list and its neighbours there, its place in a file or region
    /// with tags, its slab. Returns a text about the first error.
    fn page(&mut self, pfn: Pfn) -> Result<(), String> {
        let mm = self.mm;
        if pfn >= mm.frames.len() {
            return Err(format!("{pfn} is on a list and is no frame"));
        }
        let f = mm.frames.flags(pfn);
        let z = frame::zone_of(f);
        if z >= mm.zones.len() {
            // Frames in holes between zones belong to no zone.
            let inside = |z: &Zone<W>| (z.start..z.start + z.size).contains(&pfn);
            return match mm.zones.iter().any(inside) {
                true => Err(format!("frame {pfn} is in no zone")),
                false => Ok(()),
            };
        }
        if f & flag::USED == 0 {
            return check_free(mm, pfn, f);
        }
        if z != self.counter.zone {
            self.counter = Counter::new(mm, z);
        }
        let counter = &mut self.counter;
        counter.count(pfn).map_err(|w| counter.explain(pfn, w))?;
        if f & flag::LRU != 0 {
            check_neighbours(mm, pfn, f)?;
        }
        if f & flag::CACHED != 0 {
            let (mapping, index) = (mm.frames.mapping(pfn), mm.frames.index(pfn));
            if self.path != (mapping, index >> LEAF_BITS) {
                mm.check_path(mapping, index)?;
                self.path = (mapping, index >> LEAF_BITS);
            }
        }
        if f & flag::SLAB != 0 {
            let mut tally = vec![(0, 0); mm.caches.len()];
            mm.count_slab(pfn, &mut tally)?;
        }
        mm.check_mapped(pfn)
    }
}

/// Checks that the free frame `pfn` with the flags `f` has no bit of a page in use and, if it heads
/// a block of the buddy allocator, that the block is aligned and between blocks of its order.
fn check_free<W: World>(mm: &Mm<W>, pfn: Pfn, f: u32) -> Result<(), String> {
    if f & flag::CHECK_AT_FREE & !flag::BUDDY != 0 {
        return Err(format!("frame {pfn} is free and has flags {f:#x}"));
    }
    if f & flag::BUDDY == 0 {
        return Ok(());
    }
    let order = mm.frames.private(pfn);
    let fits = order < buddy::ORDERS as u32 && pfn.is_multiple_of(1 << order);
    // A neighbour is a block of the same order, or the list's sentinel (behind the last frame).
    let beside = |at: Pfn| {
        at >= mm.frames.len() || mm.frames.has(at, flag::BUDDY) && mm.frames.private(at) == order
    };
    if !fits || !beside(mm.frames.last(pfn)) || !beside(mm.frames.first(pfn)) {
        return Err(format!("free block {pfn} of order {order} is malformed"));
    }
    check_links(mm, pfn)
}

/// Checks that the page `pfn` with the flags `f`, on an LRU list, is between pages of that list, or
/// at its end.
fn check_neighbours<W: World>(mm: &Mm<W>, pfn: Pfn, f: u32) -> Result<(), String> {
    check_links(mm, pfn)?;
    let lru = Lru::of(f);
    let home = |f: u32| mm.zones[frame::zone_of(f)].lru;
    for at in [mm.frames.last(pfn), mm.frames.first(pfn)] {
        let in_place = if at >= mm.frames.len() {
            at == home(f) + lru as u32
        } else {
            let g = mm.frames.flags(at);
            g & flag::LRU != 0
                && Lru::of(g) == lru
                && frame::zone_of(g) < mm.zones.len()
                && home(g) == home(f)
        };
        if !in_place {
            return Err(format!(
                "frame {pfn} of {lru:?} stands beside {at}, which is of another list"
            ));
        }
    }
    Ok(())
}

/// Checks that both neighbours of a frame on its list point back to it. ([`frame::Frames::first`]
/// and `last` return the entries after and before a sentinel, and also those after and before a
/// page.)
fn check_links<W: World>(mm: &Mm<W>, pfn: Pfn) -> Result<(), String> {
    let (before, after) = (mm.frames.last(pfn), mm.frames.first(pfn));
    if mm.frames.first(before) == pfn && mm.frames.last(after) == pfn {
        return Ok(());
    }
    Err(format!(
        "frame {pfn} stands between {before} and {after}, which know nothing of it"
    ))
}
