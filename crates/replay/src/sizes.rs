//! Sizes of the cache, as they are written in options.

use std::str::FromStr;

/// Sizes in pages, ascending, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<u32>);

/// Why a text names no sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; accepted: {ACCEPTED}")]
pub struct SizesError {
    what: String,
}

const ACCEPTED: &str = "pages such as `100000` or `1000,5000`, `FROM..TO:N` for N sizes in equal \
                        ratios, `FROM..TO:N:linear` for N in equal steps; from 1 to 2^30 pages";

/// The largest number of sizes in one range.
const MOST_SIZES: u32 = 10_000;

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Self, SizesError> {
        let mut sizes = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            match part.split_once("..") {
                Some((from, rest)) => range(part, from, rest, &mut sizes)?,
                None => sizes.push(pages(part)?),
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self(sizes))
    }
}

fn wrong<T>(what: String) -> Result<T, SizesError> {
    Err(SizesError { what })
}

fn pages(text: &str) -> Result<u32, SizesError> {
    match text.trim().parse() {
        Ok(n) if (1..=evict::MOST).contains(&n) => Ok(n),
        _ => wrong(format!("`{text}` is no number of pages")),
    }
}

fn range(whole: &str, from: &str, rest: &str, sizes: &mut Vec<u32>) -> Result<(), SizesError> {
    let mut fields = rest.split(':');
    let to = pages(fields.next().unwrap_or(""))?;
    let from = pages(from)?;
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
    if from >= to || fields.next().is_some() {
        return wrong(format!("`{whole}` is no range of sizes"));
    }
    let (low, high, last) = (f64::from(from), f64::from(to), n - 1);
    sizes.extend((0..n).map(|i| {
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
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_listed_or_spaced() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|s| s.0).unwrap();
        assert_eq!(sizes("5, 3,5"), [3, 5]);
        assert_eq!(sizes("10..1000:3"), [10, 100, 1000]);
        assert_eq!(sizes("10..40:4:linear,7"), [7, 10, 20, 30, 40]);
        assert_eq!(sizes("1..4:10"), [1, 2, 3, 4]);
        let spaced = sizes("1000..100000:50");
        assert_eq!((spaced.len(), spaced[0], spaced[49]), (50, 1000, 100_000));
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
        ] {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains("accepted: pages such as"), "{text}: {error}");
        }
    }
}
