use super::*;
use crate::model::{Experiment, Outcomes};
use crate::results::to_json;
use crate::runner::{fixture, iteration_seed};
use sim::Origin;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes results of the small experiment, changed by `edit`, to a new folder.
fn stored(dir: &Path, seed: u64, edit: &dyn Fn(&str, u32, &mut RunResult)) -> PathBuf {
    stored_of(fixture::experiment(6), dir, seed, edit)
}

/// Writes results as [`stored`] does, of another experiment of as many iterations.
fn stored_of(
    mut experiment: Experiment,
    dir: &Path,
    seed: u64,
    edit: &dyn Fn(&str, u32, &mut RunResult),
) -> PathBuf {
    experiment.seed = seed;
    experiment.text = "compare = [\"nr_vmscan_write\"]\n".into();
    let results = experiment.cells.iter().map(|cell| {
        let run = |i| {
            let mut spec = cell.spec.clone();
            spec.seed = iteration_seed(&experiment, i);
            let mut r = fixture::simulate(&spec, &sim::Control::default());
            edit(&cell.policy, i, &mut r);
            Some(r)
        };
        (0..6).map(run).collect()
    });
    let results = results.collect();
    let outcomes = Outcomes {
        experiment,
        results,
        host: Vec::new(),
        interrupted: false,
        build: None,
    };
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("results.json"), to_json(&outcomes)).unwrap();
    dir.to_owned()
}

fn side(label: &str, paths: &[&PathBuf]) -> Column {
    let files = paths.iter().map(|p| p.join("results.json"));
    let runs = files.flat_map(|p| read(&p).expect("results"));
    Column {
        label: label.into(),
        runs: runs.collect(),
    }
}

fn set(r: &mut RunResult, elapsed: f64) {
    r.metrics.get_mut("elapsed").expect("elapsed").value = elapsed;
}

#[test]
fn what_changed_is_claimed_and_what_did_not_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let a = stored(&dir.path().join("a"), 7, &|_, i, r| {
        set(r, 100.0 + f64::from(i))
    });
    let b = stored(&dir.path().join("b"), 8, &|policy, i, r| {
        let slower = if policy == "vanilla" { 20.0 } else { 0.0 };
        set(r, 100.0 + f64::from(i) + slower);
    });
    let compared = Compared::new(vec![side("a", &[&a]), side("b", &[&b])], &Wanted::default());
    let compared = compared.unwrap();
    assert_eq!(compared.places.len(), 4);
    let elapsed = compared
        .tables
        .iter()
        .find(|t| t.metric == "elapsed")
        .unwrap();
    for place in &compared.places {
        let row = Compared::row(elapsed, place, "b").unwrap();
        let vanilla = place.iter().any(|(_, v)| v == "vanilla");
        assert_eq!(claimed(row), vanilla.then_some(Verdict::More), "{place:?}");
        let (low, high) = row.comparison.unwrap().interval.unwrap();
        assert_eq!(low <= 0.0 && 0.0 <= high, !vanilla, "{low} {high}");
    }
    // Figures that the experiment asks for come first, whether or not they differ.
    assert_eq!(compared.tables[0].metric, "nr_vmscan_write");
    let said = compared.warnings.join("\n");
    assert!(said.contains("the seed differs: 7 (a); 8 (b)"), "{said}");
    let text = to_text(
        &compared,
        Form::Text(crate::terminal::Screen {
            width: Some(80),
            colour: false,
        }),
    );
    assert!(text.contains("+19.5 %"), "{text}");
    // No interval stands beside a difference that can't be claimed.
    let unclaimed: Vec<&str> = text.lines().filter(|l| l.contains(" ~ ")).collect();
    assert!(!unclaimed.is_empty(), "{text}");
    assert!(!unclaimed.iter().any(|l| l.contains('…')), "{unclaimed:?}");
    let too_wide = text
        .lines()
        .filter(|l| l.contains("%") && !l.contains(": "))
        .find(|l| l.chars().count() > 80);
    assert_eq!(too_wide, None, "{text}");
    let page = to_text(&compared, Form::Html);
    // The page begins with the tables; behind them it says how many figures differ at each place.
    let main = page.split("<main>").nth(1).unwrap();
    let at = |part: &str| {
        main.find(part)
            .unwrap_or_else(|| panic!("no {part}: {main}"))
    };
    assert!(
        at("<table") < 250 && page.contains("<b>elapsed</b>"),
        "{main}"
    );
    assert!(at("</table>") < at("b against a, n=6+6: "), "{main}");
    for other in ["class=\"findings\"", "id=\"groups\"", "Inside the runs"] {
        assert!(!page.contains(other), "{other}");
    }
    let json: serde_json::Value = serde_json::from_str(&to_text(&compared, Form::Json)).unwrap();
    assert_eq!(json["figures"][1]["rows"][1]["side"], "b");
    assert!(to_text(&compared, Form::Markdown).contains("| **+19.5 %** |"));
}

#[test]
fn runs_of_one_side_are_pooled_and_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let plain = |_: &str, i: u32, r: &mut RunResult| set(r, 100.0 + f64::from(i));
    let a = stored(&dir.path().join("a"), 7, &plain);
    let b = stored(&dir.path().join("b"), 8, &plain);
    let wanted = Wanted {
        baseline: Some("one".into()),
        ..Wanted::default()
    };
    let sides = || vec![side("two", &[&a, &b, &b]), side("one", &[&a])];
    let compared = Compared::new(sides(), &wanted).unwrap();
    assert_eq!(compared.labels, ["one", "two"]);
    let elapsed = compared
        .tables
        .iter()
        .find(|t| t.metric == "elapsed")
        .unwrap();
    assert_eq!(elapsed.rows[1].samples.len(), 12);
    let said = compared.warnings.join("\n");
    assert!(said.contains("24 iterations are in several runs"), "{said}");
    assert!(
        said.contains("24 iterations are the baseline's own"),
        "{said}"
    );
}

#[test]
fn other_policies_stand_side_by_side_and_strangers_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let a = stored(&dir.path().join("a"), 7, &|_, _, _| {});
    let edit = |path: &Path, from: &str, to: &str| {
        let text = fs::read_to_string(path.join("results.json")).unwrap();
        fs::write(path.join("results.json"), text.replace(from, to)).unwrap();
    };
    let b = stored(&dir.path().join("b"), 7, &|_, _, _| {});
    edit(&b, "xfs", "ext4");
    edit(&b, "btrfs", "ntfs");
    let failed = Compared::new(vec![side("a", &[&a]), side("b", &[&b])], &Wanted::default());
    let what = failed.unwrap_err().to_string();
    assert!(what.contains("a and b have no cell in common"), "{what}");
    // With one policy on each side, cells are matched by their filesystems.
    let only = |from: &Path, to: &str, policy: &str| {
        let mut json: serde_json::Value =
            serde_json::from_slice(&fs::read(from.join("results.json")).unwrap()).unwrap();
        json["cells"]
            .as_array_mut()
            .unwrap()
            .retain(|c| c["policy"] == policy);
        let dir = dir.path().join(to);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("results.json"), json.to_string()).unwrap();
        dir
    };
    let [v, p] = [only(&a, "v", "vanilla"), only(&a, "p", "patched, \"v2\"")];
    let compared = Compared::new(vec![side("v", &[&v]), side("p", &[&p])], &Wanted::default());
    let compared = compared.unwrap();
    assert_eq!(compared.places.len(), 2);
    assert!(
        compared
            .warnings
            .iter()
            .any(|w| w.contains("whatever their `policy`"))
    );
}

#[test]
fn wrong_sides_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let a = stored(&dir.path().join("a"), 7, &|_, _, _| {});
    let two = || vec![side("a", &[&a]), side("b", &[&a])];
    let refused =
        |columns, wanted: &Wanted| Compared::new(columns, wanted).unwrap_err().to_string();
    let none = Wanted {
        baseline: Some("c".into()),
        ..Wanted::default()
    };
    assert!(refused(two(), &none).contains("no side is called `c`"));
    let unknown = Wanted {
        figures: vec!["nonsense".into()],
        ..Wanted::default()
    };
    assert!(refused(two(), &unknown).contains("nonsense"));
    assert!(refused(vec![side("a", &[&a])], &Wanted::default()).contains("nothing to compare"));
    assert!(
        refused(vec![side("a", &[&a]), side("a", &[&a])], &Wanted::default()).contains("twice")
    );
    assert!(
        read(dir.path())
            .unwrap_err()
            .to_string()
            .contains("holds no results")
    );
    let file = dir.path().join("results.json");
    fs::write(&file, "{}").unwrap();
    let folder = read(dir.path()).unwrap_err().to_string();
    assert!(folder.contains("its manifest.json is missing"), "{folder}");
    let lone = read(&file).unwrap_err().to_string();
    assert!(lone.contains("not the results.json of a run"), "{lone}");
}

/// Writes results of the small experiment in a real kernel, with or without costs.
fn of_kernel(dir: &Path, seed: u64, costs: bool) -> PathBuf {
    let mut experiment = fixture::experiment(6);
    for cell in &mut experiment.cells {
        cell.kernel = Some(kernel::Kernel {
            costs,
            ..kernel::Kernel::new("6.12")
        });
    }
    stored_of(experiment, dir, seed, &|_, _, r| {
        r.origin = Origin::Kernel;
    })
}

#[test]
fn computing_takes_time_on_both_sides_or_on_none() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str, seed, costs| of_kernel(&dir.path().join(name), seed, costs);
    let (paying, free, other) = (of("a", 7, true), of("b", 8, false), of("c", 9, false));
    let engine = stored(&dir.path().join("e"), 7, &|_, _, _| {});
    let compare = |a: &PathBuf, b: &PathBuf| {
        let sides = vec![side("a", &[a]), side("b", &[b])];
        Compared::new(sides, &Wanted::default()).map_err(|e| e.to_string())
    };
    assert!(compare(&free, &other).is_ok());
    for (a, b) in [(&paying, &free), (&engine, &free)] {
        let said = compare(a, b).unwrap_err();
        assert!(said.contains("`a` and `b` can't be compared"), "{said}");
    }
    // In a run apart from the kernel, the engine had another amount of memory.
    let warnings = compare(&engine, &paying).unwrap().warnings.join("\n");
    assert!(warnings.contains("was run apart from it"), "{warnings}");
    let mut beside = fixture::experiment(6);
    beside.said.push("like guests".to_owned());
    let beside = stored_of(beside, &dir.path().join("f"), 7, &|_, _, _| {});
    let warnings = compare(&beside, &paying).unwrap().warnings.join("\n");
    assert!(!warnings.contains("was run apart from it"), "{warnings}");
}
