//! From the reader into one cache.

use crate::cache::{Cache, Counts};
use crate::requests::{Unit, cut};
use crate::touched::Touched;
use crate::writes::{WriteCache, WriteCounts, WriteModel};
use evict::{Index, Policy};
use std::collections::HashMap;
use std::ops::Range;
use trace::{Op, Reader, Record, TraceError};

/// What a trace is sent through.
trait Sink {
    /// A record asks for objects.
    fn request(&mut self, record: &Record, objects: Range<u64>);
    /// What was asked for is to be done before anything else.
    fn settle(&mut self);
    /// An object is gone.
    fn remove(&mut self, object: u64);
}

/// Requests that are collected at most.
const AHEAD: usize = 1 << 14;

/// A cache without writes; requests are collected, so that the cache can look ahead.
struct Clean<P> {
    cache: Cache<P, Index>,
    objects: Vec<u64>,
}

impl<P: Policy> Clean<P> {
    #[inline]
    fn ask(&mut self, objects: Range<u64>) {
        if objects.end - objects.start == 1 {
            self.objects.push(objects.start);
            return;
        }
        // A record may ask for a million pages; no more than a few batches of them are kept.
        for object in objects {
            self.objects.push(object);
            if self.objects.len() >= AHEAD {
                self.settle();
            }
        }
    }
}

impl<P: Policy> Sink for Clean<P> {
    #[inline]
    fn request(&mut self, _: &Record, objects: Range<u64>) {
        self.ask(objects);
    }

    fn settle(&mut self) {
        self.cache.request_block(&self.objects);
        self.objects.clear();
    }

    fn remove(&mut self, object: u64) {
        self.cache.remove(object);
    }
}

impl<P: Policy> Sink for WriteCache<P, Index> {
    #[inline]
    fn request(&mut self, record: &Record, objects: Range<u64>) {
        for object in objects {
            WriteCache::request(self, object, record.op == Op::Write, record.time_ns);
        }
    }

    fn settle(&mut self) {}

    fn remove(&mut self, object: u64) {
        WriteCache::remove(self, object);
    }
}

/// Sends a whole trace through a cache of `slots` slots. Writes count as requests. With more than one
/// of `threads` the trace is read in another one; the counts are the same.
///
/// # Errors
/// A record that can't be read.
pub fn stream<P: Policy>(
    reader: Reader,
    unit: Unit,
    slots: u32,
    threads: usize,
) -> Result<Counts, TraceError> {
    stream_made(reader, unit, slots, threads, &P::new)
}

/// As [`stream`], with a policy that is made here.
pub(crate) fn stream_made<P: Policy>(
    mut reader: Reader,
    unit: Unit,
    slots: u32,
    threads: usize,
    make: &dyn Fn(u32) -> P,
) -> Result<Counts, TraceError> {
    let mut clean = Clean::<P> {
        cache: Cache::of(make(slots), slots, Index::new(slots)),
        objects: Vec::new(),
    };
    if reader.format().can_cut() {
        send(reader, unit, &mut clean, threads)?;
        return Ok(clean.cache.counts());
    }
    if unit == Unit::Record && reader.format().only_asks() {
        // One object a record: there is nothing to collect.
        each_object(&mut reader, unit, threads, &mut |batch| {
            clean.cache.request_block(batch);
            Ok(())
        })?;
        return Ok(clean.cache.counts());
    }
    each_objects(&mut reader, unit, threads, &mut |batch| {
        for (first, n) in batch {
            clean.ask(*first..first + n);
        }
        clean.settle();
        Ok(())
    })?;
    Ok(clean.cache.counts())
}

/// What is to be done with some records' objects: of each the first one, and how many.
type TakeObjects<'a> = dyn FnMut(&[(u64, u64)]) -> Result<(), TraceError> + 'a;

/// Each record's first object and how many there are. Nothing but objects is needed of a record, so nothing else
/// is worked out.
fn each_objects(
    reader: &mut Reader,
    unit: Unit,
    threads: usize,
    take: &mut TakeObjects<'_>,
) -> Result<(), TraceError> {
    let objects = |record: &Record| match record.op.is_data() {
        true => unit.objects(record),
        false => (0, 0),
    };
    reader.each_batch(threads, objects, take)
}

/// Each record's first object. Not for each policy: the readers are large.
fn each_object(
    reader: &mut Reader,
    unit: Unit,
    threads: usize,
    take: &mut dyn FnMut(&[u64]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    reader.each_batch(threads, |record| unit.objects(record).0, take)
}

/// As [`stream`], with dirty pages and writeback.
///
/// # Errors
/// A record that can't be read.
pub fn stream_with_writes<P: Policy>(
    reader: Reader,
    unit: Unit,
    slots: u32,
    model: &WriteModel,
    threads: usize,
) -> Result<(Counts, WriteCounts), TraceError> {
    stream_made_with_writes(reader, unit, slots, model, threads, &P::new)
}

/// As [`stream_with_writes`], with a policy that is made here.
pub(crate) fn stream_made_with_writes<P: Policy>(
    reader: Reader,
    unit: Unit,
    slots: u32,
    model: &WriteModel,
    threads: usize,
    make: &dyn Fn(u32) -> P,
) -> Result<(Counts, WriteCounts), TraceError> {
    let mut cache = WriteCache::of(make(slots), slots, slots, Index::new(slots), model);
    send(reader, unit, &mut cache, threads)?;
    Ok(cache.finish())
}

fn send(
    mut reader: Reader,
    unit: Unit,
    sink: &mut impl Sink,
    threads: usize,
) -> Result<(), TraceError> {
    // Files that can lose pages need a list of what the trace has touched of them.
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
