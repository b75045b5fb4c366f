//! Measures in nanoseconds how long it takes to find a cached page and read a word of it: pinned in
//! a [`lowmark_cache::Cache`], copied out of it, through quick_cache to a slot of an array, through
//! a hash map, and by `pread`. All of them in turn in one run, on the same pages. `-- WORD` selects
//! those with the word in their name.

use std::collections::HashMap;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, RwLock};
use std::time::Instant;

const PAGE: usize = 4096;
const PAGES: u32 = 8192;
const CALLS: u32 = 200_000;
const ROUNDS: usize = 15;

/// A name, and a function that reads a page's first and last byte.
type Way<'a> = (&'static str, Box<dyn Fn(u32) -> u64 + Sync + 'a>);

fn both(page: &[u8]) -> u64 {
    u64::from(page[0]) + u64::from(page[PAGE - 1])
}

/// Returns the nanoseconds of a call on one thread.
fn one(way: &(dyn Fn(u32) -> u64 + Sync), nth: u64) -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(nth + 1);
    let (mut sum, start) = (0, Instant::now());
    for _ in 0..CALLS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += way(state as u32 % PAGES);
    }
    divan::black_box(sum);
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Returns the nanoseconds of a call on `threads` threads at once.
fn cost(way: &(dyn Fn(u32) -> u64 + Sync), threads: u64) -> f64 {
    std::thread::scope(|s| {
        let all: Vec<_> = (0..threads)
            .map(|nth| s.spawn(move || one(way, nth)))
            .collect();
        let ns = all.into_iter().map(|t| t.join().expect("a thread"));
        ns.sum::<f64>() / threads as f64
    })
}

fn main() {
    // `cargo test` runs benchmarks without `--bench`, only to try them.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let temporary = tempfile::NamedTempFile::new().expect("a folder");
    let bytes: Vec<u8> = (0..PAGES as usize * PAGE)
        .map(|i| (i / PAGE) as u8)
        .collect();
    std::fs::write(temporary.path(), &bytes).expect("space");
    let cache = lowmark_cache::Cache::new(lowmark_cache::Config {
        memory: 2 * bytes.len() as u64,
        ..Default::default()
    });
    let cache = cache.expect("memory");
    let file = cache.open(temporary.path()).expect("a file");
    let quick = quick_cache::sync::Cache::<(u32, u32), u32>::new(2 * PAGES as usize);
    let slots: HashMap<(u32, u32), u32> = (0..PAGES).map(|i| ((1, i), i)).collect();
    slots.iter().for_each(|(&k, &v)| quick.insert(k, v));
    let (mutex, read_write) = (Mutex::new(slots.clone()), RwLock::new(slots.clone()));
    let system = std::fs::File::open(temporary.path()).expect("a file");
    let slot = |i: u32| both(&bytes[i as usize * PAGE..][..PAGE]);
    let copy = |read: &dyn Fn(&mut [u8; PAGE])| {
        let mut page = [0; PAGE];
        read(&mut page);
        // The black box makes the compiler copy the whole page.
        both(divan::black_box(&page))
    };
    let at = |i: u32| u64::from(i) * PAGE as u64;
    let ways: [Way<'_>; 8] = [
        (
            "live, pinned",
            Box::new(|i| both(&*file.pin(i).expect("a page"))),
        ),
        (
            "quick_cache to a slot",
            Box::new(|i| slot(quick.get(&(1, i)).expect("a page"))),
        ),
        ("hash map", Box::new(|i| slot(slots[&(1, i)]))),
        (
            "hash map behind a mutex",
            Box::new(|i| slot(mutex.lock().expect("no panic")[&(1, i)])),
        ),
        (
            "hash map behind a lock for readers",
            Box::new(|i| slot(read_write.read().expect("no panic")[&(1, i)])),
        ),
        (
            "live, read with copy",
            Box::new(|i| copy(&|page| drop(file.read(at(i), page)))),
        ),
        (
            "quick_cache to a slot, with copy",
            Box::new(|i| {
                let from = quick.get(&(1, i)).expect("a page") as usize * PAGE;
                copy(&|page| page.copy_from_slice(&bytes[from..][..PAGE]))
            }),
        ),
        (
            "pread",
            Box::new(|i| copy(&|page| system.read_exact_at(page, at(i)).expect("a page"))),
        ),
    ];
    let word = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let named = |way: &Way<'_>| word.as_ref().is_none_or(|word| way.0.contains(word));
    let ways: Vec<Way<'_>> = ways.into_iter().filter(named).collect();
    println!("ns a look-up, median of {ROUNDS} rounds in turn (least), {PAGES} pages");
    for threads in [1, 2] {
        let mut all = vec![Vec::new(); ways.len()];
        for _ in 0..=ROUNDS {
            for (way, costs) in ways.iter().zip(&mut all) {
                costs.push(cost(&*way.1, threads));
            }
        }
        println!("{threads} thread{}", if threads == 1 { "" } else { "s" });
        for (way, mut costs) in ways.iter().zip(all) {
            // The first round is left out, because it reads the pages in.
            costs.remove(0);
            costs.sort_by(f64::total_cmp);
            println!("  {:36} {:7.1} ({:.1})", way.0, costs[ROUNDS / 2], costs[0]);
        }
    }
}
