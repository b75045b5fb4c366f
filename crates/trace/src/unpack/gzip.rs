//! gzip (RFC 1952): members one after the other, each with a header, deflated data and a checksum.

use super::{AT_ONCE, more_follows};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use std::io::{self, BufRead, BufReader, Read};

/// The members of a stream, one after the other.
pub(crate) struct Members {
    packed: BufReader<Box<dyn Read + Send>>,
    inflater: Box<InflateState>,
    /// The checksum and the length, in 32 bits, of the member's bytes so far; `None` between two
    /// members.
    member: Option<(Crc, u32)>,
    /// Whether a member was read: only then the stream may end.
    some: bool,
}

impl Members {
    /// Makes a stream of the bytes of all members of a gzip stream.
    pub fn new(packed: Box<dyn Read + Send>) -> Self {
        Self {
            packed: BufReader::with_capacity(AT_ONCE, packed),
            inflater: InflateState::new_boxed(DataFormat::Raw),
            member: None,
            some: false,
        }
    }

    /// Reads a member's header; returns false at the end of the stream. Zeroes after a member are
    /// padding, as gzip itself takes them.
    ///
    /// # Errors
    /// The stream can't be read, or goes on with something other than a member.
    fn begin(&mut self) -> io::Result<bool> {
        if self.some && !more_follows(&mut self.packed)? {
            return Ok(false);
        }
        let [m0, m1, method, flags, ..] = self.bytes::<10>()?;
        if [m0, m1, method] != [0x1f, 0x8b, 8] || flags & 0xe0 != 0 {
            return Err(damaged("something other than a gzip member follows"));
        }
        if flags & 4 != 0 {
            let length = u64::from(u16::from_le_bytes(self.bytes()?));
            if io::copy(&mut self.packed.by_ref().take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        // The file's name and a comment, each up to a zero.
        for _ in 0..(flags >> 3 & 1) + (flags >> 4 & 1) {
            while self.bytes::<1>()? != [0] {}
        }
        if flags & 2 != 0 {
            self.bytes::<2>()?;
        }
        self.inflater.reset(DataFormat::Raw);
        self.member = Some((Crc::default(), 0));
        self.some = true;
        Ok(true)
    }

    /// Reads the next bytes of the compressed stream.
    ///
    /// # Errors
    /// The stream can't be read or has fewer.
    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.packed.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for Members {
    /// Reads unpacked bytes into `to` and returns their number, 0 at the end.
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        loop {
            if self.member.is_none() && !self.begin()? {
                return Ok(0);
            }
            let packed = self.packed.fill_buf()?;
            let cut = packed.is_empty();
            let step = inflate(&mut self.inflater, packed, to, MZFlush::None);
            self.packed.consume(step.bytes_consumed);
            let n = step.bytes_written;
            let Some((crc, length)) = &mut self.member else {
                return Ok(0);
            };
            crc.add(&to[..n]);
            *length = length.wrapping_add(n as u32);
            let end = match step.status {
                Ok(MZStatus::StreamEnd) => true,
                Ok(_) | Err(MZError::Buf) => false,
                Err(_) => return Err(damaged("wrong deflated data")),
            };
            if end {
                let expected = (crc.value(), *length);
                self.member = None;
                let crc = u32::from_le_bytes(self.bytes()?);
                let length = u32::from_le_bytes(self.bytes()?);
                if (crc, length) != expected {
                    return Err(damaged("a wrong checksum"));
                }
            } else if n == 0 && cut {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if n > 0 {
                return Ok(n);
            }
        }
    }
}

/// Makes the error about damaged data.
fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The CRC-32 of RFC 1952, inverted.
pub(super) struct Crc(u32);

impl Default for Crc {
    /// Returns the checksum of no bytes.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

/// The remainder of each byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut c, mut bit) = (i as u32, 0);
        while bit < 8 {
            c = c >> 1 ^ if c & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
};

impl Crc {
    /// Adds bytes to the checksum.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0 >> 8 ^ TABLE[usize::from(self.0 as u8 ^ b)];
        }
    }

    /// Returns the checksum.
    pub(super) fn value(&self) -> u32 {
        !self.0
    }
}
