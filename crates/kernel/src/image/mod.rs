//! Disks for guests: filesystems, swap areas and partition tables in sparse files, with the same
//! bytes every time.
//!
//! Filesystems are made by their own tools. Random numbers, the clock and the user's identity are
//! fixed by the library that is built with every kernel (`build/fixed.c`); defaults that depend on
//! the host's settings or the tool's version are given on the command line, with the values of
//! Debian 12.

mod areas;
mod cached;
mod error;
mod folder;
mod sparse;

pub use areas::{ALIGN, Partitions, partitioned, swap_header, swap_page};
pub use cached::{Images, MOST};
pub use error::ImageError;
pub use folder::digest as folder_digest;
pub use sparse::{copy, copy_data, dig};

use sim::FsKind;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The filesystems that guests have.
pub const KINDS: [FsKind; 4] = [FsKind::Ext4, FsKind::Ext3, FsKind::Xfs, FsKind::Btrfs];

/// The creation time of all filesystems, in seconds since the epoch: 2020-09-13 12:26:40 UTC.
pub const MADE: u64 = 1_600_000_000;

/// Replaces /etc/mke2fs.conf, with the values of Debian 12. Small disks get the same blocks as
/// large ones.
const MKE2FS: &str = "[defaults]
base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
default_mntopts = acl,user_xattr
enable_periodic_fsck = 0
blocksize = 4096
inode_size = 256
inode_ratio = 16384
[fs_types]
ext3 = {
features = has_journal
}
ext4 = {
features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
}
";

/// Returns the fixed UUID with this number, of version 8, which RFC 9562 leaves to applications.
fn uuid(number: u8) -> [u8; 16] {
    let mut out = *b"lowmark\0\0\0\0\0\0\0\0\0";
    out[6] = 0x80;
    out[8] = 0x80;
    out[15] = number;
    out
}

/// Returns the fixed UUID with this number in its usual form of digits and hyphens.
fn uuid_text(number: u8) -> String {
    let hex = crate::build::hex(&uuid(number));
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// Returns a temporary name for a file or folder that is being made, unique among processes and
/// threads.
fn new_name(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}-{number}{NEW}", std::process::id()));
    PathBuf::from(new)
}

/// The end of temporary names.
const NEW: &str = ".new";

/// Makes a file that appears at `path` only when `make`, which is given a temporary path and the
/// open file, has completed it.
pub(crate) fn new_file(
    path: &Path,
    make: impl FnOnce(&Path, &File) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let new = new_name(path);
    let made = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(&new)
        .map_err(|e| ImageError::io("can't write", &new, e))
        .and_then(|file| make(&new, &file))
        .and_then(|()| fs::rename(&new, path).map_err(|e| ImageError::io("can't write", path, e)));
    if made.is_err() {
        let _ = fs::remove_file(&new);
    }
    made
}

/// Returns the program that makes a filesystem, and the Debian package that contains it.
fn maker(kind: FsKind) -> Result<(&'static str, &'static str), ImageError> {
    match kind {
        FsKind::Ext4 | FsKind::Ext3 => Ok(("mke2fs", "e2fsprogs")),
        FsKind::Xfs => Ok(("mkfs.xfs", "xfsprogs")),
        FsKind::Btrfs => Ok(("mkfs.btrfs", "btrfs-progs")),
        other => Err(ImageError::input(
            format!("a kernel guest has no {}", other.name()),
            KINDS.map(FsKind::name).join(", "),
        )),
    }
}

/// Finds a tool in `PATH`, or in the folders where Debian has the superuser's. The error names the
/// Debian `package` to install.
fn find_tool(name: &str, package: &str) -> Result<PathBuf, ImageError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut places = folders.filter(|f| f.is_absolute()).map(|f| f.join(name));
    places.find(|p| p.is_file()).ok_or_else(|| {
        ImageError::input(
            format!("the filesystem can't be made: there is no {name}"),
            format!("`apt install {package}` first"),
        )
    })
}

/// Returns a tool's command with a fixed environment, and with a fixed random seed and clock by the
/// library `preload`.
fn fixed(tool: &Path, preload: &Path) -> Command {
    let mut command = Command::new(tool);
    command
        .env_clear()
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LD_PRELOAD", preload)
        .env("LOWMARK_SEED", "1")
        .env("LOWMARK_TIME", MADE.to_string());
    command
}

/// Makes a filesystem of `capacity` bytes in a new sparse file. Its bytes depend only on kind,
/// capacity and the tool's version; no initialisation is left for the mounted filesystem to do in
/// the background.
///
/// `preload` is the library of a kernel that was built ([`crate::build::Built::preload`]).
///
/// # Errors
/// Guests do not support the filesystem, its tool is missing or refuses the size, or the file can't
/// be written.
pub fn create(kind: FsKind, capacity: u64, path: &Path, preload: &Path) -> Result<(), ImageError> {
    make(kind, capacity, path, preload, &[])
}

/// Makes a filesystem of `capacity` bytes in a new sparse file, as `create` does; `more` are
/// further arguments of the filesystem's tool.
fn make(
    kind: FsKind,
    capacity: u64,
    path: &Path,
    preload: &Path,
    more: &[&std::ffi::OsStr],
) -> Result<(), ImageError> {
    let (name, package) = maker(kind)?;
    let tool = find_tool(name, package)?;
    if !preload.is_file() {
        return Err(ImageError::input(
            format!("there is no {}", preload.display()),
            "a kernel that was built: `lowmark kernel list`",
        ));
    }
    new_file(path, |path, file| {
        file.set_len(capacity)
            .map_err(|e| ImageError::io("can't write", path, e))?;
        let settings = tempfile::NamedTempFile::new()
            .and_then(|f| fs::write(f.path(), MKE2FS).map(|()| f))
            .map_err(|e| ImageError::io("can't write", &std::env::temp_dir(), e))?;
        let mut command = fixed(&tool, preload);
        command.env("MKE2FS_CONFIG", settings.path());
        command.args(options(kind)).args(more).arg(path);
        let output = command
            .output()
            .map_err(|e| ImageError::io("can't run", &tool, e))?;
        if !output.status.success() {
            return Err(refused(kind, capacity, path, &output.stderr));
        }
        dig(file, path)
    })
}

/// Returns the options of the tool that makes a filesystem of this kind: fixed UUIDs, and the
/// values of Debian 12 for all that a tool's defaults could change.
fn options(kind: FsKind) -> Vec<String> {
    let (uuid, second) = (uuid_text(1), uuid_text(2));
    let all = match kind {
        FsKind::Ext4 | FsKind::Ext3 => format!(
            "-q -F -t {} -T {0} -b 4096 -U {uuid} -E \
             hash_seed={second},lazy_itable_init=0,lazy_journal_init=0,nodiscard,root_owner=0:0",
            kind.name()
        ),
        FsKind::Xfs => format!(
            "-q -f -K -b size=4096 -d agcount=4 -i size=512,sparse=1,nrext64=0 -m \
             uuid={uuid},crc=1,finobt=1,rmapbt=0,reflink=1,bigtime=1,inobtcount=1"
        ),
        _ => format!("-q -f -K -U {uuid} -m dup -d single -n 16384 -s 4096"),
    };
    all.split(' ').map(str::to_owned).collect()
}

/// Turns the output of a filesystem's tool that failed into an error.
fn refused(kind: FsKind, capacity: u64, path: &Path, output: &[u8]) -> ImageError {
    let output = String::from_utf8_lossy(output);
    if output.contains("No space left") {
        return ImageError::Full(path.to_owned());
    }
    let lines = output
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("Usage"));
    let message: Vec<&str> = lines.take(2).collect();
    let message = message
        .join(" ")
        .replace(&path.display().to_string(), "the disk");
    ImageError::input(
        format!(
            "{} can't be made on a disk of {capacity} bytes: {message}",
            kind.name()
        ),
        "a disk as large as this filesystem needs: 8 MiB for ext3 and ext4, 300 MiB for xfs, \
         128 MiB for btrfs; see also the tool's message",
    )
}

/// The space that a folder's files take in an ext4.
#[derive(Debug, Default)]
struct Taken {
    /// Bytes, in whole blocks.
    bytes: u64,
    /// Number of inodes.
    inodes: u64,
}

impl Taken {
    /// Adds the blocks and inodes that the contents of a folder take, subfolders included.
    fn add(&mut self, folder: &Path) -> Result<(), ImageError> {
        let io = |e| ImageError::io("can't read", folder, e);
        for entry in fs::read_dir(folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            let meta = entry.metadata().map_err(io)?;
            self.inodes += 1;
            // One more block for each name, as an index block or directory may need it.
            self.bytes += (meta.size().min(meta.blocks() * 512)).next_multiple_of(4096) + 4096;
            if meta.is_dir() {
                self.add(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Makes an ext4 in a new sparse file that holds a folder's contents, modes and links, all owned by
/// the superuser and of one time. `capacity` is its size in bytes; `None`: a quarter more than the
/// files take, and 64 MiB. Returns its size in bytes.
///
/// # Errors
/// As [`create`]; or the folder can't be read or is too large.
pub fn from_folder(
    root: &Path,
    capacity: Option<u64>,
    path: &Path,
    preload: &Path,
) -> Result<u64, ImageError> {
    if !root.is_dir() {
        return Err(ImageError::input(
            format!("{} is not a folder", root.display()),
            "a folder for a guest's root, with programs and the files that they need",
        ));
    }
    let mut taken = Taken::default();
    taken.add(root)?;
    let least = (taken.bytes / 4 * 5 + (64 << 20)).next_multiple_of(1 << 20);
    let capacity = capacity.unwrap_or(least);
    let inodes = (taken.inodes / 4 * 5 + 1024)
        .max(capacity / 16384)
        .to_string();
    let more = [
        "-N".as_ref(),
        inodes.as_ref(),
        "-d".as_ref(),
        root.as_os_str(),
    ];
    make(FsKind::Ext4, capacity, path, preload, &more).map_err(|e| match e {
        ImageError::Input { what, .. } => ImageError::input(
            format!("the files of {} don't fit: {what}", root.display()),
            format!("a disk of {least} bytes or more, a folder that its user may read"),
        ),
        e => e,
    })?;
    Ok(capacity)
}

#[cfg(test)]
mod tests;
