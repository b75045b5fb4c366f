//! Filesystem models: the questions that reclaim and writeback ask of a real filesystem
//! (reference 04 §7).
//!
//! Common here: files and their extents, the buffered write path. Beside: reading (`read`), the walk
//! over a file's dirty pages (`walk`), and one file a filesystem: what it refuses, what else it
//! dirties, what its daemons do. A new filesystem is one file, one variant of [`FsKind`] and one arm
//! in each of the dispatching functions here and in `walk`.
//!
//! A machine has one filesystem, or two on disks of their own. Files of all have one row of numbers; a
//! file's filesystem is found from its bdi ([`of`]). Everything else belongs to one filesystem.

mod btrfs;
mod ext;
mod fuse_ntfs;
pub mod inode;
mod layout;
pub mod mapped;
mod names;
mod read;
mod readahead;
mod reuse;
mod space;
mod walk;
mod xfs;

pub use read::{read, read_with};
pub use readahead::{Dropped, Window};
pub use reuse::Reuse;
pub use walk::{writepage, writepages};

use crate::params::Params;
use crate::rng::Rng;
use crate::spec::{DiskSpec, FsKind};
use crate::world::{SimWorld, Tag};
use layout::Layout;
use mm::alloc::Gfp;
use mm::bdi::BdiStat;
use mm::frame::flag;
use mm::mapping::{AS_EIO, MappingKind};
use mm::pagecache::Tag as PageTag;
use mm::trace::TrackPath;
use mm::world::{Cost, World};
use mm::{Mm, Pfn};
use names::Names;
use read::read_page;
use space::Space;
use std::cell::{Cell, RefCell};

/// The engine in the virtual world.
pub type SimMm<const T: bool> = Mm<SimWorld<T>>;

/// The volume of the first filesystem: the tested disk.
pub const DEVICE: u32 = 0;
/// Pages handled between two relax points.
const BATCH: u32 = 32;

/// Why a filesystem call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsError {
    /// No memory.
    OutOfMemory,
    /// The device failed.
    Io,
    /// The device is full.
    NoSpace,
}

/// A run of a file's pages on disk.
#[derive(Debug, Clone, Copy)]
struct Extent {
    index: u32,
    len: u32,
    block: u64,
}

/// A file's place on disk.
#[derive(Debug, Default)]
struct Place {
    extents: Vec<Extent>,
    /// Blocks set aside for what follows.
    reserve: Option<Extent>,
    /// Pages in front of this index keep their part of the reserve for good.
    promised: u32,
    /// Its directory's group.
    group: u32,
    /// Its directory.
    dir: u32,
    /// Where its inode is.
    inode: u64,
    /// Descriptors open for writing.
    writers: u32,
}

impl Place {
    /// That of an empty file.
    fn of(group: u32, dir: u32, inode: u64) -> Self {
        Self {
            group,
            dir,
            inode,
            ..Self::default()
        }
    }
}

/// A directory; number 0 is its filesystem's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirId {
    /// The filesystem, in the order of mounting.
    pub fs: u32,
    /// Its number there.
    pub number: u32,
}

impl DirId {
    /// The root of a filesystem.
    pub fn root(fs: u32) -> Self {
        Self { fs, number: 0 }
    }
}

/// A filesystem and its state.
pub struct Fs {
    /// Which one.
    pub kind: FsKind,
    /// The volume that it is on.
    pub volume: u32,
    /// Its volume's bdi.
    pub bdi: Cell<u32>,
    /// The bdi of the FUSE mount, where there is one.
    fuse_bdi: Cell<u32>,
    files: RefCell<Vec<Place>>,
    layout: Layout,
    space: Space,
    names: Names,
    inodes: inode::InodePlaces,
    journal: ext::Journal,
    btrfs: btrfs::Btrfs,
    fuse: fuse_ntfs::Fuse,
    log_interval: u64,
    look_ahead: bool,
    read_ahead: u32,
    on_demand: bool,
}

impl Fs {
    /// An empty filesystem on a disk, `volume`, of which it has `capacity` blocks.
    pub fn new(
        kind: FsKind,
        disk: &DiskSpec,
        volume: u32,
        capacity: u64,
        read_ahead: u32,
        p: &Params,
        rng: &mut Rng,
    ) -> Self {
        // Where the allocator begins differs from one mkfs to the next, by whole MiB: partitions
        // and allocation groups are aligned.
        let layout = Layout::new(capacity);
        let spread = layout.spread(capacity, p.fs_layout_spread as u64);
        let start = layout.blocks() + rng.below(spread.div_ceil(256).max(1)) * 256;
        let groups = match kind {
            FsKind::Xfs => group_count(capacity, disk, p),
            _ => 1,
        };
        Self {
            kind,
            volume,
            bdi: Cell::new(0),
            fuse_bdi: Cell::new(0),
            files: RefCell::new(Vec::new()),
            layout,
            space: Space::new(start, capacity, groups),
            names: Names::new(layout),
            inodes: inode::InodePlaces::new(p),
            journal: ext::Journal::new(p),
            btrfs: btrfs::Btrfs::new(p, layout),
            fuse: fuse_ntfs::Fuse::new(p),
            log_interval: p.xfs_log_interval as u64,
            look_ahead: p.fs_look_ahead >= 0.5,
            read_ahead,
            on_demand: p.read_ahead_on_demand >= 0.5,
        }
    }

    /// Whether a page gets its block when it is written to, and not when it is written back.
    fn allocates_at_write(&self, kind: MappingKind) -> bool {
        self.kind == FsKind::Ext3 && self.look_ahead && kind == MappingKind::File
    }

    /// Whether reads open windows on demand.
    pub fn on_demand(&self) -> bool {
        self.on_demand
    }

    fn with_place<R>(&self, mapping: u32, f: impl FnOnce(&mut Place) -> R) -> R {
        let mut all = self.files.borrow_mut();
        if all.len() <= mapping as usize {
            all.resize_with(mapping as usize + 1, Place::default);
        }
        f(&mut all[mapping as usize])
    }

    fn with_extents<R>(&self, mapping: u32, f: impl FnOnce(&mut Vec<Extent>) -> R) -> R {
        self.with_place(mapping, |p| f(&mut p.extents))
    }

    /// The block of a page and how many pages from there on are contiguous; `None`: a hole.
    fn mapped(&self, mapping: u32, index: u32) -> Option<(u64, u32)> {
        self.with_extents(mapping, |list| {
            let i = list.partition_point(|e| e.index <= index);
            let e = list[..i].last()?;
            let skip = index - e.index;
            (skip < e.len).then(|| (e.block + u64::from(skip), e.len - skip))
        })
    }

    /// Pages from `index` on that no extent holds, up to `len`.
    fn hole(&self, mapping: u32, index: u32, len: u32) -> u32 {
        self.with_extents(mapping, |list| {
            let i = list.partition_point(|e| e.index <= index);
            list.get(i).map_or(len, |next| len.min(next.index - index))
        })
    }

    /// Sets aside blocks where the filesystem looks for them, `want` if so many lie together.
    fn take_blocks_near(&self, group: u32, goal: u64, want: u32, need: u32) -> Option<(u64, u32)> {
        if self.free_blocks() == 0 {
            return None;
        }
        let take = || match self.kind {
            FsKind::Xfs => self.space.take_in_group(group, goal, want, need),
            _ => self.space.take_in_stream(want, need),
        };
        take().or_else(|| {
            // What is set aside for other files is all there is.
            let files = self.files.borrow().len() as u32;
            for mapping in 0..files {
                self.drop_reserve(mapping, 0);
            }
            take()
        })
    }

    /// Takes `len` blocks, or as many as lie together, for good.
    fn take_blocks(&self, len: u32) -> Option<(u64, u32)> {
        let (block, n) = self.take_blocks_near(0, 0, len, len)?;
        self.space.used(n);
        Some((block, n))
    }

    /// Gives back what is set aside for a file from page `keep` on.
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

    fn add_extent(&self, mapping: u32, new: Extent) {
        self.with_extents(mapping, |list| {
            let i = list.partition_point(|e| e.index <= new.index);
            if let Some(last) = i.checked_sub(1).map(|i| &mut list[i])
                && last.index + last.len == new.index
                && last.block + u64::from(last.len) == new.block
            {
                last.len += new.len;
                return;
            }
            list.insert(i, new);
        });
    }

    /// The blocks of a run of pages, allocating holes. Returns block and length of the first
    /// contiguous piece; `None`: the device is full.
    fn map_run(&self, mapping: u32, index: u32, len: u32) -> Option<(u64, u32)> {
        self.map_ahead(mapping, index, len, || Ahead::none(len))
    }

    /// As [`Fs::map_run`]; a hole gets as many blocks as `ahead` says, and what is not used now is
    /// set aside for the pages that follow.
    fn map_ahead(
        &self,
        mapping: u32,
        index: u32,
        len: u32,
        ahead: impl FnOnce() -> Ahead,
    ) -> Option<(u64, u32)> {
        if let Some((block, n)) = self.mapped(mapping, index) {
            return Some((block, n.min(len)));
        }
        let len = self.hole(mapping, index, len);
        let reserve = self.with_place(mapping, |p| p.reserve);
        let reserve = match reserve {
            // A page in the middle: those before it get their blocks too.
            Some(r) if r.index <= index && index - r.index < r.len => {
                let skipped = index - r.index;
                if skipped > 0 {
                    self.space.used(skipped);
                    self.add_extent(mapping, Extent { len: skipped, ..r });
                }
                Extent {
                    index,
                    len: r.len - skipped,
                    block: r.block + u64::from(skipped),
                }
            }
            _ => {
                if self.free_blocks() == 0 {
                    return None;
                }
                self.drop_reserve(mapping, 0);
                let ahead = ahead();
                let (group, goal) = self.with_place(mapping, |p| {
                    let before = p.extents.partition_point(|e| e.index < index);
                    let last = p.extents[..before].last();
                    (p.group, last.map_or(0, |e| e.block + u64::from(e.len)))
                });
                let need = ahead.need.max(len);
                let (block, n) = self.take_blocks_near(group, goal, ahead.want, need)?;
                self.with_place(mapping, |p| p.promised = index.saturating_add(need));
                Extent {
                    index,
                    len: n,
                    block,
                }
            }
        };
        let n = len.min(reserve.len);
        let block = reserve.block;
        let left = Extent {
            index: index.saturating_add(n),
            len: reserve.len - n,
            block: block + u64::from(n),
        };
        self.with_place(mapping, |p| p.reserve = (left.len > 0).then_some(left));
        self.space.used(n);
        self.add_extent(
            mapping,
            Extent {
                index,
                len: n,
                block,
            },
        );
        Some((block, n))
    }

    /// A descriptor of a file is open for writing.
    pub fn opened(&self, mapping: u32) {
        self.with_place(mapping, |p| p.writers += 1);
    }

    /// One was closed; the last one gives back what lies behind the file's end (xfs) or was not
    /// asked for yet (ext4). `size`: the file's length.
    pub fn closed(&self, mapping: u32, size: u64) {
        let (last, promised) = self.with_place(mapping, |p| {
            p.writers = p.writers.saturating_sub(1);
            (p.writers == 0, p.promised)
        });
        if last {
            let end = size.div_ceil(4096).min(u64::from(u32::MAX)) as u32;
            let xfs = self.kind == FsKind::Xfs;
            self.drop_reserve(mapping, if xfs { end } else { promised });
        }
    }

    fn forget(&self, mapping: u32) {
        self.drop_reserve(mapping, 0);
        self.with_extents(mapping, Vec::clear);
    }

    /// Free blocks left.
    pub fn free_blocks(&self) -> u64 {
        self.space.unused()
    }
}

/// How far an allocation looks ahead, in pages from the first one on.
struct Ahead {
    /// Pages that are dirty: they get their blocks now.
    need: u32,
    /// Pages to set blocks aside for, at least `need`.
    want: u32,
}

impl Ahead {
    fn none(len: u32) -> Self {
        Self {
            need: len,
            want: len,
        }
    }
}

/// The filesystem that a file is on. Its bdis were made when it was mounted, so that each has a range
/// of numbers.
#[inline]
pub fn of<const T: bool>(mm: &SimMm<T>, mapping: u32) -> &Fs {
    let bdi = mm.mappings[mapping as usize].bdi();
    let mut all = mm.world.fs.iter().rev();
    all.find(|fs| fs.bdi.get() <= bdi)
        .expect("a file is on a filesystem")
}

/// The filesystem of a directory.
fn of_dir<const T: bool>(mm: &SimMm<T>, dir: DirId) -> &Fs {
    &mm.world.fs[dir.fs as usize]
}

/// Creates the bdis and metadata files of all filesystems; at start.
pub fn mount<const T: bool>(mm: &SimMm<T>) {
    for fs in &mm.world.fs {
        fs.bdi.set(mm.new_bdi(0, 100).expect("room for a bdi"));
        inode::mount(mm, fs);
        match fs.kind {
            FsKind::Btrfs => btrfs::mount(mm, fs),
            FsKind::FuseNtfs => fuse_ntfs::mount(mm, fs),
            FsKind::Ext3 | FsKind::Ext4 => ext::mount(mm, fs),
            FsKind::Xfs => {}
        }
        names::make_root(mm, fs);
    }
}

/// Allocation groups of an xfs of `capacity` blocks.
pub(crate) fn group_count(capacity: u64, disk: &DiskSpec, p: &Params) -> u64 {
    match p.xfs_ags as u64 {
        0 => xfs::groups(capacity, disk.kind.about().array.is_some()),
        n => n,
    }
}

/// What a daemon does until the run ends.
pub type Life<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The daemons of all filesystems: name and life.
pub fn daemons<const T: bool>(mm: &SimMm<T>) -> Vec<(&'static str, Life<'_>)> {
    let all = mm.world.fs.iter();
    all.flat_map(|fs| daemons_of(mm, fs)).collect()
}

fn daemons_of<'a, const T: bool>(mm: &'a SimMm<T>, fs: &'a Fs) -> Vec<(&'static str, Life<'a>)> {
    match fs.kind {
        FsKind::Xfs => {
            let sb = fs.inodes.sb.get();
            vec![
                ("xfssyncd", Box::pin(mm.xfs_log_worker(sb)) as Life<'_>),
                ("xfsbufd", Box::pin(xfs::buffer_daemon(mm, fs))),
                ("xfsaild", Box::pin(mm.xfsaild(sb))),
                ("xfs-reclaim", Box::pin(mm.xfs_reclaim_worker(sb))),
            ]
        }
        FsKind::Ext4 | FsKind::Ext3 => vec![("jbd2", Box::pin(ext::journal_thread(mm, fs)))],
        FsKind::Btrfs => vec![(
            "btrfs-transaction",
            Box::pin(btrfs::transaction_thread(mm, fs)),
        )],
        FsKind::FuseNtfs => vec![("ntfs-3g", Box::pin(fuse_ntfs::daemon(mm, fs)))],
    }
}

/// Creates a file without a name on the first filesystem; `None`: too many files.
pub fn create<const T: bool>(mm: &SimMm<T>) -> Option<u32> {
    create_on(mm, &mm.world.fs[0])
}

fn create_on<const T: bool>(mm: &SimMm<T>, fs: &Fs) -> Option<u32> {
    match fs.kind {
        FsKind::FuseNtfs => mm.new_mapping(MappingKind::WriteThrough, fs.fuse_bdi.get()),
        _ => mm.new_mapping(MappingKind::File, fs.bdi.get()),
    }
}

/// Makes a file with its entry in a directory. `None`: too many files.
pub async fn create_in<const T: bool>(mm: &SimMm<T>, dir: DirId) -> Result<Option<u32>, FsError> {
    let fs = of_dir(mm, dir);
    let group = fs.names.group(dir.number);
    let Some(id) = names::take_inode(mm, fs, group) else {
        return Ok(None);
    };
    names::make_inode(mm, fs, dir.number, group, id).await?;
    Ok(Some(id))
}

/// Nobody holds a file any more that has lost its name: its inode is free for another one.
pub fn inode_gone<const T: bool>(mm: &SimMm<T>, mapping: u32) {
    names::inode_gone(of(mm, mapping), mapping);
}

/// The inode of a directory.
pub fn inode_of_dir<const T: bool>(mm: &SimMm<T>, dir: DirId) -> u32 {
    of_dir(mm, dir).names.inode_of(dir.number)
}

/// A directory that is there before the run. `None`: too many files.
pub fn lay_out_dir<const T: bool>(mm: &SimMm<T>, parent: DirId) -> Option<DirId> {
    let number = names::lay_out_dir(mm, of_dir(mm, parent), parent.number)?;
    Some(DirId { number, ..parent })
}

/// A file that was in a directory before the run, without data yet. `None`: it does not fit.
pub fn lay_out_in<const T: bool>(mm: &SimMm<T>, dir: DirId) -> Option<u32> {
    names::lay_out_file(mm, of_dir(mm, dir), dir.number)
}

/// Reads a directory.
pub async fn read_dir<const T: bool>(mm: &SimMm<T>, dir: DirId) {
    names::read_dir(mm, of_dir(mm, dir), dir.number).await;
}

/// Makes a directory in another one.
pub async fn make_dir<const T: bool>(mm: &SimMm<T>, parent: DirId) -> Result<DirId, FsError> {
    let number = names::make_dir(mm, of_dir(mm, parent), parent.number).await?;
    Ok(DirId { number, ..parent })
}

/// A file's name is removed.
pub async fn unlink<const T: bool>(mm: &SimMm<T>, mapping: u32) -> Result<(), FsError> {
    mm.unlink_inode(mapping);
    names::remove_inode(mm, mapping).await
}

/// Gives a new file `len` bytes that are on the device and not cached. Takes no time: it is how
/// the world was before the run. Returns whether they fit.
pub fn lay_out<const T: bool>(mm: &SimMm<T>, mapping: u32, len: u64) -> bool {
    let pages = len.div_ceil(4096);
    let mut index = 0;
    while index < pages {
        let most = (pages - index).min(1 << 30) as u32;
        match of(mm, mapping).map_run(mapping, index as u32, most) {
            Some((_, n)) => index += u64::from(n),
            None => return false,
        }
    }
    mm.mappings[mapping as usize].size.set(len);
    true
}

/// Removes a file's pages and blocks.
pub async fn remove<const T: bool>(mm: &SimMm<T>, mapping: u32) {
    mm.hold_inode(mapping).await;
    mm.truncate_from(mapping, 0).await;
    mm.release_inode(mapping);
    of(mm, mapping).forget(mapping);
    mm.world.reuse.forget(mapping);
    mm.world.dropped.forget(mapping);
}

/// Cuts a file, or extends it by a hole.
pub async fn truncate<const T: bool>(mm: &SimMm<T>, mapping: u32, len: u64) {
    let m = &mm.mappings[mapping as usize];
    if len < m.size.get() {
        mm.hold_inode(mapping).await;
        let first = len.div_ceil(4096).min(u64::from(u32::MAX)) as u32;
        mm.truncate_from(mapping, first).await;
        mm.release_inode(mapping);
    }
    m.size.set(len);
    mm.file_changed(mapping);
}

/// write(2): `len` bytes at `pos` through the page cache, page by page.
pub async fn write<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    pos: u64,
    len: u64,
) -> Result<(), FsError> {
    let fs = of(mm, mapping);
    if len == 0 {
        return Ok(());
    }
    if fs.kind == FsKind::FuseNtfs {
        return fuse_ntfs::write(mm, mapping, pos, len).await;
    }
    mm.file_changed(mapping);
    let m = &mm.mappings[mapping as usize];
    let held = m.size.get();
    if held < pos + len {
        let grows = (pos + len - held).div_ceil(4096);
        if !room_for(mm, fs, grows).await {
            return Err(FsError::NoSpace);
        }
        m.size.set(m.size.get().max(pos + len));
    }
    for index in pos / 4096..=(pos + len - 1) / 4096 {
        let from = pos.max(index * 4096);
        let to = (pos + len).min((index + 1) * 4096);
        if to - from < 4096 {
            // What the page holds beside the written part must come from the device first.
            let kept = held.min((index + 1) * 4096);
            if kept > index * 4096 && (from > index * 4096 || to < kept) {
                read_page(mm, mapping, index as u32).await?;
            }
        }
        write_one(mm, mapping, index as u32, to - from).await?;
        if mm.note_dirtied(mapping) {
            mm.balance_now(mapping).await;
        }
        mm.world.relax().await;
    }
    Ok(())
}

/// Whether files may become longer by so many pages.
///
/// Dirty pages may have no blocks yet. Where they might not all find some, they are written first,
/// as xfs does when it runs out of space (`xfs_flush_inodes`); ext4 stops to delay then
/// (`ext4_nonda_switch`).
async fn room_for<const T: bool>(mm: &SimMm<T>, fs: &Fs, pages: u64) -> bool {
    let delayed = mm.bdi_stat(fs.bdi.get(), BdiStat::Reclaimable);
    if pages + delayed > fs.free_blocks() && pages <= fs.free_blocks() {
        for mapping in 0..mm.mapping_count() {
            if std::ptr::eq(of(mm, mapping), fs) && mm.mapping_tagged(mapping, PageTag::Dirty) {
                // A failure is the next fsync's to tell.
                if !mm.sync_mapping(mapping).await {
                    let state = &mm.mappings[mapping as usize].state;
                    state.set(state.get() | AS_EIO);
                }
            }
            mm.world.relax().await;
        }
    }
    pages <= fs.free_blocks()
}

/// One page of a buffered write: find or make it, copy, dirty, mark accessed (3.0 order).
async fn write_one<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    bytes: u64,
) -> Result<Pfn, FsError> {
    let path = TrackPath::BufferedWrite;
    let reuse = &mm.world.reuse;
    if reuse.on() {
        let found = mm.find_page(mapping, index).is_some();
        reuse.written(mapping, index, found);
    }
    let pfn = loop {
        let pfn = page_or_new(mm, mapping, index, Gfp::USER_WRITE, path).await?;
        if !mm.frames.has(pfn, flag::LOCKED) {
            break pfn;
        }
        // It may leave the file while we wait.
        mm.wait_on_page_locked(pfn).await;
    };
    if of(mm, mapping).allocates_at_write(mm.mappings[mapping as usize].kind())
        && !ext::allocate_at_write(mm, mapping, index)
    {
        return Err(FsError::NoSpace);
    }
    fill_page(mm, pfn, bytes, path);
    Ok(pfn)
}

/// The page at an index of a file: the cached one, or a fresh one entered into the cache.
async fn page_or_new<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    gfp: Gfp,
    path: TrackPath,
) -> Result<Pfn, FsError> {
    loop {
        if let Some(pfn) = mm.find_page(mapping, index) {
            return Ok(pfn);
        }
        mm.note_path(path);
        if let Some(pfn) = enter_new_page(mm, mapping, index, mm.bound(gfp), false).await? {
            return Ok(pfn);
        }
    }
}

/// Allocates a page and enters it into a file's cache, locked if its data is still to come. `None`:
/// somebody entered one there while we waited for memory.
async fn enter_new_page<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    gfp: Gfp,
    locked: bool,
) -> Result<Option<Pfn>, FsError> {
    let pfn = mm.alloc_page(gfp).await.ok_or(FsError::OutOfMemory)?;
    if mm.find_page(mapping, index).is_some() {
        mm.free_page(pfn, false);
        return Ok(None);
    }
    if locked {
        mm.frames.set_flags(pfn, flag::LOCKED);
    }
    if !mm.add_to_page_cache_lru(pfn, mapping, index) {
        mm.frames.clear_flags(pfn, flag::LOCKED);
        mm.free_page(pfn, false);
        return Err(FsError::OutOfMemory);
    }
    Ok(Some(pfn))
}

/// Copies `bytes` into a cached page: it is up to date, dirty and accessed once more.
fn fill_page<const T: bool>(mm: &SimMm<T>, pfn: Pfn, bytes: u64, path: TrackPath) {
    mm.world.charge_part(Cost::Copy, bytes, 4096);
    mm.frames.set_flags(pfn, flag::UPTODATE);
    mm.set_page_dirty(pfn, path);
    mm.mark_page_accessed(pfn, path);
}

/// fsync(2). Returns whether all data reached the device.
pub async fn fsync<const T: bool>(mm: &SimMm<T>, mapping: u32) -> bool {
    let fs = of(mm, mapping);
    let pages = match fs.kind {
        FsKind::FuseNtfs => fs.fuse.device_file.get(),
        _ => mapping,
    };
    mm.sync_mapping(pages).await & commit(mm, fs).await
}

/// Brings what a filesystem has logged to the device. Returns whether it got there.
async fn commit<const T: bool>(mm: &SimMm<T>, fs: &Fs) -> bool {
    match fs.kind {
        FsKind::Xfs => {
            mm.log_force(fs.inodes.sb.get()).await;
            true
        }
        FsKind::Ext3 | FsKind::Ext4 => ext::commit(mm, fs, true).await,
        FsKind::Btrfs => btrfs::commit(mm, fs).await,
        FsKind::FuseNtfs => true,
    }
}

/// sync(2). Returns whether all data reached the device.
pub async fn sync_all<const T: bool>(mm: &SimMm<T>) -> bool {
    mm.wakeup_flusher_threads(0);
    let mut ok = true;
    for mapping in 0..mm.mapping_count() {
        let tagged = |tag| mm.mapping_tagged(mapping, tag);
        let kind = mm.mappings[mapping as usize].kind();
        // The commit writes the trees of btrfs.
        if kind != MappingKind::Meta && (tagged(PageTag::Dirty) || tagged(PageTag::Writeback)) {
            ok &= mm.sync_mapping(mapping).await;
        }
        mm.world.relax().await;
    }
    for fs in &mm.world.fs {
        ok &= commit(mm, fs).await;
    }
    ok
}

/// The blocks of a direct transfer, allocated where missing: runs by their first block and length.
pub fn map_direct<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    blocks: u32,
) -> Option<Vec<(u64, u32)>> {
    let fs = of(mm, mapping);
    let (mut runs, mut done) = (Vec::<(u64, u32)>::new(), 0);
    while done < blocks {
        let (block, n) = fs.map_run(mapping, index + done, blocks - done)?;
        match runs.last_mut() {
            Some((first, len)) if *first + u64::from(*len) == block => *len += n,
            _ => runs.push((block, n)),
        }
        done += n;
    }
    Some(runs)
}

/// Memory for filesystem structures: a metadata page found, read or made.
async fn metadata_page<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    fresh: bool,
    path: TrackPath,
) -> Option<Pfn> {
    loop {
        if let Some(pfn) = mm.find_page(mapping, index) {
            if mm.frames.has(pfn, flag::LOCKED) {
                mm.wait_on_page_locked(pfn).await;
                continue;
            }
            return Some(pfn);
        }
        mm.note_path(path);
        let made = enter_new_page(mm, mapping, index, Gfp::NOFS, !fresh).await;
        let Some(pfn) = made.ok()? else {
            continue;
        };
        if fresh {
            mm.frames.set_flags(pfn, flag::UPTODATE);
            return Some(pfn);
        }
        let tag = Tag::Pages { mapping, index };
        let volume = of(mm, mapping).volume;
        mm.world
            .submit(volume, tag, false, true, u64::from(index), 1)
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{DiskKind, Size};

    /// Two files of 2560 pages in different directories, written 32 pages each in turn, with an
    /// allocation that looks `want` pages ahead; then closed at their length. Returns the extents.
    fn side_by_side(kind: FsKind, want: u32) -> (Fs, [Vec<Extent>; 2]) {
        let disk = DiskSpec::new(DiskKind::Raid0, Size(64 << 30));
        let mut rng = Rng::new(1, "filesystem layout");
        let fs = Fs::new(
            kind,
            &disk,
            DEVICE,
            1 << 24,
            32,
            &Params::default(),
            &mut rng,
        );
        for file in 0..2 {
            fs.opened(file);
            let group = if kind == FsKind::Xfs {
                fs.space.next_group()
            } else {
                0
            };
            fs.with_place(file, |p| p.group = group);
        }
        for index in (0..2560).step_by(32) {
            for file in 0..2 {
                let ahead = || Ahead { need: 32, want };
                let (_, n) = fs.map_ahead(file, index, 32, ahead).expect("room");
                assert_eq!(n, 32);
            }
        }
        let extents = [0, 1].map(|file| {
            fs.closed(file, 2560 * 4096);
            fs.with_extents(file, |e| e.clone())
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
        // What was preallocated behind the end is free for the next file.
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

    /// A page in the middle of what is set aside: those before it keep their place.
    #[test]
    fn a_page_in_the_middle_of_a_delayed_extent() {
        let (fs, _) = side_by_side(FsKind::Xfs, 32);
        let ahead = |need, want| move || Ahead { need, want };
        let (first, _) = fs.map_ahead(5, 0, 8, ahead(100, 100)).expect("room");
        let middle = fs.map_ahead(5, 50, 1, ahead(1, 1)).expect("room");
        assert_eq!(middle, (first + 50, 1));
        assert_eq!(fs.map_run(5, 8, 32), Some((first + 8, 32)));
        assert_eq!(fs.map_run(5, 51, 32), Some((first + 51, 32)));
    }

    #[test]
    fn allocation_groups_are_those_of_mkfs() {
        const GIB: u64 = 1 << 18;
        let groups = |gib: u64, array| xfs::groups(gib * GIB, array);
        assert_eq!([groups(16, false), groups(4096, false)], [4, 4]);
        assert_eq!(
            [groups(4, true), groups(64, true), groups(600, true)],
            [8, 16, 32]
        );
        assert_eq!(groups(8192, false), 8);
    }
}
