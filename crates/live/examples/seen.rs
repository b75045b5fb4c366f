//! A cache that can be watched: it serves its metrics on loopback while threads read and write.
//!
//! `cargo run --release -p lowmark-cache --example seen -- FILE SECONDS [ADDRESS]`, then
//! `lowmark top --live 127.0.0.1:9100`. FILE is created with 256 MiB, four times the cache's
//! memory.

use lowmark_cache::{Cache, Config, Tracing};
use std::time::{Duration, Instant};

const FILE: u64 = 256 << 20;
const PAGE: u64 = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(seconds)) = (args.next(), args.next()) else {
        return Err("FILE SECONDS [ADDRESS]".into());
    };
    let address = args.next().unwrap_or_else(|| "127.0.0.1:9100".to_owned());
    let until = Instant::now() + Duration::from_secs(seconds.parse()?);
    let cache = Cache::new(Config {
        memory: FILE / 4,
        metrics: Some(address.parse()?),
        tracing: Some(Tracing::default()),
        ..Config::default()
    })?;
    let file = cache.open(path)?;
    file.truncate(FILE)?;
    std::thread::scope(|s| {
        // A reader, most of the time in a sixteenth of the file, which is a quarter of memory.
        s.spawn(|| {
            let mut state = 1_u32;
            while Instant::now() < until {
                state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                let pages = if state < 1 << 28 {
                    FILE / PAGE
                } else {
                    FILE / PAGE / 16
                };
                if let Err(e) = file.pin((u64::from(state >> 8) % pages) as u32) {
                    return eprintln!("a read: {e}");
                }
            }
        });
        // A writer that writes sequentially and then syncs.
        s.spawn(|| {
            let data = vec![1; 64 << 10];
            while Instant::now() < until {
                for at in (0..FILE).step_by(data.len()) {
                    if let Err(e) = file.write(at, &data) {
                        return eprintln!("a write: {e}");
                    }
                    if Instant::now() >= until {
                        break;
                    }
                }
                if let Err(e) = file.fsync() {
                    return eprintln!("a sync: {e}");
                }
            }
        });
    });
    for (name, latency) in cache.latency().all() {
        println!(
            "{name:10} {:9} timed, p50 {:?}, p99 {:?}, p99.9 {:?}, most {:?}",
            latency.count(),
            latency.p50(),
            latency.p99(),
            latency.p999(),
            latency.max()
        );
    }
    let told = cache.events();
    println!(
        "{} events, {} without room; the first:",
        told.events.len(),
        told.lost
    );
    for t in told.events.iter().take(5) {
        println!("{:?} {:?} {} {:?}", t.at, t.who, t.event.name(), t.event);
    }
    match cache.shutdown() {
        end if end.is_clean() => Ok(()),
        end => Err(format!("{end:?}").into()),
    }
}
