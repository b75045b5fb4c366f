//! Turns trace records into requests to the cache: the unit of a request, and the number of its
//! object.

use trace::{Op, Reader, Record};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The unit of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Every page of 4 KiB that a record touches is a request.
    #[default]
    Page,
    /// Every record is one request, for the object that begins at its first byte, or that it names;
    /// sizes are ignored, as libCacheSim does with `--ignore-obj-size 1`.
    Record,
}

/// Bits of an offset: [`trace::MAX_FILE`] is below 2⁴⁴.
const OFFSET_BITS: u32 = 44;

impl Unit {
    /// Returns the first object of a read or write record, and the number of consecutive objects
    /// that it touches. An object's number holds its file in the upper bits and its place in the
    /// file in the lower ones.
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

    /// Makes `reader`, which has read nothing so far, number objects of a name without regard to
    /// their sizes, where a record is one request: it would otherwise give objects that grow
    /// several places. Returns by how many bits an object's number of [`Self::objects`] must be
    /// shifted to number all objects from 0 without gaps, in the order of their first requests;
    /// `None` if objects have to be numbered by a table. Traces whose object numbers are names need
    /// no table, because the reader gives each object the next free pages.
    pub(crate) fn numbers(self, reader: &mut Reader) -> Option<u32> {
        let (numbered, shift) = match self {
            // A request for pages that an object has not had so far is for all of these.
            Self::Page => (reader.unit() == Some(trace::Unit::Object), 0),
            Self::Record => (reader.number_names(), PAGE.trailing_zeros()),
        };
        numbered.then_some(shift)
    }

    /// Returns the place of the first object of a file that is gone when the file has `len` bytes.
    pub(crate) fn behind(self, len: u64) -> u64 {
        match self {
            Self::Page => len.div_ceil(PAGE),
            Self::Record => len,
        }
    }

    /// Returns the part of an object's number that is its place in the file.
    pub(crate) fn place(self, object: u64) -> u64 {
        match self {
            Self::Page => object & ((1 << 32) - 1),
            Self::Record => object & ((1 << OFFSET_BITS) - 1),
        }
    }
}

/// Returns the length in bytes that a record leaves its file, if it removes pages (truncation,
/// unlink, creation of an empty file); `None` for other records.
pub(crate) fn cut(r: &Record) -> Option<u64> {
    match r.op {
        Op::Truncate => Some(r.offset),
        Op::CreateEmpty | Op::Unlink => Some(0),
        _ => None,
    }
}
