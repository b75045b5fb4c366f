//! Every word on a screen is explained by `lowmark explain`, or is a word of plain English
//! (`plain-words.txt`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders with snapshots of screens, and the beginnings of their names.
const SCREENS: [(&str, &str); 8] = [
    ("src/report/snapshots", "lab__report__tests__text"),
    (
        "src/report/verdict/snapshots",
        "lab__report__verdict__tests__first",
    ),
    ("src/tune/snapshots", "lab__tune__tests__texts_and_files"),
    ("src/tune/snapshots", "lab__tune__tests__learned"),
    ("src/rows/snapshots", "lab__rows__tests__the_blocks"),
    ("src/rows/snapshots", "lab__rows__mail"),
    ("../top/tests/snapshots", "frames__"),
    ("../mm/tests/inside/snapshots", "mm__inside__oom__report"),
];

/// Returns the snapshots of screens.
fn screens() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for (folder, begin) in SCREENS {
        let files = fs::read_dir(root.join(folder)).expect(folder);
        let paths = files.map(|file| file.expect("a file").path());
        let named = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(begin) && name.ends_with(".snap"))
        };
        let before = all.len();
        all.extend(paths.filter(named));
        assert!(all.len() > before, "no snapshot {begin} in {folder}");
    }
    all
}

/// Returns a snapshot's text without its head and without markup.
fn text(snapshot: &str) -> String {
    let body = snapshot.splitn(3, "---\n").nth(2).unwrap_or(snapshot);
    let mut out = String::new();
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        out += before;
        let is_tag = tag[1..].starts_with(|c: char| c.is_ascii_lowercase() || c == '/');
        match tag.find('>').filter(|_| is_tag) {
            Some(end) => {
                out.push(' ');
                rest = &tag[end + 1..];
            }
            None => {
                out.push('<');
                rest = &tag[1..];
            }
        }
    }
    out + rest
}

/// Returns the words of a text: letters with `_`, `.`, `-` and `:` inside; numbers, paths and names
/// with a digit are none.
fn words(text: &str) -> Vec<String> {
    let inside = |c: char| c.is_alphanumeric() || "_.:-~/".contains(c);
    let words = text
        .split(|c| !inside(c))
        .map(|word| word.trim_matches(['.', ':', '-', '_']));
    let plain = |word: &&str| {
        let named = word.contains(|c: char| c.is_alphabetic() || c == '~');
        named && !word.contains(|c: char| c.is_ascii_digit() || c == '/')
    };
    words.filter(plain).map(str::to_owned).collect()
}

fn is_explained(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    [word, singular]
        .iter()
        .any(|name| lab::reference::find(name).is_ok())
}

#[test]
fn every_word_on_a_screen_is_explained_or_plain() {
    let plain = include_str!("plain-words.txt");
    let plain: Vec<&str> = plain
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .collect();
    let mut unknown: BTreeMap<String, String> = BTreeMap::new();
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    for path in screens() {
        let snapshot = fs::read_to_string(&path).expect("a snapshot");
        for word in words(&text(&snapshot)) {
            let lower = word.to_lowercase();
            let ok = *known
                .entry(lower.clone())
                .or_insert_with(|| plain.contains(&&lower[..]) || is_explained(&word));
            if !ok {
                unknown.insert(lower, path.display().to_string());
            }
        }
    }
    let all: Vec<&str> = unknown.keys().map(|word| &word[..]).collect();
    assert!(
        unknown.is_empty(),
        "words without an entry in rows/glossary, and not in tests/plain-words.txt:\n{}\n{unknown:#?}",
        all.join(" ")
    );
}

/// Words with which people report trouble.
#[test]
fn words_of_reports_are_explained() {
    for word in [
        "late",
        "other endings",
        "claimed",
        "~",
        "preset",
        "cell",
        "flusher",
        "cgroup",
        "memcg",
        "memory.high",
        "MGLRU",
        "zram",
        "zswap",
        "kcompactd",
        "thrashing",
        "page allocation failure",
        "GFP flags",
        "GFP_KERNEL",
        "__GFP_IO",
        "order",
        "Mem-Info",
        "active_anon",
        "free_cma",
        "lowmem_reserve",
        "all_unreclaimable",
        "swap cache",
        "total_vm",
        "OOM",
        "hung task",
        "khugepaged",
    ] {
        assert!(lab::reference::find(word).is_ok(), "{word}");
    }
    // An entry for what the engine does not model says so.
    for word in ["MGLRU", "zram", "zswap", "kcompactd", "khugepaged"] {
        let found = lab::reference::find(word).expect(word);
        let text: String = found[0]
            .to_text()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            text.to_lowercase().contains("not modelled"),
            "{word}: {text}"
        );
    }
}
