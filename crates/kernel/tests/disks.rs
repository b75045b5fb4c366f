//! Disks of guests: swap beside the filesystem, files laid out once, a user's own program in its
//! root. `LOWMARK_TEST_KERNEL` names a built kernel of the user's cache; without it the tests print
//! a note and pass.

mod common;

use common::{command, kernel, spec};
use kernel::{Kernel, run};
use sim::spec::{Size, SwapSpec};
use sim::{Outcome, RunResult, RunSpec};
use std::fs;
use std::path::Path;
use std::process::Command;
use workload::{ExistingFile, Foreign, Script};

fn completed(spec: &RunSpec, kernel: &Kernel) -> RunResult {
    let (result, _) = run(spec, kernel, kernel::PATIENCE, &Default::default());
    assert_eq!(result.outcome, Outcome::Completed, "{:?}", result.notes);
    result
}

#[test]
fn swap_shares_the_tested_disk() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec(command("burst -s 48M -n 2 -i 2s -h 1s"));
    spec.machine.boot.anon = Size(64 << 20);
    let size = Size((256 << 20) + 4096);
    spec.machine.swap = Some(SwapSpec { size, disk: None });
    let result = completed(&spec, &kernel);
    let swapped = result.counters["pswpout"];
    assert!(swapped > 1000, "{swapped}");
    // Swapped out pages are counted in the writes of the only disk, and no other disk is sampled.
    let written = result.counters["pgpgout"];
    assert!(written * 1024 >= swapped * 4096, "{written} KiB");
    let columns = &result.series.columns;
    let named = |name: &str| columns.iter().any(|c| c.name == name);
    assert!(named("write_throughput") && !named("swap_write_throughput"));
    assert_eq!(completed(&spec, &kernel).digest, result.digest);
}

/// The window of a disk is written to its queue: a reader of single pages gets requests of at most
/// that size, and so waits for the drive more often. (A read of more pages than the window asks for
/// all of them at once.)
#[test]
fn a_smaller_read_ahead_window_makes_more_reads() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec(command("dd if=given of=/dev/null bs=4k"));
    spec.workload.files = vec![ExistingFile {
        path: "given".into(),
        len: 16 << 20,
    }];
    let elapsed = |spec: &RunSpec| completed(spec, &kernel).metrics["elapsed"].value;
    let usual = elapsed(&spec);
    spec.params.read_ahead = 4.0;
    let small = elapsed(&spec);
    assert!(
        small > usual * 1.05,
        "{small} s, {usual} s with the default"
    );
}

#[test]
fn what_was_laid_out_is_there_again() {
    let Some(kernel) = kernel() else { return };
    let mut spec = spec(command("dd if=dir/given of=copy bs=1M & find . ; wait"));
    spec.machine.boot.cache = Size(4 << 20);
    // A length that no earlier run of this test has used: laid out now, and found again later.
    let ours = u64::from(std::process::id()) * 512 % (8 << 20);
    spec.workload.files = vec![ExistingFile {
        path: "dir/given".into(),
        len: (8 << 20) + ours,
    }];
    let images = kernel::build::Cache::of_user().unwrap().images();
    let kept = || {
        let all = fs::read_dir(&images).into_iter().flatten().flatten();
        let names = all.map(|e| e.file_name().to_string_lossy().into_owned());
        let mut disks: Vec<String> = names.filter(|n| n.starts_with("disks-")).collect();
        disks.sort();
        disks
    };
    let first = completed(&spec, &kernel);
    let after = kept();
    assert!(!after.is_empty());
    let second = completed(&spec, &kernel);
    assert_eq!(first.digest, second.digest);
    assert!(first.counters["pgpgin"] * 1024 >= 8 << 20);
    // The job of another policy finds the same disks.
    let lru_gen = Kernel {
        lru_gen: Some(true),
        costs: false,
        ..kernel
    };
    completed(&spec, &lru_gen);
    assert!(after.iter().all(|disks| kept().contains(disks)));
}

/// Copies a program of the host with its libraries into a root folder.
fn bring(root: &Path, program: &str) {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files = listed
        .split_ascii_whitespace()
        .filter(|w| w.starts_with('/'));
    for file in files.chain([program]) {
        let to = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
}

fn foreign(root: &Path, run: &str) -> Script {
    let program = Foreign {
        run: run.to_owned(),
        root: root.to_owned(),
        digest: kernel::image::folder_digest(root).unwrap(),
    };
    program.script()
}

#[test]
fn a_program_of_the_users_runs() {
    let Some(kernel) = kernel() else { return };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    bring(root, "/bin/sh");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/name"), "own\n").unwrap();
    let line = "read name </etc/name && test $name = own && test -s given/file && \
                while read line; do echo $line; done <given/file >copy && test -e /mnt/copy";
    let mut spec = spec(foreign(root, line));
    spec.workload.files = vec![ExistingFile {
        path: "given/file".into(),
        len: 65536,
    }];
    let first = completed(&spec, &kernel);
    assert!(first.metrics["elapsed"].value > 0.0);
    assert_eq!(completed(&spec, &kernel).digest, first.digest);

    spec.workload = foreign(root, "echo last words >&2; exit 7");
    let (result, _) = run(&spec, &kernel, kernel::PATIENCE, &Default::default());
    let Outcome::Failed { error } = &result.outcome else {
        panic!("{:?}", result.outcome)
    };
    assert!(
        error.contains("exit status: 7") && error.contains("last words"),
        "{error}"
    );

    fs::write(root.join("etc/name"), "another\n").unwrap();
    spec.workload = Foreign {
        run: line.into(),
        root: root.to_owned(),
        digest: "0".repeat(32),
    }
    .script();
    let (result, _) = run(&spec, &kernel, kernel::PATIENCE, &Default::default());
    let said = format!("{:?}", result.outcome);
    assert!(
        said.contains("was changed since the experiment was read"),
        "{said}"
    );

    let sqlite = "/usr/bin/sqlite3";
    if !Path::new(sqlite).exists() {
        eprintln!("skipped: no {sqlite}");
        return;
    }
    bring(root, sqlite);
    let sql = "create table t(a, b); with recursive n(i) as (values(1) union all select i + 1 from n \
               where i < 20000) insert into t select i, hex(zeroblob(200)) from n;\n";
    fs::write(root.join("bench.sql"), sql).unwrap();
    spec.workload = foreign(root, "sqlite3 db.sqlite </bench.sql");
    let first = completed(&spec, &kernel);
    assert!(first.counters["nr_dirtied"] * 4096 > 8 << 20);
    assert_eq!(completed(&spec, &kernel).digest, first.digest);
}
