//! Which task runs where: the CPUs' queues, virtual run time, preemption.

use super::{NEVER, Place, Sched, State, Task, TaskId};
use crate::account::Spent;

impl Sched {
    /// Makes a blocked task runnable: it starts, after a random wake-up latency, on an idle CPU
    /// that it may use, its last one if possible; otherwise it joins the queue of the CPU where it
    /// ran last, and may preempt the running task. Does nothing if the task is not blocked.
    pub(super) fn make_runnable(&self, id: TaskId) {
        self.settle();
        let now = self.now();
        let mut tasks = self.tasks.borrow_mut();
        if !self.sleeper_wakes(&mut tasks, id) {
            return;
        }
        let task = &mut tasks[id as usize];
        task.generation = task.generation.wrapping_add(1);
        if std::mem::take(&mut task.reported) {
            self.waiting.end(id, now);
        }
        task.waiting_on = None;
        task.account(now, task.why.into());
        let allowed = task.allowed;
        let may_run_on = |c: usize| allowed >> c & 1 != 0;
        let idle = |c: usize| may_run_on(c) && self.cpus[c].current.get().is_none();
        // The CPU of the waker, or of an interrupted task, is not idle.
        let target = if idle(task.cpu) {
            Some(task.cpu)
        } else {
            (0..self.cpus.len()).find(|&c| idle(c))
        };
        if let Some(c) = target {
            let cpu = &self.cpus[c];
            let draw = self.wakeups.borrow_mut().draw();
            let latency = (self.params.idle_wakeup * draw) as u64;
            let start = cpu.clock.get().max(now + latency);
            if self.places_moved() {
                self.rebase(task, c);
            }
            if self.cfs() {
                self.cfs_places(c, &mut tasks, id);
            } else if self.places_moved() {
                let min = cpu.min_vruntime.get();
                task.vruntime = task.vruntime.max(min - self.half_latency());
            }
            if let Some(slice) = self.eevdf() {
                self.eevdf_starts(c, &mut tasks, id, slice);
            }
            let task = &mut tasks[id as usize];
            cpu.clock.set(start);
            cpu.current.set(Some(id));
            self.due.set(c, start);
            cpu.slice_end.set(NEVER);
            cpu.resched.set(false);
            task.cpu = c;
            task.state = State::Running;
            task.started_at = start;
            task.ran_until = start;
            task.account(start, Spent::RunQueue);
            self.update_pressure(task, c, start);
            self.set_on_cpu(c, Some(task), start);
            drop(tasks);
            if c == self.here.get() && !self.interrupt.get() {
                self.enter(c);
            }
            self.note(start, u64::from(id));
            self.end_turn_by(start + self.params.quantum);
            return;
        }
        if !may_run_on(task.cpu) {
            let length = |c: usize| self.cpus[c].run_queue.borrow().len();
            let shortest = (0..self.cpus.len()).filter(|&c| may_run_on(c));
            task.cpu = shortest.min_by_key(|&c| (length(c), c)).expect("a CPU");
        }
        let c = task.cpu;
        let cpu = &self.cpus[c];
        let task = &mut tasks[id as usize];
        task.state = State::Runnable;
        self.update_pressure(task, c, now);
        if let Some(slice) = self.eevdf() {
            let preempts = self.eevdf_wakes(c, &mut tasks, id, slice);
            drop(tasks);
            return self.note_waiter(c, preempts);
        }
        if self.cfs() {
            let preempts = self.cfs_wakes(c, &mut tasks, id);
            drop(tasks);
            self.set_slice(c);
            return self.note_waiter(c, preempts);
        }
        let current = cpu.current.get().expect("a busy CPU") as usize;
        let (current_start, current_vruntime) =
            (tasks[current].started_at, tasks[current].vruntime);
        let running_vruntime =
            current_vruntime + cpu.clock.get().saturating_sub(current_start) as i64;
        let task = &mut tasks[id as usize];
        // A sleeper gets at most half a latency of credit.
        task.vruntime = task.vruntime.max(running_vruntime - self.half_latency());
        let preempts = running_vruntime > task.vruntime + self.params.wakeup_granularity as i64;
        self.enqueue(c, id);
        self.set_slice(c);
        self.note_waiter(c, preempts);
    }

    /// Appends a task to a CPU's queue.
    pub(super) fn enqueue(&self, c: usize, id: TaskId) {
        self.cpus[c].run_queue.borrow_mut().push_back(id);
        self.queued.set(self.queued.get() + 1);
    }

    /// Lets the task running on CPU `c` be rescheduled after another task has joined the CPU's
    /// queue: at its next chance if that task preempts it, otherwise at the end of its slice.
    fn note_waiter(&self, c: usize, preempts: bool) {
        let cpu = &self.cpus[c];
        if preempts {
            cpu.resched.set(true);
        }
        if c == self.here.get() && !self.interrupt.get() {
            self.end_turn_by(if preempts { 0 } else { cpu.slice_end.get() });
        }
    }

    /// Returns true if CFS places a task that wakes on an idle CPU or moves to another one.
    fn places_moved(&self) -> bool {
        self.eevdf().is_none() && self.params.place >= Place::Everywhere
    }

    /// Converts a task's virtual run time for CPU `c`, to which it moves: its distance from the
    /// least one of its CPU stays the same.
    fn rebase(&self, task: &mut Task, c: usize) {
        let min = |cpu: usize| self.cpus[cpu].min_vruntime.get();
        if task.cpu != c {
            task.vruntime += min(c) - min(task.cpu);
        }
    }

    /// Returns how far behind the others of its CPU a task that slept is placed at most, in
    /// nanoseconds.
    pub(super) fn half_latency(&self) -> i64 {
        (self.params.latency / 2) as i64
    }

    /// Sets the end of the slice of the task that runs on CPU `c`; without other tasks that wait,
    /// it has none.
    pub(super) fn set_slice(&self, c: usize) {
        let cpu = &self.cpus[c];
        let n = cpu.run_queue.borrow().len() as u64 + 1;
        if self.eevdf().is_some() {
            cpu.slice_end.set(match cpu.has_others() {
                true => self.tick_at(cpu.clock.get() + 1),
                false => NEVER,
            });
        } else if self.cfs() {
            cpu.slice_end.set(self.cfs_slice_ends(c));
        } else if n == 1 {
            cpu.slice_end.set(NEVER);
        } else if cpu.slice_end.get() == NEVER {
            let slice = (self.params.latency / n).max(self.params.min_granularity);
            cpu.slice_end.set(cpu.clock.get() + slice);
        }
    }

    /// Ends the current task's turn on CPU `c`: charges its run time, books it, and queues the task
    /// if it stays runnable. `state` is the task's state from now on.
    pub(super) fn put_current(&self, c: usize, state: State) {
        let cpu = &self.cpus[c];
        let mut tasks = self.tasks.borrow_mut();
        let charged = match self.eevdf() {
            Some(slice) => {
                self.eevdf_put(c, &mut tasks, state, slice);
                true
            }
            None if self.cfs() => {
                self.cfs_put(c, &mut tasks, state);
                true
            }
            None => false,
        };
        let id = cpu.current.take().expect("a running task");
        self.due.set(c, NEVER);
        let task = &mut tasks[id as usize];
        let ran = cpu.clock.get().saturating_sub(task.started_at);
        if !charged {
            task.vruntime += ran as i64;
        }
        let own_vruntime = task.vruntime;
        task.cpu_ns += ran;
        task.account(cpu.clock.get(), Spent::Cpu);
        if state == State::Done {
            task.ended = Some(task.accounted);
        }
        cpu.busy_ns.set(cpu.busy_ns.get() + ran);
        task.state = state;
        self.update_pressure(task, c, cpu.clock.get());
        self.set_on_cpu(c, None, cpu.clock.get());
        if state == State::Runnable {
            self.enqueue(c, id);
        } else if state == State::Blocked {
            self.worker_sleeps(&tasks, id);
        }
        if !charged {
            let queue = cpu.run_queue.borrow();
            let waiting = queue.iter().map(|&t| tasks[t as usize].vruntime).min();
            let least = waiting.map_or(own_vruntime, |v| v.min(own_vruntime));
            cpu.min_vruntime.set(cpu.min_vruntime.get().max(least));
        }
    }

    /// Starts the next task on the idle CPU `c`: from its own queue, or else from the longest other
    /// queue that has a task allowed to run here. If there is none the CPU stays idle.
    pub(super) fn pick_next(&self, c: usize) {
        // Under EEVDF a race may hold nothing but sleepers, which have to be taken out.
        if self.queued.get() == 0 && self.eevdf().is_none() {
            self.cpus[c].slice_end.set(NEVER);
            return;
        }
        // Of the tasks queued on `from`, the index of the next one that may run here.
        let next_queued_on = |from: usize| -> Option<usize> {
            let queue = self.cpus[from].run_queue.borrow();
            let tasks = self.tasks.borrow();
            (0..queue.len())
                .filter(|&i| tasks[queue[i] as usize].allowed >> c & 1 != 0)
                .min_by_key(|&i| (tasks[queue[i] as usize].vruntime, queue[i]))
        };
        let mut from = c;
        if self.cpus[c].run_queue.borrow().is_empty() {
            // Of several longest queues the first, if some task there may run here.
            let mut longest = 0;
            for other in 0..self.cpus.len() {
                let queue = self.cpus[other].run_queue.borrow();
                if queue.len() <= longest {
                    continue;
                }
                let tasks = self.tasks.borrow();
                let may_run_here = |&t: &TaskId| tasks[t as usize].allowed >> c & 1 != 0;
                if queue.iter().any(may_run_here) {
                    (longest, from) = (queue.len(), other);
                }
            }
        }
        let next = match self.eevdf() {
            Some(slice) if from == c => self.eevdf_pick(c, slice),
            _ => next_queued_on(from),
        };
        let Some(i) = next else {
            self.cpus[c].slice_end.set(NEVER);
            return;
        };
        let id = self.cpus[from]
            .run_queue
            .borrow_mut()
            .remove(i)
            .expect("an entry");
        self.queued.set(self.queued.get() - 1);
        let cpu = &self.cpus[c];
        if from != c {
            // The task cannot start before it was queued there.
            let queued_by = self.cpus[from]
                .clock
                .get()
                .min(self.now().max(cpu.clock.get()));
            cpu.clock.set(cpu.clock.get().max(queued_by));
        }
        cpu.clock.set(cpu.clock.get() + self.params.switch);
        cpu.current.set(Some(id));
        self.due.set(c, cpu.clock.get());
        cpu.resched.set(false);
        cpu.slice_end.set(NEVER);
        {
            let mut tasks = self.tasks.borrow_mut();
            if let Some(slice) = self.eevdf() {
                cpu.current.set(None);
                self.eevdf_moves(from, c, &mut tasks, id, slice);
                cpu.current.set(Some(id));
            }
            let task = &mut tasks[id as usize];
            task.state = State::Running;
            if self.places_moved() {
                self.rebase(task, c);
            }
            task.cpu = c;
            task.started_at = cpu.clock.get();
            task.ran_until = match self.eevdf().is_some() || self.cfs() {
                true => self.next_begins(c, task.started_at),
                false => task.started_at,
            };
            task.account(task.started_at, Spent::RunQueue);
            self.update_pressure(task, c, task.started_at);
            self.set_on_cpu(c, Some(task), task.started_at);
        }
        self.set_slice(c);
        self.note(cpu.clock.get(), u64::from(id) | 1 << 32);
    }
}
