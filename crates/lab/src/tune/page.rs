//! Writes the answer as an HTML page: every setting that was tried, by the memory it keeps free and
//! its longest allocation, the front, the goal, and the margins of the chosen setting.

use super::goals::{Figures, Goals, mib, time};
use super::text::{AnswerReport, values};
use crate::report::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
/// Left, right, top and bottom margins of the plot.
const MARGIN: [f64; 4] = [80.0, 20.0, 16.0, 44.0];

/// Colours of Okabe and Ito, for colour-blind readers; shapes differ as well.
const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#222;--bg:#fff;--grid:#ddd;--all:#767676;--front:#0072b2;--own:#d55e00;--chosen:#009e73}\
@media(prefers-color-scheme:dark){:root{--fg:#ddd;--bg:#181818;--grid:#3a3a3a;--all:#8c8c8c;--front:#56b4e9;--own:#e69f00;--chosen:#2fc79a}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:60em;margin:1.5em auto;padding:0 1em}\
svg{width:100%;height:auto}text{fill:var(--fg);font-size:12px}.grid{stroke:var(--grid)}.goal{stroke:var(--own);stroke-dasharray:6 4}\
.all{fill:none;stroke:var(--all)}.front{fill:var(--front)}.own{fill:var(--own)}.chosen{fill:var(--chosen);stroke:var(--fg)}\
.line{fill:none;stroke:var(--front)}table{border-collapse:collapse;display:block;overflow-x:auto}\
td,th{padding:.2em .8em;border-bottom:1px solid var(--grid);text-align:right}td:first-child,th:first-child{text-align:left}\
pre{overflow-x:auto}";

/// Returns the place of the value `x` between the ends of a logarithmic axis: 0 at `least`, 1 at
/// `most`.
fn part(x: f64, [least, most]: [f64; 2]) -> f64 {
    (x.max(1e-9) / least).ln() / (most / least).ln()
}

/// Returns the values that get a grid line on a logarithmic axis: 1 and 3 in each decade within its
/// range.
fn ticks([least, most]: [f64; 2]) -> Vec<f64> {
    let first = least.log10().floor() as i32;
    let last = most.log10().ceil() as i32;
    let all = (first..=last).flat_map(|e| [1.0, 3.0].map(|m| m * 10f64.powi(e)));
    all.filter(|t| (least..=most).contains(t)).collect()
}

struct Plot {
    x: [f64; 2],
    y: [f64; 2],
    price: Price,
    goals: Goals,
    svg: String,
}

/// The price of a setting, which the x axis shows: it grows to the right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Price {
    /// Time for a MB that programs move, in ms: the throughput falls to the right.
    Throughput,
    /// Memory kept free, in MiB.
    Memory,
}

impl Price {
    /// Returns the price that the goals leave to be paid: throughput where programs shall answer
    /// early, memory where allocations shall be short.
    fn of(r: &AnswerReport<'_>) -> Self {
        let moves = r.answer.own.throughput > 0.0;
        match r.question.goals.of_programs() && moves {
            true => Self::Throughput,
            false => Self::Memory,
        }
    }

    /// Returns the amount for a setting's figures.
    fn amount(self, f: &Figures) -> f64 {
        match self {
            Self::Throughput => 1000.0 / f.throughput.max(1e-3),
            Self::Memory => f.kept_free.max(1) as f64 / MIB,
        }
    }

    /// Formats an amount at a tick.
    fn tick(self, amount: f64) -> String {
        match self {
            Self::Throughput => format!("{:.0} MB/s", 1000.0 / amount),
            Self::Memory => format!("{amount} MiB"),
        }
    }

    /// Returns the ticks within a range of amounts.
    fn ticks(self, [least, most]: [f64; 2]) -> Vec<f64> {
        match self {
            // Round rates are the ones to read; a narrow range gets its ends.
            Self::Throughput => {
                let rates = ticks([1000.0 / most, 1000.0 / least]);
                let rates = match rates.len() < 3 {
                    true => [0.1, 0.5, 0.9]
                        .map(|at: f64| 1000.0 / (least * (most / least).powf(at)))
                        .to_vec(),
                    false => rates,
                };
                rates
                    .into_iter()
                    .map(|rate| 1000.0 / rate.round().max(1.0))
                    .collect()
            }
            Self::Memory => ticks([least, most]),
        }
    }

    /// Returns the axis in words.
    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput (less to the right)",
            Self::Memory => "memory kept free (sum of the high watermarks)",
        }
    }
}

const MIB: f64 = (1 << 20) as f64;

/// Returns the ends of the plot's area in units of the SVG: left, right, bottom, top.
fn area() -> [f64; 4] {
    let [left, right, top, bottom] = MARGIN;
    [left, WIDTH - right, HEIGHT - bottom, top]
}

impl Plot {
    /// Sets the axes of the plot so that they hold every figure of the answer and the time goal:
    /// memory kept free in bytes across, time in nanoseconds upwards, with some room at each end.
    fn new(r: &AnswerReport<'_>) -> Self {
        let answer = r.answer;
        let mut seen: Vec<&Figures> = answer.all.iter().map(|(_, f)| f).collect();
        seen.extend([&answer.own, &answer.chosen.figures]);
        let price = Price::of(r);
        let ends = |of: &dyn Fn(&Figures) -> f64| {
            let values = || seen.iter().map(|f| of(f));
            let least = values().fold(f64::MAX, f64::min);
            let most = values().fold(0.0, f64::max);
            [least / 1.3, most * 1.3]
        };
        let goals = r.question.goals;
        let time = |f: &Figures| goals.time_of(f).max(1) as f64;
        let (x, mut y) = (ends(&|f| price.amount(f)), ends(&time));
        if let Some(goal) = goals.time_goal().0 {
            y = [y[0].min(goal as f64 / 1.3), y[1].max(goal as f64 * 1.3)];
        }
        let svg = String::new();
        Self {
            x,
            y,
            price,
            goals,
            svg,
        }
    }

    /// Returns the vertical position in the SVG of a time in nanoseconds.
    fn level(&self, ns: f64) -> f64 {
        let [.., y0, y1] = area();
        y0 - part(ns, self.y) * (y0 - y1)
    }

    /// Draws grid lines with their values (MiB across, times upwards) and a dashed line at the
    /// goal, a time in nanoseconds.
    fn axes(&mut self, goal: Option<u64>) {
        let [x0, x1, y0, y1] = area();
        for t in self.price.ticks(self.x) {
            let x = x0 + part(t, self.x) * (x1 - x0);
            let _ = write!(
                self.svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y0}\" y2=\"{y1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                y0 + 18.0,
                self.price.tick(t)
            );
        }
        for t in ticks(self.y) {
            let y = self.level(t);
            let _ = write!(
                self.svg,
                "<line class=\"grid\" x1=\"{x0}\" x2=\"{x1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                x0 - 6.0,
                y + 4.0,
                time(t as u64)
            );
        }
        if let Some(goal) = goal {
            let y = self.level(goal as f64);
            let _ = write!(
                self.svg,
                "<line class=\"goal\" x1=\"{x0}\" x2=\"{x1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{x1}\" y=\"{:.1}\" text-anchor=\"end\">goal</text>",
                y - 5.0
            );
        }
        let _ = write!(
            self.svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(x0, x1),
            HEIGHT - 6.0,
            self.price.name()
        );
    }

    /// Draws every setting that was tried, the front, the machine's own and the chosen one, each
    /// with its figures as the title that shows under the mouse.
    fn settings(&mut self, r: &AnswerReport<'_>) {
        let (answer, machine) = (r.answer, &r.cell.spec.machine);
        let say = |f: &Figures, of: &str| {
            format!(
                "{of}: {} kept free, {}, {} direct reclaims, {:.1} MB/s",
                mib(f.kept_free),
                r.question.goals.times(f),
                f.direct,
                f.throughput
            )
        };
        for (s, f) in &answer.all {
            self.shape("all", f, &say(f, &values(s, machine)));
        }
        for (s, f) in &answer.front {
            self.shape("front", f, &say(f, &values(s, machine)));
        }
        self.shape("own", &answer.own, &say(&answer.own, "now"));
        let chosen = &answer.chosen.figures;
        self.shape("chosen", chosen, &say(chosen, "chosen"));
    }

    /// Returns the position in the SVG (across, down) of a setting with these figures.
    fn at(&self, f: &Figures) -> (f64, f64) {
        let [left, right, top, bottom] = MARGIN;
        let x = part(self.price.amount(f), self.x);
        let y = part(self.goals.time_of(f) as f64, self.y);
        (
            left + x * (WIDTH - left - right),
            HEIGHT - bottom - y * (HEIGHT - top - bottom),
        )
    }

    /// Draws a setting with the figures `f`: a square for class `own`, a diamond for `chosen`, a
    /// circle for others (`all`, `front`). `title` shows under the mouse.
    fn shape(&mut self, class: &str, f: &Figures, title: &str) {
        let (x, y) = self.at(f);
        let title = format!("<title>{}</title>", escape::html(title));
        let _ = match class {
            "own" => write!(
                self.svg,
                "<rect class=\"own\" x=\"{:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\">{title}</rect>",
                x - 5.5,
                y - 5.5
            ),
            "chosen" => write!(
                self.svg,
                "<path class=\"chosen\" d=\"M{x:.1} {:.1}l8 8l-8 8l-8 -8z\">{title}</path>",
                y - 8.0
            ),
            _ => write!(
                self.svg,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{}\">{title}</circle>",
                if class == "all" { 3 } else { 5 }
            ),
        };
    }
}

/// Returns the table rows of the chosen setting's margins: for each case of other seeds, bursts and
/// costs its figures, and whether the goals were met.
fn margins(r: &AnswerReport<'_>) -> String {
    let mut rows = String::new();
    for m in &r.answer.chosen.margins {
        let f = &m.figures;
        let _ = write!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{}</td></tr>",
            escape::html(&m.case.name()),
            f.runs,
            time(r.question.goals.time_of(f)),
            f.direct,
            f.throughput,
            if m.holds { "met" } else { "missed" }
        );
    }
    rows
}

/// Returns the head of the page as HTML: the sysctls to write with what they give and gave before,
/// or the statement that the machine's own settings meet the goals already.
fn answer(r: &AnswerReport<'_>) -> String {
    let (answer, goals) = (r.answer, &r.question.goals);
    let (own, chosen) = (&answer.own, &answer.chosen);
    if answer.already {
        return format!(
            "<p><b>Your settings already do: {}.</b></p>",
            escape::html(&goals.times(own))
        );
    }
    let lines: String = values(&chosen.setting, &r.cell.spec.machine)
        .split(' ')
        .map(|v| format!("vm.{}\n", v.replacen('=', " = ", 1)))
        .collect();
    let lines = match chosen.setting == super::space::Setting::default() {
        true => values(&chosen.setting, &r.cell.spec.machine),
        false => lines,
    };
    let verdict = r.verdict();
    let (first, holds) = verdict.split_once('\n').unwrap_or((&verdict, ""));
    format!(
        "<p><b>{}</b> {}</p><pre tabindex=\"0\">{}</pre>",
        escape::html(first),
        escape::html(holds),
        escape::html(&lines),
    )
}

/// Returns the answer as a self-contained HTML page: goals, sysctls to write, the plot of all
/// settings tried, the chosen setting's margins, and the whole answer in words.
pub fn page(r: &AnswerReport<'_>) -> String {
    let mut plot = Plot::new(r);
    let (goal, what) = r.question.goals.time_goal();
    plot.axes(goal);
    plot.settings(r);
    let rows = margins(r);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Settings for {name}</title><style>{STYLE}</style>\
         <main><h1>Settings for {name}</h1><p>Goals: {goals}.</p>{answer}\
         <h2>What was tried</h2>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{what} over {price}\">{svg}</svg>\
         <p>{what} over {price}. Square: the machine's own settings; diamond: chosen; \
         dots: settings that no other beats; rings: the others that were tried.</p>\
         <h2>What the chosen setting bears</h2>\
         <table tabindex=\"0\"><tr><th>under</th><th>runs</th><th>{what}</th><th>direct reclaims</th><th>MB/s</th><th>goals</th></tr>{rows}</table>\
         <h2>In words</h2><pre tabindex=\"0\">{text}</pre></main></html>\n",
        answer = answer(r),
        name = escape::html(&r.cell.machine),
        goals = escape::html(&r.question.goals.to_string()),
        svg = plot.svg,
        price = plot.price.name(),
        text = escape::html(&r.text()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_ticks_and_equal_ratios() {
        assert_eq!(ticks([0.9, 40.0]), [1.0, 3.0, 10.0, 30.0]);
        assert_eq!(part(10.0, [1.0, 100.0]), 0.5);
    }
}
