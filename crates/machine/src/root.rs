//! The source of the files: the running system, or a saved tree.

use crate::parse::ParseError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file that is read, in bytes; `/proc/zoneinfo` of a thousand nodes has some 10 MB.
const MOST_BYTES: u64 = 64 << 20;

/// A file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The problem with it.
    pub what: String,
}

/// The root of the files that are read.
#[derive(Debug)]
pub struct Root {
    dir: PathBuf,
    read: RefCell<BTreeMap<String, String>>,
}

impl Root {
    /// Returns the running system.
    pub fn live() -> Self {
        Self::at("/")
    }

    /// Returns a saved tree with `proc` and `sys` below `dir`.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            read: RefCell::default(),
        }
    }

    /// Returns true for the running system.
    pub fn is_live(&self) -> bool {
        self.dir == Path::new("/")
    }

    /// Returns the full path of a file, for messages.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Reads a file and returns its text. The text is kept, so that [`Self::save`] can write
    /// everything that was read.
    ///
    /// # Errors
    /// The file is missing, no regular file, too large, or not UTF-8.
    pub fn text(&self, file: &str) -> Result<String, ReadError> {
        let path = self.path(file);
        let fail = |what: String| ReadError {
            path: path.clone(),
            what,
        };
        // A tree from an untrusted source may contain anything.
        let opened = input::file(&path).map_err(|e| fail(e.to_string()))?;
        let mut bytes = Vec::new();
        opened
            .take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| fail(e.to_string()))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(fail(format!("is larger than {MOST_BYTES} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| fail("is not text".into()))?;
        self.read.borrow_mut().insert(file.into(), text.clone());
        Ok(text)
    }

    /// Does the same as [`Self::text`], but a saved tree keeps only the result of `part`: no more
    /// of a machine should be passed on than is needed.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn part(&self, file: &str, part: impl FnOnce(&str) -> String) -> Result<String, ReadError> {
        let kept = part(&self.text(file)?);
        self.read.borrow_mut().insert(file.into(), kept.clone());
        Ok(kept)
    }

    /// Reads a file and parses it.
    ///
    /// # Errors
    /// As [`Self::text`], and errors of the parser.
    pub fn parsed<T>(
        &self,
        file: &str,
        parser: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<T, ReadError> {
        parser(&self.text(file)?).map_err(|e| self.wrong(file, e))
    }

    /// Does the same as [`Self::parsed`] for a file that may be missing; `None` if it can't be
    /// read.
    ///
    /// # Errors
    /// The parser fails.
    pub fn optional<T>(
        &self,
        file: &str,
        parser: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>, ReadError> {
        match self.text(file) {
            Ok(text) => parser(&text).map(Some).map_err(|e| self.wrong(file, e)),
            Err(_) => Ok(None),
        }
    }

    /// Makes an error about a file: `what` is the problem.
    pub fn wrong(&self, file: &str, what: impl Display) -> ReadError {
        ReadError {
            path: self.path(file),
            what: what.to_string(),
        }
    }

    /// Returns the names in a folder, sorted; empty if there is no such folder.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(folder))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Returns the files read so far: the path of each below the root, and its text.
    pub fn files(&self) -> Vec<(String, String)> {
        let read = self.read.borrow();
        read.iter()
            .map(|(file, text)| (file.to_string(), text.to_string()))
            .collect()
    }

    /// Writes the files read so far into a tree that [`Self::at`] can read. Returns the number of
    /// files.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn save(&self, to: &Path) -> Result<usize, ReadError> {
        let read = self.read.borrow();
        for (file, text) in read.iter() {
            let path = to.join(file);
            let written = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&path, text));
            written.map_err(|e| ReadError {
                path,
                what: e.to_string(),
            })?;
        }
        Ok(read.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::number;

    #[test]
    fn what_was_read_can_be_saved_and_read_again() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(from.path().join("proc/sys/vm")).unwrap();
        std::fs::write(from.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        std::fs::write(from.path().join("proc/other"), "x").unwrap();
        let root = Root::at(from.path());
        assert!(!root.is_live());
        assert_eq!(root.parsed("proc/sys/vm/swappiness", number), Ok(60));
        assert_eq!(root.save(to.path()).unwrap(), 1);
        let again = Root::at(to.path());
        assert_eq!(again.parsed("proc/sys/vm/swappiness", number), Ok(60));
        assert_eq!(again.names("proc"), ["sys"]);
        assert!(again.names("sys/block").is_empty());
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        std::fs::write(dir.path().join("n"), "many").unwrap();
        std::fs::write(dir.path().join("b"), [0xff, 0xfe]).unwrap();
        let e = root.parsed("n", number).unwrap_err().to_string();
        assert!(e.ends_with("n: line 1: `many` is not a number"), "{e}");
        assert!(root.text("b").unwrap_err().what.contains("not text"));
        assert!(root.text("none").is_err());
        assert!(root.text("").unwrap_err().what.contains("no file"));
        assert_eq!(root.optional("none", number), Ok(None));
        assert!(root.optional("n", number).is_err());
    }
}
