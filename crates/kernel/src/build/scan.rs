//! Reads a source tree: every file's name and the digest of its contents, without the files that a
//! build leaves there (according to the tree's own `.gitignore` files).

use super::beneath::{Beneath, Found};
use super::error::BuildError;
use super::ignored::Ignored;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A SHA-256 digest of a file's contents.
pub type Digest = [u8; 32];

/// The kind of a name in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file that is not executable.
    Plain,
    /// An executable file.
    Executable,
    /// A symbolic link; its contents are its target.
    Link,
}

/// A file or link of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The kind.
    pub kind: Kind,
    /// The digest of the contents.
    pub digest: Digest,
}

/// The files and links of a tree by path from its root, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest(pub BTreeMap<PathBuf, Entry>);

impl Manifest {
    /// Returns one SHA-256 digest of all entries: of kinds, contents and names.
    pub fn digest(&self) -> Digest {
        Sha256::digest(self.text()).into()
    }

    /// Returns the manifest as text, one line for each file: kind (`f`, `x` executable, `l` link),
    /// digest, name. Names are bytes, and so is the text.
    pub fn text(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() * 100);
        for (path, entry) in &self.0 {
            out.push(match entry.kind {
                Kind::Plain => b'f',
                Kind::Executable => b'x',
                Kind::Link => b'l',
            });
            out.push(b' ');
            out.extend_from_slice(hex(&entry.digest).as_bytes());
            out.push(b' ');
            out.extend_from_slice(path.as_os_str().as_bytes());
            out.push(b'\n');
        }
        out
    }

    /// Reads a manifest from the output of [`Manifest::text`]; returns `None` for any other text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut out = BTreeMap::new();
        for line in text.split_inclusive(|b| *b == b'\n') {
            let line = line.strip_suffix(b"\n")?;
            let kind = match line.first()? {
                b'f' => Kind::Plain,
                b'x' => Kind::Executable,
                b'l' => Kind::Link,
                _ => return None,
            };
            let digest = unhex(line.get(2..66)?)?;
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(line.get(67..)?));
            out.insert(path, Entry { kind, digest });
        }
        Some(Self(out))
    }
}

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// Reads a digest of 64 hexadecimal digits; `None` if one is not a digit.
fn unhex(text: &[u8]) -> Option<Digest> {
    let mut out = [0; 32];
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

/// A file's length and modification time in seconds and nanoseconds, by which a later change is
/// noticed.
type Stamp = (u64, i64, i64);

/// A tree that was read.
#[derive(Debug)]
pub struct Scan {
    /// The root folder.
    pub root: PathBuf,
    /// The files and links.
    pub manifest: Manifest,
    stamps: Vec<(PathBuf, Stamp)>,
}

impl Scan {
    /// Reads a whole source tree, on as many threads as there are CPUs: the kind and digest of each
    /// file that belongs to the tree, and its stamp, by which a change during the build is noticed.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn read(root: &Path) -> Result<Self, BuildError> {
        let tree = Beneath::open(root).map_err(|e| BuildError::io("can't read", root, e))?;
        let names = names(root, &tree)?;
        let next = AtomicUsize::new(0);
        let found = Mutex::new((Vec::with_capacity(names.len()), None));
        // The work of one thread: takes batches of names and reads their files.
        let read_some = || {
            let mut mine = Vec::new();
            let mut wrong = None;
            // Names are handed out in small batches: a tree has many small files.
            'all: loop {
                let from = next.fetch_add(64, Ordering::Relaxed);
                let Some(some) = names.get(from..names.len().min(from + 64)) else {
                    break;
                };
                for name in some {
                    match entry(root, &tree, name) {
                        Ok((e, stamp)) => mine.push((name.clone(), e, stamp)),
                        Err(e) => {
                            wrong = Some(e);
                            break 'all;
                        }
                    }
                }
                if some.is_empty() {
                    break;
                }
            }
            let mut found = found.lock().unwrap_or_else(|e| e.into_inner());
            found.0.extend(mine);
            found.1 = found.1.take().or(wrong);
        };
        let threads = thread::available_parallelism().map_or(1, |n| n.get());
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(read_some);
            }
            read_some();
        });
        let (found, wrong) = found.into_inner().unwrap_or_else(|e| e.into_inner());
        if let Some(e) = wrong {
            return Err(e);
        }
        let stamps = found.iter().map(|(n, _, s)| (n.clone(), *s)).collect();
        let entries = found.into_iter().map(|(n, e, _)| (n, e)).collect();
        Ok(Self {
            root: root.to_owned(),
            manifest: Manifest(entries),
            stamps,
        })
    }

    /// Wraps a tree whose manifest is already known and that no other process writes to: no change
    /// is looked for.
    pub fn known(root: PathBuf, manifest: Manifest) -> Self {
        Self {
            root,
            manifest,
            stamps: Vec::new(),
        }
    }

    /// Returns a file that was changed since the scan (in length or modification time), if there is
    /// one.
    pub fn changed(&self) -> Option<&Path> {
        let same = |(name, stamp): &&(PathBuf, Stamp)| {
            let now = fs::symlink_metadata(self.root.join(name));
            now.is_ok_and(|m| stamp_of(&m) == *stamp)
        };
        let changed = self.stamps.iter().find(|of| !same(of));
        changed.map(|(name, _)| name.as_path())
    }
}

/// Returns length and modification time (seconds, nanoseconds) of a file.
fn stamp_of(m: &fs::Metadata) -> Stamp {
    (m.len(), m.mtime(), m.mtime_nsec())
}

/// Returns the paths of the files and links that belong to the tree itself: without `.git` and
/// without files that `.gitignore` files name, such as those of a build.
///
/// The root's own `.gitignore` is read without the lines that ignore everything: Debian's ends with
/// one, because the packaging is kept without the sources.
fn names(root: &Path, tree: &Beneath) -> Result<Vec<PathBuf>, BuildError> {
    let mut out = Vec::new();
    let rules = rules(tree, "", |line| !["/*", "*"].contains(&line));
    below(root, tree, "", &mut vec![(0, rules)], &mut out)?;
    Ok(out)
}

/// Reads the `.gitignore` of the folder `place`, if it has one; `takes` selects lines. A symbolic
/// link is not followed, as in git.
fn rules(tree: &Beneath, place: &str, takes: impl Fn(&str) -> bool) -> Ignored {
    let file = format!("{place}.gitignore");
    let lines = tree.read(Path::new(&file)).unwrap_or_default();
    Ignored::parse(&String::from_utf8_lossy(&lines), takes)
}

/// Collects in `out` the paths of files and links below a folder whose path from the root is
/// `place`, without ignored ones. `rules` are those of the folders above it and its own, each with
/// the length of its folder's path, from which on names are compared.
fn below(
    folder: &Path,
    tree: &Beneath,
    place: &str,
    rules: &mut Vec<(usize, Ignored)>,
    out: &mut Vec<PathBuf>,
) -> Result<(), BuildError> {
    let wrong = |e| BuildError::io("can't read", folder, e);
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let kind = entry.file_type().map_err(wrong)?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let here = format!("{place}{text}");
        // The nearest `.gitignore` that mentions a name decides. A name that the root's file
        // ignores is never brought back by another (git would), so that a kernel's key stays as it
        // was.
        let says = |of: &(usize, Ignored)| of.1.says(&here[of.0..], &text, kind.is_dir());
        let ignored = rules.first().and_then(says) == Some(true)
            || rules.iter().skip(1).rev().find_map(says) == Some(true);
        if text == ".git" || ignored {
            continue;
        }
        if kind.is_dir() {
            let (path, here) = (entry.path(), here + "/");
            rules.push((here.len(), self::rules(tree, &here, |_| true)));
            below(&path, tree, &here, rules, out)?;
            rules.pop();
        } else if kind.is_file() || kind.is_symlink() {
            out.push(Path::new(place).join(&name));
        }
    }
    Ok(())
}

/// Reads a file or link of the tree. Returns its kind and the digest of its contents (of its target
/// for a link), and its stamp: length and modification time.
fn entry(root: &Path, tree: &Beneath, name: &Path) -> Result<(Entry, Stamp), BuildError> {
    let wrong = |e| BuildError::io("can't read", &root.join(name), e);
    let (kind, digest, stamp) = match tree.find(name).map_err(wrong)? {
        Found::Link(to, meta) => {
            let written = (meta.st_mtime, meta.st_mtime_nsec as i64);
            let stamp = (meta.st_size as u64, written.0, written.1);
            (Kind::Link, Sha256::digest(to.as_bytes()), stamp)
        }
        Found::File(mut file) => {
            let meta = file.metadata().map_err(wrong)?;
            let kind = match meta.mode() & 0o111 {
                0 => Kind::Plain,
                _ => Kind::Executable,
            };
            let mut bytes = Vec::with_capacity(meta.len() as usize);
            file.read_to_end(&mut bytes).map_err(wrong)?;
            (kind, Sha256::digest(bytes), stamp_of(&meta))
        }
    };
    let digest = digest.into();
    Ok((Entry { kind, digest }, stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// The root's rules hold in all folders, those of a folder below it, and the last line of
    /// Debian's file is skipped.
    #[test]
    fn what_a_build_left_is_no_source() {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join(".cache/tree");
        let rules = ".*\n!.gitignore\n*.o\n/linux\n/include/config/\n!keep.o\n/*\n!/debian/\n";
        for (name, text) in [
            (".gitignore", rules),
            ("scripts/.gitignore", "/fixdep\n"),
            ("Makefile", ""),
            ("linux", ""),
            (".config", ""),
            (".git/HEAD", ""),
            ("include/config/auto.conf", ""),
            ("include/linux/mm.h", ""),
            ("mm/vmscan.c", ""),
            ("mm/vmscan.o", ""),
            ("mm/keep.o", ""),
            ("scripts/fixdep", ""),
            ("scripts/basic/fixdep", ""),
        ] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        }
        let scan = Scan::read(&root).unwrap();
        let names: Vec<&str> = scan
            .manifest
            .0
            .keys()
            .map(|p| p.to_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                ".gitignore",
                "Makefile",
                "include/linux/mm.h",
                "mm/keep.o",
                "mm/vmscan.c",
                "scripts/.gitignore",
                "scripts/basic/fixdep",
            ]
        );
    }
}
