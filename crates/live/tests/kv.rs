//! Compares the example's store with a map, and tests that acknowledged changes survive a kill.

#[allow(dead_code, reason = "the example uses what this test does not")]
#[path = "../examples/kv/store/mod.rs"]
mod store;

use lowmark_cache::{Cache, Config};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use store::Store;

const CHILD: &str = "LOWMARK_KV_CHILD";
/// Number of keys: with their values they take three times the cache's memory.
const KEYS: u64 = 30_000;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the random number for a question about an operation.
fn drawn(seed: u64, op: u64, question: u64) -> u64 {
    let mut z = seed ^ op.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ question << 56;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Returns the key and value of operation `i`, `None` for a deletion. Keys have several lengths,
/// and some are in order.
fn change(seed: u64, i: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let d = |question, below| drawn(seed, i, question) % below;
    let n = match d(0, 4) {
        0 => i % KEYS,
        _ => d(1, KEYS),
    };
    let key = format!("{:x}{}", n % 251, "k".repeat((n % 40) as usize)) + &n.to_string();
    let value = || vec![d(2, 256) as u8; d(3, 900) as usize];
    (key.into_bytes(), (d(4, 5) > 0).then(value))
}

fn draw(map: &mut Map, (key, value): (Vec<u8>, Option<Vec<u8>>)) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn open(dir: &Path) -> (Cache, Store) {
    let config = Config {
        memory: 4 << 20,
        cpus: 2,
        ..Config::default()
    };
    let cache = Cache::new(config).expect("a cache");
    let store = Store::open(&cache, dir, 256 << 10).expect("a store");
    (cache, store)
}

fn all(store: &Store) -> Map {
    let entries = store.scan(b"", usize::MAX).expect("a scan");
    let n = entries.len();
    assert!(
        entries.is_sorted_by(|a, b| a.0 < b.0),
        "in order, each once"
    );
    let map: Map = entries.into_iter().collect();
    assert_eq!(map.len(), n);
    map
}

#[test]
fn a_map_and_the_store_agree() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut map = Map::new();
    for round in 0..4 {
        let (cache, store) = open(dir.path());
        assert!(
            all(&store) == map,
            "round {round}: what was closed is there"
        );
        for i in 0..12_000 {
            let (key, value) = change(round, i);
            match drawn(round, i, 7) % 50 {
                0 => match &value {
                    Some(v) => store.put(&key, v).expect("a put"),
                    None => store.delete(&key).expect("a delete"),
                },
                _ => store.change_soon(&key, value.as_deref()).expect("a change"),
            }
            draw(&mut map, (key, value));
            let (other, _) = change(round, drawn(round, i, 8) % 20_000);
            assert_eq!(store.get(&other).expect("a get"), map.get(&other).cloned());
            if i % 500 == 0 {
                let found = store.scan(&other, 100).expect("a scan");
                let wanted = map.range(other..).take(100);
                let wanted: Vec<_> = wanted.map(|(k, v)| (k.clone(), v.clone())).collect();
                assert!(found == wanted, "round {round}, operation {i}");
            }
        }
        if round == 2 {
            // All keys are deleted, so pages of the file are used again.
            for key in std::mem::take(&mut map).into_keys() {
                store.change_soon(&key, None).expect("a delete");
            }
            assert!(all(&store).is_empty());
        }
        store.checkpoint().expect("a checkpoint");
        drop(store);
        assert!(cache.shutdown().is_clean());
        cache.recount().expect("the engine is whole");
    }
}

#[test]
fn several_threads_put_and_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let (cache, store) = open(dir.path());
    std::thread::scope(|s| {
        for t in 0..4_u64 {
            let store = &store;
            s.spawn(move || {
                for i in 0..200_u64 {
                    let key = format!("{t}.{i}").into_bytes();
                    store.put(&key, &i.to_le_bytes()).expect("a put");
                    let other = format!("{t}.{}", i / 2).into_bytes();
                    let found = store.get(&other).expect("a get");
                    assert_eq!(found, Some((i / 2).to_le_bytes().to_vec()));
                }
            });
        }
    });
    assert_eq!(all(&store).len(), 800);
    drop(store);
    assert!(cache.shutdown().is_clean());
}

#[test]
fn what_is_too_long_or_no_store_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (cache, store) = open(dir.path());
    assert!(matches!(
        store.put(&[0; 257], b""),
        Err(store::Error::TooLong)
    ));
    assert!(matches!(
        store.put(b"", &[0; 1025]),
        Err(store::Error::TooLong)
    ));
    store
        .put(&[7; 256], &[8; 1024])
        .expect("as long as it may be");
    store.put(b"", b"").expect("as short as it may be");
    assert_eq!(all(&store).len(), 2);
    let other = tempfile::tempdir().expect("a folder");
    fs::write(other.path().join("tree"), vec![1; 10_000]).expect("a file");
    let wrong = Store::open(&cache, other.path(), 1 << 20);
    assert!(matches!(wrong, Err(store::Error::NoStore)));
}

/// The child: makes changes until it is killed. It logs the number of each before it begins; at
/// every few it waits until all are durable, and logs the number with the top bit set.
#[test]
#[ignore = "the test of kills runs it in a process of its own"]
fn child() {
    let Ok(said) = std::env::var(CHILD) else {
        return;
    };
    let (seed, dir) = said.split_once(' ').expect("a seed and a folder");
    let (seed, dir): (u64, _) = (seed.parse().expect("a seed"), Path::new(dir));
    let mut told = File::create(dir.join("told")).expect("a file");
    let (_cache, store) = open(dir);
    for i in 0.. {
        let (key, value) = change(seed, i);
        told.write_all(&i.to_le_bytes()).expect("space");
        if !drawn(seed, i, 6).is_multiple_of(16) {
            store.change_soon(&key, value.as_deref()).expect("a change");
            continue;
        }
        match value {
            Some(value) => store.put(&key, &value).expect("a put"),
            None => store.delete(&key).expect("a delete"),
        }
        told.write_all(&(i | 1 << 63).to_le_bytes()).expect("space");
    }
}

/// Runs a child and kills it at a random moment. Returns the last change reported durable, and how
/// many changes were begun.
fn one_life(seed: u64, dir: &Path) -> (Option<u64>, u64) {
    let told = dir.join("told");
    let _ = fs::remove_file(&told);
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, format!("{seed} {}", dir.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child");
    let until = Instant::now() + Duration::from_secs(20);
    // One child in four is killed while it opens the store.
    let opening = seed.is_multiple_of(4);
    while !opening && fs::metadata(&told).map_or(0, |m| m.len()) < 8 && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(200));
    }
    let most = if opening { 40_000 } else { 150_000 };
    std::thread::sleep(Duration::from_micros(drawn(seed, 0, 5) % most));
    child.kill().expect("it is ours");
    let end = child.wait().expect("it is ours");
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut said).expect("words");
    assert_eq!(end.code(), None, "seed {seed}: it ended by itself: {said}");
    let (mut stays, mut begun) = (None, 0);
    for entry in fs::read(&told).unwrap_or_default().chunks_exact(8) {
        let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
        match entry >> 63 {
            0 => begun = entry + 1,
            _ => stays = Some(entry & !(1 << 63)),
        }
    }
    (stays, begun)
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let kills = std::env::var("LOWMARK_KILLS").map_or(20, |n| n.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a folder");
    let mut map = Map::new();
    let (mut acknowledged, mut all_begun) = (0, 0);
    for seed in 0..kills {
        let (stays, begun) = one_life(seed, dir.path());
        let sure = stays.map_or(0, |i| i + 1);
        (0..sure).for_each(|i| draw(&mut map, change(seed, i)));
        let (cache, store) = open(dir.path());
        let found = all(&store);
        // Unacknowledged changes are there up to some number, and none after it.
        let mut right = found == map;
        for i in sure..begun {
            if right {
                break;
            }
            draw(&mut map, change(seed, i));
            right = found == map;
        }
        assert!(
            right,
            "life {seed}: {stays:?} of {begun} acknowledged, and something else is there"
        );
        acknowledged += sure;
        all_begun += begun;
        drop(store);
        assert!(cache.shutdown().is_clean());
    }
    assert!(
        acknowledged > 20 * kills,
        "{acknowledged} of {all_begun} in {kills} lives"
    );
}
