//! Recorded traces as workloads.
//!
//! Each process of the trace is a process here, up to [`MOST_LANES`] at a time: processes whose
//! lives do not overlap share a lane one after the other, and those beyond the limit are spread
//! over the lanes. Within a lane requests are issued one after the other in the order of the trace;
//! lanes are at most [`MOST_AHEAD`] records apart. Each file of the trace is a file here. A file
//! that the trace found existing exists beforehand, with the length that the trace accesses.
//!
//! With [`Timing::Recorded`], a request of a block trace is issued at its recorded time, or when
//! the previous request of its lane has ended, if that is later. Where the trace has latencies of
//! system calls, the think time between the end of one call and the start of the next is kept
//! instead: up to 50 µs of it as computation, more as sleep. With [`Timing::Fast`] requests are
//! issued without pauses.

use crate::host::{Fd, Host, HostError, HostResult, OpenFlags, Task};
use crate::measure::{CALLS, Kind};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::{Session, lock};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use trace::{Op, Options, Reader, Record, Survey, TraceError};

/// The most processes that run at a time.
pub const MOST_LANES: u32 = 400;

/// The most records that one lane may be ahead of another in the trace.
pub const MOST_AHEAD: usize = 65_536;

/// The time for which a lane waits if it is too far ahead, in nanoseconds.
const BACK_OFF_NS: u64 = 1_000_000;

/// Think time up to this many nanoseconds is spent computing, longer think time sleeping.
const COMPUTING_NS: u64 = 50_000;

/// Records that a lane takes at a time.
const TAKE: usize = 256;

/// The time at which requests are issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timing {
    /// At the recorded times.
    #[default]
    Recorded,
    /// As fast as possible.
    Fast,
}

impl Timing {
    /// The names in experiment files.
    pub const NAMES: [&'static str; 2] = ["recorded", "fast"];

    /// Returns the timing's name, one of [`Self::NAMES`].
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Parses one of [`Self::NAMES`]; `None` for other text.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "recorded" => Some(Self::Recorded),
            "fast" => Some(Self::Fast),
            _ => None,
        }
    }
}

/// A trace to replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The trace's file.
    pub path: PathBuf,
    /// The options for reading it.
    pub options: Options,
    /// The time at which requests are issued.
    pub timing: Timing,
    /// The trace's survey.
    pub survey: Survey,
    /// The lane of each process.
    lanes: Vec<u32>,
    count: u32,
}

impl Replay {
    /// Makes the replay of a trace from its survey: assigns each process that has records to a
    /// lane. A process takes the first lane whose last record lies before its own first one, else a
    /// new lane, and beyond [`MOST_LANES`] shares one.
    pub fn new(path: PathBuf, options: Options, timing: Timing, survey: Survey) -> Self {
        let mut order: Vec<usize> = (0..survey.processes.len()).collect();
        order.retain(|&p| survey.processes[p].records > 0);
        order.sort_by_key(|&p| survey.processes[p].first);
        let mut lanes = vec![0; survey.processes.len()];
        // `busy`: the index of the last record of each lane so far.
        // The last record of each lane so far.
        let mut busy: Vec<u64> = Vec::new();
        for p in order {
            let process = &survey.processes[p];
            let free = busy.iter().position(|last| *last < process.first);
            let lane = match free {
                Some(lane) => lane,
                None if busy.len() < MOST_LANES as usize => {
                    busy.push(0);
                    busy.len() - 1
                }
                None => p % busy.len(),
            };
            busy[lane] = busy[lane].max(process.last);
            lanes[p] = lane as u32;
        }
        Self {
            path,
            options,
            timing,
            survey,
            lanes,
            count: busy.len() as u32,
        }
    }

    /// Surveys the trace in the file `path` and makes its replay.
    ///
    /// # Errors
    /// The trace can't be read.
    pub fn open(path: PathBuf, options: Options, timing: Timing) -> Result<Self, TraceError> {
        let survey = Survey::of(&path, &options)?;
        Ok(Self::new(path, options, timing, survey))
    }

    /// Returns the number of processes that run at a time.
    pub fn lanes(&self) -> u32 {
        self.count
    }

    /// Returns notes for readers of the results, one sentence each: how object numbers are read,
    /// records that are skipped or not replayed, and processes that share lanes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let s = &self.survey;
        let mut notes = Vec::new();
        if let Some(unit) = s.unit {
            let reason = s.guess.map(|guess| format!(" ({})", guess.because()));
            notes.push(format!(
                "the trace's object numbers are read as {}{}",
                match unit {
                    trace::Unit::Sector => "sectors of 512 bytes",
                    trace::Unit::Page => "pages of 4 KiB",
                    trace::Unit::Auto | trace::Unit::Object => "names of objects",
                },
                reason.unwrap_or_default()
            ));
        }
        if s.skipped > 0 {
            let first = s.first_skipped.as_ref().map(TraceError::to_string);
            notes.push(format!(
                "{} records of the trace can't be read and are skipped; the first: {}",
                s.skipped,
                first.unwrap_or_default()
            ));
        }
        if !s.ignored.is_empty() {
            let list: Vec<String> = s.ignored.iter().map(|(k, n)| format!("{k}: {n}")).collect();
            notes.push(format!("not replayed: {}", list.join(", ")));
        }
        let processes = s.processes.iter().filter(|p| p.records > 0).count();
        if self.count == MOST_LANES && processes > MOST_LANES as usize {
            notes.push(format!(
                "{processes} processes run as at most {MOST_LANES} at a time"
            ));
        }
        notes
    }
}

/// Returns the path, in the tested filesystem, of the trace's file with this number.
pub(crate) fn path_of(file: u32) -> String {
    format!("trace/{file}")
}

/// The reader of a trace, shared by its lanes.
pub struct Feed {
    reader: Option<Result<Reader, TraceError>>,
    batch: Vec<Record>,
    queues: Vec<VecDeque<Record>>,
    /// Lanes that ended early: their records are dropped.
    closed: Vec<bool>,
}

enum Taken {
    Some,
    TooFarAhead,
    Ended,
}

impl Feed {
    /// Opens the trace at its start, with an empty queue for each lane. An error of opening is
    /// reported by the first lane that takes records.
    pub(crate) fn new(replay: &Replay) -> Self {
        Self {
            reader: Some(Reader::open(&replay.path, &replay.options)),
            batch: Vec::new(),
            queues: vec![VecDeque::new(); replay.count as usize],
            closed: vec![false; replay.count as usize],
        }
    }

    /// Takes the next records of a lane into `out`, at most [`TAKE`]. Reads the trace on for that,
    /// and puts the records of other lanes into their queues. `TooFarAhead`: the queue of some lane
    /// is full, so the lane has to wait until that one catches up; `Ended`: the lane has no more
    /// records.
    fn take(
        &mut self,
        replay: &Replay,
        lane: u32,
        out: &mut Vec<Record>,
    ) -> Result<Taken, TraceError> {
        out.clear();
        let lane = lane as usize;
        while self.queues[lane].is_empty() {
            if self.queues.iter().any(|q| q.len() > MOST_AHEAD) {
                return Ok(Taken::TooFarAhead);
            }
            // False at the end of the trace.
            let more = match &mut self.reader {
                None => return Ok(Taken::Ended),
                Some(Ok(reader)) => reader.next_batch(&mut self.batch),
                Some(Err(e)) => Err(e.clone()),
            };
            match more {
                Ok(true) => {}
                Ok(false) => self.reader = None,
                Err(e) => {
                    self.reader = None;
                    return Err(e);
                }
            }
            for record in self.batch.drain(..) {
                // The lane of the record's process.
                let to = replay.lanes.get(record.process as usize).copied();
                let to = to.unwrap_or(0) as usize;
                if !self.closed[to] {
                    self.queues[to].push_back(record);
                }
            }
        }
        let queue = &mut self.queues[lane];
        out.extend(queue.drain(..queue.len().min(TAKE)));
        Ok(Taken::Some)
    }

    /// Closes a lane that ends: its waiting and further records are dropped, so that they do not
    /// hold up other lanes.
    fn close(&mut self, lane: u32) {
        self.closed[lane as usize] = true;
        self.queues[lane as usize].clear();
    }
}

/// One lane of a trace: some of its processes, one after the other. A script has the lanes of at
/// most one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    replay: Arc<Replay>,
    lane: u32,
}

impl Lane {
    /// Makes lane number `lane` of a trace.
    pub(crate) fn new(replay: &Arc<Replay>, lane: u32) -> Self {
        let replay = Arc::clone(replay);
        Self { replay, lane }
    }
}

impl Task for Lane {
    const NAME: &'static str = "replay";

    /// Replays the lane's records until there are no more, then closes its files, also after a
    /// failure. Calls are measured in the session, so the report is empty.
    async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        let feed: &Mutex<Feed> = session.shared(0);
        let mut player = Player {
            host,
            session,
            replay: &self.replay,
            open: BTreeMap::new(),
            buffer: host.buffer(0),
            buffer_len: 0,
            process: None,
            previous_end: None,
        };
        let result = player.play(feed, self.lane).await;
        lock(feed).close(self.lane);
        player.close_all().await?;
        result.map(|()| Report::default())
    }
}

impl Program for Lane {
    const METRICS: &'static [Metric] = CALLS;

    /// Returns the trace's duration in nanoseconds if requests are issued at their recorded times;
    /// `None` if they are issued as fast as possible.
    fn recorded_ns(&self) -> Option<u64> {
        let recorded = self.replay.timing == Timing::Recorded;
        recorded.then_some(self.replay.survey.span_ns)
    }

    /// Adds the trace's reader, which all lanes share, and announces that calls are measured.
    fn prepare(&self, session: &mut Session) {
        session.share(0, || Mutex::new(Feed::new(&self.replay)));
        session.expect_calls();
    }
}

/// A file that a lane has open.
struct Opened {
    fd: Fd,
    /// Opens in the trace that are not yet closed.
    opens: u32,
}

struct Player<'a, H: Host> {
    host: &'a H,
    session: &'a Session,
    replay: &'a Replay,
    open: BTreeMap<u32, Opened>,
    buffer: H::Buf,
    buffer_len: u64,
    process: Option<u32>,
    /// The end of the process's previous call in the recording, in nanoseconds; `None`: unknown.
    previous_end: Option<u64>,
}

impl<H: Host> Player<'_, H> {
    /// Replays the records of a lane in order, until it has no more. When the lane turns to its
    /// next process, the files of the previous one are closed, as at its exit.
    async fn play(&mut self, feed: &Mutex<Feed>, lane: u32) -> HostResult<()> {
        let mut records = Vec::with_capacity(TAKE);
        loop {
            let taken = lock(feed).take(self.replay, lane, &mut records);
            match taken {
                Ok(Taken::Some) => {}
                Ok(Taken::TooFarAhead) => {
                    self.host.sleep(BACK_OFF_NS).await;
                    continue;
                }
                Ok(Taken::Ended) => return Ok(()),
                // The trace was readable when the run was prepared.
                Err(e) => return Err(HostError::Io(e.to_string())),
            }
            for record in &records {
                if self.process != Some(record.process) {
                    if self.process.is_some() {
                        self.close_all().await?;
                    }
                    self.process = Some(record.process);
                    self.previous_end = None;
                }
                self.wait_for(record).await;
                self.perform(record).await?;
            }
        }
    }

    /// Waits before a record is performed. After a system call with a known end, the wait is the
    /// recorded think time between that end and this call; otherwise it lasts until the recorded
    /// time. Up to 50 µs are spent computing, more sleeping.
    async fn wait_for(&mut self, record: &Record) {
        if self.replay.timing == Timing::Fast {
            return;
        }
        let think = match self.previous_end {
            Some(end) if !self.replay.survey.format.is_block() => {
                record.time_ns.saturating_sub(end)
            }
            _ => record.time_ns.saturating_sub(self.host.now()),
        };
        self.previous_end = record
            .latency()
            .map(|latency| record.time_ns.saturating_add(latency));
        if think == 0 {
            return;
        }
        if think <= COMPUTING_NS {
            self.host.compute(think).await;
        } else {
            self.host.sleep(think).await;
        }
    }

    /// Performs a record's operation on the tested filesystem, and measures reads, writes and
    /// syncs. A file may be open several times in the trace, but has one descriptor here, which the
    /// last close gives back.
    async fn perform(&mut self, r: &Record) -> HostResult<()> {
        match r.op {
            Op::Open | Op::Create | Op::CreateEmpty => {
                let empty = r.op == Op::CreateEmpty;
                if let Some(open) = self.open.get_mut(&r.file) {
                    open.opens += 1;
                    if empty {
                        self.host.truncate(open.fd, 0).await?;
                    }
                } else {
                    let fd = self.open_file(r.file, empty).await?;
                    self.open.insert(r.file, Opened { fd, opens: 1 });
                }
            }
            Op::Close => {
                if let Some(open) = self.open.get_mut(&r.file) {
                    open.opens = open.opens.saturating_sub(1);
                    if open.opens == 0 {
                        let fd = open.fd;
                        self.open.remove(&r.file);
                        self.host.close(fd).await?;
                    }
                }
            }
            Op::Unlink => match self.host.unlink(&path_of(r.file)).await {
                Ok(()) | Err(HostError::NotFound(_)) => {}
                Err(e) => return Err(e),
            },
            Op::Truncate => {
                let fd = self.fd(r.file).await?;
                self.host.truncate(fd, r.offset).await?;
            }
            Op::Sync | Op::DataSync => {
                let fd = self.fd(r.file).await?;
                let began = self.host.now();
                self.host.sync(fd, r.op == Op::DataSync).await?;
                self.session
                    .note(Kind::Sync, (began, self.host.now()), 0, 0);
            }
            Op::Read | Op::Write => {
                let fd = self.fd(r.file).await?;
                let len = u64::from(r.len);
                if len > self.buffer_len {
                    self.buffer = self.host.buffer(len);
                    self.buffer_len = len;
                }
                let began = self.host.now();
                let (kind, done) = if r.op == Op::Read {
                    let read = self.host.read_at(fd, &mut self.buffer, r.offset, len);
                    (Kind::Read, read.await?)
                } else {
                    let write = self.host.write_at(fd, &self.buffer, r.offset, len);
                    (Kind::Write, write.await?)
                };
                self.session.note(kind, (began, self.host.now()), done, len);
            }
        }
        Ok(())
    }

    /// Returns the descriptor of the trace's file with number `file`; a file that was open before
    /// the recording is opened now.
    async fn fd(&mut self, file: u32) -> HostResult<Fd> {
        if let Some(open) = self.open.get(&file) {
            return Ok(open.fd);
        }
        let fd = self.open_file(file, false).await?;
        self.open.insert(file, Opened { fd, opens: 1 });
        Ok(fd)
    }

    /// Opens the trace's file with number `file` for reading and writing; `truncate` empties it.
    async fn open_file(&self, file: u32, truncate: bool) -> HostResult<Fd> {
        let flags = OpenFlags {
            read: true,
            write: true,
            // Another process of the trace may have made the file, and may lag behind this one
            // here.
            create: true,
            truncate,
            ..OpenFlags::default()
        };
        self.host.open(&path_of(file), flags).await
    }

    /// Closes all files that the lane has open.
    async fn close_all(&mut self) -> HostResult<()> {
        for open in std::mem::take(&mut self.open).into_values() {
            self.host.close(open.fd).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::ExistingFile;
    use crate::script::{Script, Step};
    use crate::testing::{MemoryHost, block_on};
    use std::io::Write as _;

    fn replay(text: &str, suffix: &str, timing: Timing) -> (tempfile::NamedTempFile, Replay) {
        let mut file = tempfile::NamedTempFile::with_suffix(suffix).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().to_owned();
        let replay = Replay::open(path, Options::default(), timing).unwrap();
        (file, replay)
    }

    /// Runs all lanes one after the other.
    fn run(script: &Script, host: &MemoryHost) -> Session {
        let session = script.session();
        for file in &script.files {
            host.put(&file.path, &vec![1; file.len as usize]);
        }
        for step in &script.steps {
            if let Step::Background(process) = step {
                block_on(process.commands[0].run(host, &session)).unwrap();
            }
        }
        session
    }

    const STRACE: &str = "\
1 1795247166.000000 openat(AT_FDCWD, \"a\", O_RDONLY) = 3 <0.000010>
1 1795247166.000020 read(3, \"\"..., 100) = 100 <0.000010>
2 1795247166.000025 openat(AT_FDCWD, \"b\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3 <0.000010>
1 1795247166.000130 read(3, \"\"..., 100) = 50 <0.000010>
2 1795247166.000140 write(3, \"\"..., 10) = 10 <0.000010>
2 1795247166.000150 fdatasync(3) = 0 <0.000010>
1 1795247166.000160 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7fbf9c6a7000 <0.000027>
1 1795247166.000170 close(3) = 0 <0.000010>
2 1795247166.000180 unlink(\"a\") = 0 <0.000010>
2 1795247166.000190 +++ exited with 0 +++
";

    #[test]
    fn calls_are_made_as_they_were_recorded() {
        let (_file, replay) = replay(STRACE, ".strace", Timing::Recorded);
        assert_eq!(replay.lanes(), 2);
        let script = replay.script();
        assert_eq!(
            script.files,
            [ExistingFile {
                path: "trace/0".into(),
                len: 150
            }]
        );
        assert_eq!(script.notes, ["not replayed: mmap of a file: 1"]);
        let host = MemoryHost::default();
        let session = run(&script, &host);
        assert_eq!(
            *host.calls.borrow(),
            [
                "open trace/0 rw create",
                "seek trace/0 0",
                "read trace/0 100",
                "seek trace/0 100",
                "read trace/0 50",
                "close trace/0",
                "open trace/1 rw create truncate",
                "seek trace/1 0",
                "write trace/1 10",
                "fdatasync trace/1",
                "unlink trace/0",
                "close trace/1",
            ]
        );
        assert_eq!(host.contents("trace/1").len(), 10);
        let report = session.report(0).unwrap();
        let metric = |name: &str| {
            let found = report.metrics.iter().find(|m| m.0 == name);
            found.map(|m| m.2)
        };
        assert_eq!(metric("reads"), Some(2.0));
        assert_eq!(metric("read_bytes"), Some(150.0));
        assert_eq!(metric("syncs"), Some(1.0));
        assert_eq!(metric("short_calls"), Some(0.0));
    }

    #[test]
    fn time_passes_as_recorded_or_not_at_all() {
        let elapsed = |text: &str, suffix: &str, timing| {
            let (_file, replay) = replay(text, suffix, timing);
            let host = MemoryHost::default();
            run(&replay.script(), &host);
            host.now()
        };
        let csv = "0,1,4096\n1.5,2,4096\n3.25,1,4096\n";
        let timed = elapsed(csv, ".csv", Timing::Recorded);
        assert!((3_250_000_000..3_250_001_000).contains(&timed), "{timed}");
        let fast = elapsed(csv, ".csv", Timing::Fast);
        assert!(fast < 1000, "{fast}");
        // Think times of one process: 10, 100 and 30 µs; its host calls take 10 ns each.
        let one: String = STRACE
            .lines()
            .filter(|l| l.starts_with('1') && !l.contains("mmap"))
            .map(|l| format!("{l}\n"))
            .collect();
        let timed = elapsed(&one, ".strace", Timing::Recorded);
        assert!((140_000..141_000).contains(&timed), "{timed}");
    }

    #[test]
    fn lanes_are_shared_by_processes_that_follow_each_other() {
        let lines: String = (0..1000)
            .map(|p| {
                let p = p + 10;
                format!(
                    "{p} 1795247166.{p:06} creat(\"f{p}\", 0600) = 3 <0.000001>\n\
                     {p} 1795247166.{p:06} write(3, \"\", 1) = 1 <0.000001>\n"
                )
            })
            .collect();
        let (_file, following) = replay(&lines, ".strace", Timing::Fast);
        assert_eq!(following.lanes(), 1);
        let host = MemoryHost::default();
        run(&following.script(), &host);
        assert_eq!(host.count("write"), 1000);
        assert_eq!(host.open_files(), 0);

        let mut both: Vec<&str> = lines.lines().step_by(2).collect();
        both.extend(lines.lines().skip(1).step_by(2));
        let text: String = both.iter().map(|l| format!("{l}\n")).collect();
        let (_file, at_once) = replay(&text, ".strace", Timing::Fast);
        assert_eq!(at_once.lanes(), MOST_LANES);
        let host = MemoryHost::default();
        let script = at_once.script();
        assert!(
            script.notes[0].contains("1000 processes"),
            "{:?}",
            script.notes
        );
        run(&script, &host);
        assert_eq!(host.count("write"), 1000);
    }

    #[test]
    fn a_trace_that_went_bad_since_its_survey_ends_its_lanes() {
        let (file, replay) = replay("0,1,4096\n", ".csv", Timing::Fast);
        std::fs::write(file.path(), "0,1,4096\n0,x").unwrap();
        let script = replay.script();
        let session = script.session();
        let Step::Background(process) = &script.steps[0] else {
            panic!("{:?}", script.steps)
        };
        let host = MemoryHost::default();
        host.put("trace/0", &[0; 8192]);
        let error = block_on(process.commands[0].run(&host, &session)).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert_eq!(host.open_files(), 0);
    }
}
