//! The initramfs of a guest: an archive (cpio, format "newc") with its first program, its job and
//! further files.

use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use thiserror::Error;

/// Folders on which a guest mounts something, or to which it writes.
const FOLDERS: [&str; 6] = ["dev", "mnt", "proc", "root", "sys", "tmp"];
/// The console, which the kernel opens for the first program before that has mounted anything.
const CONSOLE: (&str, u32, u32) = ("dev/console", 5, 1);
/// The largest file that the format can express, in bytes.
const MOST: u64 = u32::MAX as u64;

/// The reason why there is no archive.
#[derive(Debug, Error)]
pub enum InitramfsError {
    /// A file has a path that is not allowed.
    #[error(
        "`{0}` can't be a file of a guest: it must begin with / and have no empty, `.` or `..` parts"
    )]
    Path(String),
    /// Two files have the same path, or a file stands where a folder is needed.
    #[error("`{0}` is listed twice among the files of a guest")]
    Twice(String),
    /// A file is too large for an archive.
    #[error("`{path}` has {bytes} bytes; accepted: less than 4 GiB")]
    TooLarge {
        /// The file's path.
        path: String,
        /// The file's length.
        bytes: u64,
    },
    /// The archive could not be written.
    #[error("can't write the archive: {0}")]
    Write(#[from] io::Error),
}

/// A file of an archive.
#[derive(Debug, Clone)]
struct File<'a> {
    contents: &'a [u8],
    executable: bool,
}

/// An archive in the making. The same files give the same bytes in whatever order they are added:
/// names are sorted, times are 0, inodes are numbered, everything is owned by the superuser.
#[derive(Debug, Clone, Default)]
pub struct Initramfs<'a> {
    files: BTreeMap<String, File<'a>>,
}

impl<'a> Initramfs<'a> {
    /// Starts an initramfs with the program `init` as `/init`, the guest's first process.
    pub fn new(init: &'a [u8]) -> Self {
        let mut files = BTreeMap::new();
        let init = File {
            contents: init,
            executable: true,
        };
        files.insert("init".to_owned(), init);
        Self { files }
    }

    /// Adds a file at an absolute path, and the folders on it.
    ///
    /// # Errors
    /// The path is not allowed, or is taken.
    pub fn file(
        mut self,
        path: &str,
        contents: &'a [u8],
        executable: bool,
    ) -> Result<Self, InitramfsError> {
        let wrong = || InitramfsError::Path(path.to_owned());
        let name = path.strip_prefix('/').ok_or_else(wrong)?;
        if name.split('/').any(|p| ["", ".", ".."].contains(&p)) || name.contains('\0') {
            return Err(wrong());
        }
        let file = File {
            contents,
            executable,
        };
        let reserved = name == CONSOLE.0 || FOLDERS.contains(&name);
        if reserved || self.files.insert(name.to_owned(), file).is_some() {
            return Err(InitramfsError::Twice(path.to_owned()));
        }
        Ok(self)
    }

    /// Returns the initramfs as a cpio archive ("newc"), uncompressed.
    ///
    /// # Errors
    /// A file is also needed as a folder, or is too large.
    pub fn archive(&self) -> Result<Vec<u8>, InitramfsError> {
        let size: usize = self.files.values().map(|f| f.contents.len() + 512).sum();
        let mut out = Vec::with_capacity(size + 4096);
        self.write(&mut out)?;
        Ok(out)
    }

    /// Writes the archive: folders, the console's device node, files, and the trailer, sorted by
    /// name, so that folders come before their contents.
    fn write(&self, mut out: &mut Vec<u8>) -> Result<(), InitramfsError> {
        // Folders sort before their contents.
        let mut names: BTreeMap<&str, Option<&File<'a>>> =
            FOLDERS.iter().map(|name| (*name, None)).collect();
        for name in self.files.keys() {
            for (end, _) in name.match_indices('/') {
                names.insert(&name[..end], None);
            }
        }
        for (name, file) in &self.files {
            if names.insert(name, Some(file)).is_some() {
                return Err(InitramfsError::Twice(format!("/{name}")));
            }
        }
        let mut inode = 0;
        // The header of an entry: the next inode number, and time 0.
        let mut head = |name: &str, kind, mode, links| {
            inode += 1;
            Builder::new(name)
                .ino(inode)
                .mode(mode)
                .set_mode_file_type(kind)
                .nlink(links)
                .mtime(0)
        };
        for (name, file) in names {
            let Some(file) = file else {
                let folder = head(name, ModeFileType::Directory, 0o755, 2);
                out = folder.write(out, 0).finish()?;
                if CONSOLE
                    .0
                    .rsplit_once('/')
                    .is_some_and(|(above, _)| above == name)
                {
                    let (name, major, minor) = CONSOLE;
                    let node = head(name, ModeFileType::Char, 0o600, 1);
                    out = node
                        .rdev_major(major)
                        .rdev_minor(minor)
                        .write(out, 0)
                        .finish()?;
                }
                continue;
            };
            let bytes = file.contents.len() as u64;
            if bytes > MOST {
                let path = format!("/{name}");
                return Err(InitramfsError::TooLarge { path, bytes });
            }
            let mode = if file.executable { 0o755 } else { 0o644 };
            let mut entry = head(name, ModeFileType::Regular, mode, 1).write(out, bytes as u32);
            entry.write_all(file.contents)?;
            out = entry.finish()?;
        }
        trailer(out)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn entries(mut archive: &[u8]) -> Vec<(String, u32, u32, Vec<u8>)> {
        let mut out = Vec::new();
        loop {
            let mut reader = cpio::NewcReader::new(archive).unwrap();
            let entry = reader.entry();
            assert_eq!((entry.mtime(), entry.uid(), entry.gid()), (0, 0, 0));
            if entry.is_trailer() {
                return out;
            }
            let found = (entry.name().to_owned(), entry.mode(), entry.ino());
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            out.push((found.0, found.1, found.2, bytes));
            archive = reader.finish().unwrap();
        }
    }

    #[test]
    fn it_is_read_back() {
        let made = Initramfs::new(b"\x7fELF")
            .file("/job.json", b"{}", false)
            .and_then(|a| a.file("/data/deep/trace", b"abc", false))
            .and_then(|a| a.file("/data/run", b"#!", true))
            .unwrap();
        let archive = made.archive().unwrap();
        let entries = entries(&archive);
        let names: Vec<&str> = entries.iter().map(|e| e.0.as_str()).collect();
        assert_eq!(
            names,
            [
                "data",
                "data/deep",
                "data/deep/trace",
                "data/run",
                "dev",
                "dev/console",
                "init",
                "job.json",
                "mnt",
                "proc",
                "root",
                "sys",
                "tmp"
            ]
        );
        let of = |name: &str| entries.iter().find(|e| e.0 == name).unwrap();
        assert_eq!(
            (of("init").1, of("init").3.as_slice()),
            (0o100_755, &b"\x7fELF"[..])
        );
        assert_eq!(
            (of("job.json").1, of("job.json").3.as_slice()),
            (0o100_644, &b"{}"[..])
        );
        assert_eq!(of("data/run").1, 0o100_755);
        assert_eq!(of("proc").1, 0o40_755);
        assert_eq!(of("dev/console").1, 0o20_600);
        let mut inodes: Vec<u32> = entries.iter().map(|e| e.2).collect();
        inodes.dedup();
        assert_eq!(inodes, (1..=entries.len() as u32).collect::<Vec<_>>());
        assert_eq!(archive.len() % 4, 0);
    }

    #[test]
    fn the_order_of_adding_does_not_matter() {
        let add = |names: [&'static str; 2]| {
            let mut made = Initramfs::new(b"x");
            for name in names {
                made = made.file(name, name.as_bytes(), false).unwrap();
            }
            made.archive().unwrap()
        };
        assert_eq!(add(["/a/b", "/c"]), add(["/c", "/a/b"]));
    }

    #[test]
    fn wrong_paths() {
        for wrong in [
            "",
            "/",
            "a",
            "/a//b",
            "/a/../b",
            "/.",
            "/init",
            "/dev/console",
            "/tmp",
            "/a\0",
        ] {
            assert!(
                Initramfs::new(b"x").file(wrong, b"", false).is_err(),
                "{wrong}"
            );
        }
        let both = Initramfs::new(b"x")
            .file("/a", b"", false)
            .unwrap()
            .file("/a/b", b"", false);
        assert!(both.unwrap().archive().is_err());
    }
}
