//! The record type that all formats are converted to.

/// The operation of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read `len` bytes at `offset`.
    Read,
    /// Write `len` bytes at `offset`.
    Write,
    /// fsync(2), or a flush of a block device.
    Sync,
    /// fdatasync(2).
    DataSync,
    /// Set the file's length to `offset` bytes.
    Truncate,
    /// Open a file that exists.
    Open,
    /// Open with O_CREAT: make the file if it is missing.
    Create,
    /// Open with O_TRUNC, with or without O_CREAT: the file is empty afterwards.
    CreateEmpty,
    /// The last descriptor of an open file was closed.
    Close,
    /// The file's last name was removed.
    Unlink,
}

impl Op {
    /// Returns the name in lists and counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "fsync",
            Self::DataSync => "fdatasync",
            Self::Truncate => "truncate",
            Self::Open => "open",
            Self::Create => "create",
            Self::CreateEmpty => "create-empty",
            Self::Close => "close",
            Self::Unlink => "unlink",
        }
    }

    /// Returns true if the record moves bytes.
    pub fn is_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// The latency of a record whose trace has none.
pub const NO_LATENCY: u64 = u64::MAX;

/// The largest offset that a record reaches, in bytes: 16 TiB less 4 GiB, so that the number of a
/// page of 4 KiB and the pages around it fit 32 bits.
pub const MAX_FILE: u64 = (1 << 44) - (1 << 32);

/// One request: 40 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The time of issue, in nanoseconds since the trace's first record; an earlier time counts as
    /// 0.
    pub time_ns: u64,
    /// The first byte; the new length for [`Op::Truncate`]; 0 for other operations without an
    /// offset.
    pub offset: u64,
    /// The recorded duration, in nanoseconds; [`NO_LATENCY`] if unknown.
    pub latency_ns: u64,
    /// Bytes read or written; never beyond [`MAX_FILE`].
    pub len: u32,
    /// The file, as an index into [`crate::Reader::files`]. A file keeps its number when it is
    /// renamed; a new file under an old name has a new number.
    pub file: u32,
    /// The process, as an index into [`crate::Reader::processes`].
    pub process: u32,
    /// The operation.
    pub op: Op,
}

const _: () = assert!(size_of::<Record>() == 40);

impl Record {
    /// Returns the recorded latency in nanoseconds, if there is one.
    pub fn latency(&self) -> Option<u64> {
        (self.latency_ns != NO_LATENCY).then_some(self.latency_ns)
    }

    /// Returns the first byte after the range read or written.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}
