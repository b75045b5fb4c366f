//! Files and processes: maps names to small numbers.

use std::collections::{BTreeMap, HashMap};

/// The files and processes of the trace so far.
#[derive(Default)]
pub(crate) struct Tables {
    /// Names of files by number.
    pub files: Vec<String>,
    /// Names of processes by number.
    pub processes: Vec<String>,
    by_file: HashMap<Box<[u8]>, u32>,
    by_process: HashMap<Box<[u8]>, u32>,
    /// The last lookups: successive records often have the same names.
    last_file: Option<u32>,
    last_process: Option<u32>,
    /// Counts of input without a meaning here, by kind.
    pub ignored: BTreeMap<String, u64>,
}

impl Tables {
    /// Returns the number of the file with this name; a new name gets the next number. The last
    /// file is tried first, because successive records often have the same.
    #[inline]
    pub fn file(&mut self, name: &[u8]) -> u32 {
        if let Some(id) = self.last_file
            && self.files[id as usize].as_bytes() == name
        {
            return id;
        }
        let id = number(&mut self.by_file, &mut self.files, name);
        self.last_file = Some(id);
        id
    }

    /// Returns the number of the process with this name; a new name gets the next number. The last
    /// process is tried first.
    #[inline]
    pub fn process(&mut self, name: &[u8]) -> u32 {
        if let Some(id) = self.last_process
            && self.processes[id as usize].as_bytes() == name
        {
            return id;
        }
        let id = number(&mut self.by_process, &mut self.processes, name);
        self.last_process = Some(id);
        id
    }

    /// Adds a new file under a name that other files may have had; returns its number.
    pub fn new_file(&mut self, name: &[u8]) -> u32 {
        self.files.push(String::from_utf8_lossy(name).into_owned());
        self.files.len() as u32 - 1
    }

    /// Adds a new process under a pid that other processes may have had; returns its number.
    pub fn new_process(&mut self, name: &str) -> u32 {
        self.processes.push(name.to_owned());
        self.processes.len() as u32 - 1
    }

    /// Counts input of the kind `what`, which was read but has no meaning here.
    pub fn ignore(&mut self, what: &str) {
        match self.ignored.get_mut(what) {
            Some(n) => *n += 1,
            None => drop(self.ignored.insert(what.to_owned(), 1)),
        }
    }
}

/// Returns the number of `name` in `ids`; a new name is added to `names` and `ids` with the next
/// number.
fn number(ids: &mut HashMap<Box<[u8]>, u32>, names: &mut Vec<String>, name: &[u8]) -> u32 {
    if let Some(id) = ids.get(name) {
        return *id;
    }
    names.push(String::from_utf8_lossy(name).into_owned());
    let id = names.len() as u32 - 1;
    ids.insert(name.into(), id);
    id
}
