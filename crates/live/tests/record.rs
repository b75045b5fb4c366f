//! Tests that a recording contains the accesses that were made.

use lowmark_cache::{Advice, Cache, Config, Errno, Error, Recorded};
use std::collections::BTreeSet;
use std::path::Path;
use trace::{Format, Op, Options, Reader, Record};

const PAGE: u64 = 4096;

fn cache() -> Cache {
    let config = Config {
        memory: 4 << 20,
        cpus: 2,
        ..Config::default()
    };
    Cache::new(config).expect("a cache")
}

/// Returns the accesses of a trace: file, page, whether it writes, whether it missed.
fn read(path: &Path) -> Vec<(String, u64, bool, bool)> {
    let mut reader = Reader::open(path, &Options::default()).expect("a trace");
    assert_eq!(reader.format(), Format::Msr);
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("a right trace") {
        all.append(&mut batch);
    }
    assert!(all.is_sorted_by_key(|r| r.time_ns), "in order of time");
    let files = reader.files();
    let one = |r: &Record| {
        assert_eq!((u64::from(r.len), r.offset % PAGE), (PAGE, 0));
        let name = files[r.file as usize].clone();
        (name, r.offset / PAGE, r.op == Op::Write, r.latency_ns > 0)
    };
    all.iter().map(one).collect()
}

#[test]
fn the_trace_is_what_was_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let cache = cache();
    let (a, b) = (
        cache.open(dir.path().join("a")).expect("a file"),
        cache.open(dir.path().join("b")).expect("a file"),
    );
    a.write(0, b"before it begins").expect("a write");
    let path = dir.path().join("trace");
    let recording = cache.record(&path, 1.0).expect("a recording");
    let name = |f: &lowmark_cache::File| format!("file.{}", f.mapping());
    let mut wanted = Vec::new();
    let mut note = |f: &lowmark_cache::File, page, write, missing| {
        wanted.push((name(f), page, write, missing));
    };
    b.advise(0, 0, Advice::Random).expect("advice");
    b.write(100, &[1; 8192]).expect("a write");
    (0..3).for_each(|p| note(&b, p, true, true));
    b.write(PAGE, &[2; 4096]).expect("a write");
    note(&b, 1, true, false);
    b.fsync().expect("a sync");
    drop(a.pin(0).expect("a page"));
    note(&a, 0, false, false);
    // A file that was truncated and extended has no cached pages.
    b.truncate(0).expect("a cut");
    b.truncate(8292).expect("a length");
    drop(b.pin(2).expect("a page"));
    note(&b, 2, false, true);
    drop(b.pin(2).expect("a page"));
    note(&b, 2, false, false);
    b.pin_mut(0).expect("a page")[0] = 1;
    note(&b, 0, true, true);
    b.pin_mut(0).expect("a page")[0] = 2;
    note(&b, 0, true, false);
    let mut bytes = [0; 3 * 4096];
    assert_eq!(b.read(50, &mut bytes), Ok(8192 + 50));
    note(&b, 0, false, false);
    note(&b, 1, false, true);
    note(&b, 2, false, false);
    // A read behind the end is no access.
    assert_eq!(b.read(1 << 20, &mut bytes), Ok(0));
    assert_eq!(b.pin(99).err(), Some(Error::BehindEnd));
    let told = recording.finish();
    drop(b.pin(2).expect("a page"));
    assert_eq!(read(&path), wanted);
    let misses = wanted.iter().filter(|w| w.3).count() as u64;
    let hits = wanted.len() as u64 - misses;
    let all = Recorded {
        accesses: wanted.len() as u64,
        rate: 1.0,
        hits,
        misses,
        ..Recorded::default()
    };
    assert_eq!(told, all);
    assert_eq!(told.miss_ratio(), misses as f64 / wanted.len() as f64);
    assert!(cache.shutdown().is_clean());
}

#[test]
fn a_sample_has_pages_with_all_their_accesses() {
    let dir = tempfile::tempdir().expect("a folder");
    let cache = cache();
    let file = cache.open(dir.path().join("a")).expect("a file");
    file.truncate(4000 * PAGE).expect("a length");
    file.advise(0, 0, Advice::Random).expect("advice");
    let path = dir.path().join("trace");
    let recording = cache.record(&path, 0.25).expect("a recording");
    for _ in 0..3 {
        (0..4000).for_each(|p| drop(file.pin(p).expect("a page")));
    }
    let told = recording.finish();
    let found = read(&path);
    let pages: BTreeSet<u64> = found.iter().map(|f| f.1).collect();
    assert!((800..1200).contains(&pages.len()), "{}", pages.len());
    assert_eq!(found.len(), 3 * pages.len());
    assert_eq!(
        (told.hits + told.misses, told.dropped),
        (found.len() as u64, 0)
    );
    assert_eq!(told.accesses, 12_000);
    let ratio = told.miss_ratio();
    assert!((0.8..1.2).contains(&ratio), "all of them miss: {ratio}");
    // The next recording samples the same pages.
    let recording = cache.record(&path, 0.25).expect("another recording");
    (0..4000).for_each(|p| drop(file.pin(p).expect("a page")));
    drop(recording);
    let again: BTreeSet<u64> = read(&path).iter().map(|f| f.1).collect();
    assert_eq!(again, pages);
}

#[test]
fn what_is_not_written_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let cache = cache();
    let file = cache.open(dir.path().join("a")).expect("a file");
    file.write(0, &[1; 8192]).expect("a write");
    // Two threads as fast as they can, with the writing thread on the rest of two CPUs.
    let path = dir.path().join("trace");
    let recording = cache.record(&path, 1.0).expect("a recording");
    assert!(matches!(cache.record(&path, 1.0), Err(Error::Config(_))));
    std::thread::scope(|s| {
        for page in 0..2 {
            let file = &file;
            s.spawn(move || (0..300_000).for_each(|_| drop(file.pin(page).expect("a page"))));
        }
    });
    let told = recording.finish();
    assert_eq!((told.hits, told.misses, told.error), (600_000, 0, None));
    assert_eq!(read(&path).len() as u64, 600_000 - told.dropped);
    // The file accepts no data.
    let recording = cache.record("/dev/full", 1.0).expect("a recording");
    (0..100_000).for_each(|_| drop(file.pin(0).expect("a page")));
    let told = recording.finish();
    assert_eq!((told.hits, told.error), (100_000, Some(Errno::NOSPC)));
    assert!(told.dropped > 0);
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let cache = cache();
    for rate in [0.0, -1.0, 1.1, f64::NAN] {
        let refused = cache.record("/dev/null", rate);
        assert!(matches!(refused, Err(Error::Config(_))), "{rate}");
    }
    let nowhere = cache.record("/nowhere/trace", 1.0);
    assert_eq!(nowhere.err(), Some(Error::Io(Errno::NOENT)));
    drop(cache.record("/dev/null", 1.0).expect("a recording"));
    // A recording that still runs when the cache ends.
    let recording = cache.record("/dev/null", 1.0).expect("one more");
    assert!(cache.shutdown().is_clean());
    assert_eq!(recording.finish().miss_ratio(), 0.0);
}
