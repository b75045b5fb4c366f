use super::*;
use crate::programs::Command;
use crate::script::Step;
use crate::testing::{MemoryHost, block_on};
use proptest::prelude::*;
use std::path::Path;

pub(super) fn dd(operands: &str) -> Result<Dd, CommandError> {
    let mut script = crate::parse(&format!("dd {operands}"))?;
    match script.steps.remove(0) {
        Step::Foreground(mut p) => match p.commands.remove(0) {
            Command::Dd(dd) => Ok(dd),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn run(host: &MemoryHost, operands: &str) -> HostResult<DdReport> {
    let report = block_on(
        dd(operands)
            .unwrap_or_else(|e| panic!("{operands}: {e}"))
            .transfer(host),
    );
    assert_eq!(host.open_files(), 0, "{operands}");
    assert!(host.buffers.take() <= 4, "{operands}");
    report
}

/// Formats a report as `full_in+partial_in full_out+partial_out bytes`.
fn figures(r: DdReport) -> String {
    format!(
        "{}+{} {}+{} {}",
        r.full_in, r.partial_in, r.full_out, r.partial_out, r.bytes
    )
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 + 1).collect()
}

#[test]
fn one_read_and_one_write_per_record() {
    let host = MemoryHost::default();
    let report = run(
        &host,
        "if=/dev/zero of=x bs=4k count=3 conv=fdatasync,fsync",
    )
    .unwrap();
    assert_eq!(figures(report), "3+0 3+0 12288");
    let expected = [
        "open /dev/zero r",
        "open x w create truncate",
        "read /dev/zero 4096",
        "write x 4096",
        "read /dev/zero 4096",
        "write x 4096",
        "read /dev/zero 4096",
        "write x 4096",
        "fdatasync x",
        "fsync x",
        "close /dev/zero",
        "close x",
    ];
    assert_eq!(*host.calls.borrow(), expected);
}

#[test]
fn short_reads_make_partial_records() {
    let host = MemoryHost::default();
    host.put("a", &pattern(1000));
    host.longest_read.set(60);
    // With bs= a partial record is written as it is, and counts as a record.
    assert_eq!(
        figures(run(&host, "if=a of=b bs=100 count=5").unwrap()),
        "0+5 0+5 300"
    );
    assert_eq!(host.contents("b"), &pattern(1000)[..300]);
    // Without it, output records are filled.
    assert_eq!(
        figures(run(&host, "if=a of=b ibs=100 obs=100 count=5").unwrap()),
        "0+5 3+0 300"
    );
    assert_eq!(host.contents("b"), &pattern(1000)[..300]);
    // fullblock reads on until a record is full or the file ends.
    assert_eq!(
        figures(run(&host, "if=a of=b bs=300 iflag=fullblock").unwrap()),
        "3+1 3+1 1000"
    );
    assert_eq!(host.contents("b"), pattern(1000));
}

#[test]
fn short_writes_are_continued() {
    let host = MemoryHost::default();
    host.put("a", &pattern(1000));
    host.longest_write.set(70);
    assert_eq!(
        figures(run(&host, "if=a of=b bs=300").unwrap()),
        "3+1 3+1 1000"
    );
    assert_eq!(host.contents("b"), pattern(1000));
}

#[test]
fn buffers_do_not_grow_with_the_file() {
    let host = MemoryHost::default();
    host.put("a", &pattern(100_000));
    host.longest_read.set(9);
    host.longest_write.set(7);
    run(&host, "if=a of=b ibs=10 obs=33 iflag=fullblock").unwrap();
    assert_eq!(host.contents("b"), pattern(100_000));
}

#[test]
fn a_short_direct_record_goes_through_the_cache_and_is_synced() {
    let host = MemoryHost::default();
    host.put("a", &pattern(1000));
    let report = run(&host, "if=a of=b bs=512 oflag=direct seek=1").unwrap();
    assert_eq!(figures(report), "1+1 1+1 1000");
    assert_eq!(host.contents("b")[512..], pattern(1000));
    assert_eq!(host.count("open b rw create direct"), 1);
    assert_eq!(host.count("open b rw"), 2);
    assert_eq!(host.count("seek b 1024"), 1);
    assert_eq!(host.count("fsync b"), 1);
}

#[test]
fn devices_are_neither_truncated_nor_sought_in_vain() {
    let host = MemoryHost::default();
    host.put("a", &pattern(1000));
    assert_eq!(
        figures(run(&host, "if=a of=/dev/null seek=3").unwrap()),
        "1+1 1+1 1000"
    );
    let report = run(&host, "if=/dev/zero of=b skip=3 bs=10 count=2").unwrap();
    assert_eq!(figures(report), "2+0 2+0 20");
    assert_eq!(
        figures(run(&host, "if=/dev/null of=b").unwrap()),
        "0+0 0+0 0"
    );
    assert!(host.contents("b").is_empty());
}

#[test]
fn host_errors_end_the_run_and_close_the_files() {
    let host = MemoryHost::default();
    host.put("a", &pattern(1000));
    let missing = |path: &str| Err(HostError::NotFound(path.to_owned()));
    assert_eq!(run(&host, "if=none of=b"), missing("none"));
    assert!(!host.exists("b"));
    assert_eq!(run(&host, "if=a of=b conv=nocreat"), missing("b"));
    assert_eq!(
        run(&host, "if=a of=a conv=excl"),
        Err(HostError::Exists("a".to_owned()))
    );
    host.space.set(700);
    assert_eq!(
        run(&host, "if=a of=b bs=300"),
        Err(HostError::NoSpace("b".to_owned()))
    );
    assert_eq!(host.contents("b"), &pattern(1000)[..700]);
    host.bad_from.set(500);
    let failed = run(&host, "if=a of=b ibs=100 obs=300 conv=fsync");
    assert_eq!(failed, Err(HostError::Io("a".to_owned())));
    assert_eq!(
        host.contents("b"),
        &pattern(1000)[..500],
        "what was gathered is written"
    );
    assert_eq!(host.count("fsync b"), 1);
}

/// Runs the system's dd and this one on the same two files and compares their resulting files and
/// record counts.
fn compare(dir: &Path, operands: &str, a: &[u8], b: Option<&[u8]>) {
    let host = MemoryHost::default();
    let path = |name: &str| dir.join(name);
    std::fs::write(path("a"), a).unwrap();
    host.put("a", a);
    let _ = std::fs::remove_file(path("b"));
    if let Some(b) = b {
        std::fs::write(path("b"), b).unwrap();
        host.put("b", b);
    }
    let real = std::process::Command::new("dd")
        .args(operands.split_whitespace())
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let stderr = String::from_utf8(real.stderr).unwrap();
    match run(&host, operands) {
        Ok(report) => {
            assert!(real.status.success(), "{operands}: {stderr}");
            let records = |full, partial, way| format!("{full}+{partial} records {way}\n");
            let lines = [
                records(report.full_in, report.partial_in, "in"),
                records(report.full_out, report.partial_out, "out"),
                format!("{} byte", report.bytes),
            ];
            for line in lines {
                assert!(stderr.contains(&line), "{operands}: {line} not in {stderr}");
            }
        }
        Err(e) => assert!(!real.status.success(), "{operands}: {e}, but {stderr}"),
    }
    assert_eq!(path("b").exists(), host.exists("b"), "{operands}");
    if host.exists("b") {
        assert!(
            std::fs::read(path("b")).unwrap() == host.contents("b"),
            "{operands}"
        );
    }
}

#[test]
fn the_real_dd_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (pattern(2500), vec![255; 2000]);
    for operands in [
        "if=a of=b",
        "if=a of=b bs=1000",
        "if=a of=b bs=2500",
        "if=a of=b ibs=100 obs=333",
        "if=a of=b ibs=333 obs=100",
        "if=a of=b obs=1k",
        "if=a of=b bs=100 count=7 skip=3 seek=2",
        "if=a of=b bs=100 count=7 skip=3 seek=2 conv=notrunc",
        "if=a of=b bs=100 skip=30",
        "if=a of=b bs=100 count=0",
        "if=a of=b bs=100 count=0 seek=5",
        "if=a of=b bs=100 count=0 seek=50",
        "if=a of=b bs=100 seek=50",
        "if=a of=b bs=100 count=1 conv=notrunc",
        "if=a of=b bs=100 conv=notrunc oflag=append",
        "if=a of=b bs=100 oflag=append",
        "if=a of=b bs=100 iflag=count_bytes,skip_bytes count=250 skip=33",
        "if=a of=b bs=100 oflag=seek_bytes seek=33 count=1",
        "if=a of=b bs=100 oflag=seek_bytes seek=333 count=1",
        "if=a of=b bs=100 oflag=seek_bytes seek=333 count=1 conv=notrunc",
        "if=a of=b conv=excl",
        "if=a of=b conv=nocreat,fsync",
        "if=a of=b conv=fdatasync oflag=dsync",
        "if=none of=b",
        "if=/dev/zero of=b bs=2x512 count=3",
        "if=/dev/zero of=b ibs=1 obs=10 count=1kB iflag=count_bytes status=progress",
        "if=/dev/null of=b",
        "if=a of=/dev/null",
        "if=b of=/dev/null bs=1kB",
    ] {
        compare(dir.path(), operands, &a, Some(&b));
        compare(dir.path(), operands, &a, None);
        compare(dir.path(), operands, &[], Some(&b));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_real_dd_agrees_on_anything(
        sizes in prop_oneof![
            (1..700_u64).prop_map(|n| format!("bs={n}")),
            (1..700_u64, 1..700_u64).prop_map(|(i, o)| format!("ibs={i} obs={o}")),
            Just(String::new()),
        ],
        count in proptest::option::of(0..9_u64),
        skip in proptest::option::of(0..5_u64),
        seek in proptest::option::of(0..5_u64),
        bytes in any::<(bool, bool, bool, bool, bool)>(),
        a in 0..3000_usize,
        b in proptest::option::of(0..3000_usize),
    ) {
        use std::fmt::Write as _;
        let (count_bytes, skip_bytes, seek_bytes, notrunc, fullblock) = bytes;
        let mut operands = format!("if=a of=b {sizes}");
        for (name, value, in_bytes) in [
            ("count", count, count_bytes),
            ("skip", skip, skip_bytes),
            ("seek", seek, seek_bytes),
        ] {
            if let Some(value) = value {
                let flag = if name == "seek" { "oflag" } else { "iflag" };
                if in_bytes {
                    write!(operands, " {name}={} {flag}={name}_bytes", value * 217).unwrap();
                } else {
                    write!(operands, " {name}={value}").unwrap();
                }
            }
        }
        for (flag, on) in [("conv=notrunc", notrunc), ("iflag=fullblock", fullblock)] {
            if on {
                write!(operands, " {flag}").unwrap();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let b = b.map(|b| vec![255; b]);
        compare(dir.path(), &operands, &pattern(a), b.as_deref());
    }
}
