//! The files that a cache knows, by what they are and not by their names.
//!
//! An entry keeps its file open, so the system gives the file's inode number to no other file as long
//! as the entry stands. A file that nobody has open stays until its number in the engine is needed
//! for another one, or until its last name is gone.

use crate::open_file::OpenFile;
use crate::storage::FileId;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Entry {
    file: Arc<OpenFile>,
    handles: u64,
    /// The count of closings when the last handle went.
    closed: u64,
}

/// The files of a cache.
#[derive(Default)]
pub(crate) struct Table {
    by_id: BTreeMap<FileId, Entry>,
    /// By the file's number in the engine.
    ids: BTreeMap<u32, FileId>,
    /// Files that nobody has open, by the count of closings at the last.
    closed: BTreeMap<u64, FileId>,
    /// Numbers that files had.
    free: Vec<u32>,
    closings: u64,
}

impl Table {
    /// One more handle of a file, if it is known.
    pub fn open(&mut self, id: FileId) -> Option<Arc<OpenFile>> {
        let entry = self.by_id.get_mut(&id)?;
        if entry.handles == 0 {
            self.closed.remove(&entry.closed);
        }
        entry.handles += 1;
        Some(Arc::clone(&entry.file))
    }

    /// A file that is not known yet, with its first handle.
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

    /// A handle goes; returns whether it was the last.
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

    /// The file that was closed longest ago, of those that nobody has open and that were closed after
    /// the `after`th closing; and by which it was.
    pub fn closed(&self, after: u64) -> Option<(u64, Arc<OpenFile>)> {
        let (&closing, id) = self.closed.range(after + 1..).next()?;
        Some((closing, Arc::clone(&self.by_id.get(id)?.file)))
    }

    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = &OpenFile> {
        self.by_id.values().map(|e| &*e.file)
    }

    /// A file leaves; its number is free.
    pub fn remove(&mut self, mapping: u32) {
        let id = self.ids.remove(&mapping).expect("a known file");
        if let Some(entry) = self.by_id.remove(&id) {
            self.closed.remove(&entry.closed);
        }
        self.free.push(mapping);
    }

    /// A number that a file had which is gone.
    pub fn free_number(&mut self) -> Option<u32> {
        self.free.pop()
    }
}
