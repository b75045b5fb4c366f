//! Synthetic data in the shape of a real experiment. The curves are drawn, not simulated: they
//! have the ranges, the number of samples and the awkward corners (a run twice as long as its
//! neighbour, zones of very different size, counters that one side lacks) that the page must
//! show well.

use hdrhistogram::Histogram;
use lab::report::{
    Better, Center, Claim, ClassTime, HtmlReport, Latency, PageCell, PageFigure, PageRow,
    SummaryRow, SummaryTable, Verdict,
};
use lab::rows::TIME_COLUMNS;
use sim::Outcome;
use sim::result::{AllocLatency, Column, Series, TrackerReport, TrackerRow};

const VANILLA: &str = "vanilla";
const LIMITS: &str = "per-zone-dirty-limits";
const ITERATIONS: usize = 10;

/// The two sides on one filesystem: seconds and their spread, pages written by reclaim, p of
/// elapsed.
struct Case {
    filesystem: &'static str,
    elapsed: [(f64, f64); 2],
    written: [[f64; 3]; 2],
    p: f64,
}

const CASES: [Case; 4] = [
    Case {
        filesystem: "xfs",
        elapsed: [(549.7, 3.5), (551.0, 3.8)],
        written: [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        p: 0.472,
    },
    Case {
        filesystem: "fuse-ntfs",
        elapsed: [(1183.1, 53.2), (558.0, 17.9)],
        written: [[54_349.0, 59_341.0, 65_163.0], [0.0, 0.0, 43.0]],
        p: 1.1e-5,
    },
    Case {
        filesystem: "btrfs",
        elapsed: [(573.7, 14.0), (563.4, 11.4)],
        written: [[156.0, 1_870.0, 4_210.0], [0.0, 0.0, 0.0]],
        p: 0.089,
    },
    Case {
        filesystem: "ext4",
        elapsed: [(561.2, 15.8), (568.8, 17.5)],
        written: [[0.0, 2_725_438.0, 4_143_837.0], [0.0, 0.0, 0.0]],
        p: 0.325,
    },
];

/// Zones of the machine: name, pages, min, low and high watermark.
const ZONES: [(&str, f64, [f64; 3]); 3] = [
    ("DMA", 3_976.0, [8.0, 10.0, 12.0]),
    ("DMA32", 748_000.0, [1_527.0, 1_908.0, 2_290.0]),
    ("Normal", 205_000.0, [418.0, 523.0, 627.0]),
];

/// Returns the report.
pub fn report() -> HtmlReport {
    let mut report = HtmlReport {
        title: "usb-stick (synthetic sample)".into(),
        experiment_toml: include_str!("sample.toml").into(),
        version: "0.1.0".into(),
        seed: 20_110_930,
        facts: vec![
            (
                "machine".into(),
                "3765M: 4 CPUs, zones DMA, DMA32 and Normal, USB flash".into(),
            ),
            ("iterations".into(), ITERATIONS.to_string()),
        ],
        notes: vec!["These figures are made up to show the page; nothing was measured.".into()],
        ..HtmlReport::default()
    };
    let mut elapsed = SummaryTable {
        metric: "elapsed".into(),
        unit: "s".into(),
        better: Better::Lower,
        center: Center::Mean,
        confidence: 0.95,
        test: "Mann-Whitney U".into(),
        rows: Vec::new(),
    };
    let mut written = SummaryTable {
        metric: "nr_vmscan_write".into(),
        unit: "pages".into(),
        center: Center::Median,
        ..elapsed.clone()
    };
    for (i, case) in CASES.iter().enumerate() {
        for side in 0..2 {
            let mut noise = Noise(1 + 2 * i as u64 + side as u64);
            let (mean, sd) = case.elapsed[side];
            let seconds = spread(&mut noise, mean, sd);
            elapsed.rows.push(row(case, side, seconds.clone(), case.p));
            let [low, mid, high] = case.written[side];
            let pages = (0..ITERATIONS)
                .map(|k| match k {
                    0 => low,
                    1 => high,
                    4 | 5 => mid,
                    k if k % 2 == 0 => (low + (mid - low) * noise.unit()).round(),
                    _ => (mid + (high - mid) * noise.unit()).round(),
                })
                .collect();
            let p = if case.written[0][1] > 0.0 {
                6.3e-5
            } else {
                1.0
            };
            written.rows.push(row(case, side, pages, p));
            report.cells.push(cell(case, side, seconds, &mut noise));
        }
    }
    report.summary = vec![elapsed, written];
    report
}

fn axes(case: &Case) -> Vec<(String, String)> {
    vec![
        ("filesystem".into(), case.filesystem.into()),
        ("machine".into(), "3765M".into()),
        ("workload".into(), "dd-usb".into()),
    ]
}

fn row(case: &Case, side: usize, samples: Vec<f64>, p: f64) -> SummaryRow {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let sd = (samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let half = 2.262 * sd / n.sqrt();
    let comparison = (side == 1).then(|| {
        let is_seconds = samples[0].fract() != 0.0;
        let change = if is_seconds {
            case.elapsed[1].0 / case.elapsed[0].0 - 1.0
        } else {
            case.written[1][1] / case.written[0][1] - 1.0
        };
        let verdict = match p {
            p if p > 0.05 => Verdict::Unclear,
            _ if change < 0.0 => Verdict::Less,
            _ => Verdict::More,
        };
        let interval = is_seconds.then_some((change - 0.021, change + 0.022));
        Claim {
            change,
            interval,
            p: Some(p),
            verdict,
        }
    });
    SummaryRow {
        axes: axes(case),
        policy: [VANILLA, LIMITS][side].into(),
        baseline: side == 0,
        mean,
        sd,
        interval: (samples[0].fract() != 0.0).then_some((mean - half, mean + half)),
        samples,
        comparison,
        ..SummaryRow::default()
    }
}

fn cell(case: &Case, side: usize, seconds: Vec<f64>, noise: &mut Noise) -> PageCell {
    let limited = side == 1;
    let slow = case.filesystem == "fuse-ntfs" && !limited;
    let track = case.filesystem == "btrfs";
    PageCell {
        axes: axes(case),
        policy: [VANILLA, LIMITS][side].into(),
        baseline: !limited,
        outcomes: vec![Outcome::Completed; ITERATIONS],
        series: series(seconds[0], limited, slow, noise),
        latency: latency(limited, slow),
        slowest: Vec::new(),
        waits: Default::default(),
        untold: false,
        rows: rows(&seconds, case, limited),
        time: time(seconds[0], limited),
        figures: figures(seconds, case.written[side], limited, noise),
        tracker: track.then(|| tracker(limited)),
        notes: if slow {
            vec!["reclaim wrote single pages during 61 % of the run".into()]
        } else {
            Vec::new()
        },
    }
}

/// Columns of made-up samples, one a second.
struct Columns {
    t: Vec<f64>,
    columns: Vec<Column>,
}

impl Columns {
    fn add(
        &mut self,
        name: &str,
        scope: &str,
        unit: &'static str,
        value: &mut dyn FnMut(f64) -> f64,
    ) {
        self.columns.push(Column {
            name: name.into(),
            scope: scope.into(),
            unit,
            values: self.t.iter().map(|&s| value(s)).collect(),
        });
    }
}

/// Adds a zone's columns: its pages and its watermarks.
fn zone_columns(
    all: &mut Columns,
    (zone, pages, [min, low, high]): (&str, f64, [f64; 3]),
    (limited, slow): (bool, bool),
    noise: &mut Noise,
) {
    let used_up = match zone {
        "Normal" => 2.0,
        "DMA32" => 9.0,
        _ => f64::INFINITY,
    };
    all.add("free", zone, "pages", &mut |s| {
        let rest = 1.0 - s / used_up;
        let swing = low + (high * 1.35 - low) * noise.unit()
            - if slow { 0.25 * low * noise.unit() } else { 0.0 };
        if rest > 0.0 {
            (pages * 0.93 * rest).max(swing)
        } else {
            swing.round()
        }
    });
    all.add("min", zone, "pages", &mut |_| min);
    all.add("low", zone, "pages", &mut |_| low);
    all.add("high", zone, "pages", &mut |_| high);
    let limit = (pages * 0.19).round();
    let full = match zone {
        "DMA" => 0.0,
        "Normal" if !limited => 0.55,
        "DMA32" if !limited => 0.13,
        _ => 0.17,
    };
    let mut level = 0.0;
    all.add("dirty", zone, "pages", &mut |s| {
        let goal = pages * full * (s / 12.0).min(1.0) * (0.82 + 0.18 * (s / 17.0).sin());
        level += (goal - level) * 0.35 + pages * 0.01 * (noise.unit() - 0.5);
        level.max(0.0).round()
    });
    all.add("writeback", zone, "pages", &mut |s| {
        (pages * 0.02 * (s / 8.0).min(1.0) * noise.unit() * if zone == "DMA" { 0.0 } else { 1.0 })
            .round()
    });
    all.add("dirty_limit", zone, "pages", &mut |_| limit);
    let cache = |s: f64| pages * 0.93 * (s / used_up).min(1.0);
    all.add("inactive_file", zone, "pages", &mut |s| {
        (cache(s) * (0.97 + 0.01 * noise.unit())).round()
    });
    all.add("active_file", zone, "pages", &mut |s| {
        (pages * 0.004 + s * pages * 1e-6).round()
    });
    all.add("inactive_anon", zone, "pages", &mut |_| 0.0);
    all.add("active_anon", zone, "pages", &mut |_| {
        (pages * 0.015).round()
    });
}

fn series(elapsed: f64, limited: bool, slow: bool, noise: &mut Noise) -> Series {
    let mut all = Columns {
        t: (0..=elapsed as usize).map(|i| i as f64).collect(),
        columns: Vec::new(),
    };
    for zone in ZONES {
        zone_columns(&mut all, zone, (limited, slow), noise);
    }
    let mut level: f64 = 0.0;
    all.add("dirty", "global", "pages", &mut |s| {
        let goal = 172_000.0 * (s / 12.0).min(1.0) * (0.9 + 0.1 * (s / 17.0).sin());
        level += (goal - level) * 0.35 + 6_000.0 * (noise.unit() - 0.5);
        level.max(0.0).round()
    });
    all.add("writeback", "global", "pages", &mut |s| {
        (14_000.0 * (s / 8.0).min(1.0) * noise.unit()).round()
    });
    all.add("background_limit", "global", "pages", &mut |_| 91_300.0);
    all.add("dirty_limit", "global", "pages", &mut |_| 182_600.0);
    all.add("kswapd_cpu", "node0", "share", &mut |s| {
        if s < 8.0 {
            0.0
        } else if slow {
            0.05 + 0.3 * noise.unit()
        } else {
            0.02 * noise.unit()
        }
    });
    all.add("flusher_active", "sdb", "share", &mut |s| {
        if s < 5.0 {
            0.0
        } else if slow {
            0.2 + 0.6 * noise.unit()
        } else {
            0.9 + 0.1 * noise.unit()
        }
    });
    let rate = 10_240.0 * 1.048_576 / elapsed;
    all.add("write_throughput", "sdb", "MB/s", &mut |s| {
        if s < 3.0 {
            0.0
        } else {
            rate * (0.65 + 0.7 * noise.unit())
        }
    });
    all.add("read_throughput", "sdb", "MB/s", &mut |_| 0.0);
    all.add("queue", "sdb", "requests", &mut |s| {
        if s < 3.0 {
            0.0
        } else {
            (if slow { 9.0 } else { 128.0 } * (0.8 + 0.25 * noise.unit())).round()
        }
    });
    all.add("dirtier_pause", "global", "ms", &mut |s| {
        if s < 12.0 {
            0.0
        } else {
            40.0 + 160.0 * noise.unit()
        }
    });
    let Columns { t, columns } = all;
    Series { t, columns }
}

fn latency(limited: bool, slow: bool) -> Vec<Latency> {
    let path = |count: u64, middle: f64, wide: f64, tail: f64| {
        let mut h = Histogram::new(3).expect("a precision within bounds");
        h.auto(true);
        for i in 0..2000_u32 {
            // The inverse of a logistic distribution: bell-shaped on the log scale, with heavy
            // tails.
            let q = (f64::from(i) + 0.5) / 2000.0;
            let bell = (q / (1.0 - q)).ln() * wide;
            let v = middle * (bell + if q > 0.995 { tail } else { 0.0 }).exp();
            h.record_n(
                v as u64,
                count / 2000 + u64::from(count % 2000 > u64::from(i)),
            )
            .expect("it grows");
        }
        h
    };
    let direct = if limited {
        0
    } else if slow {
        412_300
    } else {
        35_400
    };
    let iteration = AllocLatency {
        paths: vec![
            ("fast", path(2_610_000, 210.0, 0.12, 0.7)),
            ("kswapd-woken", path(48_200, 1_900.0, 0.2, 1.2)),
            (
                "direct-reclaim",
                path(direct, if slow { 4.1e6 } else { 2.0e5 }, 0.55, 1.5),
            ),
        ],
        slowest: Vec::new(),
    };
    Latency::merged([&iteration])
}

fn figures(
    seconds: Vec<f64>,
    written: [f64; 3],
    limited: bool,
    noise: &mut Noise,
) -> Vec<PageFigure> {
    let mut out = vec![PageFigure {
        name: "elapsed".into(),
        unit: "s".into(),
        values: seconds,
    }];
    let mut add = |name: &str, unit: &str, base: f64, with_limits: f64| {
        let center = if limited { with_limits } else { base };
        let values = (0..ITERATIONS)
            .map(|_| (center * (0.96 + 0.08 * noise.unit())).round())
            .collect();
        out.push(PageFigure {
            name: name.into(),
            unit: unit.into(),
            values,
        });
    };
    for (name, base, with_limits) in [
        ("pgfree", 2.66e6, 2.66e6),
        ("pgalloc_dma", 420.0, 390.0),
        ("pgalloc_dma32", 2.02e6, 2.03e6),
        ("pgalloc_normal", 6.3e5, 6.2e5),
        ("pgactivate", 19.0, 17.0),
        ("pgdeactivate", 3.0, 0.0),
        ("pgrotated", 2_311.0, 811.0),
        ("pgrefill_dma32", 0.0, 0.0),
        ("pgrefill_normal", 0.0, 0.0),
        ("pgscan_kswapd_dma32", 1.61e6, 1.77e6),
        ("pgscan_kswapd_normal", 9.4e5, 5.2e5),
        ("pgscan_direct_dma32", 60_211.0, 0.0),
        ("pgscan_direct_normal", 91_377.0, 0.0),
        ("pgsteal_dma32", 1.57e6, 1.75e6),
        ("pgsteal_normal", 5.1e5, 5.0e5),
        ("kswapd_steal", 1.98e6, 2.25e6),
        ("nr_dirtied", 2.62e6, 2.62e6),
        ("nr_written", 2.62e6, 2.62e6),
        ("pswpin", 0.0, 0.0),
        ("pswpout", 0.0, 0.0),
        ("slabs_scanned", 21_888.0, 3_584.0),
    ] {
        add(name, "pages", base, with_limits);
    }
    for (name, base, with_limits) in [
        ("allocstall", 2_811.0, 0.0),
        ("pageoutrun", 31_022.0, 17_412.0),
        ("kswapd_low_wmark_hit_quickly", 1_209.0, 407.0),
        ("kswapd_high_wmark_hit_quickly", 14_044.0, 8_120.0),
        ("kswapd_skip_congestion_wait", 37.0, 2.0),
        ("oom_kill", 0.0, 0.0),
    ] {
        add(name, "", base, with_limits);
    }
    add("pgpgin", "kB", 1_204.0, 1_188.0);
    add("pgpgout", "kB", 1.0486e7, 1.0486e7);
    if limited {
        add("nr_zone_dirty_skip", "pages", 0.0, 1.2e6);
    }
    let [low, mid, high] = written;
    out.push(PageFigure {
        name: "nr_vmscan_write".into(),
        unit: "pages".into(),
        values: vec![low, mid, mid, high],
    });
    out
}

fn rows(seconds: &[f64], case: &Case, limited: bool) -> Vec<PageRow> {
    let mut out = Vec::new();
    let mut add = |block: &str, label: &str, unit: &str, values: [Option<f64>; 2]| {
        let value = values[usize::from(limited)];
        let change = match values {
            [Some(base), Some(new)] if limited && new != 0.0 => Some(100.0 * (base - new) / new),
            _ => None,
        };
        out.push(PageRow {
            block: block.into(),
            label: label.into(),
            formula: format!("how {label} is computed"),
            unit: unit.into(),
            value: value.map(|v| format!("{v:.1}")),
            change,
            significant: limited && values[0] != values[1] && change.is_none_or(|c| c.abs() > 5.0),
            better: change.map(|c| c > 0.0),
            unsupported: value
                .is_none()
                .then(|| "the engine has no slab caches".into()),
        });
    };
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let (duration, vmstat) = ("MMTests Statistics: duration", "MMTests Statistics: vmstat");
    let base = case.elapsed[0].0;
    add(
        duration,
        "Total Elapsed Time (seconds)",
        "s",
        [Some(base), Some(mean)],
    );
    let written = case.written.map(|w| Some(w[1]));
    add(vmstat, "Page writes by reclaim", "pages", written);
    add(
        vmstat,
        "Kswapd pages scanned",
        "pages",
        [Some(2.55e6), Some(2.29e6)],
    );
    add(vmstat, "Slabs scanned", "objects", [None, None]);
    let vmscan = "FTrace Reclaim Statistics: vmscan";
    add(
        vmscan,
        "Direct reclaims",
        "events",
        [Some(2811.0), Some(0.0)],
    );
    out
}

fn time(elapsed: f64, limited: bool) -> Vec<ClassTime> {
    let class = |class: &str, tasks: f64, parts: [f64; 9]| {
        let all: f64 = parts.iter().sum();
        let lifetime = elapsed * tasks;
        let seconds = parts.map(|share| lifetime * share / all);
        ClassTime {
            class: class.into(),
            tasks,
            parts: TIME_COLUMNS
                .map(String::from)
                .into_iter()
                .zip(seconds.into_iter().chain([lifetime]))
                .collect(),
        }
    };
    let stalled = if limited { 0.0 } else { 12.0 };
    vec![
        class(
            "workload",
            1.0,
            [0.5, 3.0, 0.2, 9.0, 75.0, 0.1, 0.0, 0.0, stalled],
        ),
        class(
            "kswapd",
            1.0,
            [0.0, 2.0, 0.2, 1.0, 8.0, 0.0, 0.0, 90.0, 0.0],
        ),
    ]
}

fn tracker(limited: bool) -> TrackerReport {
    let row = |instantiated_by, path, event, count| TrackerRow {
        instantiated_by,
        path,
        event,
        count,
    };
    TrackerReport {
        rows: vec![
            row("write", "balance_dirty_pages", "dirtied", 2_621_440),
            row(
                "btree_get_page",
                "mark_page_accessed",
                "activated",
                if limited { 3_280 } else { 3_316 },
            ),
            row("btree_get_page", "set_page_dirty", "dirtied", 91_022),
            row("readahead", "mark_page_accessed", "activated", 12),
        ],
    }
}

/// Returns ten values with this mean and standard deviation.
fn spread(noise: &mut Noise, mean: f64, sd: f64) -> Vec<f64> {
    let raw: Vec<f64> = (0..ITERATIONS)
        .map(|_| (0..4).map(|_| noise.unit()).sum::<f64>() - 2.0)
        .collect();
    let m = raw.iter().sum::<f64>() / ITERATIONS as f64;
    let s = (raw.iter().map(|r| (r - m).powi(2)).sum::<f64>() / (ITERATIONS as f64 - 1.0)).sqrt();
    raw.iter().map(|r| mean + (r - m) / s * sd).collect()
}

/// A small generator (xorshift64*), so that the sample needs no other crate.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}
