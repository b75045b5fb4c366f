use super::folder::write_formats;
use super::*;
use crate::runner::{fixture, iteration_seed};
use sim::Outcome;
use sim::result::{TrackerReport, TrackerRow};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Two cells of two iterations: one ended early, one has nothing sampled.
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
        interrupted: false,
    }
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
    write(&place, &outcomes(), &extra).unwrap();
    let found = contents(dir.path());
    let text: String = found
        .iter()
        .map(|(name, text)| format!("==== {name}\n{text}\n"))
        .collect();
    let version = format!("\"lowmark\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version));
    insta::assert_snapshot!(text.replace(&version, "\"lowmark\": \"VERSION\""));
}

#[test]
fn equal_outcomes_give_equal_bytes_and_replace_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("results");
    write(&place, &outcomes(), &[File::new("report.html", "old")]).unwrap();
    let first = contents(dir.path());
    write(&place, &outcomes(), &[File::new("report.html", "old")]).unwrap();
    assert_eq!(contents(dir.path()), first);
    write(&place, &outcomes(), &[]).unwrap();
    assert!(!place.join("report.html").exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

struct Broken;

impl Format for Broken {
    fn files(
        &self,
        _: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        emit(File::new("half.csv", "a,b\n1,"))?;
        Err(std::io::Error::other("no space left"))
    }
}

#[test]
fn a_failed_writer_leaves_things_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("results");
    let broken: [&dyn Format; 2] = [&json::ResultsJson, &Broken];
    let error = write_formats(&place, &outcomes(), &[], &broken)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("half.csv") && error.contains("no space left"),
        "{error}"
    );
    assert!(contents(dir.path()).is_empty());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    write(&place, &outcomes(), &[]).unwrap();
    let before = contents(dir.path());
    write_formats(&place, &outcomes(), &[], &broken).unwrap_err();
    assert_eq!(contents(dir.path()), before);
    let outside = File::new("../elsewhere.txt", "x");
    write(&place, &outcomes(), &[outside]).unwrap_err();
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn what_is_not_ours_stays() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = |what: &str| {
        let before = contents(dir.path());
        for error in [
            check_target(&dir.path().join("x")).unwrap_err(),
            write(&dir.path().join("x"), &outcomes(), &[]).unwrap_err(),
        ] {
            assert!(matches!(error, OutputError::Foreign { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(contents(dir.path()), before);
    };
    fs::write(dir.path().join("x"), "a file").unwrap();
    foreign("is not a folder");
    fs::remove_file(dir.path().join("x")).unwrap();
    fs::create_dir(dir.path().join("x")).unwrap();
    check_target(&dir.path().join("x")).unwrap();
    fs::write(dir.path().join("x/thesis.tex"), "years").unwrap();
    foreign("has no results.json of ours");
    fs::write(dir.path().join("x/results.json"), "{\"jest\": 1}").unwrap();
    foreign("has a results.json that is not ours");
    assert!(matches!(
        check_target(Path::new("/")),
        Err(OutputError::Foreign { .. })
    ));
    assert!(matches!(
        check_target(Path::new("nothing/..")),
        Err(OutputError::Unnamed { .. })
    ));
}

#[test]
fn an_interrupted_run_is_written_as_far_as_it_got() {
    let mut o = outcomes();
    o.results[0] = vec![None, None];
    o.results[1][0] = None;
    o.interrupted = true;
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("results");
    write(&place, &o, &[]).unwrap();
    let found = contents(&place);
    assert!(found["results.json"].contains("\"interrupted\": true"));
    assert_eq!(found["iterations.csv"].lines().count(), 2);
    assert!(!found.keys().any(|name| name.starts_with("series/")));
}
