//! Free lists by mobility and boosted watermarks.

mod common;

use common::{Life, bare, disk, machine, run, spec, swap};
use mm::Policy;
use mm::ZoneType;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::memory::mobility::{MigrateType, PAGEBLOCK_PAGES};
use mm::memory::zone::Mark;
use mm::policy::{LruScope, Mobility};
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::{VmEvent, ZoneStat};
use mm::world::Tasks;
use mm::world::event::TrackPath;
use sim::Outcome;
use sim::SimMm;
use sim::filesystems as fs;
use sim::spec::{DiskKind, FsKind, RunSpec};

fn grouped() -> Policy {
    Policy {
        mobility: Mobility::Grouped,
        ..Policy::linux_3_0()
    }
}

fn build(spec: &RunSpec) -> SimMm<true> {
    let mm = sim::run::build(spec);
    fs::mount(&mm);
    mm
}

/// One zone of 64 MiB, empty at boot.
fn one_zone(policy: Policy, boost: Option<u32>) -> RunSpec {
    let mut m = bare(ZoneType::Normal, 64 << 20);
    m.cpus = 1;
    m.sysctl.watermark_boost_factor = boost;
    let mut s = spec(m, FsKind::Ext3, "dd if=/dev/zero of=a count=1");
    s.policy = policy;
    s
}

/// One kernel page is allocated for every seven of a file: with grouped lists they come from
/// pageblocks of their own, otherwise they are spread over all.
#[test]
fn kernel_pages_stay_in_few_pageblocks() {
    let blocks = |policy| {
        let mm = build(&one_zone(policy, None));
        let mut seen = std::collections::BTreeSet::new();
        let taker = async {
            let file = fs::create(&mm).expect("a file");
            for index in 0..8000 {
                if index % 8 == 0 {
                    let pfn = mm.alloc_kernel_page(Gfp::KERNEL).await.expect("memory");
                    seen.insert(pfn / PAGEBLOCK_PAGES);
                    continue;
                }
                let pfn = mm.alloc_page(Gfp::USER).await.expect("memory");
                mm.frames.set_flags(pfn, flag::UPTODATE);
                assert!(mm.add_to_page_cache_lru(pfn, file, index));
                mm.world.relax().await;
            }
            mm.world.sched.stop();
        };
        common::drive(&mm, vec![(0, Box::pin(taker))], 1_000_000, || {
            mm.recount().expect("every list agrees");
        });
        let kinds = seen.iter().map(|b| mm.pageblock_type(b * PAGEBLOCK_PAGES));
        (
            kinds.collect::<Vec<_>>(),
            1000 / PAGEBLOCK_PAGES as usize + 1,
        )
    };
    let (mixed, _) = blocks(Policy::linux_3_0());
    let (own, needed) = blocks(grouped());
    assert!(mixed.len() >= 15, "{} pageblocks", mixed.len());
    assert!(mixed.iter().all(Option::is_none));
    assert!(own.len() <= needed + 1, "{} pageblocks", own.len());
    assert!(own.iter().all(|&k| k == Some(MigrateType::Unmovable)));
}

/// The effects of a fallback in a zone with scattered free pages.
#[derive(Debug)]
struct After {
    /// Number of pages by which the watermarks were boosted right after the fallback.
    boost: u32,
    /// Number of times that kswapd ran.
    runs: u64,
    /// Number of pages that became free by the time kswapd slept again.
    freed: i64,
    /// Pages that reclaim or swap wrote.
    written: u64,
}

/// Fills a zone down to its high watermark, half with page cache, a third of that dirty, and half
/// with unreclaimable pages. Frees single pages of the latter, so that the node is balanced but has
/// no free block for the kernel, and allocates one kernel page.
fn fallback(policy: Policy, boost: Option<u32>) -> After {
    let mut s = one_zone(policy, boost);
    s.machine.swap = Some(swap(64 << 20));
    let mm = build(&s);
    let mut after = None;
    let taker = async {
        let mut held = Vec::new();
        let file = fs::create(&mm).expect("a file");
        let (mut index, free) = (0, || mm.global_stat(ZoneStat::NrFreePages));
        while free() > mm.zones[0].mark(Mark::High) + 40 {
            let pfn = mm.alloc_page(Gfp::USER).await.expect("memory");
            index += 1;
            if index % 2 == 0 {
                held.push(pfn);
                continue;
            }
            mm.frames.set_flags(pfn, flag::UPTODATE);
            assert!(mm.add_to_page_cache_lru(pfn, file, index));
            if index % 6 == 5 {
                mm.set_page_dirty(pfn, TrackPath::None);
            }
            mm.world.relax().await;
        }
        for &pfn in held.iter().step_by(2).take(2000) {
            mm.free_page(pfn, false);
        }
        mm.drain_all_pages();
        while !mm.kswapd_sleeps(0) {
            mm.world.sched.sleep(1_000_000).await;
        }
        let written = || mm.vm_event(VmEvent::PswpOut) + mm.global_stat(ZoneStat::NrVmscanWrite);
        let before = (mm.vm_event(VmEvent::PageOutRun), free(), written());
        assert!(mm.alloc_kernel_page(Gfp::KERNEL).await.is_some());
        let boost = mm.watermark_boost(0);
        mm.drain_all_pages();
        mm.world.sched.sleep(1_000_000_000).await;
        assert!(mm.kswapd_sleeps(0));
        mm.drain_all_pages();
        assert_eq!(mm.watermark_boost(0), 0, "it is answered");
        let runs = mm.vm_event(VmEvent::PageOutRun) - before.0;
        after = Some(After {
            boost,
            runs,
            freed: free() as i64 - before.1 as i64,
            written: written() - before.2,
        });
        mm.world.sched.stop();
    };
    let tasks: Vec<(u32, Life<'_>)> =
        vec![(KSWAPD_FLAGS, Box::pin(mm.kswapd(0))), (0, Box::pin(taker))];
    common::drive(&mm, tasks, 10_000_000, || {
        mm.recount().expect("every list agrees");
    });
    after.expect("it came to the end")
}

/// A request that mixes mobility types boosts the watermarks of a balanced zone: kswapd is woken
/// and frees a pageblock's worth of clean pages, and the boost ends. Without the sysctl kswapd is
/// not woken.
#[test]
fn a_fallback_wakes_kswapd_for_the_boost() {
    let off = fallback(grouped(), None);
    assert_eq!((off.boost, off.runs), (0, 0), "{off:?}");
    let on = fallback(grouped(), Some(15_000));
    assert_eq!(on.boost, PAGEBLOCK_PAGES, "{on:?}");
    assert!(on.runs > 0, "{on:?}");
    assert!(on.freed >= off.freed + 400, "{on:?} against {off:?}");
    assert_eq!(on.written, 0, "boosted reclaim neither writes nor swaps");
    // Without lists by mobility no request falls back.
    let none = fallback(Policy::linux_3_0(), Some(15_000));
    assert_eq!((none.boost, none.runs), (0, 0), "{none:?}");
}

/// The kernel allocates and frees memory in bursts while a writer fills the rest with page cache.
fn bursts(policy: Policy, boost: Option<u32>) -> RunSpec {
    let mut m = machine(256);
    m.disk = disk(DiskKind::Ssd);
    m.sysctl.watermark_boost_factor = boost;
    let line = "dd if=/dev/zero of=a bs=64k & sleep 5; burst -s 12M -h 200ms -i 500ms -n 6";
    let mut s = spec(m, FsKind::Xfs, line);
    s.policy = policy;
    s.sample_ns = 10_000_000;
    s
}

/// Returns, for the time with bursts, the mean of DMA32's free pages, its highest low watermark and
/// its last one.
fn free_and_low(policy: Policy, boost: Option<u32>) -> (f64, [f64; 2]) {
    let r = run(&bursts(policy, boost));
    assert_eq!(r.outcome, Outcome::Completed);
    let of = |name: &str| {
        let mut columns = r.series.columns.iter().filter(|c| c.name == name);
        &columns.next_back().expect("a column").values[500..]
    };
    let (free, low) = (of("free"), of("low"));
    let most = low.iter().copied().fold(0.0, f64::max);
    let mean = free.iter().sum::<f64>() / free.len() as f64;
    (mean, [most, low[low.len() - 1]])
}

/// Beside a writer the boost keeps more memory free, with every form of kswapd's loop: kswapd is
/// woken at a low watermark that is higher by at least a pageblock, and at the end the watermark is
/// the plain one again.
#[test]
fn the_boost_leaves_more_memory_free() {
    let node = Policy {
        lru: LruScope::Node,
        ..Policy::linux_3_16()
    };
    for base in [Policy::linux_3_0(), Policy::linux_3_16(), node] {
        let policy = Policy {
            mobility: Mobility::Grouped,
            ..base
        };
        let (fewer, low) = free_and_low(policy.clone(), None);
        let (more, boosted) = free_and_low(policy, Some(15_000));
        assert!(more > fewer * 1.1, "{fewer} and {more} pages free");
        assert_eq!(low[0], low[1]);
        assert!(boosted[0] >= low[0] + f64::from(PAGEBLOCK_PAGES));
        assert_eq!(boosted[1], low[1], "nothing of it is left");
    }
}
