//! Reads the metrics page that a live cache (`lowmark-cache`) serves on loopback and turns it into
//! files like those of a look at `/proc`, so that recordings, reports and `lowmark top` show it
//! with their existing code. Figures missing on the page have no line.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The kernel's release in the recording of a live cache.
pub const RELEASE: &str = "lowmark-cache";
/// The file of a look that has latencies; no system has a file of this name.
pub const LATENCY: &str = "lowmark-cache/latency";
/// The name of all disks of a live cache together.
pub const DISKS: &str = "files";
/// The timed operations, in the order of panels.
pub const KINDS: [&str; 6] = ["hit", "miss", "write", "throttle", "allocation", "fsync"];
/// The reported percentiles: the end of their names, and their share.
pub const SHARES: [(&str, f64); 2] = [("p99", 0.99), ("p999", 0.999)];

/// How long to wait for an answer: the cache answers one client after another, and waits for each
/// up to a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer in bytes.
const MOST: u64 = 1 << 20;
const BEFORE: &str = "lowmark_cache_";

/// The address of a live cache: a port of loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    port: u16,
    /// Whether the host is `::1` instead of `127.0.0.1`.
    six: bool,
}

impl Live {
    /// Parses `127.0.0.1:9100` or `[::1]:9100`.
    ///
    /// # Errors
    /// The text is no such address; the error says what is accepted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        let six = host == "[::1]";
        let port = port.parse().ok().filter(|_| six || host == "127.0.0.1");
        let live = port.map(|port| Self { port, six });
        live.ok_or_else(|| {
            "accepted: an address of loopback, 127.0.0.1:PORT or [::1]:PORT".to_owned()
        })
    }

    /// Returns the address as [`Self::parse`] reads it.
    pub fn address(self) -> String {
        let host = if self.six { "[::1]" } else { "127.0.0.1" };
        format!("{host}:{}", self.port)
    }

    /// Fetches the metrics page by HTTP and returns its text without the header.
    ///
    /// # Errors
    /// Nothing answers at the address, or not with such a page.
    pub fn page(self) -> io::Result<String> {
        let host = match self.six {
            true => IpAddr::V6(Ipv6Addr::LOCALHOST),
            false => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let mut server = TcpStream::connect_timeout(&SocketAddr::new(host, self.port), PATIENCE)?;
        server.set_read_timeout(Some(PATIENCE))?;
        server.set_write_timeout(Some(PATIENCE))?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n",
            self.address()
        );
        server.write_all(request.as_bytes())?;
        let mut answer = String::new();
        server.take(MOST).read_to_string(&mut answer)?;
        let page = answer
            .split_once("\r\n\r\n")
            .filter(|(head, page)| head.contains(" 200 ") && page.contains(BEFORE))
            .map(|(_, page)| page.to_owned());
        page.ok_or_else(|| io::Error::other("no live cache answers at this address"))
    }

    /// Fetches the metrics page and returns it as the files of a look, each by its path, as if read
    /// from `/proc`.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub fn look(self) -> io::Result<Vec<(&'static str, String)>> {
        self.page().map(|page| files(&page))
    }
}

/// Returns the first quoted part of a text, and the text behind it; both are empty if there is
/// none.
fn quoted(text: &str) -> (&str, &str) {
    let (_, rest) = text.split_once('"').unwrap_or(("", ""));
    rest.split_once('"').unwrap_or(("", ""))
}

/// Converts the metrics page of a live cache into the files of a look (path, text): its levels,
/// events and zones in the form of `/proc`, and its latencies.
pub fn files(page: &str) -> Vec<(&'static str, String)> {
    let (mut vmstat, mut latency, mut zones) = (String::new(), String::new(), String::new());
    let mut last_zone = "";
    let mut last_bucket = ("", "0");
    for line in page.lines() {
        let Some((name, value)) = line
            .strip_prefix(BEFORE)
            .and_then(|line| line.rsplit_once(' '))
        else {
            continue;
        };
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        let (label, labels) = quoted(labels);
        if let "vmstat_level_pages" | "vmstat_events_total" = name {
            let _ = writeln!(vmstat, "{label} {value}");
        } else if name == "zone_pages" {
            if last_zone != label {
                let _ = writeln!(zones, "Node 0, zone {label}");
                last_zone = label;
            }
            let figure = quoted(labels).0;
            let _ = writeln!(zones, "  {figure} {value}");
            // No zone has holes, or pages that the allocator does not own.
            if figure == "managed" {
                let _ = writeln!(zones, "  spanned {value}\n  present {value}");
            }
        } else if let Some(kind) = name.strip_suffix("_seconds_bucket") {
            // Buckets that add no times are left out.
            if last_bucket != (kind, value) && value != "0" {
                let _ = writeln!(latency, "{kind} {label} {value}");
            }
            last_bucket = (kind, value);
        }
    }
    let disks = disks(&vmstat);
    let mut files = Vec::new();
    for (path, text) in [
        ("/proc/vmstat", vmstat),
        ("/proc/zoneinfo", zones),
        ("/proc/diskstats", disks),
        (LATENCY, latency),
    ] {
        if !text.is_empty() {
            files.push((path, text));
        }
    }
    files
}

/// Returns the cache's reads and writes as one line of `/proc/diskstats`. The number of requests in
/// flight is unknown.
fn disks(vmstat: &str) -> String {
    let counters = crate::proc::vmstat(vmstat);
    match (counters.get("pgpgin"), counters.get("pgpgout")) {
        (Some(read), Some(written)) => {
            let (read, written) = (read * 2, written * 2);
            format!("0 0 {DISKS} - - {read} - - - {written} - - -\n")
        }
        _ => String::new(),
    }
}

/// Cumulative counts of times of each kind, by the upper limits of their buckets in seconds.
#[derive(Debug, Clone, Default)]
pub struct Latencies([Vec<(f64, u64)>; KINDS.len()]);

/// The times of one kind between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Between {
    /// The number of times.
    pub count: u64,
    /// For each of [`SHARES`], its percentile in seconds: the upper limit of a bucket, of which
    /// there are two per power of two. `None`: no time was taken.
    pub shares: [Option<f64>; SHARES.len()],
}

impl Between {
    /// Returns the percentiles of a kind of operation in microseconds, by their names in results,
    /// such as `miss_p99`.
    pub fn named(self, kind: &str) -> Vec<(String, f64)> {
        let mut named = Vec::new();
        for ((share, _), seconds) in SHARES.into_iter().zip(self.shares) {
            if let Some(s) = seconds {
                named.push((format!("{kind}_{share}"), s * 1e6));
            }
        }
        named
    }
}

impl Latencies {
    /// Parses the latency file of a look: lines of a kind of operation, an upper limit in seconds,
    /// and the number of operations that took at most so long.
    pub fn of(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let [kind, limit, n] = words[..]
                && let Some(at) = KINDS.iter().position(|k| *k == kind)
                && let (Ok(limit), Ok(n)) = (limit.parse(), n.parse())
            {
                all.0[at].push((limit, n));
            }
        }
        all
    }

    /// Returns the buckets of a kind of operation, as upper limit in seconds and cumulative count;
    /// empty if there is no such kind.
    fn of_kind(&self, kind: &str) -> &[(f64, u64)] {
        let at = KINDS.iter().position(|k| *k == kind);
        at.map_or(&[], |at| &self.0[at])
    }

    /// Returns how many operations of a kind took at most `limit` seconds.
    fn up_to(&self, kind: &str, limit: f64) -> u64 {
        let mut found = 0;
        for (l, n) in self.of_kind(kind) {
            if *l <= limit {
                found = *n;
            }
        }
        found
    }

    /// Returns how many operations of a kind (such as `miss`) were timed since an earlier moment,
    /// and the percentiles of their durations.
    pub fn since(&self, earlier: &Self, kind: &str) -> Between {
        let all = |moment: &Self| moment.up_to(kind, f64::INFINITY);
        let count = all(self).saturating_sub(all(earlier));
        let mut between = Between {
            count,
            shares: [None; SHARES.len()],
        };
        for (found, (_, share)) in between.shares.iter_mut().zip(SHARES) {
            // The rank of the percentile among these times.
            let wanted = ((count as f64 * share).ceil() as u64).max(1);
            for (limit, n) in self.of_kind(kind) {
                if n.saturating_sub(earlier.up_to(kind, *limit)) >= wanted {
                    *found = Some(*limit).filter(|l| l.is_finite());
                    break;
                }
            }
        }
        between
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# TYPE lowmark_cache_pages gauge\nlowmark_cache_pages{state=\"free\"} 7\n\
        lowmark_cache_hit_seconds_bucket{le=\"6.4e-8\"} 0\nlowmark_cache_hit_seconds_bucket{le=\"9.6e-8\"} 3\n\
        lowmark_cache_hit_seconds_bucket{le=\"1.28e-7\"} 3\nlowmark_cache_hit_seconds_bucket{le=\"1.92e-7\"} 4\n\
        lowmark_cache_hit_seconds_bucket{le=\"+Inf\"} 4\nlowmark_cache_hit_seconds_sum 1e-6\n\
        lowmark_cache_vmstat_level_pages{name=\"nr_dirty\"} 5\nlowmark_cache_vmstat_events_total{name=\"pgpgin\"} 40\n\
        lowmark_cache_vmstat_events_total{name=\"pgpgout\"} 8\nlowmark_cache_zone_pages{zone=\"Normal\",of=\"managed\"} 1024\n\
        lowmark_cache_zone_pages{zone=\"Normal\",of=\"free\"} 7\nlowmark_cache_zone_pages{zone=\"Normal\",of=\"low\"} 9\n# EOF\n";

    #[test]
    fn a_page_is_read_as_a_look() {
        let all = files(PAGE);
        let file = |path: &str| &*all.iter().find(|(p, _)| *p == path).unwrap().1;
        assert_eq!(file("/proc/vmstat"), "nr_dirty 5\npgpgin 40\npgpgout 8\n");
        let zones = crate::proc::zones(file("/proc/zoneinfo"));
        assert_eq!((zones[0].managed, zones[0].figures["free"]), (1024, 7));
        let disks: Vec<_> = crate::proc::all_diskstats(file("/proc/diskstats")).collect();
        assert_eq!((disks[0].1.read, disks[0].1.written), (80, 16));
        assert_eq!(disks[0].1.in_flight, None, "nobody tells");
        assert_eq!(file(LATENCY), "hit 9.6e-8 3\nhit 1.92e-7 4\n");
        assert!(files("nothing of ours 5\n").is_empty());
        for address in ["127.0.0.1:9100", "[::1]:9100"] {
            assert_eq!(Live::parse(address).unwrap().address(), address);
        }
        for wrong in [
            "9100",
            "192.0.2.1:9100",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "",
        ] {
            assert!(Live::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_told_between_two_looks() {
        let before = Latencies::of("hit 1e-7 3\nhit 2e-7 4\n");
        let now = Latencies::of("hit 1e-7 3\nhit 1.5e-7 102\nhit 2e-7 104\nhit 4e-7 105\nx y z\n");
        let hits = now.since(&before, "hit");
        assert_eq!((hits.count, hits.shares), (101, [Some(2e-7), Some(4e-7)]));
        let none = now.since(&now, "hit");
        assert_eq!((none.count, none.shares), (0, [None, None]));
        assert_eq!(now.since(&before, "miss").count, 0);
        let long = Latencies::of("miss +Inf 1\n").since(&before, "miss");
        assert_eq!(
            (long.count, long.shares[0]),
            (1, None),
            "longer than all limits"
        );
    }
}
