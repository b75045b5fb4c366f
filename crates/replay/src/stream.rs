//! Streams a trace from the reader into one cache.

use crate::cache::{Cache, Counts, Map, Table};
use crate::requests::{Unit, cut};
use crate::touched::Touched;
use crate::writes::{WriteCache, WriteCounts, WriteModel};
use evict::{Index, Policy};
use std::collections::HashMap;
use std::ops::Range;
use trace::{Op, Reader, Record, TraceError};

/// A cache that a trace is sent through.
trait Sink {
    /// Takes the requests of one record.
    fn request(&mut self, record: &Record, objects: Range<u64>);
    /// Makes all requests that were collected, before anything else happens.
    fn settle(&mut self);
    /// Removes an object that is gone.
    fn remove(&mut self, object: u64);
}

/// Most requests that are collected.
const AHEAD: usize = 1 << 14;

/// A cache without writes; requests are collected, so that their look-ups can start together.
struct Clean<P, M> {
    cache: Cache<P, M>,
    objects: Vec<u64>,
}

impl<P: Policy, M: Map> Clean<P, M> {
    /// Collects requests for these objects, and makes them when there are [`AHEAD`], so that their
    /// look-ups start together.
    #[inline]
    fn ask(&mut self, objects: Range<u64>) {
        if objects.end - objects.start == 1 {
            self.objects.push(objects.start);
            return;
        }
        // A record may ask for a million pages, so they are passed on in batches.
        for object in objects {
            self.objects.push(object);
            if self.objects.len() >= AHEAD {
                self.settle();
            }
        }
    }
}

impl<P: Policy, M: Map> Sink for Clean<P, M> {
    #[inline]
    fn request(&mut self, _: &Record, objects: Range<u64>) {
        self.ask(objects);
    }

    /// Makes the collected requests.
    fn settle(&mut self) {
        self.cache.request_block(&self.objects);
        self.objects.clear();
    }

    fn remove(&mut self, object: u64) {
        self.cache.remove(object);
    }
}

impl<P: Policy> Sink for WriteCache<P, Index> {
    /// Makes the requests of one record, reads or writes, at its recorded time.
    #[inline]
    fn request(&mut self, record: &Record, objects: Range<u64>) {
        for object in objects {
            WriteCache::request(self, object, record.op == Op::Write, record.time_ns);
        }
    }

    /// Does nothing: requests with writes are made at once.
    fn settle(&mut self) {}

    fn remove(&mut self, object: u64) {
        WriteCache::remove(self, object);
    }
}

/// Sends a whole trace through a cache of `slots` slots while it is read, and returns requests and
/// misses. Writes count as requests. With more than one of `threads` another thread reads the
/// trace; the counts are the same.
///
/// # Errors
/// A record cannot be read.
pub fn stream<P: Policy>(
    reader: Reader,
    unit: Unit,
    slots: u32,
    threads: usize,
) -> Result<Counts, TraceError> {
    stream_made(reader, unit, slots, threads, &P::new)
}

/// Streams as [`stream`] does, with a policy that `make` creates for a number of slots.
pub(crate) fn stream_made<P: Policy>(
    mut reader: Reader,
    unit: Unit,
    slots: u32,
    threads: usize,
    make: &dyn Fn(u32) -> P,
) -> Result<Counts, TraceError> {
    // A table by number takes 4 bytes an object, less than the reader's names. Pages are too many
    // for one: an object of a gigabyte has 262,144.
    let numbers = match unit {
        Unit::Record => unit.numbers(&mut reader),
        Unit::Page => None,
    };
    match numbers {
        Some(shift) => {
            let cache = Cache::of(make(slots), slots, Table::new(0, slots));
            ask_all(reader, unit, shift, threads, cache)
        }
        None => {
            let cache = Cache::of(make(slots), slots, Index::new(slots));
            ask_all(reader, unit, 0, threads, cache)
        }
    }
}

/// Sends all requests of a trace through `cache`; returns requests and misses. The map of the cache
/// has the objects by the upper bits of their numbers, without the last `shift` ones.
fn ask_all<P: Policy, M: Map>(
    mut reader: Reader,
    unit: Unit,
    shift: u32,
    threads: usize,
    cache: Cache<P, M>,
) -> Result<Counts, TraceError> {
    let mut clean = Clean {
        cache,
        objects: Vec::new(),
    };
    if reader.format().can_cut() {
        send(reader, unit, &mut clean, threads)?;
        return Ok(clean.cache.counts());
    }
    if unit == Unit::Record && reader.format().only_asks() {
        // One object a record: nothing has to be collected.
        each_object(&mut reader, unit, shift, threads, &mut |batch| {
            clean.cache.request_block(batch);
            Ok(())
        })?;
        return Ok(clean.cache.counts());
    }
    each_objects(&mut reader, unit, shift, threads, &mut |batch| {
        for (first, n) in batch {
            clean.ask(*first..first + n);
        }
        clean.settle();
        Ok(())
    })?;
    Ok(clean.cache.counts())
}

/// Takes, for some records, each one's first object and number of objects.
type TakeObjects<'a> = dyn FnMut(&[(u64, u64)]) -> Result<(), TraceError> + 'a;

/// Calls `take` with each record's first object, shifted by `shift` bits, and number of objects (0
/// for records without data). The rest of a record is not needed and not decoded.
fn each_objects(
    reader: &mut Reader,
    unit: Unit,
    shift: u32,
    threads: usize,
    take: &mut TakeObjects<'_>,
) -> Result<(), TraceError> {
    let objects = |record: &Record| {
        if !record.op.is_data() {
            return (0, 0);
        }
        let (first, n) = unit.objects(record);
        (first >> shift, n)
    };
    reader.each_batch(threads, objects, take)
}

/// Calls `take` with each record's first object, shifted by `shift` bits, for traces whose records
/// are all requests for one object. Not generic over policies, because the readers are large.
fn each_object(
    reader: &mut Reader,
    unit: Unit,
    shift: u32,
    threads: usize,
    take: &mut dyn FnMut(&[u64]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    reader.each_batch(threads, |record| unit.objects(record).0 >> shift, take)
}

/// Streams as [`stream`] does, with dirty pages and writeback. Returns requests and misses, then
/// the counts of writes.
///
/// # Errors
/// A record cannot be read.
pub fn stream_with_writes<P: Policy>(
    reader: Reader,
    unit: Unit,
    slots: u32,
    model: &WriteModel,
    threads: usize,
) -> Result<(Counts, WriteCounts), TraceError> {
    stream_made_with_writes(reader, unit, slots, model, threads, &P::new)
}

/// Does what [`stream_with_writes`] does, with a policy that `make` creates for a number of slots.
pub(crate) fn stream_made_with_writes<P: Policy>(
    mut reader: Reader,
    unit: Unit,
    slots: u32,
    model: &WriteModel,
    threads: usize,
    make: &dyn Fn(u32) -> P,
) -> Result<(Counts, WriteCounts), TraceError> {
    unit.numbers(&mut reader);
    let mut cache = WriteCache::of(make(slots), slots, slots, Index::new(slots), model);
    send(reader, unit, &mut cache, threads)?;
    Ok(cache.finish())
}

/// Sends all records to `sink`: requests in order, and the removal of each object that the trace
/// has requested when a record cuts its file.
fn send(
    mut reader: Reader,
    unit: Unit,
    sink: &mut impl Sink,
    threads: usize,
) -> Result<(), TraceError> {
    // For files that can lose pages, the objects that the trace has requested are listed.
    let cuts = reader.format().can_cut();
    let mut touched: HashMap<u32, Touched> = HashMap::new();
    reader.each_records(threads, &mut |batch| {
        for record in batch {
            if record.op.is_data() {
                let (first, n) = unit.objects(record);
                sink.request(record, first..first + n);
                if cuts {
                    let all = touched.entry(record.file).or_default();
                    all.add(first..first + n);
                }
            } else if let Some(len) = cut(record) {
                sink.settle();
                let gone = unit.behind(len);
                if let Some(all) = touched.get_mut(&record.file) {
                    all.cut(
                        |object| unit.place(object) >= gone,
                        |object| sink.remove(object),
                    );
                }
            }
        }
        sink.settle();
        Ok(())
    })
}
