//! A trace replayed through the engine and through `mrc`: with the same policy and cache size, both
//! report the same share of hits.
//!
//! A machine's cache has no fixed size: it is what watermarks leave. Here the machine is one zone
//! with nothing else in it, watermarks that lie a few pages apart and are not boosted, and dirty
//! limits so low that reclaim meets clean pages, as `mrc` without `--writes` does. `eviction` names
//! the policy of both, and the size for `mrc` is the mean number of the zone's file pages in the
//! samples in which memory was full. There is no readahead: pages read ahead would be no hits
//! (`readahead_hit_ratio`), but displace requested pages.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The accepted difference: half a percentage point.
const APART: f64 = 0.005;

/// Runs the program, which must succeed, and returns its standard output; `args` are words between
/// spaces.
fn good(dir: &Path, args: &str) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
    let output = command.current_dir(dir).args(args.split(' ')).output();
    let output = output.expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {said}");
    output.stdout
}

/// Replays `trace` on a machine of `mib` MiB with an eviction policy; returns its hit ratio and
/// the pages of its cache. On xfs no page of metadata shares the cache with those of files.
fn replayed(dir: &Path, trace: &str, mib: u32, policy: &str) -> (f64, u64) {
    let experiment = format!(
        "name = 'curve'\niterations = 1\nfilesystem = 'xfs'\npolicy = 'p'\nsample_s = 0.01\ntime_limit_s = 0\n\
         [policies.p]\nbase = 'linux-6.12'\neviction = '{policy}'\n\
         [machine]\nname = 'one-zone'\ncpus = 1\n[[machine.node]]\nzones = [{{ zone = 'DMA32', size = '{mib}M' }}]\n\
         [machine.boot]\nkernel = '0'\nanon = '0'\ncache = '0'\n\
         [machine.sysctl]\nmin_free_kbytes = 128\nwatermark_boost_factor = 0\n\
         dirty_background_bytes = 65536\ndirty_bytes = 262144\n\
         [machine.disk]\nkind = 'ssd'\ncapacity = '1T'\n[params]\nread_ahead = 0\n\
         [workload]\ntrace = '{trace}'\nunit = 'page'\ntiming = 'fast'\n"
    );
    let out = dir.join("out");
    if out.exists() {
        std::fs::remove_dir_all(&out).expect("an earlier folder");
    }
    std::fs::write(dir.join("curve.toml"), experiment).expect("a file");
    good(dir, "run curve.toml --quiet --out out");
    let results = std::fs::read_to_string(out.join("results.json")).expect("results");
    let results: Value = serde_json::from_str(&results).expect("JSON");
    let figures = &results["cells"][0]["iterations"][0]["metrics"];
    let hits = figures["hit_ratio"]["value"].as_f64();
    (hits.expect("a hit ratio"), pages_when_full(&out))
}

/// Returns the mean of the zone's file pages while free pages are at most twice the high watermark;
/// their maximum, if memory never was that full.
fn pages_when_full(out: &Path) -> u64 {
    let mut series = std::fs::read_dir(out.join("series")).expect("a folder");
    let file = series.next().expect("a series").expect("an entry").path();
    let text = std::fs::read_to_string(file).expect("a series");
    let mut rows = text.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let column = |name: &str| {
        let at = head
            .iter()
            .position(|h| *h == format!("{name} DMA32 [pages]"));
        at.unwrap_or_else(|| panic!("no {name}: {head:?}"))
    };
    let columns = ["inactive_file", "free", "high"].map(column);
    let samples: Vec<[f64; 3]> = rows
        .map(|row| columns.map(|at| row[at].parse().expect("a number")))
        .collect();
    let full = samples.iter().filter(|[_, free, high]| *free <= 2.0 * high);
    let (n, sum) = full.fold((0, 0.0), |(n, sum), [pages, ..]| (n + 1, sum + pages));
    match n {
        0 => samples.iter().fold(0.0, |most, s| s[0].max(most)) as u64,
        n => (sum / f64::from(n)) as u64,
    }
}

/// Returns the hit ratio of `mrc` for a trace, a size and a policy.
fn simulated(dir: &Path, trace: &str, pages: u64, policy: &str) -> f64 {
    let out = good(
        dir,
        &format!("mrc --trace {trace} --unit page --sizes {pages} --policy {policy} --json"),
    );
    let curves: Value = serde_json::from_slice(&out).expect("JSON");
    let ratio = &curves["mrc"]["curves"][0]["points"][0]["miss_ratio"];
    1.0 - ratio.as_f64().unwrap_or_else(|| panic!("{curves}"))
}

/// Compares the two hit ratios of a policy and returns that of the engine.
fn agree_by(dir: &Path, trace: &str, mib: u32, policy: &str) -> f64 {
    let (hits, pages) = replayed(dir, trace, mib, policy);
    let simulated = simulated(dir, trace, pages, policy);
    assert!(
        (hits - simulated).abs() <= APART,
        "{policy}, {trace} on {mib} MiB, {pages} pages: replayed {hits}, mrc {simulated}"
    );
    hits
}

/// Compares the two hit ratios of LRU and returns that of the engine.
fn agree(dir: &Path, trace: &str, mib: u32) -> f64 {
    agree_by(dir, trace, mib, "lru")
}

#[test]
fn generated_traces_have_one_hit_ratio() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    for (pattern, least, most) in [
        ("zipf", 0.5, 0.9),
        ("scan", 0.0, 0.005),
        ("loop", 0.0, 0.005),
        ("mixed", 0.2, 0.6),
    ] {
        // A loop covers a quarter of its objects: 12,000 pages, while the cache has some 7,900.
        let trace = format!("{pattern}.csv");
        good(
            dir,
            &format!("trace generate {pattern} --objects 48k --requests 150k --out {trace}"),
        );
        let hits = agree(dir, &trace, 32);
        assert!((least..=most).contains(&hits), "{pattern}: {hits}");
    }
}

/// Policies that judge pages by more than their last use, on traces of which three requests in ten
/// write: kswapd takes pages in batches where `mrc` takes one at a time, and a write is a use,
/// although Linux since 4.7 counts reads alone. (W-TinyLFU counts requests in a sketch, in which
/// objects collide by their numbers. On the mixed trace these alone are worth a point.)
#[test]
fn other_policies_and_writes_have_one_hit_ratio() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    for pattern in ["zipf", "mixed"] {
        let trace = format!("{pattern}.csv");
        good(
            dir,
            &format!(
                "trace generate {pattern} --objects 60k --requests 200k --writes 0.3 --out {trace}"
            ),
        );
        for policy in ["lru", "sieve", "arc", "s3-fifo"] {
            agree_by(dir, &trace, 64, policy);
        }
        if pattern == "zipf" {
            agree_by(dir, &trace, 64, "w-tinylfu");
        }
    }
}

/// Requests of 64 KiB over a range, none repeated: there are no hits, although each request is
/// sixteen pages.
#[test]
fn what_is_asked_for_once_is_no_hit() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let mut text = String::new();
    for i in 0..500_u64 {
        let _ = writeln!(text, "{i},{},65536", i * 7919 % 500 * 512);
    }
    std::fs::write(dir.join("once.csv"), text).expect("a trace");
    assert_eq!(agree(dir, "once.csv", 12), 0.0);
    // With options of the command line, on a machine where all pages fit.
    let options = "--machine 512M --timing fast --policy linux-6.12 --unit page";
    good(
        dir,
        &format!("run --trace once.csv {options} --quiet --out plain"),
    );
    let results = std::fs::read_to_string(dir.join("plain/results.json")).expect("results");
    let results: Value = serde_json::from_str(&results).expect("JSON");
    let figures = &results["cells"][0]["iterations"][0]["metrics"];
    assert_eq!(figures["hit_ratio"]["value"], 0.0);
}

/// Whole pages of a block device, by their sectors: `mrc`, `run --trace` and `trace info` read them
/// as sectors and say so, `mrc` below its verdict.
#[test]
fn the_guessed_unit_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let mut text = "time,obj_id,obj_size,op\n".to_owned();
    for i in 0..400_u64 {
        let (at, pages) = (i * 7919 % 97 * 8, i % 4 + 1);
        let _ = writeln!(text, "{i},{at},{},read", pages * 4096);
    }
    std::fs::write(dir.join("block.csv"), text).expect("a trace");
    let said = "objects are sectors, guessed: numbers are multiples of 8, extents overlap";
    let guess = |unit: &str| {
        let args = format!("mrc --trace block.csv --sizes 20 --policy lru,fifo{unit}");
        let out = String::from_utf8(good(dir, &args)).expect("text");
        let lines: Vec<String> = out.lines().map(str::to_owned).collect();
        let ratio = out.lines().find(|line| line.trim().starts_with("20 "));
        (lines[1].clone(), ratio.expect("a size").to_owned())
    };
    let (guessed, given) = (guess(""), guess(" --unit sector"));
    assert_eq!((guessed.0.as_str(), given.0.as_str()), (said, ""));
    assert_eq!(guessed.1, given.1);
    let json: Value = serde_json::from_slice(&good(
        dir,
        "mrc --trace block.csv --sizes 20 --policy lru --json",
    ))
    .expect("JSON");
    assert_eq!(json["mrc"]["unit"], "sector");
    assert_eq!(json["mrc"]["unit_guess"]["certain"], true);
    assert_eq!(json["mrc"]["unit_guess"]["said"], said);
    let info = String::from_utf8(good(dir, "trace info block.csv")).expect("text");
    assert_eq!(info.lines().nth(1), Some(said));
    let mut run = Command::new(env!("CARGO_BIN_EXE_lowmark"));
    let run = run.current_dir(dir).args(["run", "--trace", "block.csv"]);
    let output = run.args(["--out", "replayed"]).output().expect("a run");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(&format!("block.csv: {said}\n")), "{told}");
}

/// The included trace: SQLite's files, with writes, truncations and removals, where they do not fit
/// into memory and where they do. Also traces that the variable names, as paths between colons: a
/// block trace of a machine is too large to include.
#[test]
fn recorded_traces_have_one_hit_ratio() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/sqlite.strace.zst");
    // Arguments are split at spaces, which a checkout's path may have.
    std::fs::copy(shipped, dir.join("sqlite.strace.zst")).expect("the shipped trace");
    for (mib, least) in [(12, 0.5), (64, 0.8)] {
        let hits = agree(dir, "sqlite.strace.zst", mib);
        assert!(hits > least, "{hits}");
    }
    let others = std::env::var("LOWMARK_TEST_TRACES").unwrap_or_default();
    for trace in others.split(':').filter(|t| !t.is_empty()) {
        agree(dir, trace, 256);
    }
}
