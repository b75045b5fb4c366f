//! Machines and runs that the tests share.
#![allow(dead_code)]

use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::watch::vmstat::{VmEvent, ZoneStat};
use mm::world::Tasks;
use mm::world::event::TrackPath;
use mm::{Pfn, Policy, ZoneType};
use sim::SimMm;
use sim::sched;
use sim::spec::{
    Boot, DiskKind, DiskSpec, Fault, FsKind, Machine, NodeSpec, RunSpec, Size, SwapSpec, Sysctl,
    ZoneSpec,
};
use sim::world::SimWorld;
use sim::{Control, Params, RunResult};
use std::pin::Pin;

/// A machine of `mib` MiB with a DMA and a DMA32 zone and a USB stick.
pub fn machine(mib: u64) -> Machine {
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib << 20),
    };
    Machine {
        name: format!("{mib}M"),
        cpus: 2,
        params: Default::default(),
        hz: 250,
        cpu_speed: None,
        nodes: vec![NodeSpec {
            cpus: Vec::new(),
            zones: vec![zone(ZoneType::Dma, 16), zone(ZoneType::Dma32, mib - 16)],
        }],
        boot: Boot {
            kernel: Size(4 << 20),
            dma: Size(1 << 20),
            anon: Size(4 << 20),
            cache: Size(0),
            inodes: 0,
            dentries: 0,
        },
        swap: None,
        sysctl: Sysctl {
            dirty_ratio: 40,
            ..Sysctl::default()
        },
        disk: disk(DiskKind::Disk),
        filesystem: None,
        mounts: Vec::new(),
    }
}

/// A machine whose memory is one zone, with none of it in use at boot.
pub fn bare(zone: ZoneType, bytes: u64) -> Machine {
    let mut m = machine(64);
    m.nodes[0].zones = vec![ZoneSpec {
        zone,
        size: Size(bytes),
    }];
    m.boot = Boot {
        kernel: Size(0),
        dma: Size(0),
        anon: Size(0),
        cache: Size(0),
        inodes: 0,
        dentries: 0,
    };
    m
}

/// A node whose memory is one zone DMA32.
pub fn node(mib: u64) -> NodeSpec {
    NodeSpec {
        cpus: Vec::new(),
        zones: vec![ZoneSpec {
            zone: ZoneType::Dma32,
            size: Size(mib << 20),
        }],
    }
}

pub fn disk(kind: DiskKind) -> DiskSpec {
    DiskSpec {
        scheduler: Default::default(),
        kind,
        capacity: Size(4 << 30),
        members: None,
        params: Default::default(),
        faults: Vec::new(),
    }
}

pub fn swap(size: u64) -> SwapSpec {
    SwapSpec {
        size: Size(size),
        disk: Some(disk(DiskKind::Disk)),
    }
}

pub fn spec(machine: Machine, filesystem: FsKind, command: &str) -> RunSpec {
    RunSpec {
        machine,
        filesystem,
        policy: Policy::linux_3_1(),
        workload: workload::parse(command).expect("a valid command"),
        changes: Vec::new(),
        membind: None,
        groups: sim::spec::Groups::default(),
        monitors: false,
        params: Params::default(),
        seed: 7,
        sample_ns: 100_000_000,
        check_ns: 50_000_000,
        check_full: true,
        track_pages: false,
        time_limit_ns: 600_000_000_000,
    }
}

/// One empty zone of `mib` MiB on ext3, which never refuses writeback.
pub fn empty_zone(mib: u64, policy: Policy) -> RunSpec {
    let m = bare(ZoneType::Dma32, mib << 20);
    let mut s = spec(m, FsKind::Ext3, "dd if=/dev/zero of=a count=1");
    s.policy = policy;
    s
}

pub fn run(spec: &RunSpec) -> RunResult {
    sim::run(spec, &Control::default())
}

/// Returns the values of a column of the series.
pub fn column<'a>(r: &'a RunResult, name: &str, scope: &str) -> &'a [f64] {
    let mut columns = r.series.columns.iter();
    let column = columns.find(|c| c.name == name && c.scope == scope);
    &column.expect("a column").values
}

/// Returns the values of a column with their times.
pub fn series(r: &RunResult, name: &str, scope: &str) -> Vec<(f64, f64)> {
    let values = column(r, name, scope).iter().copied();
    r.series.t.iter().copied().zip(values).collect()
}

pub fn faulty(mut m: Machine, fault: Fault) -> Machine {
    m.disk.faults.push(fault);
    m
}

pub type Life<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs tasks with their flags until one of them stops the run; `look` is called at the start and
/// every `period` nanoseconds.
pub fn drive<'a>(
    mm: &'a SimMm<true>,
    tasks: Vec<(u32, Life<'a>)>,
    period: u64,
    mut look: impl FnMut(),
) {
    // Task 0 stands for interrupts on an idle CPU.
    let mut lives: Vec<Life<'a>> = vec![Box::pin(async {})];
    mm.init_task(mm.world.sched.spawn(), 0, 0);
    // fsync on ext4 as it is today waits for the journal's thread, and the pages of new blocks for
    // a worker.
    let threads = sim::filesystems::daemons(mm)
        .into_iter()
        .filter(|daemon| ["jbd2", "ext4-rsv-conv", "xfs-conv"].contains(&daemon.name));
    for (flags, life) in tasks
        .into_iter()
        .chain(threads.map(|daemon| (0, daemon.life)))
    {
        mm.init_task(mm.world.sched.spawn(), flags, 0);
        lives.push(life);
    }
    mm.world.sched.at(0, sched::Event::Periodic(0));
    mm.world.sched.run(&mut lives, |time, event| match event {
        sched::Event::Device(dev) => SimWorld::device_event(mm, dev),
        sched::Event::Periodic(what) => {
            look();
            let next = sched::Event::Periodic(what);
            mm.world.sched.at(time + period, next);
        }
        sched::Event::Unplug(task) => mm.world.flush_plug(task),
        sched::Event::Timer(..) => {}
    });
    drop(lives);
    mm.recount().expect("every list, counter and order agrees");
}

/// Enters a fresh page into a file's cache.
pub async fn enter(mm: &SimMm<true>, file: u32, index: u32) -> Pfn {
    let pfn = mm.alloc_page(Gfp::USER).await.expect("memory");
    mm.frames.set_flags(pfn, flag::UPTODATE);
    assert!(mm.add_to_page_cache_lru(pfn, file, index));
    mm.world.relax().await;
    pfn
}

/// Enters `pages` dirty pages into a file's cache.
pub async fn enter_dirty(mm: &SimMm<true>, file: u32, pages: u32) {
    for index in 0..pages {
        let pfn = enter(mm, file, index).await;
        mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
    }
}

/// Enters pages of a file, dirty ones where `dirty` returns true, until an event was counted.
/// Returns their number.
pub async fn enter_until(
    mm: &SimMm<true>,
    event: VmEvent,
    file: u32,
    dirty: impl Fn(u32) -> bool,
) -> u32 {
    let mut index = 0;
    while mm.vm_event(event) == 0 {
        let pfn = enter(mm, file, index).await;
        if dirty(index) {
            mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
        }
        index += 1;
    }
    index
}

/// Sleeps until no page is under writeback.
pub async fn all_written(mm: &SimMm<true>) {
    while mm.global_stat(ZoneStat::NrWriteback) > 0 {
        mm.world.sched.sleep(1_000_000).await;
    }
}

/// Enters clean pages into the cache until a kswapd runs, and stops the run when the kswapd of
/// `node` sleeps again and no page is under writeback.
pub async fn wake_kswapd_and_wait(mm: &SimMm<true>, clean: u32, node: u32) {
    enter_until(mm, VmEvent::PageOutRun, clean, |_| false).await;
    while !mm.kswapd_sleeps(node) || mm.global_stat(ZoneStat::NrWriteback) > 0 {
        mm.world.sched.sleep(1_000_000).await;
    }
    mm.world.sched.stop();
}

pub const ALL_FS: [FsKind; FsKind::ALL.len()] = match FsKind::ALL.first_chunk() {
    Some(all) => *all,
    None => panic!("an array of its own length"),
};
