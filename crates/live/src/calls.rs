//! The asynchronous calls of a cache: the runner's threads, and the room for buffers.

use crate::LiveMm;
use crate::admission::{self, Admission};
use crate::arena::Pinned;
use crate::config::{ASYNC_LANES, Config};
use crate::cpu;
use crate::error::Error;
use crate::inner::Inner;
use crate::page_size::PAGE;
use crate::runner::Runner;
use mm::world::TaskId;
use mm::world::event::TrackPath;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The asynchronous calls of a cache, and the threads that continue them.
pub(crate) struct Calls {
    pub(crate) runner: Arc<Runner>,
    wanted: u32,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Room for the buffers of writes, in bytes.
    room: u64,
    pub(crate) admission: Arc<Admission>,
}

impl Calls {
    /// Creates the state without calls and threads; the calls' tasks have the numbers from `first`
    /// on. `first`: the first of the task numbers that calls use.
    pub fn new(config: &Config, first: TaskId) -> Self {
        let tasks = first..first + config.async_tasks();
        let room = admission::room(config.memory, PAGE as u64);
        Self {
            runner: Runner::new(ASYNC_LANES as usize, config.async_most(), tasks),
            wanted: config.async_threads,
            threads: Mutex::default(),
            room,
            admission: Admission::new(room),
        }
    }

    /// Takes the room for buffers out of the cache's pages, starts the runner's threads unless they
    /// run, and a thread for blocking calls on device `bdi`.
    pub fn start(&self, inner: &Arc<Inner>, bdi: u32) -> Result<(), Error> {
        let refused = |e: std::io::Error| Error::Config(format!("a thread for calls: {e}"));
        inner.mm.world.blocking.start(bdi).map_err(refused)?;
        inner.balloon.for_buffers(inner, self.room / PAGE as u64)?;
        let mut threads = self.threads.lock();
        if inner.mm.world.is_closing() {
            return Err(Error::Closed);
        }
        while threads.len() < self.wanted as usize {
            let inner = Arc::clone(inner);
            let work = move || inner.calls.runner.work(&inner.mm.world.cpus);
            let thread = std::thread::Builder::new().name(format!("async-{}", threads.len()));
            threads.push(thread.spawn(work).map_err(refused)?);
        }
        Ok(())
    }

    /// Lets no further call begin, not even those that wait for their turn.
    pub fn close(&self) {
        self.admission.close();
        self.runner.close();
    }

    /// Returns the bytes of the buffers that the cache holds for writes.
    pub fn held(&self) -> u64 {
        self.admission.held()
    }

    /// Waits until the calls under way have ended, and for the threads to end; after
    /// [`Calls::close`]. Does their work itself if called on one of them.
    pub fn end(&self, mm: &LiveMm) {
        let threads = std::mem::take(&mut *self.threads.lock());
        let me = std::thread::current().id();
        for t in &threads {
            if t.thread().id() == me {
                // A waker ends the cache on one of our threads: this may be the last thread to
                // do the work.
                self.runner.work(&mm.world.cpus);
            }
        }
        for t in threads {
            if t.thread().id() != me {
                // A panic of a call was passed to its caller.
                let _ = t.join();
            }
        }
        mm.world.blocking.stop();
    }

    /// Marks a page as accessed (`mark_page_accessed`) that was read on a thread without a task
    /// number.
    pub fn mark(&self, mm: &LiveMm, page: &Pinned<'_>) {
        if !mm.mark_accessed_in_passing(page.pfn()) {
            // If no task number is free, or the thread is ending, the page stays unmarked.
            self.runner.spare(|task| {
                if let Some(task) = task.filter(|_| !cpu::thread_is_ending()) {
                    let path = TrackPath::BufferedRead;
                    let mark = async { mm.mark_page_accessed(page.pfn(), path) };
                    mm.world.cpus.block_on(task, mark);
                }
            });
        }
    }
}
