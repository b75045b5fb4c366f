//! What filesystems differ in. A method's default is the answer of one that has no opinion: blocks in
//! the order of writing, one group, every page written when it is asked for, no journal, metadata
//! that is always at hand.

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

/// What a daemon does until the run ends.
pub type Life<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// What runs for a filesystem beside programs.
pub struct Daemon<'a> {
    /// What it is called.
    pub name: &'static str,
    /// What it does, for ever.
    pub life: Life<'a>,
    /// Whose work it is; `None`: it has a thread of its own.
    pub pool: Option<Pool>,
    /// Whether it is a thread of the kernel's own, which no reclaim throttle holds back; otherwise a process.
    pub of_kernel: bool,
}

impl<'a> Daemon<'a> {
    /// A thread of the kernel's own.
    pub fn thread(name: &'static str, life: impl Future<Output = ()> + 'a) -> Self {
        Self {
            name,
            life: Box::pin(life),
            pool: None,
            of_kernel: true,
        }
    }

    /// A process, as the server of a filesystem in user space is.
    pub fn process(name: &'static str, life: impl Future<Output = ()> + 'a) -> Self {
        Self {
            of_kernel: false,
            ..Self::thread(name, life)
        }
    }

    /// Work for a pool of threads.
    pub fn work(pool: Pool, name: &'static str, life: impl Future<Output = ()> + 'a) -> Self {
        Self {
            pool: Some(pool),
            ..Self::thread(name, life)
        }
    }
}

/// What the rest of the house asks about a filesystem.
pub(crate) struct Kind {
    /// Bytes that an inode takes in memory (slab object sizes of 64-bit kernels).
    pub inode_bytes: u32,
    /// Entries of a directory that its inode has room for: so many need no block.
    pub entries_in_inode: u32,
    /// Names that a directory's block of 4 KiB has room for.
    pub entries_of_block: u32,
    /// Where its fixed metadata are, on so many blocks.
    pub(super) layout: fn(u64, &Params) -> Layout,
    /// The most blocks that it can have.
    pub most_blocks: u64,
    /// Allocation groups of a filesystem of so many blocks on a disk, at least 1.
    pub groups: fn(u64, &DiskSpec, &Params) -> u64,
    /// Whether its inodes are in the engine's XFS inode cache, by allocation groups.
    pub xfs_inodes: bool,
    /// Whether it complains (`DirectWritepageWarning`) when direct reclaim asks it to write a page of a
    /// file.
    pub warns_of_direct_reclaim: bool,
    /// Whether a daemon serves it over FUSE: mount(2) of no kernel knows it.
    pub over_fuse: bool,
    /// It has a backing device of its own, whose windows of read-ahead grow to so many pages at least, and whose dirtiers the
    /// disk's throttle does not know. The others have their disk's.
    pub own_bdi: Option<u32>,
}

impl Kind {
    /// One without peculiarities, but for its inodes' size.
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

    /// Groups of the engine's XFS inode cache that a filesystem of so many blocks takes.
    pub fn inode_groups(&self, capacity: u64, disk: &DiskSpec, p: &Params) -> u32 {
        if self.xfs_inodes {
            (self.groups)(capacity, disk, p) as u32
        } else {
            0
        }
    }
}

/// How far an allocation looks ahead, in pages from the first one on.
pub(super) struct Ahead {
    /// Pages in front of the first one that get their blocks with it.
    pub before: u32,
    /// Pages that are dirty: they get their blocks now.
    pub need: u32,
    /// Pages to set blocks aside for, at least `need`.
    pub want: u32,
}

impl Ahead {
    pub fn none(len: u32) -> Self {
        Self {
            before: 0,
            need: len,
            want: len,
        }
    }
}

/// What bounds a bio and an end, where pages leave writeback by ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Pages that leave writeback together, at most.
    pub pages: u32,
    /// Runs of frames in a row that a bio has room for.
    pub segments: u32,
    /// Each bio is an end.
    pub by_bio: bool,
    /// No end goes beyond a multiple of so many of the file's pages.
    pub align: u32,
}

impl Ends {
    /// A bio's (`BIO_MAX_VECS`).
    pub const BIO: Self = Self {
        pages: u32::MAX,
        segments: 256,
        by_bio: true,
        align: u32::MAX,
    };

    /// Whether an end of so many pages takes the file's page `index`, which follows.
    pub fn go_on(self, pages: u32, index: u32) -> bool {
        pages < self.pages && !index.is_multiple_of(self.align)
    }
}

/// Blocks for the first `pages` of a file, one run behind the other. Returns whether it has them.
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

/// A filesystem: its own state, and what it does otherwise than others. `fs` is always the one that it
/// is part of, `mapping` a file of it.
#[expect(
    unused_variables,
    reason = "defaults have no use for most of what they are given"
)]
pub(super) trait Model: Sized {
    /// What is true of all filesystems of its kind.
    const KIND: Kind;

    /// That of an empty filesystem; its fixed metadata lie in `front`.
    fn new(p: &Params, front: Layout) -> Self;

    // When it is mounted.

    /// What the engine has to know.
    fn super_info(&self, fs: &Fs) -> SuperInfo {
        SuperInfo {
            inode_bytes: Self::KIND.inode_bytes,
            ags: 0,
            sync_interval: 0,
        }
    }

    /// Creates its metadata files and further bdis.
    fn mount<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {}

    /// Reads the root directory's inode; returns its block.
    fn read_root(&self, fs: &Fs) -> u64 {
        fs.layout.root_inode()
    }

    /// Its daemons.
    fn daemons<'a, const T: bool>(&'a self, mm: &'a SimMm<T>, fs: &'a Fs) -> Vec<Daemon<'a>> {
        Vec::new()
    }

    // Blocks.

    /// Sets aside up to `want` blocks, at least `need` if so many lie together; `goal` is the block
    /// behind the file's last one, `group` its directory's. Returns the first and how many.
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

    /// The page from which on blocks that are set aside come back when the last writer closes a file
    /// of `end` pages. `promised`: those in front of it were dirty when their blocks were taken.
    fn kept_at_close(&self, end: u32, promised: u32) -> u32 {
        promised
    }

    /// Blocks for the first `pages` of a file that is there before the run. Returns whether it has them.
    fn lay_out(&self, fs: &Fs, mapping: u32, pages: u64) -> bool {
        lay_out_in_order(fs, mapping, pages)
    }

    /// A file was cut behind its first `kept` pages, or goes (`None`): nothing of it is in memory behind them.
    async fn freed<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32, kept: Option<u32>) {}

    /// A file gets longer without being written to: a hole, where there are holes.
    async fn grow<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        len: u64,
    ) -> Result<(), FsError> {
        Ok(())
    }

    /// A write that passes the cache is to reach up to a byte. Returns whether it may; else it goes through
    /// the cache.
    async fn before_direct<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        end: u64,
    ) -> Result<bool, FsError> {
        Ok(true)
    }

    /// Pages of a file are to be read from the device: what it takes to know where they are.
    async fn find_blocks<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) {
    }

    /// How far to look ahead where `len` pages from `first` on need blocks; asked with
    /// `fs_look_ahead` only.
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

    /// Whether [`Self::allocate_at_write`] does anything.
    fn allocates_at_write(&self, fs: &Fs) -> bool {
        false
    }

    /// A page is written to, before it gets dirty: takes its block if that is done now, not when it is
    /// written back. `false`: there is none.
    fn allocate_at_write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        index: u32,
    ) -> bool {
        true
    }

    /// The place of a run of dirty pages that are written back: first block and length. `None`: the
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

    /// Whether pages that have blocks keep them when they are written again, so that their place can be asked for at any
    /// time.
    fn rewrites_in_place(&self) -> bool {
        true
    }

    /// The walk asked for the place of pages that had none.
    fn run_placed<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {}

    // Data.

    /// A new file's mapping, on its bdi. `None`: too many files.
    fn new_file<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> Option<u32> {
        let file = mm.new_mapping(MappingKind::File, fs.bdi.get())?;
        if self.buffer_heads() {
            mm.keep_buffers(file);
        }
        Some(file)
    }

    /// Whether pages of its files have buffer heads once they were written.
    fn buffer_heads(&self) -> bool {
        false
    }

    /// write(2) of at least one byte.
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

    /// How many of `most` mapped pages from an index on may become writable. Those without a block get their places
    /// when they are written back (delayed allocation), if there is any left.
    fn page_mkwrite(&self, fs: &Fs, mapping: u32, index: u32, most: u32) -> u32 {
        match fs.free_blocks() {
            0 => fs.mapped_of(mapping, index, most),
            _ => most,
        }
    }

    /// The mapping whose dirty pages hold a file's data.
    fn data_of(&self, mapping: u32) -> u32 {
        mapping
    }

    /// The flusher's `writepages`.
    async fn writepages<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) {
        walk::write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
    }

    /// Whether its `writepages` gathers requests, whoever calls it (`blk_start_plug`).
    fn plugs(&self) -> bool {
        false
    }

    /// Which pages end together; `fresh`: their blocks are new.
    fn ends<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, fresh: bool) -> Ends {
        Ends::BIO
    }

    /// What a walk holds while it hands a bio over, where another one walks over the same file.
    fn locks<const T: bool>(&self, mm: &SimMm<T>) -> IomapWriteback {
        IomapWriteback::Alone
    }

    /// A walk is about to write pages whose blocks are new, until [`Self::fresh_done`].
    async fn begin_fresh<const T: bool>(&self, mm: &SimMm<T>) {}

    /// Whether a daemon of the filesystem hands this bio to the device, in the order of the calls. `meta`: it is no file's.
    fn submits_later<const T: bool>(
        &self,
        mm: &SimMm<T>,
        volume: u32,
        bio: Bio,
        meta: bool,
    ) -> bool {
        false
    }

    /// Runs of frames in a row that a bio has room for which is to read so many pages (`bio_max_segs`).
    fn read_vector(&self, pages: u32) -> u32 {
        pages
    }

    /// A bio's pages are read. Whether a worker unlocks them.
    fn ends_reads_later<const T: bool>(&self, mm: &SimMm<T>, end: u32) -> bool {
        false
    }

    /// It has handed them over.
    fn fresh_done<const T: bool>(&self, mm: &SimMm<T>) {}

    /// Whether a worker lets go of pages with new blocks once all of them are written.
    fn converts<const T: bool>(&self, mm: &SimMm<T>) -> bool {
        false
    }

    /// That worker waits until it may change the metadata of an extent.
    async fn may_convert<const T: bool>(&self, mm: &SimMm<T>) {}

    /// It does, a file's next extent.
    fn converted<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) {}

    /// Pages from a dirty one on that get their blocks together, and are then written whatever was asked for. 0:
    /// what was asked for holds.
    fn placed_together<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, first: u32) -> u32 {
        0
    }

    /// Pages of a file that a walk starts I/O on at a time, at most.
    fn longest_run<const T: bool>(&self, mm: &SimMm<T>, mapping: u32) -> u32 {
        BATCH
    }

    /// A walk started I/O on a run of so many pages; `waits`: for all that is written.
    async fn run_written<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pages: u32,
        waits: bool,
    ) {
    }

    /// Pages of a file that leave writeback together are written: the first one, and how many.
    fn end_written<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32, pages: (u32, u32)) {}

    /// How many pages of a file that is not the block device's, from the first one on and at most so many, page reclaim
    /// (`direct`: not kswapd) is refused.
    fn refuses_reclaim(&self, fs: &Fs, mapping: u32, pages: (u32, u32), direct: bool) -> u32 {
        0
    }

    /// Whether a transaction holds a block of the device's own file: its page stays in memory.
    fn holds(&self, block: u64) -> bool {
        false
    }

    /// A page was written for reclaim (`kswapd`, or whoever allocates).
    async fn after_writepage<const T: bool>(
        &self,
        mm: &SimMm<T>,
        mapping: u32,
        index: u32,
        wbc: &mut WritebackControl,
        kswapd: bool,
    ) {
    }

    /// fsync(2) of a file. Returns whether everything reached the device.
    async fn fsync<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) -> bool {
        mm.write_and_wait(self.data_of(mapping)).await & self.commit(mm, fs).await
    }

    /// A descriptor that was open for writing is closed (`release` of the file's operations).
    async fn released<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {}

    /// It is unmounted: nothing of it stays in memory.
    fn unmounted<const T: bool>(&self, mm: &SimMm<T>) {}

    /// Buffers of its blocks that a shrinker may ask for.
    fn count_buffers(&self) -> u64 {
        0
    }

    /// Looks at `n` of them and gives up those that nobody uses; returns how many.
    fn scan_buffers<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u64) -> u64 {
        0
    }

    /// Its journal or log, if it has one.
    fn journal(&self) -> Option<&Ring> {
        None
    }

    /// Brings what is logged to the device. Returns whether it got there.
    async fn commit<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        true
    }

    // Names and inodes.

    /// The group for a new directory.
    fn directory_group(&self, fs: &Fs) -> u32 {
        fs.names.directories() % fs.layout.groups()
    }

    /// The place of the `number`th inode of a group, whose name is an `entry`: its block, or what else the
    /// filesystem finds it by. `fresh`: it is made now, and was not there before the run.
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

    /// The next block for the entries of a directory.
    fn take_directory_block(&self, fs: &Fs, dir: DirNumber, group: u32) -> Option<u64> {
        fs.take_blocks(group, 1).map(|(block, _)| block)
    }

    /// A directory is being made: what it has beside its name.
    async fn directory_made<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        dir: DirNumber,
    ) -> Result<(), FsError> {
        Ok(())
    }

    /// A name was made or removed: what of it becomes dirty.
    async fn names_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        Ok(())
    }

    /// Reads a file's inode from its place, with those beside it, unless they are in memory.
    async fn read_inode<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, ino: u32, place: u64) {}

    /// Reads a directory's block, unless it is in memory. The names are the caller's to know, so a block
    /// that can't be read is read again the next time, and nothing else happens.
    async fn read_names<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, block: u64) {}

    /// Starts to write an inode of the engine's XFS inode cache to its place.
    async fn write_inode<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, ino: u32, sync: bool) {
        mm.inode_written(ino, false);
    }

    /// Writes `n` changed inodes of the engine's XFS inode cache to the log. Returns whether it
    /// succeeded.
    async fn write_log<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u32) -> bool {
        true
    }

    /// Bytes that what waits for the log of an XFS would take there, `n` inodes among it, and the log's length in bytes.
    fn log_space<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, n: u32) -> (u64, u64) {
        (0, u64::MAX)
    }
}
