//! Plugs: a task that will submit more requests keeps them to itself until it ends the plug,
//! sleeps, or holds enough of them (`struct blk_plug`, docs/reference/writeback.md#plugs).

use super::SimWorld;
use crate::block::{IoContext, Queue, Slot};
use std::cell::{Cell, RefCell};

/// Length in blocks of a plug's youngest request from which the plug is flushed before another
/// request joins (`BLK_PLUG_FLUSH_SIZE`: 128 KiB).
const FLUSH_BLOCKS: u32 = 32;

/// A task's plug: the requests it holds back.
#[derive(Debug, Default)]
struct Plug {
    /// Number of times the plug was begun and not yet ended; only the outermost pair counts.
    depth: Cell<u32>,
    /// Device number and slot of each held request, in order of arrival.
    held: RefCell<Vec<(u32, Slot)>>,
}

/// The plugs of all tasks.
#[derive(Debug)]
pub(super) struct Plugs {
    by_task: Box<[Plug]>,
    /// Maximum number of requests that one plug holds.
    most: usize,
}

impl Plugs {
    /// Makes plugs for `tasks` tasks, each of at most `most` requests. With 0 tasks no task has a
    /// plug.
    pub(super) fn new(tasks: u32, most: usize) -> Self {
        Self {
            by_task: (0..tasks).map(|_| Plug::default()).collect(),
            most,
        }
    }

    /// Returns the youngest request for device `dev` in a task's open plug, with which a bio may
    /// merge (`Some(None)`: the plug holds none for this device); `None` if the task has no open
    /// plug.
    pub(super) fn open(&self, task: usize, dev: u32) -> Option<Option<Slot>> {
        let plug = self.by_task.get(task).filter(|plug| plug.depth.get() > 0)?;
        let held = plug.held.borrow();
        Some(held.iter().rev().find(|h| h.0 == dev).map(|h| h.1))
    }
}

impl<const TRACE: bool> SimWorld<TRACE> {
    /// Opens the calling task's plug, which gathers requests until [`Self::end_plug`]
    /// (`blk_start_plug`). Plugs nest.
    pub(super) fn begin_plug(&self) {
        if let Some(plug) = self.plugs.by_task.get(self.sched.task() as usize) {
            plug.depth.set(plug.depth.get() + 1);
        }
    }

    /// Ends the calling task's plug; the outermost end submits the gathered requests
    /// (`blk_finish_plug`).
    pub(super) fn end_plug(&self) {
        let task = self.sched.task();
        let Some(plug) = self.plugs.by_task.get(task as usize) else {
            return;
        };
        let depth = plug.depth.get().checked_sub(1);
        plug.depth.set(depth.expect("a plug that ends was begun"));
        if depth == Some(0) {
            self.flush_plug(task);
        }
    }

    /// Puts a request of device `dev` into the calling task's plug. Flushes the plug first if it is
    /// full or its last request is long enough.
    pub(super) fn hold(&self, dev: u32, slot: Slot) {
        let task = self.sched.task();
        let plug = &self.plugs.by_task[task as usize];
        let last = plug.held.borrow().last().copied();
        if let Some((last_dev, last)) = last {
            let long = {
                let queue = &self.devices.borrow()[last_dev as usize].queue;
                queue.blocks_of(last) >= FLUSH_BLOCKS
            };
            if long || plug.held.borrow().len() >= self.plugs.most {
                self.flush_plug(task);
            }
        }
        plug.held.borrow_mut().push((dev, slot));
        self.sched.plugged(task, true);
    }

    /// Submits the requests in a task's plug to the schedulers and the devices (`blk_flush_plug`).
    pub fn flush_plug(&self, task: u32) {
        let Some(plug) = self.plugs.by_task.get(task as usize) else {
            return;
        };
        if plug.held.borrow().is_empty() {
            return;
        }
        let mut held = plug.held.take();
        self.sched.plugged(task, false);
        for &(dev, slot) in &held {
            let wake = {
                let d = &mut self.devices.borrow_mut()[dev as usize];
                let (queue, context): (&mut Queue, &IoContext) =
                    (&mut d.queue, &d.contexts[task as usize]);
                queue.unplug(self.sched.now(), context, slot)
            };
            self.wake_for(dev, wake);
        }
        while let Some((dev, _)) = held.pop() {
            // Each device is kicked once.
            if held.iter().all(|h| h.0 != dev) {
                self.kick(dev);
            }
        }
        // The list keeps its allocation.
        plug.held.replace(held);
    }
}
