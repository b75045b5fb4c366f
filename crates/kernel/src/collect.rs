//! What a guest said, as the result of a run.

use crate::events;
use crate::guest::disk_name;
use crate::proc::{self, DiskStats, Zone};
use guest::wire::Frame;
use sim::result::{Column, Metric, Outcome, RunResult, Series};
use sim::rng::fnv1a;
use sim::sample::Names;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// Everything that was said, in order.
#[derive(Debug, Default)]
pub struct Heard {
    frames: Vec<Frame>,
    digest: u64,
}

/// The files of one look.
type Files<'a> = BTreeMap<&'a str, &'a str>;

impl Heard {
    /// Reads all frames; a last one that is cut short is left out.
    ///
    /// # Errors
    /// What can't be read, or is no frame.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut heard = Self::default();
        while let Some(frame) = Frame::read(from)? {
            let bytes = [&heard.digest.to_le_bytes()[..], &frame.to_bytes()].concat();
            heard.digest = fnv1a(&bytes);
            heard.frames.push(frame);
        }
        Ok(heard)
    }

    /// A digest of it.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether it said all that it had to say.
    pub fn complete(&self) -> bool {
        self.frames.contains(&Frame::Bye)
    }

    /// Why it could not go on, or a program failed.
    pub fn failure(&self) -> Option<&str> {
        self.frames.iter().find_map(|f| match f {
            Frame::Failed(why) => Some(why.as_str()),
            _ => None,
        })
    }

    /// The setting that was not taken: its place in the job, why, and the names of the files beside its own.
    pub fn refused(&self) -> Option<(usize, &str, Vec<&str>)> {
        self.frames.iter().find_map(|f| match f {
            Frame::Refused(nth, why, beside) => {
                Some((*nth as usize, why.as_str(), beside.lines().collect()))
            }
            _ => None,
        })
    }

    fn end(&self) -> Option<u64> {
        self.frames.iter().find_map(|f| match f {
            Frame::End(ns) => Some(*ns),
            _ => None,
        })
    }

    /// The looks with their times: that at the start first, that at the end last.
    fn looks(&self) -> Vec<(u64, Files<'_>)> {
        let mut looks: Vec<(u64, Files<'_>)> = Vec::new();
        for frame in &self.frames {
            let Frame::Look(at, path, contents) = frame else {
                continue;
            };
            let text = std::str::from_utf8(contents).unwrap_or("");
            // The look at the end may be at the time of another one, and follows it.
            let new = looks
                .last()
                .is_none_or(|(last, files)| last != at || files.contains_key(path.as_str()));
            if new {
                looks.push((*at, Files::new()));
            }
            if let Some((_, files)) = looks.last_mut() {
                files.insert(path, text);
            }
        }
        looks
    }

    /// The result of a run with so many filesystems, and a swap disk of its own behind theirs if there is one.
    pub fn result(
        &self,
        outcome: Outcome,
        names: &Names,
        filesystems: usize,
        swap: Option<usize>,
    ) -> RunResult {
        let looks = self.looks();
        let mut result = RunResult::of_kernel(outcome);
        if let (Some((_, first)), Some((at, last))) = (looks.first(), looks.last()) {
            result.counters = counters(first, last);
            pressures(first, last, &mut result.metrics);
            let lasted = self.end().unwrap_or(*at);
            let elapsed = Metric {
                unit: "s",
                value: lasted as f64 / 1e9,
            };
            result.metrics.insert("elapsed".to_owned(), elapsed);
        }
        self.figures(&mut result.metrics);
        match events::read(&self.frames) {
            Ok(Some(traced)) => traced.tell(&mut result),
            Ok(None) => {}
            Err(why) => result
                .notes
                .push(format!("tracepoints tell nothing: {why}")),
        }
        result.series = self.series(&looks, names, filesystems, swap);
        for frame in &self.frames {
            if let Frame::Note(note) = frame {
                result.notes.push(note.clone());
            }
        }
        result
    }

    /// What the programs reported.
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

    fn series(
        &self,
        looks: &[(u64, Files<'_>)],
        names: &Names,
        filesystems: usize,
        swap: Option<usize>,
    ) -> Series {
        let mut series = Series::default();
        let mut before: Option<Sample> = None;
        let mut gauges = self.gauges();
        // The last look is that of the end: it is no sample unless it is at the time of one.
        let samples = &looks[..looks.len().saturating_sub(1)];
        for (at, files) in samples.iter().skip(1) {
            let now = Sample::of(*at, files, filesystems, swap);
            let first = || Sample::of(0, &samples[0].1, filesystems, swap);
            let mut row = now.row(&before.take().unwrap_or_else(first), names);
            row.extend(gauges.remove(at).unwrap_or_default());
            before = Some(now);
            put(&mut series, *at, row);
        }
        series
    }

    /// What programs said of themselves, by time.
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

/// The scope of what belongs to no zone.
const GLOBAL: &str = "global";

/// Name, scope, unit and value of each column.
type Row = Vec<(String, String, &'static str, f64)>;

/// Adds a sample: a column that it does not have, or that others did not have, is not a number there.
fn put(series: &mut Series, at: u64, row: Row) {
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

/// Events of `/proc/vmstat` from the start to the end.
fn counters(first: &Files<'_>, last: &Files<'_>) -> BTreeMap<String, u64> {
    let text = |files: &Files<'_>| files.get("/proc/vmstat").copied().unwrap_or("").to_owned();
    let (first, last) = (text(first), text(last));
    let first = proc::vmstat(&first);
    let events = proc::vmstat(&last)
        .into_iter()
        .filter(|(name, _)| !proc::is_level(name));
    let since = |(name, n): (&str, u64)| {
        let before = first.get(name).copied().unwrap_or(0);
        (name.to_owned(), n.saturating_sub(before))
    };
    events.map(since).collect()
}

/// The files of pressure and what each is of.
const PRESSURES: [(&str, &str); 3] = [
    ("/proc/pressure/memory", "memory"),
    ("/proc/pressure/io", "io"),
    ("/proc/pressure/cpu", "cpu"),
];

/// Seconds that tasks stood still, from the start to the end.
fn pressures(first: &Files<'_>, last: &Files<'_>, into: &mut BTreeMap<String, Metric>) {
    for (path, of) in PRESSURES {
        for who in ["some", "full"] {
            let total = |files: &Files<'_>| proc::pressure(files.get(path)?, who);
            if let (Some(first), Some(last)) = (total(first), total(last)) {
                let value = last.saturating_sub(first) as f64 / 1e6;
                into.insert(format!("psi_{of}_{who}"), Metric { unit: "s", value });
            }
        }
    }
}

/// What a look says, as far as series need it.
struct Sample {
    at: u64,
    zones: Vec<Zone>,
    stat: BTreeMap<String, u64>,
    disks: Vec<DiskStats>,
    swap: Option<DiskStats>,
    pressures: Vec<(String, u64)>,
}

impl Sample {
    fn of(at: u64, files: &Files<'_>, filesystems: usize, swap: Option<usize>) -> Self {
        let text = |path: &str| files.get(path).copied().unwrap_or("");
        let stat = proc::vmstat(text("/proc/vmstat"));
        let disks = text("/proc/diskstats");
        let disk = |i: usize| proc::diskstats(disks, &disk_name(i)).unwrap_or_default();
        let mut pressures = Vec::new();
        for (path, of) in PRESSURES {
            for who in ["some", "full"] {
                if let Some(us) = proc::pressure(text(path), who) {
                    pressures.push((format!("psi_{of}_{who}"), us));
                }
            }
        }
        Self {
            at,
            zones: proc::zones(text("/proc/zoneinfo")),
            stat: stat
                .into_iter()
                .map(|(name, n)| (name.to_owned(), n))
                .collect(),
            disks: (0..filesystems).map(disk).collect(),
            swap: swap.map(disk),
            pressures,
        }
    }

    fn row(&self, before: &Self, names: &Names) -> Row {
        let mut row = Row::new();
        for zone in &self.zones {
            let mut put = |what: &str, from: &str| {
                if let Some(n) = zone.figures.get(from) {
                    row.push((what.to_owned(), zone.name.clone(), "pages", *n as f64));
                }
            };
            for (what, from) in [
                ("free", "free"),
                ("min", "min"),
                ("low", "low"),
                ("high", "high"),
                ("inactive_file", "nr_zone_inactive_file"),
                ("active_file", "nr_zone_active_file"),
                ("inactive_anon", "nr_zone_inactive_anon"),
                ("active_anon", "nr_zone_active_anon"),
            ] {
                put(what, from);
            }
        }
        for (what, from) in [
            ("dirty", "nr_dirty"),
            ("writeback", "nr_writeback"),
            ("background_limit", "nr_dirty_background_threshold"),
            ("dirty_limit", "nr_dirty_threshold"),
        ] {
            if let Some(n) = self.stat.get(from) {
                row.push((what.to_owned(), GLOBAL.to_owned(), "pages", *n as f64));
            }
        }
        self.rates(before, names, &mut row);
        row
    }

    fn rates(&self, before: &Self, names: &Names, row: &mut Row) {
        let seconds = ((self.at - before.at) as f64 / 1e9).max(1e-9);
        let megabytes =
            |now: u64, before: u64| now.saturating_sub(before) as f64 * 512.0 / 1e6 / seconds;
        for (i, (now, old)) in self.disks.iter().zip(&before.disks).enumerate() {
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
            put("queue", "requests", now.in_flight as f64);
        }
        let mut put = |what: String, unit, value| row.push((what, GLOBAL.to_owned(), unit, value));
        if let (Some(now), Some(old)) = (self.swap, before.swap) {
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
