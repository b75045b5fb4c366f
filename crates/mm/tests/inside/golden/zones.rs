//! Sources of pages: fair zones, watermarks of all kinds, free lists by mobility, exhaustion.

use super::*;

#[test]
fn fair_as_meant() {
    let policy = Policy {
        fair_zones: FairZones::AsMeant,
        dirty_check: DirtyCheck::Cached,
        lower_zones: LowerZones::SkipBalanced,
        ..Policy::linux_3_16()
    };
    Scenario::new("fair-meant", policy).play(busy);
}

#[test]
fn fair_as_merged_on_two_nodes() {
    let policy = Policy {
        fair_zones: FairZones::AsMerged,
        dirty_check: DirtyCheck::Cached,
        lower_zones: LowerZones::HighAlone,
        ..Policy::linux_3_16()
    };
    let mut s = Scenario::new("fair-merged", policy);
    s.zones = two_nodes();
    s.flags = vec![(2, PF_LESS_THROTTLE, 0)];
    s.play(busy);
}

#[test]
fn fair_batches_on_two_nodes() {
    let mut s = Scenario::new("fair-batch", Policy::linux_3_16());
    s.zones = two_nodes();
    s.cpus = 4;
    s.play(busy);
}

/// LRU lists of the node, with requests for low zones beside them.
#[test]
fn node_lists_on_two_nodes() {
    let mut s = Scenario::new("node-lists", Policy::linux_4_9());
    s.zones = two_nodes();
    s.flags = vec![(0, PF_MEMBIND, 1)];
    s.play(|mm| {
        let mut jobs = busy(mm);
        jobs.push(Box::pin(p::kernel(mm, 400, 5)));
        jobs.push(Box::pin(async move {
            let mut held = Vec::new();
            for _ in 0..120 {
                held.extend(
                    mm.alloc_kernel_page(Gfp::WAIT.or(Gfp::IO).or(Gfp::zone(1)))
                        .await,
                );
                mm.world.relax().await;
            }
            held.into_iter().for_each(|pfn| mm.free_kernel_page(pfn));
        }));
        jobs
    });
}

/// Watermarks that adjust themselves; failing bursts of atomic requests are among the events that
/// raise them.
#[test]
fn watermarks_adjust_themselves() {
    let policy = Policy {
        watermarks: Watermarks::Auto,
        auto: AutoWatermarks {
            quiet_events: 20,
            quiet_direct: 2,
            lower_percent: 10,
            decay_ms: 900,
            forget_s: 4,
            remember_percent: 60,
            step_percent: 40,
            cap: 3,
            trouble_priority: 11,
            ..AutoWatermarks::default()
        },
        ..Policy::linux_3_0()
    };
    let mut s = Scenario::new("auto", policy);
    s.sysctl.min_free_kbytes = Some(200);
    s.play(|mm| {
        let mut jobs = busy(mm);
        jobs.push(Box::pin(p::kernel(mm, 900, 5)));
        jobs.push(Box::pin(async move {
            // Bursts until a request fails.
            for _ in 0..6 {
                let mut held = Vec::new();
                while let Some(pfn) = mm.alloc_kernel_page(Gfp::ATOMIC).await {
                    held.push(pfn);
                }
                held.into_iter().for_each(|pfn| mm.free_kernel_page(pfn));
                mm.world.sleep(700_000_000).await;
            }
        }));
        jobs
    });
}

#[test]
fn watermarks_of_a_profile() {
    let of = |zone, min_kbytes| ProfileZone {
        node: 0,
        zone,
        min_kbytes,
        low_kbytes: 2 * min_kbytes,
        high_kbytes: 5 * min_kbytes,
    };
    let profile = WatermarkProfile {
        machine: "m".into(),
        zones: vec![of(ZoneType::Dma32, 200), of(ZoneType::Normal, 120)],
    };
    let policy = Policy {
        watermarks: Watermarks::Learned,
        profile: Some(profile),
        order_balance_percent: 60,
        ..Policy::linux_2_6_37()
    };
    let mut s = Scenario::new("learned", policy);
    s.sysctl.wmark_low_kbytes = Some(900);
    s.sysctl.wmark_high_kbytes = Some(1300);
    s.play(|mm| {
        let mut jobs = busy(mm);
        jobs.push(Box::pin(p::kernel(mm, 500, 9)));
        jobs
    });
}

/// Free lists by mobility; mixing kinds in a pageblock boosts the watermarks.
#[test]
fn mobility_boosts_watermarks() {
    let policy = Policy {
        mobility: Mobility::Grouped,
        ..Policy::linux_4_9()
    };
    let mut s = Scenario::new("mobility-boost", policy);
    s.sysctl.watermark_boost_factor = Some(15_000);
    s.sysctl.watermark_scale_factor = Some(100);
    // Zones of less than four pageblocks are not boosted.
    s.pageblock_order = 6;
    s.supers = vec![SuperInfo {
        inode_bytes: 592,
        ags: 0,
        sync_interval: 0,
    }];
    s.play(|mm| {
        let mut jobs = busy(mm);
        jobs.push(Box::pin(p::kernel(mm, 800, 13)));
        jobs.push(Box::pin(p::kernel(mm, 500, 14)));
        jobs
    });
}

#[test]
fn mobility_of_an_old_kernel() {
    let policy = Policy {
        mobility: Mobility::Grouped,
        ..Policy::linux_3_0()
    };
    let mut s = Scenario::new("mobility", policy);
    s.zones.push(zone(0, ZoneType::Movable, 1024));
    s.play(|mm| {
        let mut jobs = busy(mm);
        jobs.push(Box::pin(p::kernel(mm, 1000, 21)));
        jobs
    });
}

/// More anonymous memory than RAM and swap together.
#[test]
fn memory_is_exhausted() {
    for (name, policy) in [
        ("oom-3.0", Policy::linux_3_0()),
        ("oom-4.9", Policy::linux_4_9()),
    ] {
        let mut s = Scenario::new(name, policy);
        s.swap = 600;
        s.oom = true;
        s.play(|mm| {
            let mut jobs = busy(mm);
            jobs.push(Box::pin(p::anonymous(mm, 2400, 10, 1)));
            jobs.push(Box::pin(p::anonymous(mm, 2400, 10, 2)));
            jobs
        });
    }
}

/// Many direct reclaimers at once use up half of the reserves and wait for kswapd.
#[test]
fn reclaimers_wait_for_reserves() {
    let policy = Policy {
        watermark_slip: true,
        scan_stop: ScanStop::AtOnce,
        ..Policy::linux_3_16()
    };
    let mut s = Scenario::new("reserves", policy);
    s.zones = vec![zone(0, ZoneType::Dma32, 3000)];
    s.cpus = 4;
    s.sysctl.min_free_kbytes = Some(400);
    s.sysctl.swappiness = 90;
    s.play(|mm| {
        let mut jobs = busy(mm);
        for seed in 0..5 {
            jobs.push(Box::pin(p::anonymous(mm, 260, 150, 40 + seed)));
        }
        jobs.push(Box::pin(async move {
            for i in 0..40 {
                let held: Vec<Pfn> = {
                    let mut held = Vec::new();
                    for _ in 0..30 {
                        held.extend(mm.alloc_kernel_page(Gfp::ATOMIC).await);
                    }
                    held
                };
                held.into_iter().for_each(|pfn| mm.free_kernel_page(pfn));
                if i % 5 == 4 {
                    let nofs = mm.alloc_kernel_page(Gfp::NOFS).await;
                    nofs.into_iter().for_each(|pfn| mm.free_kernel_page(pfn));
                }
                mm.world.sleep(20_000_000).await;
            }
        }));
        jobs
    });
}
