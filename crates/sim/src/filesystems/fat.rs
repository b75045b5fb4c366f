//! FAT32 with long names (vfat) and exFAT, as Linux 6.12 has them (fs/fat, fs/exfat).
//!
//! There is no journal and no inode table. All metadata are buffers of the block device: tables,
//! bitmap, directories, and a file's attributes in its directory entry. Changing them dirties pages
//! of the block device's own mapping, which the flusher writes in no particular order. The effects
//! of each call on them:
//!
//! - **Clusters** are allocated by the write that needs them, one at a time, behind the last one
//!   taken (`fat_alloc_clusters` from `prev_free`) or behind the file's own last one
//!   (`exfat_alloc_cluster`). There is no delayed allocation and there are no holes: a write behind
//!   the end writes zeroes up to there (`cont_write_begin`, `exfat_extend_valid_size`). Clusters of
//!   removed files are free again.
//! - **vfat** changes two entries for a cluster, its own and its predecessor's, in every table; the
//!   number of free clusters is in a sector whose inode gets dirty (FSINFO). A file has less than 4
//!   GiB.
//! - **exfat** changes a bit of the allocation bitmap. While a file's clusters are contiguous it
//!   needs no table at all (`NoFatChain`); with the first that is not, all of the file's entries
//!   are written.
//! - **Names** are slots of 32 bytes: 13 characters each and one for the file in vfat, 15 each and
//!   two in exfat.
//! - Where the table is needed and not cached, it is read entry by entry from the nearest cluster
//!   that the inode remembers ([`chain`]).
//!
//! Mount options are parameters: `vfat_sync`, `vfat_dirsync`, `vfat_flush`, `exfat_sync`,
//! `exfat_dirsync`.

mod chain;
mod clusters;
mod directory;
mod geometry;

use super::layout::Layout;
use super::model::{Kind, Model};
use super::names::{DirNumber, Entry, NameChange};
use super::space::{ANYWHERE, Space};
use super::walk::{Walk, write_cache_pages, writepages};
use super::write::{self, metadata_page};
use super::{Fs, FsError, SimMm};
use crate::params::Params;
use chain::Chain;
use clusters::{cut, length};
use directory::Directory;
use geometry::Geometry;
use mm::cache::mapping::{AS_EIO, MappingKind};
use mm::memory::frame::flag;
use mm::world::event::TrackPath;
use mm::world::{Tasks, WritebackControl};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Characters of a name (`names::ENTRIES_OF_BLOCK`), and bytes of a directory slot.
const NAME: u32 = 40;
const SLOT: u32 = 32;
/// Bytes of the longest file on a vfat (`s_maxbytes`).
const MOST_BYTES: u64 = u32::MAX as u64;
/// Blocks of the largest vfat: the number of sectors has 32 bits (mkfs.fat.c `setup_tables`), and
/// eight sectors are a block.
const MOST_BLOCKS: u64 = u32::MAX as u64 / 8;
/// Block of the boot sector and FSINFO, sectors 0 and 1.
const BOOT: u64 = 0;
/// Time that a close sleeps with `-o flush`, in nanoseconds: HZ/10.
const FLUSH_PAUSE: u64 = 100_000_000;

/// FAT32.
pub(super) type Vfat = Fat<false>;
/// exFAT.
pub(super) type Exfat = Fat<true>;

/// The state of a file beyond its extents.
#[derive(Debug)]
struct File {
    chain: Chain,
    /// True if its clusters are chained in the table (exFAT: they are not contiguous).
    chained: bool,
    /// True if its directory entry is older than its inode.
    stale: bool,
    /// exFAT: bytes from this offset on were never written; `MAX`: all were.
    valid: u64,
}

impl Default for File {
    /// Returns the state of a file without clusters, whose directory entry is up to date.
    fn default() -> Self {
        Self {
            chain: Chain::default(),
            chained: false,
            stale: false,
            valid: u64::MAX,
        }
    }
}

/// The state of a FAT filesystem; `EX`: exFAT.
#[derive(Debug)]
pub(super) struct Fat<const EX: bool> {
    geometry: Geometry,
    /// The block device's own mapping.
    device_file: Cell<u32>,
    /// vfat: the inode of FSINFO, and whether its sector is out of date.
    fsinfo: Cell<u32>,
    count_is_stale: Cell<bool>,
    /// Block from which the next search for a cluster begins; `MAX`: at the first free one, as mkfs
    /// left it.
    hint: Cell<u64>,
    files: RefCell<Vec<File>>,
    directories: RefCell<BTreeMap<DirNumber, Directory>>,
    /// exFAT: true if the boot sector says that the volume is in use (`VOLUME_DIRTY`).
    in_use: Cell<bool>,
    /// Mount options `-o sync`, `-o dirsync` (implied by sync) and `-o flush`.
    sync: bool,
    dirsync: bool,
    flush: bool,
}

/// Returns the places and the cluster size of an exFAT (`EX`) or FAT32 volume of `capacity` blocks.
fn geometry<const EX: bool>(capacity: u64, p: &Params) -> Geometry {
    if EX {
        Geometry::exfat(capacity, p)
    } else {
        Geometry::vfat(capacity, p)
    }
}

impl<const EX: bool> Model for Fat<EX> {
    const KIND: Kind = Kind {
        entries_of_block: 4096 / (SLOT * if EX { 2 + NAME.div_ceil(15) } else { 1 + NAME.div_ceil(13) }),
        layout: |capacity, p| {
            let g = geometry::<EX>(capacity, p);
            Layout::of_its_own(capacity, g.front(), g.root)
        },
        most_blocks: if EX { u64::MAX } else { MOST_BLOCKS },
        ..Kind::plain(if EX { 832 } else { 744 })
    };

    /// Makes the state of an empty volume with the mount options of `p`.
    fn new(p: &Params, front: Layout) -> Self {
        let on = |vfat: f64, exfat: f64| (if EX { exfat } else { vfat }) >= 0.5;
        let geometry = geometry::<EX>(front.capacity(), p);
        let sync = on(p.vfat_sync, p.exfat_sync);
        Self {
            geometry,
            device_file: Cell::new(0),
            fsinfo: Cell::new(0),
            count_is_stale: Cell::new(false),
            hint: Cell::new(u64::MAX),
            files: RefCell::default(),
            directories: RefCell::new(BTreeMap::from([(0, Directory::root(geometry.root))])),
            in_use: Cell::new(false),
            sync,
            dirsync: sync || on(p.vfat_dirsync, p.exfat_dirsync),
            flush: on(p.vfat_flush, 0.0),
        }
    }

    /// Makes the block device's own mapping, whose pages are tables, bitmap and directories, and
    /// for vfat the inode of FSINFO.
    fn mount<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let device = mm.new_mapping(MappingKind::BlockDevice, fs.bdi.get());
        let device = device.expect("room for the device's file");
        mm.keep_buffers(device);
        self.device_file.set(device);
        if !EX {
            let fsinfo = mm.new_mapping(MappingKind::Meta, fs.bdi.get());
            self.fsinfo.set(fsinfo.expect("room for FSINFO's inode"));
        }
    }

    fn buffer_heads(&self) -> bool {
        true
    }

    fn read_root(&self, _fs: &Fs) -> u64 {
        self.geometry.root
    }

    /// Takes a whole cluster, whatever number of blocks the caller wants, at `goal` or the next
    /// free one. Returns its first block and length; `None`: the volume is full.
    fn take_blocks(
        &self,
        space: &Space,
        _group: u32,
        goal: u64,
        _want: u32,
        _need: u32,
    ) -> Option<(u64, u32)> {
        let cluster = self.geometry.cluster;
        Some((space.take_whole(goal, &ANYWHERE, cluster)?, cluster))
    }

    /// Allocates clusters for a file of `pages` pages that exists before the run. Returns false if
    /// they do not suffice, or the file is too long for vfat.
    fn lay_out(&self, fs: &Fs, mapping: u32, pages: u64) -> bool {
        let fits = EX || pages * 4096 <= MOST_BYTES + 1;
        fits && (0..)
            .take_while(|_| length(fs, mapping) < pages)
            .all(|_| match self.take_for(fs, mapping) {
                Some(taken) => {
                    self.file(mapping, |f| f.chained |= !taken.in_row);
                    true
                }
                None => false,
            })
    }

    /// Frees the clusters of a file behind its first `kept` pages (`None`: all, the file is
    /// removed). vfat empties their table entries, exFAT clears only their bits
    /// (`fat_free_clusters`, `exfat_free_cluster`).
    async fn freed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        kept: Option<u32>,
    ) {
        let keep = kept.unwrap_or(0).next_multiple_of(self.geometry.cluster);
        let gone = cut(fs, mapping, keep);
        let chained = self.file(mapping, |f| {
            f.chain.forget();
            f.valid = u64::MAX;
            f.stale &= kept.is_some();
            if keep == 0 { std::mem::take(&mut f.chained) } else { f.chained }
        });
        for &(block, len) in &gone {
            fs.space.give_back(block, len);
        }
        // An error here is not reported: if a table's block gets no memory, the run ends elsewhere
        // for lack of memory.
        let _ = self.unlink(mm, fs, mapping, &gone, keep, chained).await;
        if kept.is_some() {
            self.touch(mm, mapping);
            self.flush_inode(mm, fs, mapping).await;
        }
    }

    /// Extends a file to `len` bytes without a write: vfat writes zeroes, exFAT allocates clusters
    /// and remembers up to which byte they hold data.
    ///
    /// # Errors
    /// The file would be too long, the volume is full, or memory is out.
    async fn grow<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        len: u64,
    ) -> Result<(), FsError> {
        self.fits(len)?;
        let size = mm.mappings[mapping as usize].size.get();
        if EX {
            self.extend(mm, fs, mapping, len.div_ceil(4096)).await?;
            self.file(mapping, |f| f.valid = f.valid.min(size));
        } else {
            self.write_range(mm, fs, mapping, size, len).await?;
        }
        self.touch(mm, mapping);
        Ok(())
    }

    /// Prepares a direct write up to byte `end`. On vfat, writes behind the end go through the
    /// cache (`fat_direct_IO`): returns false for them. exFAT allocates the clusters and returns
    /// true.
    async fn before_direct<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        end: u64,
    ) -> Result<bool, FsError> {
        if !EX {
            return Ok(end <= mm.mappings[mapping as usize].size.get());
        }
        self.extend(mm, fs, mapping, end.div_ceil(4096)).await?;
        self.touch(mm, mapping);
        Ok(true)
    }

    /// Reads the table's blocks up to the entry of the last cluster of pages `first` to `first +
    /// len`, which are about to be read from the device.
    async fn find_blocks<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) {
        let last = u64::from(first + len).min(length(fs, mapping));
        if let Some(last) = last.checked_sub(1) {
            let cluster = last as u32 / self.geometry.cluster;
            self.follow(mm, fs, mapping, cluster).await;
        }
    }

    /// Performs write(2) of `len` bytes at `pos`: writes zeroes up to `pos` where the file was
    /// never written, then the data; with `-o sync` also syncs the file.
    async fn write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pos: u64,
        len: u64,
    ) -> Result<(), FsError> {
        self.fits(pos + len)?;
        mm.file_changed(mapping);
        self.touch(mm, mapping);
        let size = mm.mappings[mapping as usize].size.get();
        let written = size.min(self.file(mapping, |f| f.valid));
        if written < pos {
            self.write_range(mm, fs, mapping, written, pos).await?;
        }
        self.write_range(mm, fs, mapping, pos, pos + len).await?;
        let size = mm.mappings[mapping as usize].size.get();
        self.file(mapping, |f| {
            if f.valid != u64::MAX {
                let valid = f.valid.max(pos + len);
                f.valid = if valid < size { valid } else { u64::MAX };
            }
        });
        if self.sync && !self.fsync(mm, fs, mapping).await {
            return Err(FsError::Io);
        }
        Ok(())
    }

    /// All pages below a file's length have a cluster.
    fn page_mkwrite(&self, fs: &Fs, mapping: u32, index: u32, most: u32) -> u32 {
        fs.mapped_of(mapping, index, most)
    }

    /// Writes back a file's dirty pages (vfat and exFAT use `mpage_writepages`), then, for the
    /// flusher, the inode to its directory entry; for the inode of FSINFO, the number of free
    /// clusters.
    async fn writepages<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) {
        write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
        match mm.mappings[mapping as usize].kind() {
            // A walk for data integrity writes the inode after its pages, in `fsync`.
            MappingKind::File if !wbc.sync_all => {
                self.write_entry(mm, fs, mapping, false).await;
            }
            MappingKind::Meta => {
                // Without memory for its block, the next change writes it.
                let _ = self.write_count(mm).await;
            }
            _ => {}
        }
    }

    fn plugs(&self) -> bool {
        true
    }

    /// The bitmap's buffers stay in memory from mount on (`vol_amap`).
    fn holds(&self, block: u64) -> bool {
        self.geometry.bitmap().contains(&block)
    }

    /// Writes a file's pages, then its directory entry; then vfat's tables (`fat_file_fsync`) or
    /// all of exFAT's device (`exfat_file_fsync`). Each is waited for before the next. Returns true
    /// if everything reached the device.
    async fn fsync<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) -> bool {
        let mut ok = mm.write_and_wait(mapping).await;
        ok &= self.write_entry(mm, fs, mapping, true).await;
        let device = self.device_file.get();
        ok & if EX {
            mm.sync_mapping(device).await
        } else {
            let tables = self.geometry.tables();
            let last = tables.end - 1;
            mm.sync_pages(device, tables.start as u32, last as u32)
                .await
        }
    }

    /// With `-o flush`, starts to write everything and sleeps a while (`fat_file_release`).
    async fn released<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {
        if self.flush {
            self.flush_inode(mm, fs, mapping).await;
            mm.world.sched.sleep_ticks(FLUSH_PAUSE).await;
        }
    }

    /// Ends a sync(2), after its walk over files: writes the inodes that are out of date and the
    /// device; exFAT then marks the volume as not in use. Returns true on success.
    async fn commit<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        let mut ok = true;
        let stale = |(_, f): &(u32, &File)| f.stale;
        let all: Vec<u32> = (0..)
            .zip(self.files.borrow().iter())
            .filter(stale)
            .map(|(ino, _)| ino)
            .collect();
        for ino in all {
            ok &= self.write_entry(mm, fs, ino, true).await;
        }
        if !EX {
            let device = self.device_file.get();
            ok &= self.write_count(mm).await.is_ok();
            return ok & mm.sync_mapping(device).await;
        }
        ok &= mm.sync_mapping(self.device_file.get()).await;
        if self.in_use.replace(false) {
            ok &= self.change(mm, BOOT, false, true).await.is_ok();
        }
        ok
    }

    /// Returns the block of the directory entry, by which an inode is found. `fresh`: the inode is
    /// made now; otherwise its directory's clusters were on the device before the run.
    fn inode_place(
        &self,
        _fs: &Fs,
        _group: u32,
        _number: u64,
        entry: Entry,
        fresh: bool,
    ) -> Result<u64, FsError> {
        if !fresh && let Some(dir) = self.directories.borrow_mut().get_mut(&entry.dir) {
            dir.was_there();
        }
        Ok(entry.block)
    }

    fn take_directory_block(&self, fs: &Fs, dir: DirNumber, _group: u32) -> Option<u64> {
        self.next_directory_block(fs, dir)
    }

    /// Allocates a new directory's first cluster (`fat_alloc_new_dir`, `exfat_alloc_new_dir`).
    async fn directory_made<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        dir: DirNumber,
    ) -> Result<(), FsError> {
        self.grow_directory(fs, dir).ok_or(FsError::NoSpace)?;
        self.write_directory_cluster(mm, dir).await
    }

    /// Writes the changes for a name made or removed.
    async fn names_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        self.name_changed(mm, fs, change).await
    }

    async fn read_inode<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs, ino: u32, place: u64) {
        self.file(ino, |f| f.chain.forget());
        self.read_block(mm, place).await;
    }

    async fn read_names<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs, block: u64) {
        self.read_block(mm, block).await;
    }
}

impl<const EX: bool> Fat<EX> {
    /// Calls `f` with a file's state, making it first if needed.
    fn file<R>(&self, mapping: u32, f: impl FnOnce(&mut File) -> R) -> R {
        let mut files = self.files.borrow_mut();
        if files.len() <= mapping as usize {
            files.resize_with(mapping as usize + 1, File::default);
        }
        f(&mut files[mapping as usize])
    }

    /// Returns the error `TooLarge` if a file of `len` bytes is too long: 4 GiB on vfat.
    fn fits(&self, len: u64) -> Result<(), FsError> {
        if EX || len <= MOST_BYTES {
            Ok(())
        } else {
            Err(FsError::TooLarge)
        }
    }

    // Blocks of the device.

    /// Brings a block into memory and marks its page accessed; does nothing if there is no memory
    /// for it.
    async fn read_block<const T: bool>(&self, mm: &SimMm<T>, block: u64) {
        let (device, path) = (self.device_file.get(), TrackPath::FsMetadata);
        if let Some(pfn) = metadata_page(mm, device, block as u32, false, path).await {
            mm.mark_page_accessed(pfn, path);
        }
    }

    /// Dirties a block of the device's mapping. `fresh`: its old content is not needed, so it is
    /// not read. `wait`: until it is on the device.
    async fn change<const T: bool>(
        &self,
        mm: &SimMm<T>,
        block: u64,
        fresh: bool,
        wait: bool,
    ) -> Result<(), FsError> {
        let (device, path) = (self.device_file.get(), TrackPath::FsMetadata);
        let page = metadata_page(mm, device, block as u32, fresh, path).await;
        let pfn = page.ok_or(FsError::OutOfMemory)?;
        mm.mark_page_accessed(pfn, path);
        mm.set_page_dirty(pfn, path);
        mm.world.relax().await;
        if wait && !self.sync_block(mm, block).await {
            return Err(FsError::Io);
        }
        Ok(())
    }

    /// Writes a block and waits for it (`sync_dirty_buffer`). Returns true on success.
    async fn sync_block<const T: bool>(&self, mm: &SimMm<T>, block: u64) -> bool {
        let (device, index) = (self.device_file.get(), block as u32);
        let mut wbc = WritebackControl {
            range_cyclic: false,
            range_start: index,
            range_end: index,
            sync_all: true,
            ..WritebackControl::pages(1)
        };
        write_cache_pages(mm, device, &mut wbc, Walk::PLAIN).await;
        while let Some(pfn) = mm.find_page(device, index)
            && mm.frames.has(pfn, flag::WRITEBACK)
        {
            mm.wait_on_page_writeback(pfn).await;
        }
        mm.mappings[device as usize].state.get() & AS_EIO == 0
    }

    /// exFAT: marks the volume as in use in the boot sector, and waits for that, before anything
    /// else of it changes (`exfat_set_volume_dirty`).
    async fn use_volume<const T: bool>(&self, mm: &SimMm<T>) -> Result<(), FsError> {
        if EX && !self.in_use.replace(true) {
            self.change(mm, BOOT, false, true).await?;
        }
        Ok(())
    }

    /// Notes that the number of free clusters changed (`mark_fsinfo_dirty`).
    fn count_changed<const T: bool>(&self, mm: &SimMm<T>) {
        self.count_is_stale.set(true);
        mm.mark_inode_metadata_dirty(self.fsinfo.get());
    }

    /// Writes the number of free clusters to its sector, if it changed (`fat_clusters_flush`).
    async fn write_count<const T: bool>(&self, mm: &SimMm<T>) -> Result<(), FsError> {
        match self.count_is_stale.replace(false) {
            true => self.change(mm, BOOT, false, false).await,
            false => Ok(()),
        }
    }

    // Data and inodes.

    /// Writes the bytes from `pos` to `end` of a file, cluster by cluster, allocating clusters;
    /// `pos` is at the file's end or before it.
    async fn write_range<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pos: u64,
        end: u64,
    ) -> Result<(), FsError> {
        let bytes = u64::from(self.geometry.cluster) * 4096;
        let size = &mm.mappings[mapping as usize].size;
        let mut at = pos;
        while at < end {
            let upto = end.min((at / bytes + 1) * bytes);
            self.extend(mm, fs, mapping, upto.div_ceil(4096)).await?;
            let held = size.get();
            size.set(held.max(upto));
            write::fill(mm, fs, mapping, (at, upto - at), held).await?;
            at = upto;
        }
        Ok(())
    }

    /// Marks a file's inode dirty, to be written by the flusher, because its attributes changed.
    fn touch<const T: bool>(&self, mm: &SimMm<T>, ino: u32) {
        self.file(ino, |f| f.stale = true);
        mm.mark_inode_metadata_dirty(ino);
    }

    /// Writes an inode to its directory entry, if that is out of date (`__fat_write_inode`,
    /// `__exfat_write_inode`). `wait`: until it is on the device. Returns true on success, and if
    /// nothing was to be written.
    async fn write_entry<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        ino: u32,
        wait: bool,
    ) -> bool {
        let place = fs.with_place(ino, |p| p.inode);
        if !self.file(ino, |f| std::mem::take(&mut f.stale)) || place == 0 {
            return true;
        }
        let done = match self.use_volume(mm).await {
            Ok(()) => self.change(mm, place, false, wait).await,
            failed => failed,
        };
        if done == Err(FsError::OutOfMemory) {
            self.touch(mm, ino);
        }
        done.is_ok()
    }

    /// Starts to write an inode, its pages and all metadata, with the mount option `-o flush` only
    /// (`fat_flush_inodes`).
    async fn flush_inode<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, mapping: u32) {
        if !self.flush {
            return;
        }
        self.write_entry(mm, fs, mapping, false).await;
        for file in [mapping, self.device_file.get()] {
            let mut wbc = WritebackControl {
                range_cyclic: false,
                ..WritebackControl::pages(i64::MAX)
            };
            writepages(mm, file, &mut wbc).await;
        }
    }
}
