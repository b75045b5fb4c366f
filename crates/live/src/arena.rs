//! The pages themselves, and who may touch their bytes.
//!
//! One allocation holds all frames, 4096 bytes each, found by frame number. The engine's page bits
//! say who may touch them:
//!
//! - The holder of a page's lock ([`Locked`]) may read it, and may write it while it is not under
//!   writeback.
//! - Whoever put a page under writeback ([`Writeback`]) may read it until he ends it, with or without
//!   the lock.
//! - Nobody else looks at it. Reclaim, which also takes the lock, moves and frees pages without
//!   touching their bytes; a locked page is never freed and a page under writeback neither.
//!
//! `WRITEBACK` is set by the lock's holder, or in one step while the lock has none; so a holder who
//! has seen it clear may write until he lets go. This is all the `unsafe` of the crate.
#![allow(unsafe_code)]

use crate::LiveMm;
use mm::Pfn;
use mm::cache::pagecache::Entered;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

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
}

impl<'a> Locked<'a> {
    /// The page at an index of a file; waits for its lock. `None`: not cached.
    pub async fn find(mm: &'a LiveMm, mapping: u32, index: u32) -> Option<Self> {
        let pfn = mm.find_lock_page(mapping, index).await?;
        let place = (mm.frames.mapping(pfn), mm.frames.index(pfn));
        assert_eq!(place, (mapping, index), "frame {pfn} is another page");
        Some(Self { mm, pfn })
    }

    /// A fresh page entered at an index of a file; its bytes are whatever the frame held before.
    /// `Ok(None)`: somebody was faster. `Err`: no memory.
    pub async fn insert(
        mm: &'a LiveMm,
        mapping: u32,
        index: u32,
        gfp: Gfp,
    ) -> Result<Option<Self>, OutOfMemory> {
        let pfn = mm.alloc_page(gfp).await.ok_or(OutOfMemory)?;
        assert!(mm.try_lock_page(pfn), "frame {pfn} is fresh and locked");
        match mm.enter_page_cache_lru(pfn, mapping, index) {
            Entered::Added => Ok(Some(Self { mm, pfn })),
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

    /// Its bytes, to change; wait for the end of its writeback first.
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        assert!(!self.has(flag::WRITEBACK), "written under I/O");
        // SAFETY: we hold the page's lock, so no other holder exists; the page is not under
        // writeback, and nobody but us can put it there while we do (module documentation). The
        // borrow of `self` keeps us from doing so or unlocking meanwhile.
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

/// No page could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// Pages in a row of a file that the calling task put under writeback. Dropped without
/// [`Writeback::end`], the write counts as failed.
pub struct Writeback<'a> {
    mm: &'a LiveMm,
    mapping: u32,
    first: u32,
    pages: Vec<Pfn>,
}

impl<'a> Writeback<'a> {
    /// Puts dirty pages from `first` on under writeback, at most `most`, as far as they can be had
    /// without waiting. `None`: not even the first.
    pub fn start(mm: &'a LiveMm, mapping: u32, first: u32, most: u32) -> Option<Self> {
        let mut run = Self {
            mm,
            mapping,
            first,
            pages: Vec::with_capacity(most as usize),
        };
        run.extend(most);
        (!run.pages.is_empty()).then_some(run)
    }

    /// Adds the dirty pages that follow, up to `most` pages in all, as [`Writeback::start`].
    pub fn extend(&mut self, most: u32) {
        let (mm, n) = (self.mm, self.pages.len() as u32);
        let Some(next) = self.first.checked_add(n) else {
            return;
        };
        let pages = &mut self.pages;
        mm.start_writeback(self.mapping, next, most - n, |pfn| pages.push(pfn));
    }

    /// Takes over a page that the calling task has put under writeback just now, under its lock.
    fn adopt(mm: &'a LiveMm, pfn: Pfn) -> Self {
        Self {
            mm,
            mapping: mm.frames.mapping(pfn),
            first: mm.frames.index(pfn),
            pages: vec![pfn],
        }
    }

    /// Starts writeback of a page for reclaim, which holds its lock and has taken its dirty bit:
    /// only for `World::writepage`, whose caller does both.
    pub(crate) fn for_reclaim(mm: &'a LiveMm, pfn: Pfn) -> Self {
        assert!(mm.frames.has(pfn, flag::LOCKED) && !mm.frames.has(pfn, flag::WRITEBACK));
        mm.set_page_writeback(pfn);
        Self::adopt(mm, pfn)
    }

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

    /// The bytes of each page in turn.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8; PAGE]> {
        // SAFETY: the pages are under writeback until `self` ends, so nobody writes their bytes
        // (module documentation).
        let bytes = |&pfn: &Pfn| unsafe { self.mm.world.arena.page(pfn).as_ref() };
        self.pages.iter().map(bytes)
    }

    /// Clears bits of each page.
    pub fn clear_flags(&self, bits: u32) {
        for &pfn in &self.pages {
            self.mm.frames.clear_flags(pfn, bits);
        }
    }

    /// The I/O ended.
    pub fn end(mut self, failed: bool) {
        self.finish(failed);
    }

    /// Ends it once.
    fn finish(&mut self, failed: bool) {
        let n = std::mem::take(&mut self.pages).len() as u32;
        if n > 0 {
            self.mm.end_writeback(self.mapping, self.first, n, failed);
        }
    }
}

impl Drop for Writeback<'_> {
    fn drop(&mut self) {
        self.finish(true);
    }
}
