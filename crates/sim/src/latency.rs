//! How long allocations took, by what they went through.

use hdrhistogram::Histogram;
use mm::world::AllocPath;
use std::cell::{Cell, RefCell};

/// Number of [`AllocPath`]s.
const PATHS: usize = AllocPath::ALL.len();

/// One histogram a path, in nanoseconds. Most allocations take as long as the one before, so equal
/// ones in a row are counted first and recorded together.
pub struct AllocLatencies {
    last: Cell<(AllocPath, u64)>,
    repeated: Cell<u64>,
    histograms: RefCell<[Histogram<u64>; PATHS]>,
}

impl Default for AllocLatencies {
    fn default() -> Self {
        let histogram =
            |_| Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds");
        Self {
            last: Cell::new((AllocPath::Fast, 0)),
            repeated: Cell::new(0),
            histograms: RefCell::new(std::array::from_fn(histogram)),
        }
    }
}

impl AllocLatencies {
    /// Records one allocation.
    #[inline]
    pub fn record(&self, path: AllocPath, ns: u64) {
        if self.last.get() != (path, ns) {
            self.record_repeated();
            self.last.set((path, ns));
        }
        self.repeated.set(self.repeated.get() + 1);
    }

    fn record_repeated(&self) {
        let ((path, ns), n) = (self.last.get(), self.repeated.replace(0));
        if n > 0 {
            self.histograms.borrow_mut()[path as usize].saturating_record_n(ns.max(1), n);
        }
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.repeated.set(0);
        for histogram in self.histograms.borrow_mut().iter_mut() {
            histogram.reset();
        }
    }

    /// The histograms, in the order of [`AllocPath::ALL`].
    pub fn histograms(&self) -> [Histogram<u64>; PATHS] {
        self.record_repeated();
        self.histograms.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_count_each() {
        let l = AllocLatencies::default();
        for ns in [5, 5, 7, 5] {
            l.record(AllocPath::Fast, ns);
        }
        l.record(AllocPath::Failed, 5);
        let h = l.histograms();
        let fast = &h[AllocPath::Fast as usize];
        assert_eq!((fast.len(), fast.count_at(5)), (4, 3));
        assert_eq!(h[AllocPath::Failed as usize].len(), 1);
        l.reset();
        assert!(l.histograms().iter().all(Histogram::is_empty));
    }
}
