//! The names that tasks see: directories and what lies in them.

use crate::filesystems::DirId;
use crate::spec::mount_of;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    File(u32),
    Dir(DirId),
}

#[derive(Default)]
struct Directory {
    /// Which one it is, if it was made; others are their filesystem's root under another name.
    id: Option<DirId>,
    names: BTreeMap<String, Named>,
}

/// All directories by their plain paths. A look-up finds the directory, then the name in it.
#[derive(Default)]
pub(super) struct Names {
    dirs: BTreeMap<String, Directory>,
    /// The mount points of all filesystems; that of the first is empty.
    mounts: Vec<String>,
}

/// Directory and name of a plain path.
fn split(path: &str) -> (&str, &str) {
    // From behind, byte by byte: names are short.
    match path.bytes().rposition(|b| b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    }
}

/// The spelling of a path: no slash at the end, one between names.
pub(super) fn plain(path: &str) -> Cow<'_, str> {
    let mut before = b'/';
    let doubled = |b: u8| std::mem::replace(&mut before, b) == b'/' && b == b'/';
    if !path.bytes().any(doubled) && before != b'/' {
        return Cow::Borrowed(path);
    }
    let names: Vec<&str> = path.split('/').filter(|n| !n.is_empty()).collect();
    Cow::Owned(names.join("/"))
}

impl Names {
    /// No names but those of the mount points.
    pub fn new(mounts: &[&str]) -> Self {
        let mut names = Self {
            mounts: mounts.iter().map(|&m| m.to_owned()).collect(),
            ..Self::default()
        };
        for (fs, path) in (0..).zip(mounts).skip(1) {
            names.enter(path, Named::Dir(DirId::root(fs)));
        }
        names
    }

    /// The root of the filesystem that a plain path is on.
    fn root_of(&self, path: &str) -> DirId {
        DirId::root(mount_of(&self.mounts, path) as u32)
    }

    /// What a plain path names; the empty one is the root.
    pub fn find(&self, path: &str) -> Option<Named> {
        if path.is_empty() {
            return Some(Named::Dir(DirId::root(0)));
        }
        let (dir, name) = split(path);
        self.dirs.get(dir)?.names.get(name).copied()
    }

    /// The directory that a plain path is in; its filesystem's root if nobody made it.
    pub fn dir_of(&self, path: &str) -> DirId {
        let dir = self.dirs.get(split(path).0);
        dir.and_then(|d| d.id).unwrap_or_else(|| self.root_of(path))
    }

    /// Enters a name, or gives it another meaning.
    pub fn enter(&mut self, path: &str, named: Named) {
        let (dir, name) = split(path);
        if !self.dirs.contains_key(dir) {
            self.dirs.insert(dir.to_owned(), Directory::default());
        }
        let names = &mut self.dirs.get_mut(dir).expect("just made").names;
        names.insert(name.to_owned(), named);
        if let Named::Dir(id) = named {
            self.dirs.entry(path.to_owned()).or_default().id = Some(id);
        }
    }

    /// Removes a file's name.
    pub fn remove(&mut self, path: &str) {
        let (dir, name) = split(path);
        if let Some(dir) = self.dirs.get_mut(dir) {
            dir.names.remove(name);
        }
    }

    /// Removes an empty directory; `false`: it is not.
    pub fn remove_dir(&mut self, path: &str) -> bool {
        if self.dirs.get(path).is_some_and(|d| !d.names.is_empty()) {
            return false;
        }
        self.dirs.remove(path);
        self.remove(path);
        true
    }

    /// The names in a directory, in order of spelling.
    pub fn names_in(&self, dir: &str) -> Vec<String> {
        let dir = self.dirs.get(dir);
        dir.map_or_else(Vec::new, |d| d.names.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_lie() {
        let mut n = Names::default();
        let at = |number| DirId { fs: 0, number };
        assert_eq!(n.find(""), Some(Named::Dir(at(0))));
        n.enter("a", Named::Dir(at(1)));
        n.enter("a/y", Named::File(8));
        n.enter("a/b", Named::Dir(at(2)));
        n.enter("a/b/x", Named::File(9));
        // Nobody made `c`.
        n.enter("c/x", Named::File(7));
        let found = ["a", "a/b", "a/b/x", "a/y", "c/x", "c", "x", "a/x"].map(|p| n.find(p));
        let dir = |number| Some(Named::Dir(at(number)));
        let file = |id| Some(Named::File(id));
        assert_eq!(
            found,
            [dir(1), dir(2), file(9), file(8), file(7), None, None, None]
        );
        let dirs = ["a", "a/b/x", "a/y", "c/x", "d/e/f"].map(|p| n.dir_of(p));
        assert_eq!(dirs, [0, 2, 1, 0, 0].map(at));
        let names = |d: &str| n.names_in(d).join(" ");
        assert_eq!(["", "a", "a/b", "d"].map(names), ["a", "b y", "x", ""]);
        n.remove("a/b/x");
        assert_eq!((n.find("a/b/x"), n.find("a/b")), (None, dir(2)));
    }

    #[test]
    fn paths_below_the_mount_point_are_on_the_second_filesystem() {
        let mut n = Names::new(&["", "mnt2"]);
        let root = |fs| Some(Named::Dir(DirId::root(fs)));
        assert_eq!([n.find(""), n.find("mnt2")], [root(0), root(1)]);
        let made = DirId { fs: 1, number: 4 };
        n.enter("mnt2/a", Named::Dir(made));
        let dirs = ["mnt2", "mnt2/x", "mnt2/a/x", "mnt2/b/c/x", "mnt2b/x", "x"];
        let on = dirs.map(|p| n.dir_of(p));
        let [first, second] = [0, 1].map(DirId::root);
        assert_eq!(on, [first, second, made, second, first, first]);
        assert_eq!(n.names_in(""), ["mnt2"]);
    }

    /// The nearest mount point decides, whatever the order of mounting.
    #[test]
    fn mount_points_may_be_below_each_other() {
        let n = Names::new(&["", "a/b/c", "a", "a/bc"]);
        let paths = [
            "x", "a/x", "a/b/x", "a/b/c/x", "a/b/cc/x", "a/bc/d/x", "ab/x",
        ];
        let on = paths.map(|p| n.dir_of(p).fs);
        assert_eq!(on, [0, 2, 2, 1, 2, 3, 0]);
        let root = |fs| Some(Named::Dir(DirId::root(fs)));
        assert_eq!([n.find("a"), n.find("a/b/c")], [root(2), root(1)]);
    }

    #[test]
    fn plain_paths() {
        for (path, spelt) in [("", ""), ("/", ""), ("a", "a"), ("//a/b//c/", "a/b/c")] {
            assert_eq!(plain(path), spelt);
        }
    }
}
