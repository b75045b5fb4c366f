//! Tests that the header is what cbindgen generates from the source, and that C programs compiled
//! with it get the documented answers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_of_the_source() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let files = ["src/lib.rs"].map(|f| here().join(f));
    let builder = files.iter().fold(builder, |b, f| b.with_src(f));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = here().join("include/lowmark.h");
    if std::env::var_os("LOWMARK_WRITE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "LOWMARK_WRITE=1 writes it anew");
}

/// Returns the path of the library that cargo has built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut found = folders.map(|f| f.join("liblowmark_c.so"));
    found.find(|f| f.exists()).expect("cargo builds it")
}

/// Compiles a C program without a warning and runs it.
fn run(source: &str, args: &[&OsStr]) -> Output {
    let dir = TempDir::new().unwrap();
    let (program, library) = (dir.path().join("program"), library());
    let folder = library.parent().unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here().join("include"))
        .arg(here().join(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(folder)
        .arg("-llowmark_c")
        .arg(format!("-Wl,-rpath,{}", folder.display()));
    let compiled = gcc.output().unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    // Like a user's program, in a folder of its own.
    let mut ours = Command::new(program);
    ours.args(args).current_dir(dir.path()).output().unwrap()
}

#[test]
fn the_example_answers() {
    let output = run("examples/first.c", &[]);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert_eq!(told, "0 of 4\n1 of 4\n2 of 4\n3 of 4\n4 of 4\n");
    assert!(said.contains("linux-3.1"), "{said}");
    assert!(said.contains("begins machine"), "{said}");
    // As in the curves of `mrc_keys` in Rust: LRU with five pages never hits in a cycle over ten.
    let lines: Vec<&str> = said.lines().rev().take(5).collect();
    let lru = |size: &str| lines.iter().any(|l| l.starts_with(&format!("lru,{size},")));
    assert!(lru("5") && lru("10"), "{said}");
}

const EXPERIMENT: &str = "name = \"e\"\niterations = 3\npolicy = \"linux-3.1\"\nfilesystem = \"ext4\"\n\
    machine = \"machines/512M.toml\"\nworkload = { command = \"dd if=/dev/zero of=a bs=64k count=64\" }\n";

#[test]
fn what_is_wrong_is_said() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    let output = run("tests/wrong.c", &[OsStr::new(EXPERIMENT), out.as_os_str()]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    let line = |begin: &str| {
        let found = said.lines().find(|l| l.starts_with(begin));
        found.unwrap_or_else(|| panic!("{begin}: {said}"))
    };
    for (what, code, word) in [
        ("a key", 2, "nonsense"),
        ("a file", 2, "/nowhere.toml"),
        ("a name", 2, "`name` is NULL"),
        ("no place", 2, "the pointer for results is NULL"),
        ("nobody asks", 2, "-"),
        ("a setting", 2, "cpus"),
        ("a list", 2, "`set` is NULL; accepted: a list of 1"),
        ("stopped", 130, ""),
        ("policy", 2, "lruu"),
        ("keys", 2, "`keys` is NULL; accepted: a list of 7"),
        ("trace", 2, "/nowhere"),
        ("a run", 0, "-"),
    ] {
        let line = line(&format!("{what}: {code}: "));
        assert!(line.contains(word), "{line}");
    }
    assert_eq!(line("results: "), "results: 0");
    assert_eq!(
        line("heard: "),
        "heard: 1",
        "it is stopped before the first"
    );
    assert_eq!(line("nothing: "), "nothing: 1 1 1");
    // Every file listed is in the folder.
    for file in said.lines().filter_map(|l| l.strip_prefix("file ")) {
        assert!(out.join(file).exists(), "{file}");
    }
    assert!(said.contains("\nfile summary.csv\n"), "{said}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
