//! What programs measure, and the definitions of their figures.

/// What a program measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Name, unit and value of each metric, in the order in which to show them.
    pub metrics: Vec<(String, &'static str, f64)>,
}

impl Report {
    /// Adds what another process measured: figures of one name are summed.
    pub(crate) fn add(&mut self, other: Self) {
        for metric in other.metrics {
            match self.metrics.iter_mut().find(|(name, ..)| *name == metric.0) {
                Some((.., sum)) => *sum += metric.2,
                None => self.metrics.push(metric),
            }
        }
    }
}

/// The definition of a figure, or of several that begin alike: `read_latency` is that of
/// `read_latency_p50`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name, or how the names begin.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it is, in a sentence; empty: it is not explained. What several programs say of one name is
    /// put together in the order of the table of programs.
    pub text: &'static str,
    /// More of it is worse, though its unit alone would say otherwise.
    pub harmful: bool,
    /// It is read beside the machine's watermarks, so a run that has it reports those too.
    pub beside_watermarks: bool,
}

impl Metric {
    /// A figure of which its unit says whether more is better.
    pub const fn new(name: &'static str, unit: &'static str, text: &'static str) -> Self {
        Self {
            name,
            unit,
            text,
            harmful: false,
            beside_watermarks: false,
        }
    }

    /// The same, [harmful](Self::harmful).
    #[must_use]
    pub const fn harmful(mut self) -> Self {
        self.harmful = true;
        self
    }

    /// The same, read [beside the watermarks](Self::beside_watermarks).
    #[must_use]
    pub const fn beside_watermarks(mut self) -> Self {
        self.beside_watermarks = true;
        self
    }
}

/// The figures of a run, by name.
pub type Figures<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// A table of a program's figures over iterations, as comparisons show it: medians, in a row a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Medians {
    /// Its heading.
    pub title: &'static str,
    /// Runs without this figure are left out.
    pub of: &'static str,
    /// Its columns.
    pub columns: &'static [Median],
}

/// A column of [`Medians`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// Its heading.
    pub header: &'static str,
    /// The figure.
    pub metric: &'static str,
    /// How many of the figure's units are one of the column's.
    pub unit: f64,
    /// Digits behind the point.
    pub digits: usize,
}

impl Median {
    /// A column.
    pub const fn new(header: &'static str, metric: &'static str, unit: f64, digits: usize) -> Self {
        Self {
            header,
            metric,
            unit,
            digits,
        }
    }
}
