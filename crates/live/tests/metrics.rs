//! Tests the metrics page and the port where it is served.

use lowmark_cache::{Cache, Config, Error, File};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn config(metrics: &str) -> Config {
    Config {
        memory: 4 << 20,
        cpus: 2,
        max_threads: 5,
        max_files: 8,
        metrics: Some(metrics.parse().expect("an address")),
        ..Config::default()
    }
}

/// Creates a cache that has read and written, and returns the address of its metrics.
fn served() -> (Cache, File, SocketAddr, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::new(config("127.0.0.1:0")).expect("a cache");
    let at = cache.metrics_address().expect("it listens");
    let file = cache.open(dir.path().join("file")).expect("a file");
    for i in 0..3000 {
        file.write(i * 4096, &[1; 4096]).expect("a write");
    }
    file.fsync().expect("a sync");
    for i in 0..3000 {
        drop(file.pin(i).expect("a page"));
    }
    (cache, file, at, dir)
}

fn ask(at: SocketAddr, request: &[u8]) -> String {
    let mut client = TcpStream::connect(at).expect("a connection");
    client.write_all(request).expect("a request");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    answer
}

fn get(at: SocketAddr, accept: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {at}\r\nAccept: {accept}\r\n\r\n");
    let answer = ask(at, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())));
    body.to_owned()
}

/// Returns the samples of a page by name and labels. Checks the rules of the format: each family is
/// declared once, before its samples, which are contiguous.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let (mut family, mut kinds, mut found) = ("", BTreeMap::new(), BTreeMap::new());
    for line in page.lines() {
        if let Some(told) = line.strip_prefix("# TYPE ") {
            let (name, kind) = told.split_once(' ').expect("a kind");
            assert!(kinds.insert(name, kind).is_none(), "{name} twice");
            family = name;
        } else if let Some(told) = line.strip_prefix("# HELP ") {
            assert!(told.starts_with(family) && told.ends_with('.'), "{line}");
        } else if line != "# EOF" {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let own = name.split('{').next().expect("a name");
            let end = own.strip_prefix(family).expect("its family's");
            let ends = match kinds[family] {
                "counter" => ["_total", ""].as_slice(),
                "histogram" => ["_bucket", "_sum", "_count"].as_slice(),
                _ => [""].as_slice(),
            };
            assert!(ends.contains(&end), "{line}");
            let value = value.parse().expect("a number");
            assert!(found.insert(name, value).is_none(), "{name} twice");
        }
    }
    found
}

#[test]
fn a_client_reads_what_the_cache_does() {
    let (cache, file, at, _dir) = served();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !over.load(SeqCst) {
                (0..3000).for_each(|i| drop(file.pin(i).expect("a page")));
            }
        });
        let mut misses = 0.0;
        for _ in 0..20 {
            let page = get(at, "application/openmetrics-text; version=1.0.0");
            assert!(page.ends_with("\n# EOF\n"));
            let samples = samples(&page);
            let now = samples["lowmark_cache_miss_seconds_count"];
            assert!(now >= misses, "{now} after {misses}");
            misses = now;
        }
        over.store(true, SeqCst);
        assert!(misses > 0.0);
    });
    let page = cache.openmetrics();
    let samples = samples(&page);
    let latency = cache.latency();
    for (name, latency) in latency.all() {
        let of = format!("lowmark_cache_{name}_seconds");
        let buckets = samples
            .iter()
            .filter(|(n, _)| n.starts_with(&format!("{of}_bucket")));
        let limit = |name: &str| name.split('"').nth(1).expect("a limit").parse::<f64>();
        let mut buckets: Vec<(f64, f64)> = buckets
            .map(|(n, v)| (limit(n).expect("a number"), *v))
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by_key(|(_, n)| *n), "{of}: {buckets:?}");
        let count = samples[format!("{of}_count").as_str()];
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)));
        assert_eq!(count, latency.count() as f64);
        // The median is in the bucket that the cumulative counts give.
        let median = latency.p50().as_secs_f64();
        let at = buckets.iter().find(|(_, n)| *n >= (count / 2.0).ceil());
        let limit = at.expect("a bucket").0;
        assert!(median <= limit && (count == 0.0 || limit < median * 1.7 || limit < 1e-7));
    }
    let counters: BTreeMap<String, u64> = cache.vmstat().into_iter().collect();
    let event = |name: &str| {
        samples[format!("lowmark_cache_vmstat_events_total{{name=\"{name}\"}}").as_str()]
    };
    assert_eq!(event("pgpgin"), counters["pgpgin"] as f64);
    assert!(event("nr_written") >= 3000.0 && event("pgscan_kswapd_normal") > 0.0);
    let zone = |of: &str| {
        samples[format!("lowmark_cache_zone_pages{{zone=\"Normal\",of=\"{of}\"}}").as_str()]
    };
    assert!(zone("managed") == 1024.0 && zone("min") < zone("low") && zone("low") < zone("high"));
    assert!(cache.stats().openmetrics().ends_with("# EOF\n"));
    assert!(cache.shutdown().is_clean());
    assert_eq!(cache.metrics_address(), None);
    assert!(TcpStream::connect(at).is_err(), "it ends with the cache");
}

#[test]
fn nothing_else_is_served() {
    let (cache, _file, at, _dir) = served();
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9000));
    let cases: [(&[u8], &str); 8] = [
        (b"GET / HTTP/1.1\r\n\r\n", "404 "),
        (b"GET /metricsx HTTP/1.1\r\n\r\n", "404 "),
        (
            b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
            "405 ",
        ),
        (b"HEAD /metrics HTTP/1.0\r\n\r\n", "405 "),
        (b"GET /metrics\r\n\r\n", "400 "),
        (b"\r\n\r\n", "400 "),
        (b"GET /\xff HTTP/1.1\r\n\r\n", "400 "),
        (long.as_bytes(), "431 "),
    ];
    for (request, status) in cases {
        let answer = ask(at, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.ends_with("; served is GET /metrics\n"), "{answer}");
    }
    assert!(ask(at, b"GET /metrics?a=b HTTP/1.0\r\n\r\n").contains("# TYPE"));
    assert!(cache.shutdown().is_clean());
}

#[test]
fn who_says_nothing_is_left_and_holds_up_no_end() {
    let (cache, _file, at, _dir) = served();
    let mut silent = TcpStream::connect(at).expect("a connection");
    let begun = Instant::now();
    assert!(get(at, "*/*").contains("# TYPE"), "the next is answered");
    assert!(begun.elapsed() < Duration::from_secs(10), "in the end");
    let mut told = String::new();
    silent.read_to_string(&mut told).expect("an answer");
    assert!(told.starts_with("HTTP/1.1 408"), "{told}");
    drop(TcpStream::connect(at));
    // This client stops in the middle of its request.
    let mut slow = TcpStream::connect(at).expect("a connection");
    slow.write_all(b"GET /metr").expect("a part");
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    assert!(cache.shutdown().is_clean());
    assert!(
        begun.elapsed() < Duration::from_millis(800),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn only_this_machine_is_served() {
    for wrong in ["0.0.0.0:0", "192.0.2.1:9100", "[::]:0"] {
        let why = Cache::new(config(wrong)).err().expect("it is refused");
        assert!(
            matches!(&why, Error::Config(text) if text.contains(wrong) && text.contains("this machine")),
            "{why}"
        );
    }
    let cache = Cache::new(config("127.0.0.1:0")).expect("a cache");
    let taken = cache.metrics_address().expect("it listens").to_string();
    let why = Cache::new(config(&taken)).err().expect("it is taken");
    assert!(
        matches!(&why, Error::Config(text) if text.contains(&taken)),
        "{why}"
    );
    let none = Config {
        metrics: None,
        ..config("127.0.0.1:0")
    };
    let none = Cache::new(none).expect("a cache");
    assert_eq!(none.metrics_address(), None);
}

/// Checks the page with Prometheus' own tool, if that is installed
/// (`LOWMARK_EXPORT_TOOLS=required`: it must be).
#[test]
fn promtool_has_nothing_to_say() {
    let (_cache, _file, at, _dir) = served();
    let page = get(at, "*/*");
    assert!(!page.contains("# EOF"));
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        let required = std::env::var_os("LOWMARK_EXPORT_TOOLS").is_some_and(|v| v == "required");
        assert!(!required, "promtool (Debian's prometheus) is not here");
        return;
    };
    let mut into = promtool.stdin.take().expect("a pipe");
    into.write_all(page.as_bytes()).expect("it reads");
    drop(into);
    let done = promtool.wait_with_output().expect("it ends");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&said));
}
