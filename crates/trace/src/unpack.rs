//! Reads compressed streams, recognised by their first bytes: zstd, gzip, xz and bzip2.
//!
//! zstd is unpacked with zstd itself (feature `zstd`), or with a decoder in Rust (`ruzstd`), which
//! needs no C compiler and less time to build, but more time to read. A build with both features
//! uses zstd. The feature `packed` has the other three. A build without a decoder recognises the
//! compression all the same, and names the program that unpacks the file.

use std::io::{self, Read};

#[cfg(feature = "packed")]
mod bzip2;
#[cfg(feature = "packed")]
mod gzip;
#[cfg(feature = "packed")]
mod xz;

/// The compressions that are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Zstd,
    Gzip,
    Xz,
    Bzip2,
}

impl Packing {
    /// The number of first bytes from which a compression is recognised.
    pub const HEAD: usize = 6;

    /// Returns the compression of a file with these first bytes; `None`: the file is plain.
    pub fn of(head: &[u8]) -> Option<Self> {
        // RFC 8878, RFC 1952 (whose third byte is the only method, deflate), the .xz file format
        // 1.2.1, and bzip2's header, whose fourth byte is the block size.
        if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Some(Self::Zstd)
        } else if head.starts_with(&[0x1f, 0x8b, 8]) {
            Some(Self::Gzip)
        } else if head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
            Some(Self::Xz)
        } else if head.starts_with(b"BZh") && head.get(3).is_some_and(|b| matches!(b, b'1'..=b'9'))
        {
            Some(Self::Bzip2)
        } else {
            None
        }
    }

    /// Returns the name of the compression, which is the one of the program for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        }
    }

    /// Returns a stream of the bytes that the stream `packed` holds, which begins with the
    /// compression's first bytes.
    ///
    /// # Errors
    /// This build has no decoder for the compression, or the decoder can't be made.
    pub fn unpack(self, packed: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Self::Zstd => unpack(packed),
            #[cfg(feature = "packed")]
            Self::Gzip => Ok(Box::new(gzip::Members::new(packed))),
            #[cfg(feature = "packed")]
            Self::Xz => Ok(Box::new(xz::Streams::new(packed))),
            #[cfg(feature = "packed")]
            Self::Bzip2 => Ok(Box::new(bzip2::Streams::new(packed))),
            #[cfg(not(feature = "packed"))]
            Self::Gzip | Self::Xz | Self::Bzip2 => Err(self.missing()),
        }
    }

    /// Returns the error about a compression that this build can't unpack.
    #[cfg_attr(all(feature = "packed", feature = "zstd"), allow(dead_code))]
    fn missing(self) -> io::Error {
        let name = self.name();
        io::Error::other(format!(
            "compressed with {name}, which this build does not unpack; unpack it first: {name} -d FILE"
        ))
    }
}

/// Bytes read from a compressed stream at once.
#[cfg(feature = "packed")]
const AT_ONCE: usize = 1 << 16;

/// Passes zeroes behind a gzip member or an xz stream, which are padding. Returns true if more
/// follows, false at the end of the file.
///
/// # Errors
/// The file can't be read.
#[cfg(feature = "packed")]
fn more_follows(packed: &mut impl io::BufRead) -> io::Result<bool> {
    loop {
        let rest = packed.fill_buf()?;
        let zeroes = rest.iter().take_while(|b| **b == 0).count();
        if zeroes == 0 {
            return Ok(!rest.is_empty());
        }
        packed.consume(zeroes);
    }
}

/// Returns true if a file with these first bytes is compressed in a way that is recognised.
pub fn is_packed(head: &[u8]) -> bool {
    Packing::of(head).is_some()
}

/// The largest window of compressed data, as a power of two: 128 MiB, which `zstd` itself accepts
/// without `--long`.
#[cfg(any(feature = "zstd", feature = "ruzstd"))]
const WINDOW_LOG: u32 = 27;

/// Part of the error text about a larger window.
pub(crate) const TOO_LARGE: &str = "too much memory";

#[cfg(feature = "zstd")]
use in_c::unpack;
#[cfg(not(any(feature = "zstd", feature = "ruzstd")))]
use nowhere::unpack;
#[cfg(all(feature = "ruzstd", not(feature = "zstd")))]
use rust::unpack;

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
        Err(super::Packing::Zstd.missing())
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

#[cfg(all(test, feature = "packed"))]
mod other_tests {
    use super::*;

    /// Returns the text that is in `tests/golden/many.msr.csv.*`, packed by the programs of Debian
    /// 12: in three blocks of bzip2, with runs of 300 equal bytes.
    fn many() -> Vec<u8> {
        let mut text = String::new();
        for i in 0..6000_usize {
            let op = if i % 4 == 0 { "Write" } else { "Read" };
            let (offset, size) = (i * i % 97 * 4096, 4096 * (1 + i % 5));
            let response = "7".repeat(if i % 1000 == 0 { 300 } else { 2 });
            text += &format!(
                "{},usr,{},{op},{offset},{size},{response}\n",
                i * 1000,
                i % 3
            );
        }
        text.into_bytes()
    }

    fn packed(end: &str) -> Vec<u8> {
        std::fs::read(format!("tests/golden/many.msr.csv.{end}")).unwrap()
    }

    fn all(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let packing = Packing::of(&packed).unwrap();
        let mut out = Vec::new();
        packing
            .unpack(Box::new(io::Cursor::new(packed)))?
            .read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn each_packing_gives_the_plain_bytes() {
        for end in ["gz", "xz", "bz2"] {
            assert!(all(packed(end)).unwrap() == many(), "{end}");
        }
    }

    #[test]
    fn members_and_streams_follow_one_another() {
        for end in ["gz", "xz", "bz2"] {
            let one = packed(end);
            let two = [many(), many()].concat();
            assert!(
                all([one.clone(), one.clone()].concat()).unwrap() == two,
                "{end}"
            );
            // Something else behind the last one is no padding.
            assert!(all([one.clone(), b"x".to_vec()].concat()).is_err(), "{end}");
            if end != "bz2" {
                let padded = [one.clone(), vec![0; 8], one].concat();
                assert!(all(padded).unwrap() == two, "{end}");
            }
        }
    }

    #[test]
    fn cut_and_changed_streams_are_errors() {
        for end in ["gz", "xz", "bz2"] {
            let whole = packed(end);
            for cut in [7, 20, whole.len() / 2, whole.len() - 1] {
                assert!(all(whole[..cut].to_vec()).is_err(), "{end}, {cut}");
            }
            for at in (12..whole.len()).step_by(whole.len() / 40) {
                let mut changed = whole.clone();
                changed[at] ^= 0x10;
                assert!(all(changed).is_err(), "{end}, {at}");
            }
        }
    }

    #[test]
    fn a_gzip_header_may_have_all_fields() {
        let plain = packed("gz");
        let mut full = plain[..10].to_vec();
        full[3] = 4 | 8 | 16 | 2;
        full.extend(b"\x03\0abcname\0comment\0\x12\x34");
        full.extend(&plain[10..]);
        assert!(all(full).unwrap() == many());
    }

    #[test]
    fn a_dictionary_of_more_than_128_mib_is_refused() {
        // A stream header, and a block header whose only filter is LZMA2 with 1.5 GiB.
        let mut bytes = vec![
            0xfd, b'7', b'z', b'X', b'Z', 0, 0, 1, 0x69, 0x22, 0xde, 0x36,
        ];
        bytes.extend([2, 0, 0x21, 1, 37, 0, 0, 0]);
        let mut crc = gzip::Crc::default();
        crc.add(&bytes[12..]);
        bytes.extend(crc.value().to_le_bytes());
        bytes.extend([1, 0, 0, b'x', 0]);
        let e = all(bytes).unwrap_err();
        assert!(e.to_string().contains(TOO_LARGE), "{e}");
    }
}
