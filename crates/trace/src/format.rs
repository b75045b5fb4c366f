//! The formats of traces, and how they are recognised.

use crate::columns::Columns;
use crate::fixed::Kind;
use crate::layout::{self, SHAPES};
use crate::{blkparse, fio_iolog, object_csv, oracle_general, strace};
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
    /// Tencent's block storage.
    TencentCbs,
    /// Alibaba's block storage.
    AlibabaBlock,
    /// The Storage Performance Council's text.
    Spc,
    /// SYSTOR '17: virtual desktops.
    Systor17,
    /// Twitter's caches.
    Twitter,
    /// CacheLib's key-value caches of 2022.
    KvCache2022,
    /// CacheLib's key-value caches from 2024 on.
    KvCache2024,
    /// CacheLib's content delivery network.
    MetaCdn,
    /// Wikimedia's caches of 2019.
    WikiCdn,
    /// The traces of ARC's authors.
    Arc,
    /// VMware's vscsiStats, binary.
    Vscsi,
    /// libCacheSim's LCS.
    Lcs,
    /// An object a line.
    Ids,
    /// Columns that a user names.
    Columns,
}

/// The reason to read a trace in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The user says so.
    Said,
    /// A header line or a magic number.
    Header,
    /// The contents, or the name.
    Contents,
}

/// The answer of [`Format::recognise`].
pub(crate) enum Recognised {
    Known(Format, Reason),
    /// It may be one of these; none: it has so many columns of no known layout.
    Unclear(Vec<Format>, usize),
    Unknown,
}

impl Format {
    /// The names in options, in the order of [`Self::ALL`].
    pub const NAMES: [&'static str; 19] = [
        "oracleGeneral",
        "csv",
        "msr",
        "fio-iolog",
        "blkparse",
        "strace",
        "tencent-cbs",
        "alibaba-block",
        "spc",
        "systor17",
        "twitter",
        "kvcache-2022",
        "kvcache-2024",
        "meta-cdn",
        "wiki-cdn",
        "arc",
        "vscsi",
        "lcs",
        "ids",
    ];

    /// Every format with a name of its own, in the order of [`Self::NAMES`].
    pub const ALL: [Self; 19] = [
        Self::OracleGeneral,
        Self::Csv,
        Self::Msr,
        Self::FioIolog,
        Self::Blkparse,
        Self::Strace,
        Self::TencentCbs,
        Self::AlibabaBlock,
        Self::Spc,
        Self::Systor17,
        Self::Twitter,
        Self::KvCache2022,
        Self::KvCache2024,
        Self::MetaCdn,
        Self::WikiCdn,
        Self::Arc,
        Self::Vscsi,
        Self::Lcs,
        Self::Ids,
    ];

    /// Returns the name in options.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).unwrap_or(&"columns")
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

    /// Returns true for a published layout of downloaded traces, all of which one reader serves.
    pub fn is_layout(self) -> bool {
        self as usize >= Self::TencentCbs as usize
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
        !matches!(self, Self::OracleGeneral | Self::Vscsi | Self::Lcs)
    }

    /// Recognises a trace's format from its file's name and its first bytes, `head` (uncompressed).
    /// The contents take precedence; the name decides where they say nothing. Columns of numbers
    /// that may mean several things are not guessed.
    pub(crate) fn recognise(name: &Path, head: &[u8]) -> Recognised {
        use Recognised::{Known, Unknown};
        match Kind::of(head) {
            Some(Kind::Lcs(_)) => return Known(Self::Lcs, Reason::Header),
            Some(Kind::Vscsi(_)) => return Known(Self::Vscsi, Reason::Contents),
            None => {}
        }
        let text = !head[..head.len().min(4096)]
            .iter()
            .any(|b| *b < 9 || (13 < *b && *b < 32) || *b == 127);
        if text && !head.is_empty() {
            match Self::recognise_text(head) {
                Unknown => {}
                answer => return answer,
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
            return Known(Self::OracleGeneral, Reason::Contents);
        }
        let name = name.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let name = name.to_ascii_lowercase();
        let names = [
            ("oraclegeneral", Self::OracleGeneral),
            ("iolog", Self::FioIolog),
            ("strace", Self::Strace),
            ("blkparse", Self::Blkparse),
            ("msr", Self::Msr),
            (".csv", Self::Csv),
        ];
        match names.iter().find(|(part, _)| name.contains(part)) {
            Some((_, format)) => Known(*format, Reason::Contents),
            None => Unknown,
        }
    }

    /// Recognises a text trace from its first lines: by a header line, by words that only one
    /// format has, or by three or four columns, which are taken for those of libCacheSim. Other
    /// columns may have any units, so their layouts are only candidates.
    fn recognise_text(head: &[u8]) -> Recognised {
        use Recognised::{Known, Unclear, Unknown};
        // True if one of the first twenty lines passes the test.
        let first = |test: fn(&[u8]) -> bool| lines(head).take(20).any(test);
        let line = lines(head).next().unwrap_or(b"");
        if fio_iolog::version(line).is_some() {
            return Known(Self::FioIolog, Reason::Header);
        }
        if is_msr(line) {
            return Known(Self::Msr, Reason::Contents);
        }
        if let Some(shape) = SHAPES.iter().find(|s| s.is_header(line)) {
            return Known(shape.format, Reason::Header);
        }
        if first(blkparse::is_event) {
            return Known(Self::Blkparse, Reason::Contents);
        }
        if first(strace::is_call) {
            return Known(Self::Strace, Reason::Contents);
        }
        let csv = object_csv::Columns::of(line);
        if csv.is_some_and(|c| c.named()) {
            return Known(Self::Csv, Reason::Header);
        }
        let fits = |shape: &&layout::Shape| {
            shape.separated(line)
                && lines(head)
                    .take(20)
                    .all(|l| Columns::fits(shape.layout(), l))
        };
        let fields = layout::split(line, layout::separator(line)).count();
        let mut found: Vec<&layout::Shape> = SHAPES.iter().filter(fits).collect();
        // A word a line may be any text; numbers are objects.
        let number = crate::number::parse_u64(line.trim_ascii()).is_some();
        found.retain(|s| s.format != Self::Ids || number);
        let plain_csv = csv.is_some() && fields <= 4;
        let mut evident = found.iter().filter(|s| s.evident());
        if let (Some(one), None, false) = (evident.next(), evident.next(), plain_csv) {
            return Known(one.format, Reason::Contents);
        }
        if found.is_empty() {
            return match csv {
                Some(_) if plain_csv => Known(Self::Csv, Reason::Contents),
                Some(_) => Unclear(Vec::new(), fields),
                None => Unknown,
            };
        }
        let mut formats: Vec<Self> = found.iter().map(|s| s.format).collect();
        if plain_csv {
            formats.push(Self::Csv);
        }
        formats.dedup();
        Unclear(formats, fields)
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
