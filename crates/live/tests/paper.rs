//! Draws operations on a few files under several names, in caches of drawn sizes one after the
//! other, and compares every byte with the same files on paper.
//!
//! Beside `faulty.rs`, whose storages fail, this has the operations that move names about (hard
//! links, renames, removals), pools down to 8 pages, fewer mapping numbers than names, pages
//! changed in place, futures, files that reach beyond 1 TiB, and restarts. `LOWMARK_SEEDS` is the
//! number of seeds.

mod executor;

use lowmark_cache::{Advice, Cache, Config, Error, File, Held, Transfers};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;
/// Names that files have, and the most handles that are open at a time.
const NAMES: u64 = 6;
const HANDLES: usize = 6;
/// Operations of a seed.
const STEPS: u64 = 1500;

/// A pseudorandom generator: xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number from 0 to `n` - 1.
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % n
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A file on paper: its length and its pages, of which those that are missing are zero.
#[derive(Default)]
struct Paper {
    len: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

/// Splits a range of bytes into pages: for each its number, and the first byte and the end within.
fn pages(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at + len as u64;
    (at / PAGE as u64..end.div_ceil(PAGE as u64)).map(move |page| {
        let base = page * PAGE as u64;
        let within = |x: u64| x.saturating_sub(base).min(PAGE as u64) as usize;
        (page, within(at), within(end))
    })
}

impl Paper {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (page, from, to) in pages(at, bytes.len()) {
            let (now, later) = rest.split_at(to - from);
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE]));
            page[from..to].copy_from_slice(now);
            rest = later;
        }
        if !bytes.is_empty() {
            self.len = self.len.max(at + bytes.len() as u64);
        }
    }

    /// Returns what a read of `n` bytes at `at` finds, fewer at the end.
    fn read(&self, at: u64, n: usize) -> Vec<u8> {
        let n = self.len.saturating_sub(at).min(n as u64) as usize;
        let mut all = Vec::with_capacity(n);
        for (page, from, to) in pages(at, n) {
            match self.pages.get(&page) {
                Some(page) => all.extend_from_slice(&page[from..to]),
                None => all.resize(all.len() + to - from, 0),
            }
        }
        all
    }

    fn truncate(&mut self, len: u64) {
        self.pages.split_off(&len.div_ceil(PAGE as u64));
        if let Some(page) = self.pages.get_mut(&(len / PAGE as u64)) {
            page[len as usize % PAGE..].fill(0);
        }
        self.len = len;
    }

    /// Compares the file at a path with the paper.
    fn compare(&self, path: &Path, when: &str) {
        let file = fs::File::open(path).expect("the file");
        let len = file.metadata().expect("the file").len();
        assert_eq!(len, self.len, "{when}: length in the file");
        let mut found = [0; PAGE];
        for (&page, bytes) in &self.pages {
            let at = page * PAGE as u64;
            let n = (self.len - at).min(PAGE as u64) as usize;
            file.read_exact_at(&mut found[..n], at).expect("a read");
            assert!(found[..n] == bytes[..n], "{when}: page {page} in the file");
        }
    }
}

/// A handle, and the number of its file's paper.
struct Handle {
    file: File,
    paper: u64,
}

/// A drawn test.
struct Drawn {
    dir: PathBuf,
    random: Random,
    config: Config,
    cache: Cache,
    handles: Vec<Handle>,
    /// The paper that each name leads to.
    names: BTreeMap<u64, u64>,
    papers: BTreeMap<u64, Paper>,
    next: u64,
    /// Some positions are beyond 1 TiB.
    far: bool,
    seed: u64,
    step: u64,
}

/// Draws a configuration: from 8 pages on, and with few files.
fn configuration(random: &mut Random) -> Config {
    Config {
        memory: random.one_of(&[32 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]),
        cpus: 2,
        max_files: random.one_of(&[7, 12, 64]),
        transfers: random.one_of(&[Transfers::Ring, Transfers::Calls]),
        held: Held::Ordinary,
        ..Config::default()
    }
}

impl Drawn {
    fn new(seed: u64, dir: &Path) -> Self {
        let mut random = Random::new(seed + 1);
        let config = configuration(&mut random);
        Self {
            dir: dir.to_owned(),
            cache: Cache::new(config.clone()).expect("a cache"),
            config,
            handles: Vec::new(),
            names: BTreeMap::new(),
            papers: BTreeMap::new(),
            next: 0,
            far: random.below(4) == 0,
            random,
            seed,
            step: 0,
        }
    }

    /// Returns the step in words, for a message.
    fn when(&self) -> String {
        let c = &self.config;
        format!(
            "seed {} step {} memory {} files {} {:?}",
            self.seed, self.step, c.memory, c.max_files, c.transfers
        )
    }

    fn path(&self, name: u64) -> PathBuf {
        self.dir.join(format!("n{name}"))
    }

    /// Draws a handle, and returns its number.
    fn any(&mut self) -> Option<usize> {
        let n = self.handles.len() as u64;
        (n > 0).then(|| self.random.below(n) as usize)
    }

    /// Draws a position in a file of `len` bytes, often at or near the end.
    fn position(&mut self, len: u64) -> u64 {
        let random = &mut self.random;
        match random.below(6) {
            0 => len,
            1 => random.below(len + 1),
            2 => random.below(len + 1) / PAGE as u64 * PAGE as u64,
            3 if self.far => (1 << 40) + random.below(1 << 20),
            4 => random.below(1 << 21),
            _ => random.below(300_000),
        }
    }

    /// Does one drawn operation.
    fn step(&mut self) {
        match self.random.below(100) {
            0..8 => self.open(),
            8..12 => {
                if let Some(i) = self.any() {
                    self.handles.swap_remove(i);
                }
            }
            12..40 => self.with_handle(Self::write),
            40..62 => self.with_handle(Self::read),
            62..68 => self.with_handle(Self::pin),
            68..74 => self.with_handle(Self::pin_mut),
            74..79 => self.with_handle(Self::truncate),
            79..83 => self.with_handle(Self::fsync),
            83..87 => self.with_handle(Self::advise),
            87..94 => self.rename(),
            94..99 => self.with_handle(Self::futures),
            _ => self.restart(),
        }
    }

    fn with_handle(&mut self, f: fn(&mut Self, &Handle)) {
        if let Some(i) = self.any() {
            let handle = self.handles.swap_remove(i);
            f(self, &handle);
            self.handles.push(handle);
        }
    }

    fn open(&mut self) {
        if self.handles.len() == HANDLES {
            return;
        }
        let (name, when) = (self.random.below(NAMES), self.when());
        let file = self.cache.open(self.path(name));
        let file = file.unwrap_or_else(|e| panic!("{when}: open: {e}"));
        let paper = *self.names.entry(name).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let len = self.papers.entry(paper).or_default().len;
        assert_eq!(file.size(), len, "{when}: the length of an opened file");
        self.handles.push(Handle { file, paper });
    }

    fn paper(&mut self, handle: &Handle) -> &mut Paper {
        self.papers.get_mut(&handle.paper).expect("an open file")
    }

    fn write(&mut self, handle: &Handle) {
        let (len, when) = (self.paper(handle).len, self.when());
        let at = self.position(len);
        let n = self.random.one_of(&[1, 10, 4096, 5000, 20_000, 70_000]);
        let n = 1 + self.random.below(n) as usize;
        let bytes = vec![(self.step % 255 + 1) as u8; n];
        let written = match self.random.below(4) {
            0 => {
                let (a, b) = bytes.split_at(self.random.below(n as u64 + 1) as usize);
                handle
                    .file
                    .write_vectored(at, &[IoSlice::new(a), IoSlice::new(b)])
            }
            _ => handle.file.write(at, &bytes),
        };
        written.unwrap_or_else(|e| panic!("{when}: write of {n} at {at}: {e}"));
        self.paper(handle).write(at, &bytes);
    }

    fn read(&mut self, handle: &Handle) {
        let (len, when) = (self.paper(handle).len, self.when());
        let at = self.position(len);
        let n = self.random.one_of(&[1, 100, 5000, 70_000]);
        let n = 1 + self.random.below(n) as usize;
        let mut found = vec![0xee; n];
        let read = match self.random.below(3) {
            0 => {
                let cut = self.random.below(n as u64 + 1) as usize;
                let (a, b) = found.split_at_mut(cut);
                let mut parts = [IoSliceMut::new(a), IoSliceMut::new(b)];
                handle.file.read_vectored(at, &mut parts)
            }
            _ => handle.file.read(at, &mut found),
        };
        let read = read.unwrap_or_else(|e| panic!("{when}: read of {n} at {at}: {e}"));
        let wanted = self.paper(handle).read(at, n);
        assert_eq!(read, wanted.len(), "{when}: read of {n} at {at} of {len}");
        let wrong = found.iter().zip(&wanted).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{when}: a wrong byte behind {at}");
    }

    fn pin(&mut self, handle: &Handle) {
        let (len, when) = (self.paper(handle).len, self.when());
        let page = self.position(len) / PAGE as u64;
        match handle.file.pin(page as u32) {
            Ok(bytes) => {
                let mut wanted = self.paper(handle).read(page * PAGE as u64, PAGE);
                assert!(!wanted.is_empty(), "{when}: page {page} behind the end");
                wanted.resize(PAGE, 0);
                assert!(bytes[..] == wanted[..], "{when}: page {page}");
            }
            Err(Error::BehindEnd) => assert!(page * PAGE as u64 >= len, "{when}: page {page}"),
            Err(e) => panic!("{when}: page {page}: {e}"),
        }
    }

    fn pin_mut(&mut self, handle: &Handle) {
        let (len, when) = (self.paper(handle).len, self.when());
        if len == 0 {
            return;
        }
        let page = self.random.below(len.div_ceil(PAGE as u64));
        let from = self.random.below(PAGE as u64) as usize;
        let to = (from + 1 + self.random.below(PAGE as u64) as usize).min(PAGE);
        let byte = (self.step % 251 + 1) as u8;
        {
            let held = handle.file.pin_mut(page as u32);
            let mut held = held.unwrap_or_else(|e| panic!("{when}: page {page}: {e}"));
            held[from..to].fill(byte);
        }
        // Bytes behind the file's end are zeroed when the page is let go.
        let end = ((len - page * PAGE as u64).min(PAGE as u64) as usize).min(to);
        let bytes = vec![byte; end.saturating_sub(from)];
        let at = page * PAGE as u64 + from as u64;
        self.paper(handle).write(at, &bytes);
    }

    fn truncate(&mut self, handle: &Handle) {
        let (len, when) = (self.paper(handle).len, self.when());
        let to = self.position(len);
        let cut = handle.file.truncate(to);
        cut.unwrap_or_else(|e| panic!("{when}: truncation to {to}: {e}"));
        self.paper(handle).truncate(to);
        assert_eq!(handle.file.size(), to, "{when}");
    }

    fn fsync(&mut self, handle: &Handle) {
        let when = self.when();
        let synced = handle.file.fsync();
        synced.unwrap_or_else(|e| panic!("{when}: fsync: {e}"));
        let named = self.names.iter().find(|&(_, &paper)| paper == handle.paper);
        if let Some((&name, _)) = named {
            let path = self.path(name);
            self.paper(handle)
                .compare(&path, &format!("{when}: after an fsync"));
        }
    }

    fn advise(&mut self, handle: &Handle) {
        let (len, when) = (self.paper(handle).len, self.when());
        let (at, n) = (self.position(len), self.random.below(200_000));
        let file = &handle.file;
        let done = match self.random.below(6) {
            0 => file.flush(at, n),
            1 => file.prefetch(at, n).map(drop),
            2 => file.drop_cache(at, n).map(drop),
            3 => file.advise(at, n, Advice::WillNeed),
            4 => file.advise(at, n, Advice::DontNeed),
            _ => {
                let all = [Advice::Sequential, Advice::Random, Advice::Normal];
                file.advise(0, 0, self.random.one_of(&all))
            }
        };
        done.unwrap_or_else(|e| panic!("{when}: advice: {e}"));
    }

    /// Links, renames or removes a name.
    fn rename(&mut self) {
        let (a, b) = (self.random.below(NAMES), self.random.below(NAMES));
        let Some(&paper) = self.names.get(&a) else {
            return;
        };
        let (from, to) = (self.path(a), self.path(b));
        match self.random.below(7) {
            0..2 => {
                if let Entry::Vacant(name) = self.names.entry(b) {
                    fs::hard_link(from, to).expect("a link");
                    name.insert(paper);
                }
            }
            2..5 => {
                if a != b {
                    fs::rename(from, to).expect("a rename");
                    // A rename over another name of the same file does nothing.
                    if self.names.insert(b, paper) != Some(paper) {
                        self.names.remove(&a);
                    }
                }
            }
            _ => {
                fs::remove_file(from).expect("a removal");
                self.names.remove(&a);
            }
        }
    }

    /// Makes some calls as futures, of which some are dropped before they are polled.
    fn futures(&mut self, handle: &Handle) {
        let when = self.when();
        let named = self.names.iter().find(|&(_, &paper)| paper == handle.paper);
        let Some((&name, _)) = named else {
            return;
        };
        let file = self.cache.open(self.path(name)).expect("a file");
        let file = file.into_async().expect("threads");
        for _ in 0..3 {
            let len = self.paper(handle).len;
            let (at, n) = (self.position(len), 1 + self.random.below(20_000) as usize);
            let bytes = vec![(self.step % 255 + 1) as u8; n];
            match self.random.below(4) {
                0 => {
                    let (done, bytes) = executor::block_on(file.write(at, bytes));
                    done.unwrap_or_else(|e| panic!("{when}: write as a future: {e}"));
                    self.paper(handle).write(at, &bytes);
                }
                1 => {
                    let (read, found) = executor::block_on(file.read(at, vec![0xee; n]));
                    let read = read.unwrap_or_else(|e| panic!("{when}: read as a future: {e}"));
                    let wanted = self.paper(handle).read(at, n);
                    assert!(found[..read] == wanted[..], "{when}: a read as a future");
                }
                2 => {
                    let synced = executor::block_on(file.fsync());
                    synced.unwrap_or_else(|e| panic!("{when}: fsync as a future: {e}"));
                }
                _ => drop(file.write(at, bytes)),
            }
        }
        executor::block_on(file.close());
    }

    /// Ends the cache, compares all files, and begins another with a drawn configuration.
    fn restart(&mut self) {
        if self.random.below(4) > 0 {
            return;
        }
        let when = self.when();
        self.handles.clear();
        let end = self.cache.shutdown();
        assert!(end.is_clean(), "{when}: {end:?}");
        let agree = self.cache.recount();
        agree.unwrap_or_else(|e| panic!("{when}: recount: {e}"));
        self.papers
            .retain(|paper, _| self.names.values().any(|p| p == paper));
        for (&name, paper) in &self.names {
            self.papers[paper].compare(&self.path(name), &format!("{when}: at the end"));
        }
        self.config = configuration(&mut self.random);
        self.cache = Cache::new(self.config.clone()).expect("a cache");
    }
}

#[test]
fn drawn_operations_leave_what_they_leave_on_paper() {
    let asked = std::env::var("LOWMARK_SEEDS");
    let seeds = asked.map_or(20, |n| n.parse().expect("LOWMARK_SEEDS is a number"));
    for seed in 0..seeds {
        let dir = tempfile::tempdir().expect("a folder");
        let mut drawn = Drawn::new(seed, dir.path());
        for step in 0..STEPS {
            drawn.step = step;
            drawn.step();
        }
        drawn.handles.clear();
        assert!(drawn.cache.shutdown().is_clean(), "{}", drawn.when());
    }
}
