//! Latencies and amounts over all processes of a run.

use crate::report::{Metric, Report};
use hdrhistogram::Histogram;

/// The metrics of measured calls ([`Measure`]).
pub const CALLS: &[Metric] = &[
    Metric::new("reads", "calls", "Read calls of all processes."),
    Metric::new("writes", "calls", "Write calls of all processes."),
    Metric::new(
        "syncs",
        "calls",
        "Calls of fsync and fdatasync of all processes.",
    ),
    Metric::new("read_bytes", "bytes", "Bytes that all read calls moved."),
    Metric::new("write_bytes", "bytes", "Bytes that all write calls moved."),
    Metric::new(
        "read_rate",
        "MB/s",
        "Bytes read over the time from the first call to the last.",
    ),
    Metric::new(
        "write_rate",
        "MB/s",
        "Bytes written over the time from the first call to the last.",
    ),
    Metric::new(
        "read_latency",
        "us",
        "Time of a read call: read_latency_mean, and p50, p90, p99, p999 and max over all calls.",
    ),
    Metric::new(
        "write_latency",
        "us",
        "Time of a write call: write_latency_mean, and p50, p90, p99, p999 and max over all calls.",
    ),
    Metric::new(
        "sync_latency",
        "us",
        "Time of a sync call: sync_latency_mean, and p50, p90, p99, p999 and max over all calls.",
    ),
    Metric::new(
        "short_calls",
        "calls",
        "Calls that moved fewer bytes than they asked for.",
    ),
];

/// Kinds of measured calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads of data.
    Read,
    /// Writes of data.
    Write,
    /// fsync and fdatasync.
    Sync,
}

struct Calls {
    /// Latency of each call in nanoseconds.
    latency: Histogram<u64>,
    bytes: u64,
}

/// The measurements of a run's programs.
pub struct Measure {
    calls: [Calls; 3],
    /// Calls that moved fewer bytes than requested.
    short: u64,
    /// Start of the first call and end of the last one, in nanoseconds since the start.
    span: Option<(u64, u64)>,
}

/// The longest latency that is recorded: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Default for Measure {
    /// Starts with empty histograms of latency, up to an hour, for reads, writes and syncs.
    fn default() -> Self {
        Self {
            calls: std::array::from_fn(|_| Calls {
                latency: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid bounds"),
                bytes: 0,
            }),
            short: 0,
            span: None,
        }
    }
}

impl Measure {
    /// Records a call that lasted from `began` to `ended`, in nanoseconds since the start, and
    /// moved `bytes` of the `wanted` bytes: its latency, its bytes, and whether it was short.
    pub fn note(&mut self, kind: Kind, (began, ended): (u64, u64), bytes: u64, wanted: u64) {
        // After a task has moved, another CPU's clock may lag behind by a quantum at most.
        let ns = ended.saturating_sub(began);
        self.span = Some(match self.span {
            Some((first, last)) => (first.min(began), last.max(ended)),
            None => (began, ended),
        });
        let calls = &mut self.calls[kind as usize];
        calls.latency.saturating_record(ns.max(1));
        calls.bytes += bytes;
        self.short += u64::from(bytes < wanted);
    }

    /// Returns the metrics of all calls so far: counts, bytes, rates over the time from the first
    /// call to the last, and latencies in microseconds of the kinds that occurred.
    pub fn report(&self) -> Report {
        let mut metrics: Vec<(String, &'static str, f64)> = Vec::new();
        for (calls, name) in self.calls.iter().zip(["read", "write", "sync"]) {
            let h = &calls.latency;
            metrics.push((format!("{name}s"), "calls", h.len() as f64));
            if name != "sync" {
                metrics.push((format!("{name}_bytes"), "bytes", calls.bytes as f64));
            }
            if h.is_empty() {
                continue;
            }
            if let Some((first, last)) = self.span.filter(|(a, b)| a < b && name != "sync") {
                // Bytes per nanosecond are GB/s.
                let rate = calls.bytes as f64 / (last - first) as f64 * 1000.0;
                metrics.push((format!("{name}_rate"), "MB/s", rate));
            }
            let us = |ns: u64| ns as f64 / 1000.0;
            metrics.push((format!("{name}_latency_mean"), "us", h.mean() / 1000.0));
            for (label, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
                let value = us(h.value_at_quantile(quantile));
                metrics.push((format!("{name}_latency_{label}"), "us", value));
            }
            metrics.push((format!("{name}_latency_max"), "us", us(h.max())));
        }
        metrics.push(("short_calls".to_owned(), "calls", self.short as f64));
        Report { metrics }
    }
}

/// Periodic events that a task responds to. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Events {
    /// The time of the first event without a response.
    pub first: u64,
    /// The time between events; not 0.
    pub interval: u64,
    /// No events occur from this time on.
    pub end: Option<u64>,
    /// A response that takes longer counts as late.
    pub late: u64,
}

impl Events {
    /// Returns how many of these events occur up to and at time `now` (ns).
    pub fn until(&self, now: u64) -> u64 {
        let last = self.end.map_or(now, |end| now.min(end.saturating_sub(1)));
        match last.checked_sub(self.first) {
            Some(ns) => ns / self.interval + 1,
            None => 0,
        }
    }
}

/// Response times of all tasks.
pub struct Responses {
    /// Response times in nanoseconds.
    times: Histogram<u64>,
    late: u64,
    /// For each task, the events that it has not yet responded to.
    waiting: Vec<Option<Events>>,
}

impl Default for Responses {
    /// Starts with an empty histogram of response times, up to an hour, and no task that is to
    /// respond.
    fn default() -> Self {
        Self {
            times: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid bounds"),
            late: 0,
            waiting: Vec::new(),
        }
    }
}

impl Responses {
    /// Registers another task whose response times are measured; returns the number that the task
    /// uses from then on.
    pub fn client(&mut self) -> usize {
        self.waiting.push(None);
        self.waiting.len() - 1
    }

    /// Sets the events to which the task with number `client` responds next; `None`: it waits for
    /// no events.
    pub fn await_response(&mut self, client: usize, events: Option<Events>) {
        self.waiting[client] = events;
    }

    /// Records the response times of the first `n` of `events`, which all got their response at
    /// time `now` (ns), and how many were late.
    pub fn note(&mut self, events: &Events, n: u64, now: u64) {
        for nth in 0..n {
            let ns = now.saturating_sub(events.first + nth * events.interval);
            self.times.saturating_record(ns.max(1));
            self.late += u64::from(ns > events.late);
        }
    }

    /// Returns the metrics of response times of a run that ended at `now` (ns); `None` if no task
    /// was to respond. Events still waiting count as if they got their response at `now`.
    pub fn report(&mut self, now: u64) -> Option<Report> {
        if self.waiting.is_empty() {
            return None;
        }
        for events in std::mem::take(&mut self.waiting).iter().flatten() {
            self.note(events, events.until(now), now);
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        let h = &self.times;
        let mut metrics = vec![
            ("responses".to_owned(), "responses", h.len() as f64),
            ("late_responses".to_owned(), "responses", self.late as f64),
        ];
        if !h.is_empty() {
            metrics.push(("response_mean".to_owned(), "us", h.mean() / 1000.0));
            for (label, quantile) in QUANTILES {
                let value = us(h.value_at_quantile(quantile));
                metrics.push((format!("response_{label}"), "us", value));
            }
            metrics.push(("response_max".to_owned(), "us", us(h.max())));
        }
        Some(Report { metrics })
    }
}

/// The reported percentiles.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p999", 0.999),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_as_every_event_that_fell_into_it() {
        let mut r = Responses::default();
        assert_eq!(r.report(0), None);
        let client = r.client();
        let events = Events {
            first: 1_000_000,
            interval: 10_000_000,
            end: None,
            late: 25_000_000,
        };
        assert_eq!((events.until(999_999), events.until(1_000_000)), (0, 1));
        assert_eq!(events.until(31_000_000), 4);
        let ending = Events {
            end: Some(21_000_000),
            ..events
        };
        assert_eq!(ending.until(31_000_000), 2);
        // Four events, the last of which came at 31 ms, get their response at 41 ms.
        r.note(&events, 4, 41_000_000);
        // The next two events are still waiting when the run ends.
        let next = Events {
            first: 41_000_000,
            ..events
        };
        r.await_response(client, Some(next));
        let report = r.report(51_500_000).unwrap();
        let get = |name: &str| {
            let found = report.metrics.iter().find(|(n, ..)| n == name);
            found.unwrap().2
        };
        assert_eq!((get("responses"), get("late_responses")), (6.0, 2.0));
        assert!((get("response_max") / 40_000.0 - 1.0).abs() < 1e-3);
        assert!((get("response_p50") / 10_500.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn kinds_are_told_apart() {
        let mut m = Measure::default();
        for ns in 1..=1000 {
            m.note(Kind::Read, (0, ns * 1000), 4096, 4096);
        }
        m.note(Kind::Write, (1000, 6_000), 100, 200);
        let report = m.report();
        let get = |name: &str| {
            let found = report.metrics.iter().find(|(n, ..)| n == name);
            found.map(|(_, _, v)| *v)
        };
        assert_eq!(get("reads"), Some(1000.0));
        assert_eq!(get("read_bytes"), Some(4_096_000.0));
        let p99 = get("read_latency_p99").unwrap();
        assert!((p99 - 990.0).abs() < 1.0, "{p99}");
        // 4,096,000 bytes in a millisecond.
        assert_eq!(get("read_rate"), Some(4096.0));
        assert_eq!((get("writes"), get("short_calls")), (Some(1.0), Some(1.0)));
        assert_eq!(get("sync_latency_p50"), None);
    }
}
