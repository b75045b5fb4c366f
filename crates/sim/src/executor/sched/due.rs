//! Which running CPU is furthest behind: a tournament of their clocks.

use super::NEVER;
use std::cell::Cell;

/// Twice as many as there can be CPUs.
const PLACES: usize = 128;

/// The clocks of the CPUs that execute, [`NEVER`] for an idle one, and of each two the smaller, up to the root.
pub(super) struct Due {
    /// From 1 on: the sons of `i` are `2 * i` and `2 * i + 1`; CPU 0 stands at `cpus`.
    least: [Cell<u64>; PLACES],
    /// Leaves, a power of two.
    cpus: usize,
}

impl Due {
    /// All idle.
    ///
    /// # Panics
    /// If there are more than 64.
    pub fn new(cpus: usize) -> Self {
        let cpus = cpus.next_power_of_two();
        assert!(2 * cpus <= PLACES, "a machine of {cpus} CPUs");
        Self {
            least: [const { Cell::new(NEVER) }; PLACES],
            cpus,
        }
    }

    #[inline(always)]
    fn at(&self, place: usize) -> &Cell<u64> {
        &self.least[place % PLACES]
    }

    /// A CPU's clock is `time` now.
    #[inline]
    pub fn set(&self, cpu: usize, time: u64) {
        debug_assert!(cpu < self.cpus);
        let mut at = self.cpus + cpu;
        let mut least = time;
        self.at(at).set(least);
        while at > 1 {
            least = least.min(self.at(at ^ 1).get());
            at /= 2;
            self.at(at).set(least);
        }
    }

    /// The CPU whose clock is least, the first of those, with it and the least one of the others. All idle: any CPU.
    #[inline]
    pub fn furthest_behind(&self) -> (usize, u64, u64) {
        let (mut at, mut second) = (1, NEVER);
        while at < self.cpus {
            let (left, right) = (self.at(2 * at).get(), self.at(2 * at + 1).get());
            second = second.min(left.max(right));
            at = 2 * at + usize::from(right < left);
        }
        (at - self.cpus, self.at(at).get(), second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_what_a_look_at_all_of_them_finds(
            cpus in 1usize..=64,
            clocks in prop::collection::vec((0usize..64, prop_oneof![0u64..20, Just(NEVER)]), 1..200),
        ) {
            let (due, mut all) = (Due::new(cpus), vec![NEVER; cpus]);
            for (cpu, time) in clocks {
                let cpu = cpu % cpus;
                due.set(cpu, time);
                all[cpu] = time;
                let first = (0..cpus).min_by_key(|&c| (all[c], c)).unwrap();
                let others = all.iter().enumerate().filter(|&(c, _)| c != first);
                let second = others.map(|(_, &t)| t).min().unwrap_or(NEVER);
                let (found, least, then) = due.furthest_behind();
                prop_assert_eq!((least, then), (all[first], second));
                if least != NEVER {
                    prop_assert_eq!(found, first);
                }
            }
        }
    }
}
