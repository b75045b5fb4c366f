//! What tracepoints tell is what the kernel counts. The kernel is that of the user's cache which
//! `LOWMARK_TEST_KERNEL` names; without it the test says so and does nothing.

use kernel::Kernel;
use sim::result::{Outcome, RunResult};
use sim::spec::{Boot, DiskKind, DiskSpec, FsKind, Machine, NodeSpec, Size, ZoneSpec};
use sim::{Params, RunSpec};

/// `dd` of more than there is memory: kswapd and the writer reclaim, and the writer is held back.
fn spec() -> RunSpec {
    let zones = vec![ZoneSpec {
        zone: mm::ZoneType::Normal,
        size: Size(256 << 20),
    }];
    let machine = Machine {
        name: "guest".into(),
        cpus: 1,
        params: Default::default(),
        hz: 250,
        nodes: vec![NodeSpec {
            zones,
            cpus: vec![],
        }],
        boot: Boot {
            kernel: Size(32 << 20),
            dma: Size(0),
            anon: Size(16 << 20),
            cache: Size(16 << 20),
        },
        swap: None,
        sysctl: Default::default(),
        disk: DiskSpec::new(DiskKind::Disk, Size(4 << 30)),
        filesystem: None,
        mounts: vec![],
    };
    RunSpec {
        machine,
        filesystem: *FsKind::ALL.iter().find(|k| k.name() == "ext4").unwrap(),
        policy: mm::Policy::linux_4_9(),
        workload: workload::parse("dd if=/dev/zero of=z bs=1M count=400").unwrap(),
        changes: vec![],
        membind: None,
        monitors: false,
        params: Params::default(),
        seed: 1,
        sample_ns: 1_000_000_000,
        check_ns: 0,
        track_pages: false,
        time_limit_ns: 3_600_000_000_000,
    }
}

fn sum_of(result: &RunResult, prefix: &str) -> u64 {
    let all = result.counters.iter();
    all.filter(|(name, _)| name.starts_with(prefix))
        .map(|(_, n)| n)
        .sum()
}

#[test]
fn tracepoints_tell_what_vmstat_counts() {
    let Ok(name) = std::env::var("LOWMARK_TEST_KERNEL") else {
        eprintln!("LOWMARK_TEST_KERNEL names no kernel: nothing is tested");
        return;
    };
    for lru_gen in [None, Some(true)] {
        let mut kernel = Kernel::new(&name);
        kernel.lru_gen = lru_gen;
        let (r, _) = kernel::run(&spec(), &kernel, &Default::default());
        assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.notes);
        assert_eq!(r.notes, [""; 0]);
        let sums = r.reclaim.expect("the kernel has tracepoints");
        assert_eq!(sums.direct_reclaims, sum_of(&r, "allocstall"));
        let scanned = [sums.kswapd.scanned, sums.direct.scanned];
        let counted = ["pgscan_kswapd", "pgscan_direct"].map(|name| r.counters[name]);
        match lru_gen {
            None => assert_eq!(scanned, counted),
            // Its counters have what was isolated, its events also what was put elsewhere on the way.
            Some(_) => {
                assert!(
                    scanned
                        .iter()
                        .zip(counted)
                        .all(|(s, c)| *s >= c && *s < c + c / 10)
                );
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
        // The writer is the only one, and nothing is shorter than a tick.
        assert!(metric("dirty_pause_max") >= 0.01);
        let most = metric("elapsed");
        assert!((metric("dirty_pause_max")..most).contains(&metric("dirty_pause_total")));
    }
}
