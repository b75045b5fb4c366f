//! Tests classes of memory, buffers, shrinkers, and caches of a few pages.

use lowmark_cache::{
    Buffer, Cache, Class, Config, Error, File, Held, Marks, Registration, Shrinker,
};
use mm::Policy;
use mm::policy::{Eviction, Watermarks};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

const PAGE: usize = 4096;
const MIB: u64 = 1 << 20;

/// Creates a file of `pages` pages, each filled with its number's low byte.
fn file_of(pages: usize) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a folder");
    let bytes: Vec<u8> = (0..pages * PAGE).map(|i| (i / PAGE) as u8).collect();
    std::fs::write(file.path(), bytes).expect("space");
    file
}

fn read_all(file: &File, pages: usize) {
    let mut found = [0; PAGE];
    for page in 0..pages {
        assert_eq!(file.read((page * PAGE) as u64, &mut found), Ok(PAGE));
        assert_eq!(found, [page as u8; PAGE], "page {page}");
    }
}

/// Returns the number of pages read so far, once no more are being read.
fn pages_read(cache: &Cache) -> u64 {
    let mut before = u64::MAX;
    loop {
        let now = cache.stats().kib_read / 4;
        if now == before {
            return now;
        }
        before = now;
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn ends_well(cache: &Cache) {
    assert!(cache.shutdown().is_clean());
    cache.recount().expect("lists and counters agree");
}

/// Creates a cache of 16 MiB of which 2 MiB are class 1.
fn two_classes(reserve_ratio: u32) -> Cache {
    let class = Class {
        memory: 2 * MIB,
        ..Default::default()
    };
    let config = Config {
        memory: 16 * MIB,
        classes: vec![class],
        reserve_ratio,
        cpus: 2,
        ..Default::default()
    };
    Cache::new(config).expect("memory")
}

/// Reading a large file evicts the pages of files of its own class, but not those of a higher
/// class.
#[test]
fn a_class_is_for_those_who_ask_for_it() {
    for class in [1, 0] {
        let (dear, flood) = (file_of(200), file_of(8000));
        let cache = two_classes(32);
        let a = cache.open(dear.path()).expect("a file");
        a.set_class(class).expect("a class");
        read_all(&a, 200);
        let [general, high] = cache.classes()[..] else {
            panic!("two classes");
        };
        assert_eq!((general.pages, high.pages), (3584, 512));
        assert_eq!(high.cached, if class == 1 { 200 } else { 0 });
        let b = cache.open(flood.path()).expect("a file");
        read_all(&b, 8000);
        let read = pages_read(&cache);
        read_all(&a, 200);
        let again = pages_read(&cache) - read;
        assert_eq!(again, if class == 1 { 0 } else { 200 });
        let [general, high] = cache.classes()[..] else {
            panic!("two classes");
        };
        assert!(general.evicted > 3000 && high.evicted == 0, "{general:?}");
        drop((a, b));
        ends_well(&cache);
    }
}

/// A file larger than its class takes pages of the class below, except for that class's reserve.
#[test]
fn a_class_that_is_full_takes_from_those_below_it() {
    let below = [32, 1].map(|reserve_ratio| {
        let file = file_of(3900);
        let cache = two_classes(reserve_ratio);
        let a = cache.open(file.path()).expect("a file");
        a.set_class(1).expect("a class");
        read_all(&a, 3900);
        let [general, high] = cache.classes()[..] else {
            panic!("two classes");
        };
        assert!(high.cached > 300, "{high:?}");
        drop(a);
        ends_well(&cache);
        general.cached
    });
    // With a ratio of 1, class 0 keeps as many pages free as class 1 has.
    assert!(below[0] > 3000 && below[1] < below[0] - 300, "{below:?}");
}

#[test]
fn a_class_has_its_own_watermarks() {
    let marks = Marks {
        min: 64 << 10,
        low: 512 << 10,
        high: MIB,
    };
    let class = Class {
        memory: 4 * MIB,
        marks: Some(marks),
        ..Default::default()
    };
    let config = Config {
        memory: 16 * MIB,
        classes: vec![class],
        ..Default::default()
    };
    let cache = Cache::new(config).expect("memory");
    assert_eq!(cache.classes()[1].marks, [16, 128, 256]);
    let kernels = cache.classes()[0].marks;
    assert!(kernels[2] < 200, "the other has the kernel's: {kernels:?}");
    let file = file_of(4000);
    let a = cache.open(file.path()).expect("a file");
    a.set_class(1).expect("a class");
    read_all(&a, 4000);
    // kswapd stops at the class's high mark; pages on per-CPU lists do not count as free.
    let settled = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        cache.classes()[1].free >= 200
    });
    assert!(settled, "{:?}", cache.classes());
    ends_well(&cache);
}

/// Self-adjusting watermarks adjust here as well, starting from a class's own marks.
#[test]
fn watermarks_adjust_in_the_class_where_somebody_had_to_reclaim() {
    let policy = Policy {
        watermarks: Watermarks::Auto,
        ..Policy::linux_3_16()
    };
    let config = Config {
        memory: 8 * MIB,
        cpus: 1,
        policy,
        ..Default::default()
    };
    let cache = Cache::new(config).expect("memory");
    let before = cache.classes()[0].marks;
    let file = file_of(8000);
    let a = cache.open(file.path()).expect("a file");
    let raised = (0..50).any(|_| {
        read_all(&a, 8000);
        cache.classes()[0].marks[1] > before[1]
    });
    // Only direct reclaim raises the marks.
    assert_eq!(raised, cache.stats().direct_reclaims > 0);
    drop(a);
    ends_well(&cache);
}

#[test]
fn memory_is_held_as_it_is_asked_for() {
    let locked = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
        let line = status.lines().find(|l| l.starts_with("VmLck:"));
        let kb = line.and_then(|l| l.split_whitespace().nth(1));
        kb.and_then(|kb| kb.parse::<u64>().ok()).expect("a figure")
    };
    let before = locked();
    let class = Class {
        memory: MIB,
        held: Held::Locked,
        ..Default::default()
    };
    let config = Config {
        memory: 8 * MIB,
        classes: vec![class],
        held: Held::HugePages,
        ..Default::default()
    };
    let cache = match Cache::new(config) {
        Ok(cache) => cache,
        // A system where not even one MiB may be locked must say so.
        Err(e) => return assert!(e.to_string().contains("RLIMIT_MEMLOCK"), "{e}"),
    };
    assert_eq!(locked(), before + 1024);
    drop(cache);
    assert_eq!(locked(), before);
}

#[test]
fn classes_that_cannot_be_are_refused_in_words() {
    let class = |memory, marks| Class {
        memory,
        marks,
        ..Default::default()
    };
    let marks = |min, low, high| Some(Marks { min, low, high });
    for (classes, what) in [
        (vec![class(MIB, None); 3], "up to 2"),
        (vec![class(4096, None)], "at least 1 MiB"),
        (vec![class(16 * MIB, None)], "class 0 has 0"),
        (vec![class(MIB, marks(9, 8, 10))], "ascend"),
        (vec![class(MIB, marks(1, 2, MIB))], "half"),
    ] {
        let config = Config {
            memory: 16 * MIB,
            classes,
            ..Default::default()
        };
        let said = Cache::new(config).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    }
    let cache = two_classes(32);
    let file = file_of(1);
    let file = cache.open(file.path()).expect("a file");
    let said = file.set_class(2).unwrap_err();
    assert_eq!(
        said.to_string(),
        "class 2: accepted are 0 to 1 in this cache"
    );
    assert_eq!(cache.buffer(0, 0).map(|_| ()), Err(Error::BufferSize(0)));
    assert_eq!(
        cache.buffer(32769, 0).map(|_| ()),
        Err(Error::BufferSize(32769))
    );
}

/// Objects that could be made again, the newest last.
struct Objects {
    held: Mutex<Vec<Buffer>>,
    asked: AtomicU64,
    freed: AtomicU64,
    seeks: u32,
    /// A file that the shrinker calls while it is called, and the error of that call.
    cache: OnceLock<(File, Mutex<Option<Error>>)>,
}

impl Objects {
    fn new(seeks: u32) -> Arc<Self> {
        Arc::new(Self {
            held: Mutex::default(),
            asked: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            seeks,
            cache: OnceLock::new(),
        })
    }

    fn len(&self) -> usize {
        self.held.lock().unwrap().len()
    }
}

impl Shrinker for Objects {
    fn count(&self) -> u64 {
        self.held.try_lock().map_or(0, |held| held.len() as u64)
    }

    fn scan(&self, n: u64) -> Option<u64> {
        if let Some((file, told)) = self.cache.get() {
            *told.lock().unwrap() = file.fsync().err();
        }
        self.asked.fetch_add(n, SeqCst);
        let mut held = self.held.try_lock().ok()?;
        let n = (n as usize).min(held.len());
        held.drain(..n);
        self.freed.fetch_add(n as u64, SeqCst);
        Some(n as u64)
    }

    fn seeks(&self) -> u32 {
        self.seeks
    }

    fn batch(&self) -> u32 {
        16
    }
}

fn with_objects(n: usize, seeks: u32) -> (Cache, Arc<Objects>, Registration) {
    let config = Config {
        memory: 16 * MIB,
        cpus: 2,
        ..Default::default()
    };
    let cache = Cache::new(config).expect("memory");
    let objects = Objects::new(seeks);
    let shrinker = Arc::clone(&objects) as Arc<dyn Shrinker>;
    let registered = cache.register_shrinker(shrinker).expect("room");
    for i in 0..n {
        let mut b = cache.buffer(PAGE, 0).expect("memory");
        assert!(b.iter().all(|&byte| byte == 0), "it is fresh");
        b.fill(i as u8);
        objects.held.lock().unwrap().push(b);
    }
    (cache, objects, registered)
}

/// Reading a file has buffers freed through their shrinker; the buffers that remain keep their
/// contents.
#[test]
fn objects_give_way_to_pages_as_they_are_asked() {
    let (cache, objects, registered) = with_objects(2500, 2);
    assert_eq!(cache.stats().buffers, 2500);
    let file = file_of(8000);
    let a = cache.open(file.path()).expect("a file");
    let again = cache.open(file.path()).expect("a file");
    assert!(objects.cache.set((again, Mutex::default())).is_ok());
    read_all(&a, 8000);
    let left = objects.len() as u64;
    assert_eq!(objects.freed.load(SeqCst) + left, 2500);
    assert!(objects.freed.load(SeqCst) > 500, "{left} are left");
    assert_eq!(cache.stats().buffers, left);
    let scanned = cache
        .vmstat()
        .into_iter()
        .find(|(n, _)| n == "slabs_scanned");
    assert!(scanned.expect("a counter").1 >= objects.freed.load(SeqCst));
    for (i, b) in objects.held.lock().unwrap().iter().rev().enumerate() {
        let was = (2499 - i) as u8;
        assert!(
            b.iter().all(|&byte| byte == was),
            "the newest stay as they were"
        );
    }
    // A shrinker may not call the cache.
    let (again, told) = objects.cache.get().expect("set above");
    assert_eq!(*told.lock().unwrap(), Some(Error::InShrinker));
    assert_eq!(again.fsync(), Ok(()), "anywhere else it is");
    // A shrinker that is not registered any more is not called.
    drop(registered);
    let asked = objects.asked.load(SeqCst);
    read_all(&a, 8000);
    assert_eq!(objects.asked.load(SeqCst), asked);
    drop(a);
    assert!(cache.shutdown().is_clean());
    // Buffers may outlive their cache.
    drop(cache);
    objects.held.lock().unwrap().clear();
}

/// A shrinker with a high cost per object is asked for fewer objects.
#[test]
fn dear_objects_are_asked_for_less() {
    let asked = [2, 64].map(|seeks| {
        let (cache, objects, _registered) = with_objects(1000, seeks);
        let file = file_of(6000);
        let a = cache.open(file.path()).expect("a file");
        read_all(&a, 6000);
        drop(a);
        assert!(cache.shutdown().is_clean());
        let freed = objects.freed.load(SeqCst);
        objects.held.lock().unwrap().clear();
        cache.recount().expect("lists and counters agree");
        freed
    });
    assert!(asked[1] < asked[0] / 2, "{asked:?}");
}

/// Buffers can only be freed by their owner, so memory full of them is an error with figures.
#[test]
fn memory_full_of_buffers_is_told_in_figures() {
    let config = Config {
        memory: 4 * MIB,
        cpus: 1,
        ..Default::default()
    };
    let cache = Cache::new(config).expect("memory");
    let mut held = Vec::new();
    let error = loop {
        match cache.buffer(3 * PAGE, 0) {
            Ok(b) => held.push(b),
            Err(e) => break e,
        }
    };
    let pages = 4 * held.len() as u32;
    assert!(pages > 900, "{pages}");
    let wanted = Error::TooManyPins {
        pinned: 0,
        buffers: pages,
        pages: 1024,
    };
    assert_eq!(error, wanted);
    assert!(error.to_string().contains("are buffers"), "{error}");
    // A buffer may be freed by any thread, even by one that is ending.
    let last = held.pop().expect("many");
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Buffer>> = const { std::cell::RefCell::new(None) };
    }
    std::thread::spawn(move || KEPT.with(|kept| *kept.borrow_mut() = Some(last)))
        .join()
        .expect("a thread");
    assert_eq!(cache.stats().buffers, u64::from(pages) - 4);
    held.truncate(10);
    let file = file_of(100);
    let a = cache.open(file.path()).expect("a file");
    read_all(&a, 100);
    drop((a, held));
    ends_well(&cache);
}

/// Threads that write, read, sync and truncate make progress in very small caches.
#[test]
fn pools_of_a_few_pages_make_progress() {
    for pages in [8, 16, 64] {
        let config = Config {
            memory: pages * PAGE as u64,
            cpus: 1,
            ..Default::default()
        };
        let cache = Cache::new(config).expect("memory");
        let files: Vec<_> = (0..3).map(|_| file_of(200)).collect();
        std::thread::scope(|s| {
            for file in &files {
                let (cache, path) = (&cache, file.path());
                s.spawn(move || {
                    let file = cache.open(path).expect("a file");
                    let mut found = [0; PAGE];
                    for i in 0..600usize {
                        let page = i * 71 % 200;
                        let at = (page * PAGE) as u64;
                        if i % 3 == 0 {
                            file.write(at, &[page as u8; PAGE]).expect("a write");
                        } else {
                            assert_eq!(file.read(at, &mut found), Ok(PAGE));
                            assert_eq!(found, [page as u8; PAGE], "page {page}");
                        }
                        match i % 97 {
                            0 => file.fsync().expect("a sync"),
                            1 => drop(file.pin(page as u32).expect("a pin")),
                            2 => file.pin_mut(page as u32).expect("a pin")[7] = page as u8,
                            _ => {}
                        }
                    }
                    file.truncate(50 * PAGE as u64).expect("a cut");
                    read_all(&file, 50);
                });
            }
        });
        let stats = cache.stats();
        assert_eq!(stats.pages, pages);
        assert!(stats.evicted > 1000, "{stats:?}");
        ends_well(&cache);
    }
}

/// Every policy of `evict` works in the live cache: a hot set that is read between parts of a scan
/// is evicted again and again by some, and kept by others.
#[test]
fn an_eviction_policy_decides_what_goes() {
    let misses = |name: &str| {
        let policy = Policy {
            eviction: Eviction::parse(name).expect("a policy"),
            ..Policy::linux_3_16()
        };
        let config = Config {
            memory: 4 * MIB,
            cpus: 1,
            policy,
            ..Default::default()
        };
        let cache = Cache::new(config).expect("memory");
        let (hot, scan) = (file_of(300), file_of(4000));
        let hot = cache.open(hot.path()).expect("a file");
        let scan = cache.open(scan.path()).expect("a file");
        for file in [&hot, &scan] {
            file.advise(0, 0, lowmark_cache::Advice::Random)
                .expect("open");
        }
        let mut found = [0; PAGE];
        let mut read = |file: &File, page: usize| {
            assert_eq!(file.read((page * PAGE) as u64, &mut found), Ok(PAGE));
            assert_eq!(found, [page as u8; PAGE], "page {page}");
        };
        for part in 0..8 {
            (0..500).for_each(|i| read(&scan, part * 500 + i));
            (0..2).for_each(|_| (0..300).for_each(|page| read(&hot, page)));
        }
        let misses = cache.stats().kib_read / 4;
        drop((hot, scan));
        ends_well(&cache);
        misses
    };
    let of: Vec<(&str, u64)> = Eviction::NAMES.iter().map(|n| (*n, misses(n))).collect();
    // Each page of the scan and of the hot set is read at least once.
    assert!(
        of.iter().all(|&(_, n)| (4300..4300 + 2400).contains(&n)),
        "{of:?}"
    );
    let by = |name: &str| of.iter().find(|o| o.0 == name).expect("a policy").1;
    assert!(by("fifo") > by("lru") + 300, "{of:?}");
}
