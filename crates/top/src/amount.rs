//! Formats figures, and the text in place of missing ones.

/// Shown for a figure that a world does not report.
pub const UNTOLD: &str = "unsupported";

/// Bytes of a page; machines with other sizes can't be captured, recorded or simulated.
const PAGE: f64 = 4096.0;

/// Formats a figure with `show`; returns [`UNTOLD`] ("unsupported") if the world does not report
/// the figure.
fn told(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    value.map_or_else(|| UNTOLD.to_owned(), show)
}

/// Formats a small number with three significant digits.
fn digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// Formats a number of pages of 4 KiB as a size in KiB, MiB, GiB or TiB.
pub fn size(pages: f64) -> String {
    let bytes = pages * PAGE;
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} {}", units[0]),
        _ => format!("{} {}", digits(value), units[unit]),
    }
}

/// Formats pages, if reported.
pub fn pages(value: Option<f64>) -> String {
    told(value, size)
}

/// Formats pages per second, in a suitable unit.
pub fn flow(value: Option<f64>) -> String {
    told(value, |v| format!("{}/s", size(v)))
}

/// Formats a number without decimals, with a comma before each group of three digits.
pub fn grouped(value: f64) -> String {
    let whole = format!("{value:.0}");
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a rate per second, or [`UNTOLD`]. Small numbers have a decimal, so that one event in ten
/// seconds is not shown as 0.
pub fn rate(value: Option<f64>) -> String {
    told(value, |v| match v {
        v if v > 0.0 && v < 0.05 => "<0.1".to_owned(),
        v if v < 99.95 => format!("{v:.1}"),
        v => grouped(v),
    })
}

/// Formats a share from 0 to 1 in per cent, or [`UNTOLD`].
pub fn share(value: Option<f64>) -> String {
    told(value, |v| match v * 100.0 {
        v if v > 0.0 && v < 0.05 => "<0.1 %".to_owned(),
        v => format!("{v:.1} %"),
    })
}

/// Formats the share of `part` in `whole` in per cent: `-` if the whole is 0, [`UNTOLD`] if one is
/// not reported.
pub fn of(part: Option<f64>, whole: Option<f64>) -> String {
    match (part, whole) {
        (Some(_), Some(0.0)) => "-".to_owned(),
        (Some(part), Some(whole)) => share(Some(part / whole)),
        _ => UNTOLD.to_owned(),
    }
}

/// Formats megabytes per second.
pub fn megabytes(value: Option<f64>) -> String {
    told(value, |v| format!("{v:.1} MB/s"))
}

/// Formats a time in seconds as ns, µs, ms or s; `-` if nothing was timed.
pub fn time(value: Option<f64>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |v| match v {
            v if v < 0.999_5e-6 => format!("{:.0} ns", v * 1e9),
            v if v < 0.999_5e-3 => format!("{} µs", digits(v * 1e6)),
            v if v < 0.999_5 => format!("{} ms", digits(v * 1e3)),
            v => format!("{} s", digits(v)),
        },
    )
}

/// Formats a count.
pub fn count(value: Option<f64>) -> String {
    told(value, grouped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_their_size_and_none_is_no_zero() {
        let sizes = [0.0, 3.0, 256.0, 2_600.0, 262_144.0, 1e9];
        let shown = sizes.map(size);
        let expected = [
            "0 KiB", "12 KiB", "1.00 MiB", "10.2 MiB", "1.00 GiB", "3.73 TiB",
        ];
        assert_eq!(shown, expected);
        assert_eq!(size(261_900.0), "1023 MiB");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!((grouped(0.0), grouped(999.0)), ("0".into(), "999".into()));
        assert_eq!(
            [None, Some(0.0), Some(0.01), Some(12.34), Some(12_345.6)].map(rate),
            [UNTOLD, "0.0", "<0.1", "12.3", "12,346"]
        );
        assert_eq!(
            [Some(0.0), Some(0.0001), None].map(share),
            ["0.0 %", "<0.1 %", UNTOLD]
        );
        assert_eq!(of(Some(0.0), Some(0.0)), "-");
        assert_eq!(
            (of(Some(9.0), Some(10.0)), of(None, Some(0.0))),
            ("90.0 %".into(), UNTOLD.into())
        );
        assert_eq!(megabytes(Some(0.04)), "0.0 MB/s");
        assert_eq!(
            [Some(9.6e-8), Some(1.536e-6), Some(0.0123), Some(2.0), None].map(time),
            ["96 ns", "1.54 µs", "12.3 ms", "2.00 s", "-"]
        );
    }
}
