//! Feeds damaged experiments, machine files, `--set` and published tables to the parsers: they must
//! not panic, and must show each error at its place.

use lab::diagnostic::Source;
use lab::experiment::{Overrides, parse};
use trace::damage::{AMOUNT, feed};

const EXPERIMENTS: [&str; 4] = [
    include_str!("../../../fuzz/seeds/experiment/small.toml"),
    include_str!("../../../experiments/eviction.toml"),
    include_str!("../../../experiments/writeback-from-reclaim/fsmark-512M.toml"),
    include_str!("../../../experiments/usb-stick.toml"),
];
const MACHINES: [&str; 3] = [
    include_str!("../../../fuzz/seeds/machine/small.toml"),
    include_str!("../../../machines/512M.toml"),
    include_str!("../../../machines/3765M.toml"),
];
const SETTINGS: [&str; 7] = [
    "machine.cpus=[1, 2, 8]",
    "machine.node=[{cpus = [0], zones = [{zone = 'DMA32', size = '64M'}]}]",
    "machine.disk.scheduler=cfq",
    "params.cost_copy=1200.5",
    "machine.swap={size = \"32M\"}",
    "workload.command=\"dd if=/dev/zero of=x bs=32k count=$((1 << 4))\"",
    "policies.limits.dirty_limits=per-zone",
];

/// Expands an experiment. Returns true if it is right; an error must be showable.
fn lay_out(experiment: &str, machine: &str, set: Vec<String>) -> bool {
    let files = |name: &str| Ok((name.to_owned(), machine.to_owned()));
    let overrides = Overrides {
        set,
        ..Overrides::default()
    };
    match parse(&Source::new("test.toml", experiment), &files, &overrides) {
        Ok(_) => true,
        Err(e) => {
            if let Some(place) = &e.place {
                let text = place.source.text();
                assert!(text.get(place.span.clone()).is_some(), "{e:?}");
            }
            let _ = format!("{e} {e:?}");
            false
        }
    }
}

fn ten_million(seed: u64, samples: &[&str], mut good: impl FnMut(&str) -> bool) {
    let samples: Vec<Vec<u8>> = samples.iter().map(|s| s.as_bytes().to_vec()).collect();
    let mut accepted = 0_u64;
    feed(seed, &samples, AMOUNT, |bytes| {
        accepted += u64::from(good(&String::from_utf8_lossy(bytes)));
    });
    // Some damaged texts are still right, and are read to the end.
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn ten_million_bytes_as_experiments() {
    ten_million(1, &EXPERIMENTS, |text| {
        lay_out(text, MACHINES[0], Vec::new())
    });
}

#[test]
fn ten_million_bytes_as_machines() {
    // Not all machines have a second node to bind to.
    let experiment = EXPERIMENTS[0].replace("membind = [0, 1]\n", "");
    ten_million(2, &MACHINES, |text| lay_out(&experiment, text, Vec::new()));
}

#[test]
fn ten_million_bytes_as_settings() {
    ten_million(3, &SETTINGS, |text| {
        lay_out(EXPERIMENTS[0], MACHINES[0], vec![text.to_owned()])
    });
}

#[test]
fn ten_million_bytes_as_published_tables() {
    let header = header();
    let tables = [
        include_str!("../../../data/published/sequential-read/sequential-read.csv"),
        include_str!("../../../data/published/per-zone-dirty-limits/per-zone-dirty-limits.csv"),
    ];
    ten_million(4, &tables, |text| {
        // Damaged text is also tried as the rows of a table.
        let with_header = format!("{header}{text}");
        let _ = lab::published::table::parse("test.csv", &with_header);
        lab::published::table::parse("test.csv", text).is_ok()
    });
}

#[test]
fn ten_million_bytes_as_series_of_patches() {
    let series = [
        include_str!("../../../data/published/writeback-from-reclaim/patches.toml"),
        include_str!("../../../data/published/sequential-read/patches.toml"),
    ];
    let find = |name: &str| {
        let text = lab::published::files::find(name).ok_or("there is no such file")?;
        Ok((name.to_owned(), text.to_owned()))
    };
    ten_million(5, &series, |text| {
        lab::attribute::parse(&Source::new("patches.toml", text), &find, &[]).is_ok()
    });
}

fn header() -> String {
    let table = include_str!("../../../data/published/sequential-read/sequential-read.csv");
    let end = table.find('\n').map_or(table.len(), |at| at + 1);
    table[..end].to_owned()
}
