//! Programs as processes that can be killed: they die where they would go on with their own code.

use super::TaskHost;
use super::names::plain;
use crate::filesystems as fs;
use crate::stack::Bottom;
use crate::world::own_queue;
use mm::world::{Cost, Tasks};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use workload::{Fd, Host, HostError, HostResult, MapId, Report, Unmounted};

/// What a guest's task owes before it pays (ns; `LEAST_DEBT` of its kernel).
const LEAST_DEBT: u64 = 1000;

/// The number of a process; 0: none.
pub(super) type Pid = u32;

/// Which process a task runs.
#[derive(Debug, Clone, Copy)]
pub enum Runs {
    /// A new one, forked by this one; 0: by the script's shell.
    Process(Pid),
    /// Another thread of this one.
    Thread(Pid),
}

/// What a task's program is as a process.
#[derive(Debug, Default)]
pub(super) struct Life {
    pid: Cell<Pid>,
    /// The task was killed and has come to where it dies.
    dead: Cell<bool>,
    /// What it owes for looks at the clock (ns).
    owed: Cell<u64>,
}

impl Life {
    pub(super) fn pid(&self) -> Pid {
        self.pid.get()
    }
}

impl<const T: bool> TaskHost<'_, T> {
    /// umount(2).
    pub(super) async fn unmount_at(&self, path: &str) -> HostResult<Unmounted> {
        self.calls(Bottom::Other, 1);
        let mounted = self.names.names.borrow().mounted_at(&plain(path));
        let Some(nth) = mounted else {
            return Err(HostError::NotFound(format!("{path} (as a mount point)")));
        };
        let busy = (0..)
            .zip(&*self.names.users.borrow())
            .any(|(id, users)| *users > 0 && fs::is_on(self.mm, &self.mm.world.fs[nth], id));
        if busy {
            return Err(HostError::Unsupported(format!("umount {path}: it is busy")));
        }
        let done = fs::unmount(self.mm, nth).await;
        done.map_err(|e| Self::error(path.to_owned(), e))
    }

    /// The task makes so many system calls, which are at the bottom of its kernel stack; none: it faults.
    #[inline]
    pub(super) fn calls(&self, bottom: Bottom, n: u32) {
        let w = &self.mm.world;
        w.stack.begins(w.task(), bottom);
        if n > 0 {
            w.charge(Cost::Syscall, n);
            w.sched.charge(self.life.owed.take());
        }
    }

    /// A look at the clock. What is paid later of it waits for the next system call that is none, or until it is worth a
    /// turn: between two looks lies all that the looks before owe.
    #[inline]
    pub(super) fn look(&self) -> u64 {
        let w = &self.mm.world;
        if (w.calls.look, w.calls.look_later) == (0, 0) {
            return w.now();
        }
        w.sched.charge_user(w.calls.look);
        let now = w.now();
        let owed = self.life.owed.get() + w.calls.look_later;
        let paid = if owed >= LEAST_DEBT { owed } else { 0 };
        w.sched.charge(paid);
        self.life.owed.set(owed - paid);
        now
    }

    /// Runs a program to its end. `None`: its process was killed.
    pub async fn run_program(
        &self,
        runs: Runs,
        program: impl Future<Output = HostResult<Report>>,
    ) -> Option<HostResult<Report>> {
        let (pid, parent) = match runs {
            Runs::Process(parent) => (self.forks.new_pid(), parent),
            // Its process was killed before it had a CPU.
            Runs::Thread(pid) if !self.lives(pid) => return None,
            Runs::Thread(pid) => (pid, 0),
        };
        self.life.pid.set(pid);
        self.mm.begin_process(pid, parent);
        let result = {
            let mut program = std::pin::pin!(program);
            poll_fn(|cx| match program.as_mut().poll(cx) {
                std::task::Poll::Pending if self.life.dead.get() => std::task::Poll::Ready(None),
                polled => polled.map(Some),
            })
            .await
        };
        let killed = self.mm.is_dying();
        if killed && self.mm.threads_of(pid).nth(1).is_none() {
            self.exit(pid).await;
        }
        self.mm.end_process();
        self.life.pid.set(0);
        self.life.dead.set(false);
        // What it found no memory for is not its error: it was to die.
        result.filter(|r| !(killed && r.is_err()))
    }

    /// Whether a process has threads and none of them was killed.
    fn lives(&self, pid: Pid) -> bool {
        let mut threads = self.mm.threads_of(pid).peekable();
        threads.peek().is_some()
            && threads.all(|t| self.mm.tasks[t as usize].flags() & mm::memory::task::PF_DYING == 0)
    }

    /// Where the task returns to its program: whether it was killed and [dies](Self::die) there.
    #[inline(always)]
    pub(super) fn dies_here(&self) -> bool {
        self.mm.world.killing.get() && self.mm.is_dying()
    }

    /// A task that was killed does not go on with its program.
    #[cold]
    pub(super) async fn die(&self) {
        self.life.dead.set(true);
        pending().await
    }

    /// exit(2): what the process had is given back.
    async fn exit(&self, pid: Pid) {
        for map in owned(&self.names.maps, |m| m.owner == pid) {
            let gone = self.unmap_pages(MapId(map)).await;
            debug_assert!(gone.is_ok());
        }
        for fd in owned(&self.names.open, |o| o.owner == pid) {
            let gone = self.close(Fd(fd)).await;
            debug_assert!(gone.is_ok());
        }
        // Who waits for it looks again.
        self.mm
            .world
            .sched
            .wake(self.mm.world.queue_base + own_queue::EXIT);
    }
}

/// The numbers of what a process has.
fn owned<V>(all: &RefCell<Slab<V>>, of: impl Fn(&V) -> bool) -> Vec<u32> {
    let all = all.borrow();
    let of = all.iter().filter(|(_, v)| of(v));
    of.map(|(id, _)| id as u32).collect()
}
