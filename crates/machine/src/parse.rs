//! Parsers for the texts of `/proc` and `/sys`. Every function takes a whole text and either parses
//! it or returns the line of the error; none panics, whatever the text.
//!
//! Counts are bounded ([`MOST_PAGES`], [`MOST_KBYTES`]) so that later formulas do not overflow.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The most pages a zone may have: 64 TiB of 4 KiB pages.
pub const MOST_PAGES: u64 = 1 << 34;
/// The most kB that a figure of memory may have: 64 TiB.
pub const MOST_KBYTES: u64 = 1 << 36;
/// The largest number of zones (1024 nodes of 6 zone types).
const MOST_ZONES: usize = 6144;

/// A text that does not have the format of its file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The error in that line.
    pub what: String,
}

/// Returns the error that `what` is wrong in a line, counted from 1.
fn wrong<T>(line: usize, what: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError {
        line,
        what: what.into(),
    })
}

/// A zone of `/proc/zoneinfo`. Counts are pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// The zone's node.
    pub node: u32,
    /// The zone's type by the kernel's name.
    pub name: String,
    /// Free pages.
    pub free: u64,
    /// The watermarks min, low and high, without the boost that the file's figures include.
    pub marks: [u64; 3],
    /// The temporary boost of the watermarks after fragmentation.
    pub boost: u64,
    /// Frames from the first to the last.
    pub spanned: u64,
    /// Frames that exist.
    pub present: u64,
    /// Pages that the allocator manages; before 3.9, [`Self::present`].
    pub managed: u64,
    /// The lowmem reserve, by the type of the request's highest zone.
    pub protection: Vec<u64>,
}

/// A zone while it is being read.
struct Partial {
    line: usize,
    node: u32,
    name: String,
    fields: BTreeMap<String, u64>,
    protection: Vec<u64>,
}

impl Partial {
    /// Checks that the zone has all fields and returns it. The kernel adds a temporary boost to the
    /// watermarks that it prints, which is subtracted here.
    fn finish(self) -> Result<Zone, ParseError> {
        let shown = format!("node {}, zone {}", self.node, self.name);
        let field = |key: &str| match self.fields.get(key) {
            Some(&n) => Ok(n),
            None => wrong(self.line, format!("{shown} has no `{key}`")),
        };
        let boost = self.fields.get("boost").copied().unwrap_or(0);
        let mut marks = [field("min")?, field("low")?, field("high")?];
        for mark in &mut marks {
            let Some(plain) = mark.checked_sub(boost) else {
                return wrong(self.line, format!("{shown}: boost is above a watermark"));
            };
            *mark = plain;
        }
        let present = field("present")?;
        Ok(Zone {
            free: field("free")?,
            marks,
            boost,
            spanned: field("spanned")?,
            present,
            managed: self.fields.get("managed").copied().unwrap_or(present),
            node: self.node,
            name: self.name,
            protection: self.protection,
        })
    }
}

/// Parses `/proc/zoneinfo` into its zones, in the file's order. Only the first value of each field
/// counts: those of per-CPU lists have the same names.
///
/// # Errors
/// A line is malformed, or a zone lacks a field (a truncated file).
pub fn zoneinfo(text: &str) -> Result<Vec<Zone>, ParseError> {
    let mut zones = Vec::new();
    let mut open: Option<Partial> = None;
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(rest) = content.strip_prefix("Node ") {
            if let Some(done) = open.take() {
                zones.push(done.finish()?);
            }
            if zones.len() == MOST_ZONES {
                return wrong(line, format!("more than {MOST_ZONES} zones"));
            }
            open = Some(zone_header(rest, line)?);
            continue;
        }
        let mut words = content.split_whitespace();
        let (Some(zone), Some(first)) = (&mut open, words.next()) else {
            if content.trim().is_empty() {
                continue;
            }
            return wrong(line, "expected `Node N, zone NAME`");
        };
        if first == "protection:" {
            if zone.protection.is_empty() {
                zone.protection = protection(content, line)?;
            }
            continue;
        }
        // `pages free N` starts the zone's own fields; all others are `NAME N`.
        let key = if first == "pages" {
            words.next().unwrap_or("")
        } else {
            first
        };
        let wanted = [
            "free", "boost", "min", "low", "high", "spanned", "present", "managed",
        ];
        if wanted.contains(&key) && !zone.fields.contains_key(key) {
            let pages = bounded(words.next().unwrap_or(""), MOST_PAGES, line)?;
            zone.fields.insert(key.to_owned(), pages);
        }
    }
    match open {
        None => wrong(1, "no zone"),
        Some(last) => {
            zones.push(last.finish()?);
            Ok(zones)
        }
    }
}

/// Parses the rest of a line `Node 0, zone Normal`, after `Node `, and returns an empty zone.
/// `line` is the line's number, from 1.
fn zone_header(rest: &str, line: usize) -> Result<Partial, ParseError> {
    let parts = rest.split_once(',').and_then(|(node, zone)| {
        let name = zone.trim().strip_prefix("zone")?.trim();
        Some((node.trim().parse::<u32>().ok()?, name))
    });
    match parts {
        Some((node, name))
            if node < 1024
                && !name.is_empty()
                && name.len() < 32
                && name.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            Ok(Partial {
                line,
                node,
                name: name.to_owned(),
                fields: BTreeMap::new(),
                protection: Vec::new(),
            })
        }
        _ => wrong(line, "expected `Node N, zone NAME`"),
    }
}

/// Parses `protection: (0, 3019, 9291)`, the zone's lowmem reserve in pages by the type of a
/// request's highest zone. `line` is the line's number.
fn protection(content: &str, line: usize) -> Result<Vec<u64>, ParseError> {
    let inner = content
        .split_once('(')
        .and_then(|(_, rest)| rest.trim_end().strip_suffix(')'));
    let Some(inner) = inner else {
        return wrong(line, "expected `protection: (N, …)`");
    };
    let all: Result<Vec<u64>, _> = inner
        .split(',')
        .map(|n| bounded(n.trim(), MOST_PAGES, line))
        .collect();
    match all {
        Ok(list) if list.len() > 8 => wrong(line, "more than 8 zone types"),
        other => other,
    }
}

/// Parses a number of at most `most`; `line` is the line's number for errors.
fn bounded(word: &str, most: u64, line: usize) -> Result<u64, ParseError> {
    match word.parse::<u64>() {
        Ok(n) if n <= most => Ok(n),
        Ok(n) => wrong(line, format!("{n} is more than {most}")),
        Err(_) => wrong(line, format!("`{}` is not a number", shown(word))),
    }
}

/// Cuts a word to 40 characters for use in a message.
fn shown(word: &str) -> String {
    word.chars().take(40).collect()
}

/// Parses lines `NAME N`, as in `/proc/vmstat`, into numbers by name. The first of several lines
/// with the same name counts.
///
/// # Errors
/// A line has another form.
pub fn counters(text: &str) -> Result<BTreeMap<String, u64>, ParseError> {
    let mut all = BTreeMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let mut words = content.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some(name), Some(n), None) => {
                let n = bounded(n, u64::MAX, line)?;
                all.entry(name.to_owned()).or_insert(n);
            }
            _ => return wrong(line, "expected `NAME N`"),
        }
    }
    Ok(all)
}

/// Parses lines `NAME: N kB`, as in `/proc/meminfo`, to kB; lines without a unit are skipped.
///
/// # Errors
/// A line has another form, or an amount of memory is above [`MOST_KBYTES`].
pub fn kilobytes(text: &str) -> Result<BTreeMap<String, u64>, ParseError> {
    let mut all = BTreeMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        let Some((name, rest)) = content.split_once(':') else {
            return wrong(line, "expected `NAME: N kB`");
        };
        let mut words = rest.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(n), Some("kB"), None) => {
                // Address space is larger than any memory.
                let most = if name.starts_with("Vmalloc") {
                    u64::MAX
                } else {
                    MOST_KBYTES
                };
                all.insert(name.trim().to_owned(), bounded(n, most, line)?);
            }
            (Some(n), None, None) => {
                bounded(n, u64::MAX, line)?;
            }
            _ => return wrong(line, "expected `NAME: N kB`"),
        }
    }
    Ok(all)
}

/// Parses one whole number, with optional white space around it.
///
/// # Errors
/// The text is anything else.
pub fn number(text: &str) -> Result<u64, ParseError> {
    bounded(text.trim(), u64::MAX, 1)
}

/// Parses whole numbers separated by white space, at least one.
///
/// # Errors
/// The text is anything else, or has more than 16 numbers.
pub fn numbers(text: &str) -> Result<Vec<u64>, ParseError> {
    let list: Vec<u64> = text
        .split_whitespace()
        .map(|word| bounded(word, u64::MAX, 1))
        .collect::<Result<_, _>>()?;
    if list.is_empty() || list.len() > 16 {
        return wrong(1, format!("{} numbers", list.len()));
    }
    Ok(list)
}

/// Returns the chosen word of `always [madvise] never`.
///
/// # Errors
/// Not exactly one word is in brackets.
pub fn choice(text: &str) -> Result<&str, ParseError> {
    let mut chosen = text
        .split_whitespace()
        .filter_map(|w| w.strip_prefix('[')?.strip_suffix(']'));
    match (chosen.next(), chosen.next()) {
        (Some(word), None) if !word.is_empty() => Ok(word),
        _ => wrong(1, "expected one word in brackets"),
    }
}

/// Returns the CPUs in a list such as `0-3,8,10-11`; an empty text gives none.
///
/// # Errors
/// The text has another form, or a CPU above 65535.
pub fn cpus(text: &str) -> Result<BTreeSet<u32>, ParseError> {
    let text = text.trim();
    let mut all = BTreeSet::new();
    if text.is_empty() {
        return Ok(all);
    }
    let mut listed = 0u32;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = bounded(first.trim(), 65_535, 1)? as u32;
        let last = bounded(last.trim(), 65_535, 1)? as u32;
        if first > last {
            return wrong(1, format!("`{}` is not a range of CPUs", shown(part)));
        }
        // A list that repeats CPUs many times would waste time.
        listed = listed.saturating_add(last - first + 1);
        if listed > 2 * 65_536 {
            return wrong(1, "CPUs are listed more than once");
        }
        all.extend(first..=last);
    }
    Ok(all)
}

/// A swap area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwapArea {
    /// The device or file.
    pub name: String,
    /// The swap area's size in kB.
    pub kbytes: u64,
}

/// Parses `/proc/swaps` into its areas; the first line is a header.
///
/// # Errors
/// A line after the header has another form.
pub fn swaps(text: &str) -> Result<Vec<SwapArea>, ParseError> {
    let mut all = Vec::new();
    for (line, content) in (1..).zip(text.lines()).skip(1) {
        let words: Vec<&str> = content.split_whitespace().collect();
        match words[..] {
            [] => {}
            [name, _kind, size, _used, _priority] => all.push(SwapArea {
                name: name.to_owned(),
                kbytes: bounded(size, MOST_KBYTES, line)?,
            }),
            _ => return wrong(line, "expected name, type, size, used, priority"),
        }
    }
    Ok(all)
}

/// Returns true if `/sys/kernel/mm/lru_gen/enabled` says that the multi-generational LRU is on: the
/// lowest bit of a hexadecimal number.
///
/// # Errors
/// The text is no such number.
pub fn lru_gen(text: &str) -> Result<bool, ParseError> {
    let digits = text.trim().trim_start_matches("0x");
    match u64::from_str_radix(digits, 16) {
        Ok(bits) => Ok(bits & 1 == 1),
        Err(_) => wrong(
            1,
            format!("`{}` is not a hexadecimal number", shown(text.trim())),
        ),
    }
}

/// Returns major and minor number of a kernel release such as `6.18.44-generic`.
///
/// # Errors
/// The text does not begin with two numbers.
pub fn release(text: &str) -> Result<(u32, u32), ParseError> {
    let mut numbers = text
        .trim()
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => wrong(
            1,
            format!("`{}` is not a kernel release", shown(text.trim())),
        ),
    }
}

/// Returns the line of `/proc/self/mountinfo` about the filesystem mounted at `/`, cut to its first
/// five words, of which the third is the device number `MAJOR:MINOR`. Empty if there is no such
/// line.
pub fn root_mount(mountinfo: &str) -> String {
    let found = mountinfo.lines().rev().find_map(|line| {
        let words: Vec<&str> = line.split(' ').take(5).collect();
        match words[..] {
            [id, parent, device, root, "/"] => Some(format!("{id} {parent} {device} {root} /\n")),
            _ => None,
        }
    });
    found.unwrap_or_default()
}

/// Returns the device number `MAJOR:MINOR` in the result of [`root_mount`]; `None` if that is
/// empty.
pub fn mount_device(mount: &str) -> Option<&str> {
    mount.split(' ').nth(2)
}

/// Returns the line of a kernel configuration that sets `CONFIG_HZ`; empty if there is none.
pub fn config_line(config: &str) -> String {
    let found = config.lines().find(|line| line.starts_with("CONFIG_HZ="));
    found.map_or_else(String::new, |line| format!("{line}\n"))
}

/// Returns the number of timer ticks a second in the result of [`config_line`]; `None` if that is
/// empty or no number.
pub fn config_hz(line: &str) -> Option<u32> {
    line.trim().strip_prefix("CONFIG_HZ=")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ZONES: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 1567
  pages free     3840
        boost    0
        min      27
        low      33
        high     39
        promo    45
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3019, 9291, 9291, 9291)
      nr_free_pages 3840
  pagesets
    cpu: 0
              count:    0
              high:     7
  vm stats threshold: 4
  node_unreclaimable:  0
  start_pfn:           1
Node 1, zone   Normal
  pages free     100
        boost    512
        min      1012
        low      1022
        high     1032
        spanned  4095
        present  3998
        managed  3840
        protection: (0, 0)
";

    #[test]
    fn zones_are_read_with_their_boost_taken_off() {
        let zones = zoneinfo(ZONES).unwrap();
        assert_eq!(zones.len(), 2);
        assert_eq!((zones[0].node, zones[0].name.as_str()), (0, "DMA"));
        assert_eq!(zones[0].marks, [27, 33, 39]);
        assert_eq!(zones[0].protection, [0, 3019, 9291, 9291, 9291]);
        assert_eq!((zones[1].boost, zones[1].marks), (512, [500, 510, 520]));
    }

    #[test]
    fn before_3_9_the_present_pages_count() {
        let old = ZONES.replace("        managed  3840\n", "");
        assert_eq!(zoneinfo(&old).unwrap()[0].managed, 3998);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let e = |text: &str| zoneinfo(text).unwrap_err().to_string();
        assert_eq!(e(""), "line 1: no zone");
        assert_eq!(
            e(&ZONES.replace("        low      33\n", "")),
            "line 1: node 0, zone DMA has no `low`"
        );
        assert_eq!(
            e(&ZONES.replace("3998", "many")),
            "line 11: `many` is not a number"
        );
        assert_eq!(
            e(&ZONES.replace("boost    512", "boost    2000")),
            "line 23: node 1, zone Normal: boost is above a watermark"
        );
        assert_eq!(
            e(&ZONES.replace("Node 1,", "Node x,")),
            "line 23: expected `Node N, zone NAME`"
        );
        assert!(e(&ZONES.replace("3840", "99999999999999999999")).contains("not a number"));
        assert!(e(&ZONES.replace("3840", "999999999999999")).contains("is more than"));
        assert_eq!(e("nr_free_pages 1"), "line 1: expected `Node N, zone NAME`");
    }

    #[test]
    fn small_texts() {
        assert_eq!(counters("a 1\nb 2\n").unwrap()["b"], 2);
        assert!(counters("a 1 2").is_err());
        let memory = "MemTotal:       24 kB\nHugePages_Total:  0\nActive(file): 3 kB\n";
        let memory = kilobytes(memory).unwrap();
        assert_eq!((memory["MemTotal"], memory["Active(file)"]), (24, 3));
        assert_eq!(memory.len(), 2);
        assert!(kilobytes("MemTotal: 24 MB").is_err());
        assert_eq!(
            numbers("256\t256\t32\t0\t0\n").unwrap(),
            [256, 256, 32, 0, 0]
        );
        assert!(numbers(" ").is_err());
        assert_eq!(choice("always [madvise] never"), Ok("madvise"));
        assert!(choice("always madvise").is_err() && choice("[a] [b]").is_err());
        assert_eq!(
            cpus("0-3,8,10-11\n"),
            Ok([0, 1, 2, 3, 8, 10, 11].into_iter().collect())
        );
        assert_eq!(cpus("\n"), Ok(BTreeSet::new()));
        assert!(cpus("3-1").is_err() && cpus("0-x").is_err() && cpus("0,").is_err());
        assert!(cpus("0-65535").is_ok() && cpus("65536").is_err());
        assert!(cpus(&["0-65535"; 3].join(",")).is_err());
        assert_eq!(release("6.18.44-generic\n"), Ok((6, 18)));
        assert_eq!(
            (lru_gen("0x0007\n"), lru_gen("0x0006")),
            (Ok(true), Ok(false))
        );
        assert!(lru_gen("on").is_err());
        assert_eq!(release("5.4"), Ok((5, 4)));
        assert!(release("Linux").is_err() && release("6").is_err());
        let header = "Filename\tType\tSize\tUsed\tPriority\n";
        let area = format!("{header}/dev/sda2   partition\t8388604\t0\t-2\n");
        assert_eq!(swaps(&area).unwrap()[0].kbytes, 8_388_604);
        assert!(swaps(header).unwrap().is_empty());
        assert!(swaps(&format!("{header}/dev/sda2 partition\n")).is_err());
        let mounts = "20 1 0:5 / /proc rw - proc proc rw\n21 1 8:2 / / rw - ext4 /dev/sda2 rw\n";
        let mount = root_mount(mounts);
        assert_eq!(mount, "21 1 8:2 / /\n");
        assert_eq!(root_mount(&mount), mount);
        assert_eq!(
            (mount_device(&mount), mount_device("")),
            (Some("8:2"), None)
        );
        let line = config_line("# CONFIG_HZ_100 is not set\nCONFIG_HZ=250\n");
        assert_eq!((config_hz(&line), config_hz("")), (Some(250), None));
    }

    /// Runs every parser on one text.
    fn all(text: &str) {
        let _ = zoneinfo(text);
        let _ = counters(text);
        let _ = kilobytes(text);
        let _ = number(text);
        let _ = numbers(text);
        let _ = choice(text);
        let _ = cpus(text);
        let _ = swaps(text);
        let _ = release(text);
        let _ = lru_gen(text);
        let _ = mount_device(&root_mount(text));
        let _ = config_hz(&config_line(text));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in any::<String>()) {
            all(&text);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            all(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn changed_zones_do_not_panic(
            at in 0..ZONES.len(), len in 0usize..40, put in "[-0-9a-zA-Z :,()\\n\u{e9}]{0,12}"
        ) {
            let end = (at + len).min(ZONES.len());
            let text = format!("{}{put}{}", &ZONES[..at], &ZONES[end..]);
            all(&text);
            if let Ok(zones) = zoneinfo(&text) {
                prop_assert!(!zones.is_empty());
            }
        }

        #[test]
        fn cut_zones_are_refused_or_whole(at in 0..ZONES.len()) {
            if let Ok(zones) = zoneinfo(&ZONES[..at]) {
                prop_assert!(zones.iter().all(|z| z.marks[0] <= z.marks[2]));
            }
        }
    }
}
