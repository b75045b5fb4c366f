//! How long allocations took, by what they did.

use hdrhistogram::Histogram;
use mm::world::TaskId;
use std::cell::{Cell, RefCell};

/// What an allocation did. One that left the fast path is named by what took most of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AllocClass {
    /// A page from the free lists at the low watermark.
    Fast,
    /// It woke kswapd, or found it awake, and had its page at the min watermark.
    KswapdWoken,
    /// It ran direct reclaim.
    DirectReclaim,
    /// It was held back in reclaim: it waited for congestion to end.
    Throttled,
    /// It was runnable and others had the CPU.
    CpuWait,
    /// It stalled on a small node's dirty pages (`per-zone-stall`).
    DirtyStall,
    /// It got no page.
    Failed,
}

/// Number of [`AllocClass`]es.
const CLASSES: usize = AllocClass::ALL.len();

impl AllocClass {
    /// Every class, in reporting order.
    pub const ALL: [Self; 7] = [
        Self::Fast,
        Self::KswapdWoken,
        Self::DirectReclaim,
        Self::Throttled,
        Self::CpuWait,
        Self::DirtyStall,
        Self::Failed,
    ];

    /// The name reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::KswapdWoken => "kswapd-woken",
            Self::DirectReclaim => "direct-reclaim",
            Self::Throttled => "throttled",
            Self::CpuWait => "cpu-wait",
            Self::DirtyStall => "dirty-stall",
            Self::Failed => "failed",
        }
    }
}

/// One histogram a class, in nanoseconds. Most allocations take as long as the one before, so equal
/// ones in a row are counted first and recorded together.
pub struct AllocLatencies {
    last: Cell<(AllocClass, u64)>,
    repeated: Cell<u64>,
    histograms: RefCell<[Histogram<u64>; CLASSES]>,
    /// The longest of each task since it last asked.
    longest: Box<[Cell<u64>]>,
}

impl AllocLatencies {
    /// Nothing yet, for so many tasks.
    pub fn new(tasks: usize) -> Self {
        let histogram =
            |_| Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds");
        Self {
            last: Cell::new((AllocClass::Fast, 0)),
            repeated: Cell::new(0),
            histograms: RefCell::new(std::array::from_fn(histogram)),
            longest: (0..tasks).map(|_| Cell::new(0)).collect(),
        }
    }

    /// Records one allocation.
    #[inline]
    pub fn record(&self, task: TaskId, class: AllocClass, ns: u64) {
        let longest = &self.longest[task as usize];
        if ns > longest.get() {
            longest.set(ns);
        }
        if self.last.get() != (class, ns) {
            self.record_repeated();
            self.last.set((class, ns));
        }
        self.repeated.set(self.repeated.get() + 1);
    }

    /// The longest allocation of a task since the last call, in nanoseconds; 0: it made none.
    pub fn take_longest(&self, task: TaskId) -> u64 {
        self.longest[task as usize].take()
    }

    fn record_repeated(&self) {
        let ((class, ns), n) = (self.last.get(), self.repeated.replace(0));
        if n > 0 {
            self.histograms.borrow_mut()[class as usize].saturating_record_n(ns.max(1), n);
        }
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.repeated.set(0);
        for histogram in self.histograms.borrow_mut().iter_mut() {
            histogram.reset();
        }
    }

    /// The histograms, in the order of [`AllocClass::ALL`].
    pub fn histograms(&self) -> [Histogram<u64>; CLASSES] {
        self.record_repeated();
        self.histograms.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_count_each() {
        let l = AllocLatencies::new(2);
        for ns in [5, 5, 7, 5] {
            l.record(0, AllocClass::Fast, ns);
        }
        l.record(1, AllocClass::Failed, 5);
        let h = l.histograms();
        let fast = &h[AllocClass::Fast as usize];
        assert_eq!((fast.len(), fast.count_at(5)), (4, 3));
        assert_eq!(h[AllocClass::Failed as usize].len(), 1);
        assert_eq!([0, 1, 0].map(|t| l.take_longest(t)), [7, 5, 0]);
        l.reset();
        assert!(l.histograms().iter().all(Histogram::is_empty));
    }
}
