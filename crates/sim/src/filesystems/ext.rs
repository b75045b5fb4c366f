//! ext3 and ext4 in ordered mode, with their journal (jbd, jbd2).
//!
//! ext4 delays allocation: reclaim and the journal thread are refused until the flusher has
//! allocated. Its flusher path writes one extent's worth a call: it raises its quota to the run of
//! contiguous dirty pages, and it wraps to the start of the file only when it found nothing from
//! the saved index on. A commit walks the files with newly allocated blocks; over delayed pages
//! the walk writes nothing, yet it moves the saved index past them (reference 04 §7). Together:
//! after each commit the flusher chases the end of the file, and what lies before waits until
//! nothing new is found there.

use super::walk::{Walk, write_cache_pages};
use super::{Ahead, Fs, FsError, Layout, SimMm, metadata_page};
use crate::params::Params;
use crate::spec::FsKind;
use mm::mapping::MappingKind;
use mm::pagecache::Tag;
use mm::trace::TrackPath;
use mm::world::{Cost, World, WritebackControl};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// The journal's place and length in blocks (128 MiB, mke2fs's choice) on a large disk.
const JOURNAL_START: u64 = 1024;
const JOURNAL_LENGTH: u64 = 32_768;
/// Blocks of one commit of a streaming write: descriptor, inode, bitmap, group descriptor,
/// superblock, extent block, commit record, rounded up.
const COMMIT_BLOCKS: u32 = 8;
/// ext4's `max_writeback_mb_bump`: 128 MiB in pages.
const MAX_BUMP: u32 = 32_768;

/// Inode tables behind the journal, one a group: a bitmap, then 256 bytes an inode.
const TABLE_START: u64 = JOURNAL_START + JOURNAL_LENGTH;
const TABLE_BLOCKS: u64 = 512;
const INODES_OF_BLOCK: u64 = 16;
/// Groups whose tables fit the front of the disk.
const TABLE_GROUPS: u64 = 62;

/// Blocks of a group's table; a table has its bitmap and at least one block of inodes.
fn table_blocks(front: Layout) -> u64 {
    let area = front.length(TABLE_START, TABLE_GROUPS * TABLE_BLOCKS);
    (area / TABLE_GROUPS).max(2)
}

/// Groups whose tables fit the front of this disk.
pub(super) fn table_groups(front: Layout) -> u32 {
    let area = front.length(TABLE_START, TABLE_GROUPS * TABLE_BLOCKS);
    (area / table_blocks(front)).clamp(1, TABLE_GROUPS) as u32
}

/// The block of a group's inode bitmap.
pub(super) fn bitmap_block(front: Layout, group: u32) -> u64 {
    front.place(TABLE_START) + u64::from(group % table_groups(front)) * table_blocks(front)
}

/// The block of an inode.
pub(super) fn table_block(front: Layout, group: u32, number: u64) -> u64 {
    bitmap_block(front, group) + 1 + number / INODES_OF_BLOCK % (table_blocks(front) - 1)
}

/// A journal (and, for XFS, its log's head).
#[derive(Debug)]
pub(super) struct Journal {
    head: Cell<u64>,
    interval: u64,
    /// Files with blocks allocated in the running transaction.
    inodes: RefCell<Vec<u32>>,
    /// Metadata blocks changed in the running transaction.
    blocks: RefCell<BTreeSet<u64>>,
    /// Metadata blocks that were ever in use: they must be read when they are not cached.
    known: RefCell<BTreeSet<u64>>,
    /// The block device's own mapping.
    device_file: Cell<u32>,
    busy: Cell<bool>,
}

impl Journal {
    pub fn new(p: &Params) -> Self {
        Self {
            head: Cell::new(0),
            interval: p.journal_commit_interval as u64,
            inodes: RefCell::new(Vec::new()),
            blocks: RefCell::default(),
            known: RefCell::default(),
            device_file: Cell::new(0),
            busy: Cell::new(false),
        }
    }

    /// Moves the head on by `n` blocks in a ring of `length`; returns where it was.
    pub fn advance(&self, n: u64, length: u64) -> u64 {
        let at = if self.head.get() + n > length {
            0
        } else {
            self.head.get()
        };
        self.head.set(at + n);
        at
    }
}

pub(super) fn mount<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let device = mm.new_mapping(MappingKind::BlockDevice, fs.bdi.get());
    fs.journal
        .device_file
        .set(device.expect("room for the device's file"));
}

/// Brings a block of the inode table or of a directory into memory.
pub(super) async fn read_table_block<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    block: u64,
) -> Result<(), FsError> {
    let journal = &fs.journal;
    journal.known.borrow_mut().insert(block);
    let (device, path) = (journal.device_file.get(), TrackPath::FsMetadata);
    let page = metadata_page(mm, device, block as u32, false, path).await;
    mm.mark_page_accessed(page.ok_or(FsError::OutOfMemory)?, path);
    Ok(())
}

/// A metadata block changes: its page of the block device is dirty and accessed, and the running
/// transaction has it. A `fresh` block holds nothing yet.
pub(super) async fn change_block<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    block: u64,
    fresh: bool,
) -> Result<(), FsError> {
    let journal = &fs.journal;
    let first = journal.known.borrow_mut().insert(block);
    let path = TrackPath::FsMetadata;
    let device = journal.device_file.get();
    let page = metadata_page(mm, device, block as u32, fresh || first, path).await;
    let pfn = page.ok_or(FsError::OutOfMemory)?;
    mm.mark_page_accessed(pfn, path);
    mm.set_page_dirty(pfn, path);
    journal.blocks.borrow_mut().insert(block);
    mm.world.relax().await;
    Ok(())
}

/// The dirty run from a page on, at most 8 MiB, and, while the file is open for writing, the rest
/// of an aligned chunk: 2 MiB of a file of up to 4 MiB, 4 of one of up to 8, 8 of a longer one
/// (`ext4_mb_normalize_request`). A file of up to 1 MiB gets a power of two.
pub(super) fn ahead<const T: bool>(mm: &SimMm<T>, mapping: u32, first: u32, open: bool) -> Ahead {
    const MIB: u64 = 256;
    let run = mm.tagged_run(mapping, Tag::Dirty, first, (8 * MIB) as u32);
    let need = run.max(1);
    if !open {
        return Ahead { need, want: need };
    }
    let size = mm.mappings[mapping as usize].size.get().div_ceil(4096);
    let end = u64::from(first) + u64::from(need);
    let chunk = match size.max(end) {
        size if size <= MIB => size.next_power_of_two().max(4),
        size if size <= 4 * MIB => 2 * MIB,
        size if size <= 8 * MIB => 4 * MIB,
        _ => 8 * MIB,
    };
    let want = end.next_multiple_of(chunk) - u64::from(first);
    Ahead {
        need,
        want: want.min(u64::from(u32::MAX)) as u32,
    }
}

/// The longest reservation window of ext3 in blocks (`EXT3_MAX_RESERVE_BLOCKS`). It begins with 8
/// and doubles each time half of it was used, so that a file of some MiB has the longest one.
const RESERVATION: u32 = 1027;

/// ext3 has no delayed allocation: a page gets its block in the write call, out of the file's
/// reservation window. Files that are written side by side interleave by windows. Returns whether
/// there is a block.
pub(super) fn allocate_at_write<const T: bool>(mm: &SimMm<T>, mapping: u32, index: u32) -> bool {
    let fs = super::of(mm, mapping);
    if fs.mapped(mapping, index).is_some() {
        return true;
    }
    note_allocation(fs, mapping);
    let window = || Ahead {
        need: 1,
        want: RESERVATION,
    };
    fs.map_ahead(mapping, index, 1, window).is_some()
}

/// A file got new blocks: ordered mode ties it to the transaction.
pub(super) fn note_allocation(fs: &Fs, mapping: u32) {
    let mut inodes = fs.journal.inodes.borrow_mut();
    if !inodes.contains(&mapping) {
        inodes.push(mapping);
    }
}

/// Commits every interval what the running transaction holds.
pub(super) async fn journal_thread<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    loop {
        mm.world.sched.sleep_ticks(fs.journal.interval).await;
        commit(mm, fs, false).await;
    }
}

/// Commits the running transaction, if it holds anything or `force` says so. Returns whether the
/// journal's writes succeeded.
pub(super) async fn commit<const T: bool>(mm: &SimMm<T>, fs: &Fs, force: bool) -> bool {
    if fs.journal.busy.replace(true) {
        return true; // the commit under way takes this one's changes along
    }
    let inodes = std::mem::take(&mut *fs.journal.inodes.borrow_mut());
    let changed = std::mem::take(&mut *fs.journal.blocks.borrow_mut()).len() as u64;
    if inodes.is_empty() && changed == 0 && !force {
        fs.journal.busy.set(false);
        return true;
    }
    for inode in inodes {
        submit_data(mm, fs, inode).await;
    }
    let length = fs.layout.length(JOURNAL_START, JOURNAL_LENGTH);
    let blocks = (u64::from(COMMIT_BLOCKS) + changed).min(length);
    let at = fs.layout.place(JOURNAL_START) + fs.journal.advance(blocks, length);
    let ok = mm.world.write_raw(fs.volume, at, blocks as u32, true).await;
    fs.journal.busy.set(false);
    ok
}

/// Ordered data of one file.
async fn submit_data<const T: bool>(mm: &SimMm<T>, fs: &Fs, mapping: u32) {
    let m = &mm.mappings[mapping as usize];
    if fs.kind == FsKind::Ext3 {
        // Every dirty page is mapped: it is written now.
        let mut wbc = WritebackControl {
            range_cyclic: false,
            ..WritebackControl::pages(i64::MAX)
        };
        let plain = Walk {
            wrap_only_if_nothing_written: false,
        };
        write_cache_pages(mm, mapping, &mut wbc, plain).await;
        return;
    }
    // ext4: pages that have blocks are written, delayed ones are passed over.
    let end = m.size.get().div_ceil(4096).min(u64::from(u32::MAX)) as u32;
    let mut index = 0;
    while let Some(first) = mm.next_tagged(mapping, Tag::Dirty, index) {
        if first >= end {
            break;
        }
        let run = mm.tagged_run(mapping, Tag::Dirty, first, 32.min(end - first));
        if let Some((_, mapped)) = fs.mapped(mapping, first) {
            let mut wbc = WritebackControl {
                range_cyclic: false,
                range_start: first,
                range_end: first + run.min(mapped) - 1,
                ..WritebackControl::pages(i64::from(run))
            };
            let plain = Walk {
                wrap_only_if_nothing_written: false,
            };
            write_cache_pages(mm, mapping, &mut wbc, plain).await;
        } else {
            mm.world.charge(Cost::Refuse, run);
        }
        index = first + run;
        mm.world.relax().await;
    }
    m.writeback_index.set(end);
}

/// ext4's flusher path.
pub(super) async fn da_writepages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    wbc: &mut WritebackControl,
) {
    let m = &mm.mappings[mapping as usize];
    let desired = if wbc.sync_all {
        wbc.nr_to_write
    } else if wbc.range_cyclic {
        let run = mm
            .next_tagged(mapping, Tag::Dirty, m.writeback_index.get())
            .map_or(0, |first| {
                mm.tagged_run(mapping, Tag::Dirty, first, MAX_BUMP)
            });
        i64::from(run)
    } else {
        wbc.nr_to_write.saturating_mul(8).min(i64::from(MAX_BUMP))
    };
    let bump = (desired - wbc.nr_to_write).max(0);
    wbc.nr_to_write += bump;
    write_cache_pages(
        mm,
        mapping,
        wbc,
        Walk {
            wrap_only_if_nothing_written: true,
        },
    )
    .await;
    wbc.nr_to_write -= bump;
}
