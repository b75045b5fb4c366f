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
    // cbindgen continues to the modules that lib.rs names.
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = builder.with_src(here().join("src/lib.rs"));
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

/// Returns the path of the library that cargo has built for this test.
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
    // Like a user's program, in a folder of its own.
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
        for line in [
            "recorded: all accesses, some missed",
            "results: some freed, those that are left: as they were",
            "class 1: 256 pages, low at 8, most of the index there",
            pages,
        ] {
            assert_eq!(lines.next(), Some(line), "{said}");
        }
        let metrics = "# TYPE lowmark_cache_memory_bytes gauge";
        assert_eq!(lines.next(), Some(metrics));
        assert_eq!(lines.next(), Some("lost: 0 pages, 0 files"));
        let version = format!("version {}, notices ", env!("CARGO_PKG_VERSION"));
        assert!(lines.next().is_some_and(|l| l.starts_with(&version)));
    }
}

const INVALID: i32 = -libc::EINVAL;

/// For each wrong call: its name, the number it returns, and a part of the message.
const SAID: &[(&str, i32, &str)] = &[
    ("little memory", INVALID, "memory = 1: accepted are 32 KiB"),
    ("policy", INVALID, "linux-9.9"),
    ("policy", INVALID, ", linux-6.12"),
    ("zeros", INVALID, "memory = 0"),
    (
        "held",
        INVALID,
        "held = 7; accepted: LOWMARK_CACHE_ORDINARY",
    ),
    (
        "above none",
        INVALID,
        "class 2 has memory and class 1 has none",
    ),
    ("a small class", INVALID, "class 1 has 0 of 65536 KiB"),
    ("large classes", INVALID, "class 0 has 0 of 65536 KiB"),
    ("a class held", INVALID, "held = -1; accepted"),
    ("marks", INVALID, "class 2, watermarks 1, 0, 0 bytes"),
    (
        "high marks",
        INVALID,
        "class 0, watermarks 0, 0, 18446744073709551615",
    ),
    ("unregister nothing", 0, ""),
    ("a class", 1, ""),
    ("how many classes", 1, ""),
    ("negative classes", INVALID, "the number of `stats` is -1"),
    ("no such class", INVALID, "class 1: accepted are 0 to 0"),
    (
        "an empty buffer",
        INVALID,
        "a buffer of 0 bytes: accepted are 1 to 32768",
    ),
    ("a large buffer", INVALID, "accepted are 1 to 32768"),
    (
        "a buffer's class",
        INVALID,
        "class 4294967295: accepted are 0 to 0",
    ),
    ("no rate", INVALID, "rate = 0: accepted are shares above 0"),
    ("no number", INVALID, "rate = NaN"),
    ("no folder for a trace", -libc::ENOENT, "No such file"),
    (
        "another",
        INVALID,
        "another recording of this cache is running",
    ),
    ("a full device", -libc::ENOSPC, "could not be written"),
    ("many shrinkers", -libc::ENOSPC, "too many shrinkers"),
    ("a late buffer", -libc::ESHUTDOWN, "shut down"),
    ("its length", 5000, ""),
    ("finished", 0, ""),
    ("asked no more", 0, ""),
    ("a folder", -libc::ENODEV, "a directory"),
    ("a device", -libc::ENODEV, "a character device"),
    ("no folder", -libc::ENOENT, "No such file"),
    ("only created", INVALID, "flags = 4: accepted are READ (1)"),
    (
        "unknown flags",
        INVALID,
        "flags = 17: accepted are READ (1)",
    ),
    ("missing", -libc::ENOENT, "No such file"),
    ("exclusive", 0, ""),
    ("read by a writer", -libc::EBADF, "Bad file descriptor"),
    ("exclusive again", -libc::EEXIST, "File exists"),
    ("opened to read", 0, ""),
    ("written by a reader", -libc::EBADF, "Bad file descriptor"),
    ("in two caches", -libc::EBUSY, "another cache has the file"),
    ("nothing of nothing", 0, ""),
    ("a long buffer", INVALID, "`buffer` has"),
    ("an empty piece", 2, ""),
    ("much", INVALID, "`buffers` have more than"),
    ("a negative count", INVALID, "the number of `buffers` is -1"),
    ("far out", -libc::EFBIG, "16 TiB"),
    ("too long", -libc::EFBIG, "16 TiB"),
    ("advice", INVALID, "advice = 77; accepted: POSIX_FADV"),
    ("behind the end", -libc::ENXIO, "past the file's end"),
    ("busy", -libc::EBUSY, "1 pages are pinned for writing"),
    ("all pinned", -5003, "unpin some"),
    ("without its cache", 4, ""),
    ("the end", 0, ""),
    ("after it", -libc::ESHUTDOWN, "shut down"),
    ("synced after it", -libc::ESHUTDOWN, "shut down"),
    ("opened after it", -libc::ESHUTDOWN, "shut down"),
    ("once more", 0, ""),
];

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
        no bytes,a hole,no list,no page,no place for bytes,neither,no stats,no text,classes of nothing,\
        class of nothing,buffer of nothing,length of nothing,shrinker of nothing,record nothing,\
        recorded of nothing,recorded nowhere,no classes,no place for a buffer,no trace,\
        no place for a recording,no shrinker,no count,no scan,no place for it";
    for what in of_nothing.split(',').map(str::trim) {
        let line = line(&format!("{what}: {null}: "));
        assert!(line.ends_with("` is NULL"), "{line}");
    }
    for (what, code, word) in SAID {
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
        "buffer: 0 0",
        "handles: 0 0 0",
        "places: 1 1",
        "no buffer: 1",
        "no other: 1",
        "shrinkers: 64 1",
        "lied 2: read 16777216, asked 0, refused 1",
        "lied 1: read 16777216, asked 1, refused 1",
        "lied 3: read 16777216, asked 1, refused 1",
        "rate: 0.5",
    ] {
        assert_eq!(line(place), place);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
