//! libCacheSim's oracleGeneral: little-endian records of 24 bytes,
//! `u32 time_s, u64 object, u32 size_bytes, i64 next_access` (the number of the object's next
//! record, counted from 1; −1 or the largest number if there is none).
//!
//! The format knows no writes: every record is a read. Objects of size 0 are counted and ignored,
//! as libCacheSim ignores them.

use crate::error::Fault;
use crate::objects::Objects;
use crate::record::{NO_LATENCY, Op, Record};
use crate::tables::Tables;

/// Bytes of a record.
pub(crate) const RECORD: usize = 24;

pub(crate) struct OracleGeneral {
    pub objects: Objects,
    /// Seconds of the first record.
    first: Option<u32>,
    last: u32,
    /// Records passed.
    passed: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub time: u32,
    pub object: u64,
    pub size: u32,
    pub next: i64,
}

#[inline(always)]
pub(crate) fn raw(bytes: &[u8; RECORD]) -> Raw {
    // Constant ranges of an array: the conversions compile to loads.
    Raw {
        time: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        object: u64::from_le_bytes([
            bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9], bytes[10], bytes[11],
        ]),
        size: u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]),
        next: i64::from_le_bytes([
            bytes[16], bytes[17], bytes[18], bytes[19], bytes[20], bytes[21], bytes[22], bytes[23],
        ]),
    }
}

impl OracleGeneral {
    pub fn new(objects: Objects) -> Self {
        Self {
            objects,
            first: None,
            last: 0,
            passed: 0,
        }
    }

    /// Reads the records of `data` into `out`, as what `keep` makes of them, whole records only,
    /// until `out` has `most` or a record is wrong. Returns how many records were passed without the
    /// wrong one.
    pub fn decode<T>(
        &mut self,
        data: &[u8],
        tables: &mut Tables,
        out: &mut Vec<T>,
        most: usize,
        keep: &impl Fn(&Record) -> T,
    ) -> (usize, Result<(), Fault>) {
        let room = most - out.len();
        let (records, _) = data.as_chunks::<RECORD>();
        out.reserve(room);
        let mut done = 0;
        for bytes in &records[..room.min(records.len())] {
            match self.record(raw(bytes), tables) {
                Ok(Some(r)) => out.push(keep(&r)),
                Ok(None) => {}
                Err(e) => return (done, Err(e)),
            }
            done += 1;
            self.passed += 1;
        }
        (done, Ok(()))
    }

    /// Counts a record that was skipped.
    pub fn skip(&mut self) {
        self.passed += 1;
    }

    #[inline(always)]
    fn record(&mut self, r: Raw, tables: &mut Tables) -> Result<Option<Record>, Fault> {
        let first = *self.first.get_or_insert(r.time);
        if r.time < self.last.max(first) || r.next < -1 {
            return Err(self.broken(r));
        }
        if r.next != -1 && r.next as u64 <= self.passed + 1 {
            return Err(self.broken(r));
        }
        self.last = r.time;
        if r.size == 0 {
            tables.ignore("requests of size 0");
            return Ok(None);
        }
        Ok(Some(Record {
            time_ns: u64::from(r.time - first) * 1_000_000_000,
            offset: self.objects.place(r.object, r.size)?,
            latency_ns: NO_LATENCY,
            len: r.size,
            file: 0,
            process: 0,
            op: Op::Read,
        }))
    }

    #[cold]
    fn broken(&self, r: Raw) -> Fault {
        if r.next < -1 || (r.next != -1 && r.next as u64 <= self.passed + 1) {
            Fault::new(
                format!("the next access, {}, lies before this one", r.next),
                "-1, or the number of a later record; a shifted or foreign file looks like this",
            )
        } else {
            Fault::new(
                format!("the time goes back from {} s to {} s", self.last, r.time),
                "records in the order of time",
            )
        }
    }
}
