//! Time series of a run: samples of zones, disks, kswapd and flushers.

use crate::SimMm;
use crate::filesystems::DEVICE;
use crate::groups;
use crate::result::{Column, Series};
use crate::spec::Machine;
use mm::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};

use mm::memory::zone::Mark;

/// Most samples kept; beyond that every second one is dropped and the interval doubles.
const MOST: usize = 2000;
/// Name of the columns that count waiting tasks, one column per kind of wait.
pub const WAITING: &str = "waiting";

/// Name of the column of XFS inodes that reclaim freed.
pub const INODES_RECLAIMED: &str = "inodes_reclaimed";
/// How results name the filesystems of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// The only filesystem needs no name.
    One,
    /// The machine file has a `second` filesystem: the two are `first` and `second`.
    Second,
    /// By their mount points, each with a leading slash.
    ByMount(Vec<String>),
}

impl Names {
    /// Returns how results name a machine's filesystems, by the mounts beside the root.
    pub fn of(machine: &Machine) -> Self {
        match &machine.mounts[..] {
            [] => Self::One,
            [one] if one.is_second => Self::Second,
            _ => Self::ByMount(
                machine
                    .mount_points()
                    .iter()
                    .map(|m| format!("/{m}"))
                    .collect(),
            ),
        }
    }

    /// Returns the name of the metric of inodes freed on the `fs`th filesystem; it has the mount
    /// point where there are several mounts.
    pub fn freed(&self, fs: usize) -> String {
        match self {
            Self::One => INODES_FREED.to_owned(),
            Self::Second => SECOND_FREED[fs].to_owned(),
            Self::ByMount(_) => self.of_mount(INODES_FREED, fs),
        }
    }

    /// Returns the name of metric `what` of the `fs`th filesystem, with its mount point where there
    /// are several mounts: `disk_read:/mnt/data`.
    pub fn of_mount(&self, what: &str, fs: usize) -> String {
        match self {
            Self::ByMount(mounts) => format!("{what}:{}", mounts[fs]),
            Self::One | Self::Second => what.to_owned(),
        }
    }
}

/// Name of the metrics and columns of a filesystem's freed inodes.
pub const INODES_FREED: &str = "inodes_freed_on";
/// The same names where results call two filesystems the first and the second.
const SECOND_FREED: [&str; 2] = ["first_inodes_freed", "second_inodes_freed"];

/// Takes samples and keeps them as series.
pub struct Sampler {
    series: Series,
    kswapds: Vec<u32>,
    flushers: Vec<u32>,
    names: Names,
    last: Option<Last>,
    /// The counts of each zone at the last sample; empty unless pages are watched.
    flows: Vec<Flow>,
    skip: u32,
    phase: u32,
}

/// A sample: name, scope, unit and value of each column.
type Row = Vec<(&'static str, String, &'static str, f64)>;

/// The scope of values that belong to no zone and no mount point.
const GLOBAL: &str = "global";

/// Adds the machine's dirty pages, its pages under writeback, and the dirty limits to a sample.
fn dirty_pages<const T: bool>(mm: &SimMm<T>, row: &mut Row) {
    let limits = mm.dirty_limits();
    let mut put = |what, v: f64| row.push((what, GLOBAL.to_owned(), "pages", v));
    put("dirty", mm.global_stat(ZoneStat::NrFileDirty) as f64);
    put("writeback", mm.global_stat(ZoneStat::NrWriteback) as f64);
    put("background_limit", limits.background as f64);
    put("dirty_limit", limits.dirty as f64);
}

/// Converts blocks written and read since `before` to megabytes per second.
fn megabytes(now: (u64, u64), before: (u64, u64), seconds: f64) -> [f64; 2] {
    let mb = |blocks: u64| blocks as f64 * 4096.0 / 1e6 / seconds;
    [mb(now.0 - before.0), mb(now.1 - before.1)]
}

impl Last {
    /// Returns the seconds since an earlier sample.
    fn since(&self, before: &Self) -> f64 {
        ((self.time - before.time) as f64 / 1e9).max(1e-9)
    }
}

/// The counts of a zone at a sample, when pages are watched.
#[derive(Clone)]
struct Flow {
    time: u64,
    counts: [u64; 5],
    /// Sum of ages in milliseconds, and number of pages, see [`mm::Mm::reclaimed_age`].
    age: u64,
    aged: u64,
}

/// The counts of the machine at a sample.
#[derive(Clone, Default)]
struct Last {
    time: u64,
    /// Blocks written to and read from the disk of each filesystem.
    disks: Vec<(u64, u64)>,
    /// Blocks written to and read from a separate swap disk.
    swap: Option<(u64, u64)>,
    /// Inodes freed in each filesystem.
    freed: Vec<u64>,
    kswapd: u64,
    flusher: u64,
    /// XFS inodes that reclaim freed.
    inodes: u64,
}

/// How uneven XFS inode reclaim was: the standard deviation of the inodes freed per second, divided
/// by their mean. Its seconds are independent of the interval between samples, and so is the
/// figure.
#[derive(Default)]
pub struct Lumpiness {
    last: Option<u64>,
    seconds: f64,
    sum: f64,
    squares: f64,
}

impl Lumpiness {
    /// Counts the XFS inodes that reclaim freed in the second that ends now; the first call starts
    /// the first second.
    pub fn second<const T: bool>(&mut self, mm: &SimMm<T>) {
        let freed = mm.vm_event(VmEvent::XfsInodesReclaimed);
        if let Some(last) = self.last.replace(freed) {
            let freed = (freed - last) as f64;
            self.seconds += 1.0;
            self.sum += freed;
            self.squares += freed * freed;
        }
    }

    /// Returns the standard deviation of inodes freed per second, divided by their mean: 0 if each
    /// second freed as many; `None` if none were freed.
    pub fn value(&self) -> Option<f64> {
        let mean = self.sum / self.seconds;
        let variance = (self.squares / self.seconds - mean * mean).max(0.0);
        (mean > 0.0).then(|| variance.sqrt() / mean)
    }
}

impl Sampler {
    /// Returns a sampler for a machine; `kswapds` and `flushers` are task numbers.
    pub fn new(machine: &Machine, kswapds: Vec<u32>, flushers: Vec<u32>) -> Self {
        Self {
            series: Series::default(),
            kswapds,
            flushers,
            names: Names::of(machine),
            last: None,
            flows: Vec::new(),
            skip: 1,
            phase: 0,
        }
    }

    /// Adds zone `z`'s rates since the last sample, in pages a second, and the mean age in seconds
    /// in the cache of the file pages that were reclaimed. `time`: nanoseconds since the workload
    /// began.
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

    /// Takes a sample of zones, dirty pages, disks, flushers and waiting tasks at `time`
    /// nanoseconds since the workload began, unless it is one of those left out since the series
    /// was thinned; `gauges` are values that programs report (name, unit, value).
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
        let mut row: Row = Vec::new();
        for z in 0..mm.zones.len() {
            self.zone(mm, z, time, &mut row);
        }
        dirty_pages(mm, &mut row);
        let mut now = self.counts(mm, time);
        let before = self.last.take().unwrap_or_else(|| Last {
            time: 0,
            disks: vec![(0, 0); now.disks.len()],
            swap: now.swap.map(|_| (0, 0)),
            freed: vec![0; now.freed.len()],
            ..now.clone()
        });
        // The sectors that share blocks with a log record are subtracted when its write begins, and
        // its blocks are counted as they are written: until then fewer blocks may seem to have been
        // written than before.
        for (now, before) in now.disks.iter_mut().zip(&before.disks) {
            now.0 = now.0.max(before.0);
        }
        self.rates(mm, &now, &before, &mut row);
        self.other_filesystems(mm, &now, &before, &mut row);
        for &(name, unit, value) in gauges {
            row.push((name, GLOBAL.to_owned(), unit, value));
        }
        for (kind, tasks) in mm.world.sched.waiting.now() {
            row.push((WAITING, kind.to_owned(), "tasks", f64::from(tasks)));
        }
        self.last = Some(now);
        self.put(time, row, &groups::levels(mm));
    }

    /// Adds a zone's pages by list and state, and its watermarks, to a sample; with watched pages
    /// also their flows.
    fn zone<const T: bool>(&mut self, mm: &SimMm<T>, z: usize, time: u64, row: &mut Row) {
        let level = |s: ZoneStat| mm.zone_stat(z, s) as f64;
        let name = mm.zone_name(z);
        let mut put = |what, v: f64| row.push((what, name.clone(), "pages", v));
        put("free", level(ZoneStat::NrFreePages));
        put("min", mm.zones[z].mark(Mark::Min) as f64);
        put("low", mm.zones[z].mark(Mark::Low) as f64);
        put("high", mm.zones[z].mark(Mark::High) as f64);
        put("dirty", level(ZoneStat::NrFileDirty));
        put("writeback", level(ZoneStat::NrWriteback));
        put("dirty_limit", mm.zone_dirty_limit(z) as f64);
        put("inactive_file", level(ZoneStat::NrInactiveFile));
        if mm.has_active_file() {
            put("active_file", level(ZoneStat::NrActiveFile));
        }
        put("inactive_anon", level(ZoneStat::NrInactiveAnon));
        put("active_anon", level(ZoneStat::NrActiveAnon));
        if mm.watches_pages() {
            self.flows(mm, z, time, row);
        }
    }

    /// Returns the machine's counts up to `time` nanoseconds: blocks that disks wrote and read,
    /// inodes freed, and CPU time of kswapds and flushers.
    fn counts<const T: bool>(&self, mm: &SimMm<T>, time: u64) -> Last {
        let w = &mm.world;
        let cpu = |tasks: &[u32]| tasks.iter().map(|&t| w.sched.task_cpu_ns(t)).sum::<u64>();
        let (swap, _) = w.swap_area;
        let all = 0..w.fs.len() as u32;
        Last {
            time,
            disks: w.fs.iter().map(|fs| w.blocks(fs.volume)).collect(),
            swap: (swap != DEVICE).then(|| w.blocks(swap)),
            freed: all.map(|sb| mm.inodes_freed(sb)).collect(),
            kswapd: cpu(&self.kswapds),
            flusher: cpu(&self.flushers),
            inodes: mm.vm_event(VmEvent::XfsInodesReclaimed),
        }
    }

    /// Adds to a sample what kswapd, the flushers, the first filesystem's disk and the swap disk
    /// did since the last sample: shares of a CPU, MB/s, and the length of the disk's queue.
    fn rates<const T: bool>(&self, mm: &SimMm<T>, now: &Last, before: &Last, row: &mut Row) {
        let w = &mm.world;
        let mut put = |what, unit, v: f64| row.push((what, GLOBAL.to_owned(), unit, v));
        let seconds = now.since(before);
        let share = |now: u64, before: u64| (now - before) as f64 / 1e9 / seconds;
        put("kswapd_cpu", "share", share(now.kswapd, before.kswapd));
        put("flusher_cpu", "share", share(now.flusher, before.flusher));
        if w.fs.iter().any(|fs| fs.kind().about().xfs_inodes) {
            let freed = now.inodes - before.inodes;
            put(INODES_RECLAIMED, "1/s", freed as f64 / seconds);
        }
        let busy = (0..mm.bdi_count()).any(|b| mm.flusher_busy(b));
        put("flusher_active", "share", f64::from(u8::from(busy)));
        let awake = (0..mm.nodes.len() as u32).any(|n| !mm.kswapd_sleeps(n));
        put("kswapd_awake", "share", f64::from(u8::from(awake)));
        let mb = |now, before| megabytes(now, before, seconds);
        let [written, read] = mb(now.disks[0], before.disks[0]);
        put("write_throughput", "MB/s", written);
        put("read_throughput", "MB/s", read);
        if let Some((now, before)) = now.swap.zip(before.swap) {
            let [written, read] = mb(now, before);
            put("swap_write_throughput", "MB/s", written);
            put("swap_read_throughput", "MB/s", read);
        }
        put("queue", "requests", f64::from(w.in_flight(DEVICE)));
    }

    /// Adds to a sample the rates of the disks of all filesystems but the first, and of inodes
    /// freed in each filesystem. Adds nothing on a machine with one filesystem.
    fn other_filesystems<const T: bool>(
        &self,
        mm: &SimMm<T>,
        now: &Last,
        before: &Last,
        row: &mut Row,
    ) {
        let w = &mm.world;
        let seconds = now.since(before);
        let names: [&'static str; 3] = match self.names {
            Names::One => return,
            Names::Second => [
                "second_write_throughput",
                "second_read_throughput",
                "second_queue",
            ],
            Names::ByMount(_) => ["write_throughput", "read_throughput", "queue"],
        };
        let scope = |fs: usize| match &self.names {
            Names::ByMount(mounts) => mounts[fs].clone(),
            Names::One | Names::Second => GLOBAL.to_owned(),
        };
        for (i, fs) in w.fs.iter().enumerate().skip(1) {
            let [written, read] = megabytes(now.disks[i], before.disks[i], seconds);
            row.push((names[0], scope(i), "MB/s", written));
            row.push((names[1], scope(i), "MB/s", read));
            let queued = f64::from(w.in_flight(fs.volume));
            row.push((names[2], scope(i), "requests", queued));
        }
        let rates = now.freed.iter().zip(&before.freed);
        for (i, (now, before)) in rates.enumerate() {
            let name = match self.names {
                Names::Second => SECOND_FREED[i],
                _ => INODES_FREED,
            };
            let rate = (now - before) as f64 / seconds;
            row.push((name, scope(i), "inodes/s", rate));
        }
    }

    /// Appends a sample taken at `time` nanoseconds to the series, with the levels of memory
    /// control groups; the first sample defines the columns. Thins the series when it is too long.
    fn put(&mut self, time: u64, row: Row, groups: &[(String, f64)]) {
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
                .chain(groups.iter().map(|(name, _)| Column {
                    name: name.clone(),
                    scope: GLOBAL.to_owned(),
                    unit: "pages",
                    values: Vec::new(),
                }))
                .collect();
        }
        let values = row.into_iter().map(|(_, _, _, v)| v);
        let values = values.chain(groups.iter().map(|(_, v)| *v));
        for (column, v) in self.series.columns.iter_mut().zip(values) {
            column.values.push(v);
        }
        if self.series.t.len() > MOST {
            self.thin();
        }
    }

    /// Drops every second sample of the series and doubles the interval, so that a long run keeps a
    /// bounded number of samples.
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

    /// Returns the series, without the columns of kinds of wait that no sample has met.
    pub fn finish(mut self) -> Series {
        // Drops the columns of kinds of wait that no sample has met.
        let met = |c: &Column| c.name != WAITING || c.values.iter().any(|v| *v > 0.0);
        self.series.columns.retain(met);
        self.series
    }
}
