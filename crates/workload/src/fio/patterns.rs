//! Values that describe a pattern: `rw`, `bssplit`, distributions of offsets and of files.

use super::finish::Given;
use super::job::{Amount, Blocks, Distribution, Service, Skew, Zone};
use super::setting::{FioError, Setting};
use crate::units;
use std::ops::RangeInclusive;

/// Applies `rw=`: whether the job reads, writes or does both, at random or sequential offsets, and
/// the number behind a colon: the length of runs of a random job, or the gaps of a sequential one.
pub(super) fn direction(given: &mut Given, s: &Setting) -> Result<(), FioError> {
    let job = &mut given.job;
    let text = s.text()?;
    let (word, number) = match text.split_once(':') {
        Some((word, number)) => (word, Some(number)),
        None => (text, None),
    };
    (job.reads, job.random, given.mixed) = match word {
        "read" => (100, false, false),
        "write" => (0, false, false),
        "randread" => (100, true, false),
        "randwrite" => (0, true, false),
        "rw" | "readwrite" => (50, false, true),
        "randrw" => (50, true, true),
        other => {
            let why = match other {
                "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => {
                    ": the disk models have no discards"
                }
                _ => "",
            };
            return Err(s.error(
                format!("`{other}` is not supported{why}"),
                "read, write, randread, randwrite, rw, readwrite, randrw",
            ));
        }
    };
    (job.run, job.gap) = (0, 0);
    let Some(number) = number else {
        return Ok(());
    };
    let bad = || {
        s.error(
            format!("`{text}` does not fit here"),
            "requests behind a random rw, such as randread:8; bytes behind a sequential one, such \
             as read:-8k",
        )
    };
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    let value = s.scaled(digits).filter(|n| *n <= 1 << 40).ok_or_else(bad)?;
    match (job.random, negative) {
        (true, false) if value > 0 => job.run = value,
        (false, true) => job.gap = -(value as i64),
        (false, false) => job.gap = value as i64,
        _ => return Err(bad()),
    }
    Ok(())
}

/// Parses one part of `bssplit=`: sizes with their percentages, such as `4k/10:64k/50:32k`. Sizes
/// without one share the rest.
pub(super) fn split(
    s: &Setting,
    text: &str,
    range: &RangeInclusive<u64>,
) -> Result<Blocks, FioError> {
    let mut sizes: Vec<(u64, Option<u64>)> = Vec::new();
    for part in text.split(':') {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let size = s.one(size.trim(), range)?;
        let share = match share.trim() {
            "" => None,
            share => Some(s.one(share, &(0..=100))?),
        };
        sizes.push((size, share));
    }
    let sizes = shared(&sizes).ok_or_else(|| {
        s.error(
            format!("the percentages of `{text}` do not add up to 100"),
            "sizes with percentages, such as 4k/60:8k/40; one without a percentage gets the rest",
        )
    })?;
    // A size with no share is never drawn, and does not count as the smallest.
    Ok(Blocks::Split(
        sizes.into_iter().filter(|(_, share)| *share > 0).collect(),
    ))
}

/// Returns entries with percentages that add up to 100: entries without one share the rest, whose
/// remainder the last of them gets. `None`: there is no rest for them, or a rest without them.
fn shared<T: Copy>(entries: &[(T, Option<u64>)]) -> Option<Vec<(T, u64)>> {
    let given: u64 = entries.iter().filter_map(|(_, share)| *share).sum();
    let rest = 100_u64.checked_sub(given)?;
    let open = entries.iter().filter(|(_, share)| share.is_none()).count() as u64;
    if open == 0 && rest > 0 || entries.is_empty() {
        return None;
    }
    let mut left = rest;
    let mut filled = 0;
    let entries = entries.iter().map(|(entry, share)| {
        let share = share.unwrap_or_else(|| {
            filled += 1;
            let own = if filled == open { left } else { rest / open };
            left -= own;
            own
        });
        (*entry, share)
    });
    Some(entries.collect())
}

/// Parses `random_distribution=`.
pub(super) fn distribution(s: &Setting) -> Result<Distribution, FioError> {
    let text = s.text()?;
    let bad = || {
        s.error(
            format!("`{text}` is not supported"),
            "random, zipf:THETA (above 0 up to 10), pareto:H (above 0, below 1), normal:DEVIATION \
             (percent), each of the three with :CENTER (0 to 1), zoned:ACCESS/FILE:… (percent), \
             zoned_abs:ACCESS/BYTES:…",
        )
    };
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) => (kind, rest),
        None => (text, ""),
    };
    match kind {
        "zoned" | "zoned_abs" => {
            let absolute = kind == "zoned_abs";
            return Ok(Distribution::Zoned(s.each(|part| {
                // The kind stands before the first part alone.
                let part = part
                    .strip_prefix(kind)
                    .unwrap_or(part)
                    .trim_start_matches(':');
                zones(s, part, absolute).ok_or_else(bad)
            })?));
        }
        "random" if rest.is_empty() => return Ok(Distribution::Random),
        _ => {}
    }
    let mut numbers = rest.split(':').filter(|part| !part.is_empty());
    let mut number = || numbers.next().map(|n| n.parse::<f64>().map_err(|_| bad()));
    let (value, center) = (number().transpose()?, number().transpose()?);
    if numbers.next().is_some() || center.is_some_and(|c| !(0.0..=1.0).contains(&c)) {
        return Err(bad());
    }
    let usual = match kind {
        "zipf" => Some(1.1),
        "pareto" => Some(0.2),
        _ => None,
    };
    let skew = value.or(usual).and_then(|value| Skew::named(kind, value));
    skew.map(|skew| Distribution::Skewed(skew, center))
        .ok_or_else(bad)
}

/// Parses the zones of `zoned:50/5:30/15:20/`, or of `zoned_abs`, whose second numbers are bytes.
/// `None`: the text has no zones, or percentages that do not add up.
fn zones(s: &Setting, text: &str, absolute: bool) -> Option<Vec<Zone>> {
    let mut access: Vec<(usize, Option<u64>)> = Vec::new();
    let mut sizes: Vec<Option<u64>> = Vec::new();
    for (nth, part) in text.split(':').enumerate() {
        let (share, size) = part.split_once('/').unwrap_or((part, ""));
        access.push((nth, Some(units::whole(share)?)));
        sizes.push(match (size, absolute) {
            ("", _) => None,
            (size, true) => Some(s.scaled(size)?),
            (size, false) => Some(units::whole(size).filter(|n| *n <= 100)?),
        });
    }
    let access = shared(&access)?;
    let sizes: Vec<Amount> = match absolute {
        true => sizes
            .into_iter()
            .map(|size| size.map(Amount::Bytes))
            .collect::<Option<_>>()?,
        false => {
            let sizes: Vec<(usize, Option<u64>)> = sizes.into_iter().enumerate().collect();
            let shares = shared(&sizes)?;
            shares
                .into_iter()
                .map(|(_, share)| Amount::Share(share * 1000))
                .collect()
        }
    };
    let zones = access.iter().zip(sizes).map(|((_, access), size)| Zone {
        access: *access,
        size,
    });
    Some(zones.collect())
}

/// Parses `file_service_type=`: the order of files, and the number of requests to each.
pub(super) fn service(s: &Setting) -> Result<Service, FioError> {
    let text = s.text()?;
    let bad = || {
        s.error(
            format!("`{text}` is not supported"),
            "roundrobin, sequential, random, zipf:THETA, pareto:H or gauss:DEVIATION, and a number \
             of requests behind a colon",
        )
    };
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default();
    let skewed = matches!(kind, "zipf" | "pareto" | "gauss" | "normal");
    let parameter = match skewed {
        true => Some(
            parts
                .next()
                .unwrap_or("1.1")
                .parse::<f64>()
                .map_err(|_| bad())?,
        ),
        false => None,
    };
    let requests = match parts.next() {
        Some(number) => s.scaled(number).filter(|n| *n > 0).ok_or_else(bad)?,
        None => 1,
    };
    if parts.next().is_some() {
        return Err(bad());
    }
    match (kind, parameter) {
        ("roundrobin", _) => Ok(Service::RoundRobin(requests)),
        ("sequential", _) => Ok(Service::Sequential),
        ("random", _) => Ok(Service::Random(requests)),
        (_, Some(parameter)) => Skew::named(kind, parameter)
            .map(|skew| Service::Skewed(skew, requests))
            .ok_or_else(bad),
        _ => Err(bad()),
    }
}
