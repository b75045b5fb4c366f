//! Patches: unified diffs as git and diff write them, applied to the texts of a tree without touching it.
//!
//! Hunks may have moved, but their lines must be there as the patch has them: a patch that only nearly
//! fits (`patch` would guess, and call it fuzz) is for a different kernel.

use super::error::BuildError;
use super::scan::{Kind, Scan};
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchKind, PatchSet};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// A patch: its name for people, and its bytes.
#[derive(Debug, Clone)]
pub struct Patch {
    /// As the user named its file.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl Patch {
    /// Reads one.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(path: &Path) -> Result<Self, BuildError> {
        let bytes = fs::read(path).map_err(|e| {
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

/// What patches make of a tree: the files that are other ones then, and those that are gone (`None`).
#[derive(Debug, Default)]
pub struct Patched(pub BTreeMap<PathBuf, Option<(Kind, Vec<u8>)>>);

/// A patch does not fit; the second text says why, beginning with a hunk or a file.
type Misfit = String;

impl Patched {
    /// Applies one more patch, or nothing of it. `release` is for the message.
    ///
    /// # Errors
    /// It is no patch, or does not fit.
    pub fn apply(&mut self, scan: &Scan, patch: &Patch, release: &str) -> Result<(), BuildError> {
        let wrong = |why: Misfit| {
            BuildError::input(
                format!(
                    "the patch {} does not fit Linux {release}: {why}",
                    patch.name
                ),
                "a patch whose lines are all in this tree, moved at most, with paths as git has them \
                 (a/mm/vmscan.c)",
            )
        };
        let mut after = Self(self.0.clone());
        let options = if has_line(&patch.bytes, b"diff --git ") {
            ParseOptions::gitdiff()
        } else {
            ParseOptions::unidiff()
        };
        for file in PatchSet::parse_bytes(&patch.bytes, options) {
            let file = file.map_err(|e| {
                BuildError::input(
                    format!("{} is no patch: {e}", patch.name),
                    "a file that `git diff`, `git format-patch` or `diff -u` wrote",
                )
            })?;
            after.apply_file(scan, &file, &patch.bytes).map_err(wrong)?;
        }
        *self = after;
        Ok(())
    }

    /// A file as it is so far; `None` where there is none.
    pub fn read(&self, scan: &Scan, path: &Path) -> Option<(Kind, Vec<u8>)> {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let kind = scan.manifest.0.get(path)?.kind;
        if kind == Kind::Link {
            return None;
        }
        Some((kind, fs::read(scan.root.join(path)).ok()?))
    }

    fn apply_file(
        &mut self,
        scan: &Scan,
        file: &FilePatch<'_, [u8]>,
        text: &[u8],
    ) -> Result<(), Misfit> {
        let operation = file.operation().strip_prefix(1);
        let there = |path: &Path| {
            let found = self.read(scan, path);
            found.ok_or_else(|| {
                format!(
                    "it changes {}, which is no file of the tree",
                    path.display()
                )
            })
        };
        let (before, from, to) = match &operation {
            FileOperation::Create(path) => {
                let path = inside(path)?;
                if self.read(scan, &path).is_some() {
                    return Err(format!(
                        "it makes {}, which is there already",
                        path.display()
                    ));
                }
                ((Kind::Plain, Vec::new()), None, Some(path))
            }
            FileOperation::Delete(path) => {
                let path = inside(path)?;
                (there(&path)?, Some(path), None)
            }
            FileOperation::Modify { original, modified } => {
                // `diff -u` may name a copy first.
                let (old, new) = (inside(original)?, inside(modified)?);
                let path = if self.read(scan, &new).is_some() {
                    new
                } else {
                    old
                };
                (there(&path)?, None, Some(path))
            }
            FileOperation::Rename { from, to } => {
                let (from, to) = (inside(from)?, inside(to)?);
                (there(&from)?, Some(from), Some(to))
            }
            FileOperation::Copy { from, to } => (there(&inside(from)?)?, None, Some(inside(to)?)),
        };
        let name = to
            .as_ref()
            .or(from.as_ref())
            .map(|p| p.display().to_string());
        let name = name.unwrap_or_default();
        let PatchKind::Text(patch) = file.patch() else {
            return Err(format!("it has {name} in git's binary form"));
        };
        let (mut kind, bytes) = before;
        let bytes = diffy::apply_bytes(&bytes, patch).map_err(|e| {
            // "error applying hunk #3": the library keeps the number to itself.
            let number = e.to_string();
            let number = number.rsplit('#').next().and_then(|n| n.parse().ok());
            let number: usize = number.unwrap_or(1);
            let old = patch.hunks().get(number - 1).map(|h| h.old_range());
            let line = old.and_then(|old| line_of_hunk(text, &name, old.start()));
            let at = line.map_or(String::new(), |n| format!(", line {n} of the patch"));
            format!("hunk {number} of {name}{at}, finds no such lines there")
        })?;
        match file.new_mode() {
            Some(FileMode::Executable) => kind = Kind::Executable,
            Some(FileMode::Regular) => kind = Kind::Plain,
            Some(FileMode::Symlink | FileMode::Gitlink) => {
                return Err(format!("it makes {name} a link"));
            }
            None => {}
        }
        if let Some(from) = from {
            self.0.insert(from, None);
        }
        if let Some(to) = to {
            self.0.insert(to, Some((kind, bytes)));
        }
        Ok(())
    }
}

fn has_line(text: &[u8], beginning: &[u8]) -> bool {
    text.split(|b| *b == b'\n')
        .any(|l| l.starts_with(beginning))
}

/// The line, from 1, at which the hunk of this file begins that stands at this line of the old text.
fn line_of_hunk(text: &[u8], file: &str, start: usize) -> Option<usize> {
    let mut in_file = false;
    // A hunk of nothing begins at line 0, and the library counts it from 1.
    let heads = [format!("@@ -{start},"), format!("@@ -{start} ")];
    for (number, line) in (1..).zip(text.split(|b| *b == b'\n')) {
        let line = String::from_utf8_lossy(line);
        if line.starts_with("+++ ") || line.starts_with("--- ") {
            in_file |= line.contains(file);
            in_file &= line.contains(file) || line.contains("/dev/null");
        } else if in_file && heads.iter().any(|h| line.starts_with(h.as_str())) {
            return Some(number);
        }
    }
    None
}

/// A path that does not leave the tree.
fn inside(path: &[u8]) -> Result<PathBuf, Misfit> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let mut parts = path.components();
    if path.as_os_str().is_empty() || !parts.all(|c| matches!(c, Component::Normal(_))) {
        return Err(format!(
            "it names {}, which is not below the tree",
            path.display()
        ));
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const BEFORE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

    fn tree() -> (TempDir, Scan) {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("mm")).unwrap();
        fs::write(dir.path().join("mm/vmscan.c"), BEFORE).unwrap();
        fs::write(dir.path().join("mm/old.c"), "gone\n").unwrap();
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

    /// What `git format-patch --stdout` writes: mails one after the other, here over the same file.
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
                "mm/vmscam.c, which is no file",
            ),
            (
                CHANGE.replace("a/mm/", "a/../").replace("b/mm/", "b/../"),
                "not below the tree",
            ),
            ("no patch at all\n".into(), "is no patch"),
            (
                "--- /dev/null\n+++ b/mm/old.c\n@@ -0,0 +1 @@\n+x\n".into(),
                "mm/old.c, which is there already",
            ),
        ] {
            let e = apply(&patch).unwrap_err();
            assert!(e.contains("my.patch") && e.contains(said), "{e}");
        }
    }
}
