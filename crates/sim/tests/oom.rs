//! When memory runs out: where nothing can be reclaimed, and where it only needs to be written.

mod common;

use common::{disk, machine, run, spec, swap};
use mm::policy::{ReclaimThrottle, ReclaimWriteback};
use sim::spec::{DiskKind, Fault, FsKind, RunSpec, Size};
use sim::{Outcome, RunResult};

/// Anonymous memory alone, without swap, so many times the machine's memory.
fn anonymous(memories: &str) -> RunSpec {
    let line =
        format!("mmap-strm -t 2 --stream 0 --mixed {memories} --file-share 0 --anon-passes 2");
    spec(machine(64), FsKind::Xfs, &line)
}

#[test]
fn anonymous_memory_without_swap_runs_out() {
    assert_eq!(run(&anonymous("0.7")).outcome, Outcome::Completed);
    match run(&anonymous("1.2")).outcome {
        Outcome::Oom { report } => assert!(report.contains("dirty 0 writeback 0"), "{report}"),
        other => panic!("expected OOM, got {other:?}"),
    }
}

/// A page whose way out failed is still the only copy: no memory comes from a swap area that takes
/// nothing, and once it takes writes nothing is missing.
#[test]
fn what_could_not_be_swapped_out_stays() {
    let with_errors = |for_s| {
        let mut s = anonymous("1.2");
        let mut swap = swap(256 << 20);
        let fault = Fault::WriteError { at_s: 0.0, for_s };
        swap.disk
            .as_mut()
            .expect("a disk of its own")
            .faults
            .push(fault);
        s.machine.swap = Some(swap);
        s.time_limit_ns = 120_000_000_000;
        run(&s)
    };
    let r = with_errors(1e6);
    assert!(r.counters["write_error"] > 0);
    assert_ne!(r.outcome, Outcome::Completed);
    let r = with_errors(1.3);
    assert!(r.counters["write_error"] > 0);
    assert_eq!(r.outcome, Outcome::Completed);
}

/// Eight processes dirty three times the memory through mappings, two others take half of it for
/// themselves now and then. There is no swap, and the stick is slow.
fn torture(kswapd: ReclaimWriteback) -> RunSpec {
    let own = "mmap-strm -t 2 --stream 0 --mixed 0.5 --file-share 0 --anon-passes 1";
    let line = format!("mmap-strm -t 8 --stream 3 --mixed 0 & {own}; {own}; {own}; wait");
    let mut m = machine(256);
    m.cpus = 4;
    m.disk = disk(DiskKind::UsbFlash);
    m.boot.anon = Size(56 << 20);
    m.sysctl.dirty_ratio = 100;
    let mut s = spec(m, FsKind::Xfs, &line);
    s.check_ns = 500_000_000;
    s.policy = mm::Policy::linux_3_0();
    if kswapd != ReclaimWriteback::Always {
        s.policy.direct_writeback = ReclaimWriteback::Never;
        s.policy.kswapd_writeback = kswapd;
        s.policy.reclaim_throttle = ReclaimThrottle::Dirty;
        s.policy.immediate_reclaim = true;
    }
    s
}

/// Memory that only needs to be written is no reason to give up, as long as kswapd may write.
#[test]
fn dirty_memory_is_waited_for_if_kswapd_may_write() {
    for kswapd in [ReclaimWriteback::Always, ReclaimWriteback::InTrouble] {
        let r = run(&torture(kswapd));
        assert_eq!(r.outcome, Outcome::Completed, "{kswapd:?}");
        assert!(r.counters["allocstall"] > 0, "{kswapd:?}");
    }
}

/// If nobody may write, no batch meets a congested queue, so no zone counts as congested and the
/// waits of reclaim return at once: the lists are scanned six times between two completions of the
/// stick, all zones count as hopeless, and the run ends with dirty pages left. It does not have to
/// happen: it is a race that depends on what else is in memory. Of the sizes 32 to 71 MiB ten end like
/// this; with kswapd writing, none does.
#[test]
fn without_writes_from_reclaim_memory_runs_out_early() {
    let sizes = 44u64..60;
    let ends = |kswapd: ReclaimWriteback| {
        sizes.clone().map(move |mib| {
            let mut s = torture(kswapd);
            s.machine.boot.anon = Size(mib << 20);
            run(&s)
        })
    };
    let early = |r: &RunResult| match &r.outcome {
        Outcome::Oom { report } => {
            let words: Vec<&str> = report.split([' ', ';']).collect();
            let left = |what: &str| -> u64 {
                let of_zones = words.windows(2).filter(|w| w[0] == what);
                of_zones
                    .map(|w| w[1].parse::<u64>().expect("a count"))
                    .sum()
            };
            // More than a tenth of the machine would be free once it is written.
            left("dirty") + left("writeback") > 6500
        }
        _ => false,
    };
    assert!(ends(ReclaimWriteback::Never).any(|r| early(&r)));
    assert!(!ends(ReclaimWriteback::Always).step_by(4).any(|r| early(&r)));
}
