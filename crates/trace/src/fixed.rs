//! Binary traces of records of one length: VMware's vscsiStats in its two versions, and
//! libCacheSim's LCS in versions 1 to 8. Numbers are little-endian.

use crate::error::Fault;
use crate::objects::{Objects, TOO_FAR, Unit};
use crate::record::{MAX_FILE, NO_LATENCY, Op, Record};
use crate::tables::Tables;

/// The bytes before LCS's first record: a magic number, the version, statistics, the magic number.
pub(crate) const LCS_HEADER: usize = 8192;

const LCS_MAGIC: u64 = 0x1234_5678_9abc_def0;

/// The kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// vscsiStats, version 1 or 2.
    Vscsi(u8),
    /// LCS, version 1 to 8.
    Lcs(u8),
}

impl Kind {
    /// Recognises a trace's records from its first bytes; `None`: neither fits. LCS has its magic
    /// number; each of vscsiStats's records has its version and a SCSI command of one byte.
    pub fn of(head: &[u8]) -> Option<Self> {
        if head.len() >= LCS_HEADER && number::<8>(head, 0) == LCS_MAGIC {
            let version = number::<8>(head, 8);
            let end = number::<8>(head, LCS_HEADER - 8) == LCS_MAGIC;
            return (end && (1..=8).contains(&version)).then_some(Self::Lcs(version as u8));
        }
        [Self::Vscsi(2), Self::Vscsi(1)].into_iter().find(|kind| {
            let (command, version, wanted) = match kind {
                Self::Vscsi(2) => (0, 2, 2),
                _ => (12, 14, 1),
            };
            let mut records = head.chunks_exact(kind.record()).take(64);
            records.len() >= 2
                && records.all(|r| {
                    number::<2>(r, version) >> 8 == wanted && number::<2>(r, command) < 256
                })
        })
    }

    /// Returns the length of a record in bytes.
    pub fn record(self) -> usize {
        match self {
            Self::Vscsi(1) => 32,
            Self::Vscsi(_) => 40,
            Self::Lcs(1) => 24,
            Self::Lcs(2) => 28,
            Self::Lcs(3) => 36,
            // So many numbers of 32 bits more: 1, 2, 4, 8, 16.
            Self::Lcs(version) => 36 + (4 << (version - 4)),
        }
    }

    /// Returns the number of bytes before the first record.
    pub fn header(self) -> usize {
        match self {
            Self::Vscsi(_) => 0,
            Self::Lcs(_) => LCS_HEADER,
        }
    }
}

/// Returns the number in `N` bytes from `at` on.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + N).unwrap_or(&[]);
    bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

pub(crate) struct Fixed {
    pub kind: Kind,
    pub objects: Objects,
    first: Option<u64>,
}

impl Fixed {
    /// Makes a reader of such records. `objects` places the objects of LCS in one file.
    pub fn new(kind: Kind, objects: Objects) -> Self {
        Self {
            kind,
            objects,
            first: None,
        }
    }

    /// Returns the objects' numbers and sizes of the records in a trace's first bytes, from which
    /// the unit is guessed.
    pub fn peek(kind: Kind, head: &[u8]) -> impl Iterator<Item = (u64, u64)> {
        let records = head.get(kind.header()..).unwrap_or(&[]);
        records
            .chunks_exact(kind.record())
            .map(move |r| (number::<8>(r, 4), size(kind, r)))
    }

    /// Decodes a record and adds its request to `out`.
    ///
    /// # Errors
    /// The request lies too far, or is too long.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        let (time_ns, latency_ns, op, size) = match self.kind {
            Kind::Vscsi(version) => {
                let (command, time) = match version {
                    1 => (number::<2>(bytes, 12), number::<8>(bytes, 24)),
                    _ => (number::<2>(bytes, 0), number::<8>(bytes, 24)),
                };
                // The commands READ(6), (10), (12), (16) and their writes.
                let op = match command {
                    0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
                    0x0a | 0x2a | 0xaa | 0x8a => Op::Write,
                    _ => {
                        tables.ignore("SCSI commands other than reads and writes");
                        return Ok(());
                    }
                };
                let at = if version == 1 { 4 } else { 8 };
                (
                    time.saturating_mul(1000),
                    NO_LATENCY,
                    op,
                    number::<4>(bytes, at),
                )
            }
            Kind::Lcs(version) => {
                let op = match version {
                    1 => 0,
                    2 => number::<1>(bytes, 16),
                    _ => number::<1>(bytes, 20),
                };
                // libCacheSim's req_op_e: nothing, get, gets, read and none are no writes.
                let op = match op {
                    0 | 1 | 2 | 12 | 255 => Op::Read,
                    _ => Op::Write,
                };
                let time = number::<4>(bytes, 0) * 1_000_000_000;
                (time, NO_LATENCY, op, size(self.kind, bytes))
            }
        };
        if size == 0 {
            tables.ignore("requests of size 0");
            return Ok(());
        }
        let Ok(len) = u32::try_from(size) else {
            let what = format!("a request of {size} bytes");
            return Err(Fault::new(what, "requests below 4 GiB"));
        };
        let first = *self.first.get_or_insert(time_ns);
        let mut record = Record {
            time_ns: time_ns.saturating_sub(first),
            offset: 0,
            latency_ns,
            len,
            file: 0,
            process: 0,
            op,
        };
        if let Kind::Vscsi(_) = self.kind {
            let block = number::<8>(bytes, 16);
            record.offset = block
                .checked_mul(512)
                .filter(|at| *at <= MAX_FILE - size)
                .ok_or_else(|| Fault::new(format!("block {block} lies past 16 TiB"), TOO_FAR))?;
            record.file = tables.file(b"disk");
            record.process = tables.process(b"disk");
            out.push(record);
            return Ok(());
        }
        record.file = tables.file(b"objects");
        record.process = tables.process(b"client");
        let place = self.objects.place(number::<8>(bytes, 4), len)?;
        for (offset, len) in self.objects.parts(place, len) {
            out.push(Record {
                offset,
                len,
                ..record
            });
        }
        Ok(())
    }

    /// Returns the unit of object numbers; `None` for the blocks of a disk.
    pub fn unit(&self) -> Option<Unit> {
        matches!(self.kind, Kind::Lcs(_)).then_some(self.objects.unit)
    }
}

/// Returns the size of an LCS record's object in bytes.
fn size(kind: Kind, record: &[u8]) -> u64 {
    match kind {
        Kind::Lcs(1 | 2) => number::<4>(record, 12),
        _ => number::<8>(record, 12),
    }
}
