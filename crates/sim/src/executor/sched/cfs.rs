//! The scheduler of Linux 2.6.23 to 6.5 as it is (kernel/sched/fair.c): a task that wakes is placed
//! beside those that the CPU has, and slices end at timer ticks. With `sched_place` below 2 a slice
//! ends exactly when its time is over.

use super::{Cpu, NEVER, Place, Sched, State, Task, TaskId};

impl Sched {
    /// Returns true if CPUs are given as the kernels' CFS does it.
    pub(super) fn cfs(&self) -> bool {
        self.params.eevdf_slice.is_none() && self.params.place == Place::Kernels
    }

    /// Returns the least virtual run time of the tasks that wait for a CPU.
    fn leftmost(cpu: &Cpu, tasks: &[Task]) -> Option<i64> {
        let queue = cpu.run_queue.borrow();
        queue.iter().map(|&t| tasks[t as usize].vruntime).min()
    }

    /// Charges the current task of CPU `c` up to `now`, by its weight, and returns its virtual run
    /// time (`update_curr`); `None` if the CPU is idle.
    fn cfs_update(&self, c: usize, tasks: &mut [Task], now: u64) -> Option<i64> {
        let task = &mut tasks[self.cpus[c].current.get()? as usize];
        let ran = now.saturating_sub(task.ran_until);
        task.ran_until += ran;
        task.vruntime += task.entity.fair(ran as i64);
        Some(task.vruntime)
    }

    /// Raises the least virtual run time of CPU `c` to that of its tasks, `current` being the
    /// running one's; the least never decreases (`update_min_vruntime`).
    fn cfs_follow(&self, c: usize, tasks: &[Task], current: Option<i64>) {
        let cpu = &self.cpus[c];
        let least = current.into_iter().chain(Self::leftmost(cpu, tasks)).min();
        if let Some(least) = least {
            cpu.min_vruntime.set(cpu.min_vruntime.get().max(least));
        }
    }

    /// Returns the slice of a task beside the others of CPU `c`, in nanoseconds: its part, by
    /// weight, of the latency (`sched_slice`). `joins`: the task is not among them yet.
    fn cfs_slice(&self, c: usize, tasks: &[Task], id: TaskId, joins: bool) -> u64 {
        let cpu = &self.cpus[c];
        let queue = cpu.run_queue.borrow();
        let all = queue.iter().copied().chain(cpu.current.get());
        let (mut load, mut count) = (0, 0);
        for t in all.chain(joins.then_some(id)) {
            load += tasks[t as usize].entity.weight();
            count += 1;
        }
        let period = self.params.latency.max(self.params.min_granularity * count);
        let share = period * tasks[id as usize].entity.weight() / load.max(1);
        share.max(self.params.min_granularity)
    }

    /// Sets the virtual run time of a task that wakes on CPU `c`: at most half a latency behind the
    /// CPU's tasks, so that a sleeper does not save up time. A new task is placed as if it had just
    /// had its slice (`place_entity`).
    pub(super) fn cfs_places(&self, c: usize, tasks: &mut [Task], id: TaskId) {
        let current = self.cfs_update(c, tasks, self.cpus[c].clock.get());
        self.cfs_follow(c, tasks, current);
        let min = self.cpus[c].min_vruntime.get();
        let least_vruntime = match std::mem::replace(&mut tasks[id as usize].entity.placed, true) {
            true => min - self.half_latency(),
            false => {
                let slice = self.cfs_slice(c, tasks, id, true) as i64;
                min + tasks[id as usize].entity.fair(slice)
            }
        };
        let task = &mut tasks[id as usize];
        task.vruntime = task.vruntime.max(least_vruntime);
    }

    /// Places a task that wakes on the busy CPU `c`, and queues it there. Returns true if it
    /// preempts the running task, which is ahead of it by more than the wake-up granularity
    /// (`wakeup_preempt_entity`).
    pub(super) fn cfs_wakes(&self, c: usize, tasks: &mut [Task], id: TaskId) -> bool {
        self.cfs_places(c, tasks, id);
        let cpu = &self.cpus[c];
        self.enqueue(c, id);
        let task = &tasks[id as usize];
        let granularity = task.entity.fair(self.params.wakeup_granularity as i64);
        let current = cpu.current.get().expect("a busy CPU") as usize;
        let preempts = tasks[current].vruntime > task.vruntime + granularity;
        if preempts || cpu.resched.get() {
            cpu.race.frozen.set(true);
        }
        preempts
    }

    /// Returns the time of the tick that ends the slice of the task running on CPU `c`: the first
    /// one after the slice's time is over, or after the task has got a slice ahead of the next task
    /// (`check_preempt_tick`). `NEVER` if no task waits.
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

    /// Charges the task whose turn on CPU `c` ends, and updates the CPU's least virtual run time,
    /// in which a task that leaves (`becomes`) no longer counts; the task is still the current one.
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
