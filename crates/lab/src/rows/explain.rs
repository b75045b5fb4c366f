//! Explains rows, counters, words, switches and presets, for `lowmark explain`.

use super::definition::{self, Block, ReportRow};
use super::glossary::{self, Kind, Word};
use crate::diagnostic::LONGEST_NAME;
use mm::policy::{Form, PRESETS, Preset, Switch, switches};
use serde::Serialize;
use std::fmt::Write as _;

/// Something that has an explanation.
#[derive(Debug, Clone, Copy)]
pub enum Entry {
    /// A row of reports.
    Row(&'static ReportRow),
    /// A counter, a figure, a kind of time or a question.
    Word(&'static Word),
    /// A switch of policies.
    Switch(&'static Switch),
    /// A preset.
    Preset(&'static Preset),
}

/// The heading of the list of switches.
const SWITCHES: &str = "Switches of a policy";
/// The heading of the list of presets.
const PRESET_NAMES: &str = "Presets";

/// The parts of an explanation, for JSON.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // the field names say it
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
    #[serde(flatten)]
    pub policy: Option<PolicyParts>,
}

/// The parts that switches and presets have in addition, for JSON.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)] // the field names say it
pub enum PolicyParts {
    Switch {
        /// Possible words with their meanings.
        values: Vec<(&'static str, &'static str)>,
        /// The least and the greatest number; `None` for words.
        range: Option<[u64; 2]>,
        /// The value of each preset.
        presets: Vec<(&'static str, String)>,
        sources: &'static [&'static str],
    },
    Preset {
        /// The release's date.
        date: &'static str,
        /// The series that use the preset as their baseline, and the page about that.
        baseline: (&'static str, &'static str),
        base: Option<&'static str>,
        /// Switch, its value, and the meaning of the value.
        changes: Vec<(&'static str, String, &'static str)>,
    },
}

impl Entry {
    /// Returns the entry's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Row(r) => r.name,
            Self::Word(w) => w.name,
            Self::Switch(s) => s.name,
            Self::Preset(p) => p.name,
        }
    }

    /// Returns the entry's other names; switches and presets have none.
    fn also(self) -> &'static [&'static str] {
        match self {
            Self::Row(r) => r.also,
            Self::Word(w) => w.also,
            Self::Switch(_) | Self::Preset(_) => &[],
        }
    }

    /// Returns the parts of the explanation: names, definition, unit, kernels, meaning of a high
    /// value, related entries.
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
                policy: None,
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
                policy: None,
            },
            Self::Switch(s) => switch_parts(s),
            Self::Preset(p) => preset_parts(p),
        }
    }

    /// Returns the whole explanation of the entry as text for a terminal.
    pub fn to_text(self) -> String {
        let mut p = self.parts();
        let plain;
        if p.policy.is_some() {
            // Markdown emphasis is for pages only.
            plain = p.definition.replace('*', "");
            p.definition = "";
            return p.text("definition", &plain);
        }
        p.text(
            match self {
                Self::Row(_) => "formula",
                Self::Word(w) if matches!(w.kind, Kind::Question | Kind::Report) => "answer",
                Self::Word(_) | Self::Switch(_) | Self::Preset(_) => "definition",
            },
            p.definition,
        )
    }
}

impl Parts {
    /// Returns the whole explanation as text for a terminal. If an entry has the name, the text is
    /// that entry's.
    pub fn to_text(&self) -> String {
        let word = entries().find(|e| e.name() == self.name);
        word.map_or_else(|| self.text("definition", self.definition), Entry::to_text)
    }

    /// Formats the parts for a terminal, a heading and a wrapped text each; `head` is the heading
    /// of the `definition`. Empty parts are left out.
    fn text(&self, head: &str, definition: &str) -> String {
        let p = self;
        let mut out = format!("{}\n", p.name);
        let mut line = |head: &str, text: &str| {
            if !text.is_empty() {
                let _ = writeln!(out, "{}", wrapped(head, text));
            }
        };
        line("in", p.kind);
        line(head, definition);
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
        for (head, text) in p.policy.iter().flat_map(PolicyParts::lines) {
            line(head, &text);
        }
        line("also called", &p.also.join("; "));
        line("related", &p.related.join("; "));
        out
    }
}

/// Returns the parts of the explanation of a policy's switch: its words or range, and its value in
/// each preset.
fn switch_parts(s: &'static Switch) -> Parts {
    let (values, range, unit) = match s.form {
        Form::Words(words) => {
            let words = words.iter().map(|w| (w.name, w.about()));
            (words.collect(), None, "")
        }
        Form::OnOff => (Vec::new(), None, "true or false"),
        Form::Number { least, most, unit } => (Vec::new(), Some([least, most]), unit),
    };
    let presets = PRESETS.iter();
    let presets = presets.map(|p| (p.name, s.of(&p.policy()).to_string()));
    let more = PolicyParts::Switch {
        values,
        range,
        presets: presets.collect(),
        sources: s.sources,
    };
    of_policy(s.name, SWITCHES, s.about(), unit, more)
}

/// Returns the parts of the explanation of a preset: the release's date, and the switches that it
/// changes against its base.
fn preset_parts(p: &'static Preset) -> Parts {
    let changes = p.changes.iter();
    let changes = changes.map(|c| (c.switch, p.setting(c).to_string(), c.meaning));
    let more = PolicyParts::Preset {
        date: p.date,
        baseline: p.baseline,
        base: p.base_name(),
        changes: changes.collect(),
    };
    of_policy(p.name, PRESET_NAMES, p.about(), "", more)
}

/// Builds the parts of an entry about policies (under the heading `kind`), which has no kernels or
/// related entries; `more` are the parts that only switches or presets have.
fn of_policy(
    name: &'static str,
    kind: &'static str,
    definition: &'static str,
    unit: &'static str,
    more: PolicyParts,
) -> Parts {
    Parts {
        name,
        also: &[],
        kind,
        definition,
        unit,
        kernels: "",
        better: None,
        high: "",
        related: &[],
        policy: Some(more),
    }
}

impl PolicyParts {
    /// Returns the parts that only switches or presets have, for a terminal: a heading and a text
    /// each.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        match self {
            Self::Switch {
                values,
                range,
                presets,
                sources,
            } => {
                for (word, about) in values {
                    out.push(("value", format!("`{word}`: {}", about.replace('*', ""))));
                }
                if let Some([least, most]) = range {
                    out.push(("range", format!("{least} to {most}")));
                }
                let mut rest = &presets[..];
                // Presets in a row with the same value are told together.
                let mut spans = Vec::new();
                while let Some((first, value)) = rest.first() {
                    let n = rest.iter().take_while(|(_, v)| v == value).count();
                    spans.push(match n {
                        1 => format!("{first}: {value}"),
                        _ => format!("{first} to {}: {value}", rest[n - 1].0),
                    });
                    rest = &rest[n..];
                }
                out.push(("presets", spans.join("; ")));
                out.push(("source", sources.join("; ")));
            }
            Self::Preset {
                date,
                baseline: (what, page),
                base,
                changes,
            } => {
                out.push(("released", (*date).to_owned()));
                out.push(("baseline of", format!("{what}: {page}")));
                out.extend(base.map(|base| ("base", base.to_owned())));
                for (switch, value, meaning) in changes {
                    out.push(("change", format!("{switch} = {value}: {meaning}")));
                }
            }
        }
        out
    }
}

/// Width of explanations in columns.
const WIDTH: usize = 80;
const INDENT: usize = 16;

/// Wraps a text behind a heading to the width of a terminal, with further lines indented to the
/// text.
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

/// Yields every entry that has an explanation, in the order of the list: rows, words, switches,
/// presets.
pub fn entries() -> impl Iterator<Item = Entry> {
    definition::rows()
        .map(Entry::Row)
        .chain(glossary::words().iter().map(Entry::Word))
        .chain(switches().map(Entry::Switch))
        .chain(PRESETS.iter().map(Entry::Preset))
}

/// Reduces a name to letters, digits and per cent signs in lower case, so that case and punctuation
/// do not matter.
pub fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric() || ['%', '~'].contains(c))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Yields all names of an entry: its own, its own without the block, and the other names.
fn names(e: Entry) -> impl Iterator<Item = &'static str> {
    let label = e.name().split_once(": ").map(|(_, l)| l);
    std::iter::once(e.name())
        .chain(label)
        .chain(e.also().iter().copied())
}

/// Returns the entries that have this name; several rows can share a label. Case and punctuation do
/// not matter, and a zone, a percentile or a number of threads at the end of a name is left out if
/// need be.
///
/// # Errors
/// Returns similar names, best first, if no entry has this name.
pub fn explain(name: &str) -> Result<Vec<Entry>, Vec<&'static str>> {
    // All builds of real kernels share one entry.
    let name = match name.trim().to_lowercase().starts_with("kernel:") {
        true => "kernel:NAME",
        false => name,
    };
    // Figures of all memory control groups share their entries.
    let of_group = glossary::group_entry(name);
    let name = of_group.as_deref().unwrap_or(name);
    let wanted = plain(name);
    // Entries with this as their own name, else those with it among their names.
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
        // The counter of a zone, or a percentile: look the name up without its end.
        let lower = name.trim().to_lowercase();
        let mut stem = lower.as_str();
        // A figure of one of several numbers of threads: look the name up without the number.
        if let Some((rest, end)) = stem.rsplit_once('-')
            && !end.is_empty()
            && end.bytes().all(|b| b.is_ascii_digit())
        {
            stem = rest;
            found = by(&plain(stem));
        }
        while found.is_empty()
            && let Some((rest, end)) = stem.rsplit_once('_')
        {
            let known = [
                "dma", "dma32", "normal", "movable", "high", "mean", "max", "avg", "p50", "p90",
                "p95", "p99", "p999",
            ]
            .contains(&end);
            if !known {
                break;
            }
            stem = rest;
            found = by(&plain(stem));
        }
    }
    if found.is_empty() {
        Err(near(&wanted))
    } else {
        Ok(found)
    }
}

/// Returns true if a name is one of the entry's own names; false if it is only that of a zone's
/// counter or of a percentile, which [`explain`] finds too.
pub fn answers_to(parts: &Parts, name: &str) -> bool {
    let label = parts.name.split_once(": ").map(|(_, l)| l);
    let all = [Some(parts.name), label].into_iter().flatten();
    let wanted = plain(name);
    all.chain(parts.also.iter().copied())
        .any(|n| plain(n) == wanted)
}

fn near(wanted: &str) -> Vec<&'static str> {
    near_of(wanted, std::iter::empty())
}

/// Returns a few names of entries for a message, best first: those that contain the name asked for,
/// then those with a similar spelling. `wanted` is that name, reduced by [`plain`]. `more` has
/// names that are not among [`entries`], with the entries they belong to.
pub fn near_of(
    wanted: &str,
    more: impl Iterator<Item = (&'static str, &'static str)>,
) -> Vec<&'static str> {
    const MOST: usize = 6;
    if wanted.len() > LONGEST_NAME {
        return Vec::new();
    }
    let mut ranked: Vec<(f64, &'static str)> = entries()
        .flat_map(|e| names(e).map(move |n| (n, e.name())))
        .chain(more)
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

/// Returns the list of the names of all entries as text, by kind, for `lowmark explain` without a
/// name.
pub fn list() -> String {
    let mut out = String::from("`lowmark explain NAME` says what a name means.\n");
    for kind in [Kind::Question, Kind::Report, Kind::Metric, Kind::Time] {
        words(&mut out, kind);
    }
    for block in Block::ALL {
        let _ = writeln!(out, "\n{}", block.title());
        for r in definition::rows().filter(|r| r.block == block) {
            let _ = writeln!(out, "  {}{}", r.name, unit(r.unit));
        }
    }
    for kind in [
        Kind::Counter,
        Kind::ZoneCounter,
        Kind::RealCounter,
        Kind::Level,
    ] {
        words(&mut out, kind);
    }
    let named = |out: &mut String, title, names: &mut dyn Iterator<Item = &str>| {
        let _ = writeln!(out, "\n{title}");
        for name in names {
            let _ = writeln!(out, "  {name}");
        }
    };
    named(&mut out, SWITCHES, &mut switches().map(|s| s.name));
    named(&mut out, PRESET_NAMES, &mut PRESETS.iter().map(|p| p.name));
    out
}

/// Appends to `out` the names of all words of a kind, under its heading.
fn words(out: &mut String, kind: Kind) {
    let _ = writeln!(out, "\n{}", kind.title());
    for w in glossary::words().iter().filter(|w| w.kind == kind) {
        let _ = writeln!(out, "  {}{}", w.name, unit(w.unit));
    }
}

/// Returns a unit in brackets behind a blank; empty if there is none.
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
            // A switch and the counter of its effect may share a name.
            let switch = matches!(e, Entry::Switch(_));
            for n in std::iter::once(e.name()).chain(e.also().iter().copied()) {
                assert!(seen.insert((switch, plain(n))), "{n} stands for two things");
            }
            let found = explain(e.name()).unwrap();
            assert!(found.iter().all(|f| f.name() == e.name()), "{found:?}");
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
            ("kernel:6.12-mine", "kernel:NAME"),
            ("allocstall_movable", "allocstall"),
            ("pgalloc_high", "pgalloc"),
            ("pgskip_normal", "pgskip"),
            ("psi memory some", "psi_memory_some"),
            ("workingset_refault_file", "workingset_refault"),
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
            explain("kswapd veloc")
                .unwrap_err()
                .contains(&"vmstat: Kswapd velocity")
        );
        assert_eq!(explain("alocstall").unwrap_err()[0], "allocstall");
        assert!(explain("xyzzy").unwrap_err().is_empty());
        assert!(explain("").is_err());
    }

    #[test]
    fn the_list_has_every_name_below_its_kind() {
        let list = list();
        let listed = list.split("\n\n").skip(1).flat_map(|block| {
            let (kind, names) = block.split_once('\n').expect("a heading");
            names.lines().map(move |name| (kind, name.trim()))
        });
        let listed: std::collections::BTreeSet<_> = listed.collect();
        for e in entries() {
            let p = e.parts();
            let unit = if p.policy.is_some() { "" } else { p.unit };
            let line = format!("{}{}", p.name, self::unit(unit));
            assert!(listed.contains(&(p.kind, &line[..])), "{line}");
        }
        assert_eq!(listed.len(), entries().count());
    }

    #[test]
    fn a_switch_says_its_values_and_who_has_them() {
        let text = |name: &str| explain(name).unwrap()[0].to_text();
        let words = text("kswapd writeback");
        assert!(
            words.contains("\n  value         `tail-dirty`: 3.12: only while"),
            "{words}"
        );
        assert!(
            words.contains("linux-2.6.37 to linux-3.1: always; linux-3.16"),
            "{words}"
        );
        let number = text("auto.cap");
        assert!(
            number.contains("\n  unit          times\n  range         1 to 64\n"),
            "{number}"
        );
        let preset = text("linux-4.9");
        assert!(
            preset.contains("\n  base          linux-3.16\n"),
            "{preset}"
        );
        assert!(
            preset.contains("\n  change        oom_retries = 16: rounds"),
            "{preset}"
        );
        for e in entries() {
            assert!(
                e.to_text().lines().all(|l| l.chars().count() <= WIDTH),
                "{}",
                e.name()
            );
        }
    }

    #[test]
    fn an_answer_is_what_it_was() {
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
