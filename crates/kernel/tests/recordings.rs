//! Recordings of three kernels: 6.18 on a machine with two CPUs and 24 GiB under mixed load, and
//! guests of 6.12 and 6.1 with 256 MiB. A figure that a kernel lacks is left out, and never 0.

use guest::wire::Frame;
use kernel::running::file::{About, Recording, frames as frames_of, writer};
use sim::result::{Outcome, RunResult};
use std::io::{self, Read, Write};

const HOST: &[u8] = include_bytes!("recordings/linux-6.18.z");
const GUEST: &[u8] = include_bytes!("recordings/linux-6.12.z");
const OLDER: &[u8] = include_bytes!("recordings/linux-6.1.z");

const ALL: [(&str, &[u8]); 3] = [("6.18", HOST), ("6.12", GUEST), ("6.1", OLDER)];

fn recording(bytes: &[u8]) -> io::Result<Recording> {
    Recording::of(&|| Ok(Box::new(bytes)))
}

fn result(bytes: &[u8]) -> RunResult {
    recording(bytes).unwrap().result()
}

fn sum_of(result: &RunResult, prefix: &str) -> u64 {
    let all = result.counters.iter();
    all.filter(|(name, _)| name.starts_with(prefix))
        .map(|(_, n)| n)
        .sum()
}

/// Returns the frames of a recording.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let unpacked = unpacked(bytes);
    let mut from = &unpacked[..];
    std::iter::from_fn(|| Frame::read(&mut from).unwrap()).collect()
}

/// Returns the decompressed bytes of a recording.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let mut from = frames_of(Box::new(bytes)).unwrap();
    from.read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// Makes a recording of frames.
fn packed(frames: &[Frame]) -> Vec<u8> {
    let about = About {
        name: "x".into(),
        disks: vec!["vda".into()],
        ..About::default()
    };
    let mut to = writer(Vec::new(), &about).unwrap();
    for frame in frames {
        frame.write(&mut to).unwrap();
    }
    to.finish().unwrap()
}

#[test]
fn tracepoints_tell_what_the_counters_of_the_same_recording_count() {
    for (kernel, bytes) in ALL {
        let read = recording(bytes).unwrap();
        assert!(read.release().starts_with(kernel), "{}", read.release());
        let r = read.result();
        assert_eq!(r.outcome, Outcome::Completed);
        // No tracepoint covers how long a task waited for reserves, so a recording with such waits
        // notes that.
        let waited = sum_of(&r, "pgscan_direct_throttle") > 0;
        let told: Vec<bool> = r
            .notes
            .iter()
            .map(|n| n.contains("waited for reserves"))
            .collect();
        assert_eq!(
            told,
            vec![true; usize::from(waited)],
            "{kernel}: {:?}",
            r.notes
        );
        let sums = r.reclaim.expect("it has tracepoints");
        assert_eq!(sums.direct_reclaims, sum_of(&r, "allocstall"), "{kernel}");
        let scanned = [sums.kswapd.scanned, sums.direct.scanned];
        let counted = ["pgscan_kswapd", "pgscan_direct"].map(|name| r.counters[name]);
        assert_eq!(scanned, counted, "{kernel}");
        assert!(scanned[0] > 10_000 && sums.kswapd_awake_ns > 0);
        assert!(sums.direct.congest.is_none(), "no kernel of today has it");
    }
}

#[test]
fn series_have_what_was_looked_at() {
    for (kernel, bytes) in ALL {
        let r = result(bytes);
        let samples = r.series.t.len();
        assert!(samples >= 4 && r.series.t.is_sorted(), "{kernel}");
        for name in [
            "free",
            "low",
            "dirty",
            "writeback",
            "write_throughput",
            "queue",
        ] {
            let column = r.series.columns.iter().find(|c| c.name == name);
            let column = column.unwrap_or_else(|| panic!("{kernel} has no {name}"));
            assert_eq!(column.values.len(), samples);
            assert!(
                column.values.iter().all(|v| v.is_finite()),
                "{kernel} {name}"
            );
        }
        let elapsed = r.metrics["elapsed"].value;
        assert!(r.series.t[samples - 1] <= elapsed, "{kernel}");
    }
}

/// Each kernel's result has its own counters, and none of another's.
#[test]
fn a_counter_that_a_kernel_lacks_is_not_there() {
    let [host, guest, older] = ALL.map(|(_, bytes)| result(bytes));
    let has = |r: &RunResult, name: &str| r.counters.contains_key(name);
    for name in [
        "pgscan_khugepaged",
        "pgscan_proactive",
        "zone_reclaim_success",
    ] {
        let by = [has(&host, name), has(&guest, name), has(&older, name)];
        let names = frames_names(name);
        assert_eq!(by, names, "{name}");
    }
    let differ = host.counters.keys().any(|name| !has(&older, name));
    assert!(differ, "6.18 counts what 6.1 does not");
}

/// Returns for each recording whether its last /proc/vmstat has a line `name`.
fn frames_names(name: &str) -> [bool; 3] {
    ALL.map(|(_, bytes)| {
        let text = frames(bytes).into_iter().rev().find_map(|f| match f {
            Frame::Look(_, path, text) if path == "/proc/vmstat" => Some(text),
            _ => None,
        });
        let text = String::from_utf8(text.unwrap()).unwrap();
        text.lines().any(|l| l.split(' ').next() == Some(name))
    })
}

/// Returns the names in a recording's last /proc/vmstat.
fn vmstat_names(bytes: &[u8]) -> Vec<String> {
    let text = frames(bytes).into_iter().rev().find_map(|f| match f {
        Frame::Look(_, path, text) if path == "/proc/vmstat" => Some(text),
        _ => None,
    });
    let text = String::from_utf8(text.unwrap()).unwrap();
    let names = text
        .lines()
        .filter_map(|l| Some(l.split_once(' ')?.0.to_owned()));
    names.collect()
}

/// The counters of the presets 6.1 and 6.12 are those of these kernels, or of no kernel. The guests
/// have the zones Normal and Movable and one node.
#[test]
fn counters_of_the_presets_are_those_of_the_kernels() {
    use mm::counters::{names, of_no_kernel};
    for (preset, bytes) in [("linux-6.1", OLDER), ("linux-6.12", GUEST)] {
        let real = vmstat_names(bytes);
        assert!(real.len() > 100, "{preset}: {} names", real.len());
        let policy = mm::Policy::preset(preset).expect("a preset");
        let mut shared = 0;
        for name in names(&policy) {
            let elsewhere = ["_dma", "_dma32", "_high"]
                .iter()
                .any(|zone| name.ends_with(zone));
            if elsewhere || name.starts_with("numa_") {
                continue;
            }
            // Zones before 4.8 gave pages in batches; these presets are newer.
            let own = of_no_kernel(&name) || name == "nr_alloc_batch";
            assert_ne!(real.contains(&name), own, "{preset}: {name}");
            shared += usize::from(!own);
        }
        assert!(shared > 60, "{preset}: {shared}");
    }
}

#[test]
fn a_counter_that_is_taken_away_is_not_0() {
    for (kernel, bytes) in ALL {
        let without: Vec<Frame> = frames(bytes)
            .into_iter()
            .map(|frame| match frame {
                Frame::Look(at, path, text) if path == "/proc/vmstat" => {
                    let text = String::from_utf8(text).unwrap();
                    let kept = text.lines().filter(|l| !l.starts_with("pgscan_direct "));
                    let text = kept.map(|l| format!("{l}\n")).collect::<String>();
                    Frame::Look(at, path, text.into_bytes())
                }
                other => other,
            })
            .collect();
        let r = result(&packed(&without));
        assert!(!r.counters.contains_key("pgscan_direct"), "{kernel}");
        assert!(r.counters.contains_key("pgscan_kswapd"), "{kernel}");
    }
}

#[test]
fn an_event_or_field_that_a_kernel_lacks_takes_its_sums_away_with_its_name() {
    for (kernel, bytes) in ALL {
        for point in [
            "vmscan/mm_vmscan_lru_isolate",
            "vmscan/mm_vmscan_direct_reclaim_end",
        ] {
            let without: Vec<Frame> = frames(bytes)
                .into_iter()
                .filter(|f| !matches!(f, Frame::Format(name, _) if name == point))
                .collect();
            let r = result(&packed(&without));
            assert_eq!(r.reclaim, None, "{kernel} {point}");
            let said = format!("the kernel has no tracepoint {point}");
            assert!(r.notes.iter().any(|n| n.contains(&said)), "{:?}", r.notes);
        }
        let without: Vec<Frame> = frames(bytes)
            .into_iter()
            .map(|frame| match frame {
                Frame::Format(name, text) if name.ends_with("lru_isolate") => {
                    Frame::Format(name, text.replace("nr_scanned;", "nr_seen;"))
                }
                other => other,
            })
            .collect();
        let r = result(&packed(&without));
        assert_eq!(r.reclaim, None, "{kernel}");
        assert!(r.notes[0].contains("has no `nr_scanned`"), "{:?}", r.notes);
    }
}

#[test]
fn events_that_found_no_room_make_no_sums() {
    let mut lost = frames(HOST);
    let end = lost.len() - 1;
    lost.insert(end, Frame::Lost(3));
    lost.insert(
        end,
        Frame::Note("events lost because their ring buffer was full: 3 on CPU 1".into()),
    );
    let r = result(&packed(&lost));
    assert_eq!(r.reclaim, None);
    assert!(
        r.notes.iter().any(|n| n.contains("3 events")),
        "{:?}",
        r.notes
    );
    assert!(r.notes.iter().any(|n| n.contains("CPU 1")), "{:?}", r.notes);
}

/// Rings of several CPUs are fetched one after the other; their order makes no difference.
#[test]
fn the_order_in_which_rings_are_fetched_is_nothing() {
    let whole = result(HOST);
    let mut frames = frames(HOST);
    let mut turned = Vec::new();
    let mut run: Vec<Frame> = Vec::new();
    for frame in frames.drain(..) {
        match frame {
            Frame::Trace(_) => run.push(frame),
            other => {
                turned.extend(run.drain(..).rev());
                turned.push(other);
            }
        }
    }
    let other = result(&packed(&turned));
    assert_eq!(other.reclaim, whole.reclaim);
    assert_eq!(other.metrics, whole.metrics);
}

#[test]
fn a_recording_that_is_cut_off_says_so() {
    let all = frames(GUEST);
    let r = result(&packed(&all[..all.len() / 2]));
    assert!(matches!(r.outcome, Outcome::Failed { .. }));
}

/// A damaged recording gives an error or a result, and never a panic.
#[test]
fn damage_is_no_panic() {
    let small: Vec<Frame> = frames(GUEST);
    let plain: Vec<u8> = small.iter().flat_map(Frame::to_bytes).collect();
    let mut accepted = 0;
    trace::damage::feed(7, &[plain], trace::damage::AMOUNT / 4, |bytes| {
        let mut whole = writer(Vec::new(), &About::default()).unwrap();
        whole.write_all(bytes).unwrap();
        let whole = whole.finish().unwrap();
        if let Ok(recording) = recording(&whole) {
            accepted += 1;
            recording.result();
        }
    });
    assert!(accepted > 0);
    trace::damage::feed(8, &[GUEST.to_vec()], trace::damage::AMOUNT / 40, |bytes| {
        let _ = recording(bytes).map(Recording::result);
    });
}
