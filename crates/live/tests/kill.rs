//! Tests that data confirmed by fsync survives the death of the program. A child makes random
//! operations on a file through a cache and is killed at a random moment; the file is then compared
//! with all operations up to the last confirmed sync. `LOWMARK_KILLS`: number of kills, by default
//! 100.

use lowmark_cache::{Cache, Config};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// More than the child's memory, so that reclaim and the flusher run.
const MOST: u64 = 6 << 20;
const CHILD: &str = "LOWMARK_KILL_CHILD";

/// Returns the random number for a question about an operation.
fn drawn(seed: u64, op: u64, question: u64) -> u64 {
    let mut z = seed ^ op.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ question << 56;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

enum Op {
    Write(Range<u64>),
    /// A change in place, through a pinned page.
    Change(Range<u64>),
    Cut(u64),
    Sync,
}

/// Returns operation `i` for a file of `size` bytes.
fn op(seed: u64, i: u64, size: u64) -> Op {
    let d = |question, below| drawn(seed, i, question) % below;
    match d(0, 100) {
        0..6 => Op::Sync,
        6..9 => Op::Cut(d(1, MOST)),
        9..25 if size > 0 => {
            let at = d(1, size);
            let end = (at - at % PAGE + PAGE).min(size);
            Op::Change(at..at + 1 + d(2, end - at))
        }
        _ => {
            let at = d(1, MOST);
            Op::Write(at..at + 1 + d(2, 20_000))
        }
    }
}

/// Returns the byte that operation `i` writes.
fn byte(seed: u64, i: u64) -> u8 {
    drawn(seed, i, 9) as u8
}

/// Applies an operation to a model of the file.
fn draw(bytes: &mut Vec<u8>, op: &Op, byte: u8) {
    match op {
        Op::Write(r) | Op::Change(r) => {
            let len = bytes.len().max(r.end as usize);
            bytes.resize(len, 0);
            bytes[r.start as usize..r.end as usize].fill(byte);
        }
        Op::Cut(len) => bytes.resize(*len as usize, 0),
        Op::Sync => {}
    }
}

/// The child: makes operations until it is killed. Before each operation it logs the number, and
/// after each sync that returned the number with the top bit set.
#[test]
#[ignore = "the test of kills runs it in a process of its own"]
fn child() {
    let Ok(said) = std::env::var(CHILD) else {
        return;
    };
    let (seed, dir) = said.split_once(' ').expect("a seed and a folder");
    let (seed, dir): (u64, _) = (seed.parse().expect("a seed"), Path::new(dir));
    let mut log = File::create(dir.join("log")).expect("a log");
    let config = Config {
        memory: 4 << 20,
        cpus: 2,
        ..Config::default()
    };
    let cache = Cache::new(config).expect("a cache");
    let file = cache.open(dir.join("file")).expect("a file");
    for i in 0.. {
        let op = op(seed, i, file.size());
        log.write_all(&i.to_le_bytes()).expect("space");
        match op {
            Op::Write(r) => {
                let bytes = vec![byte(seed, i); (r.end - r.start) as usize];
                file.write(r.start, &bytes).expect("a write");
            }
            Op::Change(r) => {
                let mut page = file.pin_mut((r.start / PAGE) as u32).expect("a page");
                let base = r.start - r.start % PAGE;
                page[(r.start - base) as usize..(r.end - base) as usize].fill(byte(seed, i));
            }
            Op::Cut(len) => file.truncate(len).expect("a cut"),
            Op::Sync => {
                file.fsync().expect("a sync");
                log.write_all(&(i | 1 << 63).to_le_bytes()).expect("space");
            }
        }
    }
}

/// Compares a file with its log. Returns the last operation that was confirmed.
fn check(seed: u64, log: &[u8], found: &[u8]) -> Result<Option<u64>, String> {
    let (mut confirmed, mut begun) = (None, None);
    for entry in log.chunks_exact(8) {
        let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
        match entry >> 63 {
            0 => begun = Some(entry),
            _ => confirmed = Some(entry & !(1 << 63)),
        }
    }
    let (mut sure, mut later) = (Vec::new(), Vec::new());
    let behind = begun.map_or(0, |i| i + 1);
    let first = confirmed.map_or(0, |i| i + 1);
    for i in 0..first {
        let op = op(seed, i, sure.len() as u64);
        draw(&mut sure, &op, byte(seed, i));
    }
    let mut paper = sure.clone();
    let mut lengths = sure.len()..=sure.len();
    for i in first..behind {
        let op = op(seed, i, paper.len() as u64);
        draw(&mut paper, &op, byte(seed, i));
        let len = paper.len();
        lengths = *lengths.start().min(&len)..=*lengths.end().max(&len);
        later.push((i, op));
    }
    if !lengths.contains(&found.len()) {
        let n = found.len();
        return Err(format!("{n} bytes where {lengths:?} could be"));
    }
    let may_be = |at: usize, b: u8| {
        at >= sure.len() && b == 0
            || later.iter().any(|(i, op)| match op {
                Op::Write(r) | Op::Change(r) => r.contains(&(at as u64)) && b == byte(seed, *i),
                Op::Cut(_) => b == 0,
                Op::Sync => false,
            })
    };
    for (at, &b) in found.iter().enumerate() {
        if sure.get(at) != Some(&b) && !may_be(at, b) {
            let was = sure.get(at);
            return Err(format!(
                "byte {at} is {b} and was {was:?} when operation {confirmed:?} confirmed it"
            ));
        }
    }
    Ok(confirmed)
}

#[test]
fn what_was_synced_outlives_a_kill() {
    let kills = std::env::var("LOWMARK_KILLS").map_or(100, |n| n.parse().expect("a number"));
    let (mut syncs, mut begun) = (0, 0);
    for seed in 0..kills {
        let dir = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(CHILD, format!("{seed} {}", dir.path().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        // The time counts from the first operation, not from the start of the process.
        let log = dir.path().join("log");
        let until = Instant::now() + Duration::from_secs(20);
        while fs::metadata(&log).map_or(0, |m| m.len()) < 8 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(drawn(seed, 0, 1) % 60_000));
        child.kill().expect("it is ours");
        let end = child.wait().expect("it is ours");
        let mut said = String::new();
        let mut stderr = child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said).expect("words");
        assert_eq!(end.code(), None, "seed {seed}: it ended by itself: {said}");
        let read = |name| fs::read(dir.path().join(name)).unwrap_or_default();
        let (log, found) = (read("log"), read("file"));
        match check(seed, &log, &found) {
            Ok(confirmed) => syncs += u64::from(confirmed.is_some()),
            Err(e) => panic!("seed {seed}: {e}"),
        }
        begun += log.len() as u64 / 8;
    }
    // Most children reached a sync and continued after it.
    assert!(
        syncs > kills / 2,
        "{syncs} of {kills} had confirmed anything"
    );
    assert!(begun > 20 * kills, "{begun} operations in {kills} lives");
}

/// The check itself detects lost data.
#[test]
fn a_lost_byte_is_seen() {
    let seed = (0..).find(|&s| matches!(op(s, 0, 0), Op::Write(_)) && byte(s, 0) > 0);
    let seed = seed.expect("there is one");
    let entry = |i: u64| i.to_le_bytes();
    let mut bytes = Vec::new();
    draw(&mut bytes, &op(seed, 0, 0), byte(seed, 0));
    let log = [entry(0), entry(1 << 63)].concat();
    assert_eq!(check(seed, &log, &bytes), Ok(Some(0)));
    let mut lost = bytes.clone();
    *lost.last_mut().expect("a byte") = 0;
    assert!(check(seed, &log, &lost).is_err());
    assert!(check(seed, &log, &bytes[1..]).is_err());
    // Without confirmation any of these contents is allowed.
    for found in [&bytes[..], &lost, &[]] {
        assert_eq!(check(seed, &entry(0), found), Ok(None));
    }
}
