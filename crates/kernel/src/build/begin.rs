//! Seeds the first build under a name with the objects of the most similar other build, so that
//! only sources that differ are compiled.
//!
//! Files of the private copy are hard links to the donor's. Objects are copied with their
//! modification times, because make compares times, and paths of the donor's folder inside them are
//! rewritten to the new folder. The manifest is written last: without it an interrupted copy is
//! ignored and the build compiles everything.

use super::beneath::{Beneath, Folders};
use super::cache::{Cache, lock_file, make_folder, remove_folder, write_file};
use super::error::BuildError;
use super::plain;
use super::scan::Manifest;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The largest share of source files that may differ before another build counts as dissimilar.
const LIKE: f64 = 0.05;

/// The locked work folder of another name, from which objects are taken.
struct Donor {
    work: PathBuf,
    manifest: Manifest,
    differing: usize,
    _lock: File,
}

impl Donor {
    /// Opens the work folder of the kernel `name` and counts the source files that differ from
    /// those `wanted`. Returns `None` if no kernel was built in the folder or another process holds
    /// its lock.
    fn open(cache: &Cache, name: &str, wanted: &Manifest) -> Option<Self> {
        let work = cache.work(name);
        if !work.join("objects/vmlinux").exists() {
            return None;
        }
        let lock = lock_file(&cache.works().join(format!("{name}.lock"))).ok()?;
        lock.try_lock().ok()?;
        let manifest = Manifest::parse(&fs::read(work.join("manifest")).ok()?)?;
        let differs = |path: &PathBuf| manifest.0.get(path) != wanted.0.get(path);
        let changed = wanted.0.keys().filter(|path| differs(path)).count();
        let removed = manifest
            .0
            .keys()
            .filter(|path| !wanted.0.contains_key(*path));
        Some(Self {
            differing: changed + removed.count(),
            work,
            manifest,
            _lock: lock,
        })
    }
}

impl Cache {
    /// Copies the objects of the most similar other build into the work folder of `name`, if `name`
    /// was never built and a similar one exists. `wanted` lists the source files of the new build.
    /// Returns the donor's name; `None`: nothing was copied.
    ///
    /// # Errors
    /// A file can't be read or written.
    pub(super) fn begin(
        &self,
        name: &str,
        wanted: &Manifest,
    ) -> Result<Option<String>, BuildError> {
        let work = self.work(name);
        if work.join("manifest").exists() {
            return Ok(None);
        }
        let entries = fs::read_dir(self.works()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|e| e.path().is_dir())
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|other| other != name)
            .collect();
        names.sort();
        // The most source files that may differ.
        let most = (wanted.0.len() as f64 * LIKE) as usize;
        let nearest = names
            .into_iter()
            .filter_map(|other| Some((Donor::open(self, &other, wanted)?, other)))
            .filter(|(donor, _)| donor.differing <= most)
            .min_by_key(|(donor, _)| donor.differing);
        let Some((donor, other)) = nearest else {
            return Ok(None);
        };
        for folder in ["source", "objects"] {
            remove_folder(&work.join(folder))?;
        }
        let error = |path: &Path, e| BuildError::io("can't copy to", path, e);
        link(&donor, &work.join("source")).map_err(|e| error(&work, e))?;
        let renamed = Renamed {
            from: donor.work.as_os_str().as_bytes(),
            to: work.as_os_str().as_bytes(),
        };
        renamed
            .copy(&donor.work.join("objects"), &work.join("objects"))
            .map_err(|e| error(&work, e))?;
        write_file(&work.join("manifest"), &donor.manifest.text())?;
        Ok(Some(other))
    }
}

/// Makes the private copy of the sources in folder `to` out of hard links to the donor's files.
fn link(donor: &Donor, to: &Path) -> io::Result<()> {
    make_folder(to).map_err(io::Error::other)?;
    let (from, to) = (
        Beneath::open(&donor.work.join("source"))?,
        Beneath::open(to)?,
    );
    let (mut from, mut to) = (Folders::found(&from), Folders::made(&to));
    for path in donor.manifest.0.keys() {
        to.place(path)?.link_to(&from.place(path)?)?;
    }
    Ok(())
}

/// The old path of a folder and the path that replaces it.
struct Renamed<'a> {
    from: &'a [u8],
    to: &'a [u8],
}

impl Renamed<'_> {
    /// Returns `text` with the new path in place of the old one; `None` if the old path does not
    /// occur in it, as a path of its own or the head of a longer one.
    fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        let mut found = false;
        while let Some(at) = find(rest, self.from) {
            let behind = &rest[at + self.from.len()..];
            out.extend_from_slice(&rest[..at]);
            // `work/6.1` must not match inside `work/6.12`.
            let whole = behind.first().is_none_or(|b| !plain(char::from(*b)));
            out.extend_from_slice(if whole { self.to } else { self.from });
            found |= whole;
            rest = behind;
        }
        out.extend_from_slice(rest);
        found.then_some(out)
    }

    /// Copies the donor's folder of objects with all modification times, by which make decides what
    /// to compile. In make's text files and symbolic links the path of the donor's work folder is
    /// replaced by that of the new one.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let meta = entry.metadata()?;
            if meta.is_dir() {
                self.copy(&from, &to)?;
                continue;
            }
            if meta.is_symlink() {
                // The link's target.
                let leads = fs::read_link(&from)?;
                let bytes = leads.as_os_str().as_bytes();
                let leads = self.text(bytes).unwrap_or_else(|| bytes.to_owned());
                symlink(std::ffi::OsStr::from_bytes(&leads), &to)?;
                continue;
            }
            if !meta.is_file() {
                continue;
            }
            fs::copy(&from, &to)?;
            if is_text(&to)
                && let Some(text) = self.text(&fs::read(&to)?)
            {
                fs::write(&to, text)?;
            }
            let file = File::options().append(true).open(&to)?;
            file.set_times(FileTimes::new().set_modified(meta.modified()?))?;
        }
        Ok(())
    }
}

/// Returns true for a file into which make or the compiler writes paths as text.
fn is_text(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == "Makefile" || [".cmd", ".d", ".s"].iter().any(|end| name.ends_with(end))
}

/// Returns the place of the first occurrence of `what` in `text`; `None` if there is none.
fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::scan::{Entry, Kind};
    use std::time::{Duration, SystemTime};
    use tempfile::TempDir;

    fn manifest(of: &[(String, u8)]) -> Manifest {
        let entry = |digest: u8| Entry {
            kind: Kind::Plain,
            digest: [digest; 32],
        };
        let all = of.iter().map(|(p, d)| (PathBuf::from(p), entry(*d)));
        Manifest(all.collect())
    }

    fn sources(changed: usize) -> Vec<(String, u8)> {
        let one = |n| (format!("mm/{n}.c"), u8::from(n < changed));
        (0..100).map(one).collect()
    }

    fn built(cache: &Cache, name: &str, changed: usize) {
        let work = cache.work(name);
        for (path, _) in sources(changed) {
            let path = work.join("source").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let objects = work.join("objects/mm");
        fs::create_dir_all(&objects).unwrap();
        let path = objects.join(".1.o.cmd");
        let text = format!("gcc -I{0}/source {0}2/x {0}", work.display());
        fs::write(&path, text).unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
        symlink(work.join("source"), work.join("objects/source")).unwrap();
        fs::write(work.join("objects/vmlinux"), "").unwrap();
        let text = manifest(&sources(changed)).text();
        fs::write(work.join("manifest"), text).unwrap();
    }

    #[test]
    fn a_build_begins_with_the_nearest_one() {
        let dir = TempDir::new().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let wanted = manifest(&sources(2));
        assert_eq!(cache.begin("new", &wanted).unwrap(), None);
        built(&cache, "far", 40);
        assert_eq!(cache.begin("new", &wanted).unwrap(), None);
        built(&cache, "near", 4);
        built(&cache, "nearer", 1);
        let said = cache.begin("new", &wanted).unwrap();
        assert_eq!(said.as_deref(), Some("nearer"));
        let work = cache.work("new");
        let cmd = work.join("objects/mm/.1.o.cmd");
        let shown = work.display();
        let nearer = cache.work("nearer");
        assert_eq!(
            fs::read_to_string(&cmd).unwrap(),
            format!("gcc -I{shown}/source {}2/x {shown}", nearer.display())
        );
        let time = fs::metadata(&cmd).unwrap().modified().unwrap();
        assert_eq!(time, SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        let link = fs::read_link(work.join("objects/source")).unwrap();
        assert_eq!(link, work.join("source"));
        assert_eq!(
            fs::read_to_string(work.join("source/mm/7.c")).unwrap(),
            "nearer"
        );
        // A name that already has a manifest is left alone.
        assert_eq!(cache.begin("new", &wanted).unwrap(), None);
    }

    #[test]
    fn one_that_somebody_is_at_is_left_alone() {
        let dir = TempDir::new().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        built(&cache, "busy", 0);
        let lock = cache.lock("busy").unwrap();
        let wanted = manifest(&sources(0));
        assert_eq!(cache.begin("new", &wanted).unwrap(), None);
        drop(lock);
        assert!(cache.begin("new", &wanted).unwrap().is_some());
    }
}
