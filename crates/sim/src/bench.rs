//! Benchmarks of the engine inside the virtual world. Ratios within one run are meaningful;
//! absolute figures depend on the machine.

use crate::fs::SimMm;
use crate::spec::{
    Boot, DiskKind, DiskSpec, FsKind, Machine, NodeSpec, RunSpec, Size, Sysctl, ZoneSpec,
};
use crate::world::SimWorld;
use mm::alloc::Gfp;
use mm::kswapd::KSWAPD_FLAGS;
use mm::mapping::MappingKind;
use mm::trace::TrackPath;
use mm::vmstat::VmEvent;
use mm::world::World;
use mm::zone::ZoneType;
use std::cell::Cell;
use std::pin::Pin;
use std::time::Instant;

/// What [`engine`] measured.
#[derive(Debug, Clone, Copy)]
pub struct EngineBench {
    /// Page lifecycles a second: allocate, insert, dirty, write back, scan, free, with all
    /// counters and the clock, on a 512 MiB machine; median of the rounds.
    pub page_lifecycles_per_second: f64,
    /// The same over arrays and links with nothing else; median of the rounds.
    pub bare_loop_per_second: f64,
    /// Median of the rounds' ratios: engine to bare loop.
    pub ratio: f64,
    /// Lifecycles a second with tracepoints compiled in but nobody listening, to those without.
    pub tracepoints_idle_ratio: f64,
    /// Lifecycles a second with vmscan and writeback events recorded, to those without.
    pub tracepoints_recording_ratio: f64,
    /// Bytes of one frame in the frame table.
    pub bytes_per_frame: usize,
    /// Resident bytes of the whole world a frame, with a full page cache.
    pub resident_bytes_per_frame: f64,
}

/// Pages of one round.
const ROUND: u64 = 2_000_000;

fn spec(mib: u64) -> RunSpec {
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib << 20),
    };
    RunSpec {
        machine: Machine {
            name: format!("{mib}M"),
            cpus: 2,
            hz: 250,
            nodes: vec![NodeSpec {
                zones: vec![zone(ZoneType::Dma, 16), zone(ZoneType::Dma32, mib - 16)],
            }],
            boot: Boot {
                kernel: Size(0),
                dma: Size(1 << 20),
                anon: Size(0),
                cache: Size(0),
            },
            swap: None,
            sysctl: Sysctl::default(),
            disk: DiskSpec {
                kind: DiskKind::Nvme,
                capacity: Size(1 << 40),
                members: None,
                params: Default::default(),
                faults: Vec::new(),
            },
        },
        filesystem: FsKind::Xfs,
        policy: mm::Policy::linux_3_1(),
        workload: workload::Script::default(),
        membind: None,
        params: crate::Params::default(),
        seed: 1,
        sample_ns: 0,
        check_ns: 0,
        track_pages: false,
        time_limit_ns: 0,
    }
}

/// Streams `pages` pages through the page cache of a machine; kswapd frees them.
async fn stream<const T: bool>(mm: &SimMm<T>, pages: u64, freed: &Cell<u64>) {
    let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
    let before = mm.vm_event(VmEvent::PgFree);
    for index in 0..pages as u32 {
        let Some(pfn) = mm.alloc_page(Gfp::USER).await else {
            break;
        };
        if !mm.add_to_page_cache_lru(pfn, file, index) {
            break;
        }
        mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
        // Written back in runs of 32, as a flusher and its bios do.
        if index % 32 == 31 {
            let n = mm.start_writeback(file, index - 31, 32);
            mm.end_writeback(file, index - 31, n, false);
        }
        mm.world.relax().await;
    }
    freed.set(mm.vm_event(VmEvent::PgFree) - before);
    mm.world.sched.stop();
}

/// Lifecycles a second; the first `fill` pages, which only fill the cache, are not counted.
fn lifecycles<const T: bool>(record: bool) -> f64 {
    let spec = spec(512);
    let mm: SimMm<T> = crate::run::build(&spec);
    mm.new_bdi(0, 100).expect("a bdi");
    mm.world.recording.set(record);
    let freed = Cell::new(0);
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = vec![
        Box::pin(async {}),
        Box::pin(mm.kswapd(0)),
        Box::pin(stream(&mm, ROUND, &freed)),
    ];
    for flags in [0, KSWAPD_FLAGS, 0] {
        let id = mm.world.sched.spawn();
        mm.init_task(id, flags, 0);
    }
    let start = Instant::now();
    mm.world.sched.run(&mut tasks, |time, event| {
        if let crate::sched::Event::Device(d) = event {
            SimWorld::device_event(&mm, d);
        }
        let _ = time;
    });
    freed.get() as f64 / start.elapsed().as_secs_f64()
}

/// The same steps over bare arrays and links: no counters, clock, watermarks or batches.
fn bare_loop() -> f64 {
    const FRAMES: usize = 131_072;
    #[derive(Clone, Copy)]
    struct Frame {
        flags: u32,
        prev: u32,
        next: u32,
        mapping: u32,
        index: u32,
        _rest: [u32; 3],
    }
    let empty = Frame {
        flags: 0,
        prev: 0,
        next: 0,
        mapping: 0,
        index: 0,
        _rest: [0; 3],
    };
    let mut frames = vec![empty; FRAMES + 1];
    let head = FRAMES;
    frames[head].prev = head as u32;
    frames[head].next = head as u32;
    let mut free: Vec<u32> = (0..FRAMES as u32).collect();
    let mut index_of = vec![0u32; ROUND as usize];
    let start = Instant::now();
    let mut freed = 0u64;
    for index in 0..ROUND as u32 {
        if free.is_empty() {
            for _ in 0..32 {
                let pfn = frames[head].prev as usize;
                let (p, n) = (frames[pfn].prev as usize, frames[pfn].next as usize);
                frames[p].next = n as u32;
                frames[n].prev = p as u32;
                if frames[pfn].flags & 3 == 0 {
                    index_of[frames[pfn].index as usize] = 0;
                    free.push(pfn as u32);
                    freed += 1;
                }
            }
        }
        let pfn = free.pop().expect("a free frame") as usize;
        index_of[index as usize] = pfn as u32 + 1;
        let first = frames[head].next as usize;
        let f = &mut frames[pfn];
        f.mapping = 1;
        f.index = index;
        f.prev = head as u32;
        f.next = first as u32;
        f.flags = 1;
        frames[first].prev = pfn as u32;
        frames[head].next = pfn as u32;
        frames[pfn].flags |= 2;
        frames[pfn].flags &= !1;
        frames[pfn].flags &= !2;
    }
    let rate = freed as f64 / start.elapsed().as_secs_f64();
    std::hint::black_box((&frames, &index_of));
    rate
}

fn resident_bytes() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| {
            s.split_whitespace()
                .nth(1)
                .and_then(|v| v.parse::<f64>().ok())
        });
    pages.unwrap_or(0.0) * 4096.0
}

/// Builds a machine of `mib` MiB, fills its page cache and lets kswapd reclaim as much again.
/// Returns resident bytes a frame and the pages freed.
pub fn fill(mib: u64, extra_pages: u64) -> (f64, u64) {
    let before = resident_bytes();
    let spec = spec(mib);
    let mm: SimMm<false> = crate::run::build(&spec);
    mm.new_bdi(0, 100).expect("a bdi");
    let freed = Cell::new(0);
    let pages = (mib << 8) + extra_pages;
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = vec![
        Box::pin(async {}),
        Box::pin(mm.kswapd(0)),
        Box::pin(stream(&mm, pages, &freed)),
    ];
    for flags in [0, KSWAPD_FLAGS, 0] {
        let id = mm.world.sched.spawn();
        mm.init_task(id, flags, 0);
    }
    mm.world.sched.run(&mut tasks, |_, _| {});
    (
        (resident_bytes() - before) / f64::from(mm.frames.len()),
        freed.get(),
    )
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// Runs the engine benchmark: interleaved rounds, medians of ratios.
pub fn engine(rounds: usize) -> EngineBench {
    let (resident, _) = fill(512, 1000);
    let (mut engine, mut bare, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    let (mut idle, mut recording) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let b = bare_loop();
        let e = lifecycles::<false>(false);
        let i = lifecycles::<true>(false);
        let r = lifecycles::<true>(true);
        bare.push(b);
        engine.push(e);
        ratio.push(e / b);
        idle.push(i / e);
        recording.push(r / e);
    }
    EngineBench {
        page_lifecycles_per_second: median(engine),
        bare_loop_per_second: median(bare),
        ratio: median(ratio),
        tracepoints_idle_ratio: median(idle),
        tracepoints_recording_ratio: median(recording),
        bytes_per_frame: mm::frame::BYTES_PER_FRAME,
        resident_bytes_per_frame: resident,
    }
}
