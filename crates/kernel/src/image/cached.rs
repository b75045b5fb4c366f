//! A cache of images: every job of an experiment needs the same disks, and so does the next
//! experiment.
//!
//! A new filesystem or root folder is a file, `KIND-…-KEY.img`; the disks of a machine with the
//! files that a workload finds are a folder, `disks-KEY`. Each appears whole or not at all, so two
//! jobs may make the same one at a time: their bytes are equal, and one is dropped.

use super::error::ImageError;
use super::{
    MADE, MKE2FS, NEW, create, find_tool, folder, from_folder, maker, new_name, options, sparse,
};
use crate::build::hex;
use sha2::{Digest as _, Sha256};
use sim::FsKind;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Version of the image format; raised when the same inputs would give another image.
const FORM: u32 = 1;

/// The largest disk space of the cache in bytes: 10 GiB. The least recently used images are removed
/// first.
pub const MOST: u64 = 10 << 30;

/// Unfinished files of this age were left behind by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// A cache of images, keyed by a digest of their inputs.
#[derive(Debug, Clone)]
pub struct Images {
    folder: PathBuf,
}

/// An entry of the cache.
struct Kept {
    path: PathBuf,
    /// Bytes on disk.
    bytes: u64,
    used: SystemTime,
}

impl Images {
    /// Returns the cache in `folder` ([`crate::build::Cache::images`]), which need not exist yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { folder }
    }

    /// Returns the path of the image of a new filesystem of `capacity` bytes, and makes the image
    /// if needed. `preload` is a kernel's library that fixes random numbers and clock. The image
    /// must not be written to: [`Images::put`] copies it.
    ///
    /// # Errors
    /// As [`create`].
    pub fn get(&self, kind: FsKind, capacity: u64, preload: &Path) -> Result<PathBuf, ImageError> {
        let key = key(kind, preload, &[])?;
        let name = format!("{}-{capacity}-{key}.img", kind.name());
        self.get_or_make(&name, |path| create(kind, capacity, path, preload))
    }

    /// Returns the path of the image of the folder `root` with this digest
    /// ([`super::folder_digest`]), a read-only ext4, and makes the image if needed. `preload` is a
    /// kernel's library that fixes random numbers and clock.
    ///
    /// # Errors
    /// As [`from_folder`]; or the folder's digest has changed.
    pub fn of_folder(
        &self,
        root: &Path,
        digest: &str,
        preload: &Path,
    ) -> Result<PathBuf, ImageError> {
        let key = key(FsKind::Ext4, preload, &[digest])?;
        self.get_or_make(&format!("root-{key}.img"), |path| {
            let made = new_name(path);
            let whole = from_folder(root, None, &made, preload).and_then(|_| {
                if folder::digest(root)? == digest {
                    return fs::rename(&made, path)
                        .map_err(|e| ImageError::io("can't write", path, e));
                }
                Err(ImageError::input(
                    format!(
                        "{} was changed since the experiment was read",
                        root.display()
                    ),
                    "a root folder that stays as it is while an experiment runs",
                ))
            });
            if whole.is_err() {
                let _ = fs::remove_file(&made);
            }
            whole
        })
    }

    /// Returns the path of the cache's entry `name`; calls `make` first if there is no such entry.
    /// Notes that the entry was used.
    fn get_or_make(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<(), ImageError>,
    ) -> Result<PathBuf, ImageError> {
        let path = self.folder.join(name);
        if !path.is_file() {
            self.make_folder()?;
            make(&path)?;
            self.trim(MOST, &path);
        }
        touch(&path);
        Ok(path)
    }

    /// Makes the cache's folder if it is missing.
    fn make_folder(&self) -> Result<(), ImageError> {
        let made = fs::create_dir_all(&self.folder);
        made.map_err(|e| ImageError::io("can't make", &self.folder, e))
    }

    /// Copies the image of a new filesystem of `capacity` bytes to a new file `to`; holes stay
    /// holes.
    ///
    /// # Errors
    /// As [`create`].
    pub fn put(
        &self,
        kind: FsKind,
        capacity: u64,
        preload: &Path,
        to: &Path,
    ) -> Result<(), ImageError> {
        sparse::copy(&self.get(kind, capacity, preload)?, to)
    }

    /// Copies the disks kept under `key`, with the files that a workload finds, to the new files
    /// `to`. Returns false if there are none.
    ///
    /// # Errors
    /// The disks can't be read, or the new files can't be written.
    pub fn copy_disks(&self, key: &str, to: &[PathBuf]) -> Result<bool, ImageError> {
        let folder = self.disks(key);
        if !folder.is_dir() {
            return Ok(false);
        }
        touch(&folder);
        for (i, to) in to.iter().enumerate() {
            match sparse::copy(&disk(&folder, i), to) {
                Ok(()) => {}
                // Another process removes them at this moment.
                Err(ImageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Keeps copies of the disks `from` under a key, for [`Images::copy_disks`]. Disks that another
    /// process or thread keeps under it already stay.
    ///
    /// # Errors
    /// The disks can't be read, or the copies can't be written.
    pub fn keep_disks(&self, key: &str, from: &[PathBuf]) -> Result<(), ImageError> {
        self.make_folder()?;
        let folder = self.disks(key);
        let new = new_name(&folder);
        let io = |e| ImageError::io("can't write", &new, e);
        let copied = fs::create_dir(&new).map_err(io).and_then(|()| {
            let mut disks = from.iter().enumerate();
            disks.try_for_each(|(i, from)| sparse::copy(from, &disk(&new, i)))
        });
        let kept = copied.and_then(|()| match fs::rename(&new, &folder) {
            Err(e) if !folder.is_dir() => Err(io(e)),
            _ => Ok(()),
        });
        // The temporary folder is left after an error, or if another process was first.
        let _ = fs::remove_dir_all(&new);
        kept?;
        self.trim(MOST, &folder);
        Ok(())
    }

    /// Returns the folder of the disks kept under a key.
    fn disks(&self, key: &str) -> PathBuf {
        self.folder.join(format!("disks-{key}"))
    }

    /// Returns the entries of the cache with their sizes on disk and the times of their last use.
    fn entries(&self) -> Vec<Kept> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let kept = |entry: fs::DirEntry| {
            let meta = entry.metadata().ok()?;
            let path = entry.path();
            let files = fs::read_dir(&path).into_iter().flatten().flatten();
            let below = files.filter_map(|f| Some(f.metadata().ok()?.blocks() * 512));
            let bytes = meta.blocks() * 512 + below.sum::<u64>();
            let used = meta.modified().ok()?;
            Some(Kept { path, bytes, used })
        };
        entries.filter_map(kept).collect()
    }

    /// Returns the bytes on disk of all entries.
    pub fn bytes(&self) -> u64 {
        self.entries().iter().map(|k| k.bytes).sum()
    }

    /// Removes the cache of filesystem images with all its entries. A running job has its own
    /// copies, or an open file.
    ///
    /// # Errors
    /// An entry can't be removed.
    pub fn remove(&self) -> Result<(), ImageError> {
        match fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(ImageError::io("can't remove", &self.folder, e))
            }
            _ => Ok(()),
        }
    }

    /// Removes the least recently used entries, never `but`, until at most `most` bytes on disk are
    /// left, and unfinished files that are old. Entries that can't be removed stay: the run goes
    /// on.
    fn trim(&self, most: u64, but: &Path) {
        let mut kept = self.entries();
        kept.sort_by_key(|k| k.used);
        let mut bytes: u64 = kept.iter().map(|k| k.bytes).sum();
        let now = SystemTime::now();
        for Kept {
            path,
            bytes: own,
            used,
        } in kept
        {
            // An unfinished file goes by its age; a finished one if the cache is too large.
            let begun = path.to_string_lossy().ends_with(NEW);
            let old = now.duration_since(used).unwrap_or_default() > LEFT_BEHIND;
            let goes = if begun {
                old
            } else {
                bytes > most && path != but
            };
            if goes {
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
                bytes = bytes.saturating_sub(own);
            }
        }
    }
}

/// Returns the path of a disk in an entry.
fn disk(folder: &Path, i: usize) -> PathBuf {
    folder.join(format!("{i}.img"))
}

/// Records that an entry was used now, as its modification time.
fn touch(path: &Path) {
    // If that fails, the entry is only removed earlier.
    let _ = File::open(path).and_then(|f| f.set_modified(SystemTime::now()));
}

/// Returns a digest, in hex, of the inputs of a kind of image: options and version of the
/// filesystem's tool, the library `preload`, and `more`.
fn key(kind: FsKind, preload: &Path, more: &[&str]) -> Result<String, ImageError> {
    let (name, package) = maker(kind)?;
    let tool = find_tool(name, package)?;
    let mut all = Sha256::new();
    all.update(format!(
        "{FORM} {MADE} {more:?} {:?}\n{MKE2FS}",
        options(kind)
    ));
    all.update(fs::read(preload).map_err(|e| ImageError::io("can't read", preload, e))?);
    // Both streams: mke2fs prints its version to stderr.
    let version = Command::new(&tool).arg("-V").env("LC_ALL", "C").output();
    let version = version.map_err(|e| ImageError::io("can't run", &tool, e))?;
    all.update(version.stdout);
    all.update(version.stderr);
    Ok(hex(&all.finalize()[..10]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_kept_whole_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let images = Images::at(path("images"));
        let (from, to) = ([path("a"), path("b")], [path("c"), path("d")]);
        for (i, from) in from.iter().enumerate() {
            fs::write(from, vec![i as u8 + 1; 1 << 20]).unwrap();
        }
        assert!(!images.copy_disks("k", &to).unwrap());
        images.keep_disks("k", &from).unwrap();
        // A second call keeps the first copies.
        images.keep_disks("k", &from).unwrap();
        assert!(images.copy_disks("k", &to).unwrap());
        assert!(fs::read(&to[1]).unwrap() == fs::read(&from[1]).unwrap());
        images.keep_disks("l", &from[..1]).unwrap();
        let of = |name: &str| path("images").join(name);
        assert_eq!(fs::read_dir(path("images")).unwrap().count(), 2);
        let all = images.bytes();
        assert!((3 << 20..4 << 20).contains(&all), "{all}");
        let old = File::open(of("disks-k")).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        fs::write(of("disks-m.1-0.new"), "").unwrap();
        images.trim(2 << 20, &of("disks-l"));
        assert!(!of("disks-k").exists() && of("disks-l").exists());
        assert!(of("disks-m.1-0.new").exists());
        let left = File::open(of("disks-m.1-0.new")).unwrap();
        left.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        images.trim(0, &of("disks-l"));
        assert_eq!(fs::read_dir(path("images")).unwrap().count(), 1);
        images.remove().unwrap();
        images.remove().unwrap();
        assert_eq!(images.bytes(), 0);
    }
}
