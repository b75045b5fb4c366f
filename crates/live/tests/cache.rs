//! Tests of the cache's public behaviour other than the contents of files.

use lowmark_cache::{Cache, Config, Errno, Error, OnLoss};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn config() -> Config {
    Config {
        memory: 4 << 20,
        cpus: 2,
        max_threads: 5,
        max_files: 8,
        ..Config::default()
    }
}

/// The result for an EIO after which the data is kept.
const IO: Result<(), Error> = Err(Error::Io(Errno::IO));

#[test]
fn what_is_never_written_is_reported_as_lost() {
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
    assert_eq!(bad.fsync(), IO);
    assert_eq!(bad.fsync(), IO, "it was tried again");
    assert_eq!(bad.write(0, b"more"), Err(Error::Refused(Errno::IO)));
    assert_eq!(good.write(0, b"more"), Ok(()));
    assert_eq!((cache.stats().kept_pages, cache.stats().lost_pages), (3, 0));
    let end = cache.shutdown();
    assert_eq!((end.lost_pages, end.is_clean()), (3, false));
    assert_eq!(end.failed, [(dir.path().join("bad"), Error::Io(Errno::IO))]);
    assert_eq!(
        &std::fs::read(dir.path().join("good")).expect("the file")[5000..5004],
        b"kept"
    );
    cache.recount().expect("everything agrees");
}

#[test]
fn a_page_that_could_not_be_written_stays_and_is_written_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, [b'.'; 10_000]).expect("a file");
    let cache = Cache::new(config()).expect("a cache");
    let file = cache.open(&path).expect("a file");
    file.fail_writes(true);
    file.write(5000, b"mine").expect("a write");
    assert_eq!(file.fsync(), IO);
    // More pages are written than memory holds.
    let other = cache.open(dir.path().join("other")).expect("a file");
    for i in 0..3000 {
        other.write(i * 4096, &[1; 4096]).expect("a write");
    }
    let mut back = [0; 6];
    assert_eq!(file.read(4999, &mut back), Ok(6));
    assert_eq!(&back, b".mine.");
    file.fail_writes(false);
    assert_eq!(file.fsync(), Ok(()));
    assert_eq!(cache.stats().kept_pages, 0);
    assert_eq!(
        &std::fs::read(&path).expect("the file")[4999..5005],
        b".mine."
    );
    file.write(0, b"again").expect("writes are welcome again");
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

#[test]
fn pages_that_could_not_be_written_are_cut_away_with_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(config()).expect("a cache");
    let file = cache.open(dir.path().join("file")).expect("a file");
    file.fail_writes(true);
    file.write(0, &[1; 20_000]).expect("a write");
    assert_eq!(file.fsync(), IO);
    file.truncate(5000).expect("a cut");
    assert_eq!(cache.stats().kept_pages, 2);
    assert_eq!(file.write(0, b"x"), Err(Error::Refused(Errno::IO)));
    file.truncate(0).expect("a cut");
    assert_eq!(cache.stats().kept_pages, 0);
    file.fail_writes(false);
    file.write(0, b"x").expect("nothing is left that failed");
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

#[test]
fn an_error_reaches_every_handle_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let cache = Cache::new(config()).expect("a cache");
    let (f, g) = (
        cache.open(&path).expect("a file"),
        cache.open(&path).expect("the same"),
    );
    f.fail_writes(true);
    f.write(0, b"mine").expect("a write");
    g.write(8192, b"yours").expect("a write");
    assert_eq!(f.fsync(), IO);
    f.fail_writes(false);
    assert_eq!(g.fsync(), IO, "the other handle's error");
    assert_eq!((f.fsync(), g.fsync()), (Ok(()), Ok(())));
    let late = cache.open(&path).expect("the same");
    assert_eq!(late.fsync(), Ok(()), "others were told");
    assert!(cache.shutdown().is_clean());
}

#[test]
fn an_error_that_nobody_was_told_of_reaches_who_opens_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let cache = Cache::new(config()).expect("a cache");
    let hook = {
        let file = cache.open(&path).expect("a file");
        file.fail_writes(true);
        // More pages than may be dirty, so that the flusher or reclaim writes some.
        while file.write(file.size(), &[1; 4096]).is_ok() {}
        file
    };
    hook.fail_writes(false);
    drop(hook);
    let file = cache.open(&path).expect("the same");
    assert_eq!(file.fsync(), IO);
    assert_eq!(file.fsync(), Ok(()));
    let all = std::fs::read(&path).expect("the file");
    assert_eq!(all.len() as u64, file.size());
    assert!(all.iter().all(|&b| b == 1), "everything was kept");
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

/// A device that accepts no data must neither throttle writers for ever nor fill memory with the
/// data that it did not accept, even with a dirty ratio of 100 %.
#[test]
fn a_device_that_takes_nothing_ends_in_refusals_and_not_in_waiting() {
    let dir = tempfile::tempdir().expect("a directory");
    for dirty_ratio in [20, 100] {
        let cache = Cache::new(Config {
            dirty_ratio,
            dirty_background_ratio: dirty_ratio / 2,
            max_files: 64,
            ..config()
        })
        .expect("a cache");
        let mut taken = 0;
        let files: Vec<_> = (0..40)
            .map(|i| {
                let file = cache.open(dir.path().join(format!("{dirty_ratio}-{i}")));
                let file = file.expect("a file");
                file.fail_writes(true);
                for page in 0..100 {
                    match file.write(page * 4096, &[1; 4096]) {
                        Ok(()) => taken += 1,
                        Err(Error::Refused(Errno::IO)) => break,
                        Err(e) => panic!("{e}"),
                    }
                }
                file
            })
            .collect();
        assert!(taken < 4000, "nothing was refused");
        for f in &files {
            let _ = f.fsync();
        }
        let stats = cache.stats();
        assert!(stats.kept_pages > 0 && stats.kept_pages <= stats.pages / 2);
        assert!(dirty_ratio == 100 || stats.lost_pages == 0, "{stats:?}");
        assert_eq!(stats.kept_pages + stats.lost_pages, taken);
        // There is memory left to read other files.
        let other = dir.path().join("other");
        std::fs::write(&other, vec![7; 8 << 20]).expect("a file");
        let file = cache.open(&other).expect("a file");
        let mut all = vec![0; 8 << 20];
        assert_eq!(file.read(0, &mut all), Ok(8 << 20));
        assert!(all.iter().all(|&b| b == 7));
        let end = cache.shutdown();
        assert_eq!(end.lost_pages, taken);
        cache.recount().expect("everything agrees");
    }
}

#[test]
fn shutdown_writes_although_every_thread_number_is_taken_and_drop_tells_of_losses() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, bad) = (dir.path().join("file"), dir.path().join("bad"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let cache = Cache::new(Config {
        max_threads: 1,
        on_loss: OnLoss::call(move |end| tell.lock().expect("a list").push(end.clone())),
        ..config()
    })
    .expect("a cache");
    let cache = Arc::new(cache);
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let (ready, begin) = std::sync::mpsc::channel::<()>();
    let user = {
        let (cache, path, bad) = (Arc::clone(&cache), path.clone(), bad.clone());
        std::thread::spawn(move || {
            let file = cache.open(path).expect("a file");
            file.write(0, b"acknowledged").expect("a write");
            let file = cache.open(bad).expect("a file");
            file.fail_writes(true);
            file.write(0, b"never written").expect("a write");
            drop((file, cache));
            ready.send(()).expect("a listener");
            wait.recv().ok();
        })
    };
    begin.recv().expect("a user");
    drop(Arc::into_inner(cache).expect("the last one"));
    assert_eq!(std::fs::read(&path).expect("the file"), b"acknowledged");
    let told = told.lock().expect("a list");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].lost_pages, 1);
    assert_eq!(told[0].failed, [(bad, Error::Io(Errno::IO))]);
    drop(done);
    user.join().expect("a user");
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
    cache.recount().expect("everything agrees");
}

#[test]
fn a_file_opened_again_is_the_same_pages_and_a_thread_gives_its_number_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(config()).expect("a cache");
    // More threads than task numbers, one after the other.
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
            (|c: &mut Config| c.memory = 28 << 10) as fn(&mut Config),
            "memory",
        ),
        (|c| c.memory = 3 << 40, "memory"),
        (|c| c.memory = u64::MAX, "memory"),
        (|c| c.cpus = 0, "cpus"),
        (|c| c.cpus = 65, "cpus"),
        (|c| c.max_threads = 0, "max_threads"),
        (|c| c.max_threads = 65_537, "max_threads"),
        (|c| c.max_files = 0, "max_files"),
        (|c| c.max_files = 1 << 24, "max_files"),
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

/// A page is read and written atomically: a read finds the data of one write, never parts of two.
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
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

/// Tests the work done once a second (counters, and from 6.7 on each slot's lists) under every
/// preset.
#[test]
fn every_preset_lives_for_more_than_a_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = |preset: &mm::policy::Preset| {
        let policy = preset.policy();
        let cache = Cache::new(Config {
            policy,
            memory: 16 << 20,
            ..config()
        })
        .expect("a cache");
        let file = cache.open(dir.path().join(preset.name)).expect("a file");
        file.write(0, &vec![1; 16 << 20]).expect("a write");
        // The lists grow by pages that are allocated and freed.
        for _ in 0..4 {
            file.truncate(0).expect("a cut");
            file.write(0, &vec![1; 3 << 20]).expect("a write");
        }
        file.truncate(0).expect("a cut");
        (preset.name, cache)
    };
    let caches: Vec<_> = mm::policy::PRESETS.iter().map(cache).collect();
    std::thread::sleep(std::time::Duration::from_millis(2200));
    for (name, cache) in caches {
        assert!(cache.shutdown().is_clean(), "{name}");
        cache.recount().expect(name);
    }
}
