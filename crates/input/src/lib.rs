#![doc = include_str!("../README.md")]

use rustix::fs::{FileType, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The kernel's number for the filesystem of pipes without a name (`PIPEFS_MAGIC` of
/// include/uapi/linux/magic.h).
const PIPEFS: i64 = 0x5049_5045;

/// Opens a regular file that a user named, without waiting for anything.
///
/// # Errors
/// The file can't be opened, or is something else: a folder, a pipe, a device.
pub fn file(path: &Path) -> Result<File> {
    let (file, kind) = opened(path)?;
    match kind {
        Kind::File => Ok(file),
        Kind::Pipe => Err(refused("a pipe")),
    }
}

/// Opens a regular file, or a pipe that was passed as a descriptor (`/dev/fd/3`) and can be read
/// once. Reads of the pipe wait for data.
///
/// # Errors
/// The path can't be opened, or is something else: a folder, a named pipe, a device.
pub fn stream(path: &Path) -> Result<File> {
    match opened(path)? {
        (file, Kind::File) => Ok(file),
        // Opened again without `NONBLOCK`, so that reads wait for data: opening an unnamed pipe
        // does not block.
        (_, Kind::Pipe) => File::open(path),
    }
}

/// Reads a whole file or pipe of at most `most` bytes; a longer one is an error.
///
/// # Errors
/// As [`stream`]; or it can't be read, or is longer.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let what = match most >> 20 {
            0 => format!("it is longer than {most} bytes"),
            mib => format!("it is longer than {mib} MiB"),
        };
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Reads a whole file or pipe as a text of at most `most` bytes; a longer one is an error.
///
/// # Errors
/// As [`bytes`]; or it is not UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String> {
    let read = String::from_utf8(bytes(path, most)?);
    read.map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text (UTF-8)"))
}

/// The kind of an opened input.
enum Kind {
    File,
    /// An unnamed pipe.
    Pipe,
}

/// Opens a file or an unnamed pipe without blocking, and returns its kind; anything else is
/// refused, a device before it is opened.
fn opened(path: &Path) -> Result<(File, Kind)> {
    // Checked before opening, because opening a device may have an effect.
    let named = rustix::fs::stat(path)?;
    if let Some(what) = other(FileType::from_raw_mode(named.st_mode)) {
        return Err(refused(what));
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    // Checked again, because another file may have the name by now.
    let stat = rustix::fs::fstat(&file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if let Some(what) = other(kind) {
        return Err(refused(what));
    }
    if kind == FileType::RegularFile {
        return Ok((file, Kind::File));
    }
    match rustix::fs::fstatfs(&file)?.f_type as i64 {
        PIPEFS => Ok((file, Kind::Pipe)),
        _ => Err(refused("a named pipe")),
    }
}

/// Returns the words for a path that is neither a file nor a pipe; `None` if it is one of the two.
fn other(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile | FileType::Fifo => None,
        FileType::Directory => Some("a folder"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        _ => Some("a socket"),
    }
}

/// Makes the error that a path is `what`, and no file.
fn refused(what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!("it is {what}, and no file"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write(&path, "abc").unwrap();
        assert_eq!(text(&path, 3).unwrap(), "abc");
        assert_eq!(bytes(&path, 3).unwrap(), b"abc");
        let long = text(&path, 2).unwrap_err().to_string();
        assert_eq!(long, "it is longer than 2 bytes");
        write(&path, [0xff]).unwrap();
        assert!(text(&path, 9).unwrap_err().to_string().contains("no text"));
        assert_eq!(file(&path).unwrap().metadata().unwrap().len(), 1);
        let gone = file(&dir.path().join("g")).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_has_no_end_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        for (path, what) in [
            (fifo.as_path(), "it is a named pipe, and no file"),
            (dir.path(), "it is a folder, and no file"),
            (Path::new("/dev/zero"), "it is a device, and no file"),
        ] {
            for said in [
                file(path).map(|_| ()),
                stream(path).map(|_| ()),
                text(path, 10).map(|_| ()),
            ] {
                assert_eq!(said.unwrap_err().to_string(), what, "{}", path.display());
            }
        }
    }

    /// The form of `<(…)` and `/dev/stdin`.
    #[test]
    fn a_pipe_that_was_passed_is_read() {
        let (from, mut to) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", from.as_raw_fd());
        let path = Path::new(&path);
        let refused = file(path).unwrap_err().to_string();
        assert_eq!(refused, "it is a pipe, and no file");
        let writer = std::thread::spawn(move || {
            // After the reader has opened it.
            std::thread::sleep(std::time::Duration::from_millis(50));
            to.write_all(b"abc").unwrap();
        });
        assert_eq!(text(path, 10).unwrap(), "abc");
        writer.join().unwrap();
        let endless = std::io::pipe().unwrap();
        let (from, mut to) = endless;
        let path = format!("/proc/self/fd/{}", from.as_raw_fd());
        let writer = std::thread::spawn(move || while to.write_all(&[b'x'; 512]).is_ok() {});
        let long = text(Path::new(&path), 4096).unwrap_err().to_string();
        assert!(long.contains("longer than 4096 bytes"), "{long}");
        drop(from);
        writer.join().unwrap();
    }
}
