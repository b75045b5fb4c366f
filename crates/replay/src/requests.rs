//! What of a record is a request to the cache, and for which object.

use trace::{Op, Record};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Every page of 4 KiB that a record touches is a request.
    #[default]
    Page,
    /// Every record is one request, for the object that begins at its first byte; sizes are
    /// ignored, as libCacheSim does with `--ignore-obj-size 1`.
    Record,
}

/// Bits of an offset: [`trace::MAX_FILE`] is below 2⁴⁴.
const OFFSET_BITS: u32 = 44;

impl Unit {
    /// The first object of a record of reading or writing, and how many follow each other.
    #[inline]
    pub(crate) fn objects(self, r: &Record) -> (u64, u64) {
        match self {
            Self::Page => {
                let first = r.offset / PAGE;
                let pages = (r.offset % PAGE + u64::from(r.len)).div_ceil(PAGE);
                (u64::from(r.file) << 32 | first, pages.max(1))
            }
            Self::Record => (u64::from(r.file) << OFFSET_BITS | r.offset, 1),
        }
    }

    /// The first object of a file that is gone when the file has `len` bytes.
    pub(crate) fn behind(self, len: u64) -> u64 {
        match self {
            Self::Page => len.div_ceil(PAGE),
            Self::Record => len,
        }
    }

    /// The part of an object's number that is its place in the file.
    pub(crate) fn place(self, object: u64) -> u64 {
        match self {
            Self::Page => object & ((1 << 32) - 1),
            Self::Record => object & ((1 << OFFSET_BITS) - 1),
        }
    }
}

/// The length that a record leaves its file, if it takes pages away.
pub(crate) fn cut(r: &Record) -> Option<u64> {
    match r.op {
        Op::Truncate => Some(r.offset),
        Op::CreateEmpty | Op::Unlink => Some(0),
        _ => None,
    }
}
