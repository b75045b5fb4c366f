//! Tests of private items. They are here and not in the files that they test, because
//! `tests/model.rs` compiles those files a second time.

use crate::LiveMm;
use crate::arena::{Keeper, Locked, Writeback, pins};
use crate::cpu;
use crate::error::{Error, OutOfMemory};
use crate::errseq::{ErrorSequence, Fate};
use crate::file;
use crate::io::{self, How, Io};
use crate::map::Arena;
use crate::open_file::OpenFile;
use crate::page_size::PAGE;
use crate::storage::Backing;
use crate::turn::Turn;
use crate::world::LiveWorld;
use mm::cache::mapping::MappingKind;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::watch::vmstat::ZoneEvent;
use mm::world::event::TrackPath;
use mm::{Mm, Policy, Sysctl};
use mm::{ZoneInfo, ZoneType};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

#[path = "../tests/model/read.rs"]
mod read;
use read::read;

const IO: Result<(), Error> = Err(Error::Io(Errno::IO));

#[test]
fn everybody_is_told_once() {
    let s = ErrorSequence::default();
    let (a, b) = (s.sample(), s.sample());
    assert_eq!(s.check(&a), Ok(()));
    s.record(Errno::IO, Fate::Kept);
    assert_eq!((s.check(&a), s.check(&a)), (IO, Ok(())));
    // The same error counts anew, because a handle was told of the first one.
    s.record(Errno::IO, Fate::Kept);
    assert_eq!((s.check(&a), s.check(&a)), (IO, Ok(())));
    assert_eq!((s.check(&b), s.check(&b)), (IO, Ok(())));
}

#[test]
fn who_opens_later_is_told_what_nobody_was_told() {
    let s = ErrorSequence::default();
    s.record(Errno::NOSPC, Fate::Kept);
    let late = s.sample();
    assert_eq!(s.check(&late), Err(Error::Io(Errno::NOSPC)));
    let later = s.sample();
    assert_eq!(s.check(&later), Ok(()));
}

#[test]
fn a_loss_is_not_forgotten_over_a_later_error() {
    let s = ErrorSequence::default();
    let (a, b, end) = (s.sample(), s.sample(), s.end());
    s.record(Errno::IO, Fate::Lost);
    s.record(Errno::NOSPC, Fate::Kept);
    assert_eq!(s.check(&a), Err(Error::Lost(Errno::NOSPC)));
    s.record(Errno::NOSPC, Fate::Kept);
    assert_eq!(s.check(&a), Err(Error::Io(Errno::NOSPC)));
    for late in [b, end] {
        assert_eq!(s.check(&late), Err(Error::Lost(Errno::NOSPC)));
        assert_eq!(s.check(&late), Ok(()));
    }
}

/// A file in memory, so that Miri, which does not support preadv, can run the code above it.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>, Arc<Gate>);

/// A gate that a truncation waits at while `shut` is locked.
#[derive(Default)]
struct Gate {
    shut: Mutex<()>,
    /// A truncation waits at the gate, or has passed it.
    came: AtomicBool,
}

impl Backing for Memory {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        let bytes = self.0.lock();
        let start = bytes.len().min(at as usize);
        let mut from = start;
        for p in parts {
            let n = p.len().min(bytes.len() - from);
            p[..n].copy_from_slice(&bytes[from..from + n]);
            from += n;
        }
        Ok(from - start)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        let (mut bytes, mut to) = (self.0.lock(), at as usize);
        for p in parts {
            let len = bytes.len().max(to + p.len());
            bytes.resize(len, 0);
            bytes[to..to + p.len()].copy_from_slice(p);
            to += p.len();
        }
        Ok(to - at as usize)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        self.1.came.store(true, SeqCst);
        let _open = self.1.shut.lock();
        self.0.lock().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn has_name(&self) -> Result<bool, Errno> {
        Ok(true)
    }
}

/// While a reader waits long, or did lately, the device gets fewer writes; a sync is not held back.
#[test]
fn a_device_whose_reads_are_slow_gets_fewer_writes() {
    let (mm, _) = machine(1024, Vec::new());
    let depth = |sync| mm.world.depth(25_600, 0, sync);
    let sleep = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    assert_eq!(depth(false), (16, 256));
    let began = mm.world.read_begins(0);
    sleep(5);
    // During the slow read, and for a while after it.
    assert_eq!((depth(false), depth(true)), ((4, 51), (16, 256)));
    mm.world.read_ends(0, began);
    // At least one of the tries takes less than 100 ms between the read and the test.
    let fewer = (0..100).any(|_| {
        let began = mm.world.read_begins(0);
        sleep(5);
        mm.world.read_ends(0, began);
        depth(false) == (4, 51)
    });
    assert!(fewer);
    sleep(101);
    assert_eq!(depth(false), (16, 256));
    assert_eq!(mm.world.depth(1, 0, false), (16, 16));
}

/// A device with a slow transfer counts as slow for a second; its long runs of pages are then
/// copied.
#[test]
fn a_device_that_takes_its_time_is_known() {
    let (mm, _) = machine(1024, Vec::new());
    let sleep = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    let slow = || mm.world.writes_slowly(0);
    mm.world.write_took(0, mm::world::Tasks::now(&mm.world));
    assert!(!slow(), "that one took no time");
    // At least one of the tries takes less than a second between the transfer and the test.
    let known = (0..100).any(|_| {
        let since = mm::world::Tasks::now(&mm.world);
        sleep(3);
        mm.world.write_took(0, since);
        slow()
    });
    assert!(known);
    sleep(1001);
    assert!(!slow());
}

/// Builds a machine of `pages` pages without daemons, with one file of these bytes.
fn machine(pages: u64, bytes: Vec<u8>) -> (LiveMm, Memory) {
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
        max_tasks: 3,
        max_mappings: 1,
        max_bdis: 1,
        max_supers: 0,
        max_ags: 0,
        swap_slots: 0,
        swap_rotates: false,
        groups: Vec::new(),
        sysctl: Sysctl {
            dirty_ratio: 90,
            dirty_background_ratio: 80,
            min_free_kbytes: Some(16),
            ..Sysctl::KERNEL
        },
    };
    let world = LiveWorld::new(&config).expect("memory");
    let mm = cpu::alone(|| Mm::new(world, config, Policy::linux_3_1(), false));
    mm.new_bdi(0, 100).expect("a device");
    for task in 0..3 {
        mm.init_task(task, 0, 0);
    }
    let m = mm.new_mapping(MappingKind::File, 0).expect("a file");
    mm.mappings[0].size.store(bytes.len() as u64, SeqCst);
    let memory = Memory(Arc::new(Mutex::new(bytes)), Arc::default());
    let file = OpenFile::new((m, 0), "file".into(), Box::new(memory.clone()));
    mm.world.add_file(Arc::new(file));
    (mm, memory)
}

/// Writeback of a page begins while its file is truncated within the page, so the copy has the old
/// bytes behind the new end; before the copy is transferred the file grows again.
#[test]
fn what_was_cut_does_not_come_back_with_a_copy() {
    let (mm, memory) = machine(1024, Vec::new());
    let (mm, gate) = (&mm, &memory.1);
    task(mm, 0, file::write(mm, 0, 0, &[9; PAGE])).expect("a write");
    // Transfers wait for an executor that starts only below.
    mm.world.io(0).begin(None);
    let wait_until = |so: &dyn Fn() -> bool| {
        while !so() {
            std::thread::yield_now();
        }
    };
    let writeback = || {
        let pfn = mm.peek_page(0, 0).expect("it is cached");
        mm.frames.has(pfn, flag::WRITEBACK)
    };
    let shut = gate.shut.lock();
    std::thread::scope(|s| {
        let cut = s.spawn(|| task(mm, 1, file::truncate(mm, 0, 100)));
        wait_until(&|| gate.came.load(SeqCst));
        let writer = s.spawn(|| {
            task(mm, 2, async {
                let pages = Writeback::start(mm, 0, 0, 1).expect("a dirty page");
                Io::no_room(&mm.world, 0);
                io::write(mm, pages, How::Handed).await;
            });
        });
        wait_until(&writeback);
        drop(shut);
        writer.join().expect("no panic");
        assert_eq!(cut.join().expect("no panic"), Ok(()));
    });
    assert!(writeback(), "it waits for an executor");
    task(mm, 0, file::write(mm, 0, 2 * PAGE as u64, b"on")).expect("a write");
    mm.world.io(0).stop();
    io::calls(mm, 0, 1);
    let cursor = mm.world.file(0).errors.sample();
    task(mm, 0, file::fsync(mm, 0, &cursor)).expect("a sync");
    let mut wanted = vec![0; 2 * PAGE];
    wanted[..100].fill(9);
    wanted.extend(b"on");
    assert!(*memory.0.lock() == wanted);
    mm.recount().expect("everything agrees");
}

fn task<T>(mm: &LiveMm, who: u32, future: impl Future<Output = T>) -> T {
    let done = mm.world.cpus.block_on(who, future);
    done.expect("only daemons are ended")
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends where memory does")]
fn an_arena_that_no_machine_has_is_an_error() {
    for frames in [usize::MAX, usize::MAX / PAGE, isize::MAX as usize / PAGE] {
        assert_eq!(Arena::new(frames).err(), Some(OutOfMemory));
    }
}

/// Two threads write one half each of the same pages; a third of the work is syncs.
#[test]
fn threads_that_write_halves_of_pages_meet_in_the_file() {
    const PAGES: usize = 4;
    let (mm, memory) = machine(64, Vec::new());
    std::thread::scope(|s| {
        for who in 0..2u32 {
            let mm = &mm;
            s.spawn(move || {
                let half = [who as u8 + 1; PAGE / 2];
                for page in 0..PAGES {
                    let at = (page * PAGE + who as usize * PAGE / 2) as u64;
                    task(mm, who, file::write(mm, 0, at, &half)).expect("a write");
                    let mut found = [0; PAGE / 2];
                    let n = read(mm, who, 0, at, &mut found);
                    assert_eq!((n, found), (Ok(PAGE / 2), half));
                }
                let cursor = mm.world.file(0).errors.sample();
                task(mm, who, file::fsync(mm, 0, &cursor)).expect("a sync");
            });
        }
    });
    let bytes = memory.0.lock();
    assert_eq!(bytes.len(), PAGES * PAGE);
    for (i, half) in bytes.chunks(PAGE / 2).enumerate() {
        assert!(half.iter().all(|&b| b == (i % 2) as u8 + 1));
    }
    drop(bytes);
    mm.recount().expect("everything agrees");
}

/// Frames go from one page of a file to another by direct reclaim.
#[test]
fn frames_are_used_again_after_reclaim() {
    const PAGES: usize = 100;
    let bytes: Vec<u8> = (0..PAGES * PAGE).map(|i| (i / PAGE) as u8).collect();
    let (mm, _) = machine(64, bytes);
    let mut found = [0xff; 10];
    for page in 0..PAGES {
        let at = (page * PAGE) as u64;
        let n = read(&mm, 0, 0, at, &mut found);
        assert_eq!((n, found), (Ok(10), [page as u8; 10]));
    }
    assert!(mm.zone_event(0, ZoneEvent::PgSteal) > 0);
    mm.recount().expect("everything agrees");
}

/// The holder of a page's lock may read the page during its writeback.
#[test]
fn a_page_under_writeback_is_read_by_both() {
    let (mm, _) = machine(64, Vec::new());
    task(&mm, 0, async {
        let page = Locked::insert(&mm, 0, 3, Gfp::USER).await;
        let mut page = page.expect("memory").expect("nobody is faster");
        page.bytes_mut().fill(9);
        mm.frames.set_flags(page.pfn(), flag::UPTODATE);
        mm.set_page_dirty(page.pfn(), TrackPath::BufferedWrite);
        assert!(Writeback::start(&mm, 0, 3, 1).is_none(), "it is locked");
        let io = page.start_writeback().expect("a dirty page");
        let page = Locked::find(&mm, 0, 3)
            .await
            .expect("not in hand")
            .expect("it is cached");
        assert!(page.bytes() == io.bytes().next().expect("one page"));
        io.end(false);
        let mut page = page
            .unpinned(&mut Turn::new(&mm))
            .await
            .expect("nobody has it pinned");
        page.bytes_mut().fill(8);
    });
    task(&mm, 0, mm.truncate_from(0, 0));
    mm.recount().expect("everything agrees");
}

impl Keeper for Arc<LiveMm> {
    fn mm(&self) -> &LiveMm {
        self
    }
}

#[test]
fn a_page_that_is_kept_is_pinned_and_keeps_its_engine() {
    let (mm, _) = machine(64, vec![7; PAGE]);
    let mm = Arc::new(mm);
    let pfn = task(&mm, 0, async {
        let page = Locked::insert(&mm, 0, 0, Gfp::USER).await;
        let mut page = page.expect("memory").expect("nobody is faster");
        page.bytes_mut().fill(9);
        page.pfn()
    });
    let pin = || {
        let page = task(&mm, 0, Locked::find(&mm, 0, 0)).expect("not in hand");
        page.expect("it is cached").pin().keep(Arc::clone(&mm))
    };
    let (one, two) = (pin(), pin());
    assert_eq!(pins(&mm, pfn), 2);
    drop(one);
    assert_eq!((pins(&mm, pfn), two.bytes()), (1, &[9; PAGE]));
    drop(mm);
    assert_eq!(two.bytes(), &[9; PAGE]);
}

#[test]
#[should_panic(expected = "written under I/O")]
fn a_page_under_writeback_is_not_written() {
    let (mm, _) = machine(64, Vec::new());
    task(&mm, 0, async {
        put_under_io(&mm).await;
        let mut page = Locked::find(&mm, 0, 0)
            .await
            .expect("not in hand")
            .expect("it is cached");
        page.bytes_mut().fill(1);
    });
}

async fn put_under_io(mm: &LiveMm) {
    let page = Locked::insert(mm, 0, 0, Gfp::USER).await;
    let page = page.expect("memory").expect("nobody is faster");
    mm.set_page_dirty(page.pfn(), TrackPath::BufferedWrite);
    let io = page.start_writeback().expect("a dirty page");
    // Its writeback never ends.
    std::mem::forget(io);
}

/// Writeback that is dropped without an end counts as failed, because it may have written nothing.
#[test]
fn io_that_is_forgotten_counts_as_failed() {
    let (mm, _) = machine(64, Vec::new());
    task(&mm, 0, async {
        let page = Locked::insert(&mm, 0, 0, Gfp::USER).await;
        let page = page.expect("memory").expect("nobody is faster");
        let pfn = page.pfn();
        mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
        drop(page.start_writeback().expect("a dirty page"));
        assert!(mm.frames.has(pfn, flag::ERROR) && !mm.frames.has(pfn, flag::WRITEBACK));
    });
    task(&mm, 0, mm.truncate_from(0, 0));
    mm.recount().expect("everything agrees");
}
