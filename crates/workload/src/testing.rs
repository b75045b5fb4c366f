//! A host in memory for tests: real contents, no blocking, faults on request.

use crate::host::{
    Advice, AnyTask, Fd, Host, HostError, HostResult, Map, MapId, OpenFlags, Stat, Task, Word,
    joined,
};
use crate::report::Report;
use crate::session::Session;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future that is always ready and returns its value.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the memory host never waits"),
    }
}

#[derive(Debug, Clone)]
struct OpenFile {
    path: String,
    flags: OpenFlags,
    pos: u64,
}

/// Files in memory. Every call is recorded in `calls`.
#[derive(Default)]
pub(crate) struct MemoryHost {
    files: RefCell<BTreeMap<String, Vec<u8>>>,
    dirs: RefCell<BTreeSet<String>>,
    open: RefCell<Vec<Option<OpenFile>>>,
    clock: Cell<u64>,
    /// One line per call, such as `read 0 512 -> 512`.
    pub(crate) calls: RefCell<Vec<String>>,
    /// The number of buffers made.
    pub(crate) buffers: Cell<u32>,
    /// Longer reads are cut to this length; 0: no limit.
    pub(crate) longest_read: Cell<u64>,
    /// Longer writes are cut to this length; 0: no limit.
    pub(crate) longest_write: Cell<u64>,
    /// Reads at or after this position fail; 0: none fails.
    pub(crate) bad_from: Cell<u64>,
    /// Microseconds from the epoch to the start.
    pub(crate) epoch: Cell<u64>,
    /// The longest file; 0: no limit.
    pub(crate) space: Cell<u64>,
    /// Pages of each mapping; `None` once it is unmapped.
    maps: RefCell<Vec<Option<u64>>>,
    /// Nanoseconds per touched page.
    pub(crate) touch_ns: Cell<u64>,
}

impl MemoryHost {
    /// Makes a file with these contents, or replaces it.
    pub(crate) fn put(&self, path: &str, contents: &[u8]) {
        self.files
            .borrow_mut()
            .insert(path.to_owned(), contents.to_vec());
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.files.borrow().contains_key(path)
    }

    /// Returns a file's contents.
    pub(crate) fn contents(&self, path: &str) -> Vec<u8> {
        self.files.borrow()[path].clone()
    }

    /// Returns the seconds since the start.
    pub(crate) fn now_seconds(&self) -> f64 {
        self.clock.get() as f64 / 1e9
    }

    /// Returns the number of open files.
    pub(crate) fn open_files(&self) -> usize {
        self.open.borrow().iter().flatten().count()
    }

    /// Returns how many recorded calls begin with `prefix`.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.calls
            .borrow()
            .iter()
            .filter(|c| c.starts_with(prefix))
            .count()
    }

    /// Records a call, which takes 10 ns of the host's clock.
    fn note(&self, call: String) {
        self.clock.set(self.clock.get() + 10);
        self.calls.borrow_mut().push(call);
    }

    /// Returns a copy of an open file's state.
    fn file(&self, fd: Fd) -> OpenFile {
        self.open.borrow()[fd.0 as usize]
            .clone()
            .expect("an open file")
    }

    /// Sets the position of an open file, in bytes.
    fn set_pos(&self, fd: Fd, pos: u64) {
        self.open.borrow_mut()[fd.0 as usize]
            .as_mut()
            .expect("an open file")
            .pos = pos;
    }
}

/// Returns `len`, cut to `limit` unless that is 0, which means no limit.
fn cut(len: u64, limit: u64) -> u64 {
    if limit == 0 { len } else { len.min(limit) }
}

impl Host for MemoryHost {
    type Buf = Vec<u8>;
    type Dir = String;

    /// Makes a buffer of `len` zero bytes and counts it.
    fn buffer(&self, len: u64) -> Vec<u8> {
        self.buffers.set(self.buffers.get() + 1);
        vec![0; len as usize]
    }

    fn now(&self) -> u64 {
        self.clock.get()
    }

    /// Opens a file, which is made or emptied as the flags say. Paths below `/dev/` always exist.
    async fn open(&self, path: &str, flags: OpenFlags) -> HostResult<Fd> {
        let f = flags;
        let names = [
            (f.read, "r"),
            (f.write, "w"),
            (f.create, " create"),
            (f.truncate, " truncate"),
            (f.append, " append"),
            (f.direct, " direct"),
            (f.sync, " sync"),
            (f.dsync, " dsync"),
            (f.exclusive, " exclusive"),
        ];
        let flags_text: String = names
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, n)| *n)
            .collect();
        self.note(format!("open {path} {flags_text}"));
        if !path.starts_with("/dev/") {
            let mut files = self.files.borrow_mut();
            match files.get_mut(path) {
                Some(_) if flags.exclusive => return Err(HostError::Exists(path.to_owned())),
                Some(file) if flags.truncate => file.clear(),
                Some(_) => {}
                None if flags.create => drop(files.insert(path.to_owned(), Vec::new())),
                None => return Err(HostError::NotFound(path.to_owned())),
            }
        }
        let mut open = self.open.borrow_mut();
        open.push(Some(OpenFile {
            path: path.to_owned(),
            flags,
            pos: 0,
        }));
        Ok(Fd(open.len() as u32 - 1))
    }

    /// Closes a file.
    async fn close(&self, fd: Fd) -> HostResult<()> {
        self.note(format!("close {}", self.file(fd).path));
        self.open.borrow_mut()[fd.0 as usize] = None;
        Ok(())
    }

    /// Reads at the file's position and moves it. `/dev/null` is empty, `/dev/zero` has only
    /// zeroes; reads from `bad_from` on fail.
    async fn read(&self, fd: Fd, buf: &mut Vec<u8>, len: u64) -> HostResult<u64> {
        assert!(len <= buf.len() as u64);
        let file = self.file(fd);
        assert!(file.flags.read);
        self.note(format!("read {} {len}", file.path));
        let wanted = cut(len, self.longest_read.get());
        let n = match file.path.as_str() {
            "/dev/null" => 0,
            "/dev/zero" => {
                buf[..wanted as usize].fill(0);
                wanted
            }
            path => {
                if self.bad_from.get() != 0 && file.pos >= self.bad_from.get() {
                    return Err(HostError::Io(path.to_owned()));
                }
                let files = self.files.borrow();
                let rest = files[path].get(file.pos as usize..).unwrap_or_default();
                let n = wanted.min(rest.len() as u64);
                buf[..n as usize].copy_from_slice(&rest[..n as usize]);
                n
            }
        };
        self.set_pos(fd, file.pos + n);
        Ok(n)
    }

    /// Writes at the file's position, or at the end of the file with `append`, and moves the
    /// position. Longer writes than `longest_write`, or beyond `space`, are cut.
    async fn write(&self, fd: Fd, buf: &Vec<u8>, len: u64) -> HostResult<u64> {
        assert!(len <= buf.len() as u64);
        let file = self.file(fd);
        assert!(file.flags.write);
        self.note(format!("write {} {len}", file.path));
        if file.path.starts_with("/dev/") {
            return Ok(len);
        }
        let mut files = self.files.borrow_mut();
        let contents = files.get_mut(&file.path).expect("the file");
        let pos = if file.flags.append {
            contents.len() as u64
        } else {
            file.pos
        };
        let mut n = cut(len, self.longest_write.get());
        if self.space.get() != 0 {
            n = n.min(self.space.get().saturating_sub(pos));
            if n == 0 {
                return Err(HostError::NoSpace(file.path));
            }
        }
        let end = (pos + n) as usize;
        if contents.len() < end {
            contents.resize(end, 0);
        }
        contents[pos as usize..end].copy_from_slice(&buf[..n as usize]);
        self.set_pos(fd, pos + n);
        Ok(n)
    }

    /// Copies `len` bytes between two buffers.
    async fn copy(
        &self,
        from: &Vec<u8>,
        from_at: u64,
        to: &mut Vec<u8>,
        to_at: u64,
        len: u64,
    ) -> HostResult<()> {
        let source = &from[from_at as usize..(from_at + len) as usize];
        to[to_at as usize..(to_at + len) as usize].copy_from_slice(source);
        Ok(())
    }

    /// Sets the file's position and returns it.
    async fn seek(&self, fd: Fd, pos: u64) -> HostResult<u64> {
        self.note(format!("seek {} {pos}", self.file(fd).path));
        self.set_pos(fd, pos);
        Ok(pos)
    }

    /// Records the advice and ignores it.
    async fn fadvise(&self, fd: Fd, advice: Advice) -> HostResult<()> {
        self.note(format!("fadvise {} {advice:?}", self.file(fd).path));
        Ok(())
    }

    /// Records the call, which has nothing to do.
    async fn drop_cache(&self, fd: Fd) -> HostResult<()> {
        self.note(format!("drop_cache {}", self.file(fd).path));
        Ok(())
    }

    fn len(&self, fd: Fd) -> HostResult<u64> {
        Ok(self.files.borrow()[&self.file(fd).path].len() as u64)
    }

    /// Returns the length of a file, or that the path is a directory.
    async fn stat(&self, path: &str) -> HostResult<Stat> {
        self.note(format!("stat {path}"));
        let file = self.files.borrow().get(path).map(|file| file.len() as u64);
        match (file, self.dirs.borrow().contains(path)) {
            (None, false) => Err(HostError::NotFound(path.to_owned())),
            (len, directory) => Ok(Stat {
                directory,
                len: len.unwrap_or(0),
            }),
        }
    }

    /// Cuts or extends a file to `len` bytes with zeroes; files below `/dev/` refuse it.
    async fn truncate(&self, fd: Fd, len: u64) -> HostResult<()> {
        let path = self.file(fd).path;
        self.note(format!("truncate {path} {len}"));
        if path.starts_with("/dev/") {
            return Err(HostError::Unsupported(format!("truncating {path}")));
        }
        self.files
            .borrow_mut()
            .get_mut(&path)
            .expect("the file")
            .resize(len as usize, 0);
        Ok(())
    }

    /// Records an fsync or fdatasync, which has nothing to do.
    async fn sync(&self, fd: Fd, data_only: bool) -> HostResult<()> {
        let call = if data_only { "fdatasync" } else { "fsync" };
        self.note(format!("{call} {}", self.file(fd).path));
        Ok(())
    }

    /// Records a sync, which has nothing to do.
    async fn sync_all(&self) -> HostResult<()> {
        self.note("sync".to_owned());
        Ok(())
    }

    /// Makes a directory; an error if it exists.
    async fn mkdir(&self, path: &str) -> HostResult<()> {
        self.note(format!("mkdir {path}"));
        if self.dirs.borrow_mut().insert(path.to_owned()) {
            Ok(())
        } else {
            Err(HostError::Exists(path.to_owned()))
        }
    }

    fn gettimeofday(&self) -> u64 {
        self.epoch.get() + self.clock.get() / 1000
    }

    /// Runs the children one after the other, with an empty session.
    async fn fork<C: Task>(&self, children: Vec<C>) -> HostResult<Vec<Report>> {
        self.note(format!("fork {}", children.len()));
        let session = Session::default();
        let run = |c: &C| block_on(c.run_boxed(self, &session));
        children.iter().map(run).collect()
    }

    /// Removes a file; an error if it does not exist.
    async fn unlink(&self, path: &str) -> HostResult<()> {
        self.note(format!("unlink {path}"));
        match self.files.borrow_mut().remove(path) {
            Some(_) => Ok(()),
            None => Err(HostError::NotFound(path.to_owned())),
        }
    }

    fn dir(&self, path: &str) -> String {
        path.to_owned()
    }

    /// Makes a directory unless it exists; returns true if it was made.
    async fn mkdir_kept(&self, dir: &String) -> HostResult<bool> {
        match self.mkdir(dir).await {
            Err(HostError::Exists(_)) => Ok(false),
            made => made.map(|()| true),
        }
    }

    async fn open_in(&self, dir: &String, name: &str, flags: OpenFlags) -> HostResult<Fd> {
        self.open(&joined(dir, name), flags).await
    }

    async fn unlink_in(&self, dir: &String, name: &str) -> HostResult<()> {
        self.unlink(&joined(dir, name)).await
    }

    /// Records a mapping and returns its number. The mapping has a length but no contents.
    async fn map(&self, what: Map, len: u64, _: Advice) -> HostResult<MapId> {
        self.note(format!("map {what:?} {len}"));
        let mut maps = self.maps.borrow_mut();
        maps.push(Some(len / 4096));
        Ok(MapId(maps.len() as u32 - 1))
    }

    /// Records that pages of a mapping were touched, each of which takes `touch_ns` of the host's
    /// clock. Mappings have no contents, so expectations are not checked.
    async fn touch(&self, map: MapId, first: u64, pages: u64, _: Word) -> HostResult<()> {
        self.note(format!("touch {} {first} {pages}", map.0));
        let mapped = self.maps.borrow()[map.0 as usize].expect("a mapping");
        assert!(first + pages <= mapped);
        self.clock
            .set(self.clock.get() + pages * self.touch_ns.get());
        Ok(())
    }

    /// Removes a mapping; an error if it was removed before.
    async fn unmap(&self, map: MapId) -> HostResult<()> {
        self.note(format!("unmap {}", map.0));
        let gone = self.maps.borrow_mut()[map.0 as usize].take();
        gone.map(drop).ok_or(HostError::OutOfMemory)
    }

    fn memory(&self) -> HostResult<u64> {
        Ok(1 << 20)
    }

    async fn compute(&self, ns: u64) {
        self.clock.set(self.clock.get() + ns);
    }

    async fn sleep(&self, ns: u64) {
        self.clock.set(self.clock.get() + ns);
    }
}
