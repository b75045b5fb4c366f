//! `strace -f -ttt -T` of file system calls, and with the other forms of time (`-t`, `-tt`, `-r`).
//!
//! Descriptors are followed per process across fork, clone, vfork, exec, dup, fcntl and exit, so
//! that a read(2) becomes a read at an offset of a file. Unfinished and resumed lines are joined.
//! Failed calls, calls on descriptors that are no files (pipes, sockets, descriptors opened before
//! the recording) and calls without a meaning here, above all mmap, are counted.
//!
//! Needed: at least `-e trace=%file,%desc,%process`; strings may be cut (`-s`), paths may not.

mod call;
mod line;
mod names;

pub(crate) use line::is_call;

use crate::error::Fault;
use crate::number::parse_i64;
use crate::objects::Mix;
use crate::record::{NO_LATENCY, Op, Record};
use crate::tables::Tables;
use call::{Done, broken};
use line::{Call, Class, Clock, Line, call_name, head, kind, shares, unquote};
use names::Names;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

const LINE: &str = "lines of strace -f -ttt -T (or -tt, -t, -r), such as 21525 1795247166.640568 write(1, \"hi\\n\", 3) = 3 <0.000013>";

/// The longest call that is joined from its parts, in bytes.
const MOST_JOINED: usize = 1 << 20;

/// The most descriptors of all processes together: each forked process gets a copy of them.
const MOST_OPEN: usize = 4 << 20;

/// An open file description, shared after dup and fork.
struct Description {
    file: u32,
    pos: u64,
    append: bool,
    /// The number of descriptors that refer to it.
    refs: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    description: u32,
    close_on_exec: bool,
}

/// A table of descriptors, of one process or shared by several threads.
struct Descriptors {
    slots: BTreeMap<i64, Slot>,
    sharers: u32,
}

struct Process {
    /// The process's number in records.
    number: u32,
    table: u32,
    /// The directory of relative paths; empty for the directory at the start.
    cwd: Vec<u8>,
    /// A call that has started: its time, its text so far, and whether it makes processes.
    unfinished: Option<(u64, Vec<u8>, bool)>,
}

/// The state of a file, as far as the trace tells.
#[derive(Clone, Copy, Default)]
struct Known {
    size: u64,
    links: u32,
}

pub(crate) struct Strace {
    clock: Clock,
    processes: HashMap<u64, Process, BuildHasherDefault<Mix>>,
    tables: Vec<Descriptors>,
    free_tables: Vec<u32>,
    descriptions: Vec<Description>,
    free_descriptions: Vec<u32>,
    /// Processes in a call that makes others, by start time.
    forking: BTreeSet<(u64, u64)>,
    /// The number of descriptors of all processes.
    open: usize,
    names: Names,
    /// State of files by number.
    known: Vec<Known>,
}

/// Normalises a path: joins it to the directory `cwd` if it is relative, and removes `.`, `..` and
/// doubled slashes. The result is relative if neither is absolute.
fn normal(cwd: &[u8], path: &[u8]) -> Vec<u8> {
    let absolute = path.starts_with(b"/") || cwd.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    let base = if path.starts_with(b"/") { b"" } else { cwd };
    for part in base.split(|b| *b == b'/').chain(path.split(|b| *b == b'/')) {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|p| *p != b"..") => drop(parts.pop()),
            b".." if absolute => {}
            part => parts.push(part),
        }
    }
    let mut out = if absolute { b"/".to_vec() } else { Vec::new() };
    out.extend(parts.join(&b'/'));
    out
}

impl Strace {
    /// Makes a decoder that knows no process, descriptor or file yet.
    pub fn new() -> Self {
        Self {
            clock: Clock::default(),
            processes: HashMap::default(),
            tables: Vec::new(),
            free_tables: Vec::new(),
            descriptions: Vec::new(),
            free_descriptions: Vec::new(),
            forking: BTreeSet::new(),
            open: 0,
            names: Names::default(),
            known: Vec::new(),
        }
    }

    /// Decodes a line of strace: a call, the beginning or the end of one, a signal or an exit. Adds
    /// the records of a call that is complete to `out`, and counts input without a meaning in
    /// `tables`.
    ///
    /// # Errors
    /// The line is no call, or is broken, or the processes have too many open files.
    pub fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        let bad = || Fault::about("no call:", line, LINE);
        // A message of strace itself: "strace: Process 5 attached".
        if line.starts_with(b"strace: ") {
            return Ok(());
        }
        let (pid, stamp, rest) = head(line).ok_or_else(bad)?;
        let kind = kind(rest).ok_or_else(bad)?;
        // Nanoseconds since the trace's first line.
        let at = self.clock.since_first(stamp).ok_or_else(|| {
            Fault::about(
                "no time before the call:",
                line,
                "a log of strace -f -ttt -T",
            )
        })?;
        if self.open > MOST_OPEN {
            return Err(Fault::new(
                format!("the processes have more than {MOST_OPEN} open files in total"),
                "a trace of fewer processes, or a trace that includes the calls of exit and close",
            ));
        }
        if !self.processes.contains_key(&pid) {
            self.add_first_seen(pid, tables);
        }
        match kind {
            Line::Signal => Ok(()),
            Line::Exited => {
                self.exit(pid, at, out);
                Ok(())
            }
            Line::Unfinished { text } => {
                let forks = matches!(
                    call_name(text).map_or(&b""[..], |c| c.0),
                    b"clone" | b"clone3" | b"fork" | b"vfork"
                );
                self.take_unfinished(pid);
                if forks {
                    self.forking.insert((at, pid));
                }
                let process = self.processes.get_mut(&pid).ok_or_else(bad)?;
                process.unfinished = Some((at, text.to_vec(), forks));
                Ok(())
            }
            Line::Resumed { rest } => {
                let Some((began, mut text)) = self.take_unfinished(pid) else {
                    // The recording started in the middle of the call.
                    tables.ignore("calls whose beginning is missing");
                    return Ok(());
                };
                if text.len() + rest.len() > MOST_JOINED {
                    return Err(Fault::new("a call longer than 1 MiB", LINE));
                }
                text.extend_from_slice(rest);
                let (name, rest) = call_name(&text).ok_or_else(bad)?;
                self.call(pid, began, name, rest, tables, out)
            }
            Line::Call { name, rest } => self.call(pid, at, name, rest, tables, out),
        }
    }

    /// Adds the process `pid`, which occurs for the first time: as a child of the process whose
    /// call of clone or fork is unfinished, with its descriptors, or with none if there is no such
    /// call.
    fn add_first_seen(&mut self, pid: u64, tables: &mut Tables) {
        // A child's first line often comes before its parent's clone returns: the latest such call
        // made it.
        let parent = self.forking.last().map(|(_, parent)| *parent);
        let call = |p: &u64| Some(shares(&self.processes.get(p)?.unfinished.as_ref()?.1));
        match parent.and_then(|p| Some((p, call(&p)?))) {
            Some((parent, share)) => self.child(parent, pid, share, tables),
            None => {
                let table = self.new_table(BTreeMap::new());
                self.add(pid, table, Vec::new(), tables);
            }
        }
    }

    /// Ends the unfinished call of the process `pid`. Returns the call's start, in nanoseconds
    /// since the first line, and its text so far; `None` if it has none.
    fn take_unfinished(&mut self, pid: u64) -> Option<(u64, Vec<u8>)> {
        let (began, text, forks) = self.processes.get_mut(&pid)?.unfinished.take()?;
        if forks {
            self.forking.remove(&(began, pid));
        }
        Some((began, text))
    }

    /// Adds a process with the table of descriptors `table` and the current directory `cwd`, and
    /// gives it a number for records.
    fn add(&mut self, pid: u64, table: u32, cwd: Vec<u8>, tables: &mut Tables) {
        let number = tables.new_process(&pid.to_string());
        self.processes.insert(
            pid,
            Process {
                number,
                table,
                cwd,
                unfinished: None,
            },
        );
    }

    /// Makes a table of descriptors for one process, with `slots` (open files by descriptor), and
    /// returns its number. Each slot is one more reference to its open file.
    fn new_table(&mut self, slots: BTreeMap<i64, Slot>) -> u32 {
        self.open += slots.len();
        for slot in slots.values() {
            self.descriptions[slot.description as usize].refs += 1;
        }
        let table = Descriptors { slots, sharers: 1 };
        match self.free_tables.pop() {
            Some(id) => {
                self.tables[id as usize] = table;
                id
            }
            None => {
                self.tables.push(table);
                self.tables.len() as u32 - 1
            }
        }
    }

    /// Adds the process `pid` as a child of `parent`. `share`: both use one table of descriptors
    /// (CLONE_FILES), else the child gets a copy.
    fn child(&mut self, parent: u64, pid: u64, share: bool, tables: &mut Tables) {
        let Some(p) = self.processes.get(&parent) else {
            return;
        };
        let (table, cwd) = (p.table, p.cwd.clone());
        let table = if share {
            self.tables[table as usize].sharers += 1;
            table
        } else {
            self.new_table(self.tables[table as usize].slots.clone())
        };
        self.add(pid, table, cwd, tables);
    }

    /// Removes the process `pid`. If it was the last user of its table of descriptors, all of them
    /// are closed at the time `at` (nanoseconds since the first line).
    fn exit(&mut self, pid: u64, at: u64, out: &mut Vec<Record>) {
        self.take_unfinished(pid);
        let Some(process) = self.processes.remove(&pid) else {
            return;
        };
        let table = &mut self.tables[process.table as usize];
        table.sharers -= 1;
        if table.sharers > 0 {
            return;
        }
        let slots = std::mem::take(&mut table.slots);
        self.free_tables.push(process.table);
        for slot in slots.into_values() {
            self.drop_slot(slot, at, NO_LATENCY, process.number, out);
        }
    }

    /// Removes a descriptor's reference to its open file description. If it was the last one, adds
    /// a record of the file's close to `out`.
    fn drop_slot(
        &mut self,
        slot: Slot,
        time_ns: u64,
        latency_ns: u64,
        process: u32,
        out: &mut Vec<Record>,
    ) {
        self.open -= 1;
        let d = &mut self.descriptions[slot.description as usize];
        d.refs -= 1;
        if d.refs > 0 {
            return;
        }
        self.free_descriptions.push(slot.description);
        out.push(Record {
            time_ns,
            offset: 0,
            latency_ns,
            len: 0,
            file: d.file,
            process,
            op: Op::Close,
        });
    }

    /// Returns the path of an argument in normal form, relative to the directory descriptor in the
    /// argument `dir`, or to the process's own directory. `None`: the argument is no path or is
    /// cut, or the directory is not known.
    fn path(&self, pid: u64, arg: &[u8], dir: Option<&[u8]>) -> Option<Vec<u8>> {
        let path = unquote(arg)?;
        if path.is_empty() {
            return None;
        }
        let cwd = &self.processes[&pid].cwd;
        match dir {
            Some(dir) if !path.starts_with(b"/") && !dir.starts_with(b"AT_FDCWD") => {
                let fd = parse_i64(memchr::memchr(b'<', dir).map_or(dir, |at| &dir[..at]))?;
                let table = &self.tables[self.processes[&pid].table as usize];
                let file = self.descriptions[table.slots.get(&fd)?.description as usize].file;
                Some(normal(self.names.of(file)?, &path))
            }
            _ => Some(normal(cwd, &path)),
        }
    }

    /// Returns the number of the file that `path` names now; a path seen for the first time gets a
    /// new file with one link.
    fn file(&mut self, path: Vec<u8>, tables: &mut Tables) -> u32 {
        if let Some(id) = self.names.get(&path) {
            return id;
        }
        let id = tables.new_file(&path);
        self.known.resize(id as usize + 1, Known::default());
        self.known[id as usize].links = 1;
        self.names.insert(path, id);
        id
    }

    /// Makes the descriptor `fd` of a process refer to the open file of `slot`. A descriptor of
    /// that number that is open already is closed.
    fn open_slot(&mut self, pid: u64, fd: i64, slot: Slot, at: u64, out: &mut Vec<Record>) {
        let (table, number) = {
            let p = &self.processes[&pid];
            (p.table as usize, p.number)
        };
        self.descriptions[slot.description as usize].refs += 1;
        self.open += 1;
        if let Some(old) = self.tables[table].slots.insert(fd, slot) {
            self.drop_slot(old, at, NO_LATENCY, number, out);
        }
    }

    /// Returns the open file that a descriptor of a process refers to; `None` if the descriptor is
    /// not known.
    fn slot(&self, pid: u64, fd: Option<i64>) -> Option<Slot> {
        let table = self.processes[&pid].table as usize;
        self.tables[table].slots.get(&fd?).copied()
    }

    /// Decodes a complete call of the process `pid`, which began at `at` (nanoseconds since the
    /// first line): `rest` is its text after `name` and the parenthesis. Calls without a meaning
    /// here, failed calls and mmap are counted or passed over; the others take effect by `done`.
    ///
    /// # Errors
    /// The arguments or the result are broken or cut.
    fn call(
        &mut self,
        pid: u64,
        at: u64,
        name: &[u8],
        rest: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        let class = Class::of(name);
        if matches!(class, Class::Nothing) {
            return Ok(());
        }
        let call = Call::parse(rest).ok_or_else(|| broken(name))?;
        if let Class::Mmap = class {
            if call.fd(4).is_some_and(|fd| fd >= 0) {
                tables.ignore("mmap of a file");
            }
            return Ok(());
        }
        if let Class::Ignored = class {
            tables.ignore(&String::from_utf8_lossy(name));
            return Ok(());
        }
        let Some(result) = call.ok() else {
            if call.result.is_some() {
                tables.ignore("calls that failed");
            }
            return Ok(());
        };
        let mut done = Done {
            pid,
            at,
            process: self.processes[&pid].number,
            name,
            call,
            result,
            tables,
            out,
        };
        self.done(class, shares(rest), &mut done)
    }

    /// Closes the descriptor `fd` of a process, if it is known, as a side effect of another call:
    /// without a latency.
    fn close(&mut self, pid: u64, fd: i64, at: u64, out: &mut Vec<Record>) {
        let (table, number) = {
            let p = &self.processes[&pid];
            (p.table as usize, p.number)
        };
        if let Some(old) = self.tables[table].slots.remove(&fd) {
            self.drop_slot(old, at, NO_LATENCY, number, out);
        }
    }

    /// Applies a successful exec: the process gets a table of descriptors of its own if it shared
    /// one, and descriptors with close-on-exec are closed.
    fn exec(&mut self, pid: u64, at: u64, out: &mut Vec<Record>) {
        let (table, number) = {
            let p = &self.processes[&pid];
            (p.table, p.number)
        };
        if self.tables[table as usize].sharers > 1 {
            self.tables[table as usize].sharers -= 1;
            let own = self.new_table(self.tables[table as usize].slots.clone());
            if let Some(p) = self.processes.get_mut(&pid) {
                p.table = own;
            }
        }
        let table = self.processes[&pid].table as usize;
        let gone: Vec<i64> = self.tables[table]
            .slots
            .iter()
            .filter(|(_, s)| s.close_on_exec)
            .map(|(fd, _)| *fd)
            .collect();
        for fd in gone {
            if let Some(old) = self.tables[table].slots.remove(&fd) {
                self.drop_slot(old, at, NO_LATENCY, number, out);
            }
        }
    }

    /// Counts the calls that are still unfinished at the end of the trace as ignored.
    pub fn end(&mut self, tables: &mut Tables) {
        self.forking.clear();
        for process in self.processes.values_mut() {
            if process.unfinished.take().is_some() {
                tables.ignore("calls whose end is missing");
            }
        }
    }
}

#[cfg(test)]
mod tests;
