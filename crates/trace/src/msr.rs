//! The MSR Cambridge traces (SNIA IOTTA 388): lines of
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, with the timestamp and the
//! response time in units of 100 ns, offset and size in bytes.

use crate::error::Fault;
use crate::number::{Fields, parse_u64};
use crate::record::{MAX_FILE, Op, Record};
use crate::tables::Tables;

const LINE: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime, such as \
    128166372003061629,hm,1,Read,383496192,32768,113736";

#[derive(Default)]
pub(crate) struct Msr {
    first: Option<u64>,
    name: Vec<u8>,
}

impl Msr {
    /// Parses a line of an MSR Cambridge trace and adds its request to `out`. Host and disk
    /// together name the file and the process; times and latencies, in units of 100 ns, become
    /// nanoseconds, times from the first line.
    ///
    /// # Errors
    /// The line has not seven fields, one is no number, the type is unknown, or the request is too
    /// long.
    pub fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        let mut fields = Fields::new(line, b',');
        let mut field = || {
            fields
                .next()
                .ok_or_else(|| Fault::about("fields are missing in", line, LINE))
        };
        let (time, host, disk, kind) = (field()?, field()?, field()?, field()?);
        let (offset, size, response) = (field()?, field()?, field()?);
        if fields.next().is_some() {
            return Err(Fault::about("more than seven fields in", line, LINE));
        }
        let number = |text| parse_u64(text).ok_or_else(|| Fault::about("no number:", text, LINE));
        let time = number(time)?;
        let op = if kind.eq_ignore_ascii_case(b"read") {
            Op::Read
        } else if kind.eq_ignore_ascii_case(b"write") {
            Op::Write
        } else {
            return Err(Fault::about("unknown type", kind, "Read, Write"));
        };
        let offset = number(offset)?;
        let len = u32::try_from(number(size)?)
            .ok()
            .filter(|len| offset <= MAX_FILE - u64::from(*len))
            .ok_or_else(|| {
                Fault::about(
                    "a request too long or past 16 TiB in",
                    line,
                    "requests below 4 GiB that end within 16 TiB",
                )
            })?;
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'.');
        self.name.extend_from_slice(disk);
        let first = *self.first.get_or_insert(time);
        let response = number(response)?;
        out.push(Record {
            time_ns: time.saturating_sub(first).saturating_mul(100),
            offset,
            latency_ns: response.saturating_mul(100).min(u64::MAX - 1),
            len,
            file: tables.file(&self.name),
            process: tables.process(&self.name),
            op,
        });
        Ok(())
    }
}
