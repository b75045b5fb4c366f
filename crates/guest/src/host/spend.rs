//! What computing costs.
//!
//! In virtual time, code costs nothing unless somebody charges for it. The kernel charges for itself; what
//! user code costs a program has to say ([`Host::compute`](workload::Host::compute)). A kernel of ours
//! burns that much CPU time when it is written to [`SPEND`].

use super::sleep;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nanoseconds that are written here pass as CPU time of the writing thread, in the kernel world's kernels.
pub const SPEND: &str = "/proc/sys/kernel/cpu_spend";

/// A debt of fewer nanoseconds is not worth a system call. As much as the virtual world computes between
/// two looks at who else may run.
pub(super) const WORTH_A_CALL: u64 = 10_000;

/// Nanoseconds that are burnt at a time; others may run between two.
const PIECE: u64 = 100_000;

/// How computing takes time.
#[derive(Debug)]
pub struct Spend {
    file: Option<File>,
    /// Time passed in another way than as CPU time.
    slept: AtomicBool,
}

impl Spend {
    /// By the kernel's file, or by sleeping where a kernel has none.
    pub fn by(path: &str) -> Self {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).ok();
        let slept = AtomicBool::new(false);
        let file = file.map(File::from);
        Self { file, slept }
    }

    /// Whether what is spent is CPU time.
    pub fn is_cpu_time(&self) -> bool {
        self.file.is_some()
    }

    /// So much time passes; returns whether as CPU time.
    pub(super) fn spend(&self, ns: u64) -> bool {
        let Some(file) = &self.file else {
            self.slept.store(true, Ordering::Relaxed);
            sleep(ns);
            return false;
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

    /// What a reader of the results must know.
    pub(super) fn note(&self) -> Option<String> {
        self.slept.load(Ordering::Relaxed).then(|| {
            format!("this kernel has no {SPEND}: programs slept where they were to compute")
        })
    }
}
