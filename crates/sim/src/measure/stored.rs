//! Parts of results that are stored and read again: names that are compiled in, and histograms.
//!
//! A result that was read back is equal to the one that was written, to the last bit of its floats.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A name or unit that is compiled into the program.
///
/// This is an alias because serde's derive would take a literal `&'static str` for a borrow from
/// the input.
pub type Name = &'static str;

/// Returns a `'static` name for a text that comes from another program, such as a unit that a real
/// kernel's guest reports. Each distinct name is leaked once; there are no more of them than the
/// programs have.
pub fn known(text: &str) -> Name {
    static KNOWN: Mutex<BTreeSet<Name>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = known.get(text) {
        return name;
    }
    let name: Name = Box::leak(text.to_owned().into_boxed_str());
    known.insert(name);
    name
}

/// Deserializes a name.
pub(crate) fn name<'de, D: Deserializer<'de>>(d: D) -> Result<Name, D::Error> {
    String::deserialize(d).map(|text| known(&text))
}

/// A named histogram: its bounds and precision, then (value, count) of each non-empty bucket.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(deserialize_with = "name")]
    name: Name,
    low: u64,
    high: u64,
    digits: u8,
    counts: Vec<(u64, u64)>,
}

impl Stored {
    /// Makes the histogram again from its stored buckets. `None`: the bounds are wrong, or a value
    /// is beyond them.
    fn histogram(&self) -> Option<Histogram<u64>> {
        let mut h = Histogram::new_with_bounds(self.low, self.high, self.digits).ok()?;
        for &(value, count) in &self.counts {
            h.record_n(value, count).ok()?;
        }
        Some(h)
    }
}

/// Serialization of named histograms.
pub(crate) mod histograms {
    use super::{Deserialize, Deserializer, Histogram, Name, Serialize, Serializer, Stored};

    /// Serializes named histograms as bounds, precision and non-empty buckets.
    pub(crate) fn serialize<S: Serializer>(
        all: &[(Name, Histogram<u64>)],
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let stored = all.iter().map(|(name, h)| Stored {
            name,
            low: h.low(),
            high: h.high(),
            digits: h.sigfig(),
            counts: h
                .iter_recorded()
                .map(|v| (v.value_iterated_to(), v.count_at_value()))
                .collect(),
        });
        stored.collect::<Vec<_>>().serialize(s)
    }

    /// Deserializes named histograms; fails if a value is beyond its histogram's bounds.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<(Name, Histogram<u64>)>, D::Error> {
        let stored = Vec::<Stored>::deserialize(d)?;
        let read = stored.iter().map(|s| {
            let h = s.histogram();
            let h = h.ok_or_else(|| serde::de::Error::custom("a histogram beyond its bounds"))?;
            Ok((s.name, h))
        });
        read.collect()
    }
}
