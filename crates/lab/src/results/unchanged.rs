//! Reads files of results folders only if they are unchanged, by the SHA-256 in the folder's list,
//! so that edited figures are not taken for those of a run.

use super::manifest::{Listed, MANIFEST, Manifest, digest};
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Path, PathBuf};

/// The files of a results folder. A file can't be checked if the folder has no list, as in earlier
/// versions, or the list does not have the file.
pub struct Unchanged {
    dir: PathBuf,
    listed: BTreeMap<String, Listed>,
}

impl Unchanged {
    /// Reads the list of a results folder, by which its files are checked; without a list no file
    /// is checked.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn of(dir: &Path) -> Result<Self> {
        let list = Manifest::read(dir)?;
        let files = list.into_iter().flat_map(|list| list.files);
        Ok(Self {
            dir: dir.to_owned(),
            listed: files.map(|f| (f.path.clone(), f)).collect(),
        })
    }

    /// Returns the bytes of a file, given by its path in the folder. A file in the folder's list
    /// must have the listed length and SHA-256.
    ///
    /// # Errors
    /// Fails if the file can't be read, is no regular file, or was changed since it was written.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        input::file(&self.dir.join(name))?.read_to_end(&mut bytes)?;
        let listed = self.listed.get(name);
        match listed.is_none_or(|listed| *listed == Listed::new(name, &bytes)) {
            true => Ok(bytes),
            false => Err(changed()),
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

/// Returns the text of a file of a results folder; see [`Unchanged::text`].
///
/// # Errors
/// Fails as [`Unchanged::of`] and [`Unchanged::text`] do.
pub fn text_unchanged(dir: &Path, name: &str) -> Result<String> {
    Unchanged::of(dir)?.text(name)
}

/// Checks that a file was not changed since it was written, by the list in its folder or in the
/// folder above. A file in neither list passes.
///
/// # Errors
/// Fails if the file can't be read, or was changed.
pub fn must_be_unchanged(path: &Path) -> Result<()> {
    for dir in path.ancestors().skip(1).take(2) {
        let Some(name) = path.strip_prefix(dir).ok().and_then(Path::to_str) else {
            continue;
        };
        // A bare name is in the current folder.
        let at = match dir.as_os_str().is_empty() {
            true => Path::new("."),
            false => dir,
        };
        if let Some(listed) = Unchanged::of(at)?.listed.get(name) {
            let (bytes, sha256) = digest(input::file(path)?)?;
            return match (bytes, &sha256) == (listed.bytes, &listed.sha256) {
                true => Ok(()),
                false => Err(changed()),
            };
        }
    }
    Ok(())
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
        // Files that others put there can't be checked.
        fs::write(path("notes.txt"), "n").unwrap();
        assert_eq!(read("notes.txt").as_deref(), Ok("n"));
        assert!(must_be_unchanged(&path("notes.txt")).is_ok());
        fs::remove_file(path(MANIFEST)).unwrap();
        assert!(read("results.json").is_ok());
        let folder = read("series").unwrap_err();
        assert_eq!(folder, "it is a folder, and no file");
    }
}
