//! The counters' names compared with those of kernels. The lists are the names in `vmstat_text` of
//! mm/vmstat.c of each release, with all kinds of zones where a name has a zone, without those of
//! options that are not modelled (huge pages, balloons, CMA). The names of 6.1 and 6.12 are
//! compared with recordings of guests (crates/kernel/tests/recordings.rs).

use super::prelude::*;
use crate::counters::{Known, known, names, of_no_kernel};
use crate::policy::Counters;
use std::collections::BTreeSet;

/// Levels of 2.6.37 to 3.1.
const LEVELS: &str = "nr_free_pages nr_inactive_anon nr_active_anon nr_inactive_file nr_active_file nr_unevictable \
    nr_mlock nr_anon_pages nr_mapped nr_file_pages nr_dirty nr_writeback nr_slab_reclaimable nr_slab_unreclaimable \
    nr_page_table_pages nr_kernel_stack nr_unstable nr_bounce nr_vmscan_write nr_writeback_temp nr_isolated_anon \
    nr_isolated_file nr_shmem nr_dirtied nr_written nr_dirty_threshold nr_dirty_background_threshold";
const NUMA: &str = "numa_hit numa_miss numa_foreign numa_interleave numa_local numa_other";
/// Events of all these kernels.
const EVENTS: &str = "pgpgin pgpgout pswpin pswpout pgfree pgactivate pgdeactivate pgfault pgmajfault pginodesteal \
    slabs_scanned kswapd_inodesteal kswapd_low_wmark_hit_quickly kswapd_high_wmark_hit_quickly pageoutrun pgrotated \
    compact_stall compact_fail compact_success zone_reclaim_failed";
/// Further names of 2.6.37, 3.0 and 3.1, whose lists differ only in huge pages.
const OLD: &str = "kswapd_steal kswapd_skip_congestion_wait allocstall compact_blocks_moved compact_pages_moved \
    compact_pagemigrate_failed";
const OLD_BY_ZONE: &str = "pgalloc pgrefill pgsteal pgscan_kswapd pgscan_direct";
/// Further names of 3.16.
const V3_16: &str = "nr_alloc_batch nr_vmscan_immediate_reclaim workingset_refault workingset_activate \
    workingset_nodereclaim pgscan_direct_throttle allocstall drop_pagecache drop_slab pgmigrate_success pgmigrate_fail \
    compact_migrate_scanned compact_free_scanned compact_isolated";
const V3_16_BY_ZONE: &str =
    "pgalloc pgrefill pgsteal_kswapd pgsteal_direct pgscan_kswapd pgscan_direct";
/// Further names of 4.9.
const V4_9: &str = "nr_zone_inactive_anon nr_zone_active_anon nr_zone_inactive_file nr_zone_active_file \
    nr_zone_unevictable nr_zone_write_pending nr_vmscan_immediate_reclaim nr_pages_scanned workingset_refault \
    workingset_activate workingset_nodereclaim pglazyfreed pgrefill pgsteal_kswapd pgsteal_direct pgscan_kswapd \
    pgscan_direct pgscan_direct_throttle drop_pagecache drop_slab pgmigrate_success pgmigrate_fail \
    compact_migrate_scanned compact_free_scanned compact_isolated compact_daemon_wake";
const V4_9_BY_ZONE: &str = "pgalloc allocstall pgskip";

/// Returns the list of the kernel that a preset stands for, if it is among these.
fn real(preset: &str) -> Option<BTreeSet<String>> {
    let (more, by_zone) = match preset {
        "linux-2.6.37" | "linux-3.0-rc6" | "linux-3.0" | "linux-3.1" => (OLD, OLD_BY_ZONE),
        "linux-3.16" => (V3_16, V3_16_BY_ZONE),
        "linux-4.9" => (V4_9, V4_9_BY_ZONE),
        _ => return None,
    };
    let whole = [LEVELS, NUMA, EVENTS, more].into_iter();
    let mut all: BTreeSet<String> = whole
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect();
    for name in by_zone.split_whitespace() {
        let zones = ["dma", "dma32", "normal", "high", "movable"];
        all.extend(zones.map(|zone| format!("{name}_{zone}")));
    }
    Some(all)
}

/// Each counter name of a preset exists in its kernel, or is one of those that no kernel has.
#[test]
fn counters_have_the_names_of_their_kernel() {
    let mut seen = 0;
    for preset in Policy::PRESETS {
        let Some(real) = real(preset) else { continue };
        let policy = Policy::preset(preset).expect("a preset");
        for name in names(&policy) {
            // Names that the kernel has only with a patch, before 3.2.
            let patch = name == "nr_vmscan_immediate_reclaim" && !policy.immediate_reclaim
                || name == "nr_alloc_batch" && policy.fair_zones == FairZones::Off
                || name.starts_with("workingset_") && !policy.workingset
                || name.ends_with("_anon") && name.starts_with("workingset_")
                || name == "pgscan_direct_throttle" && !policy.emergency_throttle;
            assert_ne!(
                real.contains(&name),
                of_no_kernel(&name) || patch,
                "{preset}: {name}"
            );
        }
        seen += 1;
    }
    assert_eq!(seen, 6);
}

/// The switch `counters`: events of reclaim are reported by zone or by node, and under the names of
/// the release.
#[test]
fn what_is_counted_is_told_as_its_kernel_tells_it() {
    let reported = |counters: Counters| {
        let policy = Policy {
            counters,
            workingset: true,
            ..Policy::linux_3_0()
        };
        let mm = super::bare::Bare::new(policy, 4096).build();
        let all = mm.vmstat().into_iter();
        all.map(|(name, _)| name).collect::<BTreeSet<_>>()
    };
    let all = [
        Counters::Linux30,
        Counters::Linux316,
        Counters::Linux49,
        Counters::Linux61,
    ];
    let all = all.map(reported);
    for (name, of) in [
        ("pgscan_kswapd_normal", [true, true, false, false]),
        ("pgscan_kswapd", [false, false, true, true]),
        ("kswapd_steal", [true, false, false, false]),
        ("pgsteal_normal", [true, false, false, false]),
        ("pgsteal_kswapd_normal", [false, true, false, false]),
        ("pgsteal_kswapd", [false, false, true, true]),
        ("allocstall", [true, true, false, false]),
        ("allocstall_normal", [false, false, true, true]),
        ("allocstall_movable", [false, false, true, true]),
        ("pgskip_normal", [false, false, true, true]),
        ("pgskip_movable", [false; 4]),
        ("pgalloc_normal", [true; 4]),
        ("nr_inactive_file", [true; 4]),
        ("nr_zone_inactive_file", [false, false, true, true]),
        ("workingset_refault", [true, true, true, false]),
        ("workingset_refault_file", [false, false, false, true]),
        ("pgscan_file", [false, false, false, true]),
        ("oom_kill", [false, false, false, true]),
        ("pgmigrate_success", [false, true, true, true]),
    ] {
        let has = all.each_ref().map(|names| names.contains(name));
        assert_eq!(has, of, "{name}");
    }
}

/// A name of another kernel leads to this one's name for the same counter.
#[test]
fn names_of_other_kernels_are_known() {
    let (old, new) = (Policy::linux_3_0(), Policy::linux_6_12());
    let other = |name: &str| Known::As(name.to_owned());
    for (name, of_old, of_new) in [
        ("pgscan_kswapd", Known::Here, Known::Here),
        ("pgscan_kswapd_normal", Known::Here, other("pgscan_kswapd")),
        ("allocstall", Known::Here, Known::Here),
        ("allocstall_movable", other("allocstall"), Known::Here),
        ("kswapd_steal", Known::Here, other("pgsteal_kswapd")),
        ("pgsteal_kswapd", other("kswapd_steal"), Known::Here),
        ("pgsteal_normal", Known::Here, Known::Elsewhere),
        (
            "workingset_refault_file",
            other("workingset_refault"),
            Known::Here,
        ),
        ("pgscan_anon", Known::Elsewhere, Known::Here),
        ("inodes_freed", Known::Here, Known::Here),
        ("pgdemote_kswapd", Known::Nowhere, Known::Nowhere),
    ] {
        assert_eq!(
            [known(&old, name), known(&new, name)],
            [of_old, of_new],
            "{name}"
        );
    }
}

/// Counts by kind of page, and by the zone of a request, add up to the total.
#[test]
fn parts_come_to_the_whole() {
    use super::programs::{bring_in, file};
    let mut bare = super::bare::Bare::new(Policy::linux_6_12(), 4096);
    bare.swap = 4096;
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, 8000);
    let region = mm
        .new_region(Backing::Anon, 1500, Advice::Normal)
        .expect("room");
    super::world::block_on(&mm, async {
        for index in 0..1500 {
            mm.touch(region, index, true).await;
        }
        for first in (0..7968).step_by(32) {
            bring_in(&mm, f, first, 32).await;
        }
    });
    let all = mm.vmstat();
    let of = |name: &str| all.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v);
    assert!(of("pgscan_file") > 0 && of("pgsteal_file") > 0);
    for what in ["pgscan", "pgsteal"] {
        let sum = |a: &str, b: &str| of(&format!("{what}_{a}")) + of(&format!("{what}_{b}"));
        assert_eq!(sum("kswapd", "direct"), sum("anon", "file"), "{what}");
    }
    assert!(of("allocstall_movable") > 0);
    let stalls = ["allocstall_normal", "allocstall_movable"].map(of);
    assert_eq!(stalls.iter().sum::<u64>(), mm.vm_event(VmEvent::AllocStall));
}
