//! The folder in which built kernels and their inputs are kept.
//!
//! ```text
//! kernels/KEY/         a finished kernel: linux, config, seed.so, log, build.toml
//! names/NAME           the key of the kernel that has this name
//! work/NAME/           where the next build of this name starts: source (a private copy, of hard
//!                      links where the filesystem allows), manifest (files and digests), objects
//! work/NAME.lock       held by the process that builds, removes or names it, and by its compilers
//! sources/PACKAGE-KEY/ a Debian source package, unpacked: tree, manifest
//! images/              filesystem images as freshly made
//! qemu/kernels/NAME/   a kernel for QEMU guests (`for_qemu`)
//! qemu/build/work/     as work/, for these
//! ```

use super::error::BuildError;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The folder in which kernels are kept.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    /// The folder in which Debian's source packages install their archives.
    pub(super) packages: PathBuf,
}

impl Cache {
    /// Returns the user's cache: `$LOWMARK_CACHE`, or `lowmark` in `$XDG_CACHE_HOME` or `~/.cache`.
    ///
    /// # Errors
    /// None of these is set, or kernels can't be built below the path ([`Cache::at`]).
    pub fn of_user() -> Result<Self, BuildError> {
        let path = |name| {
            let value = std::env::var_os(name).map(PathBuf::from);
            value.filter(|p| !p.as_os_str().is_empty())
        };
        let absolute = |name| path(name).filter(|p| p.is_absolute());
        let root = path("LOWMARK_CACHE")
            .or_else(|| absolute("XDG_CACHE_HOME").map(|p| p.join("lowmark")))
            .or_else(|| absolute("HOME").map(|p| p.join(".cache/lowmark")))
            .ok_or_else(|| {
                BuildError::input(
                    "there is no folder to keep kernels in: none of LOWMARK_CACHE, XDG_CACHE_HOME and \
                     HOME is set",
                    "a folder in one of these environment variables; only Lowmark reads LOWMARK_CACHE",
                )
            })?;
        let root =
            std::path::absolute(&root).map_err(|e| BuildError::io("can't find", &root, e))?;
        Self::at(root)
    }

    /// Returns the cache in folder `root`, which need not exist yet.
    ///
    /// # Errors
    /// The path has spaces or colons, with which the kernel's makefiles can't work.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self, BuildError> {
        let root = root.into();
        let text = root.to_string_lossy();
        if text
            .contains(|c: char| c.is_whitespace() || c == ':' || c == char::REPLACEMENT_CHARACTER)
        {
            return Err(BuildError::input(
                format!("kernels can't be built below {}", root.display()),
                "a folder whose path has no spaces and no colons, in the environment variable \
                 LOWMARK_CACHE",
            ));
        }
        Ok(Self {
            root,
            packages: PathBuf::from("/usr/src"),
        })
    }

    /// Returns the folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the cache below this one in which kernels for QEMU are built.
    pub(super) fn of_qemu(&self) -> Self {
        Self {
            root: self.root.join("qemu/build"),
            packages: self.packages.clone(),
        }
    }

    /// Returns the folder of filesystem images.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Returns the folder of finished kernels.
    pub(super) fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// Returns the folder of kernels' names, each a file with the key of its kernel.
    pub(super) fn names(&self) -> PathBuf {
        self.root.join("names")
    }

    /// Returns the folder of unpacked Debian source packages.
    pub(super) fn sources(&self) -> PathBuf {
        self.root.join("sources")
    }

    /// Returns the folder of work folders and their locks.
    pub(super) fn works(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Returns the work folder of a kernel's name, in which its next build starts.
    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.works().join(name)
    }

    /// Locks a kernel's name against builds and removals by other processes, and returns the lock
    /// file; the lock ends when the file is closed.
    ///
    /// # Errors
    /// Another process holds the lock.
    pub(super) fn lock(&self, name: &str) -> Result<File, BuildError> {
        let path = self.works().join(format!("{name}.lock"));
        let file = lock_file(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(BuildError::input(
                format!("kernel {name} is being built by another process"),
                "the same command when that build has ended, or another name",
            )),
            Err(TryLockError::Error(e)) => Err(BuildError::io("can't lock", &path, e)),
        }
    }
}

/// Opens a lock file; makes it and its folder if missing.
pub(super) fn lock_file(path: &Path) -> Result<File, BuildError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| BuildError::io("can't open", path, e))
}

/// Makes a folder and those of its parents that are missing.
pub(super) fn make_folder(path: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(path).map_err(|e| BuildError::io("can't make", path, e))
}

/// Removes a folder and its contents; succeeds if it does not exist.
pub(super) fn remove_folder(path: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(BuildError::io("can't remove", path, e))
        }
        _ => Ok(()),
    }
}

/// Writes a file through a temporary one beside it, so that it appears whole or not at all.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let mut name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, path));
    written.map_err(|e| {
        let _ = fs::remove_file(&new);
        BuildError::io("can't write", path, e)
    })
}

/// Returns the bytes that files below a folder take on disk. Files with further hard links are not
/// counted.
pub(super) fn bytes_below(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(m) if m.is_dir() => m.blocks() * 512 + bytes_below(&entry.path()),
        Ok(m) if m.nlink() == 1 => m.blocks() * 512,
        _ => 0,
    };
    entries.flatten().map(of).sum()
}
