//! The metrics page of a cache for Prometheus and other OpenMetrics readers
//! ([`crate::Cache::openmetrics`], [`crate::Config::metrics`]).

use crate::LiveMm;
use crate::latency::Latencies;
use crate::page_size::PAGE;
use crate::stats::Stats;
use mm::memory::zone::Mark;
use mm::watch::vmstat::{ZoneStat, is_level};
use std::fmt::{Display, Write as _};

/// Limits of the latency buckets as powers of two: from 2^6 to 2^34 nanoseconds (64 ns to 17 s),
/// two limits for each power.
const TIMES: (u32, u32) = (6, 34);

/// The text format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older text format of Prometheus, 0.0.4: for clients that ask for no other.
    Text,
}

impl Form {
    /// Returns the format's media type.
    pub fn media(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A page that is being written.
struct Page {
    text: String,
    form: Form,
    /// Name of the metric family that the next samples belong to.
    name: String,
}

impl Page {
    /// Begins an empty page in a format.
    fn new(form: Form) -> Self {
        Self {
            text: String::new(),
            form,
            name: String::new(),
        }
    }

    /// Begins a metric family: writes its type (`kind`) and help lines. The samples that follow
    /// belong to it.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let counts = kind == "counter";
        // In the older format the family has the name of its samples.
        let told = if counts && self.form == Form::Text {
            "_total"
        } else {
            ""
        };
        let _ = write!(
            self.text,
            "# TYPE lowmark_cache_{name}{told} {kind}\n# HELP lowmark_cache_{name}{told} {help}\n"
        );
        self.name = format!("lowmark_cache_{name}{}", if counts { "_total" } else { "" });
    }

    /// Writes a sample of the present family; `labels` in braces, or empty.
    fn sample(&mut self, labels: impl Display, value: impl Display) {
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
    }

    /// Writes a family with a single sample.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.sample("", value);
    }

    /// Ends the page, with the mark that OpenMetrics requires, and returns its text.
    fn end(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// Writes the cache's levels and counters.
    fn stats(&mut self, s: &Stats) {
        self.one(
            "memory_bytes",
            "gauge",
            "Memory of the cache for pages.",
            s.pages * PAGE as u64,
        );
        self.family(
            "pages",
            "gauge",
            "Pages by state; dirty pages and pages under writeback are also cached.",
        );
        for (state, n) in [
            ("free", s.free),
            ("cached", s.cached),
            ("dirty", s.dirty),
            ("writeback", s.writeback),
            ("kept", s.kept_pages),
            ("buffer", s.buffers),
        ] {
            self.sample(format_args!("{{state=\"{state}\"}}"), n);
        }
        self.family("evicted_pages", "counter", "Pages evicted, by reclaimer.");
        self.sample("{by=\"kswapd\"}", s.evicted_by_kswapd);
        self.sample(
            "{by=\"direct\"}",
            s.evicted.saturating_sub(s.evicted_by_kswapd),
        );
        let help = "Times that an allocating thread entered direct reclaim.";
        self.one("direct_reclaims", "counter", help, s.direct_reclaims);
        let help = "Bytes read from files.";
        self.one("read_bytes", "counter", help, s.kib_read * 1024);
        let help = "Bytes written to files.";
        self.one("written_bytes", "counter", help, s.kib_written * 1024);
        let help = "Pages whose data could not be written and is lost.";
        self.one("lost_pages", "counter", help, s.lost_pages);
    }

    /// Writes the latency histograms in seconds, and the longest call of each kind.
    fn latencies(&mut self, latencies: &Latencies) {
        let help = |name: &str| match name {
            "hit" => "A lookup of a cached page; one in 512 is timed and counted.",
            "miss" => "A lookup of a page that was not cached.",
            "write" => "A call that writes, including its sleep at the dirty limits.",
            "throttle" => "The sleep of a throttled writer at the dirty limits.",
            "allocation" => "An allocation of a page, including its direct reclaim.",
            _ => "A sync of a file.",
        };
        let seconds = |ns: u64| ns as f64 / 1e9;
        for (name, latency) in latencies.all() {
            self.family(&format!("{name}_seconds"), "histogram", help(name));
            let family = std::mem::take(&mut self.name);
            let (first, last) = TIMES;
            for (limit, n) in latency.below(first, last) {
                let limit = seconds(limit);
                let _ = writeln!(self.text, "{family}_bucket{{le=\"{limit:?}\"}} {n}");
            }
            let n = latency.count();
            let sum = seconds(latency.sum().as_nanos() as u64);
            let _ = writeln!(self.text, "{family}_bucket{{le=\"+Inf\"}} {n}");
            let _ = writeln!(self.text, "{family}_sum {sum:?}\n{family}_count {n}");
        }
        let help = "The longest timed call since the cache was created.";
        self.family("longest_seconds", "gauge", help);
        for (name, latency) in latencies.all() {
            let longest = latency.max().as_secs_f64();
            self.sample(
                format_args!("{{of=\"{name}\"}}"),
                format_args!("{longest:?}"),
            );
        }
    }

    /// Writes the engine's counters by the kernel's names, the pages of each zone, and the pages
    /// under writeback of each device.
    fn engine(&mut self, mm: &LiveMm) {
        let (levels, events): (Vec<_>, Vec<_>) = mm
            .vmstat()
            .into_iter()
            .partition(|(name, _)| is_level(name));
        let help = "Levels of the engine, by their names in the kernel's /proc/vmstat.";
        self.family("vmstat_level_pages", "gauge", help);
        let limits = mm.view().dirty_limits();
        let limits = [
            ("nr_dirty_background_threshold", limits.background),
            ("nr_dirty_threshold", limits.dirty),
        ];
        let limits = limits.map(|(name, n)| (name.to_owned(), n));
        for (name, n) in levels.into_iter().chain(limits) {
            self.sample(format_args!("{{name=\"{name}\"}}"), n);
        }
        let help = "Counters of the engine, by their names in the kernel's /proc/vmstat.";
        self.family("vmstat_events", "counter", help);
        for (name, n) in events {
            self.sample(format_args!("{{name=\"{name}\"}}"), n);
        }
        let help = "Pages of a zone: all, free ones, and its watermarks.";
        self.family("zone_pages", "gauge", help);
        for (z, zone) in mm.zones.iter().enumerate() {
            let marks = [Mark::Min, Mark::Low, Mark::High].map(|mark| zone.mark(mark));
            let figures = [
                ("managed", u64::from(zone.size)),
                ("free", mm.zone_stat(z, ZoneStat::NrFreePages)),
                ("min", marks[0]),
                ("low", marks[1]),
                ("high", marks[2]),
            ];
            for (of, n) in figures {
                let zone = zone.kind.name();
                self.sample(format_args!("{{zone=\"{zone}\",of=\"{of}\"}}"), n);
            }
        }
        let help = "Pages under writeback on their way to a device, by its number in the cache.";
        self.family("device_writeback_pages", "gauge", help);
        for device in 0..mm.bdi_count() {
            let n = mm.world.in_flight(device);
            self.sample(format_args!("{{device=\"{device}\"}}"), n);
        }
    }
}

/// Returns the page of all metrics of a cache.
pub(crate) fn page(mm: &LiveMm, form: Form) -> String {
    let mut page = Page::new(form);
    page.stats(&Stats::of(mm));
    page.latencies(&mm.world.clocks.read());
    page.engine(mm);
    page.end()
}

impl Stats {
    /// Returns the counters as a page of OpenMetrics 1.0 (`application/openmetrics-text`), with the
    /// units bytes and pages in the names. [`crate::Cache::openmetrics`] returns more.
    pub fn openmetrics(&self) -> String {
        let mut page = Page::new(Form::OpenMetrics);
        page.stats(self);
        page.end()
    }
}
