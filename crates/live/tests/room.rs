//! The room for buffers of asynchronous writes, and the change of a cache's memory while it runs.

mod executor;
#[path = "shapes/slow.rs"]
mod slow;
#[path = "shapes/stuck.rs"]
mod stuck;

use lowmark_cache::{Cache, Error};
use slow::Slow;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;
use stuck::{folder, leak, small, within};

const PAGE: usize = 4096;
const SECOND: Duration = Duration::from_secs(1);

/// Asynchronous writes to a device that hangs: the cache takes the buffers of as many as it has
/// room for, which is taken out of its pages, and the others wait in order.
#[test]
fn asynchronous_writes_are_admitted() {
    const WRITES: u64 = 400;
    let dir = folder();
    let (storage, hang) = Slow::new(0);
    let cache = leak(Cache::on(storage, small(16 << 20)).expect("a cache"));
    let file = cache.open(dir.join("slow")).expect("a file");
    let file = leak(file.into_async().expect("threads"));
    let room = (16 << 20) / 64;
    assert_eq!(cache.stats().pages, 4096 - room / PAGE as u64);
    hang.store(true, SeqCst);
    let mut context = Context::from_waker(Waker::noop());
    let mut writes: Vec<_> = (0..WRITES)
        .map(|i| Box::pin(file.write(i * 50_000, vec![(i % 250) as u8 + 1; 50_000])))
        .collect();
    let mut done = 0;
    writes.retain_mut(|write| {
        let pending = write.as_mut().poll(&mut context).is_pending();
        assert!(cache.stats().write_buffers <= room);
        done += u64::from(!pending);
        pending
    });
    // The dirty limits hold the writer back; the buffers that were taken are few.
    assert!(
        done < WRITES / 2 && cache.stats().write_buffers > 0,
        "{done}"
    );
    let mut next = Box::pin(file.writable(1));
    assert!(next.as_mut().poll(&mut context).is_pending());
    // Some of those that wait are given up, and leave no hole.
    let given_up = writes.split_off(writes.len() - 5);
    drop(given_up);
    hang.store(false, SeqCst);
    within(20 * SECOND, move || {
        executor::block_on(async {
            for write in writes {
                write.await.0.expect("a write");
            }
            next.await.expect("room");
            // A write larger than the room is let in alone.
            file.write(0, vec![7; 1 << 20]).await.0.expect("a write");
            file.fsync().await.expect("a sync");
        });
        assert_eq!(cache.stats().write_buffers, 0);
        assert!(cache.shutdown().is_clean());
        cache.recount().expect("everything agrees");
    });
    let found = std::fs::read(dir.join("slow")).expect("the file");
    for i in 21..WRITES - 5 {
        let at = i as usize * 50_000;
        assert!(
            found[at..at + 50_000]
                .iter()
                .all(|&b| b == (i % 250) as u8 + 1),
            "write {i}"
        );
    }
}

/// A cache becomes smaller while it is used, gives the memory back to the system, and becomes
/// larger again.
#[test]
fn memory_is_set_at_run_time() {
    let cache = Cache::new(small(16 << 20)).expect("a cache");
    let file = cache.open(folder().join("file")).expect("a file");
    let all = vec![3; 14 << 20];
    file.write(0, &all).expect("a write");
    file.fsync().expect("a sync");
    assert!(cache.stats().cached > 3000, "{:?}", cache.stats());
    cache.set_memory(4 << 20).expect("a smaller cache");
    let stats = cache.stats();
    assert!(stats.pages == 1024 && stats.cached <= 1024, "{stats:?}");
    let mut found = vec![0; 14 << 20];
    for _ in 0..2 {
        file.write(0, &all).expect("a write");
        assert_eq!(file.read(0, &mut found), Ok(14 << 20));
        assert!(
            found == all && cache.stats().cached <= 1024,
            "{:?}",
            cache.stats()
        );
    }
    for wrong in [0, (2 << 20) - 1, (16 << 20) + 1] {
        assert!(matches!(cache.set_memory(wrong), Err(Error::Config(_))));
    }
    cache.set_memory(16 << 20).expect("a larger cache");
    assert_eq!(cache.stats().pages, 4096);
    assert_eq!(file.read(0, &mut found), Ok(14 << 20));
    assert!(cache.stats().cached > 3000, "{:?}", cache.stats());
    // A size for which nothing can be reclaimed is an error, and the cache goes on.
    let pins: Vec<_> = (0..3000).map(|i| file.pin(i).expect("a page")).collect();
    assert!(matches!(
        cache.set_memory(2 << 20),
        Err(Error::TooManyPins { .. })
    ));
    drop(pins);
    cache.set_memory(2 << 20).expect("the smallest cache");
    assert_eq!(file.read(0, &mut found), Ok(14 << 20));
    assert!(found == all);
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}
