//! `alloc_latency.txt`: allocation latency as text, and the slowest allocations with the events of
//! the machine meanwhile.

use super::{File, Format, finished};
use crate::figures::latency::Latency;
use crate::figures::slowest::{sentence, slowest, time_parts, us};
use crate::model::Outcomes;
use sim::slowest::SlowAlloc;
use sim::{Origin, RunResult};
use std::fmt::Write as _;

/// Writes one text for the whole experiment, cell by cell.
pub struct AllocLatencyText;

/// Appends to `out` one of the slowest allocations of an iteration, with its timeline, in
/// microseconds.
fn write_allocation(out: &mut String, iteration: u32, s: &SlowAlloc) {
    let _ = writeln!(
        out,
        "  {:>10} us  {}, order {}, task {}, iteration {iteration} at {:.6} s; free pages {} -> {}",
        us(s.ns),
        s.class,
        s.order,
        s.task,
        s.start_ns as f64 / 1e9,
        s.free[0],
        s.free[1],
    );
    let _ = writeln!(out, "                 its time (us): {}", time_parts(s));
    for step in &s.timeline {
        let at = step.at_ns as f64 / 1000.0;
        let _ = writeln!(out, "      {at:>+12.1}  {}", sentence(step));
    }
    if s.left_out > 0 {
        let _ = writeln!(out, "      … {} events left out", s.left_out);
    }
}

impl Format for AllocLatencyText {
    /// Writes `alloc_latency.txt`: for each cell a table of allocation latencies by path, and the
    /// slowest allocations with what happened meanwhile.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut out = String::from(
            "Page allocations by path; an allocation that left the fast path is named after the \
             step that took most of its time. Microseconds.\n",
        );
        for (at, cell) in outcomes.experiment.cells.iter().enumerate() {
            let runs = || {
                let own = finished(outcomes).filter(|(c, ..)| std::ptr::eq(*c, cell));
                own.map(|(_, i, r)| (i, r))
            };
            let _ = writeln!(out, "\n{}. {}", at + 1, cell.key());
            let untold = |(_, r): (u32, &RunResult)| {
                r.origin == Origin::Kernel && r.alloc_latency.paths.is_empty()
            };
            if runs().any(untold) {
                let why = "a real kernel does not report the latency of its allocations";
                let _ = writeln!(out, "  unsupported: {why}");
                continue;
            }
            let _ = writeln!(
                out,
                "  {:<15}{:>12}{:>10}{:>10}{:>10}{:>10}{:>12}",
                "path", "allocations", "p50", "p90", "p99", "p99.9", "max"
            );
            for l in Latency::merged(runs().map(|(_, r)| &r.alloc_latency)) {
                let _ = writeln!(
                    out,
                    "  {:<15}{:>12}{:>10}{:>10}{:>10}{:>10}{:>12}",
                    l.path,
                    l.count,
                    us(l.p50),
                    us(l.p90),
                    us(l.p99),
                    us(l.p999),
                    us(l.max)
                );
            }
            let worst = slowest(runs());
            if !worst.is_empty() {
                let _ = writeln!(
                    out,
                    "\n  The slowest, with the last event of each task before the allocation \
                     and the events during it (us from its start):"
                );
            }
            for (iteration, s) in worst {
                write_allocation(&mut out, iteration, s);
            }
        }
        emit(File::new("alloc_latency.txt", out.into_bytes()))
    }
}
