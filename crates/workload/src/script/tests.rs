use super::*;
use crate::host::Task;
use crate::testing::{MemoryHost, block_on};
use proptest::prelude::*;

/// Formats steps as text: `f` or `b` with the number of commands, `w`.
fn shape(line: &str) -> String {
    let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    let step = |s: &Step| match s {
        Step::Foreground(p) => format!("f{}", p.commands.len()),
        Step::Background(p) => format!("b{}", p.commands.len()),
        Step::Wait => "w".to_owned(),
    };
    script.steps.iter().map(step).collect::<Vec<_>>().join(" ")
}

#[test]
fn scripts_are_steps() {
    let dd = "dd if=/dev/zero of=x count=1";
    assert_eq!(shape(dd), "f1");
    assert_eq!(shape(&format!("{dd} & {dd}; {dd} && {dd}")), "b1 f1 f2");
    assert_eq!(
        shape(&format!("{dd} & {dd} && {dd} &\nwait # all\n{dd}")),
        "b1 b2 w f1"
    );
}

#[test]
fn bursts_grow_and_nothing_else() {
    let script = |n: &str, s: &str| {
        let line = format!(
            "dd if=/dev/zero of=x & taskset -c 0 mapped-file-stream 1 {n}; burst -s {s} -n 2"
        );
        parse(&line).unwrap()
    };
    let twice = script("65536", "1M").with_bursts(2.0).unwrap();
    assert_eq!(twice.steps, script("131072", "2M").steps);
    assert_eq!(twice.line, "", "no line made it");
    let odd = script("65536", "1M").with_bursts(1.03).unwrap();
    assert_eq!(odd.steps, script("65536", "1056K").steps);
    assert_eq!(parse("sleep 1").unwrap().with_bursts(2.0), None);
}

#[test]
fn what_is_not_accepted_is_named_and_placed() {
    for (line, place, message) in [
        ("", "", "no command"),
        (" # dd", " # dd", "no command"),
        ("dd if=a of=b; bonnie -d x", "bonnie", "`bonnie`"),
        ("dd if=a of=b &", "dd if=a of=b &", "background"),
        ("dd if=a of=b & wait 1", "wait 1", "operands"),
        ("dd if=a of=b && wait", "wait", "&&"),
        ("dd if=a of=b; wait &", "wait", "&"),
        ("dd if=a of=b; dd bs='1'Q", "1'Q", "1Q"),
    ] {
        let e = parse(line).expect_err(line);
        assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        assert!(e.message.contains(message), "{line}: {e}");
        assert!(!e.accepted.is_empty());
    }
}

#[test]
fn a_command_runs_and_reports() {
    let host = MemoryHost::default();
    let script = parse("dd if=/dev/zero of=x bs=32k count=$((1 << 1))").unwrap();
    let [Step::Foreground(process)] = &script.steps[..] else {
        panic!("{script:?}")
    };
    assert_eq!(process.commands[0].name(), "dd");
    let report = {
        let session = script.session();
        block_on(process.commands[0].run(&host, &session)).unwrap()
    };
    assert_eq!(host.contents("x"), [0; 65536]);
    assert!(
        report
            .metrics
            .contains(&("bytes".to_owned(), "bytes", 65536.0)),
        "{report:?}"
    );
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "dd ",
        "if=",
        "of=",
        "/dev/zero ",
        "bs=",
        "ibs=",
        "count=",
        "seek=",
        "iflag=",
        "conv=",
        "fsync",
        "direct",
        ",",
        "1",
        "0",
        "x",
        "K",
        "kB",
        "B",
        "Q",
        "$((1<<",
        "))",
        " ",
        "'",
        "\"",
        "\\",
        "& ",
        "; ",
        "wait",
        "&& ",
        "é",
        "=",
        "99999999999",
        "status=none ",
        "desktop ",
        "mmap-strm ",
        "sleep ",
        "-w ",
        "-t ",
        "20ms ",
        "4K ",
        "1.5 ",
    ]);
    proptest::collection::vec(piece, 0..30).prop_map(|v| v.concat())
}

fn spans_lie_inside(line: &str) -> Result<(), TestCaseError> {
    if let Err(e) = parse(line) {
        prop_assert!(line.get(e.span.clone()).is_some(), "{:?} {:?}", line, e);
        prop_assert!(!e.message.is_empty() && !e.accepted.is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn arbitrary_strings_do_not_panic(line in any::<String>()) {
        spans_lie_inside(&line)?;
    }

    #[test]
    fn almost_commands_do_not_panic(line in pieces(), before in "(dd )?") {
        spans_lie_inside(&(before + &line))?;
    }
}

#[test]
fn device_files_are_those_of_every_host() {
    let lost = |line: &str| parse(line).unwrap().devices_are_there();
    assert_eq!(lost("dd if=/dev/zero of=/dev/null count=1"), Ok(()));
    assert_eq!(lost("dd if=/dev/urandom of=dev/sda count=1"), Ok(()));
    for (line, place) in [
        ("dd if=/dev/sda of=a count=1", "if=/dev/sda"),
        (
            "sleep 1; dd if=/dev/zero of=/dev/nvme0n1 count=1",
            "of=/dev/nvme0n1",
        ),
    ] {
        let e = lost(line).expect_err(line);
        assert_eq!(&line[e.span.clone()], place, "{e}");
    }
}

#[test]
fn a_job_file_says_what_it_is_compared_by() {
    let figures = |text: &str| crate::fio::parse(text).unwrap().script().figures();
    let timed = "[a]\nrw=randread\nsize=1M\nruntime=5\ntime_based\n";
    assert_eq!(figures(timed), ["read_rate", "read_latency_p99"]);
    let all = "[a]\nrw=randrw\nsize=1M\nfsync=8\n";
    assert_eq!(
        figures(all),
        [
            "read_rate",
            "write_rate",
            "read_latency_p99",
            "write_latency_p99",
            "sync_latency_p99",
            "elapsed"
        ]
    );
    assert!(parse("sleep 1").unwrap().figures().is_empty());
}
