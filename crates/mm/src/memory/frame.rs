//! The frame table: 32 bytes a frame, eight words.
//!
//! ```text
//! word      0      1     2     3        4      5        6         7
//!           flags  prev  next  mapping  index  private  mapcount  track
//! ```
//!
//! `flags` holds the page bits of docs/reference/memory-model.md#page-states and, in its top byte,
//! the zone. `prev` and `next` link the page into exactly one list: a buddy list, an LRU list or a
//! task's isolated list. `mapping` and `index` give the file and the page's index in it (for
//! anonymous pages the region and the index there). `private` is the buddy order of a free block,
//! the swap slot, or for a file page of a watched machine the millisecond in which it entered the
//! cache. `mapcount` counts the page-table entries that map the page; its upper bits are the page's
//! memory control group. `track` belongs to the page
//! tracker, and to the world if there is no tracker.
//!
//! After the last frame come the sentinels of all lists, so that an insertion or removal never
//! branches on an empty list.

use crate::world::{Word32, World};
use heap::NoMemory;

/// A page frame number.
pub type Pfn = u32;

/// The frame number that stands for no frame.
pub const NO_PFN: Pfn = u32::MAX;

/// Bytes that a frame takes in the table.
pub const BYTES_PER_FRAME: usize = 32;

const FLAGS: usize = 0;
const PREV: usize = 1;
const NEXT: usize = 2;
const MAPPING: usize = 3;
const INDEX: usize = 4;
const PRIVATE: usize = 5;
const MAPCOUNT: usize = 6;
const TRACK: usize = 7;

/// Shift of the memory control group in the word that counts maps; 0 there: no group.
pub const GROUP_SHIFT: u32 = 20;
const MAPS: u32 = (1 << GROUP_SHIFT) - 1;

/// Page bits (docs/reference/memory-model.md#page-states).
pub mod flag {
    /// Held by one task; reclaim only tries to take it.
    pub const LOCKED: u32 = 1 << 0;
    /// Accessed once by software since the bit was last cleared.
    pub const REFERENCED: u32 = 1 << 1;
    /// Contents newer than on disk.
    pub const DIRTY: u32 = 1 << 2;
    /// On an LRU list.
    pub const LRU: u32 = 1 << 3;
    /// Belongs on an active list.
    pub const ACTIVE: u32 = 1 << 4;
    /// Under I/O to its device.
    pub const WRITEBACK: u32 = 1 << 5;
    /// Goes to the inactive tail when its writeback ends.
    pub const RECLAIM: u32 = 1 << 6;
    /// Anonymous or shmem: lives on the anon lists.
    pub const SWAPBACKED: u32 = 1 << 7;
    /// Has a swap slot.
    pub const SWAPCACHE: u32 = 1 << 8;
    /// Never reclaimed.
    pub const UNEVICTABLE: u32 = 1 << 9;
    /// Head of a free buddy block.
    pub const BUDDY: u32 = 1 << 10;
    /// Contents are valid.
    pub const UPTODATE: u32 = 1 << 11;
    /// Marked by read-ahead: a read of the page starts to read the next window.
    pub const READAHEAD: u32 = 1 << 12;
    /// Read ahead and not used so far.
    pub const UNUSED: u32 = 1 << 21;
    /// In a file's index (`mapping` and `index` are valid).
    pub const CACHED: u32 = 1 << 13;
    /// In an anonymous region (`mapping` and `index` are valid).
    pub const ANON: u32 = 1 << 14;
    /// Allocated (not on a free or per-CPU list).
    pub const USED: u32 = 1 << 15;
    /// Mapped executable by at least one mapping.
    pub const EXEC: u32 = 1 << 16;
    /// The last write of the page failed.
    pub const ERROR: u32 = 1 << 17;
    /// Holds objects of a slab cache (`mapping`: the cache's number; `index`: a bit for each object
    /// in use).
    pub const SLAB: u32 = 1 << 18;
    /// Held by a task across a wait, or by a per-CPU batch; reclaim leaves the page alone.
    pub const PINNED: u32 = 1 << 19;
    /// Used since it entered the cache; set only where an eviction policy orders file pages.
    pub const TOUCHED: u32 = 1 << 22;
    /// Was active, now or when reclaim took it (`PG_workingset`). Shares its bit with [`TOUCHED`]:
    /// under an eviction policy pages have no such state.
    pub const WORKINGSET: u32 = TOUCHED;
    /// Still isolated by reclaim, but back in the eviction policy's order.
    pub const RETURNED: u32 = 1 << 23;
    /// A task waits for LOCKED to be cleared, or the lock's holder for reclaim to put the page
    /// back.
    pub const WAITERS: u32 = 1 << 20;
    /// Shift of the zone's number.
    pub const ZONE_SHIFT: u32 = 24;
    /// The bits that must be clear when a page is freed.
    pub const CHECK_AT_FREE: u32 = LOCKED
        | DIRTY
        | LRU
        | ACTIVE
        | WRITEBACK
        | BUDDY
        | CACHED
        | ANON
        | SLAB
        | PINNED
        | RETURNED;
}

/// One frame of the table. Code that accesses several words of a page looks it up once.
pub struct Page<'a, W: World>(&'a [W::U32; 8]);

impl<W: World> Clone for Page<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: World> Copy for Page<'_, W> {}

impl<'a, W: World> Page<'a, W> {
    /// Returns the word of a free block in which [`ahead`](super::ahead) notes another block. Every
    /// allocation sets the word to 0, and it is not read as a map count before. `mapping` and
    /// `index` are not free for this: a task that waits for a page's lock while the page is freed
    /// reads them.
    #[inline(always)]
    pub(super) fn note(self) -> &'a W::U32 {
        self.word(MAPCOUNT)
    }

    /// Returns one of the five words that a sentinel uses neither as links nor as flags.
    #[inline(always)]
    pub(super) fn spare(self, nth: usize) -> &'a W::U32 {
        self.word(MAPPING + nth)
    }

    #[inline(always)]
    pub(crate) fn word(self, w: usize) -> &'a W::U32 {
        &self.0[w]
    }

    /// Returns the page bits, with the zone's number.
    #[inline(always)]
    pub fn flags(self) -> u32 {
        self.word(FLAGS).get()
    }

    /// Returns true if all of `bits` are set.
    #[inline(always)]
    pub fn has(self, bits: u32) -> bool {
        self.flags() & bits == bits
    }

    /// Sets bits; returns the flags before.
    #[inline(always)]
    pub fn set_flags(self, bits: u32) -> u32 {
        self.word(FLAGS).fetch_or(bits)
    }

    /// Clears bits; returns the flags before.
    #[inline(always)]
    pub fn clear_flags(self, bits: u32) -> u32 {
        self.word(FLAGS).fetch_and(!bits)
    }

    /// Sets a bit; returns whether it was set already.
    #[inline(always)]
    pub fn test_and_set(self, bit: u32) -> bool {
        self.set_flags(bit) & bit != 0
    }

    /// Clears a bit; returns whether it was set.
    #[inline(always)]
    pub fn test_and_clear(self, bit: u32) -> bool {
        self.clear_flags(bit) & bit != 0
    }

    /// Changes the flags from `old` to `new` in one atomic step. Returns false, and changes
    /// nothing, if they are not `old` any more.
    #[inline(always)]
    pub(crate) fn replace_flags(self, old: u32, new: u32) -> bool {
        self.word(FLAGS).replace(old, new)
    }

    /// Sets the flags to `bits` alone, with the number of the page's zone.
    #[inline(always)]
    pub(crate) fn reset_flags(self, zone: usize, bits: u32) {
        self.word(FLAGS)
            .set((zone as u32) << flag::ZONE_SHIFT | bits);
    }

    /// Returns the zone's number.
    #[inline(always)]
    pub fn zone(self) -> usize {
        zone_of(self.flags())
    }

    /// Returns the file or region that the page belongs to.
    #[inline(always)]
    pub fn mapping(self) -> u32 {
        self.word(MAPPING).get()
    }

    /// Returns the page's index in its file or region.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.word(INDEX).get()
    }

    /// Sets the file or region that the page belongs to, and its index there.
    #[inline(always)]
    pub(crate) fn set_mapping(self, mapping: u32, index: u32) {
        self.word(MAPPING).set(mapping);
        self.word(INDEX).set(index);
    }

    /// Returns the buddy order of a free block, or the swap slot.
    #[inline(always)]
    pub fn private(self) -> u32 {
        self.word(PRIVATE).get()
    }

    /// Sets the word whose meaning depends on the page: the order of a free block, a swap slot, or
    /// a time.
    #[inline(always)]
    pub(crate) fn set_private(self, v: u32) {
        self.word(PRIVATE).set(v);
    }

    /// Returns how many page-table entries map the page.
    #[inline(always)]
    pub fn mapcount(self) -> u32 {
        self.word(MAPCOUNT).get() & MAPS
    }

    /// Sets how many page-table entries map the page.
    #[inline(always)]
    pub(crate) fn set_mapcount(self, n: u32) {
        debug_assert!(n <= MAPS, "a page is mapped {n} times");
        let word = self.word(MAPCOUNT);
        word.set(word.get() & !MAPS | n);
    }

    /// Returns the memory control group that the page is charged to; 0: none.
    #[inline(always)]
    pub(crate) fn group(self) -> u32 {
        self.word(MAPCOUNT).get() >> GROUP_SHIFT
    }

    /// Sets the memory control group of a page.
    #[inline(always)]
    pub(crate) fn set_group(self, group: u32) {
        let word = self.word(MAPCOUNT);
        word.set(word.get() & MAPS | group << GROUP_SHIFT);
    }

    /// Sets the state of a page that nothing maps and that is charged to `group` (0: none).
    #[inline(always)]
    pub(crate) fn reset_maps(self, group: u32) {
        self.word(MAPCOUNT).set(group << GROUP_SHIFT);
    }

    /// Returns the entry before the page on its list, or the sentinel.
    #[inline(always)]
    pub(crate) fn before(self) -> Pfn {
        self.word(PREV).get()
    }

    /// Links this page, whose number is `pfn`, before the entry `next`, whose number is `at`, of a
    /// list.
    #[inline(always)]
    pub(crate) fn stand_before(self, next: Self, pfn: Pfn, at: Pfn) {
        self.word(NEXT).set(at);
        next.word(PREV).set(pfn);
    }

    /// Returns the entry behind the page on its list, or the sentinel.
    #[inline(always)]
    pub(crate) fn after(self) -> Pfn {
        self.word(NEXT).get()
    }

    /// Returns the page tracker's word; without a tracker the world may use it, initially 0.
    #[inline(always)]
    pub fn track(self) -> &'a W::U32 {
        self.word(TRACK)
    }
}

/// The part of a page's flags that is not the zone's number.
pub(crate) const FLAGS_ALONE: u32 = (1 << flag::ZONE_SHIFT) - 1;

/// Returns the zone's number in a page's flags.
#[inline(always)]
pub(crate) fn zone_of(flags: u32) -> usize {
    (flags >> flag::ZONE_SHIFT) as usize
}

/// The table of all frames and of all list sentinels.
pub struct Frames<W: World> {
    words: Box<[[W::U32; 8]]>,
    frames: u32,
}

impl<W: World> Frames<W> {
    /// Makes the zeroed table of a machine's frames, followed by the sentinels (heads) of all
    /// lists, which are empty. The operating system gives the memory as it is touched, so a large
    /// machine costs nothing until its pages are used.
    ///
    /// # Errors
    /// If the host has no memory for the table.
    pub fn new(frames: u32, sentinels: u32) -> Result<Self, NoMemory> {
        const { assert!(size_of::<[u32; 8]>() == BYTES_PER_FRAME) };
        assert!(
            size_of::<[W::U32; 8]>() == BYTES_PER_FRAME,
            "a frame takes 32 bytes"
        );
        let words = heap::zeroed("the frame table", (frames + sentinels) as usize)?;
        let table = Self { words, frames };
        for s in frames..frames + sentinels {
            table.table().join(s, s);
        }
        Ok(table)
    }

    /// Returns the number of frames, sentinels not counted.
    pub fn len(&self) -> u32 {
        self.frames
    }

    /// Returns true if the table has no frame.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Returns a frame, or a list's sentinel.
    #[inline(always)]
    pub fn page(&self, pfn: Pfn) -> Page<'_, W> {
        self.table().page(pfn)
    }

    /// Returns the page bits, with the zone's number.
    #[inline(always)]
    pub fn flags(&self, pfn: Pfn) -> u32 {
        self.page(pfn).flags()
    }

    /// Returns true if all of `bits` are set.
    #[inline(always)]
    pub fn has(&self, pfn: Pfn, bits: u32) -> bool {
        self.page(pfn).has(bits)
    }

    /// Returns true if any of `bits` is set.
    #[inline(always)]
    pub fn any(&self, pfn: Pfn, bits: u32) -> bool {
        self.flags(pfn) & bits != 0
    }

    /// Sets bits; returns the flags before.
    #[inline(always)]
    pub fn set_flags(&self, pfn: Pfn, bits: u32) -> u32 {
        self.page(pfn).set_flags(bits)
    }

    /// Clears bits; returns the flags before.
    #[inline(always)]
    pub fn clear_flags(&self, pfn: Pfn, bits: u32) -> u32 {
        self.page(pfn).clear_flags(bits)
    }

    /// Sets a bit; returns whether it was set already.
    #[inline(always)]
    pub fn test_and_set(&self, pfn: Pfn, bit: u32) -> bool {
        self.page(pfn).test_and_set(bit)
    }

    /// Clears a bit; returns whether it was set.
    #[inline(always)]
    pub fn test_and_clear(&self, pfn: Pfn, bit: u32) -> bool {
        self.page(pfn).test_and_clear(bit)
    }

    /// Returns the zone's number.
    #[inline(always)]
    pub fn zone(&self, pfn: Pfn) -> usize {
        self.page(pfn).zone()
    }

    /// Returns the file or region that the page belongs to.
    #[inline(always)]
    pub fn mapping(&self, pfn: Pfn) -> u32 {
        self.page(pfn).mapping()
    }

    /// Returns the page's index in its file or region.
    #[inline(always)]
    pub fn index(&self, pfn: Pfn) -> u32 {
        self.page(pfn).index()
    }

    /// Sets the file or region that a page belongs to, and its index there.
    #[inline(always)]
    pub(crate) fn set_mapping(&self, pfn: Pfn, mapping: u32, index: u32) {
        self.page(pfn).set_mapping(mapping, index);
    }

    /// Returns the buddy order of a free block, or the swap slot.
    #[inline(always)]
    pub fn private(&self, pfn: Pfn) -> u32 {
        self.page(pfn).private()
    }

    #[inline(always)]
    pub(crate) fn set_private(&self, pfn: Pfn, v: u32) {
        self.page(pfn).set_private(v);
    }

    /// Returns how many page-table entries map the page.
    #[inline(always)]
    pub fn mapcount(&self, pfn: Pfn) -> u32 {
        self.page(pfn).mapcount()
    }

    #[inline(always)]
    pub(crate) fn set_mapcount(&self, pfn: Pfn, n: u32) {
        self.page(pfn).set_mapcount(n);
    }

    /// Returns the page tracker's word.
    #[inline(always)]
    pub fn track(&self, pfn: Pfn) -> &W::U32 {
        self.page(pfn).track()
    }

    /// Returns the table as a value, for code that touches many frames.
    #[inline(always)]
    pub(crate) fn table(&self) -> Table<'_, W> {
        Table(&self.words)
    }

    /// Returns the first entry of a list, or the sentinel itself if it is empty.
    #[inline(always)]
    pub fn first(&self, list: Pfn) -> Pfn {
        self.table().first(list)
    }

    /// Returns the last entry of a list, or the sentinel itself if it is empty.
    #[inline(always)]
    pub fn last(&self, list: Pfn) -> Pfn {
        self.table().before(list)
    }

    /// Returns true if a list has no entry.
    #[inline(always)]
    pub fn list_empty(&self, list: Pfn) -> bool {
        self.first(list) == list
    }

    /// Adds an entry at the head of a list, which its sentinel names.
    #[inline(always)]
    pub(crate) fn add(&self, list: Pfn, pfn: Pfn) {
        self.table().add(list, pfn);
    }

    /// Adds an entry at the tail of a list, which its sentinel names.
    #[inline(always)]
    pub(crate) fn add_tail(&self, list: Pfn, pfn: Pfn) {
        self.table().add_tail(list, pfn);
    }

    /// Takes an entry off the list that it is on.
    #[inline(always)]
    pub(crate) fn del(&self, pfn: Pfn) {
        self.table().del(pfn);
    }

    /// Returns the entries of a list, given by its sentinel, from head to tail; for checks and
    /// tests.
    pub fn iter(&self, list: Pfn) -> impl Iterator<Item = Pfn> + '_ {
        let mut at = self.first(list);
        std::iter::from_fn(move || {
            (at != list).then(|| {
                let pfn = at;
                at = self.page(pfn).word(NEXT).get();
                pfn
            })
        })
    }
}

/// The frame table and its lists. Links are written under the lock of the list's owner.
pub(crate) struct Table<'a, W: World>(&'a [[W::U32; 8]]);

impl<W: World> Clone for Table<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: World> Copy for Table<'_, W> {}

impl<'a, W: World> Table<'a, W> {
    /// Returns a frame, or a list's sentinel.
    #[inline(always)]
    pub fn page(self, pfn: Pfn) -> Page<'a, W> {
        Page(&self.0[pfn as usize])
    }

    /// Prefetches a frame into the processor's cache; does nothing if there is no such frame.
    #[inline(always)]
    pub fn prefetch(self, pfn: Pfn) {
        if let Some(page) = self.0.get(pfn as usize) {
            prefetch::prefetch(page);
        }
    }

    /// Returns the first entry of a list, or the sentinel itself if it is empty.
    #[inline(always)]
    pub fn first(self, list: Pfn) -> Pfn {
        self.page(list).word(NEXT).get()
    }

    /// Returns the entry before another one, or the sentinel. For the sentinel, returns the last
    /// entry.
    #[inline(always)]
    pub fn before(self, pfn: Pfn) -> Pfn {
        self.page(pfn).before()
    }

    /// Returns the entry behind another one, or the sentinel.
    #[inline(always)]
    pub fn after(self, pfn: Pfn) -> Pfn {
        self.page(pfn).word(NEXT).get()
    }

    /// Makes two entries neighbours on a list: `next` follows `prev`.
    #[inline(always)]
    pub fn join(self, prev: Pfn, next: Pfn) {
        self.page(prev).word(NEXT).set(next);
        self.page(next).word(PREV).set(prev);
    }

    /// Links the entry `pfn` between two neighbours.
    #[inline(always)]
    fn link(self, prev: Pfn, pfn: Pfn, next: Pfn) {
        let page = self.page(pfn);
        page.word(PREV).set(prev);
        page.word(NEXT).set(next);
        self.page(prev).word(NEXT).set(pfn);
        self.page(next).word(PREV).set(pfn);
    }

    /// Adds an entry at the head of a list.
    #[inline(always)]
    pub fn add(self, list: Pfn, pfn: Pfn) {
        self.link(list, pfn, self.first(list));
    }

    /// Adds the page `pfn`, which the caller has looked up, at the head of a list.
    #[inline(always)]
    pub fn add_page(self, list: Pfn, (pfn, page): (Pfn, Page<'a, W>)) {
        let head = self.page(list);
        let first = head.word(NEXT).get();
        page.word(PREV).set(list);
        page.word(NEXT).set(first);
        head.word(NEXT).set(pfn);
        self.page(first).word(PREV).set(pfn);
    }

    /// Adds an entry at the tail of a list.
    #[inline(always)]
    pub fn add_tail(self, list: Pfn, pfn: Pfn) {
        self.link(self.before(list), pfn, list);
    }

    /// Takes an entry off the list that it is on.
    #[inline(always)]
    pub fn del(self, pfn: Pfn) {
        let (prev, next) = (self.before(pfn), self.after(pfn));
        debug_assert!(self.after(prev) == pfn && self.before(next) == pfn);
        self.join(prev, next);
    }

    /// Splits pages into rows of neighbours of one zone, and returns each with its zone.
    #[inline(always)]
    pub fn rows_by_zone(self, pages: &[Pfn]) -> impl Iterator<Item = (usize, &[Pfn])> {
        let zone = move |pfn: Pfn| self.page(pfn).zone();
        let rows = pages.chunk_by(move |&a, &b| zone(a) == zone(b));
        rows.map(move |row| (zone(row[0]), row))
    }

    /// Moves the tail of a list, from the entry `first` to the last one, to the empty list `to`.
    #[inline(always)]
    pub fn cut_tail(self, list: Pfn, first: Pfn, to: Pfn) {
        debug_assert!(self.first(to) == to && first != list);
        let last = self.before(list);
        self.join(self.before(first), list);
        self.join(to, first);
        self.join(last, to);
    }

    /// Moves the tail of a list, from the entry `first` to the last one, to the list's head, in its
    /// order.
    #[inline(always)]
    pub fn tail_to_head(self, list: Pfn, first: Pfn) {
        debug_assert!(first != list);
        let before = self.before(first);
        if before == list {
            return;
        }
        // The list is a ring: its sentinel moves between the two parts.
        self.join(self.before(list), self.first(list));
        self.join(before, list);
        self.join(list, first);
    }
}

/// A run of pages that lie in one zone, to be counted together.
#[derive(Default)]
pub(crate) struct ZoneRun {
    zone: usize,
    pages: u32,
}

impl ZoneRun {
    /// Adds a page of a zone to the run. If the zone differs from the run's, first calls `count`
    /// with that zone and the number of pages not counted yet, and starts a new run.
    #[inline(always)]
    pub fn page(&mut self, zone: usize, count: impl FnOnce(usize, u32)) {
        if zone != self.zone {
            if self.pages > 0 {
                count(self.zone, self.pages);
            }
            *self = Self { zone, pages: 0 };
        }
        self.pages += 1;
    }

    /// Starts a run without pages in the zone of the page `first`, which is expected to come first,
    /// if there is one.
    #[inline(always)]
    pub fn before<W: World>(frames: Table<'_, W>, first: Option<Pfn>) -> Self {
        Self {
            zone: first.map_or(0, |pfn| frames.page(pfn).zone()),
            pages: 0,
        }
    }

    /// Returns the zone of the last page, or of the expected first page if there is none.
    #[inline(always)]
    pub fn zone(&self) -> usize {
        self.zone
    }

    /// Adds `n` more pages of the current zone.
    #[inline(always)]
    pub fn more(&mut self, n: u32) {
        self.pages += n;
    }

    /// Ends the run of pages of one zone: calls `count` with the zone and the number of pages not
    /// counted yet, if there are any.
    #[inline(always)]
    pub fn end(self, count: impl FnOnce(usize, u32)) {
        if self.pages > 0 {
            count(self.zone, self.pages);
        }
    }
}
