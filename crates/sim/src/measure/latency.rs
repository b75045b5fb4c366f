//! How long allocations took, by the path that they took.

use hdrhistogram::Histogram;
use mm::world::TaskId;
use std::cell::{Cell, Ref, RefCell};

/// The path of an allocation. One that left the fast path is named by what took most of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AllocClass {
    /// A page from the free lists at the low watermark.
    Fast,
    /// A page at the min watermark, after kswapd was woken or found awake.
    KswapdWoken,
    /// Direct reclaim.
    DirectReclaim,
    /// Throttling in reclaim: the task waited for congestion to end.
    Throttled,
    /// The task was runnable while others had the CPU.
    CpuWait,
    /// An interrupt came during the allocation, and took longer than the rest of it.
    Interrupted,
    /// A stall on a small node's dirty pages (`per-zone-stall`).
    DirtyStall,
    /// The allocation failed.
    Failed,
}

/// The CPU that handles interrupts.
const INTERRUPTS: usize = 0;

/// Number of [`AllocClass`]es.
const CLASSES: usize = AllocClass::ALL.len();

impl AllocClass {
    /// Every class, in reporting order.
    pub const ALL: [Self; 8] = [
        Self::Fast,
        Self::KswapdWoken,
        Self::DirectReclaim,
        Self::Throttled,
        Self::CpuWait,
        Self::Interrupted,
        Self::DirtyStall,
        Self::Failed,
    ];

    /// Returns the name of the allocation's path that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::KswapdWoken => "kswapd-woken",
            Self::DirectReclaim => "direct-reclaim",
            Self::Throttled => "throttled",
            Self::CpuWait => "cpu-wait",
            Self::Interrupted => "interrupted",
            Self::DirtyStall => "dirty-stall",
            Self::Failed => "failed",
        }
    }
}

/// An allocation that ended and may still turn out to have been interrupted.
#[derive(Debug, Clone, Copy)]
struct Recent {
    task: TaskId,
    class: AllocClass,
    /// Nanoseconds without interrupts.
    own: u64,
    /// Nanoseconds of interrupts meanwhile.
    stolen: u64,
    /// Time of the end, by the CPU's clock.
    end: u64,
}

/// A histogram of each class that occurred, as large as its longest value needs: most classes never
/// occur, and the longest value of most runs is far below the limit.
pub type Histograms = [Option<Histogram<u64>>; CLASSES];

/// The longest value of histograms, an hour in nanoseconds. Values from [`BEYOND`] on are counted
/// as that.
const LONGEST: u64 = 3_600_000_000_000;
const BEYOND: u64 = LONGEST.next_power_of_two();

/// Returns an empty histogram with three significant digits, which grows with its longest value.
fn empty() -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("three digits");
    histogram.auto(true);
    histogram
}

/// One histogram per class, in nanoseconds. Most allocations take as long as the one before, or as
/// the last different one (the first allocation from a per-CPU list pays for filling it), so these
/// are counted first and recorded together.
pub struct AllocLatencies {
    /// The last allocation on the CPU that handles interrupts: a task runs on to its next `relax`
    /// before an interrupt that falls into the allocation's last step is seen.
    recent: Cell<Option<Recent>>,
    last: Cell<(AllocClass, u64)>,
    /// The task of the last allocation: its longest is at least as long.
    last_task: Cell<TaskId>,
    repeated: Cell<u64>,
    /// The last different value, and how often it occurred since it was last recorded.
    other: Cell<(AllocClass, u64)>,
    other_repeated: Cell<u64>,
    histograms: RefCell<Histograms>,
    /// The longest allocation of each task since its last [`AllocLatencies::take_longest`].
    longest: Box<[Cell<u64>]>,
    /// The longest wait of an allocation for one round of direct reclaim, in nanoseconds.
    longest_reclaim: Cell<u64>,
}

impl AllocLatencies {
    /// Returns empty histograms for `tasks` tasks.
    pub fn new(tasks: usize) -> Self {
        Self {
            recent: Cell::new(None),
            last: Cell::new((AllocClass::Fast, 0)),
            last_task: Cell::new(TaskId::MAX),
            repeated: Cell::new(0),
            other: Cell::new((AllocClass::Fast, 0)),
            other_repeated: Cell::new(0),
            histograms: RefCell::default(),
            longest: (0..tasks).map(|_| Cell::new(0)).collect(),
            longest_reclaim: Cell::new(0),
        }
    }

    /// Notes that an allocation has waited `ns` nanoseconds for one round of direct reclaim.
    pub fn reclaim_waited(&self, ns: u64) {
        self.longest_reclaim.set(self.longest_reclaim.get().max(ns));
    }

    /// Returns the longest such wait since the last [`AllocLatencies::reset`], in nanoseconds; 0 if
    /// there was none.
    pub fn longest_reclaim(&self) -> u64 {
        self.longest_reclaim.get()
    }

    /// Records an allocation of `own` nanoseconds, without interrupts, by a task on a CPU; it ended
    /// at `end` (nanoseconds). On the CPU that handles interrupts it is kept back, because an
    /// interrupt may still turn out to have fallen into it.
    #[inline]
    pub fn record(&self, cpu: usize, task: TaskId, class: AllocClass, own: u64, end: u64) {
        // Most allocations are like the one before, of the same task.
        if self.last.get() == (class, own) && self.last_task.get() == task {
            if cpu != INTERRUPTS {
                return self.repeated.set(self.repeated.get() + 1);
            }
            if let Some(before) = self.recent.get()
                && (before.task, before.class) == (task, class)
                && (before.own, before.stolen) == (own, 0)
            {
                self.recent.set(Some(Recent { end, ..before }));
                return self.repeated.set(self.repeated.get() + 1);
            }
        }
        self.record_other(cpu, task, class, own, end);
    }

    /// Records `n` equal allocations of `own` nanoseconds each, at least one, the last of which
    /// ended at `end`; no interrupt came meanwhile.
    #[inline]
    pub fn record_many(
        &self,
        cpu: usize,
        task: TaskId,
        class: AllocClass,
        own: u64,
        (n, end): (u32, u64),
    ) {
        self.record(cpu, task, class, own, end);
        if n > 1 {
            // On the CPU of interrupts these are all but the last, elsewhere all but the first; the
            // values are equal.
            self.add(task, class, own);
            self.repeated.set(self.repeated.get() + u64::from(n - 2));
        }
    }

    /// Records an allocation that is not like the one before: at once, or, on the CPU that handles
    /// interrupts, when the next one ends.
    #[inline(never)]
    fn record_other(&self, cpu: usize, task: TaskId, class: AllocClass, own: u64, end: u64) {
        if cpu != INTERRUPTS {
            return self.add(task, class, own);
        }
        let recent = self.recent.replace(Some(Recent {
            task,
            class,
            own,
            stolen: 0,
            end,
        }));
        if let Some(before) = recent {
            self.add_recent(before);
        }
    }

    /// Adds an interrupt of `ns` nanoseconds at time `at` to the latest allocation, if it falls
    /// into that.
    pub fn interrupted(&self, at: u64, ns: u64) {
        let Some(mut recent) = self.recent.get() else {
            return;
        };
        if ns > 0 && (recent.end - recent.own..recent.end).contains(&at) {
            recent.stolen += ns;
            self.recent.set(Some(recent));
        }
    }

    /// Adds an allocation that was kept back, with the interrupts that fell into it; its class is
    /// `Interrupted` if these took most of its time.
    fn add_recent(&self, r: Recent) {
        let class = if r.stolen > r.own {
            AllocClass::Interrupted
        } else {
            r.class
        };
        self.add(r.task, class, r.own + r.stolen);
    }

    /// Adds the allocation that was kept back for interrupts.
    fn flush(&self) {
        if let Some(recent) = self.recent.take() {
            self.add_recent(recent);
        }
    }

    /// Adds an allocation of `ns` nanoseconds to the values counted together, and to the task's
    /// longest. Two values are counted at a time, the last and the last different one; a third
    /// makes the older of them enter its histogram.
    #[inline]
    fn add(&self, task: TaskId, class: AllocClass, ns: u64) {
        let longest = &self.longest[task as usize];
        if ns > longest.get() {
            longest.set(ns);
        }
        if self.last.get() != (class, ns) {
            self.last.swap(&self.other);
            self.repeated.swap(&self.other_repeated);
            if self.last.get() != (class, ns) {
                self.record_repeated();
                self.last.set((class, ns));
            }
        }
        self.last_task.set(task);
        self.repeated.set(self.repeated.get() + 1);
    }

    /// Returns the longest allocation of a task since the last call, in nanoseconds, and resets it;
    /// 0 if the task made none.
    pub fn take_longest(&self, task: TaskId) -> u64 {
        self.flush();
        self.last_task.set(TaskId::MAX);
        self.longest[task as usize].take()
    }

    /// Records the last value as often as it was counted.
    fn record_repeated(&self) {
        self.record_times(self.last.get(), self.repeated.replace(0));
    }

    /// Records a value `n` times in the histogram of its class. 0 ns count as 1, and values from
    /// `BEYOND` on as `LONGEST`.
    fn record_times(&self, (class, ns): (AllocClass, u64), n: u64) {
        if n > 0 {
            let ns = if ns < BEYOND { ns.max(1) } else { LONGEST };
            let histogram = &mut self.histograms.borrow_mut()[class as usize];
            let added = histogram.get_or_insert_with(empty).record_n(ns, n);
            added.expect("it grows as it must");
        }
    }

    /// Discards all values at the start of the workload, but not the tasks' longest ones.
    pub fn reset(&self) {
        self.recent.set(None);
        self.repeated.set(0);
        self.other_repeated.set(0);
        self.histograms.take();
        self.longest_reclaim.set(0);
    }

    /// Returns the histograms in nanoseconds, in the order of [`AllocClass::ALL`], after recording
    /// all values that were kept back or counted together.
    pub fn histograms(&self) -> Ref<'_, Histograms> {
        self.flush();
        self.record_repeated();
        self.record_times(self.other.get(), self.other_repeated.replace(0));
        self.histograms.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_count_each() {
        let l = AllocLatencies::new(2);
        // A second value in between, and a third that displaces it.
        for ns in [5, 5, 7, 5, 7, 9, 5] {
            l.record(0, 0, AllocClass::Fast, ns, 100);
        }
        l.record(1, 1, AllocClass::Failed, 5, 100);
        let h = l.histograms();
        let of = |class: AllocClass| h[class as usize].as_ref().unwrap();
        let fast = of(AllocClass::Fast);
        let counts = [5, 7, 9].map(|ns| fast.count_at(ns));
        assert_eq!((fast.len(), counts), (7, [4, 2, 1]));
        assert_eq!(of(AllocClass::Failed).len(), 1);
        assert!(h[AllocClass::CpuWait as usize].is_none());
        drop(h);
        assert_eq!([0, 1, 0].map(|t| l.take_longest(t)), [9, 5, 0]);
        l.reset();
        assert!(l.histograms().iter().all(Option::is_none));
    }

    /// The counts equal those of histograms with full range from the beginning.
    #[test]
    fn whatever_the_order_counts_are_those_of_whole_histograms() {
        let all = [
            1,
            2000,
            0,
            7,
            3_000_000,
            2048,
            40,
            LONGEST,
            BEYOND,
            1,
            u64::MAX,
        ];
        let l = AllocLatencies::new(1);
        let mut whole = Histogram::<u64>::new_with_bounds(1, LONGEST, 3).unwrap();
        for ns in all {
            l.record(1, 0, AllocClass::Fast, ns, u64::MAX);
            whole.saturating_record(ns.max(1));
            let h = l.histograms();
            let grown = h[0].as_ref().unwrap();
            let counts = |h: &Histogram<u64>| {
                let each = h.iter_recorded();
                let each = each.map(|v| (v.value_iterated_to(), v.count_at_value()));
                each.collect::<Vec<_>>()
            };
            assert_eq!(counts(grown), counts(&whole));
            assert_eq!((grown.min(), grown.max()), (whole.min(), whole.max()));
            assert_eq!(grown.mean().to_bits(), whole.mean().to_bits());
        }
    }

    /// An interrupt counts for the allocation that it falls into, and only there.
    #[test]
    fn an_interrupt_lengthens_what_it_falls_into() {
        let l = AllocLatencies::new(1);
        // From 100 to 110, an interrupt at 104; then from 150 to 160, one before and one after.
        l.record(0, 0, AllocClass::Fast, 10, 110);
        l.interrupted(104, 50);
        l.interrupted(120, 70);
        l.record(0, 0, AllocClass::KswapdWoken, 10, 160);
        l.interrupted(149, 1000);
        l.interrupted(160, 1000);
        l.interrupted(155, 3);
        // Another CPU has no interrupts.
        l.record(1, 0, AllocClass::Fast, 10, 200);
        l.interrupted(195, 500);
        let h = l.histograms();
        let of = |class: AllocClass| {
            let h = h[class as usize].as_ref().unwrap();
            (h.len(), h.max())
        };
        assert_eq!(of(AllocClass::Interrupted), (1, 60));
        assert_eq!(of(AllocClass::KswapdWoken), (1, 13));
        assert_eq!(of(AllocClass::Fast), (1, 10));
        drop(h);
        assert_eq!(l.take_longest(0), 60);
    }
}
