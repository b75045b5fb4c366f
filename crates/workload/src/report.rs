//! The measurements of programs, and the definitions of their metrics.

use std::collections::BTreeMap;

/// The measurements of a program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Name, unit and value of each metric, in the order of display.
    pub metrics: Vec<(String, &'static str, f64)>,
}

impl Report {
    /// Makes the report of a program that moved an amount in so many nanoseconds: the amount and
    /// the amount a second, each with its name and unit.
    pub(crate) fn of_amount(
        amount: f64,
        ns: u64,
        [total, rate]: [(&str, &'static str); 2],
    ) -> Self {
        let seconds = ns.max(1) as f64 / 1e9;
        Self {
            metrics: vec![
                (total.0.to_owned(), total.1, amount),
                (rate.0.to_owned(), rate.1, amount / seconds),
            ],
        }
    }

    /// Adds the report of another process: values of metrics with the same name are summed, others
    /// are appended.
    pub(crate) fn add(&mut self, other: Self) {
        for metric in other.metrics {
            match self.metrics.iter_mut().find(|(name, ..)| *name == metric.0) {
                Some((.., sum)) => *sum += metric.2,
                None => self.metrics.push(metric),
            }
        }
    }
}

/// One of several commands of a program in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance {
    /// The program's name.
    pub program: &'static str,
    /// The command's index among the program's commands, in the script's order, from 1.
    pub nth: usize,
}

impl Instance {
    /// Returns the name of the instance's figure: `bytes:dd#2`.
    pub fn figure(self, name: &str) -> String {
        format!("{name}:{}#{}", self.program, self.nth)
    }
}

/// Returns the name of a figure without its instance: `bytes` of `bytes:dd#2`; `None` if it has
/// none.
pub fn without_instance(name: &str) -> Option<&str> {
    let (figure, of) = name.split_once(':')?;
    let (program, nth) = of.rsplit_once('#')?;
    let number = !nth.is_empty() && nth.bytes().all(|b| b.is_ascii_digit());
    (number && !program.is_empty()).then_some(figure)
}

/// Returns true if figures of this unit are amounts, such as bytes or calls, which can be summed
/// over instances. Times, rates and shares can't.
fn adds_up(unit: &str) -> bool {
    const NO_AMOUNTS: [&str; 7] = ["s", "ms", "us", "ns", "%", "share", "1"];
    !NO_AMOUNTS.contains(&unit) && !unit.ends_with("/s")
}

/// Combines the reports of a run's programs into figures by name, with units. Where a script has
/// several commands of one program, each instance has its own figures ([`Instance::figure`]), and
/// the plain name has their sum if they are amounts. `elapsed` is the whole run's, so a program's
/// own is left out.
pub fn of_run(
    reports: impl IntoIterator<Item = (Option<Instance>, Report)>,
) -> BTreeMap<String, (&'static str, f64)> {
    let mut all: BTreeMap<String, (&'static str, f64)> = BTreeMap::new();
    for (instance, report) in reports {
        for (name, unit, value) in report.metrics {
            if let Some(instance) = instance {
                all.insert(instance.figure(&name), (unit, value));
            }
            if name != "elapsed" && (instance.is_none() || adds_up(unit)) {
                all.entry(name).or_insert((unit, 0.0)).1 += value;
            }
        }
    }
    all
}

/// The definition of a metric, or of several with a common prefix: `read_latency` defines
/// `read_latency_p50`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The metric's name, or the prefix of the names.
    pub name: &'static str,
    /// The metric's unit.
    pub unit: &'static str,
    /// The metric's meaning in a sentence; empty: it is not explained. Texts of several programs
    /// for one name are joined in the order of the table of programs.
    pub text: &'static str,
    /// Set if more is worse, although the unit suggests otherwise.
    pub harmful: bool,
    /// Set if it is read together with the machine's watermarks, so that a run with it reports
    /// those too.
    pub beside_watermarks: bool,
}

impl Metric {
    /// Makes a metric that is neither harmful nor read beside the watermarks: the unit alone says
    /// whether more is better. `name` may be the prefix of several metrics' names.
    pub const fn new(name: &'static str, unit: &'static str, text: &'static str) -> Self {
        Self {
            name,
            unit,
            text,
            harmful: false,
            beside_watermarks: false,
        }
    }

    /// Marks the metric as [harmful](Self::harmful).
    #[must_use]
    pub const fn harmful(mut self) -> Self {
        self.harmful = true;
        self
    }

    /// Marks the metric as read [beside the watermarks](Self::beside_watermarks).
    #[must_use]
    pub const fn beside_watermarks(mut self) -> Self {
        self.beside_watermarks = true;
        self
    }
}

/// The figures of a run, by name.
pub type Figures<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// A table of a program's figures over iterations in comparisons: medians, one row per cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Medians {
    /// The table's heading.
    pub title: &'static str,
    /// Runs without this figure are left out.
    pub of: &'static str,
    /// The table's columns.
    pub columns: &'static [Median],
}

/// A column of [`Medians`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The column's heading.
    pub header: &'static str,
    /// The figure.
    pub metric: &'static str,
    /// Units of the figure per unit of the column.
    pub unit: f64,
    /// Digits after the decimal point.
    pub digits: usize,
    /// Whether a median of 0 is meaningful: a column of zeroes is shown, too.
    pub zero_counts: bool,
}

impl Median {
    /// Makes a column with the medians of the figure `metric`, divided by `unit` and shown with so
    /// many digits after the point. A column of zeroes is not shown.
    pub const fn new(header: &'static str, metric: &'static str, unit: f64, digits: usize) -> Self {
        Self {
            header,
            metric,
            unit,
            digits,
            zero_counts: false,
        }
    }

    /// Makes a column of a share, which is meaningful at 0 as well.
    pub const fn share(header: &'static str, metric: &'static str) -> Self {
        Self {
            zero_counts: true,
            ..Self::new(header, metric, 1.0, 4)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With two instances of one program each has its figures, and only amounts are also summed.
    #[test]
    fn instances_are_kept_apart() {
        let report = |bytes: f64, p99: f64| Report {
            metrics: vec![
                ("elapsed".to_owned(), "s", 3.0),
                ("bytes".to_owned(), "bytes", bytes),
                ("latency_p99".to_owned(), "us", p99),
                ("rate".to_owned(), "MB/s", 1.0),
            ],
        };
        let instance = |nth| Some(Instance { program: "dd", nth });
        let all = of_run([
            (instance(1), report(1.0, 20.0)),
            (instance(2), report(2.0, 30.0)),
        ]);
        let value = |name: &str| all.get(name).map(|figure| figure.1);
        assert_eq!(value("bytes"), Some(3.0));
        assert_eq!(value("bytes:dd#1"), Some(1.0));
        assert_eq!(value("bytes:dd#2"), Some(2.0));
        assert_eq!(value("latency_p99:dd#2"), Some(30.0));
        assert_eq!(value("elapsed:dd#1"), Some(3.0));
        assert_eq!(
            [value("latency_p99"), value("rate"), value("elapsed")],
            [None; 3]
        );
        // A single instance has the plain names.
        let alone = of_run([(None, report(1.0, 20.0))]);
        let names: Vec<&str> = alone.keys().map(String::as_str).collect();
        assert_eq!(names, ["bytes", "latency_p99", "rate"]);
    }

    #[test]
    fn an_instances_figure_is_known_by_its_name() {
        let bare = [
            "bytes:dd#2",
            "x:mapped-file-stream#13",
            "bytes",
            "a:b",
            "disk_read:/mnt/a#b",
            "a:#1",
        ];
        let bare = bare.map(without_instance);
        assert_eq!(bare, [Some("bytes"), Some("x"), None, None, None, None]);
    }
}
