//! The presets, and the throttling and writing of dirty pages.

use super::*;

#[test]
fn linux_2_6_37() {
    Scenario::new("linux-2.6.37", Policy::linux_2_6_37()).play(busy);
}

#[test]
fn linux_3_0() {
    Scenario::new("linux-3.0", Policy::linux_3_0()).play(busy);
}

#[test]
fn linux_3_1() {
    Scenario::new("linux-3.1", Policy::linux_3_1()).play(busy);
}

#[test]
fn linux_3_16() {
    let mut s = Scenario::new("linux-3.16", Policy::linux_3_16());
    s.watch = true;
    s.play(busy);
}

#[test]
fn linux_4_9() {
    let mut s = Scenario::new("linux-4.9", Policy::linux_4_9());
    s.watch = true;
    s.play(busy);
}

#[test]
fn linux_6_12() {
    let mut s = Scenario::new("linux-6.12", Policy::linux_6_12());
    s.watch = true;
    s.play(busy);
}

#[test]
fn zone_limits_on_two_nodes() {
    let policy = Policy {
        dirty_limits: DirtyLimits::PerZone,
        direct_writeback: ReclaimWriteback::Never,
        kswapd_writeback: ReclaimWriteback::InTrouble,
        reclaim_throttle: ReclaimThrottle::Dirty,
        immediate_reclaim: true,
        ..Policy::linux_3_0()
    };
    let mut s = Scenario::new("zone-limits", policy);
    s.zones = two_nodes();
    s.flags = vec![(1, PF_MEMBIND, 1), (2, PF_REALTIME, 0)];
    s.play(busy);
}

/// The writer has a node of its own, too small to reach the global limit.
#[test]
fn stalls_on_a_small_node() {
    let policy = Policy {
        dirty_limits: DirtyLimits::PerZoneStall,
        ..Policy::linux_3_0()
    };
    let mut s = Scenario::new("zone-stalls", policy);
    s.zones = vec![
        zone(0, ZoneType::Normal, 3500),
        zone(1, ZoneType::Normal, 600),
    ];
    s.flags = vec![(0, PF_MEMBIND, 1), (2, PF_LESS_THROTTLE, 0)];
    s.play(busy);
}

/// The flusher is asked for pages of a zone, and memory pressure makes inodes expire.
#[test]
fn reclaim_asks_the_flusher_by_zone() {
    let policy = Policy {
        direct_writeback: ReclaimWriteback::Never,
        kswapd_writeback: ReclaimWriteback::Never,
        reclaim_throttle: ReclaimThrottle::Writeback,
        reclaim_flush: ReclaimFlush::Zone,
        pressure_expiry: true,
        ..Policy::linux_3_0()
    };
    let mut s = Scenario::new("flush-zone", policy);
    s.sysctl.dirty_background_ratio = 40;
    s.sysctl.dirty_ratio = 60;
    s.play(busy);
}

#[test]
fn reclaim_asks_the_flusher_by_node() {
    let policy = Policy {
        reclaim_flush: ReclaimFlush::Node,
        pressure_expiry: true,
        kswapd_writeback: ReclaimWriteback::Never,
        ..Policy::linux_3_16()
    };
    let mut s = Scenario::new("flush-node", policy);
    s.zones = two_nodes();
    s.sysctl.dirty_background_ratio = 50;
    s.sysctl.dirty_ratio = 80;
    s.play(busy);
}

/// Limits in bytes, two devices with guaranteed and maximum shares; one of them is slow and
/// sometimes fails.
#[test]
fn limits_in_bytes_and_a_device_that_fails() {
    let mut s = Scenario::new("bytes-and-errors", Policy::linux_3_0());
    s.sysctl.dirty_bytes = crate::size::Size(2 << 20);
    s.sysctl.dirty_background_bytes = crate::size::Size(512 << 10);
    let slow = DeviceSpec {
        request_ns: 3_000_000,
        congested_at: 64,
        fails_every: 7,
        ..DeviceSpec::DISK
    };
    s.devices = vec![DeviceSpec::DISK, slow, DeviceSpec::DISK];
    s.manners = Manners {
        refuses_every: 2,
        keeps_every: 50,
        ..Manners::default()
    };
    s.play(two_devices);
}

/// The same with dirtiers that sleep.
#[test]
fn sleeping_dirtiers_of_two_devices() {
    let mut s = Scenario::new("two-devices-sleep", Policy::linux_3_16());
    let slow = DeviceSpec {
        request_ns: 2_000_000,
        page_ns: 600_000,
        fails_every: 9,
        ..DeviceSpec::DISK
    };
    s.devices = vec![DeviceSpec::DISK, slow, DeviceSpec::DISK];
    s.manners = Manners {
        activates_every: 3,
        ..Manners::default()
    };
    s.flags = vec![(0, PF_LESS_THROTTLE, 0)];
    s.play(two_devices);
}

/// Writers on both devices: one of a file that is changed again and again, and one of a file as
/// FUSE has them.
fn two_devices<'a>(mm: &'a Engine) -> Vec<Job<'a>> {
    mm.set_min_ratio(1, 10);
    mm.bdis[1].max_ratio.set(60);
    let files = [0, 1, 1, 0].map(|bdi| file(mm, MappingKind::File, bdi, 1500));
    let through = file(mm, MappingKind::WriteThrough, 1, 800);
    vec![
        Box::pin(p::write_all(mm, files[0], 0, 1500)),
        Box::pin(p::write_all(mm, files[1], 0, 1100)),
        Box::pin(p::mix(mm, files[2], 500, 1200, 3)),
        Box::pin(p::write_all(mm, through, 0, 800)),
        Box::pin(async move {
            p::write_all(mm, files[3], 0, 900).await;
            mm.world.mix(u64::from(mm.sync_mapping(files[1]).await));
            mm.mark_inode_metadata_dirty(files[3]);
            mm.world.sleep(6 * SECOND).await;
            mm.wakeup_flusher_threads(0);
            mm.world.sleep(SECOND).await;
        }),
    ]
}
