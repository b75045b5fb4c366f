//! The table of the files that a cache knows, by identity and not by name.
//!
//! An entry keeps its file open, so the system gives the inode number to no other file while the
//! entry exists. A closed file stays in the table until its mapping number is needed for another
//! file, or until its last name is gone.

use crate::open_file::OpenFile;
use crate::storage::FileId;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Entry {
    file: Arc<OpenFile>,
    handles: u64,
    /// The value of [`Table::closings`] when the last handle was closed.
    closed: u64,
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
}

impl Table {
    /// Adds a handle to the file with identity `id` and returns the file; `None`: it is not known.
    pub fn open(&mut self, id: FileId) -> Option<Arc<OpenFile>> {
        let entry = self.by_id.get_mut(&id)?;
        if entry.handles == 0 {
            self.closed.remove(&entry.closed);
        }
        entry.handles += 1;
        Some(Arc::clone(&entry.file))
    }

    /// Adds a file that is not known yet, under its identity, with its first handle.
    pub fn insert(&mut self, id: FileId, file: Arc<OpenFile>) {
        let before = self.ids.insert(file.mapping, id);
        assert!(before.is_none(), "mapping {} is another file", file.mapping);
        let entry = Entry {
            file,
            handles: 1,
            closed: 0,
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

    /// Returns, of the files without open handles that were closed after closing number `after`,
    /// the one closed first, with its closing number.
    pub fn closed(&self, after: u64) -> Option<(u64, Arc<OpenFile>)> {
        let (&closing, id) = self.closed.range(after + 1..).next()?;
        Some((closing, Arc::clone(&self.by_id.get(id)?.file)))
    }

    /// Returns every file.
    pub fn files(&self) -> impl Iterator<Item = &OpenFile> {
        self.by_id.values().map(|e| &*e.file)
    }

    /// Removes a closed file from the table and frees its mapping number for another.
    pub fn remove(&mut self, mapping: u32) {
        let id = self.ids.remove(&mapping).expect("a known file");
        if let Some(entry) = self.by_id.remove(&id) {
            self.closed.remove(&entry.closed);
        }
        self.free.push(mapping);
    }

    /// Takes the mapping number of a removed file.
    pub fn free_number(&mut self) -> Option<u32> {
        self.free.pop()
    }
}
