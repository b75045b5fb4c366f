//! Made files in each layout of columns, counted a second time here, and the rule that no layout is
//! taken for another.

use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::io::Cursor;
use trace::random::Rng;
use trace::{Format, Layout, Options, Reader, Reason, Record, Unit};

/// The layouts of text, and whether their lines leave no doubt without a header.
const TEXTS: [(Format, bool); 12] = [
    (Format::TencentCbs, false),
    (Format::AlibabaBlock, false),
    (Format::Spc, false),
    (Format::Systor17, false),
    (Format::Twitter, true),
    (Format::KvCache2022, true),
    (Format::KvCache2024, true),
    (Format::MetaCdn, false),
    (Format::WikiCdn, false),
    (Format::Arc, false),
    (Format::Ids, true),
    (Format::Csv, true),
];

/// A request as it was drawn: what a line says, before it is written in a layout.
struct Drawn {
    second: u64,
    volume: u64,
    /// The number of the page, or of the object.
    page: u64,
    pages: u64,
    write: bool,
}

fn draw(seed: u64, number: usize) -> Vec<Drawn> {
    let mut random = Rng::new(seed);
    let mut second = 1_538_323_200;
    (0..number)
        .map(|_| {
            second += random.below(2);
            let page = random.below(12) * random.below(12);
            Drawn {
                second,
                volume: 1000 + random.below(3),
                page,
                pages: 1 + page % 3,
                write: random.below(3) == 0,
            }
        })
        .collect()
}

/// Returns a line of a layout for a request, and the header line of the layout.
fn line(format: Format, r: &Drawn) -> (String, &'static str) {
    let (t, v, page, n) = (r.second, r.volume, r.page, r.pages);
    let letter = if r.write { "W" } else { "R" };
    let (get, bit) = if r.write { ("SET", 1) } else { ("GET", 0) };
    let bytes = n * 4096;
    match format {
        Format::TencentCbs => (format!("{t},{},{},{bit},{v}", page * 8, n * 8), ""),
        Format::AlibabaBlock => (
            format!("{v},{letter},{},{bytes},{t}000000", page * 4096),
            "",
        ),
        Format::Spc => (format!("{v},{},{bytes},{letter},{t}.5", page * 8), ""),
        Format::Systor17 => (
            format!("{t}.25,0.001,{letter},{v},{},{bytes}", page * 4096),
            "Timestamp,Response,IOType,LUN,Offset,Size",
        ),
        Format::Twitter => (
            format!("{t},q:{page},10,{},3,{},0", bytes - 10, get.to_lowercase()),
            "",
        ),
        Format::KvCache2022 => (
            format!("{page},{get},{},1,10", bytes - 10),
            "key,op,size,op_count,key_size",
        ),
        Format::KvCache2024 => (
            format!("{t},k{page},10,{get},1,{},0,60", bytes - 10),
            "op_time,key,key_size,op,op_count,size,cache_hits,ttl",
        ),
        Format::MetaCdn => (
            format!("{t},{page},1,{bytes},{bytes},300,-1,-1"),
            "timestamp,cacheKey,OpType,objectSize,responseSize,responseHeaderSize,rangeStart,\
             rangeEnd",
        ),
        Format::WikiCdn => (
            format!("{t}\t{page}\tjpeg\t{bytes}\t0.002"),
            "relative_unix\thashed_path_query\timage_type\tresponse_size\ttime_firstbyte",
        ),
        Format::Arc => (format!("{} {} 0 {t}", page * 8, n * 8), ""),
        Format::Ids => (page.to_string(), ""),
        _ => (format!("{t},{page},{bytes}"), "time,obj_id,obj_size"),
    }
}

/// Returns a file of a layout.
fn file(format: Format, requests: &[Drawn], header: bool) -> String {
    let mut text = String::new();
    for r in requests {
        let (line, head) = line(format, r);
        if header && text.is_empty() && !head.is_empty() {
            text += &format!("{head}\n");
        }
        text += &format!("{line}\n");
    }
    text
}

fn read(text: &str, options: &Options) -> Result<(Format, Reason, Vec<Record>), trace::TraceError> {
    let stream = Cursor::new(text.as_bytes().to_vec());
    let mut reader = Reader::from_stream(stream, "x", options)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        all.append(&mut batch);
    }
    Ok((reader.format(), reader.reason(), all))
}

/// Returns the pages that records ask for, by file.
fn pages(records: &[Record]) -> Vec<(u32, u64)> {
    let of = |r: &Record| {
        let (file, first) = (r.file, r.offset / 4096);
        let number = (r.offset % 4096 + u64::from(r.len)).div_ceil(4096);
        (first..first + number).map(move |page| (file, page))
    };
    records.iter().flat_map(of).collect()
}

/// Returns the number of misses of an LRU list of `size` entries.
fn misses<T: PartialEq + Copy>(keys: &[T], size: usize) -> usize {
    let mut list: Vec<T> = Vec::new();
    let mut missed = 0;
    for key in keys {
        match list.iter().position(|k| k == key) {
            Some(at) => drop(list.remove(at)),
            None => missed += 1,
        }
        list.insert(0, *key);
        list.truncate(size);
    }
    missed
}

/// Counts the same pages from what was drawn: volume or object, and the page in it.
fn expected(format: Format, requests: &[Drawn]) -> Vec<(u64, u64)> {
    let mut keys = Vec::new();
    for r in requests {
        match format {
            Format::TencentCbs | Format::AlibabaBlock | Format::Spc | Format::Systor17 => {
                keys.extend((r.page..r.page + r.pages).map(|p| (r.volume, p)));
            }
            Format::Arc => keys.extend((r.page..r.page + r.pages).map(|p| (0, p))),
            Format::Ids => keys.push((r.page, 0)),
            _ => keys.extend((0..r.pages).map(|p| (r.page, p))),
        }
    }
    keys
}

#[test]
fn each_layout_has_the_requests_pages_and_misses_of_its_lines() {
    let requests = draw(7, 3000);
    for (format, _) in TEXTS {
        for header in [true, false] {
            let options = Options {
                format: Some(format),
                unit: if format == Format::Csv {
                    Unit::Object
                } else {
                    Unit::Auto
                },
                ..Options::default()
            };
            let (_, _, records) = read(&file(format, &requests, header), &options).unwrap();
            let (got, wanted) = (pages(&records), expected(format, &requests));
            let name = format.name();
            assert_eq!(got.len(), wanted.len(), "{name}: requests");
            let distinct = |n: usize| (n, name);
            assert_eq!(
                distinct(got.iter().collect::<HashSet<_>>().len()),
                distinct(wanted.iter().collect::<HashSet<_>>().len())
            );
            let bytes: u64 = records.iter().map(|r| u64::from(r.len)).sum();
            assert_eq!(bytes, wanted.len() as u64 * 4096, "{name}: bytes");
            for size in [20, 100] {
                assert_eq!(misses(&got, size), misses(&wanted, size), "{name}: {size}");
            }
            let writes = records.iter().filter(|r| r.op == trace::Op::Write).count();
            let none = [
                Format::MetaCdn,
                Format::WikiCdn,
                Format::Arc,
                Format::Ids,
                Format::Csv,
            ];
            let drawn = requests.iter().filter(|r| r.write).count();
            assert_eq!(
                writes,
                if none.contains(&format) { 0 } else { drawn },
                "{name}"
            );
        }
    }
}

#[test]
fn columns_say_the_same_as_the_layout_of_that_name() {
    let requests = draw(8, 500);
    for (format, columns) in [
        (
            Format::TencentCbs,
            "time,offset:sector,size:sector,op,volume",
        ),
        (Format::AlibabaBlock, "volume,op,offset,size,time:us"),
        (Format::Twitter, "time,object,size,size,-,op,-"),
        (Format::WikiCdn, "time,object,-,size,latency"),
        (Format::Arc, "offset:sector,size:sector,-,-"),
        (Format::Ids, "object"),
    ] {
        let text = file(format, &requests, true);
        let of = |options| read(&text, &options).unwrap().2;
        let named = of(Options {
            format: Some(format),
            ..Options::default()
        });
        let said = of(Options {
            columns: Some(columns.parse::<Layout>().unwrap()),
            ..Options::default()
        });
        assert_eq!(named, said, "{columns}");
    }
}

#[test]
fn scsi_commands_may_be_hexadecimal() {
    let text = "version,time,op,size,lbn\n1,100,2a,4096,800\n1,101,28,8192,808\n1,102,88,4096,8\n";
    let (_, _, records) = read(text, &Options::default()).unwrap();
    let ops: Vec<_> = records.iter().map(|r| r.op.name()).collect();
    assert_eq!(ops, ["write", "read", "read"]);
}

/// Returns a vscsiStats record of version 1 or 2.
fn vscsi(version: u16, r: &Drawn) -> Vec<u8> {
    let command: u16 = if r.write { 0x2a } else { 0x28 };
    let (len, place, us) = (r.pages as u32 * 4096, r.page * 8, r.second * 1_000_000);
    let mut bytes = Vec::new();
    if version == 2 {
        bytes.extend([command.to_le_bytes(), (version << 8).to_le_bytes()].concat());
        bytes.extend([7_u32, len, 1].map(u32::to_le_bytes).concat());
        bytes.extend([place, us, 250].map(u64::to_le_bytes).concat());
    } else {
        bytes.extend([7_u32, len, 1].map(u32::to_le_bytes).concat());
        bytes.extend([command.to_le_bytes(), (version << 8).to_le_bytes()].concat());
        bytes.extend([place, us].map(u64::to_le_bytes).concat());
    }
    bytes
}

/// Returns an LCS file of a version.
fn lcs(version: u64, requests: &[Drawn]) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    for at in [0, 8184] {
        bytes[at..at + 8].copy_from_slice(&0x1234_5678_9abc_def0_u64.to_le_bytes());
    }
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    for r in requests {
        bytes.extend((r.second as u32).to_le_bytes());
        bytes.extend((r.page + (1 << 40)).to_le_bytes());
        let size = r.pages * 4096;
        bytes.extend(&size.to_le_bytes()[..if version < 3 { 4 } else { 8 }]);
        if version > 1 {
            bytes.extend([if r.write { 3 } else { 1 }, 0, 0, 0]);
        }
        if version > 2 {
            bytes.extend([0; 4]);
        }
        bytes.extend((-1_i64).to_le_bytes());
        if version > 3 {
            bytes.extend(vec![0; 4 << (version - 4)]);
        }
    }
    bytes
}

#[test]
fn binary_records_are_recognised_and_counted() {
    let requests = draw(9, 2000);
    let check = |bytes: Vec<u8>, format: Format, as_: Format, writes: bool| {
        let stream = Cursor::new(bytes);
        let mut reader = Reader::from_stream(stream, "x", &Options::default()).unwrap();
        assert_eq!(reader.format(), format);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while reader.next_batch(&mut batch).unwrap() {
            all.append(&mut batch);
        }
        let (got, wanted) = (pages(&all), expected(as_, &requests));
        assert_eq!(got.len(), wanted.len());
        assert_eq!(misses(&got, 30), misses(&wanted, 30));
        let written = all.iter().filter(|r| r.op == trace::Op::Write).count();
        let drawn = requests.iter().filter(|r| r.write).count();
        assert_eq!(written, if writes { drawn } else { 0 });
    };
    for version in [1, 2] {
        let bytes = requests.iter().flat_map(|r| vscsi(version, r)).collect();
        check(bytes, Format::Vscsi, Format::Arc, true);
    }
    for version in 1..=8 {
        let bytes = lcs(version, &requests);
        check(bytes, Format::Lcs, Format::Csv, version > 1);
    }
}

#[test]
fn unclear_columns_are_refused_with_their_candidates() {
    let requests = draw(10, 50);
    for (format, evident) in TEXTS {
        let read = read(&file(format, &requests, false), &Options::default());
        match read {
            Ok((as_, ..)) => assert!(evident && as_ == format, "{}", format.name()),
            Err(e) => {
                assert!(!evident, "{}: {e}", format.name());
                let named = e.message.contains(format.name());
                assert!(named || format == Format::MetaCdn, "{}: {e}", format.name());
                assert!(e.accepted.contains("format"), "{e}");
            }
        }
    }
}

proptest! {
    /// Files of any requests: each is read in its own layout or refused.
    #[test]
    fn no_layout_is_taken_for_another(
        seed in any::<u64>(),
        number in 1_usize..60,
        which in 0..TEXTS.len(),
        header in any::<bool>(),
    ) {
        let format = TEXTS[which].0;
        let text = file(format, &draw(seed, number), header);
        match read(&text, &Options::default()) {
            Ok((as_, ..)) => prop_assert_eq!(as_, format),
            Err(e) => prop_assert!(e.message.contains("column"), "{}", e),
        }
    }

    /// Columns of numbers without names are never read, but for three and four of them.
    #[test]
    fn columns_of_numbers_are_not_guessed(
        lines in proptest::collection::vec(proptest::collection::vec(0_u32..5000, 5..9), 1..20),
    ) {
        let columns = lines[0].len();
        let mut text = String::new();
        for line in &lines {
            let fields: Vec<_> = (0..columns).map(|i| line[i % line.len()].to_string()).collect();
            text += &format!("{}\n", fields.join(","));
        }
        prop_assert!(read(&text, &Options::default()).is_err());
    }
}

#[test]
fn volumes_keep_their_names() {
    let requests = draw(11, 100);
    let options = Options {
        format: Some(Format::AlibabaBlock),
        ..Options::default()
    };
    let text = file(Format::AlibabaBlock, &requests, false);
    let stream = Cursor::new(text.into_bytes());
    let mut reader = Reader::from_stream(stream, "x", &options).unwrap();
    let mut batch = Vec::new();
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    while reader.next_batch(&mut batch).unwrap() {
        for r in &batch {
            *by.entry(reader.files()[r.file as usize].clone())
                .or_default() += 1;
        }
    }
    assert_eq!(by.keys().collect::<Vec<_>>(), ["1000", "1001", "1002"]);
    assert_eq!(by.values().sum::<usize>(), 100);
}
