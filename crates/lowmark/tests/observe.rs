//! The files that `run` writes beside its results, and the commands `trace vmscan` and `attribute`.

mod common;

use common::{good, wrong};
use serde_json::Value;
use std::fs;

const EXPERIMENT: &str = "name = 'small'\niterations = 2\nfilesystem = 'ext3'\n\
    policy = ['linux-3.0', 'never']\n\
    policies = { never = { base = 'linux-3.0', direct_writeback = 'never', kswapd_writeback = 'never' } }\n\
    machine = { name = '64M', cpus = 2, node = [{ zones = [{ zone = 'DMA', size = '16M' }, { zone = 'DMA32', size = '48M' }] }], \
    boot = { kernel = '4M', anon = '4M', dma = '1M', cache = '0M' }, disk = { kind = 'usb-flash', capacity = '4G' }, \
    sysctl = { dirty_ratio = 90, dirty_background_ratio = 80 } }\n\
    [workload]\ncommand = 'dd if=/dev/zero of=a bs=64k count=1600'\n";

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// Each cell has its files, a trace's figures are those of the results, and the results are equal
/// to those of a run without files.
#[test]
fn each_cell_has_a_trace_and_a_zoneinfo() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("space");
    good(dir, "run e.toml --quiet --out alone");
    good(
        dir,
        "run e.toml --quiet --out seen --ftrace t.txt --ftrace-events vmscan --zoneinfo z --perfetto p",
    );
    for file in ["results.json", "rows.csv"] {
        let [alone, seen] = ["alone", "seen"].map(|d| fs::read(dir.join(d).join(file)));
        assert_eq!(alone.expect("written"), seen.expect("written"), "{file}");
    }
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("a folder")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|n| n.starts_with(['p', 't', 'z']))
        .collect();
    names.sort();
    assert_eq!(names.len(), 6, "{names:?}");
    for (name, cell) in names
        .iter()
        .zip(["p-0-", "p-1-", "t-0-", "t-1-", "z-0-", "z-1-"])
    {
        assert!(name.starts_with(cell), "{names:?}");
        let policy = if cell.contains('0') {
            "linux-3.0"
        } else {
            "never"
        };
        assert!(name.contains(policy), "{name}");
    }
    let read = |name: &String| json(&good(dir, &format!("trace vmscan {name} --json")));
    let written = |trace: &Value| trace["sums"]["kswapd"]["writes"]["file_async"].as_u64();
    assert!(written(&read(&names[2])) > Some(0));
    assert_eq!(written(&read(&names[3])), Some(0));
    let shown = String::from_utf8(good(dir, &format!("trace vmscan {}", names[2])));
    assert!(shown.expect("text").contains("kswapd wakeups: "));
    let zoneinfo = fs::read_to_string(dir.join(&names[4])).expect("written");
    assert!(
        zoneinfo.starts_with("Node 0, zone      DMA\n  pages free "),
        "{zoneinfo}"
    );
}

#[test]
fn what_can_not_be_written_or_read_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("space");
    let run = "run e.toml --quiet --set policy='never' --iterations 1";
    fs::write(dir.join("there"), "mine").expect("space");
    wrong(dir, &format!("{run} --ftrace there"), "can't be made");
    wrong(dir, &format!("{run} --zoneinfo none/z"), "can't be made");
    wrong(
        dir,
        &format!("{run} --ftrace new --ftrace-events mm_page_alocs"),
        "mm_page_alocs",
    );
    assert!(!dir.join("new").exists() && !dir.join("results").exists());
    assert_eq!(fs::read(dir.join("there")).expect("as it was"), b"mine");
    wrong(dir, "trace vmscan there", "line 1: no event of a trace");
    wrong(dir, "trace vmscan none", "none");
    wrong(dir, "attribute no-such-series", "accepted: ");
    wrong(
        dir,
        "attribute writeback-from-reclaim --cap 3",
        "out of range",
    );
    wrong(
        dir,
        "attribute writeback-from-reclaim --set machine.cpus=0",
        "cpus",
    );
}

/// A user's own series, with files beside it.
#[test]
fn a_series_of_the_users_is_attributed() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("space");
    let patches = "series = 'mine'\nbase = 'linux-3.0'\nexperiment = 'e.toml'\nfigures = ['nr_vmscan_write']\n\
        [[patch]]\nnumber = 1\ntitle = 'none'\n[[patch]]\nnumber = 2\ntitle = 'no writes'\n\
        switches = { direct_writeback = 'never', kswapd_writeback = 'never' }\n";
    fs::write(dir.join("mine.toml"), patches).expect("space");
    let found = json(&good(dir, "attribute mine.toml --seeds 4 --cap 4 --json"));
    let findings: Vec<&str> = found["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|r| r["finding"].as_str())
        .collect();
    assert_eq!(findings, ["no-switch", "no-switch", "less", "less"]);
}
