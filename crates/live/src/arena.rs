//! The pages themselves, and who may touch their bytes.
//!
//! One allocation holds all frames, 4096 bytes each, found by frame number. The engine's page bits
//! say who may touch them:
//!
//! - The holder of a page's lock ([`Locked`]) may read it. He may write it while it is not under
//!   writeback and nobody has it pinned ([`Locked::alone`]).
//! - Whoever pinned a page ([`Pinned`]) may read it until he lets go.
//! - Whoever put a page under writeback ([`Writeback`]) may read it until he ends it, with or without
//!   the lock.
//! - Nobody else looks at it. Reclaim, which also takes the lock, moves and frees pages without
//!   touching their bytes; a locked page is never freed, a page under writeback neither, and a pinned
//!   one by nobody.
//!
//! `WRITEBACK` is set by the lock's holder, or in one step while the lock has none; so a holder who
//! has seen it clear may write until he lets go.
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
//! This is all the `unsafe` of the crate but for the ring's (`uring`).
#![allow(unsafe_code)]

use crate::LiveMm;
use mm::Pfn;
use mm::cache::pagecache::Entered;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::world::Tasks;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// The memory of all frames.
pub struct Arena {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the arena is memory without thread affinity; who may touch which bytes when is ruled by
// the page bits (module documentation).
unsafe impl Send for Arena {}
// SAFETY: as above; the arena itself hands out no reference to bytes but through the two tokens.
unsafe impl Sync for Arena {}

impl Arena {
    /// Zeroed memory for `frames` pages, at least one; the operating system gives it as it is
    /// touched.
    ///
    /// # Errors
    /// There is no memory for so many.
    pub fn new(frames: usize) -> Result<Self, OutOfMemory> {
        assert!(frames > 0);
        let size = frames.checked_mul(PAGE).ok_or(OutOfMemory)?;
        let layout = Layout::from_size_align(size, PAGE).map_err(|_| OutOfMemory)?;
        // SAFETY: the layout has a size other than zero.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).ok_or(OutOfMemory)?;
        Ok(Self { base, layout })
    }

    fn page(&self, pfn: Pfn) -> NonNull<[u8; PAGE]> {
        let at = pfn as usize * PAGE;
        assert!(at < self.layout.size(), "frame {pfn} is outside the arena");
        // SAFETY: `at` lies inside the allocation and so does the page that begins there, for the
        // size is a multiple of the page size.
        unsafe { self.base.add(at).cast() }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// A page whose lock the calling task holds; unlocked when dropped.
pub struct Locked<'a> {
    mm: &'a LiveMm,
    pfn: Pfn,
    /// Nobody has it pinned, and nobody will while we hold its lock.
    alone: bool,
}

/// How often memory is looked for again before there is none.
const TRIES: u32 = 3;

/// Bit of a frame's pins: somebody waits until there are none.
const WANTED: u32 = 1 << 31;

impl<'a> Locked<'a> {
    /// The page at an index of a file; waits for its lock. `None`: not cached.
    pub async fn find(mm: &'a LiveMm, mapping: u32, index: u32) -> Option<Self> {
        let pfn = mm.find_lock_page(mapping, index).await?;
        let place = (mm.frames.mapping(pfn), mm.frames.index(pfn));
        assert_eq!(place, (mapping, index), "frame {pfn} is another page");
        let alone = false;
        Some(Self { mm, pfn, alone })
    }

    /// A fresh page entered at an index of a file; its bytes are whatever the frame held before.
    /// `Ok(None)`: somebody was faster. `Err`: no memory.
    pub async fn insert(
        mm: &'a LiveMm,
        mapping: u32,
        index: u32,
        gfp: Gfp,
    ) -> Result<Option<Self>, OutOfMemory> {
        let mut tried = 0;
        let pfn = loop {
            match mm.alloc_page(gfp).await {
                Some(pfn) => break pfn,
                None if tried == TRIES || gfp.has(Gfp::NORETRY) => return Err(OutOfMemory),
                // Pages may have been let go that were pinned when reclaim met them.
                None => mm.hope_again(),
            }
            tried += 1;
        };
        assert!(mm.try_lock_page(pfn), "frame {pfn} is fresh and locked");
        match mm.enter_page_cache_lru(pfn, mapping, index) {
            // A frame that is free has no pins but such as will be taken back.
            Entered::Added => Ok(Some(Self {
                mm,
                pfn,
                alone: true,
            })),
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
        if word.load(SeqCst) != 0 {
            let ticket = w.ticket(q);
            if w.is_closing() {
                return None;
            }
            if word.fetch_or(WANTED, SeqCst) & !WANTED != 0 {
                drop(self);
                w.wait(q, ticket, None).await;
                return None;
            }
            word.fetch_and(!WANTED, SeqCst);
        }
        self.alone = true;
        Some(self)
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
        assert!(!self.has(flag::WRITEBACK), "written under I/O");
        assert!(self.alone, "written while it may be pinned");
        // SAFETY: we hold the page's lock, so no other holder exists; nobody has it pinned, or can
        // pin it for good while it is locked; it is not under writeback, and nobody but us can put
        // it there while we hold the lock (module documentation). The borrow of `self` keeps us
        // from doing any of this meanwhile.
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
        if self.mm.frames.track(self.pfn).fetch_sub(1, SeqCst) == WANTED | 1 {
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
    mm.frames.track(pfn).load(SeqCst) & !WANTED
}

/// Pages in a row of a file.
pub struct Run {
    mapping: u32,
    first: u32,
    pages: Vec<Pfn>,
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
            },
        }
    }

    /// Whose they are now.
    pub fn take(self, mm: &LiveMm) -> Vec<Locked<'_>> {
        let alone = true;
        let locked = |pfn| Locked { mm, pfn, alone };
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
        };
        Self { mm, run }
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
        // SAFETY: the pages are under writeback until `self` ends, so nobody writes their bytes
        // (module documentation).
        let bytes = |&pfn: &Pfn| unsafe { self.mm.world.arena.page(pfn).as_ref() };
        self.run.pages.iter().map(bytes)
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
        let n = std::mem::take(&mut run.pages).len() as u32;
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
