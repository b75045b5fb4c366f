//! Compares the estimate of a run's memory with the memory that it takes, measured by a counting
//! allocator.

mod common;

use common::{machine, run, spec};
use mm::Policy;
use mm::policy::Eviction;
use sim::RunSpec;
use sim::spec::{FsKind, Size, SwapSpec};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// An allocator that counts the bytes allocated now and their maximum.
struct Counting;

static NOW: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size() as u64, SeqCst) + layout.size() as u64;
        MOST.fetch_max(now, SeqCst);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size() as u64, SeqCst) + layout.size() as u64;
        MOST.fetch_max(now, SeqCst);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size() as u64, SeqCst);
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
/// Serialises the tests, so that only one run is counted at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the maximum number of bytes that a run took beyond those allocated before.
fn measured(spec: &RunSpec) -> u64 {
    let before = NOW.load(SeqCst);
    MOST.store(before, SeqCst);
    drop(run(spec));
    MOST.load(SeqCst) - before
}

const DD: &str = "dd if=/dev/zero of=z bs=64k count=2000";

fn runs() -> Vec<(String, RunSpec)> {
    let mut all = Vec::new();
    for filesystem in common::ALL_FS {
        let mut s = spec(machine(64), filesystem, DD);
        s.check_ns = 0;
        all.push((filesystem.name().to_owned(), s));
    }
    let base = all[0].1.clone();
    let mut put = |name: &str, change: &dyn Fn(&mut RunSpec)| {
        let mut s = base.clone();
        change(&mut s);
        all.push((name.to_owned(), s));
    };
    put("a larger machine", &|s| {
        s.machine = machine(4096);
    });
    put("swap", &|s| {
        s.machine.swap = Some(SwapSpec {
            size: Size(16 << 30),
            disk: None,
        });
        s.machine.disk.capacity = Size(64 << 30);
    });
    put("groups", &|s| s.params.xfs_ags = 65_536.0);
    put("queues", &|s| s.params.nr_requests = 8192.0);
    put("files", &|s| {
        let line = "fs_mark -d a -D 100 -N 37 -n 100000 -L 1 -S0 -s 0";
        s.workload = workload::parse(line).expect("a command line");
    });
    put("files in many groups", &|s| {
        s.params.xfs_ags = 8192.0;
        let line = "fs_mark -d a -D 10000 -N 2 -n 10000 -L 1 -S0 -s 0";
        s.workload = workload::parse(line).expect("a command line");
    });
    put("processes", &|s| {
        s.machine = machine(512);
        let threads: Vec<String> = (0..250).map(|i| format!("-d d{i}")).collect();
        let line = format!("fs_mark {} -D 2 -N 1 -n 1 -L 1 -S0 -s 0", threads.join(" "));
        s.workload = workload::parse(&line).expect("a command line");
    });
    put("mobility", &|s| {
        s.policy = Policy::preset("linux-5.0").unwrap_or(s.policy.clone())
    });
    for entry in evict::registry::ALL {
        put(entry.name, &|s| {
            s.policy.eviction = Eviction::Policy(entry.name);
        });
    }
    all
}

/// The estimate is at least what a run takes, and not much more, except where the workload does not
/// use all that it could.
#[test]
fn a_run_takes_what_was_said() {
    let _alone = ALONE.lock();
    for (name, s) in runs() {
        let uses = sim::footprint::uses(&s);
        let said: u64 = uses.iter().map(|u| u.reserved).sum();
        let took = measured(&s);
        assert!(
            took <= said,
            "{name}: said {said}, took {took} bytes; {uses:?}"
        );
        let spare = ["groups", "files in many groups"].contains(&&*name);
        assert!(
            spare || said <= took + took / 4 + (8 << 20),
            "{name}: said {said}, took {took} bytes; {uses:?}"
        );
    }
}

/// The maximum number of XFS allocation groups takes little memory where few are used (`ags.toml`:
/// 4 GiB).
#[test]
fn unused_groups_take_little() {
    let _alone = ALONE.lock();
    let mut s = spec(
        machine(64),
        FsKind::Xfs,
        "dd if=/dev/zero of=z bs=64k count=1",
    );
    let few = measured(&s);
    s.params.xfs_ags = 65_536.0;
    let many = measured(&s);
    assert!(many < few + (16 << 20), "{few} and {many} bytes");
}
