//! What a results folder holds: the list by which its files are known, and nothing else is touched.

use super::log::LOG;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The list's name in its folder.
pub const MANIFEST: &str = "manifest.json";
/// The form of the list.
const FORM: u32 = 1;

/// The longest list that is read, in bytes: of a folder of some hundred thousand files.
const MOST_LIST: u64 = 64 << 20;

/// Which command a folder is of.
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
    /// The command's name.
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
    /// Its path inside the folder, with `/`.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its contents, in hex digits as `sha256sum` prints them.
    pub sha256: String,
}

impl Listed {
    /// A file by its contents.
    pub fn new(path: &str, contents: &[u8]) -> Self {
        Self {
            path: path.into(),
            bytes: contents.len() as u64,
            sha256: hex(&Sha256::digest(contents)),
        }
    }
}

/// The list of a folder's files, as `manifest.json` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of this list; also the mark by which we know our folders.
    pub lowmark_manifest: u32,
    /// The program's version.
    pub lowmark: String,
    /// The command that wrote it.
    pub kind: Kind,
    /// What was run.
    pub title: String,
    /// Whether all that was asked for is there.
    pub complete: bool,
    /// Every file but this list, in the order of paths.
    pub files: Vec<Listed>,
}

impl Manifest {
    /// The list of these files.
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

    /// Its text.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data has a JSON form");
        text.push('\n');
        text
    }

    /// The list of a folder; `None` if it has none of ours.
    ///
    /// # Errors
    /// What the system says, other than that there is no such file.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        let path = dir.join(MANIFEST);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        }
        let read = serde_json::from_slice::<Self>(&input::bytes(&path, MOST_LIST)?);
        Ok(read.ok().filter(|m| {
            // A path that leads elsewhere was not written by us, and must not be removed by us.
            m.lowmark_manifest == FORM && m.files.iter().all(|f| is_inside(&f.path))
        }))
    }
}

/// Whether a path stays inside the folder that it is meant for.
pub fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Hex digits, two a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// SHA-256 of what a reader gives, in hex digits, and its length.
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

/// What lies in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// There is no such folder.
    Absent,
    /// Nothing.
    Empty,
    /// What its list says, unchanged, and nothing else. Files that somebody removed may be missing.
    Ours(Manifest),
    /// Something that is not ours, or not any more: the words that say so.
    Foreign(String),
}

/// Looks what lies in a folder, to the contents of every file.
///
/// # Errors
/// What the system says.
pub fn inspect(dir: &Path) -> io::Result<Contents> {
    inspect_beside(dir, &[])
}

/// As [`inspect`], leaving files of these names in the folder itself aside.
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
            format!("holds `{}` and no {MANIFEST} of ours", found[0].path)
        }));
    };
    for f in &found {
        if let Some(wrong) = f.foreign(dir, &manifest)? {
            return Ok(Contents::Foreign(wrong));
        }
    }
    Ok(Contents::Ours(manifest))
}

/// Whether a folder has results of an earlier version, which kept no list.
pub fn is_earlier(dir: &Path) -> bool {
    let path = dir.join("results.json");
    let text = input::file(&path).and_then(|mut file| {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map(|_| text)
    });
    text.is_ok_and(|text| serde_json::from_slice::<Mark>(&text).is_ok())
}

/// What every `results.json` of an earlier version has.
#[derive(Deserialize)]
struct Mark {
    #[serde(rename = "lowmark")]
    _version: String,
}

/// Something in a folder.
struct Found {
    /// Relative path; what is no UTF-8 has replacement characters, which no list of ours has.
    path: String,
    kind: fs::FileType,
}

impl Found {
    /// Why it is not ours.
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

/// Whether a listed file is there as it was written.
fn is_unchanged(dir: &Path, listed: &Listed) -> io::Result<bool> {
    let path = dir.join(&listed.path);
    if fs::symlink_metadata(&path)?.len() != listed.bytes {
        return Ok(false);
    }
    let (bytes, sha256) = digest(input::file(&path)?)?;
    Ok((bytes, &sha256) == (listed.bytes, &listed.sha256))
}

/// Everything below a folder, without following links, in the order of paths.
fn walk(dir: &Path) -> io::Result<Vec<Found>> {
    let mut found = BTreeMap::new();
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

/// Bytes of everything below a folder.
pub fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for f in walk(dir)? {
        if f.kind.is_file() {
            bytes += fs::symlink_metadata(dir.join(&f.path)).map_or(0, |m| m.len());
        }
    }
    Ok(bytes)
}

/// Removes what the folder's list names, as far as it is unchanged, then the list and the folder; whether
/// it is gone. Whatever else is there stays, and so do the folder and its list then.
///
/// The list goes last, so that a removal that was broken off can be gone on with, and a folder with
/// somebody else's files in it is never one without a list.
///
/// # Errors
/// What the system says.
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

/// Removes the files of a list as far as they are unchanged, and folders that are empty then.
///
/// # Errors
/// What the system says.
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
    // The deepest first: a path comes after those above it.
    for folder in folders.iter().rev() {
        gone(fs::remove_dir(dir.join(folder)))?;
    }
    Ok(())
}

/// Whether a folder is gone; one with something in it is not.
pub fn gone(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(e) => Err(e),
    }
}
