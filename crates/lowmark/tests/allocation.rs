//! Makes the n-th allocation fail, alone or with all later ones: the program completes or ends with
//! one message. It never aborts, hangs or shows a panic.
//!
//! This test program is its own subject: with `LOWMARK_FAIL_AT` it runs `lowmark` with a failing
//! allocator, otherwise it calls itself for many n. `LOWMARK_ALLOCATIONS` is the number of n to try
//! with each command (default 25); 0 means all.

use heap::Heap;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The system's allocator until it is made to fail.
struct Failing;

/// The number of allocations of at least `LEAST` bytes so far, and of the first one that fails.
static SEEN: AtomicU64 = AtomicU64::new(0);
static LEAST: AtomicU64 = AtomicU64::new(u64::MAX);
static FAIL_AT: AtomicU64 = AtomicU64::new(u64::MAX);
/// Whether all later allocations fail, too.
static FOR_GOOD: AtomicBool = AtomicBool::new(false);

fn fails(bytes: usize) -> bool {
    if (bytes as u64) < LEAST.load(SeqCst) {
        return false;
    }
    let (nth, at) = (SEEN.fetch_add(1, SeqCst) + 1, FAIL_AT.load(SeqCst));
    nth == at || nth > at && FOR_GOOD.load(SeqCst)
}

// SAFETY: every call is forwarded to the system's allocator, or refused as the trait allows.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return std::ptr::null_mut();
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return std::ptr::null_mut();
        }
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if fails(new_size) {
            return std::ptr::null_mut();
        }
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static HEAP: Heap<Failing> = Heap::new(Failing, lowmark::MORE_MEMORY);

const FAIL: &str = "LOWMARK_FAIL_AT";

/// Runs with a failing allocator (`N:LEAST:once` or `N:LEAST:for-good`) and writes the number of
/// allocations to a file.
fn subject(how: &str) -> ExitCode {
    let mut fields = how.split(':');
    let mut number = || {
        fields
            .next()
            .and_then(|f| f.parse().ok())
            .unwrap_or(u64::MAX)
    };
    let (at, least) = (number(), number());
    FOR_GOOD.store(how.ends_with("for-good"), SeqCst);
    FAIL_AT.store(at, SeqCst);
    LEAST.store(least, SeqCst);
    let code = lowmark::main();
    LEAST.store(u64::MAX, SeqCst);
    if let Ok(file) = std::env::var("LOWMARK_COUNT") {
        let _ = fs::write(file, SEEN.load(SeqCst).to_string());
    }
    code
}

/// Runs the subject; returns its exit code and its messages.
fn run(dir: &Path, args: &str, how: &str) -> (Option<i32>, String) {
    // Results, partial results, and files that the next start would recover.
    for left in fs::read_dir(dir).expect("a folder").flatten() {
        if left.path().is_dir() {
            fs::remove_dir_all(left.path()).expect("a folder of ours");
        }
    }
    let stderr = fs::File::create(dir.join("stderr")).expect("space");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(args.split_whitespace())
        .current_dir(dir)
        .env(FAIL, how)
        .env("LOWMARK_COUNT", dir.join("count"))
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .expect("this program");
    let mut patience = 60_000;
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if patience == 0 => {
                child.kill().expect("a child");
                panic!("it waits for ever: {how} {args}");
            }
            None => {
                std::thread::sleep(Duration::from_millis(2));
                patience -= 2;
            }
        }
    };
    let said = fs::read_to_string(dir.join("stderr")).expect("what it said");
    (status.code(), said)
}

const EXPERIMENT: &str = "name = \"e\"\niterations = 2\npolicy = [\"linux-3.0\", \"linux-3.1\"]\n\
    filesystem = \"xfs\"\nsample_s = 0.1\n[machine]\nname = \"m\"\ncpus = 2\n[[machine.node]]\n\
    zones = [{ zone = \"DMA32\", size = \"16M\" }]\n[machine.boot]\nkernel = \"1M\"\ndma = \"0\"\n\
    anon = \"1M\"\ncache = \"1M\"\n[machine.swap]\nsize = \"4M\"\n[machine.disk]\nkind = \"ssd\"\n\
    capacity = \"1G\"\n[workload]\ncommand = \"dd if=/dev/zero of=z bs=64k count=20\"\n";

const COMMANDS: [&str; 4] = [
    "run e.toml --jobs 2 --check --out out",
    "run e.toml --list",
    "mrc --trace t.csv --sizes 10..1000:5 --policy all --jobs 2 --writes --out out",
    "trace info t.csv",
];

fn main() -> ExitCode {
    if let Ok(how) = std::env::var(FAIL) {
        return subject(&how);
    }
    let wanted = std::env::var("LOWMARK_ALLOCATIONS").ok();
    let wanted: u64 = wanted.map_or(25, |n| n.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("e.toml"), EXPERIMENT).expect("space");
    let lines = (0..5000).map(|i| format!("{i},{},4096\n", i * i % 999 * 8));
    let text: String = std::iter::once("time,obj_id,size\n".to_owned())
        .chain(lines)
        .collect();
    fs::write(dir.path().join("t.csv"), text).expect("space");
    let (mut refused, mut done) = (0, 0);
    for args in COMMANDS {
        for least in [1, 4096, 65_536] {
            let (code, said) = run(dir.path(), args, &format!("{}:{least}:once", u64::MAX));
            assert_eq!(code, Some(0), "{args}: {said}");
            let count = fs::read_to_string(dir.path().join("count")).expect("a count");
            let count: u64 = count.parse().expect("a number");
            let tried = if wanted == 0 {
                count
            } else {
                wanted.min(count)
            };
            for i in 0..tried {
                let nth = 1 + i * count / tried;
                let how = if i % 2 == 0 { "once" } else { "for-good" };
                let how = format!("{nth}:{least}:{how}");
                let (code, said) = run(dir.path(), args, &how);
                let trace = said.contains("panicked") || said.contains("backtrace");
                let complaints = said.matches("error: memory ran out").count()
                    + said.matches("there is no memory for").count();
                match code {
                    // A command that can do without the memory completes.
                    Some(0) if !trace => done += 1,
                    Some(1) if !trace && complaints == 1 => refused += 1,
                    _ => panic!("{FAIL}={how} lowmark {args}: {code:?}\n{said}"),
                }
            }
        }
    }
    println!("allocation: {refused} runs ended with one message, {done} completed");
    assert!(refused > done, "allocations failed");
    ExitCode::SUCCESS
}
