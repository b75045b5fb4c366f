//! Benchmarks of the engine inside the virtual world. Ratios within one run are meaningful;
//! absolute figures depend on the machine.
//!
//! Speed is per second of CPU time, and each round measures its variants in one order and then in
//! the reverse, so that neither other programs nor a drift of the clock favour one of them. Memory
//! is the kernel's high-water mark of resident pages: the engine's tables are large and zeroed, and
//! only pages that are touched become resident, which a counting allocator would not see.

use crate::SimMm;
use crate::spec::{
    Boot, DiskKind, DiskSpec, FsKind, Machine, NodeSpec, RunSpec, Size, Sysctl, ZoneSpec,
};
use crate::world::SimWorld;
use mm::ZoneType;
use mm::cache::mapping::MappingKind;
use mm::memory::gfp::Gfp;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::VmEvent;
use mm::world::Tasks;
use mm::world::event::TrackPath;
use mm::writeback::fresh::{Fresh, FreshEnd, FreshState};
use std::cell::Cell;
use std::pin::Pin;
use std::time::Instant;

/// The results of [`engine`].
#[derive(Debug, Clone, Copy)]
pub struct EngineBench {
    /// Page lifecycles per second: allocate, insert, dirty, write back, scan, free, with all
    /// counters and the clock, on a 512 MiB machine; median of the rounds.
    pub page_lifecycles_per_second: f64,
    /// The same rate for bare arrays and links; median of the rounds.
    pub bare_loop_per_second: f64,
    /// Median of the rounds' ratios of engine to bare loop.
    pub ratio: f64,
    /// Rate of lifecycles with vmscan and writeback events recorded, divided by that with no
    /// listener; median of the rounds.
    pub tracepoints_recording_ratio: f64,
    /// Bytes of one frame in the frame table.
    pub bytes_per_frame: usize,
    /// Least and largest value of that ratio over the rounds.
    pub tracepoints_recording_range: [f64; 2],
    /// Peak resident bytes of the whole world per frame, with a full page cache of 512 MiB. Tables
    /// that do not grow with memory weigh most here.
    pub peak_bytes_per_frame: f64,
}

/// The results of [`fill`].
#[derive(Debug, Clone, Copy)]
pub struct FillBench {
    /// Peak resident bytes of the whole world per frame; 0 if the kernel does not report them.
    pub peak_bytes_per_frame: f64,
    /// Pages that kswapd freed once the cache was full.
    pub pages_reclaimed: u64,
    /// Pages entered into the cache per second of CPU time.
    pub pages_per_second: f64,
}

/// Returns the CPU time of this thread in seconds, or the time since `start` if the kernel does not
/// report it.
fn cpu_seconds(start: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split_whitespace().next()?.parse::<f64>().ok())
        .map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Pages of one round.
const ROUND: u64 = 2_000_000;
/// Pages written back together.
const RUN: u32 = 32;

/// Returns the experiment that benchmarks run: a machine of `mib` MiB with one node, two CPUs, an
/// NVMe disk and XFS, as of Linux 3.1, without a workload.
fn spec(mib: u64) -> RunSpec {
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib << 20),
    };
    RunSpec {
        machine: Machine {
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
                kernel: Size(0),
                dma: Size(1 << 20),
                anon: Size(0),
                cache: Size(0),
                inodes: 0,
                dentries: 0,
            },
            swap: None,
            filesystem: None,
            mounts: Vec::new(),
            sysctl: Sysctl::default(),
            disk: DiskSpec {
                scheduler: Some(crate::spec::Scheduler::Deadline),
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
        changes: Vec::new(),
        membind: None,
        groups: crate::spec::Groups::default(),
        monitors: false,
        params: crate::Params::default(),
        seed: 1,
        sample_ns: 0,
        check_ns: 0,
        check_full: false,
        track_pages: false,
        time_limit_ns: 0,
    }
}

/// Streams `pages` new dirty pages through the page cache of a machine, writes them back in runs,
/// and lets kswapd free them; stops the scheduler at the end. `freed`: set to the pages freed
/// meanwhile.
async fn stream(mm: &SimMm<true>, pages: u64, freed: &Cell<u64>) {
    let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
    let before = mm.vm_event(VmEvent::PgFree);
    let (mut index, end) = (0, pages as u32);
    while index < end {
        // As a write does: pages in runs, and singly where a run stopped short.
        let fresh = Fresh {
            mapping: file,
            first: index,
            most: (RUN - index % RUN).min(end - index),
            gfp: Gfp::USER,
            state: FreshState::Dirty,
        };
        let (n, why) = mm.fresh_pages(fresh, None::<fn(u32) -> bool>);
        index += n;
        match why {
            FreshEnd::All => {}
            FreshEnd::Relax => mm.world.relax().await,
            FreshEnd::Short(start) => {
                let Some(pfn) = mm.alloc_rest(fresh.gfp, start).await else {
                    break;
                };
                if !mm.add_to_page_cache_lru(pfn, file, index) {
                    break;
                }
                mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
                index += 1;
                mm.world.relax().await;
            }
            _ => break,
        }
        // Writes pages back in runs, as a filesystem's `writepages` does.
        if index % RUN == 0 {
            let first = index - RUN;
            let n = mm.start_writeback(file, first, RUN, |_| ());
            mm.end_writeback(file, first, n, false);
        }
    }
    freed.set(mm.vm_event(VmEvent::PgFree) - before);
    mm.world.sched.stop();
}

/// Runs `pages` page lifecycles and nothing else, for a profiler; returns how many pages were
/// freed.
pub fn live(pages: u32) -> u64 {
    lifecycles(u64::from(pages), false).0
}

/// Runs `pages` page lifecycles on a machine of 512 MiB, with events recorded if `record` is set.
/// Returns the number of pages freed, and how many per second of CPU time; pages that only fill the
/// cache do not count.
fn lifecycles(pages: u64, record: bool) -> (u64, f64) {
    let spec = spec(512);
    let mm: SimMm<true> = crate::run::build(&spec);
    mm.new_bdi(0, 100).expect("a bdi");
    mm.world.recording.set(record);
    let freed = Cell::new(0);
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = vec![
        Box::pin(async {}),
        Box::pin(mm.kswapd(0)),
        Box::pin(stream(&mm, pages, &freed)),
    ];
    for flags in [0, KSWAPD_FLAGS, 0] {
        let id = mm.world.sched.spawn();
        mm.init_task(id, flags, 0);
    }
    let start = Instant::now();
    let before = cpu_seconds(start);
    mm.world.sched.run(&mut tasks, |_, event| {
        if let crate::sched::Event::Device(d) = event {
            SimWorld::device_event(&mm, d);
        }
    });
    let rate = freed.get() as f64 / (cpu_seconds(start) - before);
    let freed = freed.get();
    let w = &mm.world;
    let recorded = w.rings_lost.get() > 0 || !w.events.borrow().is_empty();
    assert_eq!(recorded, record, "events are recorded when they should be");
    (freed, rate)
}

/// Runs the same steps over bare arrays and links: no counters, clock, watermarks or batches. Each
/// step is made where the engine makes it (dirtied as it is inserted, written back in a run, freed
/// when memory is short), so that the compiler cannot fold the steps of a page into one store.
/// Returns pages freed per second.
fn bare_loop() -> f64 {
    const FRAMES: usize = 131_072;
    const DIRTY: u32 = 1;
    const WRITEBACK: u32 = 2;
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
    // The heads of the inactive and the free list lie behind the frames.
    let (lru, free) = (FRAMES, FRAMES + 1);
    let mut frames = vec![empty; FRAMES + 2];
    let mut index_of = vec![0u32; ROUND as usize];
    let add = |frames: &mut [Frame], head: usize, pfn: usize| {
        let first = frames[head].next;
        frames[pfn].prev = head as u32;
        frames[pfn].next = first;
        frames[first as usize].prev = pfn as u32;
        frames[head].next = pfn as u32;
    };
    let del = |frames: &mut [Frame], pfn: usize| {
        let (p, n) = (frames[pfn].prev, frames[pfn].next);
        frames[p as usize].next = n;
        frames[n as usize].prev = p;
    };
    for head in [lru, free] {
        frames[head].prev = head as u32;
        frames[head].next = head as u32;
    }
    for pfn in (0..FRAMES).rev() {
        add(&mut frames, free, pfn);
    }
    let start = Instant::now();
    let before = cpu_seconds(start);
    let mut freed = 0u64;
    for index in 0..ROUND as u32 {
        if frames[free].next as usize == free {
            for _ in 0..RUN {
                let pfn = frames[lru].prev as usize;
                if frames[pfn].flags & (DIRTY | WRITEBACK) == 0 {
                    del(&mut frames, pfn);
                    index_of[frames[pfn].index as usize] = 0;
                    add(&mut frames, free, pfn);
                    freed += 1;
                }
            }
        }
        let pfn = frames[free].next as usize;
        del(&mut frames, pfn);
        index_of[index as usize] = pfn as u32 + 1;
        frames[pfn].mapping = 1;
        frames[pfn].index = index;
        add(&mut frames, lru, pfn);
        frames[pfn].flags |= DIRTY;
        if index % RUN == RUN - 1 {
            for pfn in &index_of[(index + 1 - RUN) as usize..=index as usize] {
                let f = &mut frames[*pfn as usize - 1];
                if f.flags & DIRTY != 0 {
                    f.flags = f.flags & !DIRTY | WRITEBACK;
                }
            }
            for pfn in &index_of[(index + 1 - RUN) as usize..=index as usize] {
                frames[*pfn as usize - 1].flags &= !WRITEBACK;
            }
        }
    }
    let rate = freed as f64 / (cpu_seconds(start) - before);
    std::hint::black_box((&frames, &index_of));
    rate
}

/// Returns the value of the line `key` of /proc/self/status in bytes (the kernel gives kB); `None`
/// if there is no such line.
fn status(key: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(key))?;
    let kb: f64 = line
        .trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kb * 1024.0)
}

/// Builds a machine of `mib` MiB, fills its page cache and lets kswapd reclaim `extra_pages` more.
/// Returns the growth of this process's resident memory per frame, and the speed per second of CPU
/// time.
pub fn fill(mib: u64, extra_pages: u64) -> FillBench {
    // Resets the high-water mark; if the kernel refuses, an older, higher mark remains.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let resident = status("VmRSS");
    let spec = spec(mib);
    let mm: SimMm<true> = crate::run::build(&spec);
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
    let start = Instant::now();
    let before = cpu_seconds(start);
    mm.world.sched.run(&mut tasks, |_, _| {});
    let seconds = cpu_seconds(start) - before;
    let growth = resident.zip(status("VmHWM")).map_or(0.0, |(a, b)| b - a);
    FillBench {
        peak_bytes_per_frame: growth / f64::from(mm.frames.len()),
        pages_reclaimed: freed.get(),
        pages_per_second: pages as f64 / seconds,
    }
}

/// Returns the median; of an even number of values, the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

/// Runs the engine benchmark: in each round a loop over bare arrays, the engine, and the engine
/// with events recorded, in this order and then in the reverse. Returns medians over the rounds of
/// speeds and of their ratios.
pub fn engine(rounds: usize) -> EngineBench {
    let peak_bytes_per_frame = fill(512, 1000).peak_bytes_per_frame;
    let variants: [fn() -> f64; 3] = [
        bare_loop,
        || lifecycles(ROUND, false).1,
        || lifecycles(ROUND, true).1,
    ];
    let rates: Vec<[f64; 3]> = (0..rounds.max(1))
        .map(|_| {
            let forward = variants.map(|measure| measure());
            let mut backward = [0.0; 3];
            for (rate, measure) in backward.iter_mut().zip(variants).rev() {
                *rate = measure();
            }
            // The mean of two rates of the same work is the harmonic mean.
            std::array::from_fn(|i| 2.0 / (1.0 / forward[i] + 1.0 / backward[i]))
        })
        .collect();
    let per_round = |f: fn(&[f64; 3]) -> f64| rates.iter().map(f).collect::<Vec<f64>>();
    let recording = per_round(|r| r[2] / r[1]);
    EngineBench {
        page_lifecycles_per_second: median(per_round(|r| r[1])),
        bare_loop_per_second: median(per_round(|r| r[0])),
        ratio: median(per_round(|r| r[1] / r[0])),
        tracepoints_recording_range: [
            recording.iter().copied().fold(f64::INFINITY, f64::min),
            recording.iter().copied().fold(0.0, f64::max),
        ],
        tracepoints_recording_ratio: median(recording),
        bytes_per_frame: mm::memory::frame::BYTES_PER_FRAME,
        peak_bytes_per_frame,
    }
}
