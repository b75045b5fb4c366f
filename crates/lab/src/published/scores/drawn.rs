//! Combines the draws of a series: medians, spreads, and the directions on which they agree.

use super::{FEWEST, Measured};
use crate::published::{PublishedRow, Scored, count, directions};

/// The draws of a series.
#[derive(Debug, Clone)]
pub struct Drawn<'a> {
    /// The draws, each with seeds of its own, all of one engine; at least one.
    pub draws: Vec<&'a Measured>,
    /// The revision since which the draws are of an earlier engine; `None`: they are of this one.
    pub stale: Option<&'a str>,
}

/// The number of cells within their tolerance, over draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Number in the median draw.
    pub median: usize,
    /// Number in the draw with fewest.
    pub min: usize,
    /// Number in the draw with most.
    pub max: usize,
    /// Number of scored cells.
    pub cells: usize,
}

/// Published directions, over draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directions {
    /// Number of published directions.
    pub checked: usize,
    /// Number of directions that all draws agree with.
    pub agree: usize,
    /// Number of directions that some draws agree with and others do not: these are not claimed.
    pub disputed: usize,
}

impl Drawn<'_> {
    /// Returns the number of draws.
    pub fn seeds(&self) -> usize {
        self.draws.len()
    }

    /// Returns the iterations of each cell in each draw, in words.
    pub fn iterations(&self) -> String {
        self.draws.first().map_or("no".into(), |m| m.iterations())
    }

    /// Returns the revisions that the draws were measured with, each once.
    pub fn revision(&self) -> String {
        let mut all: Vec<&str> = self.draws.iter().map(|m| &m.revision[..]).collect();
        all.dedup();
        all.join(", ")
    }

    /// Returns true if a row has its figure in each draw, or a reason why there is none.
    pub fn has(&self, row: &PublishedRow) -> bool {
        self.draws.iter().all(|m| m.has(row))
    }

    /// Returns the series' rows with the median of their figures. A row is within its tolerance if
    /// it is in more than half of the draws; its direction agrees if it does in all of them. A row
    /// that has no figure in half of the draws has none here.
    pub fn scored(&self) -> Vec<Scored> {
        let mut draws: Vec<Vec<Scored>> = self.draws.iter().map(|m| m.scored()).collect();
        let Some(mut out) = draws.pop() else {
            return Vec::new();
        };
        for (i, row) in out.iter_mut().enumerate() {
            let of: Vec<&Scored> = draws.iter().map(|d| &d[i]).collect();
            // `row` is that of the last draw, and `of` are the same row of the others.
            merge(row, &of);
        }
        out
    }

    /// Counts the cells that are within their tolerance in each draw, among those for which
    /// `wanted` is true. Returns the median, least and largest number over the draws.
    pub fn within(&self, wanted: impl Fn(&Scored) -> bool) -> Spread {
        let each = self.draws.iter().map(|m| count(&m.scored(), &wanted));
        let each: Vec<_> = each.collect();
        let mut all: Vec<usize> = each.iter().map(|s| s.within).collect();
        all.sort_unstable();
        Spread {
            median: all.get((all.len().max(1) - 1) / 2).copied().unwrap_or(0),
            min: all.first().copied().unwrap_or(0),
            max: all.last().copied().unwrap_or(0),
            cells: each.first().map_or(0, |s| s.cells),
        }
    }

    /// Counts the published directions that the draws agree with, among the rows for which `wanted`
    /// is true.
    pub fn directions(&self, wanted: impl Fn(&Scored) -> bool) -> Directions {
        let mut rows = self.scored();
        rows.retain(wanted);
        let (checked, agree) = directions(&rows);
        let disputed = rows.iter().filter(|r| r.disputed).count();
        Directions {
            checked,
            agree,
            disputed,
        }
    }

    /// Returns the notes that must stand beside a score: too few draws, or draws of an earlier
    /// engine; empty if there is nothing to note.
    pub fn notes(&self) -> Vec<String> {
        let mut out = Vec::new();
        match self.seeds() {
            1 => out.push("1 seed".into()),
            n if n < FEWEST => out.push(format!("{n} seeds")),
            _ => {}
        }
        if let Some(since) = self.stale {
            out.push(format!("stale since {since}"));
        }
        out
    }
}

/// Merges the scored row of one draw with the same row of the `others`: the figure becomes the
/// median if more than half of the draws have one, and the row is within its tolerance if it is so
/// in more than half. Its direction agrees if it does in all draws, and is disputed if it does in
/// some but not in all.
fn merge(row: &mut Scored, others: &[&Scored]) {
    let all = others.len() + 1;
    let mut values: Vec<f64> = others.iter().filter_map(|s| s.measured).collect();
    values.extend(row.measured);
    let reason = others.iter().find_map(|s| s.unsupported.clone());
    row.unsupported = row.unsupported.take().or(reason);
    row.measured = match 2 * values.len() > all {
        true => Some(median(&mut values)),
        false => None,
    };
    if row.measured.is_some() {
        row.unsupported = None;
    }
    let within = others.iter().filter(|s| s.within).count() + usize::from(row.within);
    row.within = 2 * within > all;
    if let Some(last) = row.agrees {
        let agree = others.iter().filter(|s| s.agrees == Some(true)).count() + usize::from(last);
        row.agrees = Some(agree == all);
        row.disputed = agree > 0 && agree < all;
    }
}

/// Returns the median; of an even number of values, the mean of the middle two. There must be at
/// least one value.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::find;

    /// Rows whose figure is not the published one, with that figure or the reason why there is
    /// none.
    type Other<'a> = [(usize, Result<f64, &'a str>)];

    /// Returns draws of a series in which every figure is the published one, except for the rows
    /// given for each draw.
    fn draws(of: &[&Other<'_>]) -> Vec<Measured> {
        let series = find("tunable-watermarks").expect("a shipped series");
        let draw = |(seed, other): (u32, &&Other<'_>)| {
            let mut values: Vec<_> = series.rows.iter().map(|r| Ok(r.value)).collect();
            for (row, value) in other.iter() {
                values[*row] = value.map_err(str::to_owned);
            }
            Measured::new(series, seed, &[], &values)
        };
        (1..).zip(of).map(draw).collect()
    }

    fn drawn(of: &[Measured]) -> Drawn<'_> {
        Drawn {
            draws: of.iter().collect(),
            stale: None,
        }
    }

    /// Returns a row with a direction, and its published value.
    fn directed() -> (usize, f64) {
        let series = find("tunable-watermarks").expect("a shipped series");
        let is = |r: &PublishedRow| r.direction.is_some() && r.value != 0.0;
        let at = series.rows.iter().position(is).expect("a direction");
        (at, series.rows[at].value)
    }

    #[test]
    fn a_score_is_the_median_with_its_spread() {
        let far = |rows: &'static [usize]| -> Vec<(usize, Result<f64, &'static str>)> {
            rows.iter().map(|r| (*r, Ok(1e12))).collect()
        };
        let scored: Vec<usize> = {
            let whole = draws(&[&[]]);
            let rows = drawn(&whole).scored();
            let in_it = |r: &(usize, &Scored)| r.1.within;
            rows.iter().enumerate().filter(in_it).map(|r| r.0).collect()
        };
        let rows: &'static [usize] = Vec::leak(scored);
        let all = rows.len();
        let (none, one, two) = (far(&[]), far(&rows[..1]), far(&rows[..2]));
        let five = draws(&[&two, &none, &one, &two, &one]);
        let of = drawn(&five);
        let spread = of.within(|_| true);
        assert_eq!(
            (spread.median, spread.min, spread.max),
            (all - 1, all - 2, all)
        );
        assert!(of.notes().is_empty());
        let rows_of = of.scored();
        // The first row is off in four of five draws, the second in two.
        assert!(!rows_of[rows[0]].within && rows_of[rows[1]].within);
        assert_eq!(rows_of[rows[0]].measured, Some(1e12));
    }

    #[test]
    fn few_draws_and_those_of_an_earlier_engine_are_noted() {
        let two = draws(&[&[], &[]]);
        let mut of = drawn(&two);
        assert_eq!(of.notes(), ["2 seeds"]);
        of.stale = Some("1cb3cad2");
        assert_eq!(of.notes(), ["2 seeds", "stale since 1cb3cad2"]);
        of.draws.pop();
        assert_eq!(of.notes()[0], "1 seed");
    }

    #[test]
    fn a_direction_that_seeds_do_not_agree_on_is_not_claimed() {
        let (at, value) = directed();
        let wrong: &[(usize, Result<f64, &str>)] = &[(at, Ok(1e12)), (at, Ok(value * 1e-6))];
        let (up, down) = (&wrong[..1], &wrong[1..]);
        let plain = draws(&[&[], &[]]);
        let all = drawn(&plain).directions(|_| true);
        assert_eq!((all.agree, all.disputed), (all.checked, 0));
        let mixed = draws(&[up, down]);
        let of = drawn(&mixed).directions(|_| true);
        assert_eq!((of.agree, of.disputed), (all.checked - 1, 1));
        let row = &drawn(&mixed).scored()[at];
        assert!(row.disputed && row.agrees == Some(false));
    }

    #[test]
    fn a_figure_that_half_of_the_draws_lack_is_none() {
        let (at, value) = directed();
        let none: &[(usize, Result<f64, &str>)] = &[(at, Err("killed"))];
        let of = draws(&[none, &[], &[]]);
        assert_eq!(drawn(&of).scored()[at].measured, Some(value));
        let of = draws(&[none, &[], none]);
        let row = &drawn(&of).scored()[at];
        assert_eq!(row.measured, None);
        assert_eq!(row.unsupported.as_deref(), Some("killed"));
    }
}
