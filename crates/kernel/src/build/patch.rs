//! Patches: unified diffs as git and diff write them, applied to the texts of a tree without
//! touching it.
//!
//! Hunks may have moved, but their lines must match exactly: a patch that only nearly fits (`patch`
//! would apply it with fuzz) is for a different kernel.
//!
//! As in git, the result does not depend on the order of files in a diff: a rename or a copy starts
//! from the file as it was before the diff, even if an earlier part of the diff changed it. Mails
//! of a series are applied one after the other. No path may go through a link or a file: only the
//! names of the tree decide, so the disk is not asked.

use super::beneath::Beneath;
use super::error::BuildError;
use super::scan::{Kind, Scan};
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchKind, PatchSet};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// A patch.
#[derive(Debug, Clone)]
pub struct Patch {
    /// The file's name as the user gave it, for messages.
    pub name: String,
    /// The file's contents.
    pub bytes: Vec<u8>,
}

/// The longest patch that is read, in bytes: that of a whole kernel release has some 100 MiB.
const MOST: u64 = 512 << 20;

impl Patch {
    /// Reads a patch from a file.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(path: &Path) -> Result<Self, BuildError> {
        let bytes = input::bytes(path, MOST).map_err(|e| {
            BuildError::input(
                format!("can't read the patch {}: {e}", path.display()),
                "a file that `git diff`, `git format-patch` or `diff -u` wrote",
            )
        })?;
        Ok(Self {
            name: path.display().to_string(),
            bytes,
        })
    }
}

/// The files that patches change or add, with their new contents, and those that they delete
/// (`None`).
#[derive(Debug, Default)]
pub struct Patched(pub BTreeMap<PathBuf, Option<(Kind, Vec<u8>)>>);

/// The reason why a patch does not fit, beginning with a hunk or a file.
type Misfit = String;

impl Patched {
    /// Applies one more patch to the state so far, in memory and wholly or not at all. `scan` is
    /// the unpatched tree; `release` is for the message. The mails of a series are applied one
    /// after the other.
    ///
    /// # Errors
    /// The text is no patch, or does not fit.
    pub fn apply(&mut self, scan: &Scan, patch: &Patch, release: &str) -> Result<(), BuildError> {
        let wrong = |why: Misfit| {
            BuildError::input(
                format!(
                    "the patch {} does not fit Linux {release}: {why}",
                    patch.name
                ),
                "a patch whose context lines are all in this tree, possibly at other line \
                 numbers, with paths in git's form (a/mm/vmscan.c)",
            )
        };
        let no_patch = |e: &dyn std::fmt::Display| {
            BuildError::input(
                format!("{} is not a patch: {e}", patch.name),
                "a file that `git diff`, `git format-patch` or `diff -u` wrote",
            )
        };
        let (options, mails) = match has_line(&patch.bytes, GIT) {
            true => (ParseOptions::gitdiff(), mails(&patch.bytes)),
            false => (ParseOptions::unidiff(), vec![&patch.bytes[..]]),
        };
        let mut after = Self(self.0.clone());
        for mail in mails {
            let files: Result<Vec<_>, _> = PatchSet::parse_bytes(mail, options.clone()).collect();
            let files = files.map_err(|e| no_patch(&e))?;
            let mut diff = Diff::of(scan, &after, &files);
            for file in &files {
                diff.apply_file(file, &patch.bytes).map_err(wrong)?;
            }
            after = diff.now;
        }
        *self = after;
        Ok(())
    }

    /// Returns the kind (file, executable, link) of the name at `path` after the patches so far;
    /// `None` where there is none.
    fn kind(&self, scan: &Scan, path: &Path) -> Option<Kind> {
        match self.0.get(path) {
            Some(known) => known.as_ref().map(|(kind, _)| *kind),
            None => scan.manifest.0.get(path).map(|entry| entry.kind),
        }
    }

    /// Returns the file at `path` after the patches so far; `None` where there is none. A link's
    /// contents are its target.
    pub(super) fn read(&self, scan: &Scan, path: &Path) -> Result<Option<(Kind, Vec<u8>)>, Misfit> {
        if let Some(known) = self.0.get(path) {
            return Ok(known.clone());
        }
        let Some(kind) = self.kind(scan, path) else {
            return Ok(None);
        };
        let found = Beneath::open(&scan.root).and_then(|tree| match kind {
            Kind::Link => tree.read_link(path),
            Kind::Plain | Kind::Executable => tree.read(path),
        });
        let bytes = found.map_err(|e| format!("{} can't be read: {e}", path.display()))?;
        Ok(Some((kind, bytes)))
    }

    /// Checks that a patch may create a file at `path` of the source tree, as the patches before it
    /// leave that: nothing is there, no folder of the path is a file or a link, and the path is no
    /// folder itself. The error says what stands in the way.
    fn check_free(&self, scan: &Scan, path: &Path) -> Result<(), Misfit> {
        let shown = path.display();
        if self.kind(scan, path).is_some() {
            return Err(format!("it creates {shown}, which already exists"));
        }
        for above in path.ancestors().skip(1) {
            let what = match self.kind(scan, above) {
                None => continue,
                Some(Kind::Link) => "a link",
                Some(Kind::Plain | Kind::Executable) => "a file",
            };
            let above = above.display();
            return Err(format!(
                "it creates {shown}, but {above} is {what} of the tree"
            ));
        }
        let of_tree = scan.manifest.0.range(path.to_owned()..).map(|(p, _)| p);
        let of_patches = self.0.range(path.to_owned()..).map(|(p, _)| p);
        let below = |p: &&PathBuf| p.starts_with(path);
        let mut all = of_tree
            .take_while(below)
            .chain(of_patches.take_while(below));
        match all.any(|p| self.kind(scan, p).is_some()) {
            true => Err(format!("it creates {shown}, which is a folder of the tree")),
            false => Ok(()),
        }
    }
}

/// The state of the tree while the files of one diff are applied.
struct Diff<'a> {
    scan: &'a Scan,
    /// The state before the diff, from which renames and copies start.
    before: Patched,
    /// The current state.
    now: Patched,
    /// Names that the diff renames away: another file of the diff may take such a name before the
    /// rename.
    renamed_away: BTreeSet<PathBuf>,
    /// Names that files of the diff have taken.
    taken: BTreeSet<PathBuf>,
}

/// The change of one file, with its paths in the tree.
struct Change {
    /// The text to which the hunks are applied.
    text: (Kind, Vec<u8>),
    /// A name to remove.
    from: Option<PathBuf>,
    /// The name of the result; `None`: the file is deleted.
    to: Option<PathBuf>,
}

impl<'a> Diff<'a> {
    /// Prepares to apply one diff to the state `before`; collects the names that the diff renames
    /// away.
    fn of(scan: &'a Scan, before: &Patched, files: &[FilePatch<'_, [u8]>]) -> Self {
        let renamed_away = files.iter().filter_map(|file| match file.operation() {
            FileOperation::Rename { from, .. } => inside(from).ok(),
            _ => None,
        });
        Self {
            scan,
            before: Patched(before.0.clone()),
            now: Patched(before.0.clone()),
            renamed_away: renamed_away.collect(),
            taken: BTreeSet::new(),
        }
    }

    /// Returns the kind and contents of the file at `path` in `state`, which the diff requires to
    /// exist; the error says that the path is missing.
    fn existing(&self, state: &Patched, path: &Path) -> Result<(Kind, Vec<u8>), Misfit> {
        let missing = || {
            format!(
                "it changes {}, which is not a file of the tree",
                path.display()
            )
        };
        state.read(self.scan, path)?.ok_or_else(missing)
    }

    /// Returns the kind and contents of the file at `path` in `state`, as `existing` does, but
    /// refuses links: their contents are a path, which would mean something else in another place.
    fn regular_file(&self, state: &Patched, path: &Path) -> Result<(Kind, Vec<u8>), Misfit> {
        match self.existing(state, path)? {
            (Kind::Link, _) => Err(format!("it changes {}, which is a link", path.display())),
            file => Ok(file),
        }
    }

    /// Returns the file from which a rename or a copy starts, as it was before the diff if it
    /// existed then (true), else as an earlier part of the diff has made it (false).
    fn move_source(&self, from: &Path) -> Result<((Kind, Vec<u8>), bool), Misfit> {
        match self.before.kind(self.scan, from) {
            Some(_) => Ok((self.regular_file(&self.before, from)?, true)),
            None => Ok((self.regular_file(&self.now, from)?, false)),
        }
    }

    /// Checks that the diff may put a file at `path`: the diff itself renames the present one away,
    /// or the path is free in the tree.
    fn check_free(&self, path: &Path) -> Result<(), Misfit> {
        let free = self.renamed_away.contains(path) && !self.taken.contains(path);
        match free {
            true => Ok(()),
            false => self.now.check_free(self.scan, path),
        }
    }

    /// Returns the text to which the hunks of one file's diff are applied, and the names to remove
    /// and to write, for each kind of change: rename, copy, creation, deletion or modification.
    /// Fails if a path is not in the tree, or is taken.
    fn change(&self, file: &FilePatch<'_, [u8]>) -> Result<Change, Misfit> {
        // Renames and copies name paths without the prefixes `a/` and `b/`.
        let stripped = file.operation().strip_prefix(1);
        Ok(match file.operation() {
            FileOperation::Rename { from, to } => {
                let (from, to) = (inside(from)?, inside(to)?);
                self.check_free(&to)?;
                let (text, before) = self.move_source(&from)?;
                // Do not remove the old name if another file of this diff has taken it.
                let from = Some(from).filter(|from| !(before && self.taken.contains(from)));
                let to = Some(to);
                Change { text, from, to }
            }
            FileOperation::Copy { from, to } => {
                let to = inside(to)?;
                self.check_free(&to)?;
                let (text, _) = self.move_source(&inside(from)?)?;
                let (from, to) = (None, Some(to));
                Change { text, from, to }
            }
            _ => match &stripped {
                FileOperation::Create(path) => {
                    let path = inside(path)?;
                    self.check_free(&path)?;
                    let (text, to) = ((Kind::Plain, Vec::new()), Some(path));
                    let from = None;
                    Change { text, from, to }
                }
                FileOperation::Delete(path) => {
                    let path = inside(path)?;
                    let text = self.existing(&self.now, &path)?;
                    let (from, to) = (Some(path), None);
                    Change { text, from, to }
                }
                FileOperation::Modify { original, modified } => {
                    // In a `diff -u` the first name may be that of a backup copy.
                    let (old, new) = (inside(original)?, inside(modified)?);
                    let path = match self.now.kind(self.scan, &new) {
                        Some(_) => new,
                        None => old,
                    };
                    let text = self.regular_file(&self.now, &path)?;
                    let (from, to) = (None, Some(path));
                    Change { text, from, to }
                }
                FileOperation::Rename { .. } | FileOperation::Copy { .. } => {
                    unreachable!("stripped of a prefix, an operation stays what it is")
                }
            },
        })
    }

    /// Applies the hunks of one file's diff and notes the result in the current state. `whole` is
    /// the text of the patch, in which the line of a failed hunk is looked up. The error says which
    /// hunk does not fit.
    fn apply_file(&mut self, file: &FilePatch<'_, [u8]>, whole: &[u8]) -> Result<(), Misfit> {
        let Change { text, from, to } = self.change(file)?;
        let name = to.as_ref().or(from.as_ref());
        let name = name.map_or(String::new(), |p| p.display().to_string());
        let PatchKind::Text(patch) = file.patch() else {
            return Err(format!("it has {name} in git's binary form"));
        };
        let (mut kind, bytes) = text;
        let bytes = diffy::apply_bytes(&bytes, patch).map_err(|e| {
            // The library tells the number of the failed hunk only in its text: "error applying
            // hunk #3".
            let number = e.to_string();
            let number = number.rsplit('#').next().and_then(|n| n.parse().ok());
            let number: usize = number.unwrap_or(1);
            let old = patch.hunks().get(number - 1).map(|h| h.old_range());
            let line = old.and_then(|old| line_of_hunk(whole, &name, old.start()));
            let at = line.map_or(String::new(), |n| format!(", line {n} of the patch"));
            format!("hunk {number} of {name}{at}, has lines that the file does not contain")
        })?;
        if to.is_none() && !bytes.is_empty() {
            return Err(format!("it deletes {name}, but not all of its lines"));
        }
        match file.new_mode() {
            Some(FileMode::Executable) => kind = Kind::Executable,
            Some(FileMode::Regular) => kind = Kind::Plain,
            Some(FileMode::Symlink | FileMode::Gitlink) => {
                return Err(format!("it turns {name} into a link"));
            }
            None => {}
        }
        if let Some(from) = from {
            self.now.0.insert(from, None);
        }
        if let Some(to) = to {
            self.taken.insert(to.clone());
            self.now.0.insert(to, Some((kind, bytes)));
        }
        Ok(())
    }
}

/// The first words of a file's diff in git's format.
const GIT: &[u8] = b"diff --git ";

/// Returns the mails of a series that contain a diff (a cover letter does not), or the whole text
/// if it is no series of mails.
fn mails(text: &[u8]) -> Vec<&[u8]> {
    let begins = |line: &[u8]| {
        let hash = line.strip_prefix(b"From ").and_then(|rest| rest.get(..41));
        hash.is_some_and(|h| h[..40].iter().all(u8::is_ascii_hexdigit) && h[40] == b' ')
    };
    let mut out = Vec::new();
    let (mut from, mut at) = (0, 0);
    for line in text.split_inclusive(|b| *b == b'\n') {
        if begins(line) && at > from {
            out.push(&text[from..at]);
            from = at;
        }
        at += line.len();
    }
    out.push(&text[from..]);
    out.retain(|mail| has_line(mail, GIT));
    out
}

/// Returns true if a line of the text starts with `beginning`.
fn has_line(text: &[u8], beginning: &[u8]) -> bool {
    text.split(|b| *b == b'\n')
        .any(|l| l.starts_with(beginning))
}

/// Returns the line of the patch `text`, from 1, at which the hunk of `file` begins whose old range
/// starts at line `start`; `None` if there is none. For error messages only.
fn line_of_hunk(text: &[u8], file: &str, start: usize) -> Option<usize> {
    let mut in_file = false;
    // An empty old range starts at line 0, which the library counts as 1.
    let heads = [format!("@@ -{start},"), format!("@@ -{start} ")];
    for (number, line) in (1..).zip(text.split(|b| *b == b'\n')) {
        let line = String::from_utf8_lossy(line);
        if line.starts_with("+++ ") || line.starts_with("--- ") {
            // Of the two name lines before a file's hunks, at least one names the file; the other
            // may be /dev/null.
            in_file |= line.contains(file);
            in_file &= line.contains(file) || line.contains("/dev/null");
        } else if in_file && heads.iter().any(|h| line.starts_with(h.as_str())) {
            return Some(number);
        }
    }
    None
}

/// Returns the path if it stays within the tree and has no newline or NUL, which a manifest can't
/// hold; the error says why not.
fn inside(path: &[u8]) -> Result<PathBuf, Misfit> {
    use std::os::unix::ffi::OsStrExt as _;
    let named = Path::new(std::ffi::OsStr::from_bytes(path));
    let mut parts = named.components();
    if named.as_os_str().is_empty() || !parts.all(|c| matches!(c, Component::Normal(_))) {
        let shown = named.display();
        return Err(format!("it names {shown}, which is not below the tree"));
    }
    if path.iter().any(|b| matches!(b, b'\n' | b'\0')) {
        return Err(format!(
            "it names {named:?}, which can't be a file of a tree"
        ));
    }
    // Normalises: `mm//a.c` and `mm/./a.c` are one name.
    Ok(named.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const BEFORE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

    fn tree() -> (TempDir, Scan) {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("mm")).unwrap();
        fs::write(dir.path().join("mm/vmscan.c"), BEFORE).unwrap();
        fs::write(dir.path().join("mm/old.c"), "gone\n").unwrap();
        fs::create_dir_all(dir.path().join("tools/vm")).unwrap();
        fs::write(dir.path().join("tools/vm/page types.c"), "types\n").unwrap();
        fs::write(dir.path().join("tools/vm/größe.c"), "size\n").unwrap();
        fs::write(dir.path().join("run.sh"), "#!/bin/sh\n").unwrap();
        symlink("tools", dir.path().join("link")).unwrap();
        symlink("/nowhere", dir.path().join("evil")).unwrap();
        let scan = Scan::read(dir.path()).unwrap();
        (dir, scan)
    }

    fn apply(text: &str) -> Result<Patched, String> {
        let (_dir, scan) = tree();
        let mut out = Patched::default();
        let patch = Patch {
            name: "my.patch".into(),
            bytes: text.into(),
        };
        out.apply(&scan, &patch, "6.12.1")
            .map_err(|e| e.to_string())?;
        Ok(out)
    }

    fn text(patched: &Patched, path: &str) -> Option<String> {
        let (_, bytes) = patched.0[Path::new(path)].clone()?;
        Some(String::from_utf8(bytes).unwrap())
    }

    const CHANGE: &str = "--- a/mm/vmscan.c\n+++ b/mm/vmscan.c\n@@ -2,3 +2,3 @@ where\n two\n-three\n\
         +drei\n four\n";

    #[test]
    fn plain_and_moved() {
        let patched = apply(CHANGE).unwrap();
        let expected = BEFORE.replace("three", "drei");
        assert_eq!(text(&patched, "mm/vmscan.c").unwrap(), expected);
        let patched = apply(&CHANGE.replace("-2,3 +2,3", "-4,3 +4,3")).unwrap();
        assert_eq!(text(&patched, "mm/vmscan.c").unwrap(), expected);
    }

    /// Output of `git format-patch --stdout`: mails one after the other, here over the same file.
    #[test]
    fn a_series_of_mails() {
        let mail = |n: u32, body: &str| {
            format!(
                "From 0123456789abcdef Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\nSubject: [PATCH {n}/3] \
                 mm: a\n\nBecause.\n\nSigned-off-by: A <a@b.c>\n---\n mm/vmscan.c | 2 +-\n 1 file \
                 changed, 1 insertion(+), 1 deletion(-)\n\n{body}-- \n2.39.5\n\n"
            )
        };
        let head = "diff --git a/mm/vmscan.c b/mm/vmscan.c\nindex 01..02 100644\n";
        let one = mail(1, &format!("{head}{CHANGE}"));
        let two = mail(
            2,
            &format!(
                "{head}{}",
                CHANGE.replace("-three", "-drei").replace("+drei", "+tres")
            ),
        );
        let three = mail(
            3,
            "diff --git a/mm/new.c b/mm/new.c\nnew file mode 100755\nindex 00..01\n--- /dev/null\n\
             +++ b/mm/new.c\n@@ -0,0 +1 @@\n+new\ndiff --git a/mm/old.c b/mm/old.c\ndeleted file mode \
             100644\nindex 01..00\n--- a/mm/old.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n",
        );
        let patched = apply(&format!("{one}{two}{three}")).unwrap();
        assert!(text(&patched, "mm/vmscan.c").unwrap().contains("tres"));
        assert_eq!(
            patched.0[Path::new("mm/new.c")],
            Some((Kind::Executable, b"new\n".into()))
        );
        assert_eq!(text(&patched, "mm/old.c"), None);
    }

    #[test]
    fn misfits_say_where() {
        let second = "@@ -6,2 +6,2 @@\n six\n-eight\n+acht\n";
        for (patch, said) in [
            (
                format!("{CHANGE}{second}"),
                "hunk 2 of mm/vmscan.c, line 8 of the patch",
            ),
            (
                CHANGE.replace("vmscan", "vmscam"),
                "mm/vmscam.c, which is not a file",
            ),
            (
                CHANGE.replace("a/mm/", "a/../").replace("b/mm/", "b/../"),
                "not below the tree",
            ),
            ("no patch at all\n".into(), "is not a patch"),
            (
                "--- /dev/null\n+++ b/mm/old.c\n@@ -0,0 +1 @@\n+x\n".into(),
                "mm/old.c, which already exists",
            ),
        ] {
            let e = apply(&patch).unwrap_err();
            assert!(e.contains("my.patch") && e.contains(said), "{e}");
        }
    }

    /// Makes the patch of one file in git's format; without hunks it has only the extended header.
    fn git(from: &str, to: &str, header: &str, hunks: &str) -> String {
        let names = match hunks {
            "" => String::new(),
            _ => format!("--- a/{from}\n+++ b/{to}\n"),
        };
        format!("diff --git a/{from} b/{to}\n{header}{names}{hunks}")
    }

    const DREI: &str = "@@ -2,3 +2,3 @@ where\n two\n-three\n+drei\n four\n";

    fn renamed(from: &str, to: &str, hunks: &str) -> String {
        let header = format!("similarity index 93%\nrename from {from}\nrename to {to}\n");
        git(from, to, &header, hunks)
    }

    #[test]
    fn renames_with_and_without_changes() {
        let patched = apply(&renamed("mm/vmscan.c", "mm/new/scan.c", DREI)).unwrap();
        assert_eq!(text(&patched, "mm/vmscan.c"), None);
        let new = text(&patched, "mm/new/scan.c").unwrap();
        assert_eq!(new, BEFORE.replace("three", "drei"));
        let patched = apply(&renamed("mm/vmscan.c", "scan.c", "")).unwrap();
        assert_eq!(text(&patched, "mm/vmscan.c"), None);
        assert_eq!(text(&patched, "scan.c").unwrap(), BEFORE);
        // Two files change their names with each other.
        let there = renamed("mm/vmscan.c", "mm/old.c", "");
        let back = renamed("mm/old.c", "mm/vmscan.c", "");
        let patched = apply(&format!("{there}{back}")).unwrap();
        assert_eq!(text(&patched, "mm/old.c").unwrap(), BEFORE);
        assert_eq!(text(&patched, "mm/vmscan.c").unwrap(), "gone\n");
        // A file moves to a name from which a later part of the diff moves another file away.
        let away = renamed("mm/old.c", "mm/older.c", "");
        let patched = apply(&format!("{there}{away}")).unwrap();
        assert_eq!(text(&patched, "mm/old.c").unwrap(), BEFORE);
        assert_eq!(text(&patched, "mm/older.c").unwrap(), "gone\n");
        assert_eq!(text(&patched, "mm/vmscan.c"), None);
    }

    /// A copy starts from the file as it was before the diff, even if the diff changes it earlier.
    #[test]
    fn copies_begin_with_what_was_before() {
        let change = git("mm/vmscan.c", "mm/vmscan.c", "index 01..02 100644\n", DREI);
        let header = "similarity index 100%\ncopy from mm/vmscan.c\ncopy to mm/workingset.c\n";
        let copy = git("mm/vmscan.c", "mm/workingset.c", header, "");
        let patched = apply(&format!("{change}{copy}")).unwrap();
        assert_eq!(text(&patched, "mm/workingset.c").unwrap(), BEFORE);
        let drei = BEFORE.replace("three", "drei");
        assert_eq!(text(&patched, "mm/vmscan.c").unwrap(), drei);
        // In the next mail of a series the copy starts from the changed file.
        let mail = |n: u32, diff: &str| {
            let hash = "0123456789abcdef0123456789abcdef01234567";
            format!(
                "From {hash} Mon Sep 17 00:00:00 2001\nSubject: [PATCH {n}/2] a\n\n---\n{diff}-- \n2\n\n"
            )
        };
        let series = format!("{}{}{}", mail(0, ""), mail(1, &change), mail(2, &copy));
        let patched = apply(&series).unwrap();
        assert_eq!(text(&patched, "mm/workingset.c").unwrap(), drei);
    }

    #[test]
    fn modes_change_with_and_without_contents() {
        let header = "old mode 100644\nnew mode 100755\n";
        let patched = apply(&git("run.sh", "run.sh", header, "")).unwrap();
        let expected = Some((Kind::Executable, b"#!/bin/sh\n".into()));
        assert_eq!(patched.0[Path::new("run.sh")], expected);
        let patched = apply(&git("mm/vmscan.c", "mm/vmscan.c", header, DREI)).unwrap();
        let (kind, bytes) = patched.0[Path::new("mm/vmscan.c")].clone().unwrap();
        assert_eq!(kind, Kind::Executable);
        assert_eq!(bytes, BEFORE.replace("three", "drei").as_bytes());
    }

    #[test]
    fn files_are_made_and_deleted_empty_ones_too() {
        let patched = apply(&git("a/empty.c", "a/empty.c", "new file mode 100644\n", "")).unwrap();
        assert_eq!(text(&patched, "a/empty.c").unwrap(), "");
        let new = "--- /dev/null\n+++ b/mm/new.c\n@@ -0,0 +1 @@\n+new\n";
        assert_eq!(text(&apply(new).unwrap(), "mm/new.c").unwrap(), "new\n");
        let gone = "--- a/mm/old.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";
        assert_eq!(text(&apply(gone).unwrap(), "mm/old.c"), None);
        // Deleting a link is a diff of one line.
        let hunk =
            "--- a/evil\n+++ /dev/null\n@@ -1 +0,0 @@\n-/nowhere\n\\ No newline at end of file\n";
        let link = format!("diff --git a/evil b/evil\ndeleted file mode 120000\n{hunk}");
        assert_eq!(text(&apply(&link).unwrap(), "evil"), None);
        // After the deletion the name is free for a folder.
        let below = "diff --git a/evil/a.c b/evil/a.c\nnew file mode 100644\n--- /dev/null\n\
                     +++ b/evil/a.c\n@@ -0,0 +1 @@\n+mine\n";
        let patched = apply(&format!("{link}{below}")).unwrap();
        assert_eq!(text(&patched, "evil/a.c").unwrap(), "mine\n");
    }

    #[test]
    fn quoted_names_and_names_with_blanks() {
        let quoted = "\"a/tools/vm/gr\\303\\266\\303\\237e.c\"";
        let to = quoted.replace("\"a/", "\"b/");
        let hunk = "@@ -1 +1 @@\n-size\n+Maß\n";
        let patch =
            format!("diff --git {quoted} {to}\nindex 1..2 100644\n--- {quoted}\n+++ {to}\n{hunk}");
        assert_eq!(
            text(&apply(&patch).unwrap(), "tools/vm/größe.c").unwrap(),
            "Maß\n"
        );
        let (from, plain) = (quoted.replace("a/", ""), "tools/vm/size.c");
        let header = format!("similarity index 100%\nrename from {from}\nrename to {plain}\n");
        let patched = apply(&format!("diff --git {quoted} b/{plain}\n{header}")).unwrap();
        assert_eq!(text(&patched, "tools/vm/größe.c"), None);
        assert_eq!(text(&patched, plain).unwrap(), "size\n");
        let patched = apply(&renamed("tools/vm/page types.c", "tools/vm/a b.c", "")).unwrap();
        assert_eq!(text(&patched, "tools/vm/a b.c").unwrap(), "types\n");
        let tab = "--- a/tools/vm/page types.c\t\n+++ b/tools/vm/page types.c\t\n@@ -1 +1 @@\n-types\n+x\n";
        let head =
            "diff --git a/tools/vm/page types.c b/tools/vm/page types.c\nindex 1..2 100644\n";
        let patched = apply(&format!("{head}{tab}")).unwrap();
        assert_eq!(text(&patched, "tools/vm/page types.c").unwrap(), "x\n");
    }

    #[test]
    fn nothing_goes_through_a_link_or_a_file() {
        let new = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+owned\n");
        let rename = |to: &str| renamed("mm/old.c", to, "");
        for (patch, said) in [
            (
                new("evil/pwn.c"),
                "it creates evil/pwn.c, but evil is a link",
            ),
            (new("link/vm/a.c"), "but link is a link"),
            (new("evil"), "which already exists"),
            (new("mm/old.c/a.c"), "but mm/old.c is a file"),
            (new("mm"), "mm, which is a folder"),
            (rename("evil/pwn.c"), "but evil is a link"),
            (rename("mm/vmscan.c"), "which already exists"),
            (rename("../out.c"), "not below the tree"),
            (rename("/etc/out.c"), "not below the tree"),
            (renamed("link/vm/a.c", "a.c", ""), "not a file of the tree"),
            (renamed("evil", "good", ""), "evil, which is a link"),
            (renamed("none.c", "a.c", ""), "none.c, which is not a file"),
            (
                git(
                    "evil",
                    "evil",
                    "index 1..2 120000\n",
                    "@@ -1 +1 @@\n-/nowhere\n+/tmp\n",
                ),
                "evil, which is a link",
            ),
            (
                git("l", "l", "new file mode 120000\n", ""),
                "it turns l into a link",
            ),
            (
                "diff --git \"a/a\\nb\" \"b/a\\nb\"\nnew file mode 100644\n".into(),
                "can't be a file of a tree",
            ),
            (
                "--- a/mm/vmscan.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n".into(),
                "but not all of its lines",
            ),
        ] {
            let e = apply(&patch).unwrap_err();
            assert!(e.contains(said), "{patch}{e}");
        }
    }
}
