//! Latencies and amounts over all processes of a run.

use crate::command::Report;
use hdrhistogram::Histogram;

/// Kinds of calls that are told apart.
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
    /// Nanoseconds a call took.
    latency: Histogram<u64>,
    bytes: u64,
}

/// What the programs of a run measured.
pub struct Measure {
    calls: [Calls; 3],
    /// Calls that moved fewer bytes than they were to.
    short: u64,
    /// When the first call began and the last one ended, in nanoseconds since the start.
    span: Option<(u64, u64)>,
}

/// An hour: nothing that is worth telling takes longer.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Default for Measure {
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
    /// A call that lasted from `began` to `ended`, in nanoseconds since the start, and moved
    /// `bytes` of the `wanted` bytes.
    pub fn note(&mut self, kind: Kind, (began, ended): (u64, u64), bytes: u64, wanted: u64) {
        let ns = ended - began;
        self.span = Some(match self.span {
            Some((first, last)) => (first.min(began), last.max(ended)),
            None => (began, ended),
        });
        let calls = &mut self.calls[kind as usize];
        calls.latency.saturating_record(ns.max(1));
        calls.bytes += bytes;
        self.short += u64::from(bytes < wanted);
    }

    /// The figures: counts, bytes, rates over the time from the first call to the last, and
    /// latencies in microseconds of the kinds that occurred.
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
                // Bytes a nanosecond are GB a second.
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

#[cfg(test)]
mod tests {
    use super::*;

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
