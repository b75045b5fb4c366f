//! btrfs: copy-on-write data, metadata in trees whose pages live in the page cache.
//!
//! Every written extent inserts items into three trees: the file's extent item, the extent tree's
//! back reference, and the checksums (4 bytes a block). An insertion searches from the root, and
//! every node it reads is marked accessed; the first change to a node in a transaction copies it to
//! a new block. Tree pages are written only by the commit. Writeback from reclaim is refused.
//!
//! A new name puts an inode item, its back reference and two directory entries into the tree;
//! inodes are found there without I/O.
//!
//! With `btrfs_trees = "ordered"` nodes have 16 KiB and items go where their keys belong
//! ([`trees`]); a commit then writes nothing unless something was changed.

mod chunks;
mod room;
mod trees;

use self::chunks::{Chunks, copy_on_write};
use self::room::{Placed, Room};
use self::trees::{CHECKSUM, Keys, Trees};
use super::layout::Layout;
use super::ioend::{Ends, finish_read};
use super::model::{Daemon, Kind, Life, Model, lay_out_in_order};
use super::names::NameChange;
use super::walk::{Walk, write_cache_pages};
use super::write::{buffered, fill_as, grow_to, metadata_page};
use super::{BATCH, Fs, FsError, SimMm};
use crate::block::{Bio, Dir, Purpose};
use crate::{Tag as SimTag, own_queue};
use mm::world::{Tasks};
use std::collections::VecDeque;
use crate::params::Params;
use crate::sched::Pool;
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use mm::policy::{BtrfsTrees, BtrfsWriteback, FileReadahead, WritebackEnds};
use mm::world::event::TrackPath;
use mm::world::WritebackControl;
use mm::writeback::fresh::FreshState;
use std::cell::{Cell, RefCell};

/// Bytes for items in a tree block of 2011: 4 KiB less 101 bytes of header.
const LEAF_BYTES: u32 = 4096 - 101;
/// Bytes of an item's key and place in a leaf.
const ITEM: u32 = 25;
/// Bytes of a file extent item, and of an extent item with its back reference.
const FILE_EXTENT: u32 = 53;
const EXTENT_ITEM: u32 = 24 + 29;
/// Bytes of the tree items of a new file or directory.
const NAME_ITEMS: u32 = (160 + 25) + (10 + 40 + 25) + 2 * (30 + 40 + 25);
/// Bytes of a name's item in its directory, and of a new inode with its back reference
/// (`btrfs_create_new_inode`), in ordered trees.
const NAME_ITEM: u32 = 30 + 40;
const INODE_ITEMS: u32 = 160 + (10 + 40 + ITEM);
/// Number of delayed changes from which a worker makes them (`BTRFS_DELAYED_BACKGROUND`; a name is
/// one change, its inode another), and number of names that go into an index together.
const DELAYED: u32 = 128 / 2;
const INDEX_BATCH: u32 = 16;
/// Number of keys in an inner node.
const FANOUT: u32 = LEAF_BYTES / 33;
/// Number of levels: leaves, one level of inner nodes and the root, enough for 10^4 leaves.
const LEVELS: usize = 3;
/// Dirty bytes of tree pages below which the flusher leaves them to the commit.
const TREE_THRESHOLD: u64 = 32 << 20;
/// Blocks of a large disk where the metadata chunk begins, and its mirror (DUP), and where it ends.
const META_START: u64 = 1 << 14;
const META_MIRROR: u64 = 1 << 15;
const META_END: u64 = 1 << 16;
/// Pages of the largest extent (`BTRFS_MAX_EXTENT_SIZE`).
const MAX_EXTENT: u32 = (128 << 20) / 4096;
/// Least read-ahead window of its bdi in pages (fs/btrfs/disk-io.c `open_ctree`: at least 4 MiB).
const READ_AHEAD: u32 = (4 << 20) / 4096;
/// Minimum and maximum number of pages in a piece of a write: at most a page of pointers.
const LEAST_PIECE: u32 = 8;
const MOST_PIECE: u32 = 512;
/// Place of the superblock.
const SUPER: u64 = 16;

/// The rightmost path of one tree, where a streaming write inserts.
#[derive(Debug, Default)]
struct Tree {
    /// Block of the node on each level, leaf first; 0: none yet.
    path: [Cell<u32>; LEVELS],
    /// The transaction that made the node on each level.
    made_in: [Cell<u64>; LEVELS],
    /// Bytes used in the leaf, and keys used in the inner nodes.
    used: [Cell<u32>; LEVELS],
}

/// The filesystem's state.
#[derive(Debug)]
pub(super) struct Btrfs {
    trees: [Tree; 3],
    transaction: Cell<u64>,
    interval: u64,
    mapping: Cell<u32>,
    /// The chunk for metadata: first block and length.
    chunk: (u32, u32),
    /// Number of tree blocks made so far, modulo the chunk's length.
    made: Cell<u32>,
    committing: Cell<bool>,
    fast_checksum: bool,
    /// Bios whose checksums a worker computes before they are submitted, with their volumes.
    later: RefCell<VecDeque<(u32, Bio)>>,
    /// Ends of reads whose checksums another worker compares.
    read: RefCell<VecDeque<u32>>,
    room: Box<Room>,
    /// The trees of `btrfs_trees = "ordered"`.
    ordered: Box<Trees>,
    /// Extents that got their blocks and are not in a tree yet.
    placed: RefCell<VecDeque<Placed>>,
    /// Directory entries that are not in their index yet, and entries made so far.
    delayed: Cell<u32>,
    entries: Cell<u64>,
    /// Offset of the next node's second copy from the beginning of its chunk.
    mirrored: Cell<u64>,
    /// Number of extents that were put into the trees so far.
    extents: Cell<u64>,
    /// The chunks of data.
    chunks: Chunks,
}

impl Model for Btrfs {
    const KIND: Kind = Kind {
        warns_of_direct_reclaim: true,
        own_bdi: Some(READ_AHEAD),
        ..Kind::plain(1100)
    };

    fn new(p: &Params, front: Layout) -> Self {
        let chunk = (
            front.place(META_START) as u32,
            front.length(META_START, META_MIRROR - META_START) as u32,
        );
        Self {
            trees: Default::default(),
            transaction: Cell::new(1),
            interval: p.btrfs_commit_interval as u64,
            mapping: Cell::new(0),
            chunk,
            made: Cell::new(0),
            committing: Cell::new(false),
            fast_checksum: p.btrfs_fast_checksum > 0.0,
            later: RefCell::default(),
            read: RefCell::default(),
            room: Box::new(Room::new()),
            ordered: Box::new(Trees::new(chunk)),
            placed: RefCell::default(),
            delayed: Cell::new(0),
            entries: Cell::new(0),
            mirrored: Cell::new(0),
            extents: Cell::new(0),
            chunks: Chunks::default(),
        }
    }

    /// Makes the tree inode, whose pages are the metadata.
    fn mount<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let mapping = mm
            .new_mapping(MappingKind::Meta, fs.bdi.get())
            .expect("room for the tree inode");
        self.mapping.set(mapping);
    }

    /// Returns the commit thread and the workers that the policy has.
    fn daemons<'a, const T: bool>(&'a self, mm: &'a SimMm<T>, fs: &'a Fs) -> Vec<Daemon<'a>> {
        let transactions = self.transaction_thread(mm, fs);
        let mut all = vec![Daemon::thread("btrfs-transaction", transactions)];
        let mut work = |name, life: Life<'a>| all.push(Daemon::work(Pool::Unbound, name, life));
        if room::reserves_ahead(mm) {
            work("btrfs-preempt", Box::pin(self.preempt_worker(mm, fs)));
            work("btrfs-reclaim", Box::pin(self.reclaim_worker(mm, fs)));
            for _ in 0..thread_pool_size(mm.config.cpus) {
                work("btrfs-endio-write", Box::pin(self.finish_worker(mm, fs)));
            }
        }
        if !self.fast_checksum {
            work("btrfs-worker", Box::pin(self.worker(mm)));
        }
        if mm.policy.file_readahead == FileReadahead::Together {
            work("btrfs-endio", Box::pin(self.read_worker(mm)));
        }
        all
    }

    /// Allocates a file that exists before the run, and its checksums; false: no space is left.
    fn lay_out(&self, fs: &Fs, mapping: u32, pages: u64) -> bool {
        let fits = lay_out_in_order(fs, mapping, pages);
        let block = |page: u64| Some(fs.mapped(mapping, u32::try_from(page).ok()?)?.0);
        self.ordered.lay_out(pages, block);
        if let Some((block, _)) = fs.mapped(mapping, 0) {
            self.chunks.laid_out(fs, block, pages);
        }
        fits
    }

    /// Reads the checksums of the data to be read: of `len` pages from `first` on.
    async fn find_blocks<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) {
        if !is_ordered(mm) || mm.mappings[mapping as usize].is_meta() {
            return;
        }
        let (mut at, end) = (first, first + len);
        while at < end {
            let (block, run) = match fs.mapped(mapping, at) {
                Some((block, run)) => (block, run.min(end - at)),
                None => {
                    at += fs.hole(mapping, at, end - at);
                    continue;
                }
            };
            let trees = self.mapping.get();
            self.ordered.look_up_sums(mm, trees, block).await;
            self.ordered.look_up_sums(mm, trees, block + u64::from(run) - 1).await;
            at += run;
        }
    }

    /// Returns true if a worker submits the bio later, once its checksum is computed.
    fn submits_later<const T: bool>(&self, mm: &SimMm<T>, volume: u32, bio: Bio, meta: bool) -> bool {
        let later = !self.fast_checksum && !bio.sync && (!meta || is_ordered(mm));
        if later {
            self.later.borrow_mut().push_back((volume, bio));
            let queue = mm.world.queue_base + own_queue::DAEMON;
            mm.world.sched.wake(queue);
        }
        later
    }

    fn read_vector(&self, _: u32) -> u32 {
        Ends::BIO.segments
    }

    fn ends_reads_later<const T: bool>(&self, mm: &SimMm<T>, end: u32) -> bool {
        self.read.borrow_mut().push_back(end);
        mm.world.sched.wake(mm.world.queue_base + own_queue::READ_ENDS);
        true
    }

    /// Allocates new blocks for a run of dirty pages, in place of old ones: first block, number.
    fn place_run<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) -> Option<(u64, u32)> {
        let (block, len) = self.take_blocks(mm, fs, (mapping, first), len)?;
        let (counts, pages) = copy_on_write(fs, mapping, first, (block, len));
        mm.extent_written(mapping, first, counts, pages);
        Some((block, len))
    }

    fn rewrites_in_place(&self) -> bool {
        false
    }

    fn plugs(&self) -> bool {
        true
    }

    /// Performs write(2), in pieces where metadata space is reserved ahead.
    async fn write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pos: u64,
        len: u64,
    ) -> Result<(), FsError> {
        match room::reserves_ahead(mm) {
            true => self.write_in_pieces(mm, fs, mapping, (pos, len)).await,
            false => buffered(mm, fs, mapping, pos, len).await,
        }
    }

    /// Writes back dirty pages of a file or, by their own rules, of the tree inode.
    async fn writepages<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) {
        if mm.mappings[mapping as usize].is_meta() {
            if is_ordered(mm) {
                self.write_nodes(mm, fs, mapping, wbc).await;
            } else {
                tree_writepages(mm, mapping, wbc).await;
            }
        } else {
            write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
        }
    }

    /// Gives a whole range of dirty pages its blocks at once, where pages leave writeback by ioends
    /// (`find_lock_delalloc_range`). Returns the number of its pages; 0: nothing was done.
    fn placed_together<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, first: u32) -> u32 {
        let today = mm.policy.writeback_ends == WritebackEnds::IoEnd;
        if !today || mm.mappings[mapping as usize].is_meta() {
            return 0;
        }
        let run = mm.tagged_run(mapping, Tag::Dirty, first, MAX_EXTENT);
        let placed = Placed { file: mapping, first, pages: run };
        if room::reserves_ahead(mm) {
            self.change_for_files(0, |room| room.placed(placed));
            mm.ordered_begun();
        } else if is_ordered(mm) {
            self.placed.borrow_mut().push_back(placed);
        }
        run
    }

    /// Counts extents whose last page is written, and wakes a worker for each to finish.
    fn end_written<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32, pages: (u32, u32)) {
        if room::reserves_ahead(mm) {
            let placed = &mut *self.placed.borrow_mut();
            let n = self.change_for_files(0, |room| room.written(mapping, pages, placed));
            mm.ordered_ended(n);
            for _ in 0..n {
                mm.world.sched.wake_one(mm.world.conversion_queue(fs.volume));
            }
        }
    }

    /// Returns the most pages of one bio of a walk: a node, where each node is a bio; else a batch.
    fn longest_run<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) -> u32 {
        let meta = mm.mappings[mapping as usize].is_meta();
        match meta && mm.policy.btrfs_trees == BtrfsTrees::NodeBios {
            true => trees::NODE_PAGES,
            false => BATCH,
        }
    }

    /// Puts the items of one written extent of `pages` pages into the trees.
    async fn run_written<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32, pages: u32, waits: bool) {
        if mm.mappings[mapping as usize].is_meta() {
            if is_ordered(mm) && !waits {
                self.mirror(mm, fs, pages, false).await;
            }
            return;
        }
        if is_ordered(mm) {
            if !room::reserves_ahead(mm) {
                self.insert_extents(mm, fs).await;
            }
            return;
        }
        self.insert(mm, 0, FILE_EXTENT + ITEM).await;
        self.insert(mm, 1, EXTENT_ITEM + ITEM).await;
        self.insert(mm, 2, CHECKSUM * pages).await;
    }

    fn refuses_reclaim(&self, _: &Fs, _: u32, (_, most): (u32, u32), _direct: bool) -> u32 {
        most
    }

    async fn freed<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs, mapping: u32, kept: Option<u32>) {
        if kept.is_none() {
            mm.extents_forgotten(mapping);
        }
    }

    async fn commit<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        self.commit_transaction(mm, fs).await
    }

    /// Puts the items of a name that was made or removed into the trees.
    async fn names_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        _fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        if is_ordered(mm) {
            self.change_names(mm, change).await;
            return Ok(());
        }
        self.insert(mm, 0, NAME_ITEMS).await;
        Ok(())
    }
}

impl Btrfs {
    /// Allocates blocks for a run of a file's dirty pages from page `first` on: block and number.
    fn take_blocks<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        (mapping, first): (u32, u32),
        len: u32,
    ) -> Option<(u64, u32)> {
        if mm.policy.btrfs_writeback == BtrfsWriteback::BySize && fs.free_blocks() > 0 {
            let own = fs.mapped(mapping, first).or_else(|| fs.mapped(mapping, 0));
            if let Some(block) = self.chunks.take(fs, own.map(|(block, _)| block), len) {
                fs.space.used(len);
                return Some((block, len));
            }
        }
        fs.take_blocks(0, len)
    }

    /// Writes in pieces. Before each of them metadata space is reserved and the task's dirty limits
    /// are applied: a piece has as many pages as the task may dirty until the next check (Linux 6.1
    /// fs/btrfs/file.c `btrfs_buffered_write`).
    async fn write_in_pieces<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        (pos, len): (u64, u64),
    ) -> Result<(), FsError> {
        let end = pos + len;
        let held = grow_to(mm, fs, mapping, end).await?;
        let most = mm.dirtied_until_look().clamp(LEAST_PIECE, MOST_PIECE);
        let mut at = pos;
        while at < end {
            let piece = (u64::from(most) * 4096 - at % 4096).min(end - at);
            self.reserve(mm, fs, mapping, (at, piece)).await;
            mm.balance_between(mapping).await;
            fill_as(mm, fs, mapping, (at, piece), held, FreshState::Piece).await?;
            mm.world.relax().await;
            at += piece;
        }
        Ok(())
    }

    /// Puts a name and its inode into their trees, or removes them. The directory's index and its
    /// inode are changed later, for many names at once (Linux 6.12 fs/btrfs/delayed-inode.c).
    async fn change_names<const T: bool>(&self, mm: &SimMm<T>, change: NameChange) {
        let mapping = self.mapping.get();
        let entry = self.entries.get();
        // Stands for a hash of the name: any well mixed number that is unique will do.
        let hash = entry.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let name = (Keys::Names, of_inode(change.dir) + hash);
        let inode = (Keys::Inodes, of_inode(change.ino));
        if change.made {
            self.entries.set(entry + 1);
            self.ordered.insert(mm, mapping, inode, INODE_ITEMS + ITEM).await;
            self.ordered.insert(mm, mapping, name, NAME_ITEM + ITEM).await;
        } else {
            self.ordered.change(mm, mapping, name).await;
            self.ordered.change(mm, mapping, inode).await;
        }
        self.delayed.set(self.delayed.get() + 1);
        if self.delayed.get() >= DELAYED {
            self.run_delayed(mm).await;
        }
    }

    /// Makes the delayed changes of the directories' index, a few names at a time.
    async fn run_delayed<const T: bool>(&self, mm: &SimMm<T>) {
        let mapping = self.mapping.get();
        let mut left = self.delayed.take();
        let first = self.entries.get().saturating_sub(u64::from(left));
        while left > 0 {
            let n = left.min(INDEX_BATCH);
            let key = (Keys::Indices, first + u64::from(left));
            self.ordered.insert(mm, mapping, key, n * (NAME_ITEM + ITEM)).await;
            left -= n;
        }
    }

    /// Puts extents that got their blocks into all trees but the extent tree.
    async fn insert_extents<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let mapping = self.mapping.get();
        loop {
            let next = self.placed.borrow_mut().pop_front();
            let Some(Placed { file, first, pages }) = next else {
                return;
            };
            let place = (Keys::Inodes, of_inode(file) + 1 + u64::from(first));
            let items = 1 + u32::from(divides(fs, file, (first, pages)));
            self.ordered.insert(mm, mapping, place, items * (FILE_EXTENT + ITEM)).await;
            // Numbers stand for blocks as keys, because blocks are handed out in order.
            let nth = self.extents.get() + 1;
            self.extents.set(nth);
            if mm.policy.btrfs_writeback == BtrfsWriteback::Flusher {
                self.insert_extent(mm, nth).await;
            }
            if let Some((block, _)) = fs.mapped(file, first) {
                self.ordered.append_sums(mm, mapping, nth << 16, (block, pages)).await;
            }
        }
    }

    /// Puts the `nth` extent into the extent tree.
    async fn insert_extent<const T: bool>(&self, mm: &SimMm<T>, nth: u64) {
        let place = (Keys::Extents, nth);
        self.ordered.insert(mm, self.mapping.get(), place, EXTENT_ITEM + ITEM).await;
    }

    /// Puts up to `most` references into the extent tree, first those of nodes, then those of data.
    async fn run_references<const T: bool>(&self, mm: &SimMm<T>, most: u64) {
        let mut left = most.min(self.room.references.get() + self.ordered.references());
        left -= self.ordered.run_references(left);
        while left > 0
            && let Some(others) = self.room.references.get().checked_sub(1)
        {
            self.room.references.set(others);
            // A written extent may have its reference before it is counted in `extents`.
            let nth = self.extents.get().saturating_sub(others).max(1);
            self.insert_extent(mm, nth).await;
            left -= 1;
        }
    }

    /// Commits the changes of the trees, each node twice (DUP), then the superblock. Returns true
    /// on success, and if nothing had changed.
    async fn commit_ordered<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        let mapping = self.mapping.get();
        self.insert_extents(mm, fs).await;
        self.run_delayed(mm).await;
        self.run_references(mm, u64::MAX).await;
        if !self.ordered.end_transaction(mm, mapping).await {
            self.committing.set(false);
            return true;
        }
        let ok = mm.write_and_wait(mapping).await;
        self.finish_commit(mm, fs).await & ok
    }

    /// Writes dirty nodes to both copies, whichever caller asks: the flusher does not leave them to
    /// the commit (Linux 6.12 fs/btrfs/extent_io.c `btree_writepages`, whose threshold was removed
    /// in stable releases of 6.1 and 6.12). A node that was written is copied again by its next
    /// change, even within the same transaction.
    async fn write_nodes<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) {
        // Writeback for metadata space writes files only (`btrfs_start_delalloc_roots`).
        let for_files = !wbc.sync_all && !wbc.for_background && !wbc.for_kupdate;
        if for_files {
            wbc.pages_skipped += 1;
            return;
        }
        let quota = wbc.nr_to_write;
        write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
        if wbc.sync_all {
            let pages = quota.saturating_sub(wbc.nr_to_write).max(0) as u32;
            self.mirror(mm, fs, pages, true).await;
        }
    }

    /// Writes the second copies of `pages` pages of nodes. With `waits` the caller waits for them;
    /// otherwise they are submitted the same way as the first copies.
    async fn mirror<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, pages: u32, waits: bool) {
        if waits {
            let place = (self.mirrored.get(), pages);
            let (_, next) = write_mirror(mm, fs, place).await;
            self.mirrored.set(next);
            return;
        }
        let tag = SimTag::Raw { queue: mm.world.queue_base + own_queue::JOURNAL };
        let mut left = pages;
        while left > 0 {
            let (block, n, next) = in_mirror(fs, (self.mirrored.get(), left));
            self.mirrored.set(next);
            let bio = Bio {
                tag: tag.pack(),
                dir: Dir::Write,
                sync: false,
                block,
                blocks: n,
                purpose: Purpose::Waited,
            };
            if !self.submits_later(mm, fs.volume, bio, true) {
                mm.world.submit_parts(fs.volume, bio).await;
            }
            left -= n;
        }
    }

    /// Searches to the rightmost leaf of a tree and adds `bytes` there.
    async fn insert<const T: bool>(&self, mm: &SimMm<T>, tree: usize, bytes: u32) {
        let nodes = &self.trees[tree];
        // A full leaf is split, and so is a full node above it.
        let mut fresh = [false; LEVELS];
        if nodes.path[0].get() == 0 {
            fresh = [true; LEVELS];
        } else if nodes.used[0].get() + bytes > LEAF_BYTES {
            fresh[0] = true;
            for (level, fresh) in fresh.iter_mut().enumerate().take(LEVELS - 1).skip(1) {
                if nodes.used[level].get() < FANOUT {
                    nodes.used[level].set(nodes.used[level].get() + 1);
                    break;
                }
                *fresh = true;
            }
        }
        for level in (0..LEVELS).rev() {
            if fresh[level] {
                nodes.used[level].set(u32::from(level > 0));
                nodes.path[level].set(0);
            }
            self.touch(mm, tree, level).await;
        }
        nodes.used[0].set(nodes.used[0].get() + bytes);
    }

    /// Returns the next block of the metadata chunk, after its last the first, which is free again.
    fn new_tree_block(&self) -> u32 {
        let (first, length) = self.chunk;
        let n = self.made.get();
        self.made.set((n + 1) % length);
        first + n
    }

    /// Reads a node on the way down, marking it accessed, copies it if this transaction has not
    /// done so yet, and dirties it.
    async fn touch<const T: bool>(&self, mm: &SimMm<T>, tree: usize, level: usize) {
        let nodes = &self.trees[tree];
        let mapping = self.mapping.get();
        let old = nodes.path[level].get();
        if old != 0
            && let Some(pfn) = metadata_page(mm, mapping, old, false, TrackPath::TreeSearch).await
        {
            mm.mark_page_accessed(pfn, TrackPath::TreeSearch);
        }
        let now = self.transaction.get();
        if old == 0 || nodes.made_in[level].get() != now {
            let block = self.new_tree_block();
            nodes.path[level].set(block);
            nodes.made_in[level].set(now);
        }
        let block = nodes.path[level].get();
        if let Some(pfn) = metadata_page(mm, mapping, block, true, TrackPath::TreeUpdate).await {
            mm.mark_page_accessed(pfn, TrackPath::TreeUpdate);
            mm.set_page_dirty(pfn, TrackPath::TreeUpdate);
        }
    }

    /// Runs the worker that submits bios once their checksums are computed. Kernels may run several
    /// such workers; their finished bios are submitted in order, one after the other (Linux 6.12
    /// fs/btrfs/async-thread.c run_ordered_work). Never returns.
    async fn worker<const T: bool>(&self, mm: &SimMm<T>) {
        let queue = mm.world.queue_base + own_queue::DAEMON;
        loop {
            let ticket = mm.world.sched.ticket(queue);
            let next = self.later.borrow_mut().pop_front();
            match next {
                Some((volume, bio)) => mm.world.submit_parts(volume, bio).await,
                None => {
                    mm.world.sched.wait(queue, ticket, None).await;
                }
            }
        }
    }

    /// Runs the worker that unlocks pages that were read, once their checksums are compared
    /// (`btrfs_end_bio_work`). Kernels may have several such workers. Never returns.
    async fn read_worker<const T: bool>(&self, mm: &SimMm<T>) {
        let queue = mm.world.queue_base + own_queue::READ_ENDS;
        loop {
            let ticket = mm.world.sched.ticket(queue);
            let next = self.read.borrow_mut().pop_front();
            match next {
                Some(end) => finish_read(mm, end),
                None => {
                    mm.world.sched.wait(queue, ticket, None).await;
                }
            }
        }
    }

    /// Runs one of [`thread_pool_size`] workers that put extents into the trees once their data is
    /// written (`btrfs_finish_ordered_io`). Never returns.
    async fn finish_worker<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let queue = mm.world.conversion_queue(fs.volume);
        loop {
            let ticket = mm.world.sched.ticket(queue);
            if self.placed.borrow().is_empty() {
                mm.world.sched.wait(queue, ticket, None).await;
            } else {
                self.insert_extents(mm, fs).await;
            }
        }
    }

    /// Runs the thread that commits every `interval` nanoseconds. Never returns.
    async fn transaction_thread<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        loop {
            mm.world.sched.sleep_ticks(self.interval).await;
            self.commit_transaction(mm, fs).await;
        }
    }

    /// Writes all dirty tree pages, twice (DUP), then the superblock. Returns true on success, and
    /// if a commit is under way already.
    async fn commit_transaction<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        if self.committing.replace(true) {
            return true;
        }
        if is_ordered(mm) {
            return self.commit_ordered(mm, fs).await;
        }
        self.transaction.set(self.transaction.get() + 1);
        let mapping = self.mapping.get();
        let before = mm.mappings[mapping as usize].nrpages.get();
        let ok = mm.write_and_wait(mapping).await;
        // The mirror of the pages just written, in its own chunk.
        let pages = mm.tagged_count(mapping, Tag::Writeback, before).max(1);
        let place = (self.transaction.get() % 64 * 128, pages);
        let (mirrored, _) = write_mirror(mm, fs, place).await;
        self.finish_commit(mm, fs).await & ok & mirrored
    }

    /// Writes the superblock. Returns true if it reached the device.
    async fn finish_commit<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        let superblock = fs.layout.place(SUPER);
        let ok = mm.world.write_raw(fs.volume, superblock, 1, true).await;
        mm.extents_committed();
        self.committing.set(false);
        mm.world.relax().await;
        ok
    }
}

/// Returns the number of workers that put extents into the trees concurrently.
fn thread_pool_size(cpus: usize) -> usize {
    (cpus + 2).min(8)
}

/// Returns true if items go where their keys belong.
fn is_ordered<const T: bool>(mm: &SimMm<T>) -> bool {
    mm.policy.btrfs_trees != BtrfsTrees::Rightmost
}

/// Returns the part of `pages` pages that is written in one request to the chunk of second copies
/// (DUP) from offset `at` on: its first block, its length, and the offset behind it.
fn in_mirror(fs: &Fs, (at, pages): (u64, u32)) -> (u64, u32, u64) {
    let mirror = fs.layout.place(META_MIRROR);
    let length = fs.layout.length(META_MIRROR, META_END - META_MIRROR);
    let at = at % length;
    let n = pages.min(BATCH).min((length - at) as u32);
    (mirror + at, n, (at + u64::from(n)) % length)
}

/// Writes `pages` pages to the chunk of second copies from offset `at` on, wrapping at its end, and
/// waits for them. Returns true if they reached the device, and the next offset.
async fn write_mirror<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    (mut at, pages): (u64, u32),
) -> (bool, u64) {
    let (mut left, mut ok) = (pages, true);
    while left > 0 {
        let (block, n, next) = in_mirror(fs, (at, left));
        ok &= mm.world.write_raw(fs.volume, block, n, true).await;
        at = next;
        left -= n;
    }
    (ok, at)
}

/// Returns true if a written extent divides an older one, which adds an item to the tree.
fn divides(fs: &Fs, file: u32, (first, pages): (u32, u32)) -> bool {
    fs.with_extents(file, |list| {
        let at = list.partition_point(|e| e.index < first);
        let before = at.checked_sub(1).map(|at| list[at]);
        let behind = list[at..].iter().find(|e| e.index >= first.saturating_add(pages));
        before.zip(behind).is_some_and(|(a, b)| {
            a.index + a.len == first
                && b.index == first + pages
                && a.block + u64::from(a.len) + u64::from(pages) == b.block
        })
    })
}

/// Returns the first key of an inode's items, or of a directory's names.
fn of_inode(number: u32) -> u64 {
    u64::from(number) << 32
}

/// Writes back the tree inode for the flusher; leaves small amounts of metadata to the commit.
async fn tree_writepages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    wbc: &mut WritebackControl,
) {
    let dirty = {
        let pages = mm.mappings[mapping as usize].nrpages.get();
        u64::from(mm.tagged_count(mapping, Tag::Dirty, pages)) * 4096
    };
    if !wbc.sync_all && (wbc.for_kupdate || dirty < TREE_THRESHOLD) {
        wbc.pages_skipped += 1;
        return;
    }
    write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
}
