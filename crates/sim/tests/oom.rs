//! Running out of memory: where no page can be reclaimed, and where pages only need to be written.

mod common;

use common::{disk, machine, run, spec, swap};
use mm::policy::{ReclaimThrottle, ReclaimWriteback};
use sim::spec::{DiskKind, Fault, FsKind, RunSpec, Size};
use sim::{Outcome, RunResult};

/// Anonymous memory only, without swap, of a multiple of the machine's memory.
fn anonymous(memories: &str) -> RunSpec {
    let line =
        format!("mmap-strm -t 2 --stream 0 --mixed {memories} --file-share 0 --anon-passes 2");
    spec(machine(64), FsKind::Xfs, &line)
}

/// Runs a script on a machine of 64 MiB without swap.
fn script(line: &str) -> RunResult {
    run(&spec(machine(64), FsKind::Xfs, line))
}

/// Returns the report of a run that ran out of memory.
fn report(r: &RunResult) -> &str {
    match &r.outcome {
        Outcome::Oom { report } => report,
        other => panic!("expected OOM, got {other:?}"),
    }
}

/// Returns the sum over all zones of a figure in a kernel's report, in kB.
fn level(report: &str, name: &str) -> u64 {
    let of = |word: &str| {
        word.strip_prefix(name)?
            .strip_prefix(':')?
            .strip_suffix("kB")?
            .parse::<u64>()
            .ok()
    };
    report.split_whitespace().filter_map(of).sum::<u64>()
}

/// Two processes need six tenths of memory each: one is killed, the other gets its memory and runs
/// to its end.
#[test]
fn one_is_killed_and_the_others_go_on() {
    assert_eq!(run(&anonymous("0.7")).outcome, Outcome::Completed);
    let r = run(&anonymous("1.2"));
    let text = report(&r);
    assert!(text.starts_with("1 killed: mmap-strm ("), "{text}");
    for part in [
        "mmap-strm invoked oom-killer: gfp_mask=GFP_HIGHUSER_MOVABLE, order=0",
        "lowmem_reserve[]:",
        "Out of memory: Kill process",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(
        (level(text, "dirty"), level(text, "writeback")),
        (0, 0),
        "{text}"
    );
    assert!(!r.counters.contains_key("oom_kill"), "a counter of 4.13");
    // The victim's memory is free again, and the survivor has ended.
    assert!(
        r.counters["nr_anon_pages"] * 4096 < 8 << 20,
        "{:?}",
        r.counters["nr_anon_pages"]
    );
    assert!(r.metrics.contains_key("elapsed"));
}

/// The process with the most memory is killed, whichever asked; the one that asked goes on and
/// reports its metrics. Two sysctls change this.
#[test]
fn the_largest_is_killed_and_not_who_asks() {
    let small = "desktop -w 16M -p 4K -i 50ms -t 2s";
    let line = format!("desktop -w 40M -p 4K -i 50ms & sleep 1; {small}");
    let mut s = spec(machine(64), FsKind::Xfs, &line);
    let killed = |s: &RunSpec, who: &str| {
        let r = run(s);
        assert_eq!(report(&r).lines().next(), Some(who));
        r
    };
    let first = run(&s);
    let when = report(&first).split_once('\n').map_or("", |l| l.0);
    let when = when
        .strip_prefix("1 killed: desktop (2) at ")
        .expect("the larger one");
    assert!(report(&first).contains("Kill process 2 (desktop)"));
    assert!(first.metrics["responses"].value > 30.0);
    s.machine.sysctl.oom_kill_allocating_task = Some(1);
    killed(&s, &format!("1 killed: desktop (3) at {when}"));
    s.machine.sysctl.panic_on_oom = Some(1);
    s.policy.counters = mm::policy::Counters::Linux61;
    let r = killed(&s, "desktop asked for 2^0 pages; vm.panic_on_oom");
    assert_eq!(r.counters["oom_kill"], 0);
    s.machine.sysctl.panic_on_oom = None;
    assert_eq!(run(&s).counters["oom_kill"], 1);
}

/// A victim that sleeps is woken by the signal.
#[test]
fn a_victim_that_sleeps_wakes_and_dies() {
    let own = "mmap-strm -t 1 --stream 0 --mixed 0.5 --file-share 0 --anon-passes 1";
    let r = script(&format!(
        "desktop -w 40M -p 4K -n 1 -f 0 -i 300s & sleep 2; {own}"
    ));
    let text = report(&r);
    assert!(text.starts_with("1 killed: desktop (2) at 2."), "{text}");
    assert!(
        r.metrics["elapsed"].value < 5.0,
        "{:?}",
        r.metrics["elapsed"]
    );
}

/// Threads share their memory: all of them die, the others' ends are not waited for, and the shell
/// runs the next command.
#[test]
fn threads_die_together() {
    let simoop = "simoop -t 4 -m 30 -M 16 -C 1 -D 0 -n 2 -T 4 -R 20 -W 20 -i 1 /hammer";
    let r = script(&format!(
        "{simoop}; dd if=/dev/zero of=after bs=64k count=16"
    ));
    let text = report(&r);
    assert!(text.starts_with("1 killed: simoop ("), "{text}");
    assert!(
        r.metrics.contains_key("full_records_out"),
        "{:?}",
        r.metrics.keys()
    );
}

/// A page that could not be swapped out is still the only copy: a swap area that fails all writes
/// frees no memory, and once it takes writes, no page is missing.
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

/// Eight processes dirty three times the memory through mappings, while two others allocate half of
/// it now and then. There is no swap, and the stick is slow.
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

/// Dirty memory that only needs to be written does not lead to OOM as long as kswapd may write.
#[test]
fn dirty_memory_is_waited_for_if_kswapd_may_write() {
    for kswapd in [ReclaimWriteback::Always, ReclaimWriteback::InTrouble] {
        let r = run(&torture(kswapd));
        assert_eq!(r.outcome, Outcome::Completed, "{kswapd:?}");
        assert!(r.counters["allocstall"] > 0, "{kswapd:?}");
    }
}

/// If reclaim may not write at all, no batch meets a congested queue, so no zone is flagged as
/// congested and reclaim's waits return at once: the lists are scanned six times between two
/// completions of the stick, all zones count as hopeless, and the run ends with dirty pages left.
/// This is a race that depends on the other memory in use, so every size from 32 to 71 MiB is
/// tried. With kswapd writing, none ends like this.
#[test]
fn without_writes_from_reclaim_memory_runs_out_early() {
    let sizes = 32u64..72;
    let ends = |kswapd: ReclaimWriteback| {
        sizes.clone().map(move |mib| {
            let mut s = torture(kswapd);
            s.machine.boot.anon = Size(mib << 20);
            run(&s)
        })
    };
    let early = |r: &RunResult| match &r.outcome {
        Outcome::Oom { report } => {
            let kills = report.split(" invoked oom-killer").skip(1);
            // More than a tenth of the machine's memory would be free once these pages are written.
            kills
                .map(|k| level(k, "dirty") + level(k, "writeback"))
                .any(|kb| kb > 4 * 6500)
        }
        _ => false,
    };
    assert!(ends(ReclaimWriteback::Never).any(|r| early(&r)));
    assert!(!ends(ReclaimWriteback::Always).step_by(4).any(|r| early(&r)));
}
