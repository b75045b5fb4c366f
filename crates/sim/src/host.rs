//! A task of the virtual machine as a workload sees it: the [`Host`] of the virtual world.

mod map;
mod names;

use crate::SimMm;
use crate::filesystems::{self as fs, DirId, FsError};
use crate::world::own_queue;
use mm::inodes::inode::NoInode;
use mm::memory::gfp::Gfp;
use mm::watch::vmstat::VmEvent;
use mm::world::Cost;
use mm::world::Tasks;
use names::{Named, Names, plain};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use workload::{
    Advice, AnyTask, Cpus, Fd, Host, HostError, HostResult, Map, MapId, OpenFlags, Pages, Report,
    Session, Stat, Task, Usage, Word,
};

/// What getdents(2) copies of a name: 24 bytes and the name itself.
const ENTRY_BYTES: u64 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Zero,
    Null,
    File(u32),
}

#[derive(Debug, Clone)]
struct Open {
    object: Object,
    path: Rc<str>,
    pos: u64,
    flags: OpenFlags,
    window: Rc<fs::Window>,
}

/// Names and open files, shared by all tasks.
#[derive(Default)]
pub struct Namespace {
    names: RefCell<Names>,
    open: RefCell<Vec<Option<Open>>>,
    maps: RefCell<Vec<Option<map::Mapped>>>,
    /// Descriptors and mappings by file, for files that have any.
    users: RefCell<BTreeMap<u32, u32>>,
    /// Files without a name that are still open.
    nameless: RefCell<BTreeSet<u32>>,
}

impl Namespace {
    /// The names of a machine with these mount points, in the order of its filesystems; that of the first
    /// is empty.
    pub fn new(mounts: &[&str]) -> Self {
        let names = RefCell::new(Names::new(mounts));
        Self {
            names,
            ..Self::default()
        }
    }

    /// Makes a file that is there before the run. Returns whether it fits.
    pub fn lay_out<const T: bool>(&self, mm: &SimMm<T>, path: &str, len: u64) -> bool {
        let path = plain(path);
        let Some(id) = fs::lay_out_in(mm, self.names.borrow().dir_of(&path)) else {
            return false;
        };
        self.names.borrow_mut().enter(&path, Named::File(id));
        fs::lay_out(mm, id, len)
    }

    /// Makes a directory that is there before the run. Returns whether it fits.
    pub fn lay_out_dir<const T: bool>(&self, mm: &SimMm<T>, path: &str) -> bool {
        let path = plain(path);
        let Some(id) = fs::lay_out_dir(mm, self.names.borrow().dir_of(&path)) else {
            return false;
        };
        self.names.borrow_mut().enter(&path, Named::Dir(id));
        true
    }

    /// One more descriptor or mapping of a file.
    fn hold(&self, id: u32) {
        *self.users.borrow_mut().entry(id).or_insert(0) += 1;
    }
}

/// The CPUs of a node, a bit each, where each CPU's node is given.
pub(crate) fn cpus_of_node(cpu_nodes: &[u32], node: u32) -> u64 {
    let of = cpu_nodes.iter().enumerate().filter(|(_, n)| **n == node);
    of.fold(0, |mask, (cpu, _)| mask | 1 << cpu)
}

/// Processes that were forked together.
struct Family {
    alive: Cell<usize>,
    results: RefCell<Vec<Option<HostResult<Report>>>>,
}

/// A process that was forked.
struct Forked<const T: bool> {
    task: Box<dyn for<'a> AnyTask<TaskHost<'a, T>>>,
    /// Its number in its family.
    nth: usize,
    /// The CPUs that its parent was bound to.
    cpus: u64,
    family: Rc<Family>,
}

/// Forked processes that no task runs yet.
#[derive(Default)]
pub struct Forks<const T: bool> {
    waiting: RefCell<VecDeque<Forked<T>>>,
}

impl<const T: bool> Forks<T> {
    /// The life of a task that runs forked processes, one after the other.
    pub async fn child(&self, host: &TaskHost<'_, T>, session: &Session, begin: impl Fn()) {
        let w = &host.mm.world;
        loop {
            let ticket = w.sched.ticket(w.queue_base + own_queue::FORK);
            let next = self.waiting.borrow_mut().pop_front();
            let Some(forked) = next else {
                w.sched
                    .wait(w.queue_base + own_queue::FORK, ticket, None)
                    .await;
                continue;
            };
            begin();
            let (task, name) = (w.sched.task(), forked.task.task_name());
            w.sched.waiting.set_name(task, name);
            w.sched.bind(forked.cpus).await;
            let result = forked.task.run_boxed(host, session).await;
            let family = forked.family;
            family.results.borrow_mut()[forked.nth] = Some(result);
            family.alive.set(family.alive.get() - 1);
            if family.alive.get() == 0 {
                w.sched.wake(w.queue_base + own_queue::EXIT);
            }
            w.relax().await;
        }
    }
}

/// One task's view.
pub struct TaskHost<'a, const T: bool> {
    mm: &'a SimMm<T>,
    names: &'a Namespace,
    forks: &'a Forks<T>,
    started: u64,
}

impl<'a, const T: bool> TaskHost<'a, T> {
    /// A host for the calling task; time counts from `started`.
    pub fn new(mm: &'a SimMm<T>, names: &'a Namespace, forks: &'a Forks<T>, started: u64) -> Self {
        Self {
            mm,
            names,
            forks,
            started,
        }
    }

    /// Makes a file that was not there.
    async fn create(&self, path: &str) -> HostResult<u32> {
        self.mm.world.work(self.mm.world.calls.create).await;
        let dir = self.names.names.borrow().dir_of(path);
        let above = fs::inode_of_dir(self.mm, dir);
        self.hold_inode(above).await?;
        let made = fs::create_in(self.mm, dir).await;
        self.put_inode(above);
        let id = made
            .map_err(|e| Self::error(path, e))?
            .ok_or_else(|| HostError::NoSpace(path.into()))?;
        self.enter(path, Named::File(id));
        Ok(id)
    }

    /// What a plain path names. What a look-up costs is charged by its callers: unlink(2)'s is a part
    /// of its own.
    async fn lookup(&self, path: &str) -> Option<Named> {
        self.names.names.borrow().find(path)
    }

    /// Brings a file's dentry and inode into memory, and those of its directories, and holds them.
    async fn hold_inode(&self, id: u32) -> HostResult<()> {
        self.mm.iget(id).await.map_err(|e| match e {
            NoInode::NoMemory => HostError::OutOfMemory,
            NoInode::Gone => HostError::NotFound(format!("inode {id}")),
        })
    }

    /// Ends what [`Self::hold_inode`] began.
    fn put_inode(&self, id: u32) {
        self.mm.iput(id);
        if self.mm.inode_gone(id) {
            fs::inode_gone(self.mm, id);
        }
    }

    fn enter(&self, path: &str, named: Named) {
        self.names.names.borrow_mut().enter(path, named);
    }

    fn get(&self, fd: Fd) -> HostResult<Open> {
        self.names
            .open
            .borrow()
            .get(fd.0 as usize)
            .and_then(Clone::clone)
            .ok_or_else(|| HostError::Unsupported(format!("descriptor {} is not open", fd.0)))
    }

    fn set_pos(&self, fd: Fd, pos: u64) {
        if let Some(Some(o)) = self.names.open.borrow_mut().get_mut(fd.0 as usize) {
            o.pos = pos;
        }
    }

    fn error(path: &str, e: FsError) -> HostError {
        match e {
            FsError::OutOfMemory => HostError::OutOfMemory,
            FsError::Io => HostError::Io(path.into()),
            FsError::NoSpace => HostError::NoSpace(path.into()),
        }
    }

    async fn direct(&self, o: &Open, mapping: u32, len: u64, write: bool) -> HostResult<()> {
        if !o.pos.is_multiple_of(4096) || !len.is_multiple_of(4096) {
            return Err(HostError::Unsupported(
                "direct I/O that is not aligned to 4 KiB".into(),
            ));
        }
        if write && !self.mm.mapping_has_no_pages(mapping) {
            self.mm.sync_mapping(mapping).await;
        }
        let blocks = (len / 4096) as u32;
        let Some(runs) = fs::map_direct(self.mm, mapping, (o.pos / 4096) as u32, blocks) else {
            return Err(HostError::NoSpace(o.path.to_string()));
        };
        let volume = fs::of(self.mm, mapping).volume;
        for (block, n) in runs {
            if !self.mm.world.write_raw(volume, block, n, write).await {
                return Err(HostError::Io(o.path.to_string()));
            }
        }
        Ok(())
    }
}

impl<const T: bool> Host for TaskHost<'_, T> {
    type Buf = ();

    fn buffer(&self, _len: u64) {}

    fn now(&self) -> u64 {
        self.mm.world.now() - self.started
    }

    async fn copy(&self, _: &(), _: u64, _: &mut (), _: u64, len: u64) -> HostResult<()> {
        self.mm.world.charge_user(Cost::Copy, len, 8192);
        self.mm.world.relax().await;
        Ok(())
    }

    async fn open(&self, path: &str, flags: OpenFlags) -> HostResult<Fd> {
        self.mm.world.charge(Cost::Syscall, 2);
        self.mm.world.sched.charge(self.mm.world.calls.lookup);
        let path = &*match path.strip_prefix("/dev/") {
            Some(_) => Cow::Borrowed(path),
            None => plain(path),
        };
        let object = match path {
            "/dev/zero" | "/dev/urandom" => Object::Zero,
            "/dev/null" => Object::Null,
            _ => {
                match self.lookup(path).await {
                    Some(_) if flags.exclusive && flags.create => {
                        return Err(HostError::Exists(path.into()));
                    }
                    Some(Named::File(id)) => {
                        self.hold_inode(id).await?;
                        if flags.truncate {
                            fs::truncate(self.mm, id, 0).await;
                        }
                        Object::File(id)
                    }
                    None if flags.create => Object::File(self.create(path).await?),
                    // Programs open files.
                    Some(Named::Dir(_)) | None => return Err(HostError::NotFound(path.into())),
                }
            }
        };
        if let Object::File(id) = object {
            self.names.hold(id);
            if flags.write {
                fs::of(self.mm, id).opened(id);
            }
        }
        let mut open = self.names.open.borrow_mut();
        let slot = open.iter().position(Option::is_none).unwrap_or(open.len());
        if slot == open.len() {
            open.push(None);
        }
        open[slot] = Some(Open {
            object,
            path: path.into(),
            pos: 0,
            flags,
            window: Rc::default(),
        });
        Ok(Fd(slot as u32))
    }

    async fn close(&self, fd: Fd) -> HostResult<()> {
        self.mm.world.charge(Cost::Syscall, 1);
        self.mm.world.sched.charge(self.mm.world.calls.close);
        let o = self.get(fd)?;
        self.names.open.borrow_mut()[fd.0 as usize] = None;
        if let Object::File(id) = o.object {
            if o.flags.write {
                let size = self.mm.mappings[id as usize].size.get();
                fs::of(self.mm, id).closed(id, size);
            }
            self.let_go(id).await;
        }
        Ok(())
    }

    async fn read(&self, fd: Fd, _: &mut (), len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        let pos = o.pos;
        let n = self.read_open(o, len).await?;
        self.set_pos(fd, pos + n);
        Ok(n)
    }

    async fn read_at(&self, fd: Fd, _: &mut (), pos: u64, len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        self.read_open(Open { pos, ..o }, len).await
    }

    async fn write(&self, fd: Fd, _: &(), len: u64) -> HostResult<u64> {
        let pos = self.write_open(self.get(fd)?, len).await?;
        self.set_pos(fd, pos + len);
        Ok(len)
    }

    async fn write_at(&self, fd: Fd, _: &(), pos: u64, len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        self.write_open(Open { pos, ..o }, len).await?;
        Ok(len)
    }

    async fn seek(&self, fd: Fd, pos: u64) -> HostResult<u64> {
        self.get(fd)?;
        self.mm.world.charge(Cost::Syscall, 1);
        self.set_pos(fd, pos);
        Ok(pos)
    }

    fn len(&self, fd: Fd) -> HostResult<u64> {
        Ok(match self.get(fd)?.object {
            Object::File(id) => self.mm.mappings[id as usize].size.get(),
            _ => 0,
        })
    }

    async fn truncate(&self, fd: Fd, len: u64) -> HostResult<()> {
        self.mm.world.charge(Cost::Syscall, 1);
        if let Object::File(id) = self.get(fd)?.object {
            fs::truncate(self.mm, id, len).await;
        }
        Ok(())
    }

    async fn sync(&self, fd: Fd, _data_only: bool) -> HostResult<()> {
        let o = self.get(fd)?;
        self.mm.world.charge(Cost::Syscall, 1);
        match o.object {
            Object::File(id) if !fs::fsync(self.mm, id).await => {
                Err(HostError::Io(o.path.to_string()))
            }
            _ => Ok(()),
        }
    }

    async fn sync_all(&self) -> HostResult<()> {
        self.mm.world.charge(Cost::Syscall, 1);
        if fs::sync_all(self.mm).await {
            Ok(())
        } else {
            Err(HostError::Io("sync".into()))
        }
    }

    async fn mkdir(&self, path: &str) -> HostResult<()> {
        self.mm.world.charge(Cost::Syscall, 1);
        self.mm.world.sched.charge(self.mm.world.calls.lookup);
        let path = plain(path).into_owned();
        if self.lookup(&path).await.is_some() {
            return Err(HostError::Exists(path));
        }
        let dir = self.names.names.borrow().dir_of(&path);
        // Its name is taken before anybody waits.
        self.enter(&path, Named::Dir(dir));
        self.mm.world.work(self.mm.world.calls.create).await;
        let above = fs::inode_of_dir(self.mm, dir);
        self.hold_inode(above).await?;
        let made = fs::make_dir(self.mm, dir).await;
        self.put_inode(above);
        let id = made.map_err(|e| Self::error(&path, e))?;
        self.enter(&path, Named::Dir(id));
        Ok(())
    }

    fn gettimeofday(&self) -> u64 {
        let w = &self.mm.world;
        w.sched.charge_user(w.calls.gettimeofday);
        (w.booted + w.now()) / 1000
    }

    async fn fork<C: Task>(&self, children: Vec<C>) -> HostResult<Vec<Report>> {
        let w = &self.mm.world;
        let family = Rc::new(Family {
            alive: Cell::new(children.len()),
            results: RefCell::new(vec![None; children.len()]),
        });
        for (nth, child) in children.into_iter().enumerate() {
            w.work(w.calls.fork).await;
            self.forks.waiting.borrow_mut().push_back(Forked {
                task: Box::new(child),
                nth,
                cpus: w.sched.affinity(),
                family: Rc::clone(&family),
            });
            w.sched.wake_one(w.queue_base + own_queue::FORK);
            w.relax().await;
        }
        let exit = w.queue_base + own_queue::EXIT;
        loop {
            let ticket = w.sched.ticket(exit);
            if family.alive.get() == 0 {
                break;
            }
            w.sched.wait(exit, ticket, None).await;
        }
        let results = family.results.take();
        results
            .into_iter()
            .map(|r| r.expect("an ended process has a result"))
            .collect()
    }

    async fn unlink(&self, path: &str) -> HostResult<()> {
        self.mm.world.charge(Cost::Syscall, 2);
        self.mm.world.work(self.mm.world.calls.unlink).await;
        let path = &*plain(path);
        match self.lookup(path).await {
            Some(Named::File(id)) => {
                self.names.names.borrow_mut().remove(path);
                self.hold_inode(id).await?;
                let removed = fs::unlink(self.mm, id).await;
                // An open file lives until its last descriptor is gone.
                if self.names.users.borrow().contains_key(&id) {
                    self.names.nameless.borrow_mut().insert(id);
                } else {
                    fs::remove(self.mm, id).await;
                }
                self.put_inode(id);
                removed.map_err(|e| Self::error(path, e))
            }
            Some(Named::Dir(_)) | None => Err(HostError::NotFound(path.into())),
        }
    }

    async fn rmdir(&self, path: &str) -> HostResult<()> {
        self.mm.world.charge(Cost::Syscall, 2);
        self.mm.world.work(self.mm.world.calls.unlink).await;
        let path = &*plain(path);
        let dir = match self.lookup(path).await {
            Some(Named::Dir(dir)) if dir != DirId::root(dir.fs) => dir,
            _ => return Err(HostError::NotFound(path.into())),
        };
        if !self.names.names.borrow_mut().remove_dir(path) {
            return Err(HostError::Exists(path.into()));
        }
        let inode = fs::inode_of_dir(self.mm, dir);
        self.hold_inode(inode).await?;
        let removed = fs::unlink(self.mm, inode).await;
        self.put_inode(inode);
        removed.map_err(|e| Self::error(path, e))
    }

    async fn stat(&self, path: &str) -> HostResult<Stat> {
        let w = &self.mm.world;
        w.charge(Cost::Syscall, 1);
        w.sched.charge(w.calls.lookup);
        let path = &*plain(path);
        let named = self.lookup(path).await;
        if let Some(named) = named {
            let id = match named {
                Named::File(id) => id,
                Named::Dir(dir) => fs::inode_of_dir(self.mm, dir),
            };
            self.hold_inode(id).await?;
            self.put_inode(id);
        }
        w.relax().await;
        match named {
            Some(Named::File(id)) => Ok(Stat {
                directory: false,
                len: self.mm.mappings[id as usize].size.get(),
            }),
            Some(Named::Dir(_)) => Ok(Stat {
                directory: true,
                len: 0,
            }),
            None => Err(HostError::NotFound(path.into())),
        }
    }

    async fn read_dir(&self, path: &str) -> HostResult<Vec<String>> {
        let w = &self.mm.world;
        // open, getdents and close.
        w.charge(Cost::Syscall, 3);
        w.sched.charge(w.calls.lookup);
        let path = &*plain(path);
        let Some(Named::Dir(dir)) = self.lookup(path).await else {
            return Err(HostError::NotFound(path.into()));
        };
        let inode = fs::inode_of_dir(self.mm, dir);
        self.hold_inode(inode).await?;
        fs::read_dir(self.mm, dir).await;
        self.put_inode(inode);
        let names = self.names.names.borrow().names_in(path);
        let mut left = names.len() as u64 * ENTRY_BYTES;
        while left > 0 {
            let n = left.min(32_768);
            w.charge_part(Cost::Copy, n, 4096);
            w.relax().await;
            left -= n;
        }
        Ok(names)
    }

    async fn map(&self, what: Map, len: u64, advice: Advice) -> HostResult<MapId> {
        self.map_pages(what, len, advice).await
    }

    async fn touch(&self, map: MapId, first: u64, pages: u64, word: Word) -> HostResult<()> {
        self.touch_pages(map, first, pages, word).await
    }

    async fn unmap(&self, map: MapId) -> HostResult<()> {
        self.unmap_pages(map).await
    }

    async fn alloc_pages(&self, order: u32, atomic: bool) -> HostResult<Option<Pages>> {
        let gfp = if atomic { Gfp::ATOMIC } else { Gfp::KERNEL };
        let pfn = self.mm.alloc_kernel_pages(gfp, order).await;
        self.mm.world.relax().await;
        Ok(pfn.map(|id| Pages { id, order }))
    }

    async fn free_pages(&self, pages: Pages) -> HostResult<()> {
        self.mm.free_kernel_pages(pages.id, pages.order);
        self.mm.world.relax().await;
        Ok(())
    }

    fn usage(&self) -> HostResult<Usage> {
        let w = &self.mm.world;
        let time = w.sched.own_time();
        let (kswapd_wakeups, direct_reclaims) = w.reclaim.wakes_and_stalls();
        Ok(Usage {
            user_ns: time.user,
            sys_ns: time.split().cpu - time.user,
            page_faults: self.mm.vm_event(VmEvent::PgFault),
            kswapd_wakeups,
            direct_reclaims,
            alloc_stalls: self.mm.vm_event(VmEvent::AllocStall),
            longest_alloc_ns: w.alloc.take_longest(w.sched.task()),
        })
    }

    fn memory(&self) -> HostResult<u64> {
        let zones = &self.mm.config.zones;
        Ok(zones.iter().map(|z| z.size * 4096).sum())
    }

    async fn compute(&self, ns: u64) {
        let mut left = ns;
        while left > 0 {
            let n = left.min(10_000);
            self.mm.world.sched.charge_user(n);
            self.mm.world.relax().await;
            left -= n;
        }
    }

    async fn bind(&self, to: Cpus) -> HostResult<Cpus> {
        let w = &self.mm.world;
        w.charge(Cost::Syscall, 1);
        let cpus = match to {
            Cpus::Mask(mask) => mask,
            Cpus::OfNode(node) => cpus_of_node(&self.mm.config.cpu_nodes, node),
        };
        if cpus & (u64::MAX >> (64 - self.mm.config.cpus)) == 0 {
            let what = format!("binding to {to:?}: no such CPU");
            return Err(HostError::Unsupported(what));
        }
        Ok(Cpus::Mask(w.sched.bind(cpus).await))
    }

    async fn sleep(&self, ns: u64) {
        self.mm.world.sched.sleep(ns).await;
    }
}

impl<const T: bool> TaskHost<'_, T> {
    /// Reads at the position of `o`.
    async fn read_open(&self, o: Open, len: u64) -> HostResult<u64> {
        self.mm.world.charge(Cost::Syscall, 1);
        let n = match o.object {
            Object::Zero => {
                // clear_user, at about twice the speed of a copy.
                let mut left = len;
                while left > 0 {
                    let n = left.min(32_768);
                    self.mm.world.charge_part(Cost::Copy, n, 12_288);
                    self.mm.world.relax().await;
                    left -= n;
                }
                len
            }
            Object::Null => 0,
            Object::File(id) if o.flags.direct => {
                let size = self.mm.mappings[id as usize].size.get();
                let n = len.min(size.saturating_sub(o.pos));
                if n > 0 {
                    self.direct(&o, id, n.next_multiple_of(4096), false).await?;
                }
                n
            }
            Object::File(id) => fs::read_with(self.mm, id, o.pos, len, &o.window)
                .await
                .map_err(|e| Self::error(&o.path, e))?,
        };
        if let Object::File(_) = o.object {
            self.mm.world.note_moved(n);
        }
        Ok(n)
    }

    /// Writes at the position of `o`; returns where that was, which O_APPEND decides.
    async fn write_open(&self, mut o: Open, len: u64) -> HostResult<u64> {
        self.mm.world.charge(Cost::Syscall, 1);
        if let Object::File(id) = o.object {
            if o.flags.append {
                o.pos = self.mm.mappings[id as usize].size.get();
            }
            if o.flags.direct {
                self.direct(&o, id, len, true).await?;
                let size = &self.mm.mappings[id as usize].size;
                size.set(size.get().max(o.pos + len));
            } else {
                fs::write(self.mm, id, o.pos, len)
                    .await
                    .map_err(|e| Self::error(&o.path, e))?;
            }
            self.mm.world.note_moved(len);
            if (o.flags.sync || o.flags.dsync) && !fs::fsync(self.mm, id).await {
                return Err(HostError::Io(o.path.to_string()));
            }
        }
        Ok(o.pos)
    }

    /// One descriptor or mapping of a file less; a file without a name goes with the last.
    async fn let_go(&self, id: u32) {
        let last = {
            let mut users = self.names.users.borrow_mut();
            let n = users.get_mut(&id).map_or(0, |n| {
                *n -= 1;
                *n
            });
            if n == 0 {
                users.remove(&id);
            }
            n == 0
        };
        if last && self.names.nameless.borrow_mut().remove(&id) {
            fs::remove(self.mm, id).await;
        }
        self.put_inode(id);
    }
}
