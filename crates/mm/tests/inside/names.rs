//! Names and figures that are only reported: names, the counters that a machine has, the memory
//! that its tables take.

use super::bare::Bare;
use super::prelude::*;
use super::world::{Engine, TestWorld};
use crate::footprint;
use crate::memory::zone::{ZonelistOrder, default_order, zonelist};
use crate::reclaim::shrinker::Shrinker;
use crate::size::Size;
use std::collections::BTreeSet;

/// Checks that names are not empty and differ from each other.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) {
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(
            !name.is_empty() && seen.insert(name.to_string()),
            "{name:?}"
        );
    }
}

#[test]
fn names_differ() {
    distinct(WaitedKind::ALL.iter().map(|k| k.name()));
    distinct(TrackPath::ALL.iter().map(|p| p.name()));
    distinct(
        ZoneStat::ALL
            .iter()
            .map(|s| s.name())
            .chain(VmEvent::ALL.iter().map(|e| e.name())),
    );
    distinct(ZoneEvent::ALL.iter().map(|e| e.name()));
    distinct(Eviction::NAMES.iter().copied());
    distinct(Policy::PRESETS.iter().copied());
    distinct(
        [
            ZoneType::Dma,
            ZoneType::Dma32,
            ZoneType::Normal,
            ZoneType::Movable,
        ]
        .iter()
        .map(|z| z.name()),
    );
    let shrinkers = [
        Shrinker::Shadows,
        Shrinker::Dentries,
        Shrinker::Inodes,
        Shrinker::XfsInodes(0),
        Shrinker::Super(0),
    ];
    distinct(shrinkers.iter().map(|s| s.name()));
    // Names of the kernel's functions.
    assert_eq!(Shrinker::Super(3).name(), "super_cache_scan");
    for (kind, why) in [
        (WaitedKind::PageWriteback, Waits::Device),
        (WaitedKind::LogForce, Waits::Device),
        (WaitedKind::DirtyLimit, Waits::Throttle),
        (WaitedKind::AgLock, Waits::Lock),
        (WaitedKind::Server, Waits::Server),
    ] {
        assert_eq!(kind.why(), why);
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    assert_eq!(Eviction::NAMES[0], "linux");
    assert_eq!(Eviction::NAMES.len(), evict::registry::ALL.len() + 1);
    for name in Eviction::NAMES {
        let eviction = Eviction::parse(name).expect("a name");
        assert_eq!(eviction.name(), *name);
        assert_eq!(eviction == Eviction::Linux, *name == "linux");
    }
    assert_eq!(Eviction::parse("linus"), None);
    for name in Policy::PRESETS {
        assert_eq!(Policy::preset(name).expect("a preset").name, *name);
    }
    assert_eq!(Policy::preset("linux-2.4"), None);
}

/// A size as it is written into a file.
struct Written(Size);

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        serde::Serialize::serialize(&self.0, f)
    }
}

#[test]
fn sizes_are_read_as_they_are_written() {
    for (text, bytes, written) in [
        ("0", 0, "0"),
        ("1023", 1023, "1023"),
        ("3K", 3 << 10, "3K"),
        ("1025K", 1025 << 10, "1025K"),
        ("7M", 7 << 20, "7M"),
        ("2048M", 2 << 30, "2G"),
        ("5GiB", 5 << 30, "5G"),
        (" 9T ", 9 << 40, "9T"),
    ] {
        let size = Size::parse(text).expect(text);
        assert_eq!((size.0, size.pages()), (bytes, bytes / 4096), "{text}");
        assert_eq!(Written(size).to_string(), written);
    }
    for text in [
        "",
        "K",
        "-1",
        "1.5M",
        "M3",
        "16777216T",
        "99999999999999999999",
    ] {
        assert!(Size::parse(text).is_err(), "{text:?}");
    }
}

/// A counter is reported if something counts it, and not if it would stay 0 because the mechanism
/// is missing.
#[test]
fn counters_of_a_machine() {
    let of = |policy: Policy, supers: Vec<SuperInfo>| -> BTreeSet<String> {
        let mut bare = Bare::new(policy, 4096);
        bare.supers = supers;
        bare.build()
            .vmstat()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    let plain = SuperInfo {
        inode_bytes: 592,
        ags: 0,
        sync_interval: 0,
    };
    let xfs = SuperInfo {
        inode_bytes: 960,
        ags: 2,
        sync_interval: SECOND,
    };
    let (old, new) = (
        of(Policy::linux_3_0(), vec![]),
        of(Policy::linux_3_16(), vec![plain]),
    );
    let on_xfs = of(Policy::linux_3_1(), vec![plain, xfs]);
    let sieve = Policy {
        eviction: Eviction::parse("sieve").expect("sieve"),
        ..Policy::linux_3_0()
    };
    let ordered = of(sieve, vec![]);
    let without = of(Policy::linux_2_6_37(), vec![]);
    assert!(!without.iter().any(|name| name.starts_with("compact_")));
    for (name, of_old, of_new, of_xfs) in [
        ("nr_free_pages", true, true, true),
        ("nr_slab_reclaimable", false, true, true),
        ("nr_alloc_batch", false, true, false),
        ("workingset_refault", false, true, false),
        ("workingset_nodereclaim", false, true, false),
        ("pgscan_direct_throttle", false, true, false),
        ("compact_stall", true, true, true),
        ("compact_pages_moved", true, false, true),
        ("pgmigrate_success", false, true, false),
        ("fair_reset", false, true, false),
        ("slabs_scanned", false, true, true),
        ("pginodesteal", false, true, true),
        ("inodes_freed", false, true, true),
        ("xfs_inodes_reclaimed", false, false, true),
        ("kswapd_inode_wait", false, false, true),
        ("pgsteal_normal", true, false, true),
        ("pgsteal_direct_normal", false, true, false),
        ("pgsteal_dma", false, false, false),
        ("pghit_normal", false, false, false),
    ] {
        let has = [&old, &new, &on_xfs].map(|names| names.contains(name));
        assert_eq!(has, [of_old, of_new, of_xfs], "{name}");
    }
    assert!(old.contains("nr_active_file") && !ordered.contains("nr_active_file"));
    let mm = Bare::new(Policy::linux_3_0(), 4096).build();
    mm.watch_pages();
    assert!(mm.vmstat().iter().any(|(name, _)| name == "pghit_normal"));
    let mut bare = Bare::new(Policy::linux_3_0(), 4096);
    assert_eq!(mm.zone_name(0), "Normal");
    bare.zones.push(ZoneInfo {
        node: 1,
        kind: ZoneType::Movable,
        size: 100,
    });
    assert_eq!(bare.build().zone_name(1), "node1/Movable");
}

/// docs/reference/memory-model.md#zonelists: zones without pages are in no list.
#[test]
fn fallback_lists() {
    let z = |node, kind, size| ZoneInfo { node, kind, size };
    let zones = [
        z(0, ZoneType::Dma32, 0),
        z(0, ZoneType::Normal, 1),
        z(1, ZoneType::Normal, 7),
        z(1, ZoneType::Movable, 2),
    ];
    assert_eq!(zonelist(&zones, 2, 0, ZonelistOrder::Node), [1, 3, 2]);
    assert_eq!(zonelist(&zones, 2, 1, ZonelistOrder::Node), [3, 2, 1]);
    assert_eq!(zonelist(&zones, 2, 0, ZonelistOrder::Zone), [3, 1, 2]);
    // Low memory decides the order: node order without low memory, with more than half of all, or
    // if it is more than 70 % of a node.
    let order = |low0, normal0, normal1| {
        let zones = [
            z(0, ZoneType::Dma32, low0),
            z(0, ZoneType::Normal, normal0),
            z(1, ZoneType::Normal, normal1),
        ];
        default_order(&zones, 2)
    };
    assert_eq!(order(0, 500, 500), ZonelistOrder::Node);
    assert_eq!(order(501, 250, 250), ZonelistOrder::Node);
    assert_eq!(
        order(500, 200, 300),
        ZonelistOrder::Node,
        "500 of 700 pages"
    );
    assert_eq!(order(100, 400, 500), ZonelistOrder::Zone);
    assert_eq!(order(70, 30, 60), ZonelistOrder::Zone);
    assert_eq!(order(71, 29, 60), ZonelistOrder::Node);
}

/// The sizes of a machine's tables as reported are the real ones: the frame table by its frames in
/// whole blocks, the trees' pool, swap, groups, orders.
#[test]
fn what_tables_take() {
    let mut bare = Bare::new(Policy::linux_3_0(), 3000);
    bare.zones.insert(
        0,
        ZoneInfo {
            node: 0,
            kind: ZoneType::Dma,
            size: 1024,
        },
    );
    bare.swap = 77;
    bare.supers = vec![
        SuperInfo {
            inode_bytes: 960,
            ags: 3,
            sync_interval: SECOND,
        },
        SuperInfo {
            inode_bytes: 592,
            ags: 0,
            sync_interval: 0,
        },
    ];
    let mm = bare.build();
    // 1024 and 3 * 1024 frames; 16 sentinels for each zone, one for each task, one for each slab
    // cache.
    assert_eq!(footprint::frames(&mm.config), 4096);
    assert_eq!(mm.frames.len(), 4096);
    assert_eq!(mm.isolated_list(0), 4096 + 2 * 16);
    let sentinels = 2 * 16 + 8 + 3;
    let sieve = Eviction::parse("sieve").expect("sieve");
    let policy = Policy {
        eviction: sieve,
        ..mm.policy.clone()
    };
    let uses = Engine::uses(&mm.config, &policy);
    let of = |what: &str| {
        uses.iter()
            .find(|u| u.what == what)
            .unwrap_or_else(|| panic!("{what}"))
    };
    assert_eq!(of("the frame table").touched, (4096 + sentinels) * 32);
    let trees = of("the files' trees");
    assert_eq!(footprint::tree_pool(4096), 4096 + 64);
    assert_eq!(footprint::tree_pool(1 << 25), (1 << 23) + 64);
    assert_eq!(
        trees.reserved,
        (4096 + 64) * crate::cache::tree::BYTES_PER_NODE as u64
    );
    assert_eq!(
        trees.touched,
        (4096 / 32 + 2 * 600) * crate::cache::tree::BYTES_PER_NODE as u64
    );
    let rows = 600 * size_of::<crate::cache::mapping::Mapping<TestWorld>>() as u64;
    let inodes = 600 * size_of::<crate::inodes::table::Inode<TestWorld>>() as u64;
    assert_eq!(of("files and inodes").touched, rows + inodes);
    let groups = 3 * size_of::<crate::inodes::xfs::Ag<TestWorld>>() as u64;
    let used = 3 * crate::inodes::xfs::BYTES_PER_USED_GROUP as u64;
    assert_eq!(of("allocation groups").touched, groups + used + 10 * 600);
    assert_eq!(of("swap slots").touched, 77 * 8 + 2 * 8);
    assert_eq!(of("the order of file pages").touched, 4096 * 80);
    // Tables that a machine does not have take nothing.
    let small = Engine::uses(
        &Bare::new(Policy::linux_3_0(), 100).build().config,
        &Policy::linux_3_0(),
    );
    assert_eq!(small.len(), 4);
    assert_eq!(small[2].touched, rows);
}
