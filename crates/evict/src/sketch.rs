//! A sketch of how often objects were requested lately, for all objects in fixed memory: four rows
//! of 4-bit counters, of which only the smallest of an object's are incremented ("minimal
//! increment"), and which are all halved from time to time (Einziger, Friedman and Manes 2017,
//! section 3). It takes 8 to 16 bytes for each page of the cache.

/// Rows; an object has one counter in each.
const ROWS: usize = 4;
/// Counters of one row for each page of the cache.
const WIDTH: u64 = 4;
/// Counters in a word.
const IN_WORD: u64 = 16;
/// The largest value of a 4-bit counter.
const MOST: u64 = 15;
/// Requests between two halvings, for each page of the cache: W/C, about 10 in the paper.
const PERIOD: u64 = 10;
/// Mask that clears the bits which halving shifts from one counter into the next.
const HALVED: u64 = 0x7777_7777_7777_7777;

/// Counts of all objects; too low only because of halving and the largest value of a counter.
#[derive(Debug, Clone)]
pub struct Sketch {
    words: Vec<u64>,
    /// Counters in a row, a power of two.
    width: u64,
    period: u64,
    left: u64,
}

impl Sketch {
    /// Creates a sketch (request counts of all objects in fixed memory) for a cache of `slots`
    /// pages: four rows of at least four 4-bit counters a page.
    pub fn new(slots: u32) -> Self {
        let width = (u64::from(slots) * WIDTH).next_power_of_two().max(IN_WORD);
        let period = PERIOD * u64::from(slots);
        Self {
            words: vec![0; ROWS * (width / IN_WORD) as usize],
            width,
            period,
            left: period,
        }
    }

    /// Returns the place of an object's counter in each row: the index of the word in `words`, and
    /// the counter's shift in it in bits. The rows' hashes are computed from two (Kirsch and
    /// Mitzenmacher 2006, "Less hashing, same performance").
    #[inline]
    fn places(&self, object: u64) -> [(usize, u64); ROWS] {
        let wide = u128::from(object ^ 0x9e6c_63d0_676a_9a99) * 0x9e37_79b9_7f4a_7c15;
        let mixed = ((wide >> 64) as u64 ^ wide as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let (first, second) = (mixed >> 32, mixed & 0xffff_ffff | 1);
        let mut places = [(0, 0); ROWS];
        for (row, place) in (0..).zip(&mut places) {
            let hash = first.wrapping_add(second.wrapping_mul(row + 1));
            let at = (hash ^ hash >> 32) & (self.width - 1);
            let word = row * (self.width / IN_WORD) + at / IN_WORD;
            *place = (word as usize, at % IN_WORD * 4);
        }
        places
    }

    /// Returns about how often an object was requested lately, at most 15: the smallest of its
    /// counters, because other objects may have incremented the larger ones.
    #[inline]
    pub fn count(&self, object: u64) -> u8 {
        let mut least = MOST;
        for (word, shift) in self.places(object) {
            least = least.min(self.words[word] >> shift & MOST);
        }
        least as u8
    }

    /// Counts a request for an object. Only the smallest of its counters are incremented ("minimal
    /// increment"), up to 15, and all counters are halved at the end of a period.
    #[inline]
    pub fn add(&mut self, object: u64) {
        let places = self.places(object);
        let mut counts = [0; ROWS];
        let mut least = MOST;
        for (count, (word, shift)) in counts.iter_mut().zip(places) {
            *count = self.words[word] >> shift & MOST;
            least = least.min(*count);
        }
        if least < MOST {
            // Every word is written, also where nothing is added: whether it is depends on the
            // object, so the processor would mispredict a branch.
            for (count, (word, shift)) in counts.into_iter().zip(places) {
                self.words[word] += u64::from(count == least) << shift;
            }
        }
        self.left -= 1;
        if self.left == 0 {
            self.halve();
        }
    }

    /// Halves all counters, word by word, and begins a new period, so that old requests count less.
    #[cold]
    fn halve(&mut self) {
        self.left = self.period;
        for word in &mut self.words {
            *word = *word >> 1 & HALVED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Counts are never below the true ones.
        #[test]
        fn counts_are_not_too_low(
            slots in 1_u32..200,
            objects in prop::collection::vec(0_u64..300, 1..2000),
        ) {
            let (mut sketch, mut truth) = (Sketch::new(slots), HashMap::<u64, u64>::new());
            for (i, object) in objects.iter().enumerate() {
                sketch.add(*object);
                *truth.entry(*object).or_default() += 1;
                if (i as u64 + 1).is_multiple_of(10 * u64::from(slots)) {
                    truth.values_mut().for_each(|n| *n = (*n).min(15) / 2);
                }
            }
            for (object, n) in truth {
                prop_assert!(u64::from(sketch.count(object)) >= n.min(15), "{object}: {n}");
            }
        }
    }

    #[test]
    fn counts_of_few_objects_are_exact_and_halved() {
        let mut sketch = Sketch::new(1000);
        for object in 0..100 {
            (0..=object % 20).for_each(|_| sketch.add(object));
        }
        for object in 0..100 {
            assert_eq!(u64::from(sketch.count(object)), (object % 20 + 1).min(15));
        }
        assert_eq!(sketch.count(100), 0);
        (1050..10_000).for_each(|_| sketch.add(7));
        for object in (0..100).filter(|o| *o != 7) {
            let half = (object % 20 + 1).min(15) / 2;
            assert_eq!(u64::from(sketch.count(object)), half, "{object}");
        }
    }
}
