//! umount(2): writes a filesystem's data and metadata to the device and drops everything of it from
//! memory, so that later look-ups find it as after a mount.

use super::write::sync_these;
use super::{Fs, FsError, SimMm, of};
use workload::Unmounted;

/// Returns true if a file is on a filesystem.
pub fn is_on<const T: bool>(mm: &SimMm<T>, fs: &Fs, mapping: u32) -> bool {
    std::ptr::eq(of(mm, mapping), fs)
}

/// Unmounts a filesystem of which no file is open. Returns how long each part took. For an XFS
/// these include the log force and the walk over its inodes.
///
/// # Errors
/// Some data did not reach the device.
pub async fn unmount<const T: bool>(mm: &SimMm<T>, fs: usize) -> Result<Unmounted, FsError> {
    let sb = mm.world.fs[fs].sb.get();
    // Times before the sync, after it, after the eviction of unused inodes, after the log force,
    // and after the walk over XFS's inodes.
    let mut times = [mm.world.sched.now(); 5];
    if !sync_these(mm, |mapping| is_on(mm, &mm.world.fs[fs], mapping), &[fs]).await {
        return Err(FsError::Io);
    }
    times[1] = mm.world.sched.now();
    mm.evict_unused(sb).await;
    times[2..].fill(mm.world.sched.now());
    let mut walk = None;
    if mm.sync_interval(sb) > 0 {
        mm.xfs_quiesce(sb).await;
        times[3] = mm.world.sched.now();
        walk = Some(mm.xfs_unmount_walk(sb).await);
        times[4] = mm.world.sched.now();
    }
    ask!(&mm.world.fs[fs], model => model.unmounted(mm));
    Ok(Unmounted {
        sync_ns: times[1] - times[0],
        evict_ns: times[2] - times[1],
        walk: walk.map(|w| workload::InodeWalk {
            log_ns: times[3] - times[2],
            walk_ns: times[4] - times[3],
            inodes: w.inodes,
            left: w.left,
        }),
    })
}
