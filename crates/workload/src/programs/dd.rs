//! GNU dd: copies a file record by record.
//!
//! Operands, suffixes and semantics are those of coreutils 9. As there, one read and one write is
//! one record: with `bs=` a partial read is written as it is; without it, input records are
//! gathered into output records of `obs` bytes. Nothing is allocated per record.
//!
//! Differences from GNU dd:
//! - Both `if=` and `of=` are required; there is no standard input or output.
//! - Conversions that look at the data are refused: the virtual world has no data.
//! - Numbers that do not fit 63 bits and a leading `0x` (a product with zero, of which GNU dd
//!   warns) are errors. Records are at most [`MAX_RECORD`] bytes.
//! - An error ends the run without figures. As in GNU dd, gathered data is written and synced.
//! - A full input record that is a full output record is written from the input buffer, without the
//!   copy that GNU dd makes if `bs=` is not given.
//! - Before a short `oflag=direct` write, GNU dd clears the flag of the open file; here the file is
//!   opened a second time without it.

mod operands;

pub use operands::{Dd, Extent, MAX_RECORD};

use crate::error::CommandError;
use crate::host::{Fd, Host, HostError, HostResult, OpenFlags, Task};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

/// The statistics that dd prints at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DdReport {
    /// Full input records.
    pub full_in: u64,
    /// Partial input records.
    pub partial_in: u64,
    /// Full output records.
    pub full_out: u64,
    /// Partial output records.
    pub partial_out: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Nanoseconds from before the first seek or read until after the close; excludes opening and
    /// truncating the files, includes syncing the output.
    pub elapsed_ns: u64,
}

impl From<DdReport> for Report {
    /// Converts dd's statistics to the metrics of a report.
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

impl Task for Dd {
    const NAME: &'static str = "dd";

    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        self.transfer(host).await.map(Report::from)
    }
}

impl Program for Dd {
    const USAGE: &'static str = "dd if=FILE of=FILE …";

    const METRICS: &'static [Metric] = &[
        Metric::new("bytes", "bytes", "Bytes that dd wrote."),
        Metric::new(
            "full_records_in",
            "records",
            "Reads of dd that filled a record.",
        ),
        Metric::new(
            "partial_records_in",
            "records",
            "Reads of dd that did not fill a record.",
        ),
        Metric::new(
            "full_records_out",
            "records",
            "Records of full size that dd wrote.",
        ),
        Metric::new(
            "partial_records_out",
            "records",
            "Shorter records that dd wrote.",
        ),
    ];

    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        operands::parse(name, operands)
    }

    fn files(&self) -> u64 {
        1
    }
}

impl Dd {
    /// Opens both files, copies until the input or `count=` ends, syncs and closes. Returns dd's
    /// statistics. After an error both files are closed, and the first error is returned.
    async fn transfer<H: Host>(&self, host: &H) -> HostResult<DdReport> {
        let input = host.open(&self.input, self.input_flags).await?;
        let output = match self.open_output(host).await {
            Ok(output) => output,
            Err(error) => {
                // The first error is the one to report.
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

    /// Returns the offset of the first write in bytes (`seek=`).
    fn seek_offset(&self) -> u64 {
        self.seek.length(self.obs).unwrap_or(i64::MAX as u64)
    }

    /// Opens the output file; if `seek=` skips whole records of it, cuts it there unless
    /// `conv=notrunc` is given.
    async fn open_output<H: Host>(&self, host: &H) -> HostResult<Fd> {
        let fd = host.open(&self.output, self.output_flags).await?;
        if self.seek.records == 0 || self.notrunc {
            return Ok(fd);
        }
        match host.truncate(fd, self.seek_offset()).await {
            Ok(()) => Ok(fd),
            // POSIX defines ftruncate for regular files only; dd ignores the failure for devices.
            Err(_) if self.output.starts_with("/dev/") => Ok(fd),
            Err(error) => {
                let _ = host.close(fd).await;
                Err(error)
            }
        }
    }

    /// Copies records from the open input to the writer: skips and seeks first, then reads record
    /// by record up to `count=`. With `bs=` each is written as it was read; otherwise they are
    /// gathered into output records. Counts records in `report`.
    async fn copy<H: Host>(
        &self,
        host: &H,
        input: Fd,
        writer: &mut Writer<'_, H>,
        report: &mut DdReport,
    ) -> HostResult<()> {
        if !self.skip.is_empty() {
            // Reading beyond the end of the file returns nothing, and is no error.
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
        // Bytes in `gathered`, of an output record that is not full yet.
        let mut held = 0;
        let mut outcome = Ok(());
        loop {
            // Input records read so far.
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
                    // Gathered data is still written.
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

    /// Reads one record of at most `len` bytes into `record`: with one call, or with
    /// `iflag=fullblock` with as many as needed (`spare` is a buffer for the further parts).
    /// Returns the number of bytes, 0 at the end.
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

/// The output file.
struct Writer<'a, H: Host> {
    dd: &'a Dd,
    host: &'a H,
    fd: Fd,
    /// The flags with which the file is open now.
    flags: OpenFlags,
    /// Whether to call fsync at the end.
    fsync: bool,
    /// The offset of the next write, unless the file is in append mode.
    pos: u64,
    /// A buffer for the rest of a record that the host wrote only in part.
    spare: Option<H::Buf>,
}

impl<H: Host> Writer<'_, H> {
    /// Writes the first `len` bytes of `record` as one output record, with one call if the host
    /// writes it whole, and counts it as full or partial in `report`.
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

    /// Calls write(2) once and returns the number of bytes written; nothing written is an error
    /// (ENOSPC).
    async fn call(&mut self, buf: &H::Buf, len: u64, report: &mut DdReport) -> HostResult<u64> {
        let written = self.host.write(self.fd, buf, len).await?.min(len);
        if written == 0 {
            return Err(HostError::NoSpace(self.dd.output.clone()));
        }
        self.pos += written;
        report.bytes += written;
        Ok(written)
    }

    /// Opens the output again without direct I/O, which cannot write a short record; dd writes it
    /// through the cache and syncs it at the end.
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

    /// Syncs the output at the end as `conv=fdatasync` and `conv=fsync` ask for; fsync takes the
    /// place of fdatasync where the host does not have the latter.
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
mod tests;
