//! Curves as text, as a table, as JSON and as a page.

use super::tables::{Cells, fitted};
use super::verdict::verdict;
use lab::report::curves::{Line, Page, Panel, html};
use lab::results::File;
use lab::terminal::Screen;
use replay::SampleFacts;
use replay::curve::{Curve, Curves, Point};
use serde_json::json;

/// Returns the contents of `results.json`.
pub fn document(curves: &Curves) -> serde_json::Value {
    json!({ "lowmark": env!("CARGO_PKG_VERSION"), "mrc": curves })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A figure of a point: a column of tables and a line of charts.
#[derive(Clone, Copy)]
struct Figure {
    title: &'static str,
    hint: &'static str,
    unit: &'static str,
    decimals: usize,
    /// The value in the unit, before it is multiplied by `scale`.
    value: fn(&Point) -> f64,
    scale: f64,
}

impl Figure {
    /// Returns the figure of a point, in the figure's unit.
    fn of(&self, point: &Point) -> f64 {
        (self.value)(point) * self.scale
    }
}

const MISSES: Figure = Figure {
    title: "miss ratio",
    hint: "requests for pages that the cache did not hold, as a share of all requests",
    unit: "share",
    decimals: 6,
    value: |p| p.miss_ratio,
    scale: 1.0,
};

/// Figures of writes: 0 where writes are not modelled, and then not shown.
const WRITES: [Figure; 4] = [
    Figure {
        title: "stall",
        hint: "time that requests waited at the dirty limit and for evicted pages to be written",
        unit: "s",
        decimals: 3,
        value: |p| p.writes.map_or(0.0, |w| seconds(w.stall_ns())),
        scale: 1.0,
    },
    Figure {
        title: "longest stall",
        hint: "the longest wait of one request",
        unit: "s",
        decimals: 3,
        value: |p| p.writes.map_or(0.0, |w| seconds(w.longest_stall_ns)),
        scale: 1.0,
    },
    Figure {
        title: "dirty pages met",
        hint: "times that an eviction found a page that was dirty or being written",
        unit: "",
        decimals: 0,
        value: |p| p.writes.map_or(0.0, |w| w.dirty_met as f64),
        scale: 1.0,
    },
    Figure {
        title: "pages written",
        hint: "by the flusher and for evictions",
        unit: "",
        decimals: 0,
        value: |p| {
            p.writes
                .map_or(0.0, |w| (w.flusher_writes + w.eviction_writes) as f64)
        },
        scale: 1.0,
    },
];

/// Returns the figures to show: the miss ratio, and those of writes if writes are modelled. Times
/// are in seconds, or in milliseconds where one is below a millisecond.
fn figures(curves: &Curves) -> Vec<Figure> {
    let writes = if curves.model.is_some() {
        &WRITES[..]
    } else {
        &[]
    };
    let short = |figure: &Figure| {
        let points = curves.curves.iter().flat_map(|c| &c.points);
        let mut times = points.map(|p| figure.of(p));
        figure.unit == "s" && times.any(|s| s > 0.0 && s < 1e-3)
    };
    let fitting = |figure: &Figure| match short(figure) {
        true => Figure {
            unit: "ms",
            scale: 1e3,
            ..*figure
        },
        false => *figure,
    };
    let all = std::iter::once(&MISSES).chain(writes);
    all.map(fitting).collect()
}

/// Describes the sample from which the figures are estimated.
fn sample_line(s: &SampleFacts) -> String {
    // Three digits at most: the share that the hash takes is not that of the objects which it took.
    let percent = format!("{:.2e}", s.rate * 100.0);
    let percent: f64 = percent.parse().expect("a number");
    format!(
        "{} objects with {} requests: about {percent} % of all objects, chosen by hash",
        s.objects, s.requests,
    )
}

/// The meaning of `±`, for tables and the page.
const BOUND_HINT: &str = "± is an error bound from the sample itself, meant to hold at 99 of 100 sizes; \
                          it reaches over 0 to 1 where a cache has too few pages of the sample";

/// Returns the largest distance of the exact figure from an estimate; `None`: the figure is exact.
fn error(p: &Point) -> Option<f64> {
    Some(p.bound?.error(p.miss_ratio))
}

/// Formats the curves for a terminal: the verdict, then a table for each figure, with a row for
/// each size and a column for each policy, or in a form that fits the screen.
pub fn tables(curves: &Curves, screen: Screen) -> String {
    let mut out = screen.wrapped(&verdict(curves));
    if let Some(guess) = &curves.unit_guess {
        out += &screen.wrapped(&guess.said);
    }
    let requests = curves.requests;
    out += &match curves.objects {
        Some(objects) => format!("\n{requests} requests for {objects} objects\n"),
        None => format!("\n{requests} requests\n"),
    };
    if let Some(sample) = &curves.sample {
        out += &screen.wrapped(&format!("estimated from {}", sample_line(sample)));
        out += &screen.wrapped(BOUND_HINT);
    }
    for figure in figures(curves) {
        let unit = match figure.unit {
            "" | "share" => String::new(),
            unit => format!(" ({unit})"),
        };
        let said = format!("{}{unit}: {}", figure.title, figure.hint);
        out += &format!("\n{}", screen.wrapped(&said));
        let column = |c: &Curve| {
            let cells = c.points.iter().map(|point| {
                let value = figure.of(point);
                match error(point) {
                    Some(error) => format!("{value:.4} ± {error:.4}"),
                    None => format!("{value:.*}", figure.decimals),
                }
            });
            (c.policy.to_owned(), cells.collect())
        };
        let sizes = curves.curves[0].points.iter().map(|p| p.size.to_string());
        let cells = Cells {
            corner: "pages",
            rows: sizes.collect(),
            columns: curves.curves.iter().map(column).collect(),
        };
        out += &fitted(&cells, "policy, pages", screen);
    }
    out
}

/// Formats the curves as `curves.csv`: a row for each policy and size. Columns of samples and
/// writes are there only if they were asked for.
pub fn csv(curves: &Curves) -> String {
    let mut out = "policy,pages,requests,misses,miss_ratio".to_owned();
    if curves.sample.is_some() {
        out += ",low,high";
    }
    if curves.model.is_some() {
        out += ",writes,read_misses,flusher_writes,eviction_writes,dirty_met,limit_stall_ns,\
                eviction_stall_ns,longest_stall_ns,stalls,dirty_at_end";
    }
    out.push('\n');
    for (policy, p) in curves
        .curves
        .iter()
        .flat_map(|c| c.points.iter().map(|p| (c.policy, p)))
    {
        let counts = p.counts;
        out += &format!(
            "{policy},{},{},{},{}",
            p.size, counts.requests, counts.misses, p.miss_ratio
        );
        if let Some(bound) = p.bound {
            out += &format!(",{},{}", bound.low, bound.high);
        }
        if let Some(w) = p.writes {
            out += &format!(
                ",{},{},{},{},{},{},{},{},{},{}",
                w.writes,
                w.read_misses,
                w.flusher_writes,
                w.eviction_writes,
                w.dirty_met,
                w.limit_stall_ns,
                w.eviction_stall_ns,
                w.longest_stall_ns,
                w.stalls,
                w.dirty_at_end
            );
        }
        out.push('\n');
    }
    out
}

/// Returns the files of the results folder: `results.json`, `curves.csv` and `report.html`.
pub fn files(curves: &Curves) -> Vec<File> {
    let mut json = serde_json::to_string_pretty(&document(curves)).expect("plain data");
    json.push('\n');
    vec![
        File::new("results.json", json),
        File::new("curves.csv", csv(curves)),
        File::new("report.html", page(curves)),
    ]
}

/// Returns the page `report.html`: charts of the figures, and facts about the trace, the sample and
/// the model of writes.
fn page(curves: &Curves) -> String {
    let sizes: Vec<u32> = curves.curves[0].points.iter().map(|p| p.size).collect();
    let mut facts = vec![
        ("trace".to_owned(), curves.trace.clone()),
        ("format".to_owned(), curves.format.to_owned()),
        ("requests".to_owned(), curves.requests.to_string()),
    ];
    if let Some(objects) = curves.objects {
        facts.push(("objects".to_owned(), objects.to_string()));
    }
    if let Some(unit) = curves.unit {
        let said = curves.unit_guess.as_ref().map(|guess| guess.said.clone());
        facts.push((
            "object numbers".to_owned(),
            said.unwrap_or_else(|| format!("{unit}s, as given")),
        ));
    }
    if let Some(sample) = &curves.sample {
        facts.push(("sample".to_owned(), sample_line(sample)));
    }
    if let Some(m) = curves.model {
        facts.push((
            "dirty limit".to_owned(),
            format!("{} % of the cache", m.limit * 100.0),
        ));
        facts.push((
            "background limit".to_owned(),
            format!("{} % of the cache", m.background * 100.0),
        ));
        facts.push(("flusher's batch".to_owned(), format!("{} pages", m.batch)));
        facts.push((
            "device".to_owned(),
            format!("{} ns a page written", m.page_ns),
        ));
    }
    for c in &curves.curves {
        let about = replay::find(c.policy).map_or("", |e| e.about);
        facts.push((c.policy.to_owned(), about.to_owned()));
    }
    let mut notes = Vec::new();
    if let Some(sample) = &curves.sample {
        notes.push(format!(
            "Estimated from {}; {BOUND_HINT}.",
            sample_line(sample)
        ));
    }
    if curves.skipped > 0 {
        notes.push(format!(
            "{} records could not be read and were skipped.",
            curves.skipped
        ));
    }
    let panels = figures(curves)
        .into_iter()
        .map(|f| Panel {
            title: f.title.to_owned(),
            hint: f.hint.to_owned(),
            unit: f.unit.to_owned(),
            decimals: f.decimals,
            lines: curves
                .curves
                .iter()
                .map(|c| Line {
                    name: c.policy.to_owned(),
                    values: c.points.iter().map(|p| f.of(p)).collect(),
                    bounds: c
                        .points
                        .iter()
                        .filter_map(|p| p.bound.map(|b| [b.low, b.high]))
                        .collect(),
                })
                .collect(),
        })
        .collect();
    html(&Page {
        title: format!("Miss-ratio curves: {}", curves.trace),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sizes,
        panels,
        answer: verdict(curves),
        facts,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::Bound;
    use replay::curve::UnitGuess;

    #[test]
    fn estimates_have_their_bounds_beside_them() {
        let curves = Curves {
            trace: "t".to_owned(),
            format: "csv",
            unit: Some("page"),
            unit_guess: Some(UnitGuess {
                certain: false,
                said: "objects are pages, not certain (--unit): a reason".to_owned(),
            }),
            requests: 1000,
            objects: None,
            sample: Some(SampleFacts {
                rate: 0.125,
                objects: 300,
                requests: 120,
            }),
            skipped: 0,
            model: None,
            curves: vec![Curve {
                policy: "lru",
                points: vec![Point {
                    size: 400,
                    counts: replay::Counts {
                        requests: 1000,
                        misses: 250,
                    },
                    miss_ratio: 0.25,
                    bound: Some(Bound {
                        low: 0.125,
                        high: 0.3125,
                    }),
                    writes: None,
                }],
            }],
        };
        assert!(tables(&curves, Screen::default()).contains("0.2500 ± 0.1250"));
        assert!(
            tables(&curves, Screen::default())
                .contains("300 objects with 120 requests: about 12.5 % of all objects")
        );
        let narrow = tables(
            &curves,
            Screen {
                width: Some(80),
                colour: false,
            },
        );
        assert!(narrow.starts_with("by estimates, lru at 400 pages is all"));
        let lines: Vec<&str> = narrow.lines().collect();
        assert!(lines.contains(&"objects are pages, not certain (--unit): a reason"));
        let too_wide = narrow.lines().find(|l| l.chars().count() > 80);
        assert_eq!(too_wide, None, "{narrow}");
        assert!(csv(&curves).contains("miss_ratio,low,high\nlru,400,1000,250,0.25,0.125,0.3125\n"));
        let page = page(&curves);
        assert!(page.contains("0.250000 ± 0.125000") && page.contains("[0.125,0.3125]"));
        let json = document(&curves).to_string();
        assert!(json.contains("\"low\":0.125") && json.contains("\"rate\":0.125"));
    }
}
