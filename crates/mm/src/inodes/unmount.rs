//! The unmount of a filesystem, which evicts everything from memory
//! (docs/reference/shrinkers-and-xfs.md#unmount).

use super::state::{DENTRY, InodeList, LOADING, ON_INODES};
use crate::Mm;
use crate::world::{Cost, Word32, World};

/// Entries between two relax points.
const BATCH: u32 = 32;

impl<W: World> Mm<W> {
    /// Evicts every unused dentry and inode of a filesystem, with their pages
    /// (`shrink_dcache_for_umount`, `evict_inodes`). Returns how many inodes were evicted; those in
    /// use, dirty or mapped stay.
    pub async fn evict_unused(&self, sb: u32) -> u64 {
        debug_assert!(sb < self.super_count(), "filesystem {sb} is not mounted");
        let mut evicted = 0;
        // A dentry may have been the last to hold its directory's, which then becomes unused, too.
        loop {
            let before = evicted;
            let mut dentries = 0;
            for nid in 0..self.nodes.len() as u32 {
                dentries += self.evict_dentries(sb, nid).await;
                self.list_with_pages(sb);
                evicted += self.evict_inodes(sb, nid).await;
            }
            if dentries == 0 && evicted == before {
                return evicted;
            }
        }
    }

    /// Adds the unused inodes of a filesystem that are on no list because they have pages
    /// (`inodes_keep_pages`) to the lists, so that they are evicted, too.
    fn list_with_pages(&self, sb: u32) {
        if !self.policy.inodes_keep_pages {
            return;
        }
        for ino in 0..self.inodes.files {
            if self.inode(ino).sb.get() == sb && self.unlisted(ino) {
                self.unused_add(ino, InodeList::Inodes);
            }
        }
    }

    /// Frees the unused dentries on a node's list of a filesystem that is unmounted, and takes
    /// those in use off it. Returns how many were freed.
    async fn evict_dentries(&self, sb: u32, nid: u32) -> u64 {
        let (head, mut gone) = (self.lru_head(sb, nid), 0);
        while let Some(ino) = self.inodes.first(InodeList::Dentries, head) {
            self.world.charge(Cost::SlabObject, 1);
            if self.inode(ino).users.get() > 0 {
                self.unused_del(ino, InodeList::Dentries);
            } else {
                self.drop_dentry(ino);
                gone += 1;
            }
            if gone % u64::from(BATCH) == 0 {
                self.world.relax().await;
            }
        }
        gone
    }

    /// Evicts the unused inodes on a node's list of a filesystem that is unmounted, with their
    /// pages, and takes those in use off it. Returns how many were evicted.
    async fn evict_inodes(&self, sb: u32, nid: u32) -> u64 {
        let (head, mut gone) = (self.lru_head(sb, nid), 0);
        while let Some(ino) = self.inodes.first(InodeList::Inodes, head) {
            self.world.charge(Cost::SlabObject, 1);
            let in_use = |mm: &Self| {
                mm.inode(ino).any(DENTRY | LOADING)
                    || mm.vfs_dirty(ino)
                    || mm.mappings[ino as usize].nrpages.get() > 0
            };
            if !self.vfs_dirty(ino) {
                self.invalidate_mapping_pages(ino).await;
            }
            if !self.inode(ino).has(ON_INODES) {
                // Dropping its pages took waits, during which a shrinker or another unmount has
                // taken the inode.
                continue;
            }
            if in_use(self) {
                // It is listed again when it is clean and unused.
                self.unused_del(ino, InodeList::Inodes);
            // Shadows are dropped 32 leaves at a time; with more, the inode is met again.
            } else if self.forget_shadows(ino) {
                self.evict_inode(ino);
                gone += 1;
            } else {
                self.world.relax().await;
            }
            if gone % u64::from(BATCH) == 0 {
                self.world.relax().await;
            }
        }
        gone
    }
}
