//! The contents of a guest's disk: a sparse file that stores only blocks that are not zero.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a block, the unit that is stored or left out.
pub const BLOCK: u64 = 4096;

/// The contents of a disk. Blocks never written, or written only with zeroes, take no space.
#[derive(Debug)]
pub struct Store {
    file: File,
    capacity: u64,
    /// One bit per block: set if the file may have data of it.
    present: Vec<u64>,
}

/// Returns true if all bytes are 0.
fn zeroes(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<16>();
    words.iter().all(|w| u128::from_ne_bytes(*w) == 0) && tail.iter().all(|b| *b == 0)
}

impl Store {
    /// Wraps a sparse file, whose length is the disk's capacity, and notes the blocks in which it
    /// has data.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn new(file: File) -> io::Result<Self> {
        let capacity = file.metadata()?.len();
        let blocks = capacity.div_ceil(BLOCK) as usize;
        let mut store = Self {
            file,
            capacity,
            present: vec![0; blocks.div_ceil(64)],
        };
        let mut at = 0;
        while let Some((from, to)) = store.data_from(at)? {
            for block in from / BLOCK..to.div_ceil(BLOCK) {
                store.set(block);
            }
            at = to;
        }
        Ok(store)
    }

    /// Returns start and end, in bytes, of the first stretch of data of the file at or after `at`;
    /// `None` if there are only holes.
    fn data_from(&self, at: u64) -> io::Result<Option<(u64, u64)>> {
        use rustix::fs::{SeekFrom, seek};
        let from = match seek(&self.file, SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        Ok(Some((from, seek(&self.file, SeekFrom::Hole(from))?)))
    }

    /// Notes that the file may have data of a block.
    fn set(&mut self, block: u64) {
        self.present[(block / 64) as usize] |= 1 << (block % 64);
    }

    /// Returns true if the file may have data of a block; otherwise the block is all zeroes.
    fn has(&self, block: u64) -> bool {
        self.present[(block / 64) as usize] >> (block % 64) & 1 != 0
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Splits the range of `len` bytes from offset `at` of the disk at block boundaries: yields the
    /// number of each block, and the range of the buffer that lies in it.
    fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
        let end = at + len as u64;
        (at / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
            let from = at.max(block * BLOCK);
            let to = end.min((block + 1) * BLOCK);
            (block, (from - at) as usize..(to - at) as usize)
        })
    }

    /// Reads bytes at offset `at` that lie inside the disk; blocks without data are zeroes.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        debug_assert!(at + buf.len() as u64 <= self.capacity);
        for (block, part) in Self::pieces(at, buf.len()) {
            let from = at + part.start as u64;
            match self.has(block) {
                true => self.file.read_exact_at(&mut buf[part], from)?,
                false => buf[part].fill(0),
            }
        }
        Ok(())
    }

    /// Writes bytes at offset `at` that lie inside the disk. Zeroes to a block without data are not
    /// written, so that it takes no space.
    ///
    /// # Errors
    /// The file can't be written, for example because the host's disk is full.
    pub fn write(&mut self, at: u64, buf: &[u8]) -> io::Result<()> {
        debug_assert!(at + buf.len() as u64 <= self.capacity);
        for (block, part) in Self::pieces(at, buf.len()) {
            let from = at + part.start as u64;
            let bytes = &buf[part];
            if !self.has(block) {
                if zeroes(bytes) {
                    continue;
                }
                self.set(block);
            }
            self.file.write_all_at(bytes, from)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn store(bytes: u64) -> Store {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        Store::new(file).unwrap()
    }

    #[test]
    fn zeroes_take_no_room_and_everything_reads_back() {
        let mut s = store(1 << 30);
        s.write(0, &vec![0; 1 << 20]).unwrap();
        assert_eq!(s.file.metadata().unwrap().blocks(), 0);
        let text = b"over a border";
        s.write(2 * BLOCK - 5, text).unwrap();
        s.write(9 * BLOCK + 512, &[7; 512]).unwrap();
        let mut back = vec![1; 4 * BLOCK as usize];
        s.read(BLOCK, &mut back).unwrap();
        let at = BLOCK as usize - 5;
        assert_eq!(&back[at..at + text.len()], text);
        assert!(
            back[..at]
                .iter()
                .chain(&back[at + text.len()..])
                .all(|b| *b == 0)
        );
        // Zeroes over data must be written.
        s.write(2 * BLOCK - 5, &[0; 13]).unwrap();
        s.read(BLOCK, &mut back).unwrap();
        assert!(zeroes(&back));
        assert!(s.file.metadata().unwrap().blocks() * 512 <= 4 * BLOCK);
    }

    #[test]
    fn a_file_keeps_what_it_has() {
        let mut s = store(1 << 20);
        s.write(700, b"x").unwrap();
        let again = Store::new(s.file).unwrap();
        let mut byte = [0];
        again.read(700, &mut byte).unwrap();
        assert_eq!((&byte, again.capacity()), (b"x", 1 << 20));
    }

    #[test]
    fn one_byte_that_is_not_zero_is_seen_anywhere() {
        for at in 0..100 {
            let mut bytes = vec![0; 100];
            assert!(zeroes(&bytes));
            bytes[at] = 1;
            assert!(!zeroes(&bytes));
        }
    }
}
