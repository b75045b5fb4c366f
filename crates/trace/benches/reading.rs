//! Speed of the readers, in records per second.

use divan::counter::{BytesCount, ItemsCount};
use std::io::Write as _;
use trace::generate::{Pattern, Plan};
use trace::{Options, Reader};

fn main() {
    divan::main();
}

const REQUESTS: u64 = 1_000_000;

fn plan() -> Plan {
    Plan {
        pattern: Pattern::Zipf,
        objects: 1_000_000,
        requests: REQUESTS,
        skew: 1.0,
        writes: 0.0,
        rate: 100_000,
        seed: 1,
    }
}

/// Returns a million requests in each format.
fn contents(format: &str) -> Vec<u8> {
    let mut out = Vec::new();
    match format {
        "oracleGeneral" => trace::write::oracle_general(&plan(), &mut out),
        "oracleGeneral.zst" => {
            trace::write::oracle_general(&plan(), &mut out).expect("memory");
            out = zstd::encode_all(&out[..], 3).expect("memory");
            Ok(())
        }
        "csv" => trace::write::csv(&plan(), &mut out),
        "msr" => (0..REQUESTS).try_for_each(|i| {
            let (time, at) = (128_166_372_003_061_629 + i * 977, i * 7919 % 100_000 * 4096);
            let kind = if i % 3 == 0 { "Write" } else { "Read" };
            writeln!(out, "{time},hm,{},{kind},{at},32768,113736", i % 2)
        }),
        "fio-iolog" => {
            out.extend_from_slice(b"fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n");
            (0..REQUESTS).try_for_each(|i| {
                writeln!(out, "{} /dev/x read {} 4096", i * 10, i * 7919 % 100_000 * 4096)
            })
        }
        "blkparse" => (0..REQUESTS).try_for_each(|i| {
            let (at, us) = (i * 7919 % 100_000 * 8, i % 1_000_000);
            let s = i / 1_000_000;
            writeln!(out, "  8,0    1 {i:8} {s:5}.{us:06}000   697  Q   W {at} + 8 [dd]")
        }),
        _ => {
            out.extend_from_slice(
                b"7 1795247166.000000 openat(AT_FDCWD, \"a\", O_RDWR) = 3 <0.000009>\n",
            );
            (0..REQUESTS).try_for_each(|i| {
                let us = i % 1_000_000;
                let at = i * 7919 % 100_000 * 4096;
                writeln!(
                    out,
                    "7 1795247167.{us:06} pread64(3, \"\\177ELF\\2\\1\\0\\0\"..., 4096, {at}) = 4096 <0.000005>"
                )
            })
        }
    }
    .expect("memory");
    out
}

#[divan::bench(args = ["oracleGeneral", "oracleGeneral.zst", "csv", "msr", "fio-iolog", "blkparse", "strace"])]
fn read(bencher: divan::Bencher<'_, '_>, format: &str) {
    let file = tempfile::NamedTempFile::with_suffix(format!(".{format}")).expect("a folder");
    let bytes = contents(format);
    std::fs::write(file.path(), &bytes).expect("space");
    let mut batch = Vec::new();
    bencher
        .counter(ItemsCount::new(REQUESTS as usize))
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| {
            let mut reader = Reader::open(file.path(), &Options::default()).expect("a trace");
            let mut sum = 0_u64;
            while reader.next_batch(&mut batch).expect("a good trace") {
                sum = batch.iter().fold(sum, |s, r| s ^ r.offset);
            }
            sum
        });
}
