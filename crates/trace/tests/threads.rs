//! Any number of threads reads the same records, errors and counts.

use std::fmt::Write as _;
use std::io::Cursor;
use trace::damage::feed;
use trace::{BLOCK, Options, Reader, Record, TraceError};

/// All results of reading a trace.
type Said = (
    Vec<Record>,
    Option<TraceError>,
    u64,
    Option<TraceError>,
    String,
);

fn read(bytes: &[u8], name: &str, lenient: bool, threads: usize) -> Option<Said> {
    let options = Options {
        lenient,
        ..Options::default()
    };
    let stream = Cursor::new(bytes.to_vec());
    let mut reader = Reader::from_stream(stream, name, &options).ok()?;
    let mut records = Vec::new();
    let result = reader.each_batch(threads, |record| *record, &mut |batch| {
        records.extend_from_slice(batch);
        Ok(())
    });
    // On an error, the batches before the one that contains it.
    if result.is_err() {
        records.truncate(records.len() / 4096 * 4096);
    }
    let (skipped, first) = (reader.skipped(), reader.first_skipped().cloned());
    let ignored = format!("{:?} {:?}", reader.ignored(), reader.files());
    Some((records, result.err(), skipped, first, ignored))
}

fn same(bytes: &[u8], name: &str) -> Option<Said> {
    let mut last = None;
    for lenient in [false, true] {
        let one = read(bytes, name, lenient, 1);
        for threads in [2, 3, 5] {
            assert!(
                one == read(bytes, name, lenient, threads),
                "{name}, {threads} threads"
            );
        }
        last = one;
    }
    last
}

/// Returns several blocks of lines.
fn long() -> String {
    let mut text = "time,obj_id,size,op\n".to_owned();
    for i in 0..120_000_u64 {
        let (at, size) = (i * 7919 % 5000, i % 3 * 4096);
        writeln!(
            text,
            "{i}.5,{at},{size},{}",
            ["r", "w", "SET"][i as usize % 3]
        )
        .expect("memory");
    }
    assert!(text.len() > 2 * BLOCK);
    text
}

#[test]
fn whole_blocks_of_lines() {
    let text = long();
    let (records, error, ..) = same(text.as_bytes(), "t.csv").expect("a CSV");
    assert_eq!(error, None);
    // 80,000 lines of one or two pages; the second page of an object that has grown is elsewhere.
    let bytes: u64 = records.iter().map(|r| u64::from(r.len)).sum();
    assert_eq!(bytes, 40_000 * (4096 + 8192));
    assert!(records.len() > 80_000, "{}", records.len());
    let packed = zstd::encode_all(text.as_bytes(), 1).expect("memory");
    assert_eq!(same(&packed, "t.csv").expect("a CSV").0, records);
    // Named objects get their own pages, in the order of lines.
    let named = text.replace(",7", ",seven");
    let (placed, ..) = same(named.as_bytes(), "t.csv").expect("a CSV");
    assert!(placed.len() > 70_000);
    // Damaged in the second block, and cut.
    let half = text.len() / 2;
    let broken = [&text[..half], "\nx,y\n\n \r\n", &text[half..text.len() - 3]].concat();
    let (_, error, skipped, first, _) = same(broken.as_bytes(), "t.csv").expect("a CSV");
    assert!(error.is_none() && skipped >= 2 && first.is_some_and(|e| e.record > Some(50_000)));
    let (_, _, skipped, ..) = same(&packed[..packed.len() / 2], "t.csv").expect("a CSV");
    assert!(skipped > 0);
    // A line longer than a block, and lines after it.
    let endless = [&text[..half], &"9".repeat(3 * BLOCK), &text[half..]].concat();
    same(endless.as_bytes(), "t.csv").expect("a CSV");
}

#[test]
fn records_and_other_formats() {
    let golden = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"));
    for entry in golden.expect("samples") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        same(&std::fs::read(&path).expect("a sample"), &name);
    }
    let mut records = Vec::new();
    for i in 0..100_000_u64 {
        records.extend((i as u32 / 1000).to_le_bytes());
        records.extend((i * 31 % 997).to_le_bytes());
        records.extend(4096_u32.to_le_bytes());
        records.extend((-1_i64).to_le_bytes());
    }
    let (all, error, ..) = same(&records, "t.oracleGeneral").expect("records");
    assert_eq!((all.len(), error), (100_000, None));
    records.truncate(records.len() - 5);
    let (_, _, skipped, ..) = same(&records, "t.oracleGeneral").expect("records");
    assert_eq!(skipped, 1);
}

#[test]
fn damaged_lines() {
    let text = long();
    let short = &text[..text[..3000].rfind('\n').expect("lines") + 1];
    feed(1, &[short.as_bytes().to_vec()], 300_000, |bytes| {
        same(bytes, "t.csv");
    });
}

#[test]
fn who_wants_no_more_ends_it() {
    let text = long();
    for threads in [1, 2, 4] {
        let stream = Cursor::new(text.clone().into_bytes());
        let mut reader = Reader::from_stream(stream, "t.csv", &Options::default()).expect("a CSV");
        let mut batches = 0;
        let stop = TraceError {
            file: "t".to_owned(),
            record: None,
            text: false,
            message: "enough".to_owned(),
            accepted: String::new(),
        };
        let result = reader.each_batch(threads, |record| record.offset, &mut |_| {
            batches += 1;
            if batches == 3 {
                Err(stop.clone())
            } else {
                Ok(())
            }
        });
        assert_eq!((result, batches), (Err(stop), 3));
    }
}
