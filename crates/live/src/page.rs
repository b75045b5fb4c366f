//! Pages of a cache that a program holds, for reading or for changing.

use crate::LiveMm;
use crate::arena::{Locked, Pinned};
use crate::file;
use crate::open_file::Share;
use crate::page_size::PAGE;
use mm::world::Tasks as _;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::SeqCst;

/// A page of a file to be read in place, without a copy ([`crate::File::pin`]). While it is held,
/// the page stays in memory and nobody changes it: a write to the page, or a truncation before it,
/// waits until this is dropped. A thread that does so while it holds the page waits for ever.
pub struct PageRef<'a>(pub(crate) Pinned<'a>);

impl Deref for PageRef<'_> {
    type Target = [u8; PAGE];

    #[inline]
    fn deref(&self) -> &[u8; PAGE] {
        self.0.bytes()
    }
}

impl fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageRef")
    }
}

/// A page of a file to be changed in place ([`crate::File::pin_mut`]). It is dirty from the
/// beginning, and until it is dropped no other task reads, writes or syncs it. On drop, the bytes
/// behind the file's end are zeroed again. A thread may hold several pages, and write to others of
/// the file; a thread that truncates or syncs the file while it holds a page waits for ever.
/// [`crate::Cache::shutdown`] waits for [`crate::Config::page_wait`].
pub struct PageMut<'a> {
    mm: &'a LiveMm,
    mapping: u32,
    index: u32,
    // Fields are dropped in this order: the page before the share.
    page: Locked<'a>,
    _share: Share<'a>,
}

impl<'a> PageMut<'a> {
    /// Makes the handle of a locked, dirty page that the program changes, and counts it: such a
    /// page may stay dirty for ever.
    pub(crate) fn new(
        mm: &'a LiveMm,
        (mapping, index): (u32, u32),
        page: Locked<'a>,
        share: Share<'a>,
    ) -> Self {
        mm.world.pages_to_change.fetch_add(1, SeqCst);
        page.in_hand(true);
        Self {
            mm,
            mapping,
            index,
            page,
            _share: share,
        }
    }
}

impl Deref for PageMut<'_> {
    type Target = [u8; PAGE];

    #[inline]
    fn deref(&self) -> &[u8; PAGE] {
        self.page.bytes()
    }
}

impl DerefMut for PageMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8; PAGE] {
        self.page.bytes_mut()
    }
}

impl Drop for PageMut<'_> {
    /// Zeroes the bytes behind the file's end again and uncounts the page; its lock is released
    /// after.
    fn drop(&mut self) {
        let start = u64::from(self.index) * PAGE as u64;
        let end = file::size(self.mm, self.mapping).saturating_sub(start);
        if end < PAGE as u64 {
            self.page.bytes_mut()[end as usize..].fill(0);
        }
        self.page.in_hand(false);
        let w = &self.mm.world;
        if w.pages_to_change.fetch_sub(1, SeqCst) == 1 {
            // The shutdown waits for the last page.
            w.wake(w.hand_queue());
        }
    }
}

impl fmt::Debug for PageMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageMut")
    }
}
