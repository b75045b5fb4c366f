//! Pressure stall information, task by task as the kernel counts it
//! (Documentation/accounting/psi.rst and kernel/sched/psi.c of Linux 6.12;
//! docs/reference/counters-and-traces.md#pressure).
//!
//! Each CPU counts its tasks that run or want to, that wait for I/O, and that are in a memory
//! stall. The CPU's states follow from these counts. The time in each state is summed, and every
//! two seconds the sums are averaged over CPUs, weighted by the time in which each CPU was not
//! idle. On one CPU a sum is the time itself.

use std::cell::Cell;

/// Stalls for I/O, memory or a CPU: some task is stalled, or all that are not idle are (full).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// `/proc/pressure/io`, some.
    IoSome,
    /// `/proc/pressure/io`, full.
    IoFull,
    /// `/proc/pressure/memory`, some.
    MemorySome,
    /// `/proc/pressure/memory`, full.
    MemoryFull,
    /// `/proc/pressure/cpu`, some.
    CpuSome,
}

/// Number of [`Stall`]s.
pub(super) const STALLS: usize = Stall::CpuSome as usize + 1;
/// Index of the state "not idle" of a CPU, behind the stalls.
const NONIDLE: usize = STALLS;
/// Nanoseconds between two averages over CPUs (`PSI_FREQ`).
const PERIOD: u64 = 2_000_000_000;

impl Stall {
    /// All stalls, in the order of their numbers.
    pub const ALL: [Self; STALLS] = [
        Self::IoSome,
        Self::IoFull,
        Self::MemorySome,
        Self::MemoryFull,
        Self::CpuSome,
    ];

    /// Returns the name that results use.
    pub fn name(self) -> &'static str {
        match self {
            Self::IoSome => "psi_io_some",
            Self::IoFull => "psi_io_full",
            Self::MemorySome => "psi_memory_some",
            Self::MemoryFull => "psi_memory_full",
            Self::CpuSome => "psi_cpu_some",
        }
    }
}

/// A task's activity as its CPU counts it, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Doing(u8);

impl Doing {
    /// The task runs or wants to (`TSK_RUNNING`).
    pub const RUNS: u8 = 1;
    /// The task waits for I/O (`TSK_IOWAIT`).
    pub const WAITS_FOR_IO: u8 = 2;
    /// The task is in a memory stall (`TSK_MEMSTALL`).
    pub const MEMORY_STALL: u8 = 4;

    pub const fn new(bits: u8) -> Self {
        assert!(bits < EACH.len() as u8);
        Self(bits)
    }
}

/// Numbers of tasks of one CPU, two in a word: low and high half of the first are those that run
/// and those that wait for I/O; of the second, those in a memory stall and those of them that run.
#[derive(Debug, Clone, Copy, Default)]
struct Counts([u64; 2]);

/// The counts of one task, by its [`Doing`] bits.
const EACH: [[u64; 2]; 8] = {
    let mut each = [[0; 2]; 8];
    let mut bits = 0;
    while bits < 8 {
        let [runs, waits, stalls] = [bits & 1, bits >> 1 & 1, bits >> 2];
        each[bits as usize] = [runs | waits << 32, stalls | (runs & stalls) << 32];
        bits += 1;
    }
    each
};

impl Counts {
    /// Counts a task.
    #[inline(always)]
    fn add(&mut self, doing: Doing) {
        let [a, b] = EACH[doing.0 as usize % EACH.len()];
        self.0[0] += a;
        self.0[1] += b;
    }

    /// Stops counting a task that does `doing`.
    ///
    /// # Panics
    /// In debug builds, if no such task was counted.
    #[inline(always)]
    fn remove(&mut self, doing: Doing) {
        let [a, b] = EACH[doing.0 as usize % EACH.len()];
        debug_assert!(self.contains([a, b]), "who leaves was counted");
        self.0[0] -= a;
        self.0[1] -= b;
    }

    /// Returns true if each of the four counts is at least as large as the one in the same place of
    /// `[a, b]`.
    fn contains(self, [a, b]: [u64; 2]) -> bool {
        let low = |n: u64| n as u32;
        let [c, d] = self.0;
        low(c) >= low(a) && c >> 32 >= a >> 32 && low(d) >= low(b) && d >> 32 >= b >> 32
    }

    /// Returns the states of the CPU, a bit each, by the numbers of [`Stall`] and `NONIDLE`
    /// (`test_states`). `on_cpu`: whether the current task is in a memory stall; `None` if there is
    /// no current task.
    #[inline(always)]
    fn states(self, on_cpu: Option<bool>) -> u8 {
        let [by_activity, in_stalls] = self.0;
        let running = by_activity as u32;
        let waits = by_activity >> 32 != 0;
        let bit = |is: bool, of: usize| u8::from(is) << of;
        // Without a memory stall fewer states are possible.
        if in_stalls == 0 && on_cpu != Some(true) {
            let waits_all = bit(waits, Stall::IoSome as usize)
                | bit(waits && running == 0, Stall::IoFull as usize);
            let some_wait = running > u32::from(on_cpu.is_some());
            return waits_all
                | bit(some_wait, Stall::CpuSome as usize)
                | bit(by_activity != 0, NONIDLE);
        }
        let stalls = in_stalls as u32 > 0;
        let all_stalled = running == (in_stalls >> 32) as u32;
        bit(waits, Stall::IoSome as usize)
            | bit(waits && running == 0, Stall::IoFull as usize)
            | bit(stalls, Stall::MemorySome as usize)
            | bit(
                stalls && all_stalled || on_cpu == Some(true),
                Stall::MemoryFull as usize,
            )
            | bit(
                running > u32::from(on_cpu.is_some()),
                Stall::CpuSome as usize,
            )
            | bit(by_activity != 0 || stalls, NONIDLE)
    }
}

/// Pressure accounting of one CPU: nanoseconds in each state in this period, booked up to `since`.
#[derive(Default)]
struct OfCpu {
    counts: Cell<Counts>,
    on_cpu: Cell<Option<bool>>,
    since: Cell<u64>,
    times: [Cell<u64>; NONIDLE + 1],
}

impl OfCpu {
    /// Adds the time since the last booking, up to `now`, to each state that the CPU is in. Of
    /// several changes at one moment only the last counts.
    #[inline]
    fn book(&self, now: u64) {
        let ns = now.saturating_sub(self.since.get());
        if ns == 0 {
            return;
        }
        self.since.set(now);
        let mut states = self.counts.get().states(self.on_cpu.get());
        while states != 0 {
            let time = &self.times[states.trailing_zeros() as usize];
            time.set(time.get() + ns);
            states &= states - 1;
        }
    }
}

/// Pressure of the machine: its CPUs and the averaged sums.
pub(super) struct Pressure {
    cpus: Box<[OfCpu]>,
    /// Nanoseconds of each stall, averaged over CPUs, up to the end of the last period.
    total: [Cell<u64>; STALLS],
    /// Time of the next average over CPUs.
    due: Cell<u64>,
}

impl Pressure {
    /// Starts the accounts of a machine with so many idle CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus: (0..cpus).map(|_| OfCpu::default()).collect(),
            total: Default::default(),
            due: Cell::new(PERIOD),
        }
    }

    /// Moves a task from a CPU and activity to others at `now`: it is no longer counted as (`from`,
    /// `was`), but as (`to`, `is`).
    #[inline]
    pub fn move_task(&self, (from, was): (usize, Doing), (to, is): (usize, Doing), now: u64) {
        self.change(from, now, |counts| {
            counts.remove(was);
            if from == to {
                counts.add(is);
            }
        });
        if from != to {
            self.change(to, now, |counts| counts.add(is));
        }
    }

    /// Notes whether the current task of a CPU is in a memory stall; `None`: the CPU has no current
    /// task.
    #[inline]
    pub fn set_on_cpu(&self, c: usize, on_cpu: Option<bool>, now: u64) {
        let cpu = &self.cpus[c];
        if cpu.on_cpu.get() != on_cpu {
            cpu.book(now);
            cpu.on_cpu.set(on_cpu);
        }
    }

    /// Changes how many tasks of CPU `c` run, wait for I/O or stall, by `change`, after booking the
    /// time up to `now` (ns) under the old numbers. Ends the averaging period first if it is over.
    #[inline]
    fn change(&self, c: usize, now: u64, change: impl FnOnce(&mut Counts)) {
        if now >= self.due.get() {
            self.average(now);
        }
        let cpu = &self.cpus[c];
        cpu.book(now);
        let mut counts = cpu.counts.get();
        change(&mut counts);
        cpu.counts.set(counts);
    }

    /// Returns the nanoseconds of each stall in this period, averaged over the CPUs, each weighted
    /// by its time not idle (`collect_percpu_times`).
    fn averaged(&self) -> [u64; STALLS] {
        let nonidle = |cpu: &OfCpu| u128::from(cpu.times[NONIDLE].get());
        let all_nonidle: u128 = self.cpus.iter().map(nonidle).sum();
        std::array::from_fn(|stall| {
            let weighed = |cpu: &OfCpu| u128::from(cpu.times[stall].get()) * nonidle(cpu);
            let sum: u128 = self.cpus.iter().map(weighed).sum();
            sum.checked_div(all_nonidle).unwrap_or(0) as u64
        })
    }

    /// Ends a period of 2 s: adds its averages over CPUs to the totals, and starts the CPUs' times
    /// at 0.
    #[cold]
    fn average(&self, now: u64) {
        self.cpus.iter().for_each(|cpu| cpu.book(now));
        for (total, more) in self.total.iter().zip(self.averaged()) {
            total.set(total.get() + more);
        }
        let times = self.cpus.iter().flat_map(|cpu| &cpu.times);
        times.for_each(|time| time.set(0));
        self.due.set(now - now % PERIOD + PERIOD);
    }

    /// Restarts the sums at 0.
    pub fn restart(&self, now: u64) {
        self.average(now);
        self.total.iter().for_each(|total| total.set(0));
    }

    /// Returns the nanoseconds of each stall up to `now`.
    pub fn totals(&self, now: u64) -> [u64; STALLS] {
        self.cpus.iter().for_each(|cpu| cpu.book(now));
        let open = self.averaged();
        std::array::from_fn(|stall| self.total[stall].get() + open[stall])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Doing = Doing::new(0);
    const RUNS: Doing = Doing::new(Doing::RUNS);
    const IO: Doing = Doing::new(Doing::WAITS_FOR_IO);
    const RECLAIMS: Doing = Doing::new(Doing::RUNS | Doing::MEMORY_STALL);
    const MS: u64 = 1_000_000;

    fn of(p: &Pressure, stall: Stall, now: u64) -> u64 {
        p.totals(now)[stall as usize]
    }

    /// A task waits for I/O from 10 to 40 ms; from 20 to 30 ms another one runs.
    #[test]
    fn some_and_full() {
        let p = Pressure::new(1);
        p.move_task((0, IDLE), (0, IO), 10 * MS);
        p.move_task((0, IDLE), (0, RUNS), 20 * MS);
        p.set_on_cpu(0, Some(false), 20 * MS);
        p.move_task((0, RUNS), (0, IDLE), 30 * MS);
        p.set_on_cpu(0, None, 30 * MS);
        p.move_task((0, IO), (0, IDLE), 40 * MS);
        assert_eq!(of(&p, Stall::IoSome, 50 * MS), 30 * MS);
        assert_eq!(of(&p, Stall::IoFull, 50 * MS), 20 * MS);
        assert_eq!(of(&p, Stall::MemorySome, 50 * MS), 0);
        assert_eq!(of(&p, Stall::CpuSome, 50 * MS), 0);
        p.restart(50 * MS);
        assert_eq!(of(&p, Stall::IoSome, 60 * MS), 0);
    }

    /// A task in direct reclaim has the CPU: that is a full stall, though another task wants to
    /// run.
    #[test]
    fn reclaim_is_a_stall_of_all_that_run() {
        let p = Pressure::new(1);
        p.move_task((0, IDLE), (0, RECLAIMS), 0);
        p.set_on_cpu(0, Some(true), 0);
        p.move_task((0, IDLE), (0, RUNS), 5 * MS);
        assert_eq!(of(&p, Stall::MemoryFull, 10 * MS), 10 * MS);
        assert_eq!(of(&p, Stall::CpuSome, 10 * MS), 5 * MS);
        // The task is preempted in the middle of reclaim, and the other one works.
        p.set_on_cpu(0, Some(false), 10 * MS);
        assert_eq!(of(&p, Stall::MemoryFull, 20 * MS), 10 * MS);
        assert_eq!(of(&p, Stall::MemorySome, 20 * MS), 20 * MS);
    }

    /// A CPU that is idle most of the time has a small weight; sums add up over periods.
    #[test]
    fn cpus_are_averaged_by_what_they_did() {
        let p = Pressure::new(2);
        p.move_task((0, IDLE), (0, RUNS), 0);
        p.set_on_cpu(0, Some(false), 0);
        p.move_task((1, IDLE), (1, IO), 0);
        p.move_task((1, IO), (1, IDLE), 500 * MS);
        // CPU 1 waited for all of its 0.5 s, CPU 0 never in its 2 s.
        let expected = 500 * 500 / 2500;
        assert_eq!(of(&p, Stall::IoSome, 2000 * MS), expected * MS);
        p.move_task((1, IDLE), (1, IO), 2000 * MS);
        assert_eq!(of(&p, Stall::IoSome, 2000 * MS), expected * MS);
        let second = 1000 * 1000 / 2000;
        assert_eq!(of(&p, Stall::IoSome, 3000 * MS), (expected + second) * MS);
    }
}
