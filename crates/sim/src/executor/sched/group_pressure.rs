//! Pressure stall information of memory control groups (kernel/sched/psi.c of Linux 6.12): a task
//! counts in its group and all that it lies in, as it counts in the machine.

use super::pressure::{Doing, Pressure, STALLS};
use std::cell::Cell;

/// A task's state in no group.
const IDLE: Doing = Doing::new(0);

/// The pressure of all groups of a machine.
pub(super) struct GroupPressure {
    /// The groups, the first of which is group 1: the number of the one that each lies in (0:
    /// none), and its accounts.
    groups: Box<[(u32, Pressure)]>,
    /// The group of each CPU's current task; 0: none.
    on_cpu: Box<[Cell<u32>]>,
}

impl GroupPressure {
    /// Starts the accounts of groups with these parents, on so many idle CPUs.
    pub fn new(parents: &[u32], cpus: usize) -> Self {
        Self {
            groups: parents
                .iter()
                .map(|&parent| (parent, Pressure::new(cpus)))
                .collect(),
            on_cpu: (0..cpus).map(|_| Cell::new(0)).collect(),
        }
    }

    /// Returns a group and all that it lies in, from the inside out.
    fn upwards(&self, group: u32) -> impl Iterator<Item = &(u32, Pressure)> {
        let of = |g: u32| g.checked_sub(1).map(|i| &self.groups[i as usize]);
        std::iter::successors(of(group), move |(parent, _)| of(*parent))
    }

    /// Does [`Pressure::move_task`] in a task's groups.
    #[inline]
    pub fn move_task(&self, group: u32, before: (usize, Doing), now_is: (usize, Doing), now: u64) {
        if group != 0 {
            for (_, pressure) in self.upwards(group) {
                pressure.move_task(before, now_is, now);
            }
        }
    }

    /// Does [`Pressure::set_on_cpu`] for the current task of CPU `c`, of `group`; `None`: the CPU
    /// has no current task.
    #[inline]
    pub fn set_on_cpu(&self, c: usize, group: u32, on_cpu: Option<bool>, now: u64) {
        if self.groups.is_empty() {
            return;
        }
        let left = self.on_cpu[c].replace(group);
        if left != group {
            for (_, pressure) in self.upwards(left) {
                pressure.set_on_cpu(c, None, now);
            }
        }
        for (_, pressure) in self.upwards(group) {
            pressure.set_on_cpu(c, on_cpu, now);
        }
    }

    /// Moves a task that counts as `doing` on a CPU, where it runs, from one group to another.
    pub fn enter(&self, (from, to): (u32, u32), counted: (usize, Doing), stalls: bool, now: u64) {
        let idle = (counted.0, IDLE);
        self.move_task(from, counted, idle, now);
        self.move_task(to, idle, counted, now);
        self.set_on_cpu(counted.0, to, Some(stalls), now);
    }

    /// Restarts the sums at 0.
    pub fn restart(&self, now: u64) {
        self.groups.iter().for_each(|(_, p)| p.restart(now));
    }

    /// Returns the nanoseconds of each stall of a group up to `now`.
    pub fn totals(&self, group: u32, now: u64) -> [u64; STALLS] {
        self.groups[group as usize - 1].1.totals(now)
    }
}
