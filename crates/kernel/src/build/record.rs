//! What is kept of a build beside the kernel: `build.toml`.

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
    /// The name that it was first built under.
    pub name: String,
    /// As `uname -r` says in a guest.
    pub release: String,
    /// The digest of everything that it was built from, in hexadecimal digits.
    pub hash: String,
    /// The tree or the package.
    pub source: String,
    /// The user's patches, in the order in which they were applied.
    pub patches: Vec<String>,
    /// The user's fragments.
    pub fragments: Vec<String>,
    /// Patches of ours.
    pub own_patches: Vec<String>,
    /// Whether one of them makes computing take time.
    pub costs: bool,
    /// Ticks a second of its timer.
    #[serde(default = "usual_ticks")]
    pub hz: u32,
    /// Symbols that we want and this kernel does not know.
    pub unknown: Vec<String>,
    /// The digest of what of this comes with the program: fragment, patches, preloaded library.
    pub ours: String,
    /// The compiler.
    pub compiler: String,
    /// When it was built, in UTC.
    pub built: String,
    /// How long that took, in seconds of wall time.
    pub seconds: f64,
    /// Compilers at a time.
    pub jobs: usize,
    /// Steps that make took.
    pub steps: u64,
    /// Whether it began without objects of an earlier build.
    pub whole: bool,
}

/// What builds have whose record does not say it.
fn usual_ticks() -> u32 {
    super::ticks::HZ
}

/// A kernel that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The name that it was asked for by.
    pub name: String,
    /// As `uname -r` says in a guest.
    pub release: String,
    /// Where it is.
    pub folder: PathBuf,
    /// The executable.
    pub linux: PathBuf,
    /// The library to preload: random numbers from a seed (`LOWMARK_SEED`).
    pub preload: PathBuf,
    /// The digest of everything that it was built from, in hexadecimal digits.
    pub hash: String,
    /// How it was built.
    pub record: Record,
}

impl Built {
    /// The kernel in a finished folder.
    ///
    /// # Errors
    /// Something of it is missing.
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
    /// The kernel, or why there is none.
    pub built: Result<Built, String>,
    /// Bytes of the disk that the kernel has, with those that were built under this name before.
    pub bytes: u64,
    /// Bytes of the disk that the next build of this name begins with.
    pub work_bytes: u64,
}

/// Names that kernels are kept under, in their order; with those of which there is only a beginning.
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

/// A kernel by its name; `None`: there is none.
///
/// # Errors
/// There is one, damaged.
pub fn by_name(cache: &Cache, name: &str) -> Result<Option<Built>, BuildError> {
    let Some(key) = key_of(cache, name) else {
        return Ok(None);
    };
    Built::open(name, &cache.kernels().join(key)).map(Some)
}

/// The key that a name stands for.
pub fn key_of(cache: &Cache, name: &str) -> Option<String> {
    let key = fs::read_to_string(cache.names().join(name)).ok()?;
    Some(key.trim().to_owned())
}

/// The keys of the kernels that were built under a name, the one that it stands for now among them.
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

/// All that is kept.
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

/// What an earlier build says of how long one takes: that of the same release, or else any other.
pub fn earlier(cache: &Cache, release: &str) -> Option<Record> {
    let entries = fs::read_dir(cache.kernels()).ok()?.flatten();
    let records = entries.filter_map(|e| Some(Built::open("", &e.path()).ok()?.record));
    let mut records: Vec<Record> = records.filter(|r| r.whole).collect();
    let series = |text: &str| text.split('.').take(2).collect::<Vec<_>>().join(".");
    records.sort_by_key(|r| (series(&r.release) == series(release), r.built.clone()));
    records.pop()
}
