//! XFS: delayed allocation, refuses direct reclaim, clusters around a page that kswapd asks for.

use super::{BATCH, DEVICE, SimMm, write_run};
use mm::pagecache::Tag;
use mm::world::WritebackControl;

/// Blocks of one log write: inode and allocation group headers.
const LOG_BLOCKS: u32 = 8;
/// The log's place and length.
const LOG_START: u64 = 1024;
const LOG_LENGTH: u64 = 32_768;

/// Every interval the log is forced: sizes and extents changed by writeback reach the disk.
pub(super) async fn log_worker<const T: bool>(mm: &SimMm<T>) {
    loop {
        mm.world.sched.sleep_ticks(mm.world.fs.log_interval).await;
        force_log(mm).await;
    }
}

/// One log write at the log's head. Returns whether it succeeded.
pub(super) async fn force_log<const T: bool>(mm: &SimMm<T>) -> bool {
    let fs = &mm.world.fs;
    let at = fs.journal.advance(u64::from(LOG_BLOCKS), LOG_LENGTH);
    mm.world
        .write_raw(DEVICE, LOG_START + at, LOG_BLOCKS, true)
        .await
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
