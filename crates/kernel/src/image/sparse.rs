//! Sparse files: copies that keep holes, and holes in place of zeroes.

use super::error::ImageError;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The unit of a hole in bytes: a page of the host's cache, and a block of its filesystems.
const GRAIN: usize = 4096;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Copies a file's data to byte `offset`, a multiple of 4096, of the file `to` and behind it.
/// Blocks of zeroes and holes are not written: there `to` keeps what it has, which is a hole in a
/// new file.
///
/// # Errors
/// Reading or writing fails, or the disk is full.
pub fn copy_data(from: &Path, to: &File, to_path: &Path, offset: u64) -> Result<(), ImageError> {
    let file = File::open(from).map_err(|e| ImageError::io("can't read", from, e))?;
    each_block(&file, |at, bytes| to.write_all_at(bytes, offset + at)).map_err(|e| match e {
        Trouble::Read(e) => ImageError::io("can't read", from, e),
        Trouble::Block(e) => ImageError::io("can't write", to_path, e),
    })
}

/// Copies a file; holes and zeroes become holes. The copy appears only when it is complete.
///
/// # Errors
/// As [`copy_data`].
pub fn copy(from: &Path, to: &Path) -> Result<(), ImageError> {
    let length = from
        .metadata()
        .map_err(|e| ImageError::io("can't read", from, e))?
        .len();
    super::new_file(to, |path, file| {
        file.set_len(length)
            .map_err(|e| ImageError::io("can't write", path, e))?;
        // Share blocks where the filesystem can.
        if rustix::fs::ioctl_ficlone(
            file,
            File::open(from).map_err(|e| ImageError::io("can't read", from, e))?,
        )
        .is_ok()
        {
            return Ok(());
        }
        copy_data(from, file, path, 0)
    })
}

/// Turns a file's zeroes into holes, where its filesystem supports that. `path` is for messages.
///
/// # Errors
/// Reading or writing fails.
pub fn dig(file: &File, path: &Path) -> Result<(), ImageError> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let (mut from, mut trouble) = (0, None);
    // Makes a hole from the end of the last data to `to`; `next` is the end of the data after it.
    let mut punch = |to: u64, next: u64| {
        if to > from
            && trouble.is_none()
            && let Err(e) = fallocate(file, hole, from, to - from)
            && e != Errno::OPNOTSUPP
        {
            trouble = Some(io::Error::from(e));
        }
        from = next;
    };
    let done = each_block(file, |at, bytes| {
        punch(at, at + bytes.len() as u64);
        Ok(())
    });
    let length = file
        .metadata()
        .map_err(|e| ImageError::io("can't read", path, e))?
        .len();
    punch(length, length);
    match (done, trouble) {
        (Err(Trouble::Read(e) | Trouble::Block(e)), _) => {
            Err(ImageError::io("can't read", path, e))
        }
        (Ok(()), Some(e)) => Err(ImageError::io("can't make a hole in", path, e)),
        (Ok(()), None) => Ok(()),
    }
}

enum Trouble {
    Read(io::Error),
    Block(io::Error),
}

/// Passes the parts of a file that are not zero to `block` in order, each with its offset in bytes,
/// in whole grains of 4096 bytes (the file's last one may be shorter).
fn each_block(
    file: &File,
    mut block: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> Result<(), Trouble> {
    let length = file.metadata().map_err(Trouble::Read)?.len();
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < length {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No more data.
            Err(Errno::NXIO) => break,
            Err(e) => return Err(Trouble::Read(e.into())),
        };
        let end = seek(file, SeekFrom::Hole(data)).map_err(|e| Trouble::Read(e.into()))?;
        at = data / GRAIN as u64 * GRAIN as u64;
        while at < end {
            let n = (length - at).min(CHUNK as u64) as usize;
            file.read_exact_at(&mut buffer[..n], at)
                .map_err(Trouble::Read)?;
            // Join neighbouring grains that have data.
            let mut run = 0..0;
            for (i, grain) in buffer[..n].chunks(GRAIN).enumerate() {
                let here = i * GRAIN;
                if grain.iter().any(|b| *b != 0) {
                    if run.end != here {
                        run.start = here;
                    }
                    run.end = here + grain.len();
                } else if run.end == here && !run.is_empty() {
                    block(at + run.start as u64, &buffer[run.clone()]).map_err(Trouble::Block)?;
                    run = 0..0;
                }
            }
            if !run.is_empty() {
                block(at + run.start as u64, &buffer[run]).map_err(Trouble::Block)?;
            }
            at += n as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use tempfile::TempDir;

    #[test]
    fn zeroes_become_holes_and_data_stays() {
        let dir = TempDir::new().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let mut bytes = vec![0_u8; 3 * CHUNK + 777];
        for at in [
            0,
            4095,
            8192,
            CHUNK - 1,
            CHUNK,
            2 * CHUNK + 5000,
            3 * CHUNK + 776,
        ] {
            bytes[at] = 1;
        }
        fs::write(&a, &bytes).unwrap();
        copy(&a, &b).unwrap();
        assert!(fs::read(&b).unwrap() == bytes);
        let file = File::options().read(true).write(true).open(&a).unwrap();
        dig(&file, &a).unwrap();
        assert!(fs::read(&a).unwrap() == bytes);
        assert!(fs::metadata(&a).unwrap().blocks() * 512 <= 10 * 4096);
        // A file of holes only.
        file.set_len(0).unwrap();
        file.set_len(1 << 40).unwrap();
        copy(&a, &b).unwrap();
        assert_eq!(fs::metadata(&b).unwrap().len(), 1 << 40);
        assert!(fs::metadata(&b).unwrap().blocks() <= 8);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
