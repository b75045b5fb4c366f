//! Mapped memory: streams through file and anonymous mappings larger than memory, and the effects
//! of stores, loads and reclaim on single pages.

mod common;

use common::{disk, machine, run, spec, swap};
use mm::Policy;
use mm::cache::mmap::{Advice, Backing};
use mm::memory::frame::flag;
use mm::watch::vmstat::VmEvent;
use mm::world::Touched;
use sim::SimMm;
use sim::filesystems as fs;
use sim::spec::{DiskKind, FsKind, Scheduler};
use sim::{Outcome, RunResult};
use std::future::Future;
use std::pin::Pin;

fn stream(filesystem: FsKind, command: &str) -> RunResult {
    let mut m = machine(48);
    m.swap = Some(swap(256 << 20));
    m.disk = disk(DiskKind::Raid0);
    m.disk.scheduler = Some(Scheduler::Cfq);
    let mut s = spec(m, filesystem, command);
    s.check_ns = 20_000_000;
    let (r, again) = (run(&s), run(&s));
    assert_eq!(r.outcome, Outcome::Completed, "{filesystem:?}");
    assert_eq!(r.digest, again.digest, "{filesystem:?}");
    r
}

/// Every page of the stream is dirtied once and written once; the mixed stage reads file pages
/// again for each later pass and swaps. The recount finds every page table entry, count and swap
/// slot right.
#[test]
fn streams_larger_than_memory_keep_the_books() {
    for filesystem in [FsKind::Xfs, FsKind::Ext4, FsKind::Ext3, FsKind::Btrfs] {
        let r = stream(
            filesystem,
            "mmap-strm -t 2 --stream 3 --mixed 3 --file-passes 2 --anon-passes 2",
        );
        let memory = 48.0 * 256.0;
        let stores = |name: &str| r.metrics[&format!("{name} stores")].value;
        assert_eq!(stores("stream"), 3.0 * memory, "{filesystem:?}");
        let c = |name: &str| r.counters[name] as f64;
        // At least one fault a page and pass, because no page stays mapped from pass to pass.
        let touched = stores("stream") + stores("mixed file") + stores("mixed anonymous");
        assert!(c("pgfault") >= 0.9 * touched, "{filesystem:?}");
        // The second pass finds hardly any file page cached: kB read, window by window.
        assert!(c("pgpgin") > 0.8 * 2.1 * memory * 4.0, "{filesystem:?}");
        assert!(c("pgpgout") > 3.0 * memory * 4.0, "{filesystem:?}");
        assert!(
            c("pswpout") > 1000.0 && c("pswpin") > 1000.0,
            "{filesystem:?}"
        );
    }
}

/// The FUSE file keeps no dirty page, so a shared mapping cannot be stored to.
#[test]
fn a_shared_store_on_fuse_is_a_bus_error() {
    let mut s = spec(
        machine(48),
        FsKind::FuseNtfs,
        "mmap-strm -t 1 --stream 1 --mixed 0",
    );
    s.check_ns = 5_000_000;
    assert!(matches!(run(&s).outcome, Outcome::Failed { .. }));
}

/// Runs one task in a fresh world.
fn with_world(
    body: impl for<'a> FnOnce(&'a SimMm<false>) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
) {
    with_policy(Policy::linux_3_0(), body);
}

/// As [`with_world`], under a policy.
fn with_policy(
    policy: Policy,
    body: impl for<'a> FnOnce(&'a SimMm<false>) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
) {
    let mut s = spec(machine(48), FsKind::Xfs, "dd if=/dev/zero of=x count=1");
    s.policy = policy;
    let mm: SimMm<false> = sim::run::build(&s);
    fs::mount(&mm);
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        vec![Box::pin(async {}), body(&mm)];
    for _ in 0..2 {
        let id = mm.world.sched.spawn();
        mm.init_task(id, 0, 0);
    }
    mm.world.sched.run(&mut tasks, |_, event| {
        if let sim::sched::Event::Device(d) = event {
            sim::world::SimWorld::device_event(&mm, d);
        }
    });
    mm.recount().unwrap();
}

/// A store dirties once; cleaning makes the entry read-only, so that the next store dirties again.
#[test]
fn cleaning_a_page_makes_the_next_store_fault() {
    with_world(|mm| {
        Box::pin(async move {
            let file = fs::create(mm).expect("a file");
            mm.mappings[file as usize].size.set(8 * 4096);
            let backing = Backing::Shared {
                mapping: file,
                first: 0,
            };
            let region = mm.new_region(backing, 8, Advice::Random).expect("room");
            assert_eq!(mm.touch(region, 3, false).await, Touched::Ok);
            let pfn = mm.find_page(file, 3).expect("read in");
            assert!(!mm.frames.has(pfn, flag::DIRTY));
            assert!(!mm.touch_mapped(region, 3, true), "read-only until a store");
            assert_eq!(mm.touch(region, 3, true).await, Touched::Ok);
            assert!(mm.frames.has(pfn, flag::DIRTY));
            let faults = mm.vm_event(VmEvent::PgFault);
            assert_eq!(mm.touch(region, 3, true).await, Touched::Ok);
            assert_eq!(mm.vm_event(VmEvent::PgFault), faults, "stores are free now");
            mm.sync_mapping(file).await;
            assert!(!mm.frames.has(pfn, flag::DIRTY));
            assert!(mm.touch_mapped(region, 3, false), "loads go on");
            assert_eq!(mm.touch(region, 3, true).await, Touched::Ok);
            assert_eq!(mm.vm_event(VmEvent::PgFault), faults + 1);
            assert!(mm.frames.has(pfn, flag::DIRTY));
            mm.recount().unwrap();
            assert_eq!(mm.touch(region, 7, false).await, Touched::Ok);
            mm.free_region(region);
            assert_eq!(mm.frames.mapcount(pfn), 0);
        })
    });
}

/// Every other page is touched in order. With linux-3.0 the mark is met and triggers the next
/// window, so only one fault waits for I/O. Up to 2.6.37 such faults do not count as sequential, so
/// each window serves the 16 pages behind its miss. With random advice each fault waits for its own
/// page, and no other page is read.
#[test]
fn a_mark_reads_on_where_faults_leave_pages_out() {
    let cases = [
        (Policy::linux_3_0(), Advice::Normal, 1, 1007),
        (Policy::linux_2_6_37(), Advice::Normal, 62, 1007),
        (Policy::linux_3_0(), Advice::Random, 496, 496),
    ];
    for (policy, advice, misses, cached) in cases {
        with_policy(policy, |mm| {
            Box::pin(async move {
                let mapping = fs::create(mm).expect("a file");
                mm.mappings[mapping as usize].size.set(1024 * 4096);
                let backing = Backing::Shared { mapping, first: 0 };
                let region = mm.new_region(backing, 1024, advice).expect("room");
                for index in (33..1024).step_by(2) {
                    assert_eq!(mm.touch(region, index, false).await, Touched::Ok);
                }
                assert_eq!(mm.vm_event(VmEvent::PgMajFault), misses, "{advice:?}");
                let pages = (0..1024).filter(|&i| mm.find_page(mapping, i).is_some());
                assert_eq!(pages.count(), cached, "{advice:?}");
            })
        });
    }
}

/// A store to a private mapping copies the page; the file and its page are unchanged, and the copy
/// is freed with the region.
#[test]
fn a_private_store_copies() {
    with_world(|mm| {
        Box::pin(async move {
            let file = fs::create(mm).expect("a file");
            mm.mappings[file as usize].size.set(4 * 4096);
            let backing = Backing::Private {
                mapping: file,
                first: 0,
            };
            let region = mm.new_region(backing, 4, Advice::Random).expect("room");
            let anon = mm.global_stat(mm::watch::vmstat::ZoneStat::NrAnonPages);
            assert_eq!(mm.touch(region, 1, false).await, Touched::Ok);
            let pfn = mm.find_page(file, 1).expect("read in");
            assert_eq!(mm.frames.mapcount(pfn), 1);
            assert_eq!(mm.touch(region, 1, true).await, Touched::Ok);
            assert_eq!(mm.touch(region, 2, true).await, Touched::Ok);
            assert_eq!(mm.frames.mapcount(pfn), 0);
            assert!(!mm.frames.has(pfn, flag::DIRTY));
            mm.recount().unwrap();
            mm.free_region(region);
            mm.world.sched.sleep(10_000_000).await;
            mm.refresh_cpu_vm_stats(0);
            mm.refresh_cpu_vm_stats(1);
            assert_eq!(
                mm.global_stat(mm::watch::vmstat::ZoneStat::NrAnonPages),
                anon
            );
        })
    });
}
