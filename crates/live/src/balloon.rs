//! Pages that are taken out of a cache and given back to the system: to change its memory while it
//! runs, and so that buffers which the cache holds outside of its pages count in its budget.
//!
//! The pages are allocated from the engine, which reclaims others for them as for any allocation,
//! and the system frees what they hold (`MADV_DONTNEED`). They are neither free nor of a file, so
//! that watermarks, dirty limits and lists follow.

use crate::LiveMm;
use crate::arena::Owned;
use crate::error::{Error, OutOfMemory};
use crate::inner::Inner;
use mm::memory::gfp::Gfp;
use mm::world::Tasks;
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// The pages that are taken out of a cache.
#[derive(Default)]
pub(crate) struct Balloon {
    pages: Mutex<Vec<Owned>>,
    /// Pages for buffers, and pages by which [`crate::Cache::set_memory`] makes the cache smaller.
    buffers: AtomicU64,
    smaller: AtomicU64,
}

impl Balloon {
    /// Takes `pages` pages out for buffers, and never gives them back.
    ///
    /// # Errors
    /// As [`Balloon::smaller`].
    pub fn for_buffers(&self, inner: &Inner, pages: u64) -> Result<(), Error> {
        self.buffers.store(pages, SeqCst);
        self.fit(inner)
    }

    /// Makes the cache smaller by `pages` pages in all.
    ///
    /// # Errors
    /// Nothing can be reclaimed, or the cache cannot be used; the cache is then as small as it
    /// became.
    pub fn smaller(&self, inner: &Inner, pages: u64) -> Result<(), Error> {
        self.smaller.store(pages, SeqCst);
        self.fit(inner)
    }

    /// Gives all pages back; for the end of the cache.
    pub fn end(&self, inner: &Inner) {
        let pages = std::mem::take(&mut *self.pages.lock());
        inner.mm.world.pages_out.store(0, SeqCst);
        inner.as_any_task(|| pages.into_iter().for_each(|p| p.free(&inner.mm)));
    }

    /// Takes pages out or gives them back, until as many are out as are wanted.
    fn fit(&self, inner: &Inner) -> Result<(), Error> {
        loop {
            let mut pages = self.pages.lock();
            let wanted = self.buffers.load(SeqCst) + self.smaller.load(SeqCst);
            let out = pages.len() as u64;
            if out > wanted {
                let back = pages.split_off(wanted as usize);
                drop(pages);
                inner.mm.world.pages_out.fetch_sub(out - wanted, SeqCst);
                inner.as_any_task(|| back.into_iter().for_each(|p| p.free(&inner.mm)));
            } else if out < wanted {
                drop(pages);
                let page = inner.call(take(&inner.mm))?;
                self.pages.lock().push(page);
                inner.mm.world.pages_out.fetch_add(1, SeqCst);
            } else {
                return Ok(());
            }
        }
    }
}

/// Allocates a page and has the system free its memory.
async fn take(mm: &LiveMm) -> Result<Owned, Error> {
    let page = Owned::alloc(mm, Gfp::USER, 0).await;
    let mut page = page.map_err(|OutOfMemory| Error::OutOfMemory)?;
    page.release(mm);
    Tasks::relax(&mm.world).await;
    Ok(page)
}
