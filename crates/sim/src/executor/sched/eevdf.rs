//! Earliest eligible virtual deadline first, the scheduler of Linux 6.6 and later (kernel/sched/fair.c).
//! Virtual times are nanoseconds of run time, for a task of another weight that many times shorter.
//!
//! A CPU's virtual time is the mean of the run times of all that it has, by weight. Whoever has run for less is owed time and
//! is *eligible*; of those the one runs whose deadline, a slice after it was placed or had its last slice,
//! is the earliest. Who begins to run is protected until its slice is over or it is not eligible any more. Who
//! sleeps keeps what it is owed; who owes stays in the race until it owes nothing
//! (`DELAY_DEQUEUE`, `DELAY_ZERO`).

use super::{Cpu, Sched, State, Task, TaskId};
use std::cell::{Cell, RefCell};

/// The weight of a task of nice 0.
const NICE_0_LOAD: i64 = 1024;
/// That of one of nice -20, as workers of high priority are.
const NICE_LEAST_LOAD: i64 = 88_761;

/// What EEVDF knows of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entity {
    /// Its share of a CPU beside others' (`sched_prio_to_weight`).
    weight: i64,
    /// What it was owed when it left its CPU's race.
    lag: i64,
    deadline: i64,
    /// It runs and keeps its CPU while it is eligible.
    protected: bool,
    /// It sleeps and is still in the race, on this CPU.
    delayed: bool,
    on: u32,
    /// It has been placed before, as the process that it is.
    pub(super) placed: bool,
}

impl Default for Entity {
    fn default() -> Self {
        Self {
            weight: NICE_0_LOAD,
            lag: 0,
            deadline: 0,
            protected: false,
            delayed: false,
            on: 0,
            placed: false,
        }
    }
}

impl Entity {
    /// Its share of a CPU beside others'.
    pub(super) fn weight(&self) -> u64 {
        self.weight as u64
    }

    /// Time of a task of nice 0 as this one's virtual time (`calc_delta_fair`).
    pub(super) fn fair(&self, ns: i64) -> i64 {
        match self.weight {
            NICE_0_LOAD => ns,
            weight => (i128::from(ns) * i128::from(NICE_0_LOAD) / i128::from(weight)) as i64,
        }
    }
}

/// What EEVDF knows of a CPU beside its run queue.
#[derive(Default)]
pub(super) struct Race {
    /// Sleepers that are still in the race.
    delayed: RefCell<Vec<TaskId>>,
    /// Its virtual time as of the last look.
    zero: Cell<i64>,
    /// Somebody who woke has asked for the CPU: its clock stands still until it has changed hands.
    pub(super) skips: Cell<bool>,
    /// Up to when who had the CPU last has run by that clock, if it stood still.
    stood: Cell<Option<u64>>,
}

impl Race {
    /// Two sleepers change places.
    pub(super) fn rename(&self, a: TaskId, b: TaskId) {
        for t in self.delayed.borrow_mut().iter_mut() {
            *t = match *t {
                t if t == a => b,
                t if t == b => a,
                t => t,
            };
        }
    }

    /// The CPU changes hands; who had it has run up to then. Its clock goes on.
    pub(super) fn hand_over(&self, ran_until: u64) {
        self.stood.set(self.skips.take().then_some(ran_until));
    }
}

/// All that take part on a CPU: the sum of their run times by weight, and their weights.
#[derive(Clone, Copy)]
struct Average {
    sum: i128,
    load: i64,
}

impl Average {
    const NOBODY: Self = Self { sum: 0, load: 0 };

    fn with(self, task: &Task) -> Self {
        let weight = task.entity.weight;
        Self {
            sum: self.sum + i128::from(task.vruntime) * i128::from(weight),
            load: self.load + weight,
        }
    }

    fn mean(self) -> i64 {
        self.sum.div_euclid(i128::from(self.load.max(1))) as i64
    }

    fn eligible(self, vruntime: i64) -> bool {
        self.sum >= i128::from(vruntime) * i128::from(self.load)
    }
}

impl Sched {
    /// The slice of a task, where the CPUs are given by EEVDF.
    #[inline(always)]
    pub(super) fn eevdf(&self) -> Option<i64> {
        self.params.eevdf_slice.map(|ns| ns as i64)
    }

    fn average(&self, c: usize, tasks: &[Task]) -> Average {
        let cpu = &self.cpus[c];
        let (queue, delayed) = (cpu.run_queue.borrow(), cpu.race.delayed.borrow());
        let others = queue.iter().chain(delayed.iter());
        let all = others
            .chain(cpu.current.get().as_ref())
            .fold(Average::NOBODY, |all, &t| all.with(&tasks[t as usize]));
        if all.load > 0 {
            cpu.race.zero.set(all.mean());
        }
        all
    }

    /// The running task will be a new process when it wakes, which nobody owes anything and whose first slice is a new
    /// one's (`sched_fork`).
    pub fn begins_anew(&self) {
        let task = self.task() as usize;
        self.tasks.borrow_mut()[task].entity.placed = false;
    }

    /// Workers of high priority have the least nice value.
    pub fn set_highest_priority(&self, task: TaskId) {
        self.tasks.borrow_mut()[task as usize].entity.weight = NICE_LEAST_LOAD;
    }

    /// Up to when the running task has run when its CPU may change hands: a clock that stands still is where it was, or at
    /// the tick that came since (`rq_clock_skip_update`).
    pub(super) fn runs_until(&self, c: usize) -> u64 {
        let clock = self.cpus[c].clock.get();
        match self.cpus[c].race.skips.get() {
            true => self.tick_at(clock + 1).saturating_sub(self.params.tick),
            false => clock,
        }
    }

    /// As [`Self::update_current`] when the CPU may change hands.
    fn update_current_to_leave(&self, c: usize, tasks: &mut [Task], slice: i64) -> bool {
        self.update_to(c, tasks, slice, self.runs_until(c))
    }

    /// Up to when who had a CPU before has run, if that is not when it gave it up: it is the next one's beginning.
    pub(super) fn next_begins(&self, c: usize, at: u64) -> u64 {
        self.cpus[c]
            .race
            .stood
            .get()
            .map_or(at, |then| then.min(at))
    }

    /// Brings the running task's run time up to its CPU's clock; a deadline that has passed is a new one
    /// from there on. Returns whether one did. Ticks look, too.
    fn update_current(&self, c: usize, tasks: &mut [Task], slice: i64) -> bool {
        self.update_to(c, tasks, slice, self.cpus[c].clock.get())
    }

    fn update_to(&self, c: usize, tasks: &mut [Task], slice: i64, now: u64) -> bool {
        let cpu = &self.cpus[c];
        let Some(id) = cpu.current.get() else {
            return false;
        };
        let task = &mut tasks[id as usize];
        let mut renewed = false;
        let last_tick = self.tick_at(now + 1).saturating_sub(self.params.tick);
        for at in [last_tick, now] {
            let ran = at.saturating_sub(task.ran_until);
            if ran == 0 {
                continue;
            }
            task.vruntime += task.entity.fair(ran as i64);
            task.ran_until = at;
            if task.vruntime >= task.entity.deadline {
                task.entity.deadline = task.vruntime + task.entity.fair(slice);
                task.entity.protected = false;
                renewed = true;
            }
        }
        renewed
    }

    /// Gives a task that joins a CPU its place: what it is owed is as much beside the others as it was.
    fn place(&self, c: usize, tasks: &mut [Task], id: TaskId, slice: i64) {
        let all = self.average(c, tasks);
        let entity = tasks[id as usize].entity;
        let (at, lag) = match all.load {
            0 => (self.cpus[c].race.zero.get(), 0),
            load => {
                let own = i128::from(entity.lag) * i128::from(load + entity.weight);
                (all.mean(), (own / i128::from(load)) as i64)
            }
        };
        let task = &mut tasks[id as usize];
        task.vruntime = at - lag;
        let slice = entity.fair(slice);
        let half = if entity.placed { slice } else { slice / 2 };
        task.entity.deadline = task.vruntime + half;
        task.entity.placed = true;
    }

    /// What a task is owed that leaves a CPU's race, at most two slices or a tick.
    fn lag(&self, all: Average, task: &Task, slice: i64) -> i64 {
        let limit = task.entity.fair((2 * slice).max(self.params.tick as i64));
        (all.mean() - task.vruntime).clamp(-limit, limit)
    }

    /// A task wakes on a CPU that is busy and joins its queue. Returns whether the running one has to look
    /// who is next.
    pub(super) fn eevdf_wakes(&self, c: usize, tasks: &mut [Task], id: TaskId, slice: i64) -> bool {
        let cpu = &self.cpus[c];
        let resched = if tasks[id as usize].entity.delayed {
            self.leave_delayed(tasks, id, slice);
            // What it has left to owe it owes; who was owed something is placed anew, with nothing.
            if tasks[id as usize].entity.lag > 0 {
                tasks[id as usize].entity.lag = 0;
                self.place(c, tasks, id, slice);
            }
            self.enqueue(c, id);
            self.update_current(c, tasks, slice)
        } else {
            let others = cpu.has_others();
            let renewed = self.update_current(c, tasks, slice);
            let lost = others && (renewed || self.lost_its_turn(c, tasks));
            self.place(c, tasks, id, slice);
            self.enqueue(c, id);
            lost
        };
        self.set_slice(c);
        let resched = resched || self.next(c, tasks) == Some(id);
        if resched || cpu.resched.get() {
            cpu.race.skips.set(true);
        }
        resched
    }

    /// A task begins to run on an idle CPU that has nobody else.
    pub(super) fn eevdf_starts(&self, c: usize, tasks: &mut [Task], id: TaskId, slice: i64) {
        if tasks[id as usize].entity.delayed {
            self.leave_delayed(tasks, id, slice);
        }
        self.place(c, tasks, id, slice);
        tasks[id as usize].entity.protected = true;
    }

    /// Takes a sleeper out of its CPU's race, with what it is owed then.
    fn leave_delayed(&self, tasks: &mut [Task], id: TaskId, slice: i64) {
        let c = tasks[id as usize].entity.on as usize;
        let all = self.average(c, tasks);
        let mut delayed = self.cpus[c].race.delayed.borrow_mut();
        let at = delayed.iter().position(|&t| t == id);
        delayed.swap_remove(at.expect("a sleeper in the race"));
        let task = &mut tasks[id as usize];
        task.entity.delayed = false;
        task.entity.lag = self.lag(all, task, slice);
    }

    /// The running task is not protected and owes time.
    fn lost_its_turn(&self, c: usize, tasks: &[Task]) -> bool {
        self.cpus[c].current.get().is_some_and(|id| {
            let t = &tasks[id as usize];
            !t.entity.protected && !self.average(c, tasks).eligible(t.vruntime)
        })
    }

    /// Who has the CPU next: the running task, one that waits, or a sleeper that is out of the race then.
    fn next(&self, c: usize, tasks: &[Task]) -> Option<TaskId> {
        let cpu = &self.cpus[c];
        let all = self.average(c, tasks);
        let of = |id: TaskId| &tasks[id as usize];
        let current = cpu.current.get();
        if current.is_some() && !cpu.has_others() {
            return current;
        }
        let current = current.filter(|&id| all.eligible(of(id).vruntime));
        if current.is_some_and(|id| of(id).entity.protected) {
            return current;
        }
        let (queue, delayed) = (cpu.run_queue.borrow(), cpu.race.delayed.borrow());
        let best = queue
            .iter()
            .chain(delayed.iter())
            .copied()
            .filter(|&id| all.eligible(of(id).vruntime))
            .min_by_key(|&id| (of(id).entity.deadline, id));
        match (current, best) {
            (Some(own), Some(best)) if of(own).entity.deadline < of(best).entity.deadline => {
                Some(own)
            }
            (own, best) => best.or(own),
        }
    }

    /// A tick, or the end of a turn that was asked for: whether the running task goes on. What it was asked
    /// for is answered then.
    pub(super) fn eevdf_keeps(&self, c: usize, slice: i64) -> bool {
        let cpu = &self.cpus[c];
        let mut tasks = self.tasks.borrow_mut();
        let renewed = self.update_current_to_leave(c, &mut tasks, slice);
        let look = cpu.resched.get() || renewed || self.lost_its_turn(c, &tasks);
        if look && self.next_runnable(c, &mut tasks, slice) != cpu.current.get() {
            return false;
        }
        cpu.race.skips.set(false);
        cpu.resched.set(false);
        self.set_slice(c);
        true
    }

    /// As [`Self::next`]; sleepers whose turn it would be leave the race.
    fn next_runnable(&self, c: usize, tasks: &mut [Task], slice: i64) -> Option<TaskId> {
        loop {
            let id = self.next(c, tasks)?;
            if !tasks[id as usize].entity.delayed {
                return Some(id);
            }
            self.leave_delayed(tasks, id, slice);
            let entity = &mut tasks[id as usize].entity;
            entity.lag = entity.lag.min(0);
        }
    }

    /// The running task's turn is over; it is still the current one.
    pub(super) fn eevdf_put(&self, c: usize, tasks: &mut [Task], becomes: State, slice: i64) {
        self.update_current_to_leave(c, tasks, slice);
        let cpu = &self.cpus[c];
        let id = cpu.current.get().expect("a running task");
        let all = self.average(c, tasks);
        let task = &mut tasks[id as usize];
        cpu.race.hand_over(task.ran_until);
        task.entity.protected = false;
        if !task.entity.placed {
            task.entity.lag = 0;
        } else if becomes == State::Blocked && !all.eligible(task.vruntime) {
            (task.entity.delayed, task.entity.on) = (true, c as u32);
            self.cpus[c].race.delayed.borrow_mut().push(id);
        } else if becomes != State::Runnable {
            task.entity.lag = self.lag(all, task, slice);
        }
    }

    /// The place in a CPU's queue of the task that is next, with nobody running there.
    pub(super) fn eevdf_pick(&self, c: usize, slice: i64) -> Option<usize> {
        let mut tasks = self.tasks.borrow_mut();
        let id = self.next_runnable(c, &mut tasks, slice)?;
        let queue = self.cpus[c].run_queue.borrow();
        queue.iter().position(|&t| t == id)
    }

    /// A task was taken from a CPU's queue to run on another one, which has nobody.
    pub(super) fn eevdf_moves(
        &self,
        from: usize,
        to: usize,
        tasks: &mut [Task],
        id: TaskId,
        slice: i64,
    ) {
        if from != to {
            let all = self.average(from, tasks);
            // It was in that queue until now.
            let task = &mut tasks[id as usize];
            task.entity.lag = self.lag(all.with(task), task, slice);
            self.place(to, tasks, id, slice);
        }
        tasks[id as usize].entity.protected = true;
    }
}

impl Cpu {
    /// Whether anybody is in its race beside the task that runs.
    pub(super) fn has_others(&self) -> bool {
        !self.run_queue.borrow().is_empty() || !self.race.delayed.borrow().is_empty()
    }
}
