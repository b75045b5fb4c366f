//! The name space that tasks see: directories and their entries.

use crate::filesystems::DirId;
use crate::spec::mount_of;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::hash::Hasher;
use std::rc::Rc;
use workload::{Listing, joined};

/// The object that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    File(u32),
    Dir(DirId),
}

/// Number of a directory path. Every directory path that was ever named has one, whether the
/// directory exists or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirPlace(u32);

/// The place of the root directory.
const ROOT: DirPlace = DirPlace(0);

/// A directory path, whether a directory exists there or not.
struct Directory {
    /// Plain path of the directory ([`plain`]).
    path: Rc<str>,
    /// Place of the parent directory and the name in it; the root is its own parent and has an
    /// empty name.
    above: DirPlace,
    name: Rc<str>,
    /// Root directory of the filesystem that the entries are on.
    root: DirId,
    /// The directory's identity once it was made; `None`: its names are in the root of its
    /// filesystem.
    id: Option<DirId>,
    names: HashTable<Entry>,
    /// The sorted names as last listed; dropped when an entry is added, removed or changed.
    listed: Option<Listed>,
}

/// The names of a directory, sorted by spelling.
struct Listed {
    names: Listing,
    /// The object that each of the names stands for.
    named: Box<[Named]>,
}

/// A name's bytes; up to 40 need no heap memory. `from_slice` copies them in one piece, `into` byte
/// by byte.
type Spelt = SmallVec<[u8; 40]>;

/// Returns a spelling as text.
fn text(spelt: &Spelt) -> &str {
    str::from_utf8(spelt).expect("it was a text")
}

/// An entry in a directory.
struct Entry {
    spelt: Spelt,
    hash: u64,
    named: Named,
}

/// A name to look up in a directory, and perhaps to enter there, with its hash computed once.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub name: &'a str,
    hash: u64,
}

impl<'a> Wanted<'a> {
    /// Prepares a name for a look-up: computes its hash once.
    pub fn new(name: &'a str) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write(name.as_bytes());
        Self {
            name,
            hash: hasher.finish(),
        }
    }

    /// Returns true if an entry has this name.
    fn is(&self, entry: &Entry) -> bool {
        entry.hash == self.hash && *entry.spelt == *self.name.as_bytes()
    }
}

/// Name of an open file: its directory and the entry there, or the path of a device.
#[derive(Debug, Clone)]
pub(super) struct FileName {
    dir: DirPlace,
    name: Spelt,
}

impl FileName {
    pub fn new(dir: DirPlace, name: &str) -> Self {
        let name = Spelt::from_slice(name.as_bytes());
        Self { dir, name }
    }

    /// Returns the name of a device.
    pub fn device(path: &str) -> Self {
        Self::new(ROOT, path)
    }
}

/// All directories by their plain paths. Each path is resolved to its directory's place once; a
/// look-up in a directory then hashes only the entry's name, however many entries there are. The
/// hash table's order is never visible: reading a directory sorts the names. A place belongs to its
/// path for the whole run, so code that keeps a place finds the directory that has the path now.
pub(super) struct Names {
    /// Index in `dirs` of each plain path.
    places: FxHashMap<Rc<str>, DirPlace>,
    dirs: Vec<Directory>,
    /// Mount points of all filesystems as plain paths; the first is the root and empty.
    mounts: Vec<String>,
}

impl Default for Names {
    fn default() -> Self {
        Self::new(&[""])
    }
}

/// Splits a plain path at its last slash into the directory's path and the name in it; the
/// directory of a path without slash is the root, whose path is empty.
pub(super) fn split(path: &str) -> (&str, &str) {
    // Searches from the end, byte by byte: names are short.
    match path.bytes().rposition(|b| b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    }
}

/// Returns a path's plain spelling: no slash at either end, one between names, and no `.`
/// components. Borrows the path if it is spelt so already.
pub(super) fn plain(path: &str) -> Cow<'_, str> {
    // True if a byte after a slash is a slash or a dot, so that the path may not be plain.
    let mut before = b'/';
    let doubled = |b: u8| std::mem::replace(&mut before, b) == b'/' && (b == b'/' || b == b'.');
    if !path.bytes().any(doubled) && before != b'/' {
        return Cow::Borrowed(path);
    }
    let names: Vec<&str> = path
        .split('/')
        .filter(|n| !n.is_empty() && *n != ".")
        .collect();
    Cow::Owned(names.join("/"))
}

impl Names {
    /// Makes a name space that holds only the mount points: plain paths in the order of the
    /// filesystems, of which the first is the root's.
    pub fn new(mounts: &[&str]) -> Self {
        let mut names = Self {
            mounts: mounts.iter().map(|&m| m.to_owned()).collect(),
            places: FxHashMap::default(),
            dirs: Vec::new(),
        };
        names.place_or_new("");
        for (fs, path) in (0..).zip(mounts).skip(1) {
            names.enter(path, Named::Dir(DirId::root(fs)));
        }
        names
    }

    /// Returns the index of the filesystem mounted at a plain path; `None` if it is no mount point.
    pub fn mounted_at(&self, path: &str) -> Option<usize> {
        self.mounts.iter().position(|mount| mount == path)
    }

    /// Returns the root directory of the filesystem that a plain path is on.
    fn root_of(&self, path: &str) -> DirId {
        DirId::root(mount_of(&self.mounts, path) as u32)
    }

    /// Returns the directory at a place.
    fn dir(&self, place: DirPlace) -> &Directory {
        &self.dirs[place.0 as usize]
    }

    /// Returns the place of a plain path; `None` if it was never named as a directory.
    pub fn place(&self, path: &str) -> Option<DirPlace> {
        self.places.get(path).copied()
    }

    /// Returns the place (number) of a plain path as a directory, making one, and those of its
    /// parents, if the path was never named. No directory is made on the filesystem.
    pub fn place_or_new(&mut self, path: &str) -> DirPlace {
        if let Some(place) = self.place(path) {
            return place;
        }
        let (above, name) = match path {
            "" => (ROOT, ""),
            path => {
                let (above, name) = split(path);
                (self.place_or_new(above), name)
            }
        };
        let place = DirPlace(self.dirs.len() as u32);
        let path: Rc<str> = path.into();
        self.dirs.push(Directory {
            above,
            name: name.into(),
            root: self.root_of(&joined(&path, ".")),
            path: Rc::clone(&path),
            id: None,
            names: HashTable::new(),
            listed: None,
        });
        self.places.insert(path, place);
        place
    }

    /// Looks up a plain path; the empty path is the root. Returns `None` if nothing has this name.
    pub fn find(&self, path: &str) -> Option<Named> {
        if path.is_empty() {
            return Some(Named::Dir(DirId::root(0)));
        }
        let (dir, name) = split(path);
        self.find_in(self.place(dir)?, Wanted::new(name))
    }

    /// Looks up a name in the directory at a place. Returns the file or directory; `None` if the
    /// name does not exist there.
    pub fn find_in(&self, dir: DirPlace, name: Wanted<'_>) -> Option<Named> {
        let names = &self.dir(dir).names;
        let known = names.find(name.hash, |entry| name.is(entry));
        known.map(|entry| entry.named)
    }

    /// Returns the objects of a directory's names, if `names` is its current listing
    /// ([`Self::names_in`]).
    fn listed(&self, dir: DirPlace, names: &Listing) -> Option<&[Named]> {
        let now = self.dir(dir).listed.as_ref()?;
        Rc::ptr_eq(&now.names, names).then_some(&now.named)
    }

    /// Returns the object that the `nth` name of a listing stands for, as [`Self::find_in`] does;
    /// `names` was returned by [`Self::names_in`] and most likely is still current. The names of a
    /// listing are walked in order, so neither the name's bytes nor its hash table entry, both long
    /// gone from the processor's caches, need to be read.
    pub fn find_listed(&self, dir: DirPlace, names: &Listing, nth: usize) -> Option<Named> {
        match self.listed(dir, names) {
            Some(named) => Some(named[nth]),
            None => self.find_in(dir, Wanted::new(&names[nth])),
        }
    }

    /// Returns the number of the file that the `nth` name of a current listing stands for; `None`
    /// if it is a directory, the listing is out of date or has no `nth` name.
    pub fn listed_file(&self, dir: DirPlace, names: &Listing, nth: usize) -> Option<u32> {
        match self.listed(dir, names)?.get(nth)? {
            Named::File(id) => Some(*id),
            Named::Dir(_) => None,
        }
    }

    /// Returns true if the path of a place names a file or directory that exists.
    pub fn is_named(&self, place: DirPlace) -> bool {
        let dir = self.dir(place);
        dir.id.is_some()
            || place == ROOT
            || self.find_in(dir.above, Wanted::new(&dir.name)).is_some()
    }

    /// Returns the directory that the last name of a plain path lies in; the root of its filesystem
    /// if that directory was never made.
    pub fn dir_of(&self, path: &str) -> DirId {
        let place = self.place(split(path).0);
        let id = place.and_then(|place| self.dir(place).id);
        id.unwrap_or_else(|| self.root_of(path))
    }

    /// Returns the directory at a place; the root of its filesystem if it was never made.
    pub fn id_of(&self, place: DirPlace) -> DirId {
        let dir = self.dir(place);
        dir.id.unwrap_or(dir.root)
    }

    /// Returns the parent of the directory at a place; the root of its filesystem if the parent was
    /// never made.
    pub fn above(&self, place: DirPlace) -> DirId {
        self.id_of(self.dir(place).above)
    }

    /// Returns a place's plain path.
    pub fn path(&self, place: DirPlace) -> Rc<str> {
        Rc::clone(&self.dir(place).path)
    }

    /// Returns the plain path of a name in a directory.
    pub fn path_in(&self, dir: DirPlace, name: &str) -> String {
        match &*self.dir(dir).path {
            "" => name.to_owned(),
            dir => joined(dir, name),
        }
    }

    /// Returns the path of an open file.
    pub fn path_of(&self, name: &FileName) -> String {
        self.path_in(name.dir, text(&name.name))
    }

    /// Enters a plain path as `named`, a file or directory, replacing an entry of this name; places
    /// of its parents are made.
    pub fn enter(&mut self, path: &str, named: Named) {
        match named {
            Named::Dir(id) => {
                let place = self.place_or_new(path);
                self.enter_dir(place, id);
            }
            Named::File(_) => {
                let (dir, name) = split(path);
                let dir = self.place_or_new(dir);
                self.enter_in(dir, Wanted::new(name), named);
            }
        }
    }

    /// Enters directory `id` at a place: as a name in its parent, and as the directory that the
    /// place's names are in.
    pub fn enter_dir(&mut self, place: DirPlace, id: DirId) {
        let dir = self.dir(place);
        let (above, name) = (dir.above, Rc::clone(&dir.name));
        self.enter_in(above, Wanted::new(&name), Named::Dir(id));
        self.dirs[place.0 as usize].id = Some(id);
    }

    /// Enters a name in a directory, or changes the object that it stands for.
    pub fn enter_in(&mut self, dir: DirPlace, name: Wanted<'_>, named: Named) {
        let dir = &mut self.dirs[dir.0 as usize];
        let known = dir
            .names
            .entry(name.hash, |entry| name.is(entry), |entry| entry.hash);
        match known {
            TableEntry::Occupied(mut known) => known.get_mut().named = named,
            TableEntry::Vacant(place) => {
                place.insert(Entry {
                    spelt: Spelt::from_slice(name.name.as_bytes()),
                    hash: name.hash,
                    named,
                });
            }
        }
        dir.listed = None;
    }

    /// Removes a name from a directory, if it is there.
    pub fn remove_in(&mut self, dir: DirPlace, name: Wanted<'_>) {
        let dir = &mut self.dirs[dir.0 as usize];
        if let Ok(known) = dir.names.find_entry(name.hash, |entry| name.is(entry)) {
            known.remove();
        }
        dir.listed = None;
    }

    /// Removes the directory at a place and its name in its parent. Returns false, and changes
    /// nothing, if it is not empty.
    pub fn remove_dir(&mut self, place: DirPlace) -> bool {
        let dir = &mut self.dirs[place.0 as usize];
        if !dir.names.is_empty() {
            return false;
        }
        // The place stays for its path; everything but the path is freed.
        (dir.id, dir.names, dir.listed) = (None, HashTable::new(), None);
        let (above, name) = (dir.above, Rc::clone(&dir.name));
        self.remove_in(above, Wanted::new(&name));
        true
    }

    /// Returns the names in a directory, sorted by spelling. The listing is kept until an entry
    /// changes.
    pub fn names_in(&mut self, dir: DirPlace) -> Listing {
        let dir = &mut self.dirs[dir.0 as usize];
        let listed = dir.listed.get_or_insert_with(|| {
            let all = dir.names.iter();
            let mut all: Vec<(&str, Named)> = all.map(|e| (text(&e.spelt), e.named)).collect();
            all.sort_unstable_by_key(|(name, _)| *name);
            Listed {
                names: all.iter().map(|(name, _)| Rc::from(*name)).collect(),
                named: all.iter().map(|(_, named)| *named).collect(),
            }
        });
        Rc::clone(&listed.names)
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
        // The directory `c` was never made.
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
        let names = |d: &str| n.place(d).map(|d| n.names_in(d).join(" "));
        let spelt = ["a", "b y", "x"].map(|names| Some(names.to_owned()));
        assert_eq!(["", "a", "a/b"].map(names), spelt);
        assert_eq!(n.place("d"), None);
        let b = n.place("a/b").unwrap();
        n.remove_in(b, Wanted::new("x"));
        assert_eq!((n.find("a/b/x"), n.find("a/b")), (None, dir(2)));
    }

    /// A listing finds the same as looking up each name, whatever changed since the listing was
    /// made.
    #[test]
    fn listed_names_mean_what_they_mean_now() {
        let mut n = Names::default();
        let dir = n.place_or_new("a");
        let enter = |n: &mut Names, name, id| n.enter_in(dir, Wanted::new(name), Named::File(id));
        for (id, name) in [(7, "z"), (8, "x"), (9, "y")] {
            enter(&mut n, name, id);
        }
        let names = n.names_in(dir);
        let listed = |n: &Names| {
            let found = (0..3).map(|nth| n.find_listed(dir, &names, nth));
            let found: Vec<_> = found.collect();
            let looked_up = names.iter().map(|name| n.find_in(dir, Wanted::new(name)));
            assert!(looked_up.eq(found.iter().copied()));
            found
        };
        let file = |id| Some(Named::File(id));
        assert_eq!(listed(&n), [file(8), file(9), file(7)]);
        enter(&mut n, "y", 4);
        assert_eq!(listed(&n), [file(8), file(4), file(7)]);
        n.remove_in(dir, Wanted::new("x"));
        assert_eq!(listed(&n), [None, file(4), file(7)]);
        // The directory is listed again in between, and has other names.
        enter(&mut n, "a", 5);
        assert_eq!(n.names_in(dir).len(), 3);
        assert_eq!(listed(&n), [None, file(4), file(7)]);
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
        let places = ["mnt2", "mnt2/x", "mnt2/a"].map(|p| n.place_or_new(p));
        assert_eq!(places.map(|p| n.id_of(p)), [second, second, made]);
        assert_eq!(places.map(|p| n.above(p)), [first, second, second]);
        assert_eq!(places.map(|p| n.is_named(p)), [true, false, true]);
        assert_eq!(*n.names_in(ROOT), ["mnt2".into()]);
    }

    /// A place finds the directory that has its path now, even after removal and re-creation.
    #[test]
    fn a_place_outlives_its_directory() {
        let mut n = Names::default();
        let at = |number| DirId { fs: 0, number };
        let place = n.place_or_new("a/b");
        assert!(!n.is_named(place) && n.find("a/b").is_none());
        for number in [5, 6] {
            n.enter_dir(place, at(number));
            assert_eq!(n.find("a/b"), Some(Named::Dir(at(number))));
            assert_eq!((n.is_named(place), n.id_of(place)), (true, at(number)));
            n.enter_in(place, Wanted::new("x"), Named::File(1));
            assert!(!n.remove_dir(place));
            n.remove_in(place, Wanted::new("x"));
            assert!(n.remove_dir(place) && !n.is_named(place));
            assert_eq!((n.find("a/b"), n.id_of(place)), (None, at(0)));
        }
        assert_eq!(n.place_or_new("a/b"), place);
        let names = ["", "a/b"].map(|dir| n.place(dir).unwrap());
        assert_eq!(names.map(|dir| n.path_in(dir, "x")), ["x", "a/b/x"]);
    }

    /// The mount point with the longest path decides, whatever the order of mounting.
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
        for (path, spelt) in [
            ("", ""),
            ("/", ""),
            ("a", "a"),
            ("//a/b//c/", "a/b/c"),
            (".", ""),
            ("./a", "a"),
            ("a/./b/.", "a/b"),
            (".a/b.", ".a/b."),
        ] {
            assert_eq!(plain(path), spelt);
        }
    }
}
