//! The layout of trace events, read from the kernel's own `format` files.

use super::{Result, TraceError};
use std::collections::BTreeMap;
use tracepoint_decode::{PerfEventFormat, PerfFieldFormat};

/// The place of a number in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Field {
    /// Takes the offset, size (bytes) and signedness of a field from a parsed `format` line.
    fn of(from: &PerfFieldFormat) -> Self {
        Self {
            offset: from.offset().into(),
            size: from.size().into(),
            signed: from.signed() == Some(true),
        }
    }

    /// Reads the number at this field's place in an event, without regard to a sign; `None`: the
    /// event is too short, or the field is no number.
    pub fn unsigned(self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.offset..)?.get(..self.size)?;
        Some(match *bytes {
            [a] => a.into(),
            [a, b] => u16::from_le_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            [..] => u64::from_le_bytes(bytes.try_into().ok()?),
        })
    }

    /// Reads the number from an event with its sign; unsigned numbers above `i64::MAX` become
    /// `i64::MAX`.
    pub fn signed(self, event: &[u8]) -> Option<i64> {
        let n = self.unsigned(event)?;
        // Bits above the number.
        let unused = 64 - 8 * self.size as u32;
        Some(if self.signed {
            ((n << unused) as i64) >> unused
        } else {
            i64::try_from(n).unwrap_or(i64::MAX)
        })
    }
}

/// The header of a page of the ring.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Time of the page's first event, in nanoseconds.
    pub timestamp: Field,
    /// Bytes of events in the page.
    pub commit: Field,
    /// Offset of the first event.
    pub data: usize,
    /// Bytes of a page.
    pub size: usize,
}

impl Header {
    /// Reads the layout of a ring page's header from the kernel's file `header_page`. Fails if a
    /// field is missing.
    fn of(text: &str) -> Result<Self> {
        let fields: Vec<_> = text
            .lines()
            .filter_map(|line| PerfFieldFormat::parse(true, line))
            .collect();
        let field = |name: &str| {
            let is = |f: &&PerfFieldFormat| f.name() == name;
            let found = fields.iter().find(is).map(Field::of);
            found.ok_or_else(|| TraceError::NoField("header_page".to_owned(), name.to_owned()))
        };
        let data = field("data")?;
        Ok(Self {
            timestamp: field("timestamp")?,
            commit: field("commit")?,
            data: data.offset,
            size: data.offset + data.size,
        })
    }
}

/// The kind of an event, with the fields that are read from it.
#[derive(Debug, Clone, Copy)]
pub enum Says {
    /// kswapd goes to sleep.
    KswapdSleep,
    /// kswapd begins a round.
    KswapdWake,
    /// A task asks for kswapd.
    WakeupKswapd,
    /// A task enters direct reclaim (`mm_vmscan_direct_reclaim_begin`).
    Begin,
    /// A task leaves direct reclaim.
    End,
    /// Reclaim isolated pages from an LRU list.
    Isolate {
        /// The number of pages scanned.
        scanned: Field,
        /// The number of the list.
        lru: Field,
        /// Bit mask of the numbers of active lists.
        active: u64,
    },
    /// Reclaim wrote a page.
    Write {
        /// The flags of the write.
        flags: Field,
        /// The flag of file pages.
        file: u64,
        /// The flag of synchronous writes.
        sync: u64,
    },
    /// A dirtier was checked against the dirty limits.
    Dirty {
        /// The sleep that follows, in milliseconds.
        pause: Field,
    },
    /// A task was throttled in reclaim.
    Throttled {
        /// The time slept, in microseconds.
        delayed: Field,
    },
}

/// A tracepoint whose events are evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The kind of its events.
    pub says: Says,
    /// The task's pid.
    pub pid: Field,
}

/// The formats of one kernel.
#[derive(Debug)]
pub struct Formats {
    /// The layout of a page's header.
    pub header: Header,
    /// The place of the tracepoint's number, the same in every event.
    kind: Option<Field>,
    points: BTreeMap<u64, Point>,
    names: Vec<String>,
}

impl Formats {
    /// Reads `format` files, each with the name of its tracepoint; tracepoints that are not
    /// evaluated are skipped.
    ///
    /// # Errors
    /// A file can't be read, or lacks a field that is evaluated.
    pub fn read<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut header = None;
        let mut formats = BTreeMap::new();
        let mut names = Vec::new();
        let mut kind = None;
        for (name, text) in texts {
            if name == "header_page" {
                header = Some(Header::of(text)?);
                continue;
            }
            let system = name.split_once('/').map_or("", |(system, _)| system);
            let format = PerfEventFormat::parse(true, system, text);
            let format = format.ok_or_else(|| TraceError::Format(name.to_owned()))?;
            let format = Format { name, format };
            if let Some(says) = format.says()? {
                let pid = format.field("common_pid")?;
                kind = Some(format.field("common_type")?);
                formats.insert(format.format.id().into(), Point { says, pid });
                names.push(name.to_owned());
            }
        }
        Ok(Self {
            header: header.ok_or_else(|| TraceError::Format("header_page".to_owned()))?,
            kind,
            points: formats,
            names,
        })
    }

    /// Returns true if the kernel has the tracepoint (`vmscan/mm_vmscan_lru_isolate`) and its
    /// events are evaluated.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }

    /// Returns the tracepoint of an event; `None`: it is not evaluated.
    pub fn point(&self, event: &[u8]) -> Option<&Point> {
        self.points.get(&self.kind?.unsigned(event)?)
    }
}

struct Format<'a> {
    name: &'a str,
    format: PerfEventFormat,
}

impl Format<'_> {
    /// Returns the place of a field of this tracepoint's events; fails if the format has none of
    /// this name.
    fn field(&self, name: &str) -> Result<Field> {
        let found = self.format.fields().iter().find(|f| f.name() == name);
        let found = found.map(Field::of);
        found.ok_or_else(|| TraceError::NoField(self.name.to_owned(), name.to_owned()))
    }

    /// Returns numbers and names of a field's values, from the table with which the kernel prints
    /// them: `{0x2u, "NAME"}` or `{ 2, "NAME" }`.
    fn values(&self) -> impl Iterator<Item = (u64, &str)> {
        let parts = self.format.print_fmt().split('{').skip(1);
        parts.filter_map(|part| {
            let (number, rest) = part.split_once(',')?;
            let number = number.trim().trim_end_matches(['u', 'U', 'l', 'L']);
            let number = match number.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            let name = rest.split('"').nth(1)?;
            Some((number, name))
        })
    }

    /// Returns the number of a field's value that the kernel prints as `name`, from the table in
    /// the format; fails if the table has no such name.
    fn value(&self, name: &str) -> Result<u64> {
        let found = self.values().find(|(_, n)| *n == name);
        let missing = || TraceError::NoField(self.name.to_owned(), name.to_owned());
        found.map(|(number, _)| number).ok_or_else(missing)
    }

    /// Returns the kind of this tracepoint's events with the places of the fields that are
    /// evaluated; `None`: the tracepoint is not evaluated. Fails if a needed field is missing.
    fn says(&self) -> Result<Option<Says>> {
        Ok(Some(match self.format.name() {
            "mm_vmscan_kswapd_sleep" => Says::KswapdSleep,
            "mm_vmscan_kswapd_wake" => Says::KswapdWake,
            "mm_vmscan_wakeup_kswapd" => Says::WakeupKswapd,
            "mm_vmscan_direct_reclaim_begin" => Says::Begin,
            "mm_vmscan_direct_reclaim_end" => Says::End,
            "mm_vmscan_lru_isolate" => {
                self.value("active_file")?;
                let active = self.values().filter(|(_, name)| name.starts_with("active"));
                Says::Isolate {
                    scanned: self.field("nr_scanned")?,
                    lru: self.field("lru")?,
                    // A bit for each active list.
                    active: active.fold(0, |all, (n, _)| all | 1 << (n & 63)),
                }
            }
            "mm_vmscan_writepage" | "mm_vmscan_write_folio" => Says::Write {
                flags: self.field("reclaim_flags")?,
                file: self.value("RECLAIM_WB_FILE")?,
                sync: self.value("RECLAIM_WB_SYNC")?,
            },
            "balance_dirty_pages" => Says::Dirty {
                pause: self.field("pause")?,
            },
            "mm_vmscan_throttled" => Says::Throttled {
                delayed: self.field("usec_delayed")?,
            },
            _ => return Ok(None),
        }))
    }
}
