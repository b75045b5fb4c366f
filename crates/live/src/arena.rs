//! The pages themselves, and who may touch their bytes.
//!
//! One allocation holds all frames, 4096 bytes each, found by frame number. The engine's page bits
//! say who may touch them:
//!
//! - The holder of a page's lock ([`Locked`]) may read it. He may write it while nobody has it pinned
//!   ([`Locked::alone`]), and it is not under writeback or its bytes are written from a copy
//!   ([`Locked::settled`]).
//! - Whoever pinned a page ([`Pinned`]) may read it until he lets go.
//! - Whoever put a page under writeback ([`Writeback`]) may read it until he ends it or has copied it, with or
//!   without the lock.
//! - Nobody else looks at it. Reclaim, which also takes the lock, moves and frees pages without
//!   touching their bytes; a locked page is never freed, a page under writeback neither, and a pinned
//!   one by nobody.
//!
//! `WRITEBACK` is set by the lock's holder, or in one step while the lock has none; so a holder who
//! has seen it clear may write until he lets go.
//!
//! # Copies
//!
//! Who wants to change a page that is being written would wait for the device. So what goes to a device that
//! takes its time is copied first ([`Writeback::copy`]), as far as there is room ([`Copies`]), and its pages are
//! marked: they are under writeback for the engine, and who has the lock may change them. The mark goes before
//! `WRITEBACK` does; who has seen both under the lock may write until he lets go, for no other writeback begins
//! while he has it.
//!
//! # Pins
//!
//! A frame's pins are counted in its spare word (`track`; there is no tracker in this world). A pin
//! costs no lock: the page is found without the tree's ([`mm::Mm::peek_page`]), its count goes up, and
//! only then the frame is asked whether it is that page, valid and not locked. Both sides write first
//! and read then, in the one order of all operations:
//!
//! ```text
//! who pins                          who frees, or writes
//! count += 1                        LOCKED is set
//! not LOCKED, the right page?       count == 0?
//! ```
//!
//! One of them sees the other. Who pins and sees the lock takes his count back without having looked at
//! a byte; who frees and sees a count lets the page stay (`release_page`); who writes waits until it is
//! zero, without the lock, for they may want another pin. A file that is cut has its new end first, and who pinned asks for that last; so who cuts waits
//! for the pins behind the new end once, and no other follows. Under the lock a pin is always right.
//! Frames that a program has for itself ([`Owned`]) are nobody else's until it gives them back.
//! This is all the `unsafe` of the crate but for the ring's (`uring`).
#![allow(unsafe_code)]

use crate::LiveMm;
use crate::map::Arena;
use crate::sync::Mutex;
use mm::Pfn;
use mm::cache::pagecache::Entered;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::watch::vmstat::ZoneStat;
use mm::world::Tasks;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Pages of a copy at most.
const COPY_PAGES: usize = 32;
/// The part of memory that copies take beside it, and how many copies there are at most: no more are on their way
/// to a device that takes its time.
const COPY_SHARE: usize = 256;
const MOST_COPIES: usize = 64;

/// Room for the bytes of pages that are being written, so that the pages can be changed.
pub struct Copies {
    arena: Option<Arena>,
    free: Mutex<Vec<u32>>,
}

impl Copies {
    /// As many copies as a 256th of so many pages holds, or one; none at all of a few.
    pub fn new(pages: usize) -> Self {
        let n = (pages / COPY_SHARE / COPY_PAGES).clamp(1, MOST_COPIES);
        let n = if pages < 2 * COPY_PAGES { 0 } else { n };
        let arena = (n > 0).then(|| Arena::new(n * COPY_PAGES).ok()).flatten();
        let n = if arena.is_some() { n as u32 } else { 0 };
        let free = Mutex::new((0..n).collect());
        Self { arena, free }
    }

    fn take(&self) -> Option<u32> {
        self.free.lock().pop()
    }

    fn give(&self, slot: u32) {
        self.free.lock().push(slot);
    }

    fn page(&self, slot: u32, nth: usize) -> NonNull<[u8; PAGE]> {
        assert!(nth < COPY_PAGES);
        let arena = self.arena.as_ref().expect("a slot was taken");
        arena.page(slot * COPY_PAGES as u32 + nth as u32)
    }
}

/// A page whose lock the calling task holds; unlocked when dropped.
pub struct Locked<'a> {
    mm: &'a LiveMm,
    pfn: Pfn,
    /// Nobody has it pinned, and nobody will while we hold its lock.
    alone: bool,
    /// It was not under writeback, or its bytes are written from a copy.
    settled: bool,
}

/// How often memory is looked for again before there is none.
const TRIES: u32 = 3;
/// Nanoseconds to wait for pages that are dirty, or on their way to or from a device, when nothing else can be
/// had; and how often: a minute, longer than a device hangs that is not given up.
const WAIT_FOR_IO: u64 = 1_000_000;
const MOST_WAITS: u32 = 60_000;

/// Frames (whole blocks of the allocator) of which batches of 14 pages would be a large part.
const FEW_FRAMES: u32 = 1024;

/// Bit of a frame's pins: somebody waits until there are none.
const WANTED: u32 = 1 << 31;
/// The same: its bytes are being written from a copy.
const COPIED: u32 = 1 << 30;
/// The rest of the word: how often it is pinned.
const PINS: u32 = COPIED - 1;

impl<'a> Locked<'a> {
    /// The page at an index of a file; waits for its lock. `None`: not cached.
    pub async fn find(mm: &'a LiveMm, mapping: u32, index: u32) -> Option<Self> {
        let pfn = mm.find_lock_page(mapping, index).await?;
        let place = (mm.frames.mapping(pfn), mm.frames.index(pfn));
        assert_eq!(place, (mapping, index), "frame {pfn} is another page");
        Some(Self {
            mm,
            pfn,
            alone: false,
            settled: false,
        })
    }

    /// A fresh page entered at an index of a file; its bytes are whatever the frame held before.
    /// `Ok(None)`: somebody was faster. `Err`: no memory.
    pub async fn insert(
        mm: &'a LiveMm,
        mapping: u32,
        index: u32,
        gfp: Gfp,
    ) -> Result<Option<Self>, OutOfMemory> {
        let mut tries = Tries::default();
        let pfn = loop {
            match mm.alloc_page(gfp).await {
                Some(pfn) => break pfn,
                None if gfp.has(Gfp::NORETRY) => return Err(OutOfMemory),
                None => another_try(mm, &mut tries).await?,
            }
        };
        assert!(mm.try_lock_page(pfn), "frame {pfn} is fresh and locked");
        match mm.enter_page_cache_lru(pfn, mapping, index) {
            Entered::Added => {
                if mm.frames.len() <= FEW_FRAMES {
                    // A CPU's batch could hold all pages there are, and reclaim none.
                    mm.lru_add_drain();
                }
                // A frame that is free has no pins but such as will be taken back.
                Ok(Some(Self {
                    mm,
                    pfn,
                    alone: true,
                    settled: true,
                }))
            }
            other => {
                mm.unlock_page(pfn);
                mm.free_page(pfn, false);
                match other {
                    Entered::Exists => Ok(None),
                    _ => Err(OutOfMemory),
                }
            }
        }
    }

    /// Its frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Whether all of `bits` are set.
    pub fn has(&self, bits: u32) -> bool {
        self.mm.frames.has(self.pfn, bits)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; PAGE] {
        // SAFETY: we hold the page's lock, so nobody else writes the bytes (module documentation),
        // and the borrow of `self` keeps us from unlocking or writing meanwhile.
        unsafe { self.mm.world.arena.page(self.pfn).as_ref() }
    }

    /// The page if nobody has it pinned. Else lets go of it, waits until it may be so and says `None`:
    /// look again. Who waits must not hold the lock: the ones who pinned the page may need it for
    /// another pin. When the cache ends ([`LiveWorld::close`]) it does not wait.
    ///
    /// [`LiveWorld::close`]: crate::world::LiveWorld::close
    pub async fn alone(mut self) -> Option<Self> {
        let (w, q) = (&self.mm.world, self.mm.world.pin_queue(self.pfn));
        let word = self.mm.frames.track(self.pfn);
        if word.load(SeqCst) & !COPIED != 0 {
            let ticket = w.ticket(q);
            if w.is_closing() {
                return None;
            }
            if word.fetch_or(WANTED, SeqCst) & PINS != 0 {
                drop(self);
                w.wait(q, ticket, None).await;
                return None;
            }
            word.fetch_and(!WANTED, SeqCst);
        }
        self.alone = true;
        Some(self)
    }

    /// Waits until its bytes are not being written to its file, or are from a copy.
    pub async fn settled(&mut self) {
        let (w, q) = (&self.mm.world, mm::queue::page(self.pfn));
        let word = self.mm.frames.track(self.pfn);
        loop {
            let ticket = w.ticket(q);
            if word.load(SeqCst) & COPIED != 0 || !self.has(flag::WRITEBACK) {
                break;
            }
            w.wait(q, ticket, None).await;
        }
        self.settled = true;
    }

    /// Pins it as well.
    pub fn pin(&mut self) -> Pinned<'a> {
        self.alone = false;
        self.mm.frames.track(self.pfn).fetch_add(1, SeqCst);
        Pinned {
            mm: self.mm,
            pfn: self.pfn,
        }
    }

    /// Its bytes, to change; wait for the end of its writeback and of its pins first.
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        assert!(
            self.settled || !self.has(flag::WRITEBACK),
            "written under I/O"
        );
        assert!(self.alone, "written while it may be pinned");
        // SAFETY: we hold the page's lock, so no other holder exists; nobody has it pinned, or can
        // pin it for good while it is locked; it is not under writeback or whoever put it there reads a
        // copy, and nobody but us can put it there anew while we hold the lock (module documentation). The
        // borrow of `self` keeps us from doing any of this meanwhile.
        unsafe { self.mm.world.arena.page(self.pfn).as_mut() }
    }

    /// Puts a dirty page under writeback and lets go of its lock. `None`: it was clean.
    pub fn start_writeback(self) -> Option<Writeback<'a>> {
        assert!(!self.has(flag::WRITEBACK));
        self.mm.clear_page_dirty_for_io(self.pfn).then(|| {
            self.mm.set_page_writeback(self.pfn);
            // Before the lock goes: the page says where in which file it is.
            Writeback::adopt(self.mm, self.pfn)
        })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.mm.unlock_page(self.pfn);
    }
}

/// How often somebody looked for memory in vain.
#[derive(Default)]
struct Tries {
    in_a_row: u32,
    waited: u32,
}

/// Nothing could be reclaimed: looks whether it is worth while to try again. Pages that are dirty, or on their
/// way to or from a device, come free without the caller's doing, so they are waited for.
async fn another_try(mm: &LiveMm, tries: &mut Tries) -> Result<(), OutOfMemory> {
    let w = &mm.world;
    let dirty = mm.global_stat(ZoneStat::NrFileDirty);
    // Who has a page to change may keep it for ever.
    let in_hand = u64::from(w.pages_to_change.load(SeqCst));
    if (dirty > in_hand || w.under_io()) && tries.waited < MOST_WAITS {
        tries.waited += 1;
        mm.wakeup_flusher_threads(dirty);
        w.sleep(WAIT_FOR_IO).await;
    } else if tries.in_a_row == TRIES {
        return Err(OutOfMemory);
    } else {
        tries.in_a_row += 1;
    }
    // What lies on lists of CPUs counts as used, and pages may have been let go that were pinned when reclaim
    // met them.
    mm.drain_all_pages();
    mm.hope_again();
    Ok(())
}

/// Frames in a row that a program has for itself: on no list, in no file.
pub struct Owned {
    pfn: Pfn,
    order: u32,
}

impl Owned {
    /// `1 << order` frames; their bytes are whatever they held before.
    pub async fn alloc(mm: &LiveMm, gfp: Gfp, order: u32) -> Result<Self, OutOfMemory> {
        let mut tries = Tries::default();
        loop {
            match mm.alloc_pages(gfp, order).await {
                Some(pfn) => return Ok(Self { pfn, order }),
                None => another_try(mm, &mut tries).await?,
            }
        }
    }

    /// How many frames they are: the logarithm.
    pub fn order(&self) -> u32 {
        self.order
    }

    /// Their bytes.
    pub fn bytes(&self, mm: &LiveMm) -> &[u8] {
        let base = mm.world.arena.page(self.pfn + (1 << self.order) - 1);
        assert!(base >= mm.world.arena.page(self.pfn), "frames in a row");
        let first = mm.world.arena.page(self.pfn).cast::<u8>().as_ptr();
        // SAFETY: both ends lie inside the arena, and so does what is between. The frames are allocated and
        // ours, in no file and on no list, so nobody else touches their bytes; the borrow of `self` keeps us
        // from writing or freeing them meanwhile.
        unsafe { std::slice::from_raw_parts(first, PAGE << self.order) }
    }

    /// Their bytes, to change.
    pub fn bytes_mut(&mut self, mm: &LiveMm) -> &mut [u8] {
        let base = mm.world.arena.page(self.pfn + (1 << self.order) - 1);
        assert!(base >= mm.world.arena.page(self.pfn), "frames in a row");
        let first = mm.world.arena.page(self.pfn).cast::<u8>().as_ptr();
        // SAFETY: as in `bytes`, and the borrow of `self` is the only one.
        unsafe { std::slice::from_raw_parts_mut(first, PAGE << self.order) }
    }

    /// Gives them back.
    pub fn free(self, mm: &LiveMm) {
        match self.order {
            0 => mm.free_page(self.pfn, false),
            order => mm.free_pages_order(self.pfn, order),
        }
    }
}

/// A page that stays as it is and where it is, to be read, until this is dropped.
pub struct Pinned<'a> {
    mm: &'a LiveMm,
    pfn: Pfn,
}

impl<'a> Pinned<'a> {
    /// Pins a page if it is cached, valid, unmarked and nobody has its lock. The caller then asks
    /// whether the file still reaches there, and lets go if it does not.
    #[inline]
    pub fn try_take(mm: &'a LiveMm, mapping: u32, index: u32) -> Option<Self> {
        let pfn = mm.peek_page(mapping, index)?;
        let page = mm.frames.page(pfn);
        page.track().fetch_add(1, SeqCst);
        let pinned = Self { mm, pfn };
        let f = page.flags() & (flag::CACHED | flag::UPTODATE | flag::LOCKED | flag::READAHEAD);
        let right = f == flag::CACHED | flag::UPTODATE
            && page.mapping() == mapping
            && page.index() == index;
        right.then_some(pinned)
    }

    /// Its frame.
    #[inline]
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8; PAGE] {
        // SAFETY: the page is pinned, so nobody writes its bytes or frees it (module
        // documentation).
        unsafe { self.mm.world.arena.page(self.pfn).as_ref() }
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.mm.frames.track(self.pfn).fetch_sub(1, SeqCst) & !COPIED == WANTED | 1 {
            let w = &self.mm.world;
            w.wake(w.pin_queue(self.pfn));
        }
    }
}

/// What has an engine, always the same one.
pub trait Keeper {
    /// The engine.
    fn mm(&self) -> &LiveMm;
}

/// A [`Pinned`] page together with what keeps its engine there.
pub struct Kept<K: Keeper> {
    keeper: K,
    pfn: Pfn,
}

impl<'a> Pinned<'a> {
    /// The same pin, for whoever keeps the engine.
    pub fn keep<K: Keeper>(self, keeper: K) -> Kept<K> {
        assert!(std::ptr::eq(self.mm, keeper.mm()), "another engine's page");
        let pfn = self.pfn;
        std::mem::forget(self);
        Kept { keeper, pfn }
    }
}

impl<K: Keeper> Kept<K> {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8; PAGE] {
        // SAFETY: as of `Pinned`, whose count this has; the arena stays as long as its engine, which is
        // borrowed from us.
        unsafe { self.keeper.mm().world.arena.page(self.pfn).as_ref() }
    }
}

impl<K: Keeper> Drop for Kept<K> {
    fn drop(&mut self) {
        let (mm, pfn) = (self.keeper.mm(), self.pfn);
        drop(Pinned { mm, pfn });
    }
}

/// How often a frame is pinned.
pub fn pins(mm: &LiveMm, pfn: Pfn) -> u32 {
    mm.frames.track(pfn).load(SeqCst) & PINS
}

/// Pages in a row of a file.
pub struct Run {
    mapping: u32,
    first: u32,
    pages: Vec<Pfn>,
    /// Where their bytes are, if they were copied.
    copy: Option<u32>,
}

impl Run {
    /// The file.
    pub fn mapping(&self) -> u32 {
        self.mapping
    }

    /// The first page's index.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// How many pages.
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }
}

/// Fresh pages in a row of a file, locked, on their way to another thread. Whoever has them takes
/// them, or nobody can ever use them.
#[must_use]
pub struct Handed {
    /// Which they are.
    pub run: Run,
}

impl Handed {
    /// Hands pages over that begin at `first`, fresh ones all of them.
    pub fn new(mapping: u32, first: u32, pages: Vec<Locked<'_>>) -> Self {
        assert!(pages.iter().all(|p| p.alone), "pages that others may know");
        let pages = pages.into_iter().map(|p| {
            let pfn = p.pfn;
            std::mem::forget(p);
            pfn
        });
        let pages = pages.collect();
        Self {
            run: Run {
                mapping,
                first,
                pages,
                copy: None,
            },
        }
    }

    /// Whose they are now.
    pub fn take(self, mm: &LiveMm) -> Vec<Locked<'_>> {
        let locked = |pfn| Locked {
            mm,
            pfn,
            alone: true,
            settled: true,
        };
        self.run.pages.into_iter().map(locked).collect()
    }
}

/// Pages under writeback on their way to another thread. Whoever has them takes them, or they are
/// under writeback for ever.
#[must_use]
pub struct Sent {
    /// Which they are.
    pub run: Run,
}

impl Sent {
    /// Whose they are now.
    pub fn take(self, mm: &LiveMm) -> Writeback<'_> {
        Writeback { mm, run: self.run }
    }
}

/// No page could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// Pages in a row of a file that the calling task put under writeback. Dropped without
/// [`Writeback::end`], the write counts as failed.
pub struct Writeback<'a> {
    mm: &'a LiveMm,
    /// Which they are.
    pub run: Run,
}

impl<'a> Writeback<'a> {
    /// Puts dirty pages from `first` on under writeback, at most `most`, as far as they can be had
    /// without waiting. `None`: not even the first.
    pub fn start(mm: &'a LiveMm, mapping: u32, first: u32, most: u32) -> Option<Self> {
        let run = Run {
            mapping,
            first,
            pages: Vec::with_capacity(most as usize),
            copy: None,
        };
        let mut under = Self { mm, run };
        under.extend(most);
        (!under.run.pages.is_empty()).then_some(under)
    }

    /// Lets another thread end it.
    pub fn send(mut self) -> Sent {
        Sent {
            run: Run {
                mapping: self.run.mapping,
                first: self.run.first,
                pages: std::mem::take(&mut self.run.pages),
                copy: self.run.copy.take(),
            },
        }
    }

    /// Adds the dirty pages that follow, up to `most` pages in all, as [`Writeback::start`].
    pub fn extend(&mut self, most: u32) {
        let run = &mut self.run;
        let n = run.count();
        let Some(next) = run.first.checked_add(n) else {
            return;
        };
        let pages = &mut run.pages;
        self.mm
            .start_writeback(run.mapping, next, most - n, |pfn| pages.push(pfn));
    }

    /// Takes over a page that the calling task has put under writeback just now, under its lock.
    fn adopt(mm: &'a LiveMm, pfn: Pfn) -> Self {
        let run = Run {
            mapping: mm.frames.mapping(pfn),
            first: mm.frames.index(pfn),
            pages: vec![pfn],
            copy: None,
        };
        Self { mm, run }
    }

    /// Copies the bytes, if there is room for it: from then on the pages may be changed.
    pub fn copy(&mut self) {
        let copies = &self.mm.world.copies;
        if self.run.copy.is_some() || self.run.pages.len() > COPY_PAGES {
            return;
        }
        let Some(slot) = copies.take() else {
            return;
        };
        for (i, &pfn) in self.run.pages.iter().enumerate() {
            // SAFETY: the page is under writeback and not marked yet, so nobody writes its bytes; the slot is
            // ours alone until it is given back.
            unsafe {
                let to = copies.page(slot, i).as_mut();
                to.copy_from_slice(self.mm.world.arena.page(pfn).as_ref());
            }
        }
        self.run.copy = Some(slot);
        for &pfn in &self.run.pages {
            self.mm.frames.track(pfn).fetch_or(COPIED, SeqCst);
            self.mm.world.wake(mm::queue::page(pfn));
        }
    }

    /// Starts writeback of a page for reclaim, which holds its lock and has taken its dirty bit:
    /// only for `World::writepage`, whose caller does both.
    pub(crate) fn for_reclaim(mm: &'a LiveMm, pfn: Pfn) -> Self {
        assert!(mm.frames.has(pfn, flag::LOCKED) && !mm.frames.has(pfn, flag::WRITEBACK));
        mm.set_page_writeback(pfn);
        Self::adopt(mm, pfn)
    }

    /// The bytes of each page in turn.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8; PAGE]> {
        let w = &self.mm.world;
        let bytes = |(i, &pfn): (usize, &Pfn)| match self.run.copy {
            // SAFETY: the slot is ours until `self` ends, and is written by `copy` alone, before.
            Some(slot) => unsafe { w.copies.page(slot, i).as_ref() },
            // SAFETY: the pages are under writeback until `self` ends, and not marked, so nobody writes
            // their bytes (module documentation).
            None => unsafe { w.arena.page(pfn).as_ref() },
        };
        self.run.pages.iter().enumerate().map(bytes)
    }

    /// As [`Writeback::end`] of data that is lost: the pages are read anew, but for those that were changed
    /// meanwhile, whose data is newer.
    pub fn lost(self) {
        for &pfn in &self.run.pages {
            let frames = &self.mm.frames;
            frames.clear_flags(pfn, flag::ERROR);
            // Who has the lock is about to change it, or reads what he found before it was lost.
            if !frames.has(pfn, flag::DIRTY) && self.mm.try_lock_page(pfn) {
                if !frames.has(pfn, flag::DIRTY) {
                    frames.clear_flags(pfn, flag::UPTODATE);
                }
                self.mm.unlock_page(pfn);
            }
        }
        self.end(false);
    }

    /// Clears bits of each page.
    pub fn clear_flags(&self, bits: u32) {
        for &pfn in &self.run.pages {
            self.mm.frames.clear_flags(pfn, bits);
        }
    }

    /// The I/O ended.
    pub fn end(mut self, failed: bool) {
        self.finish(failed);
    }

    /// Ends it once.
    fn finish(&mut self, failed: bool) {
        let run = &mut self.run;
        let pages = std::mem::take(&mut run.pages);
        let n = pages.len() as u32;
        if let Some(slot) = run.copy.take() {
            for pfn in pages {
                self.mm.frames.track(pfn).fetch_and(!COPIED, SeqCst);
            }
            self.mm.world.copies.give(slot);
        }
        if n > 0 {
            self.mm.end_writeback(run.mapping, run.first, n, failed);
        }
    }
}

impl Drop for Writeback<'_> {
    fn drop(&mut self) {
        self.finish(true);
    }
}
