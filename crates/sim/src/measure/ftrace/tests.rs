use super::*;

const LINE: &str = "  tiobench (w) [3]-77      [002] d.h.. 23636.756054: mm_vmscan_lru_isolate: isolate_mode=0 classzone=1 \
                    order=0 nr_requested=32 nr_scanned=7 nr_skipped=0 nr_taken=7 lru=inactive_file";

#[test]
fn a_line_is_taken_apart_whatever_the_task_is_called() {
    let line = Line::of(LINE).expect("a line");
    assert_eq!((line.comm, line.pid, line.cpu), ("tiobench (w) [3]", 77, 2));
    assert_eq!(line.ns, 23_636_756_054_000);
    assert_eq!(line.name, "mm_vmscan_lru_isolate");
    assert_eq!(line.number("nr_scanned"), Some(7));
    assert_eq!(line.word("lru"), Some("inactive_file"));
    assert_eq!(line.word("scanned"), None);
    let old = Line::of(" dd-5 [000] 1.5: mm_vmscan_direct_reclaim_end: nr_reclaimed=3");
    assert_eq!(old.expect("without flags").ns, 1_500_000_000);
    for wrong in [
        "",
        "dd-5",
        "dd-5 [x] 1.5: a: b",
        "dd [0] 1.5: a: b",
        "dd-5 [0] 1: a: b",
    ] {
        assert_eq!(Line::of(wrong), None, "{wrong}");
    }
}

/// Spans under way at the marks count between them; tasks are kswapds by their name.
#[test]
fn spans_are_cut_at_the_marks() {
    let text = "# tracer: nop\n\
        kswapd0-1 [000] ..... 1.000000: mm_vmscan_kswapd_wake: nid=0 order=0\n\
        dd-2 [000] ..... 1.100000: mm_vmscan_wakeup_kswapd: nid=0 order=0 gfp_flags=none\n\
        sh-3 [000] ..... 2.000000: tracing_mark_write: lowmark: the workload begins\n\
        dd-2 [000] ..... 2.100000: mm_vmscan_wakeup_kswapd: nid=0 order=0 gfp_flags=none\n\
        cp-4 [000] ..... 2.150000: mm_vmscan_wakeup_kswapd: nid=0 order=0 gfp_flags=none\n\
        dd-2 [000] ..... 2.200000: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=none\n\
        kswapd0-1 [000] ..... 2.250000: mm_vmscan_lru_isolate: nr_scanned=9 lru=inactive_file\n\
        dd-2 [000] ..... 2.260000: mm_vmscan_lru_isolate: nr_scanned=4 lru=active_file\n\
        dd-2 [000] ..... 2.270000: writeback_congestion_wait: usec_timeout=100000 usec_delayed=100000\n\
        dd-2 [000] ..... 2.280000: mm_vmscan_write_folio: page=0 pfn=0x1 flags=RECLAIM_WB_FILE|RECLAIM_WB_SYNC\n\
        kswapd0-1 [000] ..... 2.300000: mm_vmscan_kswapd_sleep: nid=0\n\
        sh-3 [000] ..... 2.500000: tracing_mark_write: lowmark: the workload has ended\n\
        dd-2 [000] ..... 2.900000: mm_vmscan_direct_reclaim_end: nr_reclaimed=32\n";
    let traced = rows(text.as_bytes()).expect("a trace");
    let s = traced.sums;
    assert_eq!(traced.span_ns, 500_000_000);
    assert_eq!((s.kswapd_wakeups, s.kswapd_awake_ns), (0, 300_000_000));
    assert_eq!((s.direct_reclaims, s.stalled_ns), (1, 300_000_000));
    assert_eq!((s.wake_requests, s.wake_requests_all), (1, 2));
    assert_eq!((s.kswapd.scanned, s.direct.scanned), (9, 0));
    assert_eq!(s.direct.writes.file_sync, 1);
    let waits = s.direct.congest.expect("one wait");
    assert_eq!(
        (waits.number, waits.delayed_us, waits.full),
        (1, 100_000, 1)
    );
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let wrong = |text: &str| rows(text.as_bytes()).expect_err(text).to_string();
    assert_eq!(wrong("# x\nhallo\n"), "line 2: no event of a trace");
    let lost = wrong("CPU:1 [LOST 5 EVENTS]\n");
    assert!(lost.starts_with("line 1: the kernel lost events"), "{lost}");
    let less = wrong("dd-5 [000] 1.5: mm_vmscan_lru_isolate: nr_taken=3 lru=inactive_file\n");
    assert_eq!(less, "line 1: a field is missing");
}

/// The same events as other programs print them.
#[test]
fn texts_of_trace_cmd_perf_and_systrace_are_read() {
    let texts = [
        // trace-cmd report
        "version = 7\n\
         CPU 1 is empty\n\
         cpus=4\n\
         \x20           java-4321  [001]   100.000100: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL\n\
         \x20Jit thread pool-555   [003] .....   100.001000: mm_vmscan_direct_reclaim_begin: order=0\n\
         \x20Jit thread pool-555   [003] .....   100.011000: mm_vmscan_direct_reclaim_end: nr_reclaimed=64\n\
         \x20           java-4321  [001]   100.004100: mm_vmscan_direct_reclaim_end:    nr_reclaimed=33\n\
         \x20        kswapd0-77    [002]   100.012000: mm_vmscan_lru_isolate: nr_scanned=32 lru=2\n\
         \x20        kswapd0-77    [002]   100.012000: mm_vmscan_lru_isolate: nr_scanned=32 lru=3\n",
        // perf script, with the pid and with pid/tid, with and without a CPU, with a call chain
        "java  4321 [001]   100.000100: vmscan:mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL\n\
         \tffffffff8127d3a1 try_to_free_pages+0x1 ([kernel.kallsyms])\n\
         \t    7f3d2a1b try_to_free_pages (/usr/lib/x)\n\
         \n\
         Jit thread pool   500/555   [003]   100.001000: vmscan:mm_vmscan_direct_reclaim_begin: order=0\n\
         Jit thread pool   500/555   [003]   100.011000: vmscan:mm_vmscan_direct_reclaim_end: nr_reclaimed=64\n\
         java  4321   100.004100: vmscan:mm_vmscan_direct_reclaim_end: nr_reclaimed=33\n\
         kswapd0    77 [002]   100.012000: vmscan:mm_vmscan_lru_isolate: nr_scanned=32 lru=inactive_file\n",
        // systrace
        "TRACE:\n\
         # tracer: nop\n\
         java-4321 ( 4321) [001] ....   100.000100: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL\n\
         Jit thread pool-555 (-----) [003] ....   100.001000: mm_vmscan_direct_reclaim_begin: order=0\n\
         Jit thread pool-555 (  500) [003] ....   100.011000: mm_vmscan_direct_reclaim_end: nr_reclaimed=64\n\
         java-4321 ( 4321) [001] ....   100.004100: mm_vmscan_direct_reclaim_end: nr_reclaimed=33\n\
         kswapd0-77 (   77) [002] ....   100.012000: mm_vmscan_lru_isolate: nr_scanned=32 lru=inactive_file\n",
    ];
    for text in texts {
        let traced = rows(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let s = traced.sums;
        assert_eq!((s.direct_reclaims, s.stalled_ns), (2, 14_000_000), "{text}");
        assert_eq!(s.kswapd.scanned, 32, "{text}");
        assert_eq!(traced.span_ns, 11_900_000, "{text}");
    }
    let lost = rows("CPU:1 [5 EVENTS DROPPED]\n".as_bytes())
        .expect_err("lost")
        .to_string();
    assert!(lost.starts_with("line 1: the kernel lost events"), "{lost}");
}
