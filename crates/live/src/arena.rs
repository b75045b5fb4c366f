//! The pages themselves, and the rules for who may touch their bytes.
//!
//! One allocation holds all frames, 4096 bytes each, found by frame number. The engine's page bits
//! decide who may touch them:
//!
//! - The holder of a page's lock ([`Locked`]) may read the page. The holder may write it while no
//!   task has it pinned ([`Locked::unpinned`]) and while it is not under writeback or its bytes are
//!   written from a copy ([`Locked::settled`]).
//! - A task that pinned a page ([`Pinned`]) may read it until the pin is dropped.
//! - A task that put a page under writeback ([`Writeback`]) may read it, with or without the lock,
//!   until the writeback ends or the page has been copied.
//! - No other task looks at the bytes. Reclaim, which also takes the lock, moves and frees pages
//!   without touching their bytes. A page that is locked, under writeback or pinned is never freed.
//!
//! `WRITEBACK` is set by the lock's holder, or in one step while the page is unlocked; so a holder
//! that has seen the bit clear may write until it unlocks the page.
//!
//! # Copies
//!
//! A task that wants to change a page under writeback would wait for the device. So pages that go
//! to a slow device are copied first ([`Writeback::copy`]), as far as there is room ([`Copies`]),
//! and marked `COPIED`: they stay under writeback for the engine, and the holder of the lock may
//! change them. The mark is cleared before `WRITEBACK` is; a holder that has seen both under the
//! lock may write until it unlocks the page, because no other writeback begins while it has the
//! lock.
//!
//! # Pins
//!
//! A frame's pins are counted in its spare word (`track`; there is no page tracker in this world).
//! A pin costs no lock: the page is found without the tree's lock ([`mm::Mm::peek_page`]), its
//! count is incremented, and only then is the frame tested for being that page, valid and unlocked.
//! Both sides write first and read then, in the one order of all operations:
//!
//! ```text
//! task that pins                    task that frees, or writes
//! count += 1                        LOCKED is set
//! not LOCKED, the right page?       count == 0?
//! ```
//!
//! At least one of them sees the other. A task that pins and sees the lock takes its count back
//! without having read a byte. A task that frees and sees a count lets the page stay
//! (`release_page`). A writer waits until the count is zero, without holding the lock, because the
//! pinning tasks may want another pin. A truncation sets the new file size first, and a task that
//! pins tests the size last; so the truncation waits once for the pins behind the new end, and no
//! later pin can succeed there. Under the lock a pin is always possible.
//!
//! Readers that pin a page by turns would keep a writer out for ever, so a writer that has waited
//! for a while holds new pins off (`turn`, `SHUT`).
//!
//! Frames that a program has allocated ([`Owned`]) belong to nobody else until they are freed.
//! All `unsafe` code of the crate is here, in `map` and in `uring`.
#![allow(unsafe_code)]

use crate::LiveMm;
use crate::error::OutOfMemory;
use crate::map::Arena;
use crate::page_size::PAGE;
use crate::sync::Mutex;
use crate::turn::{MOST_SHUT, SHUT, Turn};
use mm::Pfn;
use mm::cache::pagecache::Entered;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::watch::vmstat::ZoneStat;
use mm::world::Tasks;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;

/// Largest number of pages in one copy.
const COPY_PAGES: usize = 32;
/// The share of memory that copies take in addition to it, and the largest number of copies: no
/// more transfers than that are on their way to a slow device.
const COPY_SHARE: usize = 256;
const MOST_COPIES: usize = 64;

/// Memory for the bytes of pages that are being written, so that the pages can be changed
/// meanwhile.
pub struct Copies {
    arena: Option<Arena>,
    free: Mutex<Vec<u32>>,
}

impl Copies {
    /// Allocates memory for copies of pages under writeback, for a cache of `pages` pages: a 256th
    /// of memory, at least one copy; none for a cache below 64 pages, or if the system has no
    /// memory for them.
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

    /// Returns the memory for the `nth` page of the copy in a slot.
    fn page(&self, slot: u32, nth: usize) -> NonNull<[u8; PAGE]> {
        assert!(nth < COPY_PAGES);
        let arena = self.arena.as_ref().expect("a slot was taken");
        arena.page(slot * COPY_PAGES as u32 + nth as u32)
    }
}

/// A page whose lock the calling task holds; unlocked on drop.
pub struct Locked<'a> {
    mm: &'a LiveMm,
    pfn: Pfn,
    /// No task has the page pinned, and none can pin it while we hold its lock.
    unpinned: bool,
    /// The page was not under writeback, or its bytes are written from a copy.
    settled: bool,
}

/// The error that a program holds a page which is wanted, and the cache ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InHand;

/// How often an allocation is tried again in a row before it fails.
const TRIES: u32 = 3;
/// Nanoseconds to wait for pages that are dirty or on their way to or from a device, when nothing
/// else can be reclaimed; and how often: a minute in all, longer than a device hangs before the
/// system gives it up.
const WAIT_FOR_IO: u64 = 1_000_000;
const MOST_WAITS: u32 = 60_000;

/// Number of frames (whole blocks of the allocator) below which per-CPU batches of 14 pages would
/// be a large part of memory.
const FEW_FRAMES: u32 = 1024;

/// Bit of a frame's pin word: a task waits until the page has no pins.
const WANTED: u32 = 1 << 31;
/// Bit of a frame's pin word: the page's bytes are being written from a copy.
const COPIED: u32 = 1 << 30;
/// Bit of a frame's pin word: a program holds the page to change it ([`crate::PageMut`]), and may
/// do so for ever.
const IN_HAND: u32 = 1 << 28;
/// Mask of the rest of the word: the number of pins.
const PINS: u32 = IN_HAND - 1;

impl<'a> Locked<'a> {
    /// Returns the page at an index of a file, after waiting for its lock. `None`: it is not
    /// cached. Fails if a program holds the page to change it and the cache ends.
    pub async fn find(mm: &'a LiveMm, mapping: u32, index: u32) -> Result<Option<Self>, InHand> {
        while let Some(pfn) = mm.peek_page(mapping, index) {
            let (w, q) = (&mm.world, mm.world.pin_queue(pfn));
            let ticket = w.ticket(q);
            if mm.frames.track(pfn).load(SeqCst) & IN_HAND == 0 {
                break;
            }
            if w.is_closing() {
                return Err(InHand);
            }
            w.wait(q, ticket, None).await;
        }
        let Some(pfn) = mm.find_lock_page(mapping, index).await else {
            return Ok(None);
        };
        let place = (mm.frames.mapping(pfn), mm.frames.index(pfn));
        assert_eq!(place, (mapping, index), "frame {pfn} is another page");
        Ok(Some(Self {
            mm,
            pfn,
            unpinned: false,
            settled: false,
        }))
    }

    /// Marks the page as held by a program that changes it, or no longer. Tasks that want the page
    /// wait for the end of the mark, and not for the page's lock, so that the end of the cache
    /// reaches them.
    pub fn in_hand(&self, yes: bool) {
        let word = self.mm.frames.track(self.pfn);
        if yes {
            word.fetch_or(IN_HAND, SeqCst);
            return;
        }
        word.fetch_and(!IN_HAND, SeqCst);
        self.mm.world.wake(self.mm.world.pin_queue(self.pfn));
    }

    /// Allocates a page and enters it, locked, at an index of a file. Its bytes are whatever the
    /// frame held before, so the caller fills it. `Ok(None)`: another task entered a page there
    /// first. `Err`: no memory; tried again several times unless `gfp` has `NORETRY`.
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
                    // A CPU's LRU batch could hold all pages of so small a cache, out of reach
                    // of reclaim.
                    mm.lru_add_drain();
                }
                // A free frame has no pins except those of tasks that will see the lock and take
                // them back.
                Ok(Some(Self {
                    mm,
                    pfn,
                    unpinned: true,
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

    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Returns true if all of `bits` are set.
    pub fn has(&self, bits: u32) -> bool {
        self.mm.frames.has(self.pfn, bits)
    }

    /// Returns the page's bytes.
    pub fn bytes(&self) -> &[u8; PAGE] {
        // SAFETY: we hold the page's lock, so nobody else writes the bytes (module documentation),
        // and the borrow of `self` keeps us from unlocking or writing meanwhile.
        unsafe { self.mm.world.arena.page(self.pfn).as_ref() }
    }

    /// Returns the page if no task has it pinned. Otherwise unlocks it, waits until the pins are
    /// gone or a phase of `turn` ends, and returns `None`: the caller must look the page up again.
    /// The wait is without the lock, because the tasks that pinned the page may need the lock for
    /// another pin. When the cache ends ([`LiveWorld::close`]) this does not wait.
    ///
    /// [`LiveWorld::close`]: crate::world::LiveWorld::close
    pub async fn unpinned(mut self, turn: &mut Turn<'_>) -> Option<Self> {
        let (w, q) = (&self.mm.world, self.mm.world.pin_queue(self.pfn));
        let word = self.mm.frames.track(self.pfn);
        if word.load(SeqCst) & !(COPIED | IN_HAND) != 0 {
            let ticket = w.ticket(q);
            if w.is_closing() {
                return None;
            }
            let (shut, left) = turn.phase(self.pfn);
            if word.fetch_or(WANTED | shut, SeqCst) & PINS != 0 {
                drop(self);
                w.wait(q, ticket, Some(left)).await;
                return None;
            }
            word.fetch_and(!WANTED, SeqCst);
        }
        turn.open();
        self.unpinned = true;
        Some(self)
    }

    /// Returns the page if new pins of it are not held off. Otherwise unlocks it, waits until they
    /// are let in again, and returns `None`: the caller must look the page up again. When the cache
    /// ends this does not wait.
    pub async fn open(self) -> Option<Self> {
        let (w, q) = (&self.mm.world, self.mm.world.pin_queue(self.pfn));
        let word = self.mm.frames.track(self.pfn);
        let ticket = w.ticket(q);
        if word.load(SeqCst) & SHUT == 0 || w.is_closing() {
            return Some(self);
        }
        drop(self);
        w.wait(q, ticket, Some(MOST_SHUT)).await;
        None
    }

    /// Waits until the lock's holder may write the page: it is not under writeback, or is being
    /// written from a copy.
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

    /// Pins the page in addition to its lock, so that its bytes stay readable after the unlock.
    pub fn pin(&mut self) -> Pinned<'a> {
        self.unpinned = false;
        self.mm.frames.track(self.pfn).fetch_add(1, SeqCst);
        Pinned {
            mm: self.mm,
            pfn: self.pfn,
        }
    }

    /// Returns the page's bytes for writing; [`Locked::unpinned`] and [`Locked::settled`] come
    /// first.
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        assert!(
            self.settled || !self.has(flag::WRITEBACK),
            "written under I/O"
        );
        assert!(self.unpinned, "written while it may be pinned");
        // SAFETY: we hold the page's lock, so no other holder exists. No task has the page pinned,
        // or can keep a pin on it while it is locked. The page is not under writeback, or the
        // writeback reads a copy, and no other task can start one while we hold the lock (module
        // documentation). The borrow of `self` keeps us from doing any of this meanwhile.
        unsafe { self.mm.world.arena.page(self.pfn).as_mut() }
    }

    /// Puts a dirty page under writeback and unlocks it. Returns the writeback, which the caller
    /// must end; `None`: the page was clean.
    pub fn start_writeback(self) -> Option<Writeback<'a>> {
        assert!(!self.has(flag::WRITEBACK));
        self.mm.clear_page_dirty_for_io(self.pfn).then(|| {
            self.mm.set_page_writeback(self.pfn);
            // Before the lock goes: the frame says which page of which file it is.
            Writeback::adopt(self.mm, self.pfn)
        })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.mm.unlock_page(self.pfn);
    }
}

/// How often an allocation has failed so far.
#[derive(Default)]
struct Tries {
    in_a_row: u32,
    waited: u32,
}

/// Decides, after reclaim freed nothing, whether to try an allocation again; `Err`: no. Pages that
/// are dirty or on their way to or from a device become free without the caller's help, so this
/// waits for them. `tries` counts over the calls for one allocation.
async fn another_try(mm: &LiveMm, tries: &mut Tries) -> Result<(), OutOfMemory> {
    let w = &mm.world;
    let dirty = mm.global_stat(ZoneStat::NrFileDirty);
    // A page that a program has open for changing (`PageMut`) may stay dirty for ever.
    let in_hand = u64::from(w.pages_to_change.load(SeqCst));
    if (dirty > in_hand || w.under_io()) && tries.waited < MOST_WAITS {
        tries.waited += 1;
        mm.wakeup_flusher_threads(dirty);
        // In a small cache, differences that are not folded yet may be all that is dirty or free.
        w.fold.ask();
        w.sleep(WAIT_FOR_IO).await;
    } else if tries.in_a_row == TRIES {
        return Err(OutOfMemory);
    } else {
        tries.in_a_row += 1;
    }
    // Pages on per-CPU lists count as used, and pages that were pinned when reclaim met them may
    // have been unpinned since.
    mm.drain_all_pages();
    mm.hope_again();
    Ok(())
}

/// Contiguous frames allocated for a program: on no list, in no file.
pub struct Owned {
    pfn: Pfn,
    order: u32,
}

impl Owned {
    /// Allocates `1 << order` contiguous frames for a program; their bytes are whatever the frames
    /// held before. Fails once further tries are without hope.
    pub async fn alloc(mm: &LiveMm, gfp: Gfp, order: u32) -> Result<Self, OutOfMemory> {
        let mut tries = Tries::default();
        loop {
            match mm.alloc_pages(gfp, order).await {
                Some(pfn) => return Ok(Self { pfn, order }),
                None => another_try(mm, &mut tries).await?,
            }
        }
    }

    /// Returns the order: there are `1 << order` frames.
    pub fn order(&self) -> u32 {
        self.order
    }

    /// Returns the frames' bytes.
    pub fn bytes(&self, mm: &LiveMm) -> &[u8] {
        let base = mm.world.arena.page(self.pfn + (1 << self.order) - 1);
        assert!(base >= mm.world.arena.page(self.pfn), "frames in a row");
        let first = mm.world.arena.page(self.pfn).cast::<u8>().as_ptr();
        // SAFETY: both ends lie inside the arena, and so does all between them. The frames are
        // allocated to `self`, in no file and on no list, so nobody else touches their bytes; the
        // borrow of `self` keeps us from writing or freeing them meanwhile.
        unsafe { std::slice::from_raw_parts(first, PAGE << self.order) }
    }

    /// Returns the frames' bytes for writing.
    pub fn bytes_mut(&mut self, mm: &LiveMm) -> &mut [u8] {
        let base = mm.world.arena.page(self.pfn + (1 << self.order) - 1);
        assert!(base >= mm.world.arena.page(self.pfn), "frames in a row");
        let first = mm.world.arena.page(self.pfn).cast::<u8>().as_ptr();
        // SAFETY: as in `bytes`, and the borrow of `self` is the only one.
        unsafe { std::slice::from_raw_parts_mut(first, PAGE << self.order) }
    }

    /// Has the system free the memory of the frames, whose bytes are lost; they stay allocated.
    pub fn release(&mut self, mm: &LiveMm) {
        mm.world.arena.release(self.pfn, 1 << self.order);
    }

    /// Frees the frames, which the program no longer uses.
    pub fn free(self, mm: &LiveMm) {
        match self.order {
            0 => mm.free_page(self.pfn, false),
            order => mm.free_pages_order(self.pfn, order),
        }
    }
}

/// A pinned page: until this is dropped it can be read, stays in its frame and is not changed.
pub struct Pinned<'a> {
    mm: &'a LiveMm,
    pfn: Pfn,
}

impl<'a> Pinned<'a> {
    /// Pins a page of a file without a lock, if it is cached, valid, without read-ahead mark and
    /// unlocked, and new pins are not held off; else returns `None`. The caller must then test
    /// whether the file still reaches that far, and drop the pin if not.
    #[inline]
    pub fn try_take(mm: &'a LiveMm, mapping: u32, index: u32) -> Option<Self> {
        let pfn = mm.peek_page(mapping, index)?;
        let page = mm.frames.page(pfn);
        // The pin is counted before the frame is tested (module documentation). If the test fails,
        // dropping `pinned` takes it back.
        let before = page.track().fetch_add(1, SeqCst);
        let pinned = Self { mm, pfn };
        let f = page.flags() & (flag::CACHED | flag::UPTODATE | flag::LOCKED | flag::READAHEAD);
        let right = f == flag::CACHED | flag::UPTODATE
            && before & SHUT == 0
            && page.mapping() == mapping
            && page.index() == index;
        right.then_some(pinned)
    }

    #[inline]
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Returns the page's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8; PAGE] {
        // SAFETY: the page is pinned, so nobody writes its bytes or frees it (module
        // documentation).
        unsafe { self.mm.world.arena.page(self.pfn).as_ref() }
    }
}

impl Drop for Pinned<'_> {
    /// Removes the pin; the last one wakes a task that waits to change the page.
    #[inline]
    fn drop(&mut self) {
        if self.mm.frames.track(self.pfn).fetch_sub(1, SeqCst) & !(COPIED | SHUT | IN_HAND)
            == WANTED | 1
        {
            let w = &self.mm.world;
            w.wake(w.pin_queue(self.pfn));
        }
    }
}

/// An owner that keeps an engine alive, always the same one.
pub trait Keeper {
    /// The engine.
    fn mm(&self) -> &LiveMm;
}

/// A [`Pinned`] page together with an owner that keeps its engine alive.
pub struct Kept<K: Keeper> {
    keeper: K,
    pfn: Pfn,
}

impl<'a> Pinned<'a> {
    /// Turns the pin into one that owns `keeper`, which keeps the engine alive.
    pub fn keep<K: Keeper>(self, keeper: K) -> Kept<K> {
        assert!(std::ptr::eq(self.mm, keeper.mm()), "another engine's page");
        let pfn = self.pfn;
        std::mem::forget(self);
        Kept { keeper, pfn }
    }
}

impl<K: Keeper> Kept<K> {
    /// Returns the page's bytes.
    pub fn bytes(&self) -> &[u8; PAGE] {
        // SAFETY: as for `Pinned`, whose count this has taken over; the arena lives as long as its
        // engine, which is borrowed from `self`.
        unsafe { self.keeper.mm().world.arena.page(self.pfn).as_ref() }
    }
}

impl<K: Keeper> Drop for Kept<K> {
    /// Removes the pin, while the keeper still has the engine.
    fn drop(&mut self) {
        let (mm, pfn) = (self.keeper.mm(), self.pfn);
        drop(Pinned { mm, pfn });
    }
}

/// Returns the number of pins of a frame.
pub fn pins(mm: &LiveMm, pfn: Pfn) -> u32 {
    mm.frames.track(pfn).load(SeqCst) & PINS
}

/// Contiguous pages of a file.
pub struct Run {
    mapping: u32,
    first: u32,
    pages: Vec<Pfn>,
    /// The slot of [`Copies`] that holds their bytes; `None`: they were not copied.
    copy: Option<u32>,
}

impl Run {
    pub fn mapping(&self) -> u32 {
        self.mapping
    }

    /// Returns the index of the first page.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Returns the number of pages.
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }
}

/// Fresh, locked, contiguous pages of a file on their way to another thread. The receiver must take
/// them ([`Handed::take`]), or they stay locked for ever.
#[must_use]
pub struct Handed {
    /// The pages.
    pub run: Run,
}

impl Handed {
    /// Hands over `pages`, which begin at index `first` and must all be fresh: they stay locked
    /// without an owner until `take`.
    pub fn new(mapping: u32, first: u32, pages: Vec<Locked<'_>>) -> Self {
        assert!(
            pages.iter().all(|p| p.unpinned),
            "pages that others may know"
        );
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

    /// Takes the pages over on the receiving thread, which now holds their locks.
    pub fn take(self, mm: &LiveMm) -> Vec<Locked<'_>> {
        let locked = |pfn| Locked {
            mm,
            pfn,
            unpinned: true,
            settled: true,
        };
        self.run.pages.into_iter().map(locked).collect()
    }
}

/// Pages under writeback on their way to another thread. The receiver must take them
/// ([`Sent::take`]), or they stay under writeback for ever.
#[must_use]
pub struct Sent {
    /// The pages.
    pub run: Run,
}

impl Sent {
    /// Takes the pages over on the receiving thread.
    pub fn take(self, mm: &LiveMm) -> Writeback<'_> {
        Writeback { mm, run: self.run }
    }
}

/// Contiguous pages of a file that the calling task put under writeback. If dropped without
/// [`Writeback::end`], the write counts as failed.
pub struct Writeback<'a> {
    mm: &'a LiveMm,
    /// The pages.
    pub run: Run,
}

impl<'a> Writeback<'a> {
    /// Puts dirty pages from index `first` on under writeback, at most `most`, and only as long as
    /// each is dirty and unlocked: it does not wait. `None`: not even the first could be had.
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

    /// Hands the pages to another thread, which ends the writeback; this value then has no pages.
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

    /// Adds the dirty pages of the file that follow, up to `most` pages in all, as long as each is
    /// dirty and unlocked.
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

    /// Takes over a page that the calling task has just put under writeback while holding its lock.
    fn adopt(mm: &'a LiveMm, pfn: Pfn) -> Self {
        let run = Run {
            mapping: mm.frames.mapping(pfn),
            first: mm.frames.index(pfn),
            pages: vec![pfn],
            copy: None,
        };
        Self { mm, run }
    }

    /// Copies the pages' bytes, if there is a free slot for so many; from then on tasks may change
    /// the pages, and those that wait for it are woken.
    pub fn copy(&mut self) {
        let copies = &self.mm.world.copies;
        if self.run.copy.is_some() || self.run.pages.len() > COPY_PAGES {
            return;
        }
        let Some(slot) = copies.take() else {
            return;
        };
        for (i, &pfn) in self.run.pages.iter().enumerate() {
            // SAFETY: the page is under writeback and not marked yet, so nobody writes its bytes;
            // the slot is ours alone until it is given back.
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

    /// Starts writeback of a page for reclaim. Only for `World::writepage`, whose caller holds the
    /// page's lock and has cleared its dirty bit.
    pub(crate) fn for_reclaim(mm: &'a LiveMm, pfn: Pfn) -> Self {
        assert!(mm.frames.has(pfn, flag::LOCKED) && !mm.frames.has(pfn, flag::WRITEBACK));
        mm.set_page_writeback(pfn);
        Self::adopt(mm, pfn)
    }

    /// Returns the bytes of each page to write, in turn: from the copy, if there is one.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8; PAGE]> {
        let w = &self.mm.world;
        let bytes = |(i, &pfn): (usize, &Pfn)| match self.run.copy {
            // SAFETY: the slot is ours until `self` ends, and is written by `copy` alone, before.
            Some(slot) => unsafe { w.copies.page(slot, i).as_ref() },
            // SAFETY: the pages are under writeback until `self` ends, and not marked, so nobody
            // writes their bytes (module documentation).
            None => unsafe { w.arena.page(pfn).as_ref() },
        };
        self.run.pages.iter().enumerate().map(bytes)
    }

    /// Ends the writeback of pages whose data could not be written and is lost: they are read anew
    /// at the next access, except for pages that were changed meanwhile, whose data is newer.
    pub fn lost(self) {
        for &pfn in &self.run.pages {
            let frames = &self.mm.frames;
            frames.clear_flags(pfn, flag::ERROR);
            // A task that holds the lock is about to change the page, or reads what was valid
            // before.
            if !frames.has(pfn, flag::DIRTY) && self.mm.try_lock_page(pfn) {
                if !frames.has(pfn, flag::DIRTY) {
                    frames.clear_flags(pfn, flag::UPTODATE);
                }
                self.mm.unlock_page(pfn);
            }
        }
        self.end(false);
    }

    /// Clears `bits` in the flags of each page.
    pub fn clear_flags(&self, bits: u32) {
        for &pfn in &self.run.pages {
            self.mm.frames.clear_flags(pfn, bits);
        }
    }

    /// Ends the writeback; `failed`: the pages were not written.
    pub fn end(mut self, failed: bool) {
        self.finish(failed);
    }

    /// Ends the writeback, unless that was done already, and gives back the copy's slot. `failed`:
    /// the pages were not written.
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
