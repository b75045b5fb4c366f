//! Files and their extents: the blocks that a file has, those reserved for it, and how a run of its
//! pages gets more.

use super::layout::Layout;
use super::names::Names;
use super::space::{ANYWHERE, Space};
use super::{FsKind, State};
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::DiskSpec;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Upper bound of the delay after mounting before background initialisation begins, in nanoseconds
/// (`EXT4_DEF_LI_MAX_START_DELAY`, 5 s).
const START_DELAY: u64 = 5_000_000_000;

/// A run of a file's pages that are contiguous on disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub index: u32,
    pub len: u32,
    pub block: u64,
}

/// A file's extents in order of page index. Most files have one, which needs no heap memory.
pub(super) type Extents = SmallVec<[Extent; 1]>;

/// A run of a file's pages that no extent holds.
struct Hole {
    len: u32,
    /// The blocks reserved for the file.
    reserve: Option<Extent>,
    /// Where to look for blocks: the group of its directory, and the block after the last extent
    /// before the hole (`goal`; 0: there is none).
    group: u32,
    goal: u64,
}

/// The size of an allocation around a first page that needs blocks, in pages.
pub(super) struct Ahead {
    /// Pages before the first one that get their blocks with it.
    pub before: u32,
    /// Dirty pages from the first one on: they get their blocks now.
    pub need: u32,
    /// Pages from the first one on to reserve blocks for, at least `need`.
    pub want: u32,
}

impl Ahead {
    /// Makes the size of an allocation for the `len` pages that need blocks, and for no others.
    pub fn none(len: u32) -> Self {
        Self {
            before: 0,
            need: len,
            want: len,
        }
    }
}

/// A file's place on disk.
#[derive(Debug, Default)]
pub(super) struct Place {
    extents: Extents,
    /// Index in `extents` of the last look-up's result.
    last: usize,
    /// Blocks reserved for pages to come.
    reserve: Option<Extent>,
    /// Pages before this index keep their part of the reserve when the file is closed.
    promised: u32,
    /// Allocation group of its directory.
    pub group: u32,
    /// Number of its directory.
    pub dir: u32,
    /// Place of its inode.
    pub inode: u64,
    /// Number of descriptors open for writing.
    writers: u32,
}

impl Place {
    /// Returns the position in the list of the last extent that begins at or before page `index`;
    /// `None` if all begin behind it. Most often it is that of the last call.
    #[inline]
    fn before(&mut self, index: u32) -> Option<usize> {
        let begins = |i: usize| self.extents.get(i).is_some_and(|e| e.index <= index);
        if !begins(self.last) || begins(self.last + 1) {
            let behind = self.extents.partition_point(|e| e.index <= index);
            self.last = behind.checked_sub(1)?;
        }
        Some(self.last)
    }

    /// Returns the block of page `index` and the number of contiguous pages from it on. If the page
    /// has no block, the error is the hole, cut to `len` pages, with what an allocation needs.
    fn find_run(&mut self, index: u32, len: u32) -> Result<(u64, u32), Hole> {
        let before = self.before(index);
        let last = before.map(|at| self.extents[at]);
        if let Some(e) = last
            && index - e.index < e.len
        {
            let skip = index - e.index;
            return Ok((e.block + u64::from(skip), e.len - skip));
        }
        let next = self.extents.get(before.map_or(0, |at| at + 1));
        Err(Hole {
            len: next.map_or(len, |next| len.min(next.index - index)),
            reserve: self.reserve,
            group: self.group,
            goal: last.map_or(0, |e| e.block + u64::from(e.len)),
        })
    }

    /// Adds an extent for pages of the file that have none, in order of page index, merging it with
    /// the one before where both pages and blocks are contiguous.
    fn add(&mut self, new: Extent) {
        let list = &mut self.extents;
        let i = list.partition_point(|e| e.index <= new.index);
        if let Some(last) = i.checked_sub(1).map(|i| &mut list[i])
            && last.index + last.len == new.index
            && last.block + u64::from(last.len) == new.block
        {
            last.len += new.len;
            return;
        }
        list.insert(i, new);
    }

    /// Returns the place of an empty file.
    pub fn of(group: u32, dir: u32, inode: u64) -> Self {
        Self {
            group,
            dir,
            inode,
            ..Self::default()
        }
    }
}

/// A directory; number 0 is the root of its filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirId {
    /// Index of the filesystem, in the order of mounting.
    pub fs: u32,
    /// Its number within the filesystem.
    pub number: u32,
}

impl DirId {
    /// Returns the root directory of a filesystem.
    pub fn root(fs: u32) -> Self {
        Self { fs, number: 0 }
    }
}

/// A filesystem and its state.
pub struct Fs {
    /// The volume that it lies on.
    pub volume: u32,
    /// Number of its volume's bdi.
    pub bdi: Cell<u32>,
    kind: FsKind,
    /// The model with its own state.
    pub(super) state: State,
    /// Number of its superblock in the engine.
    pub(super) sb: Cell<u32>,
    files: RefCell<Vec<Place>>,
    pub(super) layout: Layout,
    pub(super) space: Space,
    pub(super) names: Names,
    /// Ends of writeback whose new extents are to be converted ([`super::ioend`]).
    pub(super) conversions: RefCell<VecDeque<u32>>,
    /// When its background initialisation begins, in nanoseconds after mounting.
    pub(super) initialised_at: u64,
    /// True if allocations look ahead (`fs_look_ahead`).
    pub(super) look_ahead: bool,
    /// Maximum number of pages in a read-ahead window.
    pub(super) read_ahead: u32,
    on_demand: bool,
}

impl Fs {
    /// Makes an empty filesystem on `volume`, of whose disk it has `capacity` blocks. `read_ahead`
    /// is its window in pages; with `on_demand`, reads open windows on demand.
    pub fn new(
        kind: FsKind,
        disk: &DiskSpec,
        volume: u32,
        capacity: u64,
        (read_ahead, on_demand): (u32, bool),
        p: &Params,
        rng: &mut Rng,
    ) -> Self {
        // The first data block differs from one mkfs to the next, by whole MiB: partitions and
        // allocation groups are aligned.
        let about = kind.about();
        let capacity = capacity.min(about.most_blocks);
        let layout = (about.layout)(capacity, p);
        let spread = layout.spread(capacity, p.fs_layout_spread as u64);
        let start = layout.blocks() + rng.below(spread.div_ceil(256).max(1)) * 256;
        let groups = (about.groups)(capacity, disk, p);
        Self {
            volume,
            bdi: Cell::new(0),
            kind,
            state: State::new(kind, p, layout),
            sb: Cell::new(0),
            files: RefCell::new(Vec::new()),
            layout,
            space: Space::new(start, capacity, groups),
            names: Names::new(layout),
            conversions: RefCell::default(),
            initialised_at: rng.below(START_DELAY),
            look_ahead: p.fs_look_ahead >= 0.5,
            read_ahead,
            on_demand,
        }
    }

    /// Makes allocations look ahead, whatever the parameter `fs_look_ahead` says.
    #[must_use]
    pub fn looking_ahead(mut self) -> Self {
        self.look_ahead = true;
        self
    }

    /// Moves its journal or log to the middle of the filesystem, where mkfs puts it: mke2fs in the
    /// first group with enough free blocks from there on (e2fsprogs lib/ext2fs/mkjournal.c
    /// `get_midp_journal_blk`), mkfs.xfs behind the header of the middle group (xfsprogs
    /// mkfs/xfs_mkfs.c, `logagno`). Where no run of its length is free there, it stays at the
    /// front.
    #[must_use]
    pub fn with_journal_in_middle(self) -> Self {
        let ring = ask!(self, model => model.journal());
        if let Some(ring) = ring {
            let middle = match self.space.group_count() {
                1 => self.layout.capacity() / 2,
                groups => self.space.first_block(groups as u32 / 2) + 1,
            };
            let length = u32::try_from(ring.length())
                .expect("a journal of fewer blocks than a file may have");
            if let Some(start) = self.space.take_whole(middle, &ANYWHERE, length) {
                self.space.used(length);
                ring.move_to(start);
            }
        }
        self
    }

    /// Returns its kind.
    pub fn kind(&self) -> FsKind {
        self.kind
    }

    /// Returns true if reads open read-ahead windows on demand.
    pub fn on_demand(&self) -> bool {
        self.on_demand
    }

    /// Calls `f` with a file's place, making an empty one for a file that has none.
    #[inline]
    pub(super) fn with_place<R>(&self, mapping: u32, f: impl FnOnce(&mut Place) -> R) -> R {
        let mut all = self.files.borrow_mut();
        if all.len() <= mapping as usize {
            all.resize_with(mapping as usize + 1, Place::default);
        }
        f(&mut all[mapping as usize])
    }

    /// Calls `f` with a file's extents.
    pub(super) fn with_extents<R>(&self, mapping: u32, f: impl FnOnce(&mut Extents) -> R) -> R {
        self.with_place(mapping, |p| f(&mut p.extents))
    }

    /// Returns the block of a page and the number of contiguous pages from it on; `None`: the page
    /// lies in a hole.
    pub(super) fn mapped(&self, mapping: u32, index: u32) -> Option<(u64, u32)> {
        self.with_place(mapping, |p| {
            let at = p.before(index)?;
            let e = p.extents[at];
            let skip = index - e.index;
            (skip < e.len).then(|| (e.block + u64::from(skip), e.len - skip))
        })
    }

    /// Returns how many of `most` pages from `index` on have no block, up to the first that has
    /// one.
    pub(super) fn unplaced(&self, mapping: u32, (index, most): (u32, u32)) -> u32 {
        self.with_place(mapping, |p| match p.find_run(index, most) {
            Ok(_) => 0,
            Err(hole) => hole.len,
        })
    }

    /// Returns how many of `most` pages from `index` on have contiguous blocks.
    pub(super) fn mapped_of(&self, mapping: u32, index: u32, most: u32) -> u32 {
        let run = self.mapped(mapping, index);
        run.map_or(0, |(_, pages)| pages.min(most))
    }

    /// Returns the length of the hole at `index` in pages, at most `len`.
    pub(super) fn hole(&self, mapping: u32, index: u32, len: u32) -> u32 {
        self.with_extents(mapping, |list| {
            let i = list.partition_point(|e| e.index <= index);
            list.get(i).map_or(len, |next| len.min(next.index - index))
        })
    }

    /// Returns the number of pages right before `index` that no extent holds: 0 if the page before
    /// has a block.
    pub(super) fn hole_before(&self, mapping: u32, index: u32) -> u32 {
        self.with_place(mapping, |p| {
            let last = p.before(index).map(|at| p.extents[at]);
            index - last.map_or(0, |e| (e.index + e.len).min(index))
        })
    }

    /// Reserves up to `want` contiguous blocks, or at least `need`, where the filesystem looks for
    /// them: in the directory's `group`, near block `goal`. Takes other files' reserves back, and
    /// then any run left, before it gives up. Returns the first block and the number taken; `None`:
    /// the disk is full.
    pub(super) fn take_blocks_near(
        &self,
        group: u32,
        goal: u64,
        want: u32,
        need: u32,
    ) -> Option<(u64, u32)> {
        if self.free_blocks() == 0 {
            return None;
        }
        let space = &self.space;
        let take = || ask!(self, model => model.take_blocks(space, group, goal, want, need));
        take().or_else(|| {
            // Blocks may be left only in the reserves of other files.
            let files = self.files.borrow().len() as u32;
            for mapping in 0..files {
                self.drop_reserve(mapping, 0);
            }
            // The remaining runs are taken as they are.
            take().or_else(|| space.take_rest(want.max(need)))
        })
    }

    /// Allocates up to `len` contiguous blocks, from a group where the filesystem has groups.
    /// Returns the first block and the number taken.
    pub(super) fn take_blocks(&self, group: u32, len: u32) -> Option<(u64, u32)> {
        let (block, n) = self.take_blocks_near(group, 0, len, len)?;
        self.space.used(n);
        Some((block, n))
    }

    /// Gives back the blocks reserved for a file's pages from page `keep` on.
    fn drop_reserve(&self, mapping: u32, keep: u32) {
        let dropped = self.with_place(mapping, |p| {
            let r = p.reserve.take()?;
            let kept = keep.saturating_sub(r.index).min(r.len);
            p.reserve = (kept > 0).then_some(Extent { len: kept, ..r });
            Some((r.block + u64::from(kept), r.len - kept))
        });
        if let Some((block, len)) = dropped {
            self.space.put_back(block, len);
        }
    }

    /// Records an extent of a file.
    pub(super) fn add_extent(&self, mapping: u32, new: Extent) {
        self.with_place(mapping, |p| p.add(new));
    }

    /// Returns the first contiguous piece of a run of pages, as block and length, allocating blocks
    /// if it is a hole. `None`: the device is full.
    pub(super) fn map_run(&self, mapping: u32, index: u32, len: u32) -> Option<(u64, u32)> {
        self.map_ahead(mapping, index, len, || Ahead::none(len))
    }

    /// Returns the first contiguous piece of the pages from `index` on, as block and length, at
    /// most `len`. A hole gets as many blocks as `ahead` says, and those not used now are reserved
    /// for the pages that follow. `None`: the device is full.
    pub(super) fn map_ahead(
        &self,
        mapping: u32,
        index: u32,
        len: u32,
        ahead: impl FnOnce() -> Ahead,
    ) -> Option<(u64, u32)> {
        let hole = match self.with_place(mapping, |p| p.find_run(index, len)) {
            Ok((block, n)) => return Some((block, n.min(len))),
            Err(hole) => hole,
        };
        let len = hole.len;
        let mut promised = None;
        let reserve = match hole.reserve {
            Some(r) if r.index <= index && index - r.index < r.len => r,
            other => {
                if self.free_blocks() == 0 {
                    return None;
                }
                if other.is_some() {
                    self.drop_reserve(mapping, 0);
                }
                let ahead = ahead();
                let need = ahead.need.max(len);
                promised = Some(index.saturating_add(need));
                self.take_around(mapping, index, &hole, Ahead { need, ..ahead })?
            }
        };
        let reserve = self.place_before(mapping, index, reserve);
        let n = len.min(reserve.len);
        let block = reserve.block;
        let rest = Extent {
            index: index.saturating_add(n),
            len: reserve.len - n,
            block: block + u64::from(n),
        };
        self.space.used(n);
        self.with_place(mapping, |p| {
            p.reserve = (rest.len > 0).then_some(rest);
            p.promised = promised.unwrap_or(p.promised);
            p.add(Extent {
                index,
                len: n,
                block,
            });
        });
        Some((block, n))
    }

    /// Reserves blocks for page `index` of a file and the pages around it, in the place that `hole`
    /// suggests. Where these are not contiguous, the pages before `index` get theirs first, piece
    /// by piece. Returns the reserve that contains page `index`; `None`: the device is full.
    fn take_around(&self, mapping: u32, index: u32, hole: &Hole, ahead: Ahead) -> Option<Extent> {
        let (mut first, mut goal) = (index - ahead.before, hole.goal);
        loop {
            let before = index - first;
            let (want, need) = (ahead.want.saturating_add(before), ahead.need + before);
            let (block, len) = self.take_blocks_near(hole.group, goal, want, need)?;
            let taken = Extent {
                index: first,
                len,
                block,
            };
            if len > before {
                return Some(taken);
            }
            self.space.used(len);
            self.add_extent(mapping, taken);
            (first, goal) = (first + len, block + u64::from(len));
        }
    }

    /// Gives the pages before `index` their blocks of a reserve that begins before it; returns the
    /// rest of the reserve, from `index` on.
    fn place_before(&self, mapping: u32, index: u32, reserve: Extent) -> Extent {
        let before = index - reserve.index;
        if before > 0 {
            self.space.used(before);
            let len = before;
            self.add_extent(mapping, Extent { len, ..reserve });
        }
        Extent {
            index,
            len: reserve.len - before,
            block: reserve.block + u64::from(before),
        }
    }

    /// Returns true if a descriptor of a file is open for writing.
    pub(super) fn open_for_writing(&self, mapping: u32) -> bool {
        self.with_place(mapping, |p| p.writers > 0)
    }

    /// Counts one more descriptor of a file that is open for writing.
    pub fn opened(&self, mapping: u32) {
        self.with_place(mapping, |p| p.writers += 1);
    }

    /// Counts one less descriptor of a file that is open for writing. The last close gives back
    /// reserved blocks: those behind the file's end (xfs) or those not needed yet (ext4). `size`:
    /// the file's length in bytes.
    pub fn closed(&self, mapping: u32, size: u64) {
        let (last, promised) = self.with_place(mapping, |p| {
            p.writers = p.writers.saturating_sub(1);
            (p.writers == 0, p.promised)
        });
        if last {
            let end = size.div_ceil(4096).min(u64::from(u32::MAX)) as u32;
            let keep = ask!(self, model => model.kept_at_close(end, promised));
            self.drop_reserve(mapping, keep);
        }
    }

    /// Gives back what is reserved for a file and drops its extents.
    pub(super) fn forget(&self, mapping: u32) {
        self.drop_reserve(mapping, 0);
        self.with_extents(mapping, |list| *list = Extents::new());
    }

    /// Returns the number of free blocks, reserved ones included.
    pub fn free_blocks(&self) -> u64 {
        self.space.unused()
    }
}

#[cfg(test)]
mod tests {
    use super::super::DEVICE;
    use super::*;
    use crate::spec::{DiskKind, Size};

    /// Writes two files of 2560 pages in different directories, 32 pages of each in turn, with an
    /// allocation that looks `want` pages ahead; then closes them at their length. Returns the
    /// filesystem and the extents.
    fn side_by_side(kind: FsKind, want: u32) -> (Fs, [Vec<Extent>; 2]) {
        let disk = DiskSpec::new(DiskKind::Raid0, Size(64 << 30));
        let mut rng = Rng::new(1, "filesystem layout");
        let fs = Fs::new(
            kind,
            &disk,
            DEVICE,
            1 << 24,
            (32, false),
            &Params::default(),
            &mut rng,
        );
        for file in 0..2 {
            fs.opened(file);
            let group = fs.space.next_group(); // always 0 where there is one
            fs.with_place(file, |p| p.group = group);
        }
        for index in (0..2560).step_by(32) {
            for file in 0..2 {
                let ahead = || Ahead {
                    before: 0,
                    need: 32,
                    want,
                };
                let (_, n) = fs.map_ahead(file, index, 32, ahead).expect("room");
                assert_eq!(n, 32);
            }
        }
        let extents = [0, 1].map(|file| {
            fs.closed(file, 2560 * 4096);
            fs.with_extents(file, |e| e.to_vec())
        });
        (fs, extents)
    }

    #[test]
    fn directories_of_xfs_keep_files_apart() {
        let (fs, [a, b]) = side_by_side(FsKind::Xfs, 32);
        assert_eq!((a.len(), b.len()), (1, 1));
        assert!(a[0].block < 1 << 20 && b[0].block == 1 << 20, "{a:?} {b:?}");
        let before = fs.free_blocks();
        let (ahead, again) = side_by_side(FsKind::Xfs, 4096);
        assert_eq!((again[0].len(), ahead.free_blocks()), (1, before));
        // Blocks preallocated behind the end are free for the next file.
        let next = ahead.map_run(1, 2560, 1).expect("room");
        assert_eq!(next.0, again[1][0].block + 2560);
    }

    #[test]
    fn chunks_of_ext4_decide_how_finely_files_interleave() {
        for (want, extents) in [(32, 80), (512, 5), (2560, 1)] {
            let (_, [a, b]) = side_by_side(FsKind::Ext4, want);
            assert_eq!((a.len(), b.len()), (extents, extents), "{want} pages ahead");
            assert_eq!(a[0].block + u64::from(want), b[0].block);
            assert_eq!(a.iter().map(|e| e.len).sum::<u32>(), 2560);
        }
    }

    /// A page in the middle of a reserve is written first: the pages before it keep their place.
    #[test]
    fn a_page_in_the_middle_of_a_delayed_extent() {
        let (fs, _) = side_by_side(FsKind::Xfs, 32);
        let ahead = |need, want| {
            move || Ahead {
                before: 0,
                need,
                want,
            }
        };
        let (first, _) = fs.map_ahead(5, 0, 8, ahead(100, 100)).expect("room");
        let middle = fs.map_ahead(5, 50, 1, ahead(1, 1)).expect("room");
        assert_eq!(middle, (first + 50, 1));
        assert_eq!(fs.map_run(5, 8, 32), Some((first + 8, 32)));
        assert_eq!(fs.map_run(5, 51, 32), Some((first + 51, 32)));
    }

    /// A delayed extent is placed with its first page first, even if a later page is written first.
    #[test]
    fn a_delayed_extent_is_placed_from_its_first_page_on() {
        let (fs, _) = side_by_side(FsKind::Xfs, 32);
        fs.add_extent(
            5,
            Extent {
                index: 0,
                len: 10,
                block: 7,
            },
        );
        assert_eq!((fs.hole_before(5, 60), fs.hole_before(5, 10)), (50, 0));
        assert_eq!((fs.hole_before(5, 4), fs.hole_before(6, 9)), (0, 9));
        let ahead = || Ahead {
            before: 50,
            need: 40,
            want: 40,
        };
        let free = fs.free_blocks();
        let (at, n) = fs.map_ahead(5, 60, 1, ahead).expect("room");
        assert_eq!(n, 1);
        assert_eq!(fs.mapped(5, 10), Some((at - 50, 51)));
        assert_eq!(fs.map_run(5, 61, 39), Some((at + 1, 39)));
        assert_eq!(fs.free_blocks(), free - 90);
        // Where the blocks are not contiguous, the first pieces go to the pages in front.
        let disk = DiskSpec::new(DiskKind::Disk, Size(64 << 20));
        let (p, mut rng) = (Params::default(), Rng::new(1, "filesystem layout"));
        let fs = Fs::new(
            FsKind::Xfs,
            &disk,
            DEVICE,
            1 << 14,
            (32, false),
            &p,
            &mut rng,
        );
        let runs: Vec<_> = std::iter::from_fn(|| fs.space.take_in_group(0, 0, 64, 64)).collect();
        for run in runs.iter().step_by(2) {
            fs.space.put_back(run.0, run.1);
        }
        let ahead = || Ahead {
            before: 100,
            need: 20,
            want: 20,
        };
        let (at, _) = fs.map_ahead(0, 100, 1, ahead).expect("room");
        let extents = fs.with_extents(0, |e| e.to_vec());
        let lens: Vec<u32> = extents.iter().map(|e| e.len).collect();
        assert_eq!(extents[0].index, 0);
        assert!(
            extents.len() > 1 && lens.iter().sum::<u32>() == 101,
            "{lens:?}"
        );
        assert_eq!(fs.mapped(0, 100), Some((at, 1)));
    }
}
