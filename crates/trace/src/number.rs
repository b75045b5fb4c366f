//! Numbers and fields in bytes of text, without allocation.

/// Parses an unsigned decimal number; `None` if the text is anything else, or the number exceeds 64
/// bits.
#[inline]
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut n: u64 = 0;
    // Up to 19 digits cannot overflow 64 bits.
    if text.len() < 20 {
        for &b in text {
            let d = b.wrapping_sub(b'0');
            if d > 9 {
                return None;
            }
            n = n * 10 + u64::from(d);
        }
        return Some(n);
    }
    for &b in text {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    Some(n)
}

/// Parses a decimal number with an optional minus sign; `None` if the text is anything else or out
/// of range.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => i64::try_from(parse_u64(digits)?).ok().map(|n| -n),
        None => i64::try_from(parse_u64(text)?).ok(),
    }
}

/// Parses seconds with or without a fraction, and returns nanoseconds; digits after the ninth are
/// dropped. `None` if the text is no such number, or exceeds 64 bits.
pub(crate) fn parse_seconds(text: &[u8]) -> Option<u64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let mut ns: u64 = 0;
    for i in 0..9 {
        let d = match fraction.get(i) {
            Some(b) => b.wrapping_sub(b'0'),
            None => 0,
        };
        if d > 9 {
            return None;
        }
        ns = ns * 10 + u64::from(d);
    }
    if fraction.iter().skip(9).any(|b| !b.is_ascii_digit()) {
        return None;
    }
    parse_u64(whole)?
        .checked_mul(1_000_000_000)?
        .checked_add(ns)
}

/// The fields of a line at one separator byte, without surrounding blanks.
pub(crate) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Fields<'a> {
    /// Makes an iterator over the fields of `line` between `separator` bytes.
    pub fn new(line: &'a [u8], separator: u8) -> Self {
        Self {
            rest: Some(line),
            separator,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    /// Returns the next field without blanks around it; `None` after the last one.
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        // Fields are short: a plain loop is faster than a vector search.
        let field = match rest.iter().position(|&b| b == self.separator) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                &rest[..at]
            }
            None => {
                self.rest = None;
                rest
            }
        };
        Some(field.trim_ascii())
    }
}

/// Returns an iterator over the words of a line, which blanks and tabs separate.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|b| *b == b' ' || *b == b'\t')
        .filter(|w| !w.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seconds_become_nanoseconds() {
        for (text, ns) in [
            ("0", Some(0)),
            ("1.5", Some(1_500_000_000)),
            ("0.009507758", Some(9_507_758)),
            ("1.0000000019", Some(1_000_000_001)),
            ("1.00000000x", None),
            ("1.0000000000x", None),
            ("", None),
            (".", None),
            ("-1", None),
            ("99999999999999", None),
        ] {
            assert_eq!(parse_seconds(text.as_bytes()), ns, "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_the_standard_library_reads_them(n in any::<u64>(), text in "[0-9x]{0,22}") {
            prop_assert_eq!(parse_u64(n.to_string().as_bytes()), Some(n));
            prop_assert_eq!(parse_u64(text.as_bytes()), text.parse().ok());
        }

        #[test]
        fn signed_numbers_too(n in -i64::MAX..=i64::MAX) {
            prop_assert_eq!(parse_i64(n.to_string().as_bytes()), Some(n));
        }
    }
}
