//! A trace in memory, with objects numbered from 0 in the order of their first requests.

use crate::budget::Budget;
use crate::cache::{BLOCK, Cache, Counts, Table};
use crate::requests::{Unit, cut};
use crate::stack::{self, Distances};
use crate::writes::{WriteCache, WriteCounts, WriteModel};
use evict::{Index, MOST, Policy, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::{Op, Reader, Record, TraceError};

const READ: u32 = 0;
const WRITE: u32 = 1;
const REMOVE: u32 = 2;

/// An event of a trace, with its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The object is read.
    Read(u32),
    /// The object is written.
    Write(u32),
    /// The object is gone: its file was truncated or deleted.
    Remove(u32),
}

/// A trace with numbered objects: 4 bytes an event, and 8 more if times are kept.
#[derive(Debug, Clone, Default)]
pub struct Dense {
    /// Object number in the upper bits, kind of event in the two lowest.
    events: Vec<u32>,
    /// Nanoseconds since the first record, by event; empty if they are not kept.
    times: Vec<u64>,
    objects: u32,
    requests: u64,
    writes: u64,
    /// Once this is set, passes over the trace end early, with figures that mean nothing.
    stop: Arc<AtomicBool>,
}

/// Events between two tests of `stop`.
pub(crate) const PART: usize = 1 << 16;

/// Bytes of memory that numbering uses for each object: an index that is about to grow, and lists.
pub(crate) const BYTES_PER_OBJECT: u64 = 80;

/// The limit that a trace exceeds.
pub(crate) enum Limit {
    /// The trace has too many objects.
    Objects,
    /// The memory is too small for this many requests.
    Memory(Budget, u64),
    /// The memory is too small for this many objects of a trace that is not kept.
    Distances(Budget, u64),
}

impl Limit {
    /// Returns the error that the trace named `trace` exceeds this limit.
    pub fn of(self, trace: &str) -> TraceError {
        let (message, accepted) = match self {
            Self::Objects => (
                "the trace has more than 2^30 objects".to_owned(),
                "a trace with at most 2^30 objects (4 TiB in pages)".to_owned(),
            ),
            Self::Distances(budget, objects) => (
                format!("{objects} objects or more are too many: {budget}"),
                "`--sample`, which keeps a part of the objects; one size, for which only the cache is \
                 kept; a shorter trace; or more memory"
                    .to_owned(),
            ),
            Self::Memory(budget, requests) => (
                format!(
                    "{requests} requests or more, and the objects that they are for, are too many to \
                     keep: {budget}"
                ),
                "`--sample`, which keeps a part of the trace; one policy and one size, for which it is not \
                 kept; a shorter trace; or more memory"
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

/// Runs at most [`BLOCK`] events (object number and kind, packed) through a cache: requests, and
/// removals of objects. The look-ups start together, so that cache misses overlap.
#[inline]
fn send<P: Policy>(cache: &mut Cache<P, Table>, events: &[u32]) {
    let mut objects = [0_u64; BLOCK];
    let objects = &mut objects[..events.len()];
    for (object, event) in objects.iter_mut().zip(events) {
        *object = (event >> 2).into();
    }
    let mut guesses = [0; BLOCK];
    cache.guess(objects, &mut guesses);
    for (object, event) in objects.iter().zip(events) {
        if event & 3 == REMOVE {
            cache.remove(*object);
        } else {
            cache.request(*object);
        }
    }
}

/// A subset of the eight groups of a sampled trace's objects: object `n` is in group `n % 8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Groups(pub u8);

impl Groups {
    /// All objects.
    pub const ALL: Self = Self(u8::MAX);

    #[inline]
    pub fn has(self, object: u32) -> bool {
        self.0 >> (object % 8) & 1 == 1
    }
}

/// Numbers objects while a trace is read.
pub(crate) struct Numbering {
    pub index: Index,
    /// The objects of each file since their last removal; only for formats with removals.
    files: Vec<Vec<u32>>,
    listed: Vec<bool>,
    cuts: bool,
    /// Set if the reader numbers the objects: the shift of [`Unit::numbers`].
    given: Option<u32>,
    /// Number of objects that the reader has numbered.
    met: u32,
}

impl Numbering {
    /// Creates a numbering without objects; `cuts`: records of the trace's format may remove pages
    /// from files, so that the objects of each file have to be known.
    pub fn new(cuts: bool) -> Self {
        Self {
            index: Index::new(0),
            files: Vec::new(),
            listed: Vec::new(),
            cuts,
            given: None,
            met: 0,
        }
    }

    /// Creates a numbering of the objects that `reader`, which has read nothing so far, will ask
    /// for. Objects that the reader numbers itself are not looked up again.
    fn of(reader: &mut Reader, unit: Unit) -> Self {
        Self {
            given: unit.numbers(reader),
            ..Self::new(reader.format().can_cut())
        }
    }

    /// Returns the number of objects so far.
    fn objects(&self) -> u32 {
        self.met.max(self.index.slots())
    }

    /// Takes a first look for each of at most 64 objects, as [`Index::guess`] does; not where the
    /// reader numbers the objects.
    fn guess(&self, objects: &[u64], guesses: &mut [Slot; BLOCK]) {
        if self.given.is_none() {
            self.index.guess(objects, guesses);
        }
    }

    /// Calls `each` with the number of every object that the record removes, those behind the new
    /// end of its file, and forgets them.
    pub fn cut(&mut self, record: &Record, unit: Unit, mut each: impl FnMut(u32)) {
        let Some(len) = cut(record) else { return };
        let gone = unit.behind(len);
        if let Some(all) = self.files.get_mut(record.file as usize) {
            let gone = |o: &mut u32| unit.place(self.index.object(*o)) >= gone;
            for number in all.extract_if(.., gone) {
                self.listed[number as usize] = false;
                each(number);
            }
        }
    }

    /// Returns the object's number, a new one if it has none; `None`: there are too many objects.
    /// `file` is the object's file. `guess` is the result of [`Index::guess`] or any other number.
    #[inline]
    pub fn number(&mut self, object: u64, file: u32, guess: Slot) -> Option<u32> {
        if let Some(shift) = self.given {
            let number = u32::try_from(object >> shift).ok();
            let number = number.filter(|number| *number < MOST)?;
            self.met = self.met.max(number + 1);
            return Some(number);
        }
        let number = match self.index.find_guessed(object, guess) {
            Some(number) => number,
            None => {
                let number = self.index.add_slot()?;
                self.index.insert(object, number);
                number
            }
        };
        if self.cuts {
            self.list(number, file as usize);
        }
        Some(number)
    }

    /// Adds an object to the list of its file, unless it is there: a record that cuts the file then
    /// finds its objects.
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
    /// Reads a whole trace into memory, with objects numbered by their first requests. `times`
    /// keeps the times, which writeback needs. With more than one of `threads` other threads parse
    /// than the one that numbers. Also returns the number of skipped records.
    ///
    /// # Errors
    /// A record cannot be read, there are more than 2³⁰ objects, or the budget is too small.
    pub fn read(
        mut reader: Reader,
        unit: Unit,
        times: bool,
        budget: Budget,
        threads: usize,
    ) -> Result<(Self, u64), TraceError> {
        let mut dense = Self::default();
        let mut numbering = Numbering::of(&mut reader, unit);
        let name = reader.name().to_owned();
        reader.each_records(threads, &mut |batch| {
            batch
                .chunks(BLOCK)
                .try_for_each(|block| dense.add(block, unit, times, &mut numbering, budget))
                .map_err(|limit| limit.of(&name))
        })?;
        dense.objects = numbering.objects();
        dense.events.shrink_to_fit();
        dense.times.shrink_to_fit();
        Ok((dense, reader.skipped()))
    }

    /// Adds at most 64 records, as far as the budget allows their requests and objects. `n` numbers
    /// the objects; `times`: the time of each event is kept.
    fn add(
        &mut self,
        block: &[Record],
        unit: Unit,
        times: bool,
        n: &mut Numbering,
        budget: Budget,
    ) -> Result<(), Limit> {
        // All look-ups start before the first object is numbered, so that cache misses overlap.
        // The first object of each record, and a guess at that object's number.
        let (mut firsts, mut guesses) = ([0; 64], [Slot::MAX; 64]);
        for (first, record) in firsts.iter_mut().zip(block) {
            *first = unit.objects(record).0;
        }
        n.guess(&firsts[..block.len()], &mut guesses);
        for (guess, record) in guesses.into_iter().zip(block) {
            let before = self.events.len();
            if record.op.is_data() {
                let kind = if record.op == Op::Write { WRITE } else { READ };
                let (first, count) = unit.objects(record);
                // The worst case is an object for each request; vectors double as they grow.
                let requests = self.events.len() as u64 + count;
                let objects = u64::from(n.objects()) + count;
                let a_request = 2 * (4 + if times { 8 } else { 0 });
                if !budget.has(requests * a_request + objects * BYTES_PER_OBJECT) {
                    return Err(Limit::Memory(budget, requests));
                }
                for i in 0..count {
                    let guess = if i == 0 { guess } else { Slot::MAX };
                    let Some(number) = n.number(first + i, record.file, guess) else {
                        return Err(Limit::Objects);
                    };
                    self.events.push(number << 2 | kind);
                }
                self.requests += count;
                self.writes += u64::from(kind) * count;
            } else {
                n.cut(record, unit, |number| {
                    self.events.push(number << 2 | REMOVE);
                });
            }
            if times {
                let added = self.events.len() - before;
                self.times
                    .extend(std::iter::repeat_n(record.time_ns, added));
            }
        }
        Ok(())
    }

    /// Adds a read of an object, or its removal.
    #[inline]
    pub(crate) fn push(&mut self, object: u32, removed: bool) {
        self.events
            .push(object << 2 | if removed { REMOVE } else { READ });
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Gives every object the number that `number` returns for it; events of objects with `None`
    /// are dropped. The trace must have no times.
    pub(crate) fn renumber(&mut self, number: impl Fn(u32) -> Option<u32>) {
        self.events.retain_mut(|event| match number(*event >> 2) {
            Some(to) => {
                *event = to << 2 | *event & 3;
                true
            }
            None => false,
        });
    }

    /// Completes a trace made with [`Self::push`]: counts its requests. Its objects are below
    /// `objects`.
    pub(crate) fn close(&mut self, objects: u32) {
        self.events.shrink_to_fit();
        self.objects = objects;
        let removed = self.events.iter().filter(|e| *e & 3 == REMOVE).count();
        self.requests = (self.events.len() - removed) as u64;
    }

    /// Returns the bytes of memory that the trace uses.
    pub(crate) fn bytes(&self) -> u64 {
        (self.events.capacity() * 4 + self.times.capacity() * 8) as u64
    }

    /// Creates a trace of these events, at the times 0, `step_ns`, 2 · `step_ns`, …; objects are
    /// below 2³⁰.
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

    /// Makes passes end early once `stop` is set; their figures mean nothing then.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// Returns true if passes must end.
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Iterates over the events in parts of [`PART`], until `stop` is set.
    fn parts(&self) -> impl Iterator<Item = &[u32]> {
        self.events.chunks(PART).take_while(|_| !self.stopped())
    }

    /// Returns the number of objects: they are `0..objects`.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of writing requests.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Iterates over the events in order.
    #[inline]
    pub fn events(&self) -> impl DoubleEndedIterator<Item = Event> + ExactSizeIterator {
        self.events.iter().map(|e| match e & 3 {
            READ => Event::Read(e >> 2),
            WRITE => Event::Write(e >> 2),
            _ => Event::Remove(e >> 2),
        })
    }

    /// Runs the whole trace through a cache of `size` pages under a policy; returns requests and
    /// misses. The cache has at most as many slots as the trace has objects.
    pub fn run<P: Policy>(&self, size: u32) -> Counts {
        self.run_made(size, Groups::ALL, &P::new)
    }

    /// Runs the objects of some groups as [`Self::run`] does, with a policy that `make` creates for
    /// a number of slots.
    pub(crate) fn run_made<P: Policy>(
        &self,
        size: u32,
        groups: Groups,
        make: &dyn Fn(u32) -> P,
    ) -> Counts {
        let slots = self.slots(size);
        let mut cache = Cache::of(make(slots), slots, Table::new(self.objects, slots));
        if groups == Groups::ALL {
            for part in self.parts() {
                for events in part.chunks(BLOCK) {
                    send(&mut cache, events);
                }
            }
            return cache.counts();
        }
        // The events of the groups are collected without a branch, which would be mispredicted half
        // the time.
        let mut picked = [0_u32; 2 * BLOCK];
        let mut n = 0;
        for part in self.parts() {
            for events in part.chunks(BLOCK) {
                for event in events {
                    picked[n] = *event;
                    n += usize::from(groups.has(event >> 2));
                }
                if n >= BLOCK {
                    send(&mut cache, &picked[..BLOCK]);
                    picked.copy_within(BLOCK..n, 0);
                    n -= BLOCK;
                }
            }
        }
        send(&mut cache, &picked[..n]);
        cache.counts()
    }

    /// Computes LRU's distances of a whole trace that is not kept in memory. Also returns the
    /// number of objects and of skipped records.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn distances(
        mut reader: Reader,
        unit: Unit,
        budget: Budget,
        threads: usize,
    ) -> Result<(Distances, u32, u64), TraceError> {
        let mut numbering = Numbering::of(&mut reader, unit);
        let mut pass = stack::Pass::new(0, 1 << 16);
        let name = reader.name().to_owned();
        let mut one = |block: &[Record]| {
            let (mut firsts, mut guesses) = ([0; BLOCK], [Slot::MAX; BLOCK]);
            for (first, record) in firsts.iter_mut().zip(block) {
                *first = unit.objects(record).0;
            }
            numbering.guess(&firsts[..block.len()], &mut guesses);
            for (guess, record) in guesses.into_iter().zip(block) {
                if !record.op.is_data() {
                    numbering.cut(record, unit, |number| pass.remove(number));
                    continue;
                }
                let (first, count) = unit.objects(record);
                // The worst case is an object for each request.
                let objects = u64::from(numbering.objects()) + count;
                if !budget.has(objects * (BYTES_PER_OBJECT + stack::Pass::BYTES_PER_OBJECT)) {
                    return Err(Limit::Distances(budget, objects));
                }
                for i in 0..count {
                    let guess = if i == 0 { guess } else { Slot::MAX };
                    let number = numbering.number(first + i, record.file, guess);
                    pass.request(number.ok_or(Limit::Objects)?);
                }
            }
            Ok(())
        };
        reader.each_records(threads, &mut |batch| {
            let all = batch.chunks(BLOCK).try_for_each(&mut one);
            all.map_err(|limit| limit.of(&name))
        })?;
        let objects = numbering.objects();
        Ok((pass.finish(), objects, reader.skipped()))
    }

    /// Iterates over the events of the objects of some groups, in order.
    #[inline]
    pub(crate) fn events_of(&self, groups: Groups) -> impl Iterator<Item = Event> {
        self.events().filter(move |event| match event {
            Event::Read(o) | Event::Write(o) | Event::Remove(o) => groups.has(*o),
        })
    }

    /// Runs the trace as [`Self::run`] does, with dirty pages and writeback. The trace must have
    /// its times. Returns requests and misses, then the counts of writes.
    pub fn run_with_writes<P: Policy>(
        &self,
        size: u32,
        model: &WriteModel,
    ) -> (Counts, WriteCounts) {
        self.run_made_with_writes(size, model, &P::new)
    }

    /// Does what [`Self::run_with_writes`] does, with a policy that `make` creates for a number of
    /// slots.
    pub(crate) fn run_made_with_writes<P: Policy>(
        &self,
        size: u32,
        model: &WriteModel,
        make: &dyn Fn(u32) -> P,
    ) -> (Counts, WriteCounts) {
        let slots = self.slots(size);
        let table = Table::new(self.objects, slots);
        let mut cache = WriteCache::of(make(slots), slots, size, table, model);
        for (at, (event, time)) in self.events().zip(&self.times).enumerate() {
            if at % PART == 0 && self.stopped() {
                break;
            }
            match event {
                Event::Read(object) => cache.request(object.into(), false, *time),
                Event::Write(object) => cache.request(object.into(), true, *time),
                Event::Remove(object) => cache.remove(object.into()),
            }
        }
        cache.finish()
    }

    /// Returns the slots of a cache of `size` pages: no more than the trace has objects, but at
    /// least one.
    fn slots(&self, size: u32) -> u32 {
        size.min(self.objects).max(1)
    }
}
