//! Memory control groups of a model: each setting changes a run for the reason that
//! docs/reference/memory-groups.md gives, and changes nothing where it is not set or not reached.

mod common;

use common::{bare, run, spec, swap};
use mm::{Policy, ZoneType};
use sim::spec::{DiskKind, FsKind, Group, GroupSettings, Groups, Limit, RunSpec, Size};
use sim::{Outcome, RunResult};

const MIB: u64 = 1 << 20;

/// A machine of `mib` MiB with an SSD and these groups, which runs `command`.
fn with(mib: u64, groups: &[(&str, GroupSettings)], command: &str) -> RunSpec {
    let mut m = bare(ZoneType::Normal, mib * MIB);
    (m.cpus, m.hz) = (1, 250);
    m.disk.kind = DiskKind::Ssd;
    let mut s = spec(m, FsKind::Ext4, command);
    s.policy = Policy::linux_6_12();
    s.groups = Groups {
        all: groups
            .iter()
            .map(|(name, settings)| Group {
                name: (*name).to_owned(),
                settings: settings.clone(),
            })
            .collect(),
        of_workload: None,
    };
    s
}

fn limit(mib: u64) -> Option<Limit> {
    Some(Limit::Bytes(mib * MIB))
}

fn max(mib: u64) -> GroupSettings {
    GroupSettings {
        max: limit(mib),
        ..GroupSettings::default()
    }
}

fn completed(s: &RunSpec) -> RunResult {
    let r = run(s);
    assert!(matches!(r.outcome, Outcome::Completed), "{:?}", r.outcome);
    r
}

/// Returns a figure of a group, 0 if the run does not have it.
fn of(r: &RunResult, name: &str) -> f64 {
    r.metrics
        .get(&format!("group.{name}"))
        .map_or(0.0, |m| m.value)
}

fn elapsed(r: &RunResult) -> f64 {
    r.metrics["elapsed"].value
}

/// A reader at its limit reclaims its own pages, and the limit is never exceeded.
#[test]
fn a_group_at_its_limit_reclaims_from_itself() {
    let write = "cgexec -g pod dd if=/dev/zero of=a bs=1M count=60";
    let limited = completed(&with(512, &[("pod", max(32))], write));
    assert!(of(&limited, "pod.pgsteal_direct") > 5000.0);
    assert!(of(&limited, "pod.events_max") > 0.0);
    assert_eq!(of(&limited, "pod.pgscan_kswapd"), 0.0);
    assert_eq!(of(&limited, "pod.peak"), 32.0 * 256.0);
    // Scans for a group's limit are not in the machine's counters.
    assert_eq!(limited.counters["pgscan_direct"], 0);
    let free = completed(&with(512, &[("pod", max(400))], write));
    assert_eq!(of(&free, "pod.events_max"), 0.0);
    assert_eq!(of(&free, "pod.pgscan"), 0.0);
    assert!(elapsed(&limited) > elapsed(&free));
}

/// Pages are charged to the group that brings them in: a reader of a file that is cached already
/// pays nothing.
#[test]
fn the_page_cache_is_charged_to_the_first_user() {
    let peak = |command: &str| {
        let mut s = with(512, &[("pod", max(32))], command);
        s.workload.files.push(workload::ExistingFile {
            path: "a".into(),
            len: 100 * MIB,
        });
        of(&completed(&s), "pod.peak")
    };
    let reads = "cgexec -g pod dd if=a of=/dev/null bs=1M";
    assert_eq!(peak(reads), 32.0 * 256.0);
    assert_eq!(peak(&format!("dd if=a of=/dev/null bs=1M; {reads}")), 0.0);
}

/// A program that needs more anonymous memory than its group may have, without swap, is killed; its
/// neighbour outside is not. With swap it goes on, unless `swap_max` forbids it.
#[test]
fn a_program_that_does_not_fit_is_killed() {
    let eats = "cgexec -g pod desktop -w 48M -p 1M -n 20 -i 1ms -t 1s";
    let killed = completed(&with(256, &[("pod", max(32))], eats));
    assert_eq!(of(&killed, "pod.oom_kill"), 1.0);
    assert!(of(&killed, "pod.oom") >= 1.0);
    assert!(killed.metrics.contains_key("group.pod.first_kill"));
    assert!(
        killed
            .notes
            .iter()
            .any(|n| n.contains("at the limit of its group `pod`"))
    );
    let fits = completed(&with(256, &[("pod", max(128))], eats));
    assert_eq!(of(&fits, "pod.oom_kill"), 0.0);

    let mut swaps = with(256, &[("pod", max(32))], eats);
    swaps.machine.swap = Some(swap(128 * MIB));
    let r = completed(&swaps);
    assert_eq!(of(&r, "pod.oom_kill"), 0.0);
    assert!(of(&r, "pod.pswpout") > 1000.0);
    swaps.groups.all[0].settings.swap_max = Some(Limit::Bytes(0));
    let r = completed(&swaps);
    assert_eq!(of(&r, "pod.pswpout"), 0.0);
    assert_eq!(of(&r, "pod.oom_kill"), 1.0);
}

/// `oom_group` ends all programs of the group, not only the largest.
#[test]
fn a_group_can_be_killed_as_a_whole() {
    let two = "cgexec -g pod desktop -w 4M -p 1M -n 4 -i 1ms -t 3s & sleep 0.5; \
               cgexec -g pod desktop -w 48M -p 1M -n 20 -i 1ms -t 1s; wait";
    let mut s = with(256, &[("pod", max(32))], two);
    let one = completed(&s);
    assert_eq!(of(&one, "pod.oom_kill"), 1.0);
    assert_eq!(of(&one, "pod.oom_group_kill"), 0.0);
    s.groups.all[0].settings.oom_group = Some(true);
    let all = completed(&s);
    assert_eq!(of(&all, "pod.oom_kill"), 2.0);
    assert_eq!(of(&all, "pod.oom_group_kill"), 1.0);
}

/// Above `high` the task reclaims; with anonymous memory and no swap reclaim frees nothing, and the
/// task sleeps instead of being killed.
#[test]
fn high_slows_a_group_down_and_kills_nobody() {
    let eats = "cgexec -g pod desktop -w 48M -p 1M -n 4 -i 1ms -t 1s";
    let high = GroupSettings {
        high: limit(40),
        ..GroupSettings::default()
    };
    let slow = completed(&with(256, &[("pod", high)], eats));
    assert!(of(&slow, "pod.events_high") > 0.0);
    assert_eq!(of(&slow, "pod.oom_kill"), 0.0);
    assert!(of(&slow, "pod.psi_memory_some") > 1.0);
    let free = completed(&with(256, &[("pod", GroupSettings::default())], eats));
    assert_eq!(of(&free, "pod.events_high"), 0.0);
    assert!(elapsed(&slow) > 2.0 * elapsed(&free), "{}", elapsed(&slow));
}

/// A streaming reader in one group pushes the cache of another out, unless `low` or `min` protects
/// it.
#[test]
fn low_and_min_protect_a_cache() {
    let command = "cgexec -g cache dd if=/dev/zero of=c bs=1M count=24; sync; \
                   cgexec -g batch dd if=/dev/zero of=b bs=1M count=300; \
                   cgexec -g cache dd if=c of=/dev/null bs=1M";
    let cached = |settings: GroupSettings| {
        let groups = [("cache", settings), ("batch", GroupSettings::default())];
        let r = completed(&with(128, &groups, command));
        (of(&r, "cache.pgscan"), of(&r, "cache.events_low"))
    };
    let (scanned, _) = cached(GroupSettings::default());
    assert!(scanned > 1000.0, "{scanned}");
    let low = GroupSettings {
        low: limit(40),
        ..GroupSettings::default()
    };
    assert_eq!(cached(low), (0.0, 0.0));
    let min = GroupSettings {
        min: limit(40),
        ..GroupSettings::default()
    };
    assert_eq!(cached(min), (0.0, 0.0));
}

/// If all memory is under `low`, it is broken, which is an event; `min` is not, and the request
/// runs out of memory.
#[test]
fn low_is_broken_where_nothing_else_is_left() {
    let command = "cgexec -g pod dd if=/dev/zero of=c bs=1M count=200";
    let low = GroupSettings {
        low: limit(120),
        ..GroupSettings::default()
    };
    let r = completed(&with(64, &[("pod", low)], command));
    assert!(of(&r, "pod.events_low") > 0.0);
    assert!(of(&r, "pod.pgsteal") > 10_000.0);
}

/// A parent's limit holds for the sum of its children, and its figures contain theirs.
#[test]
fn limits_hold_for_nested_groups_together() {
    let groups = [
        ("web", max(32)),
        ("web.a", GroupSettings::default()),
        ("web.b", GroupSettings::default()),
    ];
    let command = "cgexec -g web.a dd if=/dev/zero of=a bs=1M count=40 & \
                   cgexec -g web.b dd if=/dev/zero of=b bs=1M count=40; wait";
    let r = completed(&with(512, &groups, command));
    assert_eq!(of(&r, "web.peak"), 32.0 * 256.0);
    let children = of(&r, "web.a.pgsteal") + of(&r, "web.b.pgsteal");
    assert!(children > 0.0);
    assert_eq!(of(&r, "web.pgsteal"), children);
    // The children have no limit of their own.
    assert_eq!(of(&r, "web.a.events_max"), 0.0);
    assert!(of(&r, "web.events_max") > 0.0);
}

/// A writer in a small group is held to a share of the group's memory, long before the machine's
/// dirty limit.
#[test]
fn dirtiers_are_held_to_their_groups_share() {
    let command = "cgexec -g pod dd if=/dev/zero of=a bs=1M count=1000";
    let mut small = with(1024, &[("pod", max(256))], command);
    small.machine.disk.params = [("ssd_bandwidth".to_owned(), 50.0)].into();
    let paused = |s: &RunSpec| of(&completed(s), "pod.psi_io_some");
    let held = paused(&small);
    small.groups.all[0].settings.max = None;
    small.machine.nodes[0].zones[0].size = Size(8192 * MIB);
    let free = paused(&small);
    assert!(held > 1.0 && free < 0.5, "{held} and {free}");
}

/// The same run without groups, and with a group that no limit and no protection reaches, differs
/// in no counter of the machine.
#[test]
fn groups_that_nothing_reaches_change_nothing() {
    let plain = with(256, &[], "dd if=/dev/zero of=a bs=1M count=100");
    let group = [("pod", max(200))];
    let grouped = with(
        256,
        &group,
        "cgexec -g pod dd if=/dev/zero of=a bs=1M count=100",
    );
    let (a, b) = (completed(&plain), completed(&grouped));
    for name in ["pgscan_kswapd", "pgsteal_kswapd", "pgfree", "nr_dirtied"] {
        assert_eq!(a.counters.get(name), b.counters.get(name), "{name}");
    }
}
