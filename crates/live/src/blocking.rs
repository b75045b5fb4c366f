//! Calls that may block and have no asynchronous form here: fsync, ftruncate, close.
//!
//! A thread with a single task makes such a call itself. A thread with several tasks must not
//! block: it hands the call to the threads of the call's device. A device has one thread from the
//! start ([`Blocking::start`]) and up to [`THREADS`] while several calls are under way. So a device
//! that hangs delays only its own calls.

use crate::LiveMm;
use crate::cpu;
use crate::sync::{Condvar, Mutex};
use crate::wait::Answer;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Most threads of a device.
const THREADS: usize = 4;

/// A call that may block.
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
    /// Creates the state for `devices` devices, without threads.
    pub fn new(devices: u32) -> Self {
        Self((0..devices).map(|_| Arc::default()).collect())
    }

    /// Starts a device's first thread, unless it has one.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(&self, bdi: u32) -> std::io::Result<()> {
        let device = &self.0[bdi as usize];
        let mut s = device.state.lock();
        match s.threads.is_empty() && !s.stopped {
            true => device.spawn(&mut s, bdi),
            false => Ok(()),
        }
    }

    /// Queues a job for a device's threads, and starts one more thread if all are busy. `Err`: the
    /// job, if the device has no thread or [`Blocking::stop`] was called; the caller then does it.
    pub fn put(&self, bdi: u32, job: Job) -> Result<(), Job> {
        let device = &self.0[bdi as usize];
        let mut s = device.state.lock();
        if s.stopped || s.threads.is_empty() {
            return Err(job);
        }
        s.jobs.push_back(job);
        if s.jobs.len() > s.idle && s.threads.len() < THREADS {
            // If no thread can be started, the existing ones do the job.
            let _ = device.spawn(&mut s, bdi);
        }
        drop(s);
        device.more.notify_one();
        Ok(())
    }

    /// Accepts no more jobs, and waits until the threads have done those queued and have ended.
    pub fn stop(&self) {
        for device in &self.0 {
            let threads = {
                let mut s = device.state.lock();
                s.stopped = true;
                std::mem::take(&mut s.threads)
            };
            device.more.notify_all();
            for t in threads {
                // A job's panic was caught, and is passed on by `run` to the task that waits.
                let _ = t.join();
            }
        }
    }
}

impl Device {
    /// Starts one more thread for the device.
    fn spawn(self: &Arc<Self>, s: &mut State, bdi: u32) -> std::io::Result<()> {
        let me = Arc::clone(self);
        let name = format!("blocking-{bdi}.{}", s.threads.len());
        let thread = std::thread::Builder::new().name(name);
        s.threads.push(thread.spawn(move || me.work())?);
        Ok(())
    }

    /// Does queued jobs until stopped and none is left; the body of a device's thread.
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

/// Runs `f`, which may block, for the calling task: on its own thread without a CPU slot, or on one
/// of the device's threads if the task's thread has other tasks.
pub async fn run<T: Send + 'static>(
    mm: &LiveMm,
    bdi: u32,
    f: impl FnOnce() -> T + Send + 'static,
) -> T {
    if !cpu::shared() {
        return mm.world.cpus.off(f);
    }
    let answer = Arc::new(Answer::default());
    let result = Arc::clone(&answer);
    let job = move || result.put(catch_unwind(AssertUnwindSafe(f)));
    if let Err(job) = mm.world.blocking.put(bdi, Box::new(job)) {
        mm.world.cpus.off(job);
    }
    answer.wait().await.unwrap_or_else(|e| resume_unwind(e))
}
