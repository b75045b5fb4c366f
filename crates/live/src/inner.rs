//! The state that handles, buffers and threads of one cache share. A thread of the program makes
//! each call under a task number of its own.

use crate::LiveMm;
use crate::arena::Pinned;
use crate::balloon::Balloon;
use crate::calls::Calls;
use crate::config::{GIVER, LAST};
use crate::cpu;
use crate::error::Error;
use crate::file;
use crate::fork::Born;
use crate::latency::Kind;
use crate::record::Recorder;
use crate::shared::Shared;
use crate::storage::Storage;
use crate::sync::now;
use crate::table::Table;
use mm::world::TaskId;
use mm::world::event::TrackPath;
use parking_lot::{Mutex, RwLock};
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};

/// The task numbers for the program's threads.
pub(crate) struct Tasks {
    pub(crate) free: Mutex<Vec<TaskId>>,
    /// The process that made the cache.
    pub(crate) born: Born,
}

/// A thread's task number in one cache, given back when the thread ends.
struct Lease {
    tasks: Weak<Tasks>,
    id: TaskId,
}

impl Drop for Lease {
    /// Gives the thread's task number back to the cache, if the cache still exists.
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.upgrade()
            && !tasks.born.elsewhere()
        {
            tasks.free.lock().push(self.id);
        }
    }
}

thread_local! {
    static LEASES: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
    /// A task number that the thread has only for its present call ([`lend`]).
    static LENT: Cell<Option<TaskId>> = const { Cell::new(None) };
}

/// Runs `f`, which uses one cache, on a thread of that cache, with a lent task number for its calls
/// (`None`: it has none).
pub(crate) fn lend<R>(task: Option<TaskId>, f: impl FnOnce() -> R) -> R {
    LENT.set(task);
    let r = f();
    LENT.set(None);
    r
}

/// The state of a cache that its handles, buffers and threads share.
pub(crate) struct Inner {
    pub(crate) mm: LiveMm,
    /// The asynchronous calls.
    pub(crate) calls: Calls,
    /// Pages that are taken out of the cache.
    pub(crate) balloon: Balloon,
    /// Bytes of memory with which the cache began.
    pub(crate) memory: u64,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) table: Shared<Table>,
    pub(crate) recorder: Arc<Recorder>,
    /// Calls hold this lock shared; the shutdown holds it exclusively and sets it.
    pub(crate) closed: RwLock<bool>,
    /// True from the start of the shutdown; for look-ups of cached pages, which take no lock, and
    /// so that no call waits for the shutdown.
    pub(crate) ended: AtomicBool,
    /// The process that made the cache.
    pub(crate) born: Born,
    /// Held by a thread without a task number while it frees memory as task `GIVER`.
    pub(crate) giver: Mutex<()>,
}

impl Inner {
    /// Returns an error if the cache is that of a parent process.
    #[inline]
    pub(crate) fn alive(&self) -> Result<(), Error> {
        match self.born.elsewhere() {
            false => Ok(()),
            true => Err(Error::Forked),
        }
    }

    /// Returns an error if the cache was shut down, or is that of a parent process.
    #[inline]
    pub(crate) fn usable(&self) -> Result<(), Error> {
        self.alive()?;
        match self.ended.load(SeqCst) {
            false => Ok(()),
            true => Err(Error::Closed),
        }
    }

    /// Returns the calling thread's task number in this cache, and assigns one at its first call.
    /// `Err`: none is free, or the thread is ending.
    fn task(&self) -> Result<TaskId, Error> {
        if let Ok(Some(lent)) = LENT.try_with(Cell::get) {
            return Ok(lent);
        }
        let lease = LEASES.try_with(|leases| {
            let mut leases = leases.borrow_mut();
            leases.retain(|l| l.tasks.strong_count() > 0);
            let mine = Arc::as_ptr(&self.tasks);
            if let Some(l) = leases.iter().find(|l| l.tasks.as_ptr() == mine) {
                return Ok(l.id);
            }
            let id = self.tasks.free.lock().pop().ok_or(Error::TooManyThreads)?;
            self.mm.init_task(id, 0, 0);
            leases.push(Lease {
                tasks: Arc::downgrade(&self.tasks),
                id,
            });
            Ok(id)
        });
        lease.unwrap_or(Err(Error::TooManyThreads))
    }

    /// Runs a future of the engine on the calling thread under its task number. `Err`: no task
    /// number is free, or the cache ended the task's wait.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        self.alive()?;
        let task = self.task()?;
        let cpus = &self.mm.world.cpus;
        cpus.block_on(task, future).ok_or(Error::Closed)
    }

    /// Runs `f` on a CPU slot, under the calling thread's task number, or as task `GIVER` if it has
    /// none: for freeing memory, which must not fail.
    pub(crate) fn as_any_task(&self, f: impl FnOnce() + Send) {
        if self.born.elsewhere() {
            return;
        }
        let cpus = &self.mm.world.cpus;
        let run = |task, f: &mut Option<_>| {
            let once = async { f.take().map_or((), |f: Box<dyn FnOnce() + Send + '_>| f()) };
            cpus.block_on(task, once);
        };
        let mut f: Option<Box<dyn FnOnce() + Send + '_>> = Some(Box::new(f));
        if cpu::thread_is_ending() {
            let _one = self.giver.lock();
            std::thread::scope(|s| s.spawn(|| run(GIVER, &mut f)).join())
                .unwrap_or_else(|e| resume_unwind(e));
            return;
        }
        match self.task() {
            Ok(task) => run(task, &mut f),
            Err(_) => {
                let _one = self.giver.lock();
                run(GIVER, &mut f);
            }
        }
    }

    /// Runs a call of the program as a task. `Err`: the call's error, or the cache was shut down,
    /// or the caller is inside a shrinker.
    pub(crate) fn call<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.mm.world.cpus.shrinking() {
            return Err(Error::InShrinker);
        }
        self.usable()?;
        let closed = self.closed.read();
        if *closed {
            return Err(Error::Closed);
        }
        self.block_on(future)?.map_err(|e| self.explain(e))
    }

    /// Returns the error; out of memory is given its reason ([`file::out_of_memory`]).
    pub(crate) fn explain(&self, e: Error) -> Error {
        match e {
            Error::OutOfMemory => file::out_of_memory(&self.mm),
            e => e,
        }
    }

    /// Makes a call as [`Inner::call`], and records how long it took if it succeeds.
    pub(crate) fn timed<T>(
        &self,
        kind: Kind,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let begun = now();
        let answer = self.call(future)?;
        self.mm.world.clocks.since(kind, begun);
        Ok(answer)
    }

    /// Marks a cached page accessed as [`mm::Mm::mark_page_accessed`] does; mostly without a CPU
    /// slot, by setting a bit.
    #[inline]
    pub(crate) fn mark(&self, page: &Pinned<'_>) -> Result<(), Error> {
        if self.mm.mark_accessed_in_passing(page.pfn()) {
            return Ok(());
        }
        let mark = async {
            self.mm
                .mark_page_accessed(page.pfn(), TrackPath::BufferedRead)
        };
        self.block_on(mark)
    }

    /// Syncs every file of the cache; returns the path and error of those whose sync failed. For
    /// the thread that shuts the cache down.
    pub(crate) fn sync_all(&self) -> Vec<(PathBuf, Error)> {
        let (mm, files) = (&self.mm, self.table.lock().files());
        let mut failed = Vec::new();
        for file in files {
            let cursor = file.errors.end();
            let sync = file::fsync(mm, file.mapping, &cursor);
            let synced = mm.world.cpus.block_on(LAST, sync);
            if let Err(e) = synced.expect("only daemons are ended") {
                failed.push((file.path.clone(), e));
            }
            file.unlock();
        }
        failed
    }
}
