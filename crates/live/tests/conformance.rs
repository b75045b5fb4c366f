//! Tests the laws in the live world: by four threads, or by as many futures on one thread; on real
//! files, with every byte compared.

mod executor;

use conformance::{Law, Machine, conclude};
use executor::Many;
use lowmark_cache::{AsyncFile, Cache, Config, File, LiveWorld};
use mm::view::View;
use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// One thread's view. Calls block, so its futures are ready at the first poll.
struct Thread<'a> {
    cache: &'a Cache,
    dir: &'a Path,
    files: RefCell<Vec<(File, std::fs::File)>>,
}

impl Thread<'_> {
    fn with<R>(&self, file: u32, f: impl FnOnce(&File, &std::fs::File) -> R) -> R {
        let files = self.files.borrow();
        let open = files.iter().find(|(f, _)| f.mapping() == file);
        let (cached, raw) = open.expect("an open file");
        f(cached, raw)
    }
}

impl Machine for Thread<'_> {
    type World = LiveWorld;
    const CONTENTS: bool = true;

    fn engine(&self) -> View<'_, LiveWorld> {
        self.cache.view()
    }

    async fn open(&self, name: &str) -> u32 {
        let path = self.dir.join(name);
        let file = self.cache.open(&path).expect("a file");
        let raw = std::fs::File::open(&path).expect("the same file");
        let mapping = file.mapping();
        self.files.borrow_mut().push((file, raw));
        mapping
    }

    async fn write(&self, file: u32, pos: u64, bytes: &[u8]) {
        self.with(file, |f, _| f.write(pos, bytes).expect("a write"));
    }

    async fn read(&self, file: u32, pos: u64, bytes: &mut [u8]) -> usize {
        self.with(file, |f, _| f.read(pos, bytes).expect("a read"))
    }

    async fn fsync(&self, file: u32) -> bool {
        self.with(file, |f, _| f.fsync().is_ok())
    }

    async fn truncate(&self, file: u32, len: u64) {
        self.with(file, |f, _| f.truncate(len).expect("a truncation"));
    }

    fn on_device(&self, file: u32, pos: u64, bytes: &mut [u8]) -> usize {
        self.with(file, |_, raw| raw.read_at(bytes, pos).expect("a read"))
    }
}

/// One task's view, whose calls are futures.
struct Task<'a> {
    cache: &'a Cache,
    dir: &'a Path,
    files: RefCell<Vec<(AsyncFile, std::fs::File)>>,
}

impl Task<'_> {
    fn file(&self, file: u32) -> AsyncFile {
        let files = self.files.borrow();
        let open = files.iter().find(|(f, _)| f.file().mapping() == file);
        open.expect("an open file").0.clone()
    }
}

impl Machine for Task<'_> {
    type World = LiveWorld;
    const CONTENTS: bool = true;

    fn engine(&self) -> View<'_, LiveWorld> {
        self.cache.view()
    }

    async fn open(&self, name: &str) -> u32 {
        let path = self.dir.join(name);
        let file = self.cache.open(&path).expect("a file");
        let raw = std::fs::File::open(&path).expect("the same file");
        let mapping = file.mapping();
        let file = file.into_async().expect("threads");
        self.files.borrow_mut().push((file, raw));
        mapping
    }

    async fn write(&self, file: u32, pos: u64, bytes: &[u8]) {
        let write = self.file(file).write(pos, bytes.to_vec());
        write.await.0.expect("a write");
    }

    async fn read(&self, file: u32, pos: u64, bytes: &mut [u8]) -> usize {
        let (n, buf) = self.file(file).read(pos, bytes.to_vec()).await;
        bytes.copy_from_slice(&buf);
        n.expect("a read")
    }

    async fn fsync(&self, file: u32) -> bool {
        self.file(file).fsync().await.is_ok()
    }

    async fn truncate(&self, file: u32, len: u64) {
        let cut = self.file(file).truncate(len);
        cut.await.expect("a truncation");
    }

    fn on_device(&self, file: u32, pos: u64, bytes: &mut [u8]) -> usize {
        let files = self.files.borrow();
        let open = files.iter().find(|(f, _)| f.file().mapping() == file);
        let (_, raw) = open.expect("an open file");
        raw.read_at(bytes, pos).expect("a read")
    }
}

/// Runs the tasks of a law as threads.
fn by_threads<L: Law>(law: &L, cache: &Cache, dir: &Path) {
    std::thread::scope(|s| {
        for who in 0..L::TASKS {
            s.spawn(move || {
                let thread = Thread {
                    cache,
                    dir,
                    files: RefCell::default(),
                };
                let task = pin!(law.task(&thread, who));
                let mut context = Context::from_waker(Waker::noop());
                assert!(matches!(task.poll(&mut context), Poll::Ready(())));
            });
        }
    });
}

/// Runs the tasks of a law as futures on this thread.
fn by_futures<L: Law>(law: &L, cache: &Cache, dir: &Path) {
    let mut many = Many::default();
    for who in 0..L::TASKS {
        many.spawn(async move {
            let files = RefCell::default();
            law.task(&Task { cache, dir, files }, who).await;
        });
    }
    many.run();
}

fn run<L: Law>(law: &L, cpus: usize, futures: bool) {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(Config {
        memory: u64::from(L::MEMORY) * 4096,
        cpus,
        max_threads: L::TASKS as u32 + 1,
        max_files: 16,
        ..Config::default()
    })
    .expect("a cache");
    match futures {
        false => by_threads(law, &cache, dir.path()),
        true => by_futures(law, &cache, dir.path()),
    }
    let end = cache.shutdown();
    assert_eq!((end.lost_pages, end.failed.len()), (0, 0));
    assert_eq!(cache.stats().dirty + cache.stats().writeback, 0);
    conclude(law, cache.view(), cache.recount());
}

macro_rules! law {
    ($name:ident, $law:expr) => {
        #[test]
        fn $name() {
            // With fewer slots than threads, and with a slot for each thread.
            for cpus in [1, 2, 8] {
                run(&$law, cpus, false);
                run(&$law, cpus, true);
            }
        }
    };
}

conformance::for_each_law!(law);
