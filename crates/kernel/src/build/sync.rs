//! The private copy that a kernel is built from: the tree's files with the patches applied.
//!
//! Make compares times. Every file that differs from the last build's is written anew with the
//! current time; all others stay untouched, even if the time of the user's file has changed. In a
//! new copy, files are hard links where the filesystem allows it, so no file is ever written in
//! place: it is replaced.

use super::beneath::{Beneath, Folders, Found};
use super::cache::{make_folder, remove_folder, write_file};
use super::error::BuildError;
use super::patch::Patched;
use super::scan::{Digest, Entry, Kind, Manifest, Scan};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Returns the manifest of the tree `scan` after the patches: what the private copy must have.
pub fn patched(scan: &Scan, patched: &Patched) -> Manifest {
    let mut out = scan.manifest.clone();
    for (path, file) in &patched.0 {
        match file {
            None => {
                out.0.remove(path);
            }
            Some((kind, bytes)) => {
                let digest: Digest = Sha256::digest(bytes).into();
                let kind = *kind;
                out.0.insert(path.clone(), Entry { kind, digest });
            }
        }
    }
    out
}

/// The private copy in a name's work folder.
#[derive(Debug)]
pub struct Copy {
    /// The root of its files.
    pub root: PathBuf,
    manifest: PathBuf,
    /// The objects made from the files: useless without them.
    objects: PathBuf,
}

impl Copy {
    /// Returns the private copy of the sources below the work folder of a kernel's name, with the
    /// files beside it.
    pub fn below(work: &Path) -> Self {
        Self {
            root: work.join("source"),
            manifest: work.join("manifest"),
            objects: work.join("objects"),
        }
    }

    /// Makes the private copy match `wanted`: writes only files that differ from the last update,
    /// because make compiles each file with a new time again. Contents come from `patches`, or else
    /// from the tree `scan`. An update that was interrupted, even by a kill, is completed by the
    /// next call.
    ///
    /// # Errors
    /// A file can't be read or written.
    pub fn update(
        &self,
        scan: &Scan,
        patches: &Patched,
        wanted: &Manifest,
    ) -> Result<(), BuildError> {
        // The manifest of the last update: the files that the copy has.
        let had = fs::read(&self.manifest)
            .ok()
            .and_then(|t| Manifest::parse(&t));
        // Without a manifest there is no copy, or an unusable one.
        let first = had.is_none();
        let mut had = had.unwrap_or_default();
        if first {
            remove_folder(&self.root)?;
            remove_folder(&self.objects)?;
        }
        let changed: Vec<&PathBuf> = wanted
            .0
            .iter()
            .filter(|(path, entry)| had.0.get(*path) != Some(entry))
            .map(|(path, _)| path)
            .collect();
        let gone: Vec<PathBuf> = had
            .0
            .keys()
            .filter(|path| !wanted.0.contains_key(*path))
            .cloned()
            .collect();
        if changed.is_empty() && gone.is_empty() {
            return Ok(());
        }
        if !first {
            // The manifest drops changed files first: after a kill the next update rewrites them.
            for path in changed.iter().copied() {
                had.0.remove(path);
            }
            write_file(&self.manifest, &had.text())?;
        }
        make_folder(&self.root)?;
        let open =
            |root: &Path| Beneath::open(root).map_err(|e| BuildError::io("can't open", root, e));
        let (from, to) = (open(&scan.root)?, open(&self.root)?);
        for path in &gone {
            let removed = to.remove(path);
            removed.map_err(|e| BuildError::io("can't remove", &self.root.join(path), e))?;
        }
        // A file or a link may have to take a folder's name.
        for path in &gone {
            to.remove_empty(path.parent().unwrap_or(Path::new("")));
        }
        let mut sources = Folders::found(&from);
        let mut copies = Folders::made(&to);
        for path in changed {
            let entry = &wanted.0[path];
            let mut write = || {
                let to = copies.place(path)?;
                if let Some(Some((_, bytes))) = patches.0.get(path) {
                    return to.put(mode(entry.kind), |file| file.write_all(bytes));
                }
                if first && entry.kind != Kind::Link && to.link_to(&sources.place(path)?).is_ok() {
                    return Ok(());
                }
                match from.find(path)? {
                    Found::Link(leads, _) => to.put_link(&leads),
                    // `io::copy` shares blocks where the filesystem supports that.
                    Found::File(mut file) => to.put(mode(entry.kind), |new| {
                        io::copy(&mut file, new)?;
                        Ok(())
                    }),
                }
            };
            write().map_err(|e| BuildError::io("can't write", &self.root.join(path), e))?;
        }
        write_file(&self.manifest, &wanted.text())
    }
}

/// Returns the permissions of a file of this kind.
fn mode(kind: Kind) -> u32 {
    if kind == Kind::Executable {
        0o755
    } else {
        0o644
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::patch::Patch;
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::time::SystemTime;
    use tempfile::TempDir;

    struct Trial {
        dir: TempDir,
        copy: Copy,
    }

    impl Trial {
        fn new() -> Self {
            let dir = TempDir::new().unwrap();
            let tree = dir.path().join("tree");
            fs::create_dir_all(tree.join("mm")).unwrap();
            fs::create_dir_all(tree.join(".git")).unwrap();
            fs::write(tree.join(".git/HEAD"), "x").unwrap();
            fs::write(tree.join(".gitignore"), "*.o\n").unwrap();
            fs::write(tree.join("mm/vmscan.o"), "x").unwrap();
            fs::write(tree.join("mm/vmscan.c"), "old\n").unwrap();
            fs::write(tree.join("mm/page.c"), "page\n").unwrap();
            fs::write(tree.join("run.sh"), "#!\n").unwrap();
            fs::set_permissions(tree.join("run.sh"), Permissions::from_mode(0o755)).unwrap();
            symlink("mm/page.c", tree.join("link")).unwrap();
            let copy = Copy::below(&dir.path().join("work"));
            Self { dir, copy }
        }

        fn tree(&self, name: &str) -> PathBuf {
            self.dir.path().join("tree").join(name)
        }

        fn update(&self, patch: Option<&str>) -> Manifest {
            let scan = Scan::read(&self.tree("")).unwrap();
            let mut patches = Patched::default();
            if let Some(text) = patch {
                let patch = Patch {
                    name: "p".into(),
                    bytes: text.into(),
                };
                patches.apply(&scan, &patch, "1").unwrap();
            }
            let wanted = patched(&scan, &patches);
            self.copy.update(&scan, &patches, &wanted).unwrap();
            let there = Scan::read(&self.copy.root).unwrap().manifest;
            assert_eq!(there, wanted);
            wanted
        }

        fn stamp(&self, name: &str) -> (u64, SystemTime) {
            let meta = fs::symlink_metadata(self.copy.root.join(name)).unwrap();
            (meta.ino(), meta.modified().unwrap())
        }
    }

    const PATCH: &str = "--- a/mm/vmscan.c\n+++ b/mm/vmscan.c\n@@ -1 +1 @@\n-old\n+new\n";

    #[test]
    fn only_what_differs_is_written() {
        let t = Trial::new();
        let plain = t.update(None);
        assert!(
            !plain
                .0
                .keys()
                .any(|p| p.ends_with("vmscan.o") || p.starts_with(".git/"))
        );
        let page = t.stamp("mm/page.c");
        t.update(Some(PATCH));
        assert_eq!(fs::read_to_string(t.tree("mm/vmscan.c")).unwrap(), "old\n");
        assert_eq!(
            fs::read_to_string(t.copy.root.join("mm/vmscan.c")).unwrap(),
            "new\n"
        );
        let patched = t.stamp("mm/vmscan.c");
        t.update(Some(PATCH));
        assert_eq!(
            (t.stamp("mm/page.c"), t.stamp("mm/vmscan.c")),
            (page, patched)
        );
        assert_eq!(t.update(None), plain);
        // The same contents with a newer time, as after `git checkout` there and back.
        fs::remove_file(t.tree("mm/page.c")).unwrap();
        fs::write(t.tree("mm/page.c"), "page\n").unwrap();
        t.update(None);
        assert_eq!(t.stamp("mm/page.c"), page);
    }

    /// A changed file with an older time still gets a newer time in the copy.
    #[test]
    fn times_do_not_go_back() {
        let t = Trial::new();
        t.update(None);
        let before = t.stamp("mm/page.c").1;
        let file = fs::File::create(t.tree("mm/other.c")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        fs::rename(t.tree("mm/other.c"), t.tree("mm/page.c")).unwrap();
        fs::remove_file(t.tree("link")).unwrap();
        t.update(None);
        assert!(t.stamp("mm/page.c").1 >= before);
        assert!(!t.copy.root.join("link").exists());
    }

    /// An update repairs every state that a kill can leave.
    #[test]
    fn a_torn_copy_is_mended() {
        let t = Trial::new();
        t.update(None);
        // Killed during the first update: files, but no manifest.
        fs::remove_file(t.copy.root.parent().unwrap().join("manifest")).unwrap();
        fs::write(t.copy.root.join("mm/left.c"), "x").unwrap();
        t.update(None);
        // Killed during a later update, after the first renaming: the manifest lacks the entry.
        let manifest = t.copy.root.parent().unwrap().join("manifest");
        let mut known = Manifest::parse(&fs::read(&manifest).unwrap()).unwrap();
        known.0.remove(Path::new("mm/vmscan.c"));
        fs::write(&manifest, known.text()).unwrap();
        fs::remove_file(t.copy.root.join("mm/vmscan.c")).unwrap();
        fs::write(t.copy.root.join("mm/vmscan.c"), "other\n").unwrap();
        t.update(None);
    }

    /// A folder is replaced by a link and restored; nothing is written through the link.
    #[test]
    fn a_link_in_the_place_of_a_folder_is_not_followed() {
        let t = Trial::new();
        let elsewhere = t.dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("page.c"), "theirs\n").unwrap();
        t.update(None);
        fs::remove_dir_all(t.tree("mm")).unwrap();
        symlink(&elsewhere, t.tree("mm")).unwrap();
        t.update(None);
        assert_eq!(fs::read_link(t.copy.root.join("mm")).unwrap(), elsewhere);
        fs::remove_file(t.tree("mm")).unwrap();
        fs::create_dir(t.tree("mm")).unwrap();
        fs::write(t.tree("mm/page.c"), "mine\n").unwrap();
        t.update(None);
        let theirs = fs::read_to_string(elsewhere.join("page.c")).unwrap();
        assert_eq!(theirs, "theirs\n");
    }

    /// Nothing is written into a folder of the copy that has been replaced by a link.
    #[test]
    fn a_copy_that_leads_elsewhere_is_refused() {
        let t = Trial::new();
        let elsewhere = t.dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        t.update(None);
        fs::remove_dir_all(t.copy.root.join("mm")).unwrap();
        symlink(&elsewhere, t.copy.root.join("mm")).unwrap();
        fs::write(t.tree("mm/page.c"), "changed\n").unwrap();
        let scan = Scan::read(&t.tree("")).unwrap();
        let none = Patched::default();
        let e = t.copy.update(&scan, &none, &scan.manifest).unwrap_err();
        assert!(e.to_string().contains("can't write"), "{e}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    /// Nothing is read through a folder of the tree that has been replaced by a link.
    #[test]
    fn a_tree_that_leads_elsewhere_is_not_read() {
        let t = Trial::new();
        let elsewhere = t.dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("page.c"), "secret\n").unwrap();
        fs::write(elsewhere.join("vmscan.c"), "secret\n").unwrap();
        let scan = Scan::read(&t.tree("")).unwrap();
        fs::remove_dir_all(t.tree("mm")).unwrap();
        symlink(&elsewhere, t.tree("mm")).unwrap();
        let none = Patched::default();
        assert!(t.copy.update(&scan, &none, &scan.manifest).is_err());
        assert!(!t.copy.root.join("mm/page.c").exists());
    }

    #[test]
    fn manifests_are_read_back() {
        let t = Trial::new();
        let manifest = t.update(None);
        assert_eq!(Manifest::parse(&manifest.text()), Some(manifest.clone()));
        assert_eq!(Manifest::parse(&manifest.text()[..30]), None);
        let scan = Scan::read(&t.tree("")).unwrap();
        assert_eq!(scan.changed(), None);
        fs::write(t.tree("mm/page.c"), "longer\n").unwrap();
        assert_eq!(scan.changed(), Some(Path::new("mm/page.c")));
    }
}
