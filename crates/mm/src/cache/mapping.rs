//! Files as the engine sees them: an inode with its page index and its place on a flusher's lists.

use super::tree;
use crate::Mm;
use crate::world::{Word32, World};

/// The kind of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MappingKind {
    /// A regular file whose device accounts dirty pages.
    File,
    /// Filesystem metadata (trees, bitmaps, inode tables) cached as pages.
    Meta,
    /// A block device's own page cache.
    BlockDevice,
    /// A file whose filesystem keeps no dirty page here (FUSE without writeback cache).
    WriteThrough,
    /// The swap cache.
    Swap,
}

/// Inode state: has dirty pages.
pub const I_DIRTY_PAGES: u32 = 1;
/// Inode state: metadata is dirty.
pub const I_DIRTY_META: u32 = 2;
/// Inode state: reclaim met a dirty page of it (`reclaim_flush = "inode"`).
pub const I_DIRTY_RECLAIM: u32 = 16;
/// Inode state: being written by a task.
pub const I_SYNC: u32 = 4;
/// Mapping state: a page's write failed since the last check.
pub const AS_EIO: u32 = 8;
/// Inode state: its file is about to be truncated ([`crate::Mm::hold_inode`]), so no task may start
/// to write it.
pub(crate) const I_HELD: u32 = 32;
/// Inode state, above the bits: the unit of the count of tasks that write its pages as fsync does.
pub(crate) const SYNCER: u32 = 1 << 16;

/// One file.
pub struct Mapping<W: World> {
    pub(crate) root: W::U32,
    /// The leaves of its index that were looked up last, and in `last_base` their numbers; leaves
    /// with even and odd numbers are remembered apart, since the task that writes the file and the
    /// one that cleans it are far from each other.
    pub(crate) last_leaf: [W::U32; 2],
    pub(crate) last_base: [W::U32; 2],
    /// Cached pages.
    pub nrpages: W::U32,
    pub(crate) kind: W::U32,
    pub(crate) bdi: W::U32,
    /// Inode state bits.
    pub state: W::U32,
    /// The index at which cyclic writeback continues.
    pub writeback_index: W::U32,
    /// When the inode first became dirty since it was clean, in nanoseconds.
    pub(crate) dirtied_when: W::U64,
    /// Links of the flusher's list that the inode is on, and in `on_list` which list.
    pub(crate) prev: W::U32,
    pub(crate) next: W::U32,
    pub(crate) on_list: W::U32,
    /// Length in bytes.
    pub size: W::U64,
    /// The first region that maps it, plus 1 ([`crate::cache::mmap`]).
    pub(crate) regions: W::U32,
    /// 1: pages get buffer heads when they are written.
    pub(crate) buffers: W::U32,
    /// The memory control group whose writeback the file belongs to, plus 1; 0: none yet.
    pub(crate) owner: W::U32,
    pub(crate) tree_lock: W::Lock,
}

impl<W: World> Mapping<W> {
    /// Makes an empty file: all words zero, without a tree and without a remembered leaf.
    pub(crate) fn new() -> Self {
        let m = Self {
            root: bytemuck::Zeroable::zeroed(),
            last_leaf: bytemuck::Zeroable::zeroed(),
            last_base: bytemuck::Zeroable::zeroed(),
            nrpages: bytemuck::Zeroable::zeroed(),
            kind: bytemuck::Zeroable::zeroed(),
            bdi: bytemuck::Zeroable::zeroed(),
            state: bytemuck::Zeroable::zeroed(),
            writeback_index: bytemuck::Zeroable::zeroed(),
            dirtied_when: bytemuck::Zeroable::zeroed(),
            prev: bytemuck::Zeroable::zeroed(),
            next: bytemuck::Zeroable::zeroed(),
            on_list: bytemuck::Zeroable::zeroed(),
            owner: bytemuck::Zeroable::zeroed(),
            size: bytemuck::Zeroable::zeroed(),
            regions: bytemuck::Zeroable::zeroed(),
            buffers: bytemuck::Zeroable::zeroed(),
            tree_lock: W::Lock::default(),
        };
        m.root.set(tree::EMPTY);
        m.last_leaf.iter().for_each(|leaf| leaf.set(tree::EMPTY));
        m
    }

    /// Returns the two words of a file's cache of tree leaves in which a leaf with the number
    /// `base` (a page index / 64) is remembered: the one for its number, and the one for its node.
    #[inline(always)]
    pub(super) fn last(&self, base: u32) -> (&W::U32, &W::U32) {
        let parity = base as usize & 1;
        (&self.last_base[parity], &self.last_leaf[parity])
    }

    /// Returns the kind of the mapping.
    #[inline(always)]
    pub fn kind(&self) -> MappingKind {
        match self.kind.get() {
            0 => MappingKind::File,
            1 => MappingKind::Meta,
            2 => MappingKind::BlockDevice,
            3 => MappingKind::WriteThrough,
            _ => MappingKind::Swap,
        }
    }

    /// Returns true if its pages are filesystem metadata.
    #[inline(always)]
    pub fn is_meta(&self) -> bool {
        self.kind.get() == MappingKind::Meta as u32
    }

    /// Returns true if its device accounts dirty pages.
    #[inline(always)]
    pub fn accounts_dirty(&self) -> bool {
        !matches!(self.kind(), MappingKind::WriteThrough | MappingKind::Swap)
    }

    /// Returns its backing device.
    #[inline(always)]
    pub fn bdi(&self) -> u32 {
        self.bdi.get()
    }
}

impl<W: World> Mm<W> {
    /// Creates a file on the backing device `bdi` and returns its number; `None` if
    /// [`crate::Config::max_mappings`] files exist.
    pub fn new_mapping(&self, kind: MappingKind, bdi: u32) -> Option<u32> {
        debug_assert!(
            bdi < self.config.max_bdis,
            "device {bdi} is none of the machine's"
        );
        let id = self.mappings_used.fetch_add(1);
        if id >= self.config.max_mappings {
            self.mappings_used.fetch_sub(1);
            return None;
        }
        let m = &self.mappings[id as usize];
        m.kind.set(kind as u32);
        m.bdi.set(bdi);
        Some(id)
    }

    /// Moves a file to another backing device, so that a world can reuse its number for another
    /// file. The file must have no pages and be on no list of its device.
    pub fn move_mapping(&self, mapping: u32, bdi: u32) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        debug_assert!(
            bdi < self.config.max_bdis,
            "device {bdi} is none of the machine's"
        );
        self.mappings[mapping as usize].bdi.set(bdi);
    }
}
