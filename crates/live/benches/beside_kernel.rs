//! Compares the live cache with the kernel's page cache: the same calls on the same temporary file.
//!
//! divan shows the times of each side; the last table shows their ratios, from alternating pairs.
//! The file's contents are in the kernel's page cache for both sides: a miss costs more than a
//! `pread` by the engine's work, not by a disk's.

use divan::counter::BytesCount;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// One of the two ways to access a file.
trait Side: Sync {
    /// Opens a file; `memory`: bytes of the cache's memory, where the live cache is used.
    fn open(path: &Path, memory: u64) -> Self;
    fn read(&self, pos: u64, buf: &mut [u8]);
    fn write(&self, pos: u64, buf: &[u8]);
    fn sync(&self);
}

/// `pread`, `pwrite` and `fsync`.
struct Kernel(std::fs::File);

impl Side for Kernel {
    fn open(path: &Path, _memory: u64) -> Self {
        let mut options = OpenOptions::new();
        Self(options.read(true).write(true).open(path).expect("a file"))
    }

    fn read(&self, pos: u64, buf: &mut [u8]) {
        self.0.read_exact_at(buf, pos).expect("what was written");
    }

    fn write(&self, pos: u64, buf: &[u8]) {
        self.0.write_all_at(buf, pos).expect("space");
    }

    fn sync(&self) {
        self.0.sync_all().expect("space");
    }
}

/// The same calls through a [`lowmark_cache::Cache`]; the file is dropped before its cache.
struct Live(lowmark_cache::File, lowmark_cache::Cache);

impl Side for Live {
    fn open(path: &Path, memory: u64) -> Self {
        let config = lowmark_cache::Config {
            memory,
            ..Default::default()
        };
        // Through the kernel's page cache, too (module documentation).
        let os = lowmark_cache::storage::Os { direct: false };
        let cache = lowmark_cache::Cache::on(std::sync::Arc::new(os), config).expect("memory");
        Self(cache.open(path).expect("a file"), cache)
    }

    fn read(&self, pos: u64, buf: &mut [u8]) {
        let got = self.0.read(pos, buf).expect("what was written");
        assert_eq!(got, buf.len());
    }

    fn write(&self, pos: u64, buf: &[u8]) {
        self.0.write(pos, buf).expect("memory and space");
    }

    fn sync(&self) {
        self.0.fsync().expect("space");
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        assert_eq!(self.1.shutdown().lost_pages, 0);
    }
}

const MIB: u64 = 1 << 20;

/// The calls that are made on a file.
#[derive(Debug, Clone, Copy)]
struct Load {
    name: &'static str,
    /// Bytes of the file.
    file: u64,
    /// Bytes of the live cache's memory.
    memory: u64,
    threads: u64,
    /// Calls of each thread.
    calls: u64,
    /// Bytes of a call.
    size: u64,
    /// True: positions are random.
    random: bool,
    /// True: writes, with an fsync at the end.
    writes: bool,
}

const READ: Load = Load {
    name: "",
    file: 32 * MIB,
    memory: 64 * MIB,
    threads: 1,
    calls: 50_000,
    size: 4096,
    random: true,
    writes: false,
};

const LOADS: [Load; 5] = [
    Load {
        name: "cached reads, 4 KiB, 1 thread",
        ..READ
    },
    Load {
        name: "cached reads, 4 KiB, 4 threads",
        threads: 4,
        ..READ
    },
    Load {
        name: "reads of 4 times memory, 4 KiB at random",
        file: 64 * MIB,
        memory: 16 * MIB,
        ..READ
    },
    Load {
        name: "reads of 4 times memory, 64 KiB in order",
        file: 64 * MIB,
        memory: 16 * MIB,
        calls: 1024,
        size: 64 << 10,
        random: false,
        ..READ
    },
    Load {
        name: "writes of 4 times memory, 64 KiB in order, fsync",
        file: 64 * MIB,
        memory: 16 * MIB,
        calls: 1024,
        size: 64 << 10,
        random: false,
        writes: true,
        ..READ
    },
];

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Load {
    /// Creates a file of the load's length without holes.
    fn file(&self) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a folder");
        std::fs::write(file.path(), vec![1; self.file as usize]).expect("space");
        file
    }

    fn one_thread(&self, side: &impl Side, nth: u64) {
        let mut buf = vec![7; self.size as usize];
        let places = self.file / self.size;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(nth + 1);
        for i in 0..self.calls {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let place = if self.random { state } else { i } % places;
            if self.writes {
                side.write(place * self.size, &buf);
            } else {
                side.read(place * self.size, &mut buf);
            }
        }
        divan::black_box(&buf);
        if self.writes {
            side.sync();
        }
    }

    fn run(&self, side: &impl Side) -> Duration {
        let start = Instant::now();
        if self.threads == 1 {
            self.one_thread(side, 0);
        } else {
            std::thread::scope(|scope| {
                for nth in 0..self.threads {
                    scope.spawn(move || self.one_thread(side, nth));
                }
            });
        }
        start.elapsed()
    }
}

#[divan::bench(types = [Kernel, Live], args = LOADS, sample_count = 10, sample_size = 1)]
fn calls<S: Side>(bencher: divan::Bencher<'_, '_>, load: &Load) {
    let file = load.file();
    let side = S::open(file.path(), load.memory);
    // Brings as much as fits into the cache.
    load.run(&side);
    bencher
        .counter(BytesCount::new(load.threads * load.calls * load.size))
        .bench_local(|| load.run(&side));
}

/// Prints the rates relative to the kernel's: medians of alternating pairs.
fn ratios() {
    const PAIRS: usize = 15;
    println!("\nrate of the live world by the kernel's, median of {PAIRS} pairs (least to most)");
    for load in LOADS {
        let file = load.file();
        let (kernel, live) = (
            Kernel::open(file.path(), load.memory),
            Live::open(file.path(), load.memory),
        );
        load.run(&kernel);
        load.run(&live);
        let mut all: Vec<f64> = (0..PAIRS)
            .map(|_| load.run(&kernel).as_secs_f64() / load.run(&live).as_secs_f64())
            .collect();
        all.sort_by(f64::total_cmp);
        println!(
            "{:50} {:.2} ({:.2} to {:.2})",
            load.name,
            all[PAIRS / 2],
            all[0],
            all[PAIRS - 1]
        );
    }
}

fn main() {
    divan::main();
    // `cargo test` runs benchmarks without `--bench`, only to try them.
    if std::env::args().any(|a| a == "--bench") {
        ratios();
    }
}
