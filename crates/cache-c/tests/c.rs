//! The header is what cbindgen makes of the source, and C programs compiled with it get what it says.

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
    let files = ["lib", "answer", "config", "file", "page"];
    let files = files.map(|f| here().join(format!("src/{f}.rs")));
    let builder = files.iter().fold(builder, |b, f| b.with_src(f));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = here().join("include/lowmark_cache.h");
    if std::env::var_os("LOWMARK_WRITE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "LOWMARK_WRITE=1 writes it anew");
}

/// Where cargo has put the library that it has built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut found = folders.map(|f| f.join("liblowmark_cache_c.so"));
    found.find(|f| f.exists()).expect("cargo builds it")
}

/// Compiles a C program without a warning and runs it.
fn run(compiler: &[&str], source: &str, args: &[&OsStr]) -> Output {
    let dir = TempDir::new().unwrap();
    let (program, library) = (dir.path().join("program"), library());
    let folder = library.parent().unwrap();
    let mut cc = Command::new(compiler[0]);
    cc.args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here().join("include"))
        .arg(here().join(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(folder)
        .args(["-llowmark_cache_c", "-lpthread"])
        .arg(format!("-Wl,-rpath,{}", folder.display()));
    let compiled = cc.output().unwrap();
    let said = text(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    // As a user's program: in a folder of its own.
    let mut ours = Command::new(program);
    ours.args(args).current_dir(dir.path()).output().unwrap()
}

const C11: [&str; 2] = ["cc", "-std=c11"];

#[test]
fn the_example_does_what_it_says() {
    for args in [&[][..], &[OsStr::new("data"), OsStr::new("ring")]] {
        let output = run(&C11, "examples/first.c", args);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        let mut lines = said.lines();
        let pages = "2048 pages, 1 of them in the file's cache, many evicted";
        assert_eq!(lines.next(), Some(pages));
        let metrics = "# TYPE lowmark_cache_memory_bytes gauge";
        assert_eq!(lines.next(), Some(metrics));
        assert_eq!(lines.next(), Some("lost: 0 pages, 0 files"));
        let version = format!("version {}, notices ", env!("CARGO_PKG_VERSION"));
        assert!(lines.next().is_some_and(|l| l.starts_with(&version)));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let output = run(&C11, "tests/wrong.c", &[]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "nothing is printed");
    let line = |begin: &str| {
        let found = said.lines().find(|l| l.starts_with(begin));
        found.unwrap_or_else(|| panic!("{begin}: {said}"))
    };
    let null = -libc::EFAULT;
    let of_nothing = "file of nothing,shutdown of nothing,stats of nothing,text of nothing,read of nothing,\
        readv of nothing,write of nothing,writev of nothing,advise nothing,prefetch nothing,drop nothing,\
        flush nothing,fsync nothing,truncate nothing,size of nothing,open nowhere,no name,no place,no buffer,\
        no bytes,a hole,no list,no page,no place for bytes,neither,no stats,no text";
    for what in of_nothing.split(',').map(str::trim) {
        let line = line(&format!("{what}: {null}: "));
        assert!(line.ends_with("` is NULL"), "{line}");
    }
    let invalid = -libc::EINVAL;
    for (what, code, word) in [
        ("little memory", invalid, "memory = 1: accepted are 32 KiB"),
        ("policy", invalid, "linux-9.9"),
        ("policy", invalid, ", linux-6.12"),
        ("zeros", invalid, "memory = 0"),
        ("a folder", -libc::ENODEV, "a directory"),
        ("a device", -libc::ENODEV, "a character device"),
        ("no folder", -libc::ENOENT, "No such file"),
        ("nothing of nothing", 0, ""),
        ("a long buffer", invalid, "`buffer` has"),
        ("an empty piece", 2, ""),
        ("much", invalid, "`buffers` have more than"),
        ("a negative count", invalid, "there are -1 of `buffers`"),
        ("far out", -libc::EFBIG, "16 TiB"),
        ("too long", -libc::EFBIG, "16 TiB"),
        ("advice", invalid, "advice = 77; accepted: POSIX_FADV"),
        ("behind the end", -libc::ENXIO, "behind the file's end"),
        ("busy", -libc::EBUSY, "1 pages are pinned for writing"),
        ("all pinned", -5003, "let some go"),
        ("without its cache", 4, ""),
        ("the end", 0, ""),
        ("after it", -libc::ESHUTDOWN, "shut down"),
        ("synced after it", -libc::ESHUTDOWN, "shut down"),
        ("opened after it", -libc::ESHUTDOWN, "shut down"),
        ("once more", 0, ""),
    ] {
        let line = line(&format!("{what}: {code}: "));
        assert!(line.contains(word), "{line}");
    }
    for place in [
        "file: 0",
        "text: 0",
        "cache: 0",
        "page: 0 0",
        "refused is NULL: 1",
        "written: 1",
    ] {
        assert_eq!(line(place), place);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
