//! libCacheSim's oracleGeneral: little-endian records of 24 bytes, `u32 time_s, u64 object, u32
//! size_bytes, i64 next_access` (the number of the object's next record, counted from 1; −1 or
//! the largest number if there is none).
//!
//! The format has no writes: every record is a read. Objects of size 0 are counted and ignored, as
//! in libCacheSim.

use crate::error::Fault;
use crate::objects::{LOOKS, Objects, Place, Unit};
use crate::record::{MAX_FILE, NO_LATENCY, Op, Record};
use crate::tables::Tables;

/// Bytes of a record.
pub(crate) const RECORD: usize = 24;

pub(crate) struct OracleGeneral {
    pub objects: Objects,
    /// The time in seconds of the first valid record; an invalid one is not used.
    first: Option<u32>,
    /// The time in seconds of the last valid record, at or after `first`.
    last: u32,
    /// The number of records read.
    passed: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw {
    pub time: u32,
    pub object: u64,
    pub size: u32,
    pub next: i64,
}

impl Raw {
    /// Returns true if the object's next record, of which the number is -1 if there is none, lies
    /// behind this one; `passed` records come before it.
    #[inline(always)]
    fn has_next_ahead(&self, passed: i64) -> bool {
        self.next == -1 || self.next > passed + 1
    }

    /// Returns true if the record can follow `passed` others, the last of them at the time `last`.
    #[inline(always)]
    fn follows(&self, last: u32, passed: i64) -> bool {
        self.time >= last && self.has_next_ahead(passed)
    }
}

/// Decodes the 24 little-endian bytes of an oracleGeneral record: time in seconds, object, size in
/// bytes, and the number of the object's next record.
#[inline(always)]
pub(crate) fn raw(bytes: &[u8; RECORD]) -> Raw {
    // With constant ranges of an array the conversions compile to loads.
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

/// Converts a raw record to a read at `offset` bytes. `first` is the time of the trace's first
/// record in seconds, from which times count.
#[inline(always)]
fn request(r: Raw, first: u32, offset: u64) -> Record {
    Record {
        time_ns: u64::from(r.time - first) * 1_000_000_000,
        offset,
        latency_ns: NO_LATENCY,
        len: r.size,
        file: 0,
        process: 0,
        op: Op::Read,
    }
}

/// Iterates over the reads of a record whose object is at `place`: one, or one for each piece of
/// the object. `first` is as of [`request`].
fn pieces(objects: &Objects, r: Raw, first: u32, place: Place) -> impl Iterator<Item = Record> {
    let parts = objects.parts(place, r.size);
    parts.map(move |(offset, size)| request(Raw { size, ..r }, first, offset))
}

impl OracleGeneral {
    /// Makes a reader at the beginning of a trace; `objects` places its objects in one file.
    pub fn new(objects: Objects) -> Self {
        Self {
            objects,
            first: None,
            last: 0,
            passed: 0,
        }
    }

    /// Reads whole records of `data`, and appends the value that `keep` returns for each to `out`,
    /// until `out` has `most` values (more where objects have grown, each piece of which is a
    /// record) or a record is invalid. Returns the number of records read, without the invalid one,
    /// and the fault of that record or `Ok`.
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
        let records = &records[..room.min(records.len())];
        out.reserve(room);
        let mut done = 0;
        loop {
            // Most records are plain and take the fast way; the next one that is not goes singly.
            done += self.plain(&records[done..], out, keep);
            done += self.named(&records[done..], out, keep);
            let Some(bytes) = records.get(done) else {
                return (done, Ok(()));
            };
            if let Err(e) = self.record(raw(bytes), tables, |r| out.push(keep(&r))) {
                return (done, Err(e));
            }
            done += 1;
            self.passed += 1;
        }
    }

    /// Reads records after the trace's first one, as long as they are valid, have a size, and lie
    /// where their number says; appends what `keep` makes of them to `out` and returns their
    /// number. Does the same as [`Self::record`] with its state in registers, because nearly all
    /// records are such.
    #[inline(always)]
    fn plain<T>(
        &mut self,
        records: &[[u8; RECORD]],
        out: &mut Vec<T>,
        keep: &impl Fn(&Record) -> T,
    ) -> usize {
        let (Some(first), Some(unit)) = (self.first, self.objects.unit.log2()) else {
            return 0;
        };
        debug_assert!(self.last >= first);
        let (mut last, mut passed) = (self.last, self.passed as i64);
        for bytes in records {
            let r = raw(bytes);
            let largest = (MAX_FILE - u64::from(r.size)) >> unit;
            if !r.follows(last, passed) || r.size == 0 || r.object > largest {
                break;
            }
            last = r.time;
            passed += 1;
            out.push(keep(&request(r, first, r.object << unit)));
        }
        let n = passed as u64 - self.passed;
        (self.last, self.passed) = (last, passed as u64);
        n as usize
    }

    /// Reads records as [`Self::plain`] does where numbers are only names, with the look-ups of
    /// [`LOOKS`] objects at once.
    #[inline(always)]
    fn named<T>(
        &mut self,
        records: &[[u8; RECORD]],
        out: &mut Vec<T>,
        keep: &impl Fn(&Record) -> T,
    ) -> usize {
        let (Some(first), Unit::Object) = (self.first, self.objects.unit) else {
            return 0;
        };
        let before = self.passed;
        'blocks: for block in records.chunks(LOOKS) {
            let looked = self
                .objects
                .look(block.iter().map(|bytes| raw(bytes).object));
            for (at, bytes) in block.iter().enumerate() {
                let r = raw(bytes);
                if !r.follows(self.last, self.passed as i64) || r.size == 0 {
                    break 'blocks;
                }
                let place = self.objects.place_looked(r.object, r.size, &looked, at);
                let Ok(place) = place else { break 'blocks };
                self.last = r.time;
                self.passed += 1;
                if let Place::Whole(offset) = place {
                    out.push(keep(&request(r, first, offset)));
                } else {
                    let pieces = pieces(&self.objects, r, first, place);
                    out.extend(pieces.map(|piece| keep(&piece)));
                }
            }
        }
        (self.passed - before) as usize
    }

    /// Counts a skipped record.
    pub fn skip(&mut self) {
        self.passed += 1;
    }

    /// Checks a record and gives it to `each` as a read, or as several if its object has grown
    /// ([`Objects::parts`]). If its size is 0, the request is only counted in `tables`.
    ///
    /// # Errors
    /// The time goes back, the next access does not lie ahead, or the object lies too far.
    #[inline(always)]
    fn record(
        &mut self,
        r: Raw,
        tables: &mut Tables,
        each: impl FnMut(Record),
    ) -> Result<(), Fault> {
        if !r.follows(self.last, self.passed as i64) {
            return Err(self.broken(r));
        }
        let place = match r.size {
            0 => None,
            size => Some(self.objects.place(r.object, size)?),
        };
        let first = *self.first.get_or_insert(r.time);
        self.last = r.time;
        match place {
            Some(place) => pieces(&self.objects, r, first, place).for_each(each),
            None => tables.ignore("requests of size 0"),
        }
        Ok(())
    }

    /// Makes the fault of an invalid record: a next access that does not lie ahead, else a time
    /// that goes back.
    #[cold]
    fn broken(&self, r: Raw) -> Fault {
        if !r.has_next_ahead(self.passed as i64) {
            Fault::new(
                format!("the next access, {}, lies before this one", r.next),
                "-1, or the number of a later record; this error is typical of a shifted file or of another format",
            )
        } else {
            Fault::new(
                format!("the time goes back from {} s to {} s", self.last, r.time),
                "records in the order of time",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(r: &Raw) -> Vec<u8> {
        let mut out = r.time.to_le_bytes().to_vec();
        out.extend(r.object.to_le_bytes());
        out.extend(r.size.to_le_bytes());
        out.extend(r.next.to_le_bytes());
        out
    }

    /// Generates mostly valid records; some are odd in one way.
    fn record() -> impl Strategy<Value = Raw> {
        let time = prop_oneof![20 => 100_u32..103, 1 => 0_u32..200];
        let far = MAX_FILE / 4096;
        let object = prop_oneof![20 => 0_u64..50, 1 => far - 2..far + 2, 1 => any::<u64>()];
        let size = prop_oneof![20 => 1_u32..5000, 1 => Just(0), 1 => Just(u32::MAX)];
        let next =
            prop_oneof![9 => Just(-1_i64), 9 => 100_i64..200, 1 => -3_i64..40, 1 => Just(i64::MAX)];
        (time, object, size, next).prop_map(|(time, object, size, next)| Raw {
            time,
            object,
            size,
            next,
        })
    }

    /// Times count from the first valid record: after an invalid one, with an arbitrary time, later
    /// records are neither "back in time" nor relative to its time.
    #[test]
    fn a_wrong_record_sets_no_time() {
        let record = |time, object, next| Raw {
            time,
            object,
            size: 1,
            next,
        };
        let far = 4_000_000_000;
        // One record's next access is in the past, the other's object lies beyond any file.
        for wrong in [record(far, 1, 0), record(far, u64::MAX, -1)] {
            one_wrong_first(&[wrong, record(100, 1, -1), record(103, 1, -1)]);
        }
    }

    fn one_wrong_first(records: &[Raw]) {
        let data: Vec<u8> = records.iter().flat_map(bytes).collect();
        let mut decoder = OracleGeneral::new(Objects::new(Unit::Sector));
        let (mut tables, mut out) = (Tables::default(), Vec::new());
        let keep = |r: &Record| r.time_ns;
        let (done, result) = decoder.decode(&data, &mut tables, &mut out, 9, &keep);
        assert_eq!(done, 0);
        assert!(result.is_err());
        decoder.skip();
        let (done, result) = decoder.decode(&data[RECORD..], &mut tables, &mut out, 9, &keep);
        assert_eq!((done, result.is_ok()), (2, true));
        assert_eq!(out, [0, 3_000_000_000]);
    }

    proptest! {
        /// A run of records gives the same as single records, up to the first invalid one and after
        /// it.
        #[test]
        fn runs_are_single_records(
            mut raws in prop::collection::vec(record(), 0..60),
            ordered in any::<bool>(),
            unit in prop::sample::select(vec![Unit::Sector, Unit::Page, Unit::Object]),
            most in 1_usize..70,
        ) {
            if ordered {
                raws.sort_by_key(|r| r.time);
            }
            let data: Vec<u8> = raws.iter().flat_map(bytes).collect();
            let (mut runs, mut single) = (Tables::default(), Tables::default());
            let mut decoder = OracleGeneral::new(Objects::new(unit));
            let mut model = OracleGeneral::new(Objects::new(unit));
            let mut at = 0;
            while at < raws.len() {
                let mut out = Vec::new();
                let (done, result) =
                    decoder.decode(&data[at * RECORD..], &mut runs, &mut out, most, &|r: &Record| *r);
                let mut expected = Vec::new();
                for r in &raws[at..at + done] {
                    let one = model.record(*r, &mut single, |r| expected.push(r));
                    one.map_err(|e| e.message).expect("passed by both");
                    model.passed += 1;
                }
                prop_assert_eq!(out, expected);
                at += done;
                match result {
                    Ok(()) => prop_assert!(done == most || at == raws.len()),
                    Err(e) => {
                        let wrong = model.record(raws[at], &mut single, |_| {});
                        prop_assert_eq!(wrong.map_err(|e| e.message), Err(e.message));
                        decoder.skip();
                        model.skip();
                        at += 1;
                    }
                }
                prop_assert_eq!((decoder.first, decoder.last, decoder.passed), (model.first, model.last, model.passed));
            }
        }
    }
}
