//! The laws in the virtual world: the tasks of each law on xfs over NVMe, SSD and rotating disks, on machines
//! of one, two and four CPUs, with a thousand seeds.

mod common;

use common::{bare, disk, spec};
use conformance::{Law, Machine, conclude};
use mm::Mm;
use mm::kswapd::KSWAPD_FLAGS;
use mm::task::PF_SWAPWRITE;
use mm::zone::ZoneType;
use sim::fs::{self, SimMm};
use sim::sched::Event;
use sim::spec::{DiskKind, FsKind, RunSpec};
use sim::world::SimWorld;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds a law is tried with.
const SEEDS: u64 = 1000;

struct Task<'a> {
    mm: &'a SimMm<false>,
    names: &'a RefCell<BTreeMap<String, u32>>,
}

impl Machine for Task<'_> {
    type World = SimWorld<false>;
    const CONTENTS: bool = false;

    fn mm(&self) -> &Mm<Self::World> {
        self.mm
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

fn lab<L: Law>(seed: u64) -> RunSpec {
    let mut m = bare(ZoneType::Normal, u64::from(L::MEMORY) * 4096);
    m.cpus = [1, 2, 4][seed as usize % 3];
    m.sysctl.dirty_ratio = 20;
    let kinds = [DiskKind::Nvme, DiskKind::Ssd, DiskKind::Disk];
    m.disk = disk(kinds[seed as usize / 3 % 3]);
    let mut s = spec(m, FsKind::Xfs, "dd if=/dev/zero of=a count=1");
    s.seed = seed;
    s
}

fn run<L: Law>(law: &L, spec: &RunSpec) {
    let mm: SimMm<false> = sim::run::build(spec);
    fs::mount(&mm);
    let names = RefCell::default();
    let ended = Cell::new(0);
    let life = async |who| {
        let task = Task {
            mm: &mm,
            names: &names,
        };
        law.task(&task, who).await;
        ended.set(ended.get() + 1);
        if ended.get() == L::TASKS {
            mm.world.sched.stop();
        }
    };
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = vec![
        Box::pin(async {}),
        Box::pin(mm.kswapd(0)),
        Box::pin(mm.flusher(0)),
    ];
    let mut flags = vec![0, KSWAPD_FLAGS, PF_SWAPWRITE];
    for (_, daemon) in fs::daemons(&mm) {
        tasks.push(daemon);
        flags.push(0);
    }
    for who in 0..L::TASKS {
        tasks.push(Box::pin(life(who)));
        flags.push(0);
    }
    for flags in flags {
        let id = mm.world.sched.spawn();
        mm.init_task(id, flags, 0);
    }
    let end = mm.world.sched.run(&mut tasks, |_, event| {
        if let Event::Device(dev) = event {
            SimWorld::device_event(&mm, dev);
        }
    });
    let seed = spec.seed;
    assert!(
        mm.world.oom.borrow().is_none(),
        "seed {seed}: out of memory"
    );
    assert!(end.is_some(), "seed {seed}: every task waits for ever");
    drop(tasks);
    conclude(law, &mm);
}

/// Tries every seed, on as many threads as there are cores. `fresh` makes the law anew.
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
