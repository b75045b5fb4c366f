use super::*;
use crate::programs::Command;
use crate::script::{Script, Step, parse};
use crate::testing::{MemoryHost, block_on};

fn desktop(line: &str) -> (Script, Desktop) {
    let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    let (Step::Foreground(p) | Step::Background(p)) = &script.steps[0] else {
        panic!("{script:?}")
    };
    let Command::Desktop(d) = &p.commands[0] else {
        panic!("{p:?}")
    };
    let d = d.clone();
    (script, d)
}

/// Runs a line in memory, where a touch takes `touch_ns`. Returns the host and the session's
/// figures.
fn run(line: &str, touch_ns: u64) -> (MemoryHost, Report) {
    let (script, d) = desktop(line);
    let host = MemoryHost::default();
    host.put(TEXT, &vec![0; d.text as usize]);
    host.touch_ns.set(touch_ns);
    let session = script.session();
    block_on(d.run(&host, &session)).unwrap();
    let report = session.report(host.now()).unwrap();
    (host, report)
}

fn metric(report: &Report, name: &str) -> f64 {
    let found = report.metrics.iter().find(|(n, ..)| n == name);
    found.unwrap_or_else(|| panic!("{name} in {report:?}")).2
}

#[test]
fn options_and_defaults() {
    let (script, d) = desktop("desktop & dd if=/dev/zero of=x");
    assert_eq!(d, Desktop::default());
    assert_eq!(script.files, [d.existing_file()]);
    let (script, d) = desktop(
        "desktop -w 5000 -p 64K -n 3 -f 0 -c 0us -i 7ms -l 2s -s 3us -t 5m; desktop -p 2M -t 1s",
    );
    let expected = Desktop {
        working_set: 8192,
        text: 65_536,
        touches: 3,
        fresh: 0,
        compute_ns: 0,
        interval_ns: 7_000_000,
        late_ns: 2_000_000_000,
        settle_ns: 3000,
        runtime_ns: Some(300_000_000_000),
    };
    assert_eq!(d, expected);
    // Both map one file, of the larger of the two lengths.
    assert_eq!((script.files.len(), script.files[0].len), (1, 2 << 20));
}

#[test]
fn what_is_not_accepted_is_named_and_placed() {
    for (line, place, message) in [
        ("desktop -t 1s x", "x", "`x`"),
        ("desktop -q 1", "-q", "`-q`"),
        ("desktop -t", "-t", "no value"),
        ("desktop -w 1 -t 1s", "1", "`1`"),
        ("desktop -w 65G -t 1s", "65G", "`65G`"),
        (
            "desktop -w 99999999999999999999K -t 1s",
            "99999999999999999999K",
            "-w",
        ),
        ("desktop -p 1Q -t 1s", "1Q", "`1Q`"),
        ("desktop -n -1 -t 1s", "-1", "`-1`"),
        ("desktop -f 1000001 -t 1s", "1000001", "-f"),
        ("desktop -i 0ms -t 1s", "0ms", "`0ms`"),
        ("desktop -i 20 -t 1s", "20", "-i"),
        ("desktop -l '' -t 1s", "''", "-l"),
        ("desktop -t 2d", "2d", "-t"),
        (
            "desktop -t 18446744073709551615s",
            "18446744073709551615s",
            "-t",
        ),
        ("desktop", "desktop", "for ever"),
        ("desktop & dd if=a of=b; wait", "desktop", "for ever"),
    ] {
        let e = parse(line).expect_err(line);
        assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        assert!(e.message.contains(message), "{line}: {e}");
        assert!(!e.accepted.is_empty());
    }
    assert!(parse("desktop -t 1s & dd if=a of=b; wait").is_ok());
    assert!(parse("wait; desktop & dd if=a of=b").is_ok());
}

/// The memory host never blocks, so a response takes its touches and its computation.
#[test]
fn a_response_takes_its_touches_and_its_computing() {
    let line = "desktop -w 1M -p 1M -n 8 -f 4 -c 2ms -i 20ms -t 3s";
    let (host, report) = run(line, 100_000);
    assert_eq!(metric(&report, "responses"), 150.0);
    assert_eq!(metric(&report, "late_responses"), 0.0);
    let us = |name: &str| metric(&report, &format!("response_{name}"));
    assert!((us("p50") / 2800.0 - 1.0).abs() < 0.01, "{}", us("p50"));
    // With the new pages of each second.
    assert!((us("max") / 3200.0 - 1.0).abs() < 0.01, "{}", us("max"));
    // Both are touched once, then eight pages a response, and four new ones a second with one call.
    assert_eq!(host.count("touch"), 512 + 150 * 8 + 3);
    assert_eq!((host.count("map"), host.count("unmap")), (3, 3));
}

/// Responses of 50 ms to events every 20 ms: those that arrived meanwhile are answered together.
#[test]
fn events_that_pile_up_are_answered_together() {
    let line = "desktop -w 4K -p 4K -n 1 -f 0 -c 0us -i 20ms -l 69ms -t 1s";
    let (host, report) = run(line, 50_000_000);
    assert_eq!(metric(&report, "responses"), 50.0);
    // 1 s holds 20 responses, and the last event arrives shortly before its end.
    let touches = host.count("touch") - 2;
    assert!((19..=21).contains(&touches), "{touches}");
    let max = metric(&report, "response_max");
    assert!((80_000.0..100_000.0).contains(&max), "{max}");
    let late = metric(&report, "late_responses");
    assert!((20.0..40.0).contains(&late), "{late}");
}

/// Events of the first second, from the start of the setup, are not measured.
#[test]
fn settling_is_not_measured() {
    let line = "desktop -w 4K -p 4K -n 1 -f 0 -c 0us -i 20ms -s 1s -t 1s";
    let (_, report) = run(line, 50_000_000);
    // The setup takes two touches.
    assert_eq!(metric(&report, "responses"), 5.0);
    let (host, report) = run(&line.replace("-s 1s", "-s 3s"), 50_000_000);
    assert_eq!(metric(&report, "responses"), 0.0);
    assert!(host.count("touch") > 10);
}

#[test]
fn windows_close_and_open() {
    let line = "desktop -w 32K -p 4K -n 0 -f 3 -c 0us -i 100ms -t 4s";
    let (host, _) = run(line, 0);
    // A mapping of three pages for each second.
    assert_eq!(host.count("map"), 2 + 4);
    assert_eq!(host.count("unmap"), 2 + 4);
}
