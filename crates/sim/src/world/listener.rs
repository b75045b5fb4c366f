//! Who hears every event of a run as it happens.

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
    /// The CPU.
    pub cpu: usize,
    /// The task; 0: an interrupt.
    pub task: TaskId,
    /// The task's name (`comm`).
    pub comm: &'a str,
}

/// Who hears every event of a run, page by page too, from boot on. What it does changes no result.
pub trait Listener: Debug + Send {
    /// An event happened.
    fn heard(&mut self, at: Moment<'_>, event: &Event);

    /// The workload begins, or has ended: nothing of the engine's.
    fn marked(&mut self, at: Moment<'_>, text: &str);

    /// A task's wait is over. Told at the next event.
    fn waited(&mut self, wait: &Ended, comm: &str) {
        let _ = (wait, comm);
    }

    /// A disk has so many requests now. Told at the next event.
    fn queued(&mut self, ns: u64, disk: usize, requests: u32) {
        let _ = (ns, disk, requests);
    }

    /// Whether it wants waits and queues.
    fn hears_waits(&self) -> bool {
        false
    }

    /// The workload has ended, and with it the run. `zoneinfo` makes the text of `/proc/zoneinfo` as it is now.
    fn ended(&mut self, zoneinfo: &dyn Fn() -> String);

    /// Whether it wants events.
    fn hears(&self) -> bool {
        true
    }
}

/// The listener of a run, and the names that it hears tasks by.
#[derive(Debug, Default)]
pub struct Listening {
    listener: RefCell<Option<Box<dyn Listener>>>,
    comms: RefCell<Vec<Cow<'static, str>>>,
    /// Requests of each disk as they were told.
    queues: RefCell<Vec<u32>>,
}

impl Listening {
    /// From now on.
    pub(crate) fn begin(&self, listener: Box<dyn Listener>) {
        *self.listener.borrow_mut() = Some(listener);
    }

    /// A task's name.
    pub fn set_comm(&self, task: TaskId, comm: impl Into<Cow<'static, str>>) {
        let mut comms = self.comms.borrow_mut();
        let task = task as usize;
        if comms.len() <= task {
            comms.resize(task + 1, Cow::Borrowed("<...>"));
        }
        comms[task] = comm.into();
    }

    /// A task's name; `<...>`: it has none.
    pub fn comm(&self, task: TaskId) -> String {
        let comms = self.comms.borrow();
        comms.get(task as usize).map_or("<...>", |c| c).to_owned()
    }

    /// Whether there is a listener; if so, it hears.
    pub fn tell(&self, ns: u64, cpu: usize, task: TaskId, event: &Event) -> bool {
        self.with(ns, cpu, task, |listener, at| listener.heard(at, event))
    }

    /// The listener is told of something that is no event of the engine's.
    pub fn mark(&self, ns: u64, cpu: usize, task: TaskId, text: &str) {
        self.with(ns, cpu, task, |listener, at| listener.marked(at, text));
    }

    /// Whether there is a listener for waits and queues.
    pub fn hears_waits(&self) -> bool {
        let listener = self.listener.borrow();
        listener.as_ref().is_some_and(|l| l.hears_waits())
    }

    /// The listener is told of a wait that is over.
    pub fn waited(&self, wait: &Ended) {
        if let Some(listener) = self.listener.borrow_mut().as_mut() {
            listener.waited(wait, &self.comm(wait.task));
        }
    }

    /// The listener is told of a disk's requests, if they are more or fewer than they were.
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

    /// The run is over.
    pub(crate) fn end(&self, zoneinfo: &dyn Fn() -> String) {
        if let Some(mut listener) = self.listener.take() {
            listener.ended(zoneinfo);
        }
    }

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
