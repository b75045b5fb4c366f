//! Page cache statistics: pages asked for and found, and pages read from the device again. Recorded
//! only if a workload reports them.

use std::cell::{Cell, RefCell};

/// Number of pages in a chunk of the map.
const CHUNK: u32 = 1 << 15;

/// A chunk of the map: one bit for each page.
type Chunk = Box<[u64; CHUNK as usize / 64]>;

/// Where a call found a page that it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// In the cache, or on its way there, because an earlier call had asked for it.
    Cached,
    /// In the cache, or on its way there, only because an earlier call read it ahead: this call is
    /// the first to ask for it.
    ReadAhead,
    /// Not in the cache: this call has brought it in itself.
    Missing,
}

/// The statistics, in pages.
#[derive(Default)]
pub struct Reuse {
    on: Cell<bool>,
    /// Pages that reads asked for.
    pub read: Cell<u64>,
    /// Pages of `read` that an earlier call had asked for and that were still cached, or on their
    /// way into the cache.
    pub read_found: Cell<u64>,
    /// Pages of `read` that were there only because they had been read ahead.
    pub read_ahead: Cell<u64>,
    /// Pages that writes touched.
    pub written: Cell<u64>,
    /// As `read_found`, of writes.
    pub written_found: Cell<u64>,
    /// As `read_ahead`, of writes.
    pub written_ahead: Cell<u64>,
    /// Pages read from the device.
    pub fetched: Cell<u64>,
    /// Pages read from the device that had been in the cache before.
    pub fetched_again: Cell<u64>,
    /// Pages that were ever in the cache.
    known: RefCell<PageSet>,
}

/// A set of pages of files, one bit each.
#[derive(Default)]
pub(super) struct PageSet(Vec<Vec<Option<Chunk>>>);

impl PageSet {
    /// Adds a page; returns true if it was in the set.
    pub fn insert(&mut self, mapping: u32, index: u32) -> bool {
        if self.0.len() <= mapping as usize {
            self.0.resize_with(mapping as usize + 1, Vec::new);
        }
        let chunks = &mut self.0[mapping as usize];
        let at = (index / CHUNK) as usize;
        if chunks.len() <= at {
            chunks.resize_with(at + 1, || None);
        }
        let chunk = chunks[at].get_or_insert_with(|| Box::new([0; CHUNK as usize / 64]));
        let word = &mut chunk[(index % CHUNK / 64) as usize];
        let bit = 1 << (index % 64);
        let before = *word & bit != 0;
        *word |= bit;
        before
    }

    /// Removes a page; returns true if it was in the set.
    pub fn remove(&mut self, mapping: u32, index: u32) -> bool {
        let chunks = self.0.get_mut(mapping as usize);
        let chunk = chunks.and_then(|c| c.get_mut((index / CHUNK) as usize));
        let Some(Some(chunk)) = chunk else {
            return false;
        };
        let word = &mut chunk[(index % CHUNK / 64) as usize];
        let bit = 1 << (index % 64);
        let before = *word & bit != 0;
        *word &= !bit;
        before
    }

    /// Removes all pages of a file.
    pub fn forget(&mut self, mapping: u32) {
        if let Some(chunks) = self.0.get_mut(mapping as usize) {
            chunks.clear();
        }
    }
}

fn add(counter: &Cell<u64>, n: u64) {
    counter.set(counter.get() + n);
}

impl Reuse {
    /// Starts counting.
    pub fn start(&self) {
        self.on.set(true);
    }

    /// Returns true if pages are counted.
    #[inline(always)]
    pub fn on(&self) -> bool {
        self.on.get()
    }

    /// Counts a page that a read has got, by where the read found it.
    pub(super) fn asked(&self, found: Found) {
        add(&self.read, 1);
        add(&self.read_found, u64::from(found == Found::Cached));
        add(&self.read_ahead, u64::from(found == Found::ReadAhead));
    }

    /// Counts a page that a write has got, by where the write found it; a missing one has been in
    /// the cache from now on.
    pub(super) fn written(&self, mapping: u32, index: u32, found: Found) {
        add(&self.written, 1);
        add(&self.written_found, u64::from(found == Found::Cached));
        add(&self.written_ahead, u64::from(found == Found::ReadAhead));
        if found == Found::Missing {
            self.know(mapping, index);
        }
    }

    /// Counts `n` pages from `index` on that are read from the device, and those of them that had
    /// been in the cache before. Does nothing unless pages are counted.
    pub(super) fn fetched(&self, mapping: u32, index: u32, n: u32) {
        if self.on() {
            add(&self.fetched, u64::from(n));
            for i in index..index + n {
                add(&self.fetched_again, u64::from(self.know(mapping, i)));
            }
        }
    }

    /// Forgets the pages of a file that is removed.
    pub(super) fn forget(&self, mapping: u32) {
        self.known.borrow_mut().forget(mapping);
    }

    /// Marks a page as having been cached; returns true if it was marked.
    fn know(&self, mapping: u32, index: u32) -> bool {
        self.known.borrow_mut().insert(mapping, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_comes_again_only_after_it_was_there() {
        let r = Reuse::default();
        r.fetched(3, 0, 10);
        assert_eq!(r.fetched.get(), 0);
        r.start();
        r.fetched(3, CHUNK - 2, 4);
        assert_eq!(r.fetched_again.get(), 0);
        r.fetched(3, CHUNK, 4);
        assert_eq!((r.fetched.get(), r.fetched_again.get()), (8, 2));
        r.written(0, 7, Found::Missing);
        r.fetched(0, 7, 1);
        assert_eq!(r.fetched_again.get(), 3);
        r.forget(3);
        r.fetched(3, CHUNK, 4);
        assert_eq!(r.fetched_again.get(), 3);
    }
}
