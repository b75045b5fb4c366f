//! Tests background transfers: by a ring, or by threads if there is none; with short counts and
//! errors of the kernel, and with devices that hang.
#![allow(unsafe_code)] // to make io_uring fail, as containers do

mod beneath;
mod executor;

use beneath::{Faults, Faulty, Rates};
use lowmark_cache::storage::{Backing, FileId, Opened, Os, Storage, Way};
use lowmark_cache::{Advice, Cache, Config, Errno, Error, File, Notice, OnNotice, Transfers};
use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

const PAGE: usize = 4096;

fn config(transfers: Transfers) -> Config {
    Config {
        memory: 4 << 20,
        cpus: 2,
        max_threads: 5,
        max_files: 8,
        transfers,
        ..Config::default()
    }
}

/// Returns a file's bytes; each page is different.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / PAGE * 7 + i % 13) as u8).collect()
}

fn read_all(file: &File) -> Vec<u8> {
    let mut all = vec![0; file.size() as usize + 10];
    let n = file.read(0, &mut all).expect("a read");
    all.truncate(n);
    all
}

/// Checks that a file works while calls elsewhere hang.
fn writes_and_syncs(file: &File) {
    for _ in 0..3 {
        file.write(0, &bytes(100_000)).expect("a write");
        file.fsync().expect("a sync");
        assert!(read_all(file) == bytes(100_000));
    }
}

/// Waits until `so` returns true, without a limit.
fn wait_until(so: impl Fn() -> bool) {
    while !so() {
        std::thread::yield_now();
    }
}

#[test]
fn files_that_end_anywhere_are_exact_by_either_way() {
    for transfers in [Transfers::Ring, Transfers::Calls] {
        for direct in [true, false] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("file");
            let cache = Cache::on(Arc::new(Os { direct }), config(transfers)).expect("a cache");
            let file = cache.open(&path).expect("a file");
            for len in [1, 511, 512, 4095, 4096, 4097, 70_000, 65_536, 5_000_001] {
                let what = bytes(len);
                file.truncate(0).expect("a cut");
                file.write(0, &what).expect("a write");
                file.fsync().expect("a sync");
                // No truncation is needed afterwards, because the file was never longer.
                assert!(std::fs::read(&path).expect("the file") == what, "{len}");
                file.advise(0, 0, Advice::DontNeed).expect("advice");
                assert!(read_all(&file) == what, "{len} bytes read back");
            }
            file.truncate(10_000).expect("a cut");
            file.write(12_000, b"end").expect("a write");
            file.fsync().expect("a sync");
            let found = std::fs::read(&path).expect("the file");
            assert_eq!(found.len(), 12_003);
            assert_eq!(
                (&found[10_000..12_000], &found[12_000..]),
                (&[0; 2000][..], &b"end"[..])
            );
            assert!(cache.shutdown().is_clean());
            cache.recount().expect("everything agrees");
        }
    }
}

#[test]
fn a_ring_that_answers_short_and_late_is_not_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let what = bytes(6_000_123);
    let rates = Rates {
        interrupted: 100,
        short: 300,
        late: 50,
        ..Rates::default()
    };
    let faults = Faults::new(1, rates);
    let storage = Faulty {
        beneath: Os::default(),
        faults: Arc::clone(&faults),
    };
    let cache = Cache::on(Arc::new(storage), config(Transfers::Ring)).expect("a cache");
    let file = cache.open(&path).expect("a file");
    file.write(0, &what).expect("a write");
    file.fsync().expect("a sync");
    assert!(std::fs::read(&path).expect("the file") == what);
    assert!(read_all(&file) == what);
    assert!(
        faults.rings() > 50,
        "{} transfers by a ring",
        faults.rings()
    );
    assert!(faults.happened()[..2].iter().all(|&n| n > 10));
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

/// Files that use another descriptor for a ring than for their calls.
struct Other {
    os: Os,
    way: Mutex<Option<OwnedFd>>,
}

struct OtherFile {
    os: Box<dyn Backing>,
    way: Option<OwnedFd>,
}

impl Storage for Other {
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        let opened = self.os.open(path)?;
        let file = OtherFile {
            os: opened.file,
            way: self.way.lock().expect("no panic").take(),
        };
        Ok(Opened {
            file: Box::new(file),
            ..opened
        })
    }

    fn rings(&self) -> bool {
        true
    }
}

impl Backing for OtherFile {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        self.os.read(parts, at)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        self.os.write(parts, at)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        self.os.truncate(len)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.os.sync()
    }

    fn has_name(&self) -> Result<bool, Errno> {
        self.os.has_name()
    }

    fn way(&self, write: bool, at: u64, len: usize) -> Result<Option<Way<'_>>, Errno> {
        match &self.way {
            Some(way) => Ok(Some(Way {
                descriptor: way.as_fd(),
                most: len,
            })),
            None => self.os.way(write, at, len),
        }
    }
}

fn other(way: impl Into<OwnedFd>) -> Arc<Other> {
    Arc::new(Other {
        os: Os::default(),
        way: Mutex::new(Some(way.into())),
    })
}

#[test]
fn the_kernels_own_error_by_a_ring_is_told_and_the_data_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, [b'.'; 100]).expect("a file");
    // Opened for reading: a write through it fails with EBADF.
    let reads = std::fs::File::open(&path).expect("the file");
    let cache = Cache::on(other(reads), config(Transfers::Ring)).expect("a cache");
    let file = cache.open(&path).expect("a file");
    let what = bytes(1 << 20);
    file.write(0, &what).expect("a write");
    assert_eq!(file.fsync(), Err(Error::Io(Errno::BADF)));
    assert!(cache.stats().kept_pages > 0 && cache.stats().lost_pages == 0);
    assert!(read_all(&file) == what, "it is kept");
    assert!(matches!(file.write(0, b"x"), Err(Error::Refused(_))));
    let end = cache.shutdown();
    assert!(end.lost_pages > 0 && !end.is_clean());
    cache.recount().expect("everything agrees");
}

/// A ring's read that hangs blocks only the tasks that need its pages.
#[test]
fn a_read_that_hangs_holds_up_nobody_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let (stuck, good) = (dir.path().join("stuck"), dir.path().join("good"));
    std::fs::write(&stuck, vec![1; 4 * PAGE]).expect("a file");
    std::fs::write(&good, bytes(3_000_000)).expect("a file");
    let (pipe, mut end) = std::io::pipe().expect("a pipe");
    let cache = Cache::on(other(pipe), config(Transfers::Ring)).expect("a cache");
    let stuck = cache.open(&stuck).expect("a file");
    stuck.advise(0, 0, Advice::WillNeed).expect("advice");
    let good = cache.open(&good).expect("a file");
    let reader = std::thread::scope(|s| {
        let reader = s.spawn(|| read_all(&stuck));
        for _ in 0..3 {
            assert!(read_all(&good) == bytes(3_000_000));
            good.write(0, &bytes(3_000_000)).expect("a write");
            good.fsync().expect("a sync");
        }
        assert!(!reader.is_finished(), "what it needs is on its way");
        // The pipe first returns a part, and then the rest.
        end.write_all(&[7; 5000]).expect("a pipe");
        end.write_all(&[8; 4 * PAGE - 5000]).expect("a pipe");
        reader.join().expect("no panic")
    });
    assert_eq!(reader.len(), 4 * PAGE);
    assert!(reader[..5000] == [7; 5000] && reader[5000..].iter().all(|&b| b == 8));
    assert!(cache.shutdown().is_clean());
}

/// A future that misses uses the ring, too: if it hangs, it takes no thread and blocks no other
/// task.
#[test]
fn a_future_whose_read_hangs_holds_up_nobody_else() {
    use executor::{block_on, poll_once};
    let dir = tempfile::tempdir().expect("a directory");
    let (stuck, good) = (dir.path().join("stuck"), dir.path().join("good"));
    std::fs::write(&stuck, vec![1; 4 * PAGE]).expect("a file");
    std::fs::write(&good, bytes(3_000_000)).expect("a file");
    let (pipe, mut end) = std::io::pipe().expect("a pipe");
    let config = Config {
        async_threads: 1,
        ..config(Transfers::Ring)
    };
    let cache = Cache::on(other(pipe), config).expect("a cache");
    let open = |path: &Path| cache.open(path).expect("a file").into_async();
    let stuck = open(&stuck).expect("threads");
    let mut reads: Vec<_> = (0..3)
        .map(|_| Box::pin(stuck.read(0, vec![0; 4 * PAGE])))
        .collect();
    for read in &mut reads {
        assert!(poll_once(read).is_pending());
    }
    let good = open(&good).expect("threads");
    for _ in 0..3 {
        let (n, all) = block_on(good.read(0, vec![0; 3_000_010]));
        assert_eq!(n, Ok(3_000_000));
        assert!(all[..3_000_000] == bytes(3_000_000));
        block_on(good.write(0, bytes(3_000_000)))
            .0
            .expect("a write");
        block_on(good.fsync()).expect("a sync");
    }
    // The pipe first returns a part, and then the rest.
    end.write_all(&[7; 5000]).expect("a pipe");
    assert!(poll_once(&mut reads[0]).is_pending());
    end.write_all(&[8; 4 * PAGE - 5000]).expect("a pipe");
    for read in reads {
        let (n, found) = block_on(read);
        assert_eq!(n, Ok(4 * PAGE));
        assert!(found[..5000] == [7; 5000] && found[5000..].iter().all(|&b| b == 8));
    }
    drop((stuck, good));
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

/// A write that hangs blocks only a sync of its own file.
#[test]
fn a_write_that_hangs_holds_up_nobody_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut pipe, end) = std::io::pipe().expect("a pipe");
    let cache = Cache::on(other(end), config(Transfers::Ring)).expect("a cache");
    let stuck = cache.open(dir.path().join("stuck")).expect("a file");
    let good = cache.open(dir.path().join("good")).expect("a file");
    // More than a pipe takes, and less than writers are throttled for.
    let what = bytes(60 * PAGE);
    stuck.write(0, &what).expect("a write");
    let drain = std::thread::scope(|s| {
        let syncer = s.spawn(|| stuck.fsync());
        wait_until(|| cache.stats().writeback > 0);
        writes_and_syncs(&good);
        assert!(!syncer.is_finished());
        // How much the ring writes depends on whether the flusher or the sync came first: the sync
        // writes the last run itself.
        let drain = std::thread::spawn(move || {
            let mut all = Vec::new();
            pipe.read_to_end(&mut all).expect("what is written");
            all.len()
        });
        assert_eq!(syncer.join().expect("no panic"), Ok(()));
        drain
    });
    assert!(cache.shutdown().is_clean());
    drop((stuck, good, cache));
    let got = drain.join().expect("no panic");
    assert!((28 * PAGE..=60 * PAGE).contains(&got), "{got} bytes");
}

/// Makes io_uring fail for this thread and those that it starts, as a container's seccomp filter
/// does.
fn refuse_rings() {
    let op = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let ring = libc::SYS_io_uring_setup as u32;
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, ring, 0, 1),
        op(libc::BPF_RET | libc::BPF_K, refused, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program lives until the call returns, and the kernel copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn without_a_ring_there_is_one_message_and_everything_works() {
    let dir = tempfile::tempdir().expect("a directory");
    let told = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&told);
    let config = Config {
        on_notice: OnNotice::call(move |n| hear.lock().expect("no panic").push(n)),
        ..config(Transfers::Ring)
    };
    let run = || {
        refuse_rings();
        let cache = Cache::new(config.clone()).expect("a cache");
        let file = cache.open(dir.path().join("file")).expect("a file");
        let what = bytes(6_000_123);
        file.write(0, &what).expect("a write");
        file.fsync().expect("a sync");
        assert!(read_all(&file) == what);
        assert!(cache.shutdown().is_clean());
        cache.recount().expect("everything agrees");
    };
    std::thread::scope(|s| s.spawn(run).join().expect("no panic"));
    let told = told.lock().expect("no panic");
    assert_eq!(*told, [Notice::NoRing(Errno::PERM)]);
    assert!(told[0].to_string().contains("io_uring"));
}

/// With threads that make calls, a device whose calls hang blocks no file on another device.
#[test]
fn a_device_that_hangs_holds_up_no_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let gate = Arc::new(Mutex::new(()));
    let storage = Arc::new(Gated(Arc::clone(&gate)));
    let cache = Cache::on(storage, config(Transfers::Calls)).expect("a cache");
    let slow = cache.open(dir.path().join("slow")).expect("a file");
    let good = cache.open(dir.path().join("good")).expect("a file");
    // Shut before the write, because the flusher may write the pages at once.
    let shut = gate.lock().expect("no panic");
    slow.write(0, &bytes(60 * PAGE)).expect("a write");
    std::thread::scope(|s| {
        let syncer = s.spawn(|| slow.fsync());
        wait_until(|| cache.stats().writeback > 0);
        writes_and_syncs(&good);
        assert!(!syncer.is_finished());
        drop(shut);
        assert_eq!(syncer.join().expect("no panic"), Ok(()));
    });
    assert!(cache.shutdown().is_clean());
}

/// Pages that a device is writing can be changed, because the device has a copy. It writes the
/// bytes as they were at the start of the writeback; the change is written afterwards.
#[test]
fn a_page_that_is_being_written_can_be_changed() {
    for transfers in [Transfers::Ring, Transfers::Calls] {
        let dir = tempfile::tempdir().expect("a directory");
        let gate = Arc::new(Mutex::new(()));
        let storage = Arc::new(Gated(Arc::clone(&gate)));
        let cache = Cache::on(storage, config(transfers)).expect("a cache");
        let file = cache.open(dir.path().join("slow")).expect("a file");
        let (old, new) = (bytes(4 * PAGE), vec![201; 2 * PAGE]);
        let shut = gate.lock().expect("no panic");
        file.write(0, &old).expect("a write");
        std::thread::scope(|s| {
            let flusher = s.spawn(|| file.flush(0, 0));
            wait_until(|| cache.stats().writeback > 0);
            // Without copies these calls would wait for the gate, which opens only after them.
            file.write(PAGE as u64, &new).expect("a write");
            file.pin_mut(3).expect("a page")[5] = 77;
            assert!(read_all(&file)[PAGE..][..2 * PAGE] == new);
            assert!(!flusher.is_finished());
            drop(shut);
            assert_eq!(flusher.join().expect("no panic"), Ok(()));
        });
        file.fsync().expect("a sync");
        let mut wanted = old;
        wanted[PAGE..][..2 * PAGE].copy_from_slice(&new);
        wanted[3 * PAGE + 5] = 77;
        let path = dir.path().join("slow");
        assert!(std::fs::read(path).expect("the file") == wanted);
        drop(file);
        assert!(cache.shutdown().is_clean());
        cache.recount().expect("everything agrees");
    }
}

/// A writer to a device that stands still is throttled for some pauses a call, and continues as
/// long as there is memory; on Linux it would wait at the limit until the device moves.
#[test]
fn a_device_that_stands_still_holds_nobody_for_long() {
    let dir = tempfile::tempdir().expect("a directory");
    let gate = Arc::new(Mutex::new(()));
    let storage = Arc::new(Gated(Arc::clone(&gate)));
    let cache = Cache::on(storage, config(Transfers::Calls)).expect("a cache");
    let file = cache.open(dir.path().join("slow")).expect("a file");
    let shut = gate.lock().expect("no panic");
    let mut over = 0;
    for page in 0..1000u64 {
        file.write(page * PAGE as u64, &[page as u8; PAGE])
            .expect("a write");
        let stats = cache.stats();
        // A fifth of free and cached pages, as `dirty_ratio` of the config says.
        over += u64::from(stats.dirty + stats.writeback > (stats.free + stats.cached) / 5);
        if over == 30 {
            break;
        }
    }
    assert_eq!(over, 30);
    drop(shut);
    file.fsync().expect("a sync");
    drop(file);
    assert!(cache.shutdown().is_clean());
}

/// Two devices, distinguished by the files' names; writes of one wait at a gate.
struct Gated(Arc<Mutex<()>>);

struct GatedFile(Box<dyn Backing>, Option<Arc<Mutex<()>>>);

impl Storage for Gated {
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        let opened = Os::default().open(path)?;
        let slow = path.ends_with("slow");
        Ok(Opened {
            id: FileId {
                device: opened.id.device + u64::from(slow),
                ..opened.id
            },
            file: Box::new(GatedFile(opened.file, slow.then(|| Arc::clone(&self.0)))),
            ..opened
        })
    }
}

impl Backing for GatedFile {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        self.0.read(parts, at)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        let _open = self.1.as_ref().map(|gate| gate.lock().expect("no panic"));
        self.0.write(parts, at)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        self.0.truncate(len)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.0.sync()
    }

    fn has_name(&self) -> Result<bool, Errno> {
        self.0.has_name()
    }
}
