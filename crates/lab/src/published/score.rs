//! Scores how near the engine comes to published cells, by the rules of `data/published/README.md`.

use super::table::{Direction, PublishedRow, Tolerance};

/// A row with the engine's value and its score.
#[derive(Debug, Clone)]
pub struct Scored {
    /// The published row.
    pub row: PublishedRow,
    /// The engine's value; `None` if there is none.
    pub measured: Option<f64>,
    /// True if the value is within its tolerance; `false` for a row that is not scored.
    pub within: bool,
    /// True if the direction agrees, with several draws in all of them; `None` if no direction is
    /// published.
    pub agrees: Option<bool>,
    /// True if some draws agree with the direction and others do not: it is not claimed then.
    pub disputed: bool,
    /// The reason why there is no value.
    pub unsupported: Option<String>,
}

/// How many cells of how many are within their tolerance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// Number of scored cells.
    pub cells: usize,
    /// Number of cells within their tolerance.
    pub within: usize,
}

/// Returns true if the engine's value `e` is within the tolerance of the published row; a row with
/// `Tolerance::None` never is. `baselines` are the published value and the engine's value of the
/// baseline's row, to which `Tolerance::Ratio` relates both values; without them it is never met.
pub fn within(row: &PublishedRow, e: f64, baselines: Option<(f64, f64)>) -> bool {
    // The published value.
    let p = row.value;
    match row.tolerance {
        Tolerance::Rel(x) => (e - p).abs() <= (x * p.abs()).max(2.0 * row.stddev.unwrap_or(0.0)),
        Tolerance::Abs(x) => (e - p).abs() <= x,
        Tolerance::Zero(x) => e <= x,
        Tolerance::Factor(k, floor) => {
            let (e, p) = (e.max(floor), p.max(floor));
            if e == 0.0 || p == 0.0 {
                e == p
            } else {
                (1.0 / k..=k).contains(&(e / p))
            }
        }
        Tolerance::Ratio(k) => baselines.is_some_and(|(pb, eb)| {
            if pb == 0.0 || eb == 0.0 || p == 0.0 {
                return e * pb == p * eb;
            }
            (1.0 / k..=k).contains(&((e / eb) / (p / pb)))
        }),
        Tolerance::None => false,
    }
}

/// Returns true if the measured change has the published sign and at least a quarter of the
/// published relative size. `published` and `measured` are (baseline's value, policy's value). From
/// a baseline of 0 every change is infinitely large, so the sign alone decides.
pub fn agrees(direction: Direction, published: (f64, f64), measured: (f64, f64)) -> bool {
    let ((pb, p), (eb, e)) = (published, measured);
    let sign = match direction {
        Direction::Up => e > eb,
        Direction::Down => e < eb,
    };
    if !sign || eb == 0.0 || pb == 0.0 {
        return sign;
    }
    ((e - eb) / eb).abs() >= 0.25 * ((p - pb) / pb).abs()
}

/// Scores the rows of a published series. `values` holds for each row the engine's value, or the
/// reason why there is none; `baseline` is the policy that changes are measured from.
pub fn score_values(
    rows: &[PublishedRow],
    baseline: &str,
    values: &[Result<f64, String>],
) -> Vec<Scored> {
    rows.iter()
        .zip(values)
        .map(|(row, value)| {
            let base = rows
                .iter()
                .position(|b| b.policy == baseline && b.same_key(row))
                .filter(|_| row.policy != baseline);
            // The published and the measured value of the row's baseline.
            let bases = base.and_then(|b| values[b].as_ref().ok().map(|&v| (rows[b].value, v)));
            let measured = value.as_ref().ok().copied();
            Scored {
                within: measured.is_some_and(|e| within(row, e, bases)),
                agrees: row.direction.map(|d| match (measured, bases) {
                    (Some(e), Some((pb, eb))) => agrees(d, (pb, row.value), (eb, e)),
                    _ => false,
                }),
                disputed: false,
                unsupported: value.as_ref().err().cloned(),
                measured,
                row: row.clone(),
            }
        })
        .collect()
}

/// Counts the rows that have a tolerance and for which `wanted` is true, and those of them that are
/// within it.
pub fn count(rows: &[Scored], wanted: impl Fn(&Scored) -> bool) -> Score {
    let mut s = Score::default();
    for r in rows
        .iter()
        .filter(|r| r.row.tolerance != Tolerance::None && wanted(r))
    {
        s.cells += 1;
        s.within += usize::from(r.within);
    }
    s
}

/// Returns true if some model parameter was fitted to the row.
pub fn is_fitted(row: &PublishedRow) -> bool {
    row.fitted
}

/// Returns the number of rows with a published direction, and of those whose measured change agrees
/// with it.
pub fn directions(rows: &[Scored]) -> (usize, usize) {
    let checked = rows.iter().filter(|r| r.agrees.is_some()).count();
    (
        checked,
        rows.iter().filter(|r| r.agrees == Some(true)).count(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::table;
    use crate::published::text::to_json;
    use serde_json::{Value, json};

    fn row(tolerance: Tolerance, value: f64, stddev: Option<f64>) -> PublishedRow {
        PublishedRow {
            tolerance,
            value,
            stddev,
            ..table::fixture()
        }
    }

    #[test]
    fn every_tolerance_by_hand() {
        let ok = |t, p, sd, e| within(&row(t, p, sd), e, Some((10.0, 20.0)));
        assert!(
            ok(Tolerance::Rel(0.1), 100.0, None, 110.0)
                && !ok(Tolerance::Rel(0.1), 100.0, None, 110.1)
        );
        assert!(ok(Tolerance::Rel(0.1), 100.0, Some(8.0), 116.0));
        assert!(
            ok(Tolerance::Abs(3.0), 5.0, None, 2.0) && !ok(Tolerance::Abs(3.0), 5.0, None, 1.9)
        );
        assert!(
            ok(Tolerance::Zero(7.0), 0.0, None, 7.0) && !ok(Tolerance::Zero(7.0), 0.0, None, 8.0)
        );
        assert!(
            ok(Tolerance::Factor(3.0, 0.0), 30.0, None, 10.0)
                && !ok(Tolerance::Factor(3.0, 0.0), 30.0, None, 9.0)
        );
        assert!(
            ok(Tolerance::Factor(3.0, 100.0), 1.0, None, 300.0)
                && !ok(Tolerance::Factor(2.0, 0.0), 5.0, None, 0.0)
        );
        // The published ratio is 30/10 = 3; the measured ones are 60/20 = 3 and 160/20 = 8.
        assert!(
            ok(Tolerance::Ratio(2.0), 30.0, None, 60.0)
                && !ok(Tolerance::Ratio(2.0), 30.0, None, 160.0)
        );
        assert!(!ok(Tolerance::None, 1.0, None, 1.0));
    }

    #[test]
    fn a_direction_needs_sign_and_a_quarter_of_the_size() {
        let down = |p, e| agrees(Direction::Down, p, e);
        assert!(
            down((100.0, 60.0), (100.0, 90.0)),
            "10 % of 40 % is a quarter"
        );
        assert!(!down((100.0, 60.0), (100.0, 91.0)));
        assert!(!down((100.0, 60.0), (100.0, 140.0)));
        assert!(!down((100.0, 0.0), (0.0, 0.0)), "no change has no sign");
        assert!(agrees(Direction::Up, (0.0, 5.0), (0.0, 1.0)));
    }

    #[test]
    fn a_cell_without_a_value_is_not_within_and_is_listed() {
        let rows = [row(Tolerance::Rel(0.1), 1.0, None)];
        let scored = score_values(&rows, "vanilla", &[Err("why".into())]);
        let j = to_json(&[("s".into(), scored)]);
        assert_eq!(j["series"][0]["rows"][0]["measured"], Value::Null);
        assert_eq!(
            (j["total"]["cells"].clone(), j["total"]["within"].clone()),
            (json!(1), json!(0))
        );
        assert_eq!(j["unsupported"].as_array().expect("a list").len(), 1);
    }
}
