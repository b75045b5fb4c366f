//! Numbers with units, in the form of command lines and job files.

/// Suffixes and their factors.
pub type Suffixes = &'static [(&'static str, u64)];

/// Suffixes of bytes: none, or a power of 1024.
pub const SIZES: Suffixes = &[("", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];

/// Suffixes of times, in nanoseconds.
pub const TIMES: Suffixes = &[
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
];

/// Parses digits only; `None` for other text, and for numbers beyond 64 bits.
pub fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Parses a whole number with one of the suffixes, and returns it times the suffix's factor; `None`
/// for other text and for results beyond 64 bits.
pub fn scaled(text: &str, suffixes: Suffixes) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let (_, unit) = suffixes.iter().find(|(name, _)| *name == suffix)?;
    whole(number)?.checked_mul(*unit)
}

/// Parses a decimal number as a multiple of 10^-`places`: `1.5` with three places is 1500. At most
/// `places` digits may follow the point, and nine precede it; one side may be empty. `None` for
/// other text.
pub fn decimal(text: &str, places: usize) -> Option<u64> {
    let (before, behind) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str, most: usize| s.len() <= most && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(before, 9) || !digits(behind, places) || (before.is_empty() && behind.is_empty()) {
        return None;
    }
    format!("{before}{behind:0<places$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_units() {
        for (text, n) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("+1", None),
            ("-1", None),
            ("", None),
            ("1K", None),
        ] {
            assert_eq!(whole(text), n, "{text}");
        }
        for (text, n) in [
            ("7", Some(7)),
            ("3K", Some(3072)),
            ("1G", Some(1 << 30)),
            ("1k", None),
            ("K", None),
            ("99999999999999999999K", None),
            ("17179869184G", None),
            ("1é", None),
        ] {
            assert_eq!(scaled(text, SIZES), n, "{text}");
        }
        assert_eq!(scaled("20ms", TIMES), Some(20_000_000));
        assert_eq!(scaled("20", TIMES), None);
    }

    #[test]
    fn decimals() {
        for (text, n) in [
            ("1", Some(1000)),
            ("1.5", Some(1500)),
            (".025", Some(25)),
            ("2.", Some(2000)),
            (".", None),
            ("", None),
            ("1.0001", None),
            ("1234567890", None),
            ("1e3", None),
        ] {
            assert_eq!(decimal(text, 3), n, "{text}");
        }
    }
}
