use super::*;
use crate::runner::{fixture, iteration_seed};
use sim::Outcome;
use sim::result::{TrackerReport, TrackerRow};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes a named pipe.
pub(super) fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Returns two cells of two iterations: one ended early, and one has no samples.
fn outcomes() -> Outcomes {
    let mut experiment = fixture::experiment(2);
    experiment.cells.truncate(2);
    let mut results: Vec<Vec<_>> = experiment
        .cells
        .iter()
        .map(|cell| {
            (0..2)
                .map(|i| {
                    let mut spec = cell.spec.clone();
                    spec.seed = iteration_seed(&experiment, i);
                    Some(fixture::simulate(&spec, &sim::Control::default()))
                })
                .collect()
        })
        .collect();
    let early = results[1][0].as_mut().unwrap();
    early.outcome = Outcome::Oom {
        report: "order 0, 12 pages free".into(),
    };
    early.notes.push("3 dirty pages lost".into());
    early.metrics.clear();
    early.series = Default::default();
    early.tracker = Some(TrackerReport {
        rows: vec![TrackerRow {
            instantiated_by: "write",
            path: "writeback",
            event: "activated",
            count: 3,
        }],
    });
    Outcomes {
        experiment,
        results,
        host: Vec::new(),
        interrupted: false,
        build: None,
    }
}

fn terms(replace: bool) -> Terms<'static> {
    Terms {
        kind: Kind::Run,
        title: "small",
        replace,
    }
}

/// Writes complete results to a place.
fn write(
    dir: &Path,
    outcomes: &Outcomes,
    extra: &[File],
    replace: bool,
) -> Result<PathBuf, OutputError> {
    let place = ClaimedFolder::claim(dir, terms(replace))?;
    let published = place.publish(&|emit| files(outcomes, extra, emit))?;
    assert_eq!((published.trouble, published.notes), (None, Vec::new()));
    Ok(published.dir)
}

fn contents(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(
                contents(&path)
                    .into_iter()
                    .map(|(k, v)| (format!("{name}/{k}"), v)),
            );
        } else {
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    found
}

#[test]
fn files_are_what_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("deep/results");
    let extra = [
        File::new("comparison.txt", "~"),
        File::new("more/report.html", "<p>"),
    ];
    write(&place, &outcomes(), &extra, false).unwrap();
    let found = contents(dir.path());
    let (lists, found): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|(name, _)| name.ends_with(MANIFEST));
    assert!(lists.len() == 1 && lists[0].1.contains("\"path\": \"more/report.html\""));
    let text: String = found
        .iter()
        .map(|(name, text)| format!("==== {name}\n{text}\n"))
        .collect();
    let version = format!("\"lowmark\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version));
    insta::assert_snapshot!(text.replace(&version, "\"lowmark\": \"VERSION\""));
}

#[test]
fn equal_outcomes_give_equal_bytes_and_replace_earlier_ones_where_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("results");
    let old = [File::new("report.html", "old")];
    write(&place, &outcomes(), &old, false).unwrap();
    let first = contents(dir.path());
    let error = write(&place, &outcomes(), &old, false).unwrap_err();
    assert!(error.to_string().contains("--replace"), "{error}");
    assert_eq!(contents(dir.path()), first);
    write(&place, &outcomes(), &old, true).unwrap();
    assert_eq!(contents(dir.path()), first);
    write(&place, &outcomes(), &[], true).unwrap();
    assert!(!place.join("report.html").exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_interrupted_run_is_kept_beside_as_far_as_it_got() {
    let mut o = outcomes();
    o.results[0] = vec![None, None];
    o.results[1][0] = None;
    o.interrupted = true;
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("results");
    write(&place, &outcomes(), &[], false).unwrap();
    let complete = contents(&place);
    let claimed = ClaimedFolder::claim(&place, terms(true)).unwrap();
    let partial = claimed.keep_partial(&|emit| files(&o, &[], emit)).unwrap();
    assert_eq!(partial, dir.path().join("results.partial"));
    let found = contents(&partial);
    assert!(found["results.json"].contains("\"interrupted\": true"));
    assert!(found[MANIFEST].contains("\"complete\": false"));
    assert_eq!(found["iterations.csv"].lines().count(), 2);
    assert!(!found.keys().any(|name| name.starts_with("series/")));
    assert_eq!(contents(&place), complete);
}

/// Every table of a folder must be readable: a new column of words must be added to the known ones.
#[test]
fn all_tables_of_a_run_can_be_read() {
    let outcomes = outcomes();
    let mut read = 0;
    files(&outcomes, &[], &mut |file| {
        let known = table::TABLES.iter().any(|(_, name)| *name == file.path);
        if known {
            let table = table::Table::read(&file.path, &file.bytes, &outcomes.experiment.axes);
            assert!(!table.unwrap().columns.is_empty());
            read += 1;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(read, table::TABLES.len());
}

/// Opening a pipe without a writer waits for one.
#[test]
fn a_pipe_in_the_place_of_a_log_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let partial = dir.path().join("q.partial");
    fs::create_dir(&partial).unwrap();
    fifo(&partial.join(log::LOG));
    assert!(stored::list(dir.path()).unwrap().is_empty());
    assert!(log::began(&partial).is_none());
    assert!(sweep(dir.path()).is_empty());
    let both = fs::File::options()
        .read(true)
        .write(true)
        .open(partial.join(log::LOG));
    assert!(matches!(log::count(&both.unwrap()), Ok(None)));
}

/// Opening a pipe without a reader waits for one, too.
#[test]
fn a_single_file_may_be_a_pipe_with_a_reader() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    fifo(&pipe);
    let create = || Single::create(&pipe, false, |_| Ok(true));
    let refused = create().map(drop).unwrap_err().to_string();
    assert!(refused.contains("no program reads"), "{refused}");
    let opening = pipe.clone();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        let read = fs::File::open(opening).unwrap().read_to_end(&mut all);
        read.map(|_| all.len()).unwrap()
    });
    let mut file = loop {
        match create() {
            Ok(file) => break file,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    file.write_all(&vec![b'x'; 1 << 20]).unwrap();
    file.finish().unwrap();
    assert_eq!(reader.join().unwrap(), 1 << 20);
}
