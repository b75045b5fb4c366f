//! The record of a build that is kept beside the kernel: `build.toml`.

use super::cache::{Cache, bytes_below};
use super::error::BuildError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How a kernel was built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The name under which it was first built.
    pub name: String,
    /// The release as `uname -r` prints it in a guest.
    pub release: String,
    /// The digest of all inputs, in hexadecimal digits.
    pub hash: String,
    /// The source tree or the package.
    pub source: String,
    /// The user's patches, in the order in which they were applied.
    pub patches: Vec<String>,
    /// The user's configuration fragments.
    pub fragments: Vec<String>,
    /// Lowmark's own patches.
    pub own_patches: Vec<String>,
    /// Whether one of its own patches makes computation take virtual time.
    pub costs: bool,
    /// Ticks a second of its timer.
    #[serde(default = "usual_ticks")]
    pub hz: u32,
    /// Symbols of our fragment that this kernel does not know.
    pub unknown: Vec<String>,
    /// The digest of the inputs that come with the program: fragment, patches, preloaded library.
    pub ours: String,
    /// The first line of the compiler's `--version`.
    pub compiler: String,
    /// The time of the build, in UTC.
    pub built: String,
    /// The duration of the build, in seconds of wall time.
    pub seconds: f64,
    /// The number of compilers that ran at a time.
    pub jobs: usize,
    /// The number of steps that make took.
    pub steps: u64,
    /// Whether the build started without objects of an earlier one.
    pub whole: bool,
}

/// Returns the timer frequency of builds whose record does not state it.
fn usual_ticks() -> u32 {
    super::ticks::HZ
}

/// A finished kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The name under which it was looked up.
    pub name: String,
    /// The release as `uname -r` prints it in a guest.
    pub release: String,
    /// The kernel's folder.
    pub folder: PathBuf,
    /// The executable.
    pub linux: PathBuf,
    /// The library to preload: it takes random numbers from a seed (`LOWMARK_SEED`).
    pub preload: PathBuf,
    /// The digest of all inputs, in hexadecimal digits.
    pub hash: String,
    /// The record of its build.
    pub record: Record,
}

impl Built {
    /// Opens the finished kernel in `folder`: reads its record and checks that its files are there.
    /// `name` is the name under which it was looked up.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn open(name: &str, folder: &Path) -> Result<Self, BuildError> {
        let damaged = |why: String| {
            BuildError::input(
                format!("kernel {name} is damaged: {why}"),
                format!("`lowmark kernel remove {name}`, and building it again"),
            )
        };
        let file = folder.join("build.toml");
        let text = fs::read_to_string(&file)
            .map_err(|e| damaged(format!("can't read {}: {e}", file.display())))?;
        let record: Record = toml::from_str(&text)
            .map_err(|e| damaged(format!("{}: {}", file.display(), e.message())))?;
        let (linux, preload) = (folder.join("linux"), folder.join("seed.so"));
        for needed in [&linux, &preload] {
            if !needed.is_file() {
                return Err(damaged(format!("no {}", needed.display())));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            release: record.release.clone(),
            folder: folder.to_owned(),
            linux,
            preload,
            hash: record.hash.clone(),
            record,
        })
    }
}

/// A line of `lowmark kernel list`.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The name.
    pub name: String,
    /// The kernel, or the reason why there is none.
    pub built: Result<Built, String>,
    /// Bytes on disk of the kernel and of those built under this name before.
    pub bytes: u64,
    /// Bytes on disk of the work folder, from which the next build of this name starts.
    pub work_bytes: u64,
}

/// Returns the sorted names of finished kernels and of unfinished builds in the cache.
pub fn names(cache: &Cache) -> Vec<String> {
    let of = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok())
    };
    let mut out: Vec<String> = of(cache.names()).chain(of(cache.works())).collect();
    out.retain(|name| super::check_name(name).is_ok());
    out.sort();
    out.dedup();
    out
}

/// Returns the finished kernel with this name; `None`: there is none.
///
/// # Errors
/// The kernel is damaged.
pub fn by_name(cache: &Cache, name: &str) -> Result<Option<Built>, BuildError> {
    let Some(key) = key_of(cache, name) else {
        return Ok(None);
    };
    Built::open(name, &cache.kernels().join(key)).map(Some)
}

/// Returns the key (name of the folder) of the kernel to which a name points; `None` if the name
/// points to none.
pub fn key_of(cache: &Cache, name: &str) -> Option<String> {
    let key = fs::read_to_string(cache.names().join(name)).ok()?;
    Some(key.trim().to_owned())
}

/// Returns the keys (names of folders) of all finished kernels first built under a name, including
/// the current one.
pub fn of_name(cache: &Cache, name: &str) -> Vec<String> {
    let entries = fs::read_dir(cache.kernels())
        .into_iter()
        .flatten()
        .flatten();
    let keys = entries.filter_map(|e| {
        let built = Built::open(name, &e.path()).ok()?;
        (built.record.name == name).then(|| e.file_name().into_string().ok())?
    });
    keys.collect()
}

/// Lists all names in the cache with their kernels, or the reason why there is none, and sizes on
/// disk.
pub fn listed(cache: &Cache) -> Vec<Listed> {
    let one = |name: String| {
        let key = key_of(cache, &name);
        let built = match by_name(cache, &name) {
            Ok(Some(built)) => Ok(built),
            Ok(None) => Err("not finished".to_owned()),
            Err(e) => Err(e.to_string()),
        };
        Listed {
            bytes: key
                .into_iter()
                .chain(of_name(cache, &name))
                .collect::<BTreeSet<_>>()
                .iter()
                .map(|key| bytes_below(&cache.kernels().join(key)))
                .sum(),
            work_bytes: bytes_below(&cache.work(&name)),
            built,
            name,
        }
    };
    names(cache).into_iter().map(one).collect()
}

/// Returns the record of an earlier whole build, from which the duration of the next is estimated:
/// the latest of the same series (`6.12`) as `release`, else the latest of any; `None` if there is
/// none.
pub fn earlier(cache: &Cache, release: &str) -> Option<Record> {
    let entries = fs::read_dir(cache.kernels()).ok()?.flatten();
    let records = entries.filter_map(|e| Some(Built::open("", &e.path()).ok()?.record));
    let mut records: Vec<Record> = records.filter(|r| r.whole).collect();
    let series = |text: &str| text.split('.').take(2).collect::<Vec<_>>().join(".");
    records.sort_by_key(|r| (series(&r.release) == series(release), r.built.clone()));
    records.pop()
}
