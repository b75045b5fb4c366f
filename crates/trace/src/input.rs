//! Bytes in large blocks, from a plain or compressed file.

use crate::unpack::Packing;
use std::io::{self, Read};
use std::path::Path;

/// Bytes read at once, and the longest line of a text format.
pub const BLOCK: usize = 1 << 20;

/// A stream of bytes with one block in memory.
pub(crate) struct Input {
    inner: Box<dyn Read + Send>,
    /// Bytes that were read but not consumed are `block[start..end]`.
    block: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// Whether bytes come from a decoder, whose errors are about the file's contents.
    pub compressed: bool,
}

impl Input {
    /// Opens the file at `path` as a stream of bytes, unpacked if it is compressed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(Box::new(::input::stream(path)?))
    }

    /// Makes an input of a stream: its first bytes say whether it is compressed and has to be
    /// unpacked.
    pub fn new(mut inner: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut magic = Vec::with_capacity(Packing::HEAD);
        let head = Packing::HEAD as u64;
        inner.by_ref().take(head).read_to_end(&mut magic)?;
        let packing = Packing::of(&magic);
        let whole: Box<dyn Read + Send> = Box::new(io::Cursor::new(magic).chain(inner));
        Ok(Self {
            inner: match packing {
                Some(packing) => packing.unpack(whole)?,
                None => whole,
            },
            block: vec![0; BLOCK],
            start: 0,
            end: 0,
            ended: false,
            compressed: packing.is_some(),
        })
    }

    /// Makes an input that has ended, to stand in for one that another thread reads.
    pub fn empty() -> Self {
        Self {
            inner: Box::new(io::empty()),
            block: Vec::new(),
            start: 0,
            end: 0,
            ended: true,
            compressed: false,
        }
    }

    /// Returns the bytes that were read into memory and are not consumed.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.block[self.start..self.end]
    }

    /// Drops the first `n` bytes of [`data`](Self::data), because they have been decoded.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.end);
    }

    /// Reads until the block is full or the stream ends. Returns true if bytes were added.
    pub fn fill(&mut self) -> io::Result<bool> {
        self.fill_to(BLOCK)
    }

    /// Reads until `most` bytes (at most [`BLOCK`]) are in memory or the stream ends; unconsumed
    /// bytes move to the block's start first. Returns true if bytes were added, false at the end of
    /// the stream.
    ///
    /// # Errors
    /// The read failed. Bytes read before the error are returned first, and the error by the next
    /// call.
    pub fn fill_to(&mut self, most: usize) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.start > 0 {
            self.block.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let before = self.end;
        while self.end < most {
            match self.inner.read(&mut self.block[self.end..most]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.ended = true;
                    // Bytes before the error are still valid.
                    if self.end > before {
                        self.inner = Box::new(Broken(Some(e)));
                        self.ended = false;
                        break;
                    }
                    return Err(e);
                }
            }
        }
        Ok(self.end > before)
    }
}

/// Returns the error that ended a block early.
struct Broken(Option<io::Error>);

impl Read for Broken {
    /// Returns the kept error once, then the end of the stream.
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0.take() {
            Some(e) => Err(e),
            None => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut input = Input::new(Box::new(io::Cursor::new(bytes)))?;
        let mut out = Vec::new();
        while input.fill()? {
            out.extend(input.data());
            let n = input.data().len();
            input.consume(n);
        }
        Ok(out)
    }

    #[test]
    fn plain_and_compressed_bytes_are_the_same() {
        let text: Vec<u8> = (0..3 * BLOCK as u32).map(|i| (i / 7) as u8).collect();
        assert_eq!(all(text.clone()).unwrap(), text);
        let packed = zstd::encode_all(&text[..], 3).unwrap();
        assert_eq!(all(packed.clone()).unwrap(), text);
        assert_eq!(all(b"ab".to_vec()).unwrap(), b"ab");
        assert_eq!(all(Vec::new()).unwrap(), b"");
        assert!(all(packed[..packed.len() / 2].to_vec()).is_err());
    }
}
