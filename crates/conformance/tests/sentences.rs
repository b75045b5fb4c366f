//! Comments and pages keep the rules of `docs/style.md` that a program can judge.
//!
//! - No sentence begins with *who*, *whoever*, *whose*, *what*, *whatever*, *that* or *nobody*:
//!   such a sentence hides its subject, and a reader who sees one function has to guess it.
//! - No comment line is wider than [`WIDTH`] columns.
//!
//! Headings, code blocks of pages and the texts between markers are not prose.

mod sources;

use sources::{files, root};
use std::fs;

/// The most columns of a comment line.
const WIDTH: usize = 100;
/// Words that no sentence begins with.
const HIDDEN: [&str; 7] = [
    "Who", "Whoever", "Whose", "What", "Whatever", "That", "Nobody",
];
/// Folders whose files are judged.
const FOLDERS: [&str; 5] = ["crates", "docs", "fuzz", "python", "tools"];
/// Pages at the root.
const PAGES: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Returns true if a sentence within `line` begins with a hidden subject; `first`: whether the line
/// itself begins a sentence.
fn hides_subject(line: &str, first: bool) -> bool {
    let words = HIDDEN.iter().flat_map(|word| {
        line.match_indices(word)
            .filter(|(at, _)| !line[at + word.len()..].starts_with(|c: char| c.is_alphanumeric()))
            .map(|(at, _)| at)
    });
    let begins = |at: usize| {
        let before = line[..at].trim_end();
        let marks =
            before.trim_start_matches(|c: char| c.is_ascii_digit() || "-*>#|. ".contains(c));
        match marks.is_empty() {
            true => first || !before.is_empty(),
            false => {
                at > before.len() && before.trim_end_matches(')').ends_with(['.', '!', '?', ':'])
            }
        }
    };
    words.into_iter().any(begins)
}

/// Calls `judge` with each line of prose of a Rust file: the number of the line, its text, and
/// whether it begins a sentence.
fn comments(text: &str, judge: &mut dyn FnMut(usize, &str, bool)) {
    let mut begins = true;
    let mut in_code = false;
    for (n, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let marks = ["///", "//!", "//"];
        let Some(comment) = marks.iter().find_map(|mark| trimmed.strip_prefix(mark)) else {
            (begins, in_code) = (true, false);
            continue;
        };
        let comment = comment.trim();
        if comment.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !comment.starts_with('#') {
            judge(n + 1, comment, begins);
        }
        begins = in_code || comment.is_empty() || comment.ends_with(['.', '!', '?', ':']);
    }
}

/// As [`comments`], of a page.
fn prose(text: &str, judge: &mut dyn FnMut(usize, &str, bool)) {
    let mut begins = true;
    let (mut in_code, mut in_output) = (false, false);
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        in_output |= line.starts_with("<!-- prints") || line.starts_with("<!-- steps");
        if line.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !in_output && !line.starts_with('#') {
            judge(n + 1, line, begins);
        }
        in_output &= !(line.contains("<!-- /prints") || line.starts_with("<!-- end"));
        begins = in_code || line.is_empty() || line.ends_with(['.', '!', '?', ':']);
    }
}

/// Returns true for pages whose text a program writes from tables.
fn is_generated(text: &str) -> bool {
    text.lines().take(6).any(|line| line.contains("enerated"))
}

#[test]
fn sentences_name_their_subject() {
    let root = root();
    let mut found = Vec::new();
    let mut all = Vec::new();
    for folder in FOLDERS {
        all.extend(files(&root.join(folder), &["rs", "md"]));
    }
    all.extend(PAGES.iter().map(|page| root.join(page)));
    assert!(all.len() > 500, "{} files", all.len());
    for path in all {
        // The page of the rules shows a sentence that breaks them.
        if path.ends_with("docs/style.md") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a text of the project");
        let name = path
            .strip_prefix(&root)
            .unwrap_or(&path)
            .display()
            .to_string();
        let mut judge = |n: usize, line: &str, begins: bool| {
            if hides_subject(line, begins) {
                found.push(format!("{name}:{n}: {line}"));
            }
        };
        if path.extension().is_some_and(|e| e == "rs") {
            comments(&text, &mut judge);
        } else if !is_generated(&text) {
            prose(&text, &mut judge);
        }
    }
    assert!(
        found.is_empty(),
        "{} sentences begin with a word that hides their subject (docs/style.md):\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn comments_fit_the_width() {
    let root = root();
    let mut all = Vec::new();
    for folder in ["crates", "fuzz"] {
        all.extend(files(&root.join(folder), &["rs"]));
    }
    let mut wide = Vec::new();
    for path in all {
        let text = fs::read_to_string(&path).expect("a source file");
        for (n, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("//") && line.chars().count() > WIDTH {
                wide.push(format!("{}:{}", path.display(), n + 1));
            }
        }
    }
    assert!(
        wide.is_empty(),
        "comments wider than {WIDTH}:\n{}",
        wide.join("\n")
    );
}

#[test]
fn the_judge_sees_beginnings_of_sentences() {
    for (line, first, hides) in [
        ("What it holds.", true, true),
        ("a list of what it holds.", true, false),
        ("It waits. Whoever wakes it is next.", true, true),
        ("It waits for the task. (That is rare.)", true, false),
        ("That the last line begins.", false, false),
        ("- What it costs", false, true),
        ("| What | is | named |", true, true),
        ("`alloc`: That is all.", true, true),
        ("Whats", true, false),
    ] {
        assert_eq!(hides_subject(line, first), hides, "{line}");
    }
}
