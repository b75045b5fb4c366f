//! What a row, counter or word means: `lowmark explain`.

use super::definition::{self, Block, ReportRow};
use super::glossary::{self, Kind, Word};
use crate::diagnostic::LONGEST_NAME;
use serde::Serialize;
use std::fmt::Write as _;

/// What is known by a name.
#[derive(Debug, Clone, Copy)]
pub enum Entry {
    /// A row of reports.
    Row(&'static ReportRow),
    /// Anything else.
    Word(&'static Word),
}

/// An entry's parts, for JSON.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // the names say it
pub struct Parts {
    pub name: &'static str,
    pub also: &'static [&'static str],
    pub kind: &'static str,
    pub definition: &'static str,
    pub unit: &'static str,
    pub kernels: &'static str,
    pub better: Option<crate::model::Better>,
    pub high: &'static str,
    pub related: &'static [&'static str],
}

impl Entry {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Row(r) => r.name,
            Self::Word(w) => w.name,
        }
    }

    fn also(self) -> &'static [&'static str] {
        match self {
            Self::Row(r) => r.also,
            Self::Word(w) => w.also,
        }
    }

    /// Its parts.
    pub fn parts(self) -> Parts {
        match self {
            Self::Row(r) => Parts {
                name: r.name,
                also: r.also,
                kind: r.block.title(),
                definition: r.formula,
                unit: r.unit,
                kernels: r.kernels,
                better: Some(r.better),
                high: r.high,
                related: r.related,
            },
            Self::Word(w) => Parts {
                name: w.name,
                also: w.also,
                kind: w.kind.title(),
                definition: w.text,
                unit: w.unit,
                kernels: w.kernels,
                better: None,
                high: w.high,
                related: w.related,
            },
        }
    }

    /// Everything about it, for a terminal.
    pub fn to_text(self) -> String {
        let p = self.parts();
        let mut out = format!("{}\n", p.name);
        let mut line = |head: &str, text: &str| {
            if !text.is_empty() {
                let _ = writeln!(out, "{}", wrapped(head, text));
            }
        };
        line("in", p.kind);
        line(
            match self {
                Self::Row(_) => "formula",
                Self::Word(w) if w.kind == Kind::Question => "answer",
                Self::Word(_) => "definition",
            },
            p.definition,
        );
        line("unit", p.unit);
        line("kernels", p.kernels);
        line(
            "better",
            match p.better {
                Some(crate::model::Better::Lower) => "lower",
                Some(crate::model::Better::Higher) => "higher",
                Some(crate::model::Better::Neither) => "neither: it says what happened",
                None => "",
            },
        );
        line("a high value", p.high);
        line("also called", &p.also.join("; "));
        line("related", &p.related.join("; "));
        out
    }
}

/// Columns of explanations.
const WIDTH: usize = 96;
const INDENT: usize = 16;

/// A head and a text with hanging indent.
fn wrapped(head: &str, text: &str) -> String {
    let mut out = format!("  {head:<width$}", width = INDENT - 2);
    let mut column = INDENT;
    for (i, word) in text.split(' ').enumerate() {
        let n = word.chars().count();
        if i > 0 && column + 1 + n > WIDTH {
            let _ = write!(out, "\n{:INDENT$}", "");
            column = INDENT;
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += n;
    }
    out
}

/// Every entry, in the order of the list.
pub fn entries() -> impl Iterator<Item = Entry> {
    definition::rows()
        .map(Entry::Row)
        .chain(glossary::words().iter().map(Entry::Word))
}

/// Letters, digits and per cent signs, so that case and punctuation do not matter.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric() || *c == '%')
        .flat_map(char::to_lowercase)
        .collect()
}

/// The names an entry answers to: its own, its other ones, and without its block.
fn names(e: Entry) -> impl Iterator<Item = &'static str> {
    let label = e.name().split_once(": ").map(|(_, l)| l);
    std::iter::once(e.name())
        .chain(label)
        .chain(e.also().iter().copied())
}

/// What a name means; several rows can share a label.
///
/// # Errors
/// Names that are near, best first, where there is no such name.
pub fn explain(name: &str) -> Result<Vec<Entry>, Vec<&'static str>> {
    let wanted = plain(name);
    let by = |wanted: &str| -> Vec<Entry> {
        let whole: Vec<Entry> = entries().filter(|e| plain(e.name()) == wanted).collect();
        if !whole.is_empty() {
            return whole;
        }
        entries()
            .filter(|e| names(*e).any(|n| plain(n) == wanted))
            .collect()
    };
    let mut found = by(&wanted);
    if found.is_empty() {
        // A zone's counter, or a percentile: the name without its end.
        let lower = name.trim().to_lowercase();
        let mut stem = lower.as_str();
        while let Some((rest, end)) = stem.rsplit_once('_') {
            let known = ["dma", "dma32", "normal", "movable", "mean", "max", "avg"].contains(&end)
                || (end.starts_with('p') && end[1..].bytes().all(|b| b.is_ascii_digit()));
            if !known {
                break;
            }
            stem = rest;
            found = by(&plain(stem));
            if !found.is_empty() {
                break;
            }
        }
    }
    if found.is_empty() {
        Err(near(&wanted))
    } else {
        Ok(found)
    }
}

/// Names that contain what was asked for, then names that are spelt like it.
fn near(wanted: &str) -> Vec<&'static str> {
    const MOST: usize = 6;
    if wanted.len() > LONGEST_NAME {
        return Vec::new();
    }
    let mut ranked: Vec<(f64, &'static str)> = entries()
        .flat_map(|e| names(e).map(move |n| (n, e.name())))
        .map(|(n, entry)| {
            let p = plain(n);
            let inside = wanted.len() > 2 && p.contains(wanted);
            let score = if inside {
                1.0 + wanted.len() as f64 / p.len() as f64
            } else {
                strsim::normalized_damerau_levenshtein(wanted, &p)
            };
            (score, entry)
        })
        .filter(|(score, _)| *score >= 0.55)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut out = Vec::new();
    for (_, name) in ranked {
        if !out.contains(&name) && out.len() < MOST {
            out.push(name);
        }
    }
    out
}

/// The list of everything there is to explain.
pub fn list() -> String {
    let mut out = String::from("`lowmark explain NAME` says what a name means.\n");
    for kind in [Kind::Question, Kind::Metric, Kind::Time] {
        words(&mut out, kind);
    }
    for block in Block::ALL {
        let _ = writeln!(out, "\n{}", block.title());
        for r in definition::rows().filter(|r| r.block == block) {
            let _ = writeln!(out, "  {}{}", r.name, unit(r.unit));
        }
    }
    for kind in [Kind::Counter, Kind::ZoneCounter, Kind::Level] {
        words(&mut out, kind);
    }
    out
}

fn words(out: &mut String, kind: Kind) {
    let _ = writeln!(out, "\n{}", kind.title());
    for w in glossary::words().iter().filter(|w| w.kind == kind) {
        let _ = writeln!(out, "  {}{}", w.name, unit(w.unit));
    }
}

fn unit(unit: &str) -> String {
    if unit.is_empty() {
        String::new()
    } else {
        format!(" [{unit}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn the_one(name: &str) -> &'static str {
        match explain(name) {
            Ok(found) if found.len() == 1 => found[0].name(),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn every_name_is_its_own_and_every_relation_exists() {
        let mut seen = std::collections::BTreeSet::new();
        for e in entries() {
            for n in std::iter::once(e.name()).chain(e.also().iter().copied()) {
                assert!(seen.insert(plain(n)), "{n} stands for two things");
            }
            assert_eq!(the_one(e.name()), e.name());
            let p = e.parts();
            for other in p.related {
                assert!(explain(other).is_ok(), "{}: related {other}", e.name());
            }
            assert!(!p.definition.is_empty(), "{}", e.name());
            if let Entry::Row(r) = e {
                assert!(!r.kernels.is_empty() && !r.high.is_empty(), "{}", r.name);
            }
        }
    }

    #[test]
    fn names_are_found_as_people_write_them() {
        for (asked, name) in [
            ("user/sys", "duration: User/Sys Time Running Test (seconds)"),
            ("PGSCAN_DIRECT_NORMAL", "pgscan_direct"),
            ("pgsteal_kswapd_dma32", "pgsteal_kswapd"),
            ("read_latency_p99", "read_latency"),
            ("nr_vmscan_invalidate", "nr_vmscan_immediate_reclaim"),
            ("Direct efficiency", "vmstat: Direct efficiency"),
            ("throttled", "throttled"),
            ("conditional", "conditional"),
            ("elapsed", "duration: Total Elapsed Time (seconds)"),
            ("noise", "noise"),
            ("device", "time: device"),
        ] {
            assert_eq!(the_one(asked), name);
        }
        let both = explain("Kswapd pages scanned").unwrap();
        assert_eq!(both.len(), 2, "vmstat and vmscan have a row of this label");
    }

    #[test]
    fn an_unknown_name_gets_near_ones() {
        assert_eq!(explain("nr_vmscan_writ").unwrap_err()[0], "nr_vmscan_write");
        assert!(
            explain("velocity")
                .unwrap_err()
                .contains(&"vmstat: Kswapd velocity")
        );
        assert_eq!(explain("alocstall").unwrap_err()[0], "allocstall");
        assert!(explain("xyzzy").unwrap_err().is_empty());
        assert!(explain("").is_err());
    }

    #[test]
    fn the_list_and_an_answer_are_what_they_were() {
        insta::assert_snapshot!("explain_list", list());
        let text: String = [
            "time stalled direct reclaim (seconds)",
            "pgscan_kswapd_dma32",
            "noise",
        ]
        .map(|n| explain(n).unwrap()[0].to_text())
        .join("\n");
        insta::assert_snapshot!("explain_entries", text);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH));
    }
}
