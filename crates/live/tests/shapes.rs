//! Shapes of use that once stood still or went wrong, each with the limit within which it ends.
//!
//! The limits are those of a watchdog: they are far above what a shape takes, so that a loaded
//! machine passes, and far below the time that a thread would wait for ever.

mod executor;

use lowmark_cache::{Cache, Config, Error, Eviction, Held, Policy};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

const PAGE: usize = 4096;

/// A cache of `memory` bytes with as few CPU slots as it may have.
fn small(memory: u64) -> Config {
    Config {
        memory,
        cpus: 2,
        held: Held::Ordinary,
        ..Config::default()
    }
}

/// Keeps a value for the rest of the process, so that threads which are left behind may use it.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Runs `f` on a thread of its own and returns its result; panics if that takes longer than
/// `limit`.
fn within<T: Send + 'static>(limit: Duration, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || tell.send(f()));
    match told.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not over after {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("the thread sent its result"),
        },
    }
}

fn folder() -> &'static Path {
    leak(tempfile::tempdir().expect("a folder")).path()
}

const SECOND: Duration = Duration::from_secs(1);

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
    within(2 * SECOND, move || {
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
        within(SECOND, move || drop(file.pin_mut(0).expect("a page")));
        within(SECOND, move || file.write(5, b"x")).expect("a write");
        let before = pins.load(SeqCst);
        within(SECOND, move || while pins.load(SeqCst) < before + 3 {});
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
        within(3 * SECOND, move || drop(file.pin(0).expect("a page")));
    }
    assert!(!writer.is_finished());
    drop(first);
    within(SECOND, move || writer.join().expect("a thread")).expect("a write");
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
