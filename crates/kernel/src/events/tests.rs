//! Tests with pages of a real guest, with pages made by hand, and with malformed pages.

use super::*;
use proptest::prelude::*;
use sim::account::{ClassSums, ReclaimSums, Writes};
use sim::result::{Outcome, RunResult};

/// Formats and three pages of a guest: Linux 6.12 with 512 MiB, `dd` of 600 MB, ext4. Start and end
/// of the run are set so that they enclose all pages.
const CAPTURED: &[u8] = include_bytes!("../../tests/events/linux-6.12.frames");

fn captured() -> Vec<Frame> {
    let mut from = CAPTURED;
    std::iter::from_fn(|| Frame::read(&mut from).unwrap()).collect()
}

fn told(frames: &[Frame]) -> RunResult {
    let mut result = RunResult::of_kernel(Outcome::Completed);
    if let Some(traced) = read(frames).unwrap() {
        traced.tell(&mut result);
    }
    result
}

fn value(result: &RunResult, metric: &str) -> f64 {
    result.metrics[metric].value
}

/// The sums equal those of another decoder, in another language, over the same pages.
#[test]
fn a_guests_pages_are_summed_up() {
    let r = told(&captured());
    let class = |scanned| ClassSums {
        scanned,
        ..ClassSums::default()
    };
    let stalls = 6 * 38_400 + 5 * 38_144 + 39_168 + 39_936 + 38_656;
    let sums = ReclaimSums {
        direct: class(754 + 58),
        kswapd: class(3571),
        direct_reclaims: 14,
        stalled_ns: stalls,
        wake_requests: 7,
        wake_requests_all: 7,
        kswapd_wakeups: 1,
        kswapd_awake_ns: 120_828_392,
    };
    assert_eq!(r.reclaim, Some(sums));
    assert_eq!(value(&r, "alloc_wait_max"), 39.936);
    assert_eq!(value(&r, "direct_reclaim_tasks"), 2.0);
    assert_eq!(value(&r, "dirty_pause_total"), 0.08);
    assert_eq!(value(&r, "dirty_pause_max"), 0.01);
    assert_eq!(value(&r, "reclaim_throttled"), 0.0);
    let (name, h) = &r.alloc_latency.paths[0];
    assert_eq!((*name, h.len()), ("direct-reclaim", 14));
    assert_eq!(r.notes, [""; 0]);
}

/// Returns the number of a tracepoint in the captured formats.
fn id(name: &str) -> u16 {
    let id = captured().iter().find_map(|f| match f {
        Frame::Format(n, text) if n.ends_with(name) => text.lines().find_map(|l| {
            let id = l.strip_prefix("ID: ")?;
            id.parse().ok()
        }),
        _ => None,
    });
    id.unwrap()
}

/// Makes the data of an event: its tracepoint, its pid, and numbers at given offsets.
fn event(name: &str, pid: i32, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut data = vec![0; 8];
    data[..2].copy_from_slice(&id(name).to_le_bytes());
    data[4..8].copy_from_slice(&pid.to_le_bytes());
    for (at, bytes) in fields {
        data.resize(data.len().max(at + bytes.len()), 0);
        data[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    data.resize(data.len().next_multiple_of(4), 0);
    data
}

/// Makes an event of the ring: nanoseconds since the one before, and the data.
fn record(delta: u32, data: &[u8]) -> Vec<u8> {
    let words = data.len() as u32 / 4;
    let mut bytes = Vec::new();
    if words <= 28 {
        bytes.extend((delta << 5 | words).to_le_bytes());
    } else {
        bytes.extend((delta << 5).to_le_bytes());
        bytes.extend((data.len() as u32 + 4).to_le_bytes());
    }
    bytes.extend(data);
    bytes
}

fn two_words(kind: u32, low: u32, word: u32) -> Vec<u8> {
    [(low << 5 | kind).to_le_bytes(), word.to_le_bytes()].concat()
}

/// Makes a page whose first event is at `time`.
fn page(time: u64, flags: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let data = records.concat();
    let mut bytes = [
        time.to_le_bytes(),
        (data.len() as u64 | flags).to_le_bytes(),
    ]
    .concat();
    bytes.extend(data);
    bytes.resize(4096, 0);
    bytes
}

/// Makes frames with the captured formats, of a run from 1,000 ns to 11,000 ns.
fn run(pages: Vec<u8>) -> Vec<Frame> {
    let formats = captured().into_iter();
    let mut frames: Vec<Frame> = formats.filter(|f| matches!(f, Frame::Format(..))).collect();
    frames.extend([Frame::Start(1000), Frame::Trace(pages), Frame::End(10_000)]);
    frames
}

/// Makes the event of a dirtier's pause of `ms` milliseconds.
fn dirty(ms: i64) -> Vec<u8> {
    let fields: [(usize, &[u8]); 2] = [(112, &ms.to_le_bytes()), (136, &[0; 8])];
    event("balance_dirty_pages", 1, &fields)
}

/// Makes the event of reclaim throttled for `us` microseconds.
fn throttled(us: i32) -> Vec<u8> {
    let us = us.to_le_bytes();
    let fields: [(usize, &[u8]); 3] = [(12, &us), (16, &us), (20, &[0; 4])];
    event("mm_vmscan_throttled", 1, &fields)
}

const KSWAPD: i32 = 7;

/// Sums every kind of event and record, with work under way at the start and at the end.
#[test]
fn a_stream_made_by_hand_is_summed_up() {
    let isolate = |pid, scanned: u64, lru: u32| {
        let (scanned, lru) = (scanned.to_le_bytes(), lru.to_le_bytes());
        event("mm_vmscan_lru_isolate", pid, &[(24, &scanned), (48, &lru)])
    };
    let write = |pid, flags: u32| {
        let fields = [(16, &flags.to_le_bytes()[..])];
        event("mm_vmscan_write_folio", pid, &fields)
    };
    let bare = |name, pid| event(name, pid, &[(8, &[0; 16])]);
    let begin = |pid| bare("mm_vmscan_direct_reclaim_begin", pid);
    let end = |pid| bare("mm_vmscan_direct_reclaim_end", pid);
    let first = page(
        500,
        0,
        &[
            // Before the start of the run, but for the end of the direct reclaim.
            record(0, &begin(1)),
            record(0, &isolate(1, 9, 0)),
            record(1500, &end(1)), // 2000: 1000 of it in the run
            record(0, &bare("mm_vmscan_wakeup_kswapd", 1)),
            record(0, &bare("mm_vmscan_wakeup_kswapd", 2)),
            // This kswapd was awake from the start on.
            record(1000, &bare("mm_vmscan_kswapd_sleep", KSWAPD)), // 3000
            // A time extension of 2^27 ns, then an absolute time that undoes it; neither is an
            // event.
            two_words(30, 5, 1),
            two_words(31, 3000, 0),
            // A discarded event is skipped, but its time counts.
            two_words(29, 1000, 12), // 4000
            vec![0xff; 8],
            record(0, &bare("mm_vmscan_kswapd_wake", KSWAPD)),
            record(500, &bare("mm_vmscan_kswapd_wake", KSWAPD)),
            record(0, &isolate(KSWAPD, 32, 0)),
            record(0, &isolate(KSWAPD, 16, 2)),
            record(0, &isolate(KSWAPD, 8, 3)),
            record(0, &isolate(1, 4, 2)),
            record(0, &write(KSWAPD, 0xa)),
            record(0, &write(1, 0x9)),
            record(0, &write(1, 0x6)),
            record(0, &dirty(40)),
            record(0, &dirty(-3)),
            record(0, &dirty(200)),
            record(0, &throttled(70)),
            // Padding ends the page.
            29u32.to_le_bytes().to_vec(),
            vec![0xff; 4],
        ],
    );
    let second = page(
        6000,
        0,
        &[
            record(0, &begin(3)),
            record(250, &end(3)),
            // This task is still in direct reclaim at the end.
            record(3750, &begin(3)),
        ],
    );
    let r = told(&run([first, second].concat()));
    let class = |scanned, writes| ClassSums {
        scanned,
        writes,
        ..ClassSums::default()
    };
    let direct = Writes {
        anon_async: 1,
        file_sync: 1,
        ..Writes::default()
    };
    let kswapd = Writes {
        file_async: 1,
        ..Writes::default()
    };
    let sums = ReclaimSums {
        direct: class(4, direct),
        kswapd: class(48, kswapd),
        direct_reclaims: 2,
        stalled_ns: 1000 + 250 + 1000,
        // The wake-up by a task that was not in direct reclaim since the start does not count here.
        wake_requests: 0,
        wake_requests_all: 2,
        kswapd_wakeups: 1,
        kswapd_awake_ns: 2000 + 7000,
    };
    assert_eq!(r.reclaim, Some(sums));
    let (_, h) = &r.alloc_latency.paths[0];
    assert_eq!(h.len(), 2);
    assert_eq!(value(&r, "alloc_wait_max"), 1.5);
    assert_eq!(value(&r, "direct_reclaim_tasks"), 2.0);
    assert_eq!(value(&r, "direct_reclaim_task_max"), 1250e-9);
    assert_eq!(value(&r, "dirty_pause_total"), 0.24);
    assert_eq!(value(&r, "dirty_pause_max"), 0.2);
    assert_eq!(value(&r, "reclaim_throttled"), 1.0);
    assert_eq!(value(&r, "reclaim_throttled_total"), 70e-6);
}

/// An absolute time has 59 bits; the upper bits are those of the time before.
#[test]
fn absolute_times_keep_their_upper_bits() {
    let formats = captured();
    let formats = formats.iter().filter_map(|f| match f {
        Frame::Format(name, text) => Some((name.as_str(), text.as_str())),
        _ => None,
    });
    let formats = Formats::read(formats).unwrap();
    let top = 1 << 59;
    for (before, low, time) in [(top | 100, 200, top | 200), (top | 100, 50, (2 * top) | 50)] {
        let page = page(before, 0, &[two_words(31, low, 0), record(1, &[0; 8])]);
        let mut page = Page::new(&page, &formats.header).unwrap();
        assert_eq!(page.next().unwrap().unwrap().0, time + 1);
        assert_eq!(page.next(), Ok(None));
    }
}

#[test]
fn a_run_without_events_has_sums_of_nothing() {
    let r = told(&run(Vec::new()));
    let sums = ReclaimSums::default();
    assert_eq!(r.reclaim, Some(sums));
    assert_eq!(value(&r, "alloc_wait_max"), 0.0);
    assert_eq!(r.alloc_latency.paths.len(), 0);
}

#[test]
fn what_is_not_whole_is_not_told() {
    let nothing = |frames: &[Frame], note: &str| {
        let r = told(frames);
        assert!(r.reclaim.is_none() && r.metrics.is_empty() && r.alloc_latency.paths.is_empty());
        let all = r.notes.join(" ");
        assert!(
            all.contains(note) && (all.is_empty() == note.is_empty()),
            "{all}"
        );
    };
    // No tracepoints, or no end of the run.
    nothing(&[Frame::Start(1), Frame::End(2)], "");
    nothing(&run(Vec::new())[..12], "");
    let mut lost = captured();
    lost.push(Frame::Lost(12));
    nothing(&lost, "12 events of tracepoints are lost");
    nothing(
        &run(page(2000, 1 << 31, &[])),
        "events of tracepoints are lost",
    );
}

/// A missing tracepoint removes only the figures that need it.
#[test]
fn a_kernel_without_a_tracepoint_tells_the_rest() {
    let without = |name: &str| {
        let mut frames = captured();
        frames.retain(|f| !matches!(f, Frame::Format(n, _) if n.ends_with(name)));
        told(&frames)
    };
    let r = without("mm_vmscan_write_folio");
    assert!(r.reclaim.is_none() && r.notes[0].contains("vmscan/mm_vmscan_write_folio"));
    assert_eq!(value(&r, "alloc_wait_max"), 39.936);
    let r = without("mm_vmscan_direct_reclaim_end");
    assert!(r.reclaim.is_none() && r.alloc_latency.paths.is_empty());
    assert!(!r.metrics.contains_key("alloc_wait_max"));
    let r = without("balance_dirty_pages");
    assert!(r.reclaim.is_some() && !r.metrics.contains_key("dirty_pause_max"));
    assert_eq!(r.notes, [""; 0]);
}

#[test]
fn formats_that_lack_something_are_named() {
    let change = |name: &str, from: &str, to: &str| {
        let mut frames = captured();
        for f in &mut frames {
            if let Frame::Format(n, text) = f
                && n.ends_with(name)
            {
                *text = text.replace(from, to);
            }
        }
        read(&frames).unwrap_err().to_string()
    };
    for (name, from, to, why) in [
        (
            "header_page",
            "commit",
            "x",
            "the format of header_page has no `commit`",
        ),
        (
            "lru_isolate",
            "nr_scanned;",
            "nr;",
            "mm_vmscan_lru_isolate has no `nr_scanned`",
        ),
        (
            "lru_isolate",
            "\"active_file",
            "\"x",
            "mm_vmscan_lru_isolate has no `active_file`",
        ),
        (
            "write_folio",
            "RECLAIM_WB_SYNC",
            "x",
            "mm_vmscan_write_folio has no `RECLAIM_WB_SYNC`",
        ),
        (
            "throttled",
            "ID: ",
            "ID: x",
            "the format of vmscan/mm_vmscan_throttled can't be read",
        ),
    ] {
        let error = change(name, from, to);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn pages_that_are_none_are_errors() {
    let cut = "a page of the ring can't be read: an event is cut off at its end";
    let short = "a page of the ring can't be read: it is shorter than its header says";
    let whole = page(2000, 0, &[record(0, &[0; 8])]);
    for (pages, why) in [
        (whole[..10].to_vec(), short),
        (whole[..20].to_vec(), short),
        (page(2000, 4081, &[]), short),
        (page(2000, 0, &[vec![0; 3]]), cut),
        (page(2000, 0, &[vec![28, 0, 0, 0, 0]]), cut),
        (page(2000, 0, &[two_words(0, 0, 400)]), cut),
        (
            page(2000, 0, &[two_words(0, 0, 3)]),
            "a page of the ring can't be read: an event has no length",
        ),
        (
            page(
                2000,
                0,
                &[record(0, &event("mm_vmscan_lru_isolate", 1, &[]))],
            ),
            "an event of the ring is shorter than its format says",
        ),
    ] {
        assert_eq!(read(&run(pages)).unwrap_err().to_string(), why);
    }
}

proptest! {
    /// Arbitrary pages, and the captured ones with bytes changed, are read or refused without a
    /// panic.
    #[test]
    fn no_page_panics(
        anything in prop::collection::vec(any::<u8>(), 0..200),
        changes in prop::collection::vec((0usize..3 * 4096, any::<u8>()), 0..20),
        head in 0u64..220,
    ) {
        let mut bytes = [1500u64.to_le_bytes(), head.to_le_bytes()].concat();
        bytes.extend(anything);
        let _ = read(&run(bytes)).map(told_by);
        let mut frames = captured();
        for frame in &mut frames {
            if let Frame::Trace(pages) = frame {
                for (at, byte) in &changes {
                    pages[*at] = *byte;
                }
            }
        }
        let _ = read(&frames).map(told_by);
    }
}

fn told_by(traced: Option<Traced>) {
    let mut result = RunResult::of_kernel(Outcome::Completed);
    if let Some(traced) = traced {
        traced.tell(&mut result);
    }
}

/// The longest wait of an allocation is given only where no task waited for reserves before direct
/// reclaim.
#[test]
fn a_wait_for_reserves_has_no_tracepoint() {
    let told = |throttled: u64| {
        let mut result = RunResult::of_kernel(Outcome::Completed);
        let counter = "pgscan_direct_throttle".to_owned();
        result.counters.insert(counter, throttled);
        let traced = read(&captured()).unwrap().expect("events");
        traced.tell(&mut result);
        result
    };
    let none = told(0);
    assert_eq!(value(&none, "reclaim_wait_max"), 39.936);
    assert!(none.notes.is_empty(), "{:?}", none.notes);
    let some = told(3);
    assert!(!some.metrics.contains_key("reclaim_wait_max"));
    assert_eq!(value(&some, "alloc_wait_max"), 39.936, "of direct reclaim");
    assert!(some.notes[0].starts_with("3 times a task waited for reserves"));
}
