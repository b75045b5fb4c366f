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

mod operands;

use crate::host::{Fd, Host, HostError, HostResult, OpenFlags};
use crate::script::Report;
use crate::session::Session;

/// The largest record, in bytes.
pub const MAX_RECORD: u64 = 2 << 30;

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

impl Dd {
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
    use crate::script::{Command, CommandError, Step};
    use crate::testing::{MemoryHost, block_on};
    use proptest::prelude::*;
    use std::path::Path;

    pub(super) fn dd(operands: &str) -> Result<Dd, CommandError> {
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
