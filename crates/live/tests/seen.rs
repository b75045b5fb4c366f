//! Tests what a program can observe of the cache's work: latencies and events. `metrics` tests the
//! page for Prometheus.

mod beneath;

use beneath::{Faults, Faulty, Rates};
use lowmark_cache::storage::Os;
use lowmark_cache::{
    Advice, Cache, Config, Error, Event, File, Latencies, Tracing, Transfers, Who,
};
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;
const NO: Duration = Duration::ZERO;
/// The time of a call on a slow device: far longer than a thread may wait for a CPU in a test.
const SLOW: Duration = Duration::from_millis(20);

fn config() -> Config {
    Config {
        memory: 4 << 20,
        cpus: 2,
        max_threads: 5,
        max_files: 8,
        transfers: Transfers::Calls,
        ..Config::default()
    }
}

/// Creates a cache over a device that can be made slow, and a file of `pages` pages.
fn slow(pages: u64) -> (Cache, File, Arc<Faults>, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, vec![b'.'; (pages * PAGE) as usize]).expect("space");
    let faults = Faults::new(1, Rates::default());
    let beneath = Os { direct: false };
    let storage = Faulty {
        beneath,
        faults: Arc::clone(&faults),
    };
    let cache = Cache::on(Arc::new(storage), config()).expect("a cache");
    let file = cache.open(&path).expect("a file");
    (cache, file, faults, dir)
}

fn counts(l: &Latencies) -> [u64; 6] {
    l.all().map(|(_, latency)| latency.count())
}

#[test]
fn a_slow_device_is_seen_in_misses_and_not_in_hits() {
    let (cache, file, faults, _dir) = slow(8);
    assert_eq!(counts(&cache.latency()), [0; 6], "nothing was done");
    file.advise(0, 0, Advice::Random).expect("advice");
    faults.slow([SLOW, NO, NO]);
    (0..8).for_each(|i| drop(file.pin(i).expect("a page")));
    for i in 0..512 * 400 {
        drop(file.pin(i % 8).expect("a page"));
    }
    let l = cache.latency();
    assert_eq!((l.misses.count(), l.misses.one_in()), (8, 1));
    assert!(l.misses.p50() >= SLOW && l.misses.max() >= SLOW, "{l:?}");
    assert!(l.misses.sum() >= 8 * SLOW, "{l:?}");
    // One in 512 hits is timed, on average.
    let hits = &l.hits;
    assert!((200..800).contains(&hits.count()), "{}", hits.count());
    assert_eq!(hits.one_in(), 512);
    assert!(hits.p50() > NO && hits.p99() < SLOW, "{hits:?}");
    assert!(hits.p50() <= hits.p99() && hits.p99() <= hits.p999());
    assert!(hits.p999() <= hits.max());
    assert_eq!(
        [l.writes.count(), l.throttles.count(), l.fsyncs.count()],
        [0; 3]
    );

    // A read is timed like a pin, and `since` separates earlier calls.
    let mut buf = vec![0; 2 * PAGE as usize];
    (0..20_000).for_each(|_| assert_eq!(file.read(0, &mut buf), Ok(buf.len())));
    let since = cache.latency();
    assert_eq!(since.misses.since(&l.misses).count(), 0);
    assert!(since.hits.since(&l.hits).count() > 0);
    assert_eq!(file.read(9 * PAGE, &mut buf), Ok(0));
    assert_eq!(
        cache.latency().misses.count(),
        8,
        "behind the end is no page"
    );
}

#[test]
fn a_writer_who_is_held_back_is_seen() {
    let (cache, file, faults, _dir) = slow(8);
    file.write(0, &[1; 4096]).expect("a write");
    let before = cache.latency();
    assert_eq!((before.writes.count(), before.throttles.count()), (1, 0));
    faults.slow([NO, Duration::from_millis(2), NO]);
    for i in 0..1500 {
        file.write(i * PAGE, &[2; 4096]).expect("a write");
    }
    let l = cache.latency();
    assert_eq!(l.writes.count(), 1501);
    assert!(l.throttles.count() > 0, "{l:?}");
    // The wait is part of a write.
    assert!(l.writes.max() >= l.throttles.max() && l.writes.sum() >= l.throttles.sum());
    // A sleep takes at most three milliseconds, and at least a clock tick.
    assert!(
        l.throttles.p50() >= Duration::from_micros(500),
        "{:?}",
        l.throttles
    );
    assert!(l.allocations.count() >= 1500, "{:?}", l.allocations);
    assert_eq!(l.misses.count(), 0);
}

#[test]
fn a_slow_sync_and_who_reclaims_for_himself_are_seen() {
    let (cache, file, faults, _dir) = slow(4096);
    faults.slow([NO, NO, SLOW]);
    file.write(0, b"x").expect("a write");
    file.fsync().expect("a sync");
    let l = cache.latency();
    assert_eq!(l.fsyncs.count(), 1);
    assert!(l.fsyncs.p50() >= SLOW && l.writes.max() < SLOW, "{l:?}");
    // Two threads read four times as much as memory holds.
    std::thread::scope(|s| {
        for half in 0..2 {
            let file = &file;
            s.spawn(move || {
                let mut buf = vec![0; 16 * PAGE as usize];
                for i in 0..128 {
                    let at = (half * 128 + i) * 16 * PAGE;
                    assert_eq!(file.read(at, &mut buf), Ok(buf.len()));
                }
            });
        }
    });
    let l = cache.latency();
    assert!(l.allocations.count() >= 4000, "{:?}", l.allocations);
    assert!(l.misses.count() > 20 && l.fsyncs.count() == 1);
}

/// Reads a file of four times the cache's memory.
fn read_all(file: &File) {
    let mut buf = vec![0; 16 * PAGE as usize];
    for at in 0..256 {
        assert_eq!(file.read(at * 16 * PAGE, &mut buf), Ok(buf.len()));
    }
}

fn traced(tracing: Option<Tracing>) -> (Cache, File, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, vec![b'.'; 4096 * PAGE as usize]).expect("space");
    let cache = Cache::new(Config {
        tracing,
        ..config()
    });
    let cache = cache.expect("a cache");
    let file = cache.open(&path).expect("a file");
    (cache, file, dir)
}

#[test]
fn kswapd_and_reclaim_are_told_as_events() {
    let room = 1 << 20;
    let (cache, file, _dir) = traced(Some(Tracing { room, pages: false }));
    read_all(&file);
    let told = cache.events();
    assert_eq!(told.lost, 0);
    let named = |name: &str| {
        told.events
            .iter()
            .filter(|t| t.event.name() == name)
            .count()
    };
    assert!(
        named("mm_vmscan_wakeup_kswapd") > 0,
        "{:?}",
        told.events.first()
    );
    assert!(named("mm_vmscan_lru_shrink_inactive") > 0);
    let of = |who: Who| move |t: &&lowmark_cache::Traced| t.who == who;
    let kswapd = told.events.iter().filter(of(Who::Kswapd));
    let woken = kswapd.filter(|t| matches!(t.event, Event::KswapdWake { nid: 0, .. }));
    assert!(woken.count() > 0);
    let mine = told.events.iter().find(of(Who::Program(0)));
    assert!(mine.is_some(), "this thread wakes kswapd");
    assert!(told.events.iter().all(|t| !t.event.by_page()));
    let direct = named("mm_vmscan_direct_reclaim_begin") as u64;
    assert!(direct <= cache.stats().direct_reclaims);
    assert!(cache.events().lost == 0);
}

#[test]
fn events_are_bounded_and_off_unless_wanted() {
    let (cache, file, _dir) = traced(None);
    read_all(&file);
    assert_eq!(cache.events(), lowmark_cache::Events::default());
    let (cache, file, _dir) = traced(Some(Tracing {
        room: 10,
        pages: true,
    }));
    read_all(&file);
    let told = cache.events();
    assert!(told.events.len() == 10 && told.lost > 4000, "{told:?}");
    // The allocation of a page was among the first events.
    let names: Vec<_> = told.events.iter().map(|t| t.event.name()).collect();
    assert!(names.contains(&"mm_page_alloc"), "{names:?}");
    let none = Cache::new(Config {
        tracing: Some(Tracing {
            room: 0,
            pages: false,
        }),
        ..config()
    });
    let why = none.err().expect("no room is refused");
    assert!(matches!(&why, Error::Config(text) if text.contains("tracing.room = 0")));
}
