//! Kernels for QEMU guests as they are kept, whether added or built.
//!
//! ```text
//! qemu/kernels/NAME/   vmlinuz, seed.so, kernel.toml; modules/NN-NAME.ko in the order of loading,
//!                      if drivers are not built in; config and log of a kernel that was built
//! ```

use super::cache::Cache;
use super::error::BuildError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Largest configuration that is read, in bytes.
const MOST: u64 = 16 << 20;

/// The driver's sources.
pub(crate) const DRIVER: [(&str, &str); 2] = [
    ("lowmark.c", include_str!("../../driver/lowmark.c")),
    ("lowmark.h", include_str!("../../driver/lowmark.h")),
];

/// The record of a kernel: `kernel.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The release as `uname -r` prints it in a guest.
    pub release: String,
    /// The image that was taken; of a kernel that was built, its sources, patches and fragments.
    pub image: String,
    /// The digest of image, modules and driver, or of the inputs of a build, in hexadecimal digits.
    pub digest: String,
    /// Ticks a second of its timer.
    pub hz: u32,
    /// Modules by feature (`ext4`; empty: for every guest), in the order of loading.
    pub modules: Vec<(String, Vec<String>)>,
}

/// A kernel for QEMU guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The name under which it was looked up.
    pub name: String,
    /// The folder of its files.
    pub folder: PathBuf,
    /// How it was made.
    pub record: Record,
}

impl Installed {
    /// Returns the compressed image.
    pub fn image(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Returns the library to preload for tools that make filesystems.
    pub fn preload(&self) -> PathBuf {
        self.folder.join("seed.so")
    }
}

/// Returns the ticks a second of a kernel, from the configuration in its headers or objects.
pub(crate) fn ticks(headers: &Path) -> Option<u32> {
    let text = input::text(&headers.join(".config"), MOST).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="))?;
    line.trim().parse().ok()
}

/// Returns the folder of added kernels.
pub(crate) fn folder(cache: &Cache) -> PathBuf {
    cache.root().join("qemu/kernels")
}

/// Opens the kernel in `folder`.
///
/// # Errors
/// Its record is missing or damaged.
pub(crate) fn open(name: &str, folder: &Path) -> Result<Installed, BuildError> {
    let path = folder.join("kernel.toml");
    let text = fs::read_to_string(&path).map_err(|e| BuildError::io("can't read", &path, e))?;
    let record = toml::from_str(&text).map_err(|e| {
        BuildError::input(
            format!("{}: {}", path.display(), e.message()),
            format!("`lowmark kernel remove {name}`, and adding the kernel again"),
        )
    })?;
    Ok(Installed {
        name: name.to_owned(),
        folder: folder.to_owned(),
        record,
    })
}
