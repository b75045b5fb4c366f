//! Text traces of one request a line, whose columns a [`Layout`] names.
//!
//! Fields are separated by the first of comma, semicolon, bar and tab that occurs in the first
//! line, else by blanks. A first line with a word where a number should be is a header, and lines
//! with `#` before the first request are comments.

use crate::error::Fault;
use crate::layout::{Column, Layout, Ops, separator, split};
use crate::number::{parse_seconds, parse_u64};
use crate::object_csv::{number_of, operation};
use crate::objects::{Objects, Unit};
use crate::record::{MAX_FILE, NO_LATENCY, Op, Record};
use crate::tables::Tables;

const LINE: &str = "as many fields as the layout has columns (`trace info` shows them)";

pub(crate) struct Columns {
    pub layout: Layout,
    pub objects: Objects,
    separator: u8,
    begun: bool,
    first: Option<u64>,
    name: Vec<u8>,
}

/// A parsed line.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    time: u64,
    latency: u64,
    op: Option<Op>,
    /// The first byte; 0 for an object.
    offset: u64,
    size: u64,
    object: &'a [u8],
}

impl Columns {
    /// Makes a reader of lines with these columns; `first` is the file's first line. `objects`
    /// places the objects, if there are any.
    pub fn new(layout: Layout, first: &[u8], objects: Objects) -> Self {
        Self {
            layout,
            objects,
            separator: separator(first),
            begun: false,
            first: None,
            name: Vec::new(),
        }
    }

    /// Returns true if a line has the form of the layout.
    pub fn fits(layout: Layout, line: &[u8]) -> bool {
        let mut columns = Self::new(layout, line, Objects::new(Unit::Object));
        columns.parse(line).is_ok()
    }

    /// Parses a line and adds its request to `out`; a header adds none.
    ///
    /// # Errors
    /// A field is missing or of the wrong form, or the request lies too far.
    pub fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        if !self.begun {
            if line.trim_ascii_start().starts_with(b"#") {
                return Ok(());
            }
            self.begun = true;
            if self.is_header(line) {
                return Ok(());
            }
        }
        let r = self.parse(line)?;
        let Some(op) = r.op else {
            tables.ignore("requests without a type");
            return Ok(());
        };
        if r.size == 0 {
            tables.ignore("requests of size 0");
            return Ok(());
        }
        let len = u32::try_from(r.size)
            .ok()
            .filter(|len| r.offset <= MAX_FILE - u64::from(*len))
            .ok_or_else(|| {
                let accepted = "requests below 4 GiB that end within 16 TiB";
                Fault::about("a request too long or past 16 TiB in", line, accepted)
            })?;
        let first = *self.first.get_or_insert(r.time);
        let mut record = Record {
            time_ns: r.time.saturating_sub(first),
            offset: r.offset,
            latency_ns: r.latency,
            len,
            file: 0,
            process: 0,
            op,
        };
        if !self.layout.has_objects() {
            let volume = if self.name.is_empty() {
                b"device"
            } else {
                &self.name[..]
            };
            record.file = tables.file(volume);
            record.process = tables.process(volume);
            out.push(record);
            return Ok(());
        }
        let names = self.objects.unit == Unit::Object;
        let volumes = self.layout.has_volumes();
        let id = if names && volumes {
            // Objects of different volumes are different.
            self.name.push(0);
            self.name.extend_from_slice(r.object);
            number_of(&self.name)
        } else {
            number_of(r.object)
        };
        if !names && parse_u64(r.object).is_none() {
            let accepted = "numbers, or unit = \"object\"";
            return Err(Fault::about(
                "a name instead of a number:",
                r.object,
                accepted,
            ));
        }
        let place = self.objects.place(id, len)?;
        let (file, process) = match volumes && !names {
            true => (tables.file(&self.name), tables.process(&self.name)),
            false => (tables.file(b"objects"), tables.process(b"client")),
        };
        for (offset, len) in self.objects.parts(place, len) {
            out.push(Record {
                offset,
                len,
                file,
                process,
                ..record
            });
        }
        Ok(())
    }

    /// Returns true if a line is a header: a field begins with a letter or a quotation mark, where
    /// a number should be.
    fn is_header(&self, line: &[u8]) -> bool {
        let mut fields = split(line, self.separator).zip(self.layout.columns());
        fields.any(|(field, column)| {
            let number = matches!(
                column,
                Column::Time(_) | Column::Latency(_) | Column::Offset(_) | Column::Size(_)
            );
            number
                && field
                    .first()
                    .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'"')
        })
    }

    /// Parses a line; its volume is then in `name`.
    ///
    /// # Errors
    /// A field is missing or of the wrong form.
    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Request<'a>, Fault> {
        let mut r = Request {
            time: 0,
            latency: NO_LATENCY,
            op: Some(Op::Read),
            offset: 0,
            size: u64::from(self.layout.fixed_size().unwrap_or(0)),
            object: b"",
        };
        self.name.clear();
        let mut fields = split(line, self.separator);
        for column in self.layout.columns() {
            let Some(field) = fields.next() else {
                return Err(Fault::about("fields are missing in", line, LINE));
            };
            let number = |unit: u32| {
                parse_u64(field)
                    .and_then(|n| n.checked_mul(u64::from(unit)))
                    .ok_or_else(|| Fault::about("no number:", field, "whole numbers"))
            };
            match column {
                Column::Skip => {}
                Column::Time(unit) => r.time = time(field, *unit)?,
                Column::Latency(unit) => r.latency = time(field, *unit)?.min(NO_LATENCY - 1),
                Column::Volume if field.is_empty() => {
                    return Err(Fault::about("no volume in", line, LINE));
                }
                Column::Volume => {
                    if !self.name.is_empty() {
                        self.name.push(b'.');
                    }
                    self.name.extend_from_slice(field);
                }
                Column::Op(ops) => r.op = op(field, *ops)?,
                Column::Offset(unit) => r.offset = number(*unit)?,
                Column::Size(unit) => r.size = r.size.saturating_add(number(*unit)?),
                Column::Object if field.is_empty() => {
                    return Err(Fault::about("no object in", line, LINE));
                }
                Column::Object => r.object = field,
            }
        }
        if !self.layout.more && fields.next().is_some() {
            return Err(Fault::about("more fields than columns in", line, LINE));
        }
        Ok(r)
    }
}

/// Parses a time in units of so many nanoseconds, with or without a fraction, and returns
/// nanoseconds. Fractions of units below a second are dropped.
///
/// # Errors
/// The text is no such time.
fn time(text: &[u8], unit: u32) -> Result<u64, Fault> {
    let ns = if unit == 1_000_000_000 {
        parse_seconds(text)
    } else {
        // The fraction must be digits all the same.
        parse_seconds(text)
            .map(|ns| ns / 1_000_000_000)
            .or_else(|| parse_u64(text))
            .and_then(|n| n.checked_mul(u64::from(unit)))
    };
    ns.ok_or_else(|| Fault::about("not a time:", text, "numbers, with or without a fraction"))
}

/// Returns the operation that a word names; `None` where there is none (a blank type of SYSTOR's
/// traces).
///
/// # Errors
/// The word is not one of `ops`.
fn op(text: &[u8], ops: Ops) -> Result<Option<Op>, Fault> {
    let letter = text.first().is_some_and(u8::is_ascii_alphabetic);
    match (ops, text) {
        (Ops::Any | Ops::Bit, b"0") => Ok(Some(Op::Read)),
        (Ops::Any | Ops::Bit, b"1") => Ok(Some(Op::Write)),
        (Ops::Letter, b"") => Ok(None),
        (Ops::Letter, _) if letter && text.len() > 1 && !is_word(text) => {
            Err(Fault::about("unknown operation", text, "R, W, read, write"))
        }
        (Ops::Letter, _) if letter => operation(text).map(Some),
        (Ops::Key, _) if letter && text.len() > 2 => operation(text).map(Some),
        (Ops::Any, _) => operation(text).map(Some),
        (Ops::Bit, _) => Err(Fault::about(
            "unknown operation",
            text,
            "0 (read), 1 (write)",
        )),
        (Ops::Letter, _) => Err(Fault::about("unknown operation", text, "R, W, read, write")),
        (Ops::Key, _) => Err(Fault::about(
            "unknown operation",
            text,
            "get, gets, set, add, replace, cas, append, prepend, delete, incr, decr",
        )),
    }
}

/// Returns true for the words of the letters R and W.
fn is_word(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"read") || text.eq_ignore_ascii_case(b"write")
}
