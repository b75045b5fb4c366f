//! GNU dd: copies a file record by record.
//!
//! Operands, suffixes and semantics are those of coreutils 9. One read and one write is one record
//! as there: with `bs=` what a read returned is written as it is; without it, input records are
//! gathered into output records of `obs` bytes. Nothing is allocated per record.
//!
//! Where this dd differs:
//! - Both `if=` and `of=` are required; there is no standard input or output.
//! - Conversions that look at the data are refused: the virtual world has no data.
//! - Numbers that do not fit 63 bits and a leading `0x` (a product with zero, of which GNU dd
//!   warns) are errors. Records are at most [`MAX_RECORD`] bytes.
//! - An error ends the run without figures. What was gathered is written and synced, as by GNU dd.
//! - A full input record that is a full output record is written from where it was read, without
//!   the copy that GNU dd makes if `bs=` is not given.
//! - Before a short `oflag=direct` write, GNU dd takes the flag off the open file; here the file is
//!   opened a second time without it.

use crate::command::{CommandError, Report};
use crate::host::{Fd, Host, HostError, HostResult, OpenFlags};
use crate::session::Session;
use crate::shell::Word;
use std::ops::Range;

/// The largest record, in bytes.
pub const MAX_RECORD: u64 = 2 << 30;

const OPERANDS: &str = "if= of= bs= ibs= obs= count= skip= (iseek=) seek= (oseek=) conv= iflag= \
     oflag= status=";
const NUMBERS: &str = "a whole number, with a suffix if need be: c=1 w=2 b=512 kB=1000 K=KiB=1024 \
     MB M GB G TB T PB P EB E; products such as 2x512; for count, skip and seek a final B counts \
     bytes";
const CONVERSIONS: &str = "notrunc, fsync, fdatasync, excl, nocreat";
const INPUT_FLAGS: &str = "direct, dsync, sync, append, fullblock, count_bytes, skip_bytes";
const OUTPUT_FLAGS: &str = "direct, dsync, sync, append, seek_bytes";
const LEVELS: &str = "none, noxfer, progress";

/// A length of a file: whole records, and bytes after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Whole records.
    pub records: u64,
    /// Bytes after the last whole record; less than a record.
    pub bytes: u64,
}

impl Extent {
    fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// In bytes; `None` if that does not fit a file offset.
    fn length(self, record: u64) -> Option<u64> {
        let length = self.records.checked_mul(record)?.checked_add(self.bytes)?;
        i64::try_from(length).ok().map(|_| length)
    }
}

/// dd with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dd {
    /// `if=`: the file to read.
    pub input: String,
    /// `of=`: the file to write.
    pub output: String,
    /// Input record, in bytes: 1 to [`MAX_RECORD`].
    pub ibs: u64,
    /// Output record, in bytes: 1 to [`MAX_RECORD`].
    pub obs: u64,
    /// Gather input records into output records: `bs=` was not given.
    pub reblock: bool,
    /// How much to read, in input records; absent: to the end.
    pub count: Option<Extent>,
    /// Where to begin reading, in input records.
    pub skip: Extent,
    /// Where to begin writing, in output records.
    pub seek: Extent,
    /// `iflag=fullblock`: read again until a record is full.
    pub fullblock: bool,
    /// `conv=notrunc`: leave what the output file holds beyond what is written.
    pub notrunc: bool,
    /// `conv=nocreat`: fail if the output file is missing.
    pub nocreat: bool,
    /// `conv=fdatasync`: sync the data at the end.
    pub fdatasync: bool,
    /// `conv=fsync`: sync data and metadata at the end.
    pub fsync: bool,
    /// How the input is opened.
    pub input_flags: OpenFlags,
    /// How the output is opened.
    pub output_flags: OpenFlags,
}

/// What dd prints at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DdReport {
    /// Reads that filled a record.
    pub full_in: u64,
    /// Reads that did not.
    pub partial_in: u64,
    /// Output records of full size.
    pub full_out: u64,
    /// Shorter output records.
    pub partial_out: u64,
    /// Bytes written.
    pub bytes: u64,
    /// From before the first seek or read to behind the close, in nanoseconds; opening and
    /// truncating the files is outside, syncing the output inside.
    pub elapsed_ns: u64,
}

impl From<DdReport> for Report {
    fn from(dd: DdReport) -> Self {
        let metric = |name: &str, unit, value: u64| (name.to_owned(), unit, value as f64);
        Self {
            metrics: vec![
                ("elapsed".to_owned(), "s", dd.elapsed_ns as f64 / 1e9),
                metric("bytes", "bytes", dd.bytes),
                metric("full_records_in", "records", dd.full_in),
                metric("partial_records_in", "records", dd.partial_in),
                metric("full_records_out", "records", dd.full_out),
                metric("partial_records_out", "records", dd.partial_out),
            ],
        }
    }
}

/// A number operand as it was given.
struct Number {
    value: u64,
    /// Whether it ended in `B` and so counts bytes and not records.
    in_bytes: bool,
    span: Range<usize>,
}

impl Number {
    fn extent(&self, in_bytes: bool, record: u64) -> Extent {
        if in_bytes || self.in_bytes {
            Extent {
                records: self.value / record,
                bytes: self.value % record,
            }
        } else {
            Extent {
                records: self.value,
                bytes: 0,
            }
        }
    }
}

/// The part of an operand behind its `=`.
struct Value<'a> {
    word: &'a Word,
    at: usize,
}

impl<'a> Value<'a> {
    fn text(&self) -> &'a str {
        &self.word.text[self.at..]
    }

    /// The place in the line of a range of [`text`](Self::text).
    fn span(&self, range: Range<usize>) -> Range<usize> {
        self.word.source(self.at + range.start..self.at + range.end)
    }

    fn error(&self, message: String, accepted: &str) -> CommandError {
        CommandError::new(self.span(0..self.text().len()), message, accepted)
    }

    fn path(&self) -> Result<String, CommandError> {
        if self.text().is_empty() {
            return Err(self.error("an empty file name".to_owned(), "the name of a file"));
        }
        Ok(self.text().to_owned())
    }

    /// Comma-separated symbols with their places.
    fn symbols(&self) -> impl Iterator<Item = (&'a str, Range<usize>)> {
        let mut at = 0;
        self.text().split(',').map(move |symbol| {
            let range = at..at + symbol.len();
            at = range.end + 1;
            (symbol, self.span(range))
        })
    }

    fn number(&self) -> Result<Number, CommandError> {
        let text = self.text();
        let whole = self.span(0..text.len());
        let too_large = || self.error(format!("`{text}` is too large"), "less than 2^63");
        if text.starts_with("0x") {
            return Err(CommandError::new(
                self.span(0..2),
                "`0x` is a product with zero and not a hexadecimal number",
                NUMBERS,
            ));
        }
        let (mut value, mut in_bytes, mut at) = (1_u64, false, 0);
        for term in text.split('x') {
            let digits = term.bytes().take_while(u8::is_ascii_digit).count();
            let suffix = &term[digits..];
            let Some((unit, bytes)) = suffix_value(suffix).filter(|_| !term.is_empty()) else {
                let bad = if suffix.is_empty() {
                    at..at
                } else {
                    at + digits..at + term.len()
                };
                let what = if suffix.is_empty() {
                    format!("`{text}` is not a number")
                } else {
                    format!("`{suffix}` in `{text}` is not a suffix of numbers")
                };
                return Err(CommandError::new(self.span(bad), what, NUMBERS));
            };
            // A suffix alone stands for one of it.
            let count = match &term[..digits] {
                "" => 1,
                digits => digits.parse().map_err(|_| too_large())?,
            };
            value = unit
                .and_then(|unit| value.checked_mul(unit)?.checked_mul(count))
                .filter(|v| i64::try_from(*v).is_ok())
                .ok_or_else(too_large)?;
            in_bytes |= bytes;
            at += term.len() + 1;
        }
        Ok(Number {
            value,
            in_bytes,
            span: whole,
        })
    }

    fn record(&self) -> Result<u64, CommandError> {
        let value = self.number()?.value;
        if !(1..=MAX_RECORD).contains(&value) {
            let message = format!("a record of {value} bytes");
            return Err(self.error(message, &format!("1 to {MAX_RECORD} bytes")));
        }
        Ok(value)
    }
}

/// What a suffix multiplies by (`None` if that is more than 64 bits hold), and whether it ends in
/// `B`.
fn suffix_value(suffix: &str) -> Option<(Option<u64>, bool)> {
    let in_bytes = suffix.ends_with('B');
    let simple = |unit| Some((Some(unit), in_bytes));
    match suffix {
        "" | "B" | "c" | "cB" => return simple(1),
        "w" | "wB" => return simple(2),
        "b" | "bB" => return simple(512),
        _ => {}
    }
    let mut rest = suffix.chars();
    let power = match rest.next()? {
        'k' | 'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        'P' => 5,
        'E' => 6,
        'Z' => 7,
        'Y' => 8,
        'R' => 9,
        'Q' => 10,
        _ => return None,
    };
    let base: u64 = match rest.as_str() {
        "" | "iB" => 1024,
        "B" => 1000,
        _ => return None,
    };
    Some((base.checked_pow(power), in_bytes))
}

impl Dd {
    /// Reads dd's operands.
    ///
    /// # Errors
    /// An operand that GNU dd would refuse or that the module documentation excludes.
    pub(crate) fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let (mut input, mut output) = (None, None);
        let (mut bs, mut ibs, mut obs) = (None, 512, 512);
        let (mut count, mut skip, mut seek): (Option<Number>, Option<Number>, Option<Number>) =
            (None, None, None);
        let (mut count_bytes, mut skip_bytes, mut seek_bytes) = (false, false, false);
        let mut nocreat_at = None;
        let mut dd = Self {
            input: String::new(),
            output: String::new(),
            ibs: 512,
            obs: 512,
            reblock: true,
            count: None,
            skip: Extent::default(),
            seek: Extent::default(),
            fullblock: false,
            notrunc: false,
            nocreat: false,
            fdatasync: false,
            fsync: false,
            input_flags: OpenFlags {
                read: true,
                ..OpenFlags::default()
            },
            output_flags: OpenFlags {
                write: true,
                ..OpenFlags::default()
            },
        };
        for word in operands {
            let Some(equals) = word.text.find('=') else {
                return Err(unknown_operand(word, &word.text));
            };
            let value = Value {
                word,
                at: equals + 1,
            };
            match &word.text[..equals] {
                "if" => input = Some(value.path()?),
                "of" => output = Some(value.path()?),
                "bs" => bs = Some(value.record()?),
                "ibs" => ibs = value.record()?,
                "obs" => obs = value.record()?,
                "count" => count = Some(value.number()?),
                "skip" | "iseek" => skip = Some(value.number()?),
                "seek" | "oseek" => seek = Some(value.number()?),
                "conv" => {
                    for (symbol, span) in value.symbols() {
                        match symbol {
                            "notrunc" => dd.notrunc = true,
                            "fsync" => dd.fsync = true,
                            "fdatasync" => dd.fdatasync = true,
                            "excl" => dd.output_flags.exclusive = true,
                            "nocreat" => {
                                dd.nocreat = true;
                                nocreat_at = Some(span.clone());
                            }
                            "ascii" | "ebcdic" | "ibm" | "block" | "unblock" | "lcase"
                            | "ucase" | "sparse" | "swab" | "sync" | "noerror" => {
                                return Err(CommandError::new(
                                    span,
                                    format!("the conversion `{symbol}` isn't supported"),
                                    CONVERSIONS,
                                ));
                            }
                            _ => {
                                return Err(unknown_symbol(
                                    "conversion",
                                    symbol,
                                    span,
                                    CONVERSIONS,
                                ));
                            }
                        }
                        if let (true, Some(span)) = (dd.output_flags.exclusive, &nocreat_at) {
                            return Err(CommandError::new(
                                span.clone(),
                                "excl and nocreat can't be combined",
                                "one of them",
                            ));
                        }
                    }
                }
                "iflag" => {
                    for (symbol, span) in value.symbols() {
                        match symbol {
                            "fullblock" => dd.fullblock = true,
                            "count_bytes" => count_bytes = true,
                            "skip_bytes" => skip_bytes = true,
                            _ if open_flag(&mut dd.input_flags, symbol) => {}
                            _ => {
                                return Err(unknown_symbol(
                                    "input flag",
                                    symbol,
                                    span,
                                    INPUT_FLAGS,
                                ));
                            }
                        }
                    }
                }
                "oflag" => {
                    for (symbol, span) in value.symbols() {
                        match symbol {
                            "seek_bytes" => seek_bytes = true,
                            _ if open_flag(&mut dd.output_flags, symbol) => {}
                            _ => {
                                return Err(unknown_symbol(
                                    "output flag",
                                    symbol,
                                    span,
                                    OUTPUT_FLAGS,
                                ));
                            }
                        }
                    }
                }
                // What dd would print is in its report either way.
                "status" => {
                    if !matches!(value.text(), "none" | "noxfer" | "progress") {
                        let message = format!("`{}` is not a status level", value.text());
                        return Err(value.error(message, LEVELS));
                    }
                }
                unknown => return Err(unknown_operand(word, unknown)),
            }
        }
        let missing = |what: &str, accepted: &str| {
            CommandError::new(name.span.clone(), format!("dd without {what}"), accepted)
        };
        dd.input = input.ok_or_else(|| {
            missing(
                "if= would read standard input, of which there is none",
                "if=FILE, such as if=/dev/zero",
            )
        })?;
        dd.output = output.ok_or_else(|| {
            missing(
                "of= would write standard output, of which there is none",
                "of=FILE, such as of=/dev/null",
            )
        })?;
        (dd.ibs, dd.obs) = bs.map_or((ibs, obs), |bs| (bs, bs));
        dd.reblock = bs.is_none();
        dd.count = count.map(|n| n.extent(count_bytes, dd.ibs));
        let offset = |number: Option<Number>, in_bytes, record| {
            let Some(number) = number else {
                return Ok(Extent::default());
            };
            let extent = number.extent(in_bytes, record);
            match extent.length(record) {
                Some(_) => Ok(extent),
                None => Err(CommandError::new(
                    number.span,
                    "an offset that no file can have",
                    "less than 2^63 bytes",
                )),
            }
        };
        dd.skip = offset(skip, skip_bytes, dd.ibs)?;
        dd.seek = offset(seek, seek_bytes, dd.obs)?;
        dd.output_flags.create = !dd.nocreat;
        dd.output_flags.truncate = dd.seek.records == 0 && !dd.notrunc;
        // Only seeking may have to read; GNU dd opens for reading then.
        dd.output_flags.read = dd.seek.records != 0;
        Ok(dd)
    }

    /// Copies; ends when the input or `count=` does.
    ///
    /// # Errors
    /// The first error of a call on the files; both are closed then.
    pub async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<DdReport> {
        let input = host.open(&self.input, self.input_flags).await?;
        let output = match self.open_output(host).await {
            Ok(output) => output,
            Err(error) => {
                // The error that came first is the one to tell.
                let _ = host.close(input).await;
                return Err(error);
            }
        };
        let started = host.now();
        let mut report = DdReport::default();
        let mut writer = Writer {
            dd: self,
            host,
            fd: output,
            flags: self.output_flags,
            fsync: self.fsync,
            pos: 0,
            spare: None,
        };
        let copied = self.copy(host, input, &mut writer, &mut report).await;
        let synced = writer.sync().await;
        let closed_input = host.close(input).await;
        let closed_output = host.close(writer.fd).await;
        copied.and(synced).and(closed_input).and(closed_output)?;
        report.elapsed_ns = host.now().saturating_sub(started);
        Ok(report)
    }

    /// The offset of the first write, in bytes.
    fn seek_offset(&self) -> u64 {
        self.seek.length(self.obs).unwrap_or(i64::MAX as u64)
    }

    async fn open_output<H: Host>(&self, host: &H) -> HostResult<Fd> {
        let fd = host.open(&self.output, self.output_flags).await?;
        if self.seek.records == 0 || self.notrunc {
            return Ok(fd);
        }
        match host.truncate(fd, self.seek_offset()).await {
            Ok(()) => Ok(fd),
            // POSIX defines ftruncate for regular files only; dd does not mind others.
            Err(_) if self.output.starts_with("/dev/") => Ok(fd),
            Err(error) => {
                let _ = host.close(fd).await;
                Err(error)
            }
        }
    }

    async fn copy<H: Host>(
        &self,
        host: &H,
        input: Fd,
        writer: &mut Writer<'_, H>,
        report: &mut DdReport,
    ) -> HostResult<()> {
        if !self.skip.is_empty() {
            // Beyond the end of the file there is nothing to read, and that is no error.
            let offset = self.skip.length(self.ibs).unwrap_or(i64::MAX as u64);
            host.seek(input, offset).await?;
        }
        if !self.seek.is_empty() {
            writer.pos = host.seek(writer.fd, self.seek_offset()).await?;
        }
        if self.count.is_some_and(Extent::is_empty) {
            return Ok(());
        }
        let mut record = host.buffer(self.ibs);
        let mut spare = None;
        let mut gathered: Option<H::Buf> = None;
        let mut held = 0;
        let mut outcome = Ok(());
        loop {
            let done = report.full_in + report.partial_in;
            let len = match self.count {
                Some(count) if done < count.records => self.ibs,
                Some(count) if done == count.records && count.bytes != 0 => count.bytes,
                Some(_) => break,
                None => self.ibs,
            };
            let got = match self.read(host, input, &mut record, &mut spare, len).await {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) => {
                    // What was gathered is still written.
                    outcome = Err(error);
                    break;
                }
            };
            if got == self.ibs {
                report.full_in += 1;
            } else {
                report.partial_in += 1;
            }
            if !self.reblock {
                writer.write(&record, got, report).await?;
                continue;
            }
            if held == 0 && got == self.obs {
                writer.write(&record, got, report).await?;
                continue;
            }
            let gathered = gathered.get_or_insert_with(|| host.buffer(self.obs));
            let mut taken = 0;
            while taken < got {
                let part = (got - taken).min(self.obs - held);
                host.copy(&record, taken, gathered, held, part).await?;
                taken += part;
                held += part;
                if held == self.obs {
                    writer.write(gathered, held, report).await?;
                    held = 0;
                }
            }
        }
        if let Some(gathered) = gathered.as_ref().filter(|_| held > 0) {
            writer.write(gathered, held, report).await?;
        }
        outcome
    }

    /// Reads one record of at most `len` bytes: by one call, or with `fullblock` by as many as it
    /// takes.
    async fn read<H: Host>(
        &self,
        host: &H,
        input: Fd,
        record: &mut H::Buf,
        spare: &mut Option<H::Buf>,
        len: u64,
    ) -> HostResult<u64> {
        let mut got = host.read(input, record, len).await?;
        if !self.fullblock || got == 0 {
            return Ok(got);
        }
        while got < len {
            let rest = spare.get_or_insert_with(|| host.buffer(self.ibs));
            let more = host.read(input, rest, len - got).await?;
            if more == 0 {
                break;
            }
            host.copy(rest, 0, record, got, more).await?;
            got += more;
        }
        Ok(got)
    }
}

/// Sets the flag of open(2) that a symbol names; false if none does.
fn open_flag(flags: &mut OpenFlags, symbol: &str) -> bool {
    match symbol {
        "direct" => flags.direct = true,
        "dsync" => flags.dsync = true,
        "sync" => flags.sync = true,
        "append" => flags.append = true,
        _ => return false,
    }
    true
}

fn unknown_operand(word: &Word, operand: &str) -> CommandError {
    CommandError::new(
        word.source(0..operand.len()),
        format!("dd has no operand `{operand}`"),
        OPERANDS,
    )
}

fn unknown_symbol(kind: &str, symbol: &str, span: Range<usize>, accepted: &str) -> CommandError {
    CommandError::new(
        span,
        format!("`{symbol}` is not a supported {kind}"),
        accepted,
    )
}

/// The output file.
struct Writer<'a, H: Host> {
    dd: &'a Dd,
    host: &'a H,
    fd: Fd,
    /// As the file is open now.
    flags: OpenFlags,
    /// Whether to fsync at the end.
    fsync: bool,
    /// Where the next byte goes, unless the file is appended to.
    pos: u64,
    /// Takes the rest of a record of which the host wrote a part.
    spare: Option<H::Buf>,
}

impl<H: Host> Writer<'_, H> {
    /// Writes one record, by one call if the host takes it whole.
    async fn write(&mut self, record: &H::Buf, len: u64, report: &mut DdReport) -> HostResult<()> {
        if self.flags.direct && len < self.dd.obs {
            self.leave_direct().await?;
        }
        let mut done = self.call(record, len, report).await?;
        while done < len {
            let spare = self.spare.take();
            let mut rest = spare.unwrap_or_else(|| self.host.buffer(self.dd.obs));
            self.host
                .copy(record, done, &mut rest, 0, len - done)
                .await?;
            done += self.call(&rest, len - done, report).await?;
            self.spare = Some(rest);
        }
        if len == self.dd.obs {
            report.full_out += 1;
        } else {
            report.partial_out += 1;
        }
        Ok(())
    }

    /// One write(2), which writes at least a byte.
    async fn call(&mut self, buf: &H::Buf, len: u64, report: &mut DdReport) -> HostResult<u64> {
        let written = self.host.write(self.fd, buf, len).await?.min(len);
        if written == 0 {
            return Err(HostError::NoSpace(self.dd.output.clone()));
        }
        self.pos += written;
        report.bytes += written;
        Ok(written)
    }

    /// Direct I/O cannot write a short record; dd writes it through the cache and syncs it.
    async fn leave_direct(&mut self) -> HostResult<()> {
        let flags = OpenFlags {
            create: false,
            truncate: false,
            exclusive: false,
            direct: false,
            ..self.flags
        };
        let fd = self.host.open(&self.dd.output, flags).await?;
        let direct = std::mem::replace(&mut self.fd, fd);
        self.flags = flags;
        self.fsync = true;
        self.host.close(direct).await?;
        if !flags.append {
            self.host.seek(fd, self.pos).await?;
        }
        Ok(())
    }

    async fn sync(&mut self) -> HostResult<()> {
        if self.dd.fdatasync {
            match self.host.sync(self.fd, true).await {
                Err(HostError::Unsupported(_)) => self.fsync = true,
                other => other?,
            }
        }
        if self.fsync {
            self.host.sync(self.fd, false).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Step};
    use crate::testing::{MemoryHost, block_on};
    use proptest::prelude::*;
    use std::path::Path;

    fn dd(operands: &str) -> Result<Dd, CommandError> {
        let mut script = crate::parse(&format!("dd {operands}"))?;
        match script.steps.remove(0) {
            Step::Foreground(mut p) => match p.commands.remove(0) {
                Command::Dd(dd) => Ok(dd),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn run(host: &MemoryHost, operands: &str) -> HostResult<DdReport> {
        let report = block_on(
            dd(operands)
                .unwrap_or_else(|e| panic!("{operands}: {e}"))
                .run(host, &Session::default()),
        );
        assert_eq!(host.open_files(), 0, "{operands}");
        assert!(host.buffers.take() <= 4, "{operands}");
        report
    }

    /// `full_in+partial_in full_out+partial_out bytes`.
    fn figures(r: DdReport) -> String {
        format!(
            "{}+{} {}+{} {}",
            r.full_in, r.partial_in, r.full_out, r.partial_out, r.bytes
        )
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8 + 1).collect()
    }

    #[test]
    fn numbers_are_those_of_gnu_dd() {
        for (text, value, in_bytes) in [
            ("0", 0, false),
            ("010", 10, false),
            ("1c", 1, false),
            ("3w", 6, false),
            ("2b", 1024, false),
            ("b", 512, false),
            ("1kB", 1000, true),
            ("1K", 1024, false),
            ("32k", 32768, false),
            ("1KiB", 1024, true),
            ("2MB", 2_000_000, true),
            ("M", 1 << 20, false),
            ("1xM", 1 << 20, false),
            ("1G", 1 << 30, false),
            ("3TiB", 3 << 40, true),
            ("1PB", 1_000_000_000_000_000, true),
            ("7E", 7 << 60, false),
            ("2x512", 1024, false),
            ("2x3x4k", 24 << 10, false),
            ("5B", 5, true),
            ("2bB", 1024, true),
            ("00x3", 0, false),
            ("9223372036854775807", i64::MAX as u64, false),
        ] {
            let word = operand(&format!("x={text}"));
            let number = Value { word: &word, at: 2 }.number().unwrap();
            assert_eq!((number.value, number.in_bytes), (value, in_bytes), "{text}");
        }
    }

    fn operand(text: &str) -> Word {
        let line = format!("dd {text}");
        crate::shell::parse(&line)
            .unwrap()
            .remove(0)
            .commands
            .remove(0)
            .words
            .remove(1)
    }

    #[test]
    fn wrong_operands_are_named_and_placed() {
        for (operands, place, message) in [
            ("if=a", "dd", "of="),
            ("of=a", "dd", "if="),
            ("if= of=a", "if=", "empty"),
            ("if=a of=b foo", "foo", "`foo`"),
            ("if=a of=b fo\\o=1", "fo\\o", "`foo`"),
            ("if=a of=b =1", "=1", "``"),
            ("if=a of=b cbs=1", "cbs", "cbs"),
            ("if=a of=b bs=1X", "X", "`X`"),
            ("if=a of=b bs=12'k'ib", "k'ib", "`kib`"),
            ("if=a of=b bs=1BB", "BB", "`BB`"),
            ("if=a of=b bs=-1", "-1", "`-1`"),
            ("if=a of=b bs=", "bs=", "not a number"),
            ("if=a of=b bs=1x", "bs=1x", "not a number"),
            ("if=a of=b bs=x1", "bs=x1", "not a number"),
            ("if=a of=b bs=0x10", "0x", "hexadecimal"),
            ("if=a of=b bs=0", "0", "record"),
            ("if=a of=b bs=$((1 - 1))", "$((1 - 1))", "record"),
            ("if=a of=b ibs=3G", "3G", "record"),
            ("if=a of=b count=1Z", "1Z", "too large"),
            (
                "if=a of=b count=9223372036854775808",
                "9223372036854775808",
                "too large",
            ),
            (
                "if=a of=b count=99999999999999999999",
                "99999999999999999999",
                "too large",
            ),
            ("if=a of=b count=4Gx4G", "4Gx4G", "too large"),
            ("if=a of=b bs=1M seek=8E", "8E", "too large"),
            ("if=a of=b skip=7E bs=1M", "7E", "no file"),
            ("if=a of=b conv=fsync,foo,excl", "foo", "`foo`"),
            ("if=a of=b conv=", "conv=", "``"),
            ("if=a of=b conv=sparse", "sparse", "isn't supported"),
            ("if=a of=b conv=excl conv=nocreat", "nocreat", "combined"),
            (
                "if=a of=b iflag=direct,seek_bytes",
                "seek_bytes",
                "input flag",
            ),
            ("if=a of=b oflag=fullblock", "fullblock", "output flag"),
            ("if=a of=b status=loud", "loud", "status"),
            ("if=a of=b --help", "--help", "--help"),
        ] {
            let line = format!("dd {operands}");
            let e = dd(operands).expect_err(operands);
            assert_eq!(&line[e.span.clone()], place, "{operands}: {e}");
            assert!(e.message.contains(message), "{operands}: {e}");
            assert!(!e.accepted.is_empty());
        }
    }

    #[test]
    fn operands_become_fields() {
        let parsed = dd("if=/dev/zero of=disk/zeroes bs=32k count=$((10 << 15))").unwrap();
        assert_eq!(
            (parsed.ibs, parsed.obs, parsed.reblock),
            (32768, 32768, false)
        );
        assert_eq!(
            parsed.count,
            Some(Extent {
                records: 327_680,
                bytes: 0
            })
        );
        let flags = parsed.output_flags;
        assert!(flags.write && flags.create && flags.truncate && !flags.read && !flags.exclusive);
        let parsed =
            dd("ibs=10 obs=7 iflag=skip_bytes skip=25 count=25B oseek=1 if=a of=b if=c").unwrap();
        assert_eq!(
            parsed.skip,
            Extent {
                records: 2,
                bytes: 5
            }
        );
        assert_eq!(
            parsed.count,
            Some(Extent {
                records: 2,
                bytes: 5
            })
        );
        assert_eq!(
            parsed.seek,
            Extent {
                records: 1,
                bytes: 0
            }
        );
        assert_eq!(parsed.input, "c");
        assert!(parsed.output_flags.read && !parsed.output_flags.truncate);
        let parsed = dd("if=a of=b bs=4k ibs=1 obs=2 oflag=direct,sync,dsync,append conv=excl");
        let parsed = parsed.unwrap();
        assert_eq!((parsed.ibs, parsed.obs), (4096, 4096));
        let f = parsed.output_flags;
        assert!(f.direct && f.sync && f.dsync && f.append && f.exclusive);
    }

    #[test]
    fn one_read_and_one_write_per_record() {
        let host = MemoryHost::default();
        let report = run(
            &host,
            "if=/dev/zero of=x bs=4k count=3 conv=fdatasync,fsync",
        )
        .unwrap();
        assert_eq!(figures(report), "3+0 3+0 12288");
        let expected = [
            "open /dev/zero r",
            "open x w create truncate",
            "read /dev/zero 4096",
            "write x 4096",
            "read /dev/zero 4096",
            "write x 4096",
            "read /dev/zero 4096",
            "write x 4096",
            "fdatasync x",
            "fsync x",
            "close /dev/zero",
            "close x",
        ];
        assert_eq!(*host.calls.borrow(), expected);
    }

    #[test]
    fn short_reads_make_partial_records() {
        let host = MemoryHost::default();
        host.put("a", &pattern(1000));
        host.longest_read.set(60);
        // With bs= a partial record is written as it is, and counts as a record.
        assert_eq!(
            figures(run(&host, "if=a of=b bs=100 count=5").unwrap()),
            "0+5 0+5 300"
        );
        assert_eq!(host.contents("b"), &pattern(1000)[..300]);
        // Without it, output records are filled.
        assert_eq!(
            figures(run(&host, "if=a of=b ibs=100 obs=100 count=5").unwrap()),
            "0+5 3+0 300"
        );
        assert_eq!(host.contents("b"), &pattern(1000)[..300]);
        // fullblock reads on until a record is full or the file ends.
        assert_eq!(
            figures(run(&host, "if=a of=b bs=300 iflag=fullblock").unwrap()),
            "3+1 3+1 1000"
        );
        assert_eq!(host.contents("b"), pattern(1000));
    }

    #[test]
    fn short_writes_are_continued() {
        let host = MemoryHost::default();
        host.put("a", &pattern(1000));
        host.longest_write.set(70);
        assert_eq!(
            figures(run(&host, "if=a of=b bs=300").unwrap()),
            "3+1 3+1 1000"
        );
        assert_eq!(host.contents("b"), pattern(1000));
    }

    #[test]
    fn buffers_do_not_grow_with_the_file() {
        let host = MemoryHost::default();
        host.put("a", &pattern(100_000));
        host.longest_read.set(9);
        host.longest_write.set(7);
        run(&host, "if=a of=b ibs=10 obs=33 iflag=fullblock").unwrap();
        assert_eq!(host.contents("b"), pattern(100_000));
    }

    #[test]
    fn a_short_direct_record_goes_through_the_cache_and_is_synced() {
        let host = MemoryHost::default();
        host.put("a", &pattern(1000));
        let report = run(&host, "if=a of=b bs=512 oflag=direct seek=1").unwrap();
        assert_eq!(figures(report), "1+1 1+1 1000");
        assert_eq!(host.contents("b")[512..], pattern(1000));
        assert_eq!(host.count("open b rw create direct"), 1);
        assert_eq!(host.count("open b rw"), 2);
        assert_eq!(host.count("seek b 1024"), 1);
        assert_eq!(host.count("fsync b"), 1);
    }

    #[test]
    fn devices_are_neither_truncated_nor_sought_in_vain() {
        let host = MemoryHost::default();
        host.put("a", &pattern(1000));
        assert_eq!(
            figures(run(&host, "if=a of=/dev/null seek=3").unwrap()),
            "1+1 1+1 1000"
        );
        let report = run(&host, "if=/dev/zero of=b skip=3 bs=10 count=2").unwrap();
        assert_eq!(figures(report), "2+0 2+0 20");
        assert_eq!(
            figures(run(&host, "if=/dev/null of=b").unwrap()),
            "0+0 0+0 0"
        );
        assert!(host.contents("b").is_empty());
    }

    #[test]
    fn host_errors_end_the_run_and_close_the_files() {
        let host = MemoryHost::default();
        host.put("a", &pattern(1000));
        let missing = |path: &str| Err(HostError::NotFound(path.to_owned()));
        assert_eq!(run(&host, "if=none of=b"), missing("none"));
        assert!(!host.exists("b"));
        assert_eq!(run(&host, "if=a of=b conv=nocreat"), missing("b"));
        assert_eq!(
            run(&host, "if=a of=a conv=excl"),
            Err(HostError::Exists("a".to_owned()))
        );
        host.space.set(700);
        assert_eq!(
            run(&host, "if=a of=b bs=300"),
            Err(HostError::NoSpace("b".to_owned()))
        );
        assert_eq!(host.contents("b"), &pattern(1000)[..700]);
        host.bad_from.set(500);
        let failed = run(&host, "if=a of=b ibs=100 obs=300 conv=fsync");
        assert_eq!(failed, Err(HostError::Io("a".to_owned())));
        assert_eq!(
            host.contents("b"),
            &pattern(1000)[..500],
            "what was gathered is written"
        );
        assert_eq!(host.count("fsync b"), 1);
    }

    /// Runs the system's dd and this one on the same two files and compares what they leave
    /// behind and the records they count.
    fn compare(dir: &Path, operands: &str, a: &[u8], b: Option<&[u8]>) {
        let host = MemoryHost::default();
        let path = |name: &str| dir.join(name);
        std::fs::write(path("a"), a).unwrap();
        host.put("a", a);
        let _ = std::fs::remove_file(path("b"));
        if let Some(b) = b {
            std::fs::write(path("b"), b).unwrap();
            host.put("b", b);
        }
        let real = std::process::Command::new("dd")
            .args(operands.split_whitespace())
            .current_dir(dir)
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let stderr = String::from_utf8(real.stderr).unwrap();
        match run(&host, operands) {
            Ok(report) => {
                assert!(real.status.success(), "{operands}: {stderr}");
                let records = |full, partial, way| format!("{full}+{partial} records {way}\n");
                let lines = [
                    records(report.full_in, report.partial_in, "in"),
                    records(report.full_out, report.partial_out, "out"),
                    format!("{} byte", report.bytes),
                ];
                for line in lines {
                    assert!(stderr.contains(&line), "{operands}: {line} not in {stderr}");
                }
            }
            Err(e) => assert!(!real.status.success(), "{operands}: {e}, but {stderr}"),
        }
        assert_eq!(path("b").exists(), host.exists("b"), "{operands}");
        if host.exists("b") {
            assert!(
                std::fs::read(path("b")).unwrap() == host.contents("b"),
                "{operands}"
            );
        }
    }

    #[test]
    fn the_real_dd_agrees() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (pattern(2500), vec![255; 2000]);
        for operands in [
            "if=a of=b",
            "if=a of=b bs=1000",
            "if=a of=b bs=2500",
            "if=a of=b ibs=100 obs=333",
            "if=a of=b ibs=333 obs=100",
            "if=a of=b obs=1k",
            "if=a of=b bs=100 count=7 skip=3 seek=2",
            "if=a of=b bs=100 count=7 skip=3 seek=2 conv=notrunc",
            "if=a of=b bs=100 skip=30",
            "if=a of=b bs=100 count=0",
            "if=a of=b bs=100 count=0 seek=5",
            "if=a of=b bs=100 count=0 seek=50",
            "if=a of=b bs=100 seek=50",
            "if=a of=b bs=100 count=1 conv=notrunc",
            "if=a of=b bs=100 conv=notrunc oflag=append",
            "if=a of=b bs=100 oflag=append",
            "if=a of=b bs=100 iflag=count_bytes,skip_bytes count=250 skip=33",
            "if=a of=b bs=100 oflag=seek_bytes seek=33 count=1",
            "if=a of=b bs=100 oflag=seek_bytes seek=333 count=1",
            "if=a of=b bs=100 oflag=seek_bytes seek=333 count=1 conv=notrunc",
            "if=a of=b conv=excl",
            "if=a of=b conv=nocreat,fsync",
            "if=a of=b conv=fdatasync oflag=dsync",
            "if=none of=b",
            "if=/dev/zero of=b bs=2x512 count=3",
            "if=/dev/zero of=b ibs=1 obs=10 count=1kB iflag=count_bytes status=progress",
            "if=/dev/null of=b",
            "if=a of=/dev/null",
            "if=b of=/dev/null bs=1kB",
        ] {
            compare(dir.path(), operands, &a, Some(&b));
            compare(dir.path(), operands, &a, None);
            compare(dir.path(), operands, &[], Some(&b));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn the_real_dd_agrees_on_anything(
            sizes in prop_oneof![
                (1..700_u64).prop_map(|n| format!("bs={n}")),
                (1..700_u64, 1..700_u64).prop_map(|(i, o)| format!("ibs={i} obs={o}")),
                Just(String::new()),
            ],
            count in proptest::option::of(0..9_u64),
            skip in proptest::option::of(0..5_u64),
            seek in proptest::option::of(0..5_u64),
            bytes in any::<(bool, bool, bool, bool, bool)>(),
            a in 0..3000_usize,
            b in proptest::option::of(0..3000_usize),
        ) {
            use std::fmt::Write as _;
            let (count_bytes, skip_bytes, seek_bytes, notrunc, fullblock) = bytes;
            let mut operands = format!("if=a of=b {sizes}");
            for (name, value, in_bytes) in [
                ("count", count, count_bytes),
                ("skip", skip, skip_bytes),
                ("seek", seek, seek_bytes),
            ] {
                if let Some(value) = value {
                    let flag = if name == "seek" { "oflag" } else { "iflag" };
                    if in_bytes {
                        write!(operands, " {name}={} {flag}={name}_bytes", value * 217).unwrap();
                    } else {
                        write!(operands, " {name}={value}").unwrap();
                    }
                }
            }
            for (flag, on) in [("conv=notrunc", notrunc), ("iflag=fullblock", fullblock)] {
                if on {
                    write!(operands, " {flag}").unwrap();
                }
            }
            let dir = tempfile::tempdir().unwrap();
            let b = b.map(|b| vec![255; b]);
            compare(dir.path(), &operands, &pattern(a), b.as_deref());
        }
    }
}
