//! Dentries and inodes in memory: who uses them, the lists of those nobody uses, and what the
//! superblock shrinker does with them (docs/reference/shrinkers-and-xfs.md#superblocks).
//!
//! A file that lies on disk has a row for as long as it exists, under its mapping's number; the row
//! says what of it is in memory. An inode with one name has at most one dentry, so both share the row.
//! A cached dentry holds the inode and the dentry of its directory.
//!
//! Lists are intrusive and keep oldest entries first. An entry leaves its list when the shrinker finds
//! it in use, as in the kernel, not when it is used.

use crate::alloc::Gfp;
use crate::mapping::{I_DIRTY_META, I_DIRTY_PAGES, I_SYNC};
use crate::slab::{Cache, Object};
use crate::vmstat::VmEvent;
use crate::world::{Cost, ShortLock, WaitQueue, WaitedKind, Word32, Word64, World};
use crate::xfs::{Ag, Log};
use crate::{Mm, Pfn, queue};
use heap::NoMemory;

/// State bits of a row.
pub(crate) mod state {
    /// Its dentry is in memory.
    pub const DENTRY: u32 = 1;
    /// The dentry was used since the shrinker saw it.
    pub const DENTRY_REF: u32 = 1 << 1;
    /// Its inode is in memory.
    pub const CACHED: u32 = 1 << 2;
    /// The inode was used since the shrinker saw it.
    pub const INODE_REF: u32 = 1 << 3;
    /// Somebody brings the inode in.
    pub const LOADING: u32 = 1 << 4;
    /// On the list of unused dentries.
    pub const ON_DENTRIES: u32 = 1 << 5;
    /// On the list of unused inodes.
    pub const ON_INODES: u32 = 1 << 6;
    /// It has no name any more.
    pub const UNLINKED: u32 = 1 << 7;
    /// It was read since it was changed: reading it again does not touch its access time (relatime).
    pub const READ: u32 = 1 << 8;
    /// XFS: the VFS has evicted it; it can be freed or looked up again.
    pub const RECLAIMABLE: u32 = 1 << 9;
    /// XFS: a reclaimer has claimed it.
    pub const CLAIMED: u32 = 1 << 10;
    /// XFS: its lock is held.
    pub const LOCKED: u32 = 1 << 11;
    /// XFS: a change is in the log on disk and not in the inode's place.
    pub const DIRTY: u32 = 1 << 12;
    /// XFS: a change waits for the next write of the log.
    pub const PINNED: u32 = 1 << 13;
    /// XFS: a change is being written to the log.
    pub const LOGGING: u32 = 1 << 14;
    /// XFS: the flush lock is held.
    pub const FLUSHING: u32 = 1 << 15;
    /// XFS: it is part of a cluster that is being written.
    pub const IN_WRITE: u32 = 1 << 16;
    /// XFS: in the list of items to be written back.
    pub const ON_AIL: u32 = 1 << 17;
    /// A filesystem has given the row a place.
    pub const PLACED: u32 = 1 << 18;
}

use state::*;

/// Lists that a row can be on at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum List {
    Dentries,
    Inodes,
    /// Changes for the next write of the log, or those being written.
    Log,
    /// Items to be written back, in log order.
    Ail,
}
const LISTS: usize = 4;

/// A file's row.
pub(crate) struct Inode<W: World> {
    pub state: W::U32,
    /// Open files, tasks that look at it, and cached dentries below it.
    pub users: W::U32,
    pub sb: W::U32,
    /// Its directory's row plus 1; 0: the root.
    pub parent: W::U32,
    /// Its allocation group's number in the machine, and its number in it.
    pub ag: W::U32,
    pub agino: W::U32,
    /// Its place in log order.
    pub lsn: W::U64,
    dentry_page: W::U32,
    inode_page: W::U32,
    /// Slots in those pages: the dentry's in the low half.
    slots: W::U32,
    links: [[W::U32; 2]; LISTS],
}

impl<W: World> Inode<W> {
    fn new() -> Self {
        Self {
            state: bytemuck::Zeroable::zeroed(),
            users: bytemuck::Zeroable::zeroed(),
            sb: bytemuck::Zeroable::zeroed(),
            parent: bytemuck::Zeroable::zeroed(),
            ag: bytemuck::Zeroable::zeroed(),
            agino: bytemuck::Zeroable::zeroed(),
            lsn: bytemuck::Zeroable::zeroed(),
            dentry_page: bytemuck::Zeroable::zeroed(),
            inode_page: bytemuck::Zeroable::zeroed(),
            slots: bytemuck::Zeroable::zeroed(),
            links: bytemuck::Zeroable::zeroed(),
        }
    }

    #[inline(always)]
    pub fn has(&self, bits: u32) -> bool {
        self.state.get() & bits == bits
    }

    #[inline(always)]
    pub fn any(&self, bits: u32) -> bool {
        self.state.get() & bits != 0
    }

    /// Sets bits; returns whether any of them was set.
    #[inline(always)]
    pub fn set(&self, bits: u32) -> bool {
        self.state.fetch_or(bits) & bits != 0
    }

    /// Clears bits; returns whether any of them was set.
    #[inline(always)]
    pub fn clear(&self, bits: u32) -> bool {
        self.state.fetch_and(!bits) & bits != 0
    }

    fn dentry(&self) -> Object {
        Object {
            page: self.dentry_page.get(),
            slot: self.slots.get() & 0xffff,
        }
    }

    pub fn inode(&self) -> Object {
        Object {
            page: self.inode_page.get(),
            slot: self.slots.get() >> 16,
        }
    }

    fn set_dentry(&self, o: Object) {
        self.dentry_page.set(o.page);
        self.slots.fetch_and(0xffff << 16);
        self.slots.fetch_or(o.slot);
    }

    fn set_inode(&self, o: Object) {
        self.inode_page.set(o.page);
        self.slots.fetch_and(0xffff);
        self.slots.fetch_or(o.slot << 16);
    }
}

/// Why a file could not be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoInode {
    /// There is no memory for its dentry or inode.
    NoMemory,
    /// It has lost its name.
    Gone,
}

/// What a filesystem says of itself when it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuperInfo {
    /// Bytes that an inode of it takes in memory (its slab cache's object size).
    pub inode_bytes: u32,
    /// Allocation groups, if it is an XFS; 0: another filesystem.
    pub ags: u32,
    /// XFS: how often the log is forced and everything pushed, in nanoseconds
    /// (`fs.xfs.xfssyncd_centisecs`). A sixth of it is the background reclaimer's period.
    pub sync_interval: u64,
}

/// A mounted filesystem.
pub(crate) struct Super<W: World> {
    pub inode_bytes: W::U32,
    pub first_ag: W::U32,
    pub ags: W::U32,
    pub sync_interval: W::U64,
    /// Inodes whose memory was given back.
    freed: W::U64,
    /// Unused dentries and inodes, by node.
    unused: Box<[[W::U64; 2]]>,
    pub log: Log<W>,
}

/// Everything about inodes.
pub(crate) struct Inodes<W: World> {
    /// A row a file, then the heads of all lists: for each filesystem one a node, and one more for
    /// what is being written to the log.
    rows: Box<[Inode<W>]>,
    files: u32,
    pub supers: Box<[Super<W>]>,
    pub ags: Box<[Ag<W>]>,
    used: W::U32,
    ags_used: W::U32,
    lock: W::Lock,
}

/// The caches: dentries, and one of inodes for each filesystem.
const DENTRY_CACHE: u32 = 0;
/// Bytes of a dentry (`struct dentry`, 64 bit): 21 a page.
const DENTRY_BYTES: u32 = 192;

/// How many slab caches `supers` filesystems have.
pub(crate) fn caches(supers: u32) -> u32 {
    if supers == 0 { 0 } else { supers + 1 }
}

/// Slab caches whose lists begin at `first_list`.
pub(crate) fn new_caches<W: World>(supers: u32, first_list: Pfn) -> Box<[Cache<W>]> {
    let all: Box<[Cache<W>]> = (0..caches(supers))
        .map(|i| Cache::new(first_list + i))
        .collect();
    if let Some(dentries) = all.first() {
        dentries.holds(DENTRY_BYTES);
    }
    all
}

impl<W: World> Inodes<W> {
    pub fn new(config: &crate::Config, nodes: u32) -> Result<Self, NoMemory> {
        let files = if config.max_supers == 0 {
            0
        } else {
            config.max_mappings
        };
        let heads = config.max_supers * (nodes + 1);
        let rows: Box<[Inode<W>]> =
            heap::filled("the inodes", (files + heads) as usize, |_| Inode::new())?;
        for head in files..files + heads {
            for links in &rows[head as usize].links {
                links[0].set(head);
                links[1].set(head);
            }
        }
        Ok(Self {
            rows,
            files,
            supers: (0..config.max_supers)
                .map(|_| Super {
                    inode_bytes: bytemuck::Zeroable::zeroed(),
                    first_ag: bytemuck::Zeroable::zeroed(),
                    ags: bytemuck::Zeroable::zeroed(),
                    sync_interval: bytemuck::Zeroable::zeroed(),
                    freed: bytemuck::Zeroable::zeroed(),
                    unused: bytemuck::zeroed_slice_box(nodes as usize),
                    log: Log::new(),
                })
                .collect(),
            ags: heap::filled("the allocation groups", config.max_ags as usize, |_| {
                Ag::new()
            })?,
            used: bytemuck::Zeroable::zeroed(),
            ags_used: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        })
    }

    #[inline(always)]
    pub fn row(&self, ino: u32) -> &Inode<W> {
        &self.rows[ino as usize]
    }

    /// The head of a list. `nth`: the node, or the number of nodes for what is being logged.
    fn head(&self, nodes: u32, sb: u32, nth: u32) -> u32 {
        self.files + sb * (nodes + 1) + nth
    }

    fn add_tail(&self, list: List, head: u32, ino: u32) {
        let (i, l) = (ino as usize, list as usize);
        let last = self.rows[head as usize].links[l][0].get();
        self.rows[i].links[l][0].set(last);
        self.rows[i].links[l][1].set(head);
        self.rows[last as usize].links[l][1].set(ino);
        self.rows[head as usize].links[l][0].set(ino);
    }

    fn del(&self, list: List, ino: u32) {
        let l = list as usize;
        let [prev, next] = [0, 1].map(|i| self.rows[ino as usize].links[l][i].get());
        self.rows[prev as usize].links[l][1].set(next);
        self.rows[next as usize].links[l][0].set(prev);
    }

    /// The first entry of a list; `None`: it is empty.
    fn first(&self, list: List, head: u32) -> Option<u32> {
        self.after(list, head, head)
    }

    /// The entry behind another one.
    fn after(&self, list: List, head: u32, ino: u32) -> Option<u32> {
        let next = self.rows[ino as usize].links[list as usize][1].get();
        (next != head).then_some(next)
    }
}

impl<W: World> Mm<W> {
    /// Mounts a filesystem; `None` when [`crate::Config::max_supers`] are, or its groups exceed
    /// [`crate::Config::max_ags`].
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
        self.caches[1 + sb as usize].holds(info.inode_bytes);
        all.ags_used.set(first + info.ags);
        all.used.set(sb + 1);
        Some(sb)
    }

    /// How often an XFS's log is forced and everything pushed, in nanoseconds; 0: it is no XFS.
    pub fn sync_interval(&self, sb: u32) -> u64 {
        self.sb(sb).sync_interval.get()
    }

    /// Gives every XFS another such period; its workers take it when they have slept.
    pub(crate) fn set_sync_interval(&self, ns: u64) {
        for sb in (0..self.super_count()).map(|sb| self.sb(sb)) {
            if sb.ags.get() > 0 {
                sb.sync_interval.set(ns);
            }
        }
    }

    /// Mounted filesystems.
    #[inline(always)]
    pub(crate) fn super_count(&self) -> u32 {
        self.inodes.used.get()
    }

    #[inline(always)]
    pub(crate) fn sb(&self, sb: u32) -> &Super<W> {
        &self.inodes.supers[sb as usize]
    }

    #[inline(always)]
    pub(crate) fn inode(&self, ino: u32) -> &Inode<W> {
        self.inodes.row(ino)
    }

    fn lru_head(&self, sb: u32, nid: u32) -> u32 {
        self.inodes.head(self.nodes.len() as u32, sb, nid)
    }

    /// The head of a filesystem's log list or item list; of changes that are being logged.
    pub(crate) fn log_head(&self, sb: u32, logging: bool) -> u32 {
        let nth = if logging { self.nodes.len() as u32 } else { 0 };
        self.lru_head(sb, nth)
    }

    pub(crate) fn list_add_tail(&self, list: List, head: u32, ino: u32) {
        self.inodes
            .lock
            .with(|| self.inodes.add_tail(list, head, ino));
    }

    pub(crate) fn list_remove(&self, list: List, ino: u32) {
        self.inodes.lock.with(|| self.inodes.del(list, ino));
    }

    pub(crate) fn list_first(&self, list: List, head: u32) -> Option<u32> {
        self.inodes.first(list, head)
    }

    pub(crate) fn list_after(&self, list: List, head: u32, ino: u32) -> Option<u32> {
        self.inodes.after(list, head, ino)
    }

    /// Waiters for an inode's state: 64 hashed queues.
    pub(crate) fn inode_queue(&self, ino: u32) -> WaitQueue {
        queue::inode(&self.config, self.nodes.len() as u32, ino)
    }

    /// A file exists on a filesystem from now on: its directory (`None`: the root), and on an XFS
    /// its allocation group there and its inode's number in it. Nothing of it is in memory.
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

    /// Whether filesystems tell the engine of their inodes.
    #[inline(always)]
    pub(crate) fn keeps_inodes(&self) -> bool {
        self.inodes.used.get() > 0
    }

    /// Dentries that nobody uses, of a node's list.
    pub(crate) fn unused_dentries(&self, sb: u32, nid: u32) -> u64 {
        self.sb(sb).unused[nid as usize][0].get()
    }

    /// VFS inodes that nobody uses, of a node's list.
    pub(crate) fn unused_inodes(&self, sb: u32, nid: u32) -> u64 {
        self.sb(sb).unused[nid as usize][1].get()
    }

    /// Objects in memory: dentries, and inodes of a filesystem.
    pub fn cached_objects(&self, sb: u32) -> (u64, u64) {
        (self.slab_usage(DENTRY_CACHE).0, self.slab_usage(1 + sb).0)
    }

    /// Inodes of a filesystem whose memory was given back since it was mounted.
    pub fn inodes_freed(&self, sb: u32) -> u64 {
        self.sb(sb).freed.get()
    }

    /// The node whose list an object is on: that of its page, where lists are by node.
    fn node_of_object(&self, o: Object) -> u32 {
        match self.shrinkers_by_node() {
            true => self.zones[self.frames.zone(o.page)].node,
            false => 0,
        }
    }

    /// Where a row belongs on a list of unused entries: the bit that says it is there, the filesystem
    /// and the node.
    fn unused_place(&self, row: &Inode<W>, list: List) -> (u32, u32, u32) {
        let (bit, object) = match list {
            List::Dentries => (ON_DENTRIES, row.dentry()),
            _ => (ON_INODES, row.inode()),
        };
        (bit, row.sb.get(), self.node_of_object(object))
    }

    fn unused_add(&self, ino: u32, list: List) {
        let row = self.inode(ino);
        let (bit, sb, nid) = self.unused_place(row, list);
        self.inodes.lock.with(|| {
            if row.set(bit) {
                return;
            }
            self.inodes.add_tail(list, self.lru_head(sb, nid), ino);
            self.sb(sb).unused[nid as usize][list as usize].fetch_add(1);
        });
    }

    fn unused_del(&self, ino: u32, list: List) {
        let row = self.inode(ino);
        let (bit, sb, nid) = self.unused_place(row, list);
        self.inodes.lock.with(|| {
            if row.clear(bit) {
                self.inodes.del(list, ino);
                self.sb(sb).unused[nid as usize][list as usize].fetch_sub(1);
            }
        });
    }

    /// The oldest entry of a list goes to its end.
    fn unused_rotate(&self, ino: u32, list: List, head: u32) {
        self.inodes.lock.with(|| {
            self.inodes.del(list, ino);
            self.inodes.add_tail(list, head, ino);
        });
    }

    /// Looks a file up: brings its dentry and its inode into memory and holds them until
    /// [`Mm::iput`].
    ///
    /// # Errors
    /// There is no memory, or the file lost its name before it was held.
    pub async fn iget(&self, ino: u32) -> Result<(), NoInode> {
        loop {
            let row = self.inode(ino);
            if row.has(DENTRY) {
                row.users.fetch_add(1);
                return Ok(());
            }
            if row.has(UNLINKED) {
                return Err(NoInode::Gone);
            }
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
            match dentry {
                Some(object) if !row.any(DENTRY | UNLINKED) => {
                    // The directory's hold becomes the dentry's.
                    row.set_dentry(object);
                    row.set(DENTRY);
                    self.unused_del(ino, List::Inodes);
                    row.users.fetch_add(1);
                    return Ok(());
                }
                other => {
                    // Somebody else was faster, or there is no memory.
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

    /// Whether a file is gone: it has no name and nobody holds it, so that its inode can be another
    /// file's.
    pub fn inode_gone(&self, ino: u32) -> bool {
        let row = self.inode(ino);
        row.has(PLACED | UNLINKED) && !row.any(DENTRY | LOADING) && row.users.get() == 0
    }

    /// A new file takes the inode of one that is gone, below another directory perhaps.
    pub fn reuse_inode(&self, ino: u32, parent: Option<u32>) {
        assert!(self.inode_gone(ino), "inode {ino} is free");
        let row = self.inode(ino);
        row.parent.set(parent.map_or(0, |p| p + 1));
        row.clear(UNLINKED | READ);
        self.mappings[ino as usize].writeback_index.set(0);
    }

    /// A new file's dentry and inode, held until [`Mm::iput`]; its directory is held by the caller.
    /// An XFS inode that was evicted and not freed yet is used again. `false`: there is no memory.
    pub async fn new_inode(&self, ino: u32) -> bool {
        let row = self.inode(ino);
        let sb = row.sb.get();
        let q = self.inode_queue(ino);
        // Nobody else brings it in meanwhile.
        let taken = row.set(LOADING);
        assert!(!taken, "a new file's inode");
        while row.has(CLAIMED) {
            self.inode_wait(WaitedKind::InodeLock, ino, None);
            self.world.sleep(self.tick()).await;
        }
        let inode = if row.has(RECLAIMABLE) {
            self.xfs_recycle(ino);
            Some(row.inode())
        } else {
            debug_assert!(!row.has(CACHED));
            self.slab_alloc(1 + sb, Gfp::NOFS).await
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

    /// Brings an inode into memory, off the list of unused ones, for a caller that gives it a dentry.
    async fn bring_in(&self, ino: u32) -> bool {
        let row = self.inode(ino);
        loop {
            if row.has(CACHED) {
                if row.has(CLAIMED) {
                    // A reclaimer is at it: it will be gone, or left.
                    self.inode_wait(WaitedKind::InodeLock, ino, None);
                    self.world.sleep(self.tick()).await;
                    continue;
                }
                if row.has(RECLAIMABLE) {
                    self.xfs_recycle(ino);
                }
                self.unused_del(ino, List::Inodes);
                return true;
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

    /// Ends what [`Mm::iget`] began.
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
        self.unused_add(ino, List::Dentries);
    }

    /// A held file has lost its name: with the last hold it goes.
    pub fn unlink_inode(&self, ino: u32) {
        assert!(self.inode(ino).users.get() > 0, "a held file");
        self.inode(ino).set(UNLINKED);
    }

    /// Frees an unused dentry, and what it held.
    fn drop_dentry(&self, ino: u32) {
        let row = self.inode(ino);
        debug_assert!(row.users.get() == 0 && row.has(DENTRY));
        self.unused_del(ino, List::Dentries);
        row.clear(DENTRY | DENTRY_REF);
        self.slab_free(DENTRY_CACHE, row.dentry());
        if let Some(dir) = row.parent.get().checked_sub(1) {
            self.iput(dir);
        }
        self.no_dentry_left(ino);
    }

    /// Nobody holds an inode any more (`iput_final`).
    fn no_dentry_left(&self, ino: u32) {
        let row = self.inode(ino);
        if row.has(UNLINKED) {
            self.evict_inode(ino);
        } else {
            row.set(INODE_REF);
            self.inode_cleaned(ino);
        }
    }

    /// An inode is clean: if nobody uses it, it belongs on the list.
    pub(crate) fn inode_cleaned(&self, ino: u32) {
        let row = self.inode(ino);
        let unused = row.has(CACHED) && !row.any(DENTRY | LOADING | RECLAIMABLE | ON_INODES);
        if unused && !self.vfs_dirty(ino) && !row.has(UNLINKED) {
            self.unused_add(ino, List::Inodes);
        }
    }

    /// As [`Mm::inode_cleaned`], for files of which the engine may not know inodes.
    #[inline]
    pub(crate) fn inode_cleaned_by_flusher(&self, ino: u32) {
        if self.keeps_inodes() {
            self.inode_cleaned(ino);
        }
    }

    fn vfs_dirty(&self, ino: u32) -> bool {
        let dirty = I_DIRTY_PAGES | I_DIRTY_META | I_SYNC;
        self.mappings[ino as usize].state.get() & dirty != 0
    }

    /// The VFS lets an inode go. An XFS keeps it until it is reclaimed.
    fn evict_inode(&self, ino: u32) {
        let row = self.inode(ino);
        self.unused_del(ino, List::Inodes);
        row.clear(INODE_REF);
        if self.is_xfs(row.sb.get()) {
            if row.has(UNLINKED) {
                self.log_inode(ino); // freeing it on disk is a change
            }
            self.xfs_evicted(ino);
        } else {
            self.free_inode(ino);
        }
    }

    /// Gives an inode's memory back.
    pub(crate) fn free_inode(&self, ino: u32) {
        let row = self.inode(ino);
        assert!(
            !row.any(
                DIRTY | PINNED | LOGGING | IN_WRITE | ON_AIL | DENTRY | ON_INODES | RECLAIMABLE
            ),
            "inode {ino} is freed with state {:#x}",
            row.state.get()
        );
        row.clear(CACHED);
        self.slab_free(1 + row.sb.get(), row.inode());
        self.stat.event(VmEvent::InodesFreed, 1);
        self.sb(row.sb.get()).freed.fetch_add(1);
    }

    /// Looks at up to `n` unused dentries, the oldest first; returns how many it freed.
    pub(crate) async fn prune_dentries(&self, sb: u32, nid: u32, n: u64) -> u64 {
        let head = self.lru_head(sb, nid);
        let mut freed = 0;
        for i in 0..n.min(self.unused_dentries(sb, nid)) {
            let Some(ino) = self.inodes.first(List::Dentries, head) else {
                break;
            };
            let row = self.inode(ino);
            self.world.charge(Cost::SlabObject, 1);
            if row.users.get() > 0 {
                self.unused_del(ino, List::Dentries);
            } else if row.clear(DENTRY_REF) {
                self.unused_rotate(ino, List::Dentries, head);
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

    /// Looks at up to `n` unused inodes, the oldest first; returns how many it evicted.
    pub(crate) async fn prune_inodes(&self, sb: u32, nid: u32, n: u64) -> u64 {
        let head = self.lru_head(sb, nid);
        let mut freed = 0;
        for i in 0..n.min(self.unused_inodes(sb, nid)) {
            let Some(ino) = self.inodes.first(List::Inodes, head) else {
                break;
            };
            let row = self.inode(ino);
            self.world.charge(Cost::SlabObject, 1);
            if row.any(DENTRY | LOADING) || self.vfs_dirty(ino) {
                self.unused_del(ino, List::Inodes);
            } else if row.clear(INODE_REF) {
                self.unused_rotate(ino, List::Inodes, head);
            } else if self.mappings[ino as usize].nrpages.get() > 0 {
                // It is looked at again, with what is left.
                self.unused_rotate(ino, List::Inodes, head);
                self.steal_pages(ino).await;
            } else {
                self.forget_shadows(ino);
                self.evict_inode(ino);
                freed += 1;
            }
            if i % 32 == 31 {
                self.world.relax().await;
            }
        }
        freed
    }

    /// Drops an unused inode's page cache: pages that are clean and not mapped.
    async fn steal_pages(&self, ino: u32) {
        let stolen = self.invalidate_mapping_pages(ino).await;
        let kswapd = self.current().flags() & crate::task::PF_KSWAPD != 0;
        let event = match kswapd {
            true => VmEvent::KswapdInodeSteal,
            false => VmEvent::PgInodeSteal,
        };
        self.stat.event(event, stolen);
        self.current().reclaimed_slab.fetch_add(stolen as u32);
    }

    /// An evicted inode leaves no shadow behind.
    fn forget_shadows(&self, ino: u32) {
        let mut from = self.keeps_shadows().then_some(0);
        while let Some(at) = from {
            from = self.drop_shadows_from(ino, at);
        }
    }

    /// Recounts rows, lists and, for an XFS, tags and groups.
    pub(crate) fn check_inodes(&self) -> Result<(), String> {
        if !self.keeps_inodes() {
            return Ok(());
        }
        let mut listed = [0u64; 2];
        let mut objects = vec![0u64; self.caches.len()];
        for ino in 0..self.mapping_count() {
            let row = self.inode(ino);
            let s = row.state.get();
            let fail = |what: &str| Err(format!("inode {ino} ({s:#x}): {what}"));
            objects[0] += u64::from(s & DENTRY != 0);
            objects[1 + row.sb.get() as usize] += u64::from(s & CACHED != 0);
            listed[0] += u64::from(s & ON_DENTRIES != 0);
            listed[1] += u64::from(s & ON_INODES != 0);
            if s & DENTRY != 0 && s & CACHED == 0 {
                return fail("a dentry without an inode");
            }
            if s & DENTRY == 0 && row.users.get() > 0 {
                return fail("used without a dentry");
            }
            let xfs = DIRTY | PINNED | LOGGING | FLUSHING | IN_WRITE | ON_AIL | RECLAIMABLE;
            if s & CACHED == 0 && s & xfs != 0 {
                return fail("not in memory and not in its place");
            }
            let pages = self.mappings[ino as usize].nrpages.get();
            if s & (CACHED | PLACED | UNLINKED) == PLACED && pages > 0 {
                return fail("pages without an inode");
            }
            self.check_xfs_inode(ino)?;
        }
        for (i, kind) in ["dentries", "inodes"].into_iter().enumerate() {
            let list = [List::Dentries, List::Inodes][i];
            let bit = [ON_DENTRIES, ON_INODES][i];
            let mut on_lists = 0;
            for sb in 0..self.super_count() {
                for nid in 0..self.nodes.len() as u32 {
                    let mut n = 0;
                    let head = self.lru_head(sb, nid);
                    let mut at = self.inodes.first(list, head);
                    while let Some(ino) = at {
                        n += 1;
                        let row = self.inode(ino);
                        if !row.has(bit) || row.sb.get() != sb || n > u64::from(self.inodes.files) {
                            return Err(format!(
                                "{kind} of filesystem {sb}: inode {ino} is astray"
                            ));
                        }
                        at = self.inodes.after(list, head, ino);
                    }
                    let counted = self.sb(sb).unused[nid as usize][i].get();
                    if n != counted {
                        return Err(format!("unused {kind}: {n}, counted {counted}"));
                    }
                    on_lists += n;
                }
            }
            if on_lists != listed[i] {
                return Err(format!(
                    "{} {kind} say they are unused, {on_lists} are",
                    listed[i]
                ));
            }
        }
        self.check_xfs()?;
        // An object that was just taken for a row may not be in it yet.
        for (cache, found) in objects.into_iter().enumerate() {
            let known = self.slab_usage(cache as u32).0;
            if known < found {
                return Err(format!(
                    "cache {cache}: {found} objects in use, counted {known}"
                ));
            }
        }
        Ok(())
    }
}
