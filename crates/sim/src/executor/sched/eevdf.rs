//! Earliest eligible virtual deadline first, the scheduler of Linux 6.6 and later
//! (kernel/sched/fair.c). Virtual times are nanoseconds of run time; a heavier task's virtual time
//! passes more slowly by the ratio of weights.
//!
//! A CPU's virtual time is the mean of its tasks' virtual run times, by weight. A task that has run
//! for less is owed time and is *eligible*. Of the eligible tasks the one with the earliest
//! deadline runs; a deadline is a slice after the task was placed or used up its last slice. A task
//! that begins to run is protected until its slice is over or it is not eligible any more. A task
//! that sleeps while it is owed time keeps that claim; one that sleeps while it owes time stays in
//! the race, as the kernel's delayed dequeue has it, until it owes nothing (`DELAY_DEQUEUE`,
//! `DELAY_ZERO`).

use super::{Cpu, Sched, State, Task, TaskId};
use std::cell::{Cell, RefCell};

/// The weight of a task of nice 0.
const NICE_0_LOAD: i64 = 1024;
/// The weight of a task of nice -20, as workers of high priority have.
const NICE_LEAST_LOAD: i64 = 88_761;

/// A task's state under EEVDF.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entity {
    /// The task's weight (`sched_prio_to_weight`), which sets its share of a CPU.
    weight: i64,
    /// Virtual time that the task was owed when it left its CPU's race; negative if it owed time.
    lag: i64,
    deadline: i64,
    /// True while the task runs and keeps its CPU as long as it is eligible.
    protected: bool,
    /// True if the task sleeps and is still in the race, on the CPU `on`.
    delayed: bool,
    on: u32,
    /// True if the task has been placed since it became the process that it is.
    pub(super) placed: bool,
}

impl Default for Entity {
    /// Returns the state of a new task of nice 0, which is not placed in any race yet.
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
    /// Returns the task's weight.
    pub(super) fn weight(&self) -> u64 {
        self.weight as u64
    }

    /// Converts `ns` nanoseconds of real run time to this task's virtual time: shorter for a
    /// heavier task (`calc_delta_fair`).
    pub(super) fn fair(&self, ns: i64) -> i64 {
        match self.weight {
            NICE_0_LOAD => ns,
            weight => (i128::from(ns) * i128::from(NICE_0_LOAD) / i128::from(weight)) as i64,
        }
    }
}

/// A CPU's state under EEVDF beside its run queue. CFS uses the two fields of the stopped clock.
#[derive(Default)]
pub(super) struct Race {
    /// Sleepers that are still in the race.
    delayed: RefCell<Vec<TaskId>>,
    /// The CPU's virtual time when it was last computed.
    virtual_time: Cell<i64>,
    /// True if a task that woke has asked for the CPU: the run-queue clock then stands still until
    /// the CPU changes hands.
    pub(super) frozen: Cell<bool>,
    /// Time up to which the CPU's last task was charged, if the run-queue clock stood still when
    /// the CPU changed hands; `None` if that clock ran.
    ran_to: Cell<Option<u64>>,
}

impl Race {
    /// Swaps the numbers of two tasks in the list of sleepers that are still in the race, because a
    /// worker takes the place of another.
    pub(super) fn rename(&self, a: TaskId, b: TaskId) {
        for t in self.delayed.borrow_mut().iter_mut() {
            *t = match *t {
                t if t == a => b,
                t if t == b => a,
                t => t,
            };
        }
    }

    /// Notes that the CPU changes hands, where its last task was charged up to `ran_until`. The
    /// run-queue clock runs again.
    pub(super) fn hand_over(&self, ran_until: u64) {
        self.ran_to.set(self.frozen.take().then_some(ran_until));
    }
}

/// The tasks in a CPU's race: the sum of their virtual run times by weight, and the sum of weights.
#[derive(Clone, Copy)]
struct Average {
    sum: i128,
    load: i64,
}

impl Average {
    const NOBODY: Self = Self { sum: 0, load: 0 };

    /// Returns the average with a task added.
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

    /// Returns true if a task with this virtual run time owes no time.
    fn eligible(self, vruntime: i64) -> bool {
        self.sum >= i128::from(vruntime) * i128::from(self.load)
    }
}

impl Sched {
    /// Returns the slice of a task if CPUs are given by EEVDF; `None` under CFS.
    #[inline(always)]
    pub(super) fn eevdf(&self) -> Option<i64> {
        self.params.eevdf_slice.map(|ns| ns as i64)
    }

    /// Sums up the tasks in the race of CPU `c`, the running one and sleepers included, and notes
    /// their mean as the CPU's virtual time (`avg_vruntime`).
    fn average(&self, c: usize, tasks: &[Task]) -> Average {
        let cpu = &self.cpus[c];
        let (queue, delayed) = (cpu.run_queue.borrow(), cpu.race.delayed.borrow());
        let others = queue.iter().chain(delayed.iter());
        let all = others
            .chain(cpu.current.get().as_ref())
            .fold(Average::NOBODY, |all, &t| all.with(&tasks[t as usize]));
        if all.load > 0 {
            cpu.race.virtual_time.set(all.mean());
        }
        all
    }

    /// Makes the running task a new process when it wakes next: it is owed nothing then, and its
    /// first slice is that of a new task (`sched_fork`).
    pub fn begins_anew(&self) {
        let task = self.task() as usize;
        self.tasks.borrow_mut()[task].entity.placed = false;
    }

    /// Gives a task the least nice value, as workers of high priority have.
    pub fn set_highest_priority(&self, task: TaskId) {
        self.tasks.borrow_mut()[task as usize].entity.weight = NICE_LEAST_LOAD;
    }

    /// Returns the time (ns) up to which the task running on CPU `c` is charged when the CPU may
    /// change hands: the CPU's clock, or, if the run-queue clock stands still, the last tick
    /// (`rq_clock_skip_update`).
    pub(super) fn runs_until(&self, c: usize) -> u64 {
        let clock = self.cpus[c].clock.get();
        match self.cpus[c].race.frozen.get() {
            true => self.tick_at(clock + 1).saturating_sub(self.params.tick),
            false => clock,
        }
    }

    /// Charges the running task as [`Self::update_current`] does, up to [`Self::runs_until`].
    fn update_current_to_leave(&self, c: usize, tasks: &mut [Task], slice: i64) -> bool {
        self.update_to(c, tasks, slice, self.runs_until(c))
    }

    /// Returns the time (ns) from which the next task of CPU `c` is charged: where the charge of
    /// the previous task ended if the run-queue clock stood still, but not after `at`; otherwise
    /// `at`.
    pub(super) fn next_begins(&self, c: usize, at: u64) -> u64 {
        self.cpus[c]
            .race
            .ran_to
            .get()
            .map_or(at, |then| then.min(at))
    }

    /// Charges the task running on CPU `c` up to the CPU's clock; a deadline that has passed is
    /// renewed, by `slice`, from that time on. Returns true if it was renewed. The last tick counts
    /// as an update of its own.
    fn update_current(&self, c: usize, tasks: &mut [Task], slice: i64) -> bool {
        self.update_to(c, tasks, slice, self.cpus[c].clock.get())
    }

    /// Charges the task running on CPU `c` up to `now`, as [`Self::update_current`] does. Returns
    /// true if its deadline was renewed, which means that its slice is used up.
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

    /// Places a task that joins the race of CPU `c`: sets its virtual run time so that beside the
    /// others it is owed as much as its lag says, and its deadline a slice later, half a slice for
    /// a new task (`place_entity`).
    fn place(&self, c: usize, tasks: &mut [Task], id: TaskId, slice: i64) {
        let average = self.average(c, tasks);
        let entity = tasks[id as usize].entity;
        let (mean, lag) = match average.load {
            0 => (self.cpus[c].race.virtual_time.get(), 0),
            load => {
                let own = i128::from(entity.lag) * i128::from(load + entity.weight);
                (average.mean(), (own / i128::from(load)) as i64)
            }
        };
        let task = &mut tasks[id as usize];
        task.vruntime = mean - lag;
        let slice = entity.fair(slice);
        let until_deadline = if entity.placed { slice } else { slice / 2 };
        task.entity.deadline = task.vruntime + until_deadline;
        task.entity.placed = true;
    }

    /// Returns the virtual time that a task is owed when it leaves a CPU's race (negative: that it
    /// owes): the distance to the race's average, limited to two slices or a tick, whichever is
    /// more.
    fn lag(&self, average: Average, task: &Task, slice: i64) -> i64 {
        let limit = task.entity.fair((2 * slice).max(self.params.tick as i64));
        (average.mean() - task.vruntime).clamp(-limit, limit)
    }

    /// Places and queues a task that wakes on the busy CPU `c`. Returns true if the running task
    /// has to be rescheduled, because its slice is used up, it is no longer eligible, or the woken
    /// task is next.
    pub(super) fn eevdf_wakes(&self, c: usize, tasks: &mut [Task], id: TaskId, slice: i64) -> bool {
        let cpu = &self.cpus[c];
        let resched = if tasks[id as usize].entity.delayed {
            self.leave_delayed(tasks, id, slice);
            // A task that still owes time keeps the debt; one that is owed time is placed anew with
            // lag 0.
            if tasks[id as usize].entity.lag > 0 {
                tasks[id as usize].entity.lag = 0;
                self.place(c, tasks, id, slice);
            }
            self.enqueue(c, id);
            self.update_current(c, tasks, slice)
        } else {
            let others = cpu.has_others();
            let renewed = self.update_current(c, tasks, slice);
            let must_yield = others && (renewed || self.lost_its_turn(c, tasks));
            self.place(c, tasks, id, slice);
            self.enqueue(c, id);
            must_yield
        };
        self.set_slice(c);
        let resched = resched || self.next(c, tasks) == Some(id);
        if resched || cpu.resched.get() {
            cpu.race.frozen.set(true);
        }
        resched
    }

    /// Places a task that begins to run on the idle CPU `c`, whose queue is empty.
    pub(super) fn eevdf_starts(&self, c: usize, tasks: &mut [Task], id: TaskId, slice: i64) {
        if tasks[id as usize].entity.delayed {
            self.leave_delayed(tasks, id, slice);
        }
        self.place(c, tasks, id, slice);
        tasks[id as usize].entity.protected = true;
    }

    /// Takes a sleeper (`delayed`) out of its CPU's race, with the lag that it has at this time.
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

    /// Returns true if the task running on CPU `c` is not protected and not eligible: it has had
    /// more than its share.
    fn lost_its_turn(&self, c: usize, tasks: &[Task]) -> bool {
        self.cpus[c].current.get().is_some_and(|id| {
            let t = &tasks[id as usize];
            !t.entity.protected && !self.average(c, tasks).eligible(t.vruntime)
        })
    }

    /// Returns the task that gets CPU `c` next: the eligible one with the earliest deadline among
    /// the running one, the queued ones and sleepers that are still in the race (`pick_eevdf`). A
    /// protected running task keeps the CPU while it is eligible. `None` if there is none.
    fn next(&self, c: usize, tasks: &[Task]) -> Option<TaskId> {
        let cpu = &self.cpus[c];
        let average = self.average(c, tasks);
        let task_of = |id: TaskId| &tasks[id as usize];
        let current = cpu.current.get();
        if current.is_some() && !cpu.has_others() {
            return current;
        }
        let current = current.filter(|&id| average.eligible(task_of(id).vruntime));
        if current.is_some_and(|id| task_of(id).entity.protected) {
            return current;
        }
        let (queue, delayed) = (cpu.run_queue.borrow(), cpu.race.delayed.borrow());
        let best = queue
            .iter()
            .chain(delayed.iter())
            .copied()
            .filter(|&id| average.eligible(task_of(id).vruntime))
            .min_by_key(|&id| (task_of(id).entity.deadline, id));
        match (current, best) {
            (Some(own), Some(best))
                if task_of(own).entity.deadline < task_of(best).entity.deadline =>
            {
                Some(own)
            }
            (own, best) => best.or(own),
        }
    }

    /// Decides, at a tick or after a request to reschedule, whether the task running on CPU `c`
    /// keeps it. If it does, the request is cleared and the slice set; returns true then.
    pub(super) fn eevdf_keeps(&self, c: usize, slice: i64) -> bool {
        let cpu = &self.cpus[c];
        let mut tasks = self.tasks.borrow_mut();
        let renewed = self.update_current_to_leave(c, &mut tasks, slice);
        let look = cpu.resched.get() || renewed || self.lost_its_turn(c, &tasks);
        if look && self.next_runnable(c, &mut tasks, slice) != cpu.current.get() {
            return false;
        }
        cpu.race.frozen.set(false);
        cpu.resched.set(false);
        self.set_slice(c);
        true
    }

    /// Returns the task that gets CPU `c` next, as [`Self::next`] does, but takes sleepers whose
    /// turn it would be out of the race, with no time owed to them.
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

    /// Takes the task running on CPU `c` out of the race when its turn ends, or makes it a sleeper
    /// in the race if it blocks while it owes time; the task is still the current one. `becomes`:
    /// its state from now on.
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

    /// Returns the index in the run queue of CPU `c` of the task that EEVDF runs next; `None` if no
    /// task is queued. The CPU has no current task. `slice`: the slice of a task (ns).
    pub(super) fn eevdf_pick(&self, c: usize, slice: i64) -> Option<usize> {
        let mut tasks = self.tasks.borrow_mut();
        let id = self.next_runnable(c, &mut tasks, slice)?;
        let queue = self.cpus[c].run_queue.borrow();
        queue.iter().position(|&t| t == id)
    }

    /// Places a task that was taken from the queue of CPU `from` to run on CPU `to`, which has no
    /// current task: on another CPU it is owed as much as before.
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
            // The task was in that queue until now.
            let task = &mut tasks[id as usize];
            task.entity.lag = self.lag(all.with(task), task, slice);
            self.place(to, tasks, id, slice);
        }
        tasks[id as usize].entity.protected = true;
    }
}

impl Cpu {
    /// Returns true if the CPU's race has tasks beside the running one.
    pub(super) fn has_others(&self) -> bool {
        !self.run_queue.borrow().is_empty() || !self.race.delayed.borrow().is_empty()
    }
}
