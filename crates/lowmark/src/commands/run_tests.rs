use super::*;
use clap::Parser;

fn args(more: &[&str]) -> Run {
    let all = ["lowmark", "run", "x.toml"].iter().chain(more);
    match crate::cli::Cli::parse_from(all).command {
        crate::cli::Command::Run(args) => args,
        other => panic!("{other:?}"),
    }
}

fn outcomes(results: usize, interrupted: bool) -> Outcomes {
    let experiment = Experiment {
        name: "small".into(),
        iterations: 2,
        seed: 1,
        text: String::new(),
        figures: Vec::new(),
        axes: Vec::new(),
        cells: Vec::new(),
    };
    Outcomes {
        experiment,
        results: vec![(0..results).map(|_| None).collect()],
        interrupted,
    }
}

#[test]
fn an_experiment_of_no_cells_leaves_an_empty_results_folder() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("results");
    let args = args(&["--quiet", "--out", place.to_str().unwrap()]);
    finish(&args, &outcomes(0, false), place.clone()).unwrap();
    assert!(place.join("results.json").exists());
}

#[test]
fn an_interrupt_before_the_first_result_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("results");
    let failure = finish(&args(&[]), &outcomes(6, true), place.clone()).unwrap_err();
    assert!(matches!(
        failure,
        Failure::Interrupted {
            finished: 0,
            wanted: 6,
            kept: None
        }
    ));
    assert!(!place.exists());
}

#[test]
fn options_stand_above_the_file() {
    let e = adjusted(outcomes(0, false).experiment, &args(&["--seed", "9"]));
    assert_eq!((e.iterations, e.seed), (2, 9));
    let e = adjusted(outcomes(0, false).experiment, &args(&[]));
    assert_eq!((e.iterations, e.seed), (2, 1));
}
