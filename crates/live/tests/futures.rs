//! Tests the calls that are futures, on minimal executors.

mod executor;

use executor::{Many, block_on, poll_once};
use lowmark_cache::storage::{Backing, FileId, Opened, Os, Storage};
use lowmark_cache::{Advice, AsyncFile, Cache, Config, Errno, Error, Transfers};
use std::io::{IoSlice, IoSliceMut};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const PAGE: usize = 4096;

fn config() -> Config {
    Config {
        memory: 8 << 20,
        cpus: 2,
        max_threads: 3,
        max_files: 8,
        ..Config::default()
    }
}

/// Returns the byte that fills a page of a [`Gated`] file.
fn byte(page: u64) -> u8 {
    (page % 251) as u8
}

/// The gate of a device: its calls wait while the gate is shut.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    /// Number of calls that wait.
    held: AtomicUsize,
    /// Writes fail.
    failing: AtomicBool,
    /// Writes so far: position and length.
    written: Mutex<Vec<(u64, usize)>>,
}

impl Gate {
    fn shut(&self, shut: bool) {
        *self.shut.lock().expect("no panic") = shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut shut = self.shut.lock().expect("no panic");
        self.held.fetch_add(1, SeqCst);
        while *shut {
            shut = self.opened.wait(shut).expect("no panic");
        }
        self.held.fetch_sub(1, SeqCst);
    }

    fn wait_until_held(&self, n: usize) {
        while self.held.load(SeqCst) < n {
            std::thread::yield_now();
        }
    }
}

/// Files of 64 MiB whose pages are filled with [`byte`]; two devices.
#[derive(Clone, Default)]
struct Gated(Arc<[Gate; 2]>);

struct GatedFile {
    devices: Gated,
    device: usize,
}

impl GatedFile {
    fn gate(&self) -> &Gate {
        &self.devices.0[self.device]
    }
}

impl Storage for Gated {
    /// The first character of a name is the device's number; the rest is free.
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        let name = path.to_str().expect("UTF-8");
        let device = usize::from(name.as_bytes()[0] - b'0');
        let id = FileId {
            device: device as u64,
            inode: name.bytes().fold(0, |n, b| n * 256 + u64::from(b)),
        };
        let devices = self.clone();
        let file = Box::new(GatedFile { devices, device });
        let len = 64 << 20;
        Ok(Opened { id, len, file })
    }
}

impl Backing for GatedFile {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        self.gate().pass();
        let mut pos = at;
        for p in parts {
            p.fill(byte(pos / PAGE as u64));
            pos += p.len() as u64;
        }
        Ok((pos - at) as usize)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        self.gate().pass();
        if self.gate().failing.load(SeqCst) {
            return Err(Errno::IO);
        }
        let n = parts.iter().map(|p| p.len()).sum();
        let mut written = self.gate().written.lock().expect("no panic");
        written.push((at, n));
        Ok(n)
    }

    fn truncate(&self, _: u64) -> Result<(), Errno> {
        self.gate().pass();
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        self.gate().pass();
        Ok(())
    }

    fn has_name(&self) -> Result<bool, Errno> {
        Ok(true)
    }
}

fn gated(config: Config) -> (Cache, Gated) {
    let devices = Gated::default();
    let cache = Cache::on(Arc::new(devices.clone()), config).expect("a cache");
    (cache, devices)
}

fn open(cache: &Cache, name: impl AsRef<Path>) -> AsyncFile {
    let file = cache.open(name).expect("a file");
    file.advise(0, 0, Advice::Random).expect("advice");
    file.into_async().expect("threads")
}

fn ends_well(cache: &Cache) {
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("everything agrees");
}

#[test]
fn a_hit_is_there_when_it_is_asked_for_first() {
    let (cache, devices) = gated(config());
    let file = open(&cache, "0");
    let (n, _) = block_on(file.read(0, vec![0; 3 * PAGE]));
    assert_eq!(n, Ok(3 * PAGE));
    // From here on nothing can be read from the device.
    devices.0[0].shut(true);
    for round in 0..10 {
        let read = poll_once(&mut pin!(file.read(PAGE as u64 + 1, [7; 10])));
        assert_eq!(read, Poll::Ready((Ok(10), [byte(1); 10])), "round {round}");
        let bufs = vec![vec![7; 10], vec![7; PAGE]];
        let read = poll_once(&mut pin!(file.read_vectored(0, bufs)));
        let Poll::Ready((Ok(n), bufs)) = read else {
            panic!("it is cached");
        };
        assert_eq!((n, bufs[0][9], bufs[1][PAGE - 1]), (PAGE + 10, 0, byte(1)));
        let Poll::Ready(Ok(page)) = poll_once(&mut pin!(file.pin(2))) else {
            panic!("it is cached");
        };
        assert_eq!(page[..], [byte(2); PAGE]);
    }
    // A write does not wait either, as long as few pages are dirty.
    let write = poll_once(&mut pin!(file.write(5, [1, 2, 3])));
    assert_eq!(write, Poll::Ready((Ok(()), [1, 2, 3])));
    let end = poll_once(&mut pin!(file.read(file.size(), [7; 10])));
    assert_eq!(end, Poll::Ready((Ok(0), [7; 10])));
    // A miss has to wait.
    let mut miss = pin!(file.read(10 * PAGE as u64, [7; 10]));
    assert!(poll_once(&mut miss).is_pending());
    devices.0[0].shut(false);
    assert_eq!(block_on(miss), (Ok(10), [byte(10); 10]));
    drop(file);
    ends_well(&cache);
}

/// Returns the number of this process's threads whose names begin with `prefix`.
fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("our threads");
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(prefix)).count()
}

#[test]
fn ten_thousand_misses_are_outstanding_on_two_threads() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let bytes: Vec<u8> = (0..16 << 20).map(|i| byte(i / PAGE as u64)).collect();
    std::fs::write(&path, bytes).expect("a file");
    for transfers in [Transfers::Ring, Transfers::Calls] {
        let config = Config {
            transfers,
            ..config()
        };
        let cache = Cache::on(Arc::new(Os::default()), config).expect("a cache");
        let file = open(&cache, &path);
        let mut many = Many::default();
        let right = Arc::new(AtomicUsize::new(0));
        for i in 0..10_000_u64 {
            let page = i * 2_654_435_761 % 4096;
            let read = file.read(page * PAGE as u64 + i % 7, vec![0; 100]);
            let right = Arc::clone(&right);
            many.spawn(async move {
                let (n, buf) = read.await;
                assert_eq!(n, Ok(100));
                assert!(buf.iter().all(|&b| b == byte(page)), "page {page}");
                right.fetch_add(1, SeqCst);
            });
        }
        many.run();
        assert_eq!(right.load(SeqCst), 10_000);
        drop(file);
        ends_well(&cache);
    }
}

#[test]
fn reads_of_a_device_that_hangs_take_no_threads_and_hold_nobody_up() {
    let (cache, devices) = gated(Config {
        async_calls: 8,
        ..config()
    });
    let (hung, other) = (open(&cache, "0"), open(&cache, "1"));
    block_on(other.read(0, vec![0; PAGE])).0.expect("a read");
    devices.0[0].shut(true);
    let before = threads_named("");
    let mut reads: Vec<Pin<Box<_>>> = (0..1000_u64)
        .map(|i| Box::pin(hung.read(i * PAGE as u64, vec![0; 8])))
        .collect();
    let mut writes: Vec<Pin<Box<_>>> = (0..20_u64)
        .map(|i| Box::pin(hung.write((2000 + i) * PAGE as u64 + 1, vec![1; 8])))
        .collect();
    let mut syncs: Vec<Pin<Box<_>>> = (0..20).map(|_| Box::pin(hung.fsync())).collect();
    for read in &mut reads {
        assert!(poll_once(read).is_pending());
    }
    writes
        .iter_mut()
        .for_each(|w| assert!(poll_once(w).is_pending()));
    syncs
        .iter_mut()
        .for_each(|s| assert!(poll_once(s).is_pending()));
    devices.0[0].wait_until_held(4);
    // Other tests have threads, too, but none has a thousand.
    assert!(threads_named("") < before + 500, "a thread for each read");
    // The other device works as before.
    for i in 0..50_u64 {
        let (n, buf) = block_on(other.read(i * 7 * PAGE as u64, vec![0; 2 * PAGE]));
        assert_eq!((n, buf[2 * PAGE - 1]), (Ok(2 * PAGE), byte(i * 7 + 1)));
        block_on(other.write(i * 100, vec![9; 5000]))
            .0
            .expect("a write");
        block_on(other.fsync()).expect("a sync");
    }
    block_on(other.truncate(1 << 20)).expect("a cut");
    devices.0[0].shut(false);
    for (i, read) in reads.into_iter().enumerate() {
        let (n, buf) = block_on(read);
        assert_eq!((n, buf), (Ok(8), vec![byte(i as u64); 8]));
    }
    writes
        .into_iter()
        .for_each(|w| block_on(w).0.expect("a write"));
    syncs.into_iter().for_each(|s| block_on(s).expect("a sync"));
    drop((hung, other));
    ends_well(&cache);
}

/// A buffer that counts its drops.
struct Buffer(Vec<u8>, Arc<AtomicUsize>);

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let (cache, devices) = gated(Config {
        async_calls: 2,
        ..config()
    });
    let file = open(&cache, "0");
    let gone = Arc::new(AtomicUsize::new(0));
    let buffer = || Buffer(vec![5; PAGE], Arc::clone(&gone));
    // A future that was not polled has done nothing.
    drop(file.write(0, buffer()));
    assert_eq!(gone.load(SeqCst), 1);
    devices.0[0].shut(true);
    // Two calls run, two wait for their turn.
    let mut reads: Vec<Pin<Box<_>>> = (0..4_u64)
        .map(|i| Box::pin(file.read(i * PAGE as u64, buffer())))
        .collect();
    for read in &mut reads {
        assert!(poll_once(read).is_pending());
    }
    devices.0[0].wait_until_held(2);
    reads.truncate(1);
    // The calls that had not begun are dropped with their buffers; the one that had continues.
    assert_eq!(gone.load(SeqCst), 3);
    // A write of a part of a page waits until the page has been read.
    let mut writes: Vec<Pin<Box<_>>> = (8..12_u64)
        .map(|i| Box::pin(file.write(i * PAGE as u64 + 1, Buffer(vec![3; 9], Arc::clone(&gone)))))
        .collect();
    for write in &mut writes {
        assert!(poll_once(write).is_pending());
    }
    drop(writes);
    assert_eq!(gone.load(SeqCst), 5);
    devices.0[0].shut(false);
    let (n, buf) = block_on(reads.remove(0));
    assert_eq!((n, buf.0[0]), (Ok(PAGE), byte(0)));
    drop(buf);
    // Calls that had begun run to their ends.
    while gone.load(SeqCst) < 9 {
        std::thread::yield_now();
    }
    for (page, second) in [(1, byte(1)), (8, 3), (9, 3), (10, byte(10)), (11, byte(11))] {
        let (_, found) = block_on(file.read(page * PAGE as u64, [0; 3]));
        assert_eq!(found, [byte(page), second, second], "page {page}");
    }
    drop(file);
    ends_well(&cache);
}

#[test]
fn calls_end_with_the_cache() {
    let (cache, devices) = gated(Config {
        async_calls: 2,
        ..config()
    });
    let file = open(&cache, "0");
    devices.0[0].shut(true);
    let mut reads: Vec<Pin<Box<_>>> = (0..5_u64)
        .map(|i| Box::pin(file.read(i * PAGE as u64, vec![9; 2])))
        .collect();
    for read in &mut reads {
        assert!(poll_once(read).is_pending());
    }
    let late = file.read(0, vec![9; 2]);
    std::thread::scope(|s| {
        let end = s.spawn(|| cache.shutdown());
        // Calls that wait for their turn are refused before the others end.
        for read in reads.split_off(2) {
            assert_eq!(block_on(read), (Err(Error::Closed), vec![9; 2]));
        }
        assert!(!end.is_finished());
        devices.0[0].shut(false);
        assert!(end.join().expect("no panic").is_clean());
    });
    for (i, read) in reads.into_iter().enumerate() {
        assert_eq!(block_on(read), (Ok(2), vec![byte(i as u64); 2]));
    }
    assert_eq!(block_on(late), (Err(Error::Closed), vec![9; 2]));
    assert_eq!(block_on(file.fsync()), Err(Error::Closed));
    assert_eq!(block_on(file.pin(0)).map(|_| ()), Err(Error::Closed));
    assert_eq!(block_on(file.prefetch(0, 0)), Err(Error::Closed));
    block_on(file.close());
    cache.recount().expect("everything agrees");
}

#[test]
fn files_pages_and_futures_outlive_their_cache() {
    let (cache, devices) = gated(config());
    let file = open(&cache, "0");
    let page = block_on(file.pin(3)).expect("a page");
    let before = file.read(0, vec![0; 10]);
    let mut begun = Box::pin(file.read(PAGE as u64, vec![0; 10]));
    devices.0[0].shut(true);
    assert!(poll_once(&mut begun).is_pending());
    devices.0[0].shut(false);
    drop(cache);
    assert_eq!(page[..], [byte(3); PAGE]);
    assert_eq!(block_on(before).0, Err(Error::Closed));
    let (n, buf) = block_on(begun);
    assert_eq!((n, buf), (Ok(10), vec![byte(1); 10]));
    drop(file);
    assert_eq!(page[..], [byte(3); PAGE]);
}

#[test]
fn a_write_to_a_page_in_hand_waits_for_it_and_not_beyond_the_end() {
    let (cache, _) = gated(Config {
        async_calls: 4,
        ..config()
    });
    let file = open(&cache, "0");
    let page = block_on(file.pin(0)).expect("a page");
    let mut write = Box::pin(file.write(0, [1]));
    assert!(poll_once(&mut write).is_pending());
    drop(page);
    assert_eq!(block_on(write).0, Ok(()));
    let page = block_on(file.pin(0)).expect("a page");
    assert_eq!(page[..2], [1, 0]);
    // There are more writers than calls may run: reads still proceed, as does the holder of the
    // page.
    let mut writes: Vec<Pin<Box<_>>> = (0..9).map(|_| Box::pin(file.write(0, [2]))).collect();
    for write in &mut writes {
        assert!(poll_once(write).is_pending());
    }
    let mut cut = Box::pin(file.truncate(10));
    assert!(poll_once(&mut cut).is_pending());
    let other = block_on(file.pin(1)).expect("a page");
    assert_eq!(other[0], byte(1));
    assert!(cache.shutdown().is_clean());
    for write in writes {
        assert_eq!(block_on(write), (Err(Error::Closed), [2]));
    }
    assert_eq!(block_on(cut), Err(Error::Closed));
    assert_eq!(page[..2], [1, 0]);
    drop((page, other));
    cache.recount().expect("everything agrees");
}

#[test]
fn a_cut_that_waits_for_a_page_in_hand_ends_with_the_cache() {
    let (cache, _) = gated(config());
    let file = open(&cache, "0");
    let page = block_on(file.pin(5)).expect("a page");
    let mut cut = Box::pin(file.truncate(10));
    assert!(poll_once(&mut cut).is_pending());
    while file.size() != 10 {
        std::thread::yield_now();
    }
    assert!(cache.shutdown().is_clean());
    assert_eq!(block_on(cut), Ok(()));
    assert_eq!(page[..], [byte(5); PAGE]);
    drop(page);
    cache.recount().expect("everything agrees");
}

/// Counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn who_asked_last_is_woken() {
    let (cache, devices) = gated(config());
    let file = open(&cache, "0");
    devices.0[0].shut(true);
    let mut read = Box::pin(file.read(0, [0; 1]));
    let counts: [Arc<Count>; 2] = Default::default();
    for count in &counts {
        let waker = Waker::from(Arc::clone(count));
        let polled = read.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    devices.0[0].shut(false);
    while counts[1].0.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(poll_once(&mut read), Poll::Ready((Ok(1), [byte(0)])));
    let woken = counts.map(|c| c.0.load(SeqCst));
    assert_eq!(woken, [0, 1]);
    drop(file);
    ends_well(&cache);
}

#[test]
fn a_page_is_changed_where_it_lies() {
    let (cache, devices) = gated(config());
    let file = open(&cache, "0");
    let changed = block_on(file.pin_mut(2, |page| {
        page[7] = 1;
        page[6]
    }));
    assert_eq!(changed, Ok(byte(2)));
    assert_eq!(
        block_on(file.pin_mut(1 << 20, |_| ())),
        Err(Error::BehindEnd)
    );
    let panics = std::panic::catch_unwind(AssertUnwindSafe(|| {
        block_on(file.pin_mut(3, |_| -> () { panic!("told") }))
    }));
    assert!(panics.is_err());
    assert_eq!(block_on(file.read(3 * PAGE as u64, [9])).0, Ok(1));
    block_on(file.flush(0, 0)).expect("a flush");
    let mut written = devices.0[0].written.lock().expect("no panic").clone();
    written.sort_unstable();
    assert_eq!(written[0].0, 2 * PAGE as u64);
    block_on(file.close());
    ends_well(&cache);
}

#[test]
fn several_buffers_are_read_and_written_in_order() {
    let (cache, _) = gated(config());
    let file = open(&cache, "0");
    let size = file.size();
    let bufs = vec![vec![1; PAGE], vec![], vec![2; 10]];
    let (result, bufs) = block_on(file.write_vectored(size - 5, bufs));
    assert_eq!((result, bufs.len()), (Ok(()), 3));
    let back = vec![vec![9; 6], vec![9; PAGE], vec![9; 100]];
    let (n, back) = block_on(file.read_vectored(size - 6, back));
    assert_eq!(n, Ok(1 + PAGE + 10));
    assert_eq!(back[0], [byte(size / PAGE as u64 - 1), 1, 1, 1, 1, 1]);
    assert_eq!(back[1][PAGE - 6..], [1, 2, 2, 2, 2, 2]);
    assert_eq!(back[2][..6], [2, 2, 2, 2, 2, 9]);
    drop(file);
    ends_well(&cache);
}

#[test]
fn ranges_are_fetched_and_dropped_by_the_page() {
    let (cache, devices) = gated(config());
    let sync = cache.open("0").expect("a file");
    let file = open(&cache, "0");
    assert_eq!(sync.prefetch(10 * PAGE as u64, 20 * PAGE as u64), Ok(20));
    assert_eq!(sync.prefetch(5 * PAGE as u64, 20 * PAGE as u64), Ok(5));
    assert_eq!(sync.prefetch(1 << 40, 5), Ok(0));
    devices.0[0].shut(true);
    // A hung device does not block the caller: at most a sixteenth of memory may be on the way.
    let most = (8 << 20) / PAGE as u64 / 16;
    let begun = block_on(file.prefetch(4 << 20, 0)).expect("open");
    assert!(begun > 0 && begun <= most, "{begun} of {most}");
    assert!(sync.prefetch(32 << 20, 0).expect("open") <= most);
    devices.0[0].shut(false);
    // The pages are read and then found in the cache.
    assert_eq!(block_on(file.read(4 << 20, [0])).1, [byte(1024)]);
    assert_eq!(block_on(file.read(29 * PAGE as u64, [0])).1, [byte(29)]);
    let held = block_on(file.pin(11)).expect("a page");
    block_on(file.write(12 * PAGE as u64, [1]))
        .0
        .expect("a write");
    assert_eq!(
        block_on(file.drop_cache(10 * PAGE as u64, 5 * PAGE as u64)),
        Ok(3)
    );
    assert_eq!(sync.drop_cache(10 * PAGE as u64, 5 * PAGE as u64), Ok(0));
    drop(held);
    block_on(file.advise(10 * PAGE as u64, PAGE as u64 * 2, Advice::DontNeed)).expect("open");
    assert_eq!(sync.prefetch(10 * PAGE as u64, 5 * PAGE as u64), Ok(4));
    block_on(file.close());
    drop(sync);
    ends_well(&cache);
}

#[test]
fn writers_far_over_the_limits_all_come_through() {
    let (cache, _) = gated(Config {
        memory: 4 << 20,
        async_threads: 1,
        ..config()
    });
    let file = open(&cache, "0");
    let mut many = Many::default();
    for i in 0..600_u64 {
        let write = file.write(i * 20_000, vec![i as u8; 20_000]);
        many.spawn(async move { write.await.0.expect("a write") });
    }
    many.run();
    let (n, found) = block_on(file.read(599 * 20_000, vec![0; 20_000]));
    assert_eq!((n, found[19_999]), (Ok(20_000), (599 % 256) as u8));
    drop(file);
    ends_well(&cache);
}

#[test]
fn one_cpu_slot_and_one_thread_do() {
    let (cache, _) = gated(Config {
        memory: 4 << 20,
        cpus: 1,
        async_threads: 1,
        async_calls: 1,
        ..config()
    });
    let file = open(&cache, "0");
    let mut many = Many::default();
    for i in 0..300_u64 {
        let file = file.clone();
        many.spawn(async move {
            let at = i * 3 * PAGE as u64;
            let (_, [b]) = file.read(at, [0]).await;
            assert_eq!(b, byte(i * 3));
            file.write(at + 1, [b]).await.0.expect("a write");
            if i.is_multiple_of(50) {
                file.fsync().await.expect("a sync");
            }
        });
    }
    drop(file);
    many.run();
    std::thread::sleep(Duration::from_millis(1));
    ends_well(&cache);
}

/// A waker that ends a cache.
struct End(Mutex<Option<Cache>>);

impl Wake for End {
    fn wake(self: Arc<Self>) {
        let cache = self.0.lock().expect("no panic").take();
        // The shutdown, on this thread, refuses the calls that wait for their turn.
        drop(cache);
    }
}

#[test]
fn who_is_woken_may_end_the_cache() {
    let (cache, devices) = gated(Config {
        async_threads: 1,
        ..config()
    });
    let file = open(&cache, "0");
    devices.0[0].shut(true);
    let mut reads: Vec<Pin<Box<_>>> = (0..70_u64)
        .map(|i| Box::pin(file.read(i * PAGE as u64, [0; 1])))
        .collect();
    let end = Arc::new(End(Mutex::new(Some(cache))));
    let waker = Waker::from(Arc::clone(&end));
    for read in &mut reads {
        let polled = read.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    devices.0[0].shut(false);
    let ended: Vec<_> = reads.into_iter().map(|r| block_on(r).0).collect();
    assert!(ended[..2].contains(&Ok(1)));
    assert!(
        ended
            .iter()
            .all(|r| matches!(r, Ok(1) | Err(Error::Closed)))
    );
    assert!(end.0.lock().expect("no panic").is_none());
}

#[test]
fn futures_move_between_threads_and_take_none_of_their_numbers() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let bytes: Vec<u8> = (0..8 << 20).map(|i| byte(i / PAGE as u64)).collect();
    std::fs::write(&path, bytes).expect("a file");
    let cache = Cache::new(Config {
        memory: 4 << 20,
        // This thread, for its advice, and one more.
        max_threads: 2,
        ..config()
    });
    let cache = cache.expect("a cache");
    let file = open(&cache, &path);
    // Six threads: the second three wait for the calls that the first three have begun.
    std::thread::scope(|s| {
        for who in 0..3_u64 {
            let (hand, take) = std::sync::mpsc::channel();
            let file = &file;
            s.spawn(move || {
                for i in 0..600 {
                    let page = (i * 7919 + who) % 2048;
                    let mut read = Box::pin(file.read(page * PAGE as u64, [0; 9]));
                    let polled = poll_once(&mut read);
                    hand.send((page, polled, read)).expect("the other thread");
                }
            });
            s.spawn(move || {
                for (page, polled, read) in take {
                    let done = match polled {
                        Poll::Ready(done) => done,
                        Poll::Pending => block_on(read),
                    };
                    assert_eq!(done, (Ok(9), [byte(page); 9]));
                }
            });
        }
    });
    // A thread of the cache closes a file without a name, and no program thread's number is used.
    let gone = open(&cache, dir.path().join("gone"));
    block_on(gone.write(0, [1; PAGE])).0.expect("a write");
    std::fs::remove_file(dir.path().join("gone")).expect("a name");
    block_on(gone.close());
    let sync = cache.open(&path).expect("a file");
    std::thread::scope(|s| {
        let read = || sync.read(0, &mut [0; PAGE]);
        assert_eq!(s.spawn(read).join().expect("no panic"), Ok(PAGE));
    });
    drop((sync, file));
    ends_well(&cache);
}

#[test]
fn a_sync_that_is_dropped_has_told_nobody() {
    let (cache, devices) = gated(config());
    let file = open(&cache, "0");
    block_on(file.write(0, vec![1; PAGE])).0.expect("a write");
    devices.0[0].shut(true);
    let mut sync = Box::pin(file.fsync());
    assert!(poll_once(&mut sync).is_pending());
    drop(sync);
    devices.0[0].failing.store(true, SeqCst);
    devices.0[0].shut(false);
    while cache.stats().kept_pages == 0 {
        std::thread::yield_now();
    }
    devices.0[0].failing.store(false, SeqCst);
    assert_eq!(block_on(file.fsync()), Err(Error::Io(Errno::IO)));
    assert_eq!(block_on(file.fsync()), Ok(()));
    drop(file);
    ends_well(&cache);
}
