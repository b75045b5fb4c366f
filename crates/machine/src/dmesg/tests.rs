//! Tests of the reports. The texts have the forms of several releases, with figures of their own.

use super::*;
use crate::describe::{self, Options};
use proptest::prelude::*;

/// A machine of 8 GiB that ran out, as 5.15 to 6.12 print it.
const MACHINE: &str = "\
[   10.000000] something else
[ 8123.250000] java invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
[ 8123.250001] CPU: 3 PID: 900 Comm: java Not tainted 6.1.0-18-amd64 #1  Debian 6.1.76-1
[ 8123.250002] Call Trace:
[ 8123.250003]  dump_stack_lvl+0x44/0x5c
[ 8123.250004] Mem-Info:
[ 8123.250005] active_anon:1000 inactive_anon:1890000 isolated_anon:0
[ 8123.250005]  active_file:200 inactive_file:300 isolated_file:0
[ 8123.250005]  unevictable:0 dirty:4 writeback:0
[ 8123.250005]  slab_reclaimable:6000 slab_unreclaimable:9000
[ 8123.250005]  mapped:1100 shmem:500 pagetables:5000
[ 8123.250005]  sec_pagetables:0 bounce:0
[ 8123.250005]  kernel_misc_reclaimable:0
[ 8123.250005]  free:25950 free_pcp:0 free_cma:0
[ 8123.250006] Node 0 active_anon:4000kB inactive_anon:7560000kB all_unreclaimable? yes
[ 8123.250007] Node 0 DMA free:13312kB boost:0kB min:128kB low:160kB high:192kB reserved_highatomic:0KB present:15992kB managed:15360kB mlocked:0kB
[ 8123.250008] lowmem_reserve[]: 0 2950 7800 7800 7800
[ 8123.250009] Node 0 DMA32 free:44000kB boost:0kB min:25600kB low:32000kB high:38400kB present:3129216kB managed:3063808kB mlocked:0kB
[ 8123.250010] lowmem_reserve[]: 0 0 4850 4850 4850
[ 8123.250011] Node 0 Normal free:46488kB boost:4096kB min:46592kB low:57216kB high:67840kB present:5242880kB managed:4966400kB mlocked:0kB
[ 8123.250012] lowmem_reserve[]: 0 0 0 0 0
[ 8123.250013] Node 0 DMA: 0*4kB 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 1*1024kB (U) 0*2048kB 3*4096kB (M) = 13312kB
[ 8123.250014] Node 0 DMA32: 11000*4kB (UME) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 44000kB
[ 8123.250015] Node 0 Normal: 11622*4kB (UME) 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 46488kB
[ 8123.250016] Node 0 hugepages_total=0 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB
[ 8123.250017] 1000 total pagecache pages
[ 8123.250018] 0 pages in swap cache
[ 8123.250019] Free swap  = 0kB
[ 8123.250020] Total swap = 2097148kB
[ 8123.250021] 2097022 pages RAM
[ 8123.250022] 0 pages HighMem/MovableOnly
[ 8123.250023] 85630 pages reserved
[ 8123.250024] Tasks state (memory values in pages):
[ 8123.250025] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[ 8123.250026] [    900]  1000   900  3000000  1500000 13000000   400000             0 java
[ 8123.250027] [    901]     0   901     5000      300    60000       10         -1000 Web Content 2
[ 8123.250028] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=java,pid=900,uid=1000
[ 8123.250029] Out of memory: Killed process 900 (java) total-vm:12000000kB, anon-rss:6000000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:13000kB oom_score_adj:0
[ 8123.260000] oom_reaper: reaped process 900 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
";

/// A group at its limit while its memory is dirty page cache, through journalctl.
const GROUP: &str = "\
Nov 30 10:00:00 host kernel: dd invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
Nov 30 10:00:00 host kernel: CPU: 0 UID: 0 PID: 77 Comm: dd Not tainted 6.12.0-dbg #3
Nov 30 10:00:00 host kernel: memory: usage 204800kB, limit 204800kB, failcnt 321
Nov 30 10:00:00 host kernel: swap: usage 0kB, limit 9007199254740988kB, failcnt 0
Nov 30 10:00:00 host kernel: Memory cgroup stats for /kubepods/web:
Nov 30 10:00:00 host kernel: anon 1048576
Nov 30 10:00:00 host kernel: file 200000000
Nov 30 10:00:00 host kernel: file_dirty 150000000
Nov 30 10:00:00 host kernel: file_writeback 40000000
Nov 30 10:00:00 host kernel: Tasks state (memory values in pages):
Nov 30 10:00:00 host kernel: [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
Nov 30 10:00:00 host kernel: [     77]     0    77      900      300      100      200         0    40960        0             0 dd
Nov 30 10:00:00 host kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/web,task_memcg=/kubepods/web,task=dd,pid=77,uid=0
Nov 30 10:00:00 host kernel: Memory cgroup out of memory: Killed process 77 (dd) total-vm:3600kB, anon-rss:400kB, file-rss:800kB, shmem-rss:0kB, UID:0 pgtables:40kB oom_score_adj:0
";

/// A failed request of high order, of a machine without NUMA.
const FAILURE: &str = "\
<4>[  100.500000][  T55] kworker/0:1: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL|__GFP_COMP), nodemask=(null),cpuset=/,mems_allowed=0
<4>[  100.500001][  T55] CPU: 0 PID: 55 Comm: kworker/0:1 Tainted: G        W  O      5.10.0-8-amd64 #1
<4>[  100.500002][  T55] Mem-Info:
<4>[  100.500003][  T55] active_anon:100 inactive_anon:1000 isolated_anon:0
<4>[  100.500003][  T55]  active_file:20000 inactive_file:30000 isolated_file:0
<4>[  100.500003][  T55]  unevictable:0 dirty:4 writeback:0 free:9000
<4>[  100.500007][  T55] Normal free:36000kB min:2000kB low:2500kB high:3000kB present:262144kB managed:253952kB
<4>[  100.500008][  T55] lowmem_reserve[]: 0 0
<4>[  100.500013][  T55] Normal: 8000*4kB (UM) 500*8kB (M) 0*16kB 0*32kB 0*64kB 0*128kB = 36000kB
<4>[  100.500019][  T55] Free swap  = 0kB
<4>[  100.500020][  T55] Total swap = 0kB
<4>[  100.500021][  T55] 65536 pages RAM
";

/// A report of 2.6.37, whose zones have no `managed` and whose kill takes two lines.
const OLD: &str = "\
[  200.000000] stress invoked oom-killer: gfp_mask=0x280da, order=0, oom_adj=0, oom_score_adj=0
[  200.000001] Pid: 700, comm: stress Not tainted 2.6.37.6 #2
[  200.000002] Mem-Info:
[  200.000003] active_anon:30000 inactive_anon:20000 isolated_anon:0
[  200.000003]  active_file:10 inactive_file:20 isolated_file:0
[  200.000003]  unevictable:0 dirty:0 writeback:0 unstable:0
[  200.000003]  free:1000 slab_reclaimable:500 slab_unreclaimable:700
[  200.000003]  mapped:1 shmem:2 pagetables:100 bounce:0
[  200.000004] DMA free:2000kB min:100kB low:124kB high:148kB active_anon:0kB present:15676kB mlocked:0kB all_unreclaimable? yes
[  200.000005] lowmem_reserve[]: 0 800 800
[  200.000006] Normal free:2000kB min:2100kB low:2624kB high:3148kB active_anon:120000kB present:210000kB mlocked:0kB all_unreclaimable? yes
[  200.000007] lowmem_reserve[]: 0 0 0
[  200.000008] Free swap  = 0kB
[  200.000009] Total swap = 0kB
[  200.000010] [ pid ]   uid  tgid total_vm      rss cpu oom_adj oom_score_adj name
[  200.000011] [  700]     0   700    60000    48000   0       0             0 stress
[  200.000012] Out of memory: Kill process 700 (stress) score 900 or sacrifice child
[  200.000013] Killed process 700 (stress) total-vm:240000kB, anon-rss:192000kB, file-rss:40kB
";

fn only(text: &str) -> Report {
    let mut all = parse(text).expect("a report");
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn a_machine_s_report_is_read() {
    let r = only(MACHINE);
    assert_eq!(
        (r.line, r.kind, r.task.as_str(), r.order),
        (2, Kind::Oom, "java", 0)
    );
    assert_eq!(r.seconds, Some(8123.25));
    assert_eq!(r.gfp, "GFP_HIGHUSER_MOVABLE|__GFP_COMP");
    assert_eq!(
        (r.cpu, r.release.as_deref()),
        (Some(3), Some("6.1.0-18-amd64"))
    );
    assert_eq!(
        (r.count("inactive_anon"), r.count("sec_pagetables")),
        (1_890_000, 0)
    );
    let names: Vec<&str> = r.zones.iter().map(|z| z.name.as_str()).collect();
    assert_eq!(names, ["DMA", "DMA32", "Normal"]);
    assert_eq!(
        (r.zones[2].managed(), r.zones[2].pages("min")),
        (1_241_600, 11_648)
    );
    assert_eq!((r.zones[0].blocks[8], r.zones[0].blocks[10]), (1, 3));
    assert_eq!((r.swap, r.ram), (Some((2_097_148, 0)), Some(2_097_022)));
    assert_eq!(r.tasks.len(), 2);
    let t = &r.tasks[1];
    assert_eq!(
        (t.pid, t.rss, t.swapped, t.name.as_str()),
        (901, 300, 10, "Web Content 2")
    );
    assert_eq!((r.killed.len(), r.killed[0].anon), (1, 6_000_000));
    let told = explain(&r);
    assert_eq!(told.len(), 5);
    for (line, part) in told.iter().zip([
        "At 8123.250 s: java asked for one page as GFP_HIGHUSER_MOVABLE|__GFP_COMP; the kernel killed java (pid 900)",
        "anonymous and mlocked",
        "Normal has 45.4 MiB free (min is 45.5 MiB): too little",
        "Of 2.0 GiB of swap 0 KiB are free.",
        "processes hold more than memory and swap together",
    ]) {
        assert!(line.contains(part), "{line:?} has no {part:?}");
    }
    assert!(told[2].contains("DMA32 has 43.0 MiB free (min is 25.0 MiB, and 18.9 MiB are reserved for others): too little"), "{}", told[2]);
}

/// The machine has the report's zones, watermarks, swap and CPUs, and memory of the killed process
/// is free.
#[test]
fn a_machine_s_report_is_a_machine() {
    let r = only(MACHINE);
    let (captured, assumed) = captured(&r).expect("zones");
    let described = describe::describe(
        &captured,
        &Options {
            source: Some("a report"),
            assumed: &assumed,
            ..Options::default()
        },
    )
    .unwrap();
    let m = &described.machine;
    assert_eq!(described.preset, "linux-6.1");
    assert_eq!(m.nodes[0].zones.len(), 3);
    assert_eq!(m.nodes[0].zones[2].size.0, 4_966_400 << 10);
    assert_eq!(m.cpus, 4);
    assert_eq!(m.swap.as_ref().map(|s| s.size.0), Some(2_097_148 << 10));
    assert_eq!(
        m.sysctl.min_free_kbytes,
        Some(128 + 25_600 + (46_592 - 4096))
    );
    // (low - min) of Normal is a quarter of min: the default of 10 decides nothing.
    assert_eq!(captured.settings.watermark_scale_factor, 10);
    assert_eq!(captured.zones[2].marks, [10_624, 13_280, 15_936]);
    let anon = 1_891_000 - 6_000_000 / 4;
    assert_eq!(m.boot.anon.0, anon * 4096);
    assert!(
        described
            .text
            .starts_with("# Written by `lowmark machine` from a report of Linux 6.1.0-18-amd64.\n")
    );
    assert!(
        described
            .notes
            .iter()
            .any(|n| n.contains("at least 4 CPUs"))
    );
}

#[test]
fn a_group_s_report_is_explained() {
    let r = only(GROUP);
    let group = r.group.as_ref().expect("a group");
    assert_eq!(group.path, "/kubepods/web");
    assert_eq!(group.memory, Some((204_800, 204_800)));
    assert_eq!(group.stat["file_writeback"], 40_000_000);
    assert_eq!((r.tasks[0].rss, r.tasks[0].swapped), (300, 0));
    assert_eq!(r.release.as_deref(), Some("6.12.0-dbg"));
    assert!(captured(&r).is_none());
    let told = explain(&r).join("\n");
    for part in [
        "in the memory group /kubepods/web, which was at its limit",
        "The group's memory: 200.0 MiB of 200.0 MiB; its swap: 0 KiB, without a limit.",
        "143.1 MiB dirty",
        "page cache that waits for the disk fills the group",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
}

#[test]
fn a_failed_allocation_is_explained() {
    let r = only(FAILURE);
    assert_eq!(
        (r.kind, r.order, r.seconds),
        (Kind::AllocationFailure, 5, Some(100.5))
    );
    assert_eq!(r.release.as_deref(), Some("5.10.0-8-amd64"));
    let told = explain(&r).join("\n");
    for part in [
        "kworker/0:1 asked for 128 KiB in one block (order 5) as GFP_KERNEL|__GFP_COMP",
        "the request failed, and nothing was killed",
        "enough, but no block of this size",
        "There is no swap",
        "no block of order 5 is left",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    // The same machine with a block of that size left: something else was wrong a moment before.
    let with = FAILURE.replace("0*128kB = 36000kB", "1*128kB (M) = 36128kB");
    assert!(!explain(&only(&with)).join("\n").contains("but no block"));
}

#[test]
fn reports_of_old_kernels_are_read() {
    let r = only(OLD);
    assert_eq!(r.release.as_deref(), Some("2.6.37.6"));
    assert_eq!((r.zones[1].managed(), r.killed[0].anon), (52_500, 192_000));
    let (captured, _) = captured(&r).expect("zones");
    assert_eq!(captured.zones.len(), 2);
    let last = explain(&r).pop().expect("a cause");
    assert!(
        last.contains("without swap nothing of theirs can be reclaimed"),
        "{last}"
    );
}

/// One change of the machine's report at a time changes the cause.
#[test]
fn causes_follow_from_the_figures() {
    for (from, to, cause) in [
        (
            "slab_unreclaimable:9000",
            "slab_unreclaimable:600000",
            "unreclaimable slab",
        ),
        (
            "inactive_anon:1890000",
            "inactive_anon:90000",
            "memory that no counter names",
        ),
        (
            "Free swap  = 0kB",
            "Free swap  = 1000000kB",
            "faster than swap takes it",
        ),
        (
            "Total swap = 2097148kB",
            "Total swap = 0kB",
            "without swap nothing of theirs",
        ),
        ("dirty:4", "dirty:400000", "waits for a slow disk"),
        ("order=0", "order=-1", "the killer was asked for"),
    ] {
        let changed = MACHINE.replacen(from, to, 1);
        assert_ne!(changed, MACHINE, "{from}");
        let last = explain(&only(&changed)).pop().expect("a cause");
        assert!(last.contains(cause), "{from} -> {to}: {last}");
    }
    let atomic = FAILURE
        .replace("order:5", "order:0")
        .replace("GFP_KERNEL|__GFP_COMP", "GFP_ATOMIC");
    assert!(
        explain(&only(&atomic))
            .pop()
            .is_some_and(|l| l.contains("could not wait for reclaim"))
    );
    for (from, to, cause) in [
        (
            "file_dirty 150000000",
            "file_dirty 0",
            "clean page cache fills the group",
        ),
        ("anon 1048576", "anon 190000000", "need more than its limit"),
        (
            "file_dirty 150000000",
            "shmem 190000000",
            "only swap can take them",
        ),
    ] {
        let last = explain(&only(&GROUP.replacen(from, to, 1)))
            .pop()
            .expect("a cause");
        let other = cause == "need more than its limit" && last.contains("waits for the disk");
        assert!(last.contains(cause) || other, "{from} -> {to}: {last}");
    }
}

#[test]
fn a_log_may_hold_several_reports_or_none() {
    let all = parse(&format!("{MACHINE}{GROUP}{FAILURE}")).unwrap();
    let kinds: Vec<(Kind, bool)> = all.iter().map(|r| (r.kind, r.group.is_some())).collect();
    assert_eq!(
        kinds,
        [
            (Kind::Oom, false),
            (Kind::Oom, true),
            (Kind::AllocationFailure, false)
        ]
    );
    assert_eq!(
        all[1].pages.len(),
        0,
        "a group's report has no pages of the machine"
    );
    let none = parse("[    0.0] Linux version 6.1\n").unwrap_err();
    assert_eq!(
        none.to_string(),
        "line 1: no report of memory shortage up to here"
    );
    let much = MACHINE.replace("managed:15360kB", "managed:99999999999999kB");
    assert!(
        parse(&much)
            .unwrap_err()
            .to_string()
            .starts_with("line 16: ")
    );
}

/// Parses, explains and makes a machine of any text that parses.
fn all(text: &str) {
    for report in parse(text).unwrap_or_default() {
        assert_eq!(
            explain(&report).len(),
            if report.group.is_some() { 4 } else { 5 }
        );
        if let Some((captured, assumed)) = captured(&report) {
            let options = Options {
                assumed: &assumed,
                ..Options::default()
            };
            let _ = describe::describe(&captured, &options);
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        all(&text);
    }

    /// Bytes of a report are changed, removed or doubled.
    #[test]
    fn changed_reports_do_not_panic(
        which in 0..4_usize,
        at in any::<prop::sample::Index>(),
        with in "[0-9 :()\\[\\]*=kB\n-]{0,12}",
        cut in 0..40_usize,
    ) {
        let text = [MACHINE, GROUP, FAILURE, OLD][which];
        let at = at.index(text.len());
        let end = (at + cut).min(text.len());
        all(&format!("{}{with}{}", &text[..at], &text[end..]));
    }
}
