//! Compares a buffer pool written by hand with one over the live cache: how long reads wait
//! (docs/live-replace.md).
//!
//! ```text
//! replace FOLDER [SECONDS] [MILLISECONDS A MIB] [SYNC EVERY MILLISECONDS]
//! ```
//!
//! Each pool has 16 MiB, over a file of 64 MiB on a slow device. One thread changes pages at random
//! as fast as it can; another reads pages by Zipf's law with a pause of 100 µs in between;
//! optionally a third syncs at intervals, whose time is not counted. Prints how long reads took,
//! and how many changes were made.

mod by_cache;
mod by_hand;
mod pool;
mod slow;

use by_cache::ByCache;
use by_hand::ByHand;
use pool::Pool;
use slow::Slow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trace::random::{Permutation, Rng, Zipf};

const PAGES: u32 = 16_384;
const MEMORY: u64 = 16 << 20;

fn read(pool: &dyn Pool, stop: &AtomicBool) -> Vec<Duration> {
    let (mut rng, zipf) = (Rng::new(1), Zipf::new(PAGES, 1.0));
    let scattered = Permutation::new(u64::from(PAGES), 3);
    let (mut times, mut sum) = (Vec::new(), 0_u64);
    while !stop.load(Relaxed) {
        let page = scattered.apply(u64::from(zipf.draw(&mut rng))) as u32;
        let begin = Instant::now();
        pool.read(page, &mut |b| sum += u64::from(b[9]))
            .expect("a page");
        times.push(begin.elapsed());
        std::thread::sleep(Duration::from_micros(100));
    }
    std::hint::black_box(sum);
    times
}

fn change(pool: &dyn Pool, stop: &AtomicBool, changes: &AtomicU64) {
    let mut rng = Rng::new(2);
    while !stop.load(Relaxed) {
        let page = rng.below(u64::from(PAGES)) as u32;
        pool.change(page, &mut |b| b[9] = b[9].wrapping_add(1))
            .expect("a page");
        changes.fetch_add(1, Relaxed);
    }
}

fn sync(pool: &dyn Pool, stop: &AtomicBool, every: Duration) {
    while !every.is_zero() && !stop.load(Relaxed) {
        std::thread::sleep(every);
        pool.sync().expect("a sync");
    }
}

fn measure(name: &str, pool: &dyn Pool, seconds: u64, every: Duration) {
    let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut times = std::thread::scope(|s| {
        let (stop, changes) = (&stop, &changes);
        s.spawn(move || change(pool, stop, changes));
        s.spawn(move || sync(pool, stop, every));
        // Lets both threads reach a steady state.
        std::thread::sleep(Duration::from_secs(3));
        let reader = s.spawn(move || read(pool, stop));
        let before = changes.load(Relaxed);
        std::thread::sleep(Duration::from_secs(seconds));
        changes.fetch_sub(before, Relaxed);
        stop.store(true, Relaxed);
        reader.join().expect("no panic")
    });
    times.sort();
    let at = |share: f64| {
        let i = (times.len() as f64 * share) as usize;
        times[i.min(times.len() - 1)].as_secs_f64() * 1e3
    };
    let [a, b, c, d, e] = [0.5, 0.9, 0.99, 0.999, 1.0].map(at);
    let (reads, changes) = (times.len() as u64 / seconds, changes.into_inner() / seconds);
    println!("{name:9} {reads:>7} {changes:>9} {a:>8.3} {b:>8.3} {c:>8.3} {d:>8.3} {e:>8.3}");
}

fn main() -> Result<(), lowmark_cache::Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let folder = args
        .first()
        .expect("replace FOLDER [SECONDS] [MILLISECONDS A MIB] [SYNC EVERY]");
    let number = |i: usize, default| {
        args.get(i)
            .map_or(default, |a| a.parse().expect("a number"))
    };
    let (seconds, per_mib) = (number(1, 10), Duration::from_millis(number(2, 50)));
    let every = Duration::from_millis(number(3, 0));
    let path = Path::new(folder).join("pool");
    println!(
        "pool      reads/s changes/s      p50      p90      p99    p99.9     most  (ms a read)"
    );
    let by_hand = ByHand::new(&Slow::new(per_mib), &path, PAGES, MEMORY)?;
    measure("by hand", &by_hand, seconds, every);
    drop(by_hand);
    let by_cache = ByCache::new(Arc::new(Slow::new(per_mib)), &path, PAGES, MEMORY)?;
    measure("by cache", &by_cache, seconds, every);
    Ok(())
}
