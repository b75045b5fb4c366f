//! Readers of arbitrary bytes: no panic, no record out of bounds, and a lenient reader reaches the
//! end.

use proptest::prelude::*;
use std::io::Cursor;
use std::path::Path;
use trace::damage::{AMOUNT, damaged, feed};
use trace::random::Rng as Random;
use trace::{Format, MAX_FILE, Options, Reader, Unit};

const GOLDEN: [&str; 9] = [
    "shell.strace",
    "psync.v3.iolog",
    "hand.v2.iolog",
    "events.blkparse",
    "hand.msr.csv",
    "plain.csv",
    "vscsi-columns.csv",
    "names.csv",
    "sectors.oracleGeneral.bin",
];

/// Lines of the layouts of columns, with and without headers.
const LAYOUTS: [(Format, &str); 11] = [
    (
        Format::TencentCbs,
        "1538323200,304,16,0,1002\n1538323201,1096,8,1,1001\n",
    ),
    (
        Format::AlibabaBlock,
        "8,W,429591,4096,1577808000000000\n7,R,389120,512,1577808000002500\n",
    ),
    (
        Format::Spc,
        "0,303567,3584,w,0.000000\n1,1209856,512,r,0.026214,x\n",
    ),
    (
        Format::Systor17,
        "Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,R,0,10,4096\n2,0.1,,0,10,4096\n",
    ),
    (
        Format::Twitter,
        "0,q:q:1:Wb,21,101,1,get,0\n0,q:q:4:Wc,24,104,4,replace,0\n",
    ),
    (
        Format::KvCache2022,
        "key,op,size,op_count,key_size\n16,SET,82,1,40\n16,GET,0,1,40\n",
    ),
    (
        Format::KvCache2024,
        "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n6,8213,48,GET,1,87,1,0\n",
    ),
    (
        Format::MetaCdn,
        "timestamp,cacheKey,OpType,objectSize\n1,77,1,5000,9,9,-1,-1\n",
    ),
    (
        Format::WikiCdn,
        "1\t9\tjpeg\t5000\t0.002\n2\t10\tpng\t70000\t0.001\n",
    ),
    (Format::Arc, "1 1 0 0\n2 16 0 1\n"),
    (Format::Ids, "3\n4\nfive\n"),
];

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new("tests/golden").join(name)).unwrap()
}

fn check(bytes: &[u8], format: Option<Format>, unit: Unit) {
    for lenient in [false, true] {
        let options = Options {
            format,
            columns: None,
            lenient,
            unit,
        };
        let stream = Cursor::new(bytes.to_vec());
        let Ok(mut reader) = Reader::from_stream(stream, "x", &options) else {
            continue;
        };
        let mut batch = Vec::new();
        loop {
            match reader.next_batch(&mut batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    assert!(!lenient && e.record.is_some(), "{e}");
                    break;
                }
            }
            for r in &batch {
                assert!(r.end() <= MAX_FILE && r.offset <= MAX_FILE);
                assert!((r.file as usize) < reader.files().len());
                assert!((r.process as usize) < reader.processes().len());
            }
        }
        assert!(
            !reader.next_batch(&mut batch).unwrap_or(false),
            "it goes on after its end"
        );
    }
}

/// Returns the samples of a format; of all formats for `None`.
fn samples(format: Option<Format>) -> Vec<Vec<u8>> {
    let names: &[&str] = match format {
        None => &GOLDEN,
        Some(Format::OracleGeneral) => &GOLDEN[8..],
        Some(Format::Csv) => &GOLDEN[5..8],
        Some(Format::Msr) => &GOLDEN[4..5],
        Some(Format::FioIolog) => &GOLDEN[1..3],
        Some(Format::Blkparse) => &GOLDEN[3..4],
        Some(Format::Strace) => &GOLDEN[..1],
        Some(_) => &GOLDEN[4..8],
    };
    let mut all: Vec<Vec<u8>> = names.iter().map(|name| golden(name)).collect();
    for sample in &mut all {
        // Long enough for every kind of line, short enough for many copies.
        sample.truncate(12_000);
    }
    all
}

/// Feeds ten million bytes to one reader.
fn ten_million(format: Format) {
    let seed = format as u64;
    feed(seed, &samples(Some(format)), AMOUNT, |bytes| {
        check(bytes, Some(format), Unit::Auto);
    });
}

#[test]
fn ten_million_bytes_as_oracle_general() {
    ten_million(Format::OracleGeneral);
}

#[test]
fn ten_million_bytes_as_csv() {
    ten_million(Format::Csv);
}

#[test]
fn ten_million_bytes_as_msr() {
    ten_million(Format::Msr);
}

#[test]
fn ten_million_bytes_as_fio_iolog() {
    ten_million(Format::FioIolog);
}

#[test]
fn ten_million_bytes_as_blkparse() {
    ten_million(Format::Blkparse);
}

#[test]
fn ten_million_bytes_as_strace() {
    ten_million(Format::Strace);
}

/// Feeds ten million bytes to the reader of columns, as each of its layouts and as none.
#[test]
fn ten_million_bytes_as_layouts_of_columns() {
    for (format, lines) in LAYOUTS {
        let sample = [lines.repeat(100).into_bytes()];
        feed(format as u64, &sample, AMOUNT / 20, |bytes| {
            check(bytes, Some(format), Unit::Auto);
            check(bytes, None, Unit::Auto);
        });
    }
}

/// Feeds bytes of binary records: vscsiStats of both versions, and LCS behind its header.
#[test]
fn ten_million_bytes_as_binary_records() {
    let two: Vec<u8> = (0..4000)
        .map(|i| [0x28, 0, 0, 2, 7, 0, 0, 0, 0, 16][i % 40 % 10])
        .collect();
    let mut lcs = vec![0; 12_000];
    for at in [0, 8184] {
        lcs[at..at + 8].copy_from_slice(&0x1234_5678_9abc_def0_u64.to_le_bytes());
    }
    for version in 1..=8 {
        lcs[8] = version;
        feed(version.into(), &[lcs.clone()], AMOUNT / 20, |bytes| {
            check(bytes, None, Unit::Auto);
            check(bytes, Some(Format::Lcs), Unit::Auto);
        });
    }
    feed(9, &[two], AMOUNT / 10, |bytes| {
        check(bytes, Some(Format::Vscsi), Unit::Auto)
    });
}

/// Feeds ten million bytes packed by gzip, xz and bzip2, intact or damaged.
#[test]
fn ten_million_bytes_of_other_packings() {
    let packed = ["gz", "xz", "bz2"].map(|end| golden(&format!("many.msr.csv.{end}")));
    feed(103, &packed, AMOUNT, |bytes| check(bytes, None, Unit::Auto));
}

/// Feeds ten million bytes whose format must be recognised.
#[test]
fn ten_million_bytes_of_some_format() {
    feed(100, &samples(None), AMOUNT, |bytes| {
        check(bytes, None, Unit::Auto);
    });
}

/// Feeds ten million compressed bytes, intact or damaged.
#[test]
fn ten_million_bytes_of_zstd() {
    let mut packed = vec![golden("sectors.oracleGeneral.zst")];
    packed.extend(samples(None).iter().map(|s| packed_bytes(s)));
    feed(101, &packed, AMOUNT, |bytes| {
        check(bytes, None, Unit::Auto);
    });
    // Intact frames of damaged traces, which reach the readers.
    feed(102, &samples(None), AMOUNT / 4, |bytes| {
        check(&packed_bytes(bytes), None, Unit::Auto);
    });
}

fn packed_bytes(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn units() -> impl Strategy<Value = Unit> {
    prop_oneof![
        Just(Unit::Auto),
        Just(Unit::Sector),
        Just(Unit::Page),
        Just(Unit::Object)
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600), unit in units()) {
        check(&bytes, None, unit);
        for format in Format::ALL {
            check(&bytes, Some(format), unit);
        }
    }

    #[test]
    fn arbitrary_text(text in "([0-9]{1,4}[ ,.:\n]|[a-z(){}<>\"=+-]{1,3}|\\\\|\n){0,100}", unit in units()) {
        check(text.as_bytes(), None, unit);
        for format in Format::ALL {
            check(text.as_bytes(), Some(format), unit);
        }
    }

    #[test]
    fn damaged_traces(which in 0..GOLDEN.len(), seed in any::<u64>(), unit in units()) {
        let bytes = damaged(&[golden(GOLDEN[which])], &mut Random::new(seed));
        check(&bytes, None, unit);
        let packed = zstd::encode_all(&bytes[..], 1).unwrap();
        check(&packed, None, unit);
        let mut random = Random::new(seed);
        check(&damaged(&[packed], &mut random), None, unit);
    }

    #[test]
    fn damaged_strace(seed in any::<u64>()) {
        let lines = golden("shell.strace");
        let bytes = damaged(&[lines[..8000].to_vec()], &mut Random::new(seed));
        check(&bytes, Some(Format::Strace), Unit::Auto);
    }
}
