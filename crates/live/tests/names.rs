//! Tests files whose names are created, removed and changed, and paths that are no regular files.

use lowmark_cache::{Cache, Config, Error, File};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn config() -> Config {
    Config {
        memory: 4 << 20,
        cpus: 2,
        max_threads: 4,
        max_files: 16,
        ..Config::default()
    }
}

fn cache() -> Cache {
    Cache::new(config()).expect("a cache")
}

fn read(file: &File) -> Vec<u8> {
    let mut all = vec![0; file.size() as usize + 1];
    let n = file.read(0, &mut all).expect("a read");
    all.truncate(n);
    all
}

/// Creates a file with these bytes and syncs it.
fn make(cache: &Cache, path: &Path, bytes: &[u8]) -> File {
    let file = cache.open(path).expect("a file");
    file.write(0, bytes).expect("a write");
    file.fsync().expect("a sync");
    file
}

fn end(cache: &Cache) {
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

#[test]
fn a_file_made_anew_under_an_old_name_is_another_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let cache = cache();
    drop(make(&cache, &path, b"old old"));
    fs::remove_file(&path).expect("a file");
    let file = cache.open(&path).expect("a new file");
    assert_eq!(read(&file), b"");
    file.write(0, b"new").expect("a write");
    file.fsync().expect("a sync");
    assert_eq!(fs::read(&path).expect("the file"), b"new");
    end(&cache);
    assert_eq!(fs::read(&path).expect("the file"), b"new");
}

#[test]
fn a_file_that_was_replaced_is_the_one_that_replaced_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, temporary) = (dir.path().join("file"), dir.path().join("file.new"));
    let cache = cache();
    let old = make(&cache, &path, b"v1");
    drop(make(&cache, &temporary, b"v2"));
    fs::rename(&temporary, &path).expect("a rename");
    let file = cache.open(&path).expect("a file");
    assert_eq!(read(&file), b"v2");
    // The old file's handle still reads the old file.
    assert_eq!(read(&old), b"v1");
    old.write(0, b"to nobody").expect("a write");
    old.fsync().expect("a sync");
    assert_eq!(fs::read(&path).expect("the file"), b"v2");
    end(&cache);
}

#[test]
fn hard_links_are_one_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (p, q) = (dir.path().join("one"), dir.path().join("two"));
    fs::write(&p, b"0000").expect("a file");
    fs::hard_link(&p, &q).expect("a link");
    let cache = cache();
    let (f, g) = (cache.open(&p).expect("a file"), cache.open(&q).expect("it"));
    assert_eq!((read(&f), read(&g)), (b"0000".to_vec(), b"0000".to_vec()));
    f.write(0, b"AA").expect("a write");
    g.write(2, b"BB").expect("a write");
    assert_eq!((read(&f), read(&g)), (b"AABB".to_vec(), b"AABB".to_vec()));
    g.fsync().expect("a sync");
    assert_eq!(fs::read(&p).expect("the file"), b"AABB");
    end(&cache);
}

#[test]
fn files_that_were_closed_or_removed_leave_their_numbers_to_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = cache();
    for i in 0..200u32 {
        let path = dir.path().join(i.to_string());
        let file = cache.open(&path).expect("a file");
        assert!(file.mapping() < 16);
        file.write(0, &i.to_le_bytes()).expect("a write");
        if i % 3 == 0 {
            fs::remove_file(&path).expect("a file");
        }
        // A third of the files is never synced, and is written when the mapping number is needed.
        if i % 3 == 1 {
            file.fsync().expect("a sync");
        }
    }
    for i in (0..200u32).filter(|i| i % 3 > 0) {
        let path = dir.path().join(i.to_string());
        assert_eq!(read(&cache.open(&path).expect("a file")), i.to_le_bytes());
    }
    // An open file keeps its number.
    let open: Vec<File> = (0..16)
        .map(|i| {
            cache
                .open(dir.path().join(format!("open-{i}")))
                .expect("a file")
        })
        .collect();
    let more = cache.open(dir.path().join("more"));
    assert_eq!(more.err(), Some(Error::TooManyFiles));
    drop(open);
    end(&cache);
}

#[test]
fn a_file_without_a_name_lives_as_long_as_it_is_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache.open(&path).expect("a file");
    fs::remove_file(&path).expect("a file");
    file.write(100_000, b"still here").expect("a write");
    assert_eq!(read(&file)[100_000..], *b"still here");
    assert!(cache.stats().cached > 0);
    drop(file);
    assert_eq!((cache.stats().cached, cache.stats().dirty), (0, 0));
    end(&cache);
}

#[test]
fn nothing_is_written_by_a_write_of_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache.open(&path).expect("a file");
    for pos in [0, 5, 4096, 5000] {
        file.write(pos, b"").expect("a write");
        assert_eq!((file.size(), cache.stats().cached), (0, 0));
    }
    file.fsync().expect("a sync");
    assert_eq!(fs::metadata(&path).expect("the file").len(), 0);
    end(&cache);
}

#[test]
fn reads_behind_the_end_leave_the_cache_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = cache();
    let file = cache.open(dir.path().join("file")).expect("a file");
    let mut b = [0; 4];
    for pos in [0, 5, 4096, 4099, u64::MAX] {
        assert_eq!(file.read(pos, &mut b), Ok(0));
    }
    file.write(0, b"x").expect("a write");
    for i in 0..200 {
        assert_eq!(file.read(i * 40_960 + 1, &mut b), Ok(0));
    }
    assert_eq!(file.read(0, &mut []), Ok(0));
    assert_eq!(cache.stats().cached, 1);
    end(&cache);
}

#[test]
fn a_cut_that_the_system_refuses_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let cache = cache();
    let file = make(&cache, &path, b"abc");
    // Some filesystems support files of this length.
    let most = ((1u64 << 32) - 1) * 4096;
    let size = match file.truncate(most) {
        Ok(()) => most,
        Err(e) => {
            assert!(matches!(e, Error::Io(_)), "{e}");
            3
        }
    };
    assert_eq!(file.size(), size);
    assert_eq!(fs::metadata(&path).expect("the file").len(), size);
    assert_eq!(file.truncate(most + 1), Err(Error::TooLarge));
    assert_eq!(file.size(), size);
    end(&cache);
}

#[test]
fn pages_beyond_the_largest_number_are_an_error_and_not_others() {
    const LIMIT: u64 = ((1 << 32) - 1) * 4096;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let huge = fs::File::create(&path).expect("a file");
    if huge.set_len(LIMIT + 8192).is_err() {
        return; // not on this filesystem; `faulty.rs` has a storage that can
    }
    huge.write_at(b"first", 0).expect("a write");
    huge.write_at(b"last.", LIMIT - 5).expect("a write");
    huge.write_at(b"LATER", 1 << 44).expect("a write");
    let cache = cache();
    let file = cache.open(&path).expect("a file");
    let mut b = [0; 10];
    assert_eq!(file.read(1 << 44, &mut b), Err(Error::TooLarge));
    assert_eq!(file.read(LIMIT, &mut b), Err(Error::TooLarge));
    assert_eq!(file.read(LIMIT - 5, &mut b), Ok(5));
    assert_eq!(&b[..5], b"last.");
    assert_eq!(file.write(1 << 44, b"x"), Err(Error::TooLarge));
    assert_eq!(file.write(LIMIT - 1, b"xy"), Err(Error::TooLarge));
    end(&cache);
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = cache();
    let fifo = dir.path().join("fifo");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    );
    made.expect("a FIFO");
    for path in [
        Path::new("/dev/null"),
        Path::new("/dev/zero"),
        dir.path(),
        &fifo,
    ] {
        let error = cache.open(path).err();
        assert!(
            matches!(error, Some(Error::NotRegular(_))),
            "{path:?}: {error:?}"
        );
    }
    // Without write permission the error is another one.
    for path in [
        "/proc/self/status",
        "/proc/self/comm",
        "/sys/kernel/uevent_seqnum",
    ] {
        assert!(cache.open(path).is_err(), "{path}");
    }
    end(&cache);
}
