//! The differences between filesystems, as methods of a trait. Each default is that of a plain
//! filesystem: blocks in the order of writing, one group, every page written when writeback asks
//! for it, no journal, metadata that is always in memory.

use super::files::Ahead;
use super::ioend::Ends;
use super::layout::Layout;
use super::names::{DirNumber, ENTRIES_OF_BLOCK, Entry, NameChange};
use super::ring::Ring;
use super::space::Space;
use super::walk::{self, Walk};
use super::{BATCH, Fs, FsError, SimMm, write};
use crate::block::Bio;
use crate::params::Params;
use crate::sched::Pool;
use crate::spec::DiskSpec;
use mm::cache::mapping::MappingKind;
use mm::inodes::inode::SuperInfo;
use mm::policy::IomapWriteback;
use mm::world::WritebackControl;

/// The future of a daemon, which runs until the run ends.
pub type Life<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A task that runs for a filesystem beside the programs.
pub struct Daemon<'a> {
    /// The name it has in reports.
    pub name: &'static str,
    /// Its code, which never returns.
    pub life: Life<'a>,
    /// The thread pool that runs it; `None`: a thread of its own.
    pub pool: Option<Pool>,
    /// True for a kernel thread, which no reclaim throttle holds back; false for a process.
    pub of_kernel: bool,
}

impl<'a> Daemon<'a> {
    /// Makes a kernel thread.
    pub fn thread(name: &'static str, life: impl Future<Output = ()> + 'a) -> Self {
        Self {
            name,
            life: Box::pin(life),
            pool: None,
            of_kernel: true,
        }
    }

    /// Makes a process, such as the server of a filesystem in user space.
    pub fn process(name: &'static str, life: impl Future<Output = ()> + 'a) -> Self {
        Self {
            of_kernel: false,
            ..Self::thread(name, life)
        }
    }

    /// Makes work for a pool of kernel threads.
    pub fn work(pool: Pool, name: &'static str, life: impl Future<Output = ()> + 'a) -> Self {
        Self {
            pool: Some(pool),
            ..Self::thread(name, life)
        }
    }
}

/// The fixed properties of a kind of filesystem.
pub(crate) struct Kind {
    /// Bytes that an inode takes in memory (slab object sizes of 64-bit kernels).
    pub inode_bytes: u32,
    /// Number of directory entries that fit into the directory's inode, so that they need no block.
    pub entries_in_inode: u32,
    /// Number of names that fit into a directory's block of 4 KiB.
    pub entries_of_block: u32,
    /// Returns the places of its fixed metadata, on a volume of the given number of blocks.
    pub(super) layout: fn(u64, &Params) -> Layout,
    /// Maximum number of blocks that it can have.
    pub most_blocks: u64,
    /// Returns the number of allocation groups, at least 1, of a filesystem of the given number of
    /// blocks on a disk.
    pub groups: fn(u64, &DiskSpec, &Params) -> u64,
    /// True if its inodes are in the engine's XFS inode cache, by allocation groups.
    pub xfs_inodes: bool,
    /// True if the kernel warns (`DirectWritepageWarning`) when direct reclaim asks it to write a
    /// page of a file.
    pub warns_of_direct_reclaim: bool,
    /// True if a daemon serves it over FUSE: no kernel's mount(2) knows it.
    pub over_fuse: bool,
    /// `Some`: it has a backing device of its own, whose read-ahead window is at least this many
    /// pages, and whose dirtiers the disk's writeback throttle does not see. `None`: it uses its
    /// disk's.
    pub own_bdi: Option<u32>,
}

impl Kind {
    /// Returns the properties of a filesystem without peculiarities; `inode_bytes` is the size of
    /// its inodes in memory.
    pub const fn plain(inode_bytes: u32) -> Self {
        Self {
            inode_bytes,
            entries_in_inode: 0,
            entries_of_block: ENTRIES_OF_BLOCK,
            layout: |capacity, _| Layout::new(capacity),
            most_blocks: u64::MAX,
            groups: |_, _, _| 1,
            xfs_inodes: false,
            warns_of_direct_reclaim: false,
            over_fuse: false,
            own_bdi: None,
        }
    }

    /// Returns how many groups of the engine's XFS inode cache a filesystem of `capacity` blocks
    /// takes; 0 if its inodes are not there.
    pub fn inode_groups(&self, capacity: u64, disk: &DiskSpec, p: &Params) -> u32 {
        if self.xfs_inodes {
            (self.groups)(capacity, disk, p) as u32
        } else {
            0
        }
    }
}

/// Allocates blocks for the first `pages` of a file, one run after the other. Returns false if the
/// space does not suffice.
pub(super) fn lay_out_in_order(fs: &Fs, mapping: u32, pages: u64) -> bool {
    let mut index = 0;
    while index < pages {
        let most = (pages - index).min(1 << 30) as u32;
        match fs.map_run(mapping, index as u32, most) {
            Some((_, n)) => index += u64::from(n),
            None => return false,
        }
    }
    true
}

/// A filesystem: its own state and its behaviour where that differs from the defaults. `fs` is
/// always the filesystem that the model is part of, `mapping` a file of it.
#[expect(
    unused_variables,
    reason = "defaults have no use for most of what they are given"
)]
pub(super) trait Model: Sized {
    /// The properties that all filesystems of this kind have.
    const KIND: Kind;

    /// Makes the state of an empty filesystem whose fixed metadata lie in `front`.
    fn new(p: &Params, front: Layout) -> Self;

    // Mounting.

    /// Returns the superblock information that the engine needs.
    fn super_info(&self, fs: &Fs) -> SuperInfo {
        SuperInfo {
            inode_bytes: Self::KIND.inode_bytes,
            ags: 0,
            sync_interval: 0,
        }
    }

    /// Creates its metadata files and further bdis when it is mounted.
    fn mount<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {}

    /// Reads the root directory's inode and returns its block.
    fn read_root(&self, fs: &Fs) -> u64 {
        fs.layout.root_inode()
    }

    /// Returns its daemons.
    fn daemons<'a, const T: bool>(&'a self, mm: &'a SimMm<T>, fs: &'a Fs) -> Vec<Daemon<'a>> {
        Vec::new()
    }

    // Blocks.

    /// Reserves up to `want` blocks, or at least `need` if no longer run is free; `goal` is the
    /// block after the file's last one, `group` its directory's group. Returns the first block and
    /// the number taken.
    fn take_blocks(
        &self,
        space: &Space,
        group: u32,
        goal: u64,
        want: u32,
        need: u32,
    ) -> Option<(u64, u32)> {
        space.take_in_stream(want, need)
    }

    /// Returns the page index from which on reserved blocks are given back when the last writer
    /// closes a file of `end` pages. Pages before index `promised` were dirty when their blocks
    /// were reserved.
    fn kept_at_close(&self, end: u32, promised: u32) -> u32 {
        promised
    }

    /// Allocates blocks for the first `pages` of a file that exists before the run. Returns false
    /// if the space does not suffice.
    fn lay_out(&self, fs: &Fs, mapping: u32, pages: u64) -> bool {
        lay_out_in_order(fs, mapping, pages)
    }

    /// Handles a file that was cut after its first `kept` pages, or is removed (`None`). No page
    /// behind them is cached any more.
    async fn freed<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32, kept: Option<u32>) {}

    /// Extends a file to `len` bytes without a write. By default the new part is a hole and nothing
    /// is done; a filesystem without holes allocates.
    async fn grow<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        len: u64,
    ) -> Result<(), FsError> {
        Ok(())
    }

    /// Prepares a direct write (past the cache) that reaches up to byte `end`. Returns false if it
    /// must go through the cache instead. By default every write may bypass the cache.
    async fn before_direct<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        end: u64,
    ) -> Result<bool, FsError> {
        Ok(true)
    }

    /// Reads the metadata that locate `len` pages of a file from `first` on, before these are read
    /// from the device. By default they are known and nothing is read.
    async fn find_blocks<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) {
    }

    /// Returns how far an allocation looks ahead where `len` pages from `first` on need blocks.
    /// Called only with `fs_look_ahead`.
    fn look_ahead<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) -> Ahead {
        Ahead::none(len)
    }

    /// Returns true if [`Self::allocate_at_write`] does anything.
    fn allocates_at_write(&self, fs: &Fs) -> bool {
        false
    }

    /// Allocates the block of a page that is about to be dirtied by a write, if the filesystem does
    /// that now and not at writeback. Returns false if no block is free.
    fn allocate_at_write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        index: u32,
    ) -> bool {
        true
    }

    /// Returns the place of a run of dirty pages for writeback: first block and length. `None`: the
    /// device is full.
    fn place_run<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) -> Option<(u64, u32)> {
        walk::allocate(mm, fs, mapping, first, len)
    }

    /// Returns true if pages that have blocks keep them when they are written again, so that asking
    /// for their place changes nothing.
    fn rewrites_in_place(&self) -> bool {
        true
    }

    /// Called after a walk asked for the place of pages that had none before.
    fn run_placed<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {}

    // Data.

    /// Makes the mapping of a new file on the filesystem's bdi. `None`: too many files.
    fn new_file<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> Option<u32> {
        let file = mm.new_mapping(MappingKind::File, fs.bdi.get())?;
        if self.buffer_heads() {
            mm.keep_buffers(file);
        }
        Some(file)
    }

    /// Returns true if pages of its files have buffer heads once they were written.
    fn buffer_heads(&self) -> bool {
        false
    }

    /// Performs write(2) of at least one byte.
    async fn write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pos: u64,
        len: u64,
    ) -> Result<(), FsError> {
        write::buffered(mm, fs, mapping, pos, len).await
    }

    /// Returns how many of `most` mapped pages from an index on may become writable. Pages without
    /// a block get one at writeback (delayed allocation) as long as any block is free.
    fn page_mkwrite(&self, fs: &Fs, mapping: u32, index: u32, most: u32) -> u32 {
        match fs.free_blocks() {
            0 => fs.mapped_of(mapping, index, most),
            _ => most,
        }
    }

    /// Returns the mapping whose dirty pages hold a file's data.
    fn data_of(&self, mapping: u32) -> u32 {
        mapping
    }

    /// Performs the flusher's `writepages`: writes back dirty pages of a file.
    async fn writepages<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) {
        walk::write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
    }

    /// Returns true if its `writepages` plugs the calling task (`blk_start_plug`), so that requests
    /// are gathered.
    fn plugs(&self) -> bool {
        false
    }

    /// Returns the limits of the ends that a file's pages are gathered into; `fresh`: their blocks
    /// are new.
    fn ends<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, fresh: bool) -> Ends {
        Ends::BIO
    }

    /// Returns what a walk keeps locked while it submits a bio, if another walk over the same file
    /// is under way.
    fn locks<const T: bool>(&self, mm: &SimMm<T>) -> IomapWriteback {
        IomapWriteback::Alone
    }

    /// Called before a walk writes pages whose blocks are new; may wait. [`Self::fresh_done`]
    /// follows.
    async fn begin_fresh<const T: bool>(&self, mm: &SimMm<T>) {}

    /// Returns true if a daemon of the filesystem submits this bio to the device later, in the
    /// order of the calls. `meta`: the bio holds metadata, not a file's data.
    fn submits_later<const T: bool>(
        &self,
        mm: &SimMm<T>,
        volume: u32,
        bio: Bio,
        meta: bool,
    ) -> bool {
        false
    }

    /// Returns the number of segments that a bio for reading `pages` pages has room for
    /// (`bio_max_segs`).
    fn read_vector(&self, pages: u32) -> u32 {
        pages
    }

    /// Called when a bio's pages are read. Returns true if a worker unlocks them later.
    fn ends_reads_later<const T: bool>(&self, mm: &SimMm<T>, end: u32) -> bool {
        false
    }

    /// Called after a walk has gathered the pages announced by [`Self::begin_fresh`].
    fn fresh_done<const T: bool>(&self, mm: &SimMm<T>) {}

    /// Returns true if a worker ends the writeback of pages with new blocks once all of them are
    /// written.
    fn converts<const T: bool>(&self, mm: &SimMm<T>) -> bool {
        false
    }

    /// Waits, in the worker that converts new extents once their data is written, until the
    /// metadata of the next extent may be changed.
    async fn may_convert<const T: bool>(&self, mm: &SimMm<T>) {}

    /// Called when the worker that converts new extents converts the next one of a file.
    fn converted<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) {}

    /// Returns how many pages of a file, from its dirty page `first` on, get their blocks in one
    /// allocation; writeback then writes them all, even if its caller asked for fewer. 0: as many
    /// as the caller asked for.
    fn placed_together<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, first: u32) -> u32 {
        0
    }

    /// Returns the maximum number of a file's pages that a walk starts I/O on at a time.
    fn longest_run<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) -> u32 {
        BATCH
    }

    /// Called after a walk started I/O on a run of `pages` pages, for filesystems that then change
    /// metadata; `waits`: the walk's caller waits for all that is written. By default nothing is
    /// done.
    async fn run_written<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pages: u32,
        waits: bool,
    ) {
    }

    /// Called when pages of a file that leave writeback together are written: index of the first,
    /// and number.
    fn end_written<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32, pages: (u32, u32)) {}

    /// Returns how many of a file's pages, given as first index and maximum, the filesystem refuses
    /// to write for page reclaim. `direct`: the caller is in direct reclaim, not kswapd. Not called
    /// for the block device's own mapping.
    fn refuses_reclaim(&self, fs: &Fs, mapping: u32, pages: (u32, u32), direct: bool) -> u32 {
        0
    }

    /// Returns true if a transaction holds a block of the block device's mapping, whose page then
    /// stays in memory.
    fn holds(&self, block: u64) -> bool {
        false
    }

    /// Called after page `index` of a file was written for reclaim, by kswapd (`kswapd`) or by a
    /// task that allocates. By default nothing more is done.
    async fn after_writepage<const T: bool>(
        &self,
        mm: &SimMm<T>,
        mapping: u32,
        index: u32,
        wbc: &mut WritebackControl,
        kswapd: bool,
    ) {
    }

    /// Performs fsync(2) of a file. Returns true if everything reached the device.
    async fn fsync<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) -> bool {
        mm.write_and_wait(self.data_of(mapping)).await & self.commit(mm, fs).await
    }

    /// Called when a descriptor that was open for writing is closed (`release` of the file's
    /// operations).
    async fn released<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {}

    /// Called when it is unmounted: drops what it holds in memory.
    fn unmounted<const T: bool>(&self, mm: &SimMm<T>) {}

    /// Returns the number of block buffers that a shrinker may free.
    fn count_buffers(&self) -> u64 {
        0
    }

    /// Scans `n` buffers and frees the unused ones. Returns the number of buffers freed.
    fn scan_buffers<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u64) -> u64 {
        0
    }

    /// Returns its journal or log; `None` if it has none.
    fn journal(&self) -> Option<&Ring> {
        None
    }

    /// Commits the journal or log to the device. Returns false if an I/O error occurred.
    async fn commit<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        true
    }

    // Names and inodes.

    /// Returns the allocation group for a new directory.
    fn directory_group(&self, fs: &Fs) -> u32 {
        fs.names.directories() % fs.layout.groups()
    }

    /// Returns the place of the `number`th inode of a group, whose name is at `entry`: the inode's
    /// block, or another key by which the filesystem finds it. `fresh`: the inode is made now; it
    /// did not exist before the run.
    fn inode_place(
        &self,
        fs: &Fs,
        group: u32,
        number: u64,
        entry: Entry,
        fresh: bool,
    ) -> Result<u64, FsError> {
        Ok(number)
    }

    /// Allocates the next block for the entries of a directory.
    fn take_directory_block(&self, fs: &Fs, dir: DirNumber, group: u32) -> Option<u64> {
        fs.take_blocks(group, 1).map(|(block, _)| block)
    }

    /// Prepares a directory that is being made (such as its first block), apart from its entry in
    /// its parent. By default nothing is needed.
    async fn directory_made<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        dir: DirNumber,
    ) -> Result<(), FsError> {
        Ok(())
    }

    /// Dirties the metadata that change because a name was made or removed. By default a filesystem
    /// has none.
    async fn names_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        Ok(())
    }

    /// Reads a file's inode from its place, with the inodes beside it, unless they are in memory.
    async fn read_inode<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, ino: u32, place: u64) {}

    /// Reads a directory's block unless it is in memory. Errors are ignored: the caller knows the
    /// names anyway, and a block that cannot be read is read again the next time.
    async fn read_names<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, block: u64) {}

    /// Starts to write an inode of the engine's XFS inode cache to its place.
    async fn write_inode<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, ino: u32, sync: bool) {
        mm.inode_written(ino, false);
    }

    /// Writes `n` changed inodes of the engine's XFS inode cache to the log. Returns true on
    /// success.
    async fn write_log<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u32) -> bool {
        true
    }

    /// Returns the log space in bytes that everything waiting for an XFS log would take, `n` inodes
    /// among it, and the log's length in bytes.
    fn log_space<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u32) -> (u64, u64) {
        (0, u64::MAX)
    }
}
