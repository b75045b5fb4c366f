//! libCacheSim's CSV: one object per line.
//!
//! A header line names the columns: time (`time`, `timestamp`, `ts`), object (`obj_id`,
//! `object_id`, `object`, `obj`, `id`, `key`, `lbn`, `lba`), size (`size`, `obj_size`,
//! `object_size`, `length`, `len`), operation (`op`, `operation`, `type`); `-` counts as `_`, other
//! columns are skipped. Without a header the columns are time, object, size. Fields are separated
//! by the first of comma, semicolon, bar and tab that occurs in the first line.
//!
//! Times are seconds, with or without a fraction. An object whose id is no number is identified by
//! the FNV-1a hash of its name. Without an operation every line is a read.

use crate::error::Fault;
use crate::number::{Fields, parse_seconds, parse_u64};
use crate::objects::{Objects, Unit};
use crate::record::{NO_LATENCY, Op, Record};
use crate::tables::Tables;

const LINE: &str = "time,object,size, or the columns that the file's first line names";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Columns {
    separator: u8,
    header: bool,
    time: Option<usize>,
    object: usize,
    size: Option<usize>,
    op: Option<usize>,
}

impl Columns {
    /// Returns the columns of a CSV of objects with this first line: those that a header names, or
    /// time, object and size if the line has no header and fits. `None`: the file is no CSV of
    /// objects.
    pub fn of(first: &[u8]) -> Option<Self> {
        let separator = *b",;|\t".iter().find(|s| first.contains(s))?;
        let fields: Vec<Vec<u8>> = Fields::new(first, separator)
            .map(|f| {
                let name = f.strip_prefix(b"#").unwrap_or(f).trim_ascii();
                name.to_ascii_lowercase()
                    .into_iter()
                    .map(|b| if b == b'-' || b == b' ' { b'_' } else { b })
                    .filter(|b| *b != b'"')
                    .collect()
            })
            .collect();
        // Returns the first of the names that is a column, as the column's index.
        let find = |names: &[&str]| {
            let is = |f: &Vec<u8>, n: &&str| f.as_slice() == n.as_bytes();
            names
                .iter()
                .find_map(|n| fields.iter().position(|f| is(f, n)))
        };
        let object = find(&[
            "obj_id",
            "object_id",
            "object",
            "obj",
            "id",
            "key",
            "lbn",
            "lba",
        ]);
        if let Some(object) = object {
            return Some(Self {
                separator,
                header: true,
                time: find(&["time", "timestamp", "ts"]),
                object,
                size: find(&["size", "obj_size", "object_size", "length", "len"]),
                op: find(&["op", "operation", "type"]),
            });
        }
        let plain = fields.len() >= 3
            && parse_seconds(&fields[0]).is_some()
            && parse_u64(&fields[2]).is_some();
        plain.then_some(Self {
            separator,
            header: false,
            time: Some(0),
            object: 1,
            size: Some(2),
            op: None,
        })
    }

    /// Returns true if a header names the columns, false if they are taken for time, object and
    /// size.
    pub fn named(&self) -> bool {
        self.header
    }

    /// Returns the object's number and its size in bytes of one line, from which the unit is
    /// guessed; `None` if a field is missing or the size is no number.
    pub fn peek(&self, line: &[u8]) -> Option<(u64, u64)> {
        let field = |at: usize| Fields::new(line, self.separator).nth(at);
        let id = number_of(field(self.object)?);
        let size = match self.size {
            Some(at) => parse_u64(field(at)?)?,
            None => 4096,
        };
        Some((id, size))
    }
}

/// Returns an object's number: the field itself if it is a number, else the FNV-1a hash of the
/// name.
pub(crate) fn number_of(field: &[u8]) -> u64 {
    parse_u64(field).unwrap_or_else(|| {
        // The highest bit marks a name, so that its number is never taken for a page or a sector.
        let hash = field.iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, &b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        hash | 1 << 63
    })
}

pub(crate) struct ObjectCsv {
    pub columns: Option<Columns>,
    pub objects: Objects,
    wanted: usize,
    begun: bool,
    first: Option<u64>,
}

impl ObjectCsv {
    /// Makes a reader of a CSV with these columns; `None`: the file's first line named no object,
    /// and each line is an error. `objects` places the objects in one file.
    pub fn new(columns: Option<Columns>, objects: Objects) -> Self {
        // The number of leading fields in which all columns of interest are.
        let wanted = columns.map_or(0, |c| {
            [c.time, Some(c.object), c.size, c.op]
                .into_iter()
                .flatten()
                .max()
                .map_or(0, |n| n + 1)
        });
        Self {
            columns,
            objects,
            wanted,
            begun: false,
            first: None,
        }
    }

    /// Makes a copy by which another thread parses lines; the copy knows the columns but has no
    /// table of objects' places, so records are made by the original.
    pub fn parser(&self) -> Self {
        Self {
            objects: Objects::new(self.objects.unit),
            ..*self
        }
    }

    /// Parses a line and adds its request, if its size is not 0, to `out`; the header adds none.
    ///
    /// # Errors
    /// As of [`parse`](Self::parse), or the object lies too far.
    pub fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        if self.is_header() {
            return Ok(());
        }
        let request = self.parse(line)?;
        self.record(request, tables, |record| out.push(record))
    }

    /// Returns true if the next line that is not blank is the header: at the first call, if the
    /// columns come from a header. Later calls return false.
    pub fn is_header(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.begun, true);
        first && self.columns.is_some_and(|c| c.header)
    }

    /// Parses a line into time, object, size and operation. Other lines do not matter for it, so
    /// lines can be parsed in other threads; `record` then converts them in order. Without a size
    /// the object has 4096 bytes, without an operation the line is a read.
    ///
    /// # Errors
    /// A field is missing or of the wrong form, or the object has a name where its number is a
    /// sector or page.
    pub fn parse(&self, line: &[u8]) -> Result<Request, Fault> {
        let Some(c) = self.columns else {
            return Err(Fault::about(
                "the first line has no column for the object:",
                line,
                LINE,
            ));
        };
        let (mut time, mut id, mut size, mut op) = (None, None, None, None);
        let mut found = 0;
        for (i, field) in Fields::new(line, c.separator).take(self.wanted).enumerate() {
            found += 1;
            if i == c.object {
                id = Some(field);
            } else if Some(i) == c.size {
                size = Some(field);
            } else if Some(i) == c.time {
                time = Some(field);
            } else if Some(i) == c.op {
                op = Some(field);
            }
        }
        let Some(id) = id.filter(|id| found == self.wanted && !id.is_empty()) else {
            return Err(Fault::about("fields are missing in", line, LINE));
        };
        let time = match time {
            Some(t) => {
                parse_seconds(t).ok_or_else(|| Fault::about("not a time in seconds:", t, LINE))?
            }
            None => 0,
        };
        let len = match size {
            Some(s) => parse_u64(s)
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| Fault::about("no size:", s, "0 to 4294967295 bytes"))?,
            None => 4096,
        };
        let op = match op {
            Some(o) => operation(o)?,
            None => Op::Read,
        };
        let object = number_of(id);
        let named = object >> 63 != 0 && parse_u64(id).is_none();
        if len > 0 && self.objects.unit != Unit::Object && named {
            return Err(Fault::about(
                "a name instead of a number:",
                id,
                "numbers, or unit = \"object\"",
            ));
        }
        Ok(Request {
            time,
            object,
            len,
            op,
        })
    }

    /// Converts a parsed line, in the order of lines, to a record, which `each` takes: its time
    /// counts from the first record, and the object gets its place in the file. A line gives
    /// several records if its object has grown ([`Objects::parts`]), and none if its size is 0: the
    /// request is only counted.
    ///
    /// # Errors
    /// The object lies too far.
    #[inline]
    pub fn record(
        &mut self,
        r: Request,
        tables: &mut Tables,
        mut each: impl FnMut(Record),
    ) -> Result<(), Fault> {
        if r.len == 0 {
            tables.ignore("requests of size 0");
            return Ok(());
        }
        let first = *self.first.get_or_insert(r.time);
        let place = self.objects.place(r.object, r.len)?;
        for (offset, len) in self.objects.parts(place, r.len) {
            each(Record {
                time_ns: r.time.saturating_sub(first),
                offset,
                latency_ns: NO_LATENCY,
                len,
                file: 0,
                process: 0,
                op: r.op,
            });
        }
        Ok(())
    }
}

/// A parsed line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// The request's time in nanoseconds.
    time: u64,
    object: u64,
    len: u32,
    op: Op,
}

/// Returns the operation that a field names, in any case: a word of key-value stores, or a SCSI
/// command, by its decimal or hexadecimal number. A delete names its object like a write.
///
/// # Errors
/// The word is none of them.
pub(crate) fn operation(text: &[u8]) -> Result<Op, Fault> {
    match text {
        b"r" | b"read" => return Ok(Op::Read),
        b"w" | b"write" => return Ok(Op::Write),
        _ => {}
    }
    let is = |names: &[&str]| {
        names
            .iter()
            .any(|n| text.eq_ignore_ascii_case(n.as_bytes()))
    };
    // The numbers are the SCSI commands READ(6), (10), (12), (16) and their writes, as in vSCSI
    // traces, decimal and hexadecimal: no command that is not one of them has the same digits, but
    // 40 and 42, which as hexadecimal numbers are no data.
    if is(&[
        "r",
        "read",
        "rs",
        "get",
        "gets",
        "get_lease",
        "8",
        "40",
        "168",
        "136",
        "08",
        "28",
        "a8",
        "88",
    ]) {
        Ok(Op::Read)
    } else if is(&[
        "w",
        "write",
        "ws",
        "set",
        "put",
        "add",
        "replace",
        "cas",
        "append",
        "prepend",
        "incr",
        "decr",
        "delete",
        "set_lease",
        "10",
        "42",
        "170",
        "138",
        "0a",
        "a",
        "2a",
        "aa",
        "8a",
    ]) {
        Ok(Op::Write)
    } else {
        Err(Fault::about(
            "unknown operation",
            text,
            "read, r, get, write, w, set, put, or a SCSI command's number",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_or_in_their_usual_places() {
        let c = Columns::of(b"version,time,op,size,LBN").unwrap();
        assert_eq!(
            (c.time, c.object, c.size, c.op),
            (Some(1), 4, Some(3), Some(2))
        );
        let c = Columns::of(b"# Timestamp; Obj-ID").unwrap();
        assert_eq!((c.separator, c.object, c.size), (b';', 1, None));
        let c = Columns::of(b"5633898,42932745,512,-1").unwrap();
        assert!(!c.header && c.object == 1);
        assert_eq!(c.peek(b"1,7,512,-1"), Some((7, 512)));
        assert_eq!(Columns::of(b"hello, world"), None);
        assert_eq!(Columns::of(b"hello"), None);
    }
}
