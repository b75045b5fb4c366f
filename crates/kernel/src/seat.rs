//! A CPU for each run.
//!
//! A guest and its world take turns: they never both have work. On two CPUs each turn must wake the
//! other CPU, which takes several times as long as the turn's own work; on one CPU a turn is a
//! context switch. So each run is bound to one CPU, as long as there are as many CPUs as runs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Locks the set of CPUs that runs of this process have.
fn taken() -> MutexGuard<'static, BTreeSet<usize>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPU to which the calling thread, and every process that it starts, is bound until this is
/// dropped.
#[derive(Debug)]
pub struct Seat {
    cpu: usize,
    before: CpuSet,
}

impl Seat {
    /// Binds the calling thread to one of its allowed CPUs that no other run of this process has;
    /// `None`: there is none, or the host does not tell.
    pub fn take() -> Option<Self> {
        let before = sched_getaffinity(None).ok()?;
        let mut taken = taken();
        let free = |cpu: &usize| before.is_set(*cpu) && !taken.contains(cpu);
        let cpu = (0..CpuSet::MAX_CPU).find(free)?;
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).ok()?;
        taken.insert(cpu);
        Some(Self { cpu, before })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
        taken().remove(&self.cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_cpu_of_its_own() {
        let before = sched_getaffinity(None).unwrap();
        let first = Seat::take().unwrap();
        let now = sched_getaffinity(None).unwrap();
        assert_eq!((now.count(), now.is_set(first.cpu)), (1, true));
        let other = std::thread::spawn(move || {
            // A worker that was started before may run on any CPU.
            sched_setaffinity(None, &before).unwrap();
            Seat::take().map(|seat| seat.cpu)
        });
        if let Some(cpu) = other.join().unwrap() {
            assert_ne!(cpu, first.cpu);
        } else {
            assert_eq!(before.count(), 1, "there was another CPU");
        }
        drop(first);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
