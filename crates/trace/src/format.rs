//! The formats of traces, and how they are recognised.

use crate::object_csv::Columns;
use crate::{blkparse, fio_iolog, oracle_general, strace};
use std::path::Path;

/// The trace formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// libCacheSim's binary format of 24 bytes a record.
    OracleGeneral,
    /// libCacheSim's CSV.
    Csv,
    /// The MSR Cambridge CSV.
    Msr,
    /// fio's iolog, version 2 or 3.
    FioIolog,
    /// The text of blkparse.
    Blkparse,
    /// `strace -f -ttt -T` of file system calls.
    Strace,
}

impl Format {
    /// The names in options, in the order of [`Self::ALL`].
    pub const NAMES: [&'static str; 6] = [
        "oracleGeneral",
        "csv",
        "msr",
        "fio-iolog",
        "blkparse",
        "strace",
    ];

    /// Every format, in the order of [`Self::NAMES`].
    pub const ALL: [Self; 6] = [
        Self::OracleGeneral,
        Self::Csv,
        Self::Msr,
        Self::FioIolog,
        Self::Blkparse,
        Self::Strace,
    ];

    /// Returns the name in options.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the format of that name, one of [`Self::NAMES`]; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|n| *n == name)?;
        Some(Self::ALL[at])
    }

    /// Returns true if records are requests to block devices or a cache, which did not wait for
    /// each other when they were recorded.
    pub fn is_block(self) -> bool {
        !matches!(self, Self::Strace | Self::FioIolog)
    }

    /// Returns true if records may remove pages from files: [`crate::Op::Truncate`],
    /// [`crate::Op::CreateEmpty`], [`crate::Op::Unlink`].
    pub fn can_cut(self) -> bool {
        self == Self::Strace
    }

    /// Returns true if every record of the format is a read or a write, which is known without
    /// reading them.
    pub fn only_asks(self) -> bool {
        self == Self::OracleGeneral
    }

    /// Returns true if records are lines of text.
    pub fn is_text(self) -> bool {
        self != Self::OracleGeneral
    }

    /// Recognises a trace's format from its file's name and its first bytes, `head` (uncompressed).
    /// The contents take precedence; the name decides where they are ambiguous. `None`: neither
    /// tells.
    pub(crate) fn recognise(name: &Path, head: &[u8]) -> Option<Self> {
        let text = !head[..head.len().min(4096)]
            .iter()
            .any(|b| *b < 9 || (13 < *b && *b < 32) || *b == 127);
        if text && !head.is_empty() {
            // True if one of the first twenty lines passes the test.
            let first = |test: fn(&[u8]) -> bool| lines(head).take(20).any(test);
            let line = lines(head).next().unwrap_or(b"");
            if fio_iolog::version(line).is_some() {
                return Some(Self::FioIolog);
            }
            if is_msr(line) {
                return Some(Self::Msr);
            }
            if first(blkparse::is_event) {
                return Some(Self::Blkparse);
            }
            if first(strace::is_call) {
                return Some(Self::Strace);
            }
            if Columns::of(line).is_some() {
                return Some(Self::Csv);
            }
        }
        // The next access to a record's object comes later than the record, or never (-1).
        let plausible = head.len() >= oracle_general::RECORD && !text && {
            let (records, _) = head.as_chunks();
            records.iter().take(3).enumerate().all(|(i, r)| {
                let r = oracle_general::raw(r);
                r.next == -1 || r.next > i as i64 + 1
            })
        };
        if plausible {
            return Some(Self::OracleGeneral);
        }
        let name = name.file_name()?.to_str()?.to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        if has("oraclegeneral") {
            Some(Self::OracleGeneral)
        } else if has("iolog") {
            Some(Self::FioIolog)
        } else if has("strace") {
            Some(Self::Strace)
        } else if has("blkparse") {
            Some(Self::Blkparse)
        } else if has("msr") {
            Some(Self::Msr)
        } else if has(".csv") {
            Some(Self::Csv)
        } else {
            None
        }
    }
}

/// Returns the complete lines of a block, without blank ones.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = memchr::memrchr(b'\n', block).map_or(block.len(), |at| at + 1);
    block[..end]
        .split(|b| *b == b'\n')
        .filter(|l| !l.trim_ascii().is_empty())
}

/// Returns true if a line has the form of an MSR Cambridge trace: seven fields at commas, the first
/// a number, the fourth "read" or "write".
fn is_msr(line: &[u8]) -> bool {
    let mut fields = crate::number::Fields::new(line, b',');
    let time = fields.next().and_then(crate::number::parse_u64);
    let kind = fields.nth(2);
    time.is_some()
        && kind.is_some_and(|k| k.eq_ignore_ascii_case(b"read") || k.eq_ignore_ascii_case(b"write"))
        && fields.count() == 3
}
