//! The objects of one file that a trace has requested, in the order of their first requests.

use std::collections::BTreeMap;
use std::ops::Range;

/// Objects of a file as ranges; an object may be in several. The memory depends on the number of
/// distinct ranges, not on the number of requests.
#[derive(Debug, Default)]
pub struct Touched {
    ranges: Vec<Range<u64>>,
    /// Number of ranges at which duplicates are removed next.
    full: usize,
}

impl Touched {
    /// Adds the numbers of objects that a request touched to the record, in the order of requests.
    /// An empty range is ignored, and a range that continues the last one or lies inside of it
    /// takes no new entry. When the list of ranges has doubled since it was last compacted, later
    /// occurrences of objects are dropped, so memory depends on distinct objects, not on the number
    /// of requests.
    pub fn add(&mut self, objects: Range<u64>) {
        if objects.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.end == objects.start => last.end = objects.end,
            Some(last) if last.start <= objects.start && objects.end <= last.end => {}
            _ => self.ranges.push(objects),
        }
        if self.ranges.len() > self.full.max(1024) {
            self.compact();
            self.full = 2 * self.ranges.len();
        }
    }

    /// Removes every object that is gone from the record, as when a file is truncated, and calls
    /// `each` with it, in the order of first requests. `gone` returns true for an object that the
    /// file no longer has; in a file these are all objects from some number on, so each range is
    /// searched by halves.
    pub fn cut(&mut self, gone: impl Fn(u64) -> bool, mut each: impl FnMut(u64)) {
        self.ranges.retain_mut(|range| {
            // The first object that is gone.
            let (mut low, mut high) = (range.start, range.end);
            while low < high {
                let middle = low + (high - low) / 2;
                if gone(middle) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            (low..range.end).for_each(&mut each);
            range.end = low;
            !range.is_empty()
        });
    }

    /// Removes all but the first occurrence of each object from `ranges`. The order of first
    /// requests is kept, because `cut` reports objects in it.
    fn compact(&mut self) {
        // The objects met so far: end by start; ranges neither overlap nor touch.
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        let mut once: Vec<Range<u64>> = Vec::new();
        for range in self.ranges.drain(..) {
            let mut start = range.start;
            // The parts of this range that were not met before go to `once`.
            let before = seen.range(..=start).next_back();
            if let Some((_, end)) = before {
                start = start.max(*end);
            }
            let (mut from, mut to) = (range.start, range.end);
            while start < range.end {
                let next = seen.range(start..range.end).next();
                let end = next.map_or(range.end, |(s, _)| *s);
                if start < end {
                    match once.last_mut() {
                        Some(last) if last.end == start => last.end = end,
                        _ => once.push(start..end),
                    }
                }
                start = next.map_or(range.end, |(_, e)| *e);
            }
            // Joins the range with those that it overlaps or touches.
            if let Some((s, e)) = seen.range(..=from).next_back().map(|(s, e)| (*s, *e))
                && e >= from
            {
                (from, to) = (s, to.max(e));
            }
            while let Some((s, e)) = seen.range(from..=to).next().map(|(s, e)| (*s, *e)) {
                seen.remove(&s);
                to = to.max(e);
            }
            seen.insert(from, to);
        }
        self.ranges = once;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the objects that a cut found, each once.
    fn once(objects: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut seen = std::collections::BTreeSet::new();
        objects.into_iter().filter(|o| seen.insert(*o)).collect()
    }

    proptest! {
        #[test]
        fn it_is_the_list_of_objects(
            steps in prop::collection::vec((0_u64..60, 0_u64..9, 0_u8..12), 0..200),
        ) {
            let (mut touched, mut list) = (Touched::default(), Vec::new());
            for (first, n, what) in steps {
                match what {
                    0 => {
                        let mut cut = Vec::new();
                        touched.cut(|o| o >= first, |o| cut.push(o));
                        let model = once(list.extract_if(.., |o| *o >= first));
                        prop_assert_eq!(once(cut), model);
                    }
                    1 => touched.compact(),
                    _ => {
                        touched.add(first..first + n);
                        list.extend(first..first + n);
                    }
                }
            }
            let mut cut = Vec::new();
            touched.compact();
            touched.cut(|_| true, |o| cut.push(o));
            prop_assert_eq!(&cut, &once(list));
        }
    }

    #[test]
    fn what_is_asked_for_again_takes_no_room() {
        let mut touched = Touched::default();
        for i in 0..1_000_000_u64 {
            touched.add(i % 7 * 1000..i % 7 * 1000 + 500);
        }
        assert!(touched.ranges.len() < 2048, "{}", touched.ranges.len());
    }
}
