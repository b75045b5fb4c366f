//! Tests read-ahead, and pages that a program holds.

use lowmark_cache::{Advice, Cache, Config, Error, File};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

/// Creates a cache of `mib` MiB and a file of `pages` pages, each filled with its number's low
/// byte.
fn cache(mib: u64, pages: usize) -> (Cache, File, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().expect("a folder");
    let bytes: Vec<u8> = (0..pages * PAGE).map(|i| (i / PAGE) as u8).collect();
    std::fs::write(file.path(), bytes).expect("space");
    let config = Config {
        memory: mib << 20,
        cpus: 2,
        ..Default::default()
    };
    let cache = Cache::new(config).expect("memory");
    let open = cache.open(file.path()).expect("a file");
    (cache, open, file)
}

/// Returns the number of pages read so far, once read-ahead has finished.
fn pages_read(cache: &Cache) -> u64 {
    let mut before = u64::MAX;
    loop {
        let now = cache.stats().kib_read / 4;
        if now == before {
            return now;
        }
        before = now;
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn read(file: &File, page: usize) {
    let mut found = [0; PAGE];
    let n = file.read((page * PAGE) as u64, &mut found);
    assert_eq!((n, found), (Ok(PAGE), [page as u8; PAGE]));
}

/// Returns positions of which no two are adjacent.
fn scattered(n: usize) -> impl Iterator<Item = usize> {
    (0..n).map(|i| 100 + i * 37 % 101 * 7)
}

#[test]
fn reads_in_no_order_bring_in_what_is_asked_for() {
    let (cache, file, _f) = cache(16, 1000);
    scattered(50).for_each(|page| read(&file, page));
    assert_eq!(pages_read(&cache), 50);
    // A read of a few pages reads exactly these.
    let mut found = [0; 3 * PAGE];
    assert_eq!(file.read(900 * PAGE as u64, &mut found), Ok(3 * PAGE));
    assert_eq!(pages_read(&cache), 53);
}

#[test]
fn reads_in_order_begin_small_and_stay_ahead() {
    let (cache, file, _f) = cache(16, 1000);
    read(&file, 0);
    assert_eq!(pages_read(&cache), 4, "the first window");
    read(&file, 1);
    assert_eq!(
        pages_read(&cache),
        12,
        "the mark was met, the next window is read"
    );
    for page in 2..400 {
        read(&file, page);
    }
    let ahead = pages_read(&cache) - 400;
    assert!((1..=128).contains(&ahead), "{ahead} pages ahead");
    // Sequential reads from the middle on are recognised at the second page.
    let before = pages_read(&cache);
    read(&file, 700);
    assert_eq!(pages_read(&cache) - before, 1);
    read(&file, 701);
    assert!(pages_read(&cache) - before > 3);
}

#[test]
fn advice_is_taken() {
    let (cache, file, _f) = cache(64, 6000);
    file.advise(0, 0, Advice::Random).expect("open");
    (0..50).for_each(|page| read(&file, page));
    assert_eq!(pages_read(&cache), 50, "nothing is read ahead");
    let most_ahead = |advice, from: usize| {
        file.advise(0, 0, advice).expect("open");
        let before = pages_read(&cache);
        let ahead = (from..from + 1500).map(|page| {
            read(&file, page);
            match page % 50 {
                0 => pages_read(&cache) - before - (page - from + 1) as u64,
                _ => 0,
            }
        });
        ahead.max().expect("pages")
    };
    // Each handle has its own advice; 16,384 pages of memory give windows of 128 and 256 pages.
    let normal = most_ahead(Advice::Normal, 100);
    let sequential = most_ahead(Advice::Sequential, 2500);
    assert!(
        normal <= 256 && sequential > normal,
        "{normal}, {sequential}"
    );

    let before = pages_read(&cache);
    let (at, len) = (5000 * PAGE as u64 + 5, 50 * PAGE as u64);
    file.advise(at, len, Advice::WillNeed).expect("open");
    assert_eq!(pages_read(&cache) - before, 51);
    file.pin(5020).expect("a page");
    file.pin_mut(5021).expect("a page")[0] = 9;
    let held = file.pin(5022).expect("a page");
    let cached = cache.stats().cached;
    file.advise(at, len, Advice::DontNeed).expect("open");
    let dropped = cached - cache.stats().cached;
    // All but the dirty page and the pinned one; pages in a per-CPU batch may stay, too.
    assert!((20..=49).contains(&dropped), "{dropped} pages");
    assert_eq!(
        (held[0], file.pin(5021).expect("a page")[0]),
        (5022_u32 as u8, 9)
    );
}

#[test]
fn a_pinned_page_is_where_it_lies_and_outlives_reclaim() {
    let (cache, file, _f) = cache(4, 3000);
    let held: Vec<_> = (0..20).map(|i| file.pin(i * 3).expect("a page")).collect();
    for page in 0..3000 {
        assert_eq!(file.pin(page).expect("a page")[77], page as u8);
    }
    assert!(cache.stats().evicted > 1000);
    for (i, page) in held.iter().enumerate() {
        assert!(page.iter().all(|&b| b == 3 * i as u8));
        let again = file.pin(3 * i as u32).expect("a page");
        assert!(std::ptr::eq(&**page, &*again), "the same place");
    }
    assert_eq!(file.pin(3000).err(), Some(Error::BehindEnd));
    drop(held);
    assert!(cache.shutdown().is_clean());
    assert_eq!(file.pin(0).err(), Some(Error::Closed));
    cache.recount().expect("everything agrees");
}

#[test]
fn more_pins_than_memory_are_an_error_that_says_so() {
    let (_cache, file, _f) = cache(4, 3000);
    let mut held = Vec::new();
    let error = loop {
        match file.pin(held.len() as u32) {
            Ok(page) => held.push(page),
            Err(e) => break e,
        }
        assert!(held.len() < 1024, "more than there is");
    };
    let Error::TooManyPins { pinned, pages, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((pinned as usize, pages), (held.len(), 1024));
    assert!(pinned > 700, "{pinned} pages can be pinned");
    // Writers get the error as well, and all works again once pages are unpinned.
    assert!(file.write(2900 * PAGE as u64, &[1]).is_err());
    drop(held);
    file.write(2900 * PAGE as u64, &[1]).expect("memory");
    (0..3000).for_each(|page| drop(file.pin(page).expect("memory")));
}

#[test]
fn a_page_is_changed_where_it_lies() {
    let (cache, file, f) = cache(4, 10);
    file.write(10 * PAGE as u64, &[7; 100]).expect("memory");
    {
        let mut page = file.pin_mut(3).expect("a page");
        assert_eq!(page[9], 3);
        page.fill(0xab);
        let mut last = file.pin_mut(10).expect("the last page");
        last.fill(8);
    }
    assert_eq!(file.pin_mut(11).err(), Some(Error::BehindEnd));
    file.fsync().expect("space");
    let bytes = std::fs::read(f.path()).expect("a file");
    assert_eq!(bytes.len(), 10 * PAGE + 100);
    assert!(bytes[3 * PAGE..4 * PAGE].iter().all(|&b| b == 0xab));
    assert!(bytes[10 * PAGE..].iter().all(|&b| b == 8));
    // Bytes written behind the end are zero when the file grows.
    assert!(file.pin(10).expect("a page")[100..].iter().all(|&b| b == 0));
    file.truncate(11 * PAGE as u64).expect("space");
    assert!(file.pin(10).expect("a page")[100..].iter().all(|&b| b == 0));
    assert!(cache.shutdown().is_clean());
}

/// A write to a page, or its truncation, waits for the pins of the page, and no longer.
#[test]
fn writers_and_cuts_wait_for_pins() {
    let (_cache, file, _f) = cache(4, 10);
    for cut in [false, true] {
        let held = file.pin(5).expect("a page");
        let before = held[0];
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                match cut {
                    true => file.truncate(3).expect("space"),
                    false => file.write(5 * PAGE as u64, &[99]).expect("memory"),
                }
                done.store(true, Ordering::SeqCst);
            });
            let until = Instant::now() + Duration::from_millis(50);
            while Instant::now() < until {
                assert_eq!(held[0], before);
                // Others can still pin the page, unless it lies behind the end.
                let again = file.pin(5).map(|p| p[0]);
                assert!(again == Ok(before) || cut && again == Err(Error::BehindEnd));
            }
            assert!(!done.load(Ordering::SeqCst));
            drop(held);
        });
        assert!(done.load(Ordering::SeqCst));
    }
    assert_eq!(file.pin(0).expect("a page")[..4], [0, 0, 0, 0]);
    assert_eq!(file.size(), 3);
}

#[test]
fn several_buffers_and_parts_of_a_file() {
    let (cache, file, f) = cache(4, 10);
    let parts = [
        IoSlice::new(b"one"),
        IoSlice::new(b""),
        IoSlice::new(b"three"),
    ];
    file.write_vectored(4094, &parts).expect("memory");
    let (mut a, mut b) = ([0; 5], [0; 5]);
    let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    assert_eq!(file.read_vectored(4094, &mut bufs), Ok(10));
    assert_eq!((&a, &b), (b"oneth", &[b'r', b'e', b'e', 1, 1]));
    let mut end = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    assert_eq!(file.read_vectored(10 * PAGE as u64 - 7, &mut end), Ok(7));

    file.write(9 * PAGE as u64, b"not yet").expect("memory");
    file.flush(0, 3 * PAGE as u64).expect("space");
    let bytes = std::fs::read(f.path()).expect("a file");
    assert_eq!(&bytes[4094..4102], b"onethree");
    assert_eq!(
        bytes[9 * PAGE],
        9,
        "what is not in the range is written later"
    );
    assert_eq!(cache.stats().dirty, 1);
    file.fail_writes(true);
    assert!(matches!(file.flush(0, 0), Err(Error::Io(_))));
    file.fail_writes(false);
    assert!(
        matches!(file.fsync(), Err(Error::Io(_))),
        "it is told by fsync, too"
    );
    file.fsync().expect("it works again");
    assert_eq!(
        &std::fs::read(f.path()).expect("a file")[9 * PAGE..][..7],
        b"not yet"
    );
}

/// Every sample belongs to the family above it, and has the value in `stats`.
#[test]
fn counters_as_openmetrics() {
    let (cache, file, _f) = cache(4, 3000);
    (0..3000).for_each(|page| read(&file, page));
    file.write(0, &[1]).expect("memory");
    file.fsync().expect("space");
    pages_read(&cache);
    let stats = cache.stats();
    let text = stats.openmetrics();
    assert!(text.ends_with("# EOF\n"));
    let (mut family, mut values) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').expect("a name and a kind");
            family = name.to_owned() + if kind == "counter" { "_total" } else { "" };
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert_eq!(name.split('{').next(), Some(&*family));
            values.push((name, value.parse::<u64>().expect("a number")));
        }
    }
    let value = |name: &str| {
        let found = values.iter().find(|v| v.0 == name);
        found.expect("it is there").1
    };
    assert_eq!(value("lowmark_cache_memory_bytes"), 4 << 20);
    assert_eq!(value("lowmark_cache_pages{state=\"dirty\"}"), stats.dirty);
    assert_eq!(
        value("lowmark_cache_read_bytes_total"),
        stats.kib_read * 1024
    );
    assert_eq!(value("lowmark_cache_written_bytes_total"), 4096);
    let evicted = |by| value(&format!("lowmark_cache_evicted_pages_total{{by=\"{by}\"}}"));
    assert_eq!(evicted("kswapd") + evicted("direct"), stats.evicted);
    assert!(stats.evicted > 1000);
}
