use super::*;
use clap::Parser;
use kernel::Kernel;
use lab::results::log::Header;
use lab::results::{Kind, Terms};
use sim::{Outcome, RunResult};

fn args(more: &[&str]) -> Run {
    let all = ["lowmark", "run", "x.toml"].iter().chain(more);
    match Cli::parse_from(all).command {
        Command::Run(args) => args,
        other => panic!("{other:?}"),
    }
}

fn outcomes(results: usize, interrupted: bool) -> Outcomes {
    let experiment = Experiment {
        settings: Default::default(),
        said: Vec::new(),
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
        host: Vec::new(),
        interrupted,
        build: None,
    }
}

fn place(dir: &Path) -> ClaimedFolder {
    let terms = Terms {
        kind: Kind::Run,
        title: "small",
        replace: false,
    };
    ClaimedFolder::claim(dir, terms).unwrap()
}

#[test]
fn an_experiment_of_no_cells_leaves_an_empty_results_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("results");
    let args = args(&["--quiet", "--out", out.to_str().unwrap()]);
    finish(
        &How::of(&args),
        &outcomes(0, false),
        place(&out),
        &BTreeMap::new(),
    )
    .unwrap();
    assert!(out.join("results.json").exists());
}

#[test]
fn an_interrupt_before_the_first_result_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("results");
    let failure = finish(
        &How::of(&args(&[])),
        &outcomes(6, true),
        place(&out),
        &BTreeMap::new(),
    )
    .unwrap_err();
    assert!(matches!(
        failure,
        Failure::Interrupted {
            finished: 0,
            wanted: 6,
            kept: None
        }
    ));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Returns an experiment with a small machine and a short workload.
fn tiny(dir: &Path, command: &str) -> Experiment {
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/512M.toml");
    let text = format!(
        "name = \"tiny\"\niterations = 2\npolicy = \"linux-3.1\"\nfilesystem = \"ext4\"\n\
         machine = \"{machine}\"\n[workload]\ncommand = \"{command}\"\n"
    );
    let file = dir.join("tiny.toml");
    std::fs::write(&file, text).unwrap();
    lab::experiment::load(&file, &Overrides::default()).unwrap()
}

/// Returns a runner whose iterations end with `outcome` of their number.
fn ending(
    outcome: impl Fn(u32) -> Outcome + Sync,
) -> impl Fn(&sim::RunSpec, &sim::Control) -> RunResult + Sync {
    let n = std::sync::atomic::AtomicU32::new(0);
    move |spec, control| {
        let mut result = sim::run(spec, control);
        result.outcome = outcome(n.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        result
    }
}

#[test]
fn iterations_that_failed_are_named_and_are_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = tiny(dir.path(), "dd if=/dev/zero of=x bs=4k count=1");
    let out = dir.path().join("out");
    let args = args(&["--quiet", "--jobs", "1", "--out", out.to_str().unwrap()]);
    let failing = ending(|n| match n {
        0 => Outcome::Completed,
        _ => Outcome::Failed {
            error: "no space left on the device".into(),
        },
    });
    let failure = run_loaded(&How::of(&args), &experiment, &failing).unwrap_err();
    let Failure::Results(text) = failure else {
        panic!("{failure:?}")
    };
    assert!(text.starts_with("1 of 2 iterations failed\n"), "{text}");
    assert!(
        text.contains("iteration 1: no space left on the device"),
        "{text}"
    );
    // Failed iterations are still results.
    assert!(out.join("results.json").exists());
}

#[test]
fn a_panic_leaves_what_was_finished() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = tiny(dir.path(), "dd if=/dev/zero of=x bs=4k count=1");
    let out = dir.path().join("out");
    let with = |more: &[&str]| args(&[&["--quiet", "--jobs", "1"], more].concat());
    let begun = with(&["--out", out.to_str().unwrap()]);
    let panicking = ending(|n| match n {
        0 => Outcome::Completed,
        _ => panic!("a bug in the engine"),
    });
    let broken =
        std::panic::AssertUnwindSafe(|| run_loaded(&How::of(&begun), &experiment, &panicking));
    assert!(std::panic::catch_unwind(broken).is_err());
    assert!(!out.exists());
    let failure = run_loaded(&How::of(&begun), &experiment, &sim::run).unwrap_err();
    assert!(format!("{failure:?}").contains("1 finished iterations"));
    let resumed = with(&["--resume", out.to_str().unwrap()]);
    run_loaded(
        &How::of(&resumed),
        &experiment,
        &ending(|_| Outcome::Completed),
    )
    .unwrap();
    assert!(out.join("results.json").exists());
    // Resuming again reports that nothing is left to do.
    run_loaded(&How::of(&resumed), &experiment, &sim::run).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn options_stand_above_the_file() {
    let e = adjusted(outcomes(0, false).experiment, &args(&["--seed", "9"]));
    assert_eq!((e.iterations, e.seed), (2, 9));
    let e = adjusted(outcomes(0, false).experiment, &args(&[]));
    assert_eq!((e.iterations, e.seed), (2, 1));
}

/// The rows in the form of a mail are in the folder of every run, with the release that a kernel
/// reports.
#[test]
fn a_run_leaves_its_rows_as_a_mail() {
    let dir = tempfile::tempdir().unwrap();
    let mut experiment = tiny(dir.path(), "dd if=/dev/zero of=x bs=4k count=1");
    let out = dir.path().join("out");
    let args = args(&["--quiet", "--out", out.to_str().unwrap()]);
    experiment.cells[0].kernel = Some(Kernel::new("mine"));
    let releases = [("mine".to_owned(), "6.12.1-mine".to_owned())].into();
    let outcomes = Outcomes {
        results: vec![vec![None, None]],
        host: Vec::new(),
        interrupted: false,
        build: None,
        experiment,
    };
    finish(&How::of(&args), &outcomes, place(&out), &releases).unwrap();
    let mail = std::fs::read_to_string(out.join("mail.txt")).unwrap();
    assert!(
        mail.contains("Linux 6.12.1-mine (kernel:mine)") && mail.contains("nothing was measured"),
        "{mail}"
    );
}

#[test]
fn a_mail_is_of_rows_and_no_json() {
    let parse = |more: &[&str]| {
        let all = ["lowmark", "run", "x.toml"].iter().chain(more);
        Cli::try_parse_from(all).is_ok()
    };
    assert!(parse(&["--rows", "--mail"]));
    assert!(!parse(&["--mail"]));
    assert!(!parse(&["--rows", "--mail", "--json"]));
    assert!(!parse(&["--rows", "--mail", "--quiet"]));
}

/// A folder's command goes on with other options, and not if this command names an experiment.
#[test]
fn a_folder_alone_goes_on_with_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let began = Began {
        folder: dir.path().to_owned(),
        words: ["run", "x.toml", "--out", "out", "--jobs", "3", "--quiet"]
            .map(str::to_owned)
            .into(),
    };
    let experiment = lab::experiment::load(
        Path::new("experiments/usb-stick.toml"),
        &Overrides::default(),
    );
    let header = Header {
        command: Some(began),
        ..Header::new(&experiment.unwrap(), false, "a build".into())
    };
    let mut place = place(&out);
    place.begin(&header).unwrap();
    let out = out.to_str().unwrap();
    let resumed = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let all = std::iter::once("lowmark").chain(words.iter().map(String::as_str));
        let Command::Run(args) = Cli::try_parse_from(all).unwrap().command else {
            panic!("{words:?}")
        };
        resumed(&args, &words).map(|(_, words)| words)
    };
    assert_eq!(
        resumed(&["run", "--resume", out, "--jobs", "2"]).unwrap(),
        [
            "run", "x.toml", "--jobs", "3", "--quiet", "--resume", out, "--jobs", "2"
        ]
    );
    assert!(resumed(&["run", "y.toml", "--resume", out]).is_none());
    assert!(resumed(&["run", "--resume", "elsewhere"]).is_none());
}
