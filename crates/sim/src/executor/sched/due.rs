//! The clocks of running CPUs in order: which of them is furthest behind.
//!
//! The CPU furthest behind gets a turn that ends a quantum behind the next one, which most often
//! puts its clock after all others: in a ring its key leaves the front and is appended at the end,
//! and no other key moves.

use super::NEVER;
use std::cell::Cell;

/// Most CPUs of a machine.
const CPUS: usize = 64;
/// Bits of a key that hold the number of the CPU.
const BITS: u32 = CPUS.trailing_zeros();

/// The clocks of the CPUs that run a task; each key is a clock with the CPU's number in the low
/// bits.
pub(super) struct Due {
    /// Keys in ascending order, from `first` on.
    ring: [Cell<u64>; CPUS],
    first: Cell<usize>,
    len: Cell<usize>,
}

impl Due {
    /// Makes an empty queue of a machine's busy CPUs, ordered by their virtual clocks so that the
    /// earliest runs next. At the start all CPUs are idle.
    ///
    /// # Panics
    /// If there are more than 64 CPUs.
    pub fn new(cpus: usize) -> Self {
        assert!(cpus <= CPUS, "a machine of {cpus} CPUs");
        Self {
            ring: [const { Cell::new(NEVER) }; CPUS],
            first: Cell::new(0),
            len: Cell::new(0),
        }
    }

    /// Returns the `nth` key in order.
    #[inline(always)]
    fn at(&self, nth: usize) -> &Cell<u64> {
        &self.ring[self.first.get().wrapping_add(nth) % CPUS]
    }

    /// Sets the clock of a CPU to `time` (ns), at most nine years; [`NEVER`]: the CPU is idle and
    /// leaves the order. Keeps the keys sorted; a CPU that stays first, the common case, costs one
    /// comparison.
    #[inline]
    pub fn set(&self, cpu: usize, time: u64) {
        debug_assert!(time >> (u64::BITS - BITS) == 0 || time == NEVER);
        let key = time << BITS | cpu as u64;
        let is_cpu = |nth: usize| self.at(nth).get() as usize % CPUS == cpu;
        let mut len = self.len.get();
        if len > 0 && is_cpu(0) {
            if time != NEVER && (len == 1 || key < self.at(1).get()) {
                return self.at(0).set(key);
            }
            self.first.set(self.first.get().wrapping_add(1));
            len -= 1;
        } else if let Some(nth) = (1..len).find(|&nth| is_cpu(nth)) {
            for nth in nth + 1..len {
                self.at(nth - 1).set(self.at(nth).get());
            }
            len -= 1;
        }
        if time != NEVER {
            let mut nth = len;
            while nth > 0 && self.at(nth - 1).get() > key {
                self.at(nth).set(self.at(nth - 1).get());
                nth -= 1;
            }
            self.at(nth).set(key);
            len += 1;
        }
        self.len.set(len);
    }

    /// Returns the CPU whose clock is least (the lowest number among equals), that clock, and the
    /// least clock of the others. If all are idle, the CPU is arbitrary and the clocks are
    /// [`NEVER`].
    #[inline(always)]
    pub fn furthest_behind(&self) -> (usize, u64, u64) {
        let time = |nth: usize| match nth < self.len.get() {
            true => self.at(nth).get() >> BITS,
            false => NEVER,
        };
        (self.at(0).get() as usize % CPUS, time(0), time(1))
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
