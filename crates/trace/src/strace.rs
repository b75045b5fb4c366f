//! `strace -f -ttt -T` of file system calls.
//!
//! Descriptors are followed per process across fork, clone, vfork, exec, dup, fcntl and exit, so
//! that a read(2) is a read at an offset of a file. Unfinished and resumed lines are joined. Calls
//! that failed, calls on descriptors that are no files (pipes, sockets, what was open before the
//! recording) and calls that mean nothing here, mmap first of all, are counted.
//!
//! Wanted: at least `-e trace=%file,%desc,%process`; strings may be cut (`-s`), paths may not.

mod line;
mod names;

pub(crate) use line::is_call;

use crate::error::Fault;
use crate::number::parse_i64;
use crate::objects::Mix;
use crate::record::{MAX_FILE, NO_LATENCY, Op, Record};
use crate::tables::Tables;
use line::{Call, Class, Line, call_name, head, kind, shares, stat_size, unquote};
use names::Names;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

const LINE: &str = "lines of strace -f -ttt -T, such as 21525 1795247166.640568 write(1, \"hi\\n\", 3) = 3 <0.000013>";

/// The longest call that is joined from its parts, in bytes.
const MOST_JOINED: usize = 1 << 20;

/// Descriptors that all processes may have together: each process that is forked gets a copy of them.
const MOST_OPEN: usize = 4 << 20;

/// An open file description: what dup and fork share.
struct Description {
    file: u32,
    pos: u64,
    append: bool,
    /// Descriptors that mean it.
    refs: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    description: u32,
    close_on_exec: bool,
}

/// A table of descriptors: one process has it, or several threads.
struct Descriptors {
    slots: BTreeMap<i64, Slot>,
    sharers: u32,
}

struct Process {
    /// The process's number in records.
    number: u32,
    table: u32,
    /// Directory that relative paths begin at; empty where it was at the start.
    cwd: Vec<u8>,
    /// A call that has begun: its time, its text so far, and whether it makes processes.
    unfinished: Option<(u64, Vec<u8>, bool)>,
}

/// A file as far as the trace tells.
#[derive(Clone, Copy, Default)]
struct Known {
    size: u64,
    links: u32,
}

pub(crate) struct Strace {
    first: Option<u64>,
    processes: HashMap<u64, Process, BuildHasherDefault<Mix>>,
    tables: Vec<Descriptors>,
    free_tables: Vec<u32>,
    descriptions: Vec<Description>,
    free_descriptions: Vec<u32>,
    /// Processes in a call that makes others, by when it began.
    forking: BTreeSet<(u64, u64)>,
    /// Descriptors of all processes.
    open: usize,
    names: Names,
    /// By file number.
    known: Vec<Known>,
}

/// A path without `.`, `..` and doubled slashes.
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
    pub fn new() -> Self {
        Self {
            first: None,
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

    pub fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        let bad = || Fault::about("no call:", line, LINE);
        // What strace says of itself: "strace: Process 5 attached".
        if line.starts_with(b"strace: ") {
            return Ok(());
        }
        let (pid, time, rest) = head(line).ok_or_else(bad)?;
        let kind = kind(rest).ok_or_else(bad)?;
        let first = *self.first.get_or_insert(time);
        let at = time.saturating_sub(first);
        if self.open > MOST_OPEN {
            return Err(Fault::new(
                format!("processes have more than {MOST_OPEN} open files together"),
                "a trace of fewer processes, or with its calls of exit and close",
            ));
        }
        if !self.processes.contains_key(&pid) {
            self.appear(pid, tables);
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
                self.finish(pid);
                if forks {
                    self.forking.insert((at, pid));
                }
                let process = self.processes.get_mut(&pid).ok_or_else(bad)?;
                process.unfinished = Some((at, text.to_vec(), forks));
                Ok(())
            }
            Line::Resumed { rest } => {
                let Some((began, mut text)) = self.finish(pid) else {
                    // The recording began in the middle of the call.
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

    /// A process that is seen for the first time.
    fn appear(&mut self, pid: u64, tables: &mut Tables) {
        // A child often speaks before its parent's clone returns: the latest such call made it.
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

    /// A process's unfinished call, if it has one, is over: when it began, and its text.
    fn finish(&mut self, pid: u64) -> Option<(u64, Vec<u8>)> {
        let (began, text, forks) = self.processes.get_mut(&pid)?.unfinished.take()?;
        if forks {
            self.forking.remove(&(began, pid));
        }
        Some((began, text))
    }

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

    fn exit(&mut self, pid: u64, at: u64, out: &mut Vec<Record>) {
        self.finish(pid);
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

    /// The path that an argument names relative to a directory descriptor's or the process's own.
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

    fn slot(&self, pid: u64, fd: Option<i64>) -> Option<Slot> {
        let table = self.processes[&pid].table as usize;
        self.tables[table].slots.get(&fd?).copied()
    }

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
        let bad = || {
            let name = String::from_utf8_lossy(name);
            Fault::new(
                format!("the arguments or the result of `{name}` are broken or cut"),
                LINE,
            )
        };
        let call = Call::parse(rest).ok_or_else(bad)?;
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
        let process = self.processes[&pid].number;
        let record = move |op, file, offset, len| Record {
            time_ns: at,
            offset,
            latency_ns: call.latency_ns,
            len,
            file,
            process,
            op,
        };
        match class {
            Class::Open { dir, flags } => {
                let (dir_arg, path_arg) = if dir {
                    (Some(call.args[0]), 1)
                } else {
                    (None, 0)
                };
                let flag_arg = path_arg + 1;
                let has = |flag| flags && call.has(flag_arg, flag);
                if flags && call.args[flag_arg].is_empty() {
                    return Err(bad());
                }
                self.close(pid, result, at, out);
                if has("O_PATH") || has("O_TMPFILE") && !has("O_DIRECTORY") {
                    tables.ignore("open of what is no plain file");
                    return Ok(());
                }
                let Some(path) = self.path(pid, call.args[path_arg], dir_arg) else {
                    tables.ignore("paths relative to an unknown directory, or cut");
                    return Ok(());
                };
                let special = [&b"/dev/"[..], b"/proc/", b"/sys/"];
                if special.iter().any(|s| path.starts_with(s)) {
                    tables.ignore("open of /dev, /proc, /sys");
                    return Ok(());
                }
                let file = self.file(path, tables);
                let create = !flags || has("O_CREAT");
                let empty = !flags || has("O_TRUNC") || has("O_CREAT") && has("O_EXCL");
                if empty {
                    self.known[file as usize].size = 0;
                }
                let directory = has("O_DIRECTORY");
                let description = Description {
                    file,
                    pos: 0,
                    append: has("O_APPEND"),
                    refs: 0,
                };
                let description = match self.free_descriptions.pop() {
                    Some(id) => {
                        self.descriptions[id as usize] = description;
                        id
                    }
                    None => {
                        self.descriptions.push(description);
                        self.descriptions.len() as u32 - 1
                    }
                };
                let slot = Slot {
                    description,
                    close_on_exec: has("O_CLOEXEC"),
                };
                self.open_slot(pid, result, slot, at, out);
                if directory {
                    tables.ignore("open of a directory");
                    return Ok(());
                }
                let op = match (empty, create) {
                    (true, _) => Op::CreateEmpty,
                    (false, true) => Op::Create,
                    (false, false) => Op::Open,
                };
                out.push(record(op, file, 0, 0));
            }
            Class::Close => {
                let table = self.processes[&pid].table as usize;
                let fd = call.fd(0).ok_or_else(bad)?;
                if let Some(old) = self.tables[table].slots.remove(&fd) {
                    self.drop_slot(old, at, call.latency_ns, process, out);
                }
            }
            Class::CloseRange => {
                let table = self.processes[&pid].table as usize;
                let (from, to) = (call.number(0), call.number(1));
                let from = i64::try_from(from.ok_or_else(bad)?).unwrap_or(i64::MAX);
                let to = i64::try_from(to.unwrap_or(u64::MAX)).unwrap_or(i64::MAX);
                let gone: Vec<i64> = if from <= to && !call.has(2, "CLOEXEC") {
                    let slots = &self.tables[table].slots;
                    slots.range(from..=to).map(|(fd, _)| *fd).collect()
                } else {
                    Vec::new()
                };
                for fd in gone {
                    if let Some(old) = self.tables[table].slots.remove(&fd) {
                        self.drop_slot(old, at, call.latency_ns, process, out);
                    }
                }
            }
            Class::Transfer { op, offset_arg } => {
                let Some(slot) = self.slot(pid, call.fd(0)) else {
                    tables.ignore("reads and writes of what is no known file");
                    return Ok(());
                };
                let explicit = match offset_arg {
                    // preadv2 takes -1 for the file position.
                    Some(arg) => match parse_i64(call.args[arg]).ok_or_else(bad)? {
                        -1 => None,
                        n => Some(u64::try_from(n).map_err(|_| bad())?),
                    },
                    None => None,
                };
                let len = u64::try_from(result).map_err(|_| bad())?;
                out.push(self.transfer(slot, op, explicit, len, &record)?);
            }
            Class::Copy { to_first } => {
                // sendfile(out, in, offset, count); copy_file_range(in, offset, out, offset, …).
                let (from, to) = if to_first { (1, 0) } else { (0, 2) };
                let offsets = if to_first { [2, 2] } else { [1, 3] };
                if offsets.iter().any(|a| call.args[*a] != b"NULL") {
                    tables.ignore("copies between files at given offsets");
                    return Ok(());
                }
                let len = u64::try_from(result).map_err(|_| bad())?;
                for (fd, op) in [(from, Op::Read), (to, Op::Write)] {
                    match self.slot(pid, call.fd(fd)) {
                        Some(slot) => out.push(self.transfer(slot, op, None, len, &record)?),
                        None => tables.ignore("reads and writes of what is no known file"),
                    }
                }
            }
            Class::Seek => {
                if let Some(slot) = self.slot(pid, call.fd(0)) {
                    let d = &mut self.descriptions[slot.description as usize];
                    d.pos = result as u64;
                    if call.has(2, "SEEK_END") {
                        let back = parse_i64(call.args[1]).unwrap_or(0);
                        let size = result.saturating_sub(back).max(0) as u64;
                        let known = &mut self.known[d.file as usize].size;
                        *known = (*known).max(size);
                    }
                }
            }
            Class::Sync(op) => match self.slot(pid, call.fd(0)) {
                Some(slot) => {
                    let file = self.descriptions[slot.description as usize].file;
                    out.push(record(op, file, 0, 0));
                }
                None => tables.ignore("syncs of what is no known file"),
            },
            Class::Truncate { path } => {
                let len = call.number(1).ok_or_else(bad)?;
                if len > MAX_FILE {
                    return Err(Fault::new(
                        "a file of more than 16 TiB",
                        "files up to 16 TiB",
                    ));
                }
                let file = if path {
                    match self.path(pid, call.args[0], None) {
                        Some(path) => self.file(path, tables),
                        None => return Ok(()),
                    }
                } else {
                    match self.slot(pid, call.fd(0)) {
                        Some(slot) => self.descriptions[slot.description as usize].file,
                        None => return Ok(()),
                    }
                };
                self.known[file as usize].size = len;
                out.push(record(Op::Truncate, file, len, 0));
            }
            Class::Unlink { dir } => {
                if dir && call.has(2, "AT_REMOVEDIR") {
                    return Ok(());
                }
                let (dir_arg, arg) = if dir {
                    (Some(call.args[0]), 1)
                } else {
                    (None, 0)
                };
                if let Some(path) = self.path(pid, call.args[arg], dir_arg) {
                    // A file that is removed existed.
                    self.file(path.clone(), tables);
                    self.remove_name(&path, &record, out);
                }
            }
            Class::Rename { dirs } => {
                let (from, to) = self.two_paths(pid, &call, dirs);
                let (Some(from), Some(to)) = (from, to) else {
                    tables.ignore("paths relative to an unknown directory, or cut");
                    return Ok(());
                };
                if from == to {
                    return Ok(());
                }
                if call.has(4, "RENAME_EXCHANGE") {
                    let (a, b) = (
                        self.file(from.clone(), tables),
                        self.file(to.clone(), tables),
                    );
                    self.names.insert(from, b);
                    self.names.insert(to, a);
                    return Ok(());
                }
                self.remove_name(&to, &record, out);
                if let Some(file) = self.names.remove(&from) {
                    self.names.insert(to.clone(), file);
                }
                // A directory takes along what is in it.
                let mut prefix = from;
                prefix.push(b'/');
                for (name, file) in self.names.below(&prefix) {
                    self.names.remove(&name);
                    let mut renamed = to.clone();
                    renamed.push(b'/');
                    renamed.extend_from_slice(&name[prefix.len()..]);
                    self.names.insert(renamed, file);
                }
            }
            Class::Link { dirs } => {
                let (from, to) = self.two_paths(pid, &call, dirs);
                if let (Some(from), Some(to)) = (from, to) {
                    let file = self.file(from, tables);
                    if self.names.insert(to, file).is_none() {
                        self.known[file as usize].links += 1;
                    }
                }
            }
            Class::Dup { new, cloexec } => {
                let slot = self.slot(pid, call.fd(0));
                if new && call.fd(0) == Some(result) {
                    return Ok(());
                }
                match slot {
                    Some(slot) => {
                        let close_on_exec = cloexec && call.has(2, "O_CLOEXEC");
                        let slot = Slot {
                            close_on_exec,
                            ..slot
                        };
                        self.open_slot(pid, result, slot, at, out);
                    }
                    None => self.close(pid, result, at, out),
                }
            }
            Class::Fcntl => {
                if call.has(1, "F_DUPFD") {
                    if let Some(slot) = self.slot(pid, call.fd(0)) {
                        let close_on_exec = call.has(1, "CLOEXEC");
                        let slot = Slot {
                            close_on_exec,
                            ..slot
                        };
                        self.open_slot(pid, result, slot, at, out);
                    }
                } else if call.has(1, "F_SETFD") {
                    let table = self.processes[&pid].table as usize;
                    let fd = call.fd(0).ok_or_else(bad)?;
                    if let Some(slot) = self.tables[table].slots.get_mut(&fd) {
                        slot.close_on_exec = call.has(2, "FD_CLOEXEC");
                    }
                }
            }
            Class::Fork => {
                let child = result as u64;
                if child != 0 && !self.processes.contains_key(&child) {
                    self.child(pid, child, shares(rest), tables);
                }
            }
            Class::Exec => self.exec(pid, at, out),
            Class::Chdir => {
                if let Some(path) = self.path(pid, call.args[0], None)
                    && let Some(process) = self.processes.get_mut(&pid)
                {
                    process.cwd = path;
                }
            }
            Class::Fchdir => {
                if let Some(slot) = self.slot(pid, call.fd(0)) {
                    let file = self.descriptions[slot.description as usize].file;
                    if let Some(path) = self.names.of(file) {
                        let path = path.to_vec();
                        if let Some(process) = self.processes.get_mut(&pid) {
                            process.cwd = path;
                        }
                    }
                }
            }
            Class::Stat => {
                if let (Some(slot), b"\"\"") = (self.slot(pid, call.fd(0)), call.args[1])
                    && let Some(size) = stat_size(call.args[2])
                {
                    let file = self.descriptions[slot.description as usize].file;
                    self.known[file as usize].size = size;
                }
            }
            Class::Mmap | Class::Ignored | Class::Nothing => {}
        }
        Ok(())
    }

    fn close(&mut self, pid: u64, fd: i64, at: u64, out: &mut Vec<Record>) {
        let (table, number) = {
            let p = &self.processes[&pid];
            (p.table as usize, p.number)
        };
        if let Some(old) = self.tables[table].slots.remove(&fd) {
            self.drop_slot(old, at, NO_LATENCY, number, out);
        }
    }

    fn transfer(
        &mut self,
        slot: Slot,
        op: Op,
        explicit: Option<u64>,
        len: u64,
        record: &dyn Fn(Op, u32, u64, u32) -> Record,
    ) -> Result<Record, Fault> {
        let d = &mut self.descriptions[slot.description as usize];
        let known = &mut self.known[d.file as usize].size;
        let offset = match explicit {
            // Linux appends whatever pwrite's offset says.
            _ if op == Op::Write && d.append => *known,
            Some(offset) => offset,
            None => d.pos,
        };
        let short = u32::try_from(len)
            .ok()
            .filter(|_| offset <= MAX_FILE && offset + len <= MAX_FILE);
        let Some(short) = short else {
            return Err(Fault::new(
                "a request too long or too far out",
                "requests below 4 GiB that end within 16 TiB",
            ));
        };
        if explicit.is_none() {
            d.pos = offset + len;
        }
        if len > 0 {
            *known = (*known).max(offset + len);
        }
        Ok(record(op, d.file, offset, short))
    }

    fn two_paths(
        &self,
        pid: u64,
        call: &Call<'_>,
        dirs: bool,
    ) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        if dirs {
            (
                self.path(pid, call.args[1], Some(call.args[0])),
                self.path(pid, call.args[3], Some(call.args[2])),
            )
        } else {
            (
                self.path(pid, call.args[0], None),
                self.path(pid, call.args[1], None),
            )
        }
    }

    fn remove_name(
        &mut self,
        path: &[u8],
        record: &dyn Fn(Op, u32, u64, u32) -> Record,
        out: &mut Vec<Record>,
    ) {
        let Some(file) = self.names.remove(path) else {
            return;
        };
        let known = &mut self.known[file as usize];
        known.links = known.links.saturating_sub(1);
        if known.links == 0 {
            out.push(record(Op::Unlink, file, 0, 0));
        }
    }

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

    /// Counts what stays unfinished at the end.
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
mod tests {
    use super::*;

    /// The records of a log, as text.
    fn records(text: &str) -> Vec<String> {
        let (mut strace, mut tables, mut out) = (Strace::new(), Tables::default(), Vec::new());
        for line in text.lines().filter(|l| !l.is_empty()) {
            let line = line.replacen(' ', " 1795247166.", 1);
            if let Err(e) = strace.line(line.as_bytes(), &mut tables, &mut out) {
                panic!("{line}: {e:?}");
            }
        }
        out.iter()
            .map(|r| {
                let (file, process) = (
                    &tables.files[r.file as usize],
                    &tables.processes[r.process as usize],
                );
                format!(
                    "{process} {} {file}#{} {}+{}",
                    r.op.name(),
                    r.file,
                    r.offset,
                    r.len
                )
            })
            .collect()
    }

    #[test]
    fn positions_follow_reads_writes_and_seeks() {
        assert_eq!(
            records(
                r#"
1 000001 openat(AT_FDCWD, "a, (b)\n", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3 <0.000001>
1 000002 write(3, "x) = 7 <"..., 100) = 100 <0.000001>
1 000003 pwrite64(3, "", 10, 1000) = 10 <0.000001>
1 000004 write(3, "\"\\", 5)   = 5 <0.000001>
1 000005 lseek(3, 4, SEEK_SET) = 4 <0.000001>
1 000006 read(3, "", 10) = 10 <0.000001>
1 000007 read(3, 0x7ff, 10) = -1 EIO (Input/output error) <0.000001>
1 000008 ftruncate(3, 50) = 0 <0.000001>
1 000009 fsync(3) = 0 <0.000001>
1 000010 close(3) = 0 <0.000001>"#
            ),
            [
                "1 create-empty a, (b)\n#0 0+0",
                "1 write a, (b)\n#0 0+100",
                "1 write a, (b)\n#0 1000+10",
                "1 write a, (b)\n#0 100+5",
                "1 read a, (b)\n#0 4+10",
                "1 truncate a, (b)\n#0 50+0",
                "1 fsync a, (b)\n#0 0+0",
                "1 close a, (b)\n#0 0+0",
            ]
        );
    }

    #[test]
    fn children_inherit_descriptors_and_share_positions() {
        assert_eq!(
            records(
                r#"
1 000001 chdir("/d/./e/..") = 0 <0.000001>
1 000002 openat(AT_FDCWD, "f", O_RDONLY) = 3 <0.000001>
1 000003 vfork( <unfinished ...>
2 000004 read(3, "", 10) = 10 <0.000001>
2 000005 close(3) = 0 <0.000001>
1 000006 <... vfork resumed>) = 2 <0.000001>
1 000007 read(3,  <unfinished ...>
2 000008 openat(AT_FDCWD, "/d/f", O_WRONLY|O_APPEND|O_CLOEXEC) = 3 <0.000001>
1 000009 <... read resumed>"", 5) = 5 <0.000001>
2 000010 dup2(3, 9) = 9 <0.000001>
2 000011 execve("/x", [], 0x1 /* 3 vars, ( */) = 0 <0.000001>
2 000012 write(3, "", 1) = 1 <0.000001>
2 000013 write(9, "", 1) = 1 <0.000001>
2 000014 +++ exited with 0 +++
1 000015 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES) = 3 <0.000001>
3 000016 close(3) = 0 <0.000001>
1 000017 read(3, "", 1) = 1 <0.000001>"#
            ),
            [
                "1 open /d/f#0 0+0",
                "2 read /d/f#0 0+10",
                "1 read /d/f#0 10+5",
                "2 open /d/f#0 0+0",
                "2 write /d/f#0 15+1",
                "2 close /d/f#0 0+0",
                "3 close /d/f#0 0+0",
            ]
            .map(String::from)
            .into_iter()
            // An open may come before a read that began earlier and ended later.
            .enumerate()
            .map(|(i, r)| match i {
                2 => "2 open /d/f#0 0+0".to_owned(),
                3 => "1 read /d/f#0 10+5".to_owned(),
                _ => r,
            })
            .collect::<Vec<_>>()
        );
    }

    #[test]
    fn files_keep_their_identity_across_names() {
        assert_eq!(
            records(
                r#"
1 000001 creat("d/a", 0600) = 3 <0.000001>
1 000002 openat(AT_FDCWD, "b", O_RDONLY) = 4 <0.000001>
1 000003 rename("d/a", "b") = 0 <0.000001>
1 000004 openat(AT_FDCWD, "b", O_RDONLY) = 5 <0.000001>
1 000005 openat(AT_FDCWD, "d/a", O_RDONLY) = 6 <0.000001>
1 000006 rename("d", "e") = 0 <0.000001>
1 000007 link("e/a", "c") = 0 <0.000001>
1 000008 unlink("e/a") = 0 <0.000001>
1 000009 unlinkat(AT_FDCWD, "c", 0) = 0 <0.000001>
1 000010 unlink("nowhere") = 0 <0.000001>"#
            ),
            [
                "1 create-empty d/a#0 0+0",
                "1 open b#1 0+0",
                "1 unlink b#1 0+0",
                "1 open d/a#0 0+0",
                "1 open d/a#2 0+0",
                "1 unlink d/a#2 0+0",
                "1 unlink nowhere#3 0+0",
            ]
        );
    }

    #[test]
    fn broken_lines_are_faults() {
        for line in [
            "",
            "x",
            "1 2",
            "1 1795247166.640568",
            "1 1795247166.640568 write(1, \"hi",
            "1 1795247166.640568 write(1, \"hi\", 3)",
            "1 1795247166.640568 write(1, \"hi\", 3) = ",
            "1 1795247166.640568 write(1, \"hi\", 3) = x",
            "1 1795247166.640568 openat(AT_FDCWD) = 3 <0.000001>",
            "1 12:00:01 write(1, \"hi\", 3) = 3",
        ] {
            let (mut strace, mut tables) = (Strace::new(), Tables::default());
            let result = strace.line(line.as_bytes(), &mut tables, &mut Vec::new());
            assert!(result.is_err(), "{line}");
        }
    }

    /// 100,000 processes, every one made while those before it are still in a call, all of them alive:
    /// a walk over all for each took minutes.
    #[test]
    fn many_processes_are_read_in_one_pass() {
        let (mut strace, mut tables, mut out) = (Strace::new(), Tables::default(), Vec::new());
        let mut line = |text: String, out: &mut Vec<Record>| {
            let done = strace.line(text.as_bytes(), &mut tables, out);
            done.unwrap_or_else(|e| panic!("{text}: {e:?}"));
        };
        for i in 0..100_000 {
            let (pid, at) = (100 + i, format!("1795247166.{i:06}"));
            line(
                format!("{pid} {at} clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>"),
                &mut out,
            );
            let open = format!("openat(AT_FDCWD, \"f{i}\", O_RDONLY) = 3 <0.000001>");
            line(format!("{} {at} {open}", 1_000_000 + i), &mut out);
            let by_dir = "openat(3, \"x\", O_RDONLY) = 4 <0.000001>".to_owned();
            line(format!("{} {at} {by_dir}", 1_000_000 + i), &mut out);
        }
        assert_eq!(tables.processes.len(), 200_000);
        assert_eq!(tables.files[1], "f0/x");
        assert_eq!(out.len(), 200_000);
    }
}
