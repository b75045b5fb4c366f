//! Plots a figure along the ordered values of the compared axis: one curve as text, one as SVG.

use super::escape;
use super::number::plain_number;
use crate::figures::claim::{SummaryTable, Verdict};
use crate::terminal::{Screen, readable, titled};
use mm::size::Size;
use std::fmt::Write as _;

/// Fewest values of an axis that are drawn as a curve; fewer are readable in the table.
const FEWEST: usize = 3;

/// The curve of one figure in one group of cells.
struct Curve {
    /// The figure with its unit, and the group if there are several.
    title: String,
    /// The points, ascending by the axis's value.
    points: Vec<Point>,
}

struct Point {
    /// The axis's value: its text, and as a number.
    value: (String, f64),
    /// The figure's mean or median, and the ends of its confidence interval.
    mean: f64,
    ends: (f64, f64),
    /// The claim made of this point: `better`, `worse`, `less`, `more`, `~` (none), `baseline`.
    word: &'static str,
}

/// Parses an axis's value as a number or a size; `None` if it is neither.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|x| x.is_finite());
    plain.or_else(|| Size::parse(text).ok().map(|s| s.0 as f64))
}

/// Returns the curves of a table along the compared axis, one for each group of cells that differ
/// in that axis only. Groups whose values have no order, or whose figures do not differ, have no
/// curve.
fn curves(table: &SummaryTable, compared: &str) -> Vec<Curve> {
    let mut groups: Vec<&Vec<(String, String)>> = Vec::new();
    for row in &table.rows {
        if !groups.contains(&&row.axes) {
            groups.push(&row.axes);
        }
    }
    let several = groups.len() > 1;
    let of = |axes: &&Vec<(String, String)>| curve(table, compared, axes, several);
    groups.iter().filter_map(of).collect()
}

/// Builds the curve of the group with these axes along the axis `compared`; `several` says if there
/// are other groups, so that the title names this one. `None` if an axis value is no number, there
/// are too few values, or all figures are equal.
fn curve(
    table: &SummaryTable,
    compared: &str,
    axes: &[(String, String)],
    several: bool,
) -> Option<Curve> {
    let rows: Vec<_> = table.rows.iter().filter(|r| *r.axes == *axes).collect();
    let largest = rows.iter().map(|r| r.mean.abs()).filter(|m| m.is_finite());
    // Figures are divided by `by` and shown in `unit`.
    let (by, unit) = readable(&table.unit, largest.fold(0.0, f64::max));
    let mut points = Vec::with_capacity(rows.len());
    for row in rows {
        let (name, text) = row.policy.rsplit_once('=').unwrap_or(("", &row.policy));
        if !(name.is_empty() || name == compared) {
            return None;
        }
        let x = number(text)?;
        if row.samples.is_empty() {
            continue;
        }
        let middle = row.center(table.center) / by;
        let ends = row
            .interval
            .map_or((middle, middle), |(a, b)| (a / by, b / by));
        let verdict = row.comparison.map(|c| c.verdict);
        points.push(Point {
            value: (text.to_owned(), x),
            mean: middle,
            ends,
            word: match (verdict.and_then(|v| table.is_good(v)), verdict) {
                (Some(true), _) => "better",
                (Some(false), _) => "worse",
                (None, Some(Verdict::Less)) => "less",
                (None, Some(Verdict::More)) => "more",
                (None, Some(_)) => "~",
                (None, None) => "baseline",
            },
        });
    }
    let differs = points.iter().any(|p| p.mean != points[0].mean);
    if points.len() < FEWEST || !differs {
        return None;
    }
    points.sort_by(|a, b| a.value.1.total_cmp(&b.value.1));
    let mut title = format!("{} by {compared}", titled(&table.metric, unit));
    if several {
        let place: Vec<&str> = axes.iter().map(|(_, v)| &v[..]).collect();
        title = format!("{title}, {}", place.join(" "));
    }
    Some(Curve { title, points })
}

impl Curve {
    /// Returns the lower and upper end of the scale of figures: it begins at 0 unless all values
    /// are far from 0.
    fn scale(&self) -> (f64, f64) {
        let low = self
            .points
            .iter()
            .map(|p| p.ends.0)
            .fold(f64::INFINITY, f64::min);
        let high = self
            .points
            .iter()
            .map(|p| p.ends.1)
            .fold(f64::NEG_INFINITY, f64::max);
        let low = if low >= 0.0 && low < 0.6 * high {
            0.0
        } else {
            low
        };
        (low, if high > low { high } else { low + 1.0 })
    }

    /// Draws the curve as text: one line for each value of the axis, its mean and its confidence
    /// interval on a common scale, at most `width` columns wide.
    fn text(&self, width: usize) -> String {
        let (low, high) = self.scale();
        let length = |s: &str| s.chars().count();
        // Greatest length over the points; `name`, `mean` and `word` are widths of columns.
        let most = |of: &dyn Fn(&Point) -> usize| self.points.iter().map(of).max().unwrap_or(0);
        let name = most(&|p| length(&p.value.0));
        let mean = most(&|p| plain_number(p.mean).len());
        let word = most(&|p| p.word.len());
        let across = width.saturating_sub(name + mean + word + 6).clamp(12, 60);
        // The column of a figure on the scale, from 0.
        let at = |x: f64| ((x - low) / (high - low) * (across - 1) as f64).round() as usize;
        let mut out = format!("{}\n", self.title);
        for p in &self.points {
            let (a, m, b) = (at(p.ends.0), at(p.mean), at(p.ends.1));
            let line: String = (0..across)
                .map(|i| match i {
                    i if i == m => '●',
                    i if i == a && a < m => '├',
                    i if i == b && b > m => '┤',
                    i if i > a && i < b => '─',
                    _ => ' ',
                })
                .collect();
            let line = format!(
                "{:>name$} │{line}│ {:>mean$} {}",
                p.value.0,
                plain_number(p.mean),
                p.word
            );
            out.push_str(line.trim_end());
            out.push('\n');
        }
        let ends = [low, high].map(plain_number);
        let gap = (across + 2).saturating_sub(ends[0].len() + ends[1].len());
        let _ = writeln!(out, "{:name$} {}{:gap$}{}", "", ends[0], "", ends[1]);
        out
    }

    /// Draws the curve as an SVG line chart: the axis's values to the right, the figure upwards,
    /// intervals as bars.
    fn svg(&self) -> String {
        const BOX: (f64, f64) = (640.0, 220.0);
        const LEFT: f64 = 64.0;
        const BELOW: f64 = 34.0;
        let (low, high) = self.scale();
        let xs = self.points.iter().map(|p| p.value.1);
        let (first, last) = (
            xs.clone().fold(f64::INFINITY, f64::min),
            xs.fold(0.0, f64::max),
        );
        // The axis is logarithmic if it spans three doublings or more, so that doublings are
        // equally far apart.
        let log = first > 0.0 && last / first >= 8.0;
        let along = |x: f64| match log {
            true => (x / first).ln() / (last / first).ln(),
            false => (x - first) / (last - first).max(f64::MIN_POSITIVE),
        };
        let x = |v: f64| LEFT + 12.0 + along(v) * (BOX.0 - LEFT - 36.0);
        let y = |v: f64| 12.0 + (1.0 - (v - low) / (high - low)) * (BOX.1 - BELOW - 12.0);
        let told: Vec<String> = self.points.iter().map(Point::described).collect();
        let label = escape::html(&format!("{}: {}", self.title, told.join("; ")));
        let mut out = format!(
            "<figure class=\"along\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-label=\"{label}\">",
            escape::html(&self.title),
            BOX.0,
            BOX.1
        );
        for tick in [low, (low + high) / 2.0, high] {
            let _ = write!(
                out,
                "<line class=\"rail\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                BOX.0 - 12.0,
                LEFT - 8.0,
                y(tick) + 4.0,
                plain_number(tick),
                at = y(tick),
            );
        }
        let line: Vec<String> = self
            .points
            .iter()
            .map(|p| format!("{:.1},{:.1}", x(p.value.1), y(p.mean)))
            .collect();
        let _ = write!(out, "<polyline points=\"{}\"/>", line.join(" "));
        for (p, told) in self.points.iter().zip(&told) {
            let (at, text) = (x(p.value.1), escape::html(&p.value.0));
            let class = match p.word {
                "better" => "good",
                "worse" => "bad",
                "baseline" => "base",
                _ => "plain",
            };
            let _ = write!(
                out,
                "<g class=\"{class}\"><title>{}</title>\
                 <line class=\"interval\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\"/></g>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                escape::html(told),
                y(p.ends.1),
                y(p.ends.0),
                y(p.mean),
                BOX.1 - 12.0,
            );
        }
        out.push_str("</svg></figure>");
        out
    }
}

impl Point {
    /// Describes the point in words: the axis's value, the figure, the claim.
    fn described(&self) -> String {
        format!(
            "{}: {} ({})",
            self.value.0,
            plain_number(self.mean),
            self.word
        )
    }
}

/// Returns the curves of these tables along the axis `compared` as text for a terminal; empty if
/// there are none.
pub fn text<'a>(
    tables: impl IntoIterator<Item = &'a SummaryTable>,
    compared: &str,
    screen: Screen,
) -> String {
    let width = usize::from(screen.width.unwrap_or(100));
    let all = tables.into_iter().flat_map(|t| curves(t, compared));
    all.map(|c| format!("{}\n", c.text(width))).collect()
}

/// Returns a table's curves as SVG for a page; empty if there are none.
pub(super) fn svg(table: &SummaryTable, compared: &str) -> String {
    curves(table, compared).iter().map(Curve::svg).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::claim::{Center, SummaryRow};
    use crate::rows;

    fn table(values: &[(&str, f64)]) -> SummaryTable {
        let samples = |mean: f64| (0..8).map(|i| mean + f64::from(i)).collect::<Vec<f64>>();
        let base = samples(values[0].1);
        let rows = values
            .iter()
            .enumerate()
            .map(|(i, (name, mean))| SummaryRow {
                policy: (*name).to_owned(),
                baseline: i == 0,
                ..SummaryRow::new(samples(*mean), (i > 0).then_some(&base), Center::Mean)
            });
        let figure = rows::figure("elapsed").unwrap();
        SummaryTable::of_rows(&figure, Center::Mean, rows.collect())
    }

    #[test]
    fn a_sweep_is_a_curve_in_the_order_of_its_values() {
        let t = table(&[("r=20", 100.0), ("r=5", 20.0), ("r=40", 200.0)]);
        let screen = Screen {
            width: Some(60),
            colour: false,
        };
        let text = text([&t], "r", screen);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "elapsed [s] by r");
        let starts: Vec<&str> = lines[1..4].iter().map(|l| l[..2].trim()).collect();
        assert_eq!(starts, ["5", "20", "40"]);
        let dots: Vec<usize> = lines[1..4].iter().map(|l| l.find('●').unwrap()).collect();
        assert!(dots[0] < dots[1] && dots[1] < dots[2], "{text}");
        assert!(
            lines[1].ends_with("better") && lines[3].ends_with("worse"),
            "{text}"
        );
        assert!(lines[2].ends_with("baseline"), "{text}");
        assert!(lines.iter().all(|l| l.chars().count() <= 60), "{text}");
        let svg = svg(&t, "r");
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(
            svg.contains("role=\"img\" aria-label=\"elapsed [s] by r: 5: "),
            "{svg}"
        );
        assert_eq!(svg.matches("class=\"good\"").count(), 1);
    }

    #[test]
    fn what_has_no_order_is_no_curve() {
        for values in [
            [("xfs", 1.0), ("ext4", 2.0), ("btrfs", 3.0)],
            [("r=1", 1.0), ("s=2", 2.0), ("r=3", 3.0)],
            [("1", 1.0), ("2", 1.0), ("3", 1.0)],
        ] {
            assert_eq!(
                text([&table(&values)], "r", Screen::default()),
                "",
                "{values:?}"
            );
        }
        let sizes = [("64M", 1.0), ("1G", 3.0), ("256M", 2.0)];
        let text = text([&table(&sizes)], "size", Screen::default());
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("64M") < at("256M") && at("256M") < at(" 1G"), "{text}");
    }
}
