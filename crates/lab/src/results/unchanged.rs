//! Reads files of results folders only if they are unchanged, by the SHA-256 in the folder's list,
//! so that edited figures are not taken for those of a run.

use super::manifest::{Listed, MANIFEST, MOST_LIST, Manifest, digest};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Path, PathBuf};

/// The files of a results folder that its list names, which can be checked.
pub struct Unchanged {
    dir: PathBuf,
    listed: BTreeMap<String, Listed>,
}

impl Unchanged {
    /// Reads the list of a results folder, by which its files are checked.
    ///
    /// # Errors
    /// There is no list that Lowmark wrote: an earlier version kept none, or it was removed or
    /// replaced, and then no file can be checked.
    pub fn of(dir: &Path) -> Result<Self> {
        let path = dir.join(MANIFEST);
        let unchecked = |why: &dyn fmt::Display| {
            let what = format!(
                "the folder's files can't be checked for changes, because its {MANIFEST} {why}"
            );
            Error::new(ErrorKind::InvalidData, what)
        };
        // Follows links, unlike `Manifest::read`, which decides what may be removed.
        let bytes = input::bytes(&path, MOST_LIST).map_err(|e| match e.kind() {
            ErrorKind::NotFound => unchecked(&"is missing"),
            _ => unchecked(&format_args!("can't be read: {e}")),
        })?;
        let list =
            Manifest::parse(&bytes).ok_or_else(|| unchecked(&"was not written by lowmark"))?;
        let files = list.files.into_iter();
        Ok(Self {
            dir: dir.to_owned(),
            listed: files.map(|f| (f.path.clone(), f)).collect(),
        })
    }

    /// Returns the paths of the listed files in the folder.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.keys().map(String::as_str)
    }

    /// Returns the bytes of a file, given by its path in the folder. The folder's list must have it
    /// with the same length and SHA-256.
    ///
    /// # Errors
    /// Fails if the file can't be read, is no regular file, is not in the list, or was changed
    /// since it was written.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        input::file(&self.dir.join(name))?.read_to_end(&mut bytes)?;
        match self.listed.get(name) {
            Some(listed) if *listed == Listed::new(name, &bytes) => Ok(bytes),
            Some(_) => Err(changed()),
            None => Err(Error::new(
                ErrorKind::InvalidData,
                format!(
                    "it can't be checked for changes, because {MANIFEST} beside it does not list it"
                ),
            )),
        }
    }

    /// Returns the text of a file, given by its path in the folder, and checks it as [`Self::read`]
    /// does.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does, and if the file is not UTF-8.
    pub fn text(&self, name: &str) -> Result<String> {
        let text = String::from_utf8(self.read(name)?);
        text.map_err(|_| Error::new(ErrorKind::InvalidData, "it is not text (UTF-8)"))
    }
}

/// Reads the list of a results folder by which its file `name` is checked. A missing or strange
/// file is a clearer error than a missing list, so it comes first: [`ErrorKind::NotFound`] is the
/// file's.
fn list_for(dir: &Path, name: &str) -> Result<Unchanged> {
    input::file(&dir.join(name))?;
    Unchanged::of(dir)
}

/// Returns the bytes of a file of a results folder; see [`Unchanged::read`].
///
/// # Errors
/// Fails as [`Unchanged::of`] and [`Unchanged::read`] do; a missing file is
/// [`ErrorKind::NotFound`], even if the folder has no list.
pub fn bytes_unchanged(dir: &Path, name: &str) -> Result<Vec<u8>> {
    list_for(dir, name)?.read(name)
}

/// Returns the text of a file of a results folder; see [`Unchanged::text`].
///
/// # Errors
/// Fails as [`bytes_unchanged`] does, and if the file is not UTF-8.
pub fn text_unchanged(dir: &Path, name: &str) -> Result<String> {
    list_for(dir, name)?.text(name)
}

/// Finds a file in the list of its folder or of the folder above; `None` if neither has it.
fn listed(path: &Path) -> Option<Listed> {
    for dir in path.ancestors().skip(1).take(2) {
        let Some(name) = path.strip_prefix(dir).ok().and_then(Path::to_str) else {
            continue;
        };
        // The folder of a bare name is empty.
        let at = match dir.as_os_str().is_empty() {
            true => Path::new("."),
            false => dir,
        };
        let found = Unchanged::of(at).ok();
        if let Some(listed) = found.and_then(|mut folder| folder.listed.remove(name)) {
            return Some(listed);
        }
    }
    None
}

/// Checks that a file was not changed since it was written, by the list in its folder or in the
/// folder above. Returns true if it was checked: a file in neither list passes.
///
/// # Errors
/// Fails if the file can't be read, or was changed.
pub fn must_be_unchanged(path: &Path) -> Result<bool> {
    let Some(listed) = listed(path) else {
        return Ok(false);
    };
    let (bytes, sha256) = digest(input::file(path)?)?;
    match (bytes, &sha256) == (listed.bytes, &listed.sha256) {
        true => Ok(true),
        false => Err(changed()),
    }
}

/// Reads a file that may stand alone. Returns its bytes, and true if they were checked as by
/// [`must_be_unchanged`].
///
/// # Errors
/// Fails as [`must_be_unchanged`] does.
pub fn read_alone(path: &Path) -> Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    input::file(path)?.read_to_end(&mut bytes)?;
    match listed(path) {
        None => Ok((bytes, false)),
        Some(listed) if listed == Listed::new(&listed.path, &bytes) => Ok((bytes, true)),
        Some(_) => Err(changed()),
    }
}

/// Builds the error for a file that was changed since Lowmark wrote it.
fn changed() -> Error {
    let what = format!(
        "it was changed since lowmark wrote it (its SHA-256 is not the one in {MANIFEST} beside it)"
    );
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;
    use crate::results::tests::fifo;
    use std::fs;

    #[test]
    fn a_file_that_was_changed_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let path = |name: &str| dir.join(name);
        fs::create_dir(path("series")).unwrap();
        let files = ["results.json", "series/1-a.csv"].map(|name| {
            fs::write(path(name), name).unwrap();
            Listed::new(name, name.as_bytes())
        });
        let list = Manifest::new(Kind::Run, "t", true, files.to_vec());
        fs::write(path(MANIFEST), list.text()).unwrap();
        let read = |name: &str| text_unchanged(dir, name).map_err(|e| e.to_string());
        for name in ["results.json", "series/1-a.csv"] {
            assert_eq!(read(name).as_deref(), Ok(name));
            assert!(must_be_unchanged(&path(name)).is_ok());
            // The replacement has the same length and another digest.
            fs::write(path(name), name.replace('s', "z")).unwrap();
            let said = read(name).unwrap_err();
            assert!(
                said.contains("was changed since lowmark wrote it"),
                "{said}"
            );
            assert!(must_be_unchanged(&path(name)).is_err());
        }
        let folder = read("series").unwrap_err();
        assert_eq!(folder, "it is a folder, and no file");
        // Files that others put there can't be checked.
        fs::write(path("notes.txt"), "n").unwrap();
        assert!(read("notes.txt").unwrap_err().contains("does not list it"));
        assert!(matches!(must_be_unchanged(&path("notes.txt")), Ok(false)));
    }

    /// A list that was removed or replaced checks nothing, so nothing is read.
    #[test]
    fn without_a_list_no_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (list, file) = (dir.join(MANIFEST), dir.join("results.json"));
        fs::write(&file, "{}").unwrap();
        let refused = |why: &str| {
            let said = text_unchanged(dir, "results.json").unwrap_err().to_string();
            assert!(
                said.contains("can't be checked") && said.contains(why),
                "{said}"
            );
            assert!(matches!(must_be_unchanged(&file), Ok(false)));
            let _ = fs::remove_file(&list);
        };
        refused("is missing");
        fs::write(&list, "{\"name\": \"an app\"}").unwrap();
        refused("was not written by lowmark");
        std::os::unix::fs::symlink("/dev/zero", &list).unwrap();
        refused("it is a device");
        fifo(&list);
        refused("it is a named pipe");
        let empty = Manifest::new(Kind::Run, "t", true, Vec::new()).text();
        fs::write(dir.join("elsewhere"), empty).unwrap();
        std::os::unix::fs::symlink("elsewhere", &list).unwrap();
        refused("does not list it");
        let gone = text_unchanged(dir, "gone").unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}
