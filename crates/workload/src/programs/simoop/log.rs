//! The measurements that the threads of a simoop share.

use super::histogram::Histogram;
use crate::report::Report;
use crate::session::{Gauge, Session, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The timed operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Allocation,
}

impl Kind {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Allocation, "allocation"),
    ];
}

/// Measurements of a phase: the warm-up or the measured run.
#[derive(Debug, Clone, Default)]
struct Phase {
    began_ns: u64,
    /// The kernel's count of entries into direct reclaim at the start.
    stalls_before: u64,
    latencies: [Histogram; 3],
    units: u64,
    /// Units and entries per second in each report interval.
    intervals: Vec<[f64; 2]>,
    /// Time, units and entries at the end of the last interval.
    last: (u64, u64, u64),
    /// The time since which no interval has had an entry; `None`: the last one had.
    quiet_ns: Option<u64>,
}

impl Phase {
    /// Begins a phase at `now` (ns), when the kernel had counted `stalls` entries into direct
    /// reclaim.
    fn begin(now: u64, stalls: u64) -> Self {
        Self {
            began_ns: now,
            stalls_before: stalls,
            last: (now, 0, 0),
            quiet_ns: Some(now),
            ..Self::default()
        }
    }

    /// Ends a report interval at `now` (ns), when the kernel has counted `stalls` entries into
    /// direct reclaim since boot. Returns units of work and entries per second in the interval, and
    /// notes since when no interval has had an entry.
    fn report_interval(&mut self, now: u64, stalls: u64) -> [f64; 2] {
        let (then, units, before) = self.last;
        let stalls = stalls - self.stalls_before;
        let seconds = now.saturating_sub(then).max(1) as f64 / 1e9;
        let rates = [
            (self.units - units) as f64 / seconds,
            (stalls - before) as f64 / seconds,
        ];
        self.quiet_ns = match stalls > before {
            true => None,
            false => self.quiet_ns.or(Some(then)),
        };
        self.intervals.push(rates);
        self.last = (now, self.units, stalls);
        rates
    }

    /// Returns units of work and entries into direct reclaim per second, from the phase's start to
    /// the end of its last interval.
    fn averages(&self) -> [f64; 2] {
        let (end, units, stalls) = self.last;
        let seconds = end.saturating_sub(self.began_ns).max(1) as f64 / 1e9;
        [units as f64 / seconds, stalls as f64 / seconds]
    }
}

/// The logs of a run's simoops, in the order in which they started.
#[derive(Debug, Default)]
pub(super) struct Logs {
    all: Mutex<Vec<Log>>,
    /// The number of logs that are over; a cheap check for threads at each step.
    over: AtomicUsize,
}

impl Logs {
    /// Adds the log of a simoop that starts at `now` (ns), when the kernel has counted `stalls`
    /// entries into direct reclaim. Returns the log's number.
    pub(super) fn begin(&self, now: u64, stalls: u64) -> usize {
        let mut logs = lock(&self.all);
        logs.push(Log::begin(now, stalls));
        logs.len() - 1
    }

    /// Calls `f` with a log, which stays locked meanwhile, and returns its result. `log` is its
    /// number from [`Self::begin`].
    pub(super) fn with<R>(&self, log: usize, f: impl FnOnce(&mut Log) -> R) -> R {
        f(&mut lock(&self.all)[log])
    }

    /// Ends a log: nothing counts from now on.
    pub(super) fn end(&self, log: usize) {
        self.with(log, Log::end);
        self.over.fetch_add(1, Ordering::Release);
    }

    /// Returns true if a log has ended.
    pub(super) fn is_over(&self, log: usize) -> bool {
        self.over.load(Ordering::Acquire) > 0 && self.with(log, |log| log.over)
    }
}

/// Returns the gauges of simoop for the run's time series: units of work and entries into direct
/// reclaim per second, summed over all simoops' last report intervals.
pub(super) fn gauges(session: &Session) -> Vec<Gauge> {
    let logs = lock(&session.shared::<Logs>(0).all);
    let [work, stalls] = logs.iter().fold([0.0, 0.0], |sum, log| {
        [sum[0] + log.rates[0], sum[1] + log.rates[1]]
    });
    vec![
        ("work_rate", "1/s", work),
        ("alloc_stall_rate", "1/s", stalls),
    ]
}

/// The measurements of one simoop; made when it starts.
#[derive(Debug, Clone)]
pub(super) struct Log {
    phase: Phase,
    warm_up: Option<Phase>,
    over: bool,
    /// Units and entries per second of the last interval, for the run's series.
    rates: [f64; 2],
}

impl Log {
    /// Makes the log of a simoop that starts at `now` (ns); `stalls` is the kernel's count of
    /// entries into direct reclaim by then.
    pub(super) fn begin(now: u64, stalls: u64) -> Self {
        Self {
            phase: Phase::begin(now, stalls),
            warm_up: None,
            over: false,
            rates: [0.0; 2],
        }
    }

    /// Records an operation that took `us` microseconds, unless the measured run has ended.
    pub(super) fn note(&mut self, kind: Kind, us: u64) {
        if !self.over {
            self.phase.latencies[kind as usize].record(us);
        }
    }

    /// Counts a finished unit of work, unless the measured run has ended.
    pub(super) fn note_unit(&mut self) {
        if !self.over {
            self.phase.units += 1;
        }
    }

    /// Ends a report interval at `now` (ns), and keeps its rates; `stalls` is the kernel's count of
    /// entries into direct reclaim.
    pub(super) fn report_interval(&mut self, now: u64, stalls: u64) {
        self.rates = self.phase.report_interval(now, stalls);
    }

    /// Ends the warm-up at `now` (ns): keeps its statistics apart and begins anew. `stalls` is the
    /// kernel's count of entries into direct reclaim by then.
    pub(super) fn restart(&mut self, now: u64, stalls: u64) {
        let phase = Phase::begin(now, stalls);
        self.warm_up = Some(std::mem::replace(&mut self.phase, phase));
    }

    /// Ends the log: nothing counts from now on.
    fn end(&mut self) {
        self.over = true;
    }

    /// Returns the figures, in the order of simoop's own output: latencies in microseconds by kind,
    /// rates a second, those of the warm-up if there was one, and the counts. Figures without a
    /// measurement are left out.
    pub(super) fn report(&self) -> Report {
        let mut metrics: Vec<(String, &'static str, f64)> = Vec::new();
        let phase = &self.phase;
        for (kind, name) in Kind::ALL {
            let h = &phase.latencies[kind as usize];
            for percent in [50, 95, 99] {
                if let Some(us) = h.percentile(percent) {
                    metrics.push((format!("{name}_latency_p{percent}"), "us", us));
                }
            }
            if h.len() > 0 {
                metrics.push((format!("{name}_latency_mean"), "us", h.mean()));
            }
        }
        // All intervals but the last: see the module's documentation.
        let earlier = match &phase.intervals[..] {
            [] => return Report { metrics },
            [only] => std::slice::from_ref(only),
            [earlier @ .., _] => earlier,
        };
        // Index 0 of an interval's rates is units of work, 1 is entries into direct reclaim.
        for (i, name) in ["work_rate", "alloc_stall_rate"].into_iter().enumerate() {
            metrics.push((name.to_owned(), "1/s", self.rates[i]));
            metrics.push((format!("{name}_avg"), "1/s", phase.averages()[i]));
            let mut rates: Vec<f64> = earlier.iter().map(|r| r[i]).collect();
            rates.sort_by(f64::total_cmp);
            for percent in [50, 95, 99] {
                let nth = (rates.len() * percent).div_ceil(100).max(1) - 1;
                metrics.push((format!("{name}_p{percent}"), "1/s", rates[nth]));
            }
        }
        if let Some(since) = phase.quiet_ns {
            let seconds = since.saturating_sub(phase.began_ns) as f64 / 1e9;
            metrics.push(("alloc_stall_rate_zero_since".to_owned(), "s", seconds));
        }
        if let Some(warm_up) = &self.warm_up {
            let [work, stalls] = warm_up.averages();
            metrics.push(("warm_up_work_rate_avg".to_owned(), "1/s", work));
            metrics.push(("warm_up_alloc_stall_rate_avg".to_owned(), "1/s", stalls));
        }
        metrics.push(("work_units".to_owned(), "units", phase.units as f64));
        for (kind, name) in Kind::ALL {
            let n = phase.latencies[kind as usize].len() as f64;
            metrics.push((format!("{name}s"), "calls", n));
        }
        Report { metrics }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of the last interval with an entry counts; a rate that is not zero at the end has no
    /// such time.
    #[test]
    fn a_rate_that_stays_at_zero_says_since_when() {
        let second = |s: u64| s * 1_000_000_000;
        let since = |entries: &[u64]| {
            let mut log = Log::begin(second(1), 7);
            log.report_interval(second(2), 9);
            log.restart(second(2), 9);
            let mut stalls = 9;
            for (nth, more) in entries.iter().enumerate() {
                stalls += more;
                log.report_interval(second(62 + 60 * nth as u64), stalls);
            }
            let report = log.report();
            let mut found = report.metrics.into_iter();
            let found = found.find(|(name, ..)| name == "alloc_stall_rate_zero_since");
            found.map(|(_, unit, value)| (unit, value))
        };
        assert_eq!(since(&[5, 3, 0, 0]), Some(("s", 120.0)));
        assert_eq!(since(&[0, 3, 0, 1, 0]), Some(("s", 240.0)));
        assert_eq!(
            since(&[0, 0]),
            Some(("s", 0.0)),
            "from the end of the warm-up"
        );
        assert_eq!(since(&[0, 1]), None);
    }

    #[test]
    fn rates_are_those_of_intervals_and_the_warm_up_stands_apart() {
        let second = |s: u64| s * 1_000_000_000;
        let mut log = Log::begin(second(1), 1000);
        log.note(Kind::Read, 7);
        (0..8).for_each(|_| log.note_unit());
        log.report_interval(second(3), 1010);
        assert_eq!(log.rates, [4.0, 5.0]);
        log.restart(second(3), 1010);
        log.note(Kind::Read, 300);
        let mut stalls = 1010;
        for (nth, units) in [2, 6, 4, 100].into_iter().enumerate() {
            (0..units).for_each(|_| log.note_unit());
            stalls += units;
            log.report_interval(second(5 + 2 * nth as u64), stalls);
        }
        log.end();
        log.note(Kind::Read, 1);
        log.note_unit();
        let report = log.report();
        let get = |name: &str| {
            let found = report.metrics.iter().find(|(n, ..)| n == name);
            found.map(|(_, _, v)| *v)
        };
        assert_eq!((get("reads"), get("work_units")), (Some(1.0), Some(112.0)));
        assert_eq!(get("read_latency_p99"), Some(300.5));
        assert_eq!(get("write_latency_p50"), None);
        for name in ["work_rate", "alloc_stall_rate"] {
            let of = |what: &str| get(&format!("{name}{what}")).unwrap();
            assert_eq!((of(""), of("_avg")), (50.0, 14.0));
            assert_eq!([of("_p50"), of("_p95"), of("_p99")], [2.0, 3.0, 3.0]);
        }
        assert_eq!(get("warm_up_alloc_stall_rate_avg"), Some(5.0));
        assert_eq!(get("warm_up_work_rate_avg"), Some(4.0));
    }
}
