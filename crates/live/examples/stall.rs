//! Measures how long tasks wait beside a writer that dirties pages as fast as it can.
//! `tests/live/stall` runs it on a throttled device, once through the kernel's page cache and once
//! through the live one.
//!
//! ```text
//! stall kernel|live FOLDER random|sequential SECONDS [POLICY]
//! ```
//!
//! There are four threads: the writer (with its latencies), a reader of random pages that mostly
//! miss, one that allocates a page every half millisecond (the kernel's side touches fresh
//! anonymous memory; the live side reads a hole, which takes a page and no device), and a control
//! that does nothing. Waits for a CPU are subtracted from all times (`schedstat`), because other
//! programs may use the machine. Prints a line for each thread in microseconds, and how long it
//! takes until all data is on the device.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const MEMORY: u64 = 256 << 20;
/// Bytes of the file that is written, and of the one that is read.
const WRITTEN: u64 = 1 << 30;
const READ: u64 = 512 << 20;
/// Bytes of anonymous memory that the kernel's side touches before it starts with a new block.
const ANONYMOUS: u64 = 64 << 20;
/// Bytes of the file that is a hole.
const HOLE: u64 = 64 << 30;
const EVERY: Duration = Duration::from_micros(500);

/// One of the two ways to access the files.
trait Side: Sync {
    fn write(&self, page: u64, bytes: &[u8]);
    fn read(&self, page: u64, bytes: &mut [u8]);
    /// Allocates a page that was never used before.
    fn allocate(&self, nth: u64);
    /// Waits until all written data is on the device.
    fn sync(&self);
}

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).expect("a file")
}

struct Kernel(File, File, Mutex<Vec<u8>>);

impl Side for Kernel {
    fn write(&self, page: u64, bytes: &[u8]) {
        self.0.write_all_at(bytes, page * PAGE).expect("space");
    }

    fn read(&self, page: u64, bytes: &mut [u8]) {
        self.1.read_exact_at(bytes, page * PAGE).expect("a page");
    }

    fn allocate(&self, nth: u64) {
        // The page is kept: a page freed at once would be allocated again from the CPU's stock of
        // its memory cgroup.
        let mut fresh = self.2.lock().expect("no panic");
        if nth.is_multiple_of(ANONYMOUS / PAGE) {
            *fresh = Vec::with_capacity(ANONYMOUS as usize);
        }
        let next = fresh.len() + PAGE as usize;
        fresh.resize(next, 1);
    }

    fn sync(&self) {
        self.0.sync_all().expect("space");
    }
}

struct Live {
    written: lowmark_cache::File,
    read: lowmark_cache::File,
    hole: lowmark_cache::File,
    cache: lowmark_cache::Cache,
}

impl Side for Live {
    fn write(&self, page: u64, bytes: &[u8]) {
        self.written.write(page * PAGE, bytes).expect("space");
    }

    fn read(&self, page: u64, bytes: &mut [u8]) {
        let n = self.read.read(page * PAGE, bytes);
        assert_eq!(n, Ok(bytes.len()));
    }

    fn allocate(&self, nth: u64) {
        // Every third page, so that no read-ahead starts.
        let page = nth * 3 % (HOLE / PAGE);
        std::hint::black_box(self.hole.pin(page as u32).expect("a page")[0]);
    }

    fn sync(&self) {
        self.written.fsync().expect("space");
    }
}

/// Reads for how many nanoseconds the calling thread has waited for a CPU so far.
struct Waits(File);

impl Waits {
    fn new() -> Self {
        Self(File::open("/proc/thread-self/schedstat").expect("CONFIG_SCHED_INFO"))
    }

    fn ns(&self) -> u64 {
        let mut text = [0; 64];
        let n = self.0.read_at(&mut text, 0).expect("schedstat");
        let text = std::str::from_utf8(&text[..n]).expect("digits");
        let second = text.split_whitespace().nth(1).expect("two numbers");
        second.parse().expect("a number")
    }
}

/// Returns for how many nanoseconds all CPUs were busy: the kernel's writeback belongs to no
/// process.
fn busy_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("procfs");
    let ticks: Vec<u64> = stat.lines().next().map_or_else(Vec::new, |line| {
        line.split_whitespace()
            .skip(1)
            .flat_map(str::parse)
            .collect()
    });
    // The fields are user, nice, system; then idle and iowait; then interrupts.
    (ticks.iter().take(3).sum::<u64>() + ticks.iter().skip(5).take(2).sum::<u64>()) * 10_000_000
}

/// Calls `f` until `over` is set; returns the time of each call without waits for a CPU.
fn times(over: &AtomicBool, pause: Duration, mut f: impl FnMut(u64)) -> Vec<u64> {
    let waits = Waits::new();
    let mut all = Vec::new();
    let mut nth = 0;
    while !over.load(Relaxed) {
        let before = waits.ns();
        let start = Instant::now();
        f(nth);
        let took = start.elapsed().as_nanos() as u64;
        let waited = waits.ns() - before;
        all.push(took.saturating_sub(waited));
        nth += 1;
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    all
}

fn line(name: &str, mut all: Vec<u64>) {
    all.sort_unstable();
    let at = |q: f64| all[((all.len() - 1) as f64 * q) as usize] as f64 / 1000.0;
    println!(
        "{name:10} {:8} calls; p50 {:.1}, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, max {:.1}",
        all.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(1.0)
    );
}

fn mixed(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ z >> 27
}

fn run(side: &impl Side, random: bool, seconds: u64) {
    let over = AtomicBool::new(false);
    let busy = busy_ns();
    let [writer, reader, alloc, control] = std::thread::scope(|s| {
        let over = &over;
        let threads = [
            s.spawn(move || {
                let bytes = [7; PAGE as usize];
                times(over, Duration::ZERO, |n| {
                    let page = if random { mixed(n) } else { n } % (WRITTEN / PAGE);
                    side.write(page, &bytes);
                })
            }),
            s.spawn(move || {
                let mut bytes = [0; PAGE as usize];
                times(over, EVERY * 10, |n| {
                    side.read(mixed(n + 77) % (READ / PAGE), &mut bytes);
                })
            }),
            s.spawn(move || times(over, EVERY, |n| side.allocate(n))),
            s.spawn(move || {
                times(over, EVERY, |n| {
                    std::hint::black_box(n);
                })
            }),
        ];
        std::thread::sleep(Duration::from_secs(seconds));
        over.store(true, Relaxed);
        threads.map(|t| t.join().expect("no panic"))
    });
    // A side that only held back more data would need longer to make it durable.
    let start = Instant::now();
    side.sync();
    let durable = start.elapsed();
    let busy = busy_ns() - busy;
    let mib = writer.len() as f64 * PAGE as f64 / (1 << 20) as f64;
    println!(
        "{:10} {mib:.0} MiB; durable after {:.0} ms; the machine's CPUs {:.2} s, {:.2} s a GiB",
        "written",
        durable.as_secs_f64() * 1000.0,
        busy as f64 / 1e9,
        busy as f64 / 1e9 / mib * 1024.0
    );
    line("writer", writer);
    line("reader", reader);
    line("allocate", alloc);
    line("control", control);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [side, folder, order, seconds, rest @ ..] = &args[..] else {
        panic!("stall kernel|live|prepare FOLDER random|sequential SECONDS [POLICY]");
    };
    let dir = Path::new(folder);
    let (random, seconds) = (order == "random", seconds.parse().expect("seconds"));
    let [written, read, hole] = ["written", "read", "hole"].map(|name| dir.join(name));
    if side == "prepare" {
        for (path, len) in [(&written, WRITTEN), (&read, READ)] {
            let mut file = open(path);
            let chunk = vec![1; 1 << 20];
            (0..len >> 20).for_each(|_| file.write_all(&chunk).expect("space"));
            file.sync_all().expect("space");
        }
        open(&hole).set_len(HOLE).expect("a long file");
    } else if side == "kernel" {
        let files = (open(&written), open(&read));
        run(&Kernel(files.0, files.1, Mutex::default()), random, seconds);
    } else {
        let policy = rest.first().map_or_else(
            || lowmark_cache::Config::default().policy,
            |name| mm::Policy::preset(name).expect("a preset"),
        );
        let cache = lowmark_cache::Cache::new(lowmark_cache::Config {
            memory: MEMORY,
            // A thread that is preempted keeps its slot.
            cpus: 8,
            // As much as the strict limit of the kernel's side: 16 MiB, so that both become durable
            // equally fast.
            dirty_ratio: 6,
            dirty_background_ratio: 3,
            policy,
            ..Default::default()
        })
        .expect("memory");
        let open = |path| cache.open(path).expect("a file");
        let (written, read, hole) = (open(&written), open(&read), open(&hole));
        let live = Live {
            written,
            read,
            hole,
            cache,
        };
        run(&live, random, seconds);
        println!("{:?}", live.cache.stats());
    }
}
