//! One pass over a trace, which collects the facts that a replay needs before it starts.

use crate::error::TraceError;
use crate::format::{Format, Reason};
use crate::guess::Guess;
use crate::layout::Layout;
use crate::objects::Unit;
use crate::reader::{Options, Reader};
use crate::record::{Op, Record};
use std::collections::BTreeMap;
use std::path::Path;

/// A file of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileUse {
    /// The file's name in the trace.
    pub name: String,
    /// The largest end of a read or write, in bytes.
    pub reach: u64,
    /// Whether it existed before the trace: it was opened without being created, or read where the
    /// trace had not written, or is a device or the store of a cache.
    pub existed: bool,
    /// The file's size after the operations so far, in bytes.
    size: u64,
    seen: bool,
}

/// A process of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessUse {
    /// The process's name in the trace: a pid, a disk, a client.
    pub name: String,
    /// Number of its records.
    pub records: u64,
    /// The process's first record, counted from 0.
    pub first: u64,
    /// The process's last record, counted from 0.
    pub last: u64,
}

/// The facts about a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The format.
    pub format: Format,
    /// The reason to read the trace in this format.
    pub reason: Reason,
    /// The columns of its lines, if the format is a layout of columns.
    pub layout: Option<Layout>,
    /// The meaning of object numbers, if there are any.
    pub unit: Option<Unit>,
    /// The guess at that meaning, if it was not given.
    pub guess: Option<Guess>,
    /// Number of records.
    pub records: u64,
    /// Time of the last record in nanoseconds since the first.
    pub span_ns: u64,
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Number of records by operation.
    pub ops: BTreeMap<&'static str, u64>,
    /// The files, by their number in records.
    pub files: Vec<FileUse>,
    /// The processes, by their number in records.
    pub processes: Vec<ProcessUse>,
    /// Kinds of input that were read but have no meaning here, with their counts.
    pub ignored: BTreeMap<String, u64>,
    /// Malformed records that were skipped.
    pub skipped: u64,
    /// The error of the first of them.
    pub first_skipped: Option<TraceError>,
}

impl Survey {
    /// Reads the whole trace at `path` once, and collects the facts that a replay needs before it
    /// starts.
    ///
    /// # Errors
    /// The trace can't be read, or has no record.
    pub fn of(path: &Path, options: &Options) -> Result<Self, TraceError> {
        Self::read(Reader::open(path, options)?)
    }

    /// Reads a whole trace once, from an open reader of which nothing was read, and collects the
    /// facts that a replay needs: files and whether they existed, processes, counts of operations
    /// and bytes, and the time span.
    ///
    /// # Errors
    /// The trace can't be read, or has no record.
    pub fn read(mut reader: Reader) -> Result<Self, TraceError> {
        let mut survey = Self {
            format: reader.format(),
            reason: reader.reason(),
            layout: reader.layout(),
            unit: reader.unit(),
            guess: reader.guess(),
            records: 0,
            span_ns: 0,
            bytes: [0; 2],
            ops: BTreeMap::new(),
            files: Vec::new(),
            processes: Vec::new(),
            ignored: BTreeMap::new(),
            skipped: 0,
            first_skipped: None,
        };
        let mut ops = [0_u64; 10];
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch)? {
            for record in &batch {
                ops[record.op as usize] += 1;
                survey.note(record);
            }
        }
        for op in [
            Op::Read,
            Op::Write,
            Op::Sync,
            Op::DataSync,
            Op::Truncate,
            Op::Open,
            Op::Create,
            Op::CreateEmpty,
            Op::Close,
            Op::Unlink,
        ] {
            if ops[op as usize] > 0 {
                survey.ops.insert(op.name(), ops[op as usize]);
            }
        }
        survey
            .files
            .resize_with(reader.files().len(), FileUse::default);
        for (file, name) in survey.files.iter_mut().zip(reader.files()) {
            file.name.clone_from(name);
        }
        survey
            .processes
            .resize_with(reader.processes().len(), ProcessUse::default);
        for (process, name) in survey.processes.iter_mut().zip(reader.processes()) {
            process.name.clone_from(name);
        }
        survey.ignored.clone_from(reader.ignored());
        survey.skipped = reader.skipped();
        survey.first_skipped = reader.first_skipped().cloned();
        if survey.records == 0 {
            return Err(TraceError {
                file: reader.name().to_owned(),
                record: None,
                text: false,
                message: match &survey.first_skipped {
                    Some(e) => format!("no record can be read; the first: {e}"),
                    None => "the trace holds no request".to_owned(),
                },
                accepted: "a trace with at least one request".to_owned(),
            });
        }
        Ok(survey)
    }

    /// Adds a record to the facts: its process, its bytes, and how far and in which state its file
    /// is. A file existed before the trace if it is opened, cut or removed before anything else, or
    /// read past the size that the trace gave it.
    #[inline]
    fn note(&mut self, r: &Record) {
        let file = r.file as usize;
        if file >= self.files.len() {
            self.files.resize_with(file + 1, FileUse::default);
        }
        let process = r.process as usize;
        if process >= self.processes.len() {
            self.processes.resize_with(process + 1, ProcessUse::default);
        }
        let p = &mut self.processes[process];
        if p.records == 0 {
            p.first = self.records;
        }
        p.last = self.records;
        p.records += 1;
        self.records += 1;
        self.span_ns = self.span_ns.max(r.time_ns);
        // Devices and caches exist before their trace.
        let block = self.format.is_block();
        let f = &mut self.files[file];
        let end = r.end();
        match r.op {
            Op::Read => {
                self.bytes[0] += u64::from(r.len);
                // A read of 0 bytes, at or after the end of the file, tells nothing about its size.
                if r.len > 0 {
                    f.existed |= end > f.size;
                    f.reach = f.reach.max(end);
                }
            }
            Op::Write => {
                self.bytes[1] += u64::from(r.len);
                f.existed |= block;
                f.size = f.size.max(end);
                f.reach = f.reach.max(end);
            }
            Op::Open => f.existed |= !f.seen,
            Op::CreateEmpty => f.size = 0,
            Op::Truncate => {
                f.existed |= !f.seen;
                f.size = r.offset;
            }
            Op::Unlink => f.existed |= !f.seen,
            Op::Sync | Op::DataSync | Op::Create | Op::Close => {}
        }
        f.seen = true;
    }
}
