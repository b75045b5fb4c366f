//! Time series of a run.

use crate::block::{Class, Dir, Volume};
use crate::filesystems::{DEVICE, SimMm};
use crate::result::{Column, Series};
use crate::world::Device;
use mm::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};

use mm::memory::zone::Mark;

/// Most samples kept; beyond, every second one is dropped and the interval doubles.
const MOST: usize = 2000;
/// The name of the columns that count waiting tasks, a kind of wait each.
pub const WAITING: &str = "waiting";

/// The name of the column of XFS inodes that reclaim freed.
pub const INODES_RECLAIMED: &str = "inodes_reclaimed";
/// The names of the inodes freed of the first and of the second filesystem, as columns and as metrics,
/// where there are two.
pub const FREED: [&str; 2] = ["first_inodes_freed", "second_inodes_freed"];

/// Gathers samples.
pub struct Sampler {
    series: Series,
    kswapds: Vec<u32>,
    flushers: Vec<u32>,
    last: Option<Last>,
    /// What had happened in each zone at the last sample, where pages are watched.
    flows: Vec<Flow>,
    skip: u32,
    phase: u32,
}

/// A sample: name, scope, unit and value of each column.
type Row = Vec<(&'static str, String, &'static str, f64)>;

#[derive(Clone)]
struct Flow {
    time: u64,
    counts: [u64; 5],
    /// Milliseconds and pages, see [`mm::Mm::reclaimed_age`].
    age: u64,
    aged: u64,
}

#[derive(Clone)]
struct Last {
    time: u64,
    written: u64,
    read: u64,
    /// Blocks written to and read from a swap disk of its own.
    swap: Option<(u64, u64)>,
    /// The same of the second filesystem's disk.
    second: Option<(u64, u64)>,
    /// Inodes freed of each filesystem.
    freed: Vec<u64>,
    kswapd: u64,
    flusher: u64,
    /// XFS inodes that were freed.
    inodes: u64,
}

/// How lumpy XFS inode reclaim was: the standard deviation of the inodes freed in each second by their
/// mean. It has its own clock, so that it is the same with any interval between samples.
#[derive(Default)]
pub struct Lumpiness {
    last: Option<u64>,
    seconds: f64,
    sum: f64,
    squares: f64,
}

impl Lumpiness {
    /// Counts the second that ends now, if the workload runs; the first call begins the first one.
    pub fn second<const T: bool>(&mut self, mm: &SimMm<T>) {
        let freed = mm.vm_event(VmEvent::XfsInodesReclaimed);
        if let Some(last) = self.last.replace(freed) {
            let freed = (freed - last) as f64;
            self.seconds += 1.0;
            self.sum += freed;
            self.squares += freed * freed;
        }
    }

    /// 0: as many in each second; `None`: none at all.
    pub fn value(&self) -> Option<f64> {
        let mean = self.sum / self.seconds;
        let variance = (self.squares / self.seconds - mean * mean).max(0.0);
        (mean > 0.0).then(|| variance.sqrt() / mean)
    }
}

impl Sampler {
    /// A sampler for a machine.
    pub fn new<const T: bool>(_mm: &SimMm<T>, kswapds: Vec<u32>, flushers: Vec<u32>) -> Self {
        Self {
            series: Series::default(),
            kswapds,
            flushers,
            last: None,
            flows: Vec::new(),
            skip: 1,
            phase: 0,
        }
    }

    /// What happened in a zone since the last sample: pages a second, and how many seconds the file
    /// pages that were reclaimed had been in the cache.
    fn flows<const T: bool>(&mut self, mm: &SimMm<T>, z: usize, time: u64, row: &mut Row) {
        let event = |e| mm.zone_event(z, e);
        let (age, aged) = mm.reclaimed_age(z);
        let now = Flow {
            time,
            counts: [
                event(ZoneEvent::PgAlloc),
                event(ZoneEvent::PgScanKswapd) + event(ZoneEvent::PgScanDirect),
                event(ZoneEvent::PgSteal),
                event(ZoneEvent::PgHit),
                event(ZoneEvent::ReadAheadReclaimed),
            ],
            age,
            aged,
        };
        if self.flows.len() <= z {
            self.flows.resize_with(z + 1, || now.clone());
        }
        let before = std::mem::replace(&mut self.flows[z], now.clone());
        let seconds = (now.time.saturating_sub(before.time) as f64 / 1e9).max(1e-9);
        let name = mm.zone_name(z);
        let names = [
            "allocated",
            "scanned",
            "stolen",
            "hits",
            "readahead_reclaimed",
        ];
        for (i, what) in names.into_iter().enumerate() {
            let rate = (now.counts[i] - before.counts[i]) as f64 / seconds;
            row.push((what, name.clone(), "pages/s", rate));
        }
        let aged = (now.aged - before.aged).max(1) as f64;
        let age = (now.age - before.age) as f64 / 1000.0 / aged;
        row.push(("reclaim_age", name, "s", age));
    }

    /// Takes a sample, with what programs say of themselves, at `time` nanoseconds since the workload began.
    pub fn sample<const T: bool>(
        &mut self,
        mm: &SimMm<T>,
        gauges: &[(&'static str, &'static str, f64)],
        time: u64,
    ) {
        self.phase += 1;
        if !self.phase.is_multiple_of(self.skip) {
            return;
        }
        let w = &mm.world;
        let mut row: Row = Vec::new();
        let level = |z: usize, s: ZoneStat| mm.zone_stat(z, s) as f64;
        for z in 0..mm.zones.len() {
            let name = mm.zone_name(z);
            let mut put = |what, v: f64| row.push((what, name.clone(), "pages", v));
            put("free", level(z, ZoneStat::NrFreePages));
            put("min", mm.zones[z].mark(Mark::Min) as f64);
            put("low", mm.zones[z].mark(Mark::Low) as f64);
            put("high", mm.zones[z].mark(Mark::High) as f64);
            put("dirty", level(z, ZoneStat::NrFileDirty));
            put("writeback", level(z, ZoneStat::NrWriteback));
            put("dirty_limit", mm.zone_dirty_limit(z) as f64);
            put("inactive_file", level(z, ZoneStat::NrInactiveFile));
            if mm.has_active_file() {
                put("active_file", level(z, ZoneStat::NrActiveFile));
            }
            put("inactive_anon", level(z, ZoneStat::NrInactiveAnon));
            put("active_anon", level(z, ZoneStat::NrActiveAnon));
            if mm.watches_pages() {
                self.flows(mm, z, time, &mut row);
            }
        }
        let limits = mm.dirty_limits();
        let mut put = |what, unit, v: f64| row.push((what, "global".to_string(), unit, v));
        put(
            "dirty",
            "pages",
            mm.global_stat(ZoneStat::NrFileDirty) as f64,
        );
        put(
            "writeback",
            "pages",
            mm.global_stat(ZoneStat::NrWriteback) as f64,
        );
        put("background_limit", "pages", limits.background as f64);
        put("dirty_limit", "pages", limits.dirty as f64);
        let cpu = |tasks: &[u32]| tasks.iter().map(|&t| w.sched.task_cpu_ns(t)).sum::<u64>();
        let devices = w.devices.borrow();
        let members = |v: &Volume| &devices[v.first as usize..(v.first + v.members) as usize];
        // Written, read.
        let blocks = |v: &Volume| {
            let sum = |dir: Dir| {
                let of = |d: &Device| d.queue.stats().blocks[dir.index()];
                members(v).iter().map(of).sum::<u64>()
            };
            (sum(Dir::Write), sum(Dir::Read))
        };
        let tested = &w.volumes[DEVICE as usize];
        let (swap, _) = w.swap_area;
        let swap = (swap != DEVICE).then(|| &w.volumes[swap as usize]);
        let second = w.fs.get(1).map(|fs| &w.volumes[fs.volume as usize]);
        let (written, read) = blocks(tested);
        let now = Last {
            time,
            written,
            read,
            swap: swap.map(blocks),
            second: second.map(blocks),
            freed: (0..w.fs.len() as u32)
                .map(|sb| mm.inodes_freed(sb))
                .collect(),
            kswapd: cpu(&self.kswapds),
            flusher: cpu(&self.flushers),
            inodes: mm.vm_event(VmEvent::XfsInodesReclaimed),
        };
        let before = self.last.clone().unwrap_or(Last {
            time: 0,
            written: 0,
            read: 0,
            swap: now.swap.map(|_| (0, 0)),
            second: now.second.map(|_| (0, 0)),
            freed: vec![0; now.freed.len()],
            ..now
        });
        let seconds = ((now.time - before.time) as f64 / 1e9).max(1e-9);
        let mb = |blocks: u64| blocks as f64 * 4096.0 / 1e6 / seconds;
        put(
            "kswapd_cpu",
            "share",
            (now.kswapd - before.kswapd) as f64 / 1e9 / seconds,
        );
        put(
            "flusher_cpu",
            "share",
            (now.flusher - before.flusher) as f64 / 1e9 / seconds,
        );
        if w.fs.iter().any(|fs| fs.kind().about().xfs_inodes) {
            let freed = now.inodes - before.inodes;
            put(INODES_RECLAIMED, "1/s", freed as f64 / seconds);
        }
        let busy = (0..mm.bdi_count()).any(|b| mm.flusher_busy(b));
        put("flusher_active", "share", f64::from(u8::from(busy)));
        let awake = (0..mm.nodes.len() as u32).any(|n| !mm.kswapd_sleeps(n));
        put("kswapd_awake", "share", f64::from(u8::from(awake)));
        put("write_throughput", "MB/s", mb(now.written - before.written));
        put("read_throughput", "MB/s", mb(now.read - before.read));
        if let Some((now, before)) = now.swap.zip(before.swap) {
            put("swap_write_throughput", "MB/s", mb(now.0 - before.0));
            put("swap_read_throughput", "MB/s", mb(now.1 - before.1));
        }
        let in_flight =
            |d: &Device| d.queue.in_flight(Class::Async) + d.queue.in_flight(Class::Sync);
        let queued: u32 = members(tested).iter().map(in_flight).sum();
        put("queue", "requests", f64::from(queued));
        if let Some((now, before)) = now.second.zip(before.second) {
            put("second_write_throughput", "MB/s", mb(now.0 - before.0));
            put("second_read_throughput", "MB/s", mb(now.1 - before.1));
        }
        if let Some(second) = second {
            let queued: u32 = members(second).iter().map(in_flight).sum();
            put("second_queue", "requests", f64::from(queued));
            let rates = now.freed.iter().zip(&before.freed);
            for (name, (now, before)) in FREED.into_iter().zip(rates) {
                put(name, "inodes/s", (now - before) as f64 / seconds);
            }
        }
        for &(name, unit, value) in gauges {
            put(name, unit, value);
        }
        for (kind, tasks) in w.sched.waiting.now() {
            row.push((WAITING, kind.to_owned(), "tasks", f64::from(tasks)));
        }
        drop(devices);
        self.last = Some(now);
        self.series.t.push(time as f64 / 1e9);
        if self.series.columns.is_empty() {
            self.series.columns = row
                .iter()
                .map(|(name, scope, unit, _)| Column {
                    name: (*name).into(),
                    scope: scope.clone(),
                    unit,
                    values: Vec::new(),
                })
                .collect();
        }
        for (column, (_, _, _, v)) in self.series.columns.iter_mut().zip(row) {
            column.values.push(v);
        }
        if self.series.t.len() > MOST {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let half = |v: &mut Vec<f64>| {
            let mut i = 0;
            v.retain(|_| {
                i += 1;
                i % 2 == 0
            });
        };
        half(&mut self.series.t);
        self.series
            .columns
            .iter_mut()
            .for_each(|c| half(&mut c.values));
        self.skip *= 2;
    }

    /// The series.
    pub fn finish(mut self) -> Series {
        // Kinds of waits that no sample met say nothing.
        let met = |c: &Column| c.name != WAITING || c.values.iter().any(|v| *v > 0.0);
        self.series.columns.retain(met);
        self.series
    }
}
