//! The mapping between paths and files.

use std::collections::{BTreeMap, BTreeSet};

/// The files that paths currently name. A file may have several names.
#[derive(Default)]
pub struct Names {
    files: BTreeMap<Vec<u8>, u32>,
    paths: BTreeMap<u32, BTreeSet<Vec<u8>>>,
}

impl Names {
    /// Returns the file of a path.
    pub fn get(&self, path: &[u8]) -> Option<u32> {
        self.files.get(path).copied()
    }

    /// Returns the first path of a file, in the order of bytes.
    pub fn of(&self, file: u32) -> Option<&[u8]> {
        Some(self.paths.get(&file)?.first()?)
    }

    /// Makes `path` a name of `file`. Returns the file that the path named before; `None` if there
    /// was none.
    pub fn insert(&mut self, path: Vec<u8>, file: u32) -> Option<u32> {
        let old = self.remove(&path);
        self.paths.entry(file).or_default().insert(path.clone());
        self.files.insert(path, file);
        old
    }

    /// Removes a path. Returns the file that it named; `None` if it named none.
    pub fn remove(&mut self, path: &[u8]) -> Option<u32> {
        let file = self.files.remove(path)?;
        if let Some(paths) = self.paths.get_mut(&file) {
            paths.remove(path);
            if paths.is_empty() {
                self.paths.remove(&file);
            }
        }
        Some(file)
    }

    /// Returns the paths that begin with `prefix`, as of a directory, with the numbers of their
    /// files.
    pub fn below(&self, prefix: &[u8]) -> Vec<(Vec<u8>, u32)> {
        let from = self.files.range(prefix.to_vec()..);
        let below = from.take_while(|(path, _)| path.starts_with(prefix));
        below.map(|(path, file)| (path.clone(), *file)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_names_and_they_by_it() {
        let mut names = Names::default();
        let path = |s: &str| s.as_bytes().to_vec();
        assert_eq!(names.insert(path("b"), 1), None);
        assert_eq!(names.insert(path("a"), 1), None);
        assert_eq!(names.of(1), Some(&b"a"[..]));
        assert_eq!(names.insert(path("a"), 2), Some(1));
        assert_eq!(
            (names.of(1), names.of(2)),
            (Some(&b"b"[..]), Some(&b"a"[..]))
        );
        assert_eq!(names.remove(b"b"), Some(1));
        assert_eq!((names.of(1), names.get(b"b")), (None, None));
        names.insert(path("d/x"), 3);
        names.insert(path("d/y"), 4);
        names.insert(path("dz"), 5);
        assert_eq!(names.below(b"d/"), [(path("d/x"), 3), (path("d/y"), 4)]);
    }
}
