//! Workers (Linux kernel/workqueue.c): kernel threads that do what is queued to their pool, whoever queued it. The one that
//! went to sleep last is woken first, so that a pool's work is done by one thread while none of it waits.
//!
//! Here each kind of work is a task of its own. What the scheduler knows of a thread (how long it has run, what it is owed)
//! is the worker's and not the work's: whatever work begins takes the place of the worker that is its next one.

use super::{Sched, State, Task, TaskId};
use std::mem::swap;

/// Threads that do each other's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Those bound to a CPU (`kworker/0:1`).
    Bound,
    /// Those that run anywhere (`kworker/u4:1`).
    Unbound,
}

impl Sched {
    /// A task is work for a pool from now on.
    pub fn work_for(&self, task: TaskId, pool: Pool) {
        self.tasks.borrow_mut()[task as usize].pool = Some(pool);
    }

    /// A task goes to sleep: its worker is idle, if it has one.
    pub(super) fn worker_sleeps(&self, tasks: &[Task], id: TaskId) {
        if let Some(pool) = tasks[id as usize].pool {
            let idle = &mut self.idle_workers.borrow_mut()[pool as usize];
            debug_assert!(!idle.contains(&id), "it was awake");
            idle.push(id);
        }
    }

    /// Whether a task is asleep. Then it wakes, and if it is work, in the place of the worker that has slept least on its CPU.
    pub(super) fn sleeper_wakes(&self, tasks: &mut [Task], id: TaskId) -> bool {
        let sleeps = tasks[id as usize].state == State::Blocked;
        if sleeps && let Some(pool) = tasks[id as usize].pool {
            self.worker_wakes(tasks, id, pool);
        }
        sleeps
    }

    /// A task takes the place of the worker that has slept least on its CPU, which takes its own.
    fn worker_wakes(&self, tasks: &mut [Task], id: TaskId, pool: Pool) {
        let idle = &mut self.idle_workers.borrow_mut()[pool as usize];
        // A task that was just made has no worker yet.
        let Some(own) = idle.iter().position(|&t| t == id) else {
            return;
        };
        let cpu = tasks[id as usize].cpu;
        let last = idle
            .iter()
            .rposition(|&t| tasks[t as usize].cpu == cpu)
            .expect("itself at least");
        let other = idle[last];
        idle[own] = other;
        idle.remove(last);
        if other == id {
            return;
        }
        let [a, b] = tasks
            .get_disjoint_mut([id as usize, other as usize])
            .expect("two tasks");
        swap(&mut a.vruntime, &mut b.vruntime);
        swap(&mut a.ran_until, &mut b.ran_until);
        swap(&mut a.entity, &mut b.entity);
        for cpu in &self.cpus {
            cpu.race.rename(id, other);
        }
    }
}
