//! Readers against bytes that nobody meant to be traces: no panic, no record out of bounds, and a
//! lenient reader gets to the end.

use proptest::prelude::*;
use std::io::Cursor;
use std::path::Path;
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

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new("tests/golden").join(name)).unwrap()
}

fn check(bytes: &[u8], format: Option<Format>, unit: Unit) {
    for lenient in [false, true] {
        let options = Options {
            format,
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

fn mutated(golden: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = golden.to_vec();
    for _ in 0..=random.below(20) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(5) {
            0 => bytes[at] = random.next_u64() as u8,
            1 => bytes[at] = b" ,.\n()<>\"=0123456789-x"[random.below(22) as usize],
            2 => drop(bytes.remove(at)),
            3 => {
                let end = (at + random.below(40) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len() as u64) as usize;
                bytes.splice(to..to, piece);
            }
            _ => bytes.truncate(at.max(1)),
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

#[test]
fn ten_million_random_bytes_through_each_reader() {
    const WANTED: usize = 10_000_000;
    for format in Format::ALL {
        let mut random = Random::new(format as u64);
        let mut left = WANTED;
        // Half of them raw, in pieces; half of them damaged traces of every format.
        while left > WANTED / 2 {
            let bytes: Vec<u8> = (0..1 << 17)
                .flat_map(|_| random.next_u64().to_le_bytes())
                .collect();
            check(&bytes, Some(format), Unit::Auto);
            left -= bytes.len().min(left);
        }
        let traces: Vec<Vec<u8>> = GOLDEN.iter().map(|name| golden(name)).collect();
        while left > 0 {
            let trace = &traces[random.below(traces.len() as u64) as usize];
            let bytes = mutated(trace, &mut random);
            check(&bytes, Some(format), Unit::Auto);
            left -= bytes.len().min(left);
        }
    }
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
        let bytes = mutated(&golden(GOLDEN[which]), &mut Random::new(seed));
        check(&bytes, None, unit);
        let packed = zstd::encode_all(&bytes[..], 1).unwrap();
        check(&packed, None, unit);
        let mut random = Random::new(seed);
        check(&mutated(&packed, &mut random), None, unit);
    }

    #[test]
    fn damaged_strace(seed in any::<u64>()) {
        let lines = golden("shell.strace");
        let bytes = mutated(&lines[..8000], &mut Random::new(seed));
        check(&bytes, Some(Format::Strace), Unit::Auto);
    }
}
