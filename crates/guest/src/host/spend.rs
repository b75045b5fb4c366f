//! The cost of computation.
//!
//! In virtual time, code takes no time unless it is charged. The kernel charges its own; user code
//! has to charge explicitly ([`Host::compute`](workload::Host::compute)). Our kernels burn the
//! nanoseconds of CPU time that are written to [`SPEND`]. In guests of QEMU instructions take time,
//! and programs compute in a loop.

use super::sleep;
use rustix::fs::{Mode, OFlags};
use rustix::thread::ClockId;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds written to this file pass as CPU time of the writing thread, in our kernels.
pub const SPEND: &str = "/proc/sys/kernel/cpu_spend";

/// Charges of up to this many nanoseconds are not worth a system call: the virtual world, too,
/// computes this long between two checks for other runnable tasks.
pub(super) const WORTH_A_CALL: u64 = 10_000;

/// Nanoseconds burnt per write; other tasks may run in between.
const PIECE: u64 = 100_000;

/// The part of the machine that lets computation take time.
#[derive(Debug)]
enum Way {
    /// The kernel, which burns the nanoseconds that are written to this file.
    Kernel(File),
    /// The calling thread, in a loop, because instructions take time.
    Loop,
    /// Nothing: programs sleep instead.
    Sleep,
}

/// The way in which computation takes time.
#[derive(Debug)]
pub struct Spend {
    way: Way,
    /// Set if time passed by sleeping instead of as CPU time.
    slept: AtomicBool,
}

impl Spend {
    /// Spends computation by the kernel's file `path`, or by sleeping if the kernel has no such
    /// file.
    pub fn by(path: &str) -> Self {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).ok();
        Self::of(file.map_or(Way::Sleep, |file| Way::Kernel(file.into())))
    }

    /// Spends computation by computing, in a machine in which instructions take time.
    pub fn by_computing() -> Self {
        Self::of(Way::Loop)
    }

    fn of(way: Way) -> Self {
        let slept = AtomicBool::new(false);
        Self { way, slept }
    }

    /// Returns true if time is spent as CPU time.
    pub fn is_cpu_time(&self) -> bool {
        !matches!(self.way, Way::Sleep)
    }

    /// Lets `ns` nanoseconds of computation pass: as CPU time burnt by the kernel, in pieces, or
    /// asleep if that is not possible. Returns true if they passed as CPU time.
    pub(super) fn spend(&self, ns: u64) -> bool {
        let file = match &self.way {
            Way::Kernel(file) => file,
            Way::Loop => {
                let begun = cpu_time();
                while cpu_time() - begun < ns {
                    std::hint::spin_loop();
                }
                return true;
            }
            Way::Sleep => {
                self.slept.store(true, Ordering::Relaxed);
                sleep(ns);
                return false;
            }
        };
        let mut left = ns;
        while left > 0 {
            let piece = left.min(PIECE);
            if file.write_all_at(piece.to_string().as_bytes(), 0).is_err() {
                self.slept.store(true, Ordering::Relaxed);
                sleep(left);
                return false;
            }
            left -= piece;
        }
        true
    }

    /// Returns a note for readers of the results, if programs slept instead of computing.
    pub(super) fn note(&self) -> Option<String> {
        self.slept.load(Ordering::Relaxed).then(|| {
            format!("this kernel has no {SPEND}: programs slept where they were to compute")
        })
    }
}

/// Returns the CPU time of the calling thread in nanoseconds.
fn cpu_time() -> u64 {
    super::nanoseconds(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_in_which_instructions_take_time_computes() {
        let spend = Spend::by_computing();
        let begun = cpu_time();
        assert!(spend.is_cpu_time() && spend.spend(2_000_000));
        assert!(cpu_time() - begun >= 2_000_000);
        assert_eq!(spend.note(), None);
    }
}
