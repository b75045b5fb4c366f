//! A key-value store over the live cache, and a load for it like YCSB's:
//! `cargo run --release -p lowmark-cache --example kv`.
//!
//! ```text
//! kv load FOLDER [keys=100000] [value=100] [memory=64] [log=16]
//! kv run  FOLDER [ops=100000] [read=0.95] [zipf=0.99] [threads=1] [seed=1] [policy=linux-3.16]
//!               [trace=FILE] [rate=1] and those of load
//! kv get|del FOLDER KEY, kv put FOLDER KEY VALUE, kv scan FOLDER FROM MOST
//! ```
//!
//! `memory` and `log` are in MiB; a checkpoint is made when the log has this size. A run reads and
//! updates keys by Zipf's law, scattered over all keys. Each update is acknowledged when the device
//! has it. The run prints latency percentiles and the miss ratio. `trace` records a trace for
//! `lowmark mrc`; `rate` is the share of the pages in it.

#[allow(dead_code, reason = "the store's test uses what this does not")]
mod store;

use lowmark_cache::{Cache, Config};
use std::error::Error;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};
use store::Store;
use trace::generate::{Generator, Pattern, Plan};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The options that follow the folder.
struct Options(Vec<(String, String)>);

impl Options {
    fn parse(args: &[String]) -> Outcome<Self> {
        let known = "keys value memory log ops read zipf threads seed policy trace rate";
        let one = |arg: &String| {
            let (name, value) = arg
                .split_once('=')
                .ok_or_else(|| format!("{arg}: name=value?"))?;
            match known.split(' ').any(|k| k == name) {
                true => Ok((name.to_owned(), value.to_owned())),
                false => Err(format!("{name}: accepted are {known}")),
            }
        };
        Ok(Self(args.iter().map(one).collect::<Result<_, _>>()?))
    }

    fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rfind(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    fn get<T: FromStr>(&self, name: &str, default: T) -> Outcome<T> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{name}={text}: no such number").into()),
        }
    }

    fn cache(&self) -> Outcome<Cache> {
        let mut config = Config {
            memory: self.get("memory", 64_u64)? << 20,
            ..Config::default()
        };
        if let Some(name) = self.text("policy") {
            config.policy = mm::Policy::preset(name).ok_or("no such preset")?;
        }
        Ok(Cache::new(config)?)
    }

    fn store(&self, cache: &Cache, folder: &str) -> Outcome<Store> {
        std::fs::create_dir_all(folder)?;
        Ok(Store::open(
            cache,
            Path::new(folder),
            self.get("log", 16)? << 20,
        )?)
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("user{n:012}").into_bytes()
}

/// Returns a value of `bytes` bytes, different for each version.
fn value(n: u32, version: u64, bytes: usize) -> Vec<u8> {
    let text = format!("{n}.{version}.");
    text.bytes().cycle().take(bytes).collect()
}

fn load(folder: &str, options: &Options) -> Outcome<()> {
    let cache = options.cache()?;
    let store = options.store(&cache, folder)?;
    let (keys, bytes) = (options.get("keys", 100_000)?, options.get("value", 100)?);
    let begin = Instant::now();
    for n in 0..keys {
        store.change_soon(&key(n), Some(&value(n, 0, bytes)))?;
    }
    store.checkpoint()?;
    let (_, pages) = store.pages();
    let seconds = begin.elapsed().as_secs_f64();
    println!("{keys} keys in {seconds:.2} s, {pages} pages");
    end(&cache)
}

fn end(cache: &Cache) -> Outcome<()> {
    match cache.shutdown() {
        end if end.is_clean() => Ok(()),
        end => Err(format!("lost: {end:?}").into()),
    }
}

/// The times of reads and of updates.
type Times = [Vec<Duration>; 2];

/// Runs one thread's operations.
fn operations(store: &Store, plan: &Plan, bytes: usize) -> store::Result<Times> {
    let mut times = Times::default();
    for (i, request) in Generator::new(plan).enumerate() {
        let key = key(request.object);
        let begin = Instant::now();
        if request.write {
            store.put(&key, &value(request.object, i as u64, bytes))?;
        } else {
            store.get(&key)?.expect("a key that was loaded");
        }
        times[usize::from(request.write)].push(begin.elapsed());
    }
    Ok(times)
}

/// Returns a percentile (in thousandths) of sorted times, in microseconds.
fn percentile(sorted: &[Duration], of_thousand: usize) -> f64 {
    let at = (sorted.len() * of_thousand / 1000).min(sorted.len() - 1);
    sorted[at].as_secs_f64() * 1e6
}

fn table(times: &mut Times) {
    println!("µs                p50       p99     p99.9      most");
    for (name, times) in ["read", "update"].iter().zip(times) {
        times.sort();
        if !times.is_empty() {
            let [a, b, c, d] = [500, 990, 999, 1000].map(|n| percentile(times, n));
            println!(
                "{name:8} {:>7} {a:>8.1} {b:>9.1} {c:>9.1} {d:>9.1}",
                times.len()
            );
        }
    }
}

fn run(folder: &str, options: &Options) -> Outcome<()> {
    let cache = options.cache()?;
    let store = options.store(&cache, folder)?;
    let threads: u64 = options.get("threads", 1)?;
    let ops: u64 = options.get("ops", 100_000)?;
    let plan = Plan {
        pattern: Pattern::Zipf,
        objects: options.get("keys", 100_000)?,
        requests: ops / threads,
        skew: options.get("zipf", 0.99)?,
        writes: 1.0 - options.get("read", 0.95)?,
        rate: 1,
        seed: options.get("seed", 1)?,
    };
    let bytes = options.get("value", 100)?;
    let recording = match options.text("trace") {
        Some(path) => Some(cache.record(path, options.get("rate", 1.0)?)?),
        None => None,
    };
    let (before, (pins, _)) = (cache.stats(), store.pages());
    let begin = Instant::now();
    let all: Vec<store::Result<Times>> = std::thread::scope(|s| {
        let start = |t| {
            // All threads have the same popular keys.
            let plan = Plan {
                seed: plan.seed + t,
                ..plan.clone()
            };
            let store = &store;
            s.spawn(move || operations(store, &plan, bytes))
        };
        let threads: Vec<_> = (0..threads).map(start).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, _>| t.join().expect("no panic");
        threads.into_iter().map(join).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let mut times = Times::default();
    for of_thread in all {
        for (all, some) in times.iter_mut().zip(of_thread?) {
            all.extend(some);
        }
    }
    let (after, (all_pins, pages)) = (cache.stats(), store.pages());
    let (asked, read) = (all_pins - pins, (after.kib_read - before.kib_read) / 4);
    println!("{:.0} operations a second", ops as f64 / seconds);
    table(&mut times);
    let ratio = read as f64 / asked.max(1) as f64;
    println!("{asked} pages asked for, {read} read: miss ratio {ratio:.4}");
    println!("{pages} pages of the store, {} of the cache", after.pages);
    if let Some(told) = recording.map(lowmark_cache::Recording::finish) {
        println!("recorded: {told:?}, miss ratio {:.4}", told.miss_ratio());
    }
    store.checkpoint()?;
    end(&cache)
}

fn one(what: &str, folder: &str, words: &[String]) -> Outcome<()> {
    let options = Options(Vec::new());
    let cache = options.cache()?;
    let store = options.store(&cache, folder)?;
    match (what, words) {
        ("get", [key]) => match store.get(key.as_bytes())? {
            Some(value) => println!("{}", String::from_utf8_lossy(&value)),
            None => return Err("no such key".into()),
        },
        ("put", [key, value]) => store.put(key.as_bytes(), value.as_bytes())?,
        ("del", [key]) => store.delete(key.as_bytes())?,
        ("scan", [from, most]) => {
            for (key, value) in store.scan(from.as_bytes(), most.parse()?)? {
                let [key, value] = [key, value].map(|b| String::from_utf8_lossy(&b).into_owned());
                println!("{key}\t{value}");
            }
        }
        _ => return Err("kv load|run|get|put|del|scan FOLDER ...".into()),
    }
    end(&cache)
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [what, folder, rest @ ..] if what == "load" => load(folder, &Options::parse(rest)?),
        [what, folder, rest @ ..] if what == "run" => run(folder, &Options::parse(rest)?),
        [what, folder, words @ ..] => one(what, folder, words),
        _ => one("", "", &[]),
    }
}
