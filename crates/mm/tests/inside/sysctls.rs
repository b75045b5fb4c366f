//! Sysctls that change the outcome, and for the right reason.

use super::bare::{Bare, settled};
use super::prelude::*;
use super::programs::{bring_in, file};
use super::today::with;
use super::world::{Engine, block_on};
use crate::reclaim::scan::ScanControl;

/// Writes sysctls at run time.
fn write(mm: &Engine, change: impl FnOnce(&mut Sysctl)) {
    let mut sysctl = mm.sysctls();
    change(&mut sysctl);
    mm.write_sysctls(&sysctl);
}

/// `swappiness` above 100, since 5.8 (`most_swappiness`): anonymous memory is scanned more than
/// file pages that cost as much, and with 200 it is scanned alone.
#[test]
fn above_100_anonymous_memory_goes_first() {
    let limits = [
        Policy::linux_4_9(),
        Policy::linux_6_1(),
        Policy::linux_6_12(),
    ];
    assert_eq!(limits.map(|p| p.most_swappiness), [100, 200, 200]);
    let mut bare = Bare::new(with(|_| ()), 20_000);
    bare.swap = 8000;
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, 8000);
    let region = mm
        .new_region(Backing::Anon, 8000, Advice::Normal)
        .expect("room");
    block_on(&mm, async {
        for index in 0..4000 {
            mm.touch(region, index, true).await;
        }
        for first in (0..4000).step_by(32) {
            bring_in(&mm, f, first, 32).await;
        }
        mm.world.sleep(SECOND).await;
    });
    settled(&mm);
    mm.note_activated(0, 0, true);
    let scan = |swappiness| {
        write(&mm, |s| s.swappiness = swappiness);
        let mut sc = ScanControl::new(32, 0, Gfp::USER, 3, true);
        sc.priority = 4;
        let [inactive, active, files, _] = mm.get_scan_count(0, &mut sc);
        (inactive + active, files)
    };
    let (even, more, alone) = (scan(100), scan(180), scan(200));
    assert!(even.0 < more.0 && even.1 > more.1, "{even:?} {more:?}");
    assert!(alone.0 > more.0 && alone.1 == 0, "{alone:?}");
}

/// `percpu_pagelist_high_fraction`: a CPU's lists hold their share of that fraction of the zone and
/// do not adapt; with 0 they adapt again.
#[test]
fn a_fraction_fixes_what_cpus_keep() {
    let mut bare = Bare::new(Policy::linux_6_12(), 65_536);
    bare.cpus = 2;
    let mm = bare.build();
    let most_kept = || {
        let mut pages = Vec::new();
        for _ in 0..20_000 {
            pages.push(mm.alloc_pages_fast(Gfp::USER, 0, 0).expect("memory"));
        }
        let mut most = 0;
        for pfn in pages {
            mm.free_page(pfn, false);
            most = most.max(mm.pcp_count(0, 0));
        }
        mm.drain_all_pages();
        most
    };
    let low = mm.pcp_high(0, 0);
    for fraction in [16, 64] {
        write(&mm, |s| s.percpu_pagelist_high_fraction = fraction);
        let share = 65_536 / fraction / 2;
        assert_eq!(mm.pcp_high(0, 0), share);
        let kept = most_kept();
        assert!(kept <= share && kept > share / 2, "{kept} of {share}");
        assert_eq!(mm.pcp_high(0, 0), share, "no less and no more");
    }
    write(&mm, |s| s.percpu_pagelist_high_fraction = 0);
    let learnt = (most_kept(), mm.pcp_high(0, 0));
    assert!(learnt.0 > 0 && learnt.1 >= low, "{learnt:?} {low}");
}

/// Every vm sysctl of the kernels that presets model (`kernel/sysctl.c` and `mm/*.c` of Linux
/// 2.6.37, 3.16, 4.9, 6.1 and 6.12) has an answer: it works, has no effect, or is not modelled.
#[test]
fn every_vm_sysctl_has_an_answer() {
    let names = "admin_reserve_kbytes block_dump compact_memory compact_unevictable_allowed \
        compaction_proactiveness dirty_background_bytes dirty_background_ratio dirty_bytes \
        dirty_expire_centisecs dirty_ratio dirty_writeback_centisecs dirtytime_expire_seconds \
        drop_caches enable_soft_offline extfrag_threshold highmem_is_dirtyable \
        hugepages_treat_as_movable hugetlb_optimize_vmemmap hugetlb_shm_group laptop_mode \
        legacy_va_layout lowmem_reserve_ratio max_map_count memfd_noexec memory_failure_early_kill \
        memory_failure_recovery min_free_kbytes min_slab_ratio min_unmapped_ratio mmap_min_addr \
        mmap_rnd_bits mmap_rnd_compat_bits nr_hugepages nr_hugepages_mempolicy \
        nr_overcommit_hugepages nr_pdflush_threads nr_trim_pages numa_stat numa_zonelist_order \
        oom_dump_tasks oom_kill_allocating_task overcommit_kbytes overcommit_memory \
        overcommit_ratio page-cluster page_lock_unfairness panic_on_oom percpu_pagelist_fraction \
        percpu_pagelist_high_fraction scan_unevictable_pages stat_interval stat_refresh swappiness \
        unprivileged_userfaultfd user_reserve_kbytes vdso_enabled vfs_cache_pressure \
        watermark_boost_factor watermark_scale_factor zone_reclaim_mode";
    let lacking: Vec<&str> = names
        .split_whitespace()
        .filter(|name| crate::sysctl::info(&format!("vm.{name}")).is_none())
        .collect();
    assert_eq!(lacking, [""; 0]);
}
