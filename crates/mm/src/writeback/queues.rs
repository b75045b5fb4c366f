//! Queues of a device's flusher: dirty inodes in three lists, work items, requests of reclaim.

use crate::Mm;
use crate::cache::mapping::{I_DIRTY_META, I_DIRTY_PAGES, I_DIRTY_RECLAIM, I_SYNC, Mapping};
use crate::cache::tree::Tag;
use crate::policy::ReclaimFlush;
use crate::world::{ShortLock, Word32, Word64, World};

pub(super) const NONE: u32 = u32::MAX;
/// Work items that may be queued; further ones are added to the last.
pub(super) const WORK_ITEMS: usize = 16;

/// Pages written for one request of reclaim: an aligned part of the file.
pub(super) const RECLAIM_CHUNK: u32 = 1024;
/// Requests of reclaim that may wait at a device for each zone or node.
pub(super) const RECLAIM_REQUESTS: usize = 8;

/// The flusher's lists, oldest entry first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum List {
    Dirty = 1,
    Io = 2,
    MoreIo = 3,
}

/// Requests of one zone's or node's reclaim to a device, oldest first.
pub(super) struct Requests<W: World> {
    count: W::U32,
    mapping: [W::U32; RECLAIM_REQUESTS],
    index: [W::U32; RECLAIM_REQUESTS],
}

impl<W: World> Requests<W> {
    /// Makes an array without requests.
    fn new() -> Self {
        Self {
            count: bytemuck::Zeroable::zeroed(),
            mapping: bytemuck::Zeroable::zeroed(),
            index: bytemuck::Zeroable::zeroed(),
        }
    }

    fn get(&self, i: usize) -> (u32, u32) {
        (self.mapping[i].get(), self.index[i].get())
    }

    /// Returns true if a request for the same aligned chunk of the file waits already.
    pub(super) fn holds(&self, mapping: u32, index: u32) -> bool {
        (0..self.count.get() as usize).any(|i| {
            let (m, at) = self.get(i);
            m == mapping && at / RECLAIM_CHUNK == index / RECLAIM_CHUNK
        })
    }

    /// Adds a request to write the pages around `index` of a file; returns false if there is no
    /// room.
    pub(super) fn push(&self, mapping: u32, index: u32) -> bool {
        let n = self.count.get() as usize;
        if n == RECLAIM_REQUESTS {
            return false;
        }
        self.mapping[n].set(mapping);
        self.index[n].set(index);
        self.count.set(n as u32 + 1);
        true
    }

    /// Takes the oldest request: file and page index. `None` if no request waits.
    pub(super) fn pop(&self) -> Option<(u32, u32)> {
        let n = self.count.get() as usize;
        if n == 0 {
            return None;
        }
        let first = self.get(0);
        for i in 1..n {
            self.mapping[i - 1].set(self.mapping[i].get());
            self.index[i - 1].set(self.index[i].get());
        }
        self.count.set(n as u32 - 1);
        Some(first)
    }
}

/// The state of a device's flusher.
pub(crate) struct State<W: World> {
    /// First inode of each list, by `List`; `NONE`: the list is empty.
    pub(super) first: [W::U32; 4],
    /// Last inode of each list.
    last: [W::U32; 4],
    /// Pages of queued work items, oldest first.
    pub(super) work: [W::U64; WORK_ITEMS],
    /// Number of queued work items.
    pub(super) work_count: W::U32,
    /// Requests of reclaim, one array for each zone or node; empty without `reclaim_flush`.
    pub(super) reclaim: Box<[Requests<W>]>,
    /// Number of requests in all arrays.
    pub(super) reclaim_waiting: W::U32,
    /// The group (array) to serve next.
    pub(super) reclaim_next: W::U32,
    /// Set when memory pressure lowered the age at which inodes expire: the flusher is to look for
    /// old inodes.
    pub(super) expiry_wanted: W::U32,
    /// Set when a dirtier found the background limit exceeded.
    pub(super) background_wanted: W::U32,
    /// Set when an inode became dirty while none was: the flusher was woken to set its timer.
    pub(super) first_dirty: W::U32,
    /// 1 while the flusher works, 0 while it waits.
    pub(super) busy: W::U32,
    /// Time of the last periodic pass (ns).
    pub(super) last_old_flush: W::U64,
    /// Pages whose writeback completed, since boot.
    pub completed: W::U64,
    /// When the present measurement of the bandwidth began (ns).
    pub(super) bandwidth_time: W::U64,
    /// `completed` at that time.
    pub(super) bandwidth_completed: W::U64,
    /// Estimated write bandwidth in pages a second, and its smoothed form.
    pub bandwidth: W::U64,
    pub average_bandwidth: W::U64,
    pub(super) lock: W::Lock,
}

impl<W: World> State<W> {
    /// Creates the state of a flusher with empty lists and a bandwidth of 100 MB/s.
    /// `reclaim_groups`: zones or nodes whose reclaim may leave requests.
    pub fn new(reclaim_groups: usize) -> Self {
        let s = Self {
            first: bytemuck::Zeroable::zeroed(),
            last: bytemuck::Zeroable::zeroed(),
            work: bytemuck::Zeroable::zeroed(),
            work_count: bytemuck::Zeroable::zeroed(),
            reclaim: (0..reclaim_groups).map(|_| Requests::new()).collect(),
            reclaim_waiting: bytemuck::Zeroable::zeroed(),
            reclaim_next: bytemuck::Zeroable::zeroed(),
            expiry_wanted: bytemuck::Zeroable::zeroed(),
            background_wanted: bytemuck::Zeroable::zeroed(),
            first_dirty: bytemuck::Zeroable::zeroed(),
            busy: bytemuck::Zeroable::zeroed(),
            last_old_flush: bytemuck::Zeroable::zeroed(),
            completed: bytemuck::Zeroable::zeroed(),
            bandwidth_time: bytemuck::Zeroable::zeroed(),
            bandwidth_completed: bytemuck::Zeroable::zeroed(),
            bandwidth: bytemuck::Zeroable::zeroed(),
            average_bandwidth: bytemuck::Zeroable::zeroed(),
            lock: W::Lock::default(),
        };
        for w in s.first.iter().chain(&s.last) {
            w.set(NONE);
        }
        s.bandwidth.set(25_600);
        s.average_bandwidth.set(25_600);
        s
    }
}

impl<W: World> Mm<W> {
    pub(super) fn flusher_state(&self, bdi: u32) -> &State<W> {
        &self.bdis[bdi as usize].flusher
    }

    /// Appends an inode that is on no list to one of the lists of its device `bdi`. Lists are
    /// linked by inode numbers.
    fn list_push_back(&self, bdi: u32, list: List, inode: u32) {
        let (s, m) = (self.flusher_state(bdi), &self.mappings[inode as usize]);
        let l = list as usize;
        m.on_list.set(list as u32);
        m.prev.set(s.last[l].get());
        m.next.set(NONE);
        match s.last[l].get() {
            NONE => s.first[l].set(inode),
            last => self.mappings[last as usize].next.set(inode),
        }
        s.last[l].set(inode);
    }

    /// Takes an inode off the flusher's list that it is on, if it is on one.
    pub(super) fn list_del(&self, inode: u32) {
        let m = &self.mappings[inode as usize];
        let l = m.on_list.get() as usize;
        if l == 0 {
            return;
        }
        let s = self.flusher_state(m.bdi());
        match m.prev.get() {
            NONE => s.first[l].set(m.next.get()),
            p => self.mappings[p as usize].next.set(m.next.get()),
        }
        match m.next.get() {
            NONE => s.last[l].set(m.prev.get()),
            n => self.mappings[n as usize].prev.set(m.prev.get()),
        }
        m.on_list.set(0);
    }

    /// Moves an inode to the end of a list of its device.
    pub(super) fn list_move(&self, list: List, inode: u32) {
        let bdi = self.mappings[inode as usize].bdi();
        self.list_del(inode);
        self.list_push_back(bdi, list, inode);
    }

    /// Notes that a page of a file became dirty: puts the inode on its device's `dirty` list if it
    /// is on none.
    #[inline(always)]
    pub(crate) fn mark_inode_dirty(&self, m: &Mapping<W>, mapping: u32) {
        if m.state.get() & I_DIRTY_PAGES == 0 {
            self.mark_inode(mapping, I_DIRTY_PAGES);
        }
    }

    /// Notes that the inode's metadata became dirty.
    pub fn mark_inode_metadata_dirty(&self, mapping: u32) {
        self.mark_inode(mapping, I_DIRTY_META);
    }

    /// Sets a dirty bit of an inode (`I_DIRTY_PAGES` or `I_DIRTY_META`). If the inode was clean and
    /// is not being written, puts it on the `dirty` list with the present time; if the device had
    /// no dirty inode, also sets the flusher's timer or wakes it.
    fn mark_inode(&self, mapping: u32, dirty_bit: u32) {
        let m = &self.mappings[mapping as usize];
        let before = m.state.fetch_or(dirty_bit);
        if before & (I_DIRTY_PAGES | I_DIRTY_META) != 0 || before & I_SYNC != 0 {
            return;
        }
        let bdi = m.bdi();
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            let was_clean = s.first.iter().all(|f| f.get() == NONE);
            m.dirtied_when.set(self.world.now());
            self.list_move(List::Dirty, mapping);
            if was_clean && !self.sets_flusher_timer(bdi) {
                s.first_dirty.set(1);
                self.world.wake(self.flusher_queue(bdi));
            }
        });
    }

    /// Moves an inode to the end of the `dirty` list, which is ordered by time of dirtying: with
    /// the present time if its own is earlier than that of the last inode there.
    pub(super) fn redirty_tail(&self, inode: u32) {
        let m = &self.mappings[inode as usize];
        let newest = self.flusher_state(m.bdi()).last[List::Dirty as usize].get();
        if newest != NONE
            && newest != inode
            && m.dirtied_when.get() < self.mappings[newest as usize].dirtied_when.get()
        {
            m.dirtied_when.set(self.world.now());
        }
        self.list_move(List::Dirty, inode);
    }

    /// Moves an inode back to the flusher's list `dirty` if it is on one of the lists, because some
    /// of its pages were skipped.
    pub(super) fn redirty_listed(&self, inode: u32) {
        let m = &self.mappings[inode as usize];
        self.flusher_state(m.bdi()).lock.with(|| {
            if m.on_list.get() != 0 {
                self.redirty_tail(inode);
            }
        });
    }

    /// Moves the inodes of `more_io`, and the dirty ones that are old enough, to `io`.
    /// `older_than`: latest time of dirtying (ns); `None`: all.
    pub(super) fn queue_io(&self, bdi: u32, older_than: Option<u64>) {
        let s = self.flusher_state(bdi);
        s.lock.with(|| {
            if self.policy.reclaim_flush == ReclaimFlush::Inode {
                self.queue_marked(bdi);
            }
            self.list_splice(s, List::MoreIo, |_| true);
            self.list_splice(s, List::Dirty, |inode| {
                let when = self.mappings[inode as usize].dirtied_when.get();
                older_than.is_none_or(|limit| when <= limit)
            });
        });
    }

    /// Moves the inodes at the front of a flusher's list, up to the first that is not `wanted`, to
    /// the end of the list `io`.
    fn list_splice(&self, s: &State<W>, from: List, wanted: impl Fn(u32) -> bool) {
        let (from, io) = (from as usize, List::Io as usize);
        let first = s.first[from].get();
        let (mut last, mut next) = (NONE, first);
        while next != NONE && wanted(next) {
            last = next;
            let m = &self.mappings[last as usize];
            m.on_list.set(io as u32);
            next = m.next.get();
        }
        if last == NONE {
            return;
        }
        s.first[from].set(next);
        match next {
            NONE => s.last[from].set(NONE),
            next => self.mappings[next as usize].prev.set(NONE),
        }
        self.mappings[first as usize].prev.set(s.last[io].get());
        self.mappings[last as usize].next.set(NONE);
        match s.last[io].get() {
            NONE => s.first[io].set(first),
            before => self.mappings[before as usize].next.set(first),
        }
        s.last[io].set(last);
    }

    /// Moves the dirty inodes that reclaim has marked (`I_DIRTY_RECLAIM`) to the list `io`,
    /// whatever their age.
    fn queue_marked(&self, bdi: u32) {
        let mut inode = self.flusher_state(bdi).first[List::Dirty as usize].get();
        while inode != NONE {
            let m = &self.mappings[inode as usize];
            let next = m.next.get();
            if m.state.get() & I_DIRTY_RECLAIM != 0 {
                self.list_move(List::Io, inode);
            }
            inode = next;
        }
    }

    /// Returns the cutoff (`older_than_this`, ns) of background work under policies that relax it:
    /// inodes dirtied up to then are queued. The cutoff is `age` nanoseconds before now. If `io`
    /// and `more_io` are empty, the age is first halved until the oldest dirty inode is old enough.
    pub(super) fn moving_target(&self, bdi: u32, mut age: u64) -> u64 {
        let s = self.flusher_state(bdi);
        let now = self.world.now();
        s.lock.with(|| {
            let first = |list: List| s.first[list as usize].get();
            if first(List::Io) == NONE && first(List::MoreIo) == NONE {
                let oldest = first(List::Dirty);
                while age > 0
                    && oldest != NONE
                    && self.mappings[oldest as usize].dirtied_when.get() > now.saturating_sub(age)
                {
                    age >>= 1;
                }
            }
            now.saturating_sub(age)
        })
    }

    /// Returns true if a device has inodes on any list.
    pub(super) fn has_dirty_io(&self, bdi: u32) -> bool {
        self.flusher_state(bdi)
            .first
            .iter()
            .any(|f| f.get() != NONE)
    }

    /// Checks the links of a device's lists of inodes, and that every inode with dirty pages is on
    /// one unless it is being written. Returns the first error as text.
    pub(crate) fn check_flusher(&self, bdi: u32) -> Result<(), String> {
        let s = self.flusher_state(bdi);
        for list in [List::Dirty, List::Io, List::MoreIo] {
            let (mut at, mut prev, mut n) = (s.first[list as usize].get(), NONE, 0);
            while at != NONE {
                let m = &self.mappings[at as usize];
                if m.on_list.get() != list as u32 || m.prev.get() != prev || m.bdi() != bdi {
                    return Err(format!("bdi {bdi}: inode {at} is linked wrongly"));
                }
                prev = at;
                at = m.next.get();
                n += 1;
                if n > self.mapping_count() {
                    return Err(format!("bdi {bdi}: list {list:?} is a ring"));
                }
            }
            if s.last[list as usize].get() != prev {
                return Err(format!("bdi {bdi}: list {list:?} ends elsewhere"));
            }
        }
        self.check_requests(bdi)?;
        for id in 0..self.mapping_count() {
            let m = &self.mappings[id as usize];
            if m.bdi() == bdi
                && m.on_list.get() == 0
                && m.state.get() & I_SYNC == 0
                && self.mapping_tagged(id, Tag::Dirty)
            {
                return Err(format!("inode {id} has dirty pages and is on no list"));
            }
        }
        Ok(())
    }

    /// Checks that the requests of reclaim at a device name files of this device, no two of a group
    /// the same pages, and that their number is the counted one. Returns the first error as text.
    fn check_requests(&self, bdi: u32) -> Result<(), String> {
        let s = self.flusher_state(bdi);
        let mut waiting = 0;
        for (group, requests) in s.reclaim.iter().enumerate() {
            let n = requests.count.get() as usize;
            if n > RECLAIM_REQUESTS {
                return Err(format!("bdi {bdi}: {n} requests of reclaim {group}"));
            }
            waiting += n as u32;
            let chunk = |i| {
                let (mapping, index) = requests.get(i);
                (mapping, index / RECLAIM_CHUNK)
            };
            for i in 0..n {
                let (mapping, _) = chunk(i);
                if mapping >= self.mapping_count() || self.mappings[mapping as usize].bdi() != bdi {
                    return Err(format!("bdi {bdi}: a request names file {mapping}"));
                }
                if (0..i).any(|before| chunk(before) == chunk(i)) {
                    return Err(format!("bdi {bdi}: file {mapping} is asked for twice"));
                }
            }
        }
        if waiting != s.reclaim_waiting.get() {
            return Err(format!(
                "bdi {bdi}: {waiting} requests of reclaim, counted {}",
                s.reclaim_waiting.get()
            ));
        }
        Ok(())
    }
}
