//! From the reader into one cache.

use crate::cache::{Cache, Counts};
use crate::requests::{Unit, cut};
use evict::{Index, Policy};
use std::collections::HashMap;
use trace::{Reader, Record, TraceError};

/// Sends a whole trace through a cache of `slots` slots. Writes count as requests.
///
/// # Errors
/// A record that can't be read.
pub fn stream<P: Policy>(mut reader: Reader, unit: Unit, slots: u32) -> Result<Counts, TraceError> {
    let mut cache = Cache::<P, Index>::new(slots, Index::new(slots));
    // Files that can lose pages need a list of what the trace has touched of them.
    let cuts = reader.format().can_cut();
    let mut touched: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut batch: Vec<Record> = Vec::new();
    let mut objects: Vec<u64> = Vec::new();
    while reader.next_batch(&mut batch)? {
        objects.clear();
        for record in &batch {
            if record.op.is_data() {
                let (first, n) = unit.objects(record);
                if n == 1 {
                    objects.push(first);
                } else {
                    objects.extend(first..first + n);
                }
                if cuts {
                    touched
                        .entry(record.file)
                        .or_default()
                        .extend(first..first + n);
                }
            } else if let Some(len) = cut(record) {
                cache.request_block(&objects);
                objects.clear();
                let gone = unit.behind(len);
                if let Some(all) = touched.get_mut(&record.file) {
                    for object in all.extract_if(.., |o| unit.place(*o) >= gone) {
                        cache.remove(object);
                    }
                }
            }
        }
        cache.request_block(&objects);
    }
    Ok(cache.counts())
}
