//! Tests of the table `[workload]`.

use super::*;
use crate::experiment::{Overrides, parse};

const MACHINE: &str = "name = \"m\"\ncpus = 1\n[[node]]\nzones = [{ zone = \"DMA32\", \
    size = \"512M\" }]\n[disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n";

/// Parses an experiment with this `[workload]`, beside some files.
fn experiment(workload: &str) -> Result<Experiment, Diagnostic> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("good.csv", "0,1,4096\n1,2,4096\n"),
        ("cut.csv", "0,1,4096\n1,2"),
        ("far.csv", "0,1,4096\n0,262144,4096\n"),
        ("none.txt", "Dear Sir,\n"),
        ("good.fio", "[a]\nsize=1m\nrw=randrw\n"),
        ("wrong.fio", "[a]\nsize=1m\nlockmem=1m\n"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let text = format!(
        "name = \"t\"\niterations = 1\npolicy = \"linux-3.1\"\nfilesystem = \"ext4\"\n\
         machine = \"m.toml\"\n[workload]\n{workload}\n"
    );
    let files = |name: &str| Ok((name.to_owned(), MACHINE.to_owned()));
    let source = Source::new(dir.path().join("t.toml").display().to_string(), text);
    parse(&source, &files, &Overrides::default())
}

#[test]
fn traces_and_timings_are_axes() {
    let e = experiment("trace = [\"good.csv\", \"far.csv\"]\ntiming = [\"recorded\", \"fast\"]");
    // The second trace's file takes a page more than the disk has.
    assert!(e.unwrap_err().message.contains("1.0 GiB"));
    let e =
        experiment("trace = \"good.csv\"\ntiming = [\"recorded\", \"fast\"]\nunit = \"object\"");
    let e = e.unwrap();
    assert_eq!(e.axes, ["workload.timing"]);
    let notes = |i: usize| &e.cells[i].spec.workload.notes;
    assert!(notes(0)[0].ends_with("names of objects"), "{:?}", notes(0));
    assert!(unit_guesses(&e).is_empty());
    assert_eq!(e.cells.len(), 2);
    let e = experiment("trace = \"cut.csv\"\nlenient = true").unwrap();
    let notes = &e.cells[0].spec.workload.notes;
    assert!(notes[1].starts_with("1 records"), "{notes:?}");
    let guess = "cut.csv: objects are pages, guessed: none is larger than 4 KiB";
    assert_eq!(unit_guesses(&e), [guess]);
    assert_eq!(experiment("fio = [\"good.fio\"]").unwrap().cells.len(), 1);
}

#[test]
fn files_that_a_command_finds() {
    let e = experiment("command = \"dd if=a/b of=c\"\nfiles = { \"a/b\" = [\"1M\", 8192] }");
    let e = e.unwrap();
    assert_eq!(e.axes, ["workload.files.a/b"]);
    let found = |i: usize| &e.cells[i].spec.workload.files[..];
    assert_eq!((found(0)[0].len, found(1)[0].len), (1 << 20, 8192));
    assert_eq!(found(0)[0].path, "a/b");
    // A program's own file keeps its size unless the experiment states another.
    for (files, len) in [
        ("", 4 << 20),
        ("\nfiles = { \"desktop.text\" = \"8M\" }", 8 << 20),
    ] {
        let line = format!("command = \"desktop -p 4M & dd if=/dev/zero of=c\"{files}");
        let e = experiment(&line).unwrap();
        let found = &e.cells[0].spec.workload.files;
        assert_eq!((found.len(), found[0].len), (1, len), "{files}");
    }
}

#[test]
fn numbers_of_threads_name_command_lines() {
    let e = experiment(
        "name = \"fsmark\"\nthreads = [\"1P\", \"2P\"]\n\
         command = [\"dd if=a of=b\", \"dd if=a of=b & dd if=a of=c\"]",
    );
    let e = e.unwrap();
    assert_eq!(e.axes, ["workload.threads"]);
    assert_eq!(e.cells[1].group(), "2P");
    let c = &e.cells[1];
    assert_eq!((&c.workload[..], &c.threads[..]), ("fsmark", "2P"));
    let e = experiment("fio = \"good.fio\"\nthreads = \"16X\"").unwrap();
    assert_eq!((e.axes.len(), &e.cells[0].threads[..]), (0, "16X"));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (workload, place, message) in [
        ("trace = \"cut.csv\"", "\"cut.csv\"", "record at line 2"),
        ("trace = \"none.txt\"", "\"none.txt\"", "format"),
        ("trace = \"no.csv\"", "\"no.csv\"", "no such file"),
        ("trace = 3", "3", "workload.trace"),
        ("trace = \"good.csv\"\nformat = \"mp3\"", "\"mp3\"", "mp3"),
        (
            "trace = \"good.csv\"\ntiming = \"slow\"",
            "\"slow\"",
            "slow",
        ),
        ("trace = \"good.csv\"\nlenient = 1", "1", "lenient"),
        ("trace = \"good.csv\"\nfio = \"good.fio\"", "fio", "beside"),
        ("fio = \"good.fio\"\ntiming = \"fast\"", "timing", "without"),
        ("fio = \"wrong.fio\"", "lockmem=1m", "not supported"),
        ("fio = \"no.fio\"", "\"no.fio\"", "no such file"),
        ("fio_args = \"x\"", "\"x\"", "no option of fio"),
        ("fio_args = \"--name=a --bs=9q\"", "bs=9q", "does not fit"),
        ("timing = \"fast\"", "[workload]", "missing key"),
        (
            "trace = \"good.csv\"\nfiles = { a = 1 }",
            "files",
            "without `workload.command`",
        ),
        ("command = \"dd if=a of=b\"\nfiles = 3", "3", "files"),
        (
            "command = \"dd if=a of=b\"\nfiles = { a = \"1Q\" }",
            "\"1Q\"",
            "1Q",
        ),
        (
            "command = \"dd if=a of=b\"\nfiles = { \"/a\" = 1 }",
            "\"/a\"",
            "not a valid path",
        ),
        (
            "command = \"dd if=a of=b\"\nfiles = { a = \"2G\" }",
            "[workload]",
            "2.0 GiB",
        ),
        (
            "command = \"desktop -t 5s; desktop\"",
            "desktop",
            "for ever",
        ),
        ("fio = \"good.fio\"\nname = 4", "4", "workload.name"),
        (
            "fio = \"good.fio\"\nthreads = [\"1P\", \"1X\"]",
            "[\"1P\"",
            "2 names for 1",
        ),
    ] {
        let e = experiment(workload).expect_err(workload);
        assert!(e.message.contains(message), "{workload}: {e}");
        assert!(
            e.accepted.contains("accepted"),
            "{workload}: {}",
            e.accepted
        );
        let found = e.place.as_ref().unwrap().text();
        assert!(found.starts_with(place), "{workload}: {found}");
    }
}
