//! The lines that simoop prints at its end, from the figures of its report.

use crate::report::Figures;
use std::fmt::Write as _;

/// Returns simoop's closing lines, which follow the program's name on the screen; `None` if the
/// program did not reach its end. `figure` looks up a figure of the run.
pub(super) fn summary(figure: Figures<'_>) -> Option<String> {
    figure("alloc_stall_rate_avg")?;
    let get = |name: &str| figure(name).unwrap_or(f64::NAN);
    let mut out = String::new();
    let warm_up = ["work_rate", "alloc_stall_rate"].map(|n| get(&format!("warm_up_{n}_avg")));
    if warm_up.iter().all(|x| x.is_finite()) {
        let [work, stalls] = warm_up;
        let _ = write!(
            out,
            ", after a warm-up with a work rate of {work:.2}/sec and an alloc stall rate of \
             {stalls:.2}/sec"
        );
    }
    let _ = writeln!(out, ":");
    let run_time = get("work_units") / get("work_rate_avg");
    if run_time.is_finite() {
        let _ = writeln!(out, "Run time: {run_time:.0} seconds");
    }
    for (kind, title) in [
        ("read", "Read"),
        ("write", "Write"),
        ("allocation", "Allocation"),
    ] {
        let [a, b, c] = [50, 95, 99].map(|p| figure(&format!("{kind}_latency_p{p}")));
        if let (Some(a), Some(b), Some(c)) = (a, b, c) {
            let [a, b, c] = [a, b, c].map(thousands);
            let _ = writeln!(out, "{title} latency (p50: {a}) (p95: {b}) (p99: {c})");
        }
    }
    for (name, title) in [
        ("work_rate", "work rate"),
        ("alloc_stall_rate", "alloc stall rate"),
    ] {
        let of = |end: &str| get(&format!("{name}{end}"));
        let _ = writeln!(
            out,
            "{title} = {:.2}/sec (avg {:.2}/sec) (p50: {:.2}) (p95: {:.2}) (p99: {:.2})",
            of(""),
            of("_avg"),
            of("_p50"),
            of("_p95"),
            of("_p99")
        );
    }
    Some(out)
}

/// Formats whole microseconds with a comma between thousands: `12,345`.
fn thousands(us: f64) -> String {
    let digits = format!("{us:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_lines_of_the_original() {
        let mut metrics = BTreeMap::from([("work_units".to_owned(), 1572.0)]);
        let told = |metrics: &BTreeMap<String, f64>| summary(&|name| metrics.get(name).copied());
        assert_eq!(told(&metrics), None);
        for (rate, values) in [
            ("work_rate", [4.75, 5.24, 5.79, 6.99, 6.99]),
            ("alloc_stall_rate", [94.42, 51.63, 51.6, 59.12, 59.12]),
        ] {
            for (end, value) in ["", "_avg", "_p50", "_p95", "_p99"].iter().zip(values) {
                metrics.insert(format!("{rate}{end}"), value);
            }
        }
        for (end, value) in [
            ("p50", 3_174_400.0),
            ("p95", 4_530_176.0),
            ("p99", 18_055_168.0),
        ] {
            metrics.insert(format!("read_latency_{end}"), value);
        }
        assert_eq!(
            told(&metrics).unwrap().lines().collect::<Vec<_>>(),
            [
                ":",
                "Run time: 300 seconds",
                "Read latency (p50: 3,174,400) (p95: 4,530,176) (p99: 18,055,168)",
                "work rate = 4.75/sec (avg 5.24/sec) (p50: 5.79) (p95: 6.99) (p99: 6.99)",
                "alloc stall rate = 94.42/sec (avg 51.63/sec) (p50: 51.60) (p95: 59.12) (p99: 59.12)",
            ]
        );
    }
}
