//! The scheduler of Linux 2.6.23 to 6.5 as it is (kernel/sched/fair.c): who sleeps is placed beside those that the CPU has,
//! and a slice is looked at when the timer ticks. With `sched_place` below 2 a slice ends at its
//! time.

use super::{Cpu, NEVER, Place, Sched, State, Task, TaskId};

impl Sched {
    /// Whether CPUs are given as kernels' CFS does it.
    pub(super) fn cfs(&self) -> bool {
        self.params.eevdf_slice.is_none() && self.params.place == Place::Kernels
    }

    /// The least virtual run time of those that wait for a CPU.
    fn leftmost(cpu: &Cpu, tasks: &[Task]) -> Option<i64> {
        let queue = cpu.run_queue.borrow();
        queue.iter().map(|&t| tasks[t as usize].vruntime).min()
    }

    /// Brings the run time of the task that has a CPU up to a time, and returns its virtual run time (`update_curr`).
    fn cfs_update(&self, c: usize, tasks: &mut [Task], now: u64) -> Option<i64> {
        let task = &mut tasks[self.cpus[c].current.get()? as usize];
        let ran = now.saturating_sub(task.ran_until);
        task.ran_until += ran;
        task.vruntime += task.entity.fair(ran as i64);
        Some(task.vruntime)
    }

    /// A CPU's least virtual run time follows the least of its tasks, and never goes back (`update_min_vruntime`).
    fn cfs_follow(&self, c: usize, tasks: &[Task], current: Option<i64>) {
        let cpu = &self.cpus[c];
        let least = current.into_iter().chain(Self::leftmost(cpu, tasks)).min();
        if let Some(least) = least {
            cpu.min_vruntime.set(cpu.min_vruntime.get().max(least));
        }
    }

    /// What a task may have at a stretch beside others (`sched_slice`), `joins` if it is not among them yet.
    fn cfs_slice(&self, c: usize, tasks: &[Task], id: TaskId, joins: bool) -> u64 {
        let cpu = &self.cpus[c];
        let queue = cpu.run_queue.borrow();
        let all = queue.iter().copied().chain(cpu.current.get());
        let (mut load, mut n) = (0, 0);
        for t in all.chain(joins.then_some(id)) {
            load += tasks[t as usize].entity.weight();
            n += 1;
        }
        let period = self.params.latency.max(self.params.min_granularity * n);
        let share = period * tasks[id as usize].entity.weight() / load.max(1);
        share.max(self.params.min_granularity)
    }

    /// A task that wakes is at most half a latency behind those that the CPU has; a new one has had its slice
    /// (`place_entity`).
    pub(super) fn cfs_places(&self, c: usize, tasks: &mut [Task], id: TaskId) {
        let current = self.cfs_update(c, tasks, self.cpus[c].clock.get());
        self.cfs_follow(c, tasks, current);
        let min = self.cpus[c].min_vruntime.get();
        let from = match std::mem::replace(&mut tasks[id as usize].entity.placed, true) {
            true => min - self.half_latency(),
            false => {
                let slice = self.cfs_slice(c, tasks, id, true) as i64;
                min + tasks[id as usize].entity.fair(slice)
            }
        };
        let task = &mut tasks[id as usize];
        task.vruntime = task.vruntime.max(from);
    }

    /// A task wakes on a CPU that is busy and joins its queue. Returns whether it is behind the running one by more than is
    /// left to that (`wakeup_preempt_entity`).
    pub(super) fn cfs_wakes(&self, c: usize, tasks: &mut [Task], id: TaskId) -> bool {
        self.cfs_places(c, tasks, id);
        let cpu = &self.cpus[c];
        self.enqueue(c, id);
        let task = &tasks[id as usize];
        let left = task.entity.fair(self.params.wakeup_granularity as i64);
        let current = cpu.current.get().expect("a busy CPU") as usize;
        let preempts = tasks[current].vruntime > task.vruntime + left;
        if preempts || cpu.resched.get() {
            cpu.race.skips.set(true);
        }
        preempts
    }

    /// The tick that ends the running task's slice: the first one behind its time, or behind it being as far ahead
    /// of the next task (`check_preempt_tick`).
    pub(super) fn cfs_slice_ends(&self, c: usize) -> u64 {
        let cpu = &self.cpus[c];
        let tasks = self.tasks.borrow();
        let (Some(id), Some(least)) = (cpu.current.get(), Self::leftmost(cpu, &tasks)) else {
            return NEVER;
        };
        let slice = self.cfs_slice(c, &tasks, id, false);
        let slice = slice.min(self.params.latency);
        let task = &tasks[id as usize];
        let ahead = (least + slice as i64 + 1 - task.vruntime).max(0) as u64;
        let began = task.started_at;
        let ahead = (task.ran_until + ahead).max(began + self.params.min_granularity);
        let ends = ahead.min(began + slice + 1);
        self.tick_at(ends.max(cpu.clock.get() + 1))
    }

    /// The running task's turn is over; it is still the current one.
    pub(super) fn cfs_put(&self, c: usize, tasks: &mut [Task], becomes: State) {
        let until = self.runs_until(c);
        let own = self.cfs_update(c, tasks, until);
        let id = self.cpus[c].current.get().expect("a running task");
        self.cpus[c].race.hand_over(tasks[id as usize].ran_until);
        self.cfs_follow(c, tasks, own);
        if becomes != State::Runnable {
            self.cfs_follow(c, tasks, None);
        }
    }
}
