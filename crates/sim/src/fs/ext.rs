//! ext3 and ext4 in ordered mode, with their journal (jbd, jbd2).
//!
//! ext4 delays allocation: reclaim and the journal thread are refused until the flusher has
//! allocated. Its flusher path writes one extent's worth a call: it raises its quota to the run of
//! contiguous dirty pages, and it wraps to the start of the file only when it found nothing from
//! the saved index on. A commit walks the files with newly allocated blocks; over delayed pages
//! the walk writes nothing, yet it moves the saved index past them (reference 04 §7). Together:
//! after each commit the flusher chases the end of the file, and what lies before waits until
//! nothing new is found there.

use super::{DEVICE, Fs, SimMm, Walk, write_cache_pages};
use crate::params::Params;
use crate::spec::FsKind;
use mm::pagecache::Tag;
use mm::world::{Cost, World, WritebackControl};
use std::cell::{Cell, RefCell};

/// The journal's place and length in blocks (128 MiB, mke2fs's choice).
const JOURNAL_START: u64 = 1024;
const JOURNAL_LENGTH: u64 = 32_768;
/// Blocks of one commit of a streaming write: descriptor, inode, bitmap, group descriptor,
/// superblock, extent block, commit record, rounded up.
const COMMIT_BLOCKS: u32 = 8;
/// ext4's `max_writeback_mb_bump`: 128 MiB in pages.
const MAX_BUMP: u32 = 32_768;

/// A journal (and, for XFS, its log's head).
#[derive(Debug)]
pub(super) struct Journal {
    head: Cell<u64>,
    interval: u64,
    /// Files with blocks allocated in the running transaction.
    inodes: RefCell<Vec<u32>>,
    busy: Cell<bool>,
}

impl Journal {
    pub fn new(p: &Params) -> Self {
        Self {
            head: Cell::new(0),
            interval: p.journal_commit_interval as u64,
            inodes: RefCell::new(Vec::new()),
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

/// A file got new blocks: ordered mode ties it to the transaction.
pub(super) fn note_allocation(fs: &Fs, mapping: u32) {
    let mut inodes = fs.journal.inodes.borrow_mut();
    if !inodes.contains(&mapping) {
        inodes.push(mapping);
    }
}

/// Commits every interval what the running transaction holds.
pub(super) async fn journal_thread<const T: bool>(mm: &SimMm<T>) {
    loop {
        mm.world
            .sched
            .sleep_ticks(mm.world.fs.journal.interval)
            .await;
        commit(mm, false).await;
    }
}

/// Commits the running transaction, if it holds anything or `force` says so. Returns whether the
/// journal's writes succeeded.
pub(super) async fn commit<const T: bool>(mm: &SimMm<T>, force: bool) -> bool {
    let fs = &mm.world.fs;
    if fs.journal.busy.replace(true) {
        return true; // the commit under way takes this one's changes along
    }
    let inodes = std::mem::take(&mut *fs.journal.inodes.borrow_mut());
    if inodes.is_empty() && !force {
        fs.journal.busy.set(false);
        return true;
    }
    for inode in inodes {
        submit_data(mm, inode).await;
    }
    let at = fs.journal.advance(u64::from(COMMIT_BLOCKS), JOURNAL_LENGTH);
    let ok = mm
        .world
        .write_raw(DEVICE, JOURNAL_START + at, COMMIT_BLOCKS, true)
        .await;
    fs.journal.busy.set(false);
    ok
}

/// Ordered data of one file.
async fn submit_data<const T: bool>(mm: &SimMm<T>, mapping: u32) {
    let fs = &mm.world.fs;
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
