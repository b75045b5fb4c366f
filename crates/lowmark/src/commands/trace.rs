//! `lowmark trace`.

use crate::cli::{Trace, TraceConvert, TraceGenerate, TraceInfo, TraceReading, TraceVmscan};
use crate::text;
use front::failure::Failure;
use lab::diagnostic::Diagnostic;
use lab::experiment::trace_error;
use lab::results::Single;
use serde_json::json;
use sim::account::{ClassSums, CongestionWaits};
use sim::ftrace::read::{self, Traced};
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::generate::{Pattern, Plan};
use trace::{Format, Options, Pages, Reader, Reason, Survey, TraceError, Unit};

/// Inspects a trace of I/O, generates one, or sums up a kernel's trace of reclaim.
pub fn run(what: &Trace) -> Result<(), Failure> {
    match what {
        Trace::Info(args) => info(args),
        Trace::Convert(args) => convert(args),
        Trace::Generate(args) => generate(args),
        Trace::Vmscan(args) => vmscan(args),
    }
}

/// Returns the options that a command line gives for reading a trace.
fn options(read: &TraceReading) -> Options {
    Options {
        format: read.format.as_deref().and_then(Format::parse),
        columns: read.columns,
        lenient: read.lenient,
        unit: read
            .unit
            .as_deref()
            .and_then(Unit::parse)
            .unwrap_or_default(),
    }
}

/// Writes the requests for pages of a trace to a new file, and says how many they are.
fn convert(args: &TraceConvert) -> Result<(), Failure> {
    let wrong = |e: TraceError| Failure::Input(trace_error(&e).into());
    let reader = Reader::open(&args.file, &options(&args.read)).map_err(wrong)?;
    let pages = Pages::of(reader).map_err(wrong)?;
    let out = Single::create(&args.out, args.replace, |_| Ok(true))?;
    let stop = crate::interrupt::flag_saying("stopping; once more to stop at once");
    let mut out = Stoppable { out, stop };
    let written = pages.oracle_general(&mut out);
    if out.stop.load(Relaxed) {
        return Err(Failure::Stopped("interrupted: nothing was written".into()));
    }
    written
        .map_err(|e| Failure::System(miette::miette!("can't write {}: {e}", args.out.display())))?;
    out.out.finish()?;
    let (requests, different) = pages.numbers();
    text::print(&format!(
        "{requests} requests for {different} pages of 4 KiB, numbered from 0 (--unit page)\n"
    ))
}

/// Prints a trace's counts of records, files and processes.
fn info(args: &TraceInfo) -> Result<(), Failure> {
    let options = options(&args.read);
    let survey =
        Survey::of(&args.file, &options).map_err(|e| Failure::Input(trace_error(&e).into()))?;
    if args.json {
        return text::print_json(&json(&survey));
    }
    text::print(&shown(&args.file, &survey))
}

/// Reads a kernel's trace of reclaim, text as of /sys/kernel/tracing/trace, and returns the sums
/// over its events. The error names the file.
pub fn read(path: &Path) -> Result<Traced, Failure> {
    let shown = path.display();
    let wrong = |e: &dyn std::fmt::Display| {
        let accepted = "accepted: the text of /sys/kernel/tracing/trace, of `trace-cmd report`, `perf script` or \
             systrace, or a file of `run --ftrace`";
        Failure::Input(Diagnostic::placeless(format!("{shown}: {e}"), accepted).into())
    };
    let file = input::stream(path).map_err(|e| wrong(&e))?;
    read::rows(BufReader::with_capacity(1 << 20, file)).map_err(|e| wrong(&e))
}

/// Prints the sums over reclaim's events in a kernel's trace, as rows of mm reports or JSON.
fn vmscan(args: &TraceVmscan) -> Result<(), Failure> {
    let traced = read(&args.file)?;
    if args.json {
        return text::print_json(&json!({
            "span_ns": traced.span_ns,
            "sums": traced.sums,
            "events": traced.events,
        }));
    }
    text::print(&vmscan_text(&traced))
}

/// Formats the rows of mm reports that need only a trace: pages scanned and written and waits, by
/// direct reclaim and by kswapd, then stalls and wake-ups.
fn vmscan_text(traced: &Traced) -> String {
    let s = &traced.sums;
    let mut table = text::table(["", "direct", "kswapd"]);
    let mut row = |name: &str, of: &dyn Fn(&ClassSums) -> u64| {
        table.add_row([
            name.to_owned(),
            of(&s.direct).to_string(),
            of(&s.kswapd).to_string(),
        ]);
    };
    row("pages scanned", &|c| c.scanned);
    row("write file async I/O", &|c| c.writes.file_async);
    row("write anon async I/O", &|c| c.writes.anon_async);
    row("write file sync I/O", &|c| c.writes.file_sync);
    row("write anon sync I/O", &|c| c.writes.anon_sync);
    let of = |waits: Option<CongestionWaits>| waits.unwrap_or_default();
    row("congest waits", &|c| of(c.congest).number);
    row("congest waits, ms", &|c| of(c.congest).delayed_us / 1000);
    row("congest waits, full", &|c| of(c.congest).full);
    row("conditional waits", &|c| of(c.conditional).number);
    row("conditional waits, ms", &|c| {
        of(c.conditional).delayed_us / 1000
    });
    row("conditional waits, full", &|c| of(c.conditional).full);
    format!(
        "{table}\n\
         direct reclaims: {}, {} stalled\n\
         wake kswapd requests: {} by direct reclaimers, {} in all\n\
         kswapd wakeups: {}, {} awake\n\
         {}, {} events\n",
        s.direct_reclaims,
        time(s.stalled_ns),
        s.wake_requests,
        s.wake_requests_all,
        s.kswapd_wakeups,
        time(s.kswapd_awake_ns),
        time(traced.span_ns),
        traced.events.values().sum::<u64>(),
    )
}

/// Formats a time: milliseconds below a second, else seconds.
fn time(ns: u64) -> String {
    match ns {
        ..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Returns the survey of a trace as JSON. `bytes` of the survey are those read and those written,
/// in this order.
fn json(s: &Survey) -> serde_json::Value {
    json!({
        "format": s.format.name(),
        "recognised": reason(s),
        "columns": s.layout.map(|layout| layout.to_string()),
        "unit": s.unit.map(Unit::name),
        "unit_guess": s.guess.map(|guess| json!({
            "certain": guess.certain,
            "said": guess.to_string(),
        })),
        "records": s.records,
        "span_ns": s.span_ns,
        "bytes_read": s.bytes[0],
        "bytes_written": s.bytes[1],
        "operations": s.ops,
        "files": s.files.iter().map(|f| json!({
            "name": f.name, "reach_bytes": f.reach, "existed": f.existed,
        })).collect::<Vec<_>>(),
        "processes": s.processes.iter().map(|p| json!({
            "name": p.name, "records": p.records,
        })).collect::<Vec<_>>(),
        "ignored": s.ignored,
        "skipped": s.skipped,
        "first_skipped": s.first_skipped.as_ref().map(ToString::to_string),
    })
}

/// Returns how certain the format is.
fn reason(s: &Survey) -> &'static str {
    match s.reason {
        Reason::Said => "as said",
        Reason::Header => "certain: its first line or bytes say so",
        Reason::Contents => "recognised by contents or name",
    }
}

/// Formats the survey of the trace in `file` as lines of text.
fn shown(file: &Path, s: &Survey) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let unit = match (s.guess, s.unit) {
        (Some(guess), _) => format!("\n{guess}"),
        (None, Some(Unit::Object)) => ", objects are names".to_owned(),
        (None, Some(unit)) => format!(", objects are {}s", unit.name()),
        (None, None) => String::new(),
    };
    let unit = match s.layout {
        Some(layout) => format!(", {}{unit}\ncolumns {layout}", reason(s)),
        None => unit,
    };
    let mut out = format!(
        "{}: {}{unit}\n{} records over {:.3} s: {:.1} MiB read, {:.1} MiB written\n",
        file.display(),
        s.format.name(),
        s.records,
        s.span_ns as f64 / 1e9,
        mib(s.bytes[0]),
        mib(s.bytes[1]),
    );
    let list = |counts: &mut dyn Iterator<Item = (&str, u64)>| {
        counts
            .map(|(k, n)| format!("{k} {n}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    out += &format!(
        "operations: {}\n",
        list(&mut s.ops.iter().map(|(k, n)| (*k, *n)))
    );
    let existed = s.files.iter().filter(|f| f.existed);
    let reach: u64 = existed.clone().map(|f| f.reach).sum();
    out += &format!(
        "{} files, {} of which exist beforehand with {:.1} MiB; {} processes\n",
        s.files.len(),
        existed.count(),
        mib(reach),
        s.processes.iter().filter(|p| p.records > 0).count(),
    );
    if !s.ignored.is_empty() {
        let ignored = &mut s.ignored.iter().map(|(k, n)| (k.as_str(), *n));
        out += &format!("ignored: {}\n", list(ignored));
    }
    if let Some(first) = &s.first_skipped {
        out += &format!("{} records skipped; the first: {first}\n", s.skipped);
    }
    out
}

/// Writes an artificial trace of the wanted pattern to a new file: CSV if its name ends in `.csv`,
/// else oracleGeneral. Ctrl-C leaves no file.
fn generate(args: &TraceGenerate) -> Result<(), Failure> {
    let wrong = |what: &str, accepted: &str| {
        let error = Diagnostic::placeless(what, accepted);
        Err(Failure::Input(error.into()))
    };
    let csv = args.out.extension().is_some_and(|e| e == "csv");
    if !(0.0..=10.0).contains(&args.skew) {
        return wrong("`--skew` is out of range", "accepted: 0 to 10");
    }
    if !(0.0..=1.0).contains(&args.writes) {
        return wrong("`--writes` is out of range", "accepted: 0 to 1");
    }
    if args.writes > 0.0 && !csv {
        return wrong(
            "`--writes`: the oracleGeneral format has no writes",
            "accepted: a file that ends in .csv",
        );
    }
    let (objects, requests) = (u32::try_from(args.objects), u32::try_from(args.requests));
    let (Ok(objects), Ok(_)) = (objects, requests) else {
        return wrong(
            "`--objects` or `--requests` is out of range",
            "accepted: up to 4294967295",
        );
    };
    let Some(pattern) = Pattern::parse(&args.pattern) else {
        return wrong("unknown pattern", "accepted: zipf, scan, loop, mixed");
    };
    let plan = Plan {
        pattern,
        objects,
        requests: args.requests,
        skew: args.skew,
        writes: args.writes,
        rate: args.rate,
        seed: args.seed,
    };
    let out = Single::create(&args.out, args.replace, |_| Ok(true))?;
    let stop = crate::interrupt::flag_saying("stopping; once more to stop at once");
    let mut out = Stoppable { out, stop };
    let written = if csv {
        trace::write::csv(&plan, &mut out)
    } else {
        trace::write::oracle_general(&plan, &mut out)
    };
    if out.stop.load(Relaxed) {
        return Err(Failure::Stopped("interrupted: nothing was written".into()));
    }
    written
        .map_err(|e| Failure::System(miette::miette!("can't write {}: {e}", args.out.display())))?;
    Ok(out.out.finish()?)
}

/// A file whose writing Ctrl-C stops.
struct Stoppable {
    out: Single,
    stop: Arc<AtomicBool>,
}

impl Write for Stoppable {
    /// Writes to the file; an error after Ctrl-C, which ends the generator.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
