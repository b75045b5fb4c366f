use super::*;
use crate::diagnostic::Source;
use crate::runner::{self, RunOptions};
use crate::terminal::Screen;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// A machine of 64 MiB with a USB stick, on which one writer makes reclaim meet dirty pages.
const EXPERIMENT: &str = "name = 'small'\nfilesystem = 'ext3'\npolicy = 'linux-3.0'\n\
    machine = { name = '64M', cpus = 2, node = [{ zones = [{ zone = 'DMA', size = '16M' }, { zone = 'DMA32', size = '48M' }] }], \
    boot = { kernel = '4M', anon = '4M', dma = '1M', cache = '0M' }, disk = { kind = 'usb-flash', capacity = '4G' }, \
    sysctl = { dirty_ratio = 90, dirty_background_ratio = 80 } }\n\
    [workload]\ncommand = 'dd if=/dev/zero of=a bs=64k count=1600'\n";

/// A series in which only the second patch keeps reclaim from writing. The first has no switch, the
/// third repeats a part of the second, and the fourth has no effect on this machine.
const PATCHES: &str = "series = 's'\nbase = 'linux-3.0'\nexperiment = 'small.toml'\n\
    figures = ['nr_vmscan_write', 'elapsed']\n\
    [[patch]]\nnumber = 1\ntitle = 'a comment'\n\
    [[patch]]\nnumber = 2\ntitle = 'no writes'\n\
    switches = { direct_writeback = 'never', kswapd_writeback = 'never' }\n\
    [[patch]]\nnumber = 3\ntitle = 'again'\nswitches = { direct_writeback = 'never' }\n\
    [[patch]]\nnumber = 4\ntitle = 'elsewhere'\nswitches = { emergency_throttle = true }\n";

fn tried(patches: &str) -> Result<Tried, crate::diagnostic::Diagnostic> {
    let find = |name: &str| match name {
        "small.toml" => Ok((name.to_owned(), EXPERIMENT.to_owned())),
        _ => Err(format!("no file {name}")),
    };
    parse(&Source::new("patches.toml", patches), &find, &[])
}

fn found(seeds: Seeds, stop_after: usize) -> Attribution {
    let tried = tried(PATCHES).expect("well-formed");
    let stop = Arc::new(AtomicBool::new(false));
    let runs = AtomicUsize::new(0);
    let simulate = |spec: &sim::RunSpec, control: &sim::Control| {
        if runs.fetch_add(1, Relaxed) + 1 >= stop_after {
            stop.store(true, Relaxed);
        }
        sim::run(spec, control)
    };
    let options = RunOptions {
        jobs: 1,
        check: None,
        progress: None,
        listeners: None,
        stop: Arc::clone(&stop),
    };
    let mut round = |experiment: &Experiment, journal: &mut dyn Journal| {
        runner::run_with(experiment, &options, &simulate, journal)
    };
    let found = attribute(&tried, seeds, &mut round).expect("no check");
    if !found.interrupted {
        assert_eq!(runs.load(Relaxed), found.runs, "no iteration is run twice");
    }
    found
}

fn row<'a>(found: &'a Attribution, patch: u32, addition: Addition, figure: &str) -> &'a Row {
    let mut rows = found.rows.iter();
    let is = |r: &&Row| r.patch == patch && r.addition == addition && r.figure == figure;
    rows.find(is).expect("a row for each")
}

#[test]
fn the_patch_that_did_it_is_named_and_no_other() {
    let found = found(Seeds { first: 6, cap: 12 }, usize::MAX);
    let writes = |patch, addition| row(&found, patch, addition, "nr_vmscan_write");
    use Addition::{First, Last};
    let second = writes(2, First);
    assert_eq!((second.finding, second.n), (Finding::Less, 6), "{second:?}");
    assert!(second.without > 0.0 && second.with == 0.0 && second.p < Some(0.05));
    // Patch 3 repeats a part of patch 2: alone, it has half of the effect.
    assert_eq!(writes(3, First).finding, Finding::NoSwitch);
    assert_eq!(writes(2, Last).finding, Finding::Less);
    assert_eq!(writes(1, First).finding, Finding::NoSwitch);
    for addition in [First, Last] {
        assert_ne!(writes(4, addition).finding, Finding::Less);
        assert_ne!(writes(4, addition).finding, Finding::More);
    }
    let text = to_text(&found, Screen::default());
    assert!(
        text.contains("nr_vmscan_write: moved by patch 2 ("),
        "{text}"
    );
    assert_eq!(to_json(&found)["rows"].as_array().map(Vec::len), Some(16));
}

/// Each look takes its part of the error, and undecided comparisons get more seeds.
#[test]
fn seeds_are_added_up_to_the_cap() {
    assert_eq!(Seeds { first: 6, cap: 30 }.looks(), [6, 12, 24, 30]);
    assert_eq!(Seeds { first: 6, cap: 3 }.looks(), [3]);
    let found = found(Seeds { first: 2, cap: 6 }, usize::MAX);
    // Two against two values can't differ significantly, nor four against four at one of three
    // looks.
    let second = row(&found, 2, Addition::First, "nr_vmscan_write");
    assert_eq!((second.finding, second.n), (Finding::Less, 6), "{second:?}");
    assert_eq!(found.looks, [2, 4, 6]);
}

#[test]
fn what_was_finished_is_kept_when_somebody_stops_it() {
    let found = found(Seeds { first: 6, cap: 12 }, 9);
    assert!(found.interrupted && found.runs >= 8, "{}", found.runs);
    let second = row(&found, 2, Addition::First, "nr_vmscan_write");
    assert_eq!(second.finding, Finding::Open);
    assert!(second.without > 0.0 && second.n > 0, "{second:?}");
    assert!(to_text(&found, Screen::default()).contains("interrupted"));
}

#[test]
fn what_is_wrong_is_told() {
    for (from, to, told) in [
        ("number = 2", "number = 1", "not in the order"),
        ("'elapsed'", "'elapsd'", "elapsd"),
        ("small.toml", "large.toml", "large.toml"),
        ("title = 'again'", "titel = 'again'", "titel"),
        ("emergency_throttle", "emergency_thrott", "emergency_thrott"),
    ] {
        let wrong = tried(&PATCHES.replace(from, to))
            .expect_err(told)
            .to_string();
        assert!(wrong.contains(told), "{wrong}");
    }
    assert!(load("no-series", &[]).is_err());
    assert!(load("no-file.toml", &[]).is_err());
}

/// The shipped series can be read, and the last prefix is the policy of that name in the tables.
#[test]
fn shipped_series_are_the_published_policies() {
    let all = shipped();
    assert!(
        all.contains(&"writeback-from-reclaim") && all.contains(&"sequential-read"),
        "{all:?}"
    );
    for name in all {
        let tried = load(name, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tried.patches.series, name);
        assert_eq!(tried.prefixes.len(), tried.patches.patch.len() + 1);
    }
    for (series, prefix, published) in [
        ("writeback-from-reclaim", 7, "kswapdwb"),
        ("writeback-from-reclaim", 8, "nokswapdwb"),
        ("sequential-read", 3, "3.16-checklow"),
        ("sequential-read", 4, "3.16-fairzone"),
        ("sequential-read", 5, "3.16-lessdirty"),
    ] {
        let tried = load(series, &[]).expect("well-formed");
        let cells = &tried.experiment.cells;
        let own = cells.iter().find(|c| c.policy == tried.prefixes[prefix]);
        let base = format!("policies/{series}.toml");
        let set = [
            "policy='P'".replace('P', published),
            format!("policies='{base}'"),
        ];
        let text = crate::published::files::find(&tried.patches.experiment).expect("shipped");
        let find = |name: &str| {
            let text = crate::published::files::find(name).ok_or("none")?;
            Ok((name.to_owned(), text.to_owned()))
        };
        let overrides = crate::experiment::Overrides {
            set: set.into(),
            ..Default::default()
        };
        let source = Source::new("e", text);
        let e = crate::experiment::parse(&source, &find, &overrides).expect("well-formed");
        let (own, theirs) = (&own.expect("a cell").spec.policy, &e.cells[0].spec.policy);
        let unnamed = |p: &mm::Policy| {
            let mut p = p.clone();
            p.name = Default::default();
            format!("{p:?}")
        };
        assert_eq!(unnamed(own), unnamed(theirs), "{series} to {prefix}");
    }
}

/// The corrections of kswapd between 3.0-rc6 and 3.0 can be attributed, each alone.
#[test]
fn each_correction_of_the_release_candidate_is_one_switch() {
    let text =
        include_str!("../../../../data/published/writeback-from-reclaim/release-candidate.toml");
    let find = |name: &str| match crate::published::files::find(name) {
        Some(text) => Ok((name.to_owned(), text.to_owned())),
        None => Err(format!("no file {name}")),
    };
    let tried = parse(&Source::new("release-candidate.toml", text), &find, &[])
        .unwrap_or_else(|e| panic!("{}", e.message));
    assert_eq!(tried.patches.patch.len(), 4);
    for patch in &tried.patches.patch {
        assert_eq!(patch.switches.len(), 1, "{}", patch.title);
    }
}
