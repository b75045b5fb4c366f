//! Compares calls that are futures with calls that block, on the same file, in alternating rounds:
//! hits, and misses of one thread, which either blocks for each or has 64 futures outstanding. The
//! file is in `TMPDIR`, which should be on a disk.

#[path = "../tests/executor/mod.rs"]
mod executor;

use executor::{Many, block_on};
use lowmark_cache::{Advice, AsyncFile, Cache, Config, File};
use std::cell::Cell;
use std::time::Instant;

const PAGE: usize = 4096;
/// Pages of the file; memory holds one in sixteen of them.
const PAGES: u64 = 65_536;
const MEMORY: u64 = PAGES * PAGE as u64 / 16;
/// Pages that are hit, and the numbers of hits and misses in a round.
const HOT: u64 = 1024;
const HITS: u64 = 200_000;
const MISSES: u64 = 6000;
const ROUNDS: usize = 9;

/// Returns a pseudorandom number.
fn mixed(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ z >> 27
}

/// Returns the seconds of calls that block.
fn blocking(file: &File, size: usize, pages: u64, calls: u64, seed: u64) -> f64 {
    let mut buf = vec![0; size];
    let start = Instant::now();
    for i in 0..calls {
        let at = mixed(seed + i) % pages * PAGE as u64;
        assert_eq!(file.read(at, &mut buf), Ok(size));
    }
    start.elapsed().as_secs_f64()
}

/// Returns the seconds of calls that are futures, `depth` of them outstanding on this thread.
fn futures(file: &AsyncFile, size: usize, pages: u64, calls: u64, seed: u64, depth: u64) -> f64 {
    let next = Cell::new(0);
    let start = Instant::now();
    let task = async || {
        let mut buf = vec![0; size];
        while next.get() < calls {
            let at = mixed(seed + next.replace(next.get() + 1)) % pages * PAGE as u64;
            let (n, back) = file.read(at, buf).await;
            assert_eq!(n, Ok(size));
            buf = back;
        }
    };
    match depth {
        1 => block_on(task()),
        _ => {
            let mut many = Many::default();
            (0..depth).for_each(|_| many.spawn(task()));
            many.run();
        }
    }
    start.elapsed().as_secs_f64()
}

fn line(name: &str, calls: u64, round: impl Fn(u64) -> (f64, f64)) {
    let mut rounds: Vec<(f64, f64)> = (0..ROUNDS as u64).map(round).collect();
    rounds.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let ratio = |r: usize| rounds[r].1 / rounds[r].0;
    let (blocks, futures) = rounds[ROUNDS / 2];
    println!(
        "{name:45} {:.2} ({:.2} to {:.2}); {:.0} and {:.0} ns a call",
        ratio(ROUNDS / 2),
        ratio(0),
        ratio(ROUNDS - 1),
        blocks / calls as f64 * 1e9,
        futures / calls as f64 * 1e9,
    );
}

fn main() {
    // `cargo test` runs benchmarks without `--bench`, only to try them.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let temporary = tempfile::NamedTempFile::new().expect("a folder");
    std::fs::write(temporary.path(), vec![1; PAGES as usize * PAGE]).expect("space");
    temporary.as_file().sync_all().expect("space");
    let config = Config {
        memory: MEMORY,
        ..Config::default()
    };
    let cache = Cache::new(config).expect("memory");
    let open = || {
        let file = cache.open(temporary.path()).expect("the file");
        file.advise(0, 0, Advice::Random).expect("advice");
        file
    };
    let (file, other) = (open(), open().into_async().expect("threads"));
    println!(
        "time of futures by that of calls that block, median of {ROUNDS} rounds (least to most)"
    );
    for size in [64, PAGE] {
        let name = format!("hits, {size} bytes");
        line(&name, HITS, |n| {
            let seed = 2 * n * HITS;
            // Reads the pages often enough that all of them reach the list where they stay.
            blocking(&file, size, HOT, 4 * HOT, seed);
            let blocks = blocking(&file, size, HOT, HITS, seed);
            (blocks, futures(&other, size, HOT, HITS, seed + HITS, 1))
        });
    }
    for depth in [1, 64] {
        let name = format!("misses, 4 KiB at random, {depth} outstanding");
        line(&name, MISSES, |n| {
            let seed = (2 * n + depth) * 1_000_000;
            let blocks = blocking(&file, PAGE, PAGES, MISSES, seed);
            let seed = seed + 1_000_000;
            (blocks, futures(&other, PAGE, PAGES, MISSES, seed, depth))
        });
    }
    drop((file, other));
    assert!(cache.shutdown().is_clean());
}
