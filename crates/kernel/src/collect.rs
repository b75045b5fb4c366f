//! Turns the frames of a guest, or a recording of the running Linux, into the result of a run.

use crate::events::{Survey, TraceError, Traced};
use crate::groups;
use crate::proc::{self, DiskStats};
use guest::wire::Frame;
use sim::result::{Column, Metric, Outcome, RunResult, Series};
use sim::rng::fnv1a;
use sim::sample::Names;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// All frames, reduced to what a result needs: of looks the first, the last and the figures of
/// those between, of events the sums.
#[derive(Debug, Default)]
pub struct Heard {
    /// All frames but looks and events, in order.
    frames: Vec<Frame>,
    digest: u64,
    looks: Looks,
    traced: Option<Result<Traced, TraceError>>,
}

/// The files of one look: contents by path.
type Files = BTreeMap<String, String>;

/// Looks in order: the first is that at the start, the last that at the end.
#[derive(Debug, Default)]
struct Looks {
    first: Option<Files>,
    /// The figures of completed looks.
    samples: Vec<Sample>,
    /// The time and files of the look that is being received.
    now: Option<(u64, Files)>,
}

impl Looks {
    /// Takes one file of a look: its contents at time `at` (ns). A file of a new time, or one that
    /// the look has already, begins the next look; the completed one is reduced to its sample.
    fn file(&mut self, at: u64, path: &str, contents: &[u8]) {
        // The look at the end may have the time of the one before, so a repeated path also starts a
        // new look.
        let other = |(last, files): &(u64, Files)| *last != at || files.contains_key(path);
        if self.now.as_ref().is_none_or(other) {
            if let Some((at, files)) = self.now.take() {
                self.samples.push(Sample::of(at, &files));
                self.first.get_or_insert(files);
            }
            self.now = Some((at, Files::new()));
        }
        if let Some((_, files)) = &mut self.now {
            let text = String::from_utf8_lossy(contents).into_owned();
            files.insert(path.to_owned(), text);
        }
    }

    /// Returns the files of the first look, and the time (ns) and files of the last; `None` if
    /// there was no look.
    fn first_and_last(&self) -> Option<(&Files, u64, &Files)> {
        let (at, last) = self.now.as_ref()?;
        Some((self.first.as_ref().unwrap_or(last), *at, last))
    }
}

/// The disks of a run, by the kernel's names.
#[derive(Debug, Clone, Copy)]
pub struct Disks<'a> {
    /// The disks of its filesystems, in the order of their names in results.
    pub filesystems: &'a [String],
    /// The disk of the swap area, if the swap area has its own.
    pub swap: Option<&'a str>,
}

impl Heard {
    /// Reads all frames, the messages that a guest sent, or those of a recording, and reduces them.
    /// `open` starts from the beginning and is called again for a second pass, which sums events; a
    /// last frame that is cut short is left out.
    ///
    /// # Errors
    /// The source can't be read, or holds something that is no frame.
    pub fn read<'a>(open: &dyn Fn() -> io::Result<Box<dyn Read + 'a>>) -> io::Result<Self> {
        let mut heard = Self::default();
        // The first pass surveys the events of the tracepoints, the second one sums them.
        let mut survey = Ok(Survey::default());
        let mut from = open()?;
        while let Some(frame) = Frame::read(&mut from)? {
            let bytes = [&heard.digest.to_le_bytes()[..], &frame.to_bytes()].concat();
            heard.digest = fnv1a(&bytes);
            survey = survey.and_then(|mut s| s.frame(&frame).map(|()| s));
            match frame {
                Frame::Look(at, path, contents) => heard.looks.file(at, &path, &contents),
                Frame::Trace(_) => {}
                other => heard.frames.push(other),
            }
        }
        let mut reading = match survey.and_then(Survey::done) {
            Ok(Some(reading)) => Ok(reading),
            Ok(None) => return Ok(heard),
            Err(why) => {
                heard.traced = Some(Err(why));
                return Ok(heard);
            }
        };
        let mut from = open()?;
        // Second pass.
        while let Some(frame) = Frame::read(&mut from)? {
            reading = reading.and_then(|mut r| r.frame(&frame).map(|()| r));
        }
        heard.traced = Some(reading.map(|r| r.done()));
        Ok(heard)
    }

    /// Drops samples of looks evenly until at most `most` are left; rates are then means over
    /// longer times. Returns how many samples became one.
    pub fn thin(&mut self, most: usize) -> usize {
        let each = self.looks.samples.len().div_ceil(most.max(1)).max(1);
        let mut nth = 0..;
        self.looks
            .samples
            .retain(|_| nth.next().is_some_and(|n: usize| n.is_multiple_of(each)));
        each
    }

    /// Returns a digest of all frames, by which two runs are compared.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns true if the guest sent its last frame, so that nothing is missing.
    pub fn complete(&self) -> bool {
        self.frames.contains(&Frame::Bye)
    }

    /// Returns the guest kernel's release (`uname -r`); `None` if the guest never started to
    /// report.
    pub fn release(&self) -> Option<&str> {
        self.frames.iter().find_map(|f| match f {
            Frame::Hello(release) => Some(release.as_str()),
            _ => None,
        })
    }

    /// Returns the contents of a file at the last look, the one at the end of the run.
    pub fn last(&self, path: &str) -> Option<&str> {
        let (_, _, last) = self.looks.first_and_last()?;
        last.get(path).map(String::as_str)
    }

    /// Returns the reason why the guest could not go on, or a program failed; `None` if neither is
    /// so.
    pub fn failure(&self) -> Option<&str> {
        self.frames.iter().find_map(|f| match f {
            Frame::Failed(why) => Some(why.as_str()),
            _ => None,
        })
    }

    /// Returns the setting that the guest's kernel did not accept: its index in the job, the
    /// reason, and the names of files beside its own; `None` if all were accepted.
    pub fn refused(&self) -> Option<(usize, &str, Vec<&str>)> {
        self.frames.iter().find_map(|f| match f {
            Frame::Refused(nth, why, beside) => {
                Some((*nth as usize, why.as_str(), beside.lines().collect()))
            }
            _ => None,
        })
    }

    /// Returns the time at which the workload ended, in nanoseconds; `None` if it did not.
    fn end(&self) -> Option<u64> {
        self.frames.iter().find_map(|f| match f {
            Frame::End(ns) => Some(*ns),
            _ => None,
        })
    }

    /// Makes the result of a run with these disks: counters and pressure as differences between the
    /// first and the last look, figures of programs, time series, and sums of events. `names` says
    /// how the disks' columns are named.
    pub fn result(self, outcome: Outcome, names: &Names, disks: Disks<'_>) -> RunResult {
        let mut result = RunResult::of_kernel(outcome);
        if let Some((first, at, last)) = self.looks.first_and_last() {
            result.counters = counters(first, last);
            pressures(first, last, &mut result.metrics);
            managed(first, &mut result.metrics);
            groups::figures(first, last, &mut result.metrics);
            // Nanoseconds from the start to the end of the workload, or else to the last look.
            let lasted = self.end().unwrap_or(at);
            let elapsed = Metric {
                unit: "s",
                value: lasted as f64 / 1e9,
            };
            result.metrics.insert("elapsed".to_owned(), elapsed);
        }
        self.figures(&mut result.metrics);
        result.series = self.series(names, disks);
        match self.traced {
            Some(Ok(traced)) => traced.tell(&mut result),
            None => {}
            Some(Err(why)) => result
                .notes
                .push(format!("no figures from tracepoints: {why}")),
        }
        for frame in self.frames {
            match frame {
                Frame::Note(note) => result.notes.push(note),
                Frame::Kills(reports) if reports.is_empty() => {}
                Frame::Kills(reports) => match &mut result.outcome {
                    Outcome::Oom { report } => {
                        report.push('\n');
                        *report += &reports;
                    }
                    _ => result.kills = reports,
                },
                _ => {}
            }
        }
        result
    }

    /// Adds the metrics that the guest's programs reported; equal names are summed.
    fn figures(&self, into: &mut BTreeMap<String, Metric>) {
        for frame in &self.frames {
            if let Frame::Figure(name, unit, value) = frame
                && name != "elapsed"
            {
                let unit = sim::stored::known(unit);
                let sum = into
                    .entry(name.clone())
                    .or_insert(Metric { unit, value: 0.0 });
                sum.value += value;
            }
        }
    }

    /// Returns the time series: for each look a sample of the zones, the machine and the disks,
    /// with rates since the look before, and the programs' gauges of that time.
    fn series(&self, names: &Names, disks: Disks<'_>) -> Series {
        let mut series = Series::default();
        let mut gauges = self.gauges();
        // The last look is that of the end: its figures are a sample only if it has the time of
        // another look.
        for pair in self.looks.samples.windows(2) {
            let [before, now] = pair else { continue };
            let mut row = now.row(before, names, disks);
            row.extend(gauges.remove(&now.at).unwrap_or_default());
            append_sample(&mut series, now.at, row);
        }
        series
    }

    /// Returns the columns of gauges that programs reported, by time in nanoseconds.
    fn gauges(&self) -> BTreeMap<u64, Row> {
        let mut all: BTreeMap<u64, Row> = BTreeMap::new();
        for frame in &self.frames {
            if let Frame::Gauge(at, name, unit, value) = frame {
                let row = all.entry(*at).or_default();
                row.push((
                    name.clone(),
                    GLOBAL.to_owned(),
                    sim::stored::known(unit),
                    *value,
                ));
            }
        }
        all
    }
}

/// The scope of columns that belong to no zone.
const GLOBAL: &str = "global";

/// Name, scope, unit and value of each column.
type Row = Vec<(String, String, &'static str, f64)>;

/// Appends a sample of time `at` (ns) to the series. A column missing from this sample, or from the
/// earlier ones, is NaN there.
fn append_sample(series: &mut Series, at: u64, row: Row) {
    let before = series.t.len();
    series.t.push(at as f64 / 1e9);
    for (name, scope, unit, value) in row {
        let is = |c: &&mut Column| c.name == name && c.scope == scope;
        match series.columns.iter_mut().find(is) {
            Some(column) => column.values.push(value),
            None => {
                let mut values = vec![f64::NAN; before];
                values.push(value);
                series.columns.push(Column {
                    name,
                    scope,
                    unit,
                    values,
                });
            }
        }
    }
    for column in &mut series.columns {
        column.values.resize(before + 1, f64::NAN);
    }
}

/// Returns the increase of each event counter of `/proc/vmstat` from the first to the last look.
fn counters(first: &Files, last: &Files) -> BTreeMap<String, u64> {
    let text = |files: &Files| files.get("/proc/vmstat").cloned().unwrap_or_default();
    proc::events_between(&text(first), &text(last))
}

/// The files of pressure stall information and the resource of each.
const PRESSURES: [(&str, &str); 3] = [
    ("/proc/pressure/memory", "memory"),
    ("/proc/pressure/io", "io"),
    ("/proc/pressure/cpu", "cpu"),
];

/// Adds the seconds that tasks stalled for each resource (pressure stall information), from the
/// first to the last look: `psi_memory_some` and others.
fn pressures(first: &Files, last: &Files, into: &mut BTreeMap<String, Metric>) {
    for (path, of) in PRESSURES {
        for who in ["some", "full"] {
            let total = |files: &Files| proc::pressure(files.get(path)?, who);
            if let (Some(first), Some(last)) = (total(first), total(last)) {
                let value = last.saturating_sub(first) as f64 / 1e6;
                into.insert(format!("psi_{of}_{who}"), Metric { unit: "s", value });
            }
        }
    }
}

/// Adds the metric `managed`: the pages that the allocator owns, over all zones, which is the
/// machine's memory without the pages that the kernel kept for itself at boot.
fn managed(first: &Files, into: &mut BTreeMap<String, Metric>) {
    let zones = first
        .get("/proc/zoneinfo")
        .map_or_else(Vec::new, |text| proc::zones(text));
    if !zones.is_empty() {
        let pages: u64 = zones.iter().map(|zone| zone.managed).sum();
        let metric = Metric {
            unit: "pages",
            value: pages as f64,
        };
        into.insert("managed".to_owned(), metric);
    }
}

/// Fills the buffer from a source; returns false if the source ends before that.
pub(crate) fn whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// Columns of a zone in a series: the column's name and the name in `/proc/zoneinfo`.
const OF_ZONES: [(&str, &str); 8] = [
    ("free", "free"),
    ("min", "min"),
    ("low", "low"),
    ("high", "high"),
    ("inactive_file", "nr_zone_inactive_file"),
    ("active_file", "nr_zone_active_file"),
    ("inactive_anon", "nr_zone_inactive_anon"),
    ("active_anon", "nr_zone_active_anon"),
];

/// Columns of all memory in a series: the column's name and the name in `/proc/vmstat`.
const OF_ALL: [(&str, &str); 4] = [
    ("dirty", "nr_dirty"),
    ("writeback", "nr_writeback"),
    ("background_limit", "nr_dirty_background_threshold"),
    ("dirty_limit", "nr_dirty_threshold"),
];

/// The figures of a look that series need. Kept small, because there may be many.
#[derive(Debug)]
struct Sample {
    at: u64,
    /// Each zone's name and figures, in the order of [`OF_ZONES`].
    zones: Vec<(String, [Option<u64>; OF_ZONES.len()])>,
    /// In the order of [`OF_ALL`].
    all: [Option<u64>; OF_ALL.len()],
    disks: Vec<(String, DiskStats)>,
    pressures: Vec<(String, u64)>,
    /// Levels of memory control groups in pages, by the column's name.
    groups: Vec<(String, u64)>,
}

impl Sample {
    /// Reduces the files of a look at time `at` (ns) to the figures that series need.
    fn of(at: u64, files: &Files) -> Self {
        let text = |path: &str| files.get(path).map_or("", String::as_str);
        let stat = proc::vmstat(text("/proc/vmstat"));
        let mut pressures = Vec::new();
        for (path, of) in PRESSURES {
            for who in ["some", "full"] {
                if let Some(us) = proc::pressure(text(path), who) {
                    pressures.push((format!("psi_{of}_{who}"), us));
                }
            }
        }
        let zones = proc::zones(text("/proc/zoneinfo"));
        Self {
            at,
            zones: zones
                .into_iter()
                .map(|zone| {
                    let figures = OF_ZONES.map(|(_, from)| zone.figures.get(from).copied());
                    (zone.name, figures)
                })
                .collect(),
            all: OF_ALL.map(|(_, from)| stat.get(from).copied()),
            disks: proc::all_diskstats(text("/proc/diskstats")).collect(),
            pressures,
            groups: groups::levels(files),
        }
    }

    /// Returns the statistics of a disk by its kernel name at this look; `None` if there is no such
    /// disk.
    fn disk(&self, name: &str) -> Option<DiskStats> {
        let found = self.disks.iter().find(|(n, _)| n == name);
        found.map(|(_, stats)| *stats)
    }

    /// Returns the columns of this look: pages of the zones and of the machine, and rates since the
    /// look `before`.
    fn row(&self, before: &Self, names: &Names, disks: Disks<'_>) -> Row {
        let mut row = Row::new();
        for (zone, figures) in &self.zones {
            for ((what, _), figure) in OF_ZONES.iter().zip(figures) {
                if let Some(n) = figure {
                    row.push(((*what).to_owned(), zone.clone(), "pages", *n as f64));
                }
            }
        }
        for ((what, _), figure) in OF_ALL.iter().zip(self.all) {
            if let Some(n) = figure {
                row.push(((*what).to_owned(), GLOBAL.to_owned(), "pages", n as f64));
            }
        }
        for (name, pages) in &self.groups {
            row.push((name.clone(), GLOBAL.to_owned(), "pages", *pages as f64));
        }
        self.rates(before, names, disks, &mut row);
        row
    }

    /// Adds to `row` the rates between the look `before` and this one: throughput of each disk,
    /// with its queue, and of swap, and the share of the time in which tasks stalled.
    fn rates(&self, before: &Self, names: &Names, disks: Disks<'_>, row: &mut Row) {
        let seconds = (self.at.saturating_sub(before.at) as f64 / 1e9).max(1e-9);
        // Disks count sectors of 512 bytes.
        let megabytes =
            |now: u64, before: u64| now.saturating_sub(before) as f64 * 512.0 / 1e6 / seconds;
        for (i, disk) in disks.filesystems.iter().enumerate() {
            let (Some(now), Some(old)) = (self.disk(disk), before.disk(disk)) else {
                continue;
            };
            let scope = match names {
                Names::ByMount(mounts) if i > 0 => mounts[i].clone(),
                _ => GLOBAL.to_owned(),
            };
            let mut put = |what: &str, unit, value| {
                let name = match names {
                    Names::Second if i > 0 => format!("second_{what}"),
                    _ => what.to_owned(),
                };
                row.push((name, scope.clone(), unit, value));
            };
            put(
                "write_throughput",
                "MB/s",
                megabytes(now.written, old.written),
            );
            put("read_throughput", "MB/s", megabytes(now.read, old.read));
            if let Some(n) = now.in_flight {
                put("queue", "requests", n as f64);
            }
        }
        let mut put = |what: String, unit, value| row.push((what, GLOBAL.to_owned(), unit, value));
        let swap = |sample: &Self| sample.disk(disks.swap?);
        if let (Some(now), Some(old)) = (swap(self), swap(before)) {
            put(
                "swap_write_throughput".to_owned(),
                "MB/s",
                megabytes(now.written, old.written),
            );
            put(
                "swap_read_throughput".to_owned(),
                "MB/s",
                megabytes(now.read, old.read),
            );
        }
        for ((name, now), (_, old)) in self.pressures.iter().zip(&before.pressures) {
            let share = now.saturating_sub(*old) as f64 / 1e6 / seconds;
            put(name.clone(), "share", share);
        }
    }
}
