//! The sums over tracepoints equal the kernel's counters. `LOWMARK_TEST_KERNEL` names a kernel of
//! the user's cache; without it the test prints a note and passes.

mod common;

use kernel::Kernel;
use sim::RunSpec;
use sim::result::{Outcome, RunResult};
use sim::spec::{DiskKind, DiskSpec, Size};

/// Returns a run of `dd` over more data than there is memory: kswapd and the writer reclaim, and
/// the writer is throttled.
fn loaded() -> RunSpec {
    let mut spec = common::spec(common::command("dd if=/dev/zero of=z bs=1M count=400"));
    spec.machine.nodes[0].zones[0].size = Size(256 << 20);
    spec.machine.boot = common::boot(32, 16, 16);
    spec.machine.disk = DiskSpec::new(DiskKind::Disk, Size(4 << 30));
    spec
}

fn sum_of(result: &RunResult, prefix: &str) -> u64 {
    let all = result.counters.iter();
    all.filter(|(name, _)| name.starts_with(prefix))
        .map(|(_, n)| n)
        .sum()
}

#[test]
fn tracepoints_tell_what_vmstat_counts() {
    let Some(kernel) = common::kernel() else {
        return;
    };
    for lru_gen in [None, Some(true)] {
        let kernel = Kernel {
            lru_gen,
            ..kernel.clone()
        };
        let (r, _) = kernel::run(&loaded(), &kernel, kernel::PATIENCE, &Default::default());
        assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.notes);
        if lru_gen.is_some() && r.reclaim.is_none() {
            // 6.1: no event covers the scans of its multi-generational LRU, so the rows are left
            // out instead of 0.
            assert!(
                r.notes[0].contains("for which it has no events"),
                "{:?}",
                r.notes
            );
            assert!(r.counters["pgscan_kswapd"] > 10_000);
            continue;
        }
        // No tracepoint covers how long a task waited for reserves, so a run with such waits notes
        // that.
        let waited = sum_of(&r, "pgscan_direct_throttle") > 0;
        assert_eq!(r.notes.len(), usize::from(waited), "{:?}", r.notes);
        let sums = r.reclaim.expect("the kernel has tracepoints");
        assert_eq!(sums.direct_reclaims, sum_of(&r, "allocstall"));
        let scanned = [sums.kswapd.scanned, sums.direct.scanned];
        let counted = ["pgscan_kswapd", "pgscan_direct"].map(|name| r.counters[name]);
        match lru_gen {
            None => assert_eq!(scanned, counted),
            // The counters have only isolated pages, the events also pages that were skipped while
            // isolating.
            Some(_) => {
                let near = |(s, c): (&u64, u64)| *s >= c && *s < c + c / 10;
                let all = scanned.iter().zip(counted).all(near);
                assert!(all, "{scanned:?} {counted:?}");
            }
        }
        let written = sums.kswapd.writes.total() + sums.direct.writes.total();
        assert_eq!(written, r.counters["nr_vmscan_write"]);
        assert!(sums.kswapd.scanned > 10_000 && sums.kswapd_wakeups > 0);
        assert!(sums.kswapd_awake_ns > 0 && sums.wake_requests_all > 0);
        assert!(sums.direct.congest.is_none() && sums.kswapd.conditional.is_none());
        let stalls: u64 = r.alloc_latency.paths.iter().map(|(_, h)| h.len()).sum();
        assert_eq!(stalls, sums.direct_reclaims);
        let metric = |name: &str| r.metrics[name].value;
        assert!(metric("alloc_wait_max") <= sums.stalled_ns as f64 / 1e3);
        assert!(metric("direct_reclaim_task_max") <= sums.stalled_ns as f64 / 1e9);
        // The writer is the only dirtier, and no pause is shorter than a tick.
        assert!(metric("dirty_pause_max") >= 0.01);
        let most = metric("elapsed");
        assert!((metric("dirty_pause_max")..most).contains(&metric("dirty_pause_total")));
    }
}
