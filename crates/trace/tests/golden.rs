//! Reads sample files of every format.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use trace::{Format, Op, Options, Reader, Record, Survey, TraceError};

fn golden(name: &str) -> PathBuf {
    Path::new("tests/golden").join(name)
}

fn records(mut reader: Reader) -> Result<Vec<Record>, TraceError> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        all.append(&mut batch);
    }
    Ok(all)
}

/// Formats a trace as text: its survey, then a line per record.
fn shown(name: &str) -> String {
    let options = Options::default();
    let survey = Survey::of(&golden(name), &options).unwrap();
    let mut out = format!(
        "{} unit={:?} records={} span={}ns bytes={:?}\nignored: {:?}\n",
        survey.format.name(),
        survey.unit.map(trace::Unit::name),
        survey.records,
        survey.span_ns,
        survey.bytes,
        survey.ignored,
    );
    for f in &survey.files {
        let _ = writeln!(
            out,
            "file {} reach={} existed={}",
            f.name, f.reach, f.existed
        );
    }
    for p in &survey.processes {
        let _ = writeln!(
            out,
            "process {} {} records {}..={}",
            p.name, p.records, p.first, p.last
        );
    }
    for r in records(Reader::open(&golden(name), &options).unwrap()).unwrap() {
        let latency = r
            .latency()
            .map_or(String::new(), |ns| format!(" took {ns}"));
        let _ = writeln!(
            out,
            "{} p{} {} f{} {}+{}{latency}",
            r.time_ns,
            r.process,
            r.op.name(),
            r.file,
            r.offset,
            r.len
        );
    }
    out
}

#[test]
fn every_format_reads_as_it_did() {
    for name in [
        "shell.strace",
        "psync.v3.iolog",
        "hand.v2.iolog",
        "events.blkparse",
        "hand.msr.csv",
        "plain.csv",
        "vscsi-columns.csv",
        "names.csv",
        "sectors.oracleGeneral.bin",
    ] {
        insta::assert_snapshot!(name, shown(name));
    }
    let plain = shown("sectors.oracleGeneral.bin");
    assert_eq!(shown("sectors.oracleGeneral.zst"), plain);
}

fn read(bytes: &[u8], name: &str, options: &Options) -> Result<Vec<Record>, TraceError> {
    Reader::from_stream(Cursor::new(bytes.to_vec()), name, options).and_then(records)
}

#[test]
fn a_cut_trace_stops_at_its_last_record() {
    let options = Options::default();
    for (name, text) in [
        ("shell.strace", true),
        ("psync.v3.iolog", true),
        ("hand.msr.csv", true),
        ("vscsi-columns.csv", true),
        ("sectors.oracleGeneral.bin", false),
    ] {
        let bytes = std::fs::read(golden(name)).unwrap();
        let cut = &bytes[..bytes.len() - 5];
        let whole = if text {
            bytes.iter().filter(|b| **b == b'\n').count()
        } else {
            bytes.len() / 24
        };
        let error = read(cut, name, &options).unwrap_err();
        assert_eq!(error.record, Some(whole as u64), "{error}");
        assert!(error.to_string().starts_with(name), "{error}");
        assert!(error.message.contains("ends within"), "{error}");
        let lenient = Options {
            lenient: true,
            ..options
        };
        let mut reader = Reader::from_stream(Cursor::new(cut.to_vec()), name, &lenient).unwrap();
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch).unwrap() {}
        assert_eq!(reader.skipped(), 1);
        assert_eq!(reader.first_skipped().unwrap(), &error);
    }
}

#[test]
fn a_cut_zstd_file_is_no_trace() {
    let bytes = std::fs::read(golden("sectors.oracleGeneral.zst")).unwrap();
    let options = Options {
        format: Some(Format::OracleGeneral),
        ..Options::default()
    };
    for cut in 5..bytes.len() {
        let error = read(&bytes[..cut], "x.zst", &options);
        assert!(error.is_err(), "{cut} of {} bytes", bytes.len());
    }
}

#[test]
fn a_broken_record_is_named_and_skipped_when_lenient() {
    let text = "\
128166372003061629,hm,0,Read,0,32768,113736\n\
\n\
128166372016382155,hm,0,Wrote,0,4096,413\n\
128166372026382245,hm,1,Write,-1,512,10\n\
128166372026382245,hm,1,Write,8192,512,10\n";
    let options = Options::default();
    let error = read(text.as_bytes(), "t.csv", &options).unwrap_err();
    assert_eq!(
        format!("{error} | {}", error.accepted),
        "t.csv: record at line 3: unknown type `Wrote` | Read, Write"
    );
    let lenient = Options {
        lenient: true,
        ..options
    };
    let found = read(text.as_bytes(), "t.csv", &lenient).unwrap();
    assert_eq!(
        found.iter().map(|r| r.op).collect::<Vec<_>>(),
        [Op::Read, Op::Write]
    );

    let mut bytes = std::fs::read(golden("sectors.oracleGeneral.bin")).unwrap();
    bytes[2 * 24 + 3] = 0xff;
    let error = read(&bytes, "t.bin", &options).unwrap_err();
    // The time of the third record is far ahead, so the fourth goes back.
    assert_eq!(
        error.to_string(),
        "t.bin: record 4: the time goes back from 4278190091 s to 12 s"
    );
    assert_eq!(read(&bytes, "t.bin", &lenient).unwrap().len(), 3);
}

#[test]
fn what_is_no_trace_is_refused() {
    let options = Options::default();
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("letter.txt", b"Dear Sir,\nthank you.\n"),
    ] {
        let error = read(bytes, name, &options).unwrap_err();
        assert_eq!(error.record, None, "{error}");
        assert!(!error.accepted.is_empty());
    }
    let error = Reader::open(Path::new("tests/golden"), &options)
        .err()
        .unwrap();
    assert!(error.message.contains("can't be read"), "{error}");
    assert!(Reader::open(Path::new("tests/nothing"), &options).is_err());
    // The name decides where the contents do not.
    let error = read(b"x\n", "a.strace", &options).unwrap_err();
    assert!(error.message.contains("no call"), "{error}");
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(Format::parse(format.name()), Some(format));
    }
    assert_eq!(Format::parse("mp3"), None);
}
