//! The table of the files that a cache knows, by identity and not by name.
//!
//! An entry keeps its file open, so the system gives the inode number to no other file while the
//! entry exists. A closed file stays in the table until its mapping number is needed for another
//! file, or until its last name is gone. The table's lock is held for look-ups only
//! ([`crate::shared`]): a file that is being opened for the first time, or whose pages are being
//! dropped, is *moving*, and tasks that want to open it wait for that, without the lock.

use crate::open_file::OpenFile;
use crate::storage::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

struct Entry {
    file: Arc<OpenFile>,
    handles: u64,
    /// The value of [`Table::closings`] when the last handle was closed.
    closed: u64,
    /// A thread writes the closed file to take its mapping number.
    being_written: bool,
}

/// The answer to a look-up of an identity.
pub(crate) enum Found {
    /// The file, with one more handle.
    File(Arc<OpenFile>),
    /// A file that is being opened for the first time, or that leaves.
    Moving,
    /// Nothing.
    Nothing,
}

/// A file without open handles.
pub(crate) struct Closed {
    /// The number of its closing: smaller is longer ago.
    pub closing: u64,
    pub file: Arc<OpenFile>,
    /// A thread writes the file to take its mapping number.
    pub being_written: bool,
}

/// The files of a cache.
#[derive(Default)]
pub(crate) struct Table {
    by_id: BTreeMap<FileId, Entry>,
    /// Identities by mapping number.
    ids: BTreeMap<u32, FileId>,
    /// Files without open handles, by the value of `closings` at their last close.
    closed: BTreeMap<u64, FileId>,
    /// Mapping numbers of files that were removed.
    free: Vec<u32>,
    closings: u64,
    /// Identities of files that are moving, and the number of those that leave.
    moving: BTreeSet<FileId>,
    leaving: u32,
    /// How many files have left so far.
    removals: u64,
}

impl Table {
    /// Adds a handle to the file with identity `id`, if it is known and not moving.
    pub fn open(&mut self, id: FileId) -> Found {
        if self.moving.contains(&id) {
            return Found::Moving;
        }
        let Some(entry) = self.by_id.get_mut(&id) else {
            return Found::Nothing;
        };
        if entry.handles == 0 {
            self.closed.remove(&entry.closed);
        }
        entry.handles += 1;
        Found::File(Arc::clone(&entry.file))
    }

    /// Marks a file that is not known as one that is being opened.
    pub fn begin_to_enter(&mut self, id: FileId) {
        assert!(self.moving.insert(id), "a file is opened by one task");
    }

    /// Ends [`Table::begin_to_enter`], whether the file was inserted or not.
    pub fn entered(&mut self, id: FileId) {
        assert!(self.moving.remove(&id), "the file was being opened");
    }

    /// Returns how many files have left the table so far.
    pub fn removals(&self) -> u64 {
        self.removals
    }

    /// Adds a file that is not known yet, under its identity, with its first handle.
    pub fn insert(&mut self, id: FileId, file: Arc<OpenFile>) {
        let before = self.ids.insert(file.mapping, id);
        assert!(before.is_none(), "mapping {} is another file", file.mapping);
        let entry = Entry {
            file,
            handles: 1,
            closed: 0,
            being_written: false,
        };
        self.by_id.insert(id, entry);
    }

    /// Removes a handle of the file with number `mapping`; returns true if it was the file's last.
    /// The file then stays in the table as closed.
    pub fn close(&mut self, mapping: u32) -> bool {
        let id = *self.ids.get(&mapping).expect("a handle's file is known");
        let entry = self.by_id.get_mut(&id).expect("a known file has an entry");
        entry.handles -= 1;
        if entry.handles > 0 {
            return false;
        }
        self.closings += 1;
        entry.closed = self.closings;
        self.closed.insert(self.closings, id);
        true
    }

    /// Returns the files without open handles, the one that was closed longest ago first.
    pub fn closed(&self) -> impl Iterator<Item = Closed> {
        self.closed.iter().filter_map(|(&closing, id)| {
            let entry = self.by_id.get(id)?;
            Some(Closed {
                closing,
                file: Arc::clone(&entry.file),
                being_written: entry.being_written,
            })
        })
    }

    /// Returns true if a mapping number may become free without the caller: a file leaves, or is
    /// written to leave.
    pub fn frees_soon(&self) -> bool {
        self.leaving > 0 || self.closed().any(|c| c.being_written)
    }

    /// Sets whether a thread writes a file to take its mapping number.
    pub fn set_being_written(&mut self, mapping: u32, yes: bool) {
        let entry = self.ids.get(&mapping).and_then(|id| self.by_id.get_mut(id));
        if let Some(entry) = entry {
            entry.being_written = yes;
        }
    }

    /// Marks a file as leaving, so that its pages can be dropped without the lock; returns false
    /// if it has handles again or leaves already.
    pub fn begin_to_leave(&mut self, mapping: u32) -> bool {
        let Some(&id) = self.ids.get(&mapping) else {
            return false;
        };
        let unused = self.by_id.get(&id).is_some_and(|e| e.handles == 0);
        if !unused || !self.moving.insert(id) {
            return false;
        }
        self.closed.remove(&self.by_id[&id].closed);
        self.leaving += 1;
        true
    }

    /// Ends [`Table::begin_to_leave`] of a file that stays.
    pub fn stay(&mut self, mapping: u32) {
        let id = self.ids[&mapping];
        self.moving.remove(&id);
        self.leaving -= 1;
        self.closed.insert(self.by_id[&id].closed, id);
    }

    /// Returns every file.
    pub fn files(&self) -> Vec<Arc<OpenFile>> {
        self.by_id.values().map(|e| Arc::clone(&e.file)).collect()
    }

    /// Removes a file that was leaving and has no pages; its mapping number can be given to another
    /// file.
    pub fn left(&mut self, mapping: u32) {
        let id = self.ids.remove(&mapping).expect("a known file");
        self.by_id.remove(&id);
        self.moving.remove(&id);
        self.leaving -= 1;
        self.removals += 1;
        self.free.push(mapping);
    }

    /// Takes the mapping number of a removed file.
    pub fn free_number(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives back a mapping number that was taken and not used.
    pub fn give_number(&mut self, mapping: u32) {
        self.free.push(mapping);
    }
}
