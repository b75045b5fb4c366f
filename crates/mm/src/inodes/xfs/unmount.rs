//! XFS's part of an unmount, after the VFS has evicted everything (`xfs_unmountfs`): changes go to
//! their places, then one walk frees all inodes, waiting for each (`SYNC_WAIT` without
//! `SYNC_TRYLOCK`).

use super::reclaim::Flags;
use crate::Mm;
use crate::inodes::state::InodeList;
use crate::world::{Word32, World};

/// The result of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnmountWalk {
    /// The number of inodes that were to be freed.
    pub inodes: u64,
    /// The number of these that the walk left.
    pub left: u64,
}

impl<W: World> Mm<W> {
    /// Waits until every change of an XFS is in the log and written to its place (`xfs_log_force`,
    /// `xfs_ail_push_all_sync`).
    pub async fn xfs_quiesce(&self, sb: u32) {
        debug_assert!(self.is_xfs(sb), "filesystem {sb} has no log");
        let log = &self.sb(sb).log;
        loop {
            self.log_force(sb).await;
            // The AIL lists the inodes whose changes are in the log only.
            let ail_empty = self
                .list_first(InodeList::Ail, self.log_head(sb, false))
                .is_none();
            if ail_empty && log.waiting() == 0 {
                return;
            }
            self.ail_push_all(sb);
            self.world.sleep(self.tick()).await;
        }
    }

    /// Frees all evicted inodes of an XFS that is unmounted, waiting for each; returns how many
    /// there were and how many the first walk left. With *xfs-inode-reclaim* as posted each group's
    /// walk begins at its cursor, not at its first inode, so inodes before it are left: a real
    /// kernel loses that memory. Here a second walk frees it. Since 5.9 (`inode_reclaim =
    /// "clean-only"`) the function repeats writing everything to its place and walking until no
    /// inode is left (`xfs_reclaim_inodes`).
    pub async fn xfs_unmount_walk(&self, sb: u32) -> UnmountWalk {
        debug_assert!(self.is_xfs(sb), "filesystem {sb} has no groups");
        // The background reclaimer is stopped (`cancel_delayed_work_sync`).
        self.sb(sb).log.worker_queued.set(0);
        let inodes = self.reclaimable_inodes(sb);
        while self.clean_only() && self.reclaimable_inodes(sb) > 0 {
            self.xfs_quiesce(sb).await;
            self.reclaim_inodes_ag(sb, Flags::WAIT_FOR_ALL, &mut { i64::MAX })
                .await;
        }
        let flags = Flags::WAIT_FOR_ALL;
        self.reclaim_inodes_ag(sb, flags, &mut { i64::MAX }).await;
        let left = self.reclaimable_inodes(sb);
        if left > 0 {
            self.reclaim_inodes_ag(sb, flags, &mut { i64::MAX }).await;
        }
        UnmountWalk { inodes, left }
    }
}
