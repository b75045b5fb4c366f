//! `lowmark bench`.

use crate::cli::Bench;
use crate::failure::Failure;
use crate::text;
use serde_json::json;

/// Measures the engine. Ratios hold within one run; absolute figures depend on the computer.
pub fn run(args: &Bench) -> Result<(), Failure> {
    let b = sim::bench::engine(args.rounds.get());
    let mut report = json!({
        "page_lifecycles_per_second": b.page_lifecycles_per_second,
        "bare_loop_per_second": b.bare_loop_per_second,
        "ratio": b.ratio,
        "tracepoints_idle_ratio": b.tracepoints_idle_ratio,
        "tracepoints_recording_ratio": b.tracepoints_recording_ratio,
        "bytes_per_frame": b.bytes_per_frame,
        "resident_bytes_per_frame": b.resident_bytes_per_frame,
    });
    if args.tebibyte {
        let (resident, freed) = sim::bench::fill(1 << 20, 1 << 20);
        report["tebibyte"] =
            json!({ "resident_bytes_per_frame": resident, "pages_reclaimed": freed });
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
