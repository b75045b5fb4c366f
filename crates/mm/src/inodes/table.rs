//! The tables of inodes: a row for each file, the lists that rows can be on, mounted filesystems.

use super::state::{InodeList, LISTS};
use super::xfs::{Ag, Log};
use crate::memory::slab::{Cache, Object};
use crate::world::{ShortLock, WaitQueue, Word32, World};
use crate::{Mm, NoMemory, Pfn, queue};

/// The row of a file.
pub(crate) struct Inode<W: World> {
    pub state: W::U32,
    /// The number of open files, tasks that hold the file, and cached dentries below it.
    pub users: W::U32,
    pub sb: W::U32,
    /// The row of its directory, plus 1; 0: the root.
    pub parent: W::U32,
    /// The machine-wide number of its allocation group, and in `agino` its number in that group.
    pub ag: W::U32,
    pub agino: W::U32,
    /// Its position in log order.
    pub lsn: W::U64,
    dentry_page: W::U32,
    inode_page: W::U32,
    /// The slots of its objects in those pages: the dentry's in the low half, the inode's in the
    /// high half.
    slots: W::U32,
    links: [[W::U32; 2]; LISTS],
}

impl<W: World> Inode<W> {
    /// Makes an empty row: no file, on no list.
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

    /// Returns true if all of these state bits are set.
    #[inline(always)]
    pub fn has(&self, bits: u32) -> bool {
        self.state.get() & bits == bits
    }

    /// Returns true if any of these state bits is set.
    #[inline(always)]
    pub fn any(&self, bits: u32) -> bool {
        self.state.get() & bits != 0
    }

    /// Sets state bits; returns true if any of them was set before.
    #[inline(always)]
    pub fn set(&self, bits: u32) -> bool {
        self.state.fetch_or(bits) & bits != 0
    }

    /// Clears state bits; returns true if any of them was set before.
    #[inline(always)]
    pub fn clear(&self, bits: u32) -> bool {
        self.state.fetch_and(!bits) & bits != 0
    }

    /// Returns the place of the file's dentry: its slab page and its slot there.
    pub(super) fn dentry(&self) -> Object {
        Object {
            page: self.dentry_page.get(),
            slot: self.slots.get() & 0xffff,
        }
    }

    /// Returns the place of the file's inode: its slab page and its slot there.
    pub fn inode(&self) -> Object {
        Object {
            page: self.inode_page.get(),
            slot: self.slots.get() >> 16,
        }
    }

    /// Records the place of the file's dentry in slab memory.
    pub(super) fn set_dentry(&self, o: Object) {
        self.dentry_page.set(o.page);
        self.slots.fetch_and(0xffff << 16);
        self.slots.fetch_or(o.slot);
    }

    /// Records the place of the file's inode in slab memory.
    pub(super) fn set_inode(&self, o: Object) {
        self.inode_page.set(o.page);
        self.slots.fetch_and(0xffff);
        self.slots.fetch_or(o.slot << 16);
    }
}

/// A mounted filesystem.
pub(crate) struct Super<W: World> {
    pub inode_bytes: W::U32,
    pub first_ag: W::U32,
    pub ags: W::U32,
    pub sync_interval: W::U64,
    /// Inodes freed from memory since the mount.
    pub(super) freed: W::U64,
    /// Numbers of unused dentries and inodes, by node.
    pub(super) unused: Box<[[W::U64; 2]]>,
    pub log: Log<W>,
}

/// All rows, filesystems and allocation groups.
pub(crate) struct Inodes<W: World> {
    /// A row for each file, then the heads of all lists: for each filesystem one per node, and one
    /// more for changes that are being logged.
    rows: Box<[Inode<W>]>,
    pub(super) files: u32,
    pub supers: Box<[Super<W>]>,
    pub ags: Box<[Ag<W>]>,
    pub(super) used: W::U32,
    pub(super) ags_used: W::U32,
    pub(super) lock: W::Lock,
}

/// The slab cache of dentries; the caches after it are of inodes, one for each filesystem.
pub(super) const DENTRY_CACHE: u32 = 0;
/// Bytes of a dentry (`struct dentry`, 64 bit): 21 on a page.
const DENTRY_BYTES: u32 = 192;

/// Returns how many slab caches `supers` filesystems have: one of inodes for each, and one of
/// dentries for all.
pub(crate) fn caches(supers: u32) -> u32 {
    if supers == 0 { 0 } else { supers + 1 }
}

/// Makes the slab caches of `supers` filesystems. `first_list`: number of the first one's list of
/// pages; the others' follow.
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
    /// Makes the tables for the machine's largest numbers of files, filesystems and allocation
    /// groups, with lists of unused entries for each of `nodes` nodes.
    ///
    /// # Errors
    /// Fails if the host has too little memory for the tables.
    pub fn new(config: &crate::Config, nodes: u32) -> Result<Self, NoMemory> {
        let files = if config.max_supers == 0 {
            0
        } else {
            config.max_mappings
        };
        let heads = config.max_supers * (nodes + 1);
        let rows: Box<[Inode<W>]> =
            heap::filled("the inodes", (files + heads) as usize, |_| Inode::new())?;
        // A list's head that links to itself is an empty list.
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

    /// Returns the number of the row that is the head of a filesystem's list, behind the rows of
    /// files. `nth`: the node, or `nodes`, their number, for the list of changes that are being
    /// logged.
    fn head(&self, nodes: u32, sb: u32, nth: u32) -> u32 {
        self.files + sb * (nodes + 1) + nth
    }

    /// Adds the row of `ino` at the end of the list whose head is `head`; the caller holds the
    /// tables' lock.
    pub(super) fn add_tail(&self, list: InodeList, head: u32, ino: u32) {
        let (i, l) = (ino as usize, list as usize);
        // Link 0 is the row before, link 1 the row behind.
        let last = self.rows[head as usize].links[l][0].get();
        self.rows[i].links[l][0].set(last);
        self.rows[i].links[l][1].set(head);
        self.rows[last as usize].links[l][1].set(ino);
        self.rows[head as usize].links[l][0].set(ino);
    }

    /// Takes the row of `ino` off a list; the caller holds the tables' lock.
    pub(super) fn del(&self, list: InodeList, ino: u32) {
        let l = list as usize;
        let [prev, next] = [0, 1].map(|i| self.rows[ino as usize].links[l][i].get());
        self.rows[prev as usize].links[l][1].set(next);
        self.rows[next as usize].links[l][0].set(prev);
    }

    /// Returns the first row of the list whose head is `head`; `None` if it is empty.
    pub(super) fn first(&self, list: InodeList, head: u32) -> Option<u32> {
        self.after(list, head, head)
    }

    /// Returns the row behind that of `ino` on the list whose head is `head`; `None` at the end.
    pub(super) fn after(&self, list: InodeList, head: u32, ino: u32) -> Option<u32> {
        let next = self.rows[ino as usize].links[list as usize][1].get();
        (next != head).then_some(next)
    }
}

impl<W: World> Mm<W> {
    /// Returns the number of mounted filesystems.
    #[inline(always)]
    pub(crate) fn super_count(&self) -> u32 {
        self.inodes.used.get()
    }

    /// Returns a mounted filesystem by its number.
    #[inline(always)]
    pub(crate) fn sb(&self, sb: u32) -> &Super<W> {
        &self.inodes.supers[sb as usize]
    }

    #[inline(always)]
    pub(crate) fn inode(&self, ino: u32) -> &Inode<W> {
        self.inodes.row(ino)
    }

    /// Returns the head of a filesystem's lists of unused dentries and inodes on a node.
    pub(super) fn lru_head(&self, sb: u32, nid: u32) -> u32 {
        self.inodes.head(self.nodes.len() as u32, sb, nid)
    }

    /// Returns the head of a filesystem's log list or item list; with `logging`, of the list of
    /// changes that are being logged.
    pub(crate) fn log_head(&self, sb: u32, logging: bool) -> u32 {
        let nth = if logging { self.nodes.len() as u32 } else { 0 };
        self.lru_head(sb, nth)
    }

    /// Adds an inode's row at the end of a list, under the tables' lock.
    pub(crate) fn list_add_tail(&self, list: InodeList, head: u32, ino: u32) {
        self.inodes
            .lock
            .with(|| self.inodes.add_tail(list, head, ino));
    }

    /// Takes an inode's row off a list, under the tables' lock.
    pub(crate) fn list_remove(&self, list: InodeList, ino: u32) {
        self.inodes.lock.with(|| self.inodes.del(list, ino));
    }

    /// Returns the first inode of a list; `None` if it is empty.
    pub(crate) fn list_first(&self, list: InodeList, head: u32) -> Option<u32> {
        self.inodes.first(list, head)
    }

    /// Returns the inode behind `ino` on a list; `None` at the end.
    pub(crate) fn list_after(&self, list: InodeList, head: u32, ino: u32) -> Option<u32> {
        self.inodes.after(list, head, ino)
    }

    /// Returns the queue, one of 64 by hash, of tasks that wait for an inode's state.
    pub(crate) fn inode_queue(&self, ino: u32) -> WaitQueue {
        queue::inode(&self.config, self.nodes.len() as u32, ino)
    }
}
