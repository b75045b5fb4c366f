//! Serialises the data that the page's script draws, as JSON.

use super::{
    ClassTime, HtmlReport, Labels, Latency, Opening, PageCell, PageFigure, PageRow, number,
};
use crate::figures::stats;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use sim::result::Column;

/// Significant digits of a drawn value: a thousandth of a pixel on the tallest chart.
const VALUE_DIGITS: usize = 5;
/// Significant digits of a sample time: 1 ms in a run of two hours.
const TIME_DIGITS: usize = 7;

#[derive(Serialize)]
struct Payload<'a> {
    heading: String,
    compared: &'a str,
    /// True for recordings, whose unsupported rows are folded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    measured: bool,
    groups: Vec<Group<'a>>,
    cells: Vec<CellData<'a>>,
}

#[derive(Serialize)]
struct Group<'a> {
    label: &'a str,
    /// Indices into `cells`, baseline first.
    cells: Vec<usize>,
}

#[derive(Serialize)]
struct CellData<'a> {
    policy: &'a str,
    baseline: bool,
    iterations: usize,
    t: Digits<'a>,
    columns: Vec<ColumnData<'a>>,
    latency: Vec<LatencyData<'a>>,
    slowest: &'a [super::Slow],
    waits: WaitsData<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    untold: bool,
    figures: Vec<FigureData<'a>>,
    rows: Vec<RowData<'a>>,
    time: Vec<TimeData<'a>>,
    tracker: Option<Vec<(&'static str, &'static str, &'static str, u64)>>,
}

#[derive(Serialize)]
struct ColumnData<'a> {
    name: &'a str,
    scope: &'a str,
    unit: &'a str,
    /// A single number if the value never changes, such as a watermark; otherwise one for each
    /// sample, null for a gap.
    v: Values<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Values<'a> {
    Constant(f64),
    Samples(Digits<'a>),
}

#[derive(Serialize)]
struct LatencyData<'a> {
    path: &'a str,
    count: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
    buckets: &'a [(u64, u64)],
}

#[derive(Serialize)]
struct WaitsData<'a> {
    /// Kind of wait, number of waits, their nanoseconds together, most tasks at a time.
    kinds: Vec<(&'a str, u64, u64, u32)>,
    crowds: Vec<CrowdData<'a>>,
}

#[derive(Serialize)]
struct CrowdData<'a> {
    object: &'a str,
    iteration: u32,
    since: u64,
    lasted: u64,
    most: u32,
    most_at: u64,
    lost: u64,
    /// Task, the object it waits on, since when, and how many tasks stand between it and the
    /// object.
    members: Vec<(String, String, u64, u32)>,
}

#[derive(Serialize)]
struct FigureData<'a> {
    name: &'a str,
    unit: &'a str,
    min: Option<f64>,
    median: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct RowData<'a> {
    block: &'a str,
    label: &'a str,
    /// The formula of the row, given once, by the group's first cell.
    #[serde(skip_serializing_if = "str::is_empty")]
    formula: &'a str,
    unit: &'a str,
    value: Option<&'a str>,
    change: Option<f64>,
    significant: bool,
    better: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<&'a str>,
}

#[derive(Serialize)]
struct TimeData<'a> {
    class: &'a str,
    tasks: f64,
    parts: Vec<(&'a str, f64)>,
}

/// Values, and how many significant digits they are written with; whole numbers are written without
/// a fraction.
struct Digits<'a>(&'a [f64], usize);

impl Serialize for Digits<'_> {
    /// Writes the values as a JSON list of numbers, rounded to the given number of significant
    /// digits.
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(Some(self.0.len()))?;
        for &x in self.0 {
            let x = number::significant(x, self.1);
            if x.fract() == 0.0 && x.abs() < 9e15 {
                seq.serialize_element(&(x as i64))?;
            } else {
                // NaN and infinity become null.
                seq.serialize_element(&x)?;
            }
        }
        seq.end()
    }
}

/// Returns the data that the page's script draws, as JSON: the cells, and their indices by
/// combination of axes, the baseline first.
pub(super) fn json(report: &HtmlReport, labels: &Labels) -> String {
    let groups = labels
        .groups
        .iter()
        .map(|(axes, label)| {
            let mut cells: Vec<usize> = (0..report.cells.len())
                .filter(|&i| report.cells[i].axes == *axes)
                .collect();
            cells.sort_by_key(|&i| !report.cells[i].baseline);
            Group { label, cells }
        })
        .filter(|g| !g.cells.is_empty())
        .collect();
    let payload = Payload {
        heading: labels.heading(),
        compared: report.compared(),
        measured: matches!(report.opening, Opening::Findings(_)),
        groups,
        cells: report.cells.iter().map(cell).collect(),
    };
    serde_json::to_string(&payload).expect("plain data always serializes")
}

/// Converts one cell of the page to the form that the script reads.
fn cell(cell: &PageCell) -> CellData<'_> {
    CellData {
        policy: &cell.policy,
        baseline: cell.baseline,
        iterations: cell.outcomes.len(),
        t: Digits(&cell.series.t, TIME_DIGITS),
        columns: cell.series.columns.iter().map(column).collect(),
        latency: cell.latency.iter().map(latency).collect(),
        slowest: &cell.slowest,
        waits: waits(&cell.waits),
        untold: cell.untold,
        figures: cell.figures.iter().map(figure).collect(),
        rows: cell.rows.iter().map(|r| row(r, cell.baseline)).collect(),
        time: cell.time.iter().map(time).collect(),
        tracker: cell.tracker.as_ref().map(|t| {
            t.rows
                .iter()
                .map(|r| (r.instantiated_by, r.path, r.event, r.count))
                .collect()
        }),
    }
}

/// Converts a crowd of waiting tasks to the form that the script reads; times are nanoseconds.
fn crowd(of: &super::CrowdOf) -> CrowdData<'_> {
    let c = &of.crowd;
    let member = |m: &'_ sim::waiting::Member| -> (String, String, u64, u32) {
        (m.task.clone(), m.waits_on.clone(), m.since_ns, m.behind)
    };
    CrowdData {
        object: &c.object,
        iteration: of.iteration,
        since: c.since_ns,
        lasted: c.lasted_ns,
        most: c.most,
        most_at: c.most_at_ns,
        lost: c.task_ns,
        members: c.members.iter().map(member).collect(),
    }
}

/// Converts the waits of tasks to the form that the script reads.
fn waits(w: &super::Waits) -> WaitsData<'_> {
    let kinds = w.kinds.iter();
    WaitsData {
        kinds: kinds
            .map(|k| (k.kind, k.count, k.total_ns, k.most))
            .collect(),
        crowds: w.crowds.iter().map(crowd).collect(),
    }
}

/// Converts a column of the time series to the form that the script reads: one that never changes,
/// such as a watermark, becomes a single number.
fn column(c: &Column) -> ColumnData<'_> {
    let v = match c.values.first() {
        Some(&first) if first.is_finite() && c.values.iter().all(|&v| v == first) => {
            Values::Constant(first)
        }
        _ => Values::Samples(Digits(&c.values, VALUE_DIGITS)),
    };
    ColumnData {
        name: &c.name,
        scope: &c.scope,
        unit: c.unit,
        v,
    }
}

/// Converts the allocation latency of one path to the form that the script reads; times are
/// nanoseconds.
fn latency(l: &Latency) -> LatencyData<'_> {
    LatencyData {
        path: &l.path,
        count: l.count,
        p50: l.p50,
        p90: l.p90,
        p99: l.p99,
        p999: l.p999,
        max: l.max,
        buckets: &l.buckets,
    }
}

/// Converts a report row to the form that the script reads. The formula goes with the `baseline`
/// cell only, so that each group has it once.
fn row(r: &PageRow, baseline: bool) -> RowData<'_> {
    RowData {
        block: &r.block,
        label: &r.label,
        formula: if baseline { &r.formula } else { "" },
        unit: &r.unit,
        value: r.value.as_deref(),
        change: r.change.map(|c| number::significant(c, VALUE_DIGITS)),
        significant: r.significant,
        better: r.better,
        unsupported: r.unsupported.as_deref(),
    }
}

/// Converts the times of a class of tasks, in seconds, to the form that the script reads.
fn time(t: &ClassTime) -> TimeData<'_> {
    TimeData {
        class: &t.class,
        tasks: t.tasks,
        parts: t
            .parts
            .iter()
            .map(|(name, s)| (&name[..], number::significant(*s, VALUE_DIGITS)))
            .collect(),
    }
}

/// Converts a counter or metric to the form that the script reads: least, middle and greatest value
/// over the iterations; `None` if it has no finite value.
fn figure(f: &PageFigure) -> FigureData<'_> {
    let range = number::range(&f.values);
    FigureData {
        name: &f.name,
        unit: &f.unit,
        min: range.map(|r| r.0),
        median: stats::median(&f.values),
        max: range.map(|r| r.1),
    }
}
