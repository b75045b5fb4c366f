//! A reference model of files: a vector of bytes for each, and names that refer to them.
//!
//! [`run`] performs the same operations on a world and on the model: opens, closes, reads, writes,
//! truncations and syncs at odd positions and of odd lengths, links, renames over existing names
//! and removals. After each the two are compared. A seed gives the same sequence of operations in
//! every world.
//!
//! A world may fail. Then the model tracks the possible states of a file: bytes of a failed write
//! are the old or the new ones, all others are unchanged, and data confirmed by a sync stays on the
//! device in any case. [`Drawing::survived`] checks the state after a power cut.

use std::collections::BTreeMap;
use std::future::Future;

/// The number of names that operations use.
const NAMES: u64 = 8;
/// The most handles open at the same time.
const HANDLES: usize = 10;
/// The largest file, in bytes.
const REACH: u64 = 1_500_000;
/// The longest write or read, in bytes.
const LONGEST: u64 = 70_000;

/// The kinds of failures of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The call failed. After a failed sync written data is kept, and another sync tries again.
    Failed,
    /// Data written since the last successful sync may be lost.
    Lost,
    /// A write was refused entirely.
    Refused,
}

/// A world with names and files.
pub trait Files {
    /// An open file.
    type Handle;
    /// Whether files have contents; if not, only lengths are compared.
    const CONTENTS: bool;

    /// Opens a file by its name, and creates it if it is missing.
    fn open(&self, name: &str) -> impl Future<Output = Result<Self::Handle, Failure>>;
    /// Closes a file.
    fn close(&self, file: Self::Handle) -> impl Future<Output = ()>;
    /// Reads; returns the number of bytes.
    fn read(
        &self,
        file: &Self::Handle,
        pos: u64,
        bytes: &mut [u8],
    ) -> impl Future<Output = Result<usize, Failure>>;
    /// Writes all of `bytes`.
    fn write(
        &self,
        file: &Self::Handle,
        pos: u64,
        bytes: &[u8],
    ) -> impl Future<Output = Result<(), Failure>>;
    /// Calls ftruncate(2).
    fn truncate(&self, file: &Self::Handle, len: u64) -> impl Future<Output = Result<(), Failure>>;
    /// Calls fsync(2).
    fn sync(&self, file: &Self::Handle) -> impl Future<Output = Result<(), Failure>>;
    /// Returns the length of a file in bytes.
    fn size(&self, file: &Self::Handle) -> u64;
    /// Returns the file's identity on its device, for [`Drawing::survived`].
    fn identity(&self, file: &Self::Handle) -> u64;
    /// Gives a file another name, which must be unused.
    fn link(&self, from: &str, to: &str);
    /// Renames a file; a file that had the new name loses it.
    fn rename(&self, from: &str, to: &str) -> impl Future<Output = ()>;
    /// Removes a name.
    fn remove(&self, name: &str) -> impl Future<Output = ()>;
    /// Switches failures off or on, to inspect the state after a failure.
    fn quiet(&self, quiet: bool);
    /// Returns true if power is gone: no call succeeds any more.
    fn dead(&self) -> bool {
        false
    }
}

/// xorshift64*, since the operations must be the same in every world.
struct Random(u64);

impl Random {
    /// Returns the next 48 random bits.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Returns a random number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns one of the eight names that operations use.
    fn name(&mut self) -> String {
        format!("name-{}", self.below(NAMES))
    }

    /// Returns a random position in a file of `end` bytes: near a page boundary, near the end, or
    /// anywhere.
    fn place(&mut self, end: u64) -> u64 {
        let near = |r: &mut Self, at: u64| (at + r.below(7)).saturating_sub(3);
        match self.below(4) {
            0 => {
                let page = self.below(REACH / 4096) * 4096;
                near(self, page)
            }
            1 => near(self, end),
            2 => self.below(end + 1),
            _ => self.below(REACH),
        }
    }

    /// Returns a random length of a read or write: zero, a few bytes, about a page, or many.
    fn length(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 | 2 => 1 + self.below(20),
            3 | 4 => 4090 + self.below(13),
            5 => 4096 * (1 + self.below(8)),
            _ => self.below(LONGEST),
        }
    }
}

/// A change not yet confirmed by a sync.
enum Change {
    Write(u64, Vec<u8>),
    Cut(u64),
}

/// A file of the model.
#[derive(Default)]
struct Drawn {
    identity: u64,
    bytes: Vec<u8>,
    names: u32,
    handles: u32,
    /// The contents confirmed by the last sync, the changes since, and the smallest and largest
    /// length since.
    confirmed: Vec<u8>,
    changes: Vec<Change>,
    lengths: (u64, u64),
    /// Set while data may be lost that was not yet written again.
    to_rewrite: bool,
}

impl Drawn {
    /// Records a change that is being attempted, so that a power cut before the next sync may leave
    /// the file with or without it.
    fn change(&mut self, change: Change) {
        let len = match &change {
            Change::Write(pos, bytes) => (pos + bytes.len() as u64).max(self.bytes.len() as u64),
            Change::Cut(len) => *len,
        };
        self.lengths = (self.lengths.0.min(len), self.lengths.1.max(len));
        self.changes.push(change);
    }

    /// Writes `bytes` into the model's file at `pos`, with zeroes before them if the file is
    /// shorter.
    fn write(&mut self, pos: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            let (from, to) = (pos as usize, pos as usize + bytes.len());
            self.bytes.resize(self.bytes.len().max(to), 0);
            self.bytes[from..to].copy_from_slice(bytes);
        }
    }

    /// Records that a sync has succeeded: the present contents are on the device, and no change is
    /// open.
    fn confirm(&mut self) {
        self.confirmed.clone_from(&self.bytes);
        self.changes.clear();
        let len = self.bytes.len() as u64;
        self.lengths = (len, len);
    }

    /// Checks that `found` may be the state of the file after a power cut: each byte is the
    /// confirmed one or that of a change since, and the length one that the file had since.
    ///
    /// # Errors
    /// It is not; a description.
    fn may_survive(&self, found: &[u8]) -> Result<(), String> {
        let len = found.len() as u64;
        if !(self.lengths.0..=self.lengths.1).contains(&len) {
            return Err(format!("{len} bytes, of {:?}", self.lengths));
        }
        let confirmed = |i: usize| self.confirmed.get(i).copied().unwrap_or(0);
        let mut ok: Vec<bool> = (0..found.len()).map(|i| found[i] == confirmed(i)).collect();
        for change in &self.changes {
            match change {
                Change::Write(pos, bytes) => {
                    let at = (*pos as usize).min(found.len());
                    for (i, b) in (at..found.len()).zip(bytes) {
                        ok[i] |= found[i] == *b;
                    }
                }
                Change::Cut(len) => {
                    for i in (*len as usize).min(found.len())..found.len() {
                        ok[i] |= found[i] == 0;
                    }
                }
            }
        }
        match ok.iter().position(|ok| !ok) {
            None => Ok(()),
            Some(i) => Err(format!(
                "byte {i} is {}, which was {} when it was confirmed and never {} since",
                found[i],
                confirmed(i),
                found[i]
            )),
        }
    }
}

/// The model, with the handles of a world.
pub struct Drawing<H> {
    files: Vec<Drawn>,
    names: BTreeMap<String, usize>,
    handles: Vec<(usize, H)>,
}

impl<H> Drawing<H> {
    /// Checks the contents `found` of the file with that identity after a power cut. `None`: the
    /// model has no such file, or it had lost its last name.
    ///
    /// # Errors
    /// The contents are impossible; a description.
    pub fn survived(&self, identity: u64, found: &[u8]) -> Option<Result<(), String>> {
        let drawn = self.files.iter().rev().find(|f| f.identity == identity)?;
        (drawn.names > 0).then(|| drawn.may_survive(found))
    }

    /// Returns every name, the identity of its file on the device, and the file's bytes.
    pub fn named(&self) -> impl Iterator<Item = (&str, u64, &[u8])> {
        self.names.iter().map(|(name, &at)| {
            let f = &self.files[at];
            (name.as_str(), f.identity, &f.bytes[..])
        })
    }
}

struct Run<'a, F: Files> {
    world: &'a F,
    random: Random,
    drawing: Drawing<F::Handle>,
    /// The current operation, for messages.
    at: String,
}

/// Performs `count` random operations on a world and on the model, and compares the two after each;
/// then, if the world has power, syncs and compares everything. Handles are closed at the end.
/// Returns the model.
///
/// # Panics
/// If the world differs from the model.
pub async fn run<F: Files>(world: &F, seed: u64, count: u32) -> Drawing<F::Handle> {
    let mut r = Run {
        world,
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        drawing: Drawing {
            files: Vec::new(),
            names: BTreeMap::new(),
            handles: Vec::new(),
        },
        at: String::new(),
    };
    for n in 0..count {
        r.at = format!("seed {seed}, operation {n}");
        r.step().await;
        if world.dead() {
            break;
        }
    }
    r.at = format!("seed {seed}, at the end");
    if !world.dead() {
        world.quiet(true);
        r.conclude().await;
    }
    for (at, handle) in std::mem::take(&mut r.drawing.handles) {
        r.drawing.files[at].handles -= 1;
        world.close(handle).await;
    }
    r.drawing
}

impl<F: Files> Run<'_, F> {
    /// Performs one random operation on world and model; the first without a handle is an opening.
    async fn step(&mut self) {
        if self.drawing.handles.is_empty() {
            return self.open().await;
        }
        match self.random.below(40) {
            0..4 => self.open().await,
            4..6 => self.close().await,
            6..14 => self.read().await,
            14..28 => self.write().await,
            28..31 => self.truncate().await,
            31..34 => {
                let h = self.handle();
                self.sync(h).await;
            }
            34 => self.link(),
            35 | 36 => self.rename().await,
            37 => self.remove().await,
            _ => {
                let h = self.handle();
                self.compare_size(h);
            }
        }
    }

    /// Returns the index of a random open handle.
    fn handle(&mut self) -> usize {
        self.random.below(self.drawing.handles.len() as u64) as usize
    }

    /// Returns the model's file of the handle `h`.
    fn file(&mut self, h: usize) -> &mut Drawn {
        &mut self.drawing.files[self.drawing.handles[h].0]
    }

    /// Panics unless the world's file of the handle `h` is as long as that of the reference model.
    fn compare_size(&mut self, h: usize) {
        let found = self.world.size(&self.drawing.handles[h].1);
        let expected = self.file(h).bytes.len() as u64;
        assert_eq!(found, expected, "{}: length", self.at);
    }

    /// Opens a file of a random name, or closes one if too many are open.
    async fn open(&mut self) {
        if self.drawing.handles.len() == HANDLES {
            return self.close().await;
        }
        let name = self.random.name();
        let Ok(handle) = self.world.open(&name).await else {
            // The file may or may not have been created: open it again with failures off.
            self.world.quiet(true);
            let again = self.world.open(&name).await;
            self.world.quiet(false);
            if let Ok(handle) = again {
                self.opened(name, handle);
            }
            return;
        };
        self.opened(name, handle);
    }

    /// Enters an opened file into the model, a new one if the name is new, and checks that the
    /// world gave the same file.
    fn opened(&mut self, name: String, handle: F::Handle) {
        let d = &mut self.drawing;
        let identity = self.world.identity(&handle);
        let at = *d.names.entry(name).or_insert_with(|| {
            d.files.push(Drawn {
                identity,
                names: 1,
                ..Drawn::default()
            });
            d.files.len() - 1
        });
        assert_eq!(d.files[at].identity, identity, "{}: another file", self.at);
        d.files[at].handles += 1;
        d.handles.push((at, handle));
        let last = self.drawing.handles.len() - 1;
        self.compare_size(last);
    }

    /// Closes a random handle in world and model.
    async fn close(&mut self) {
        let h = self.handle();
        let (at, handle) = self.drawing.handles.swap_remove(h);
        self.drawing.files[at].handles -= 1;
        self.world.close(handle).await;
    }

    /// Reads a random range of a random file, and compares the bytes with the model's.
    async fn read(&mut self) {
        let h = self.handle();
        let end = self.file(h).bytes.len() as u64;
        let (pos, len) = (self.random.place(end), self.random.length());
        let mut found = vec![0xa5; len as usize];
        let handle = &self.drawing.handles[h].1;
        match self.world.read(handle, pos, &mut found).await {
            Ok(n) => self.compare(h, pos, &found, n),
            Err(e) => assert_eq!(e, Failure::Failed, "{}: a read", self.at),
        }
    }

    /// Panics unless the `n` bytes that the world read at `pos` into `found`, a buffer of the
    /// wanted length, are those of the model's file of the handle `h`.
    fn compare(&mut self, h: usize, pos: u64, found: &[u8], n: usize) {
        let at = self.at.clone();
        let file = self.file(h);
        let from = file.bytes.len().min(pos as usize);
        let to = file.bytes.len().min(from + found.len());
        assert_eq!(n, to - from, "{at}: bytes read at {pos}");
        if F::CONTENTS
            && let Some(i) = (0..n).find(|&i| found[i] != file.bytes[from + i])
        {
            let (byte, expected) = (found[i], file.bytes[from + i]);
            panic!("{at}: byte {} is {byte}, not {expected}", from + i);
        }
    }

    /// Writes random bytes to a random range of a random file, in world and model.
    async fn write(&mut self) {
        let h = self.handle();
        let end = self.file(h).bytes.len() as u64;
        let (pos, len) = (self.random.place(end), self.random.length());
        let bytes = self.bytes(len);
        self.write_at(h, pos, bytes).await;
    }

    /// Returns `len` random bytes, none of them 0.
    fn bytes(&mut self, len: u64) -> Vec<u8> {
        let mut word = self.random.next();
        let mut next = || {
            word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
            (word >> 56) as u8 | 1
        };
        (0..len).map(|_| next()).collect()
    }

    /// Writes `bytes` to the file of the handle `h` in world and model. Returns true if the write
    /// succeeded; a refused one changes nothing, and after a failed one the model takes over what
    /// the world's file has.
    async fn write_at(&mut self, h: usize, pos: u64, bytes: Vec<u8>) -> bool {
        let before = self.file(h).lengths;
        if !bytes.is_empty() {
            self.file(h).change(Change::Write(pos, bytes.clone()));
        }
        let handle = &self.drawing.handles[h].1;
        match self.world.write(handle, pos, &bytes).await {
            Ok(()) => {
                self.file(h).write(pos, &bytes);
                self.compare_size(h);
                return true;
            }
            Err(Failure::Refused) => {
                let file = self.file(h);
                file.changes.pop();
                file.lengths = before;
                self.compare_size(h);
            }
            Err(e) => {
                assert_eq!(e, Failure::Failed, "{}: a write", self.at);
                self.adopt(h, pos, &bytes).await;
            }
        }
        false
    }

    /// Takes the state of the world's file after a failed write over into the model, and panics
    /// unless it has a prefix of `bytes`, up to a page boundary.
    async fn adopt(&mut self, h: usize, pos: u64, bytes: &[u8]) {
        if self.world.dead() {
            return;
        }
        self.world.quiet(true);
        let handle = &self.drawing.handles[h].1;
        let size = self.world.size(handle);
        let mut found = vec![0; bytes.len()];
        let n = self.world.read(handle, pos, &mut found).await;
        self.world.quiet(false);
        if self.world.dead() {
            return;
        }
        let n = n.expect("nothing fails in peace");
        let at = self.at.clone();
        let file = self.file(h);
        let old = |i: usize| file.bytes.get(pos as usize + i).copied();
        // A page is written entirely or not at all.
        let edges = (1..=bytes.len()).filter(|i| (pos + *i as u64).is_multiple_of(4096));
        let done = std::iter::once(0).chain(edges).find(|&done| {
            let len = (file.bytes.len() as u64).max(if done > 0 { pos + done as u64 } else { 0 });
            size == len
                && (!F::CONTENTS
                    || (0..n).all(|i| {
                        let byte = if i < done { Some(bytes[i]) } else { old(i) };
                        byte == Some(found[i])
                    }))
        });
        let done = done.unwrap_or_else(|| panic!("{at}: a write that failed left something else"));
        file.write(pos, &bytes[..done]);
        self.compare_size(h);
    }

    /// Sets a random file to a random length in world and model.
    async fn truncate(&mut self) {
        let h = self.handle();
        let end = self.file(h).bytes.len() as u64;
        let len = self.random.place(end);
        self.file(h).change(Change::Cut(len));
        let handle = &self.drawing.handles[h].1;
        match self.world.truncate(handle, len).await {
            Ok(()) => self.file(h).bytes.resize(len as usize, 0),
            Err(e) => assert_eq!(e, Failure::Failed, "{}: a cut", self.at),
        }
        if !self.world.dead() {
            self.compare_size(h);
        }
    }

    /// Syncs the file of the handle `h`, after writing lost data again; returns true if the sync
    /// succeeded. A sync that reports a loss is followed by writing the whole file again.
    async fn sync(&mut self, h: usize) -> bool {
        if self.file(h).to_rewrite {
            self.rewrite(h).await;
        }
        match self.world.sync(&self.drawing.handles[h].1).await {
            Ok(()) => {
                let file = self.file(h);
                if !file.to_rewrite {
                    file.confirm();
                }
                return true;
            }
            Err(Failure::Lost) => {
                self.file(h).to_rewrite = true;
                self.rewrite(h).await;
            }
            Err(e) => assert_eq!(e, Failure::Failed, "{}: a sync", self.at),
        }
        false
    }

    /// Writes the whole file of the handle `h` again after its world reported a loss, since the
    /// lost part is unknown.
    async fn rewrite(&mut self, h: usize) {
        let bytes = self.file(h).bytes.clone();
        if self.write_at(h, 0, bytes).await {
            self.file(h).to_rewrite = false;
        }
    }

    /// Gives a random file another random name, if that is free, in world and model.
    fn link(&mut self) {
        let (from, to) = (self.random.name(), self.random.name());
        let d = &mut self.drawing;
        let Some(&at) = d.names.get(&from) else {
            return;
        };
        if !d.names.contains_key(&to) {
            self.world.link(&from, &to);
            d.files[at].names += 1;
            d.names.insert(to, at);
        }
    }

    /// Renames a random file to a random name; a file that had that name loses it.
    async fn rename(&mut self) {
        let (from, to) = (self.random.name(), self.random.name());
        let d = &mut self.drawing;
        let Some(&at) = d.names.get(&from) else {
            return;
        };
        // rename(2) does nothing if both names refer to the same file.
        if d.names.get(&to) == Some(&at) {
            return;
        }
        self.world.rename(&from, &to).await;
        d.names.remove(&from);
        if let Some(gone) = d.names.insert(to, at) {
            d.files[gone].names -= 1;
        }
    }

    /// Removes a random name, if a file has it, in world and model.
    async fn remove(&mut self) {
        let name = self.random.name();
        let d = &mut self.drawing;
        if let Some(at) = d.names.remove(&name) {
            d.files[at].names -= 1;
            self.world.remove(&name).await;
        }
    }

    /// Compares everything at the end, with failures off: opens every name, syncs every file until
    /// pending errors are reported and the data is written, and compares the contents. Power may
    /// still fail.
    async fn conclude(&mut self) {
        let names: Vec<String> = self.drawing.names.keys().cloned().collect();
        for name in names {
            match self.world.open(&name).await {
                Ok(handle) => self.opened(name, handle),
                Err(e) => return assert!(self.world.dead(), "{}: {e:?} in peace", self.at),
            }
        }
        for h in 0..self.drawing.handles.len() {
            // At most: an unreported error, another for data written again, then success.
            let mut tries = 0;
            while !self.sync(h).await || self.file(h).to_rewrite {
                if self.world.dead() {
                    return;
                }
                tries += 1;
                assert!(tries < 4, "{}: errors do not end", self.at);
            }
            let mut found = vec![0; self.file(h).bytes.len() + 10];
            let handle = &self.drawing.handles[h].1;
            match self.world.read(handle, 0, &mut found).await {
                Ok(n) => self.compare(h, 0, &found, n),
                Err(e) => return assert!(self.world.dead(), "{}: {e:?} in peace", self.at),
            }
        }
    }
}
