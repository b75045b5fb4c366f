//! Layouts of text traces: columns with their units, as a table of published ones and as a user
//! writes them.

use crate::format::Format;
use crate::number::{Fields, words};
use std::fmt;
use std::str::FromStr;

/// The most columns of a layout.
pub(crate) const MOST: usize = 16;

/// Names and nanoseconds of the units of time.
const TIMES: [(&str, u32); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];

/// Names and bytes of the units of places.
const PLACES: [(&str, u32); 3] = [("byte", 1), ("sector", 512), ("page", 4096)];

/// The meaning of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// It is not read.
    Skip,
    /// The time of a request, in units of so many nanoseconds.
    Time(u32),
    /// The time that a request took, in units of so many nanoseconds.
    Latency(u32),
    /// The volume, or a part of its name: places of different volumes are different.
    Volume,
    /// Read or write.
    Op(Ops),
    /// The first byte, in units of so many bytes.
    Offset(u32),
    /// The size, in units of so many bytes. Several sizes add up.
    Size(u32),
    /// The number or name of an object.
    Object,
}

/// The words for operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ops {
    /// Any of the others, and 0 and 1.
    Any,
    /// 0 reads, 1 writes.
    Bit,
    /// R or W, or the words.
    Letter,
    /// The words of key-value stores.
    Key,
}

/// Columns of a text trace, in their order, with units: `time:us,volume,op,offset:sector,size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    columns: [Column; MOST],
    number: usize,
    /// Lines may have further fields.
    pub(crate) more: bool,
}

/// A published layout in one of its forms.
pub(crate) struct Shape {
    pub format: Format,
    columns: &'static [Column],
    /// The names of a header line, in lower case; empty: files have none.
    header: &'static str,
    /// The byte between fields; a blank stands for any blanks.
    separator: u8,
    /// Lines may have further fields.
    more: bool,
    /// Words in the lines leave no doubt.
    evident: bool,
}

/// Returns a shape without a header line whose fields are separated by commas.
const fn plain(format: Format, columns: &'static [Column]) -> Shape {
    Shape {
        format,
        columns,
        header: "",
        separator: b',',
        more: false,
        evident: false,
    }
}

const S: Column = Column::Time(1_000_000_000);
const US: Column = Column::Time(1000);
const BYTES: Column = Column::Size(1);
const KEY_OP: Column = Column::Op(Ops::Key);
const LETTER: Column = Column::Op(Ops::Letter);

/// The published layouts: one row for each form. Their sources are in `docs/programs.md`.
pub(crate) const SHAPES: [Shape; 14] = {
    use Column::{Latency, Object, Offset, Op, Size, Skip, Volume};
    [
        plain(
            Format::TencentCbs,
            &[S, Offset(512), Size(512), Op(Ops::Bit), Volume],
        ),
        plain(
            Format::AlibabaBlock,
            &[Volume, LETTER, Offset(1), BYTES, US],
        ),
        Shape {
            more: true,
            ..plain(Format::Spc, &[Volume, Offset(512), BYTES, LETTER, S])
        },
        Shape {
            header: "timestamp,response,iotype,lun,offset,size",
            ..plain(
                Format::Systor17,
                &[S, Latency(1_000_000_000), LETTER, Volume, Offset(1), BYTES],
            )
        },
        Shape {
            evident: true,
            ..plain(
                Format::Twitter,
                &[S, Object, BYTES, BYTES, Skip, KEY_OP, Skip],
            )
        },
        Shape {
            header: "key,op,size,op_count,key_size",
            evident: true,
            ..plain(Format::KvCache2022, &[Object, KEY_OP, BYTES, Skip, BYTES])
        },
        Shape {
            header: "key,op,size,op_count,key_size,ttl",
            evident: true,
            ..plain(
                Format::KvCache2022,
                &[Object, KEY_OP, BYTES, Skip, BYTES, Skip],
            )
        },
        Shape {
            header: "op_time,key,key_size,op,op_count,size,cache_hits,ttl",
            evident: true,
            ..plain(
                Format::KvCache2024,
                &[S, Object, BYTES, KEY_OP, Skip, BYTES, Skip, Skip],
            )
        },
        Shape {
            header: "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase",
            evident: true,
            ..plain(
                Format::KvCache2024,
                &[
                    S, Object, BYTES, KEY_OP, Skip, BYTES, Skip, Skip, Skip, Skip,
                ],
            )
        },
        Shape {
            header: "timestamp,cachekey,optype,objectsize",
            more: true,
            ..plain(
                Format::MetaCdn,
                &[S, Object, Skip, BYTES, Skip, Skip, Skip, Skip],
            )
        },
        Shape {
            header: "relative_unix,hashed_path_query,image_type,response_size,time_firstbyte",
            separator: b'\t',
            ..plain(Format::WikiCdn, &[S, Object, Skip, BYTES, LATENCY])
        },
        Shape {
            header: "relative_unix,hashed_host_path_query,response_size,time_firstbyte",
            separator: b'\t',
            ..plain(Format::WikiCdn, &[S, Object, BYTES, LATENCY])
        },
        Shape {
            separator: b' ',
            ..plain(Format::Arc, &[Offset(512), Size(512), Skip, Skip])
        },
        Shape {
            separator: b' ',
            evident: true,
            ..plain(Format::Ids, &[Object])
        },
    ]
};

const LATENCY: Column = Column::Latency(1_000_000_000);

impl Shape {
    /// Returns the shape's columns.
    pub fn layout(&self) -> Layout {
        let mut columns = [Column::Skip; MOST];
        columns[..self.columns.len()].copy_from_slice(self.columns);
        Layout {
            columns,
            number: self.columns.len(),
            more: self.more,
        }
    }

    /// Returns true if a line is the shape's header line: its first names are, and there are no
    /// further ones, unless lines may have further fields.
    pub fn is_header(&self, line: &[u8]) -> bool {
        let mut fields = split(line, separator(line));
        !self.header.is_empty()
            && self.header.split(',').all(|name| {
                fields.next().is_some_and(|field| {
                    let field = field.strip_prefix(b"#").unwrap_or(field).trim_ascii();
                    field.eq_ignore_ascii_case(name.as_bytes())
                })
            })
            && (self.more || fields.next().is_none())
    }

    /// Returns true if words in the lines of this shape leave no doubt about its meaning.
    pub fn evident(&self) -> bool {
        self.evident
    }

    /// Returns true if the fields of a line are separated as the shape's.
    pub fn separated(&self, line: &[u8]) -> bool {
        separator(line) == self.separator
    }
}

/// Returns the layout of a text format for a file with this first line: of the format's shapes the
/// one with this header, else the one with as many fields, else the first. `None`: the format is no
/// layout.
pub(crate) fn of(format: Format, first: &[u8]) -> Option<Layout> {
    let mut shapes = SHAPES.iter().filter(|s| s.format == format);
    let fields = split(first, separator(first)).count();
    shapes
        .clone()
        .find(|s| s.is_header(first))
        .or_else(|| shapes.clone().find(|s| s.columns.len() == fields))
        .or_else(|| shapes.next())
        .map(Shape::layout)
}

/// Returns the byte between the fields of a line: the first of comma, semicolon, bar and tab that
/// occurs; a blank if none does.
pub(crate) fn separator(line: &[u8]) -> u8 {
    *b",;|\t".iter().find(|s| line.contains(s)).unwrap_or(&b' ')
}

/// Returns the fields of a line. A blank as the separator stands for any number of blanks.
pub(crate) fn split(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let blanks = separator == b' ';
    let fields = (!blanks).then(|| Fields::new(line, separator));
    let words = blanks.then(|| words(line));
    fields
        .into_iter()
        .flatten()
        .chain(words.into_iter().flatten())
}

impl Layout {
    /// Returns the columns.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns[..self.number]
    }

    /// Returns true if requests are for objects, false if for places of volumes.
    pub(crate) fn has_objects(&self) -> bool {
        self.columns().contains(&Column::Object)
    }

    /// Returns true if the layout has volumes.
    pub(crate) fn has_volumes(&self) -> bool {
        self.columns().contains(&Column::Volume)
    }

    /// Returns the size in bytes of a request without one: a unit of the offset, or a page for an
    /// object. `None`: a column has the size.
    pub(crate) fn fixed_size(&self) -> Option<u32> {
        let size = |c: &Column| matches!(c, Column::Size(_));
        let unit = self.columns().iter().find_map(|c| match c {
            Column::Offset(unit) => Some(*unit),
            _ => None,
        });
        (!self.columns().iter().any(size)).then_some(unit.unwrap_or(4096))
    }

    /// Checks that columns make a request: one place or object, no other column twice.
    ///
    /// # Errors
    /// They do not; the reason.
    fn check(&self) -> Result<(), String> {
        let count = |test: fn(&Column) -> bool| self.columns().iter().filter(|c| test(c)).count();
        let places = count(|c| matches!(c, Column::Offset(_) | Column::Object));
        if places != 1 {
            return Err(format!("{places} columns of `offset` or `object`, not one"));
        }
        for (name, number) in [
            ("time", count(|c| matches!(c, Column::Time(_)))),
            ("latency", count(|c| matches!(c, Column::Latency(_)))),
            ("op", count(|c| matches!(c, Column::Op(_)))),
        ] {
            if number > 1 {
                return Err(format!("`{name}` is there twice"));
            }
        }
        if self.fixed_size() == Some(1) {
            return Err("`offset` in bytes needs a column `size`".to_owned());
        }
        Ok(())
    }
}

impl FromStr for Layout {
    type Err = String;

    /// Parses columns as a user writes them: names at commas, each with a unit behind a colon where
    /// it may have one; `-` skips a column.
    ///
    /// # Errors
    /// A name or unit is unknown, or the columns make no request; the message says the accepted.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut layout = Self {
            columns: [Column::Skip; MOST],
            number: 0,
            more: false,
        };
        let accepted = "accepted: time[:s|ms|us|ns], latency[:…], volume, op, \
            offset[:byte|sector|page], size[:…], object, and - for a column that is not read, \
            such as time:us,volume,op,offset:sector,size";
        let wrong = |what: String| format!("{what}; {accepted}");
        for name in text.split(',') {
            let (kind, unit) = match name.trim().split_once(':') {
                Some((kind, unit)) => (kind, Some(unit)),
                None => (name.trim(), None),
            };
            let of = |units: &[(&str, u32)], default: u32| match unit {
                None => Ok(default),
                Some(unit) => match units.iter().find(|(n, _)| *n == unit) {
                    Some((_, n)) => Ok(*n),
                    None => Err(wrong(format!("`{unit}` is no unit of `{kind}`"))),
                },
            };
            let column = match kind {
                "-" | "skip" => Column::Skip,
                "time" => Column::Time(of(&TIMES, TIMES[0].1)?),
                "latency" => Column::Latency(of(&TIMES, TIMES[0].1)?),
                "volume" => Column::Volume,
                "op" => Column::Op(Ops::Any),
                "offset" => Column::Offset(of(&PLACES, 1)?),
                "size" => Column::Size(of(&PLACES, 1)?),
                "object" => Column::Object,
                _ => return Err(wrong(format!("`{name}` is no column"))),
            };
            let plain = matches!(
                column,
                Column::Skip | Column::Volume | Column::Op(_) | Column::Object
            );
            if let (true, Some(unit)) = (plain, unit) {
                return Err(wrong(format!("`{kind}` has no unit, but `{unit}` is one")));
            }
            if layout.number == MOST {
                return Err(wrong(format!("more than {MOST} columns")));
            }
            layout.columns[layout.number] = column;
            layout.number += 1;
        }
        layout.check().map_err(wrong)?;
        Ok(layout)
    }
}

impl fmt::Display for Layout {
    /// Writes the columns as [`Self::from_str`] parses them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |units: &[(&'static str, u32)], n: u32| {
            units.iter().find(|u| u.1 == n).map_or("", |u| u.0)
        };
        for (i, column) in self.columns().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match column {
                Column::Skip => f.write_str("-")?,
                Column::Time(n) => write!(f, "time:{}", name(&TIMES, *n))?,
                Column::Latency(n) => write!(f, "latency:{}", name(&TIMES, *n))?,
                Column::Volume => f.write_str("volume")?,
                Column::Op(_) => f.write_str("op")?,
                Column::Offset(n) => write!(f, "offset:{}", name(&PLACES, *n))?,
                Column::Size(n) => write!(f, "size:{}", name(&PLACES, *n))?,
                Column::Object => f.write_str("object")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_as_they_are_written() {
        for text in [
            "time:us,volume,op,offset:sector,size:byte",
            "-,object,size:page,size:byte,latency:ms",
            "offset:page",
        ] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        for shape in &SHAPES {
            let text = shape.layout().to_string();
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        let short = "time,op,offset,size".parse::<Layout>().unwrap();
        assert_eq!(short.to_string(), "time:s,op,offset:byte,size:byte");
    }

    #[test]
    fn wrong_columns_are_refused() {
        for (text, said) in [
            ("", "no column"),
            ("time:min,offset,size", "`min` is no unit of `time`"),
            ("op:r,offset,size", "`op` has no unit"),
            ("time,op", "0 columns of `offset` or `object`"),
            ("object,offset,size", "2 columns"),
            ("time,time,object", "`time` is there twice"),
            ("time,offset", "needs a column `size`"),
            ("-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,object", "more than 16"),
        ] {
            let e = text.parse::<Layout>().unwrap_err();
            assert!(e.contains(said) && e.contains("accepted:"), "{text}: {e}");
        }
    }
}
