//! xz: streams one after the other, with padding between them.

use super::{AT_ONCE, TOO_LARGE, more_follows};
use std::io::{self, BufRead, BufReader, Read};
use xz4rust::{XzDecoder, XzError, XzNextBlockResult};

/// The largest dictionary, that of `xz -9` twice over.
const DICTIONARY: usize = 128 << 20;

/// The streams of a file, one after the other.
pub(crate) struct Streams {
    packed: BufReader<Box<dyn Read + Send>>,
    decoder: Box<XzDecoder<'static>>,
    /// Whether the decoder is between two streams, and not before the first.
    between: bool,
}

impl Streams {
    /// Makes a stream of the bytes of all xz streams of a file. A dictionary above 128 MiB is
    /// refused.
    pub fn new(packed: Box<dyn Read + Send>) -> Self {
        Self {
            packed: BufReader::with_capacity(AT_ONCE, packed),
            decoder: XzDecoder::in_heap_with_alloc_dict_size(0, DICTIONARY),
            between: false,
        }
    }
}

impl Read for Streams {
    /// Reads unpacked bytes into `to` and returns their number, 0 at the end.
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        loop {
            if self.between {
                if !more_follows(&mut self.packed)? {
                    return Ok(0);
                }
                self.decoder.reset();
                self.between = false;
            }
            let packed = self.packed.fill_buf()?;
            if packed.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (taken, n) = match self.decoder.decode(packed, to) {
                Ok(XzNextBlockResult::NeedMoreData(taken, n)) => (taken, n),
                Ok(XzNextBlockResult::EndOfStream(taken, n)) => {
                    self.between = true;
                    (taken, n)
                }
                Err(XzError::DictionaryTooLarge(bytes)) => {
                    return Err(io::Error::other(format!(
                        "a dictionary of {bytes} bytes takes {TOO_LARGE}"
                    )));
                }
                Err(e) => return Err(io::Error::new(io::ErrorKind::InvalidData, e)),
            };
            self.packed.consume(taken);
            if n > 0 {
                return Ok(n);
            }
        }
    }
}
