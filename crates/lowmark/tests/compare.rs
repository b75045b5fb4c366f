//! Tests of `compare` on runs of the program.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const EXPERIMENT: &str = "name = \"small\"\niterations = 6\npolicy = [\"linux-3.0\", \"linux-3.1\"]\nfilesystem = \"ext4\"\n\
    [machine]\nname = \"small\"\ncpus = 1\n[[machine.node]]\nzones = [{ zone = \"Normal\", size = \"64M\" }]\n\
    [machine.boot]\nkernel = \"16M\"\nanon = \"8M\"\ncache = \"0\"\n\
    [machine.disk]\nkind = \"disk\"\ncapacity = \"1G\"\n[workload]\ncommand = \"dd if=/dev/zero of=a bs=64k count=1024\"\n";

fn lowmark(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
    let command = command.current_dir(dir).args(args).env("COLUMNS", "80");
    command.output().expect("the program")
}

fn good(dir: &Path, args: &[&str]) -> String {
    let output = lowmark(dir, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn runs_of_two_seeds_and_two_disks_are_compared() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("a file");
    let run = |more: &[&str]| good(dir, &[&["run", "e.toml", "--quiet"], more].concat());
    run(&["--out", "one"]);
    run(&["--out", "two", "--seed", "2"]);
    run(&[
        "--out",
        "ssd",
        "--seed",
        "3",
        "--set",
        "machine.disk.kind=\"ssd\"",
    ]);
    let text = good(dir, &["compare", "hdd=one,two", "ssd"]);
    assert!(
        text.contains("ext4 linux-3.0: ssd against hdd, n=6+12"),
        "{text}"
    );
    assert!(
        text.contains("the seed differs: 1, 2 (hdd); 3 (ssd)"),
        "{text}"
    );
    let tables = text.lines().filter(|l| !l.contains(": "));
    assert!(tables.clone().count() > 10);
    assert!(tables.clone().all(|l| l.chars().count() <= 80), "{text}");
    // The comparison must report a difference between disks, and none between seeds.
    let json = |sides: &[&str]| -> Value {
        let args = [
            &["compare", "--format", "json", "--figure", "elapsed"],
            sides,
        ]
        .concat();
        serde_json::from_str(&good(dir, &args)).expect("JSON")
    };
    let verdict = |v: &Value| {
        v["figures"][0]["rows"][1]["verdict"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(verdict(&json(&["one", "ssd"])).as_deref(), Some("better"));
    assert_eq!(
        verdict(&json(&["one", "two"])).as_deref(),
        Some("not to be claimed")
    );
    // With the sides swapped the result is worse.
    let turned = json(&["one", "ssd", "--baseline", "ssd"]);
    assert_eq!(verdict(&turned).as_deref(), Some("worse"));
    assert!(good(dir, &["compare", "one", "two", "--format", "markdown"]).contains("| elapsed ["));
    good(
        dir,
        &[
            "compare",
            "one",
            "two",
            "--format",
            "html",
            "--out",
            "page.html",
        ],
    );
    assert!(
        fs::read_to_string(dir.join("page.html"))
            .expect("a page")
            .contains("two against one")
    );
    let again = lowmark(dir, &["compare", "one", "two", "--out", "page.html"]);
    assert_eq!(again.status.code(), Some(2));
    // The results record the program's version.
    let version = good(dir, &["--version"]);
    let results: Value =
        serde_json::from_str(&fs::read_to_string(dir.join("one/results.json")).expect("results"))
            .expect("JSON");
    assert_eq!(
        Some(version.trim()),
        results["build"]
            .as_str()
            .map(|b| format!("lowmark {b}"))
            .as_deref()
    );
}

#[test]
fn the_values_of_an_axis_are_compared() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("a file");
    let kinds = "machine.disk.kind=[\"disk\", \"ssd\", \"usb-flash\"]";
    good(
        dir,
        &["run", "e.toml", "--quiet", "--out", "sweep", "--set", kinds],
    );
    let text = good(
        dir,
        &["compare", "sweep", "--by", "kind", "--baseline", "ssd"],
    );
    assert!(text.contains("usb-flash against ssd, n=6+6"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let json = [
        "compare", "sweep", "--by", "kind", "--format", "json", "--figure", "elapsed",
    ];
    let json: Value = serde_json::from_str(&good(dir, &json)).expect("JSON");
    let rows = json["figures"][0]["rows"].as_array().expect("rows");
    let of = |side: &str| rows.iter().find(|r| r["side"] == side).expect("a row");
    assert_eq!(
        of("disk")["verdict"],
        Value::Null,
        "the first value is the baseline"
    );
    assert_eq!(of("usb-flash")["verdict"], "worse");
    let wrong = lowmark(dir, &["compare", "sweep", "--by", "cpus"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("machine.disk.kind"), "{said}");
}

#[test]
fn what_has_nothing_in_common_is_one_clear_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("a file");
    let run = |out: &str, set: &str| {
        let args = [
            "run",
            "e.toml",
            "--quiet",
            "--iterations",
            "1",
            "--out",
            out,
        ];
        good(dir, &[&args[..], &["--set", set]].concat());
    };
    run("one", "machine.cpus=[1, 2]");
    run("other", "machine.cpus=[3, 4]");
    let refused = lowmark(dir, &["compare", "one", "other"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("one and other have no cell in common"),
        "{said}"
    );
    assert_eq!(
        lowmark(dir, &["compare", "one", "nowhere"]).status.code(),
        Some(2)
    );
}

#[test]
fn what_comes_with_the_program_needs_no_checkout() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let list = good(dir, &["examples"]);
    assert!(list.contains("experiments/usb-stick.toml") && list.contains("machines/512M.toml"));
    assert!(list.lines().all(|l| l.chars().count() <= 80), "{list}");
    let long = "experiments/fair-zones/second-working-set.toml";
    assert!(list.lines().any(|l| l == long), "a path is whole: {list}");
    let text = good(dir, &["examples", "usb-stick"]);
    assert!(text.contains("name = \"usb-stick\""), "{text}");
    assert_eq!(
        lowmark(dir, &["examples", "nothing"]).status.code(),
        Some(2)
    );
    // By path, by name, and with included machines and policies.
    for name in ["experiments/tunable-watermarks.toml", "usb-stick"] {
        good(dir, &["run", name, "--list"]);
    }
    assert!(good(dir, &["new"]).contains("mine.toml is written"));
    assert_eq!(
        lowmark(dir, &["new"]).status.code(),
        Some(2),
        "the file is there"
    );
    let text = good(dir, &["run", "mine.toml", "--iterations", "1"]);
    assert!(
        text.starts_with("too few iterations to tell mine from linux-6.12 in alloc_wait_max"),
        "{text}"
    );
    // The first screen, and with all tables where they are asked for.
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(text.lines().count() <= 25, "{text}");
    let whole = good(dir, &["run", "mine.toml", "--iterations", "1", "--verbose"]);
    assert!(
        whole.starts_with("ext4: mine against linux-6.12: alloc_wait_max"),
        "{whole}"
    );
    // The schema describes the experiment's keys.
    let schema: Value = serde_json::from_str(&good(dir, &["schema", "experiment"])).expect("JSON");
    assert!(schema["properties"]["compare"].is_object());
    let machine: Value = serde_json::from_str(&good(dir, &["schema"])).expect("JSON");
    assert_eq!(machine["title"], "Machine");
}

#[test]
fn a_fio_job_runs_without_an_experiment() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let job = "[global]\nsize=16M\nbs=64k\n[write]\nrw=write\n";
    fs::write(dir.join("job.fio"), job).expect("a file");
    let args = [
        "run",
        "--fio",
        "job.fio",
        "--machine",
        "512M",
        "--policy",
        "linux-3.0,linux-3.1",
    ];
    let text = good(dir, &args);
    assert!(
        text.starts_with("linux-3.1 is the same as linux-3.0 in every run"),
        "{text}"
    );
    let tables = text.lines().filter(|l| !l.contains(": "));
    assert!(tables.clone().all(|l| l.chars().count() <= 80), "{text}");
    assert!(dir.join("results/fio-job.fio/latest/results.json").exists());
    let both = lowmark(
        dir,
        &[
            "run",
            "--fio",
            "job.fio",
            "--trace",
            "t",
            "--machine",
            "512M",
        ],
    );
    assert_eq!(both.status.code(), Some(2));
}

/// Figures that were changed after the run are refused.
#[test]
fn results_that_were_changed_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("a file");
    good(
        dir,
        &[
            "run",
            "e.toml",
            "--quiet",
            "--iterations",
            "1",
            "--out",
            "one",
        ],
    );
    good(
        dir,
        &[
            "run",
            "e.toml",
            "--quiet",
            "--iterations",
            "1",
            "--out",
            "two",
            "--seed",
            "2",
        ],
    );
    let change = |name: &str| {
        let path = dir.join("two").join(name);
        let text = fs::read_to_string(&path).expect("a text");
        let (head, tail) = text.split_at(text.rfind(char::is_numeric).expect("a number"));
        let digit = if tail.starts_with('1') { "2" } else { "1" };
        fs::write(&path, format!("{head}{digit}{}", &tail[1..])).expect("space");
        text
    };
    let refused = |args: &[&str]| {
        let output = lowmark(dir, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("changed since lowmark wrote it"),
            "{args:?}: {said}"
        );
        assert!(output.stdout.is_empty(), "{args:?}");
    };
    let right = change("results.json");
    refused(&["compare", "one", "two"]);
    refused(&["compare", "one", "two/results.json"]);
    refused(&["export", "two", "--jsonl", "lines"]);
    // A copied results file belongs to no results folder.
    fs::copy(dir.join("two/results.json"), dir.join("copy.json")).expect("space");
    good(dir, &["compare", "one", "copy.json"]);
    fs::write(dir.join("two/results.json"), right).expect("space");
    good(dir, &["compare", "one", "two"]);
    assert!(!note(dir, &["compare", "one", "two"]).contains("note:"));
    let said = note(dir, &["compare", "one", "copy.json"]);
    assert!(
        said.contains("note: `copy.json` could not be checked"),
        "{said}"
    );
    change("rows.txt");
    refused(&["report", "two"]);
    good(dir, &["report", "one"]);
}

/// Runs the program, which must succeed, and returns what it said beside its output.
fn note(dir: &Path, args: &[&str]) -> String {
    let output = lowmark(dir, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

#[test]
fn results_without_their_list_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("space");
    for (out, seed) in [("one", "1"), ("two", "2")] {
        let args = ["run", "e.toml", "--quiet", "--iterations", "1"];
        good(dir, &[&args[..], &["--out", out, "--seed", seed]].concat());
    }
    // A folder whose list was removed, or replaced by something else, can't be checked.
    let list = dir.join("two/manifest.json");
    let listed = fs::read(&list).expect("a list");
    let replace: [&dyn Fn(); 4] = [
        &|| {},
        &|| fs::write(&list, "{}").expect("space"),
        &|| std::os::unix::fs::symlink("/dev/zero", &list).expect("a link"),
        &|| {
            let made = Command::new("mkfifo").arg(&list).status();
            assert!(made.expect("mkfifo").success());
        },
    ];
    for replace in replace {
        let _ = fs::remove_file(&list);
        replace();
        for args in [
            &["compare", "one", "two"][..],
            &["export", "two", "--jsonl", "lines"],
            &["report", "two"],
        ] {
            let output = lowmark(dir, args);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains("accepted:"), "{args:?}: {said}");
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains("can't be checked for"), "{args:?}: {said}");
        }
        let said = note(dir, &["compare", "one", "two/results.json"]);
        assert!(said.contains("could not be checked"), "{said}");
        assert!(!dir.join("lines").exists());
    }
    fs::remove_file(&list).expect("a file");
    fs::write(&list, listed).expect("space");
    good(dir, &["compare", "one", "two"]);
}
