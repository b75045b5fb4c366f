//! What a program sees of the cache beside its data.

use live::{Cache, Config, Error};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn config() -> Config {
    Config {
        memory: 4 << 20,
        cpus: 2,
        max_threads: 5,
        max_files: 8,
        ..Config::default()
    }
}

#[test]
fn data_that_cannot_be_written_is_reported_as_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(config()).expect("a cache");
    let (good, bad) = (
        cache.open(dir.path().join("good")).expect("a file"),
        cache.open(dir.path().join("bad")).expect("a file"),
    );
    bad.fail_writes(true);
    for pos in [0, 5000, 100_000] {
        good.write(pos, b"kept").expect("a write");
        bad.write(pos, b"lost").expect("a write");
    }
    assert_eq!(good.fsync(), Ok(()));
    assert_eq!(bad.fsync(), Err(Error::Lost));
    assert_eq!(bad.fsync(), Ok(()), "an error is reported once");
    assert_eq!(cache.stats().lost_pages, 3);
    bad.write(0, b"lost again").expect("a write");
    let end = cache.shutdown();
    assert_eq!(end.lost_pages, 4);
    let path = dir.path().canonicalize().expect("a path").join("bad");
    assert_eq!(end.failed, [(path, Error::Lost)]);
    assert_eq!(
        &std::fs::read(dir.path().join("good")).expect("the file")[5000..5004],
        b"kept"
    );
    cache.engine().recount().expect("everything agrees");
}

#[test]
fn a_cache_that_is_shut_down_under_load_keeps_what_it_took() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(config()).expect("a cache");
    let begun = AtomicUsize::new(0);
    let written: Vec<u64> = std::thread::scope(|s| {
        let writers: Vec<_> = (0..4u8)
            .map(|who| {
                let (cache, dir, begun) = (&cache, dir.path(), &begun);
                s.spawn(move || {
                    let file = cache.open(dir.join(who.to_string())).expect("a file");
                    for i in 0.. {
                        match file.write(i * 100, &[who + 1; 100]) {
                            Ok(()) => {
                                begun.fetch_add(usize::from(i == 0), SeqCst);
                            }
                            Err(Error::Closed) => return i,
                            Err(e) => panic!("{e}"),
                        }
                    }
                    unreachable!()
                })
            })
            .collect();
        while begun.load(SeqCst) < 4 {
            std::thread::yield_now();
        }
        let end = cache.shutdown();
        assert_eq!((end.lost_pages, end.failed.len()), (0, 0));
        writers
            .into_iter()
            .map(|w| w.join().expect("a writer"))
            .collect()
    });
    for (who, n) in written.into_iter().enumerate() {
        let found = std::fs::read(dir.path().join(who.to_string())).expect("the file");
        assert_eq!(found.len() as u64, n * 100);
        assert!(found.iter().all(|&b| b == who as u8 + 1));
    }
    assert!(
        cache
            .open(dir.path().join("late"))
            .is_err_and(|e| e == Error::Closed)
    );
    cache.engine().recount().expect("everything agrees");
}

#[test]
fn a_file_opened_again_is_the_same_pages_and_a_thread_gives_its_number_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(config()).expect("a cache");
    // More threads than numbers, one after the other.
    for i in 0..20u64 {
        std::thread::scope(|s| {
            s.spawn(|| {
                let file = cache.open(dir.path().join("again")).expect("a file");
                assert_eq!(file.size(), i * 3);
                file.write(i * 3, b"abc").expect("a write");
            })
            .join()
            .expect("a thread");
        });
    }
    let file = cache.open(dir.path().join("again")).expect("a file");
    let mut all = [0; 70];
    assert_eq!(file.read(0, &mut all), Ok(60));
    assert_eq!(all[..60], b"abc".repeat(20)[..]);
    assert_eq!(file.read(1 << 50, &mut all), Ok(0));
    assert_eq!(file.write(u64::MAX - 1, b"abc"), Err(Error::TooLarge));
    assert_eq!(file.write(1 << 44, b""), Err(Error::TooLarge));
}

#[test]
fn a_wrong_configuration_is_refused_in_words() {
    for (change, word) in [
        (
            (|c: &mut Config| c.memory = 1 << 20) as fn(&mut Config),
            "memory",
        ),
        (|c| c.cpus = 0, "cpus"),
        (|c| c.cpus = 65, "cpus"),
        (|c| c.cpus = 9, "1 to 8"),
        (|c| c.max_threads = 0, "max_threads"),
        (|c| c.max_files = 0, "max_files"),
        (|c| c.dirty_ratio = 101, "dirty"),
    ] {
        let mut c = config();
        change(&mut c);
        match Cache::new(c) {
            Err(Error::Config(text)) => assert!(text.contains(word), "{text}"),
            _ => panic!("{word} was accepted"),
        }
    }
}

#[test]
fn too_many_files_and_threads_are_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(Config {
        max_threads: 1,
        max_files: 1,
        ..config()
    })
    .expect("a cache");
    let file = cache.open(dir.path().join("one")).expect("a file");
    let two = cache.open(dir.path().join("two"));
    assert!(two.is_err_and(|e| e == Error::TooManyFiles));
    file.write(0, b"x").expect("a write");
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(file.write(0, b"y"), Err(Error::TooManyThreads)));
    });
}

/// Reading and writing take turns by the page: a read finds what one write left, never parts of two.
#[test]
fn a_page_is_read_as_one_write_left_it() {
    const ROUNDS: u64 = 3000;
    const PAGES: u64 = 3;
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(config()).expect("a cache");
    let file = cache.open(dir.path().join("shared")).expect("a file");
    file.write(0, &[0; PAGES as usize * 4096]).expect("a write");
    std::thread::scope(|s| {
        for who in 0..4u8 {
            let file = &file;
            s.spawn(move || {
                let mut found = [0; 4096];
                for i in 0..ROUNDS {
                    let pos = i % PAGES * 4096;
                    if who < 2 {
                        file.write(pos, &[who + 1; 4096]).expect("a write");
                    } else {
                        assert_eq!(file.read(pos, &mut found), Ok(4096));
                        assert!(found.iter().all(|&b| b == found[0]), "parts of two writes");
                    }
                }
            });
        }
    });
    cache.shutdown();
    cache.engine().recount().expect("everything agrees");
}
