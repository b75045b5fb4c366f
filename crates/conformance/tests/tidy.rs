//! The sources are as the front pages describe them, and stay readable.
//!
//! - Rooms (the folders of a crate's `src`, and the files beside them) import one way: no circle.
//!   `docs/rooms.md` has the drawing; `just rooms` writes it anew (this test with
//!   `LOWMARK_WRITE=1`).
//! - No circle of imports has more than [`CIRCLE`] files, within a room or across rooms: a file can
//!   be read with the few that it needs and that need it. The failing test prints the circle.
//! - Each crate's README has the same headings, and its section `Modules` names every module of the
//!   crate and none that does not exist.
//! - `ARCHITECTURE.md` stays short and links every crate's README.
//! - No function has more than [`FUNCTION`] lines and no file more than [`FILE`], but for those
//!   that `tidy/long.txt` names with the length that they had. The list only shrinks: a length that
//!   has become shorter must be written there.

mod sources;

use proc_macro2::Span;
use sources::{files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// The most lines of a function, without its docs.
const FUNCTION: usize = 100;
/// The most lines of a file.
const FILE: usize = 800;
/// The most files of a circle of imports.
const CIRCLE: usize = 4;
/// The engine on a crate's world, which each file of the crate may import: it has the types of all
/// of them.
const ENGINE: &str = "SimMm";
/// The crates whose rooms are in the diagram.
const DRAWN: [&str; 4] = ["mm", "sim", "workload", "lab"];
/// The page that has the drawing, and the markers around it.
const ROOMS: &str = "docs/rooms.md";
const BEGIN: &str = "<!-- rooms: `just rooms` writes what follows -->\n```text\n";
const END: &str = "```\n<!-- end of rooms -->";
/// The most bytes of `ARCHITECTURE.md`.
const ARCHITECTURE: usize = 12_288;
/// The headings of a crate's README, in this order.
const HEADINGS: [&str; 5] = [
    "What it is for",
    "What it must not know",
    "Where one enters",
    MODULES_HEADING,
    "How it is tested",
];
const MODULES_HEADING: &str = "Modules";

/// A source file of a crate.
struct Module {
    /// The module's path from the project's root, with `/`.
    file: String,
    /// `crates/<this>`.
    krate: String,
    /// The path of its module in the crate; empty for the root.
    path: Vec<String>,
    /// Whether it is below `src` and not for tests only.
    production: bool,
    lines: usize,
    /// The items of its own crate that it imports, as paths from the crate's root.
    imports: BTreeSet<Vec<String>>,
    /// The items of its own crate that its `use` brings into scope, by name: paths from the crate's
    /// root. Its children, and with `pub` all others, can import them from here.
    names: BTreeMap<String, Vec<String>>,
    /// The module's functions and their lengths.
    functions: Vec<(String, usize)>,
    /// The module's child modules that exist for tests only.
    for_tests: Vec<String>,
}

impl Module {
    /// Returns crate and path of one of its child modules.
    fn child(&self, name: &str) -> (String, Vec<String>) {
        let path = self.path.iter().cloned().chain([name.to_owned()]);
        (self.krate.clone(), path.collect())
    }
}

/// All source files, read once for all tests.
static MODULES: LazyLock<Vec<Module>> = LazyLock::new(modules);

fn modules() -> Vec<Module> {
    let root = root();
    let files = files(&root.join("crates"), &["rs"]);
    let mut parsed: Vec<Module> = files.iter().map(|path| read(&root, path)).collect();
    // Files that their parent includes for tests only.
    let tests: BTreeSet<(String, Vec<String>)> = parsed
        .iter()
        .flat_map(|m| m.for_tests.iter().map(|child| m.child(child)))
        .collect();
    for m in &mut parsed {
        m.production &= !tests.contains(&(m.krate.clone(), m.path.clone()));
    }
    parsed
}

fn read(root: &Path, path: &Path) -> Module {
    let text = fs::read_to_string(path).expect("a source file");
    let file = path.strip_prefix(root).expect("below the root");
    let file = file.to_str().expect("names are UTF-8").replace('\\', "/");
    let parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    let (krate, place) = (parts[1], &parts[2..]);
    let mut path: Vec<String> = place[1..].iter().map(|p| p.to_string()).collect();
    let root_of_folder = |p: &String| ["lib", "main", "mod"].contains(&p.as_str());
    if path.last().is_some_and(root_of_folder) {
        path.pop();
    }
    let tests = path.iter().any(|p| p == "tests" || p.ends_with("_tests"));
    let ast = syn::parse_file(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut imports = Imports {
        from: &path,
        children: children(&ast),
        found: BTreeSet::new(),
        names: BTreeMap::new(),
    };
    imports.visit_file(&ast);
    let (imports, names) = (imports.found, imports.names);
    let mut functions = Functions::default();
    functions.visit_file(&ast);
    let for_tests = ast.items.iter().filter_map(|item| match item {
        syn::Item::Mod(m) if only_for_tests(&m.attrs) => Some(m.ident.to_string()),
        _ => None,
    });
    Module {
        krate: krate.into(),
        production: place[0] == "src" && !tests,
        path,
        lines: text.lines().count(),
        imports,
        names,
        functions: functions.found,
        for_tests: for_tests.collect(),
        file,
    }
}

fn only_for_tests(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|a| {
        a.path().is_ident("test")
            || a.path().is_ident("cfg")
                && matches!(&a.meta, syn::Meta::List(l) if l.tokens.to_string() == "test")
    })
}

/// Returns the names of the child modules that a file declares.
fn children(ast: &syn::File) -> BTreeSet<String> {
    let of = |item: &syn::Item| match item {
        syn::Item::Mod(m) => Some(m.ident.to_string()),
        _ => None,
    };
    ast.items.iter().filter_map(of).collect()
}

/// Collects the imports of a module from its own crate, as paths from the crate's root.
struct Imports<'a> {
    from: &'a [String],
    children: BTreeSet<String>,
    found: BTreeSet<Vec<String>>,
    names: BTreeMap<String, Vec<String>>,
}

impl Imports<'_> {
    /// Returns a path from the crate's root. `None`: the path leads to another crate, or begins
    /// with a name in scope.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = self.from.to_vec();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => {
                base.clear();
                rest = &path[1..];
            }
            Some("self") => rest = &path[1..],
            Some("super") => {}
            _ => return None,
        }
        while rest.first().is_some_and(|p| p == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn resolve(&mut self, path: &[String]) {
        let path = self.absolute(path);
        self.found.extend(path);
    }

    /// Notes that a `use` brings an item into scope under a name.
    fn bring(&mut self, name: &syn::Ident, path: &[String]) {
        let (path, name) = match path.split_last() {
            Some((last, module)) if last == "self" => (module, module.last().cloned()),
            _ => (path, Some(name.to_string())),
        };
        let of_child = path.first().is_some_and(|p| self.children.contains(p));
        let path = match of_child {
            true => Some([self.from, path].concat()),
            false => self.absolute(path),
        };
        if let (Some(name), Some(path)) = (name, path) {
            self.names.insert(name, path);
        }
    }

    fn tree(&mut self, tree: &syn::UseTree, mut above: Vec<String>) {
        match tree {
            syn::UseTree::Path(p) => {
                above.push(p.ident.to_string());
                self.tree(&p.tree, above);
            }
            syn::UseTree::Group(g) => {
                for t in &g.items {
                    self.tree(t, above.clone());
                }
            }
            syn::UseTree::Name(n) => {
                above.push(n.ident.to_string());
                self.resolve(&above);
                self.bring(&n.ident, &above);
            }
            syn::UseTree::Rename(n) => {
                above.push(n.ident.to_string());
                self.resolve(&above);
                self.bring(&n.rename, &above);
            }
            syn::UseTree::Glob(_) => self.resolve(&above),
        }
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !only_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !only_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    /// `pub(in crate::world)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !only_for_tests(&item.attrs) {
            self.tree(&item.tree, Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let path_of: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.resolve(&path_of);
        visit::visit_path(self, path);
    }
}

/// Returns a crate's rooms, and the rooms that each imports from. The root's own items belong to no
/// room: they may be used everywhere.
fn rooms(all: &[Module], krate: &str) -> BTreeMap<String, BTreeSet<String>> {
    let ours = || {
        all.iter()
            .filter(|m| m.krate == krate && m.production && !m.path.is_empty())
    };
    let names: BTreeSet<&str> = ours().map(|m| m.path[0].as_str()).collect();
    let mut out: BTreeMap<String, BTreeSet<String>> = names
        .iter()
        .map(|n| (n.to_string(), BTreeSet::new()))
        .collect();
    for m in ours() {
        let to = out.get_mut(&m.path[0]).expect("a room");
        for path in &m.imports {
            match path.first() {
                Some(room) if *room != m.path[0] && names.contains(room.as_str()) => {
                    to.insert(room.clone());
                }
                _ => {}
            }
        }
    }
    out
}

/// Sorts the rooms from top to bottom: each is above those that it imports from.
///
/// # Errors
/// Some rooms import each other in a cycle; these rooms.
fn storeys(
    mut rooms: BTreeMap<String, BTreeSet<String>>,
) -> Result<Vec<(String, Vec<String>)>, String> {
    let imports = rooms.clone();
    let mut upwards = Vec::new();
    while !rooms.is_empty() {
        let down: BTreeSet<&String> = upwards.iter().collect();
        let next = rooms
            .iter()
            .find(|(_, to)| to.iter().all(|r| down.contains(r)))
            .map(|(name, _)| name.clone());
        let Some(next) = next else {
            return Err(rooms
                .iter()
                .map(|(name, to)| {
                    let open: Vec<&str> = to
                        .iter()
                        .filter(|r| !down.contains(r))
                        .map(String::as_str)
                        .collect();
                    format!("{name} → {}", open.join(", "))
                })
                .collect::<Vec<_>>()
                .join("; "));
        };
        rooms.remove(&next);
        upwards.push(next);
    }
    let rank: BTreeMap<&String, usize> = upwards.iter().zip(0..).collect();
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for name in upwards.iter().rev() {
        let mut to: Vec<String> = imports[name].iter().cloned().collect();
        to.sort_by_key(|r| std::cmp::Reverse(rank[r]));
        out.push((name.clone(), to));
    }
    Ok(out)
}

#[test]
fn rooms_import_one_way_and_are_drawn() {
    let (mut drawing, mut complaints) = (String::new(), Vec::new());
    for krate in DRAWN {
        match storeys(rooms(&MODULES, krate)) {
            Err(circle) => complaints.push(format!("{krate}: a circle of imports: {circle}")),
            Ok(storeys) => {
                let wide = storeys.iter().map(|(n, _)| n.len()).max().unwrap_or(0);
                writeln!(drawing, "{krate}").expect("a string");
                for (name, to) in storeys {
                    let line = format!("  {name:wide$} → {}", to.join(" "));
                    let line = line.trim_end_matches(" → ").trim_end();
                    writeln!(drawing, "{line}").expect("a string");
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let page = root().join(ROOMS);
    let text = fs::read_to_string(&page).expect("the page of the rooms");
    let begin = text
        .find(BEGIN)
        .expect("the page has a place for the drawing")
        + BEGIN.len();
    let end = begin + text[begin..].find(END).expect("the drawing ends");
    if std::env::var_os("LOWMARK_WRITE").is_some() {
        let drawn = format!("{}{drawing}{}", &text[..begin], &text[end..]);
        fs::write(&page, drawn).expect("the page of the rooms");
        return;
    }
    assert_eq!(
        &text[begin..end],
        drawing,
        "{ROOMS}: `just rooms` draws the rooms anew"
    );
}

/// The imports of each file of a crate from its other files. The root's own items and [`ENGINE`]
/// may be used everywhere, and a file that declares modules may use them: `use child::Item` is no
/// import. Macros are not expanded, so a dispatch such as `ask!` of `sim::filesystems` is none.
struct Files<'a> {
    by_path: BTreeMap<&'a [String], &'a Module>,
    /// The names imported, by file and by file that defines them.
    imports: BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>,
}

impl<'a> Files<'a> {
    fn of(all: &'a [Module], krate: &str) -> Self {
        let ours = || all.iter().filter(|m| m.krate == krate && m.production);
        let mut files = Self {
            by_path: BTreeMap::new(),
            imports: BTreeMap::new(),
        };
        for m in ours() {
            // Of `lib.rs` and `main.rs` the library is the root.
            files.by_path.entry(&m.path).or_insert(m);
        }
        for m in ours().filter(|m| !m.path.is_empty()) {
            let mut to: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for path in m.imports.iter().filter(|p| !p.ends_with(&[ENGINE.into()])) {
                match files.definer(path) {
                    Some(other) if !other.path.is_empty() && other.path != m.path => {
                        let name = path.last().map_or("", String::as_str);
                        to.entry(&other.file).or_default().insert(name);
                    }
                    _ => {}
                }
            }
            files.imports.insert(&m.file, to);
        }
        files
    }

    /// Returns the file that defines an item: of the modules in its path the innermost, or the one
    /// that this one has the item from by `use`.
    fn definer(&self, path: &[String]) -> Option<&'a Module> {
        let mut path = path.to_vec();
        // Each step follows one re-export; names that lead to each other end nowhere.
        for _ in 0..path.len() + 8 {
            let of = |n: usize| self.by_path.get(&path[..n]).map(|m| (n, *m));
            let (n, module) = (0..=path.len()).rev().find_map(of)?;
            let from = path.get(n).and_then(|name| module.names.get(name));
            let Some(from) = from.filter(|from| from[..] != path[..=n]) else {
                return Some(module);
            };
            path = [&from[..], &path[n + 1..]].concat();
        }
        None
    }

    /// Returns all files that a file leads to by its imports and those of the files it imports.
    fn reach(&self, file: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![file];
        while let Some(file) = next.pop() {
            next.extend(self.imports[file].keys().filter(|to| reached.insert(**to)));
        }
        reached
    }

    /// Returns the circles: files that lead to each other, as many as do.
    fn circles(&self) -> BTreeSet<Vec<&'a str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.imports.keys().map(|f| (*f, self.reach(f))).collect();
        let circle = |file: &&'a str| {
            let back = |to: &&&'a str| reach[**to].contains(file);
            reach[*file].iter().filter(back).copied().collect()
        };
        self.imports.keys().map(circle).collect()
    }

    /// Writes a circle: each import within it, and the names that it imports.
    fn draw(&self, circle: &[&str]) -> String {
        let mut out = format!("a circle of imports of {} files", circle.len());
        for file in circle {
            let within = |(to, _): &(&&str, &BTreeSet<&str>)| circle.contains(to);
            for (to, names) in self.imports[file].iter().filter(within) {
                let names: Vec<&str> = names.iter().copied().collect();
                write!(out, "\n  {file} → {to}: {}", names.join(", ")).expect("a string");
            }
        }
        out
    }
}

#[test]
fn no_circle_of_imports_is_large() {
    let mut complaints = Vec::new();
    for krate in crates() {
        let files = Files::of(&MODULES, &krate);
        let circles = files.circles();
        let large = circles.iter().filter(|circle| circle.len() > CIRCLE);
        complaints.extend(large.map(|circle| files.draw(circle)));
    }
    assert!(
        complaints.is_empty(),
        "more than {CIRCLE} files; move what is shared into a file below them\n{}",
        complaints.join("\n")
    );
}

/// The crates' folders by name.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).expect("the crates");
    let mut out: Vec<String> = folders
        .map(|entry| entry.expect("a crate").file_name())
        .map(|name| name.into_string().expect("names are UTF-8"))
        .collect();
    out.sort();
    out
}

/// A crate's README by its headings: each one's text up to the next.
///
/// # Errors
/// There is no README, or it has other headings.
fn readme(krate: &str) -> Result<BTreeMap<String, String>, String> {
    let path = format!("crates/{krate}/README.md");
    let text = fs::read_to_string(root().join(&path)).map_err(|e| format!("{path}: {e}"))?;
    let sections: Vec<(&str, &str)> = text
        .split("\n## ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .collect();
    let headings: Vec<&str> = sections.iter().map(|(heading, _)| *heading).collect();
    if headings != HEADINGS {
        return Err(format!(
            "{path} has the headings {headings:?}, and not {HEADINGS:?}"
        ));
    }
    let owned = |(heading, text): (&str, &str)| (heading.to_owned(), text.to_owned());
    Ok(sections.into_iter().map(owned).collect())
}

/// The code spans of a text that has no fenced blocks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn readmes_name_every_module() {
    let mut complaints = Vec::new();
    for krate in crates() {
        let sections = match readme(&krate) {
            Ok(sections) => sections,
            Err(why) => {
                complaints.push(why);
                continue;
            }
        };
        let modules = &sections[MODULES_HEADING];
        let named: BTreeSet<&str> = spans(modules)
            .flat_map(|span| span.split(['/', ':', ' ', ',']))
            .map(|part| part.trim_end_matches(".rs"))
            .collect();
        let ours = || MODULES.iter().filter(|m| m.krate == krate && m.production);
        let unnamed = |m: &&Module| m.path.last().is_some_and(|p| !named.contains(p.as_str()));
        let missing = ours()
            .filter(unnamed)
            .map(|m| format!("crates/{krate}/README.md does not name {}", m.file));
        complaints.extend(missing);
        // The first column of the table names modules, by the end of their path.
        let first = modules
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|row| row.split('|').next());
        let cells = first.map(|cell| format!("`{cell}"));
        let exists = |span: &str| {
            let path: Vec<String> = span.split('/').map(str::to_owned).collect();
            let ends = |m: &Module| m.path.ends_with(&path);
            span == "lib" || ours().any(ends)
        };
        for cell in cells {
            let gone = spans(&cell).filter(|span| !exists(span));
            complaints.extend(gone.map(|span| format!("crates/{krate} has no module `{span}`")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_architecture_is_short_and_links_every_crate() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    assert!(
        text.len() <= ARCHITECTURE,
        "ARCHITECTURE.md has {} bytes, more than {ARCHITECTURE}: details belong to the crates' READMEs",
        text.len()
    );
    let unlinked: Vec<String> = crates()
        .into_iter()
        .map(|krate| format!("(crates/{krate}/README.md)"))
        .filter(|link| !text.contains(link.as_str()))
        .collect();
    assert!(
        unlinked.is_empty(),
        "ARCHITECTURE.md does not link {}",
        unlinked.join(", ")
    );
}

/// Collects functions and their lengths.
#[derive(Default)]
struct Functions {
    found: Vec<(String, usize)>,
}

impl Functions {
    fn note(&mut self, name: &syn::Ident, from: Span, to: Span) {
        let lines = to.end().line + 1 - from.start().line;
        self.found.push((name.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.note(&f.sig.ident, f.sig.span(), f.block.span());
        visit::visit_item_fn(self, f);
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.note(&f.sig.ident, f.sig.span(), f.block.span());
        visit::visit_impl_item_fn(self, f);
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(body) = &f.default {
            self.note(&f.sig.ident, f.sig.span(), body.span());
        }
        visit::visit_trait_item_fn(self, f);
    }
}

#[test]
fn functions_and_files_are_short() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tidy/long.txt");
    let allowed = fs::read_to_string(&list).expect("the list");
    let allowed: BTreeSet<&str> = allowed
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .collect();
    let mut long = BTreeSet::new();
    for m in MODULES.iter() {
        if m.lines > FILE {
            long.insert(format!("{} {}", m.lines, m.file));
        }
        for (name, lines) in &m.functions {
            if *lines > FUNCTION {
                long.insert(format!("{lines} {} {name}", m.file));
            }
        }
    }
    let long: BTreeSet<&str> = long.iter().map(String::as_str).collect();
    let new: Vec<&&str> = long.difference(&allowed).collect();
    let gone: Vec<&&str> = allowed.difference(&long).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "more than {FUNCTION} lines in a function, or {FILE} in a file, and not in tidy/long.txt: {new:#?}\n\
         in tidy/long.txt, and not of that length any more: {gone:#?}"
    );
}
