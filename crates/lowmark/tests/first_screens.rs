//! The first screens of all shipped experiments: short forms, run by the program itself. The
//! figures are those of runs that were cut, so only the form of a screen is judged.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Lines of a terminal.
const LINES: usize = 25;
/// Columns of a terminal.
const WIDTH: usize = 80;

/// Returns the options that make an experiment short; `None` for those that need a real kernel.
fn short(name: &str) -> Option<Vec<&'static str>> {
    // Changes in mid-run have to come before the time limit.
    Some(match name {
        _ if name.starts_with("kernel-") => return None,
        "slow-disk" => vec!["--set", "time_limit_s=11"],
        "xfssyncd" => vec![
            "--set",
            "time_limit_s=2",
            "--set",
            "at=[{ time = \"1s\", sysctl = { \"fs.xfs.xfssyncd_centisecs\" = [3000, 1000, 300, 100] } }]",
        ],
        _ => vec!["--set", "time_limit_s=2"],
    })
}

/// Returns the faults of a screen; `out` is standard output, `all` what a user sees.
fn faults(out: &str, all: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if all.lines().count() > LINES {
        faults.push("more lines than a terminal has");
    }
    if out.lines().any(|line| line.chars().count() > WIDTH) {
        faults.push("wider than a terminal");
    }
    let first = out.lines().find(|line| !line.starts_with("machine "));
    let is_verdict = |line: &str| {
        !line.starts_with(['─', ' ']) && !line.starts_with("note:") && !line.is_empty()
    };
    if !first.is_some_and(is_verdict) {
        faults.push("no verdict in the first line");
    }
    let figures = |line: &&str| line.chars().any(|c| c.is_ascii_digit()) && !line.starts_with(' ');
    let told: Vec<&str> = out.lines().filter(figures).collect();
    if told.len() != told.iter().collect::<BTreeSet<_>>().len() {
        faults.push("a sentence twice");
    }
    faults
}

#[test]
fn short_forms_of_all_experiments_have_a_first_screen() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().expect("a folder");
    let mut wrong = String::new();
    let mut seen = 0;
    for file in std::fs::read_dir(root.join("experiments")).expect("experiments") {
        let path = file.expect("a file").path();
        let name = path
            .file_stem()
            .and_then(|n| n.to_str())
            .unwrap_or_default()
            .to_owned();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let Some(options) = short(&name) else {
            continue;
        };
        seen += 1;
        let ran = Command::new(env!("CARGO_BIN_EXE_lowmark"))
            .arg("run")
            .arg(&path)
            .args(["--iterations", "1"])
            .args(options)
            .arg("--out")
            .arg(dir.path().join(&name))
            .env_remove("COLUMNS")
            .current_dir(dir.path())
            .output()
            .expect("the program runs");
        let [out, err] =
            [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
        // Every run may have reached the time limit, which is exit code 1.
        let code = ran.status.code();
        let mut faults = faults(&out, &format!("{out}{err}"));
        if !matches!(code, Some(0 | 1)) {
            faults.push("the run failed");
        }
        if !faults.is_empty() {
            wrong += &format!("{name}: {} ({code:?})\n{out}{err}\n", faults.join(", "));
        }
    }
    assert!(seen > 15, "{seen} experiments");
    assert!(wrong.is_empty(), "{wrong}");
}
