//! Writes traces to files: artificial ones, and the pages that others ask for.

use crate::generate::{Generator, Plan, Request};
use std::io::{self, Write};

/// Bytes of a request's page.
const PAGE: u32 = 4096;

/// Writes the requests of a plan in libCacheSim's oracleGeneral format, with pages of 4 KiB. The
/// format has no writes. Needs 4 bytes of memory per request and reachable object: each record
/// holds the number of its object's next request.
///
/// # Errors
/// `out` fails.
pub fn oracle_general(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let objects: Vec<u32> = Generator::new(plan).map(|r| r.object).collect();
    let seconds = Generator::new(plan).map(|r| second(r.time_ns));
    pages(&objects, seconds, out)
}

/// Returns the second of a time in nanoseconds, as oracleGeneral has it.
pub(crate) fn second(time_ns: u64) -> u32 {
    u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX)
}

/// Writes requests for pages of 4 KiB, given by their numbers, as oracleGeneral's records of 24
/// bytes. `seconds` has the time of each request.
///
/// # Errors
/// `out` fails.
pub(crate) fn pages(
    numbers: &[u32],
    seconds: impl Iterator<Item = u32>,
    out: &mut impl Write,
) -> io::Result<()> {
    const NEVER: u32 = u32::MAX;
    let reach = numbers.iter().max().map_or(0, |m| *m as usize + 1);
    // From the last request backwards: the next request of each page, then of each request.
    let mut next_of = vec![NEVER; reach];
    let mut next = vec![NEVER; numbers.len()];
    for (i, number) in numbers.iter().enumerate().rev() {
        next[i] = std::mem::replace(&mut next_of[*number as usize], i as u32);
    }
    drop(next_of);
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    for ((second, number), next) in seconds.zip(numbers).zip(next) {
        out.write_all(&second.to_le_bytes())?;
        out.write_all(&u64::from(*number).to_le_bytes())?;
        out.write_all(&PAGE.to_le_bytes())?;
        // The format counts records from 1.
        let next = match next {
            NEVER => -1,
            next => i64::from(next) + 1,
        };
        out.write_all(&next.to_le_bytes())?;
    }
    out.flush()
}

/// Writes a plan as libCacheSim's CSV with the columns time (seconds, with nanoseconds), obj_id,
/// obj_size (4096) and op.
///
/// # Errors
/// `out` fails.
pub fn csv(plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    out.write_all(b"time,obj_id,obj_size,op\n")?;
    for Request {
        time_ns,
        object,
        write,
    } in Generator::new(plan)
    {
        let (s, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let op = if write { "write" } else { "read" };
        writeln!(out, "{s}.{ns:09},{object},{PAGE},{op}")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Pattern;
    use crate::{Format, Op, Options, Reader, Record, Unit};

    fn plan() -> Plan {
        Plan {
            pattern: Pattern::Mixed,
            objects: 50,
            requests: 10_000,
            skew: 0.8,
            writes: 0.0,
            rate: 3000,
            seed: 9,
        }
    }

    fn read(bytes: Vec<u8>) -> (Format, Vec<Record>) {
        let stream = io::Cursor::new(bytes);
        let mut reader = Reader::from_stream(stream, "x", &Options::default()).unwrap();
        assert_eq!(reader.unit(), Some(Unit::Page));
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while reader.next_batch(&mut batch).unwrap() {
            all.append(&mut batch);
        }
        (reader.format(), all)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (mut binary, mut text) = (Vec::new(), Vec::new());
        oracle_general(&plan(), &mut binary).unwrap();
        let writes = Plan {
            writes: 0.5,
            ..plan()
        };
        csv(&writes, &mut text).unwrap();
        let (format, records) = read(binary);
        assert_eq!(format, Format::OracleGeneral);
        assert!(
            records
                .iter()
                .map(|r| r.offset)
                .eq(Generator::new(&plan()).map(|r| u64::from(r.object) * 4096))
        );
        let (format, records) = read(text);
        assert_eq!(format, Format::Csv);
        assert!(
            records
                .iter()
                .map(|r| (r.time_ns, r.offset, r.op == Op::Write))
                .eq(Generator::new(&writes).map(|r| (
                    r.time_ns,
                    u64::from(r.object) * 4096,
                    r.write
                )))
        );
    }
}
