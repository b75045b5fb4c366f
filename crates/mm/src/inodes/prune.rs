//! The lists of unused dentries and inodes, and how the shrinker scans them.

use super::state::InodeList;
use super::state::*;
use super::table::Inode;
use crate::Mm;
use crate::memory::slab::Object;
use crate::watch::vmstat::VmEvent;
use crate::world::{Cost, ShortLock, Word32, Word64, World};

impl<W: World> Mm<W> {
    /// Returns the node on whose list of unused entries a slab object is: that of its page, if
    /// lists are kept by node, else 0.
    fn node_of_object(&self, o: Object) -> u32 {
        match self.shrinkers_by_node() {
            true => self.zones[self.frames.zone(o.page)].node,
            false => 0,
        }
    }

    /// Returns the state bit which records that an inode's row is on the list of unused dentries or
    /// inodes.
    fn unused_bit(list: InodeList) -> u32 {
        match list {
            InodeList::Dentries => ON_DENTRIES,
            _ => ON_INODES,
        }
    }

    /// Returns the filesystem and the node whose list of unused dentries or inodes the entry `row`
    /// is on.
    fn unused_place(&self, row: &Inode<W>, list: InodeList) -> (u32, u32) {
        let object = match list {
            InodeList::Dentries => row.dentry(),
            _ => row.inode(),
        };
        (row.sb.get(), self.node_of_object(object))
    }

    /// Adds a file's dentry or inode to the end of the list of unused ones, unless it is there
    /// already.
    pub(super) fn unused_add(&self, ino: u32, list: InodeList) {
        let row = self.inode(ino);
        self.inodes.lock.with(|| {
            // Usually the entry is on the list, and its object's page need not be looked up.
            if row.set(Self::unused_bit(list)) {
                return;
            }
            let (sb, nid) = self.unused_place(row, list);
            self.inodes.add_tail(list, self.lru_head(sb, nid), ino);
            self.sb(sb).unused[nid as usize][list as usize].fetch_add(1);
        });
    }

    /// Takes a file's dentry or inode off the list of unused ones, if it is there.
    pub(super) fn unused_del(&self, ino: u32, list: InodeList) {
        let row = self.inode(ino);
        self.inodes.lock.with(|| {
            if row.clear(Self::unused_bit(list)) {
                let (sb, nid) = self.unused_place(row, list);
                self.inodes.del(list, ino);
                self.sb(sb).unused[nid as usize][list as usize].fetch_sub(1);
            }
        });
    }

    /// Moves an entry of a list of unused dentries or inodes to its end, to be scanned last.
    /// `head`: the list's head.
    fn unused_rotate(&self, ino: u32, list: InodeList, head: u32) {
        self.inodes.lock.with(|| {
            self.inodes.del(list, ino);
            self.inodes.add_tail(list, head, ino);
        });
    }

    /// Scans up to `n` unused dentries of a filesystem on a node's list for the shrinker, the
    /// oldest first: frees those not used since the last scan and takes those in use off the list.
    /// Returns how many it freed.
    pub(crate) async fn prune_dentries(&self, sb: u32, nid: u32, n: u64) -> u64 {
        let head = self.lru_head(sb, nid);
        let mut freed = 0;
        for i in 0..n.min(self.unused_dentries(sb, nid)) {
            let Some(ino) = self.inodes.first(InodeList::Dentries, head) else {
                break;
            };
            let row = self.inode(ino);
            self.world.charge(Cost::SlabObject, 1);
            if row.users.get() > 0 {
                self.unused_del(ino, InodeList::Dentries);
            } else if row.clear(DENTRY_REF) {
                self.unused_rotate(ino, InodeList::Dentries, head);
            } else {
                self.drop_dentry(ino);
                freed += 1;
            }
            if i % 32 == 31 {
                self.world.relax().await;
            }
        }
        freed
    }

    /// Scans up to `n` unused inodes of a filesystem on a node's list for the shrinker, the oldest
    /// first: evicts those not used since the last scan, first dropping their pages, and takes
    /// those in use or dirty off the list. Returns how many it evicted.
    pub(crate) async fn prune_inodes(&self, sb: u32, nid: u32, n: u64) -> u64 {
        let head = self.lru_head(sb, nid);
        let mut freed = 0;
        for i in 0..n.min(self.unused_inodes(sb, nid)) {
            let Some(ino) = self.inodes.first(InodeList::Inodes, head) else {
                break;
            };
            let row = self.inode(ino);
            self.world.charge(Cost::SlabObject, 1);
            if row.any(DENTRY | LOADING) || self.vfs_dirty(ino) || !self.shrinkable(ino) {
                self.unused_del(ino, InodeList::Inodes);
            } else if row.clear(INODE_REF) {
                self.unused_rotate(ino, InodeList::Inodes, head);
            } else if self.mappings[ino as usize].nrpages.get() > 0 {
                // The inode is scanned again after its clean pages were dropped.
                self.unused_rotate(ino, InodeList::Inodes, head);
                self.steal_pages(ino).await;
            } else if self.forget_shadows(ino) {
                self.evict_inode(ino);
                freed += 1;
            } else {
                // The inode stays first on its list.
                self.world.relax().await;
            }
            if i % 32 == 31 {
                self.world.relax().await;
            }
        }
        freed
    }

    /// Drops the page cache of an unused inode, pages that are clean and not mapped, and counts
    /// them for the calling task's reclaim.
    async fn steal_pages(&self, ino: u32) {
        let stolen = self.invalidate_mapping_pages(ino).await;
        let kswapd = self.current().flags() & crate::memory::task::PF_KSWAPD != 0;
        let event = match kswapd {
            true => VmEvent::KswapdInodeSteal,
            false => VmEvent::PgInodeSteal,
        };
        self.stat.event(event, stolen);
        self.current().reclaimed_slab.fetch_add(stolen as u32);
    }

    /// Drops the shadows of evicted pages of an inode without pages that is about to be evicted, in
    /// up to 32 leaves of its tree. Returns true if none is left.
    pub(super) fn forget_shadows(&self, ino: u32) -> bool {
        let mut from = self.keeps_shadows().then_some(0);
        for _ in 0..32 {
            let Some(at) = from else {
                return true;
            };
            from = self.drop_shadows_from(ino, at);
        }
        from.is_none()
    }

    /// Returns the number of a filesystem's unused dentries on a node's list.
    pub(crate) fn unused_dentries(&self, sb: u32, nid: u32) -> u64 {
        self.sb(sb).unused[nid as usize][0].get()
    }

    /// Returns the number of a filesystem's unused VFS inodes on a node's list.
    pub(crate) fn unused_inodes(&self, sb: u32, nid: u32) -> u64 {
        self.sb(sb).unused[nid as usize][1].get()
    }
}
