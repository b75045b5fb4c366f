//! File operations below a folder that no path can leave.
//!
//! Source trees, patches and manifests are untrusted, and a folder on a path may have become a
//! symbolic link out of the tree by the time the path is used. [`Beneath`] opens a folder once and
//! has the kernel resolve each path below it: `openat2(2)` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS` fails where a path would leave the folder or go through a link. Without
//! that call (kernels before 5.6, or a sandbox that does not know it) the path is walked folder by
//! folder with `O_NOFOLLOW`, which refuses the same paths.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// Flags that open a folder only as a base for paths below it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An open folder; paths given to its methods are resolved below it.
#[derive(Debug)]
pub struct Beneath {
    folder: OwnedFd,
}

/// Where a path below a folder leads.
#[derive(Debug)]
pub enum Found {
    /// A regular file, opened for reading.
    File(File),
    /// A symbolic link: its target and its status.
    Link(OsString, rustix::fs::Stat),
}

/// A name in an open folder below a [`Beneath`]; all changes are made through a place.
#[derive(Debug)]
pub struct Place<'a> {
    folder: &'a OwnedFd,
    name: &'a OsStr,
}

impl Beneath {
    /// Opens a folder. Links in `path` itself are followed: the user named it.
    ///
    /// # Errors
    /// There is no such folder, or it may not be searched.
    pub fn open(path: &Path) -> io::Result<Self> {
        let folder = rustix::fs::open(path, FOLDER, Mode::empty())?;
        Ok(Self { folder })
    }

    /// Opens the folder `name` below this one, or this one if `name` is empty.
    ///
    /// # Errors
    /// There is no such folder, or the path leaves this one or goes through a link.
    pub fn folder(&self, name: &Path) -> io::Result<OwnedFd> {
        if name.as_os_str().is_empty() {
            return self.folder.try_clone();
        }
        Ok(open_at(self.folder.as_fd(), name, FOLDER)?)
    }

    /// Opens the folder `name` below this one and makes those of its parts that are missing.
    ///
    /// # Errors
    /// As [`Beneath::folder`], or a folder can't be made.
    pub fn make_folders(&self, name: &Path) -> io::Result<OwnedFd> {
        match self.folder(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
        let mut made = self.folder.try_clone()?;
        for part in name.components() {
            let Component::Normal(part) = part else {
                return Err(Errno::XDEV.into());
            };
            match rustix::fs::mkdirat(&made, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            made = open_at(made.as_fd(), Path::new(part), FOLDER)?;
        }
        Ok(made)
    }

    /// Opens a regular file below this folder for reading, or reads a symbolic link there.
    ///
    /// # Errors
    /// There is neither, or the path leaves the folder or goes through a link.
    pub fn find(&self, name: &Path) -> io::Result<Found> {
        // Without `NONBLOCK`, opening a FIFO that has replaced a file would block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match open_at(self.folder.as_fd(), name, flags) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return self.link(name),
            Err(e) => return Err(e.into()),
        };
        match file.metadata()?.is_file() {
            true => Ok(Found::File(file)),
            false => Err(io::Error::other("no regular file")),
        }
    }

    /// Reads a whole regular file below this folder.
    ///
    /// # Errors
    /// As [`Beneath::find`], or the path is a symbolic link.
    pub fn read(&self, name: &Path) -> io::Result<Vec<u8>> {
        let Found::File(mut file) = self.find(name)? else {
            return Err(Errno::LOOP.into());
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the target of a symbolic link below this folder.
    ///
    /// # Errors
    /// As [`Beneath::find`], or the path is a regular file.
    pub fn read_link(&self, name: &Path) -> io::Result<Vec<u8>> {
        match self.link(name)? {
            Found::Link(to, _) => Ok(to.into_vec()),
            Found::File(_) => Err(Errno::INVAL.into()),
        }
    }

    /// Reads the target and the status of a symbolic link below this folder.
    fn link(&self, name: &Path) -> io::Result<Found> {
        let (above, last) = split(name)?;
        let folder = self.folder(above)?;
        let meta = rustix::fs::statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW)?;
        let to = rustix::fs::readlinkat(&folder, last, Vec::new())?;
        Ok(Found::Link(OsString::from_vec(to.into_bytes()), meta))
    }

    /// Removes a file or link below this folder. Succeeds if it does not exist, or if its path goes
    /// through a link.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        let (above, last) = split(name)?;
        let folder = match self.folder(above) {
            Ok(folder) => folder,
            Err(e) if is_absent(&e) => return Ok(()),
            Err(e) => return Err(e),
        };
        let name = last;
        let folder = &folder;
        Place { folder, name }.remove()
    }

    /// Removes the folder `name` and its parents, up to the first that is not empty.
    pub fn remove_empty(&self, name: &Path) {
        let below = name.ancestors().filter(|n| !n.as_os_str().is_empty());
        for folder in below {
            let Ok((above, last)) = split(folder) else {
                return;
            };
            let removed = self
                .folder(above)
                .is_ok_and(|above| rustix::fs::unlinkat(above, last, AtFlags::REMOVEDIR).is_ok());
            if !removed {
                return;
            }
        }
    }
}

impl<'a> Place<'a> {
    /// Makes the place of `path`'s last part in `folder`, which the caller has opened as its
    /// parent.
    pub fn of(folder: &'a OwnedFd, path: &'a Path) -> io::Result<Self> {
        let (_, name) = split(path)?;
        Ok(Self { folder, name })
    }

    /// Makes a hard link here to the file at `from`.
    ///
    /// # Errors
    /// The filesystem refuses, for example because the two places are on different filesystems.
    pub fn link_to(&self, from: &Place<'_>) -> io::Result<()> {
        let flags = AtFlags::empty();
        rustix::fs::linkat(from.folder, from.name, self.folder, self.name, flags)?;
        Ok(())
    }

    /// Writes a new file with `fill` and renames it to this place, so that it appears in one step.
    ///
    /// # Errors
    /// Something can't be written; then nothing has changed.
    pub fn put(&self, mode: u32, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        self.by_renaming(|new| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(self.folder, new, flags, Mode::from_raw_mode(0o600))?;
            let mut file = File::from(file);
            fill(&mut file)?;
            file.set_permissions(Permissions::from_mode(mode))
        })
    }

    /// Makes a symbolic link in one step.
    ///
    /// # Errors
    /// As [`Place::put`].
    pub fn put_link(&self, to: &OsStr) -> io::Result<()> {
        self.by_renaming(|new| Ok(rustix::fs::symlinkat(to, self.folder, new)?))
    }

    /// Has `make` create something under a temporary name beside this place, then renames it to
    /// this place, so that it appears in one step. On an error the temporary name is removed.
    fn by_renaming(&self, make: impl FnOnce(&OsStr) -> io::Result<()>) -> io::Result<()> {
        let mut new = self.name.to_owned();
        new.push(".lowmark-new");
        let beside = Place {
            folder: self.folder,
            name: &new,
        };
        beside.remove()?;
        let put = || {
            Ok(rustix::fs::renameat(
                self.folder,
                &new,
                self.folder,
                self.name,
            )?)
        };
        make(&new).and_then(|()| put()).inspect_err(|_| {
            let _ = beside.remove();
        })
    }

    /// Removes the file or link at this place; succeeds if there is none.
    fn remove(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Returns true if resolving a path failed because nothing can exist there below the folder: a part
/// is missing, is no folder, or is a symbolic link.
fn is_absent(e: &io::Error) -> bool {
    let number = e.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Splits a path into its parent folder (empty if there is none) and its last part. Fails with
/// `XDEV`, as `openat2` does for a path that leaves its folder, if the last part is no name.
fn split(name: &Path) -> io::Result<(&Path, &OsStr)> {
    let last = match name.components().next_back() {
        Some(Component::Normal(last)) => last,
        _ => return Err(Errno::XDEV.into()),
    };
    Ok((name.parent().unwrap_or(Path::new("")), last))
}

/// Opens `name` below `folder` with `openat2(2)`, which fails if the path leaves the folder or goes
/// through a link; part by part on a kernel without that call.
fn open_at(folder: BorrowedFd<'_>, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS) => walk(folder, name, flags),
        done => done,
    }
}

/// Opens `name` part by part with `O_NOFOLLOW`, so that no part is a symbolic link: stands in for
/// `openat2` with the flags of `open_at` where the kernel has no such call. `flags` are those of
/// the last part; fails with `ELOOP` at a link and with `XDEV` at `..`.
fn walk(folder: BorrowedFd<'_>, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut here: Option<OwnedFd> = None;
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(part) = part else {
            return Err(Errno::XDEV);
        };
        let flags = if parts.peek().is_some() {
            FOLDER
        } else {
            flags
        };
        let at = here.as_ref().map_or(folder, AsFd::as_fd);
        let opened = rustix::fs::openat(at, part, flags | OFlags::NOFOLLOW, Mode::empty());
        here = Some(match opened {
            // A folder that is a link is ENOTDIR here and ELOOP there.
            Err(Errno::NOTDIR) if is_link(at, part) => return Err(Errno::LOOP),
            done => done?,
        });
    }
    here.ok_or(Errno::NOENT)
}

/// Returns true if `name` in `folder` is a symbolic link.
fn is_link(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let meta = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    meta.is_ok_and(|m| FileType::from_raw_mode(m.st_mode) == FileType::Symlink)
}

/// Folders of one [`Beneath`], of which the last one is kept open: names come in their order.
#[derive(Debug)]
pub struct Folders<'a> {
    below: &'a Beneath,
    make: bool,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Folders<'a> {
    /// Folders that must be there.
    pub fn found(below: &'a Beneath) -> Self {
        let (make, last) = (false, None);
        Self { below, make, last }
    }

    /// Folders that are made where they are missing.
    pub fn made(below: &'a Beneath) -> Self {
        let (make, last) = (true, None);
        Self { below, make, last }
    }

    /// Returns the place of `name` below the folder, from which files are made and linked; opens
    /// (or makes) its parent folder unless that is still open from the last call.
    ///
    /// # Errors
    /// As [`Beneath::folder`] and [`Beneath::make_folders`].
    pub fn place<'b>(&'b mut self, name: &'b Path) -> io::Result<Place<'b>> {
        let (above, _) = split(name)?;
        if self.last.as_ref().is_none_or(|(last, _)| last != above) {
            let folder = match self.make {
                true => self.below.make_folders(above),
                false => self.below.folder(above),
            }?;
            self.last = Some((above.to_owned(), folder));
        }
        let (_, folder) = self.last.as_ref().ok_or(Errno::NOENT)?;
        Place::of(folder, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn tree() -> (TempDir, Beneath) {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("tree/mm")).unwrap();
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(path("elsewhere/secret"), "secret").unwrap();
        fs::write(path("tree/mm/vmscan.c"), "scan").unwrap();
        symlink("../elsewhere", path("tree/out")).unwrap();
        symlink("mm", path("tree/in")).unwrap();
        symlink("vmscan.c", path("tree/mm/link.c")).unwrap();
        let tree = Beneath::open(&path("tree")).unwrap();
        (dir, tree)
    }

    fn errno<T>(result: Result<T, Errno>) -> Option<Errno> {
        result.err()
    }

    /// The kernel's call and the walk that stands in for it give the same answers.
    #[test]
    fn names_resolve_beneath_and_through_no_link() {
        let (_dir, tree) = tree();
        let at = tree.folder.as_fd();
        for (name, wrong) in [
            ("mm/vmscan.c", None),
            ("mm/none.c", Some(Errno::NOENT)),
            ("mm/vmscan.c/x", Some(Errno::NOTDIR)),
            ("mm/link.c", Some(Errno::LOOP)),
            ("out/secret", Some(Errno::LOOP)),
            ("in/vmscan.c", Some(Errno::LOOP)),
            ("../elsewhere/secret", Some(Errno::XDEV)),
            ("/etc/hostname", Some(Errno::XDEV)),
        ] {
            let (name, flags) = (Path::new(name), OFlags::RDONLY | OFlags::CLOEXEC);
            assert_eq!(errno(walk(at, name, flags)), wrong, "{name:?}, walked");
            assert_eq!(errno(open_at(at, name, flags)), wrong, "{name:?}");
        }
    }

    #[test]
    fn files_and_links_are_told_apart_and_a_fifo_is_not_waited_for() {
        let (dir, tree) = tree();
        assert_eq!(tree.read(Path::new("mm/vmscan.c")).unwrap(), b"scan");
        let Found::Link(to, _) = tree.find(Path::new("mm/link.c")).unwrap() else {
            panic!("a link");
        };
        assert_eq!(to, "vmscan.c");
        assert!(tree.read(Path::new("mm/link.c")).is_err());
        let fifo = dir.path().join("tree/fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let e = tree.read(Path::new("fifo")).unwrap_err();
        assert!(e.to_string().contains("no regular file"), "{e}");
    }

    #[test]
    fn nothing_is_written_or_removed_behind_a_link() {
        let (dir, tree) = tree();
        let mut folders = Folders::made(&tree);
        for name in ["out/new.c", "out/a/new.c", "../new.c", "in/new.c"] {
            assert!(folders.place(Path::new(name)).is_err(), "{name}");
        }
        tree.remove(Path::new("out/secret")).unwrap();
        assert!(dir.path().join("elsewhere/secret").exists());
        tree.remove_empty(Path::new("out"));
        assert!(dir.path().join("tree/out").exists());
        let place = folders.place(Path::new("a/b/new.c")).unwrap();
        place
            .put(0o644, |file| io::Write::write_all(file, b"new"))
            .unwrap();
        let fails = |_: &mut File| Err(io::Error::other("full"));
        assert!(place.put(0o644, fails).is_err());
        let below = dir.path().join("tree/a/b");
        assert_eq!(fs::read(below.join("new.c")).unwrap(), b"new");
        assert_eq!(fs::read_dir(&below).unwrap().count(), 1);
        tree.remove(Path::new("a/b/new.c")).unwrap();
        tree.remove_empty(Path::new("a/b"));
        assert!(!dir.path().join("tree/a").exists());
    }
}
