//! Memory of the cache's budget that a program uses for itself, and how the program is asked to
//! return some.
//!
//! A [`Buffer`] holds no file's data and is never written out: there is no swap. A program that
//! keeps objects it could make again (decoded blocks, results, connections) registers a
//! [`crate::Shrinker`]: when memory is short, reclaim asks the shrinker to free a share of its
//! objects, the same share that it takes of the files' pages
//! (docs/reference/shrinkers-and-xfs.md#shrinkers).

use crate::arena::Owned;
use crate::class;
use crate::error::{Error, OutOfMemory};
use crate::inner::Inner;
use crate::page_size::PAGE;
use mm::memory::gfp::Gfp;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The largest buffer in bytes: eight pages, up to which the engine's allocator retries instead of
/// failing (`PAGE_ALLOC_COSTLY_ORDER`).
pub(crate) const MOST_BYTES: usize = PAGE << 3;

/// The registration of a [`crate::Shrinker`], which ends when this is dropped. A call of the
/// shrinker by another thread at that moment still runs to its end.
pub struct Registration {
    pub(crate) inner: Arc<Inner>,
    pub(crate) number: u32,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.inner.born.elsewhere() {
            self.inner.mm.world.shrinkers.remove(self.number);
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({})", self.number)
    }
}

/// Memory of the cache's budget ([`crate::Cache::buffer`]), zeroed at first and freed on drop.
pub struct Buffer {
    inner: Arc<Inner>,
    /// `None` only during drop.
    owned: Option<Owned>,
    len: usize,
}

impl Buffer {
    /// Allocates a buffer of `len` bytes from a class of memory; see [`crate::Cache::buffer`].
    /// `len` is in bytes; the memory is rounded up to 1, 2, 4 or 8 pages. Waits for reclaim if
    /// needed.
    pub(crate) fn new(inner: &Arc<Inner>, len: usize, class: usize) -> Result<Self, Error> {
        if !(1..=MOST_BYTES).contains(&len) {
            return Err(Error::BufferSize(len));
        }
        let order = len.div_ceil(PAGE).next_power_of_two().trailing_zeros();
        let classes = inner.mm.zones.len();
        if class >= classes {
            return Err(Error::NoClass { class, classes });
        }
        let gfp = match classes {
            1 => Gfp::USER,
            _ => class::asked(Gfp::USER, class, classes),
        };
        let owned = inner.call(async {
            let w = &inner.mm.world;
            // Counted inside the call: a thread that is out of memory reports these pages as
            // buffers.
            let owned = Owned::alloc(&inner.mm, gfp, order).await;
            let owned = owned.map_err(|OutOfMemory| Error::OutOfMemory)?;
            w.buffer_pages.fetch_add(1 << order, SeqCst);
            Ok(owned)
        })?;
        let mut buffer = Self {
            inner: Arc::clone(inner),
            owned: Some(owned),
            len,
        };
        buffer.fill(0);
        Ok(buffer)
    }

    fn owned(&self) -> &Owned {
        self.owned.as_ref().expect("it is not dropped yet")
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.owned().bytes(&self.inner.mm)[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let owned = self.owned.as_mut().expect("it is not dropped yet");
        &mut owned.bytes_mut(&self.inner.mm)[..self.len]
    }
}

impl Drop for Buffer {
    /// Frees the buffer's pages, which count as reclaimed if a shrinker frees them.
    fn drop(&mut self) {
        let (inner, Some(owned)) = (&self.inner, self.owned.take()) else {
            return;
        };
        let mm = &inner.mm;
        let pages = 1 << owned.order();
        mm.world.buffer_pages.fetch_sub(pages, SeqCst);
        let give = || {
            owned.free(mm);
            mm.mm_account_reclaimed_pages(pages);
        };
        match mm.world.cpus.shrinking() {
            // On a thread that reclaims, the freed page counts as reclaimed by its task.
            true => mm.world.cpus.reenter(give),
            false => inner.as_any_task(give),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}
