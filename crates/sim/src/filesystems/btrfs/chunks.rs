//! Chunks of data by the size of extents (Linux 6.3 fs/btrfs/block-group.c
//! `btrfs_calc_block_group_size_class`; `btrfs_writeback = "by-size"`): small, medium and large
//! extents have separate chunks, so that a file written in pieces of about 8 MiB is later read from
//! two places in turn.
//!
//! A chunk takes the size class of its first extent. An extent is placed behind the file's other
//! blocks if their chunk has its size class, else in the longest free run of the first chunk of
//! that class; then a new chunk is begun. Where no space is left for new chunks, sizes mix
//! (fs/btrfs/extent-tree.c `find_free_extent`).

use super::super::Fs;
use super::super::files::{Extent, Extents};
use std::cell::RefCell;
use std::ops::Range;

/// Pages of the largest small and the largest medium extent: 128 KiB, 8 MiB.
const SMALL: u64 = 32;
const MEDIUM: u64 = 2048;
/// Number of size classes other than that of most data.
const OTHERS: u64 = 2;
/// Blocks of the largest chunk: 1 GiB.
const MOST: u64 = (1 << 30) / 4096;

/// The size class of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Small,
    Medium,
    Large,
}

impl Size {
    /// Returns the class of an extent of `pages` pages.
    fn of(pages: u64) -> Self {
        if pages <= SMALL {
            Self::Small
        } else if pages <= MEDIUM {
            Self::Medium
        } else {
            Self::Large
        }
    }
}

/// Returns the blocks of a chunk on a disk of `disk` blocks: a tenth of it, at most 1 GiB.
pub(super) fn blocks(disk: u64) -> u64 {
    MOST.min(disk / 10).max(1)
}

/// The chunks in order of place, with their size classes; `None`: not begun.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    sizes: RefCell<Vec<Option<Size>>>,
}

impl Chunks {
    /// Returns the blocks of the data chunk `nth`, cut off at the disk's end (then empty).
    fn blocks_of(fs: &Fs, nth: usize) -> Range<u64> {
        let (disk, chunk) = (fs.layout.capacity(), blocks(fs.layout.capacity()));
        let first = fs.layout.blocks() + nth as u64 * chunk;
        first.min(disk)..(first + chunk).min(disk)
    }

    /// Returns the chunk that a block lies in; `None` for blocks in front of all chunks.
    fn chunk_of(fs: &Fs, block: u64) -> Option<usize> {
        let from = block.checked_sub(fs.layout.blocks())?;
        Some((from / blocks(fs.layout.capacity())) as usize)
    }

    /// Notes the size class of the chunks in which a file of `pages` pages lies that was written
    /// before mounting, from `block` on. Where its writing paused, an extent of medium size was
    /// written, which has a chunk of its own.
    pub fn laid_out(&self, fs: &Fs, block: u64, pages: u64) {
        let last = block + pages.max(1) - 1;
        let (Some(first), Some(last)) = (Self::chunk_of(fs, block), Self::chunk_of(fs, last))
        else {
            return;
        };
        let sizes = &mut *self.sizes.borrow_mut();
        sizes.resize(sizes.len().max(last + 1), None);
        let size_class = Size::of(pages);
        for size in &mut sizes[first..=last] {
            size.get_or_insert(size_class);
        }
        if size_class == Size::Large && !sizes.contains(&Some(Size::Medium)) {
            sizes.push(Some(Size::Medium));
        }
    }

    /// Returns the number of chunks that data occupy on a disk of `disk` blocks, `used` of them in
    /// use: chunks that are empty again are given back, except one begun for each other size class.
    pub fn held(&self, disk: u64, used: u64) -> u64 {
        let begun = self.sizes.borrow().iter().flatten().count() as u64;
        begun.min(used.div_ceil(blocks(disk)) + OTHERS)
    }

    /// Allocates blocks for an extent of `pages` pages; `own_block`: a block that the file has
    /// already. Looks behind that block first, then in chunks of the extent's size class, then in
    /// chunks without a class, then begins a new chunk. Returns the first block; `None`: no chunk
    /// has such a run.
    pub fn take(&self, fs: &Fs, own_block: Option<u64>, pages: u32) -> Option<u64> {
        let size = Some(Size::of(u64::from(pages)));
        let beside = own_block.and_then(|block| self.take_beside(fs, block, pages));
        if let Some(block) = beside.or_else(|| Some(self.longest(fs, size, pages)?.1)) {
            return Some(block);
        }
        // First chunks without a class, then a new one.
        let (nth, block) = self
            .longest(fs, None, pages)
            .or_else(|| self.begin(fs, pages))?;
        let sizes = &mut *self.sizes.borrow_mut();
        sizes.resize(sizes.len().max(nth + 1), None);
        sizes[nth] = size;
        Some(block)
    }

    /// Allocates behind a block of the file, if that chunk has the extent's size class. Returns the
    /// first block; `None`: another class, or no such run is free there.
    fn take_beside(&self, fs: &Fs, block: u64, pages: u32) -> Option<u64> {
        let nth = Self::chunk_of(fs, block)?;
        let size = *self.sizes.borrow().get(nth)?;
        let fits = size == Some(Size::of(u64::from(pages)));
        fits.then(|| fs.space.take_whole(block, &(block..Self::blocks_of(fs, nth).end), pages))?
    }

    /// Allocates from the longest free run of the first chunk of a size class (`None`: chunks
    /// without a class) that has one of `pages` blocks. Returns chunk and first block; `None`:
    /// there is none.
    fn longest(&self, fs: &Fs, size: Option<Size>, pages: u32) -> Option<(usize, u64)> {
        let sizes = self.sizes.borrow();
        let of_size = (0..sizes.len()).filter(|&n| sizes[n] == size);
        let in_chunk = |n| fs.space.take_longest(&Self::blocks_of(fs, n), pages);
        let mut takes = of_size.map(|n| Some((n, in_chunk(n)?)));
        takes.find_map(|taken| taken)
    }

    /// Begins a new chunk for an extent of `pages` pages. Returns the chunk's number and the first
    /// block taken; `None`: no space is left.
    fn begin(&self, fs: &Fs, pages: u32) -> Option<(usize, u64)> {
        let mut nth = self.sizes.borrow().len();
        loop {
            let place = Self::blocks_of(fs, nth);
            if place.is_empty() {
                return None;
            }
            if let Some(block) = fs.space.take_longest(&place, pages) {
                return Some((nth, block));
            }
            nth += 1;
        }
    }
}

/// Records new blocks for a run of a file's pages, replacing any it had. Returns three counts - the
/// file's extents before, those that the run overlaps, and the pieces of these that remain - and
/// the number of pages up to the end of the file's last extent.
pub(super) fn copy_on_write(
    fs: &Fs,
    mapping: u32,
    index: u32,
    (block, len): (u64, u32),
) -> ((u32, u32, u32), u64) {
    let (from, to) = (u64::from(index), u64::from(index) + u64::from(len));
    // The overwritten part is cut out of the old extents.
    let counts = fs.with_extents(mapping, |list| {
        let end = |e: &Extent| u64::from(e.index) + u64::from(e.len);
        let old = list.partition_point(|e| end(e) <= from)..list.partition_point(|e| u64::from(e.index) < to);
        let mut pieces = Extents::new();
        for e in &list[old.clone()] {
            if u64::from(e.index) < from {
                pieces.push(Extent { len: (from - u64::from(e.index)) as u32, ..*e });
            }
            if end(e) > to {
                let cut = (to - u64::from(e.index)) as u32;
                pieces.push(Extent {
                    index: e.index + cut,
                    len: e.len - cut,
                    block: e.block + u64::from(cut),
                });
            }
        }
        let counts = (list.len() as u32, old.len() as u32, pieces.len() as u32);
        let at = old.start;
        list.drain(old);
        list.insert_many(at, pieces);
        counts
    });
    fs.add_extent(mapping, Extent { index, len, block });
    let pages = fs.with_extents(mapping, |list| list.last().map_or(0, |e| u64::from(e.index) + u64::from(e.len)));
    (counts, pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;
    use crate::rng::Rng;
    use crate::spec::{DiskKind, DiskSpec, FsKind, Size as Bytes};

    fn disk(mib: u64) -> Fs {
        let disk = DiskSpec::new(DiskKind::Disk, Bytes(mib << 20));
        let (p, mut rng) = (Params::default(), Rng::new(1, "chunks"));
        Fs::new(FsKind::Btrfs, &disk, 0, mib << 8, (32, false), &p, &mut rng)
    }

    /// Extents lie among those of their size class, one behind the other; a file's next extent lies
    /// behind its last if the classes match.
    #[test]
    fn each_size_has_its_chunks() {
        let (fs, chunks) = (disk(16 << 10), Chunks::default());
        let take = |own, pages| chunks.take(&fs, own, pages).expect("room");
        let [small, medium, large] = [1, 33, 2049].map(|pages| take(None, pages));
        let chunk = |block| Chunks::chunk_of(&fs, block);
        assert_eq!([small, medium, large].map(chunk), [0, 1, 2].map(Some));
        assert_eq!(take(None, 32), small + 1);
        assert_eq!(take(Some(small), 2048), medium + 33);
        assert_eq!(take(Some(small), 1 << 15), large + 2049);
        // The extent goes behind the file's own, though its chunk has more space elsewhere.
        fs.space.put_back(small, 1);
        assert_eq!(take(None, 1), small + 33);
        assert_eq!(take(Some(small), 1), small);
        // A full chunk is followed by a new one.
        let pages = 1 << 15;
        let blocks: Vec<_> = (0..8).map(|_| take(None, pages)).collect();
        let chunks: Vec<_> = blocks.into_iter().filter_map(chunk).collect();
        assert_eq!(chunks, [2, 2, 2, 2, 2, 2, 3, 3]);
    }

    /// Extents of each size class occupy chunks of their own, and chunks no longer in use are not
    /// counted.
    #[test]
    fn data_have_chunks_by_size() {
        let (fs, chunks) = (disk(16 << 10), Chunks::default());
        let (all, chunk) = (fs.layout.capacity(), blocks(fs.layout.capacity()));
        let held = |used| chunks.held(all, used);
        let from = fs
            .space
            .take_longest(&Chunks::blocks_of(&fs, 0), chunk as u32 / 2)
            .expect("room");
        chunks.laid_out(&fs, from, chunk / 2);
        assert_eq!(held(chunk / 2), 2);
        chunks.take(&fs, None, 2).expect("room");
        assert_eq!(held(chunk / 2), 3);
        (0..3 * chunk / 32).for_each(|_| assert!(chunks.take(&fs, None, 32).is_some()));
        assert_eq!(held(chunk / 2), 3);
        assert_eq!(held(4 * chunk), 6);
    }

    /// A file written before mounting has its chunk, and one for where its writing paused; on a
    /// disk without space for chunks no extent gets one.
    #[test]
    fn a_file_laid_out_has_chunks_and_a_small_disk_few() {
        let (fs, chunks) = (disk(16 << 10), Chunks::default());
        let from = fs.space.take_longest(&Chunks::blocks_of(&fs, 0), 65_536).expect("room");
        chunks.laid_out(&fs, from, 65_536);
        assert_eq!(chunks.take(&fs, None, 4096), Some(from + 65_536));
        let medium = chunks.take(&fs, Some(from), 2048).and_then(|b| Chunks::chunk_of(&fs, b));
        let small = chunks.take(&fs, Some(from), 4).and_then(|b| Chunks::chunk_of(&fs, b));
        assert_eq!((medium, small), (Some(1), Some(2)));
        let (fs, chunks) = (disk(64), Chunks::default());
        let mut got = std::iter::from_fn(|| chunks.take(&fs, None, 1));
        let all = got.by_ref().count();
        assert!(all as u64 <= fs.layout.capacity() && fs.space.take_longest(&(0..1 << 20), 1).is_none());
        assert_eq!(chunks.take(&fs, None, 1), None);
    }
}
