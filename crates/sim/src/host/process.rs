//! Programs as processes that can be killed: a killed task ends where it would return to user mode.

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

/// CPU debt in nanoseconds that a guest's task may build up before it pays (`LEAST_DEBT` of its
/// kernel).
const LEAST_DEBT: u64 = 1000;

/// A process number; 0: none.
pub(super) type Pid = u32;

/// The process that a task runs.
#[derive(Debug, Clone, Copy)]
pub enum Runs {
    /// A new process, forked by the one given; 0: by the script's shell.
    Process(Pid),
    /// Another thread of the process given.
    Thread(Pid),
}

/// A task's state as a process.
#[derive(Debug, Default)]
pub(super) struct Life {
    pid: Cell<Pid>,
    /// True once the task was killed and has reached the point where it ends.
    dead: Cell<bool>,
    /// CPU time owed for clock readings, in nanoseconds.
    owed: Cell<u64>,
}

impl Life {
    pub(super) fn pid(&self) -> Pid {
        self.pid.get()
    }
}

impl<const T: bool> TaskHost<'_, T> {
    /// Unmounts the filesystem at a path (umount(2)). Returns how long each part took. Fails if no
    /// filesystem is mounted there, if one of its files is open or mapped, or if data could not be
    /// written.
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

    /// Charges `n` system calls of the task and starts its kernel stack with `bottom`; with `n` = 0
    /// it is a fault.
    #[inline]
    pub(super) fn calls(&self, bottom: Bottom, n: u32) {
        let w = &self.mm.world;
        w.stack.begins(w.task(), bottom);
        if n > 0 {
            w.charge(Cost::Syscall, n);
            w.sched.charge(self.life.owed.take());
        }
    }

    /// Reads the clock and returns nanoseconds since boot. The part of the cost that is paid later
    /// is charged with the next other system call, or once it reaches [`LEAST_DEBT`]; so the time
    /// between two readings includes the debt of all readings before.
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

    /// Runs a program as a new process, or as another thread of one (`runs`), to its end. Returns
    /// its report or error; `None` if its process was killed before or meanwhile.
    pub async fn run_program(
        &self,
        runs: Runs,
        program: impl Future<Output = HostResult<Report>>,
    ) -> Option<HostResult<Report>> {
        let (pid, parent) = match runs {
            Runs::Process(parent) => (self.forks.new_pid(), parent),
            // The process was killed before this thread ran.
            Runs::Thread(pid) if !self.lives(pid) => return None,
            Runs::Thread(pid) => (pid, 0),
        };
        self.life.pid.set(pid);
        let group = self.mm.current_group();
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
        // The last thread of a killed process releases all that the process holds.
        if killed && self.mm.threads_of(pid).nth(1).is_none() {
            self.exit(pid).await;
        }
        self.mm.end_process();
        self.move_to_group(group);
        self.life.pid.set(0);
        self.life.dead.set(false);
        // Errors of a killed program are dropped: its allocations fail because it is dying.
        result.filter(|r| !(killed && r.is_err()))
    }

    /// Moves the calling process into a memory control group of the run, by its number (0: none).
    pub fn move_to_group(&self, group: u32) {
        if self.mm.has_groups() {
            self.mm.enter_group(group);
            self.mm.world.sched.enter_group(group);
        }
    }

    /// Returns true if a process has threads and none of them was killed.
    fn lives(&self, pid: Pid) -> bool {
        let mut threads = self.mm.threads_of(pid).peekable();
        threads.peek().is_some()
            && threads.all(|t| self.mm.tasks[t as usize].flags() & mm::memory::task::PF_DYING == 0)
    }

    /// Returns true if the task was killed and must [die](Self::die) at this return to user mode.
    #[inline(always)]
    pub(super) fn dies_here(&self) -> bool {
        self.mm.world.killing.get() && self.mm.is_dying()
    }

    /// Ends the calling task's program. Never returns.
    #[cold]
    pub(super) async fn die(&self) {
        self.life.dead.set(true);
        pending().await
    }

    /// Performs exit(2): unmaps the mappings and closes the descriptors of a process.
    async fn exit(&self, pid: Pid) {
        for map in owned(&self.names.maps, |m| m.owner == pid) {
            let gone = self.unmap_pages(MapId(map)).await;
            debug_assert!(gone.is_ok());
        }
        for fd in owned(&self.names.open, |o| o.owner == pid) {
            let gone = self.close(Fd(fd)).await;
            debug_assert!(gone.is_ok());
        }
        // Wakes parents that wait for their children.
        self.mm
            .world
            .sched
            .wake(self.mm.world.queue_base + own_queue::EXIT);
    }
}

/// Returns the indices of the objects in a slab (descriptors or mappings) for which `of` is true.
fn owned<V>(all: &RefCell<Slab<V>>, of: impl Fn(&V) -> bool) -> Vec<u32> {
    let all = all.borrow();
    let of = all.iter().filter(|(_, v)| of(v));
    of.map(|(id, _)| id as u32).collect()
}
