//! XFS: delayed allocation; refuses writeback from direct reclaim; writes clusters around a page
//! that kswapd asks for.
//!
//! - The disk is cut into allocation groups. Directories rotate over them; a file's blocks and
//!   inodes come from its directory's group, inodes in chunks of 64.
//! - Inodes are read and written by clusters of 32. Buffers of the clusters used last stay in
//!   memory, so that reading a directory's inodes in order asks the device once for 32 of them.
//!   Inodes in memory are the engine's ([`mm::xfs`]).
//! - Changes of names are logged in memory and written by the next force of the log. Directory
//!   blocks and group headers are written in place every 30 s, inodes by the engine's pusher.

use super::buffers::{Buffer, Buffers};
use super::cil::{Cil, DirChange, LogWrite, Record};
use super::files::Ahead;
use super::ioend::{self, Ends};
use super::layout::Layout;
use super::model::{Daemon, Kind, Model};
use super::names::{Entry, NameChange};
use super::ring::Ring;
use super::space::Space;
use super::walk::{Walk, write_cache_pages, write_run};
use super::{BATCH, Fs, FsError, SimMm};
use crate::params::Params;
use crate::sched::Pool;
use crate::spec::DiskSpec;
use crate::{Tag, own_queue};
use mm::inodes::inode::SuperInfo;
use mm::inodes::xfs::CLUSTER_INODES;
use mm::cache::tree::Tag as PageTag;
use mm::policy::{IomapWriteback, WritebackEnds, XfsFormat, XfsLog, XfsLogPush, XfsRoots};
use mm::world::WritebackControl;
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};

/// Bytes of one log write beside its changes: the record's header with that of the transaction's
/// operations (`xlog_rec_header`, a sector). Unused space of a log buffer is not written
/// (`xlog_sync` rounds up to sectors).
const LOG_HEADER: u64 = 512;
/// Place and length of the log on a large disk, in blocks.
const LOG_START: u64 = 1024;
const LOG_LENGTH: u64 = 32_768;
/// Bytes that a change of an inode adds to the log.
const LOG_INODE: u64 = 400;
/// Bytes that a change of a directory block or group header adds to the log.
const LOG_BLOCK: u64 = 640;

/// Inodes in a chunk, and the number of clusters that a chunk has.
const CHUNK_INODES: u64 = 64;
const CHUNK_CLUSTERS: u32 = 2;
/// Directory entries that fit into an inode (`XFS_DINODE_FMT_LOCAL`): 156 bytes of 256.
const ENTRIES_IN_INODE: u32 = 156 / 56;

/// Pages of the longest extent (`MAXEXTLEN`).
const MAX_EXTENT: u32 = (1 << 21) - 1;
/// Smallest preallocation behind the end of a file: 64 KiB, in pages.
const LEAST_PREALLOCATION: u32 = 16;
/// Maximum number of pages that leave writeback together (`IOEND_BATCH_SIZE`).
const MAX_IOEND: u32 = 4096;

/// Smallest allocation group: 16 MiB (`XFS_AG_MIN_BYTES`), in blocks.
const LEAST_GROUP: u64 = 4096;

/// Trees of an allocation group whose roots are read together.
#[derive(Debug, Clone, Copy)]
enum Trees {
    /// `inobt`, `finobt`.
    Inodes,
    /// `bnobt`, `cntbt`.
    Space,
}

/// Number of changed blocks remembered outside the set: a task that makes files changes one
/// directory's and one group's block again and again, and finds them here without a look-up.
const LAST: usize = 64;

/// Returns the slot of a block among those [`LAST`].
fn place_of(block: u64) -> usize {
    (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

/// The filesystem's state.
#[derive(Debug)]
pub(super) struct Xfs {
    log: Ring,
    /// The items of changed blocks, where these are relogged with every force (`xfs_log`).
    cil: Cil,
    /// Interval in nanoseconds at which the log is forced, and blocks changed by names are written
    /// in place.
    interval: u64,
    /// Bytes that the next force writes beside its own header and inodes.
    log_bytes: Cell<u64>,
    /// Changed blocks of directories and group headers that are in the log but not written in
    /// place.
    unwritten: RefCell<FxHashSet<u64>>,
    /// Some of the blocks in `unwritten`, in the slot given by [`place_of`]; 0: none since the last
    /// writing in place.
    last: Box<[Cell<u64>; LAST]>,
    /// For each group, whether the roots of its inode trees and of its free space trees are in
    /// memory.
    roots: RefCell<Vec<[bool; 2]>>,
    /// Number of groups whose roots are in memory, by [`Trees`].
    with_roots: [Cell<u64>; 2],
    /// True if the inode made last began a new chunk, for which blocks were taken.
    made_chunk: Cell<bool>,
    /// Number of blocks in a cluster of inodes.
    cluster_blocks: Cell<u32>,
    /// First block of the chunk that each group now takes inodes from.
    chunks: RefCell<Vec<u64>>,
    /// Buffers in memory. All of them are kept, where buffers are counted as memory and a shrinker
    /// frees them.
    buffers: RefCell<Buffers>,
}

impl Model for Xfs {
    const KIND: Kind = Kind {
        entries_in_inode: ENTRIES_IN_INODE,
        groups: group_count,
        xfs_inodes: true,
        warns_of_direct_reclaim: true,
        ..Kind::plain(960)
    };

    /// Makes the state of an empty XFS. Its log and root directory lie where `front` has the fixed
    /// metadata; no buffer is in memory yet.
    fn new(p: &Params, front: Layout) -> Self {
        Self {
            log: Ring::new(front, LOG_START, LOG_LENGTH),
            cil: Cil::new(),
            interval: p.xfs_log_interval as u64,
            log_bytes: Cell::new(0),
            unwritten: RefCell::default(),
            last: Box::new([const { Cell::new(0) }; LAST]),
            roots: RefCell::default(),
            with_roots: Default::default(),
            made_chunk: Cell::new(false),
            cluster_blocks: Cell::new(2),
            chunks: RefCell::new(vec![front.root_inode()]),
            buffers: RefCell::new(Buffers::new(p.xfs_buffers as usize)),
        }
    }

    /// Sets the size of an inode cluster by the on-disk format, and keeps all metadata buffers in
    /// memory if the policy counts them as memory.
    fn mount<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs) {
        // A cluster has 32 inodes of 256 or 512 bytes.
        self.cluster_blocks.set(match mm.policy.xfs_format {
            XfsFormat::V4 => 2,
            XfsFormat::V5 => 4,
        });
        if mm.counts_buffers() {
            self.buffers.borrow_mut().keep_all();
        }
    }

    /// Returns the superblock information for the engine: bytes of an inode in memory, allocation
    /// groups, and the interval in nanoseconds at which the log is forced.
    fn super_info(&self, fs: &Fs) -> SuperInfo {
        SuperInfo {
            inode_bytes: Self::KIND.inode_bytes,
            ags: fs.space.group_count() as u32,
            sync_interval: self.interval,
        }
    }

    /// Marks the root directory's inode as read by mount, and returns its block.
    fn read_root(&self, fs: &Fs) -> u64 {
        let block = fs.layout.root_inode();
        self.buffers.borrow_mut().used(block, Buffer::of_mount());
        block
    }

    /// Returns the daemons of a mounted XFS: the log worker, the writers of buffers and inodes, the
    /// inode reclaim worker; by the kernel's version also the worker that pushes the committed item
    /// list (CIL) and the one that converts written extents.
    fn daemons<'a, const T: bool>(&'a self, mm: &'a SimMm<T>, fs: &'a Fs) -> Vec<Daemon<'a>> {
        let sb = fs.sb.get();
        let mut all = vec![
            Daemon::work(Pool::Bound, "xfssyncd", mm.xfs_log_worker(sb)),
            Daemon::thread("xfsbufd", self.buffer_daemon(mm, fs)),
            Daemon::thread("xfsaild", mm.xfsaild(sb)),
            Daemon::work(Pool::Bound, "xfs-reclaim", mm.xfs_reclaim_worker(sb)),
        ];
        if mm.policy.xfs_log_push != XfsLogPush::Forces {
            let life = mm.xfs_cil_worker(sb);
            all.push(Daemon::work(Pool::Unbound, "xfs-cil", life));
        }
        if self.converts(mm) {
            let life = ioend::conversion_worker(mm, fs);
            all.push(Daemon::work(Pool::Bound, "xfs-conv", life));
        }
        all
    }

    /// Reserves up to `want` blocks, or at least `need`, in the allocation group of the file's
    /// directory or the next, at or behind `goal`. Returns the first block and the number taken.
    fn take_blocks(
        &self,
        space: &Space,
        group: u32,
        goal: u64,
        want: u32,
        need: u32,
    ) -> Option<(u64, u32)> {
        space.take_in_group(group, goal, want, need)
    }

    /// Keeps the blocks up to the file's end: what lies behind it is given back.
    fn kept_at_close(&self, end: u32, _promised: u32) -> u32 {
        end
    }

    /// Returns the delayed extent around a page, which is converted as a whole from its first page
    /// on, whichever page is asked for (`xfs_iomap_write_allocate`). If it reaches the end of a
    /// file that is open for writing, it is extended by a preallocation of the file's size rounded
    /// down to a power of two (`xfs_iomap_prealloc_size`), while a twentieth of the disk is free.
    fn look_ahead<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        _len: u32,
    ) -> Ahead {
        let need = mm
            .tagged_run(mapping, PageTag::Dirty, first, MAX_EXTENT)
            .max(1);
        let size = mm.mappings[mapping as usize].size.get().div_ceil(4096);
        let mut want = need;
        if fs.open_for_writing(mapping) && u64::from(first) + u64::from(need) >= size {
            let size = size.clamp(1, u64::from(MAX_EXTENT)) as u32;
            let behind = (1u32 << size.ilog2()).max(LEAST_PREALLOCATION);
            if u64::from(behind) < fs.free_blocks() / 20 {
                want = need.saturating_add(behind).min(MAX_EXTENT);
            }
        }
        let room = fs.hole_before(mapping, first);
        let before = mm.tagged_run_before(mapping, PageTag::Dirty, first, room);
        // Pages before `first` that are dirty too; pages from `first` on that need blocks; and as
        // many with the preallocation.
        Ahead { before, need, want }
    }

    /// Returns iomap's limits: one bio of adjacent pages (`IOEND_BATCH_SIZE`; folios of a program's
    /// writes are large, so that a bio has room for as many).
    fn ends<const T: bool>(&self, _mm: &SimMm<T>, _mapping: u32, _fresh: bool) -> Ends {
        Ends {
            pages: MAX_IOEND,
            segments: u32::MAX,
            by_bio: true,
            ..Ends::BIO
        }
    }

    /// Reads the group's free space trees before the walk, if the first dirty page has no block.
    async fn writepages<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) {
        if self.may_lack_roots(mm, fs, Trees::Space)
            && let Some(first) = mm.next_tagged(mapping, PageTag::Dirty, 0)
            && fs.mapped(mapping, first).is_none()
        {
            let group = fs.with_place(mapping, |place| place.group);
            self.read_roots(mm, fs, group, Trees::Space).await;
        }
        write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
    }

    fn locks<const T: bool>(&self, mm: &SimMm<T>) -> IomapWriteback {
        mm.policy.iomap_writeback
    }

    fn run_placed<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {
        mm.log_extents(mapping);
        self.space_changed(mm, fs, mapping);
    }

    async fn run_written<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs, mapping: u32, _: u32, _: bool) {
        mm.transaction_committed(mapping).await;
    }

    /// Logs the extents, which now count as written (`xfs_iomap_write_unwritten`).
    fn converted<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) {
        mm.log_extents(mapping);
    }

    fn converts<const T: bool>(&self, mm: &SimMm<T>) -> bool {
        mm.policy.writeback_ends == WritebackEnds::IoEnd
    }

    /// Logs that the blocks of a file that was cut or removed go back to the trees of free space.
    async fn freed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        _kept: Option<u32>,
    ) {
        self.space_changed(mm, fs, mapping);
    }

    fn refuses_reclaim(&self, _: &Fs, _: u32, (_, most): (u32, u32), direct: bool) -> u32 {
        if direct { most } else { 0 }
    }

    /// Writes the dirty pages behind the one that kswapd asked for (`xfs_cluster_write`).
    async fn after_writepage<const T: bool>(
        &self,
        mm: &SimMm<T>,
        mapping: u32,
        index: u32,
        wbc: &mut WritebackControl,
        kswapd: bool,
    ) {
        if kswapd {
            cluster_write(mm, mapping, index, wbc).await;
        }
    }

    fn journal(&self) -> Option<&Ring> {
        Some(&self.log)
    }

    async fn commit<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        mm.log_force(fs.sb.get()).await;
        true
    }

    fn directory_group(&self, fs: &Fs) -> u32 {
        fs.space.next_group()
    }

    /// Returns the block of an inode's cluster, allocating a new chunk every 64 inodes. `number`:
    /// the inode's among those of its `group`; `fresh`: it is made now, not before the run.
    fn inode_place(
        &self,
        fs: &Fs,
        group: u32,
        number: u64,
        _entry: Entry,
        fresh: bool,
    ) -> Result<u64, FsError> {
        if number.is_multiple_of(CHUNK_INODES) {
            self.new_chunk(fs, group, fresh)?;
        }
        let chunk = self.chunks.borrow().get(group as usize).copied();
        let cluster = number % CHUNK_INODES / u64::from(CLUSTER_INODES);
        Ok(chunk.unwrap_or(0) + cluster * u64::from(self.cluster_blocks.get()))
    }

    /// Logs the making or removal of a name: the inode, the directory and the blocks that change.
    /// Reads the roots of the group's inode trees first, if they are not in memory, and those of
    /// free space if a chunk was allocated.
    async fn names_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        if self.may_lack_roots(mm, fs, Trees::Inodes) {
            self.read_roots(mm, fs, change.group, Trees::Inodes).await;
        }
        let chunk = self.made_chunk.replace(false);
        if chunk && mm.counts_buffers() {
            self.chunk_buffered(mm, fs, change);
        }
        if chunk && self.may_lack_roots(mm, fs, Trees::Space) {
            self.read_roots(mm, fs, change.group, Trees::Space).await;
        }
        mm.log_inode(change.ino);
        mm.file_changed(fs.names.inode_of(change.dir));
        if Self::relogs(mm) {
            self.relog(mm, fs, change);
        } else {
            if change.block != 0 {
                self.log_block(change.block);
            }
            // The free inodes and their tree.
            self.log_block(fs.space.first_block(change.group));
        }
        mm.transaction_committed(change.ino).await;
        Ok(())
    }

    async fn read_inode<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, ino: u32, place: u64) {
        self.read_cluster(mm, fs, ino, place).await;
    }

    async fn read_names<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, block: u64) {
        self.read_buffer(mm, fs, block, Buffer::of_block()).await;
    }

    /// Starts to write the inode's cluster in place, reading it first if it is not in memory.
    /// `sync`: some task waits for the write.
    async fn write_inode<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, ino: u32, sync: bool) {
        let block = fs.with_place(ino, |p| p.inode);
        self.read_cluster(mm, fs, ino, block).await;
        // Blocks that follow each other on the same device of an array.
        let (_, _, room) = mm.world.volumes[fs.volume as usize].place(block);
        let most = self.cluster_blocks.get().min(mm.world.max_bio(fs.volume));
        let first = u64::from(most).min(room) as u32;
        if first < self.cluster_blocks.get() {
            // The part on an array's next member, or beyond the longest request, is a request of
            // its own that no task waits for.
            let queue = mm.world.queue_base + own_queue::JOURNAL;
            let (at, n) = (block + u64::from(first), self.cluster_blocks.get() - first);
            mm.world
                .submit(fs.volume, Tag::Raw { queue }, true, sync, at, n)
                .await;
        }
        mm.world
            .submit(fs.volume, Tag::Inode { ino }, true, sync, block, first)
            .await;
    }

    /// Returns the number of buffers that a shrinker may free: 0 unless all buffers are kept.
    fn count_buffers(&self) -> u64 {
        let buffers = self.buffers.borrow();
        if buffers.keeps_all() { buffers.len() as u64 } else { 0 }
    }

    /// Frees those of `n` buffers that were not used since the last scans and are not held, for the
    /// shrinker: a buffer whose changes are not yet in place is held. Returns the number freed.
    fn scan_buffers<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u64) -> u64 {
        let sb = fs.sb.get();
        let held = |block, buffer: Buffer| match buffer.cluster {
            Some((group, cluster)) => mm.cluster_is_changed(sb, group, cluster),
            None => self.cil.has(block),
        };
        let gone = self.buffers.borrow_mut().scan(n, held);
        for &pages in &gone {
            mm.buffer_goes(pages);
            mm.mm_account_reclaimed_pages(pages);
        }
        gone.len() as u64
    }

    /// Frees the buffers of metadata that are counted as memory.
    fn unmounted<const T: bool>(&self, mm: &SimMm<T>) {
        if mm.counts_buffers() {
            let gone = self.buffers.borrow_mut().clear();
            gone.for_each(|pages| mm.buffer_goes(pages));
        }
    }

    /// Forces the log: writes `n` changed inodes and the blocks changed by names as one record at
    /// the log's head. Returns true if the device wrote it.
    async fn write_log<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u32) -> bool {
        let record = if Self::relogs(mm) {
            self.cil.force(mm, n)
        } else {
            let bytes = self.log_bytes.replace(0) + u64::from(n) * LOG_INODE;
            Record::of_blocks((LOG_HEADER + bytes).div_ceil(4096))
        };
        let (at, blocks) = self.log.take_on(record.blocks, record.shares);
        let beside = if u64::from(blocks) == record.blocks { record.beside } else { 0 };
        let how = match mm.policy.xfs_log_push {
            XfsLogPush::Forces => LogWrite::Whole,
            XfsLogPush::Background => LogWrite::Buffers,
            XfsLogPush::Unwaited => LogWrite::BuffersLastAlone,
        };
        let place = (at, blocks);
        mm.world.write_record(fs.volume, place, beside, how).await
    }

    /// Returns the log space in bytes that `n` changed inodes and the blocks changed since the last
    /// force take, and the length in bytes of the log that mkfs would make.
    fn log_space<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u32) -> (u64, u64) {
        let waits = if Self::relogs(mm) {
            self.cil.space(n)
        } else {
            self.log_bytes.get() + u64::from(n) * LOG_INODE
        };
        (waits, mkfs_log(fs.layout.capacity(), mm.policy.xfs_format))
    }
}

impl Xfs {
    /// Returns true if each force logs all changes of a block again.
    fn relogs<const T: bool>(mm: &SimMm<T>) -> bool {
        mm.policy.xfs_log != XfsLog::Once
    }

    /// Logs that blocks of a file's allocation group were taken or given back, where each force
    /// logs all changes again (`xfs_log`).
    fn space_changed<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {
        if Self::relogs(mm) {
            let group = fs.with_place(mapping, |place| place.group);
            self.cil.space_changed(mm, fs.space.first_block(group));
        }
    }

    /// Logs the blocks that making or removing a name changes, in the form in which each force logs
    /// all changes of a block again: the group's inode trees, its free space if a chunk is new, and
    /// the directory's block.
    fn relog<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, change: NameChange) {
        let group = fs.space.first_block(change.group);
        let number = u64::from(mm.inode_number(change.ino));
        let new = change.made && number.is_multiple_of(CHUNK_INODES);
        self.cil
            .inodes_changed(mm, group, (number / CHUNK_INODES) as u32, new);
        if new {
            // The chunk's blocks are taken from free space.
            self.cil.space_changed(mm, group);
        }
        if change.block != 0 {
            let about = fs.kind().about();
            let inline = about.entries_in_inode;
            self.cil.name_changed(mm, DirChange {
                dir: change.dir,
                block: change.block,
                entries: fs.names.entries(change.dir).saturating_sub(inline),
                of_block: about.entries_of_block,
                ino: change.ino,
            });
        }
    }

    /// Returns true if the roots of some group's trees may have to be read first: the policy models
    /// these reads, and not all groups have had theirs.
    #[inline(always)]
    fn may_lack_roots<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, trees: Trees) -> bool {
        mm.policy.xfs_roots == XfsRoots::Read
            && self.with_roots[trees as usize].get() < fs.space.group_count()
    }

    /// Reads the roots of two of a group's trees, unless they are in memory: those of inodes and of
    /// free inodes, or those of free space by block and by length. They lie behind the group's
    /// header, a block each. (The list of blocks that the trees grow from, a sector, is not read:
    /// devices here count blocks.)
    async fn read_roots<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, group: u32, trees: Trees) {
        {
            let roots = &mut *self.roots.borrow_mut();
            let at = group as usize;
            if roots.len() <= at {
                roots.resize(at + 1, [false; 2]);
            }
            if std::mem::replace(&mut roots[at][trees as usize], true) {
                return;
            }
            let n = &self.with_roots[trees as usize];
            n.set(n.get() + 1);
        }
        let group = fs.space.first_block(group);
        let blocks = match trees {
            Trees::Inodes => [4, 3],
            Trees::Space => [2, 1],
        };
        for at in blocks {
            mm.world.write_raw(fs.volume, group + at, 1, false).await;
        }
    }

    /// Takes the blocks of a new chunk of 64 inodes for a group; its next inodes lie there.
    /// `fresh`: the chunk's buffers are made in memory, not read.
    fn new_chunk(&self, fs: &Fs, group: u32, fresh: bool) -> Result<(), FsError> {
        let cluster = self.cluster_blocks.get();
        let all = CHUNK_CLUSTERS * cluster;
        let taken = fs.take_blocks_near(group, 0, all, all);
        let (block, blocks) = taken.ok_or(FsError::NoSpace)?;
        if blocks < all {
            fs.space.put_back(block, blocks);
            return Err(FsError::NoSpace);
        }
        fs.space.used(blocks);
        let mut chunks = self.chunks.borrow_mut();
        if chunks.len() <= group as usize {
            chunks.resize(group as usize + 1, 0);
        }
        chunks[group as usize] = block;
        // With `fresh` the next `names_changed` logs the chunk.
        if fresh {
            self.made_chunk.set(true);
            // Where buffers are counted as memory, `names_changed` adds them (`chunk_buffered`).
            let mut buffers = self.buffers.borrow_mut();
            if !buffers.keeps_all() {
                for at in (0..all).step_by(cluster as usize) {
                    buffers.used(block + u64::from(at), Buffer::of_block());
                }
            }
        }
        Ok(())
    }

    /// Logs a change of a directory block or group header: counts its bytes for the next force,
    /// once until it is written in place.
    fn log_block(&self, block: u64) {
        if block != 0 && self.last[place_of(block)].replace(block) == block {
            return;
        }
        if self.unwritten.borrow_mut().insert(block) {
            self.log_bytes.set(self.log_bytes.get() + LOG_BLOCK);
        }
    }

    /// Runs the daemon that writes directory blocks and group headers changed by names in place,
    /// every interval. Never returns.
    async fn buffer_daemon<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        loop {
            let interval = mm.sync_interval(fs.sb.get());
            mm.world.sched.sleep_ticks(interval).await;
            let mut blocks = self.cil.write_in_place(mm);
            blocks.extend(self.unwritten.take());
            self.last.iter().for_each(|last| last.set(0));
            blocks.sort_unstable();
            let queue = mm.world.queue_base + own_queue::JOURNAL;
            for block in blocks {
                mm.world
                    .submit(fs.volume, Tag::Raw { queue }, true, false, block, 1)
                    .await;
                mm.world.sched.relax().await;
            }
        }
    }

    /// Counts the buffers of a new chunk as memory; `change` is the name whose inode is the chunk's
    /// first.
    fn chunk_buffered<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, change: NameChange) {
        let number = mm.inode_number(change.ino);
        let block = fs.with_place(change.ino, |place| place.inode);
        for nth in 0..CHUNK_CLUSTERS {
            let buffer = self.of_cluster(change.group, number / CLUSTER_INODES + nth);
            let at = block + u64::from(nth * self.cluster_blocks.get());
            if !self.buffers.borrow_mut().used(at, buffer) {
                mm.buffer_comes(buffer.pages);
            }
        }
    }

    /// Returns the buffer for the `cluster`th inode cluster of a group.
    fn of_cluster(&self, group: u32, cluster: u32) -> Buffer {
        Buffer::of_cluster(self.cluster_blocks.get(), (group, cluster))
    }

    /// Reads the cluster of an inode, which begins at `block`, unless its buffer is in memory.
    async fn read_cluster<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, ino: u32, block: u64) {
        let group = fs.with_place(ino, |place| place.group);
        let cluster = mm.inode_number(ino) / CLUSTER_INODES;
        let buffer = self.of_cluster(group, cluster);
        self.read_buffer(mm, fs, block, buffer).await;
    }

    /// Reads the blocks of a metadata buffer, the first of which is `block`, unless it is in
    /// memory, and marks it as used.
    async fn read_buffer<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        block: u64,
        buffer: Buffer,
    ) {
        if !self.buffers.borrow_mut().used(block, buffer) {
            mm.buffer_comes(buffer.pages);
            mm.world.write_raw(fs.volume, block, buffer.pages, false).await;
        }
    }
}

/// Writes the dirty pages that follow page `index`, which kswapd asked for, while `wbc.nr_to_write`
/// lasts and at most a batch (`xfs_cluster_write`).
async fn cluster_write<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    wbc: &mut WritebackControl,
) {
    let Some(next) = index.checked_add(1) else {
        return;
    };
    let quota = wbc.nr_to_write.clamp(0, i64::from(BATCH - 1)) as u32;
    let run = mm.tagged_run(mapping, PageTag::Dirty, next, quota);
    if run > 0 {
        wbc.nr_to_write -= i64::from(write_run(mm, mapping, next, run, wbc, None).await.pages);
    }
}

/// Returns the number of allocation groups on a disk of `blocks` blocks: the parameter `xfs_ags`,
/// or as many as mkfs makes.
fn group_count(blocks: u64, disk: &DiskSpec, p: &Params) -> u64 {
    match p.xfs_ags as u64 {
        0 => mkfs_groups(blocks, disk.kind.about().array.is_some()),
        n => n.min((blocks / LEAST_GROUP).max(1)),
    }
}

/// Returns the length in bytes of the log that mkfs.xfs makes on so many blocks (xfsprogs
/// mkfs/xfs_mkfs.c `calculate_log_size`): a 2048th of the disk, at most 2 GiB; at least 10 MiB, and
/// 64 MiB since 2021, for which disks of 512-byte inodes stand; on a small disk at most an eighth.
/// The length of the ring that is written here is another one ([`LOG_LENGTH`]).
fn mkfs_log(blocks: u64, format: XfsFormat) -> u64 {
    const MIB: u64 = 1 << 20;
    let least = match format {
        XfsFormat::V4 => 10 * MIB,
        XfsFormat::V5 => 64 * MIB,
    };
    let bytes = blocks * 4096;
    (bytes / 2048).clamp(least, 2048 * MIB).min(bytes / 8)
}

/// Returns the number of allocation groups that mkfs.xfs makes on `blocks` blocks of 4 KiB
/// (`calc_default_ag_geometry`): at most 1 TiB each; four on a single disk; on an `array` 8, 16
/// from 8 GiB on and 32 from 512 GiB on.
fn mkfs_groups(blocks: u64, array: bool) -> u64 {
    const GIB: u64 = 1 << 18;
    let groups = match blocks {
        _ if !array => 4,
        0..0x20_0000 => 8,
        0x20_0000..0x800_0000 => 16,
        _ => 32,
    };
    groups.max(blocks.div_ceil(1024 * GIB))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_as_long_as_those_of_mkfs() {
        const MIB: u64 = 1 << 8;
        let logs = |mib: u64| [XfsFormat::V4, XfsFormat::V5].map(|f| mkfs_log(mib * MIB, f) >> 20);
        assert_eq!(logs(256), [10, 32]);
        assert_eq!(logs(4 << 10), [10, 64]);
        assert_eq!(logs(256 << 10), [128, 128]);
        assert_eq!(logs(16 << 20), [2048, 2048]);
    }

    #[test]
    fn allocation_groups_are_those_of_mkfs() {
        const GIB: u64 = 1 << 18;
        let groups = |gib: u64, array| mkfs_groups(gib * GIB, array);
        assert_eq!([groups(16, false), groups(4096, false)], [4, 4]);
        assert_eq!(
            [groups(4, true), groups(64, true), groups(600, true)],
            [8, 16, 32]
        );
        assert_eq!(groups(8192, false), 8);
    }
}
