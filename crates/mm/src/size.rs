//! Amounts of memory and disk as people write them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes, written in TOML as an integer or as `"512"`, `"64K"`, `"504M"`, `"16G"`,
/// `"1T"` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, JsonSchema)]
#[schemars(with = "String")]
pub struct Size(pub u64);

impl Size {
    /// Returns the number of whole 4 KiB pages in this size.
    pub fn pages(self) -> u64 {
        self.0 / 4096
    }

    /// Reads a size as people write it: a whole number of bytes, or one with a suffix such as
    /// `504M`.
    ///
    /// # Errors
    /// If the text is not a whole number with an optional suffix K, M, G or T (each also with a
    /// trailing `iB`), or does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, String> {
        let complaint = || {
            format!(
                "`{text}` is not a size; accepted: a whole number of bytes, or one with the suffix K, M, G or T (powers of 1024), such as \"504M\""
            )
        };
        let body = text.trim();
        let body = body.strip_suffix("iB").unwrap_or(body);
        let (digits, shift) = match body.as_bytes().last() {
            Some(b'K') => (&body[..body.len() - 1], 10),
            Some(b'M') => (&body[..body.len() - 1], 20),
            Some(b'G') => (&body[..body.len() - 1], 30),
            Some(b'T') => (&body[..body.len() - 1], 40),
            _ => (body, 0),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(complaint());
        }
        let n: u64 = digits.parse().map_err(|_| complaint())?;
        n.checked_mul(1 << shift).map(Size).ok_or_else(complaint)
    }
}

impl<'de> Deserialize<'de> for Size {
    /// Reads a size from a non-negative whole number of bytes or from a text that [`Size::parse`]
    /// accepts.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl serde::de::Visitor<'_> for V {
            type Value = Size;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size in bytes or with a suffix K, M, G, T, such as \"504M\"")
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Size, E> {
                Ok(Size(v))
            }
            /// Takes a signed number, as TOML has them, unless it is negative.
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Size, E> {
                u64::try_from(v).map(Size).map_err(|_| {
                    E::custom(
                        "a size can't be negative; accepted: a size such as \"504M\", or bytes",
                    )
                })
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Size, E> {
                Size::parse(v).map_err(E::custom)
            }
        }
        d.deserialize_any(V)
    }
}

impl Serialize for Size {
    /// Writes the size as a whole number with the largest suffix (K, M, G, T) that divides it, or
    /// as a number of bytes.
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        for (shift, suffix) in [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return s.serialize_str(&format!("{}{suffix}", self.0 >> shift));
            }
        }
        s.serialize_str(&self.0.to_string())
    }
}
