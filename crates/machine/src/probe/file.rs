//! The temporary file of a probe.

use super::{LEAST_SIZE, Options, ProbeError};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Alignment of memory and file offsets, sufficient for any device.
const ALIGN: usize = 4096;

/// The magic numbers of tmpfs and ramfs, from `linux/magic.h`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// An open file without a name.
#[derive(Debug)]
pub struct Scratch {
    file: File,
    /// Whether I/O bypasses the page cache. If not, writes are synchronous, and reads come from the
    /// page cache unless the system dropped the pages on request.
    pub direct: bool,
    /// Device number of the filesystem.
    pub device: String,
    /// Size of the filesystem in bytes.
    pub filesystem_bytes: u64,
}

/// Returns a function that turns an error of the system into the probe's error; `what` names the
/// failed operation.
fn failed(what: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |source| ProbeError::System { what, source }
}

impl Scratch {
    /// Creates a file in the probe's folder and unlinks it at once, so that none is left however
    /// the program ends. Direct I/O is used where the filesystem has it.
    ///
    /// # Errors
    /// The folder can't be used, has no space for twice the size, or the system refuses.
    pub fn create(options: &Options) -> Result<Self, ProbeError> {
        let input = |what: String, accepted: &str| ProbeError::Input {
            what,
            accepted: format!("accepted: {accepted}"),
        };
        let shown = options.dir.display();
        let meta = std::fs::metadata(&options.dir)
            .map_err(|e| input(format!("{shown}: {e}"), "a folder that can be written to"))?;
        if !meta.is_dir() {
            return Err(input(
                format!("{shown} is not a folder"),
                "a folder that can be written to",
            ));
        }
        let kind = rustix::fs::statfs(&options.dir)
            .map_err(|e| failed("asking for the filesystem's kind")(e.into()))?;
        if IN_MEMORY.contains(&(kind.f_type as u64 & 0xffff_ffff)) {
            return Err(input(
                format!("{shown} is on a filesystem in memory, without a device to measure"),
                "a folder on a block device",
            ));
        }
        let space = rustix::fs::statvfs(&options.dir)
            .map_err(|e| failed("asking for the free space")(e.into()))?;
        // Half of the free space, in bytes.
        let room = space.f_bavail.saturating_mul(space.f_frsize) / 2;
        if options.size > room {
            let at_most = room / LEAST_SIZE * (LEAST_SIZE >> 20);
            return Err(input(
                format!(
                    "{shown} has {} MiB free; a probe of {} MiB would take more than half",
                    2 * (room >> 20),
                    options.size >> 20
                ),
                &if at_most == 0 {
                    "a filesystem with 32 MiB free or more".to_owned()
                } else {
                    format!("--probe-size {at_most}M or less, or another folder")
                },
            ));
        }
        let path = options
            .dir
            .join(format!(".lowmark-probe-{}", std::process::id()));
        let (file, direct) = open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                input(format!("{shown}: {e}"), "a folder that can be written to")
            }
            _ => failed("making the temporary file")(e),
        })?;
        std::fs::remove_file(&path).map_err(failed("unlinking the temporary file"))?;
        Ok(Self {
            device: number(&meta),
            filesystem_bytes: space.f_blocks.saturating_mul(space.f_frsize),
            file,
            direct,
        })
    }

    /// Fills the buffer from offset `at` of the file, in bytes; the offset must be a multiple of
    /// 4096.
    ///
    /// # Errors
    /// The read fails.
    pub fn read(&self, buffer: &mut Buffer, at: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer.bytes_mut(), at)
    }

    /// Writes the buffer at offset `at` of the file, in bytes; the offset must be a multiple of
    /// 4096.
    ///
    /// # Errors
    /// The write fails.
    pub fn write(&self, buffer: &Buffer, at: u64) -> io::Result<()> {
        self.file.write_all_at(buffer.bytes(), at)
    }

    /// Waits until all written data is on the device.
    ///
    /// # Errors
    /// The sync fails.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Asks the system to drop the file's cached pages, so that reads reach the device. Direct I/O
    /// has none.
    pub fn forget(&self) {
        if !self.direct {
            let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

/// Creates the file for reading and writing. Returns it, and true if its I/O bypasses the page
/// cache; on a filesystem without direct I/O writes are synchronous instead (`O_DSYNC`).
fn open(path: &Path) -> io::Result<(File, bool)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
        Ok(fd) => Ok((File::from(fd), true)),
        Err(rustix::io::Errno::INVAL) => {
            // A filesystem without direct access may have created the file nevertheless.
            let _ = std::fs::remove_file(path);
            let fd = rustix::fs::open(path, flags | OFlags::DSYNC, mode)?;
            Ok((File::from(fd), false))
        }
        Err(e) => Err(e.into()),
    }
}

/// Returns `MAJOR:MINOR` of the device that a file lies on.
fn number(meta: &std::fs::Metadata) -> String {
    let dev = meta.dev();
    format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev))
}

/// Aligned memory for one operation.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// Makes a buffer of `len` bytes, aligned for direct I/O, that no device can compress or
    /// deduplicate: pseudo-random numbers from `seed`.
    pub fn new(len: usize, seed: u64) -> Self {
        let mut memory = vec![0; len + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        // Marsaglia's xorshift generator.
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for word in memory[start..start + len].chunks_exact_mut(8) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            word.copy_from_slice(&x.to_le_bytes());
        }
        Self { memory, start, len }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// Returns the aligned bytes, to read into.
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
