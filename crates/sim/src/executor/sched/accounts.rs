//! Accounting of where tasks' time goes, by what they spend it on.

use super::pressure::Doing;
use super::{Sched, Stall, State, Task, TaskId};
use crate::account::{Spent, TaskClass, TaskTime};
use mm::world::{Waited, Waits};

impl Task {
    /// Books the time from the last call to `until` (ns) as spent on `spent_on`, inside or outside
    /// of direct reclaim. If the CPU that wakes the task is behind the one that the task ran on,
    /// nothing is booked.
    pub(super) fn account(&mut self, until: u64, spent_on: Spent) {
        let ns = until.saturating_sub(self.accounted);
        self.accounted += ns;
        let account = if self.in_reclaim {
            &mut self.time.in_reclaim
        } else {
            &mut self.time.outside
        };
        account.add(spent_on, ns);
    }

    /// Returns a copy of the task's account, closed at `end` (ns): for a living task the time since
    /// the last booking counts by its present state.
    pub(super) fn closed(&self, end: u64) -> TaskTime {
        let mut open = Self { ..*self };
        if self.ended.is_none() {
            open.account(
                end,
                match self.state {
                    State::Runnable => Spent::RunQueue,
                    State::Running => Spent::Cpu,
                    State::Blocked | State::Done => self.why.into(),
                },
            );
        }
        let ended = self.ended.unwrap_or_else(|| end.max(self.accounted));
        TaskTime {
            tasks: 1,
            lifetime: ended - self.born,
            ..open.time
        }
    }
}

impl Sched {
    /// Returns the CPU time that a task has used since it was made, in nanoseconds, with its
    /// present turn up to now.
    pub fn task_cpu_ns(&self, task: TaskId) -> u64 {
        let t = &self.tasks.borrow()[task as usize];
        let turn = match t.state {
            State::Running => self.clock(t.cpu).saturating_sub(t.started_at),
            _ => 0,
        };
        t.cpu_ns + turn
    }

    /// Sets the class of a task; tasks are of the workload by default.
    pub fn set_class(&self, task: TaskId, class: TaskClass) {
        self.tasks.borrow_mut()[task as usize].time.class = class;
    }

    /// Sets why the running task's next wait or sleep waits, if it is on no object.
    #[inline(always)]
    pub fn waits_for(&self, why: Waits) {
        self.why.set(why);
    }

    /// Sets the object of the running task's next wait or sleep, and with it the reason.
    #[inline(always)]
    pub fn waits_on(&self, what: Waited) {
        self.waits_for(what.kind.why());
        self.on.set(Some(what));
    }

    /// Notes that the running task enters direct reclaim (`inside`), or leaves it.
    pub fn in_reclaim(&self, inside: bool) {
        let now = self.now();
        let task = &mut self.tasks.borrow_mut()[self.task() as usize];
        task.account(now, Spent::Cpu);
        task.in_reclaim = inside;
    }

    /// Notes that the running task enters a memory stall (`inside`), or leaves it
    /// (`psi_memstall_enter`), for the accounts of pressure.
    pub fn in_memory_stall(&self, inside: bool) {
        let now = self.now();
        let task = &mut self.tasks.borrow_mut()[self.task() as usize];
        task.memory_stall = inside;
        self.update_pressure(task, task.cpu, now);
        self.set_on_cpu(task.cpu, Some(task), now);
    }

    /// Tells the accounts of pressure which task a CPU runs at `now`; `None`: none.
    #[inline]
    pub(super) fn set_on_cpu(&self, c: usize, task: Option<&Task>, now: u64) {
        let stalls = task.map(|task| task.memory_stall);
        self.pressure.set_on_cpu(c, stalls, now);
        let group = task.map_or(0, |task| task.group);
        self.group_pressure.set_on_cpu(c, group, stalls, now);
    }

    /// Counts the running task in the accounts of the memory control group `group` (0: none) and
    /// all that it lies in from now on.
    pub fn enter_group(&self, group: u32) {
        let now = self.now();
        let task = &mut self.tasks.borrow_mut()[self.task() as usize];
        let from = std::mem::replace(&mut task.group, group);
        if from != group {
            let counted = task.counted;
            let stalls = task.memory_stall;
            self.group_pressure
                .enter((from, group), counted, stalls, now);
        }
    }

    /// Returns how long tasks of a memory control group have stalled for each reason up to `now`,
    /// in nanoseconds.
    pub fn group_stalls(&self, group: u32, now: u64) -> impl Iterator<Item = (Stall, u64)> {
        let totals = self.group_pressure.totals(group, now);
        Stall::ALL.into_iter().zip(totals)
    }

    /// Updates the pressure accounts after a task's state, CPU or stall has changed at `now`: the
    /// task is counted on CPU `c` by what it does, and no longer as before.
    #[inline]
    pub(super) fn update_pressure(&self, task: &mut Task, c: usize, now: u64) {
        let mut bits = match task.state {
            State::Running | State::Runnable => Doing::RUNS,
            State::Blocked if task.io => Doing::WAITS_FOR_IO,
            State::Blocked | State::Done => 0,
        };
        if task.memory_stall && task.state != State::Done {
            bits |= Doing::MEMORY_STALL;
        }
        let doing = Doing::new(bits);
        let before = std::mem::replace(&mut task.counted, (c, doing));
        if before != (c, doing) {
            self.pressure.move_task(before, (c, doing), now);
            self.group_pressure
                .move_task(task.group, before, (c, doing), now);
        }
    }

    /// Returns how long tasks have stalled for each reason from the beginning of the accounts to
    /// `now`, in nanoseconds.
    pub fn stalls(&self, now: u64) -> impl Iterator<Item = (Stall, u64)> {
        Stall::ALL.into_iter().zip(self.pressure.totals(now))
    }

    /// Charges `ns` nanoseconds of CPU time of the running task's own program.
    pub fn charge_user(&self, ns: u64) {
        self.charge(ns);
        self.tasks.borrow_mut()[self.task() as usize].time.user += ns;
    }

    /// Restarts all accounts of time at now; tasks keep only their class.
    pub fn restart_accounts(&self) {
        let now = self.now();
        self.pressure.restart(now);
        self.group_pressure.restart(now);
        for task in self.tasks.borrow_mut().iter_mut() {
            // A task that was woken and starts a little later has its run-queue time booked ahead.
            let begin = match task.state {
                State::Running => task.started_at.max(now),
                _ => now,
            };
            (task.accounted, task.born) = (begin, begin);
            task.ended = task.ended.map(|_| begin);
            task.time = TaskTime {
                class: task.time.class,
                ..TaskTime::default()
            };
        }
    }

    /// Returns where each task's time went up to `end`, ordered by number, without task 0
    /// (interrupts) and without tasks that ended before the accounts began.
    pub fn task_times(&self, end: u64) -> Vec<(TaskId, TaskTime)> {
        let tasks = self.tasks.borrow();
        (1..)
            .zip(tasks.iter().skip(1))
            .filter(|(_, t)| t.ended != Some(t.born))
            .map(|(id, t)| (id, t.closed(end)))
            .collect()
    }

    /// Returns the running task's account (where its time went) up to now; nothing is booked for
    /// task 0, which stands for interrupts.
    pub fn own_time(&self) -> TaskTime {
        let now = self.now();
        let task = &mut self.tasks.borrow_mut()[self.task() as usize];
        if self.task() != 0 {
            task.account(now, Spent::Cpu);
        }
        task.time
    }
}
