//! fio's iologs, versions 2 and 3 (fio(1), "TRACE FILE FORMAT").
//!
//! Version 2 has `file action [offset length]` and waits; version 3 puts microseconds since the
//! start before each line. A wait of version 2 is in microseconds and relative to the wait before
//! it, as the manual says; waits below 100 µs are dropped, as by fio. A log is one process.

use crate::error::Fault;
use crate::number::{parse_u64, words};
use crate::record::{MAX_FILE, NO_LATENCY, Op, Record};
use crate::tables::Tables;
use std::collections::HashSet;

const LINE2: &str = "FILE add|open|close, or FILE read|write|sync|datasync|trim|wait OFFSET LENGTH";
const LINE3: &str = "MICROSECONDS FILE add|open|close, or MICROSECONDS FILE read|write|sync|datasync|trim OFFSET LENGTH";

pub(crate) struct FioIolog {
    version: u8,
    /// Set while the line with the version is still to come.
    headed: bool,
    now_ns: u64,
    added: HashSet<u32>,
}

/// Returns the version (2 or 3) that the first line of a fio iolog states; `None` if the line is
/// not that of an iolog.
pub(crate) fn version(first: &[u8]) -> Option<u8> {
    match first.trim_ascii() {
        b"fio version 2 iolog" => Some(2),
        b"fio version 3 iolog" => Some(3),
        _ => None,
    }
}

impl FioIolog {
    /// Makes a reader of an iolog, whose first line, with the version, is still to come.
    pub fn new() -> Self {
        Self {
            version: 0,
            headed: false,
            now_ns: 0,
            added: HashSet::new(),
        }
    }

    /// Parses a line of an iolog and adds its request, if it is one, to `out`. The first line
    /// states the version. `add` makes a file known, `wait` moves the clock of version 2, trims are
    /// counted in `tables` and ignored.
    ///
    /// # Errors
    /// The line has the wrong words, its file was not added, or the request is too long.
    pub fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        if !self.headed {
            self.version = version(line).ok_or_else(|| {
                Fault::about(
                    "unknown first line",
                    line,
                    "fio version 2 iolog, fio version 3 iolog",
                )
            })?;
            self.headed = true;
            return Ok(());
        }
        let accepted = if self.version == 2 { LINE2 } else { LINE3 };
        let mut rest = words(line);
        let missing = || Fault::about("too few words in", line, accepted);
        if self.version == 3 {
            let time = rest.next().ok_or_else(missing)?;
            self.now_ns = parse_u64(time)
                .and_then(|us| us.checked_mul(1000))
                .ok_or_else(|| Fault::about("not a time in microseconds:", time, accepted))?;
        }
        let name = rest.next().ok_or_else(missing)?;
        let action = rest.next().ok_or_else(missing)?;
        let range = match (rest.next(), rest.next(), rest.next()) {
            (None, _, _) => None,
            (Some(offset), Some(len), None) => {
                let number = |text| {
                    parse_u64(text).ok_or_else(|| Fault::about("no number:", text, accepted))
                };
                Some((number(offset)?, number(len)?))
            }
            _ => return Err(Fault::about("wrong number of words in", line, accepted)),
        };
        let (op, (offset, len)) = match (action, range) {
            (b"add", None) => {
                let file = tables.file(name);
                self.added.insert(file);
                return Ok(());
            }
            (b"open", None) => (Op::Create, (0, 0)),
            (b"close", None) => (Op::Close, (0, 0)),
            (b"read", Some(r)) => (Op::Read, r),
            (b"write", Some(r)) => (Op::Write, r),
            (b"sync", Some(_)) => (Op::Sync, (0, 0)),
            (b"datasync", Some(_)) => (Op::DataSync, (0, 0)),
            (b"trim", Some(_)) => {
                tables.ignore("trim");
                return Ok(());
            }
            (b"sync_file_range", Some(_)) => {
                tables.ignore("sync_file_range");
                return Ok(());
            }
            (b"wait", Some((us, _))) if self.version == 2 => {
                // fio drops shorter waits too.
                if us >= 100 {
                    self.now_ns = self.now_ns.saturating_add(us.saturating_mul(1000));
                }
                return Ok(());
            }
            _ => return Err(Fault::about("unknown action in", line, accepted)),
        };
        let file = tables.file(name);
        if !self.added.contains(&file) {
            return Err(Fault::about(
                "a file that was not added:",
                name,
                "a line `add` of that file before its first use",
            ));
        }
        let len = u32::try_from(len)
            .ok()
            .filter(|len| offset <= MAX_FILE - u64::from(*len))
            .ok_or_else(|| {
                Fault::about(
                    "a request too long or past 16 TiB in",
                    line,
                    "requests below 4 GiB that end within 16 TiB",
                )
            })?;
        out.push(Record {
            time_ns: self.now_ns,
            offset,
            latency_ns: NO_LATENCY,
            len,
            file,
            process: tables.process(b"fio"),
            op,
        });
        Ok(())
    }
}
