//! The seam between the cache and the operating system: every system call on a file goes through
//! it.
//!
//! [`Os`] makes the calls. Tests put a world of their own beneath the cache that answers short,
//! fails, or loses power. Beside a system call the indirection costs nothing that can be measured.
//!
//! Calls are answered as the system answers them: short, interrupted or not at all. Going on after
//! a short answer and asking again after `EINTR` is the cache's business.

use crate::file::Error;
use rustix::fs::{FileType, Mode, OFlags, fstat, fstatfs};
use rustix::io::{Errno, preadv, pwritev, retry_on_intr};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What a file is, whatever its names are: it stays the same until the last descriptor of the file
/// is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The device it lies on (`st_dev`).
    pub device: u64,
    /// Its inode there (`st_ino`).
    pub inode: u64,
}

/// A file that was opened.
pub struct Opened {
    /// Which one.
    pub id: FileId,
    /// Its length in bytes.
    pub len: u64,
    /// Its calls.
    pub file: Box<dyn Backing>,
}

/// Where the files of a cache come from.
pub trait Storage: Send + Sync {
    /// Opens a regular file for reading and writing, and creates it if it is missing.
    ///
    /// # Errors
    /// [`Error::Io`] as open(2), [`Error::NotRegular`] for what is no regular file.
    fn open(&self, path: &Path) -> Result<Opened, Error>;
}

/// An open file beneath the cache. Calls may come from several threads at once.
pub trait Backing: Send + Sync {
    /// preadv(2); 0: the file ends at or before `at`.
    ///
    /// # Errors
    /// As preadv(2).
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno>;
    /// pwritev(2).
    ///
    /// # Errors
    /// As pwritev(2).
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno>;
    /// ftruncate(2).
    ///
    /// # Errors
    /// As ftruncate(2); the length is then what it was.
    fn truncate(&self, len: u64) -> Result<(), Errno>;
    /// fsync(2).
    ///
    /// # Errors
    /// As fsync(2): what was written since the last one that succeeded may not be on the device,
    /// and a further call that succeeds does not say that it is.
    fn sync(&self) -> Result<(), Errno>;
    /// Whether the file has a name yet (`st_nlink`).
    ///
    /// # Errors
    /// As fstat(2).
    fn has_name(&self) -> Result<bool, Errno>;
}

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Os;

/// Filesystems (`statfs(2)`, `f_type`) whose regular files are made up as they are read: their
/// lengths say nothing, and to write them is to give an order.
const MADE_UP: [(u32, &str); 13] = [
    (0x9fa0, "procfs"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0xde5e_81e4, "efivarfs"),
    (0xcafe_4a11, "bpf"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x6165_676c, "pstore"),
    (0x4249_4e4d, "binfmt_misc"),
];

fn kind(t: FileType) -> &'static str {
    match t {
        FileType::Directory => "a directory",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::Symlink => "a symbolic link",
        _ => "of an unknown kind",
    }
}

impl Storage for Os {
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        // A FIFO must not hold us up before it can be refused.
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let open = || rustix::fs::open(path, flags, Mode::from_raw_mode(0o666));
        let file = match retry_on_intr(open) {
            Err(Errno::ISDIR) => return Err(Error::NotRegular("a directory")),
            other => other.map_err(Error::Io)?,
        };
        let stat = fstat(&file).map_err(Error::Io)?;
        let t = FileType::from_raw_mode(stat.st_mode);
        if t != FileType::RegularFile {
            return Err(Error::NotRegular(kind(t)));
        }
        let f_type = fstatfs(&file).map_err(Error::Io)?.f_type as u32;
        if let Some((_, name)) = MADE_UP.iter().find(|(t, _)| *t == f_type) {
            return Err(Error::NotRegular(name));
        }
        let length = |size| u64::try_from(size).map_err(|_| Error::Io(Errno::OVERFLOW));
        let mut len = length(stat.st_size)?;
        // The list above is not everything that there is. A file that somebody makes longer meanwhile
        // says so when it is asked again.
        let mut byte = [0];
        let more = || preadv(&file, &mut [IoSliceMut::new(&mut byte)], 0);
        if len == 0 && retry_on_intr(more).map_err(Error::Io)? > 0 {
            len = length(fstat(&file).map_err(Error::Io)?.st_size)?;
            if len == 0 {
                return Err(Error::NotRegular("longer than it says"));
            }
        }
        Ok(Opened {
            id: FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
            },
            len,
            file: Box::new(file),
        })
    }
}

impl Backing for OwnedFd {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        preadv(self, parts, at)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        pwritev(self, parts, at)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        rustix::fs::ftruncate(self, len)
    }

    fn sync(&self) -> Result<(), Errno> {
        rustix::fs::fsync(self)
    }

    fn has_name(&self) -> Result<bool, Errno> {
        Ok(fstat(self)?.st_nlink > 0)
    }
}
