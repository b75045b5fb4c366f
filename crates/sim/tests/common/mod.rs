//! Machines and runs that the tests share.
#![allow(dead_code)]

use mm::ZoneType;
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
        nodes: vec![NodeSpec {
            cpus: Vec::new(),
            zones: vec![zone(ZoneType::Dma, 16), zone(ZoneType::Dma32, mib - 16)],
        }],
        boot: Boot {
            kernel: Size(4 << 20),
            dma: Size(1 << 20),
            anon: Size(4 << 20),
            cache: Size(0),
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

/// A machine whose memory is one zone with nothing in it.
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
    };
    m
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
        policy: mm::Policy::linux_3_1(),
        workload: workload::parse(command).expect("a valid command"),
        changes: Vec::new(),
        membind: None,
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

pub fn run(spec: &RunSpec) -> RunResult {
    sim::run(spec, &Control::default())
}

/// The values of a column of the series.
pub fn column<'a>(r: &'a RunResult, name: &str, scope: &str) -> &'a [f64] {
    let mut columns = r.series.columns.iter();
    let column = columns.find(|c| c.name == name && c.scope == scope);
    &column.expect("a column").values
}

/// The values of a column with their times.
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
    // Task 0 is the idle identity of interrupts.
    let mut lives: Vec<Life<'a>> = vec![Box::pin(async {})];
    mm.init_task(mm.world.sched.spawn(), 0, 0);
    for (flags, life) in tasks {
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

pub const ALL_FS: [FsKind; FsKind::ALL.len()] = match FsKind::ALL.first_chunk() {
    Some(all) => *all,
    None => panic!("an array of its own length"),
};
