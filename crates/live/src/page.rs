//! Pages of a cache in a program's hands.

use crate::LiveMm;
use crate::arena::{Locked, PAGE, Pinned};
use crate::file;
use crate::open_file::Share;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::SeqCst;

/// A page of a file to read where it lies, without a copy ([`crate::File::pin`]). As long as it is
/// held the page stays in memory and nobody changes it: who writes the page, or cuts the file in front
/// of it, waits until it is dropped. A thread that does so with a page of its own waits for ever.
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

/// A page of a file to change where it lies ([`crate::File::pin_mut`]). It is dirty from the beginning
/// and nobody else reads, writes or syncs it until it is dropped. What is written behind the file's
/// end is zero then, as if it had not been.
pub struct PageMut<'a> {
    mm: &'a LiveMm,
    mapping: u32,
    index: u32,
    // Dropped in this order: the page first.
    page: Locked<'a>,
    _share: Share<'a>,
}

impl<'a> PageMut<'a> {
    pub(crate) fn new(
        mm: &'a LiveMm,
        (mapping, index): (u32, u32),
        page: Locked<'a>,
        share: Share<'a>,
    ) -> Self {
        mm.world.pages_to_change.fetch_add(1, SeqCst);
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
    fn drop(&mut self) {
        let start = u64::from(self.index) * PAGE as u64;
        let end = file::size(self.mm, self.mapping).saturating_sub(start);
        if end < PAGE as u64 {
            self.page.bytes_mut()[end as usize..].fill(0);
        }
        self.mm.world.pages_to_change.fetch_sub(1, SeqCst);
    }
}

impl fmt::Debug for PageMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageMut")
    }
}
