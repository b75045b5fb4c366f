//! The sources of a kernel: a tree of the user's, or a Debian package of sources.

use super::cache::{Cache, lock_file, make_folder, remove_folder, write_file};
use super::error::BuildError;
use super::run::{Log, tool};
use super::scan::{Manifest, Scan, hex};
use super::{Step, Watch};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A kernel's release, as in its top Makefile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The first two numbers.
    pub series: (u32, u32),
    /// The whole release: `6.12.117`, `6.13.0-rc3`.
    pub text: String,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Files that a tree must have to be built here.
const LANDMARKS: [&str; 4] = [
    "Kconfig",
    "kernel/sched/core.c",
    "arch/um/Kconfig",
    "arch/um/drivers/virtio_uml.c",
];

/// Returns the release of a source tree, as its top Makefile has it.
///
/// # Errors
/// The folder is no tree of Linux, or one without the devices that guests have (before 5.4).
pub fn release(root: &Path) -> Result<Release, BuildError> {
    let wrong = |why: String| {
        BuildError::input(
            format!("{} is not a source tree of Linux: {why}", root.display()),
            "a folder with the sources of Linux 5.7 or later, from `git clone` or a released \
             archive, or `--debian 6.12`",
        )
    };
    let makefile = root.join("Makefile");
    let text = input::text(&makefile, 16 << 20).map_err(|e| {
        let what = if root.is_dir() { "Makefile" } else { "folder" };
        wrong(format!("no {what} ({e})"))
    })?;
    if let Some(missing) = LANDMARKS.iter().find(|name| !root.join(name).is_file()) {
        return Err(wrong(format!("no {missing}")));
    }
    let value = |name: &str| {
        let mut lines = text.lines().take(40);
        lines.find_map(|l| Some(l.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim()))
    };
    let number = |name: &str| {
        let found = value(name).and_then(|v| v.parse::<u32>().ok());
        found.ok_or_else(|| wrong(format!("no {name} in its Makefile")))
    };
    let series = (number("VERSION")?, number("PATCHLEVEL")?);
    let text = format!(
        "{}.{}.{}{}",
        series.0,
        series.1,
        number("SUBLEVEL")?,
        value("EXTRAVERSION").unwrap_or("")
    );
    Ok(Release { series, text })
}

/// Returns the path of the archive of an installed Debian package of sources (`linux-source-6.12`),
/// by its version.
///
/// # Errors
/// The package is not installed; the error lists those that are.
pub fn archive(cache: &Cache, version: &str) -> Result<PathBuf, BuildError> {
    let found = archives(cache);
    if let Some((_, path)) = found.iter().find(|(v, _)| v == version) {
        return Ok(path.clone());
    }
    let numbers = version.split('.').all(|part| part.parse::<u32>().is_ok());
    let installed: Vec<&str> = found.iter().map(|(v, _)| v.as_str()).collect();
    let installed = match installed.as_slice() {
        [] => "none is installed".to_owned(),
        some => format!("installed: {}", some.join(", ")),
    };
    let accepted = if numbers {
        format!("`apt install linux-source-{version}` first; {installed}")
    } else {
        format!("a version such as 6.12; {installed}")
    };
    let what = format!("there is no {}", archive_name(cache, version).display());
    Err(BuildError::input(what, accepted))
}

/// Returns the path at which the Debian package of this version's sources installs its archive.
fn archive_name(cache: &Cache, version: &str) -> PathBuf {
    cache
        .packages
        .join(format!("linux-source-{version}.tar.xz"))
}

/// Returns the versions of the installed Debian packages of sources with the paths of their
/// archives, sorted.
fn archives(cache: &Cache) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(&cache.packages)
        .into_iter()
        .flatten()
        .flatten();
    let mut out: Vec<(String, PathBuf)> = entries
        .filter_map(|e| {
            let name = e.file_name().into_string().ok()?;
            let version = name
                .strip_prefix("linux-source-")?
                .strip_suffix(".tar.xz")?;
            Some((version.to_owned(), e.path()))
        })
        .collect();
    out.sort();
    out
}

/// Unpacks the archive of a Debian package of sources into the cache, unless that is done already,
/// and returns its scan. The archive's digest is in the folder's name, so that an updated package
/// is unpacked anew. A second process waits for the first.
///
/// # Errors
/// The archive can't be unpacked.
pub fn unpacked(
    cache: &Cache,
    version: &str,
    archive: &Path,
    watch: &mut dyn Watch,
) -> Result<Scan, BuildError> {
    let io = |doing| move |e| BuildError::io(doing, archive, e);
    let mut file = input::file(archive).map_err(io("can't read"))?;
    let mut digest = Sha256::new();
    std::io::copy(&mut file, &mut Feed(&mut digest)).map_err(io("can't read"))?;
    let name = format!("{version}-{}", &hex(&digest.finalize())[..16]);
    let folder = cache.sources().join(&name);
    let lock = lock_file(&cache.sources().join(format!("{version}.lock")))?;
    lock.lock().map_err(io("can't lock the unpacked"))?;
    let tree = folder.join("tree");
    let manifest = folder.join("manifest");
    if let Some(known) = fs::read(&manifest).ok().and_then(|t| Manifest::parse(&t)) {
        return Ok(Scan::known(tree, known));
    }
    // Unpacked older versions of the package are removed: private copies hold the files that they
    // need.
    for entry in fs::read_dir(cache.sources())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.rsplit_once('-').is_some_and(|(of, _)| of == version) {
            remove_folder(&entry.path())?;
        }
    }
    let partial = cache.sources().join(format!("{version}.partial"));
    remove_folder(&partial)?;
    let made = (|| {
        make_folder(&partial.join("tree"))?;
        watch.step(Step::Unpacking(archive));
        let mut log = Log::create(&partial.join("log"))?;
        let mut tar = tool("tar");
        tar.arg("-x")
            .arg("-f")
            .arg(archive)
            .arg("-C")
            .arg(partial.join("tree"))
            .args(["--strip-components=1", "--no-same-owner"]);
        log.run(tar, &lock, watch, |_, _| {})?
            .or_failed("unpacking the archive", &log)?;
        watch.step(Step::Reading);
        let scan = Scan::read(&partial.join("tree"))?;
        write_file(&partial.join("manifest"), &scan.manifest.text())?;
        fs::rename(&partial, &folder).map_err(|e| BuildError::io("can't move", &partial, e))?;
        Ok(scan.manifest)
    })();
    if made.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    Ok(Scan::known(tree, made?))
}

/// Writes into a digest.
struct Feed<'a>(&'a mut Sha256);

impl std::io::Write for Feed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_release_is_read_and_a_wrong_tree_named() {
        let dir = TempDir::new().unwrap();
        let root = dir.path();
        let said = |root: &Path| release(root).unwrap_err().to_string();
        assert!(said(&root.join("no")).contains("no folder"));
        assert!(said(root).contains("no Makefile"));
        let makefile =
            "# S\nVERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL = 0\nEXTRAVERSION = -rc3\nNAME = x\n";
        fs::write(root.join("Makefile"), makefile).unwrap();
        assert!(said(root).contains("no Kconfig"));
        for name in LANDMARKS {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        let found = release(root).unwrap();
        assert_eq!((found.series, found.text.as_str()), ((6, 13), "6.13.0-rc3"));
        fs::write(root.join("Makefile"), "all:\n").unwrap();
        assert!(said(root).contains("no VERSION"));
    }

    #[test]
    fn packages_that_are_not_there() {
        let dir = TempDir::new().unwrap();
        let mut cache = Cache::at(dir.path().join("cache")).unwrap();
        cache.packages = dir.path().to_owned();
        let help = |version: &str| archive(&cache, version).unwrap_err().help().unwrap();
        assert!(help("6.12").contains("apt install linux-source-6.12"));
        fs::write(dir.path().join("linux-source-6.1.tar.xz"), "").unwrap();
        assert!(help("6.12").contains("installed: 6.1"));
        assert!(!help("newest").contains("apt"));
        assert!(archive(&cache, "6.1").is_ok());
    }
}
