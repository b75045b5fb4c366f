//! The interface between the cache and the operating system: every system call on a file goes
//! through it.
//!
//! [`Os`] makes the calls. Tests put other implementations beneath the cache, which answer short,
//! fail, or lose power. The indirection costs nothing measurable beside a system call.
//!
//! Calls return what the system returns: short counts, `EINTR`, errors. The cache continues after a
//! short count and repeats after `EINTR`.
//!
//! Background transfers (read-ahead, writeback) go by a ring (`uring`), if the storage has
//! descriptors for it ([`Storage::rings`], [`Backing::way`]) and the system has a ring; otherwise
//! threads make the calls. A task that misses a page makes the call itself: a ring would cost it
//! two more context switches.
//!
//! # `O_DIRECT`
//!
//! The system's page cache would hold every page a second time, outside of the budget. So [`Os`]
//! opens a file twice, with `O_DIRECT` and without. Whole pages go by the first descriptor; the
//! last part of a file whose size is not a multiple of a page goes by the second, so the file is
//! never longer than it should be, not even for a moment. The system keeps the two coherent: before
//! a direct transfer it writes back or drops its own pages of the range. On a filesystem without
//! `O_DIRECT` only the second is used.

use crate::error::Error;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, fstatfs};
use rustix::io::{Errno, preadv, pwritev, retry_on_intr};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

/// The identity of a file, independent of its names: it stays the same until the last descriptor of
/// the file is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The device it is on (`st_dev`).
    pub device: u64,
    /// Its inode number (`st_ino`).
    pub inode: u64,
}

/// How a file is opened: [`crate::Cache::open_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// The handle reads.
    pub read: bool,
    /// The handle writes. A file that no handle writes is opened for reading only, so that a file
    /// which the process may not write, or one on a read-only filesystem, can be read.
    pub write: bool,
    /// The file is created if it is missing; only with `write`.
    pub create: bool,
    /// The file must be missing: `EEXIST` if it is there; only with `create`.
    pub exclusive: bool,
}

impl OpenOptions {
    /// Opens a file that exists to be read.
    pub const READ: Self = Self {
        read: true,
        write: false,
        create: false,
        exclusive: false,
    };

    /// Returns true if the options fit together: the file is read or written, created only if it
    /// is written, and exclusive only if it is created.
    pub fn is_valid(self) -> bool {
        (self.read || self.write) && self.write >= self.create && self.create >= self.exclusive
    }
}

impl Default for OpenOptions {
    /// Reads and writes, and creates the file if it is missing: the options of
    /// [`crate::Cache::open`].
    fn default() -> Self {
        Self {
            write: true,
            create: true,
            ..Self::READ
        }
    }
}

/// A file that was opened.
pub struct Opened {
    /// Its identity.
    pub id: FileId,
    /// Its length in bytes.
    pub len: u64,
    /// Its system calls.
    pub file: Box<dyn Backing>,
}

/// The source of a cache's files.
pub trait Storage: Send + Sync {
    /// Opens a regular file for reading and writing, and creates it if it is missing.
    ///
    /// # Errors
    /// [`Error::Io`] as open(2); [`Error::NotRegular`] if the path names something else than a
    /// regular file.
    fn open(&self, path: &Path) -> Result<Opened, Error>;

    /// Opens a regular file as `how` says; [`OpenOptions::default`] is [`Storage::open`]. A file
    /// is always opened for reading, because a write of a part of a page reads the page first.
    ///
    /// # Errors
    /// As [`Storage::open`]. A storage that does not implement this refuses other options:
    /// [`Error::Io`] with `EOPNOTSUPP`.
    fn open_with(&self, path: &Path, how: OpenOptions) -> Result<Opened, Error> {
        match (how.write && how.create, how.exclusive) {
            (true, false) => self.open(path),
            _ => Err(Error::Io(Errno::OPNOTSUPP)),
        }
    }

    /// Returns true if its files have descriptors for a ring ([`Backing::way`]).
    fn rings(&self) -> bool {
        false
    }
}

/// How a ring makes a transfer.
#[derive(Debug, Clone, Copy)]
pub struct Way<'a> {
    /// The descriptor to use.
    pub descriptor: BorrowedFd<'a>,
    /// Bytes to transfer by it, at least 1 and at most what was asked for; the cache asks again for
    /// the rest.
    pub most: usize,
}

/// An open file beneath the cache. Calls may come from several threads at once.
pub trait Backing: Send + Sync {
    /// Reads as preadv(2); 0: the file ends at or before `at`.
    ///
    /// # Errors
    /// As preadv(2).
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno>;
    /// Writes as pwritev(2).
    ///
    /// # Errors
    /// As pwritev(2).
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno>;
    /// Truncates or extends the file as ftruncate(2).
    ///
    /// # Errors
    /// As ftruncate(2); the file then has its old length.
    fn truncate(&self, len: u64) -> Result<(), Errno>;
    /// Syncs the file as fsync(2).
    ///
    /// # Errors
    /// As fsync(2): data written since the last sync that succeeded may not be on the device, and a
    /// later sync that succeeds does not prove that it is.
    fn sync(&self) -> Result<(), Errno>;
    /// Returns true if the file still has a name (`st_nlink`).
    ///
    /// # Errors
    /// As fstat(2).
    fn has_name(&self) -> Result<bool, Errno>;

    /// Locks the file, against caches that would change it beside this one: exclusively if the
    /// cache may write it. Returns at once. The lock ends with [`Backing::unlock`] or when this
    /// value is dropped.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: another cache has the file.
    fn lock(&self, exclusive: bool) -> Result<(), Errno> {
        let _ = exclusive;
        Ok(())
    }

    /// Ends the lock of [`Backing::lock`].
    fn unlock(&self) {}

    /// Returns how a ring transfers `len` bytes at `at`, as [`Backing::read`] and
    /// [`Backing::write`] would. The memory consists of whole pages, except for a shorter last one.
    /// Called once for each transfer. `None`: only those calls can do it.
    ///
    /// # Errors
    /// The result of the transfer, without using a ring.
    fn way(&self, write: bool, at: u64, len: usize) -> Result<Option<Way<'_>>, Errno> {
        let _ = (write, at, len);
        Ok(None)
    }

    /// Returns true if a transfer that a ring ended with `errno` is to be tried once more by
    /// another way.
    fn other_way(&self, errno: Errno) -> bool {
        let _ = errno;
        false
    }
}

/// The operating system's files.
#[derive(Debug, Clone, Copy)]
pub struct Os {
    /// True: bypass the system's page cache where the filesystem can (`O_DIRECT`).
    pub direct: bool,
}

impl Default for Os {
    fn default() -> Self {
        Self { direct: true }
    }
}

/// Alignment in bytes of memory, position and length of a direct transfer.
const ALIGNED: usize = 4096;

/// A file of [`Os`].
struct OsFile {
    file: OwnedFd,
    /// The same file with `O_DIRECT`.
    direct: Option<OwnedFd>,
    /// True if the filesystem accepted `O_DIRECT` at open and then refused a transfer.
    refused: AtomicBool,
}

/// Filesystems (`statfs(2)`, `f_type`) whose regular files are generated as they are read: their
/// sizes mean nothing, and a write to them is a command.
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

/// Describes a type of file for an error message.
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
        self.open_with(path, OpenOptions::default())
    }

    /// Opens a regular file, with `O_DIRECT` as well if possible. Refuses files that are not
    /// regular, and those of filesystems that generate contents.
    fn open_with(&self, path: &Path, how: OpenOptions) -> Result<Opened, Error> {
        // Without O_NONBLOCK the open of a FIFO would block before it can be refused.
        let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        flags |= access(how.write);
        flags.set(OFlags::CREATE, how.create);
        flags.set(OFlags::EXCL, how.exclusive);
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
        // The list above is not complete: a file of size 0 that has a byte to read is refused, too,
        // unless another process has just extended it.
        let mut byte = [0];
        let more = || preadv(&file, &mut [IoSliceMut::new(&mut byte)], 0);
        if len == 0 && retry_on_intr(more).map_err(Error::Io)? > 0 {
            len = length(fstat(&file).map_err(Error::Io)?.st_size)?;
            if len == 0 {
                return Err(Error::NotRegular("longer than it says"));
            }
        }
        let direct = self.direct.then(|| open_direct(&file, how.write)).flatten();
        Ok(Opened {
            id: FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
            },
            len,
            file: Box::new(OsFile {
                file,
                direct,
                refused: AtomicBool::new(false),
            }),
        })
    }

    fn rings(&self) -> bool {
        true
    }
}

/// Returns the access mode of a file that is read, and written if `write` is true.
fn access(write: bool) -> OFlags {
    match write {
        true => OFlags::RDWR,
        false => OFlags::RDONLY,
    }
}

/// Opens the same file again with `O_DIRECT`, by its descriptor, because the path may name another
/// file by now. `None`: the filesystem has no direct I/O.
fn open_direct(file: &OwnedFd, write: bool) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd as _;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let flags = access(write) | OFlags::CLOEXEC | OFlags::DIRECT;
    retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty())).ok()
}

impl OsFile {
    /// Returns the descriptor for a transfer of `len` bytes at byte `at`, and how many bytes can go
    /// by it: whole aligned blocks by the direct one, the rest by the other.
    fn way(&self, at: u64, len: usize) -> Way<'_> {
        let whole = len - len % ALIGNED;
        let aligned = at.is_multiple_of(ALIGNED as u64) && whole > 0;
        match &self.direct {
            Some(direct) if aligned && !self.refused.load(SeqCst) => Way {
                descriptor: direct.as_fd(),
                most: whole,
            },
            _ => Way {
                descriptor: self.file.as_fd(),
                most: len,
            },
        }
    }

    /// Returns true if `errno` may mean that the filesystem refuses direct transfers, so that the
    /// caller repeats the transfer; no further direct ones are made then.
    fn no_more_direct(&self, errno: Errno) -> bool {
        let refused = errno == Errno::INVAL && self.direct.is_some();
        if refused {
            self.refused.store(true, SeqCst);
        }
        refused
    }

    /// Returns true if all addresses and lengths of the parts are aligned for direct transfers.
    fn suits(parts: impl Iterator<Item = (usize, usize)>) -> bool {
        let bits = parts.fold(0, |bits, (at, len)| bits | at | len);
        bits.is_multiple_of(ALIGNED)
    }
}

impl Backing for OsFile {
    /// Reads at byte `at`, directly if the memory is aligned for that.
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        let suits = Self::suits(parts.iter().map(|p| (p.as_ptr() as usize, p.len())));
        let way = OsFile::way(self, at, usize::from(suits) * ALIGNED);
        match preadv(way.descriptor, parts, at) {
            Err(e) if self.no_more_direct(e) => preadv(&self.file, parts, at),
            answer => answer,
        }
    }

    /// Writes at byte `at`, directly if the memory is aligned for that; may write only the whole
    /// pages, and the caller asks again for the rest.
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        // Whole pages first; the cache asks again for the rest.
        let whole = parts.iter().take_while(|p| p.len().is_multiple_of(ALIGNED));
        let whole = &parts[..whole.count()];
        let suits = Self::suits(whole.iter().map(|p| (p.as_ptr() as usize, p.len())));
        let first = usize::from(suits && !whole.is_empty()) * ALIGNED;
        let way = OsFile::way(self, at, first);
        let now = if first > 0 { whole } else { parts };
        match pwritev(way.descriptor, now, at) {
            Err(e) if self.no_more_direct(e) => pwritev(&self.file, now, at),
            answer => answer,
        }
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        self.file.truncate(len)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.file.sync()
    }

    fn has_name(&self) -> Result<bool, Errno> {
        self.file.has_name()
    }

    /// Locks the file with flock(2), which other processes see as well. A filesystem without such
    /// locks leaves the file unlocked.
    fn lock(&self, exclusive: bool) -> Result<(), Errno> {
        let operation = match exclusive {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        match retry_on_intr(|| flock(&self.file, operation)) {
            Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
            _ => Ok(()),
        }
    }

    fn unlock(&self) {
        // It fails only where there was no lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    fn way(&self, _: bool, at: u64, len: usize) -> Result<Option<Way<'_>>, Errno> {
        Ok(Some(OsFile::way(self, at, len)))
    }

    fn other_way(&self, errno: Errno) -> bool {
        self.no_more_direct(errno)
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
