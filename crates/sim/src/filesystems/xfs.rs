//! XFS: delayed allocation, refuses direct reclaim, clusters around a page that kswapd asks for.

use super::walk::write_run;
use super::{Ahead, BATCH, Fs, SimMm, names};
use mm::pagecache::Tag;
use mm::world::WritebackControl;

/// Blocks of one log write: inode and allocation group headers.
const LOG_BLOCKS: u32 = 8;
/// The log's place and length on a large disk.
const LOG_START: u64 = 1024;
const LOG_LENGTH: u64 = 32_768;

/// The longest extent (`MAXEXTLEN`).
const MAX_EXTENT: u32 = (1 << 21) - 1;
/// The least preallocation behind the end of a file: 64 KiB.
const LEAST_PREALLOCATION: u32 = 16;

/// Allocation groups that mkfs.xfs makes (`calc_default_ag_geometry`): at most 1 TiB each; of one
/// disk four, of an array 8, 16 from 8 GiB and 32 from 512 GiB on.
pub(super) fn groups(blocks: u64, array: bool) -> u64 {
    const GIB: u64 = 1 << 18;
    let groups = match blocks {
        _ if !array => 4,
        0..0x20_0000 => 8,
        0x20_0000..0x800_0000 => 16,
        _ => 32,
    };
    groups.max(blocks.div_ceil(1024 * GIB))
}

/// The delayed extent from a page on, which is converted as a whole; if it reaches the end of a
/// file that is open for writing, with preallocation of the file's size rounded down to a power
/// of two (`xfs_iomap_prealloc_size`), while a twentieth of the disk is free.
pub(super) fn ahead<const T: bool>(mm: &SimMm<T>, mapping: u32, first: u32, open: bool) -> Ahead {
    let need = mm.tagged_run(mapping, Tag::Dirty, first, MAX_EXTENT).max(1);
    let size = mm.mappings[mapping as usize].size.get().div_ceil(4096);
    let mut want = need;
    if open && u64::from(first) + u64::from(need) >= size {
        let size = size.clamp(1, u64::from(MAX_EXTENT)) as u32;
        let behind = (1u32 << size.ilog2()).max(LEAST_PREALLOCATION);
        if u64::from(behind) < super::of(mm, mapping).free_blocks() / 20 {
            want = need.saturating_add(behind).min(MAX_EXTENT);
        }
    }
    Ahead { need, want }
}

/// Every interval the directory blocks and group headers that names changed are written in place.
pub(super) async fn buffer_daemon<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    loop {
        mm.world.sched.sleep_ticks(fs.log_interval).await;
        names::write_in_place(mm, fs).await;
    }
}

/// Bytes that a change of an inode puts into the log.
const LOG_INODE: u64 = 400;

/// Writes `n` changed inodes, and what names changed beside them, at the log's head. Returns whether
/// it succeeded.
pub(super) async fn write_log<const T: bool>(mm: &SimMm<T>, fs: &Fs, n: u32) -> bool {
    let bytes = fs.names.take_log_bytes() + u64::from(n) * LOG_INODE;
    let blocks = u64::from(LOG_BLOCKS) + bytes.div_ceil(4096);
    let length = fs.layout.length(LOG_START, LOG_LENGTH);
    let blocks = blocks.min(length);
    let at = fs.layout.place(LOG_START) + fs.journal.advance(blocks, length);
    mm.world.write_raw(fs.volume, at, blocks as u32, true).await
}

/// After the page that kswapd asked for, the dirty pages that follow it.
pub(super) async fn cluster_write<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    wbc: &mut WritebackControl,
) {
    let Some(next) = index.checked_add(1) else {
        return;
    };
    let quota = wbc.nr_to_write.clamp(0, i64::from(BATCH - 1)) as u32;
    let run = mm.tagged_run(mapping, Tag::Dirty, next, quota);
    if run > 0 {
        wbc.nr_to_write -= i64::from(write_run(mm, mapping, next, run, wbc).await.pages);
    }
}
