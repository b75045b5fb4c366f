//! The conformance laws in the virtual world: the tasks of each law on xfs over NVMe, SSD and
//! rotating disks, on machines of one, two and four CPUs, with a thousand seeds. Files of every
//! filesystem are also compared with a model of files.
#![recursion_limit = "256"]

mod common;

use common::{bare, disk, spec};
use conformance::model::{self, Failure, Files};
use conformance::{Law, Machine, conclude};
use mm::ZoneType;
use mm::memory::task::PF_SWAPWRITE;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::view::View;
use sim::SimMm;
use sim::filesystems as fs;
use sim::sched::Event;
use sim::spec::{DiskKind, FsKind, RunSpec};
use sim::world::SimWorld;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of seeds for each law.
const SEEDS: u64 = 1000;

struct Task<'a> {
    mm: &'a SimMm<false>,
    names: &'a RefCell<BTreeMap<String, u32>>,
}

impl Machine for Task<'_> {
    type World = SimWorld<false>;
    const CONTENTS: bool = false;

    fn engine(&self) -> View<'_, Self::World> {
        self.mm.view()
    }

    async fn open(&self, name: &str) -> u32 {
        let mut names = self.names.borrow_mut();
        *names
            .entry(name.to_owned())
            .or_insert_with(|| fs::create(self.mm).expect("a file"))
    }

    async fn write(&self, file: u32, pos: u64, bytes: &[u8]) {
        fs::write(self.mm, file, pos, bytes.len() as u64)
            .await
            .expect("a write");
    }

    async fn read(&self, file: u32, pos: u64, bytes: &mut [u8]) -> usize {
        let n = fs::read(self.mm, file, pos, bytes.len() as u64).await;
        n.expect("a read") as usize
    }

    async fn fsync(&self, file: u32) -> bool {
        fs::fsync(self.mm, file).await
    }

    async fn truncate(&self, file: u32, len: u64) {
        fs::truncate(self.mm, file, len).await;
    }

    fn on_device(&self, _: u32, _: u64, _: &mut [u8]) -> usize {
        unreachable!("the virtual world carries no contents")
    }
}

/// Files with names, which the virtual world's filesystems leave to their callers.
struct Paper<'a> {
    mm: &'a SimMm<false>,
    names: RefCell<BTreeMap<String, u32>>,
    users: RefCell<BTreeMap<u32, u32>>,
    /// Numbers of removed files, for reuse.
    free: RefCell<Vec<u32>>,
}

impl Paper<'_> {
    /// Removes a file if it has lost its last name and its last user.
    async fn put(&self, file: u32) {
        let used = self.users.borrow().contains_key(&file);
        let named = self.names.borrow().values().any(|&f| f == file);
        if !used && !named {
            fs::remove(self.mm, file).await;
            self.mm.mappings[file as usize].size.set(0);
            self.free.borrow_mut().push(file);
        }
    }
}

impl Files for Paper<'_> {
    type Handle = u32;
    const CONTENTS: bool = false;

    async fn open(&self, name: &str) -> Result<u32, Failure> {
        let known = self.names.borrow().get(name).copied();
        let file = known.unwrap_or_else(|| {
            let free = self.free.borrow_mut().pop();
            free.unwrap_or_else(|| fs::create(self.mm).expect("a file"))
        });
        self.names.borrow_mut().insert(name.to_owned(), file);
        *self.users.borrow_mut().entry(file).or_default() += 1;
        fs::of(self.mm, file).opened(file);
        Ok(file)
    }

    async fn close(&self, file: u32) {
        fs::of(self.mm, file).closed(file, self.size(&file));
        let left = {
            let mut users = self.users.borrow_mut();
            let n = users.get_mut(&file).expect("a user");
            *n -= 1;
            *n
        };
        if left == 0 {
            self.users.borrow_mut().remove(&file);
            self.put(file).await;
        }
    }

    async fn read(&self, file: &u32, pos: u64, bytes: &mut [u8]) -> Result<usize, Failure> {
        let n = fs::read(self.mm, *file, pos, bytes.len() as u64).await;
        Ok(n.expect("a read") as usize)
    }

    async fn write(&self, file: &u32, pos: u64, bytes: &[u8]) -> Result<(), Failure> {
        let written = fs::write(self.mm, *file, pos, bytes.len() as u64).await;
        written.expect("a write");
        Ok(())
    }

    async fn truncate(&self, file: &u32, len: u64) -> Result<(), Failure> {
        fs::truncate(self.mm, *file, len).await;
        Ok(())
    }

    async fn sync(&self, file: &u32) -> Result<(), Failure> {
        assert!(fs::fsync(self.mm, *file).await, "a sync");
        Ok(())
    }

    fn size(&self, file: &u32) -> u64 {
        self.mm.mappings[*file as usize].size.get()
    }

    fn identity(&self, file: &u32) -> u64 {
        u64::from(*file)
    }

    fn link(&self, from: &str, to: &str) {
        let mut names = self.names.borrow_mut();
        let file = names[from];
        names.insert(to.to_owned(), file);
    }

    async fn rename(&self, from: &str, to: &str) {
        let gone = {
            let mut names = self.names.borrow_mut();
            let file = names.remove(from).expect("a name");
            names.insert(to.to_owned(), file)
        };
        if let Some(gone) = gone {
            self.put(gone).await;
        }
    }

    async fn remove(&self, name: &str) {
        let gone = self.names.borrow_mut().remove(name).expect("a name");
        self.put(gone).await;
    }

    fn quiet(&self, _: bool) {}
}

fn lab<L: Law>(seed: u64) -> RunSpec {
    machine(seed, L::MEMORY, FsKind::Xfs)
}

/// A machine with `pages` pages; its CPUs and its disk follow from the seed.
fn machine(seed: u64, pages: u32, filesystem: FsKind) -> RunSpec {
    let mut m = bare(ZoneType::Normal, u64::from(pages) * 4096);
    m.cpus = [1, 2, 4][seed as usize % 3];
    m.sysctl.dirty_ratio = 20;
    let kinds = [DiskKind::Nvme, DiskKind::Ssd, DiskKind::Disk];
    m.disk = disk(kinds[seed as usize / 3 % 3]);
    let mut s = spec(m, filesystem, "dd if=/dev/zero of=a count=1");
    s.seed = seed;
    s
}

type Life<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn build(spec: &RunSpec) -> SimMm<false> {
    let mm = sim::run::build(spec);
    fs::mount(&mm);
    mm
}

/// Runs `users` beside the daemons until all of them have ended.
fn live(mm: &SimMm<false>, seed: u64, users: Vec<Life<'_>>) {
    let left = Cell::new(users.len());
    let life = async |user: Life<'_>| {
        user.await;
        left.set(left.get() - 1);
        if left.get() == 0 {
            mm.world.sched.stop();
        }
    };
    let mut tasks: Vec<Life<'_>> = vec![
        Box::pin(async {}),
        Box::pin(mm.kswapd(0)),
        Box::pin(mm.flusher(0)),
    ];
    let mut flags = vec![0, KSWAPD_FLAGS, PF_SWAPWRITE];
    for daemon in fs::daemons(mm) {
        tasks.push(daemon.life);
        flags.push(0);
    }
    for user in users {
        tasks.push(Box::pin(life(user)));
        flags.push(0);
    }
    for flags in flags {
        let id = mm.world.sched.spawn();
        mm.init_task(id, flags, 0);
    }
    let end = mm.world.sched.run(&mut tasks, |_, event| {
        if let Event::Device(dev) = event {
            SimWorld::device_event(mm, dev);
        }
    });
    assert!(
        mm.world.oom.borrow().is_none(),
        "seed {seed}: out of memory"
    );
    assert!(end.is_some(), "seed {seed}: every task waits for ever");
}

fn run<L: Law>(law: &L, spec: &RunSpec) {
    let mm = build(spec);
    let names = RefCell::default();
    let life = async |who| {
        let task = Task {
            mm: &mm,
            names: &names,
        };
        law.task(&task, who).await;
    };
    let users = (0..L::TASKS).map(|who| Box::pin(life(who)) as Life<'_>);
    live(&mm, spec.seed, users.collect());
    conclude(law, mm.view(), mm.recount());
}

/// Tests a law with every seed, on as many threads as there are cores. `fresh` makes a new instance
/// of the law.
fn try_seeds<L: Law>(fresh: impl Fn() -> L + Sync) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..cores {
            s.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        break;
                    }
                    run(&fresh(), &lab::<L>(seed));
                }
            });
        }
    });
}

macro_rules! law {
    ($name:ident, $law:expr) => {
        #[test]
        fn $name() {
            try_seeds(|| $law);
        }
    };
}

conformance::for_each_law!(law);

/// Lengths and names of files on every filesystem equal those of the model.
#[test]
fn files_are_as_drawn() {
    for &filesystem in FsKind::ALL {
        for seed in 0..20 {
            let mm = build(&machine(seed, 1024, filesystem));
            let paper = Paper {
                mm: &mm,
                names: RefCell::default(),
                users: RefCell::default(),
                free: RefCell::default(),
            };
            let life = async {
                model::run(&paper, seed, 400).await;
            };
            live(&mm, seed, vec![Box::pin(life)]);
            if let Err(e) = mm.recount() {
                panic!("{filesystem:?}, seed {seed}: {e}");
            }
        }
    }
}
