//! Runs the live world's source under a scheduler that picks the next thread at every operation on
//! an engine word, a lock or a wait queue (shuttle, random schedules).
//!
//! The modules are the crate's sources, compiled a second time with `sync` replaced. So the page
//! states (lock, dirty, writeback, waiters), the tickets and the CPU slots tested here are those of
//! the crate, with the whole engine on top. Memory orders weaker than the one total order of engine
//! words are not explored.

#![allow(dead_code)]

#[path = "../src/ahead.rs"]
mod ahead;
#[path = "../src/arena.rs"]
mod arena;
#[path = "../src/blocking.rs"]
mod blocking;
#[path = "model/calls.rs"]
mod calls;
#[path = "../src/class.rs"]
mod class;
#[path = "../src/cpu.rs"]
mod cpu;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/errseq.rs"]
mod errseq;
#[path = "../src/events.rs"]
mod events;
#[path = "../src/file.rs"]
mod file;
#[path = "../src/fold.rs"]
mod fold;
#[path = "../src/fork.rs"]
mod fork;
#[path = "model/holds.rs"]
mod holds;
#[path = "../src/io.rs"]
mod io;
#[path = "../src/latency.rs"]
mod latency;
#[path = "../src/map.rs"]
mod map;
#[path = "../src/open_file.rs"]
mod open_file;
#[path = "../src/page_size.rs"]
mod page_size;
#[path = "model/read.rs"]
mod read;
#[path = "../src/runner.rs"]
mod runner;
#[path = "../src/shared.rs"]
mod shared;
#[path = "../src/shrink.rs"]
mod shrink;
#[path = "../src/storage.rs"]
mod storage;
#[path = "model/sync.rs"]
mod sync;
#[path = "../src/turn.rs"]
mod turn;
#[path = "../src/wait.rs"]
mod wait;
#[path = "../src/world.rs"]
mod world;

use ahead::Ahead;
use arena::Pinned;
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use mm::memory::task::PF_SWAPWRITE;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::{VmEvent, ZoneEvent};
use mm::world::Tasks;
use mm::world::event::TrackPath;
use mm::{Mm, Policy, Sysctl, queue};
use mm::{ZoneInfo, ZoneType};
use read::read;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use world::{LiveWorld, daemon};

type LiveMm = Mm<LiveWorld>;

/// The first task number of users; 0 and 1 are kswapd and the flusher.
const USER: u32 = 2;
/// The task that makes transfers.
const AHEAD: u32 = 7;

fn schedules(iterations: usize, seed: u64, f: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(20_000_000);
    let scheduler = RandomScheduler::new_from_seed(seed, iterations);
    Runner::new(scheduler, config).run(f);
}

/// Creates a machine of `pages` pages and two CPU slots with `files` empty files.
fn machine(pages: u64, files: u32) -> Arc<LiveMm> {
    let config = mm::Config {
        cpus: 2,
        cpu_nodes: vec![0; 2],
        hz: 1000,
        pageblock_order: mm::memory::mobility::PAGEBLOCK_ORDER,
        zones: vec![ZoneInfo {
            node: 0,
            kind: ZoneType::Normal,
            size: pages,
        }],
        max_tasks: 8,
        max_mappings: files,
        max_bdis: 1,
        max_supers: 0,
        max_ags: 0,
        swap_slots: 0,
        swap_rotates: false,
        groups: Vec::new(),
        sysctl: Sysctl {
            dirty_ratio: 30,
            min_free_kbytes: Some(16),
            ..Sysctl::KERNEL
        },
    };
    let world = LiveWorld::new(&config).expect("memory");
    let mm = cpu::alone(|| Mm::new(world, config, Policy::linux_3_1(), false));
    mm.new_bdi(0, 100).expect("a device");
    mm.init_task(0, KSWAPD_FLAGS, 0);
    mm.init_task(1, PF_SWAPWRITE, 0);
    for task in USER..8 {
        mm.init_task(task, 0, 0);
    }
    for _ in 0..files {
        let m = mm.new_mapping(MappingKind::File, 0).expect("a file");
        let os = tempfile::tempfile().expect("a temporary file");
        let file = open_file::OpenFile::new((m, 0), "file".into(), Box::new(OwnedFd::from(os)));
        mm.world.add_file(Arc::new(file));
    }
    Arc::new(mm)
}

fn task<T>(mm: &LiveMm, who: u32, future: impl Future<Output = T>) -> T {
    let done = mm.world.cpus.block_on(USER + who, future);
    done.expect("only daemons are ended")
}

fn sync(mm: &LiveMm, who: u32, mapping: u32) {
    let cursor = mm.world.file(mapping).errors.sample();
    task(mm, who, file::fsync(mm, mapping, &cursor)).expect("a sync");
}

/// Runs `user` on `users` threads beside the daemons, then brings the engine to rest.
fn run(mm: &Arc<LiveMm>, users: u32, user: impl Fn(&LiveMm, u32) + Send + Sync + 'static) {
    let user = Arc::new(user);
    mm.world.io(0).begin(None);
    let daemons: Vec<_> = (0..3)
        .map(|id| {
            let mm = Arc::clone(mm);
            shuttle::thread::spawn(move || match id {
                0 => daemon::kswapd(&mm, 0),
                1 => daemon::flusher(&mm, 1, 0),
                _ => io::calls(&mm, 0, AHEAD),
            })
        })
        .collect();
    // Counter differences are folded periodically; otherwise a small limit could stay exceeded for
    // ever.
    let vmstat = {
        let mm = Arc::clone(mm);
        shuttle::thread::spawn(move || daemon::vmstat(&mm))
    };
    let threads: Vec<_> = (0..users)
        .map(|who| {
            let (mm, user) = (Arc::clone(mm), Arc::clone(&user));
            shuttle::thread::spawn(move || user(&mm, who))
        })
        .collect();
    for t in threads {
        t.join().expect("a user");
    }
    for m in 0..mm.mapping_count() {
        sync(mm, 0, m);
        assert!(!mm.mapping_tagged(m, Tag::Dirty) && !mm.mapping_tagged(m, Tag::Writeback));
    }
    mm.world.stop_daemons();
    mm.world.fold.stop();
    vmstat.join().expect("a daemon");
    for t in daemons {
        t.join().expect("a daemon");
    }
    mm.recount().expect("lists, indexes and counters agree");
}

fn page(who: u32, index: u64, version: u8) -> [u8; 4096] {
    [(who as u8) << 6 | (index as u8 & 15) << 2 | version; 4096]
}

/// Two threads write and read halves of the same pages, more than memory holds, beside the flusher
/// and reclaim: each thread finds what it wrote, and so does the file at the end.
#[test]
fn pages_shared_by_writers_flusher_and_reclaim() {
    static STOLEN: AtomicU64 = AtomicU64::new(0);
    schedules(60, 1, || {
        // The batches of two CPUs may hold 56 pages out of reach of reclaim.
        let mm = machine(96, 1);
        const PAGES: u64 = 100;
        run(&mm, 2, |mm, who| {
            let half = u64::from(who) * 2048;
            for version in 1..3 {
                for i in 0..PAGES {
                    let bytes = page(who, i, version);
                    let at = i * 4096 + half;
                    task(mm, who, file::write(mm, 0, at, &bytes[..2048])).expect("a write");
                }
                for i in (0..PAGES).step_by(3) {
                    let mut found = [0; 2048];
                    let at = i * 4096 + half;
                    let n = read(mm, who, 0, at, &mut found).expect("a read");
                    assert_eq!(n, 2048);
                    assert!(found == page(who, i, version)[..2048], "page {i} of {who}");
                }
            }
        });
        STOLEN.fetch_add(mm.zone_event(0, ZoneEvent::PgSteal), SeqCst);
        for i in 0..PAGES {
            for who in 0..2 {
                let mut found = [0; 2048];
                let at = i * 4096 + u64::from(who) * 2048;
                let n = mm
                    .world
                    .file(0)
                    .read(&mut [IoSliceMut::new(&mut found)], at);
                assert_eq!(n, Ok(2048));
                assert!(
                    found == page(who, i, 2)[..2048],
                    "page {i} of {who} on its device"
                );
            }
        }
    });
    assert!(STOLEN.load(SeqCst) > 0, "nothing was reclaimed");
}

/// One thread writes and syncs a file that another truncates again and again.
#[test]
fn pages_cut_away_under_a_writer() {
    schedules(300, 2, || {
        let mm = machine(24, 1);
        run(&mm, 2, |mm, who| {
            for round in 0..3u8 {
                if who == 0 {
                    for i in 0..6 {
                        task(mm, who, file::write(mm, 0, i * 4096, &page(0, i, round)))
                            .expect("a write");
                    }
                    sync(mm, who, 0);
                } else {
                    task(mm, who, file::truncate(mm, 0, 100)).expect("a truncation");
                }
            }
        });
        assert_eq!(mm.vm_event(VmEvent::WriteError), 0);
    });
}

/// A waiter that takes its ticket, tests and waits is always woken; a lost wake-up would be a
/// deadlock, which the scheduler reports.
#[test]
fn no_wake_up_is_lost_between_test_and_wait() {
    schedules(3000, 3, || {
        let mm = machine(24, 1);
        let flag = Arc::new(AtomicU32::new(0));
        let q = queue::page(5);
        let waiters: Vec<_> = (0..2)
            .map(|who| {
                let (mm, flag) = (Arc::clone(&mm), Arc::clone(&flag));
                shuttle::thread::spawn(move || {
                    for step in 1..=2 {
                        task(&mm, who, async {
                            loop {
                                let ticket = mm.world.ticket(q);
                                shuttle::thread::yield_now();
                                if flag.load(SeqCst) >= step {
                                    break;
                                }
                                mm.world.wait(q, ticket, None).await;
                            }
                        });
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            flag.fetch_add(1, SeqCst);
            shuttle::thread::yield_now();
            mm.world.wake(q);
        }
        for t in waiters {
            t.join().expect("a waiter");
        }
    });
}

/// Three threads lock the same page, dirty it, put it under writeback and end that: only one is
/// inside at a time, and none waits for ever.
#[test]
fn lock_dirty_and_writeback_exclude() {
    schedules(500, 4, || {
        let mm = machine(24, 1);
        let inside = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..3)
            .map(|who| {
                let (mm, inside) = (Arc::clone(&mm), Arc::clone(&inside));
                shuttle::thread::spawn(move || {
                    let mm = &*mm;
                    task(mm, who, async {
                        let mut page = loop {
                            if let Ok(Some(p)) = arena::Locked::find(mm, 0, 9).await {
                                break p;
                            }
                            let gfp = mm::memory::gfp::Gfp::USER;
                            match arena::Locked::insert(mm, 0, 9, gfp).await {
                                Ok(Some(p)) => break p,
                                Ok(None) => {}
                                Err(e) => panic!("{e:?}"),
                            }
                        };
                        mm.wait_on_page_writeback(page.pfn()).await;
                        page = page
                            .unpinned(&mut turn::Turn::new(mm))
                            .await
                            .expect("nobody has it pinned");
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are inside");
                        page.bytes_mut().fill(who as u8 + 1);
                        shuttle::thread::yield_now();
                        assert!(page.bytes().iter().all(|&b| b == who as u8 + 1));
                        mm.frames
                            .set_flags(page.pfn(), mm::memory::frame::flag::UPTODATE);
                        mm.set_page_dirty(page.pfn(), TrackPath::BufferedWrite);
                        assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                        let io = page.start_writeback().expect("a dirty page");
                        let seen = io.bytes().next().expect("one page")[0];
                        shuttle::thread::yield_now();
                        assert!(
                            mm.mapping_tagged(0, Tag::Writeback),
                            "a sync would not see it"
                        );
                        let same = io.bytes().flatten().all(|&b| b == seen);
                        assert!(same, "changed under I/O");
                        io.end(false);
                    });
                })
            })
            .collect();
        for t in threads {
            t.join().expect("a thread");
        }
        assert!(!mm.mapping_tagged(0, Tag::Dirty) && !mm.mapping_tagged(0, Tag::Writeback));
        mm.recount().expect("lists, indexes and counters agree");
    });
}

/// One thread changes the pages of a file, one puts them under writeback in runs, and one does so
/// page by page as reclaim does, which finds pages on an LRU list and not in the file. Bytes under
/// I/O do not change, a sync finds every page by its tag, and no page is left in an intermediate
/// state.
#[test]
fn runs_under_writeback_beside_writer_and_reclaim() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    static SINGLE: AtomicU64 = AtomicU64::new(0);
    // These pages lie in two leaves of the page index.
    const FIRST: u32 = 62;
    const PAGES: u32 = 4;
    fn write(mm: &LiveMm, who: u32, index: u32, byte: u8) {
        let at = u64::from(index) * 4096;
        task(mm, who, file::write(mm, 0, at, &[byte; 4096])).expect("a write");
    }
    fn look_at(mm: &LiveMm, io: arena::Writeback<'_>) {
        let seen: Vec<u8> = io.bytes().map(|p| p[0]).collect();
        shuttle::thread::yield_now();
        for index in io.run.first()..io.run.first() + io.run.count() {
            let tagged = mm.next_tagged(0, Tag::Writeback, index);
            assert_eq!(tagged, Some(index), "a sync would not see it");
        }
        for (p, byte) in io.bytes().zip(seen) {
            assert!(p.iter().all(|&b| b == byte), "changed under I/O");
        }
        io.end(false);
    }
    schedules(800, 5, || {
        let mm = machine(32, 1);
        for i in 0..PAGES {
            write(&mm, 0, FIRST + i, 1);
        }
        let threads: Vec<_> = (0..3)
            .map(|who| {
                let mm = Arc::clone(&mm);
                shuttle::thread::spawn(move || {
                    let mm = &*mm;
                    for round in 0..2 {
                        let first = FIRST + u32::from(round);
                        match who {
                            0 => (FIRST..FIRST + PAGES).for_each(|i| write(mm, who, i, round + 2)),
                            1 => task(mm, who, async {
                                let io = arena::Writeback::start(mm, 0, first, PAGES);
                                let Some(io) = io else { return };
                                RUNS.fetch_add(u64::from(io.run.count() > 1), SeqCst);
                                look_at(mm, io);
                            }),
                            _ => task(mm, who, async {
                                for index in first..FIRST + PAGES {
                                    let pfn = mm.find_page(0, index).expect("nobody frees it");
                                    if !mm.try_lock_page(pfn) {
                                        continue;
                                    }
                                    let busy =
                                        mm.frames.has(pfn, mm::memory::frame::flag::WRITEBACK);
                                    let io = (!busy && mm.clear_page_dirty_for_io(pfn))
                                        .then(|| arena::Writeback::for_reclaim(mm, pfn));
                                    mm.unlock_page(pfn);
                                    if let Some(io) = io {
                                        SINGLE.fetch_add(1, SeqCst);
                                        look_at(mm, io);
                                    }
                                }
                            }),
                        }
                    }
                })
            })
            .collect();
        for t in threads {
            t.join().expect("a thread");
        }
        mm.recount().expect("lists, indexes and counters agree");
        sync(&mm, 0, 0);
        assert!(!mm.mapping_tagged(0, Tag::Dirty) && !mm.mapping_tagged(0, Tag::Writeback));
        mm.recount().expect("lists, indexes and counters agree");
    });
    assert!(RUNS.load(SeqCst) > 0, "no run was longer than a page");
    assert!(SINGLE.load(SeqCst) > 0, "nothing was written by reclaim");
}

/// One thread reads more than memory holds, so that reclaim isolates pages; another writes a file
/// and truncates it. The truncation waits for isolated pages, and is woken.
#[test]
fn pages_cut_away_beside_reclaim() {
    static STOLEN: AtomicU64 = AtomicU64::new(0);
    schedules(60, 6, || {
        let mm = machine(96, 2);
        task(&mm, 0, file::truncate(&mm, 1, 120 * 4096)).expect("a longer file");
        run(&mm, 2, |mm, who| {
            for round in 0..3 {
                if who == 0 {
                    let mut found = [1; 100];
                    for i in 0..120 {
                        let n = read(mm, who, 1, i * 4096, &mut found);
                        assert_eq!((n, found), (Ok(100), [0; 100]));
                    }
                } else {
                    for i in 0..40 {
                        let bytes = page(who, i, round);
                        task(mm, who, file::write(mm, 0, i * 4096, &bytes)).expect("a write");
                    }
                    sync(mm, who, 0);
                    task(mm, who, file::truncate(mm, 0, 100)).expect("a truncation");
                    task(mm, who, file::truncate(mm, 0, 0)).expect("a truncation");
                    assert!(mm.mapping_has_no_pages(0));
                }
            }
        });
        STOLEN.fetch_add(mm.zone_event(0, ZoneEvent::PgSteal), SeqCst);
    });
    assert!(STOLEN.load(SeqCst) > 0, "nothing was reclaimed");
}

/// Fills page 0 of file 0 and leaves it dirty.
fn dirty_page(mm: &LiveMm) -> mm::Pfn {
    task(mm, 0, file::write(mm, 0, 0, &[1; 4096])).expect("a write");
    mm.find_page(0, 0).expect("a dirty page is cached")
}

/// The flusher and reclaim both want to write the same dirty page: at most one of them does.
#[test]
fn a_page_goes_under_writeback_once() {
    static BY_RUN: AtomicU64 = AtomicU64::new(0);
    static BY_RECLAIM: AtomicU64 = AtomicU64::new(0);
    schedules(3000, 7, || {
        let mm = machine(24, 1);
        let pfn = dirty_page(&mm);
        let others = Arc::clone(&mm);
        let reclaim = shuttle::thread::spawn(move || {
            let mm = &*others;
            task(mm, 1, async {
                if !mm.try_lock_page(pfn) {
                    return;
                }
                let busy = mm.frames.has(pfn, mm::memory::frame::flag::WRITEBACK);
                let io = (!busy && mm.clear_page_dirty_for_io(pfn))
                    .then(|| arena::Writeback::for_reclaim(mm, pfn));
                mm.unlock_page(pfn);
                if let Some(io) = io {
                    BY_RECLAIM.fetch_add(1, SeqCst);
                    io.end(false);
                }
            });
        });
        task(&mm, 0, async {
            if let Some(io) = arena::Writeback::start(&mm, 0, 0, 1) {
                BY_RUN.fetch_add(1, SeqCst);
                io.end(false);
            }
        });
        reclaim.join().expect("a thread");
        mm.recount().expect("lists, indexes and counters agree");
    });
    assert!(BY_RUN.load(SeqCst) > 0 && BY_RECLAIM.load(SeqCst) > 0);
}

/// A task that waits for a page that another truncates is woken and finds it gone.
#[test]
fn a_waiter_for_a_page_that_is_cut_is_woken() {
    static GONE: AtomicU64 = AtomicU64::new(0);
    schedules(1500, 8, || {
        let mm = machine(24, 1);
        dirty_page(&mm);
        let others = Arc::clone(&mm);
        let reader = shuttle::thread::spawn(move || {
            let mm = &*others;
            task(mm, 1, async {
                for _ in 0..3 {
                    if arena::Locked::find(mm, 0, 0)
                        .await
                        .is_ok_and(|p| p.is_none())
                    {
                        GONE.fetch_add(1, SeqCst);
                    }
                }
            });
        });
        task(&mm, 0, mm.truncate_from(0, 0));
        reader.join().expect("a thread");
        assert!(mm.mapping_has_no_pages(0));
        mm.recount().expect("lists, indexes and counters agree");
    });
    assert!(GONE.load(SeqCst) > 0, "no reader came after the cut");
}

/// One thread writes a file whose writes fail, and syncs it once they work again; another one reads
/// more than memory holds. Pages whose write failed are kept until they are written.
#[test]
fn pages_whose_write_failed_stay_beside_reclaim() {
    static FAILED: AtomicU64 = AtomicU64::new(0);
    static STOLEN: AtomicU64 = AtomicU64::new(0);
    schedules(60, 9, || {
        let mm = machine(96, 2);
        task(&mm, 0, file::truncate(&mm, 1, 120 * 4096)).expect("a longer file");
        run(&mm, 2, |mm, who| {
            if who == 0 {
                let (file, mut written) = (mm.world.file(0), 0);
                let cursor = file.errors.sample();
                file.fail_writes(true);
                while written < 20 {
                    let bytes = page(who, written, 1);
                    match task(mm, who, file::write(mm, 0, written * 4096, &bytes)) {
                        Ok(()) => written += 1,
                        Err(e) => {
                            assert!(matches!(e, error::Error::Refused(_)), "{e}");
                            break;
                        }
                    }
                }
                let told = task(mm, who, file::fsync(mm, 0, &cursor));
                assert!(matches!(told, Err(error::Error::Io(_))), "{told:?}");
                FAILED.fetch_add(mm.world.kept_pages(), SeqCst);
                assert_eq!(mm.world.kept_pages(), written);
                file.fail_writes(false);
                task(mm, who, file::fsync(mm, 0, &cursor)).expect("a sync");
                assert_eq!(mm.world.kept_pages(), 0);
                for i in 0..written {
                    let mut found = [0; 4096];
                    let n = file.read(&mut [IoSliceMut::new(&mut found)], i * 4096);
                    assert_eq!((n, found), (Ok(4096), page(who, i, 1)));
                }
            } else {
                let mut found = [1; 100];
                for i in 0..120 {
                    let n = read(mm, who, 1, i * 4096, &mut found);
                    assert_eq!((n, found), (Ok(100), [0; 100]));
                }
            }
        });
        assert_eq!(mm.world.lost_pages.load(SeqCst), 0);
        STOLEN.fetch_add(mm.zone_event(0, ZoneEvent::PgSteal), SeqCst);
    });
    assert!(FAILED.load(SeqCst) > 0, "nothing failed");
    assert!(STOLEN.load(SeqCst) > 0, "nothing was reclaimed");
}

/// Pins a page as `File::pin` does.
fn pin<'a>(
    mm: &'a LiveMm,
    who: u32,
    ahead: &Ahead,
    index: u32,
) -> Result<Pinned<'a>, error::Error> {
    if let Some(page) = Pinned::try_take(mm, 0, index)
        && file::pages_of(file::size(mm, 0)) > index
    {
        if !mm.mark_accessed_in_passing(page.pfn()) {
            let path = TrackPath::BufferedRead;
            task(mm, who, async { mm.mark_page_accessed(page.pfn(), path) });
        }
        return Ok(page);
    }
    task(mm, who, file::pin(mm, 0, ahead, index))
}

/// Checks that a page consists of one byte and does not change while other threads run; returns the
/// byte.
fn stays(page: &Pinned<'_>) -> u8 {
    let seen = page.bytes()[0];
    for _ in 0..3 {
        assert!(
            page.bytes().iter().all(|&b| b == seen),
            "changed under a pin"
        );
        shuttle::thread::yield_now();
    }
    seen
}

/// Two threads pin the pages of a file that does not fit into memory, one overwrites them: pinned
/// pages neither change nor move, and no thread waits for ever.
#[test]
fn pinned_pages_beside_reclaim_and_a_writer() {
    static STOLEN: AtomicU64 = AtomicU64::new(0);
    const PAGES: u32 = 110;
    schedules(60, 10, || {
        let mm = machine(96, 1);
        task(&mm, 0, file::truncate(&mm, 0, u64::from(PAGES) * 4096)).expect("a longer file");
        run(&mm, 3, |mm, who| {
            let ahead = Ahead::default();
            for i in 0..PAGES {
                if who == 2 {
                    let at = u64::from(i) * 4096;
                    task(mm, who, file::write(mm, 0, at, &[i as u8; 4096])).expect("a write");
                } else {
                    let first = pin(mm, who, &ahead, i).expect("a page");
                    let seen = stays(&first);
                    assert!(seen == 0 || seen == i as u8, "another page's bytes");
                    // Pins the page again, and a page that was used before.
                    let again = pin(mm, who, &ahead, i).expect("a page");
                    let before = pin(mm, who, &ahead, i / 2).expect("a page");
                    assert!(std::ptr::eq(again.bytes(), first.bytes()));
                    stays(&before);
                    assert_eq!(stays(&first), seen);
                }
            }
        });
        for i in 0..PAGES {
            let page = pin(&mm, 0, &Ahead::default(), i).expect("a page");
            assert_eq!(stays(&page), i as u8);
        }
        assert_eq!(
            (0..mm.frames.len()).map(|f| arena::pins(&mm, f)).max(),
            Some(0)
        );
        STOLEN.fetch_add(mm.zone_event(0, ZoneEvent::PgSteal), SeqCst);
    });
    assert!(STOLEN.load(SeqCst) > 0, "nothing was reclaimed");
}

/// Two threads pin pages of a file that another truncates and writes again: a pinned page outlives
/// the truncation, and none can be pinned behind the end.
#[test]
fn pinned_pages_beside_cuts() {
    static PINNED: AtomicU64 = AtomicU64::new(0);
    static BEHIND: AtomicU64 = AtomicU64::new(0);
    schedules(400, 11, || {
        let mm = machine(32, 1);
        run(&mm, 3, |mm, who| {
            let ahead = Ahead::default();
            for round in 1..4u8 {
                for i in 0..4u32 {
                    if who == 2 {
                        let at = u64::from(i) * 4096;
                        task(mm, who, file::write(mm, 0, at, &[round; 4096])).expect("a write");
                        continue;
                    }
                    match pin(mm, who, &ahead, i) {
                        Ok(page) => {
                            stays(&page);
                            PINNED.fetch_add(1, SeqCst);
                        }
                        Err(error::Error::BehindEnd) => {
                            BEHIND.fetch_add(1, SeqCst);
                        }
                        Err(e) => panic!("{e}"),
                    }
                }
                if who == 2 {
                    task(mm, who, file::truncate(mm, 0, 4096)).expect("a truncation");
                    let first = Pinned::try_take(mm, 0, 1).map(|p| stays(&p));
                    assert_eq!(first, None, "a page behind the end");
                }
            }
        });
    });
    assert!(PINNED.load(SeqCst) > 0 && BEHIND.load(SeqCst) > 0);
}

/// Sequential reads, so that windows are handed to the thread that reads them, beside truncations:
/// a reader waits for a page on its way, and pages handed over are read even if the cache ends.
#[test]
fn windows_read_ahead_beside_cuts_and_the_end() {
    static MARKS: AtomicU64 = AtomicU64::new(0);
    schedules(60, 12, || {
        let mm = machine(512, 1);
        const PAGES: u64 = 60;
        task(&mm, 0, file::truncate(&mm, 0, PAGES * 4096)).expect("a longer file");
        run(&mm, 2, |mm, who| {
            let ahead = Ahead::default();
            for i in 0..PAGES as u32 {
                if who == 1 {
                    if i == 20 {
                        task(mm, who, file::truncate(mm, 0, 50 * 4096)).expect("a truncation");
                    }
                    continue;
                }
                match pin(mm, who, &ahead, i) {
                    Ok(page) => assert_eq!(stays(&page), 0),
                    Err(e) => assert!(e == error::Error::BehindEnd && i >= 50, "{i}: {e}"),
                }
                if mm.find_page(0, i + 3).is_some() {
                    MARKS.fetch_add(1, SeqCst);
                }
            }
        });
    });
    assert!(MARKS.load(SeqCst) > 0, "nothing was read ahead");
}
