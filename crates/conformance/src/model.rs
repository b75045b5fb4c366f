//! Files as one would draw them on paper: a vector of bytes each, and names that point at them.
//!
//! [`run`] does the same things to a world and to the drawing: opens, closes, reads, writes, cuts and
//! syncs at odd places and of odd lengths, links, renames over others and removals. After each the
//! two are compared. A seed gives the same row of operations in every world.
//!
//! A world may fail. Then the drawing knows what may have become of a file: bytes of a write that
//! failed are the old ones or the new ones, everything else is what it was, and what a sync
//! confirmed stays on the device whatever happens. [`Drawing::survived`] compares what a power cut
//! has left.

use std::collections::BTreeMap;
use std::future::Future;

/// Names that the operations use.
const NAMES: u64 = 8;
/// Handles that are open at the same time, at most.
const HANDLES: usize = 10;
/// Files reach up to here, in bytes.
const REACH: u64 = 1_500_000;
/// The longest write or read, in bytes.
const LONGEST: u64 = 70_000;

/// What a call says that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It could not be done. Of a sync: what was written is kept, a further one tries again.
    Failed,
    /// What was written since the last sync that succeeded may be lost.
    Lost,
    /// A write was refused as a whole.
    Refused,
}

/// A world with names and files.
pub trait Files {
    /// An open file.
    type Handle;
    /// Whether files carry contents; if not, lengths are compared alone.
    const CONTENTS: bool;

    /// Opens a file by its name, and creates it if it is missing.
    fn open(&self, name: &str) -> impl Future<Output = Result<Self::Handle, Failure>>;
    /// Lets a file go.
    fn close(&self, file: Self::Handle) -> impl Future<Output = ()>;
    /// Reads; returns how many bytes there were.
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
    /// ftruncate(2).
    fn truncate(&self, file: &Self::Handle, len: u64) -> impl Future<Output = Result<(), Failure>>;
    /// fsync(2).
    fn sync(&self, file: &Self::Handle) -> impl Future<Output = Result<(), Failure>>;
    /// The length of a file in bytes.
    fn size(&self, file: &Self::Handle) -> u64;
    /// What the file is to its device, for [`Drawing::survived`].
    fn identity(&self, file: &Self::Handle) -> u64;
    /// Gives a file a further name, which no other has.
    fn link(&self, from: &str, to: &str);
    /// Gives a file another name; who had that before loses it.
    fn rename(&self, from: &str, to: &str) -> impl Future<Output = ()>;
    /// Removes a name.
    fn remove(&self, name: &str) -> impl Future<Output = ()>;
    /// From now on nothing fails, or things fail again; for a look at what a failure has left.
    fn quiet(&self, quiet: bool);
    /// Whether power is gone: nothing succeeds any more.
    fn dead(&self) -> bool {
        false
    }
}

/// xorshift64*, as the operations must be the same in every world.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn name(&mut self) -> String {
        format!("name-{}", self.below(NAMES))
    }

    /// A place: near an edge of pages, near the end of the file, or anywhere.
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

    /// A length: nothing, a few bytes, about a page, or many.
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

/// A change that no sync has confirmed.
enum Change {
    Write(u64, Vec<u8>),
    Cut(u64),
}

/// A file of the drawing.
#[derive(Default)]
struct Drawn {
    identity: u64,
    bytes: Vec<u8>,
    names: u32,
    handles: u32,
    /// What the last sync confirmed, what was changed since, and the lengths since.
    confirmed: Vec<u8>,
    changes: Vec<Change>,
    lengths: (u64, u64),
    /// Data may be lost, and was not written again so far.
    to_rewrite: bool,
}

impl Drawn {
    /// Something is about to be tried.
    fn change(&mut self, change: Change) {
        let len = match &change {
            Change::Write(pos, bytes) => (pos + bytes.len() as u64).max(self.bytes.len() as u64),
            Change::Cut(len) => *len,
        };
        self.lengths = (self.lengths.0.min(len), self.lengths.1.max(len));
        self.changes.push(change);
    }

    fn write(&mut self, pos: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            let (from, to) = (pos as usize, pos as usize + bytes.len());
            self.bytes.resize(self.bytes.len().max(to), 0);
            self.bytes[from..to].copy_from_slice(bytes);
        }
    }

    fn confirm(&mut self) {
        self.confirmed.clone_from(&self.bytes);
        self.changes.clear();
        let len = self.bytes.len() as u64;
        self.lengths = (len, len);
    }

    /// Whether this may be what a power cut has left of the file.
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

/// The drawing, with a world's handles beside it.
pub struct Drawing<H> {
    files: Vec<Drawn>,
    names: BTreeMap<String, usize>,
    handles: Vec<(usize, H)>,
}

impl<H> Drawing<H> {
    /// Compares what a power cut has left of a file with what may be left. `None`: the drawing has no
    /// such file, or it had lost its last name.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn survived(&self, identity: u64, found: &[u8]) -> Option<Result<(), String>> {
        let drawn = self.files.iter().rev().find(|f| f.identity == identity)?;
        (drawn.names > 0).then(|| drawn.may_survive(found))
    }

    /// Every name, what its file is to its device, and its bytes.
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
    /// For messages.
    at: String,
}

/// Does `count` operations; then, if the world lives, everything is synced and compared. Handles are
/// closed at the end.
///
/// # Panics
/// Where the world differs from the drawing.
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

    fn handle(&mut self) -> usize {
        self.random.below(self.drawing.handles.len() as u64) as usize
    }

    fn file(&mut self, h: usize) -> &mut Drawn {
        &mut self.drawing.files[self.drawing.handles[h].0]
    }

    fn compare_size(&mut self, h: usize) {
        let found = self.world.size(&self.drawing.handles[h].1);
        let expected = self.file(h).bytes.len() as u64;
        assert_eq!(found, expected, "{}: length", self.at);
    }

    async fn open(&mut self) {
        if self.drawing.handles.len() == HANDLES {
            return self.close().await;
        }
        let name = self.random.name();
        let Ok(handle) = self.world.open(&name).await else {
            // Whether it was created on the way, nobody knows: once more, in peace.
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

    async fn close(&mut self) {
        let h = self.handle();
        let (at, handle) = self.drawing.handles.swap_remove(h);
        self.drawing.files[at].handles -= 1;
        self.world.close(handle).await;
    }

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

    /// Compares `n` bytes that were found at `pos`, of as many as there was room for.
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

    async fn write(&mut self) {
        let h = self.handle();
        let end = self.file(h).bytes.len() as u64;
        let (pos, len) = (self.random.place(end), self.random.length());
        let bytes = self.bytes(len);
        self.write_at(h, pos, bytes).await;
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        let mut word = self.random.next();
        let mut next = || {
            word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
            (word >> 56) as u8 | 1
        };
        (0..len).map(|_| next()).collect()
    }

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

    /// A write failed on its way: looks at what it has left, which must be its beginning.
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
        // A page is written or not.
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

    /// Returns whether it succeeded.
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

    /// What was lost is written again: all of the file, as nobody knows more.
    async fn rewrite(&mut self, h: usize) {
        let bytes = self.file(h).bytes.clone();
        if self.write_at(h, 0, bytes).await {
            self.file(h).to_rewrite = false;
        }
    }

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

    async fn rename(&mut self) {
        let (from, to) = (self.random.name(), self.random.name());
        let d = &mut self.drawing;
        let Some(&at) = d.names.get(&from) else {
            return;
        };
        // rename(2) does nothing where both are one file.
        if d.names.get(&to) == Some(&at) {
            return;
        }
        self.world.rename(&from, &to).await;
        d.names.remove(&from);
        if let Some(gone) = d.names.insert(to, at) {
            d.files[gone].names -= 1;
        }
    }

    async fn remove(&mut self) {
        let name = self.random.name();
        let d = &mut self.drawing;
        if let Some(at) = d.names.remove(&name) {
            d.files[at].names -= 1;
            self.world.remove(&name).await;
        }
    }

    /// In peace: every handle's errors are told and its data is written, everything is compared.
    /// Power may go yet.
    async fn conclude(&mut self) {
        let names: Vec<String> = self.drawing.names.keys().cloned().collect();
        for name in names {
            match self.world.open(&name).await {
                Ok(handle) => self.opened(name, handle),
                Err(e) => return assert!(self.world.dead(), "{}: {e:?} in peace", self.at),
            }
        }
        for h in 0..self.drawing.handles.len() {
            // What it was not told yet, what is then written again, and nothing.
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
