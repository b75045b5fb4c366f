//! `lowmark bench`.

use crate::cli::Bench;
use crate::text;
use front::curves::plan::unreadable;
use front::failure::Failure;
use lab::results::Single;
use miette::miette;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Measures the engine's speed and size, or that of the cache simulator (`bench replay`), and
/// prints the figures. Ratios are comparable within one run only; absolute figures depend on the
/// computer.
pub fn run(args: &Bench) -> Result<(), Failure> {
    let replay_only = args.trace.is_some() || args.write_trace.is_some();
    if args.what == "replay" {
        if args.tebibyte {
            return Err(misplaced("--tebibyte", "engine"));
        }
        if args.lifecycles.is_some() {
            return Err(misplaced("--lifecycles", "engine"));
        }
        return replay(args);
    }
    if replay_only {
        return Err(misplaced("--trace and --write-trace", "replay"));
    }
    if let Some(pages) = args.lifecycles {
        let freed = sim::bench::live(pages.get());
        return match args.json {
            true => text::print_json(&json!({ "pages_freed": freed })),
            false => text::print(&format!("pages_freed {freed}\n")),
        };
    }
    // The large machine first, while the process has nothing else in memory.
    let tebibyte = args.tebibyte.then(|| sim::bench::fill(1 << 20, 1 << 20));
    let b = sim::bench::engine(args.rounds.get());
    let mut report = json!({
        "page_lifecycles_per_second": b.page_lifecycles_per_second,
        "bare_loop_per_second": b.bare_loop_per_second,
        "ratio": b.ratio,
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

/// Returns the error that `option` belongs to the other measurement, `bench WHAT` with `what`.
fn misplaced(option: &str, what: &str) -> Failure {
    Failure::Input(miette!(
        help = format!("accepted: lowmark bench {what} {option}"),
        "{option} is an option of `bench {what}`"
    ))
}

/// Returns the error that a file can't be written.
fn unwritten(path: &Path, e: &std::io::Error) -> Failure {
    Failure::System(miette!("can't write `{}`: {e}", path.display()))
}

/// Measures the cache simulator's requests per second on a trace: the given one, or a generated one
/// of 10 million requests. With `--write-trace` only writes that trace.
fn replay(args: &Bench) -> Result<(), Failure> {
    if let Some(path) = &args.write_trace {
        let mut file = Single::create(path, args.replace, |_| Ok(true))?;
        replay::bench::write_trace(&mut file).map_err(|e| unwritten(path, &e))?;
        return Ok(file.finish()?);
    }
    let dir;
    let path: PathBuf = match &args.trace {
        Some(path) => path.clone(),
        None => {
            let temporary = std::env::temp_dir();
            dir = tempfile::tempdir().map_err(|e| unwritten(&temporary, &e))?;
            let path = dir.path().join("zipf.oracleGeneral");
            std::fs::File::create(&path)
                .and_then(|mut file| replay::bench::write_trace(&mut file))
                .map_err(|e| unwritten(&path, &e))?;
            path
        }
    };
    let rows = replay::bench::replay(&path, args.rounds.get()).map_err(unreadable)?;
    let bare = replay::bench::bare_array(&path, args.rounds.get()).map_err(unreadable)?;
    let threads = front::runs::jobs(None);
    // Seconds to simulate fifty cache sizes at once.
    let fifty = |policy| replay::bench::fifty_sizes(&path, policy, threads).map_err(unreadable);
    let curves: Value = json!({
        "threads": threads,
        "lru_seconds": fifty("lru")?,
        "s3_fifo_seconds": fifty("s3-fifo")?,
    });
    if args.json {
        return text::print_json(&json!({
            "one_cache": rows,
            "bare_array_per_second": bare,
            "fifty_sizes": curves,
        }));
    }
    let mut table = text::table(["policy", "pages", "requests/s", "best", "miss ratio"]);
    for r in &rows {
        table.add_row([
            r.policy.clone(),
            r.size.to_string(),
            format!("{:.1} M", r.requests_per_second / 1e6),
            format!("{:.1} M", r.best_requests_per_second / 1e6),
            format!("{:.6}", r.miss_ratio),
        ]);
    }
    let (lru, s3) = (&curves["lru_seconds"], &curves["s3_fifo_seconds"]);
    text::print(&format!(
        "{table}\nlru by arrays alone, objects numbered in memory: {:.1} M requests/s\n\
         50 sizes on {threads} threads: lru {lru:.2} s, s3-fifo {s3:.2} s\n",
        bare / 1e6
    ))
}
