//! Compares the live cache with its device: misses, cold reads and writes against `O_DIRECT` calls
//! on the same file at the same depth, in alternating rounds. The file is in `TMPDIR`, which should
//! be on a disk.

use std::alloc::{Layout, alloc, dealloc};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Bytes of the file, and of the cache's memory: one read in 64 is a hit.
const FILE: u64 = 512 * MIB;
const MEMORY: u64 = 8 * MIB;
const ROUNDS: usize = 9;
/// The value of `O_DIRECT` on x86 and most other architectures.
const DIRECT: i32 = 0o40000;

/// Memory aligned for direct transfers.
struct Buffer(*mut u8, Layout);

impl Buffer {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len, 4096).expect("a size");
        // SAFETY: every length is above zero.
        let at = unsafe { alloc(layout) };
        assert!(!at.is_null(), "memory");
        // SAFETY: the allocation is `len` bytes long, and ours.
        unsafe { at.write_bytes(7, len) };
        Self(at, layout)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated and written by `new`, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.0, self.1) };
    }
}

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    /// Concurrent calls to the device, and the bytes of each.
    depth: u64,
    device_size: u64,
    /// Threads that call the cache, and the bytes of each call.
    threads: u64,
    size: u64,
    bytes: u64,
    random: bool,
    writes: bool,
}

const MISSES: Load = Load {
    name: "misses, 4 KiB at random, depth 1",
    depth: 1,
    device_size: 4096,
    threads: 1,
    size: 4096,
    bytes: 4096 * 4000,
    random: true,
    writes: false,
};

const LOADS: [Load; 5] = [
    MISSES,
    Load {
        name: "misses, 4 KiB at random, depth 4",
        depth: 4,
        threads: 4,
        bytes: 4096 * 12_000,
        ..MISSES
    },
    Load {
        name: "cold read in order, 64 KiB by 1 thread, depth 2",
        depth: 2,
        device_size: 128 << 10,
        size: 64 << 10,
        bytes: FILE,
        random: false,
        ..MISSES
    },
    Load {
        name: "write in order and fsync, 64 KiB by 1 thread, depth 1",
        depth: 1,
        device_size: 128 << 10,
        size: 64 << 10,
        bytes: FILE,
        random: false,
        writes: true,
        ..MISSES
    },
    Load {
        name: "write in order and fsync, 64 KiB by 1 thread, depth 4",
        depth: 4,
        device_size: 128 << 10,
        size: 64 << 10,
        bytes: FILE,
        random: false,
        writes: true,
        ..MISSES
    },
];

impl Load {
    /// Distributes the positions of calls of `size` bytes to `threads` threads.
    fn run(&self, (threads, size): (u64, u64), seed: u64, call: impl Fn(u64, &mut [u8]) + Sync) {
        let next = AtomicU64::new(0);
        let places = FILE / size;
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    let mut buffer = Buffer::new(size as usize);
                    loop {
                        let i = next.fetch_add(1, SeqCst);
                        if i * size >= self.bytes {
                            return;
                        }
                        let mut z = (i + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                        z ^= z >> 27;
                        let place = if self.random { z % places } else { i % places };
                        call(place * size, buffer.bytes());
                    }
                });
            }
        });
    }

    fn device(&self, path: &Path, seed: u64) -> Duration {
        let file = direct(path);
        let start = Instant::now();
        self.run((self.depth, self.device_size), seed, |at, b| {
            match self.writes {
                true => file.write_all_at(b, at).expect("space"),
                false => file.read_exact_at(b, at).expect("what was written"),
            };
        });
        if self.writes {
            file.sync_all().expect("space");
        }
        start.elapsed()
    }

    fn live(&self, path: &Path, seed: u64) -> Duration {
        let memory = if self.random { MEMORY } else { 8 * MEMORY };
        let config = lowmark_cache::Config {
            memory,
            ..Default::default()
        };
        let cache = lowmark_cache::Cache::new(config).expect("memory");
        let file = cache.open(path).expect("the file");
        if self.random {
            // Fills the cache's memory, which is full most of the time in use.
            let full = Load {
                bytes: 2 * MEMORY,
                ..*self
            };
            full.run((2, self.size), seed + 1000, |at, b| {
                assert_eq!(file.read(at, b), Ok(b.len()));
            });
        }
        let start = Instant::now();
        self.run((self.threads, self.size), seed, |at, b| {
            match self.writes {
                true => file.write(at, b).expect("space"),
                false => assert_eq!(file.read(at, b), Ok(b.len())),
            };
        });
        if self.writes {
            file.fsync().expect("space");
        }
        let took = start.elapsed();
        drop(file);
        assert!(cache.shutdown().is_clean());
        took
    }
}

fn direct(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).custom_flags(DIRECT);
    options.open(path).expect("a filesystem that has O_DIRECT")
}

fn main() {
    // `cargo test` runs benchmarks without `--bench`, only to try them.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let only = std::env::var("LOAD").unwrap_or_default();
    let file = tempfile::NamedTempFile::new().expect("a folder");
    std::fs::write(file.path(), vec![1; FILE as usize]).expect("space");
    file.as_file().sync_all().expect("space");
    println!(
        "rate by the device's, median of {ROUNDS} rounds by turns (least to most); of the device"
    );
    for load in LOADS.iter().filter(|l| l.name.contains(&only)) {
        let mut ratios = Vec::new();
        let mut rates = Vec::new();
        for round in 0..ROUNDS as u64 {
            let device = load.device(file.path(), 2 * round).as_secs_f64();
            let live = load.live(file.path(), 2 * round + 1).as_secs_f64();
            ratios.push(device / live);
            rates.push(load.bytes as f64 / MIB as f64 / device);
        }
        ratios.sort_by(f64::total_cmp);
        rates.sort_by(f64::total_cmp);
        println!(
            "{:55} {:.2} ({:.2} to {:.2}); {:.0} MiB/s",
            load.name,
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1],
            rates[ROUNDS / 2]
        );
    }
}
