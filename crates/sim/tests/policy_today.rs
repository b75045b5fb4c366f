//! The switches of today's block layer and of the filesystems' writeback: each changes a run's
//! result for the reason given in its documentation.

mod common;

use common::{Life, bare, spec};
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::memory::task::PF_SWAPWRITE;
use mm::policy::{
    Ext4Writeback, FlusherSlice, IomapWriteback, MetadataEnters, Plugs, RequestQueue,
    WritebackEnds, WritebackThrottling,
};
use mm::world::event::TrackPath;
use mm::world::{Storage as _, Tasks};
use mm::{Policy, ZoneType};
use sim::SimMm;
use sim::filesystems::{self as fs, DirId};
use sim::spec::{DiskKind, FsKind};
use sim::world::{Tag as WorldTag, kblockd, own_queue};
use std::cell::Cell;
use std::rc::Rc;

const MS: u64 = 1_000_000;

fn build(filesystem: FsKind, disk: DiskKind, change: impl FnOnce(&mut Policy)) -> SimMm<true> {
    let mut machine = bare(ZoneType::Dma32, 256 << 20);
    machine.disk.kind = disk;
    let mut spec = spec(machine, filesystem, "dd if=/dev/zero of=a count=1");
    spec.policy.flusher_slice = FlusherSlice::PerInode;
    change(&mut spec.policy);
    let mm = sim::run::build(&spec);
    fs::mount(&mm);
    mm
}

fn today(policy: &mut Policy) {
    policy.request_queue = RequestQueue::Multi;
    policy.writeback_throttling = WritebackThrottling::Wbt;
    policy.writeback_ends = WritebackEnds::IoEnd;
    policy.ext4_writeback = Ext4Writeback::ByExtent;
}

/// Enters dirty pages into a file's cache, as if they had just been written.
async fn enter_dirty(mm: &SimMm<true>, file: u32, pages: std::ops::Range<u32>) {
    for index in pages {
        let pfn = mm.alloc_page(Gfp::USER).await.expect("memory");
        mm.frames.set_flags(pfn, flag::UPTODATE);
        assert!(mm.add_to_page_cache_lru(pfn, file, index));
        mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
        mm.world.relax().await;
    }
    let size = &mm.mappings[file as usize].size;
    size.set(
        size.get()
            .max(4096 * u64::from(mm.tagged_count(file, Tag::Dirty, u32::MAX))),
    );
}

/// Observations while a flusher wrote a file.
#[derive(Debug, Default)]
struct Seen {
    /// Maximum number of pages under writeback.
    writeback: u32,
    /// Numbers of pages that left writeback at once, in order.
    steps: Vec<u32>,
    /// Maximum number of requests that the disk and its queue had.
    requests: u32,
}

/// Lets a flusher write 16,384 pages of a file while `beside` runs.
fn written<'a>(mm: &'a SimMm<true>, beside: impl FnOnce(u32) -> Vec<Life<'a>>) -> Seen {
    written_of(mm, 0..16_384, beside)
}

/// Lets a flusher write these pages, which are the last of a file.
fn written_of<'a>(
    mm: &'a SimMm<true>,
    pages: std::ops::Range<u32>,
    beside: impl FnOnce(u32) -> Vec<Life<'a>>,
) -> Seen {
    let file = fs::create(mm).expect("a file");
    let all = pages.len() as u32;
    mm.mappings[file as usize]
        .size
        .set(u64::from(pages.end) * 4096);
    let bdi = mm.world.fs[0].bdi.get();
    let begun = Rc::new(Cell::new(false));
    let begins = begun.clone();
    let writer = async move {
        enter_dirty(mm, file, pages).await;
        begins.set(true);
        mm.wakeup_flusher_threads(0);
        while mm.mapping_tagged(file, Tag::Dirty) || mm.mapping_tagged(file, Tag::Writeback) {
            mm.world.sched.sleep(MS).await;
        }
        mm.world.sched.stop();
    };
    let mut tasks: Vec<(u32, Life<'a>)> = vec![
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(writer)),
    ];
    tasks.extend(beside(file).into_iter().map(|life| (0, life)));
    let (mut seen, mut left) = (Seen::default(), all);
    common::drive(mm, tasks, 10_000, || {
        if !begun.get() {
            return;
        }
        let of = |tag| mm.tagged_count(file, tag, u32::MAX);
        let now = of(Tag::Dirty) + of(Tag::Writeback);
        seen.writeback = seen.writeback.max(of(Tag::Writeback));
        if now < left {
            seen.steps.push(left - now);
        }
        seen.requests = seen.requests.max(mm.world.in_flight(0));
        left = left.min(now);
    });
    assert_eq!(left, 0);
    seen
}

/// A queue of 128 requests takes all pages that the flusher has. On a disk that serves one request
/// at a time, writes have eight tags, and one request that has left the scheduler is counted with
/// them.
#[test]
fn tags_leave_pages_dirty_that_a_queue_has() {
    let of = |queue| {
        let mm = build(FsKind::Xfs, DiskKind::Disk, |p| p.request_queue = queue);
        written(&mm, |_| Vec::new())
    };
    let (single, multi) = (of(RequestQueue::Single), of(RequestQueue::Multi));
    assert!(single.writeback > 8000, "{single:?}");
    assert_eq!(multi.requests, 8, "{multi:?}");
    assert!(multi.writeback <= 9 * 128, "{multi:?}");
}

/// The throttle lets one or two requests through to such a disk. To a disk with 31 tags it lets a
/// background share through while another task reads, and far more otherwise.
#[test]
fn the_throttle_goes_by_depth_and_by_readers() {
    let of = |disk, throttling, reads: bool| {
        let mm = build(FsKind::Xfs, disk, |p| {
            p.request_queue = RequestQueue::Multi;
            p.writeback_throttling = throttling;
        });
        let mm = &mm;
        let reader = |_| -> Vec<Life<'_>> {
            if !reads {
                return Vec::new();
            }
            let other = fs::create(mm).expect("a file");
            assert!(fs::lay_out(mm, other, 1 << 30));
            vec![Box::pin(async move {
                for at in 0.. {
                    let pos = at * 4_096_000 % (1 << 30);
                    fs::read(mm, other, pos, 4096).await.expect("data");
                    mm.world.sched.sleep(MS).await;
                }
            })]
        };
        written(mm, reader).requests
    };
    use WritebackThrottling::{None, Wbt};
    assert!(of(DiskKind::Disk, Wbt, false) <= 2);
    assert!(of(DiskKind::Disk, None, false) > 2);
    let (free, held) = (
        of(DiskKind::Ssd, None, false),
        of(DiskKind::Ssd, Wbt, false),
    );
    assert!(held < free && held <= 46, "{held} of {free}");
    let beside_reads = of(DiskKind::Ssd, Wbt, true);
    assert!(beside_reads < held, "{beside_reads} of {held}");
}

/// A page under writeback that read-ahead has marked is read like any other, and keeps its mark.
#[test]
fn a_reader_goes_on_at_a_mark_under_writeback() {
    let mm = build(FsKind::Xfs, DiskKind::Disk, today);
    let mm = &mm;
    let was_read = Rc::new(Cell::new(false));
    let reads = was_read.clone();
    let seen = written(mm, |file| {
        vec![Box::pin(async move {
            let pfn = loop {
                mm.world.sched.sleep(MS).await;
                let page = mm.find_page(file, 0);
                if let Some(pfn) = page.filter(|&pfn| mm.frames.has(pfn, flag::WRITEBACK)) {
                    break pfn;
                }
            };
            mm.frames.set_flags(pfn, flag::READAHEAD);
            assert_eq!(fs::read(mm, file, 0, 4096).await.expect("data"), 4096);
            reads.set(mm.frames.has(pfn, flag::WRITEBACK | flag::READAHEAD));
        })]
    });
    assert!(was_read.get() && seen.writeback > 0, "{seen:?}");
}

/// With ends by requests, 128 pages leave writeback at a time; with ioends up to 4096 of xfs, 256
/// (a bio) of ext4, and up to 2048 of ext4's new extents.
#[test]
fn pages_leave_writeback_by_ends() {
    let of = |filesystem, ends, ext4| {
        let mm = build(filesystem, DiskKind::Disk, |p| {
            today(p);
            p.writeback_ends = ends;
            p.ext4_writeback = ext4;
        });
        written(&mm, |_| Vec::new())
            .steps
            .into_iter()
            .max()
            .expect("some")
    };
    use Ext4Writeback::{Bumped, ByExtent};
    use WritebackEnds::{IoEnd, Request};
    assert!(of(FsKind::Xfs, Request, Bumped) <= 128);
    assert_eq!(of(FsKind::Xfs, IoEnd, Bumped), 4096);
    assert!(of(FsKind::Ext4, Request, Bumped) <= 128);
    assert!(of(FsKind::Ext4, IoEnd, Bumped) >= 256);
    assert_eq!(of(FsKind::Ext4, IoEnd, ByExtent), 2048);
}

/// ext4's extents end where the blocks of an allocation do, at multiples of 8 MiB in a large file
/// and of less in a smaller one, as a guest's trace shows for a walk that begins in between.
#[test]
fn extents_end_where_blocks_were_given() {
    let of = |pages| {
        let mm = build(FsKind::Ext4, DiskKind::Disk, today);
        written_of(&mm, pages, |_| Vec::new()).steps
    };
    // The quota of a call ends within an extent, after 4096 pages.
    assert_eq!(of(3000..9000), [1096, 2048, 952, 1096, 808]);
    assert_eq!(of(300..1500), [724, 476], "4 MiB in a file of 8");
    assert_eq!(of(300..1000), [212, 488], "2 MiB in a file of 4");
    assert_eq!(
        of(100..250),
        [150],
        "a file of 1 MiB has its blocks at once"
    );
}

/// Returns the longest duration of writes of one page to another file, while the flusher writes a
/// file and a task requests commits.
fn longest_write(ext4: Ext4Writeback) -> u64 {
    let mm = build(FsKind::Ext4, DiskKind::Disk, |p| {
        today(p);
        p.ext4_writeback = ext4;
    });
    let mm = &mm;
    let (synced, other) = (
        fs::create(mm).expect("a file"),
        fs::create(mm).expect("a file"),
    );
    let longest = Rc::new(Cell::new(0));
    let noted = longest.clone();
    written(mm, |file| {
        let writes = async move {
            while !mm.mapping_tagged(file, Tag::Writeback) {
                mm.world.sched.sleep(MS).await;
            }
            loop {
                let began = mm.world.now();
                fs::write(mm, other, 0, 4096).await.expect("room");
                noted.set(noted.get().max(mm.world.now() - began));
                mm.world.sched.sleep(MS).await;
            }
        };
        let commits = async move {
            loop {
                mm.world.sched.sleep(20 * MS).await;
                fs::fsync(mm, synced).await;
            }
        };
        vec![Box::pin(writes), Box::pin(commits)]
    });
    longest.get()
}

/// Today's commit waits for the flusher's extent, which waits for the disk, and writers wait for
/// the commit: 2048 pages take a disk of 2012 some 70 ms. In the form before, writers did not wait
/// for a commit.
#[test]
fn writers_stand_still_while_a_commit_waits_for_an_extent() {
    let (before, today) = (
        longest_write(Ext4Writeback::Bumped),
        longest_write(Ext4Writeback::ByExtent),
    );
    assert!(before < MS && today > 10 * MS, "{before} {today}");
}

/// fsync runs beside the flusher, over records of four pages that lie apart. Each takes whole
/// records if neither sees the other within one (`Alone`); without the lock they take pages in
/// turn; with it each writes a batch, and the other has a part of its first and last records.
#[test]
fn two_who_write_one_file_meet_page_by_page() {
    const RECORDS: u32 = 512;
    let of = |form| {
        let mm = build(FsKind::Xfs, DiskKind::Disk, |p| {
            today(p);
            p.lru_batch = 31;
            p.iomap_writeback = form;
        });
        let mm = &mm;
        let life = async move {
            let file = fs::create(mm).expect("a file");
            assert!(fs::lay_out(mm, file, u64::from(RECORDS) * 16 * 4096));
            for record in 0..RECORDS {
                enter_dirty(mm, file, record * 16..record * 16 + 4).await;
            }
            mm.wakeup_flusher_threads(0);
            mm.world.sched.sleep(20 * MS).await;
            assert!(fs::fsync(mm, file).await);
            mm.world.sched.stop();
        };
        let flusher = mm.flusher(mm.world.fs[0].bdi.get());
        let tasks: Vec<(u32, Life<'_>)> =
            vec![(PF_SWAPWRITE, Box::pin(flusher)), (0, Box::pin(life))];
        common::drive(mm, tasks, MS, || {});
        mm.world.devices.borrow()[0].queue.stats().requests[1]
    };
    let (alone, unlocked, locked) = (
        of(IomapWriteback::Alone),
        of(IomapWriteback::Unlocked),
        of(IomapWriteback::Locked),
    );
    let all = u64::from(RECORDS);
    assert!((all..all + 8).contains(&alone), "{alone}");
    assert!(unlocked > 2 * all, "{unlocked}");
    assert!((all + 30..2 * all).contains(&locked), "{locked}");
}

/// Files of 16 KiB with adjacent blocks are one request after the other without plugs, and requests
/// of 128 pages with them.
#[test]
fn a_plug_makes_one_request_of_small_files() {
    let of = |plugs| {
        let mm = build(FsKind::Ext4, DiskKind::Disk, |p| {
            today(p);
            p.plugs = plugs;
        });
        let mm = &mm;
        let life = async move {
            let mut files = Vec::new();
            for _ in 0..256 {
                files.push(fs::create(mm).expect("a file"));
                enter_dirty(mm, files[files.len() - 1], 0..4).await;
            }
            mm.wakeup_flusher_threads(0);
            let busy = |&file: &u32| {
                mm.mapping_tagged(file, Tag::Dirty) || mm.mapping_tagged(file, Tag::Writeback)
            };
            while files.iter().any(busy) {
                mm.world.sched.sleep(MS).await;
            }
            mm.world.sched.stop();
        };
        let flusher = mm.flusher(mm.world.fs[0].bdi.get());
        let tasks: Vec<(u32, Life<'_>)> =
            vec![(PF_SWAPWRITE, Box::pin(flusher)), (0, Box::pin(life))];
        common::drive(mm, tasks, MS, || {});
        mm.world.devices.borrow()[0].queue.stats().requests[1]
    };
    let (alone, gathered) = (of(Plugs::None), of(Plugs::Task));
    assert!(alone > 100, "{alone}");
    assert!((8..=16).contains(&gathered), "{gathered}");
}

/// Requests of a task without a plug are dispatched at once, or grow until the worker has the CPU.
#[test]
fn a_request_without_a_plug_grows_until_the_worker_gives_it_out() {
    let of = |plugs| {
        let mut machine = bare(ZoneType::Dma32, 256 << 20);
        machine.disk.kind = DiskKind::Ssd;
        machine.cpus = 1;
        let mut spec = spec(machine, FsKind::Xfs, "sleep 0");
        today(&mut spec.policy);
        spec.policy.plugs = plugs;
        let mm = sim::run::build(&spec);
        fs::mount(&mm);
        let mm = &mm;
        let life = async move {
            let tag = WorldTag::Raw {
                queue: mm.world.queue_base + own_queue::TASK + 1,
            };
            for block in 0..16 {
                mm.world
                    .submit(0, tag, true, true, (1 << 18) + block, 1)
                    .await;
            }
            mm.world.sched.sleep(100 * MS).await;
            mm.world.sched.stop();
        };
        let tasks: Vec<(u32, Life<'_>)> =
            vec![(0, Box::pin(life)), (0, Box::pin(kblockd::run(mm)))];
        common::drive(mm, tasks, MS, || {});
        let devices = mm.world.devices.borrow();
        let stats = devices[0].queue.stats();
        assert_eq!(stats.blocks[1], 16);
        stats.requests[1]
    };
    assert_eq!([Plugs::Task, Plugs::Worker].map(of), [16, 1]);
}

/// A plug dispatches its requests when it holds `plug_requests` of them, before the task ends it:
/// pages are still dirty while the disk works already.
#[test]
fn a_plug_holds_so_many_requests() {
    let of = |most: f64| {
        let mut machine = bare(ZoneType::Dma32, 256 << 20);
        machine.disk.kind = DiskKind::Ssd;
        let mut spec = spec(machine, FsKind::Xfs, "dd if=/dev/zero of=a count=1");
        spec.policy.flusher_slice = FlusherSlice::PerInode;
        today(&mut spec.policy);
        spec.policy.writeback_throttling = WritebackThrottling::None;
        spec.policy.plugs = Plugs::Task;
        spec.params.plug_requests = most;
        let mm = sim::run::build(&spec);
        fs::mount(&mm);
        let mm = &mm;
        let file = fs::create(mm).expect("a file");
        assert!(fs::lay_out(mm, file, 1 << 20));
        let life = async move {
            for page in 0..16 {
                enter_dirty(mm, file, 8 * page..8 * page + 1).await;
            }
            mm.wakeup_flusher_threads(0);
            while mm.mapping_tagged(file, Tag::Dirty) || mm.mapping_tagged(file, Tag::Writeback) {
                mm.world.sched.sleep(MS).await;
            }
            mm.world.sched.stop();
        };
        let flusher = mm.flusher(mm.world.fs[0].bdi.get());
        let tasks: Vec<(u32, Life<'_>)> =
            vec![(PF_SWAPWRITE, Box::pin(flusher)), (0, Box::pin(life))];
        let mut left = 0;
        common::drive(mm, tasks, 200, || {
            if mm.world.devices.borrow()[0].queue.in_service() > 0 {
                left = left.max(mm.tagged_count(file, Tag::Dirty, u32::MAX));
            }
        });
        left
    };
    assert_eq!(of(32.0), 0);
    let left = of(4.0);
    assert!((8..=12).contains(&left), "{left}");
}

/// Today's ext4 dirties blocks of directories and inodes when the commit has ended, 5 s after the
/// first change; the form before dirties them at once.
#[test]
fn metadata_is_the_flushers_after_the_commit() {
    let of = |ext4, then: &str| {
        let files = "fs_mark -d a -D 4 -n 200 -L 1 -s 0 -S 0";
        let machine = bare(ZoneType::Dma32, 256 << 20);
        let mut spec = spec(machine, FsKind::Ext4, &format!("{files}{then}"));
        today(&mut spec.policy);
        spec.policy.ext4_writeback = ext4;
        common::run(&spec).counters["nr_dirtied"]
    };
    assert!(of(Ext4Writeback::Bumped, "") > 10);
    assert_eq!(of(Ext4Writeback::ByExtent, ""), 0);
    assert!(of(Ext4Writeback::ByExtent, "; sleep 6") > 10);
}

/// Metadata that a commit has not brought to the journal yet stays in memory even under reclaim.
#[test]
fn metadata_of_a_transaction_is_not_reclaimed() {
    let mm = build(FsKind::Ext4, DiskKind::Disk, today);
    let mm = &mm;
    let device = (0..mm.mapping_count())
        .find(|&m| mm.mappings[m as usize].kind() == MappingKind::BlockDevice)
        .expect("the device's own file");
    let life = async move {
        let held = || {
            let cached = (0..mm.frames.len() as u32).filter(|&pfn| {
                mm.frames.has(pfn, flag::CACHED) && mm.frames.mapping(pfn) == device
            });
            cached
                .filter(|&pfn| !mm.world.release_page(mm, pfn))
                .count()
        };
        let above = fs::inode_of_dir(mm, DirId::root(0));
        assert!(mm.iget(above).await.is_ok());
        let made = fs::create_in(mm, DirId::root(0)).await;
        mm.iput(above);
        let file = made.expect("room").expect("a file");
        assert!(held() > 0);
        assert!(fs::fsync(mm, file).await);
        assert_eq!(held(), 0);
        mm.world.sched.stop();
    };
    common::drive(mm, vec![(0, Box::pin(life) as Life<'_>)], MS, || {});
}

/// Pages of new blocks stay under writeback until a worker has had the CPU, even if other tasks use
/// it meanwhile; pages that are overwritten, and those of the earlier ext4, only until the device
/// has them.
#[test]
fn new_extents_wait_for_a_worker() {
    let waited = |filesystem, ext4, written_before: bool| {
        let mm = build(filesystem, DiskKind::Ssd, |p| {
            today(p);
            p.ext4_writeback = ext4;
        });
        let mm = &mm;
        let file = fs::create(mm).expect("a file");
        // Both CPUs are taken by tasks that do not give way.
        let hogs = |stops: bool| async move {
            while !mm.mapping_tagged(file, Tag::Writeback) {
                mm.world.sched.sleep(MS).await;
            }
            mm.world.sched.charge(50 * MS);
            mm.world.sched.sleep(MS).await;
            if stops {
                mm.world.sched.stop();
            }
        };
        let life = async move {
            if written_before {
                assert!(fs::lay_out(mm, file, 256 * 4096));
            }
            enter_dirty(mm, file, 0..256).await;
            mm.wakeup_flusher_threads(0);
            hogs(true).await;
        };
        let flusher = mm.flusher(mm.world.fs[0].bdi.get());
        let tasks: Vec<(u32, Life<'_>)> = vec![
            (PF_SWAPWRITE, Box::pin(flusher)),
            (0, Box::pin(life)),
            (0, Box::pin(hogs(false))),
        ];
        let mut waited = 0;
        common::drive(mm, tasks, MS / 10, || {
            let under = mm.tagged_count(file, Tag::Writeback, u32::MAX);
            waited += u64::from(under > 0 && mm.world.in_flight(0) == 0);
        });
        assert!(!mm.mapping_tagged(file, Tag::Writeback));
        waited
    };
    use Ext4Writeback::{Bumped, ByExtent};
    let new = [FsKind::Ext4, FsKind::Xfs].map(|of| waited(of, ByExtent, false));
    assert!(
        new.iter().all(|&tenths| tenths >= 100),
        "{new:?} tenths of a millisecond"
    );
    let others = [
        waited(FsKind::Ext4, ByExtent, true),
        waited(FsKind::Xfs, ByExtent, true),
        waited(FsKind::Ext4, Bumped, false),
    ];
    assert!(others.iter().all(|&tenths| tenths <= 1), "{others:?}");
}

/// fsync beside a commit waits for it, and for the next one, which has the changes that came too
/// late for the first. In the earlier form it returned at once.
#[test]
fn who_syncs_beside_a_commit_waits_for_the_next_one() {
    let took = |ext4| {
        let mm = build(FsKind::Ext4, DiskKind::Disk, |p| {
            today(p);
            p.ext4_writeback = ext4;
        });
        let (mm, times) = (&mm, Rc::new(Cell::new([0; 2])));
        let of = |nth: usize, times: Rc<Cell<[u64; 2]>>| async move {
            let file = fs::create(mm).expect("a file");
            mm.world.sched.sleep(nth as u64 * MS).await;
            let began = mm.world.now();
            assert!(fs::fsync(mm, file).await);
            let mut both = times.get();
            both[nth] = 1 + mm.world.now() - began;
            times.set(both);
            if !both.contains(&0) {
                mm.world.sched.stop();
            }
        };
        let tasks: Vec<(u32, Life<'_>)> = [0, 1]
            .map(|nth| (0, Box::pin(of(nth, times.clone())) as Life<'_>))
            .into();
        common::drive(mm, tasks, MS, || {});
        times.get()
    };
    // The second fsync begins a millisecond later.
    let [first, second] = took(Ext4Writeback::ByExtent);
    assert!(first > 2 * MS && second + MS > first, "{first} {second}");
    let [first, second] = took(Ext4Writeback::Bumped);
    assert!(first > 2 * MS && second < MS, "{first} {second}");
}

/// In the earlier form, the walk of a commit moves the index at which the flusher continues past
/// pages that were not written.
#[test]
fn commits_leave_the_flushers_place_alone() {
    let of = |ext4| {
        let mm = build(FsKind::Ext4, DiskKind::Disk, |p| p.ext4_writeback = ext4);
        let mm = &mm;
        let file = fs::create(mm).expect("a file");
        let life = async move {
            enter_dirty(mm, file, 0..100).await;
            assert!(mm.sync_mapping(file).await);
            enter_dirty(mm, file, 100..200).await;
            mm.mappings[file as usize].size.set(200 * 4096);
            let other = fs::create(mm).expect("a file");
            assert!(fs::fsync(mm, other).await);
            mm.world.sched.stop();
        };
        common::drive(mm, vec![(0, Box::pin(life) as Life<'_>)], MS, || {});
        assert_eq!(mm.tagged_count(file, Tag::Dirty, u32::MAX), 100);
        mm.mappings[file as usize].writeback_index.get()
    };
    assert_eq!(of(Ext4Writeback::Bumped), 200);
    assert!(of(Ext4Writeback::ByExtent) <= 100);
}

/// A block of an inode table that enters as referenced is activated by its first user while it is
/// still in its add batch, which `pgactivate` does not count. Otherwise some blocks meet their
/// second user on a list, and are activated and counted there.
#[test]
fn metadata_that_enters_referenced_is_activated_by_its_first_user() {
    let activated = |enters| {
        let mut spec = spec(
            bare(ZoneType::Dma32, 256 << 20),
            FsKind::Ext4,
            "fs_mark -d a -n 8000 -L 1 -s 16384 -S 0",
        );
        spec.policy = Policy::preset("linux-6.12").expect("a preset");
        spec.policy.metadata_enters = enters;
        common::run(&spec).counters["pgactivate"]
    };
    let (plain, referenced) = (
        activated(MetadataEnters::Plain),
        activated(MetadataEnters::BlocksReferenced),
    );
    assert!(referenced < plain, "{referenced} beside {plain}");
}
