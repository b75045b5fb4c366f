//! `lowmark bench`.

use crate::cli::Bench;
use crate::failure::Failure;
use crate::text;
use serde_json::json;

/// Measures the engine. Ratios hold within one run; absolute figures depend on the computer.
pub fn run(args: &Bench) -> Result<(), Failure> {
    // The large machine first: in a fresh process nothing else is in memory.
    let tebibyte = args.tebibyte.then(|| sim::bench::fill(1 << 20, 1 << 20));
    let b = sim::bench::engine(args.rounds.get());
    let mut report = json!({
        "page_lifecycles_per_second": b.page_lifecycles_per_second,
        "bare_loop_per_second": b.bare_loop_per_second,
        "ratio": b.ratio,
        "tracepoints_idle_ratio": b.tracepoints_idle_ratio,
        "tracepoints_recording_ratio": b.tracepoints_recording_ratio,
        "tracepoints_recording_range": b.tracepoints_recording_range,
        "bytes_per_frame": b.bytes_per_frame,
        "peak_bytes_per_frame": b.peak_bytes_per_frame,
    });
    if let Some(t) = tebibyte {
        report["tebibyte"] = json!({
            "peak_bytes_per_frame": t.peak_bytes_per_frame,
            "pages_reclaimed": t.pages_reclaimed,
            "pages_per_second": t.pages_per_second,
        });
    }
    if args.json {
        return text::print_json(&report);
    }
    let mut out = String::new();
    for (name, value) in report.as_object().expect("an object") {
        out += &format!("{name:30} {value}\n");
    }
    text::print(&out)
}
