//! Where kernels and what they are built from are kept.
//!
//! ```text
//! kernels/KEY/         a finished kernel: linux, config, seed.so, log, build.toml
//! names/NAME           the key of the kernel that has this name
//! work/NAME/           what the next build of this name begins with: source (a private copy, hard links
//!                      where it may have them), manifest (what lies in it), objects
//! work/NAME.lock       held by who builds, removes or names it, and by the compilers he started
//! sources/PACKAGE-KEY/ a Debian source package, unpacked: tree, manifest
//! images/              filesystems as they are when they are new
//! ```

use super::error::BuildError;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The folder of kept kernels.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    /// Where Debian's packages of sources put their archives.
    pub(super) packages: PathBuf,
}

impl Cache {
    /// The user's: `$LOWMARK_CACHE`, or `lowmark` in `$XDG_CACHE_HOME` or `~/.cache`.
    ///
    /// # Errors
    /// None of these is set, or the path can't be built in.
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
                    "a folder in one of these environment variables, LOWMARK_CACHE for nothing else",
                )
            })?;
        let root =
            std::path::absolute(&root).map_err(|e| BuildError::io("can't find", &root, e))?;
        Self::at(root)
    }

    /// The one in this folder, which need not be there yet.
    ///
    /// # Errors
    /// The kernel's makefiles can't be used below a path with spaces or colons.
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

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where images of filesystems are kept.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub(super) fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    pub(super) fn names(&self) -> PathBuf {
        self.root.join("names")
    }

    pub(super) fn sources(&self) -> PathBuf {
        self.root.join("sources")
    }

    pub(super) fn works(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(super) fn work(&self, name: &str) -> PathBuf {
        self.works().join(name)
    }

    /// The lock on a name.
    ///
    /// # Errors
    /// Somebody else has it.
    pub(super) fn lock(&self, name: &str) -> Result<File, BuildError> {
        let path = self.works().join(format!("{name}.lock"));
        let file = lock_file(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(BuildError::input(
                format!("kernel {name} is being built by another process"),
                "the same command when that has ended, or another name",
            )),
            Err(TryLockError::Error(e)) => Err(BuildError::io("can't lock", &path, e)),
        }
    }
}

/// A file to lock, made if it is not there.
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

pub(super) fn make_folder(path: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(path).map_err(|e| BuildError::io("can't make", path, e))
}

/// Removes a folder with all that is in it; one that is not there is removed.
pub(super) fn remove_folder(path: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(BuildError::io("can't remove", path, e))
        }
        _ => Ok(()),
    }
}

/// Writes a file whole or not at all.
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

/// Bytes of the disk below a folder. Files that have names elsewhere too are those places' own.
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
