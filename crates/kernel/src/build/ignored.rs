//! `.gitignore`: the names of a folder that git, and so a scan of the sources, leaves out
//! (gitignore(5)).

use glob::{MatchOptions, Pattern};

/// The rules of one file.
#[derive(Debug, Default)]
pub struct Ignored(Vec<Line>);

/// One rule.
#[derive(Debug)]
struct Line {
    test: Test,
    /// Matching names are kept (`!`).
    keeps: bool,
    /// The rule matches folders only (`/` at its end).
    folders: bool,
    /// The pattern is matched against the path from the file's folder (`/` before its end) instead
    /// of against the last part of the name.
    whole: bool,
}

/// How a name is compared. Most rules are of the first two kinds, which need no search.
#[derive(Debug)]
enum Test {
    Is(String),
    Ends(String),
    Glob(Pattern),
}

/// `*` and `?` do not match `/`, as in git.
const AS_GIT: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl Ignored {
    /// Reads those lines of a file for which `takes` holds; `takes` sees each line without
    /// surrounding blanks. A malformed rule matches nothing.
    pub fn parse(text: &str, takes: impl Fn(&str) -> bool) -> Self {
        let lines = text.lines().filter(|line| takes(line.trim()));
        Self(lines.filter_map(Line::parse).collect())
    }

    /// Returns whether a name is ignored by the last rule that matches: true if ignored, false if
    /// kept by `!`, `None` if no rule matches. `place` is the path from the folder of the
    /// .gitignore, `name` its last part, `folder` true for a folder.
    pub fn says(&self, place: &str, name: &str, folder: bool) -> Option<bool> {
        let fits = |line: &&Line| {
            (folder || !line.folders) && line.test.fits(if line.whole { place } else { name })
        };
        self.0.iter().rev().find(fits).map(|line| !line.keeps)
    }
}

impl Line {
    /// Parses a line of a .gitignore (gitignore(5)): `!` keeps files, a `/` at the end means
    /// folders only, a `/` elsewhere means the whole path instead of its last name. Returns `None`
    /// for a comment, an empty line and a pattern that is not supported.
    fn parse(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (keeps, line) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let line = without_blanks(line);
        let (folders, line) = match line.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let whole = line.contains('/');
        let line = line.strip_prefix('/').unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        Some(Self {
            test: Test::of(line)?,
            keeps,
            folders,
            whole,
        })
    }
}

impl Test {
    /// Builds the comparison for a rule's pattern: equality, a common end (`*.o`), or a glob.
    /// Returns `None` for a pattern that matches nothing.
    fn of(line: &str) -> Option<Self> {
        let plain = |text: &str| !text.contains(['*', '?', '[', '\\']);
        if plain(line) {
            return Some(Self::Is(line.to_owned()));
        }
        if let Some(end) = line.strip_prefix('*').filter(|end| plain(end))
            && !end.contains('/')
        {
            return Some(Self::Ends(end.to_owned()));
        }
        let parts: Option<Vec<String>> = line.split('/').map(as_pattern).collect();
        Pattern::new(&parts?.join("/")).ok().map(Self::Glob)
    }

    /// Returns true if a name, or a path for rules of whole paths, matches the pattern.
    fn fits(&self, name: &str) -> bool {
        match self {
            Self::Is(all) => name == all,
            Self::Ends(end) => {
                let rest = name.strip_suffix(&end[..]);
                rest.is_some_and(|rest| !rest.contains('/'))
            }
            Self::Glob(pattern) => pattern.matches_with(name, AS_GIT),
        }
    }
}

/// Removes trailing blanks from a rule, but for one after a `\`, which belongs to the pattern.
fn without_blanks(line: &str) -> &str {
    let short = line.trim_end_matches([' ', '\t', '\r']);
    let escapes = short.len() - short.trim_end_matches('\\').len();
    match escapes % 2 == 1 && short.len() < line.len() {
        true => &line[..short.len() + 1],
        false => short,
    }
}

/// Converts one part of a rule's path to the syntax of [`Pattern`]: letters after `\` stand in
/// brackets, `[^` becomes `[!`, and repeated `*` beside other letters become one. Returns `None`
/// for a part that ends with `\`, which matches nothing.
fn as_pattern(part: &str) -> Option<String> {
    if part == "**" {
        return Some(part.to_owned());
    }
    let mut out = String::with_capacity(part.len() + 8);
    let mut letters = part.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            // Letters without a special meaning need no brackets.
            '\\' => match letters.next()? {
                c @ ('*' | '?' | '[' | ']') => out.extend(['[', c, ']']),
                c => out.push(c),
            },
            '*' => {
                while letters.next_if_eq(&'*').is_some() {}
                out.push('*');
            }
            '[' => {
                out.push('[');
                if letters.next_if(|next| matches!(next, '^' | '!')).is_some() {
                    out.push('!');
                }
                // A bracket in first place is a literal letter.
                out.extend(letters.next_if_eq(&']'));
                for c in letters.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            _ => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn says(text: &str, place: &str) -> Option<bool> {
        let ignored = Ignored::parse(text, |_| true);
        let (place, folder) = match place.strip_suffix('/') {
            Some(place) => (place, true),
            None => (place, false),
        };
        let name = place.rsplit('/').next().unwrap_or(place);
        ignored.says(place, name, folder)
    }

    #[test]
    fn lines_fit_what_git_says_they_fit() {
        for (line, fits, others) in [
            (
                "foo",
                &["foo", "a/foo", "foo/"][..],
                &["foo2", "a/foo2", "foo/a"][..],
            ),
            ("/foo", &["foo"], &["a/foo"]),
            ("foo/", &["foo/", "a/foo/"], &["foo", "a/foo"]),
            ("a/foo", &["a/foo"], &["b/a/foo", "foo"]),
            ("*.o", &["x.o", "a/x.o", ".o"], &["x.os", "x.o/y"]),
            ("a/*.o", &["a/x.o"], &["a/b/x.o", "x.o", "b/a/x.o"]),
            ("/*.o", &["x.o"], &["a/x.o"]),
            (".*", &[".config", "a/.b"], &["config"]),
            ("?x", &["ax", "b/ax"], &["x", "aax"]),
            ("[ab]x", &["ax", "bx"], &["cx"]),
            ("[!ab]x", &["cx"], &["ax"]),
            ("[^ab]x", &["cx"], &["ax"]),
            ("[]a]x", &["]x", "ax"], &["bx"]),
            ("**/foo", &["foo", "a/foo", "a/b/foo"], &["afoo"]),
            ("a/**", &["a/x", "a/b/x"], &["a", "b/x"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "b"]),
            ("a**b", &["ab", "axb", "c/axb"], &["a/b"]),
            ("***x", &["x", "ax", "b/ax"], &["xa"]),
            ("\\#a", &["#a"], &["a"]),
            ("\\!a", &["!a"], &["a"]),
            ("\\*a", &["*a"], &["xa", "a"]),
            ("a\\ ", &["a "], &["a"]),
            ("a  ", &["a"], &["a  "]),
            ("# a", &[], &["a", "# a"]),
            ("a\\", &[], &["a", "a\\"]),
            ("[a", &[], &["a", "[a"]),
            ("", &[], &["", "a"]),
            ("/", &[], &["", "a"]),
        ] {
            for place in fits {
                assert_eq!(says(line, place), Some(true), "`{line}` and `{place}`");
            }
            for place in others {
                assert_eq!(says(line, place), None, "`{line}` and `{place}`");
            }
        }
    }

    #[test]
    fn the_last_line_decides() {
        let text = "*.o\n!keep.o\n/keep.o\n";
        assert_eq!(says(text, "a.o"), Some(true));
        assert_eq!(says(text, "a/keep.o"), Some(false));
        assert_eq!(says(text, "keep.o"), Some(true));
        assert_eq!(says(text, "a.c"), None);
        let dots = ".*\n!.gitignore\n";
        assert_eq!(says(dots, "a/.gitignore"), Some(false));
        assert_eq!(says(dots, "a/.x"), Some(true));
    }
}
