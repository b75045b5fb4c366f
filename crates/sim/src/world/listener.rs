//! The interface for a listener that receives every event of a run as it happens.

use crate::waiting::Ended;
use mm::world::TaskId;
use mm::world::event::Event;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Debug;

/// When and where an event happened.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Nanoseconds since boot.
    pub ns: u64,
    /// The CPU on which the event happened.
    pub cpu: usize,
    /// The running task; 0 in an interrupt.
    pub task: TaskId,
    /// The task's name (`comm`).
    pub comm: &'a str,
}

/// A receiver of every event of a run from boot on, page-by-page events included. A listener
/// changes no result.
pub trait Listener: Debug + Send {
    /// Receives an event of the engine.
    fn heard(&mut self, at: Moment<'_>, event: &Event);

    /// Receives a mark that is not the engine's: the workload begins or has ended.
    fn marked(&mut self, at: Moment<'_>, text: &str);

    /// Receives a task's finished wait, at the next event after it.
    fn waited(&mut self, wait: &Ended, comm: &str) {
        let _ = (wait, comm);
    }

    /// Receives the number of requests a disk has, at the next event after it changed.
    fn queued(&mut self, ns: u64, disk: usize, requests: u32) {
        let _ = (ns, disk, requests);
    }

    /// Returns true if the listener wants finished waits and queue lengths.
    fn hears_waits(&self) -> bool {
        false
    }

    /// Tells the listener that the workload, and with it the run, has ended. `zoneinfo` returns the
    /// text of `/proc/zoneinfo` at this moment.
    fn ended(&mut self, zoneinfo: &dyn Fn() -> String);

    /// Returns true if the listener wants events.
    fn hears(&self) -> bool {
        true
    }
}

/// The listener of a run, and the task names that it is given.
#[derive(Debug, Default)]
pub struct Listening {
    listener: RefCell<Option<Box<dyn Listener>>>,
    comms: RefCell<Vec<Cow<'static, str>>>,
    /// Number of requests last reported for each disk.
    queues: RefCell<Vec<u32>>,
}

impl Listening {
    /// Installs a listener, which receives events from now on.
    pub(crate) fn begin(&self, listener: Box<dyn Listener>) {
        *self.listener.borrow_mut() = Some(listener);
    }

    /// Sets the name of a task that the listener is given with its events.
    pub fn set_comm(&self, task: TaskId, comm: impl Into<Cow<'static, str>>) {
        let mut comms = self.comms.borrow_mut();
        let task = task as usize;
        if comms.len() <= task {
            comms.resize(task + 1, Cow::Borrowed("<...>"));
        }
        comms[task] = comm.into();
    }

    /// Returns a task's name; `<...>` if it has none.
    pub fn comm(&self, task: TaskId) -> String {
        let comms = self.comms.borrow();
        comms.get(task as usize).map_or("<...>", |c| c).to_owned()
    }

    /// Passes an event of a task on a CPU, at `ns` nanoseconds since boot, to the listener. Returns
    /// false if there is no listener.
    pub fn tell(&self, ns: u64, cpu: usize, task: TaskId, event: &Event) -> bool {
        self.with(ns, cpu, task, |listener, at| listener.heard(at, event))
    }

    /// Passes a mark to the listener: text that is no event of the engine's.
    pub fn mark(&self, ns: u64, cpu: usize, task: TaskId, text: &str) {
        self.with(ns, cpu, task, |listener, at| listener.marked(at, text));
    }

    /// Returns true if there is a listener that wants waits and queue lengths.
    pub fn hears_waits(&self) -> bool {
        let listener = self.listener.borrow();
        listener.as_ref().is_some_and(|l| l.hears_waits())
    }

    /// Reports a finished wait to the listener.
    pub fn waited(&self, wait: &Ended) {
        if let Some(listener) = self.listener.borrow_mut().as_mut() {
            listener.waited(wait, &self.comm(wait.task));
        }
    }

    /// Reports the number of requests that a disk has at `ns` nanoseconds to the listener, if the
    /// number has changed.
    pub fn queued(&self, ns: u64, disk: usize, requests: u32) {
        let mut queues = self.queues.borrow_mut();
        if queues.len() <= disk {
            queues.resize(disk + 1, 0);
        }
        if std::mem::replace(&mut queues[disk], requests) == requests {
            return;
        }
        if let Some(listener) = self.listener.borrow_mut().as_mut() {
            listener.queued(ns, disk, requests);
        }
    }

    /// Tells the listener that the run has ended, and removes it.
    pub(crate) fn end(&self, zoneinfo: &dyn Fn() -> String) {
        if let Some(mut listener) = self.listener.take() {
            listener.ended(zoneinfo);
        }
    }

    /// Calls `hear` with the listener and the moment (time, CPU, task and its name). Returns false
    /// if there is no listener.
    fn with(
        &self,
        ns: u64,
        cpu: usize,
        task: TaskId,
        hear: impl FnOnce(&mut dyn Listener, Moment<'_>),
    ) -> bool {
        let mut listener = self.listener.borrow_mut();
        let Some(listener) = listener.as_mut() else {
            return false;
        };
        let comms = self.comms.borrow();
        let comm = match task {
            0 => "<idle>",
            task => comms.get(task as usize).map_or("<...>", |c| c),
        };
        let at = Moment {
            ns,
            cpu,
            task,
            comm,
        };
        hear(&mut **listener, at);
        true
    }
}
