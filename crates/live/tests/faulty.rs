//! Tests the cache over storages that fail, and compares it with a model of the files.

mod beneath;
mod executor;

use beneath::{Disk, Faults, Faulty, Rates};
use conformance::model::{self, Drawing, Failure, Files};
use lowmark_cache::storage::{Backing, FileId, Opened, Os, Storage};
use lowmark_cache::{AsyncFile, Cache, Config, Errno, Error, File, OnLoss, Transfers};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Interruptions, short counts and delays, none of which a caller may notice.
const NUISANCES: Rates = Rates {
    interrupted: 100,
    short: 200,
    late: 50,
    failed: 0,
    unconfirmed: 0,
};

const FAILURES: Rates = Rates {
    failed: 60,
    unconfirmed: 150,
    ..NUISANCES
};

fn config() -> Config {
    Config {
        memory: 4 << 20,
        cpus: 2,
        max_threads: 4,
        // Fewer than the files that are opened, so that mapping numbers are used again.
        max_files: 20,
        ..Config::default()
    }
}

/// Where the files' names are: on a simulated disk or in a folder.
enum Place {
    Disk(Disk),
    Folder(PathBuf),
}

struct Live {
    cache: Cache,
    place: Place,
    faults: Arc<Faults>,
    /// Calls are made as futures.
    futures: bool,
}

/// A handle with the kind of calls that a test makes.
enum Handle {
    Blocks(File),
    Waits(AsyncFile),
}

impl Handle {
    fn file(&self) -> &File {
        match self {
            Self::Blocks(file) => file,
            Self::Waits(file) => file.file(),
        }
    }
}

impl Live {
    fn path(&self, name: &str) -> PathBuf {
        match &self.place {
            Place::Disk(_) => PathBuf::from(name),
            Place::Folder(dir) => dir.join(name),
        }
    }

    fn run(&self, seed: u64, count: u32) -> Drawing<(Handle, u64)> {
        executor::block_on(model::run::<Self>(self, seed, count))
    }
}

fn failure(e: Error) -> Failure {
    match e {
        Error::Lost(_) => Failure::Lost,
        Error::Refused(_) => Failure::Refused,
        Error::Io(Errno::IO | Errno::NOSPC) | Error::TooManyFiles => Failure::Failed,
        other => panic!("{other}"),
    }
}

impl Files for Live {
    type Handle = (Handle, u64);
    const CONTENTS: bool = true;

    async fn open(&self, name: &str) -> Result<Self::Handle, Failure> {
        let file = self.cache.open(self.path(name)).map_err(failure)?;
        let identity = match &self.place {
            Place::Disk(disk) => disk.inode_of(name),
            Place::Folder(dir) => std::fs::metadata(dir.join(name)).expect("the file").ino(),
        };
        let handle = match self.futures {
            true => Handle::Waits(file.into_async().map_err(failure)?),
            false => Handle::Blocks(file),
        };
        Ok((handle, identity))
    }

    async fn close(&self, file: Self::Handle) {
        if let Handle::Waits(file) = file.0 {
            file.close().await;
        }
    }

    async fn read(&self, f: &Self::Handle, pos: u64, bytes: &mut [u8]) -> Result<usize, Failure> {
        match &f.0 {
            Handle::Blocks(file) => file.read(pos, bytes).map_err(failure),
            Handle::Waits(file) => {
                // The bytes behind the file's end stay as they are.
                let (n, buf) = file.read(pos, bytes.to_vec()).await;
                bytes.copy_from_slice(&buf);
                n.map_err(failure)
            }
        }
    }

    async fn write(&self, f: &Self::Handle, pos: u64, bytes: &[u8]) -> Result<(), Failure> {
        match &f.0 {
            Handle::Blocks(file) => file.write(pos, bytes).map_err(failure),
            Handle::Waits(file) => file.write(pos, bytes.to_vec()).await.0.map_err(failure),
        }
    }

    async fn truncate(&self, f: &Self::Handle, len: u64) -> Result<(), Failure> {
        match &f.0 {
            Handle::Blocks(file) => file.truncate(len).map_err(failure),
            Handle::Waits(file) => file.truncate(len).await.map_err(failure),
        }
    }

    async fn sync(&self, f: &Self::Handle) -> Result<(), Failure> {
        match &f.0 {
            Handle::Blocks(file) => file.fsync().map_err(failure),
            Handle::Waits(file) => file.fsync().await.map_err(failure),
        }
    }

    fn size(&self, f: &Self::Handle) -> u64 {
        f.0.file().size()
    }

    fn identity(&self, f: &Self::Handle) -> u64 {
        f.1
    }

    fn link(&self, from: &str, to: &str) {
        match &self.place {
            Place::Disk(disk) => disk.link(from, to),
            Place::Folder(d) => std::fs::hard_link(d.join(from), d.join(to)).expect("a link"),
        }
    }

    async fn rename(&self, from: &str, to: &str) {
        match &self.place {
            Place::Disk(disk) => disk.rename(from, to),
            Place::Folder(d) => std::fs::rename(d.join(from), d.join(to)).expect("a rename"),
        }
    }

    async fn remove(&self, name: &str) {
        match &self.place {
            Place::Disk(disk) => disk.remove(name),
            Place::Folder(dir) => std::fs::remove_file(dir.join(name)).expect("a name"),
        }
    }

    fn quiet(&self, quiet: bool) {
        self.faults.quiet(quiet);
    }

    fn dead(&self) -> bool {
        match &self.place {
            Place::Disk(disk) => disk.is_dead(),
            Place::Folder(_) => false,
        }
    }
}

/// Runs the model, and at the end compares all files with the storage beneath the cache. Returns
/// how often each fault happened.
fn all_is_well(seed: u64, rates: Rates, on_disk: bool) -> [u64; 5] {
    let dir = tempfile::tempdir().expect("a directory");
    let faults = Faults::new(seed, rates);
    let disk = Disk::new(seed, Arc::clone(&faults), None);
    let (storage, place): (Arc<dyn Storage>, Place) = if on_disk {
        let faults = Arc::clone(&faults);
        let beneath = disk.clone();
        (
            Arc::new(Faulty { beneath, faults }),
            Place::Disk(disk.clone()),
        )
    } else {
        let faults = Arc::clone(&faults);
        let beneath = Os::default();
        let place = Place::Folder(dir.path().to_owned());
        (Arc::new(Faulty { beneath, faults }), place)
    };
    // Ordinary files alternate between a ring and system calls.
    let transfers = match seed % 2 {
        0 => Transfers::Ring,
        _ => Transfers::Calls,
    };
    let config = Config {
        transfers,
        ..config()
    };
    let live = Live {
        cache: Cache::on(storage, config).expect("a cache"),
        place,
        faults,
        futures: seed / 2 % 2 == 1,
    };
    let drawing = live.run(seed, 600);
    let end = live.cache.shutdown();
    assert!(end.is_clean(), "seed {seed}: {end:?}");
    live.cache.recount().expect("everything agrees");
    for (name, identity, bytes) in drawing.named() {
        let found = match &live.place {
            Place::Disk(disk) => disk.bytes(identity),
            Place::Folder(dir) => std::fs::read(dir.join(name)).expect("a file"),
        };
        assert!(found == bytes, "seed {seed}: {name} differs");
    }
    live.faults.happened()
}

/// Returns how many seeds a test tries: `LOWMARK_SEEDS` if it is set, for a longer search than
/// CI's.
fn seeds_to_try(usual: u64) -> u64 {
    let asked = std::env::var("LOWMARK_SEEDS");
    asked.map_or(usual, |n| n.parse().expect("LOWMARK_SEEDS is a number"))
}

/// Runs a test for `n` seeds and adds up the faults that happened.
fn seeds(n: u64, run: impl Fn(u64) -> [u64; 5]) -> [u64; 5] {
    (0..seeds_to_try(n)).map(run).fold([0; 5], |mut sum, some| {
        sum.iter_mut().zip(some).for_each(|(s, n)| *s += n);
        sum
    })
}

#[test]
fn ordinary_files_are_as_drawn() {
    let faults = seeds(20, |seed| all_is_well(seed, Rates::default(), false));
    assert_eq!(faults, [0; 5]);
}

#[test]
fn short_late_and_interrupted_calls_are_not_noticed() {
    let files = seeds(10, |seed| all_is_well(seed, NUISANCES, false));
    let disk = seeds(10, |seed| all_is_well(seed, NUISANCES, true));
    for happened in [files, disk] {
        assert!(happened[..3].iter().all(|&n| n > 100), "{happened:?}");
    }
}

#[test]
fn failures_are_told_and_mended() {
    let files = seeds(15, |seed| all_is_well(seed, FAILURES, false));
    let disk = seeds(30, |seed| all_is_well(seed, FAILURES, true));
    assert!(files[..4].iter().all(|&n| n > 100), "{files:?}");
    assert!(disk.iter().all(|&n| n > 20), "{disk:?}");
}

#[test]
fn what_was_confirmed_outlives_a_power_cut() {
    let mut compared = 0;
    for seed in 0..seeds_to_try(120) {
        let rates = if seed % 2 == 0 { NUISANCES } else { FAILURES };
        let faults = Faults::new(seed, rates);
        let disk = Disk::new(seed, Arc::clone(&faults), Some(20 + seed * 13 % 900));
        let storage = Faulty {
            beneath: disk.clone(),
            faults: Arc::clone(&faults),
        };
        let told = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&told);
        let config = Config {
            on_loss: OnLoss::call(move |_| {
                tell.fetch_add(1, SeqCst);
            }),
            ..config()
        };
        let live = Live {
            cache: Cache::on(Arc::new(storage), config).expect("a cache"),
            place: Place::Disk(disk.clone()),
            faults,
            futures: seed / 2 % 2 == 1,
        };
        let drawing = live.run(seed, 600);
        let died = disk.is_dead();
        let survivors = disk.survivors();
        drop(live);
        for (inode, bytes) in survivors {
            if let Some(Err(e)) = drawing.survived(inode, &bytes) {
                panic!("seed {seed}, inode {inode}: {e}");
            }
            compared += 1;
        }
        assert!(
            !died || told.load(SeqCst) == 1,
            "seed {seed}: nobody was told"
        );
    }
    assert!(compared > 200, "{compared} files");
}

/// Lets every call of a small program fail once: a sync after it must bring everything to the
/// device, or report what is lost.
#[test]
fn whichever_call_fails_everything_can_be_written_after_it() {
    let mut nth = 0;
    loop {
        let faults = Faults::new(nth, Rates::default());
        faults.fail_nth(nth);
        let disk = Disk::new(nth, Arc::clone(&faults), None);
        let storage = Faulty {
            beneath: disk.clone(),
            faults: Arc::clone(&faults),
        };
        let cache = Cache::on(Arc::new(storage), config()).expect("a cache");
        let mut expected = Vec::new();
        for round in 0..3u8 {
            let open = cache.open("file").or_else(|_| cache.open("file"));
            let file = open.expect("one call fails");
            // Pages that are read first, written as a whole, and written in part.
            for (pos, len) in [(0, 5000), (4096, 4096), (20_000, 3), (30_001, 9000)] {
                let bytes = vec![round * 16 + 1; len];
                while let Err(e) = file.write(pos as u64, &bytes) {
                    assert!(matches!(e, Error::Io(_) | Error::Refused(_)), "{e}");
                    let _ = file.fsync();
                }
                expected.resize(expected.len().max(pos + len), 0);
                expected[pos..pos + len].copy_from_slice(&bytes);
            }
            let len = 33_000 - u64::from(round) * 1000;
            if file.truncate(len).is_err() {
                assert_eq!(file.size(), expected.len() as u64);
                file.truncate(len).expect("one call fails");
            }
            expected.resize(len as usize, 0);
            while let Err(e) = file.fsync() {
                if let Error::Lost(_) = e {
                    file.write(0, &expected).expect("one call fails");
                }
            }
        }
        let file = cache.open("file").or_else(|_| cache.open("file"));
        let mut found = vec![0; expected.len() + 1];
        let n = file.expect("one call fails").read(0, &mut found);
        assert_eq!(n, Ok(expected.len()));
        assert_eq!(found[..expected.len()], expected);
        let before = faults.calls();
        let end = cache.shutdown();
        // The last call of all is the shutdown's own fsync, whose error is in its result.
        assert_eq!(end.is_clean(), nth < before || nth >= faults.calls());
        let (_, on_device) = disk.survivors().remove(0);
        assert!(on_device == expected, "call {nth}: the device differs");
        cache.recount().expect("everything agrees");
        if faults.calls() <= nth {
            break;
        }
        nth += 1;
    }
    assert!(nth > 15, "{nth} calls");
}

/// A file whose pages contain their numbers; writes are recorded, and reads of the bad byte fail.
struct Special {
    len: u64,
    bad: Option<u64>,
    written: Mutex<Vec<(u64, Vec<u8>)>>,
}

#[derive(Clone)]
struct SpecialFile(Arc<Special>);

impl Storage for SpecialFile {
    fn open(&self, _: &Path) -> Result<Opened, Error> {
        Ok(Opened {
            id: FileId {
                device: 1,
                inode: 1,
            },
            len: self.0.len,
            file: Box::new(self.clone()),
        })
    }
}

impl Backing for SpecialFile {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        let mut pos = at;
        for p in parts {
            let range = pos..pos + p.len() as u64;
            if self.0.bad.is_some_and(|bad| range.contains(&bad)) {
                return Err(Errno::IO);
            }
            // Each page has its own number in every byte.
            p.fill((pos >> 12) as u8 | 1);
            pos = range.end;
        }
        Ok((pos - at) as usize)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        let bytes: Vec<u8> = parts.iter().flat_map(|p| p.iter().copied()).collect();
        let n = bytes.len();
        self.0.written.lock().expect("no panic").push((at, bytes));
        Ok(n)
    }

    fn truncate(&self, _: u64) -> Result<(), Errno> {
        Err(Errno::FBIG)
    }

    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn has_name(&self) -> Result<bool, Errno> {
        Ok(true)
    }
}

fn special(len: u64, bad: Option<u64>) -> (Cache, SpecialFile) {
    let file = SpecialFile(Arc::new(Special {
        len,
        bad,
        written: Mutex::default(),
    }));
    let cache = Cache::on(Arc::new(file.clone()), config()).expect("a cache");
    (cache, file)
}

#[test]
fn a_bad_sector_fails_its_own_page_and_not_those_before() {
    let (cache, _) = special(100_000, Some(40_000));
    let file = cache.open("file").expect("a file");
    let mut b = [0; 4096];
    for page in 0..9 {
        assert_eq!(file.read(page * 4096, &mut b), Ok(4096), "page {page}");
        assert!(b.iter().all(|&b| b == page as u8 | 1));
    }
    assert_eq!(file.read(9 * 4096, &mut b), Err(Error::Io(Errno::IO)));
    assert_eq!(file.write(40_000, b"x"), Err(Error::Io(Errno::IO)));
    assert_eq!(file.write(9 * 4096, &[7; 4096]), Ok(()), "all of it");
    assert_eq!(file.read(40_000, &mut b), Ok(4096));
    assert!(cache.shutdown().is_clean());
}

#[test]
fn a_file_beyond_the_last_page_number_is_reached_up_to_it() {
    const LIMIT: u64 = ((1 << 32) - 1) * 4096;
    let (cache, beneath) = special(LIMIT + 100_000, None);
    let file = cache.open("file").expect("a file");
    let mut b = [0; 10_000];
    assert_eq!(file.size(), LIMIT + 100_000);
    for pos in [LIMIT, LIMIT + 1, 1 << 44, (1 << 44) + 5] {
        assert_eq!(file.read(pos, &mut b), Err(Error::TooLarge), "{pos}");
        assert_eq!(file.write(pos, b"x"), Err(Error::TooLarge), "{pos}");
    }
    assert_eq!(file.read(LIMIT + 100_000, &mut b), Ok(0));
    assert_eq!(file.read(LIMIT - 5000, &mut b), Ok(5000));
    assert_eq!(file.truncate(LIMIT + 1), Err(Error::TooLarge));
    assert_eq!(file.truncate(LIMIT), Err(Error::Io(Errno::FBIG)));
    assert_eq!(file.size(), LIMIT + 100_000);
    assert_eq!(file.write(LIMIT - 3, b"end"), Ok(()));
    assert_eq!(file.fsync(), Ok(()));
    let written = beneath.0.written.lock().expect("no panic");
    let (at, bytes) = &written[0];
    assert_eq!((*at, bytes.len()), (LIMIT - 4096, 4096));
    assert_eq!(&bytes[4093..], b"end");
    drop(written);
    assert!(cache.shutdown().is_clean());
}

/// Runs tasks on one thread over a device whose calls are late and short. Each task writes and
/// reads its own part of one file, and drops some futures half way; every task must find what it
/// wrote.
#[test]
fn many_futures_each_find_what_they_wrote() {
    const PART: u64 = 3 * 4096 + 100;
    const TASKS: u64 = 200;
    let mut dropped = 0;
    for seed in 0..seeds_to_try(6) {
        let faults = Faults::new(seed, NUISANCES);
        let disk = Disk::new(seed, Arc::clone(&faults), None);
        let beneath = disk.clone();
        let cache = Cache::on(Arc::new(Faulty { beneath, faults }), config()).expect("a cache");
        let file = cache.open("file").expect("a file").into_async();
        let file = file.expect("threads");
        let drops = AtomicU64::new(0);
        let mut many = executor::Many::default();
        for who in 0..TASKS {
            many.spawn(part(&file, who * PART, seed * TASKS + who, &drops));
        }
        many.run();
        dropped += drops.load(SeqCst);
        executor::block_on(file.close());
        assert!(cache.shutdown().is_clean());
        cache.recount().expect("everything agrees");
    }
    assert!(dropped > 500, "{dropped} futures were dropped half way");
}

/// Runs one task on its part of a file: three pages' worth, and 100 bytes for writes that are
/// dropped.
async fn part(file: &AsyncFile, start: u64, seed: u64, dropped: &AtomicU64) {
    const LEN: u64 = 3 * 4096;
    let mut random = beneath::Random::new(seed);
    let mut paper = vec![0; LEN as usize];
    file.write(start, paper.clone()).await.0.expect("a write");
    for round in 0..40_u8 {
        let (at, len) = (random.below(LEN), 1 + random.below(5000));
        let len = len.min(LEN - at) as usize;
        let range = at as usize..at as usize + len;
        let what = random.below(8);
        match what {
            0..=2 => {
                paper[range].fill(round);
                let write = file.write(start + at, vec![round; len]);
                write.await.0.expect("a write");
            }
            3..=5 => {
                let (n, found) = file.read(start + at, vec![255; len]).await;
                assert_eq!(n, Ok(len));
                assert!(found == paper[range], "seed {seed}, round {round}");
            }
            6 => {
                // These calls are begun and not waited for.
                let calls: (_, _, _) = (
                    &mut Box::pin(file.read(start + at, vec![0; len])),
                    &mut Box::pin(file.write(start + LEN, vec![round; 100])),
                    &mut Box::pin(file.fsync()),
                );
                let some = [
                    executor::poll_once(calls.0).is_pending(),
                    executor::poll_once(calls.1).is_pending(),
                    executor::poll_once(calls.2).is_pending(),
                ];
                dropped.fetch_add(some.iter().filter(|&&p| p).count() as u64, SeqCst);
            }
            _ if random.hits(100) => file.fsync().await.expect("a sync"),
            _ => {
                let page = file.pin(((start + at) / 4096) as u32).await;
                let (page, from) = (page.expect("a page"), (start + at) as usize % 4096);
                let n = len.min(4096 - from);
                assert!(page[from..from + n] == paper[range][..n], "seed {seed}");
            }
        }
    }
}
