//! `top`, `record` and `report` with a live cache.

mod common;

use common::{good, lowmark, wrong};
use lowmark_cache::{Cache, Config};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Runs `f` beside a cache of 4 MiB, through which a thread reads and writes a file of 16 MiB.
fn beside(dir: &Path, f: impl FnOnce(&Cache, SocketAddr)) {
    let cache = Cache::new(Config {
        memory: 4 << 20,
        cpus: 2,
        metrics: Some("127.0.0.1:0".parse().expect("an address")),
        ..Config::default()
    });
    let cache = cache.expect("a cache");
    let at = cache.metrics_address().expect("it listens");
    let file = cache.open(dir.join("file")).expect("a file");
    file.truncate(16 << 20).expect("space");
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut state = 1_u32;
            while !over.load(SeqCst) {
                state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                let page = (state >> 8) % 4096;
                // The thread ends when the cache is shut down.
                let Ok(found) = file.pin(page) else { return };
                drop(found);
                if state.is_multiple_of(4) && file.write(u64::from(page) * 4096, b"new").is_err() {
                    return;
                }
            }
        });
        f(&cache, at);
        over.store(true, SeqCst);
    });
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_live_cache_is_shown_and_recorded() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    beside(dir, |_, at| {
        let frame = text(good(
            dir,
            &format!("top --live {at} --once --interval 300ms"),
        ));
        for told in [
            &*format!("a live cache at {at}"),
            "Normal",
            "how long calls took",
            "tasks: unsupported",
            "memory unsupported",
            "files",
        ] {
            assert!(frame.contains(told), "{told}: {frame}");
        }
        assert!(frame.lines().all(|l| l.chars().count() <= 80), "{frame}");
        let times = frame.lines().find(|l| l.trim_start().starts_with("hit "));
        let times = times.expect("a line of hits");
        assert!(
            times.contains(" miss ") && times.matches("s ").count() > 1,
            "{times}"
        );
        good(
            dir,
            &format!("record --live {at} --duration 1500ms --interval 100ms --quiet --out rec"),
        );
    });
    let report = text(good(dir, "report rec"));
    for told in [
        "lowmark-cache",
        "Direct pages scanned",
        "Kswapd pages scanned",
    ] {
        assert!(report.contains(told), "{told}: {report}");
    }
    let summary = std::fs::read_to_string(dir.join("rec/summary.csv")).expect("figures");
    assert!(
        summary.contains("miss_p99") && summary.contains("hit_p999"),
        "{summary}"
    );
    let page = std::fs::read_to_string(dir.join("rec/report.html")).expect("a page");
    assert!(page.contains("miss_p99"));
    let played = text(good(dir, "top rec --once"));
    assert!(played.contains("how long calls took"), "{played}");
    wrong(
        dir,
        "record --live 127.0.0.1:9 --duration 1s --out none",
        "127.0.0.1:9",
    );
    wrong(dir, "top --live 127.0.0.1:9 --once", "127.0.0.1:9");
    wrong(dir, "top --live nowhere --once", "nowhere");
}

#[test]
fn a_cache_that_ends_ends_its_recording() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    beside(dir, |cache, at| {
        std::thread::scope(|s| {
            let record = format!("record --live {at} --duration 1m --interval 100ms --out rec");
            let recorded = s.spawn(move || lowmark(dir, &record));
            std::thread::sleep(Duration::from_secs(1));
            assert!(cache.shutdown().is_clean());
            let recorded = recorded.join().expect("no panic");
            let said = text(recorded.stderr);
            assert!(recorded.status.success(), "{said}");
        });
    });
    let report = text(good(dir, "report rec"));
    assert!(report.contains("ended before"), "{report}");
}
