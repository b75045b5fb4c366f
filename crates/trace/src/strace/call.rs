//! The effects of successful calls: one function per class of calls.

use super::line::{Call, Class, stat_size};
use super::{Description, LINE, Slot, Strace};
use crate::error::Fault;
use crate::number::parse_i64;
use crate::record::{MAX_FILE, Op, Record};
use crate::tables::Tables;

const NO_FILE: &str = "reads and writes of descriptors that are not known files";
const NO_PATH: &str = "paths relative to an unknown directory, or cut";

/// Returns the error about a call of `name` whose arguments or result are broken or cut.
pub(super) fn broken(name: &[u8]) -> Fault {
    let name = String::from_utf8_lossy(name);
    Fault::new(
        format!("the arguments or the result of `{name}` are broken or cut"),
        LINE,
    )
}

/// A successful call, and the receiver of its records.
pub(super) struct Done<'a> {
    pub pid: u64,
    /// Nanoseconds since the first line.
    pub at: u64,
    /// The process's number in records.
    pub process: u32,
    pub name: &'a [u8],
    pub call: Call<'a>,
    pub result: i64,
    pub tables: &'a mut Tables,
    pub out: &'a mut Vec<Record>,
}

impl Done<'_> {
    /// Returns the error that this call's arguments or result are broken.
    fn bad(&self) -> Fault {
        broken(self.name)
    }

    /// Adds a record of this call: the operation on a file's number, with offset and length in
    /// bytes.
    fn push(&mut self, op: Op, file: u32, offset: u64, len: u32) {
        self.out.push(Record {
            time_ns: self.at,
            offset,
            latency_ns: self.call.latency_ns,
            len,
            file,
            process: self.process,
            op,
        });
    }

    /// Returns the number of bytes that a read, write or copy moved, which is the call's result.
    ///
    /// # Errors
    /// The result is negative.
    fn moved(&self) -> Result<u64, Fault> {
        u64::try_from(self.result).map_err(|_| self.bad())
    }
}

impl Strace {
    /// Applies the effect of a successful call, which `class` names, on descriptors, files and
    /// names, and adds its records. `share`: a process that it makes shares the descriptors of its
    /// parent.
    ///
    /// # Errors
    /// The arguments are broken, or a range lies past 16 TiB.
    pub(super) fn done(
        &mut self,
        class: Class,
        share: bool,
        c: &mut Done<'_>,
    ) -> Result<(), Fault> {
        match class {
            Class::Open { dir, flags } => return self.open(c, dir, flags),
            Class::Close => return self.close_one(c),
            Class::CloseRange => return self.close_range(c),
            Class::Transfer { op, offset_arg } => return self.read_or_write(c, op, offset_arg),
            Class::Copy { to_first } => return self.copy(c, to_first),
            Class::Truncate { path } => return self.truncate(c, path),
            Class::Seek => self.seek(c),
            Class::Sync(op) => match self.file_of(c, 0) {
                Some(file) => c.push(op, file, 0, 0),
                None => c
                    .tables
                    .ignore("syncs of descriptors that are not known files"),
            },
            Class::Unlink { dir } => self.unlink(c, dir),
            Class::Rename { dirs } => self.rename(c, dirs),
            Class::Link { dirs } => self.link(c, dirs),
            Class::Dup { new, cloexec } => self.dup(c, new, cloexec),
            Class::Fcntl => return self.fcntl(c),
            Class::Fork => {
                let child = c.result as u64;
                if child != 0 && !self.processes.contains_key(&child) {
                    self.child(c.pid, child, share, c.tables);
                }
            }
            Class::Exec => self.exec(c.pid, c.at, c.out),
            Class::Chdir => {
                let path = self.path(c.pid, c.call.args[0], None);
                self.change_directory(c.pid, path);
            }
            Class::Fchdir => {
                let file = self.file_of(c, 0);
                let path = file.and_then(|file| Some(self.names.of(file)?.to_vec()));
                self.change_directory(c.pid, path);
            }
            // fstat as `newfstatat(fd, "", …)` tells the file's size.
            Class::Stat => {
                if let (Some(file), b"\"\"") = (self.file_of(c, 0), c.call.args[1])
                    && let Some(size) = stat_size(c.call.args[2])
                {
                    self.known[file as usize].size = size;
                }
            }
            Class::Mmap | Class::Ignored | Class::Nothing => {}
        }
        Ok(())
    }

    /// Returns the open file of the descriptor in the argument of index `arg`; `None` if it is not
    /// known.
    fn slot_of(&self, c: &Done<'_>, arg: usize) -> Option<Slot> {
        self.slot(c.pid, c.call.fd(arg))
    }

    /// Returns the number of the file of the descriptor in the argument of index `arg`; `None` if
    /// it is not known.
    fn file_of(&self, c: &Done<'_>, arg: usize) -> Option<u32> {
        let slot = self.slot_of(c, arg)?;
        Some(self.descriptions[slot.description as usize].file)
    }

    /// Returns the path in the first argument, or, if `dir`, in the second one, relative to the
    /// directory descriptor in the first. `None`: the path is cut, or its directory not known.
    fn path_of(&self, c: &Done<'_>, dir: bool) -> Option<Vec<u8>> {
        let args = &c.call.args;
        match dir {
            true => self.path(c.pid, args[1], Some(args[0])),
            false => self.path(c.pid, args[0], None),
        }
    }

    /// Returns the old and the new path of a rename or link. `dirs`: each path follows the
    /// descriptor of a directory that it is relative to. `None`: the path is cut, or its directory
    /// not known.
    fn two_paths(&self, c: &Done<'_>, dirs: bool) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let args = &c.call.args;
        match dirs {
            true => (
                self.path(c.pid, args[1], Some(args[0])),
                self.path(c.pid, args[3], Some(args[2])),
            ),
            false => (
                self.path(c.pid, args[0], None),
                self.path(c.pid, args[1], None),
            ),
        }
    }

    /// Sets the current directory of a process; `None`: the new one is not known, and the old one
    /// stays.
    fn change_directory(&mut self, pid: u64, path: Option<Vec<u8>>) {
        if let (Some(path), Some(process)) = (path, self.processes.get_mut(&pid)) {
            process.cwd = path;
        }
    }

    /// Applies an open call: a new open file description under the descriptor that the call
    /// returned, and a record of the opening. `dir`: the path follows a directory descriptor
    /// (openat). `flags`: the call has flags; creat(2) has none, and creates or empties. Files of
    /// /dev, /proc and /sys, directories and paths not known are counted only.
    ///
    /// # Errors
    /// The flags are missing.
    fn open(&mut self, c: &mut Done<'_>, dir: bool, flags: bool) -> Result<(), Fault> {
        let flag_arg = if dir { 2 } else { 1 };
        if flags && c.call.args[flag_arg].is_empty() {
            return Err(c.bad());
        }
        let has = |c: &Done<'_>, flag| flags && c.call.has(flag_arg, flag);
        self.close(c.pid, c.result, c.at, c.out);
        if has(c, "O_PATH") || has(c, "O_TMPFILE") && !has(c, "O_DIRECTORY") {
            c.tables.ignore("open of files that are not regular");
            return Ok(());
        }
        let Some(path) = self.path_of(c, dir) else {
            c.tables.ignore(NO_PATH);
            return Ok(());
        };
        let special = [&b"/dev/"[..], b"/proc/", b"/sys/"];
        if special.iter().any(|s| path.starts_with(s)) {
            c.tables.ignore("open of /dev, /proc, /sys");
            return Ok(());
        }
        let file = self.file(path, c.tables);
        let create = !flags || has(c, "O_CREAT");
        // The file is empty afterwards: cut, or new.
        let empty = !flags || has(c, "O_TRUNC") || has(c, "O_CREAT") && has(c, "O_EXCL");
        if empty {
            self.known[file as usize].size = 0;
        }
        let slot = Slot {
            description: self.describe(file, has(c, "O_APPEND")),
            close_on_exec: has(c, "O_CLOEXEC"),
        };
        self.open_slot(c.pid, c.result, slot, c.at, c.out);
        if has(c, "O_DIRECTORY") {
            c.tables.ignore("open of a directory");
            return Ok(());
        }
        let op = match (empty, create) {
            (true, _) => Op::CreateEmpty,
            (false, true) => Op::Create,
            (false, false) => Op::Open,
        };
        c.push(op, file, 0, 0);
        Ok(())
    }

    /// Makes a new open file description of a file, at position 0 and without a descriptor yet;
    /// returns its number. `append`: writes go to the file's end (O_APPEND).
    fn describe(&mut self, file: u32, append: bool) -> u32 {
        let description = Description {
            file,
            pos: 0,
            append,
            refs: 0,
        };
        match self.free_descriptions.pop() {
            Some(id) => {
                self.descriptions[id as usize] = description;
                id
            }
            None => {
                self.descriptions.push(description);
                self.descriptions.len() as u32 - 1
            }
        }
    }

    /// Applies close(2).
    ///
    /// # Errors
    /// The argument is no descriptor.
    fn close_one(&mut self, c: &mut Done<'_>) -> Result<(), Fault> {
        let fd = c.call.fd(0).ok_or_else(|| c.bad())?;
        self.close_slot(c, fd);
        Ok(())
    }

    /// Closes the descriptor `fd` of the calling process, if it is known, with the latency of the
    /// call.
    fn close_slot(&mut self, c: &mut Done<'_>, fd: i64) {
        let table = self.processes[&c.pid].table as usize;
        if let Some(old) = self.tables[table].slots.remove(&fd) {
            self.drop_slot(old, c.at, c.call.latency_ns, c.process, c.out);
        }
    }

    /// Applies close_range(2): closes all known descriptors from the first argument to the second.
    /// With CLOSE_RANGE_CLOEXEC they are closed by the next execve(2).
    ///
    /// # Errors
    /// The first argument is no number.
    fn close_range(&mut self, c: &mut Done<'_>) -> Result<(), Fault> {
        let from = c.call.number(0).ok_or_else(|| c.bad())?;
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let to = i64::try_from(c.call.number(1).unwrap_or(u64::MAX)).unwrap_or(i64::MAX);
        if from > to {
            return Ok(());
        }
        let table = self.processes[&c.pid].table as usize;
        let slots = &mut self.tables[table].slots;
        if c.call.has(2, "CLOEXEC") {
            let marked = slots.range_mut(from..=to);
            marked.for_each(|(_, slot)| slot.close_on_exec = true);
            return Ok(());
        }
        let gone: Vec<i64> = slots.range(from..=to).map(|(fd, _)| *fd).collect();
        for fd in gone {
            self.close_slot(c, fd);
        }
        Ok(())
    }

    /// Applies a read or write call of a descriptor. `offset_arg` is the index of the argument with
    /// the offset, if the call has one (pread, pwrite); without it the file position counts.
    /// Descriptors that are not known are counted only.
    ///
    /// # Errors
    /// The offset or the result is broken, or the range lies past 16 TiB.
    fn read_or_write(
        &mut self,
        c: &mut Done<'_>,
        op: Op,
        offset_arg: Option<usize>,
    ) -> Result<(), Fault> {
        let Some(slot) = self.slot_of(c, 0) else {
            c.tables.ignore(NO_FILE);
            return Ok(());
        };
        let explicit = match offset_arg {
            // preadv2 takes -1 for the file position.
            Some(arg) => match parse_i64(c.call.args[arg]).ok_or_else(|| c.bad())? {
                -1 => None,
                n => Some(u64::try_from(n).map_err(|_| c.bad())?),
            },
            None => None,
        };
        let len = c.moved()?;
        self.transfer(c, slot, op, explicit, len)
    }

    /// Adds a record of a read or write of `len` bytes at the offset `explicit`, or at the file
    /// position if `None`, which then moves on. The known size of the file grows with it.
    ///
    /// # Errors
    /// The request is too long, or lies past 16 TiB.
    fn transfer(
        &mut self,
        c: &mut Done<'_>,
        slot: Slot,
        op: Op,
        explicit: Option<u64>,
        len: u64,
    ) -> Result<(), Fault> {
        let d = &mut self.descriptions[slot.description as usize];
        let known = &mut self.known[d.file as usize].size;
        let offset = match explicit {
            // With O_APPEND Linux appends regardless of pwrite's offset.
            _ if op == Op::Write && d.append => *known,
            Some(offset) => offset,
            None => d.pos,
        };
        let short = u32::try_from(len)
            .ok()
            .filter(|_| offset <= MAX_FILE && offset + len <= MAX_FILE);
        let Some(short) = short else {
            return Err(Fault::new(
                "a request too long or past 16 TiB",
                "requests below 4 GiB that end within 16 TiB",
            ));
        };
        if explicit.is_none() {
            d.pos = offset + len;
        }
        if len > 0 {
            *known = (*known).max(offset + len);
        }
        c.push(op, d.file, offset, short);
        Ok(())
    }

    /// Applies sendfile(2) or copy_file_range(2) as a read of one descriptor and a write of the
    /// other. `to_first`: the first argument is the descriptor written to (sendfile). Copies at
    /// given offsets are counted only.
    ///
    /// # Errors
    /// The result is broken, or the range lies past 16 TiB.
    fn copy(&mut self, c: &mut Done<'_>, to_first: bool) -> Result<(), Fault> {
        // sendfile(out, in, offset, count); copy_file_range(in, offset, out, offset, …).
        let (from, to) = if to_first { (1, 0) } else { (0, 2) };
        // The arguments that hold offsets.
        let offsets = if to_first { [2, 2] } else { [1, 3] };
        if offsets.iter().any(|a| c.call.args[*a] != b"NULL") {
            c.tables.ignore("copies between files at given offsets");
            return Ok(());
        }
        let len = c.moved()?;
        for (fd, op) in [(from, Op::Read), (to, Op::Write)] {
            match self.slot_of(c, fd) {
                Some(slot) => self.transfer(c, slot, op, None, len)?,
                None => c.tables.ignore(NO_FILE),
            }
        }
        Ok(())
    }

    /// Applies lseek(2): its result is the new file position. A seek from the file's end also tells
    /// the file's size.
    fn seek(&mut self, c: &Done<'_>) {
        let Some(slot) = self.slot_of(c, 0) else {
            return;
        };
        let d = &mut self.descriptions[slot.description as usize];
        d.pos = c.result as u64;
        if c.call.has(2, "SEEK_END") {
            let back = parse_i64(c.call.args[1]).unwrap_or(0);
            let size = c.result.saturating_sub(back).max(0) as u64;
            let known = &mut self.known[d.file as usize].size;
            *known = (*known).max(size);
        }
    }

    /// Applies truncate(2) or ftruncate(2): the file gets the length in the second argument.
    /// `path`: the first argument is a path, else a descriptor. A file that is not known is passed
    /// over.
    ///
    /// # Errors
    /// The length is broken or above 16 TiB.
    fn truncate(&mut self, c: &mut Done<'_>, path: bool) -> Result<(), Fault> {
        let len = c.call.number(1).ok_or_else(|| c.bad())?;
        if len > MAX_FILE {
            return Err(Fault::new(
                "a file of more than 16 TiB",
                "files up to 16 TiB",
            ));
        }
        let file = match path {
            true => {
                let path = self.path(c.pid, c.call.args[0], None);
                path.map(|path| self.file(path, c.tables))
            }
            false => self.file_of(c, 0),
        };
        if let Some(file) = file {
            self.known[file as usize].size = len;
            c.push(Op::Truncate, file, len, 0);
        }
        Ok(())
    }

    /// Applies unlink(2) or unlinkat(2) (`dir`: a directory descriptor comes before the path). The
    /// removal of a directory has no effect here.
    fn unlink(&mut self, c: &mut Done<'_>, dir: bool) {
        if dir && c.call.has(2, "AT_REMOVEDIR") {
            return;
        }
        if let Some(path) = self.path_of(c, dir) {
            // A file that is removed must have existed.
            self.file(path.clone(), c.tables);
            self.remove_name(c, &path);
        }
    }

    /// Removes the name `path`. If it was the file's last one, adds a record of the file's removal.
    fn remove_name(&mut self, c: &mut Done<'_>, path: &[u8]) {
        let Some(file) = self.names.remove(path) else {
            return;
        };
        let known = &mut self.known[file as usize];
        known.links = known.links.saturating_sub(1);
        if known.links == 0 {
            c.push(Op::Unlink, file, 0, 0);
        }
    }

    /// Applies rename(2) and its kin: the file, and all files below a renamed directory, get the
    /// new name; a file that had it loses it. RENAME_EXCHANGE swaps two names. `dirs`: each path
    /// follows a directory descriptor.
    fn rename(&mut self, c: &mut Done<'_>, dirs: bool) {
        let (Some(from), Some(to)) = self.two_paths(c, dirs) else {
            c.tables.ignore(NO_PATH);
            return;
        };
        if from == to {
            return;
        }
        if c.call.has(4, "RENAME_EXCHANGE") {
            let a = self.file(from.clone(), c.tables);
            let b = self.file(to.clone(), c.tables);
            self.names.insert(from, b);
            self.names.insert(to, a);
            return;
        }
        self.remove_name(c, &to);
        if let Some(file) = self.names.remove(&from) {
            self.names.insert(to.clone(), file);
        }
        // Files in a renamed directory move with it.
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

    /// Applies link(2) or linkat(2): the file gets one more name. `dirs`: each path follows a
    /// directory descriptor.
    fn link(&mut self, c: &mut Done<'_>, dirs: bool) {
        if let (Some(from), Some(to)) = self.two_paths(c, dirs) {
            let file = self.file(from, c.tables);
            if self.names.insert(to, file).is_none() {
                self.known[file as usize].links += 1;
            }
        }
    }

    /// Applies dup(2), dup2 or dup3: the call's result becomes another descriptor of the same open
    /// file. `new`: the call names the new descriptor. `cloexec`: its third argument may hold
    /// O_CLOEXEC.
    fn dup(&mut self, c: &mut Done<'_>, new: bool, cloexec: bool) {
        if new && c.call.fd(0) == Some(c.result) {
            return;
        }
        match self.slot_of(c, 0) {
            Some(slot) => self.duplicate(c, slot, cloexec && c.call.has(2, "O_CLOEXEC")),
            None => self.close(c.pid, c.result, c.at, c.out),
        }
    }

    /// Makes the call's result another descriptor of the open file of `slot`, with its own
    /// close-on-exec flag.
    fn duplicate(&mut self, c: &mut Done<'_>, slot: Slot, close_on_exec: bool) {
        let slot = Slot {
            close_on_exec,
            ..slot
        };
        self.open_slot(c.pid, c.result, slot, c.at, c.out);
    }

    /// Applies fcntl(2) as far as it concerns descriptors: F_DUPFD, and F_SETFD for close-on-exec.
    ///
    /// # Errors
    /// The first argument is no descriptor.
    fn fcntl(&mut self, c: &mut Done<'_>) -> Result<(), Fault> {
        if c.call.has(1, "F_DUPFD") {
            if let Some(slot) = self.slot_of(c, 0) {
                self.duplicate(c, slot, c.call.has(1, "CLOEXEC"));
            }
        } else if c.call.has(1, "F_SETFD") {
            let table = self.processes[&c.pid].table as usize;
            let fd = c.call.fd(0).ok_or_else(|| c.bad())?;
            if let Some(slot) = self.tables[table].slots.get_mut(&fd) {
                slot.close_on_exec = c.call.has(2, "FD_CLOEXEC");
            }
        }
        Ok(())
    }
}
