//! Measures the memory that a cache takes of the process beside its budget. A single test, so that
//! no other test allocates meanwhile.

use lowmark_cache::{Cache, Config, Held};

const PAGE: usize = 4096;
const MIB: u64 = 1 << 20;

/// Returns the KiB of this process in memory, without pages of files. smaps_rollup counts exactly,
/// while the counters in `status` are approximate per-CPU and per-thread sums.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/smaps_rollup").expect("procfs");
    let line = status.lines().find(|l| l.starts_with("Anonymous:"));
    let kb = line.and_then(|l| l.split_whitespace().nth(1));
    kb.and_then(|kb| kb.parse().ok()).expect("a figure")
}

#[test]
fn memory_stays_within_the_budget() {
    for (mib, held) in [
        (64, Held::HugePages),
        (64, Held::Ordinary),
        (256, Held::HugePages),
    ] {
        let before = resident();
        let config = Config {
            memory: mib * MIB,
            held,
            ..Default::default()
        };
        let cache = Cache::new(config).expect("memory");
        let dir = tempfile::tempdir().expect("a folder");
        let mut most = 0;
        let mut look = || most = most.max(resident());
        look();
        let at_rest = resident() - before;
        // With huge pages all memory is allocated before it is used.
        while held == Held::HugePages && resident() - before < mib * 1024 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let pages = 2 * mib * MIB / PAGE as u64;
        let large = cache.open(dir.path().join("large")).expect("a file");
        let block = vec![7; 16 * PAGE];
        for at in (0..pages).step_by(16) {
            large.write(at * PAGE as u64, &block).expect("a write");
            if at % 1024 == 0 {
                look();
            }
        }
        // In random order with pages far apart, so that the page index is as sparse as possible.
        let mut page = [0; PAGE];
        for i in 0..pages / 2 {
            let at = i * 7919 % pages;
            large.read(at * PAGE as u64, &mut page).expect("a read");
            if i % 512 == 0 {
                look();
            }
        }
        let mut files = Vec::new();
        for i in 0..500 {
            let file = cache
                .open(dir.path().join(format!("small-{i}")))
                .expect("a file");
            file.write(0, &block).expect("a write");
            files.push(file);
            look();
        }
        let took = most - before;
        eprintln!("{mib} MiB, {held:?}: {took} KiB at most, {at_rest} at rest");
        // 2 % for the tables, and below 256 MiB another 2 MiB for what any cache has: stacks,
        // files, tasks, histograms, the ring.
        let any = if mib < 256 { 2048 } else { 0 };
        assert!(
            took <= mib * 1024 * 102 / 100 + any,
            "{mib} MiB: {took} KiB"
        );
        assert!(took >= mib * 1024, "it used its budget");
        let touched = held == Held::HugePages || at_rest < 8192;
        assert!(touched, "memory is given as it is touched: {at_rest} KiB");
        drop((large, files));
        assert!(cache.shutdown().is_clean());
    }
}
