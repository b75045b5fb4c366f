//! A cache's counters as OpenMetrics text, for whoever serves it: the cache opens no port.

use crate::arena::PAGE;
use crate::cache::Stats;
use std::fmt::Write as _;

impl Stats {
    /// The counters as a page of OpenMetrics 1.0 (`application/openmetrics-text`), bytes and pages
    /// spelled out in the names.
    pub fn openmetrics(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, u64)]| {
            let _ = write!(
                text,
                "# TYPE lowmark_cache_{name} {kind}\n# HELP lowmark_cache_{name} {help}\n"
            );
            let suffix = if kind == "counter" { "_total" } else { "" };
            for (labels, value) in samples {
                let _ = writeln!(text, "lowmark_cache_{name}{suffix}{labels} {value}");
            }
        };
        let memory = self.pages * PAGE as u64;
        family(
            "memory_bytes",
            "gauge",
            "Memory for pages.",
            &[("", memory)],
        );
        family(
            "pages",
            "gauge",
            "Pages by state; one that is dirty or written is cached, too.",
            &[
                ("{state=\"free\"}", self.free),
                ("{state=\"cached\"}", self.cached),
                ("{state=\"dirty\"}", self.dirty),
                ("{state=\"writeback\"}", self.writeback),
                ("{state=\"kept\"}", self.kept_pages),
                ("{state=\"buffer\"}", self.buffers),
            ],
        );
        let direct = self.evicted.saturating_sub(self.evicted_by_kswapd);
        family(
            "evicted_pages",
            "counter",
            "Pages evicted, by whom.",
            &[
                ("{by=\"kswapd\"}", self.evicted_by_kswapd),
                ("{by=\"direct\"}", direct),
            ],
        );
        family(
            "direct_reclaims",
            "counter",
            "Times a thread had to reclaim for itself.",
            &[("", self.direct_reclaims)],
        );
        family(
            "read_bytes",
            "counter",
            "Bytes read from files.",
            &[("", self.kib_read * 1024)],
        );
        family(
            "written_bytes",
            "counter",
            "Bytes written to files.",
            &[("", self.kib_written * 1024)],
        );
        family(
            "lost_pages",
            "counter",
            "Pages whose data could not be written and is lost.",
            &[("", self.lost_pages)],
        );
        text.push_str("# EOF\n");
        text
    }
}
