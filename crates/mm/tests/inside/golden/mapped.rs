//! Mapped files, swap, eviction policies.

use super::*;

/// Makes shared and private mappings of two files beside readers and writers of them.
fn mappings<'a>(mm: &'a Engine) -> Vec<Job<'a>> {
    let (a, b) = (
        file(mm, MappingKind::File, 0, 1200),
        file(mm, MappingKind::File, 0, 1400),
    );
    let shared = |file, pages, advice| {
        let backing = Backing::Shared {
            mapping: file,
            first: 0,
        };
        mm.new_region(backing, pages, advice).expect("room")
    };
    let maps = [
        shared(a, 1200, Advice::Normal),
        shared(a, 600, Advice::Random),
        shared(b, 1400, Advice::Sequential),
    ];
    let private = Backing::Private {
        mapping: b,
        first: 200,
    };
    let copy = mm.new_region(private, 900, Advice::Normal).expect("room");
    let beyond = shared(b, 1500, Advice::Normal);
    vec![
        Box::pin(async move {
            p::touch(mm, maps[0], 1200, 5000, 5).await;
            mm.free_region(maps[0]);
        }),
        Box::pin(p::touch(mm, maps[1], 600, 4000, 6)),
        Box::pin(async move {
            for index in 0..1400 {
                let touched = mm.touch(maps[2], index, index % 5 == 0).await;
                mm.world.mix(touched as u64);
                mm.world.relax().await;
            }
            mm.world.mix(mm.touch(beyond, 1450, false).await as u64);
        }),
        Box::pin(async move {
            p::touch(mm, copy, 900, 5000, 8).await;
            mm.free_region(copy);
        }),
        Box::pin(p::anonymous(mm, 900, 6000, 9)),
        Box::pin(p::bursts(mm, 40, 100)),
        Box::pin(async move {
            p::read_all(mm, a, 0, 1200).await;
            mm.world.mix(u64::from(mm.sync_mapping(a).await));
            mm.hold_inode(b).await;
            mm.truncate_from(b, 1000).await;
            mm.release_inode(b);
            p::write_all(mm, b, 0, 600).await;
        }),
    ]
}

#[test]
fn mappings_3_0() {
    let mut s = Scenario::new("mapped-3.0", Policy::linux_3_0());
    s.watch = true;
    s.zones = small_zones();
    s.play(mappings);
}

#[test]
fn mappings_3_16() {
    let mut s = Scenario::new("mapped-3.16", Policy::linux_3_16());
    s.sysctl.swappiness = 100;
    s.zones = small_zones();
    s.play(mappings);
}

#[test]
fn mappings_4_9() {
    let mut s = Scenario::new("mapped-4.9", Policy::linux_4_9());
    s.zones = small_zones();
    s.zones.push(zone(1, ZoneType::Normal, 700));
    s.play(mappings);
}

/// Swap on a device whose writes fail: pages stay in memory as the only copy.
#[test]
fn swap_that_fails() {
    let mut s = Scenario::new("swap-fails", Policy::linux_3_0());
    s.devices[1].fails_every = 3;
    s.seconds = 12;
    s.play(|mm| {
        let mut jobs = busy(mm);
        jobs.push(Box::pin(p::anonymous(mm, 1200, 2500, 31)));
        jobs
    });
}

/// Files are read and written at places far apart: tree nodes with shadows are dropped, and
/// requests to the flusher find no room.
fn sparse<'a>(mm: &'a Engine) -> Vec<Job<'a>> {
    let read = file(mm, MappingKind::File, 0, 64 * 1200);
    let written = file(mm, MappingKind::File, 0, 3 << 20);
    let mut jobs = busy(mm);
    jobs.push(Box::pin(async move {
        for round in 0..2 {
            for i in 0..1200 {
                p::read(mm, read, 64 * i, 1).await;
            }
            mm.world.mix(round);
        }
        mm.truncate_from(read, 64 * 300 + 5).await;
    }));
    jobs.push(Box::pin(async move {
        let mut chance = p::Lcg(99);
        for _ in 0..2500 {
            p::write(mm, written, chance.below(3 << 20)).await;
        }
    }));
    jobs
}

#[test]
fn sparse_files_3_16() {
    let policy = Policy {
        reclaim_flush: ReclaimFlush::Zone,
        kswapd_writeback: ReclaimWriteback::Never,
        pressure_expiry: true,
        ..Policy::linux_3_16()
    };
    let mut s = Scenario::new("sparse-3.16", policy);
    s.zones = small_zones();
    s.sysctl.dirty_background_ratio = 55;
    s.sysctl.dirty_ratio = 90;
    s.sysctl.dirty_writeback_centisecs = 20;
    s.sysctl.dirty_expire_centisecs = 60;
    s.play(sparse);
}

#[test]
fn sparse_files_3_0() {
    let policy = Policy {
        reclaim_flush: ReclaimFlush::Zone,
        kswapd_writeback: ReclaimWriteback::Never,
        direct_writeback: ReclaimWriteback::InTrouble,
        pressure_expiry: true,
        ..Policy::linux_3_0()
    };
    let mut s = Scenario::new("sparse-3.0", policy);
    s.zones = small_zones();
    s.sysctl.dirty_background_ratio = 25;
    s.sysctl.dirty_ratio = 50;
    s.sysctl.dirty_writeback_centisecs = 20;
    s.sysctl.dirty_expire_centisecs = 60;
    s.play(sparse);
}

#[test]
fn without_swap() {
    let mut s = Scenario::new("no-swap", Policy::linux_2_6_37());
    s.swap = 0;
    s.play(busy);
}

/// Eviction policies in place of the file lists: each has its own answer to dirty pages.
#[test]
fn eviction_policies() {
    for name in ["sieve", "s3-fifo", "lru", "two-list", "generational"] {
        let Some(eviction) = Eviction::parse(name) else {
            panic!("{name} is no eviction policy: {:?}", Eviction::NAMES);
        };
        let base = if name == "lru" {
            Policy::linux_3_16()
        } else {
            Policy::linux_3_0()
        };
        let mut s = Scenario::new(
            name,
            Policy {
                eviction,
                immediate_reclaim: true,
                ..base
            },
        );
        s.watch = true;
        s.play(|mm| {
            let mut jobs = busy(mm);
            jobs.push(mappings(mm).swap_remove(0));
            jobs
        });
    }
}
