//! A task of the virtual machine as a workload sees it: the [`Host`] of the virtual world.

mod advise;
mod forks;
mod map;
mod names;
mod open;
mod process;
mod stat;

pub use forks::Forks;
pub use process::Runs;

use crate::SimMm;
use crate::filesystems::{self as fs, DirId, FsError};
use crate::stack::Bottom;
use mm::inodes::inode::NoInode;
use mm::memory::gfp::Gfp;
use mm::watch::vmstat::VmEvent;
use mm::world::Cost;
use mm::world::Tasks;
use names::{DirPlace, FileName, Named, Names, Wanted, plain, split};
use slab::Slab;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use workload::{
    Advice, Cpus, Fd, Host, HostError, HostResult, Map, MapId, OpenFlags, Pages, Report, Stat,
    Task, Usage, Word,
};

/// Bytes that getdents(2) copies per name: 24 and the name itself.
const ENTRY_BYTES: u64 = 40;
/// Number of names by which a walk over a directory prefetches inodes.
const LOOK_AHEAD: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Zero,
    Null,
    File(u32),
}

#[derive(Debug)]
struct Open {
    object: Object,
    name: FileName,
    pos: u64,
    flags: OpenFlags,
    /// Read-ahead state; created at the first read.
    window: Option<Rc<fs::Window>>,
    /// The process that opened the file.
    owner: process::Pid,
}

/// The state of an open file that a call needs.
#[derive(Debug, Clone, Copy)]
struct Use {
    fd: Fd,
    object: Object,
    pos: u64,
    flags: OpenFlags,
}

/// Names and open files, shared by all tasks.
#[derive(Default)]
pub struct Namespace {
    names: RefCell<Names>,
    open: RefCell<Slab<Open>>,
    maps: RefCell<Slab<map::Mapped>>,
    /// Number of descriptors and mappings of each file, by its number.
    users: RefCell<Vec<u32>>,
    /// Files without a name that are still open.
    nameless: RefCell<BTreeSet<u32>>,
}

impl Namespace {
    /// Makes the names of a machine with these mount points, in its filesystems' order; first: "".
    pub fn new(mounts: &[&str]) -> Self {
        let names = RefCell::new(Names::new(mounts));
        Self {
            names,
            ..Self::default()
        }
    }

    /// Creates a file that exists before the run. Returns true if it fits.
    pub fn lay_out<const T: bool>(&self, mm: &SimMm<T>, path: &str, len: u64) -> bool {
        let path = plain(path);
        let Some(id) = fs::lay_out_in(mm, self.names.borrow().dir_of(&path)) else {
            return false;
        };
        self.names.borrow_mut().enter(&path, Named::File(id));
        fs::lay_out(mm, id, len)
    }

    /// Creates a directory that exists before the run. Returns true if it fits.
    pub fn lay_out_dir<const T: bool>(&self, mm: &SimMm<T>, path: &str) -> bool {
        let path = plain(path);
        if self.names.borrow().find(&path).is_some() {
            return true; // a mount point: paths below it are on its own filesystem
        }
        let Some(id) = fs::lay_out_dir(mm, self.names.borrow().dir_of(&path)) else {
            return false;
        };
        self.names.borrow_mut().enter(&path, Named::Dir(id));
        true
    }

    /// Counts another descriptor or mapping of a file.
    fn hold(&self, id: u32) {
        let (users, at) = (&mut *self.users.borrow_mut(), id as usize);
        if users.len() <= at {
            users.resize((at + 1).next_power_of_two(), 0);
        }
        users[at] += 1;
    }

    /// Returns true if a file has descriptors or mappings.
    fn is_held(&self, id: u32) -> bool {
        self.users.borrow().get(id as usize).is_some_and(|n| *n > 0)
    }
}

/// Returns the bit mask of CPUs of a node, given each CPU's node.
pub(crate) fn cpus_of_node(cpu_nodes: &[u32], node: u32) -> u64 {
    let of = cpu_nodes.iter().enumerate().filter(|(_, n)| **n == node);
    of.fold(0, |mask, (cpu, _)| mask | 1 << cpu)
}

/// One task's view of the machine.
pub struct TaskHost<'a, const T: bool> {
    mm: &'a SimMm<T>,
    names: &'a Namespace,
    forks: &'a Forks<T>,
    started: u64,
    life: process::Life,
}

impl<'a, const T: bool> TaskHost<'a, T> {
    /// Makes the host, the system calls, of the calling task; its clock is 0 at `started` (ns).
    pub fn new(mm: &'a SimMm<T>, names: &'a Namespace, forks: &'a Forks<T>, started: u64) -> Self {
        Self {
            mm,
            names,
            forks,
            started,
            life: process::Life::default(),
        }
    }

    /// Creates a file in `dir`, where nothing has its name yet; returns the file's number.
    async fn create(&self, dir: DirPlace, name: Wanted<'_>) -> HostResult<u32> {
        self.mm.world.work(self.mm.world.calls.create).await;
        let id = self.names.names.borrow().id_of(dir);
        let above = fs::inode_of_dir(self.mm, id);
        self.hold_inode(above).await?;
        let made = fs::create_in(self.mm, id).await;
        self.put_inode(above);
        let path = || self.names.names.borrow().path_in(dir, name.name);
        let id = made
            .map_err(|e| Self::error(path(), e))?
            .ok_or_else(|| HostError::NoSpace(path()))?;
        let names = &mut *self.names.names.borrow_mut();
        names.enter_in(dir, name, Named::File(id));
        Ok(id)
    }

    /// Returns the object at a plain path; callers charge the look-up, because unlink(2)'s differs.
    fn lookup(&self, path: &str) -> Option<Named> {
        self.names.names.borrow().find(path)
    }

    /// Returns directory and name of a plain path. `None` if nothing is below that directory and it
    /// is not to be `made`. The root has no name.
    fn place_of<'p>(&self, path: &'p str, made: bool) -> Option<(DirPlace, &'p str)> {
        let (dir, name) = split(path);
        let names = &mut *self.names.names.borrow_mut();
        let place = match made {
            true => Some(names.place_or_new(dir)),
            false => names.place(dir),
        };
        Some((place?, name))
    }

    /// Opens a file or device without look-up; returns its new descriptor for this process.
    fn opened(&self, object: Object, name: FileName, flags: OpenFlags) -> Fd {
        if let Object::File(id) = object {
            self.names.hold(id);
            if flags.write {
                fs::of(self.mm, id).opened(id);
            }
        }
        let fd = self.names.open.borrow_mut().insert(Open {
            object,
            name,
            pos: 0,
            flags,
            window: None,
            owner: self.life.pid(),
        });
        Fd(fd as u32)
    }

    /// Does open(2) of a name in a directory, after the look-up was charged.
    async fn open_found(&self, dir: DirPlace, name: &str, flags: OpenFlags) -> HostResult<Fd> {
        if self.dies_here() {
            self.die().await;
        }
        let path = || self.names.names.borrow().path_in(dir, name);
        let wanted = Wanted::new(name);
        let known = self.names.names.borrow().find_in(dir, wanted);
        let id = match known {
            Some(_) if flags.exclusive && flags.create => return Err(HostError::Exists(path())),
            Some(Named::File(id)) => {
                self.hold_inode(id).await?;
                if flags.truncate {
                    fs::truncate(self.mm, id, 0).await;
                }
                id
            }
            None if flags.create => self.create(dir, wanted).await?,
            // Programs open files, not directories.
            Some(Named::Dir(_)) | None => return Err(HostError::NotFound(path())),
        };
        Ok(self.opened(Object::File(id), FileName::new(dir, name), flags))
    }

    /// Does mkdir(2) at `place` (a directory path's number); returns false if it is named already.
    async fn make_dir(&self, place: DirPlace) -> HostResult<bool> {
        if self.dies_here() {
            self.die().await;
        }
        self.calls(Bottom::Other, 1);
        let w = &self.mm.world;
        if self.names.names.borrow().is_named(place) {
            w.sched.charge(w.calls.exists);
            return Ok(false);
        }
        w.sched.charge(w.calls.lookup);
        let dir = self.names.names.borrow().above(place);
        // The name is entered before anything can block.
        self.names.names.borrow_mut().enter_dir(place, dir);
        self.mm.world.work(self.mm.world.calls.create).await;
        let above = fs::inode_of_dir(self.mm, dir);
        self.hold_inode(above).await?;
        let made = fs::make_dir(self.mm, dir).await;
        self.put_inode(above);
        let path = || self.names.names.borrow().path(place).to_string();
        let id = made.map_err(|e| Self::error(path(), e))?;
        self.names.names.borrow_mut().enter_dir(place, id);
        Ok(true)
    }

    /// Does unlink(2) of a name in a directory, after the call was charged.
    async fn unlink_found(&self, dir: DirPlace, name: &str) -> HostResult<()> {
        if self.dies_here() {
            self.die().await;
        }
        let path = || self.names.names.borrow().path_in(dir, name);
        let wanted = Wanted::new(name);
        let known = self.names.names.borrow().find_in(dir, wanted);
        let Some(Named::File(id)) = known else {
            return Err(HostError::NotFound(path()));
        };
        self.names.names.borrow_mut().remove_in(dir, wanted);
        self.hold_inode(id).await?;
        let removed = fs::unlink(self.mm, id).await;
        // An open file lives until its last descriptor is gone.
        if self.names.is_held(id) {
            self.names.nameless.borrow_mut().insert(id);
        } else {
            fs::remove(self.mm, id).await;
        }
        self.put_inode(id);
        removed.map_err(|e| Self::error(path(), e))
    }

    /// Brings a file's dentry and inode into memory, and those of its directories, and holds them.
    async fn hold_inode(&self, id: u32) -> HostResult<()> {
        self.mm.iget(id).await.map_err(|e| match e {
            NoInode::NoMemory => HostError::OutOfMemory,
            NoInode::Gone => HostError::NotFound(format!("inode {id}")),
        })
    }

    /// Releases the inode that [`Self::hold_inode`] has taken; drops it if unlinked and unused.
    fn put_inode(&self, id: u32) {
        self.mm.iput(id);
        if self.mm.inode_gone(id) {
            fs::inode_gone(self.mm, id);
        }
    }

    /// Returns the object, position and flags of an open file; fails if the descriptor is not open.
    #[inline]
    fn get(&self, fd: Fd) -> HostResult<Use> {
        let open = self.names.open.borrow();
        match open.get(fd.0 as usize) {
            Some(o) => Ok(Use {
                fd,
                object: o.object,
                pos: o.pos,
                flags: o.flags,
            }),
            None => Err(HostError::Unsupported(format!(
                "descriptor {} is not open",
                fd.0
            ))),
        }
    }

    /// Returns the path of an open file, for error messages.
    fn path(&self, fd: Fd) -> String {
        let open = self.names.open.borrow();
        let name = open.get(fd.0 as usize).map(|o| &o.name);
        name.map_or_else(String::new, |name| self.names.names.borrow().path_of(name))
    }

    /// Returns the name of an open file in a form that can be kept.
    fn file_name(&self, fd: Fd) -> Option<FileName> {
        let open = self.names.open.borrow();
        open.get(fd.0 as usize).map(|o| o.name.clone())
    }

    fn set_pos(&self, fd: Fd, pos: u64) {
        if let Some(o) = self.names.open.borrow_mut().get_mut(fd.0 as usize) {
            o.pos = pos;
        }
    }

    /// Returns the error that a program gets for a filesystem's error `e` about `path`.
    fn error(path: String, e: FsError) -> HostError {
        match e {
            FsError::OutOfMemory => HostError::OutOfMemory,
            FsError::Io => HostError::Io(path),
            FsError::NoSpace => HostError::NoSpace(path),
            FsError::TooLarge => HostError::TooLarge(path),
        }
    }

    /// Reads or writes `len` bytes at `o.pos` of a file without the page cache (O_DIRECT), in 4 KiB
    /// blocks, and waits for the device. A write first writes the file's dirty cached pages.
    async fn direct(&self, o: Use, mapping: u32, len: u64, write: bool) -> HostResult<()> {
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
            return Err(HostError::NoSpace(self.path(o.fd)));
        };
        let volume = fs::of(self.mm, mapping).volume;
        for (block, n) in runs {
            if !self.mm.world.write_raw(volume, block, n, write).await {
                return Err(HostError::Io(self.path(o.fd)));
            }
        }
        Ok(())
    }
}

impl<const T: bool> Host for TaskHost<'_, T> {
    type Buf = ();
    type Dir = DirPlace;

    fn buffer(&self, _len: u64) {}

    fn now(&self) -> u64 {
        self.look() - self.started
    }

    async fn copy(&self, _: &(), _: u64, _: &mut (), _: u64, len: u64) -> HostResult<()> {
        self.mm.world.charge_user(Cost::Copy, len, 8192);
        self.mm.world.relax().await;
        Ok(())
    }

    async fn open(&self, path: &str, flags: OpenFlags) -> HostResult<Fd> {
        self.calls(Bottom::Other, self.mm.world.calls.by_name);
        self.mm.world.sched.charge(self.mm.world.calls.lookup);
        let device = match path {
            "/dev/zero" | "/dev/urandom" => Some(Object::Zero),
            "/dev/null" => Some(Object::Null),
            _ => None,
        };
        if let Some(object) = device {
            return Ok(self.opened(object, FileName::device(path), flags));
        }
        let path = &*match path.strip_prefix("/dev/") {
            Some(_) => Cow::Borrowed(path),
            None => plain(path),
        };
        // The root is a directory and has no name in one.
        match self.place_of(path, flags.create && !path.is_empty()) {
            _ if path.is_empty() && flags.exclusive && flags.create => {
                Err(HostError::Exists(String::new()))
            }
            Some((dir, name)) if !name.is_empty() => self.open_found(dir, name, flags).await,
            _ => Err(HostError::NotFound(path.into())),
        }
    }

    async fn close(&self, fd: Fd) -> HostResult<()> {
        self.calls(Bottom::Other, 1);
        self.mm.world.sched.charge(self.mm.world.calls.close);
        let o = self.get(fd)?;
        drop(self.names.open.borrow_mut().remove(fd.0 as usize));
        if let Object::File(id) = o.object {
            if o.flags.write {
                let size = self.mm.mappings[id as usize].size.get();
                fs::of(self.mm, id).closed(id, size);
                fs::released(self.mm, id).await;
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
        self.read_open(Use { pos, ..o }, len).await
    }

    async fn write(&self, fd: Fd, _: &(), len: u64) -> HostResult<u64> {
        let pos = self.write_open(self.get(fd)?, len).await?;
        self.set_pos(fd, pos + len);
        Ok(len)
    }

    async fn write_at(&self, fd: Fd, _: &(), pos: u64, len: u64) -> HostResult<u64> {
        let o = self.get(fd)?;
        self.write_open(Use { pos, ..o }, len).await?;
        Ok(len)
    }

    async fn seek(&self, fd: Fd, pos: u64) -> HostResult<u64> {
        self.get(fd)?;
        self.calls(Bottom::Other, 1);
        self.set_pos(fd, pos);
        Ok(pos)
    }

    fn len(&self, fd: Fd) -> HostResult<u64> {
        Ok(match self.get(fd)?.object {
            Object::File(id) => self.mm.mappings[id as usize].size.get(),
            _ => 0,
        })
    }

    async fn fadvise(&self, fd: Fd, advice: Advice) -> HostResult<()> {
        self.advise(fd, advice)
    }

    async fn drop_cache(&self, fd: Fd) -> HostResult<()> {
        let o = self.get(fd)?;
        self.calls(Bottom::Other, 1);
        if let Object::File(id) = o.object {
            self.mm.invalidate_pages(id, (0, u32::MAX), |_| true).await;
        }
        Ok(())
    }

    async fn truncate(&self, fd: Fd, len: u64) -> HostResult<()> {
        self.calls(Bottom::Other, 1);
        if let Object::File(id) = self.get(fd)?.object {
            fs::truncate(self.mm, id, len).await;
        }
        Ok(())
    }

    async fn sync(&self, fd: Fd, _data_only: bool) -> HostResult<()> {
        if self.dies_here() {
            self.die().await;
        }
        let o = self.get(fd)?;
        self.calls(Bottom::Other, 1);
        match o.object {
            Object::File(id) if !fs::fsync(self.mm, id).await => {
                Err(HostError::Io(self.path(o.fd)))
            }
            _ => Ok(()),
        }
    }

    async fn sync_all(&self) -> HostResult<()> {
        if self.dies_here() {
            self.die().await;
        }
        self.calls(Bottom::Other, 1);
        if fs::sync_all(self.mm).await {
            Ok(())
        } else {
            Err(HostError::Io("sync".into()))
        }
    }

    async fn drop_caches(&self, what: u8) -> HostResult<()> {
        self.calls(Bottom::Other, 1);
        self.mm.drop_caches(what).await;
        Ok(())
    }

    async fn unmount(&self, path: &str) -> HostResult<workload::Unmounted> {
        self.unmount_at(path).await
    }

    async fn mkdir(&self, path: &str) -> HostResult<()> {
        let place = self.dir(path);
        match self.make_dir(place).await? {
            true => Ok(()),
            false => {
                let path = self.names.names.borrow().path(place);
                Err(HostError::Exists(path.to_string()))
            }
        }
    }

    fn dir(&self, path: &str) -> DirPlace {
        self.names.names.borrow_mut().place_or_new(&plain(path))
    }

    async fn mkdir_kept(&self, dir: &DirPlace) -> HostResult<bool> {
        self.make_dir(*dir).await
    }

    async fn open_in(&self, dir: &DirPlace, name: &str, flags: OpenFlags) -> HostResult<Fd> {
        self.calls(Bottom::Other, self.mm.world.calls.by_name);
        self.mm.world.sched.charge(self.mm.world.calls.lookup);
        self.open_found(*dir, name, flags).await
    }

    async fn unlink_in(&self, dir: &DirPlace, name: &str) -> HostResult<()> {
        self.calls(Bottom::Other, self.mm.world.calls.by_name);
        self.mm.world.work(self.mm.world.calls.unlink).await;
        self.unlink_found(*dir, name).await
    }

    fn gettimeofday(&self) -> u64 {
        let w = &self.mm.world;
        w.sched.charge_user(w.calls.gettimeofday);
        (w.booted + w.now()) / 1000
    }

    async fn fork<C: Task>(&self, children: Vec<C>) -> HostResult<Vec<Report>> {
        self.fork_all(children).await
    }

    async fn unlink(&self, path: &str) -> HostResult<()> {
        self.calls(Bottom::Other, self.mm.world.calls.by_name);
        self.mm.world.work(self.mm.world.calls.unlink).await;
        let path = &*plain(path);
        match self.place_of(path, false) {
            Some((dir, name)) => self.unlink_found(dir, name).await,
            None => Err(HostError::NotFound(path.into())),
        }
    }

    async fn rmdir(&self, path: &str) -> HostResult<()> {
        self.calls(Bottom::Other, self.mm.world.calls.by_name);
        self.mm.world.work(self.mm.world.calls.unlink).await;
        let path = &*plain(path);
        let dir = match self.lookup(path) {
            Some(Named::Dir(dir)) if dir != DirId::root(dir.fs) => dir,
            _ => return Err(HostError::NotFound(path.into())),
        };
        let place = self.dir(path);
        if !self.names.names.borrow_mut().remove_dir(place) {
            return Err(HostError::Exists(path.into()));
        }
        let inode = fs::inode_of_dir(self.mm, dir);
        self.hold_inode(inode).await?;
        let removed = fs::unlink(self.mm, inode).await;
        self.put_inode(inode);
        removed.map_err(|e| Self::error(path.into(), e))
    }

    async fn stat(&self, path: &str) -> HostResult<Stat> {
        let path = &*plain(path);
        let named = self.lookup(path);
        let stat = self.stat_named(named).await?;
        stat.ok_or_else(|| HostError::NotFound(path.into()))
    }

    /// Performs stat(2) of the `nth` name of a directory's listing, which most likely is current.
    async fn stat_listed(
        &self,
        dir: &DirPlace,
        names: &workload::Listing,
        nth: usize,
    ) -> HostResult<Stat> {
        let named = {
            let all = self.names.names.borrow();
            if let Some(id) = all.listed_file(*dir, names, nth + LOOK_AHEAD) {
                // Prefetches an inode that is asked for soon and has left the processor's caches.
                self.mm.look_at_inode(id);
            }
            all.find_listed(*dir, names, nth)
        };
        let stat = self.stat_named(named).await?;
        stat.ok_or_else(|| {
            HostError::NotFound(self.names.names.borrow().path_in(*dir, &names[nth]))
        })
    }

    async fn read_dir(&self, path: &str) -> HostResult<workload::Listing> {
        let w = &self.mm.world;
        // open, getdents and close.
        self.calls(Bottom::Other, 3);
        w.sched.charge(w.calls.lookup);
        let path = &*plain(path);
        let Some(Named::Dir(dir)) = self.lookup(path) else {
            return Err(HostError::NotFound(path.into()));
        };
        let inode = fs::inode_of_dir(self.mm, dir);
        self.hold_inode(inode).await?;
        fs::read_dir(self.mm, dir).await;
        self.put_inode(inode);
        let place = self.dir(path);
        let names = self.names.names.borrow_mut().names_in(place);
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
        if self.dies_here() {
            self.die().await;
        }
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

    /// Returns the task's CPU times, and the machine's reclaim counters up to now.
    fn usage(&self) -> HostResult<Usage> {
        let w = &self.mm.world;
        let time = w.sched.own_time();
        let (kswapd_wakeups, direct_reclaims) = w.reclaim.wakes_and_stalls();
        let own = w.reclaim.own_wakes_and_stalls(w.sched.task());
        Ok(Usage {
            user_ns: time.user,
            sys_ns: time.split().cpu - time.user,
            page_faults: self.mm.vm_event(VmEvent::PgFault),
            kswapd_wakeups,
            direct_reclaims,
            own_kswapd_wakeups: Some(own.0),
            own_direct_reclaims: Some(own.1),
            alloc_stalls: self.mm.vm_event(VmEvent::AllocStall),
            longest_alloc_ns: w.alloc.take_longest(w.sched.task()),
        })
    }

    fn memory(&self) -> HostResult<u64> {
        let zones = &self.mm.config.zones;
        Ok(zones.iter().map(|z| z.size * 4096).sum())
    }

    /// Runs the program's own code for `ns` nanoseconds of CPU time, unless it is killed.
    async fn compute(&self, ns: u64) {
        let mut left = ns;
        while left > 0 {
            left = self.mm.world.sched.compute(left).await;
            if self.dies_here() {
                self.die().await;
            }
        }
    }

    async fn bind(&self, to: Cpus) -> HostResult<Cpus> {
        let w = &self.mm.world;
        self.calls(Bottom::Other, 1);
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

    async fn enter_group(&self, group: &str) -> HostResult<()> {
        self.calls(Bottom::Other, 1);
        let at = self.mm.world.groups.iter().position(|name| name == group);
        let Some(at) = at else {
            let what = format!("the group `{group}`, which the run does not have");
            return Err(HostError::Unsupported(what));
        };
        self.move_to_group(at as u32 + 1);
        Ok(())
    }

    async fn sleep(&self, ns: u64) {
        if self.dies_here() {
            self.die().await;
        }
        self.mm.world.sched.nap(ns).await;
        if self.dies_here() {
            self.die().await;
        }
    }
}
