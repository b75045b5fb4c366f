//! A trace in memory, its objects numbered from 0 in the order of their first request.

use crate::budget::Budget;
use crate::cache::{BLOCK, Cache, Counts, Table};
use crate::requests::{Unit, cut};
use crate::writes::{WriteCache, WriteCounts, WriteModel};
use evict::{Index, MOST, Policy, Slot};
use trace::{Op, Reader, Record, TraceError};

const READ: u32 = 0;
const WRITE: u32 = 1;
const REMOVE: u32 = 2;

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is read.
    Read(u32),
    /// It is written.
    Write(u32),
    /// It is gone: its file was truncated or deleted.
    Remove(u32),
}

/// A trace with numbered objects: 4 bytes a request, and 8 more if times are kept.
#[derive(Debug, Clone, Default)]
pub struct Dense {
    /// Object above, kind in the two lowest bits.
    events: Vec<u32>,
    /// Nanoseconds since the first record, by event; empty if they are not kept.
    times: Vec<u64>,
    objects: u32,
    requests: u64,
    writes: u64,
}

/// What numbering takes of memory for each object: an index that is about to grow, and lists.
const BYTES_PER_OBJECT: u64 = 80;

/// Why a trace can't be kept.
enum Limit {
    /// It has too many objects.
    Objects,
    /// There is no room for so many requests.
    Memory(Budget, u64),
}

impl Limit {
    fn of(self, trace: &str) -> TraceError {
        let (message, accepted) = match self {
            Self::Objects => (
                "the trace has more than 2^30 objects".to_owned(),
                "a trace with at most 2^30 objects (4 TiB in pages)".to_owned(),
            ),
            Self::Memory(budget, requests) => (
                format!(
                    "{requests} requests or more, and the objects that they are for, are too many to \
                     keep: {budget}"
                ),
                "one policy and one size, for which the trace is not kept; a shorter trace; or more \
                 memory"
                    .to_owned(),
            ),
        };
        TraceError {
            file: trace.to_owned(),
            record: None,
            text: false,
            message,
            accepted,
        }
    }
}

/// Numbers objects while a trace is read.
struct Numbering {
    index: Index,
    /// The objects of each file since their last removal; only for formats that remove.
    files: Vec<Vec<u32>>,
    listed: Vec<bool>,
    cuts: bool,
}

impl Numbering {
    #[inline]
    fn number(&mut self, object: u64, file: u32, found: Slot) -> Option<u32> {
        let number = if found != Slot::MAX {
            found
        } else {
            match self.index.find(object) {
                Some(number) => number,
                None => {
                    let number = self.index.add_slot()?;
                    self.index.insert(object, number);
                    number
                }
            }
        };
        if self.cuts {
            self.list(number, file as usize);
        }
        Some(number)
    }

    fn list(&mut self, number: u32, file: usize) {
        if self.listed.len() <= number as usize {
            self.listed.resize(number as usize + 1, false);
        }
        if !std::mem::replace(&mut self.listed[number as usize], true) {
            if self.files.len() <= file {
                self.files.resize_with(file + 1, Vec::new);
            }
            self.files[file].push(number);
        }
    }
}

impl Dense {
    /// Reads a whole trace; `times` keeps the times, which writeback needs. Also returns how many
    /// records were skipped.
    ///
    /// # Errors
    /// A record that can't be read, more than 2³⁰ objects, or more than the budget has room for.
    pub fn read(
        mut reader: Reader,
        unit: Unit,
        times: bool,
        budget: Budget,
    ) -> Result<(Self, u64), TraceError> {
        let mut dense = Self::default();
        let mut numbering = Numbering {
            index: Index::new(0),
            files: Vec::new(),
            listed: Vec::new(),
            cuts: reader.format().can_cut(),
        };
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch)? {
            for block in batch.chunks(64) {
                let limit = dense.add(block, unit, times, &mut numbering, budget);
                limit.map_err(|limit| limit.of(reader.name()))?;
            }
        }
        dense.objects = numbering.index.slots();
        dense.events.shrink_to_fit();
        dense.times.shrink_to_fit();
        Ok((dense, reader.skipped()))
    }

    /// Adds a few records, as far as there is room for their requests and objects.
    fn add(
        &mut self,
        block: &[Record],
        unit: Unit,
        times: bool,
        n: &mut Numbering,
        budget: Budget,
    ) -> Result<(), Limit> {
        // Looked up before the first is numbered, so that cache misses overlap.
        let mut found = [Slot::MAX; 64];
        for (found, record) in found.iter_mut().zip(block) {
            if record.op.is_data() {
                *found = n.index.find(unit.objects(record).0).unwrap_or(Slot::MAX);
            }
        }
        for (found, record) in found.into_iter().zip(block) {
            let before = self.events.len();
            if record.op.is_data() {
                let kind = if record.op == Op::Write { WRITE } else { READ };
                let (first, count) = unit.objects(record);
                // As if every one were for an object of its own; vectors double as they grow.
                let requests = self.events.len() as u64 + count;
                let objects = u64::from(n.index.slots()) + count;
                let a_request = 2 * (4 + if times { 8 } else { 0 });
                if !budget.has(requests * a_request + objects * BYTES_PER_OBJECT) {
                    return Err(Limit::Memory(budget, requests));
                }
                for i in 0..count {
                    let found = if i == 0 { found } else { Slot::MAX };
                    let Some(number) = n.number(first + i, record.file, found) else {
                        return Err(Limit::Objects);
                    };
                    self.events.push(number << 2 | kind);
                }
                self.requests += count;
                self.writes += u64::from(kind) * count;
            } else if let Some(len) = cut(record) {
                let gone = unit.behind(len);
                if let Some(all) = n.files.get_mut(record.file as usize) {
                    let gone = |o: &mut u32| unit.place(n.index.object(*o)) >= gone;
                    for number in all.extract_if(.., gone) {
                        n.listed[number as usize] = false;
                        self.events.push(number << 2 | REMOVE);
                    }
                }
            }
            if times {
                let added = self.events.len() - before;
                self.times
                    .extend(std::iter::repeat_n(record.time_ns, added));
            }
        }
        Ok(())
    }

    /// Bytes that the trace takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.events.capacity() * 4 + self.times.capacity() * 8) as u64
    }

    /// A trace of these events, at the times 0, `step_ns`, 2 · `step_ns`, …; objects are below
    /// 2³⁰.
    pub fn of(events: impl IntoIterator<Item = Event>, step_ns: u64) -> Self {
        let mut dense = Self::default();
        for (i, event) in events.into_iter().enumerate() {
            let (object, kind) = match event {
                Event::Read(o) => (o, READ),
                Event::Write(o) => (o, WRITE),
                Event::Remove(o) => (o, REMOVE),
            };
            assert!(object < MOST, "objects are below 2^30");
            dense.events.push(object << 2 | kind);
            dense.times.push(i as u64 * step_ns);
            dense.objects = dense.objects.max(object + 1);
            dense.requests += u64::from(kind != REMOVE);
            dense.writes += u64::from(kind == WRITE);
        }
        dense
    }

    /// Number of objects: they are `0..objects`.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Number of requests that write.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// What happens, in order.
    #[inline]
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.events.iter().map(|e| match e & 3 {
            READ => Event::Read(e >> 2),
            WRITE => Event::Write(e >> 2),
            _ => Event::Remove(e >> 2),
        })
    }

    /// The whole trace through a cache of `size` pages. More slots than objects are never needed.
    pub fn run<P: Policy>(&self, size: u32) -> Counts {
        let slots = self.slots(size);
        let mut cache = Cache::<P, Table>::new(slots, Table::new(self.objects, slots));
        let mut objects = [0_u64; BLOCK];
        for events in self.events.chunks(BLOCK) {
            let objects = &mut objects[..events.len()];
            for (object, event) in objects.iter_mut().zip(events) {
                *object = (event >> 2).into();
            }
            cache.warm(objects);
            for (object, event) in objects.iter().zip(events) {
                if event & 3 == REMOVE {
                    cache.remove(*object);
                } else {
                    cache.request(*object);
                }
            }
        }
        cache.counts()
    }

    /// As [`Self::run`], with dirty pages and writeback. The trace was read with its times.
    pub fn run_with_writes<P: Policy>(
        &self,
        size: u32,
        model: &WriteModel,
    ) -> (Counts, WriteCounts) {
        let slots = self.slots(size);
        let table = Table::new(self.objects, slots);
        let mut cache = WriteCache::<P, Table>::new(slots, size, table, model);
        for (event, time) in self.events().zip(&self.times) {
            match event {
                Event::Read(object) => cache.request(object.into(), false, *time),
                Event::Write(object) => cache.request(object.into(), true, *time),
                Event::Remove(object) => cache.remove(object.into()),
            }
        }
        cache.finish()
    }

    fn slots(&self, size: u32) -> u32 {
        size.min(self.objects).max(1)
    }
}
