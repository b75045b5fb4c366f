//! Reads zstd-compressed streams: with zstd itself (feature `zstd`), or with a decoder in Rust
//! (`ruzstd`), which needs no C compiler and less time to build, but more time to read. A build
//! with both features uses zstd, a build with neither reads plain files only.

/// The first bytes of a zstd frame.
pub(crate) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The largest window of compressed data, as a power of two: 128 MiB, which `zstd` itself accepts
/// without `--long`.
#[cfg(any(feature = "zstd", feature = "ruzstd"))]
const WINDOW_LOG: u32 = 27;

/// Part of the error text about a larger window.
pub(crate) const TOO_LARGE: &str = "too much memory";

#[cfg(feature = "zstd")]
pub(crate) use in_c::unpack;
#[cfg(not(any(feature = "zstd", feature = "ruzstd")))]
pub(crate) use nowhere::unpack;
#[cfg(all(feature = "ruzstd", not(feature = "zstd")))]
pub(crate) use rust::unpack;

#[cfg(feature = "zstd")]
mod in_c {
    use super::WINDOW_LOG;
    use std::io::{self, Read};

    /// Returns a stream of the bytes that a zstd stream holds, unpacked by zstd itself. A window
    /// above 128 MiB is refused.
    ///
    /// # Errors
    /// The decoder can't be made.
    pub(crate) fn unpack(packed: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        let mut decoder = zstd::stream::read::Decoder::new(packed)?;
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Box::new(decoder))
    }
}

#[cfg(not(any(feature = "zstd", feature = "ruzstd")))]
mod nowhere {
    use std::io::{self, Read};

    /// Fails, because this build has no decoder.
    pub(crate) fn unpack(_: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        Err(io::Error::other("this build reads only uncompressed files"))
    }
}

#[cfg(feature = "ruzstd")]
#[cfg_attr(feature = "zstd", allow(dead_code))]
mod rust {
    use super::{TOO_LARGE, WINDOW_LOG};
    use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
    use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
    use std::io::{self, BufRead, BufReader, Read};

    /// Returns a stream of the bytes that a zstd stream holds, unpacked by the decoder in Rust,
    /// like the function for zstd.
    #[expect(clippy::unnecessary_wraps, reason = "zstd's can fail")]
    pub(crate) fn unpack(packed: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(1 << WINDOW_LOG);
        let packed = BufReader::new(packed);
        Ok(Box::new(Frames { packed, decoder }))
    }

    /// The frames of a stream, one after the other. Their checksums are not verified.
    struct Frames {
        packed: BufReader<Box<dyn Read + Send>>,
        /// The decoder of the current frame; without one before the first.
        decoder: FrameDecoder,
    }

    impl Frames {
        /// Starts the next frame of the compressed stream, past skippable ones; returns false at
        /// the end of the stream.
        ///
        /// # Errors
        /// The stream can't be read, is cut or damaged, or needs a window that is too large.
        fn begin(&mut self) -> io::Result<bool> {
            while !self.packed.fill_buf()?.is_empty() {
                match self.decoder.reset(&mut self.packed) {
                    Ok(()) => return Ok(true),
                    Err(FrameDecoderError::ReadFrameHeaderError(
                        ReadFrameHeaderError::SkipFrame { length, .. },
                    )) => {
                        let length = u64::from(length);
                        let passed =
                            io::copy(&mut self.packed.by_ref().take(length), &mut io::sink())?;
                        if passed < length {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                    Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                        return Err(io::Error::other(format!(
                            "a window of {requested} bytes takes {TOO_LARGE}"
                        )));
                    }
                    Err(e) => return Err(io::Error::other(e)),
                }
            }
            Ok(false)
        }
    }

    impl Read for Frames {
        /// Reads unpacked bytes into `to` and returns their number, 0 at the end: decodes blocks,
        /// and goes on with the next frame, until there are some.
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            while self.decoder.can_collect() == 0 {
                if self.decoder.is_finished() {
                    if !self.begin()? {
                        return Ok(0);
                    }
                } else {
                    let one = BlockDecodingStrategy::UptoBlocks(1);
                    self.decoder
                        .decode_blocks(&mut self.packed, one)
                        .map_err(io::Error::other)?;
                }
            }
            self.decoder.read(to)
        }
    }
}

#[cfg(all(test, any(feature = "zstd", feature = "ruzstd")))]
mod tests {
    use super::*;
    use std::io::{self, Read, Write};

    fn all(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        unpack(Box::new(io::Cursor::new(packed)))?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn with_window(log: u32) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(&[7; 100_000]).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_window_of_more_than_128_mib_is_refused() {
        assert_eq!(all(with_window(WINDOW_LOG)).unwrap().len(), 100_000);
        let e = all(with_window(WINDOW_LOG + 1)).unwrap_err();
        assert!(e.to_string().contains(TOO_LARGE), "{e}");
    }

    #[test]
    fn frames_follow_one_another_and_some_are_passed_by() {
        let frame = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
        let passed_by = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let parts = [frame(b"one "), passed_by.clone(), frame(b""), frame(b"two")];
        assert_eq!(all(parts.concat()).unwrap(), b"one two");
        // A frame may only be followed by another frame or the end.
        assert!(all([frame(b"one"), b"x".to_vec()].concat()).is_err());
        assert!(all([frame(b"one"), passed_by[..9].to_vec()].concat()).is_err());
        let mut long = vec![0; 1 << 20];
        long.iter_mut()
            .zip(0_u32..)
            .for_each(|(b, i)| *b = (i % 251 * (i >> 9)) as u8);
        let packed = frame(&long);
        assert_eq!(all(packed.clone()).unwrap(), long);
        for cut in [1, 3, 5, 9, packed.len() / 2, packed.len() - 1] {
            assert!(
                all(packed[..cut].to_vec()).is_err(),
                "{cut} of {}",
                packed.len()
            );
        }
    }
}
