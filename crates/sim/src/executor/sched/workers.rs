//! Workers (Linux kernel/workqueue.c): kernel threads that do the work queued to their pool. The
//! worker that went to sleep last is woken first, so that one thread does a pool's work while no
//! work is waiting.
//!
//! Here each kind of work is a task of its own. The scheduler's state of a thread (how long it has
//! run, how much time it is owed) belongs to the worker and not to the work: a work item that
//! begins takes over the state of the worker that is next.

use super::{Sched, State, Task, TaskId};
use std::mem::swap;

/// A pool of threads that do each other's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Workers bound to a CPU (`kworker/0:1`).
    Bound,
    /// Workers that run on any CPU (`kworker/u4:1`).
    Unbound,
}

impl Sched {
    /// Makes a task work of a pool from now on.
    pub fn work_for(&self, task: TaskId, pool: Pool) {
        self.tasks.borrow_mut()[task as usize].pool = Some(pool);
    }

    /// Adds a task that goes to sleep to the idle workers of its pool, behind those that went
    /// before; does nothing if the task is not work of a pool.
    pub(super) fn worker_sleeps(&self, tasks: &[Task], id: TaskId) {
        if let Some(pool) = tasks[id as usize].pool {
            let idle = &mut self.idle_workers.borrow_mut()[pool as usize];
            debug_assert!(!idle.contains(&id), "it was awake");
            idle.push(id);
        }
    }

    /// Returns true if a task is asleep and so wakes now. If the task is work of a pool, it takes
    /// over the scheduler state of the worker that went to sleep last on its CPU.
    pub(super) fn sleeper_wakes(&self, tasks: &mut [Task], id: TaskId) -> bool {
        let sleeps = tasks[id as usize].state == State::Blocked;
        if sleeps && let Some(pool) = tasks[id as usize].pool {
            self.worker_wakes(tasks, id, pool);
        }
        sleeps
    }

    /// Swaps the scheduler state (virtual run time and the like) of a task that wakes with that of
    /// the pool's worker that went to sleep last on its CPU, because a kernel gives work to that
    /// worker; and takes it off the idle ones.
    fn worker_wakes(&self, tasks: &mut [Task], id: TaskId, pool: Pool) {
        let idle = &mut self.idle_workers.borrow_mut()[pool as usize];
        // A task that was just created has no worker yet.
        let Some(own_place) = idle.iter().position(|&t| t == id) else {
            return;
        };
        let cpu = tasks[id as usize].cpu;
        let last_place = idle
            .iter()
            .rposition(|&t| tasks[t as usize].cpu == cpu)
            .expect("itself at least");
        let last_worker = idle[last_place];
        idle[own_place] = last_worker;
        idle.remove(last_place);
        if last_worker == id {
            return;
        }
        let [a, b] = tasks
            .get_disjoint_mut([id as usize, last_worker as usize])
            .expect("two tasks");
        swap(&mut a.vruntime, &mut b.vruntime);
        swap(&mut a.ran_until, &mut b.ran_until);
        swap(&mut a.entity, &mut b.entity);
        for cpu in &self.cpus {
            cpu.race.rename(id, last_worker);
        }
    }
}
