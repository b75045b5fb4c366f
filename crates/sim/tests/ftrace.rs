//! A run's events, written in the kernel's text format and read back.

mod common;

use common::{machine, spec, swap};
use mm::Policy;
use mm::world::event::Event;
use sim::account::ReclaimSums;
use sim::ftrace::{Failure, Ftrace, Selection, read};
use sim::spec::{FsKind, RunSpec, Size};
use sim::world::{Listener, Moment};
use sim::{Control, Outcome, RunResult};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A writer that keeps all bytes in memory.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer whose disk is full after a number of bytes.
#[derive(Debug)]
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(bytes.len())
            .ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Four writers, then a reader, on a machine of 64 MiB with 24 MiB of anonymous memory and swap:
/// every kind of reclaim takes place.
fn busy(policy: Policy) -> RunSpec {
    let command = "dd if=/dev/zero of=a bs=64k count=800 & dd if=/dev/zero of=b bs=64k count=800 & \
                   dd if=/dev/zero of=c bs=64k count=800 & dd if=/dev/zero of=d bs=64k count=800 && \
                   dd if=a of=/dev/null bs=64k && dd if=a of=/dev/null bs=64k";
    let mut m = machine(64);
    m.boot.anon = Size(24 << 20);
    m.swap = Some(swap(128 << 20));
    m.sysctl.dirty_ratio = 80;
    m.sysctl.dirty_background_ratio = 60;
    let mut s = spec(m, FsKind::Xfs, command);
    s.policy = policy;
    s.check_ns = 0;
    s
}

fn run(spec: &RunSpec, listener: Box<dyn Listener>) -> RunResult {
    let control = Control::default();
    *control.listener.lock().expect("no panic") = Some(listener);
    let result = sim::run(spec, &control);
    assert_eq!(result.outcome, Outcome::Completed);
    result
}

/// Returns a run's result and its trace.
fn written(spec: &RunSpec, selection: Selection) -> (RunResult, String) {
    let (kept, failure) = (Kept::default(), Failure::default());
    let ftrace = Ftrace::new(kept.clone(), selection, Arc::clone(&failure));
    let result = run(spec, Box::new(ftrace));
    assert!(failure.lock().expect("no panic").is_none());
    let bytes = std::mem::take(&mut *kept.0.lock().expect("no panic"));
    (result, String::from_utf8(bytes).expect("text"))
}

/// Returns the sums without times, which the text cuts to microseconds.
fn counts(sums: &ReclaimSums) -> ReclaimSums {
    ReclaimSums {
        stalled_ns: 0,
        kswapd_awake_ns: 0,
        ..*sums
    }
}

/// Round trip: the figures read from the trace are those of the run, and those of a run without a
/// listener.
#[test]
fn what_is_read_back_is_what_the_run_counted() {
    let spec = busy(Policy::linux_3_0());
    let (result, text) = written(&spec, Selection::default());
    let alone = sim::run(&spec, &Control::default());
    assert_eq!(alone.digest, result.digest);
    assert_eq!(alone.counters, result.counters);
    let back = read::rows(text.as_bytes()).expect("a trace");
    let own = result.reclaim.expect("the engine has them");
    assert_eq!(counts(&back.sums), counts(&own));
    assert!(own.direct_reclaims > 0 && own.kswapd_wakeups > 0 && own.direct.writes.total() > 0);
    let spans = own.direct_reclaims + 2 * own.kswapd_wakeups + 100;
    for (name, back, own) in [
        ("stalled", back.sums.stalled_ns, own.stalled_ns),
        ("awake", back.sums.kswapd_awake_ns, own.kswapd_awake_ns),
    ] {
        assert!(
            back.abs_diff(own) <= 1000 * spans,
            "{name}: {back} and {own} ns"
        );
    }
    // Events that no row is computed from match the kernel's counters of single pages.
    let sum = |prefix: &str| -> u64 {
        let of = result
            .counters
            .iter()
            .filter(|(name, _)| name.starts_with(prefix));
        of.map(|(_, n)| n).sum()
    };
    let events = |name: &str| back.events.get(name).copied().unwrap_or(0);
    assert_eq!(events("mm_page_alloc"), sum("pgalloc_"));
    assert_eq!(events("mm_page_free"), sum("pgfree"));
    assert_eq!(events("mm_vmscan_write_folio"), sum("nr_vmscan_write"));
    assert_eq!(events("mm_vmscan_direct_reclaim_begin"), sum("allocstall"));
    let entered = events("mm_filemap_add_to_page_cache");
    assert!(entered > 0 && events("mm_filemap_delete_from_page_cache") > 0);
}

/// One conversion of a `print fmt`, or the text between two of them.
#[derive(Debug)]
enum Part<'a> {
    Text(&'a str),
    Conversion(&'a str),
}

fn parts(mut format: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while let Some(at) = format.find('%') {
        if at > 0 {
            parts.push(Part::Text(&format[..at]));
        }
        let ends = format[at + 1..].find(|c: char| "duxsp".contains(c));
        let mut end = at + 2 + ends.expect("a conversion ends");
        if format[end..].starts_with('S') {
            end += 1; // %pS
        }
        parts.push(Part::Conversion(&format[at + 1..end]));
        format = &format[end..];
    }
    if !format.is_empty() {
        parts.push(Part::Text(format));
    }
    parts
}

/// Returns true if `fields` could be printed by a `print fmt`: its texts occur in order, and
/// between them valid values of the conversions.
fn fits(format: &str, fields: &str) -> bool {
    let parts = parts(format);
    let mut rest = fields;
    for (nth, part) in parts.iter().enumerate() {
        match part {
            Part::Text(text) => match rest.strip_prefix(text) {
                Some(after) => rest = after,
                None => return false,
            },
            Part::Conversion(how) => {
                let next = match parts.get(nth + 1) {
                    Some(Part::Text(text)) => rest.find(text),
                    Some(Part::Conversion(_)) => Some(rest.len().min(1)),
                    None => Some(rest.len()),
                };
                let Some(end) = next else { return false };
                let value = &rest[..end];
                rest = &rest[end..];
                let number = |radix| u64::from_str_radix(value, radix).is_ok();
                let good = match how.trim_start_matches('l') {
                    "d" => value.parse::<i64>().is_ok(),
                    "u" => number(10),
                    "x" => number(16),
                    "p" => value.len() == 16 && number(16),
                    "s" | "pS" => true,
                    other => panic!("{other} is no conversion that is known"),
                };
                if !good {
                    return false;
                }
            }
        }
    }
    rest.is_empty()
}

/// Returns the formats of a running kernel's tracepoints: the text of `print fmt`, and its
/// arguments.
fn formats() -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let text = include_str!("formats/linux-6.18.txt");
    let of = |block: &'static str| {
        let name = block.strip_prefix("name: ")?.lines().next()?;
        let format = block.split_once("print fmt: \"")?.1.split_once("\", ")?;
        Some((name, format))
    };
    text.split("\n\n").filter_map(of).collect()
}

#[test]
fn lines_have_the_form_that_a_running_kernel_gives_them() {
    let formats = formats();
    let mut seen = BTreeSet::new();
    // The second policy has pauses of dirtiers.
    for policy in [Policy::linux_3_0(), Policy::linux_3_16()] {
        let (_, text) = written(&busy(policy), Selection::default());
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let own = read::Line::of(line).unwrap_or_else(|| panic!("{line}"));
            // The reader strips blanks; the last fields of mm_lru_insertion may be blanks.
            let fields = line
                .split_once(&format!(" {}: ", own.name))
                .expect("fields")
                .1;
            let Some((format, values)) = formats.get(own.name) else {
                let last = ["writeback_congestion_wait", "writeback_wait_iff_congested"];
                let of_5_15 =
                    last.contains(&own.name) && fits("usec_timeout=%u usec_delayed=%u", fields);
                assert!(of_5_15 || own.name == "tracing_mark_write", "{line}");
                continue;
            };
            assert!(fits(format, fields), "{line}\nis not {format}");
            let flags = ["gfp_flags=", "gfp_flags ", " flags=RECLAIM"];
            if let Some(flags) = flags.iter().find_map(|f| Some(fields.split_once(f)?.1)) {
                let flags = flags.split_whitespace().next().unwrap_or_default();
                for flag in flags.split('|').filter(|f| !f.starts_with("_WB")) {
                    assert!(values.contains(&format!("\"{flag}\"")), "{flag} in {line}");
                }
            }
            seen.insert(own.name.to_owned());
        }
    }
    let unseen: Vec<_> = formats
        .keys()
        .filter(|name| !seen.contains(**name))
        .collect();
    assert!(unseen.is_empty(), "{unseen:?} were not written");
}

/// The comparison itself rejects fields that are missing, added or of another kind.
#[test]
fn a_field_that_is_missing_does_not_fit() {
    let format = "dev %d:%d ino %lx pfn=0x%lx ofs=%lu order=%u";
    assert!(fits(format, "dev 8:0 ino 1f pfn=0x12 ofs=4096 order=0"));
    for wrong in [
        "dev 8:0 ino 1f pfn=0x12 ofs=4096",
        "dev 8:0 ino 1f ofs=4096 pfn=0x12 order=0",
        "dev 8:0 ino 1g pfn=0x12 ofs=4096 order=0",
        "dev 8:0 ino 1f pfn=0x12 ofs=-1 order=0",
        "dev 8:0 ino 1f pfn=0x12 ofs=4096 order=0 more=1",
    ] {
        assert!(!fits(format, wrong), "{wrong}");
    }
}

#[test]
fn events_are_selected_by_name_folder_and_start() {
    let selection = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        Selection::new(&names)
    };
    assert_eq!(
        selection(&["vmscan", "mm_page_fre"]).expect_err("none"),
        "mm_page_fre"
    );
    let (_, text) = written(
        &busy(Policy::linux_3_0()),
        selection(&["vmscan", "mm_lru_*"]).expect("they are"),
    );
    let names: BTreeSet<&str> = text
        .lines()
        .filter_map(read::Line::of)
        .map(|l| l.name)
        .collect();
    let other = |n: &&&str| {
        !n.starts_with("mm_vmscan_") && !n.starts_with("mm_lru_") && !n.starts_with("mm_shrink")
    };
    let others: Vec<_> = names.iter().filter(other).collect();
    assert_eq!(others, [&"tracing_mark_write"]);
    assert!(names.contains("mm_lru_insertion") && names.contains("mm_vmscan_lru_isolate"));
}

#[test]
fn a_full_disk_is_told_and_changes_nothing() {
    let (spec, failure) = (busy(Policy::linux_3_0()), Failure::default());
    let ftrace = Ftrace::new(Full(100_000), Selection::default(), Arc::clone(&failure));
    let result = run(&spec, Box::new(ftrace));
    assert_eq!(result.digest, sim::run(&spec, &Control::default()).digest);
    let failure = failure.lock().expect("no panic").take();
    assert_eq!(failure.map(|e| e.kind()), Some(io::ErrorKind::StorageFull));
}

/// Events of lists match the counters: insertions are reported, and as many activations as are
/// counted.
#[test]
fn insertions_and_activations_follow_the_counters() {
    #[derive(Debug, Default)]
    struct Lists {
        inserted: u64,
        activated: u64,
        counts: bool,
    }
    #[derive(Debug, Clone, Default)]
    struct Shared(Arc<Mutex<Lists>>);
    impl Listener for Shared {
        fn heard(&mut self, _: Moment<'_>, event: &Event) {
            let mut lists = self.0.lock().expect("no panic");
            if !lists.counts {
                return;
            }
            match event {
                Event::LruInsertion { .. } => lists.inserted += 1,
                Event::LruActivate { .. } => lists.activated += 1,
                Event::ShrinkInactive { nr_activate, .. } => {
                    lists.activated += u64::from(nr_activate[0]) + u64::from(nr_activate[1]);
                }
                _ => {}
            }
        }
        fn marked(&mut self, _: Moment<'_>, text: &str) {
            self.0.lock().expect("no panic").counts = text == sim::ftrace::BEGINS;
        }
        fn ended(&mut self, _: &dyn Fn() -> String) {}
    }
    let lists = Shared::default();
    let result = run(&busy(Policy::linux_3_0()), Box::new(lists.clone()));
    let lists = lists.0.lock().expect("no panic");
    let activated = result.counters["pgactivate"];
    // A batch that is under way when the workload ends has activated pages that only a later event
    // reports.
    assert!(
        lists.activated > 0 && activated - lists.activated < 64,
        "{lists:?}, {activated}"
    );
    assert!(lists.inserted > 0);
}

/// Ten million bytes of damaged traces: each gives sums, or an error with a line number within the
/// trace.
#[test]
fn ten_million_bytes_as_a_trace() {
    let (_, text) = written(&busy(Policy::linux_3_0()), Selection::default());
    let middle = text.len() / 2;
    let start = middle + text[middle..].find('\n').expect("a line ends") + 1;
    let end = start + text[start..start + 4000].rfind('\n').expect("and another") + 1;
    let samples = [
        text.as_bytes()[..2000].to_vec(),
        text.as_bytes()[start..end].to_vec(),
    ];
    let mut taken = 0;
    trace::damage::feed(1, &samples, trace::damage::AMOUNT, |bytes| {
        let lines = bytes.split(|&b| b == b'\n').count() as u64;
        match read::rows(bytes) {
            Ok(traced) => {
                assert!(traced.sums.wake_requests <= traced.sums.wake_requests_all);
                taken += 1;
            }
            Err(read::Wrong::Line { line, .. } | read::Wrong::Lost(line)) => {
                assert!((1..=lines).contains(&line))
            }
            Err(read::Wrong::Io(e)) => panic!("{e}"),
        }
    });
    assert!(taken > 100, "{taken}");
}

/// Dirtying tasks of 6.12 behave with a listener as without one, where pages are dirtied many at a
/// time with the worker's bandwidth measurement in between. `think` is negative while a pause is
/// owed.
#[test]
fn dirtiers_that_owe_a_pause_are_heard() {
    let mut m = machine(128);
    (m.cpus, m.hz) = (1, 250);
    let writers =
        "dd if=/dev/zero of=a bs=32k count=3000 & dd if=/dev/zero of=b bs=32k count=3000; wait";
    let mut s = spec(m, FsKind::Xfs, writers);
    s.policy = Policy::linux_6_12();
    s.check_ns = 0;
    let (result, text) = written(&s, Selection::default());
    let alone = sim::run(&s, &Control::default());
    assert_eq!(alone.digest, result.digest);
    assert_eq!(alone.counters, result.counters);
    let looks = text
        .lines()
        .filter(|l| l.contains(" balance_dirty_pages: "));
    let (owed, all): (Vec<&str>, Vec<&str>) = looks.partition(|l| l.contains(" think=-"));
    assert!(
        owed.len() > 20 && all.len() > 20,
        "{} {}",
        owed.len(),
        all.len()
    );
    // A pause that is not made (0 or negative) is not counted.
    let made = |line: &&&str| {
        line.split(" pause=")
            .nth(1)
            .is_some_and(|p| !p.starts_with(['-', '0']))
    };
    assert!(owed.iter().chain(&all).filter(made).count() > 10);
}
