//! The log of finished iterations, from which an interrupted run can be resumed.
//!
//! The file begins with a line that names its format. Records follow: length (4 bytes, little
//! endian), the first 8 bytes of the SHA-256 of the rest, a byte that names the kind, and the
//! contents in MessagePack, which stores floats bit by bit. If the process ended while it wrote,
//! the last record is torn; reading stops before it, and new records overwrite it.
//!
//! ```text
//! lowmark iterations 1\n
//!   | len sum 'h' header | len sum 'i' cell iteration result | … | len sum 'p' sha256
//! ```
//!
//! The lock on this file also locks the results folder that the run will write.

use crate::model::Experiment;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sim::RunResult;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the log in the folder of an incomplete run.
pub const LOG: &str = "iterations.log";
const MAGIC: &[u8] = b"lowmark iterations 1\n";
/// Bytes of a record's length and checksum.
const HEAD: usize = 12;
/// Longest time that finished iterations stay unflushed in the page cache. They survive the end of
/// the process; after a power cut the iterations finished since the last flush are computed anew.
const SYNC: Duration = Duration::from_secs(1);

/// The description of the run that a log belongs to. Iterations of a run with another header are
/// not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The program's version.
    pub version: String,
    /// A digest of the program itself, so that results of two builds are never combined.
    pub build: String,
    /// The experiment's name.
    pub name: String,
    /// The experiment's seed.
    pub seed: u64,
    /// True if every iteration was run twice (`--check`).
    pub check: bool,
    /// Key and digest of the specification of each cell, in matrix order.
    pub cells: Vec<(String, String)>,
    /// The real kernels: the name of each build, and a text that tells it from others of that name.
    #[serde(default)]
    pub kernels: Vec<(String, String)>,
    /// The command that began the run, for `--resume` without further words; `None` for runs that
    /// no command began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Began>,
}

/// The command line that began a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// The folder in which it was given.
    pub folder: PathBuf,
    /// Its words behind the program's name.
    pub words: Vec<String>,
}

impl Header {
    /// Returns the header that identifies a run of an experiment: digests of all cells'
    /// specifications, without the seed of the iteration. `check` is true if every iteration runs
    /// twice, and `build` is a digest of the program.
    pub fn new(experiment: &Experiment, check: bool, build: String) -> Self {
        let cells = experiment.cells.iter().map(|cell| {
            let mut spec = cell.spec.clone();
            spec.seed = 0;
            let sum = Sha256::digest(format!("{spec:?}{:?}", cell.kernel));
            (cell.key(), super::hex(&sum))
        });
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            build,
            name: experiment.name.clone(),
            seed: experiment.seed,
            check,
            cells: cells.collect(),
            kernels: Vec::new(),
            command: None,
        }
    }

    /// Compares this header, of a log, with `now`, that of the run which is to resume it. Returns
    /// the first difference in words; `None` if they describe the same run.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self.version != now.version {
            let (then, now) = (&self.version, &now.version);
            return Some(format!(
                "it was started by version {then}, and this is {now}"
            ));
        }
        if self.build != now.build {
            return Some("it was started by another build of lowmark".into());
        }
        let mut kernels = self.kernels.iter();
        if let Some((name, _)) = kernels.find(|k| !now.kernels.contains(k)) {
            return Some(format!("the kernel `{name}` has changed since"));
        }
        if self.name != now.name {
            return Some(format!("it is a run of the experiment `{}`", self.name));
        }
        if self.seed != now.seed {
            return Some(format!("its seed is {}, not {}", self.seed, now.seed));
        }
        if self.check != now.check {
            let with = if self.check { "with" } else { "without" };
            return Some(format!("it was started {with} --check"));
        }
        if self.cells.len() != now.cells.len() {
            let (then, now) = (self.cells.len(), now.cells.len());
            return Some(format!("it has {then} cells, not {now}"));
        }
        let mut pairs = self.cells.iter().zip(&now.cells);
        let (then, now) = pairs.find(|(a, b)| a != b)?;
        Some(if then.0 == now.0 {
            format!("cell {} has changed since", then.0)
        } else {
            format!("its cell {} is now cell {}", then.0, now.0)
        })
    }
}

/// Returns a digest of the running program's file for [`Header::build`]; empty if the system does
/// not give access to it.
pub fn build() -> String {
    let own = fs::File::open("/proc/self/exe");
    let digest = own.and_then(super::manifest::digest);
    digest.map_or_else(|_| String::new(), |(_, sum)| sum)
}

/// The contents of a log.
#[derive(Default)]
pub struct Kept {
    /// The header; `None` if the process ended before it was written.
    pub header: Option<Header>,
    /// Results by cell and iteration.
    pub results: BTreeMap<(u32, u32), RunResult>,
    /// Digest of the list of the folder that was about to be put in place; `None` if the run did
    /// not get that far.
    pub published: Option<String>,
    /// Bytes at the end that are no whole record.
    pub torn: u64,
}

/// A log that is open for writing, and locked as long as it is open.
pub struct Log {
    file: fs::File,
    /// The offset of the next record.
    end: u64,
    records: u64,
    synced: Option<Instant>,
}

impl Log {
    /// Reads a log file, cuts off a torn record at its end, and positions the log for writing
    /// there. Returns the log and the contents of its whole records; `None` if the file is not a
    /// log.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn open(file: fs::File) -> io::Result<Option<(Self, Kept)>> {
        let mut kept = Kept::default();
        let Some((end, records)) = read(&file, |record| kept.take(record))? else {
            return Ok(None);
        };
        kept.torn = file.metadata()?.len().saturating_sub(end);
        let mut log = Self {
            file,
            end,
            records,
            synced: None,
        };
        if end == 0 {
            log.restart()?;
        } else if kept.torn > 0 {
            log.file.set_len(end)?;
        }
        Ok(Some((log, kept)))
    }

    /// Returns the number of finished iterations in the log.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Removes all records: the file then holds only the line that names its format.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(MAGIC, 0)?;
        self.end = MAGIC.len() as u64;
        self.records = 0;
        Ok(())
    }

    /// Writes the header as the first record, and flushes the file.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn begin(&mut self, header: &Header) -> io::Result<()> {
        self.append(b'h', &[], header)?;
        self.file.sync_all()
    }

    /// Adds the result of a finished iteration, by the index of its cell and its number. Flushes
    /// the file if the last flush is longer ago than a second.
    ///
    /// # Errors
    /// Returns the error of the system. The log is then unchanged, so that a later iteration may be
    /// added.
    pub fn finished(&mut self, cell: u32, iteration: u32, result: &RunResult) -> io::Result<()> {
        let numbers = [cell.to_le_bytes(), iteration.to_le_bytes()].concat();
        self.append(b'i', &numbers, result)?;
        self.records += 1;
        if self.synced.is_none_or(|at| at.elapsed() >= SYNC) {
            self.file.sync_data()?;
            self.synced = Some(Instant::now());
        }
        Ok(())
    }

    /// Records that the results folder whose list has this SHA-256 is about to be put in place, and
    /// flushes the file.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn publishes(&mut self, sha256: &str) -> io::Result<()> {
        self.append(b'p', &[], &sha256)?;
        self.file.sync_all()
    }

    /// Writes a record at the end of the file: `kind` is the byte that names its kind, `numbers`
    /// stand before the encoded `value`. If that fails, the file is cut back to its old length.
    fn append(&mut self, kind: u8, numbers: &[u8], value: &impl Serialize) -> io::Result<()> {
        let mut record = vec![0; HEAD];
        record.push(kind);
        record.extend(numbers);
        rmp_serde::encode::write_named(&mut record, value).map_err(io::Error::other)?;
        let len = u32::try_from(record.len() - HEAD)
            .map_err(|_| io::Error::other("a result of more than 4 GiB"))?;
        let sum = Sha256::digest(&record[HEAD..]);
        record[..4].copy_from_slice(&len.to_le_bytes());
        record[4..HEAD].copy_from_slice(&sum[..8]);
        if let Err(e) = self.file.write_all_at(&record, self.end) {
            let _ = self.file.set_len(self.end);
            return Err(e);
        }
        self.end += record.len() as u64;
        Ok(())
    }
}

impl Kept {
    /// Takes in the contents of a record: its first byte names its kind. Returns false if it can't
    /// be understood.
    fn take(&mut self, record: &[u8]) -> bool {
        let Some((kind, rest)) = record.split_first() else {
            return false;
        };
        match kind {
            b'h' => rmp_serde::from_slice(rest).map(|h| self.header = Some(h)),
            b'p' => rmp_serde::from_slice(rest).map(|p| self.published = Some(p)),
            b'i' if rest.len() > 8 => {
                let number = |at: usize| {
                    u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"))
                };
                // The index of the cell, and the number of the iteration.
                let at = (number(0), number(4));
                rmp_serde::from_slice(&rest[8..]).map(|r| {
                    self.results.insert(at, r);
                })
            }
            _ => return false,
        }
        .is_ok()
    }
}

/// Opens the log in the folder `partial`, to read or lock it.
///
/// # Errors
/// There is none, or it is no regular file.
pub(super) fn opened(partial: &Path) -> io::Result<fs::File> {
    input::file(&partial.join(LOG))
}

/// Returns the number of finished iterations in a log, without decoding them; `None` if the file is
/// not a log.
///
/// # Errors
/// Returns the error of the system.
pub fn count(file: &fs::File) -> io::Result<Option<u64>> {
    Ok(read(file, |_| true)?.map(|(_, records)| records))
}

/// Returns the command that began the run whose log is in the folder `partial`; `None` if there is
/// no log, or none that says it.
pub fn began(partial: &Path) -> Option<Began> {
    let file = opened(partial).ok()?;
    let mut kept = Kept::default();
    // The header is the first record.
    read(&file, |record| kept.take(record) && kept.header.is_none()).ok()?;
    kept.header?.command
}

/// Passes the contents of whole records to `take` until one is torn or `take` returns false.
/// Returns the offset of the end of the accepted records, and the number of iterations among them.
/// `None` if the file is not a log; the offset is 0 if only a part of the first line was written.
fn read(file: &fs::File, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<Option<(u64, u64)>> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(None);
    }
    let len = about.len();
    let mut from = BufReader::with_capacity(1 << 16, At { file, at: 0 });
    let mut magic = Vec::new();
    (&mut from)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut magic)?;
    if magic != MAGIC {
        return Ok(MAGIC.starts_with(&magic).then_some((0, 0)));
    }
    let mut end = MAGIC.len() as u64;
    let mut records = 0;
    let mut record = Vec::new();
    while len - end > HEAD as u64 {
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let size = u64::from(u32::from_le_bytes(
            head[..4].try_into().expect("four bytes"),
        ));
        if size == 0 || size > len - end - HEAD as u64 {
            break;
        }
        record.resize(size as usize, 0);
        from.read_exact(&mut record)?;
        if Sha256::digest(&record)[..8] != head[4..] || !take(&record) {
            break;
        }
        records += u64::from(record[0] == b'i');
        end += HEAD as u64 + size;
    }
    Ok(Some((end, records)))
}

/// Reads a file from an offset, independently of its cursor.
struct At<'a> {
    file: &'a fs::File,
    at: u64,
}

impl Read for At<'_> {
    /// Reads from the current offset and moves it on; the cursor of the file stays.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::check::difference;
    use crate::runner::fixture;
    use proptest::prelude::*;
    use sim::result::{Metric, TrackerReport, TrackerRow};
    use sim::{Control, Outcome};

    fn result(seed: u64) -> RunResult {
        let mut spec = fixture::experiment(1).cells[0].spec.clone();
        spec.seed = seed;
        fixture::simulate(&spec, &Control::default())
    }

    /// Logs from before real kernels were supported do not say which world a result is of.
    #[test]
    fn a_result_of_before_there_were_kernels_is_the_engines() {
        let r = result(5);
        let mut old = serde_json::to_value(&r).unwrap();
        let gone = old.as_object_mut().unwrap().remove("origin");
        assert!(gone.is_some());
        let mut record = Vec::new();
        rmp_serde::encode::write_named(&mut record, &old).unwrap();
        let again: RunResult = rmp_serde::from_slice(&record).unwrap();
        assert_eq!(difference(&r, &again), None);
        let kernel = fixture::kernel(
            &fixture::experiment(1).cells[0].spec,
            &kernel::Kernel::new("6.12"),
            &Control::default(),
        );
        survives(&kernel);
    }

    fn header() -> Header {
        Header::new(&fixture::experiment(1), false, "build".into())
    }

    fn written(bytes: &[u8]) -> fs::File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    fn bytes(file: &fs::File) -> Vec<u8> {
        let mut all = Vec::new();
        At { file, at: 0 }.read_to_end(&mut all).unwrap();
        all
    }

    /// Asserts that a result is the same after it was written and read, to the bits of its floats
    /// and the names that are compiled in.
    fn survives(result: &RunResult) {
        let file = tempfile::tempfile().unwrap();
        let again = file.try_clone().unwrap();
        let (mut log, _) = Log::open(file).unwrap().unwrap();
        log.begin(&header()).unwrap();
        log.finished(3, 70_000, result).unwrap();
        let (_, kept) = Log::open(again).unwrap().unwrap();
        assert_eq!(kept.header, Some(header()));
        let read = &kept.results[&(3, 70_000)];
        assert_eq!(difference(read, result), None);
        assert_eq!(
            rmp_serde::to_vec_named(read).unwrap(),
            rmp_serde::to_vec_named(result).unwrap()
        );
        for ((_, a), (_, b)) in read
            .alloc_latency
            .paths
            .iter()
            .zip(&result.alloc_latency.paths)
        {
            let figures = |h: &hdrhistogram::Histogram<u64>| {
                let rest = (
                    h.min(),
                    h.max(),
                    h.len(),
                    h.low(),
                    h.high(),
                    h.distinct_values(),
                );
                ([h.mean(), h.stdev()].map(f64::to_bits), rest)
            };
            assert_eq!(figures(a), figures(b));
        }
    }

    proptest! {
        #[test]
        fn floats_and_counts_survive_bit_by_bit(
            value: u64, sample: u64, n: u64, times in proptest::collection::vec(0_u64..3_600_000_000_000, 0..40),
        ) {
            let mut r = result(1);
            let (value, sample) = (f64::from_bits(value), f64::from_bits(sample));
            r.metrics.insert("any".into(), Metric { unit: "MB/s", value });
            r.counters.insert("any".into(), n);
            r.series.columns[0].values = vec![sample, -0.0, f64::NAN, f64::INFINITY, 0.1];
            r.digest = n;
            let mut h = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
            for t in times {
                h.record(t).unwrap();
            }
            r.alloc_latency.paths.push(("direct-reclaim", h));
            survives(&r);
        }
    }

    #[test]
    fn every_outcome_and_part_survives() {
        let outcomes = [
            Outcome::Completed,
            Outcome::TimeLimit,
            Outcome::Oom {
                report: "order 0".into(),
            },
            Outcome::Failed { error: "ä".into() },
        ];
        for outcome in outcomes {
            let mut r = result(2);
            r.outcome = outcome;
            r.notes.push("lost".into());
            let row = TrackerRow {
                instantiated_by: "write",
                path: "writeback",
                event: "activated",
                count: u64::MAX,
            };
            r.tracker = Some(TrackerReport { rows: vec![row] });
            survives(&r);
        }
    }

    /// The process may end after any byte, and a disk may return any other.
    #[test]
    fn torn_and_damaged_records_cost_themselves_and_what_follows() {
        let file = tempfile::tempfile().unwrap();
        let (mut log, _) = Log::open(file.try_clone().unwrap()).unwrap().unwrap();
        let mut ends = vec![0, log.end];
        log.begin(&header()).unwrap();
        ends.push(log.end);
        for i in 0..3 {
            log.finished(0, i, &result(u64::from(i))).unwrap();
            ends.push(log.end);
        }
        let whole = bytes(&file);
        let complete = |n: usize| ends.iter().rposition(|e| *e <= n as u64).unwrap();
        for n in 0..=whole.len() {
            let cut = written(&whole[..n]);
            let (mut log, kept) = Log::open(cut.try_clone().unwrap()).unwrap().unwrap();
            let finished = complete(n).saturating_sub(2);
            assert_eq!(kept.results.len(), finished, "{n}");
            assert_eq!(kept.header.is_some(), complete(n) >= 2);
            // Records written after a torn one can be read.
            log.finished(9, 9, &result(9)).unwrap();
            let (_, kept) = Log::open(cut).unwrap().unwrap();
            assert_eq!(kept.results.len(), finished + 1, "{n}");
        }
        for n in ends[1] as usize..whole.len() {
            let mut damaged = whole.clone();
            damaged[n] ^= 0x40;
            let (_, kept) = Log::open(written(&damaged)).unwrap().unwrap();
            assert_eq!(kept.results.len(), complete(n).saturating_sub(2), "{n}");
        }
        assert!(Log::open(written(b"years of work")).unwrap().is_none());
        assert!(count(&written(b"years of work")).unwrap().is_none());
        assert_eq!(count(&written(&whole)).unwrap(), Some(3));
    }

    #[test]
    fn another_experiment_is_named() {
        let then = header();
        let differs = |change: &dyn Fn(&mut Header), what: &str| {
            let mut now = header();
            change(&mut now);
            let text = then.difference(&now).unwrap();
            assert!(text.contains(what), "{text}");
        };
        assert_eq!(then.difference(&header()), None);
        differs(&|h| h.version = "9".into(), "version");
        differs(&|h| h.build = "9".into(), "another build");
        differs(&|h| h.name = "9".into(), "`small`");
        differs(&|h| h.seed = 9, "seed is 7, not 9");
        differs(&|h| h.check = true, "without --check");
        differs(&|h| drop(h.cells.pop()), "4 cells, not 3");
        differs(&|h| h.cells[1].0 = "9".into(), "tiny/xfs/patched");
        let mut other = fixture::experiment(1);
        other.cells[2].spec.sample_ns = 1;
        let text = then.difference(&Header::new(&other, false, "build".into()));
        assert!(text.unwrap().contains("has changed since"));
        // Another number of iterations does not make it another run.
        let more = Header::new(&fixture::experiment(9), false, "build".into());
        assert_eq!(then.difference(&more), None);
    }
}
