//! The frame table: 32 bytes a frame, eight words.
//!
//! ```text
//! word      0      1     2     3        4      5        6         7
//!           flags  prev  next  mapping  index  private  mapcount  track
//! ```
//!
//! `flags` holds the page bits of docs/reference/memory-model.md#page-states and, in its top byte, the zone.
//! `prev` and `next` link the page into exactly one list: a buddy list, an LRU list or a task's isolated
//! list. `mapping` and `index` say which page of which file it is (for anonymous pages: which page of which
//! region). `private` is the buddy order of a free block, the swap slot, or for a file page of a watched
//! machine the millisecond in which it entered the cache. `mapcount` counts the page-table entries that map
//! it (low half) and those with the accessed bit set (high half). `track` belongs to the page tracker, and to the world
//! where there is none.
//!
//! Behind the last frame stand the sentinels of all lists, so that an insertion or removal never
//! branches on an empty list.

use crate::world::{Word32, World};
use heap::NoMemory;

/// A page frame number.
pub type Pfn = u32;

/// No frame.
pub const NO_PFN: Pfn = u32::MAX;

/// Bytes a frame takes in the table.
pub const BYTES_PER_FRAME: usize = 32;

const FLAGS: usize = 0;
const PREV: usize = 1;
const NEXT: usize = 2;
const MAPPING: usize = 3;
const INDEX: usize = 4;
const PRIVATE: usize = 5;
const MAPCOUNT: usize = 6;
const TRACK: usize = 7;

/// Page bits (docs/reference/memory-model.md#page-states).
pub mod flag {
    /// Held by one task; reclaim only tries it.
    pub const LOCKED: u32 = 1 << 0;
    /// One software access seen.
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
    /// Whoever reads it has the pages behind it read ahead.
    pub const READAHEAD: u32 = 1 << 12;
    /// Read ahead and not asked for so far.
    pub const UNUSED: u32 = 1 << 21;
    /// In a file's index (`mapping` and `index` are valid).
    pub const CACHED: u32 = 1 << 13;
    /// In an anonymous region (`mapping` and `index` are valid).
    pub const ANON: u32 = 1 << 14;
    /// Allocated (not on a free or per-CPU list).
    pub const USED: u32 = 1 << 15;
    /// Mapped executable somewhere.
    pub const EXEC: u32 = 1 << 16;
    /// Its last write failed.
    pub const ERROR: u32 = 1 << 17;
    /// Holds objects of a slab cache (`mapping`: which; `index`: a bit for each that is in use).
    pub const SLAB: u32 = 1 << 18;
    /// Temporarily referenced by a task across a wait; reclaim leaves it alone.
    pub const PINNED: u32 = 1 << 19;
    /// Used since it entered the cache; set only where an eviction policy orders file pages.
    pub const TOUCHED: u32 = 1 << 22;
    /// Was active once, now or before reclaim took it (`PG_workingset`). One bit with [`TOUCHED`]: what an eviction
    /// policy orders has none of this.
    pub const WORKINGSET: u32 = TOUCHED;
    /// Still isolated by reclaim, but back in the eviction policy's order.
    pub const RETURNED: u32 = 1 << 23;
    /// Some task waits for LOCKED to be cleared, or its holder for reclaim to put the page back.
    pub const WAITERS: u32 = 1 << 20;
    /// The zone's number.
    pub const ZONE_SHIFT: u32 = 24;
    /// Everything that must be clear when a page is freed.
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

/// One frame of the table. Whoever does several things to a page looks it up once.
pub struct Page<'a, W: World>(&'a [W::U32; 8]);

impl<W: World> Clone for Page<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: World> Copy for Page<'_, W> {}

impl<'a, W: World> Page<'a, W> {
    /// Of a free block: what [`ahead`](super::ahead) notes of it. Every allocation sets the word to 0, and until then
    /// nobody reads it. `mapping` and `index` would not do: who waits for a page's lock while the page is
    /// freed tells them.
    #[inline(always)]
    pub(super) fn note(self) -> &'a W::U32 {
        self.word(MAPCOUNT)
    }

    /// One of the five words of a sentinel that are no links or flags.
    #[inline(always)]
    pub(super) fn spare(self, nth: usize) -> &'a W::U32 {
        self.word(MAPPING + nth)
    }

    #[inline(always)]
    pub(crate) fn word(self, w: usize) -> &'a W::U32 {
        &self.0[w]
    }

    /// The page bits.
    #[inline(always)]
    pub fn flags(self) -> u32 {
        self.word(FLAGS).get()
    }

    /// Whether all of `bits` are set.
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

    /// Changes the flags from `old` to `new`, unless somebody was faster.
    #[inline(always)]
    pub(crate) fn replace_flags(self, old: u32, new: u32) -> bool {
        self.word(FLAGS).replace(old, new)
    }

    /// Makes it a page of a zone with no bit but `bits`.
    #[inline(always)]
    pub(crate) fn reset_flags(self, zone: usize, bits: u32) {
        self.word(FLAGS)
            .set((zone as u32) << flag::ZONE_SHIFT | bits);
    }

    /// The zone's number.
    #[inline(always)]
    pub fn zone(self) -> usize {
        zone_of(self.flags())
    }

    /// The file or region the page belongs to.
    #[inline(always)]
    pub fn mapping(self) -> u32 {
        self.word(MAPPING).get()
    }

    /// The page's index in its file or region.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.word(INDEX).get()
    }

    #[inline(always)]
    pub(crate) fn set_mapping(self, mapping: u32, index: u32) {
        self.word(MAPPING).set(mapping);
        self.word(INDEX).set(index);
    }

    /// Buddy order of a free block, or swap slot.
    #[inline(always)]
    pub fn private(self) -> u32 {
        self.word(PRIVATE).get()
    }

    #[inline(always)]
    pub(crate) fn set_private(self, v: u32) {
        self.word(PRIVATE).set(v);
    }

    /// Page-table entries that map the page.
    #[inline(always)]
    pub fn mapcount(self) -> u32 {
        self.word(MAPCOUNT).get()
    }

    #[inline(always)]
    pub(crate) fn set_mapcount(self, n: u32) {
        self.word(MAPCOUNT).set(n);
    }

    /// The entry before it on its list, or the sentinel.
    #[inline(always)]
    pub(crate) fn before(self) -> Pfn {
        self.word(PREV).get()
    }

    /// Makes it, `pfn`, the neighbour before another one on its list.
    #[inline(always)]
    pub(crate) fn stand_before(self, next: Self, pfn: Pfn, at: Pfn) {
        self.word(NEXT).set(at);
        next.word(PREV).set(pfn);
    }

    /// The entry behind it on its list, or the sentinel.
    #[inline(always)]
    pub(crate) fn after(self) -> Pfn {
        self.word(NEXT).get()
    }

    /// The page tracker's word; without a tracker the world's own, 0 at first.
    #[inline(always)]
    pub fn track(self) -> &'a W::U32 {
        self.word(TRACK)
    }
}

/// Of a page's flags those that are not its zone's number.
pub(crate) const FLAGS_ALONE: u32 = (1 << flag::ZONE_SHIFT) - 1;

/// The zone's number in a page's flags.
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
    /// A zeroed table. The operating system gives the memory as it is touched, so a large
    /// machine costs nothing until its pages are used.
    ///
    /// # Errors
    /// The host has no memory for it.
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

    /// Number of frames, sentinels not counted.
    pub fn len(&self) -> u32 {
        self.frames
    }

    /// Whether the table has no frame.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// A frame, or a list's sentinel.
    #[inline(always)]
    pub fn page(&self, pfn: Pfn) -> Page<'_, W> {
        self.table().page(pfn)
    }

    /// The page bits.
    #[inline(always)]
    pub fn flags(&self, pfn: Pfn) -> u32 {
        self.page(pfn).flags()
    }

    /// Whether all of `bits` are set.
    #[inline(always)]
    pub fn has(&self, pfn: Pfn, bits: u32) -> bool {
        self.page(pfn).has(bits)
    }

    /// Whether any of `bits` is set.
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

    /// The zone's number.
    #[inline(always)]
    pub fn zone(&self, pfn: Pfn) -> usize {
        self.page(pfn).zone()
    }

    /// The file or region the page belongs to.
    #[inline(always)]
    pub fn mapping(&self, pfn: Pfn) -> u32 {
        self.page(pfn).mapping()
    }

    /// The page's index in its file or region.
    #[inline(always)]
    pub fn index(&self, pfn: Pfn) -> u32 {
        self.page(pfn).index()
    }

    #[inline(always)]
    pub(crate) fn set_mapping(&self, pfn: Pfn, mapping: u32, index: u32) {
        self.page(pfn).set_mapping(mapping, index);
    }

    /// Buddy order of a free block, or swap slot.
    #[inline(always)]
    pub fn private(&self, pfn: Pfn) -> u32 {
        self.page(pfn).private()
    }

    #[inline(always)]
    pub(crate) fn set_private(&self, pfn: Pfn, v: u32) {
        self.page(pfn).set_private(v);
    }

    /// Page-table entries that map the page.
    #[inline(always)]
    pub fn mapcount(&self, pfn: Pfn) -> u32 {
        self.page(pfn).mapcount()
    }

    #[inline(always)]
    pub(crate) fn set_mapcount(&self, pfn: Pfn, n: u32) {
        self.page(pfn).set_mapcount(n);
    }

    /// The page tracker's word.
    #[inline(always)]
    pub fn track(&self, pfn: Pfn) -> &W::U32 {
        self.page(pfn).track()
    }

    /// The table as a value: whoever touches many frames keeps it at hand.
    #[inline(always)]
    pub(crate) fn table(&self) -> Table<'_, W> {
        Table(&self.words)
    }

    /// First entry of a list, or the sentinel itself.
    #[inline(always)]
    pub fn first(&self, list: Pfn) -> Pfn {
        self.table().first(list)
    }

    /// Last entry of a list, or the sentinel itself.
    #[inline(always)]
    pub fn last(&self, list: Pfn) -> Pfn {
        self.table().before(list)
    }

    /// Whether a list has no entry.
    #[inline(always)]
    pub fn list_empty(&self, list: Pfn) -> bool {
        self.first(list) == list
    }

    #[inline(always)]
    pub(crate) fn add(&self, list: Pfn, pfn: Pfn) {
        self.table().add(list, pfn);
    }

    #[inline(always)]
    pub(crate) fn add_tail(&self, list: Pfn, pfn: Pfn) {
        self.table().add_tail(list, pfn);
    }

    #[inline(always)]
    pub(crate) fn del(&self, pfn: Pfn) {
        self.table().del(pfn);
    }

    /// The entries of a list from head to tail; for checks and tests.
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
    /// A frame, or a list's sentinel.
    #[inline(always)]
    pub fn page(self, pfn: Pfn) -> Page<'a, W> {
        Page(&self.0[pfn as usize])
    }

    /// A frame will be wanted soon; what is no frame is left out.
    #[inline(always)]
    pub fn prefetch(self, pfn: Pfn) {
        if let Some(page) = self.0.get(pfn as usize) {
            prefetch::prefetch(page);
        }
    }

    /// First entry of a list, or the sentinel itself.
    #[inline(always)]
    pub fn first(self, list: Pfn) -> Pfn {
        self.page(list).word(NEXT).get()
    }

    /// The entry before another one, or the sentinel. Before the sentinel stands the last entry.
    #[inline(always)]
    pub fn before(self, pfn: Pfn) -> Pfn {
        self.page(pfn).before()
    }

    /// The entry behind another one, or the sentinel.
    #[inline(always)]
    pub fn after(self, pfn: Pfn) -> Pfn {
        self.page(pfn).word(NEXT).get()
    }

    /// Makes two entries neighbours.
    #[inline(always)]
    pub fn join(self, prev: Pfn, next: Pfn) {
        self.page(prev).word(NEXT).set(next);
        self.page(next).word(PREV).set(prev);
    }

    #[inline(always)]
    fn link(self, prev: Pfn, pfn: Pfn, next: Pfn) {
        let page = self.page(pfn);
        page.word(PREV).set(prev);
        page.word(NEXT).set(next);
        self.page(prev).word(NEXT).set(pfn);
        self.page(next).word(PREV).set(pfn);
    }

    /// Adds at the head.
    #[inline(always)]
    pub fn add(self, list: Pfn, pfn: Pfn) {
        self.link(list, pfn, self.first(list));
    }

    /// Adds a page at the head.
    #[inline(always)]
    pub fn add_page(self, list: Pfn, (pfn, page): (Pfn, Page<'a, W>)) {
        let head = self.page(list);
        let first = head.word(NEXT).get();
        page.word(PREV).set(list);
        page.word(NEXT).set(first);
        head.word(NEXT).set(pfn);
        self.page(first).word(PREV).set(pfn);
    }

    /// Adds at the tail.
    #[inline(always)]
    pub fn add_tail(self, list: Pfn, pfn: Pfn) {
        self.link(self.before(list), pfn, list);
    }

    /// Takes an entry out of whatever list it is on.
    #[inline(always)]
    pub fn del(self, pfn: Pfn) {
        let (prev, next) = (self.before(pfn), self.after(pfn));
        debug_assert!(self.after(prev) == pfn && self.before(next) == pfn);
        self.join(prev, next);
    }

    /// Moves the tail of a list, from `first` on, to an empty list.
    #[inline(always)]
    pub fn cut_tail(self, list: Pfn, first: Pfn, to: Pfn) {
        debug_assert!(self.first(to) == to && first != list);
        let last = self.before(list);
        self.join(self.before(first), list);
        self.join(to, first);
        self.join(last, to);
    }
}

/// Pages in a row that lie in one zone, to be counted together.
#[derive(Default)]
pub(crate) struct ZoneRun {
    zone: usize,
    pages: u32,
}

impl ZoneRun {
    /// One more page; `count` is told of the pages before it when the zone changes.
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

    /// No page yet; the first one is this one, if there is any.
    #[inline(always)]
    pub fn before<W: World>(frames: Table<'_, W>, first: Option<Pfn>) -> Self {
        Self {
            zone: first.map_or(0, |pfn| frames.page(pfn).zone()),
            pages: 0,
        }
    }

    /// The zone of the last page; of none, that of the first one.
    #[inline(always)]
    pub fn zone(&self) -> usize {
        self.zone
    }

    /// `n` more pages of that zone.
    #[inline(always)]
    pub fn more(&mut self, n: u32) {
        self.pages += n;
    }

    /// The last page has passed.
    #[inline(always)]
    pub fn end(self, count: impl FnOnce(usize, u32)) {
        if self.pages > 0 {
            count(self.zone, self.pages);
        }
    }
}
