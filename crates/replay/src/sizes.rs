//! Cache sizes, and the text by which options describe them.

use crate::requests::PAGE;
use std::str::FromStr;

/// A list of cache sizes, at least one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sizes {
    /// Sizes in pages, ascending and unique.
    pub pages: Vec<u32>,
    /// Sizes as shares of the trace's number of objects (its working set): above 0, at most 1,
    /// ascending and unique.
    pub shares: Vec<f64>,
    /// True if some were given in bytes, which makes sense only where objects are pages.
    pub in_bytes: bool,
}

impl From<Vec<u32>> for Sizes {
    /// Takes sizes in pages in any order and sorts them; each counts once.
    fn from(mut pages: Vec<u32>) -> Self {
        pages.sort_unstable();
        pages.dedup();
        Self {
            pages,
            ..Self::default()
        }
    }
}

impl Sizes {
    /// Returns all sizes in pages, ascending and unique, for a trace of `objects` objects, of which
    /// a share becomes at least one page.
    pub fn of(&self, objects: u64) -> Self {
        let most = f64::from(evict::MOST);
        let share = |share: &f64| (share * objects as f64).round().clamp(1.0, most) as u32;
        let all = self.pages.iter().copied();
        Self::from(
            all.chain(self.shares.iter().map(share))
                .collect::<Vec<u32>>(),
        )
    }
}

/// The error that a text describes no sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; accepted: {ACCEPTED}")]
pub struct SizesError {
    what: String,
}

const ACCEPTED: &str = "pages such as `100000` or `1000,5000`; bytes such as `512MiB`, with K, M, G or T, in powers of \
                        1024; per cent of the trace's objects such as `10%`; `FROM..TO:N` for N sizes in equal \
                        ratios, `FROM..TO:N:linear` for N in equal steps; from 1 to 2^30 pages";

/// The largest number of sizes in one range.
const MOST_SIZES: u32 = 10_000;

/// One size.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Size {
    Pages(u32),
    /// A size given in bytes, converted to pages.
    Bytes(u32),
    Percent(f64),
}

impl FromStr for Sizes {
    type Err = SizesError;

    /// Parses sizes as options describe them, separated by commas:
    /// `1000,512MiB,10%,1000..100000:50`.
    fn from_str(text: &str) -> Result<Self, SizesError> {
        let mut sizes = Self::default();
        for part in text.split(',') {
            let part = part.trim();
            match part.split_once("..") {
                Some((from, rest)) => range(part, from, rest, &mut sizes)?,
                None => sizes.add(size(part)?),
            }
        }
        let in_bytes = sizes.in_bytes;
        let mut shares = sizes.shares;
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        Ok(Self {
            shares,
            in_bytes,
            ..Self::from(sizes.pages)
        })
    }
}

impl Sizes {
    /// Adds a size to the pages or shares, without sorting.
    fn add(&mut self, size: Size) {
        match size {
            Size::Pages(n) => self.pages.push(n),
            Size::Bytes(n) => {
                self.pages.push(n);
                self.in_bytes = true;
            }
            Size::Percent(percent) => self.shares.push(percent / 100.0),
        }
    }
}

/// Returns the error that a text describes no sizes.
fn wrong<T>(what: String) -> Result<T, SizesError> {
    Err(SizesError { what })
}

/// Parses one size: a number of pages, of bytes with a unit (`512MiB`), or a percentage of the
/// trace's objects.
fn size(text: &str) -> Result<Size, SizesError> {
    let text = text.trim();
    if let Some(percent) = text.strip_suffix('%') {
        return match percent.trim().parse() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Size::Percent(percent)),
            _ => wrong(format!("`{text}` is no share, above 0 % to 100 %")),
        };
    }
    let amount = text.strip_suffix("iB").unwrap_or(text);
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units
        .iter()
        .find_map(|(unit, shift)| Some((amount.strip_suffix(*unit)?, *shift)));
    let Some((number, shift)) = unit else {
        return match text.parse() {
            Ok(n) if (1..=evict::MOST).contains(&n) => Ok(Size::Pages(n)),
            _ => wrong(format!("`{text}` is no number of pages")),
        };
    };
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let bytes = digits
        .then(|| number.parse::<u64>().ok()?.checked_mul(1 << shift))
        .flatten();
    match bytes.map(|bytes| u32::try_from(bytes / PAGE)) {
        Some(Ok(n)) if (1..=evict::MOST).contains(&n) => Ok(Size::Bytes(n)),
        Some(_) => wrong(format!(
            "`{text}` is not from a page of 4 KiB to 2^30 of them"
        )),
        None => wrong(format!("`{text}` is no number of bytes")),
    }
}

/// Parses the range of sizes `from..rest`, where `rest` is `TO:N` or `TO:N:linear`, and adds its N
/// sizes; `whole` is the text for messages.
fn range(whole: &str, from: &str, rest: &str, sizes: &mut Sizes) -> Result<(), SizesError> {
    let mut fields = rest.split(':');
    let (to, from) = (size(fields.next().unwrap_or(""))?, size(from)?);
    let n = fields.next().and_then(|n| n.trim().parse::<u32>().ok());
    let linear = match fields.next().map(str::trim) {
        None | Some("log") => false,
        Some("linear") => true,
        Some(other) => return wrong(format!("`{other}` in `{whole}` is no spacing")),
    };
    let Some(n @ 2..=MOST_SIZES) = n else {
        return wrong(format!(
            "`{whole}` does not say how many sizes, from 2 to {MOST_SIZES}"
        ));
    };
    let no_range = || wrong(format!("`{whole}` is no range of sizes"));
    if fields.next().is_some() {
        return no_range();
    }
    match (from, to) {
        (Size::Percent(from), Size::Percent(to)) if from < to => {
            sizes.shares.extend((0..n).map(|i| {
                let at = f64::from(i) / f64::from(n - 1);
                let percent = match linear {
                    _ if i == 0 => from,
                    _ if i == n - 1 => to,
                    true => from + (to - from) * at,
                    false => from * (to / from).powf(at),
                };
                percent / 100.0
            }));
            Ok(())
        }
        (Size::Pages(from) | Size::Bytes(from), Size::Pages(to) | Size::Bytes(to)) if from < to => {
            sizes.pages.extend(spaced(from, to, n, linear));
            Ok(())
        }
        _ => no_range(),
    }?;
    sizes.in_bytes |= matches!(from, Size::Bytes(_)) || matches!(to, Size::Bytes(_));
    Ok(())
}

/// Returns `n` sizes in pages from `from` to `to`, both included, in equal steps (`linear`) or
/// equal ratios.
fn spaced(from: u32, to: u32, n: u32, linear: bool) -> impl Iterator<Item = u32> {
    let (low, high, last) = (f64::from(from), f64::from(to), n - 1);
    (0..n).map(move |i| {
        if i == 0 {
            from
        } else if i == last {
            to
        } else if linear {
            let wide = u64::from(to - from) * u64::from(i) + u64::from(last / 2);
            from + (wide / u64::from(last)) as u32
        } else {
            (low * (high / low).powf(f64::from(i) / f64::from(last))).round() as u32
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_listed_or_spaced() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|s| s.pages).unwrap();
        assert_eq!(sizes("5, 3,5"), [3, 5]);
        assert_eq!(sizes("10..1000:3"), [10, 100, 1000]);
        assert_eq!(sizes("10..40:4:linear,7"), [7, 10, 20, 30, 40]);
        assert_eq!(sizes("1..4:10"), [1, 2, 3, 4]);
        let spaced = sizes("1000..100000:50");
        assert_eq!((spaced.len(), spaced[0], spaced[49]), (50, 1000, 100_000));
    }

    #[test]
    fn bytes_are_pages() {
        let sizes = |text: &str| text.parse::<Sizes>().unwrap();
        assert_eq!(sizes("512MiB, 4K,1G").pages, [1, 131_072, 262_144]);
        assert_eq!(sizes("6K").pages, [1]);
        assert_eq!(sizes("4T").pages, [evict::MOST]);
        assert_eq!(sizes("16K..64K:3").pages, [4, 8, 16]);
        assert!(sizes("16K..64K:3").in_bytes && sizes("7,8K").in_bytes && !sizes("7").in_bytes);
    }

    #[test]
    fn shares_are_of_a_traces_objects() {
        let sizes: Sizes = "10%,1%..100%:3, 5,0.5 %".parse().unwrap();
        assert_eq!(sizes.pages, [5]);
        assert_eq!(sizes.shares, [0.005, 0.01, 0.1, 1.0]);
        assert_eq!(sizes.of(1000).pages, [5, 10, 100, 1000]);
        assert_eq!(sizes.of(10).pages, [1, 5, 10]);
        let steps: Sizes = "20%..60%:3:linear".parse().unwrap();
        assert_eq!(steps.of(1000).pages, [200, 400, 600]);
        assert!(steps.of(1000).shares.is_empty());
    }

    #[test]
    fn what_names_no_sizes_is_refused() {
        for text in [
            "",
            "0",
            "1..2",
            "5..3:4",
            "1..9:1",
            "1..9:3:cubic",
            "1..9:3:log:2",
            "x",
            "2000000000",
            "-1",
            "1..9:20000",
            "0%",
            "101%",
            "NaN%",
            "%",
            "1%..50:3",
            "1K",
            "5T",
            "K",
            "1.5G",
            "512 parsecs",
            "99999999999999999999G",
        ] {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains("accepted: pages such as"), "{text}: {error}");
        }
    }
}
