//! The reader for all formats.

use crate::blkparse::Blkparse;
use crate::columns;
use crate::error::{Fault, TraceError};
use crate::fio_iolog::FioIolog;
use crate::fixed::{Fixed, Kind};
use crate::format::{Format, Reason, Recognised, lines};
use crate::guess::Guess;
use crate::input::{BLOCK, Input};
use crate::layout::{self, Layout};
use crate::msr::Msr;
use crate::object_csv::{Columns, ObjectCsv};
use crate::objects::{Objects, Unit};
use crate::oracle_general::{OracleGeneral, RECORD, raw};
use crate::record::Record;
use crate::strace::Strace;
use crate::tables::Tables;
use crate::unpack;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

mod ahead;
mod lines;

/// The least number of records in a batch, unless the trace ends.
const BATCH: usize = 4096;

/// Bytes of binary records read at once: no more than a batch needs, so that they stay in the
/// processor's caches until they are decoded.
const READ: usize = BATCH * RECORD;

/// The most files, and the most processes, of a trace: [`Record`]s have their numbers, and users of
/// records put a file's number above an offset of 44 bits.
pub const MOST_NAMES: usize = 1 << 20;

/// Options for reading a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The format; `None`: recognised by contents and name.
    pub format: Option<Format>,
    /// The columns of a text trace, instead of a format.
    pub columns: Option<Layout>,
    /// Skip and count malformed records, instead of stopping there.
    pub lenient: bool,
    /// The meaning of object numbers; for libCacheSim's formats only.
    pub unit: Unit,
}

/// Reads a trace batch by batch.
pub struct Reader {
    input: Input,
    name: String,
    decoder: Decoder,
    /// The meaning of object numbers, if it was guessed.
    guess: Option<Guess>,
    tables: Tables,
    format: Format,
    reason: Reason,
    lenient: bool,
    /// Records (lines of text) read.
    passed: u64,
    skipped: u64,
    first_skipped: Option<TraceError>,
    ended: bool,
    /// A buffer for the records of text formats.
    records: Vec<Record>,
}

enum Decoder {
    OracleGeneral(OracleGeneral),
    Csv(ObjectCsv),
    Msr(Msr),
    FioIolog(FioIolog),
    Blkparse(Blkparse),
    Strace(Box<Strace>),
    Columns(Box<columns::Columns>),
    Fixed(Fixed),
}

impl Decoder {
    /// Makes the decoder of a format for a trace that begins with `head`, by the options, and
    /// guesses the meaning of object numbers where they do not say.
    ///
    /// # Errors
    /// The trace is not in the format, or columns are missing: what is wrong, and the accepted.
    fn of(
        format: Format,
        head: &[u8],
        options: &Options,
        guess: &mut Option<Guess>,
    ) -> Result<Self, (String, String)> {
        let mut unit_of = |objects: &mut dyn Iterator<Item = (u64, u64)>| match options.unit {
            Unit::Auto => guess.insert(Guess::of(objects)).unit,
            unit => unit,
        };
        Ok(match format {
            Format::OracleGeneral => {
                let (records, _) = head.as_chunks::<RECORD>();
                let mut objects = records.iter().map(|r| {
                    let r = raw(r);
                    (r.object, u64::from(r.size))
                });
                Decoder::OracleGeneral(OracleGeneral::new(Objects::new(unit_of(&mut objects))))
            }
            Format::Csv => {
                let columns = lines(head).next().and_then(Columns::of);
                let mut objects = lines(head).filter_map(|l| columns?.peek(l));
                let unit = unit_of(&mut objects);
                Decoder::Csv(ObjectCsv::new(columns, Objects::new(unit)))
            }
            Format::Msr => Decoder::Msr(Msr::default()),
            Format::FioIolog => Decoder::FioIolog(FioIolog::new()),
            Format::Blkparse => Decoder::Blkparse(Blkparse::new(lines(head))),
            Format::Strace => Decoder::Strace(Box::new(Strace::new())),
            Format::Vscsi | Format::Lcs => {
                let kind = Kind::of(head).filter(|kind| match kind {
                    Kind::Vscsi(_) => format == Format::Vscsi,
                    Kind::Lcs(_) => format == Format::Lcs,
                });
                let Some(kind) = kind else {
                    return Err((
                        format!("this is no trace in the format {}", format.name()),
                        "vscsiStats of version 1 or 2, or LCS of version 1 to 8".into(),
                    ));
                };
                let unit = unit_of(&mut Fixed::peek(kind, head));
                Decoder::Fixed(Fixed::new(kind, Objects::new(unit)))
            }
            _ => {
                let first = lines(head).next().unwrap_or(b"");
                let layout = options.columns.or_else(|| layout::of(format, first));
                let Some(layout) = layout else {
                    return Err((
                        "the format `columns` has no columns".into(),
                        "columns, such as time:us,volume,op,offset:sector,size".into(),
                    ));
                };
                // Objects of these layouts have names, unless the options say otherwise.
                let unit = match options.unit {
                    Unit::Auto => Unit::Object,
                    unit => unit,
                };
                let objects = Objects::new(unit);
                Decoder::Columns(Box::new(columns::Columns::new(layout, first, objects)))
            }
        })
    }

    /// Gives a line of text to the format's decoder, which adds its records to `out` and counts
    /// ignored input in `tables`. Binary formats have no lines.
    ///
    /// # Errors
    /// The line is malformed.
    fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        match self {
            Self::Csv(d) => d.line(line, tables, out),
            Self::Msr(d) => d.line(line, tables, out),
            Self::FioIolog(d) => d.line(line, tables, out),
            Self::Blkparse(d) => d.line(line, tables, out),
            Self::Strace(d) => d.line(line, tables, out),
            Self::Columns(d) => d.line(line, tables, out),
            Self::OracleGeneral(_) | Self::Fixed(_) => Ok(()),
        }
    }
}

impl Reader {
    /// Opens a trace file, plain or compressed with zstd, gzip, xz or bzip2, in the format of the
    /// options or the
    /// recognised one.
    ///
    /// # Errors
    /// The file can't be read, or its format is not recognised.
    pub fn open(path: &Path, options: &Options) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let input = Input::open(path).map_err(|e| unreadable(&name, &e))?;
        Self::start(input, name, path, options)
    }

    /// Reads a trace from any stream of bytes; `name` stands for it in messages, and helps to
    /// recognise the format.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_stream(
        stream: impl Read + Send + 'static,
        name: &str,
        options: &Options,
    ) -> Result<Self, TraceError> {
        let input = Input::new(Box::new(stream)).map_err(|e| unreadable(name, &e))?;
        Self::start(input, name.to_owned(), Path::new(name), options)
    }

    /// Makes the reader of an open trace: reads the first block, takes the format from the options
    /// or recognises it, and guesses the meaning of object numbers if the options do not say.
    /// `path` is used for its name only.
    ///
    /// # Errors
    /// The trace can't be read, is empty, or has no known format.
    fn start(
        mut input: Input,
        name: String,
        path: &Path,
        options: &Options,
    ) -> Result<Self, TraceError> {
        input.fill().map_err(|e| unreadable(&name, &e))?;
        let head = input.data();
        let whole_file = |message: String, accepted: String| TraceError {
            file: name.clone(),
            record: None,
            text: false,
            message,
            accepted,
        };
        if head.is_empty() {
            return Err(whole_file(
                "the trace is empty".into(),
                "a trace with at least one record".into(),
            ));
        }
        let (format, reason) = match (options.columns, options.format) {
            (Some(_), _) => (Format::Columns, Reason::Said),
            (None, Some(format)) => (format, Reason::Said),
            (None, None) => match Format::recognise(path, head) {
                Recognised::Known(format, reason) => (format, reason),
                unknown => return Err(unclear(&name, &unknown)),
            },
        };
        let mut guess = None;
        let decoder = Decoder::of(format, head, options, &mut guess)
            .map_err(|(message, accepted)| whole_file(message, accepted))?;
        if let Decoder::Fixed(d) = &decoder {
            input.consume(d.kind.header());
            if d.unit().is_none() {
                guess = None;
            }
        }
        let mut tables = Tables::default();
        // Cache traces have no files or processes: all objects lie in one file, asked for by one
        // process.
        if matches!(format, Format::OracleGeneral | Format::Csv) {
            tables.file(b"objects");
            tables.process(b"client");
        }
        Ok(Self {
            input,
            name,
            decoder,
            guess,
            tables,
            format,
            reason,
            lenient: options.lenient,
            passed: 0,
            skipped: 0,
            first_skipped: None,
            ended: false,
            records: Vec::new(),
        })
    }

    /// Returns the trace's name, as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the reason to read the trace in its format.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the columns and units of the trace's lines, if its format is a layout of columns.
    pub fn layout(&self) -> Option<Layout> {
        match &self.decoder {
            Decoder::Columns(d) => Some(d.layout),
            _ => None,
        }
    }

    /// Returns the length of a record in bytes; `None` for text.
    pub fn record_bytes(&self) -> Option<usize> {
        match &self.decoder {
            Decoder::OracleGeneral(_) => Some(RECORD),
            Decoder::Fixed(d) => Some(d.kind.record()),
            _ => None,
        }
    }

    /// Returns what object numbers mean in this trace: sectors, pages or names; `None` for formats
    /// without objects.
    pub fn unit(&self) -> Option<Unit> {
        match &self.decoder {
            Decoder::OracleGeneral(d) => Some(d.objects.unit),
            Decoder::Csv(d) => Some(d.objects.unit),
            Decoder::Columns(d) => d.layout.has_objects().then_some(d.objects.unit),
            Decoder::Fixed(d) => d.unit(),
            _ => None,
        }
    }

    /// Returns the guess at the meaning of object numbers; `None` if the options gave it, or the
    /// format has no objects.
    pub fn guess(&self) -> Option<Guess> {
        self.guess
    }

    /// Makes the offset of a record the number of its object times 4096, if object numbers are only
    /// names: objects are numbered from 0 in the order of their first records, without gaps,
    /// whatever their sizes. Returns false, and changes nothing, where object numbers are places or
    /// the format has no objects. To be called before the first record is read.
    pub fn number_names(&mut self) -> bool {
        match &mut self.decoder {
            Decoder::OracleGeneral(d) => d.objects.number(),
            Decoder::Csv(d) => d.objects.number(),
            Decoder::Columns(d) if d.layout.has_objects() => d.objects.number(),
            Decoder::Fixed(d) if d.unit().is_some() => d.objects.number(),
            _ => false,
        }
    }

    /// Returns the names of the files seen so far, by their number in records. Names may repeat.
    pub fn files(&self) -> &[String] {
        &self.tables.files
    }

    /// Returns the names of the processes seen so far, by their number in records.
    pub fn processes(&self) -> &[String] {
        &self.tables.processes
    }

    /// Returns the kinds of input that were read but have no meaning here, with their counts.
    pub fn ignored(&self) -> &BTreeMap<String, u64> {
        &self.tables.ignored
    }

    /// Returns the number of malformed records that were skipped; 0 unless lenient.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the error of the first record that was skipped.
    pub fn first_skipped(&self) -> Option<&TraceError> {
        self.first_skipped.as_ref()
    }

    /// Replaces the contents of `out` by the next records: some thousands, fewer only at the end.
    /// Returns false at the end of the trace.
    ///
    /// # Errors
    /// A record is malformed, and the reader is not lenient. `out` has the records before it; the
    /// trace ends there.
    pub fn next_batch(&mut self, out: &mut Vec<Record>) -> Result<bool, TraceError> {
        self.next_batch_of(out, |record| *record)
    }

    /// Replaces the contents of `out` by the values that `keep` returns for the next records: some
    /// thousands, fewer only at the end. Returns false at the end of the trace. Where the format
    /// allows it, fields that `keep` does not use are not computed.
    ///
    /// # Errors
    /// As [`next_batch`](Self::next_batch).
    pub fn next_batch_of<T>(
        &mut self,
        out: &mut Vec<T>,
        keep: impl Fn(&Record) -> T,
    ) -> Result<bool, TraceError> {
        out.clear();
        let mut records = std::mem::take(&mut self.records);
        while out.len() < BATCH && !self.ended {
            let result = if self.format == Format::OracleGeneral {
                self.decode_binary(out, &keep)
            } else {
                records.clear();
                let most = BATCH - out.len();
                let result = match &self.decoder {
                    Decoder::Fixed(_) => self.decode_fixed(&mut records, most),
                    _ => self.decode_text(&mut records, most),
                };
                out.extend(records.iter().map(&keep));
                result
            };
            if let Err(e) = result.and_then(|()| self.countable()) {
                self.ended = true;
                return Err(e);
            }
        }
        self.records = records;
        Ok(!out.is_empty())
    }

    /// Checks that the trace so far has no more than [`MOST_NAMES`] files and processes, because
    /// users of records put these numbers into few bits.
    ///
    /// # Errors
    /// It has more.
    fn countable(&self) -> Result<(), TraceError> {
        let (files, processes) = (self.tables.files.len(), self.tables.processes.len());
        let (what, n) = if files > MOST_NAMES {
            ("files", files)
        } else if processes > MOST_NAMES {
            ("processes", processes)
        } else {
            return Ok(());
        };
        Err(TraceError {
            file: self.name.clone(),
            record: Some(self.passed),
            text: self.format.is_text(),
            message: format!("more than the limit: {n} {what}"),
            accepted: format!("a trace of at most {MOST_NAMES} {what}"),
        })
    }

    /// Decodes binary records from the block in memory, and reads on first if it has less than one
    /// record. The value that `keep` returns for each is appended to `out`.
    ///
    /// # Errors
    /// A record is malformed or cut, and the reader is not lenient.
    fn decode_binary<T>(
        &mut self,
        out: &mut Vec<T>,
        keep: &impl Fn(&Record) -> T,
    ) -> Result<(), TraceError> {
        if self.input.data().len() < RECORD && !self.more(READ)? {
            let rest = self.input.data().len();
            self.ended = true;
            if rest > 0 {
                let fault = Fault::new(
                    format!("the file ends within a record, after {rest} of {RECORD} bytes"),
                    "whole records; lenient reading skips the last one",
                );
                self.fault(fault)?;
            }
            return Ok(());
        }
        let Decoder::OracleGeneral(decoder) = &mut self.decoder else {
            return Ok(());
        };
        let (done, result) = decoder.decode(self.input.data(), &mut self.tables, out, BATCH, keep);
        self.passed += done as u64;
        self.input.consume(done * RECORD);
        if let Err(fault) = result {
            self.fault(fault)?;
            self.input.consume(RECORD);
            if let Decoder::OracleGeneral(decoder) = &mut self.decoder {
                decoder.skip();
            }
        }
        Ok(())
    }

    /// Decodes records of one length from the block in memory until `most` records are in `out`;
    /// reads on first if it has less than one.
    ///
    /// # Errors
    /// A record is malformed or cut, and the reader is not lenient.
    fn decode_fixed(&mut self, out: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        let Some(length) = self.record_bytes() else {
            return Ok(());
        };
        if self.input.data().len() < length && !self.more(BLOCK)? {
            let rest = self.input.data().len();
            self.ended = true;
            if rest > 0 {
                let fault = Fault::new(
                    format!("the file ends within a record, after {rest} of {length} bytes"),
                    "whole records; lenient reading skips the last one",
                );
                self.fault(fault)?;
            }
            return Ok(());
        }
        while out.len() < most && self.input.data().len() >= length {
            let bytes = &self.input.data()[..length];
            let Decoder::Fixed(decoder) = &mut self.decoder else {
                return Ok(());
            };
            match decoder.decode(bytes, &mut self.tables, out) {
                Ok(()) => self.passed += 1,
                Err(fault) => self.fault(fault)?,
            }
            self.input.consume(length);
        }
        Ok(())
    }

    /// Reads lines until `most` records are in `out`, or a few more where a line gives several, or
    /// the block in memory has no whole line left; only then more is read. Counts the lines in
    /// `passed`.
    ///
    /// # Errors
    /// A line is malformed, cut or longer than a block, and the reader is not lenient.
    fn decode_text(&mut self, out: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        let mut used = 0;
        let mut broken = None;
        {
            let data = self.input.data();
            while out.len() < most
                && let Some(end) = memchr::memchr(b'\n', &data[used..])
            {
                let line = &data[used..used + end];
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let blank = line.is_empty() || line.iter().all(u8::is_ascii_whitespace);
                if !blank && let Err(f) = self.decoder.line(line, &mut self.tables, out) {
                    broken = Some(f);
                    break;
                }
                used += end + 1;
                self.passed += 1;
            }
        }
        if let Some(fault) = broken {
            self.fault(fault)?;
            let end = memchr::memchr(b'\n', &self.input.data()[used..]);
            used += end.map_or(0, |end| end + 1);
            self.input.consume(used);
            return Ok(());
        }
        self.input.consume(used);
        if out.len() >= most || used > 0 || self.more(BLOCK)? {
            return Ok(());
        }
        // No line end is left, and no more bytes will arrive or fit.
        let rest = self.input.data().len();
        if rest == BLOCK {
            let fault = Fault::new(
                "a line longer than 1 MiB",
                "text; this error is typical of a binary file under the name of a text format",
            );
            self.fault(fault)?;
            self.input.consume(rest);
            return Ok(());
        }
        self.ended = true;
        if let Decoder::Strace(s) = &mut self.decoder {
            s.end(&mut self.tables);
        }
        if rest > 0 {
            let fault = Fault::new(
                "the file ends within a line",
                "a line end after the last line; lenient reading skips the last line",
            );
            self.fault(fault)?;
        }
        Ok(())
    }

    /// Reads on until `bytes` bytes are in memory. Returns true if bytes were added, false at the
    /// end of the trace.
    ///
    /// # Errors
    /// As of `filled`.
    fn more(&mut self, bytes: usize) -> Result<bool, TraceError> {
        let filled = self.input.fill_to(bytes);
        self.filled(filled)
    }

    /// Passes on the result of reading on (true: bytes were added), but turns an error of the
    /// decompressor into a malformed record: the rest of a damaged stream counts as one.
    ///
    /// # Errors
    /// The file can't be read, or the stream is damaged and the reader is not lenient.
    fn filled(&mut self, filled: io::Result<bool>) -> Result<bool, TraceError> {
        match filled {
            Ok(more) => Ok(more),
            Err(e) if self.input.compressed => {
                // The contents of a damaged frame can't be known: the rest counts as one record.
                let fault = if e.to_string().contains(unpack::TOO_LARGE) {
                    Fault::new(
                        "the compressed data needs a window of more than 128 MiB",
                        "a file compressed by zstd without `--long`, or with `--long=27` at most; by xz with \
                            a dictionary of at most 128 MiB",
                    )
                } else {
                    Fault::new(
                        format!("the compressed data is damaged or cut: {e}"),
                        "a whole compressed file",
                    )
                };
                self.fault(fault)?;
                self.ended = true;
                let rest = self.input.data().len();
                self.input.consume(rest);
                Ok(false)
            }
            Err(e) => Err(unreadable(&self.name, &e)),
        }
    }

    /// Handles a malformed record: counts it as skipped if the reader is lenient, else returns the
    /// error with file and number of the record.
    fn fault(&mut self, fault: Fault) -> Result<(), TraceError> {
        self.passed += 1;
        let error = TraceError {
            file: self.name.clone(),
            record: Some(self.passed),
            text: self.format.is_text(),
            message: fault.message,
            accepted: fault.accepted.to_owned(),
        };
        if !self.lenient {
            return Err(error);
        }
        self.skipped += 1;
        self.first_skipped.get_or_insert(error);
        Ok(())
    }
}

/// Makes the error about a trace whose format is not known, or one of several; `name` is the
/// trace's name.
fn unclear(name: &str, recognised: &Recognised) -> TraceError {
    let (message, accepted) = match recognised {
        Recognised::Unclear(formats, fields) if formats.is_empty() => (
            format!("{fields} columns of no known layout"),
            "`format` with the trace's layout, or `columns` with their meaning, such as \
             time:us,volume,op,offset:sector,size"
                .to_owned(),
        ),
        Recognised::Unclear(formats, fields) => {
            let names: Vec<_> = formats.iter().map(|f| f.name()).collect();
            let columns = if *fields == 1 { "column" } else { "columns" };
            (
                format!(
                    "{fields} {columns} without names could be {}, or have other units",
                    names.join(" or ")
                ),
                format!(
                    "`format` (--layout) with one of these names, or `columns` with the meaning of \
                     each, such as {}",
                    formats
                        .iter()
                        .find_map(|f| layout::of(*f, b""))
                        .map_or_else(
                            || "time,object,size".to_owned(),
                            |layout| layout.to_string()
                        )
                ),
            )
        }
        _ => (
            "the format of this trace is not known".to_owned(),
            format!(
                "one of {} by `format`, plain or compressed with zstd, gzip, xz or bzip2, or \
                 `columns` with the meaning of each",
                Format::NAMES.join(", ")
            ),
        ),
    };
    TraceError {
        file: name.to_owned(),
        record: None,
        text: false,
        message,
        accepted,
    }
}

/// Makes the error about a trace that the system can't read; `name` is the trace's name.
fn unreadable(name: &str, e: &io::Error) -> TraceError {
    TraceError {
        file: name.to_owned(),
        record: None,
        text: false,
        message: format!("can't be read: {e}"),
        accepted: "a trace file, plain or compressed with zstd, gzip, xz or bzip2".to_owned(),
    }
}
