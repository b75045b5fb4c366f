//! Tests of figures by name: each published cell has a run that gives it, and each name has one
//! meaning.

use lab::diagnostic::Source;
use lab::experiment::{self, Overrides};
use lab::model::{Cell, Experiment, Outcomes};
use lab::published::scores::{Drawn, Scores};
use lab::published::{PublishedRow, Series, Tolerance, plan, shipped};
use lab::rows::Reading;
use lab::rows::definition::row;
use lab::rows::explain::{Entry, explain};
use sim::spec::{NodeSpec, Size, ZoneSpec};
use sim::{Control, Outcome, RunResult, RunSpec};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Short command lines of every program, in the order of the table of programs.
const LINES: &[(&str, &str)] = &[
    ("burst", "burst -s 1M -A periodic -i 10ms -n 3"),
    ("cat", "truncate -s 1M x; cat x"),
    ("cp", "truncate -s 1M x; cp x y"),
    ("dd", "dd if=/dev/zero of=x bs=64k count=16"),
    ("desktop", "desktop -w 1M -p 1M -n 4 -f 2 -t 500ms"),
    (
        "drop_caches",
        "dd if=/dev/zero of=x bs=64k count=16; sync; drop_caches",
    ),
    ("find", "fs_mark -d tree -n 20 -s 4096 -k; find tree"),
    (
        "fs_mark",
        "fs_mark -d1 -D 4 -N 8 -n 16 -L 3 -t 1 -S0 -s 65536",
    ),
    (
        "mapped-file-stream",
        "mapped-file-stream 1 $((1024*1024*4))",
    ),
    ("memhog", "memhog 1m"),
    ("mmap-strm", "mmap-strm -t 2 --memory 8388608"),
    (
        "numactl",
        "numactl --cpunodebind=0 dd if=/dev/zero of=x bs=64k count=16",
    ),
    ("rm", "fs_mark -d tree -n 20 -s 4096 -k; rm -r tree"),
    (
        "simoop",
        "simoop -t 2 -m 1 -M 2 -C 1 -r 2 -f 1 -n 4 -T 1 -R1 -W1 -i 1 -w 2 -D 1 mnt",
    ),
    // The engine has no groups; the program behind it has the figures.
    ("cgexec", "dd if=/dev/zero of=x bs=64k count=16"),
    ("sleep", "sleep 0.1"),
    ("sync", "dd if=/dev/zero of=x bs=64k count=16; sync"),
    (
        "taskset",
        "taskset -c 0 dd if=/dev/zero of=x bs=64k count=16",
    ),
    (
        "tiobench",
        "tiobench --dir t --numruns 2 --size 8 --block 4096 --threads 2 --random 20",
    ),
    (
        "rsync",
        "fs_mark -d tree -n 20 -s 4096 -k; rsync -a tree copy",
    ),
    ("stress-ng", "stress-ng --vm 2 --vm-bytes 4M -t 1s"),
    (
        "tar",
        "fs_mark -d tree -n 20 -s 4096 -k; tar cf archive tree",
    ),
    ("truncate", "truncate -s 1M x; cat x"),
    ("usemem", "usemem -n 2 1m"),
    ("umount", "fs_mark -d tree -n 20 -s 4096 -k; umount /"),
];

fn line(name: &str) -> &'static str {
    let found = LINES.iter().find(|(program, _)| *program == name);
    found
        .unwrap_or_else(|| panic!("give `{name}` a small command line here"))
        .1
}

/// Runs a command on a machine of 160 MiB that has every zone.
fn small(spec: &RunSpec, command: &str) -> RunResult {
    let mut spec = spec.clone();
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib * MIB),
    };
    let zones = vec![
        zone(mm::ZoneType::Dma, 8),
        zone(mm::ZoneType::Dma32, 88),
        zone(mm::ZoneType::Normal, 64),
    ];
    spec.machine.nodes = vec![NodeSpec {
        zones,
        cpus: Vec::new(),
    }];
    let boot = &mut spec.machine.boot;
    boot.kernel = Size(8 * MIB);
    (boot.anon, boot.cache) = (Size(4 * MIB), Size(2 * MIB));
    spec.workload = workload::parse(command).unwrap_or_else(|e| panic!("{command}: {e}"));
    spec.seed = 1;
    let result = sim::run(&spec, &Control::default());
    assert_eq!(result.outcome, Outcome::Completed, "{command}: {spec:?}");
    result
}

/// Returns true if a row is scored: it has a tolerance or a direction.
fn counts(row: &PublishedRow) -> bool {
    row.tolerance != Tolerance::None || row.direction.is_some()
}

#[test]
fn every_published_cell_has_a_run() {
    for series in shipped() {
        let planned = plan(series, None).expect("shipped experiments");
        for (row, run) in series.rows.iter().zip(&planned.rows) {
            if let Err(why) = run {
                panic!("{}: {} has no run: {why}", series.name, row.key());
            }
        }
    }
}

/// Rows that were added to tables must have been run.
#[test]
fn every_published_cell_was_run() {
    let scores = Scores::embedded().expect("data/scores.json");
    for series in shipped() {
        let measured = scores.of(&series.name);
        let scored = measured.as_ref().map(Drawn::scored).unwrap_or_default();
        let without = scored
            .iter()
            .filter(|s| counts(&s.row) && s.measured.is_none());
        let mut without: Vec<String> = without.map(|s| s.row.key()).collect();
        if measured.is_none() {
            without.push("any cell".into());
        }
        assert!(
            without.is_empty(),
            "{}: no run gave {without:?}; `just scores missing {}`",
            series.name,
            series.name
        );
    }
}

/// Scaled down to short runs, each workload must give every figure that is scored.
#[test]
fn every_published_figure_is_given_by_its_run() {
    for series in shipped() {
        let planned = plan(series, Some(1)).expect("shipped experiments");
        // One run for each workload, policy and setting of monitors: on the first machine, with the
        // first filesystem.
        let mut seen: BTreeMap<(&str, &str, bool), (&Experiment, &Cell, RunResult)> =
            BTreeMap::new();
        let mut checked = std::collections::BTreeSet::new();
        for (row, run) in series.rows.iter().zip(&planned.rows) {
            let experiment = &planned.runs[*run.as_ref().expect("a run")].experiment;
            let kind = (&row.workload[..], &row.policy[..], row.monitors);
            if !counts(row) || !checked.insert((kind, &row.metric)) {
                continue;
            }
            let (experiment, cell, result) = seen.entry(kind).or_insert_with(|| {
                let mut cells = experiment.cells.iter();
                let cell = cells.find(|c| c.policy == row.policy).expect("its cell");
                let program = program_of(cell);
                (experiment, cell, small(&cell.spec, line(program)))
            });
            given(series, row, experiment, cell, result);
        }
        assert!(!checked.is_empty(), "{}", series.name);
    }
}

/// Returns the program that a cell's figures come from: the last one in its command.
fn program_of(cell: &Cell) -> &'static str {
    let line = &cell.spec.workload.line;
    let named = workload::programs::named();
    let last = named.max_by_key(|name| line.rfind(&format!("{name} ")).map_or(0, |at| at + 1));
    last.expect("programs")
}

fn given(
    series: &Series,
    row: &PublishedRow,
    experiment: &Experiment,
    cell: &Cell,
    result: &RunResult,
) {
    let row = PublishedRow {
        machine: cell.machine.clone(),
        threads: cell.threads.clone(),
        filesystem: cell.filesystem.clone(),
        ..row.clone()
    };
    let outcomes = Outcomes {
        experiment: Experiment {
            cells: vec![cell.clone()],
            ..experiment.clone()
        },
        results: vec![vec![Some(result.clone())]],
        host: Vec::new(),
        interrupted: false,
        build: None,
    };
    if let Err(why) = plan::measure(&row, &outcomes, &[]) {
        panic!("{}: `{}` has no figure: {why}", series.name, row.metric);
    }
}

const EXPERIMENT: &str = "\
name = \"names\"
iterations = 1
policy = \"linux-3.16\"
filesystem = \"ext4\"
machine = \"machines/512M.toml\"
[workload]
command = \"sleep 0\"
";

fn names_experiment() -> Experiment {
    let files = |name: &str| {
        let text = lab::published::files::find(name).ok_or("no such file")?;
        Ok((name.to_owned(), text.to_owned()))
    };
    let source = Source::new("names.toml", EXPERIMENT);
    experiment::parse(&source, &files, &Overrides::default()).expect("a file")
}

/// A program's name for a figure must not be that of a row, a counter or another program's figure,
/// unless they are the same: otherwise `--rows`, `explain` and `compare` would confuse them.
#[test]
fn no_two_figures_share_a_name() {
    let experiment = names_experiment();
    let spec = &experiment.cells[0].spec;
    let mut units: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for name in workload::programs::named() {
        let result = small(spec, line(name));
        for (figure, metric) in &result.metrics {
            let (unit, first) = units.entry(figure.clone()).or_insert((metric.unit, name));
            assert_eq!(*unit, metric.unit, "`{figure}` of {first} and {name}");
            assert!(
                !result.counters.contains_key(figure),
                "{name}: `{figure}` is a counter, too"
            );
            let meant = row(figure).map(Entry::Row);
            for entry in meant.into_iter().chain(explain(figure).unwrap_or_default()) {
                same_figure(name, figure, metric.unit, entry, &result);
            }
        }
    }
}

fn same_figure(program: &str, figure: &str, unit: &str, entry: Entry, result: &RunResult) {
    match entry {
        Entry::Row(row) => {
            let value = result.metrics[figure].value;
            assert_eq!(
                (row.value)(result),
                Reading::Is(value),
                "{program}: `{figure}` is not what \u{201c}{}\u{201d} is",
                row.name
            );
        }
        Entry::Word(word) => assert_eq!(
            word.unit, unit,
            "{program}: `{figure}` is not the word `{}`",
            word.name
        ),
        Entry::Switch(_) | Entry::Preset(_) => {
            panic!("{program}: `{figure}` is the name of {}", entry.name())
        }
    }
}

/// Every name in `summary.csv` and `tasks.csv` of any program, and every row, must be usable in
/// `compare` and have an explanation.
#[test]
fn every_name_of_the_results_can_be_compared_by_and_is_explained() {
    let experiment = names_experiment();
    let spec = &experiment.cells[0].spec;
    let mut names = std::collections::BTreeSet::new();
    let mut runs = Vec::new();
    for name in workload::programs::named() {
        let result = small(spec, line(name));
        names.extend(result.metrics.keys().cloned());
        names.extend(result.counters.keys().cloned());
        let classes = result.tasks.iter().map(|t| t.class.name());
        let columns = lab::rows::time::task_columns();
        names.extend(classes.flat_map(|c| columns.iter().map(move |n| format!("{c}:{n}"))));
        runs.push(Some(result));
    }
    names.extend(lab::rows::definition::rows().map(|r| r.name.to_owned()));
    assert!(names.len() > 250, "{}", names.len());
    let mut unknown: Vec<String> = Vec::new();
    for name in &names {
        match lab::rows::figure(name) {
            // A row may be of real kernels only, or of a figure that this program does not give.
            Ok(_) if row(name).is_some() => {}
            Ok(figure) if !lab::rows::figure_values(&runs, &figure.name).is_empty() => {}
            Ok(_) => unknown.push(format!("{name} has no value")),
            Err(why) => unknown.push(format!("compare: {why}")),
        }
        let word = name.split_once(':').filter(|(_, c)| !c.starts_with(' '));
        let word = word.map_or(&name[..], |(_, column)| column);
        if lab::reference::find(word).is_err() {
            unknown.push(format!("explain: {word}"));
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}
