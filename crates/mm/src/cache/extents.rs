//! The memory that btrfs's records of extents take (`extent_maps`): a record for each known extent
//! of a file, and two for each that is being written (Linux fs/btrfs/extent_map.c, ordered-data.c).
//! The records are kept in slabs of [`metadata`].
//!
//! A record is freed with its file's inode. It is also freed when the page at which its extent
//! begins is reclaimed, but not before the transaction that made the extent is committed
//! (`try_release_extent_mapping`), and never if that page has not been in the cache since, as after
//! a write into the middle of an older extent. No shrinker frees records: that of 6.10 counts none
//! unless it is built for debugging.
//!
//! [`metadata`]: crate::cache::metadata

use crate::cache::metadata::Record;
use crate::cache::tree::{SLOTS, page_in};
use crate::policy::ExtentMaps;
use crate::world::{ShortLock, Word32, Word64, World};
use crate::{Mm, NoMemory};

/// The file size in pages above which records of 144 bytes are freed with pages: 16 MiB.
const LARGE: u32 = (16 << 20) / 4096;

/// The records in use; empty if they take no memory.
pub(crate) struct Extents<W: World> {
    form: ExtentMaps,
    /// Known extents of all files, and in `of_file` those of each file.
    maps: W::U32,
    of_file: Box<[W::U32]>,
    /// By leaf, a bit for each page at which an extent begins that is freed with its page: in
    /// `fresh` extents of the running transaction, in `committed` those of earlier ones.
    fresh: Box<[W::U64]>,
    committed: Box<[W::U64]>,
    /// Extents that are being written.
    ordered: W::U32,
}

impl<W: World> Extents<W> {
    /// Makes the records of extents, none in use, for `nodes` tree nodes and `mappings` files;
    /// without tables if `form` says that the records take no memory.
    pub(crate) fn new(form: ExtentMaps, nodes: u32, mappings: u32) -> Result<Self, NoMemory> {
        let what = "the records of extents";
        let [nodes, mappings] = match form {
            ExtentMaps::Free => [0, 0],
            _ => [nodes, mappings].map(|n| n as usize),
        };
        Ok(Self {
            form,
            maps: bytemuck::Zeroable::zeroed(),
            of_file: heap::zeroed(what, mappings)?,
            fresh: heap::zeroed(what, nodes)?,
            committed: heap::zeroed(what, nodes)?,
            ordered: bytemuck::Zeroable::zeroed(),
        })
    }

    /// Returns true if the records take memory.
    #[inline(always)]
    pub(crate) fn kept(&self) -> bool {
        self.form != ExtentMaps::Free
    }

    /// Returns the kind of record that a known extent has in this kernel (they differ in size).
    pub(crate) fn maps(&self) -> Record {
        match self.form {
            ExtentMaps::Wide => Record::WideExtentMap,
            _ => Record::ExtentMap,
        }
    }

    /// Returns true if the policy lets records of the kind `of` exist.
    pub(crate) fn has(&self, of: Record) -> bool {
        let ordered = [Record::OrderedExtent, Record::OrderedBio].contains(&of);
        self.kept() && (of == self.maps() || ordered)
    }

    /// Returns the number of records of the kind `of` in use: for extents being written, for known
    /// extents, or 0 for a kind that this kernel has not.
    pub(crate) fn records(&self, of: Record) -> u32 {
        match of {
            Record::OrderedExtent | Record::OrderedBio => self.ordered.get(),
            of if of == self.maps() => self.maps.get(),
            _ => 0,
        }
    }

    /// Takes `extents` known extents of a file off the counts, at most as many as the file has.
    fn forget(&self, mapping: u32, extents: u32) {
        let file = &self.of_file[mapping as usize];
        let n = extents.min(file.get());
        file.fetch_sub(n);
        self.maps.fetch_sub(n);
    }

    /// Takes off the counts, when pages of a file leave a leaf of its tree, the committed extents
    /// that begin at them (`try_release_extent_mapping`). `bits`: a bit for each page of the leaf
    /// that leaves.
    #[inline(always)]
    pub(crate) fn pages_leave(&self, mapping: u32, leaf: u32, bits: u64) {
        let Some(committed) = self.committed.get(leaf as usize) else {
            return;
        };
        // `gone`: committed extents that begin at these pages; those of `fresh` stay counted.
        let gone = committed.fetch_and(!bits) & bits;
        self.fresh[leaf as usize].fetch_and(!bits);
        if gone != 0 {
            self.forget(mapping, gone.count_ones());
        }
    }

    /// Checks that the files' numbers of known extents add up to the total. Returns a description
    /// of the difference.
    pub(crate) fn check(&self) -> Result<(), String> {
        let found: u32 = self.of_file.iter().map(|n| n.get()).sum();
        let counted = self.maps.get();
        if found != counted {
            return Err(format!("files have {found} extents, {counted} are counted"));
        }
        Ok(())
    }
}

impl<W: World> Mm<W> {
    /// Records that pages of a file from `first` on have a new extent, for the memory that btrfs's
    /// records take. The tuple: the file's extents before, how many of them the new one overlaps,
    /// and how many pieces of these the file keeps. `pages`: length of the file.
    pub fn extent_written(
        &self,
        mapping: u32,
        first: u32,
        (before, overlapped, left): (u32, u32, u32),
        pages: u64,
    ) {
        let extents = &self.metadata.extents;
        if !extents.kept() {
            return;
        }
        debug_assert!(overlapped <= before, "{overlapped} of {before} extents");
        // A write looks up the extents that it overlaps. Which extents are known is not recorded,
        // so the share of known ones is taken to be that of all.
        let known = u64::from(extents.of_file[mapping as usize].get().min(before));
        let were = u64::from(overlapped) * known / u64::from(before.max(1));
        extents.forget(mapping, were as u32);
        extents.of_file[mapping as usize].fetch_add(1 + left);
        extents.maps.fetch_add(1 + left);
        // Only these records are freed when the page at which the extent begins is reclaimed.
        if extents.form != ExtentMaps::Wide || pages > u64::from(LARGE) {
            let m = &self.mappings[mapping as usize];
            m.tree_lock.with(|| {
                let leaf = self.leaf_at(m, first);
                if let Some(leaf) = leaf.filter(|leaf| page_in(leaf.slot(first).get()).is_some()) {
                    extents.fresh[leaf.node as usize].fetch_or(1 << (first & (SLOTS - 1)));
                }
            });
        }
        self.settle(extents.maps());
    }

    /// Marks all extents as belonging to a committed transaction, so that they may be freed with
    /// their pages from now on (`fresh`: bits by leaf of those that were not committed).
    pub fn extents_committed(&self) {
        let extents = &self.metadata.extents;
        debug_assert!(
            extents.fresh.len() == extents.committed.len(),
            "a leaf has both"
        );
        for (fresh, committed) in extents.fresh.iter().zip(&extents.committed) {
            committed.fetch_or(fresh.get());
            fresh.set(0);
        }
    }

    /// Frees the records of all extents of a file whose inode is freed.
    pub fn extents_forgotten(&self, mapping: u32) {
        let extents = &self.metadata.extents;
        if extents.kept() {
            extents.forget(mapping, u32::MAX);
            self.settle(extents.maps());
        }
    }

    /// Adds the records of an extent that is to be written (btrfs's ordered extent and its bio);
    /// they are kept until [`Mm::ordered_ended`].
    pub fn ordered_begun(&self) {
        debug_assert!(
            self.metadata.extents.ordered.get() < u32::MAX,
            "fewer than can be counted"
        );
        if self.metadata.extents.kept() {
            self.metadata.extents.ordered.fetch_add(1);
            self.settle_ordered();
        }
    }

    /// Frees the records of `n` extents whose write has ended ([`Mm::ordered_begun`]).
    pub fn ordered_ended(&self, n: u32) {
        if self.metadata.extents.kept() {
            let before = self.metadata.extents.ordered.fetch_sub(n);
            debug_assert!(before >= n, "{n} of {before} extents ended");
            self.settle_ordered();
        }
    }

    /// Fits the slabs of the records of extents being written to the number in use.
    fn settle_ordered(&self) {
        self.settle(Record::OrderedExtent);
        self.settle(Record::OrderedBio);
    }
}
