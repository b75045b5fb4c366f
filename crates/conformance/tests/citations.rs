//! Citations in sources and documents refer to existing pages and headings, files, and places in
//! the code.
//!
//! - `docs/…/page.md#heading` in any source, TOML file or document: the page exists, and has the
//!   heading.
//! - A link in a document leads to a file of the project, and to one of its headings.
//! - `` `mm::reclaim::kswapd::balance_pass` `` in a document: below `crates/mm/src` a file whose
//!   path contains the module defines the item. Folders in between may be left out, so that a page
//!   stays valid when modules move; a failing test says where the item is now.
//! - Every page is in the book's table of contents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The extension of documents.
const PAGE: &str = ".md";
/// Folders that do not contain the project's own text.
const PASSED: [&str; 4] = [".git", "target", "node_modules", "results"];

/// One file of the project.
struct Source {
    /// The file's path from the project's root, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is_page(&self) -> bool {
        self.path.ends_with(PAGE)
    }

    fn folder(&self) -> &Path {
        Path::new(&self.path)
            .parent()
            .expect("a path from the root has a parent")
    }
}

/// The project's sources, TOML files and documents.
struct Project {
    root: PathBuf,
    sources: Vec<Source>,
    /// The headings of each document, in the form in which they are cited.
    anchors: BTreeMap<String, BTreeSet<String>>,
}

impl Project {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut sources = Vec::new();
        collect(&root, Path::new(""), &mut sources);
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(sources.len() > 100, "the project has more files than that");
        let anchors = sources
            .iter()
            .filter(|s| s.is_page())
            .map(|s| (s.path.clone(), anchors(&s.text)))
            .collect();
        Self {
            root,
            sources,
            anchors,
        }
    }

    fn pages(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|s| s.is_page())
    }

    /// Returns the reason why a target, a path from the root with an optional heading, does not
    /// exist.
    fn missing(&self, path: &str, heading: Option<&str>) -> Option<String> {
        if !self.root.join(path).exists() {
            return Some(format!("there is no `{path}`"));
        }
        let (heading, known) = (heading?, self.anchors.get(path)?);
        if known.contains(heading) {
            return None;
        }
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        Some(format!(
            "`{path}` has no heading `#{heading}`; it has {}",
            known.join(", ")
        ))
    }
}

fn collect(root: &Path, below: &Path, out: &mut Vec<Source>) {
    for entry in fs::read_dir(root.join(below)).expect("a folder of the project") {
        let entry = entry.expect("an entry of a folder");
        let name = entry.file_name();
        let name = name.to_str().expect("names are UTF-8");
        let path = below.join(name);
        let kind = entry.file_type().expect("the type of an entry");
        if kind.is_dir() {
            if !PASSED.contains(&name) {
                collect(root, &path, out);
            }
        } else if [".rs", ".toml", PAGE].iter().any(|end| name.ends_with(end)) {
            let text = fs::read_to_string(entry.path()).expect("a text of the project");
            let path = path.to_str().expect("names are UTF-8").replace('\\', "/");
            out.push(Source { path, text });
        }
    }
}

/// Returns the lines of a document outside fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((i + 1, line))
    })
}

/// Returns a document's headings in the form of link anchors.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                c if c.is_alphanumeric() => Some(c),
                _ => None,
            })
            .collect();
        let again = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone())
            .chain(again)
            .find(|s| !out.contains(s));
        out.extend(free);
    }
    out
}

/// Splits a link or citation into path and heading.
fn parts(target: &str) -> (&str, Option<&str>) {
    match target.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (target, None),
    }
}

/// Returns the citations of pages in a line, from the root: `docs/reference/reclaim.md#kswapd`.
fn citations(line: &str) -> impl Iterator<Item = &str> {
    const ROOT: &str = "docs/";
    let in_path = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
    let in_heading = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(ROOT).filter_map(move |(at, _)| {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| in_path(c) || c == ':') {
            return None;
        }
        let rest = &line[at..];
        let path = rest.find(|c| !in_path(c)).unwrap_or(rest.len());
        let path = rest[..path].trim_end_matches(['.', '-', '/']);
        if !path.ends_with(PAGE) {
            return None;
        }
        let heading = rest[path.len()..]
            .strip_prefix('#')
            .map_or(0, |h| 1 + h.find(|c| !in_heading(c)).unwrap_or(h.len()));
        Some(&rest[..path.len() + heading])
    })
}

/// Returns a line with the contents of its code spans blanked.
fn without_code(line: &str) -> String {
    let mut code = false;
    line.chars()
        .map(|c| {
            code ^= c == '`';
            if code && c != '`' { ' ' } else { c }
        })
        .collect()
}

/// Returns the code spans of a line.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the targets of a line's links.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
}

/// Joins a relative path to a folder and resolves `.` and `..`; `None`: the result is outside of
/// the project.
fn joined(folder: &Path, path: &str) -> Option<String> {
    let mut out: Vec<String> = Vec::new();
    for part in folder.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop()?;
            }
            Component::Normal(name) => out.push(name.to_str()?.into()),
            Component::Prefix(_) | Component::RootDir => return None,
        }
    }
    Some(out.join("/"))
}

/// Returns true if a line of Rust defines the item: a function, a type, a constant, a module, or
/// (if the line begins with the name) a field, a variant or a row of a table.
fn defines(line: &str, item: &str) -> bool {
    const WORDS: [&str; 11] = [
        "fn", "struct", "enum", "trait", "const", "static", "type", "mod", "union", "async",
        "unsafe",
    ];
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = match public.strip_prefix('(') {
            Some(inner) => inner.split_once(')').map_or(public, |(_, after)| after),
            None => public,
        };
        rest = rest.trim_start();
    }
    let mut keyword = false;
    while let Some((word, after)) = rest.split_once(' ') {
        if !WORDS.contains(&word) {
            break;
        }
        keyword = true;
        rest = after;
    }
    let Some(after) = rest.strip_prefix(item) else {
        return false;
    };
    match after.chars().next() {
        None => true,
        Some(c) if c.is_alphanumeric() || c == '_' => false,
        Some(c) => {
            keyword || ":,({=".contains(c) || after.starts_with(" {") || after.starts_with(" =")
        }
    }
}

/// A place in the code, as named in documents.
struct Place<'a> {
    name: &'a str,
    krate: &'a str,
    /// The modules in between, and possibly a type.
    between: Vec<&'a str>,
    item: &'a str,
}

impl<'a> Place<'a> {
    /// Parses a code span that names an item of one of the project's crates.
    fn of(span: &'a str, crates: &BTreeSet<&str>) -> Option<Self> {
        let name = span.strip_suffix("()").unwrap_or(span);
        let ident = |s: &str| {
            s.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && s.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let (krate, rest) = name.split_once("::")?;
        if !crates.contains(krate) || !rest.split("::").all(ident) {
            return None;
        }
        let mut between: Vec<&str> = rest.split("::").collect();
        let item = between.pop()?;
        Some(Self {
            name,
            krate,
            between,
            item,
        })
    }

    /// Returns true if the file may contain the place: each module is a part of its path, each type
    /// is defined in it.
    fn may_be(&self, source: &Source) -> bool {
        let stem = source.path.trim_end_matches(".rs");
        let mut path = stem.split('/').skip(3);
        self.between.iter().all(|&name| {
            if name.starts_with(char::is_uppercase) {
                source.text.lines().any(|l| defines(l, name))
            } else {
                path.any(|part| part == name)
                    || source.text.lines().any(|l| {
                        defines(l, name) && l.contains("mod ") && !l.trim_end().ends_with(';')
                    })
            }
        })
    }

    /// Returns true if the file is the item itself: a module.
    fn is_module(&self, source: &Source) -> bool {
        let stem = source.path.trim_end_matches(".rs");
        let mut path = stem.split('/').skip(3);
        let inside = self.between.iter().all(|&m| path.any(|part| part == m));
        inside && path.any(|part| part == self.item)
    }
}

/// Fails with all complaints, one per line.
fn report(complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{} citations lead nowhere:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn cited_pages_and_headings_exist() {
    let project = Project::read();
    let mut complaints = Vec::new();
    for source in &project.sources {
        for (i, line) in source.text.lines().enumerate() {
            for citation in citations(line) {
                let (path, heading) = parts(citation);
                if let Some(why) = project.missing(path, heading) {
                    complaints.push(format!("{}:{}: {why}", source.path, i + 1));
                }
            }
        }
    }
    report(&complaints);
}

#[test]
fn links_of_documents_resolve() {
    let project = Project::read();
    let mut complaints = Vec::new();
    for page in project.pages() {
        for (n, line) in prose(&page.text) {
            for target in links(&without_code(line)) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, heading) = parts(target);
                let path = match path {
                    "" => Some(page.path.clone()),
                    path => joined(page.folder(), path),
                };
                let why = match path {
                    None => Some(format!("`{target}` is outside of the project")),
                    Some(path) => project.missing(&path, heading),
                };
                complaints.extend(why.map(|why| format!("{}:{n}: {why}", page.path)));
            }
        }
    }
    report(&complaints);
}

#[test]
fn places_in_the_code_exist() {
    let project = Project::read();
    let rust: Vec<&Source> = project
        .sources
        .iter()
        .filter(|s| s.path.starts_with("crates/") && s.path.ends_with(".rs"))
        .collect();
    let crates: BTreeSet<&str> = rust
        .iter()
        .filter_map(|s| s.path.split('/').nth(1))
        .collect();
    let (mut complaints, mut named) = (Vec::new(), 0);
    for page in project.pages().filter(|p| p.path.starts_with("docs/")) {
        for (n, line) in prose(&page.text) {
            for place in code_spans(line).filter_map(|span| Place::of(span, &crates)) {
                named += 1;
                let below = format!("crates/{}/src/", place.krate);
                let of_crate = || rust.iter().filter(|s| s.path.starts_with(&below));
                let defined = |s: &Source| s.text.lines().any(|line| defines(line, place.item));
                if of_crate().any(|s| place.is_module(s) || (place.may_be(s) && defined(s))) {
                    continue;
                }
                let now: Vec<&str> = of_crate()
                    .filter(|s| defined(s))
                    .map(|s| s.path.as_str())
                    .collect();
                let now = match now.as_slice() {
                    [] => "nothing of the crate has this name".into(),
                    some => format!("the name is defined in {}", some.join(", ")),
                };
                complaints.push(format!("{}:{n}: no `{}`; {now}", page.path, place.name));
            }
        }
    }
    assert!(named > 0, "the reference names places");
    report(&complaints);
}

#[test]
fn every_page_is_in_the_book() {
    let project = Project::read();
    let contents = project
        .pages()
        .find(|p| p.path == "docs/SUMMARY.md")
        .expect("the book has a table of contents");
    let listed: BTreeSet<String> = contents
        .text
        .lines()
        .flat_map(links)
        .filter_map(|target| joined(contents.folder(), target))
        .collect();
    let complaints: Vec<String> = project
        .pages()
        .filter(|p| p.path.starts_with("docs/") && p.path != contents.path)
        .filter(|p| !listed.contains(&p.path))
        .map(|p| format!("{} is not in {}", p.path, contents.path))
        .collect();
    report(&complaints);
}

/// Comments used to cite documents outside of the project, by chapter and paragraph.
#[test]
fn nothing_outside_of_the_project_is_cited() {
    let project = Project::read();
    // Each is split in two, so that this file contains none.
    let old = [
        concat!("reference ", "0"),
        concat!("references ", "0"),
        concat!("Reference ", "0"),
        concat!("design", ".md"),
        concat!("../", "shared"),
        concat!(" ", "§"),
        concat!("(", "§"),
        concat!("! ", "§"),
        concat!("par", ". "),
    ];
    let mut complaints = Vec::new();
    for source in &project.sources {
        for (i, line) in source.text.lines().enumerate() {
            for what in old.iter().filter(|&&what| line.contains(what)) {
                complaints.push(format!("{}:{}: `{what}`", source.path, i + 1));
            }
        }
    }
    report(&complaints);
}

#[test]
fn the_check_sees_what_it_is_to_see() {
    let line = "see (docs/reference/reclaim.md#kswapd), docs/eviction.md. and crates/docs/no.md";
    let found: Vec<&str> = citations(line).collect();
    assert_eq!(
        found,
        ["docs/reference/reclaim.md#kswapd", "docs/eviction.md"]
    );
    let headings = anchors("# One, two\n## `a_b` c\n```\n# no\n```\n## One two\n## One two\n");
    let wanted = ["one-two", "a_b-c", "one-two-1", "one-two-2"];
    assert_eq!(headings, wanted.map(String::from).into());
    assert_eq!(
        joined(Path::new("docs/reference"), "../tour.md").as_deref(),
        Some("docs/tour.md")
    );
    assert_eq!(joined(Path::new("docs"), "../../x.md"), None);
    for line in [
        "    pub(crate) async fn walk(&self) {",
        "fn walk<const T: bool>(",
        "    walk: u32,",
        "    walk = \"x\",",
        "pub mod walk;",
    ] {
        assert!(defines(line, "walk"), "{line}");
    }
    for line in [
        "    walk.len()",
        "// walk",
        "    fn walks() {",
        "    let walk = 1;",
    ] {
        assert!(!defines(line, "walk"), "{line}");
    }
}
