//! The list of a results folder's files, which identifies them as Lowmark's. Other files are never
//! touched.

use super::log::LOG;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The name of the list in its folder.
pub const MANIFEST: &str = "manifest.json";
/// The version of the list's format.
const FORM: u32 = 1;

/// Largest list that is read, in bytes: that of a folder of some hundred thousand files.
pub(super) const MOST_LIST: u64 = 64 << 20;

/// The command that wrote a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `lowmark run`.
    Run,
    /// `lowmark mrc`.
    Mrc,
    /// `lowmark tune`.
    Tune,
    /// `lowmark machine --save`.
    Machine,
    /// `lowmark record`.
    Record,
    /// `lowmark export`.
    Export,
}

impl Kind {
    /// Returns the command's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Mrc => "mrc",
            Self::Tune => "tune",
            Self::Machine => "machine",
            Self::Record => "record",
            Self::Export => "export",
        }
    }
}

/// A file of a results folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The file's path inside the folder, with `/`.
    pub path: String,
    /// The file's length.
    pub bytes: u64,
    /// SHA-256 of the contents, in hex digits as `sha256sum` prints them.
    pub sha256: String,
}

impl Listed {
    /// Describes a file by its path inside the folder, and the length and SHA-256 of its contents.
    pub fn new(path: &str, contents: &[u8]) -> Self {
        Self {
            path: path.into(),
            bytes: contents.len() as u64,
            sha256: hex(&Sha256::digest(contents)),
        }
    }
}

/// The contents of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format; its presence marks the folder as Lowmark's.
    pub lowmark_manifest: u32,
    /// The program's version.
    pub lowmark: String,
    /// The command that wrote the folder.
    pub kind: Kind,
    /// The name of the experiment or input that was run.
    pub title: String,
    /// True if the results are complete.
    pub complete: bool,
    /// Every file except this list, sorted by path.
    pub files: Vec<Listed>,
}

impl Manifest {
    /// Builds the list of a folder's files. `kind` is the command that writes them, `title` names
    /// the experiment, and `complete` is true if no results are missing.
    pub fn new(kind: Kind, title: &str, complete: bool, mut files: Vec<Listed>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self {
            lowmark_manifest: FORM,
            lowmark: env!("CARGO_PKG_VERSION").into(),
            kind,
            title: title.into(),
            complete,
            files,
        }
    }

    /// Returns the text of the list.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data has a JSON form");
        text.push('\n');
        text
    }

    /// Reads the list of a results folder; `None` if there is no valid list by Lowmark.
    ///
    /// # Errors
    /// Returns the error of the system, except that a missing file is no error.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(MANIFEST);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        }
        Ok(Self::parse(&input::bytes(&path, MOST_LIST)?))
    }

    /// Parses a list; `None` if Lowmark did not write it.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let read = serde_json::from_slice::<Self>(bytes);
        // Lowmark writes no path that leads out of the folder, and must not remove files by one.
        let is_ours =
            |m: &Self| m.lowmark_manifest == FORM && m.files.iter().all(|f| is_inside(&f.path));
        read.ok().filter(is_ours)
    }
}

/// Returns true if a path stays inside the folder that it is relative to: it is not empty, not
/// absolute, and has no `..`.
pub fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Formats bytes as hex digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads everything that `from` gives, and returns its length in bytes and its SHA-256 in hex
/// digits.
pub fn digest(mut from: impl Read) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok((bytes, hex(&hash.finalize()))),
            Ok(n) => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The contents of a folder, compared with its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// There is no such folder.
    Absent,
    /// The folder is empty.
    Empty,
    /// Only files of the folder's list, unchanged. Some of them may have been removed.
    Ours(Manifest),
    /// Files that are not Lowmark's or were changed; with the reason in words.
    Foreign(String),
}

/// Compares a folder with its list, including the contents of every file.
///
/// # Errors
/// Returns the error of the system.
pub fn inspect(dir: &Path) -> io::Result<Contents> {
    inspect_beside(dir, &[])
}

/// Compares a folder with its list, including the contents of every file, as [`inspect`] does, but
/// ignores files with the names in `aside` in the folder itself.
pub fn inspect_beside(dir: &Path, aside: &[&str]) -> io::Result<Contents> {
    let found = match walk(dir) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Contents::Absent),
        Err(e) => return Err(e),
    };
    let found: Vec<Found> = found
        .into_iter()
        .filter(|f| !aside.contains(&f.path.as_str()))
        .collect();
    if found.is_empty() {
        return Ok(Contents::Empty);
    }
    let Some(manifest) = Manifest::read(dir)? else {
        return Ok(Contents::Foreign(if is_earlier(dir) {
            "is a results folder of an earlier version, which kept no list of its files".into()
        } else {
            format!(
                "holds `{}` and no {MANIFEST} written by lowmark",
                found[0].path
            )
        }));
    };
    for f in &found {
        if let Some(wrong) = f.foreign(dir, &manifest)? {
            return Ok(Contents::Foreign(wrong));
        }
    }
    Ok(Contents::Ours(manifest))
}

/// Returns true if a folder has a `results.json` by an earlier version of Lowmark, which wrote no
/// list of files.
pub fn is_earlier(dir: &Path) -> bool {
    let path = dir.join("results.json");
    let text = input::file(&path).and_then(|mut file| {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map(|_| text)
    });
    text.is_ok_and(|text| serde_json::from_slice::<Mark>(&text).is_ok())
}

/// The part that every `results.json` of an earlier version has.
#[derive(Deserialize)]
struct Mark {
    #[serde(rename = "lowmark")]
    _version: String,
}

/// A file or folder found in a results folder.
struct Found {
    /// The relative path. Bytes that are not UTF-8 are replaced; a list never has such a path.
    path: String,
    kind: fs::FileType,
}

impl Found {
    /// Returns the reason why this file or folder in the results folder `dir` is not Lowmark's or
    /// was changed; `None` if it is as the list has it.
    fn foreign(&self, dir: &Path, manifest: &Manifest) -> io::Result<Option<String>> {
        if self.path == MANIFEST && self.kind.is_file() {
            return Ok(None);
        }
        let under = format!("{}/", self.path);
        if self.kind.is_dir() && manifest.files.iter().any(|f| f.path.starts_with(&under)) {
            return Ok(None);
        }
        let listed = manifest.files.iter().find(|f| f.path == self.path);
        let Some(listed) = listed.filter(|_| self.kind.is_file()) else {
            let what = format!("holds `{}`, which lowmark did not write", self.path);
            return Ok(Some(what));
        };
        if is_unchanged(dir, listed)? {
            return Ok(None);
        }
        let what = format!(
            "holds `{}`, which was changed since lowmark wrote it",
            self.path
        );
        Ok(Some(what))
    }
}

/// Returns true if a listed file of the folder `dir` still has its length and contents.
fn is_unchanged(dir: &Path, listed: &Listed) -> io::Result<bool> {
    let path = dir.join(&listed.path);
    if fs::symlink_metadata(&path)?.len() != listed.bytes {
        return Ok(false);
    }
    let (bytes, sha256) = digest(input::file(&path)?)?;
    Ok((bytes, &sha256) == (listed.bytes, &listed.sha256))
}

/// Returns all files and folders below a folder, without following links, sorted by path.
fn walk(dir: &Path) -> io::Result<Vec<Found>> {
    let mut found = BTreeMap::new();
    // Folders that are still to be read, relative to `dir`.
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(dir.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, kind);
        }
    }
    let found = found.into_iter().map(|(path, kind)| Found {
        path: path.to_string_lossy().into_owned(),
        kind,
    });
    Ok(found.collect())
}

/// Returns the bytes of all files below a folder together.
pub fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for f in walk(dir)? {
        if f.kind.is_file() {
            bytes += fs::symlink_metadata(dir.join(&f.path)).map_or(0, |m| m.len());
        }
    }
    Ok(bytes)
}

/// Removes the unchanged files of the folder's list, then the list and the folder. Returns true if
/// the folder is gone. If anything else is in it, the folder and its list stay.
///
/// The list is removed last, so that an interrupted removal can be continued, and a folder with
/// other people's files is never left without a list.
///
/// # Errors
/// Returns the error of the system.
pub fn remove(dir: &Path) -> io::Result<bool> {
    let Some(manifest) = Manifest::read(dir)? else {
        return gone(fs::remove_dir(dir));
    };
    remove_files(dir, &manifest)?;
    if walk(dir)?
        .iter()
        .any(|f| f.path != MANIFEST && f.path != LOG)
    {
        return Ok(false);
    }
    fs::remove_file(dir.join(MANIFEST))?;
    gone(fs::remove_dir(dir))
}

/// Removes the files of a list that are unchanged from the folder `dir`, and folders that are empty
/// afterwards.
///
/// # Errors
/// Returns the error of the system.
pub fn remove_files(dir: &Path, manifest: &Manifest) -> io::Result<()> {
    let mut folders = BTreeSet::new();
    for listed in &manifest.files {
        match is_unchanged(dir, listed) {
            Ok(true) => fs::remove_file(dir.join(&listed.path))?,
            Ok(false) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let above = Path::new(&listed.path).ancestors().skip(1);
        folders.extend(
            above
                .filter(|p| !p.as_os_str().is_empty())
                .map(Path::to_owned),
        );
    }
    // The deepest folders first: a path sorts after those above it.
    for folder in folders.iter().rev() {
        gone(fs::remove_dir(dir.join(folder)))?;
    }
    Ok(())
}

/// Judges the result of removing a folder: returns true if the folder is gone, and false if it was
/// not empty. Other errors are passed on.
pub fn gone(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(e) => Err(e),
    }
}
