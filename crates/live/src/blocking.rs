//! Calls that may block and that nobody makes for us: fsync, ftruncate, the closing of a file.
//!
//! A thread that has one task makes them itself. One that has more must not: it hands them to threads of
//! their device, of which there is one from the beginning ([`Blocking::start`]) and up to [`THREADS`]
//! while several calls are under way. So a device that hangs holds up its own calls only.

use crate::LiveMm;
use crate::cpu;
use crate::sync::{Condvar, Mutex};
use crate::wait::Answer;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Threads of a device at most.
const THREADS: usize = 4;

/// Something that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// The threads of all devices.
pub struct Blocking(Box<[Arc<Device>]>);

#[derive(Default)]
struct Device {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stopped: bool,
}

impl Blocking {
    /// No threads yet, for so many devices.
    pub fn new(devices: u32) -> Self {
        Self((0..devices).map(|_| Arc::default()).collect())
    }

    /// A device has a thread from now on.
    ///
    /// # Errors
    /// The system gives none.
    pub fn start(&self, bdi: u32) -> std::io::Result<()> {
        let device = &self.0[bdi as usize];
        let mut s = device.state.lock();
        match s.threads.is_empty() && !s.stopped {
            true => device.spawn(&mut s, bdi),
            false => Ok(()),
        }
    }

    /// Has something done for a device that has a thread; it comes back if all is over.
    pub fn put(&self, bdi: u32, job: Job) -> Result<(), Job> {
        let device = &self.0[bdi as usize];
        let mut s = device.state.lock();
        if s.stopped || s.threads.is_empty() {
            return Err(job);
        }
        s.jobs.push_back(job);
        if s.jobs.len() > s.idle && s.threads.len() < THREADS {
            // Those that are there will do it as well.
            let _ = device.spawn(&mut s, bdi);
        }
        drop(s);
        device.more.notify_one();
        Ok(())
    }

    /// Ends the threads when nothing is left for them to do; nothing is taken any more.
    pub fn stop(&self) {
        for device in &self.0 {
            let threads = {
                let mut s = device.state.lock();
                s.stopped = true;
                std::mem::take(&mut s.threads)
            };
            device.more.notify_all();
            for t in threads {
                // What panics in one tells who waits for it.
                let _ = t.join();
            }
        }
    }
}

impl Device {
    fn spawn(self: &Arc<Self>, s: &mut State, bdi: u32) -> std::io::Result<()> {
        let me = Arc::clone(self);
        let name = format!("blocking-{bdi}.{}", s.threads.len());
        let thread = std::thread::Builder::new().name(name);
        s.threads.push(thread.spawn(move || me.work())?);
        Ok(())
    }

    fn work(&self) {
        let mut s = self.state.lock();
        loop {
            if let Some(job) = s.jobs.pop_front() {
                drop(s);
                let _ = catch_unwind(AssertUnwindSafe(job));
                s = self.state.lock();
            } else if s.stopped {
                return;
            } else {
                s.idle += 1;
                self.more.wait(&mut s);
                s.idle -= 1;
            }
        }
    }
}

/// Runs `f`, which may block, for the calling task: on its thread without a slot, or if that has other
/// tasks on one of the device's.
pub async fn run<T: Send + 'static>(
    mm: &LiveMm,
    bdi: u32,
    f: impl FnOnce() -> T + Send + 'static,
) -> T {
    if !cpu::shared() {
        return mm.world.cpus.off(f);
    }
    let answer = Arc::new(Answer::default());
    let there = Arc::clone(&answer);
    let job = move || there.put(catch_unwind(AssertUnwindSafe(f)));
    if let Err(job) = mm.world.blocking.put(bdi, Box::new(job)) {
        mm.world.cpus.off(job);
    }
    answer.wait().await.unwrap_or_else(|e| resume_unwind(e))
}
