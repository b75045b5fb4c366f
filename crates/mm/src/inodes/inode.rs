//! Dentries and inodes in memory: their use counts, the lists of unused ones, and how the
//! superblock shrinker treats them (docs/reference/shrinkers-and-xfs.md#superblocks).
//!
//! A file that exists on disk has a row for as long as it exists, under its mapping's number; the
//! row records which parts of it are in memory. An inode with one name has at most one dentry, so
//! both share the row. A cached dentry holds the inode and the dentry of its directory.
//!
//! Lists are intrusive and keep oldest entries first. As in the kernel, an entry leaves its list
//! when the shrinker finds it in use, not when it is used.

use super::state::InodeList;
use crate::Mm;
use crate::cache::mapping::{I_DIRTY_META, I_DIRTY_PAGES, I_SYNC};
use crate::cache::metadata::Record;
use crate::cache::tree::EMPTY;
use crate::inodes::state::{
    CACHED, DENTRY, DENTRY_REF, INODE_REF, LOADING, ON_INODES, PLACED, READ, UNLINKED,
};
use crate::inodes::table::DENTRY_CACHE;
use crate::inodes::xfs::state::{
    CLAIMED, DIRTY, EXTENTS, IN_WRITE, LOGGING, ON_AIL, PINNED, RECLAIMABLE,
};
use crate::memory::gfp::Gfp;
use crate::watch::vmstat::VmEvent;
use crate::world::{WaitedKind, Word32, Word64, World};

/// Why a file could not be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoInode {
    /// There is no memory for the file's dentry or inode.
    NoMemory,
    /// The file has lost its name.
    Gone,
}

/// The properties of a filesystem that the engine needs when it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuperInfo {
    /// Bytes that an inode takes in memory (its slab cache's object size).
    pub inode_bytes: u32,
    /// Allocation groups if it is an XFS; 0: another filesystem.
    pub ags: u32,
    /// XFS: the period, in nanoseconds, in which the log is forced and all items are pushed
    /// (`fs.xfs.xfssyncd_centisecs`). A sixth of it is the background reclaimer's period.
    pub sync_interval: u64,
}

impl<W: World> Mm<W> {
    /// Mounts a filesystem with the properties `info` and returns its number; `None` if
    /// [`crate::Config::max_supers`] are mounted, or its groups exceed [`crate::Config::max_ags`].
    pub fn new_super(&self, info: &SuperInfo) -> Option<u32> {
        let all = &self.inodes;
        let sb = all.used.get();
        let first = all.ags_used.get();
        let s = all.supers.get(sb as usize)?;
        if first + info.ags > all.ags.len() as u32 {
            return None;
        }
        s.inode_bytes.set(info.inode_bytes);
        s.first_ag.set(first);
        s.ags.set(info.ags);
        s.sync_interval.set(info.sync_interval);
        // The slab cache of the filesystem's inodes; cache 0 is the dentries'.
        self.caches[1 + sb as usize].holds(info.inode_bytes);
        all.ags_used.set(first + info.ags);
        all.used.set(sb + 1);
        Some(sb)
    }

    /// Gives each inode of a filesystem a record beside it (`page_metadata = "slabs"`):
    /// `jbd2_inode` and an extent's status of ext4. Called when the filesystem is mounted.
    pub fn keep_beside_inodes(&self, sb: u32) {
        debug_assert!(sb < self.super_count(), "filesystem {sb}");
        self.keep_beside(1 + sb);
    }

    /// Returns the period, in nanoseconds, in which an XFS's log is forced and all items are
    /// pushed; 0 for another filesystem.
    pub fn sync_interval(&self, sb: u32) -> u64 {
        self.sb(sb).sync_interval.get()
    }

    /// Sets the period, in ns, in which the log of every XFS is forced; its workers use it after
    /// their present sleep.
    pub(crate) fn set_sync_interval(&self, ns: u64) {
        for sb in (0..self.super_count()).map(|sb| self.sb(sb)) {
            if sb.ags.get() > 0 {
                sb.sync_interval.set(ns);
            }
        }
    }

    /// Creates the row of the file `ino`, under its mapping's number, on the filesystem `sb`: its
    /// directory (`None`: the root), and on an XFS its allocation group and its inode's number
    /// there. No part of the file is in memory yet.
    pub fn place_inode(&self, ino: u32, sb: u32, parent: Option<u32>, ag: u32, agino: u32) {
        let row = self.inode(ino);
        assert!(row.state.get() == 0 && row.users.get() == 0, "a new file");
        row.set(PLACED);
        row.sb.set(sb);
        row.parent.set(parent.map_or(0, |p| p + 1));
        let s = self.sb(sb);
        if s.ags.get() > 0 {
            let ag = s.first_ag.get() + ag % s.ags.get();
            row.ag.set(ag);
            row.agino.set(agino);
            self.inodes.ags[ag as usize].place(agino, ino);
        }
    }

    /// Returns an inode's number in its allocation group on an XFS; 0 on other filesystems.
    pub fn inode_number(&self, ino: u32) -> u32 {
        self.inode(ino).agino.get()
    }

    /// Returns true if filesystems register their inodes with the engine.
    #[inline(always)]
    pub(crate) fn keeps_inodes(&self) -> bool {
        self.inodes.used.get() > 0
    }

    /// Returns the number of dentries in memory, of all filesystems, and that of the inodes of the
    /// filesystem `sb`.
    pub fn cached_objects(&self, sb: u32) -> (u64, u64) {
        (self.slab_usage(DENTRY_CACHE).0, self.slab_usage(1 + sb).0)
    }

    /// Returns how many inodes of a filesystem were freed from memory since it was mounted.
    pub fn inodes_freed(&self, sb: u32) -> u64 {
        self.sb(sb).freed.get()
    }

    /// Prefetches into the processor's cache the words that [`Self::iget`] and stat(2) of a file
    /// will read.
    #[inline]
    pub fn look_at_inode(&self, ino: u32) {
        debug_assert!(self.inode(ino).has(PLACED), "file {ino} has a place");
        let mapping = &self.mappings[ino as usize];
        prefetch::prefetch(self.inode(ino));
        prefetch::prefetch(&mapping.size);
    }

    /// Looks a file up, as open(2) or stat(2) do: brings its dentry, its inode and those of its
    /// directories into memory and holds them until [`Mm::iput`].
    ///
    /// # Errors
    /// If there is no memory, or the file lost its name before it was held.
    pub async fn iget(&self, ino: u32) -> Result<(), NoInode> {
        debug_assert!(
            self.inode(ino).has(PLACED),
            "file {ino} has no place on a filesystem"
        );
        loop {
            let row = self.inode(ino);
            if row.has(DENTRY) {
                row.users.fetch_add(1);
                return Ok(());
            }
            if row.has(UNLINKED) {
                return Err(NoInode::Gone);
            }
            // The directory's number is stored plus 1; a cached dentry holds its directory.
            let parent = row.parent.get().checked_sub(1);
            if let Some(dir) = parent {
                Box::pin(self.iget(dir)).await?;
            }
            let found = self.bring_in(ino).await;
            let dentry = if found && !row.any(DENTRY | UNLINKED) {
                self.slab_alloc(DENTRY_CACHE, Gfp::KERNEL).await
            } else {
                None
            };
            // While the dentry was allocated, the inode's pages may have been written and a
            // shrinker may have evicted it.
            let found = dentry.is_some() && self.bring_in(ino).await;
            match dentry {
                Some(object) if found && !row.any(DENTRY | UNLINKED) => {
                    // The hold on the directory passes to the dentry.
                    row.set_dentry(object);
                    row.set(DENTRY);
                    self.unused_del(ino, InodeList::Inodes);
                    row.users.fetch_add(1);
                    return Ok(());
                }
                other => {
                    // Another task has brought the dentry in, or there is no memory.
                    if let Some(object) = other {
                        self.slab_free(DENTRY_CACHE, object);
                    }
                    if let Some(dir) = parent {
                        self.iput(dir);
                    }
                    if !row.has(DENTRY) {
                        if row.has(CACHED) && !row.any(RECLAIMABLE | LOADING) {
                            self.no_dentry_left(ino);
                        }
                        if row.has(UNLINKED) {
                            return Err(NoInode::Gone);
                        }
                        return Err(NoInode::NoMemory);
                    }
                }
            }
        }
    }

    /// Returns true if a file is gone: it has no name and is not held, so its inode may be reused
    /// for another file.
    pub fn inode_gone(&self, ino: u32) -> bool {
        let row = self.inode(ino);
        row.has(PLACED | UNLINKED) && !row.any(DENTRY | LOADING) && row.users.get() == 0
    }

    /// Reuses the inode number `ino` of a file that is gone for a new file in the directory
    /// `parent` (`None`: the root).
    pub fn reuse_inode(&self, ino: u32, parent: Option<u32>) {
        assert!(self.inode_gone(ino), "inode {ino} is free");
        let row = self.inode(ino);
        row.parent.set(parent.map_or(0, |p| p + 1));
        row.clear(UNLINKED | READ);
        self.mappings[ino as usize].writeback_index.set(0);
    }

    /// Makes a new file's dentry and inode in memory, held until [`Mm::iput`]; the caller holds the
    /// directory. An XFS inode that was evicted and not freed yet is used again. Returns false if
    /// there is no memory.
    pub async fn new_inode(&self, ino: u32) -> bool {
        let row = self.inode(ino);
        let sb = row.sb.get();
        let q = self.inode_queue(ino);
        // No other task may bring it in meanwhile.
        let taken = row.set(LOADING);
        assert!(!taken, "a new file's inode");
        // A reclaimer has claimed the inode, and will free it or give it up.
        while row.has(CLAIMED) {
            self.inode_wait(WaitedKind::InodeLock, ino, None);
            self.world.sleep(self.tick()).await;
        }
        let inode = if row.has(RECLAIMABLE) {
            self.xfs_recycle(ino);
            Some(row.inode())
        } else {
            debug_assert!(!row.has(CACHED));
            let object = self.slab_alloc(1 + sb, Gfp::NOFS).await;
            self.settle_beside(1 + sb);
            object
        };
        let dentry = match inode {
            Some(object) => {
                row.set_inode(object);
                row.set(CACHED);
                self.slab_alloc(DENTRY_CACHE, Gfp::KERNEL).await
            }
            None => None,
        };
        row.clear(LOADING);
        self.world.wake(q);
        let Some(dentry) = dentry else {
            row.set(UNLINKED);
            if inode.is_some() {
                self.evict_inode(ino);
            }
            return false;
        };
        row.set_dentry(dentry);
        row.set(DENTRY);
        row.users.fetch_add(1);
        if let Some(dir) = row.parent.get().checked_sub(1) {
            self.inode(dir).users.fetch_add(1);
        }
        true
    }

    /// Brings an inode into memory (reading it, or taking back one that XFS has not freed yet) and
    /// takes it off the list of unused ones, for a caller that gives it a dentry. Waits for other
    /// tasks that load or free it. Returns false if there is no memory, or the file has no name and
    /// its inode is no longer in memory.
    async fn bring_in(&self, ino: u32) -> bool {
        let row = self.inode(ino);
        loop {
            if row.has(CACHED) {
                if row.has(CLAIMED) {
                    // A reclaimer has claimed the inode, and will free it or give it up.
                    self.inode_wait(WaitedKind::InodeLock, ino, None);
                    self.world.sleep(self.tick()).await;
                    continue;
                }
                if row.has(RECLAIMABLE) {
                    self.xfs_recycle(ino);
                }
                self.unused_del(ino, InodeList::Inodes);
                return true;
            }
            if row.has(UNLINKED) {
                // The inode was freed while this task waited, and another file may be about to
                // reuse it.
                return false;
            }
            let q = self.inode_queue(ino);
            let ticket = self.world.ticket(q);
            if row.set(LOADING) {
                self.inode_wait(WaitedKind::InodeLock, ino, None);
                self.world.wait(q, ticket, None).await;
                continue;
            }
            let cache = 1 + row.sb.get();
            let object = self.slab_alloc(cache, Gfp::KERNEL).await;
            self.settle_beside(cache);
            if let Some(object) = object {
                self.world.read_inode(self, ino).await;
                row.set_inode(object);
                row.set(CACHED);
            }
            row.clear(LOADING);
            self.world.wake(q);
            if object.is_none() {
                return false;
            }
            return true;
        }
    }

    /// Fits the slabs of the records beside inodes (of ext4) to their number after an inode of a
    /// slab cache was allocated or freed.
    fn settle_beside(&self, cache: u32) {
        if self.keeps_beside(cache) {
            self.settle(Record::InodeBeside);
        }
    }

    /// Releases a hold of a file that [`Mm::iget`] took. After the last one the dentry becomes
    /// unused, or is freed if the file has lost its name.
    pub fn iput(&self, ino: u32) {
        let row = self.inode(ino);
        let before = row.users.fetch_sub(1);
        assert!(before > 0, "file {ino} is not held");
        if before > 1 {
            return;
        }
        if row.has(UNLINKED) {
            self.drop_dentry(ino);
            return;
        }
        row.set(DENTRY_REF);
        self.unused_add(ino, InodeList::Dentries);
    }

    /// Marks a held file as having lost its name; the last release frees it.
    pub fn unlink_inode(&self, ino: u32) {
        assert!(self.inode(ino).users.get() > 0, "a held file");
        self.inode(ino).set(UNLINKED);
    }

    /// Frees the dentry of a file that is not held, as memory pressure does, so that its inode
    /// becomes unused. Does nothing while the dentry is held, or is not in memory.
    pub fn forget_dentry(&self, ino: u32) {
        let row = self.inode(ino);
        if row.has(DENTRY) && row.users.get() == 0 {
            self.drop_dentry(ino);
        }
    }

    /// Frees the unused dentry of a file, releases its hold on the directory, and lets the file's
    /// inode become unused.
    pub(super) fn drop_dentry(&self, ino: u32) {
        let row = self.inode(ino);
        debug_assert!(row.users.get() == 0 && row.has(DENTRY));
        self.unused_del(ino, InodeList::Dentries);
        row.clear(DENTRY | DENTRY_REF);
        self.slab_free(DENTRY_CACHE, row.dentry());
        if let Some(dir) = row.parent.get().checked_sub(1) {
            self.iput(dir);
        }
        self.no_dentry_left(ino);
    }

    /// Handles that an inode has lost its dentry, its last user (`iput_final`): evicts it if the
    /// file has no name, else adds it to the unused ones.
    fn no_dentry_left(&self, ino: u32) {
        let row = self.inode(ino);
        if row.has(UNLINKED) {
            self.evict_inode(ino);
        } else {
            row.set(INODE_REF);
            self.inode_cleaned(ino);
        }
    }

    /// Adds an inode that became clean, or lost its dentry, to the list of unused ones that a
    /// shrinker scans, if it is unused and its pages allow that.
    pub(crate) fn inode_cleaned(&self, ino: u32) {
        if self.unlisted(ino) && self.shrinkable(ino) {
            self.unused_add(ino, InodeList::Inodes);
        }
    }

    /// Returns true if an inode in memory has a name, is clean, unused and not on the list of
    /// unused inodes.
    pub(super) fn unlisted(&self, ino: u32) -> bool {
        let row = self.inode(ino);
        let unused = row.has(CACHED) && !row.any(DENTRY | LOADING | RECLAIMABLE | ON_INODES);
        unused && !self.vfs_dirty(ino) && !row.has(UNLINKED)
    }

    /// Returns true if the pages of an unused inode's file allow a shrinker to have it
    /// (`mapping_shrinkable`): there are none, or only the shadow of the file's only page. With
    /// HighMem any pages do, since they are no burden on low memory.
    pub(super) fn shrinkable(&self, ino: u32) -> bool {
        if !self.policy.inodes_keep_pages || self.highmem {
            return true;
        }
        let m = &self.mappings[ino as usize];
        m.nrpages.get() == 0 && (m.root.get() == EMPTY || m.size.get() <= 4096)
    }

    /// Lists the inode of a file for its shrinker if it is unused and the last of its pages or
    /// shadows has gone, under the policy that keeps inodes with pages off the list.
    #[inline(always)]
    pub(crate) fn mapping_shrank(&self, mapping: u32) {
        if self.policy.inodes_keep_pages && self.mappings[mapping as usize].nrpages.get() == 0 {
            self.inode_cleaned_by_flusher(mapping);
        }
    }

    /// Does [`Mm::inode_cleaned`], also for files whose inodes the engine may not know.
    #[inline]
    pub(crate) fn inode_cleaned_by_flusher(&self, ino: u32) {
        if self.keeps_inodes() {
            self.inode_cleaned(ino);
        }
    }

    /// Returns true if a file has dirty pages or metadata, or is being written.
    pub(super) fn vfs_dirty(&self, ino: u32) -> bool {
        let dirty = I_DIRTY_PAGES | I_DIRTY_META | I_SYNC;
        self.mappings[ino as usize].state.get() & dirty != 0
    }

    /// Evicts an unused inode from the VFS and frees it; an XFS keeps it until it is reclaimed.
    pub(super) fn evict_inode(&self, ino: u32) {
        let row = self.inode(ino);
        self.unused_del(ino, InodeList::Inodes);
        row.clear(INODE_REF);
        if self.is_xfs(row.sb.get()) {
            if row.has(UNLINKED) {
                self.log_inode(ino); // freeing the inode on disk is a change
            }
            self.xfs_evicted(ino);
        } else {
            self.free_inode(ino);
        }
    }

    /// Frees an inode's memory, with its records of extents and log item. The inode must be clean,
    /// and on no list.
    pub(crate) fn free_inode(&self, ino: u32) {
        let row = self.inode(ino);
        assert!(
            !row.any(
                DIRTY | PINNED | LOGGING | IN_WRITE | ON_AIL | DENTRY | ON_INODES | RECLAIMABLE
            ),
            "inode {ino} is freed with state {:#x}",
            row.state.get()
        );
        row.clear(CACHED | EXTENTS);
        self.extents_forgotten(ino);
        self.item_goes(ino);
        self.slab_free(1 + row.sb.get(), row.inode());
        self.settle_beside(1 + row.sb.get());
        self.stat.event(VmEvent::InodesFreed, 1);
        self.sb(row.sb.get()).freed.fetch_add(1);
    }
}
