//! Formats numbers for readers, and rounds numbers for drawing.

/// Rounds `x` to `digits` significant decimal digits: a curve needs no more, and a long series
/// shrinks to a third of the size.
pub(super) fn significant(x: f64, digits: usize) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    format!("{x:.*e}", digits - 1)
        .parse()
        .expect("a number that was just printed")
}

/// Formats a number with three digits after the point, one fewer from 10, 100 and 1000 on: four
/// digits in all for most numbers.
pub(crate) fn short(x: f64) -> String {
    let digits = match x.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{x:.digits$}")
}

/// Formats a number for readers: 0 as `0`, others as [`short`] does.
pub(crate) fn plain_number(x: f64) -> String {
    if x == 0.0 { "0".into() } else { short(x) }
}

/// Formats `x` with `decimals` digits after the point and a comma between thousands; `–` if it is
/// not finite.
pub(crate) fn grouped(x: f64, decimals: usize) -> String {
    if !x.is_finite() {
        return "–".into();
    }
    let text = format!("{:.decimals$}", x.abs());
    let (whole, fraction) = text
        .split_once('.')
        .map_or((&text[..], None), |(w, f)| (w, Some(f)));
    let mut out = String::new();
    if x < 0.0 && text.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        out.push('−');
    }
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(f) = fraction {
        out.push('.');
        out.push_str(f);
    }
    out
}

/// Returns the number of digits after the point that suits a column of such values: none if all are
/// whole, fewer for larger values.
pub(super) fn decimals(values: impl Iterator<Item = f64> + Clone) -> usize {
    let finite = values.filter(|v| v.is_finite());
    if finite.clone().all(|v| v.fract() == 0.0) {
        return 0;
    }
    match finite.fold(0.0, |m: f64, v| m.max(v.abs())) {
        m if m >= 10_000.0 => 0,
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        _ => 3,
    }
}

/// Formats a relative change (a share) as a percentage with its sign, `+1.5 %`; `–` if it is not
/// finite.
pub(super) fn percent(change: f64) -> String {
    if !change.is_finite() {
        return "–".into();
    }
    let p = change * 100.0;
    let decimals = if p.abs() >= 1000.0 { 0 } else { 1 };
    let text = grouped(p, decimals);
    if text.starts_with('−') || p == 0.0 || text.trim_end_matches(['0', '.']).is_empty() {
        format!("{text} %")
    } else {
        format!("+{text} %")
    }
}

/// Formats a p-value for the page, with `<` in front of one that is too small to show; `–` if it
/// is not finite.
pub(super) fn p_value(p: f64) -> String {
    match p {
        p if !p.is_finite() => "–".into(),
        p if p < 0.0001 => "< 0.0001".into(),
        p if p < 0.01 => format!("{p:.4}"),
        p => format!("{p:.3}"),
    }
}

/// Returns the smallest and the largest finite value; `None` if there is none.
pub(super) fn range(values: &[f64]) -> Option<(f64, f64)> {
    values
        .iter()
        .copied()
        .filter(|x| x.is_finite())
        .fold(None, |r, x| {
            Some(r.map_or((x, x), |(lo, hi): (f64, f64)| (lo.min(x), hi.max(x))))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_rounded_not_cut() {
        assert_eq!(significant(123_456.0, 5), 123_460.0);
        assert_eq!(significant(-0.001_234_567, 5), -0.001_234_6);
        assert_eq!(significant(0.0, 5), 0.0);
        assert!(significant(f64::NAN, 5).is_nan());
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(grouped(2_725_438.0, 0), "2,725,438");
        assert_eq!(grouped(-1183.094, 1), "−1,183.1");
        assert_eq!(grouped(-0.04, 1), "0.0");
        assert_eq!(grouped(f64::NAN, 1), "–");
    }

    #[test]
    fn changes_carry_a_sign() {
        assert_eq!(percent(-0.5283), "−52.8 %");
        assert_eq!(percent(0.0023), "+0.2 %");
        assert_eq!(percent(0.000_01), "0.0 %");
        assert_eq!(percent(f64::INFINITY), "–");
    }

    #[test]
    fn p_values_name_their_bound() {
        assert_eq!(p_value(1e-9), "< 0.0001");
        assert_eq!(p_value(0.0021), "0.0021");
        assert_eq!(p_value(0.4712), "0.471");
    }
}
