//! Shapes of use that once stood still or went wrong, each with the limit within which it ends.
//!
//! The limits are those of a watchdog: they are far above what a shape takes, so that a loaded
//! machine passes, and far below the time that a thread would wait for ever.

mod executor;
#[path = "shapes/slow.rs"]
mod slow;
#[path = "shapes/stuck.rs"]
mod stuck;

use lowmark_cache::{Cache, Config, Errno, Error, Eviction, OnLoss, OpenOptions, Policy};
use slow::Slow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use stuck::{folder, leak, small, within};

const PAGE: usize = 4096;

const SECOND: Duration = Duration::from_secs(1);

/// The time after which a call counts as stuck, on a computer that may be busy with other tests:
/// the faults of these shapes took 10 seconds, or never ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// Begins a truncation of a file whose page 0 the calling thread holds, and gives it time to wait
/// for that page; then runs `then`, which must end within a second, and lets the truncation end.
fn while_a_truncation_waits(
    len: u64,
    then: impl FnOnce(&'static lowmark_cache::File) + Send + 'static,
) {
    let cache = leak(Cache::new(small(8 << 20)).expect("a cache"));
    let file = leak(cache.open(folder().join("file")).expect("a file"));
    file.write(0, &vec![1; 64 * PAGE]).expect("a write");
    let (held, hold) = mpsc::channel();
    let (cutting, cuts) = mpsc::channel();
    let holder = std::thread::spawn(move || {
        let page = file.pin_mut(0).expect("a page");
        held.send(()).expect("the test waits");
        cuts.recv().expect("the truncation begins");
        std::thread::sleep(Duration::from_millis(100));
        then(file);
        drop(page);
    });
    within(PATIENCE, move || {
        hold.recv().expect("the holder lives");
        let cut = std::thread::spawn(move || file.truncate(len));
        cutting.send(()).expect("the holder waits");
        holder.join().expect("the holder");
        cut.join().expect("a thread").expect("a truncation");
    });
    assert_eq!(file.size(), len);
}

/// A B-tree's split: the holder of one page wants a second one while another thread truncates.
#[test]
fn split_truncate() {
    while_a_truncation_waits(60 * PAGE as u64, |file| {
        let (one, two) = (
            file.pin_mut(1).expect("a page"),
            file.pin_mut(2).expect("a page"),
        );
        drop(one);
        // Hand over hand: at each moment one page is held.
        let three = file.pin_mut(3).expect("a page");
        drop((two, three));
    });
}

#[test]
fn split_truncate_write() {
    while_a_truncation_waits(200 * PAGE as u64, |file| {
        file.write(10 * PAGE as u64, &[2; 10]).expect("a write");
    });
}

/// The holder waits for another thread, which writes to the file.
#[test]
fn split_truncate_by_another_thread() {
    while_a_truncation_waits(60 * PAGE as u64, |file| {
        let other = std::thread::spawn(move || file.write(10 * PAGE as u64, &[2; 10]));
        other.join().expect("a thread").expect("a write");
    });
}

/// Threads that overlap in holding pages do not keep a truncation out for ever.
#[test]
fn holders_by_turns_let_a_truncation_in() {
    let cache = leak(Cache::new(small(8 << 20)).expect("a cache"));
    let file = leak(cache.open(folder().join("file")).expect("a file"));
    file.write(0, &vec![1; 64 * PAGE]).expect("a write");
    let stop = leak(AtomicBool::new(false));
    for i in 0..3 {
        std::thread::spawn(move || {
            while !stop.load(SeqCst) {
                if let Ok(page) = file.pin_mut(i) {
                    std::thread::sleep(Duration::from_millis(1));
                    drop(page);
                }
            }
        });
    }
    std::thread::sleep(Duration::from_millis(50));
    within(5 * SECOND, move || file.truncate(10 * PAGE as u64)).expect("a truncation");
    stop.store(true, SeqCst);
}

/// A hung device holds a file that was closed dirty; files of another device are opened, more of
/// them than numbers are free.
#[test]
fn open_behind_hung() {
    let dir = folder();
    let (storage, hang) = Slow::new(1);
    let config = Config {
        max_files: 8,
        ..small(16 << 20)
    };
    let cache = leak(Cache::on(storage, config).expect("a cache"));
    let slow = cache.open(dir.join("slow")).expect("a file");
    slow.write(0, &vec![1; 10 * PAGE]).expect("a write");
    drop(slow);
    let fast = leak(cache.open(dir.join("fast")).expect("a file"));
    fast.write(0, b"x").expect("a write");
    hang.store(true, SeqCst);
    for i in 0..12 {
        let opened = move || cache.open(dir.join(format!("new{i}"))).map(drop);
        within(PATIENCE, opened).expect("a file");
    }
    within(PATIENCE, move || cache.open(dir.join("fast")).map(drop)).expect("a file that is open");
    within(PATIENCE, move || fast.fsync()).expect("a sync");
    // Dirty files of the fast device are closed as well: they make room, too.
    for i in 0..12 {
        let opened = move || {
            let file = cache.open(dir.join(format!("more{i}")))?;
            file.write(0, b"dirty")
        };
        within(PATIENCE, opened).expect("a file");
    }
    hang.store(false, SeqCst);
    assert!(cache.shutdown().is_clean());
    assert_eq!(
        std::fs::read(dir.join("slow")).expect("the file"),
        vec![1; 10 * PAGE]
    );
    for i in 0..12 {
        let found = std::fs::read(dir.join(format!("more{i}"))).expect("the file");
        assert_eq!(found, b"dirty");
    }
}

/// A slow device writes closed files back to make room for numbers; files of a fast one are opened
/// meanwhile without a wait for it.
#[test]
fn open_behind_slow() {
    let dir = folder();
    let (storage, _) = Slow::new(200);
    let config = Config {
        max_files: 8,
        ..small(16 << 20)
    };
    let cache = leak(Cache::on(storage, config).expect("a cache"));
    for i in 0..4 {
        let file = cache.open(dir.join(format!("slow{i}"))).expect("a file");
        for page in 0..20 {
            file.write(page * 2 * PAGE as u64, &[1; 100])
                .expect("a write");
        }
    }
    let all = move || {
        for i in 0..40 {
            let file = cache.open(dir.join(format!("fast{}", i % 10)))?;
            file.write(0, b"x")?;
        }
        Ok::<_, Error>(())
    };
    // The slow device alone would take 16 s for its 80 pages.
    within(PATIENCE, all).expect("40 files");
}

/// Futures that must wait return in every size of cache.
#[test]
fn async_small() {
    for pages in [8, 9, 16, 63, 64, 65] {
        within(10 * SECOND, move || {
            let dir = folder();
            std::fs::write(dir.join("file"), vec![7; 10 * PAGE]).expect("a file");
            let cache = Cache::new(Config {
                cpus: 1,
                ..small(pages * PAGE as u64)
            });
            let cache = cache.expect("a cache");
            let file = cache.open(dir.join("file")).expect("a file");
            let file = file.into_async().expect("threads");
            executor::block_on(async {
                let (n, read) = file.read(100, vec![0; 10]).await;
                assert_eq!((n, read), (Ok(10), vec![7; 10]), "{pages} pages");
                assert_eq!(file.pin(9).await.expect("a page")[0], 7);
                for i in 0..40 {
                    let (done, _) = file.write(i * 5000, vec![8; 5000]).await;
                    done.expect("a write");
                }
                file.pin_mut(1, |page| page[0] = 9).await.expect("a page");
                file.fsync().await.expect("a sync");
                file.truncate(3 * PAGE as u64).await.expect("a truncation");
                assert_eq!(file.prefetch(0, 0).await.err(), None);
            });
            drop(file);
            assert!(cache.shutdown().is_clean());
        });
    }
}

/// The default number of CPU slots suits every size of memory, on machines of any size.
#[test]
fn config_cpus() {
    for (memory, cpus) in [
        (8 << 20, 32),
        (16 << 20, 64),
        (256 << 10, 2),
        (32 << 10, 64),
    ] {
        let cache = Cache::new(Config {
            cpus,
            ..small(memory)
        });
        cache.unwrap_or_else(|e| panic!("memory {memory}, cpus {cpus}: {e}"));
    }
    Cache::new(Config {
        memory: 32 << 10,
        ..Config::default()
    })
    .expect("a cache");
}

/// Readers that pin a page by turns let a writer in: 10 ms after it asked new pins wait, so it gets
/// the page 10 ms and the longest pin after it asked. The limit leaves room for a busy machine.
#[test]
fn hot_page() {
    let cache = leak(Cache::new(small(8 << 20)).expect("a cache"));
    let file = leak(cache.open(folder().join("file")).expect("a file"));
    file.write(0, &vec![1; 64 * PAGE]).expect("a write");
    let (stop, pins) = (leak(AtomicBool::new(false)), leak(AtomicU64::new(0)));
    let readers: Vec<_> = (0..3)
        .map(|i| {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(300 * i));
                while !stop.load(SeqCst) {
                    let page = file.pin(0).expect("a page");
                    std::thread::sleep(Duration::from_millis(1));
                    drop(page);
                    pins.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    for _ in 0..10 {
        within(PATIENCE, move || drop(file.pin_mut(0).expect("a page")));
        within(PATIENCE, move || file.write(5, b"x")).expect("a write");
        let before = pins.load(SeqCst);
        within(PATIENCE, move || while pins.load(SeqCst) < before + 3 {});
    }
    stop.store(true, SeqCst);
    readers
        .into_iter()
        .for_each(|r| r.join().expect("a reader"));
}

/// A thread that has a page pinned pins it again while a writer of the page waits.
#[test]
fn hot_page_pinned_twice() {
    let cache = leak(Cache::new(small(8 << 20)).expect("a cache"));
    let file = leak(cache.open(folder().join("file")).expect("a file"));
    file.write(0, &vec![1; 64 * PAGE]).expect("a write");
    let first = file.pin(0).expect("a page");
    let writer = std::thread::spawn(move || file.write(5, b"x"));
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..3 {
        within(PATIENCE, move || drop(file.pin(0).expect("a page")));
    }
    assert!(!writer.is_finished());
    drop(first);
    within(PATIENCE, move || writer.join().expect("a thread")).expect("a write");
}

/// Three threads use a pool of 8 pages as fast as they can, on files in memory where there are
/// such: some call ends in each half second. Times in which the watching thread itself was late do
/// not count. Waits for counters that were summed up once a second took 0.7 to 1 s; without them,
/// and without other load, the longest is below 50 ms.
#[test]
fn small_stall() {
    let cache = leak(
        Cache::new(Config {
            cpus: 1,
            ..small(32 << 10)
        })
        .expect("a cache"),
    );
    let dir = match Path::new("/dev/shm") {
        memory if memory.is_dir() => tempfile::tempdir_in(memory),
        _ => tempfile::tempdir(),
    };
    let dir = dir.expect("a folder");
    let files = leak([0, 1].map(|i| cache.open(dir.path().join(i.to_string())).expect("a file")));
    for file in files {
        file.truncate(512 * PAGE as u64).expect("a longer file");
    }
    let (stop, calls) = (leak(AtomicBool::new(false)), leak(AtomicU64::new(0)));
    let users: Vec<_> = (0..3)
        .map(|who| {
            std::thread::spawn(move || {
                let mut random = slow::Random(who + 1);
                let (bytes, mut found) = (vec![1; 16 * PAGE], [0; PAGE]);
                while !stop.load(SeqCst) {
                    match who {
                        0 => files[0].write(random.below(32) * 65536, &bytes),
                        1 => files[1].write(random.below(512) * 4096, &bytes[..PAGE]),
                        _ => {
                            let file = &files[random.below(2) as usize];
                            file.read(random.below(512) * 4096, &mut found).map(drop)
                        }
                    }
                    .expect("a call");
                    calls.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    let (mut last, mut since, mut looked) = (0, begun, begun);
    while begun.elapsed() < 8 * SECOND {
        std::thread::sleep(Duration::from_millis(5));
        let (now, n) = (Instant::now(), calls.load(SeqCst));
        if n != last || now - looked > Duration::from_millis(15) {
            (last, since) = (n, now);
        }
        longest = longest.max(now - since);
        looked = now;
    }
    stop.store(true, SeqCst);
    users.into_iter().for_each(|u| u.join().expect("a user"));
    println!("{last} calls, longest time without: {longest:?}");
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    assert!(cache.shutdown().is_clean());
}

/// Policies and evictions are named without the engine's crate.
#[test]
fn policy_and_eviction_are_exported() {
    let policy = Policy {
        eviction: Eviction::parse("s3-fifo").expect("a policy"),
        ..Policy::linux_3_16()
    };
    let cache = Cache::new(Config {
        policy,
        ..small(8 << 20)
    })
    .expect("a cache");
    let file = cache.open(folder().join("file")).expect("a file");
    file.write(0, &vec![1; 16 << 20]).expect("a write");
    assert!(cache.shutdown().is_clean());
}

/// A file is open in one cache only, unless all of them only read it; the lock ends with the cache,
/// or when the file's pages have left it.
#[test]
fn two_caches() {
    let path = folder().join("file");
    let cache = || Cache::new(small(4 << 20)).expect("a cache");
    let (a, b) = (cache(), cache());
    let file = a.open(&path).expect("a file");
    assert_eq!(b.open(&path).err(), Some(Error::InUse));
    assert_eq!(
        b.open_with(&path, OpenOptions::READ).err(),
        Some(Error::InUse)
    );
    // The same cache may open it as often as it likes.
    a.open(&path)
        .expect("the same file")
        .write(0, b"aaaaaaaa")
        .expect("a write");
    // Closed files stay cached, so they stay locked.
    drop(file);
    assert_eq!(b.open(&path).err(), Some(Error::InUse));
    assert!(a.shutdown().is_clean());
    let file = b.open(&path).expect("a file");
    file.write(4, b"A").expect("a write");
    file.fsync().expect("a sync");
    assert_eq!(std::fs::read(&path).expect("the file"), b"aaaaAaaa");
    drop((file, b));

    // Caches that only read share the file; a writer is refused while another cache has it.
    let (a, b) = (cache(), cache());
    let mut found = [0; 8];
    for cache in [&a, &b] {
        let file = cache.open_with(&path, OpenOptions::READ).expect("a file");
        assert_eq!((file.read(0, &mut found), &found), (Ok(8), b"aaaaAaaa"));
    }
    assert_eq!(a.open(&path).err(), Some(Error::InUse));
    assert!(b.shutdown().is_clean());
    let file = a.open(&path).expect("a file, now also to be written");
    file.write(0, b"B").expect("a write");
    file.fsync().expect("a sync");
    assert_eq!(std::fs::read(&path).expect("the file"), b"BaaaAaaa");
    assert_eq!(
        cache().open_with(&path, OpenOptions::READ).err(),
        Some(Error::InUse)
    );
}

/// Runs `f` in a child process by fork(2), which ends with it; panics if it returns false or takes
/// longer than `seconds`.
#[allow(unsafe_code)]
fn in_a_child(seconds: u32, f: impl FnOnce() -> bool) {
    // SAFETY: the child ends by _exit, without returning into the test.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: an alarm, and the end of the process.
        unsafe {
            libc::alarm(seconds);
            libc::_exit(i32::from(!f()));
        }
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(status, 0, "the child failed, or hung (14)");
}

/// A second process is refused as a second cache is, and its end gives the file back.
#[test]
fn two_caches_of_two_processes() {
    let path = folder().join("file");
    let cache = Cache::new(small(4 << 20)).expect("a cache");
    let file = cache.open(&path).expect("a file");
    file.write(0, b"parent").expect("a write");
    in_a_child(10, || {
        let second = Cache::new(small(4 << 20)).expect("a cache");
        let refused = second.open(&path).err() == Some(Error::InUse);
        let _ = second.shutdown();
        refused
    });
    file.fsync().expect("a sync");
    assert_eq!(std::fs::read(&path).expect("the file"), b"parent");
}

/// A child process that uses its parent's cache gets an error from every call, and does not hang;
/// the parent goes on.
#[test]
fn fork_use() {
    let dir = folder();
    let cache = Cache::new(small(8 << 20)).expect("a cache");
    let file = cache.open(dir.join("file")).expect("a file");
    file.write(0, &vec![5; 100 * PAGE]).expect("a write");
    file.fsync().expect("a sync");
    file.write(0, &[9; 100]).expect("a write");
    let future = cache.open(dir.join("file")).expect("a file");
    let future = future.into_async().expect("threads");
    in_a_child(2, || {
        let forked = Err(Error::Forked);
        let mut buf = [0; 10];
        let calls = [
            file.read(0, &mut buf).map(drop),
            file.read(99 * PAGE as u64, &mut buf).map(drop),
            file.pin(0).map(drop),
            file.pin_mut(0).map(drop),
            file.write(50 * PAGE as u64, b"child"),
            file.fsync(),
            file.flush(0, 0),
            file.truncate(5),
            file.prefetch(0, 0).map(drop),
            cache.open(dir.join("file")).map(drop),
            cache.open(dir.join("new")).map(drop),
            cache.buffer(100, 0).map(drop),
            executor::block_on(future.read(0, vec![0; 10])).0.map(drop),
            executor::block_on(future.write(0, vec![0; 10])).0,
            executor::block_on(future.fsync()),
        ];
        calls.iter().all(|r| *r == forked)
    });
    for i in 0..200 {
        file.write(i * PAGE as u64, &[3; PAGE]).expect("a write");
    }
    file.fsync().expect("a sync");
    drop((file, future));
    assert!(cache.shutdown().is_clean());
    assert!(!dir.join("new").exists());
}

/// A child process that drops its parent's cache and what belongs to it does not hang and changes
/// nothing.
#[test]
fn fork_drop() {
    let dir = folder();
    let cache = Cache::new(small(8 << 20)).expect("a cache");
    let file = cache.open(dir.join("file")).expect("a file");
    file.write(0, &vec![5; 100 * PAGE]).expect("a write");
    let other = cache.open(dir.join("other")).expect("a file");
    let future = other.into_async().expect("threads");
    let (page, buffer) = (
        file.pin_mut(0).expect("a page"),
        cache.buffer(9, 0).expect("memory"),
    );
    let mut all = Some((cache, future, buffer));
    in_a_child(2, || {
        let (cache, future, buffer) = all.take().expect("they are here");
        drop((future, buffer));
        let end = cache.shutdown();
        drop(cache);
        end.is_clean()
    });
    drop(page);
    let (cache, _, _) = all.take().expect("the parent has them, too");
    file.fsync().expect("a sync");
    assert!(cache.shutdown().is_clean());
    assert_eq!(
        std::fs::read(dir.join("file")).expect("the file"),
        vec![5; 100 * PAGE]
    );
}

/// Files are opened as the options say; a file that cannot be written is read.
#[test]
fn readonly() {
    let path = folder().join("file");
    let cache = Cache::new(small(4 << 20)).expect("a cache");
    let missing = Some(Error::Io(Errno::NOENT));
    assert_eq!(cache.open_with(&path, OpenOptions::READ).err(), missing);
    let old = OpenOptions {
        create: false,
        ..OpenOptions::default()
    };
    assert_eq!(cache.open_with(&path, old).err(), missing);
    assert!(!path.exists());
    std::fs::write(&path, b"data").expect("a file");
    let new = OpenOptions {
        exclusive: true,
        ..OpenOptions::default()
    };
    assert_eq!(
        cache.open_with(&path, new).err(),
        Some(Error::Io(Errno::EXIST))
    );
    for wrong in [
        OpenOptions {
            read: false,
            ..OpenOptions::READ
        },
        OpenOptions {
            create: true,
            ..OpenOptions::READ
        },
        OpenOptions {
            exclusive: true,
            ..old
        },
    ] {
        assert_eq!(
            cache.open_with(&path, wrong).err(),
            Some(Error::Io(Errno::INVAL))
        );
    }

    // The superuser may write any file but one on a read-only filesystem, so that the process gives
    // its rights up, in a child.
    let mut mode = std::fs::metadata(&path).expect("the file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o444);
    std::fs::set_permissions(&path, mode).expect("a change");
    let parent = path.parent().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(parent, open).expect("a change");
    in_a_child(10, || {
        // SAFETY: only this process loses rights.
        #[allow(unsafe_code)]
        unsafe {
            libc::setgid(65534);
            libc::setuid(65534);
        }
        let cache = Cache::new(small(4 << 20)).expect("a cache");
        let refused = cache.open(&path).err() == Some(Error::Io(Errno::ACCESS));
        let file = cache.open_with(&path, OpenOptions::READ).expect("a file");
        let mut found = [0; 9];
        let read = file.read(0, &mut found) == Ok(4) && &found[..4] == b"data";
        refused && read && file.fsync() == Ok(())
    });

    let file = cache.open_with(&path, OpenOptions::READ).expect("a file");
    let mut found = [0; 9];
    assert_eq!(
        (file.read(0, &mut found), &found[..4]),
        (Ok(4), &b"data"[..])
    );
    let denied = Error::Io(Errno::BADF);
    assert_eq!(file.write(0, b"x"), Err(denied.clone()));
    assert_eq!(file.truncate(0), Err(denied.clone()));
    assert_eq!(file.pin_mut(0).err(), Some(denied.clone()));
    let future = cache.open_with(&path, OpenOptions::READ).expect("a file");
    let future = future.into_async().expect("threads");
    assert_eq!(
        executor::block_on(future.write(0, vec![0; 2])).0,
        Err(denied.clone())
    );
    assert_eq!(executor::block_on(future.truncate(0)), Err(denied.clone()));
    assert_eq!(
        executor::block_on(future.pin_mut(0, |_| ())),
        Err(denied.clone())
    );
    let only = OpenOptions { read: false, ..old };
    let mut mode = std::fs::metadata(&path).expect("the file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o644);
    std::fs::set_permissions(&path, mode).expect("a change");
    let writer = cache.open_with(&path, only).expect("a file");
    writer.write(4, b" more").expect("a write");
    assert_eq!(writer.read(0, &mut found), Err(denied.clone()));
    assert_eq!(writer.pin(0).err(), Some(denied));
    assert_eq!((file.read(0, &mut found), &found), (Ok(9), b"data more"));
    drop((file, future, writer));
    assert!(cache.shutdown().is_clean());
    assert_eq!(std::fs::read(&path).expect("the file"), b"data more");
}

/// A cache that is dropped while the same thread holds a page to change ends after
/// [`Config::page_wait`], and says that the page is lost; the other pages are written. Calls that
/// wait for the page end as well.
#[test]
fn drop_with_pagemut() {
    let path = folder().join("file");
    let config = Config {
        page_wait: Duration::from_millis(200),
        on_loss: OnLoss::call(|end| {
            assert_eq!(end.lost_pages, 1);
            LOST.store(end.failed.len() as u64, SeqCst);
        }),
        ..small(4 << 20)
    };
    static LOST: AtomicU64 = AtomicU64::new(0);
    let cache = Cache::new(config).expect("a cache");
    let file = leak(cache.open(&path).expect("a file"));
    file.write(0, &[1; 2 * PAGE]).expect("a write");
    let mut page = file.pin_mut(1).expect("a page");
    page[0] = 2;
    let waiters = [
        std::thread::spawn(move || file.read(PAGE as u64, &mut [0; 4]).map(drop)),
        std::thread::spawn(move || file.write(PAGE as u64, &[9])),
        std::thread::spawn(move || file.pin_mut(1).map(drop)),
        std::thread::spawn(move || file.truncate(0)),
        std::thread::spawn(move || file.fsync()),
    ];
    std::thread::sleep(Duration::from_millis(100));
    within(PATIENCE, move || drop(cache));
    assert_eq!(LOST.load(SeqCst), 1);
    for waiter in waiters {
        let ended = within(PATIENCE, move || waiter.join().expect("a thread"));
        assert!(
            matches!(ended, Err(Error::Closed | Error::Held)),
            "{ended:?}"
        );
    }
    // The page can still be used.
    assert_eq!(page[..2], [2, 1]);
    drop(page);
    assert_eq!(std::fs::read(&path).expect("the file")[..PAGE], [1; PAGE]);
}

/// A page that is let go soon is waited for, and written.
#[test]
fn drop_before_pagemut() {
    let path = folder().join("file");
    let cache = Cache::new(small(4 << 20)).expect("a cache");
    let file = leak(cache.open(&path).expect("a file"));
    file.write(0, &[1; 2 * PAGE]).expect("a write");
    let (held, hold) = mpsc::channel();
    let holder = std::thread::spawn(move || {
        let mut page = file.pin_mut(1).expect("a page");
        held.send(()).expect("the test waits");
        std::thread::sleep(Duration::from_millis(100));
        page.fill(2);
    });
    hold.recv().expect("the holder lives");
    let end = within(PATIENCE, move || cache.shutdown());
    assert!(end.is_clean(), "{end:?}");
    holder.join().expect("the holder");
    assert_eq!(std::fs::read(&path).expect("the file")[PAGE..], [2; PAGE]);
}
