//! New filesystems are kept: the same disk is wanted by every job of an experiment.

use super::error::ImageError;
use super::{MADE, MKE2FS, create, find_tool, maker, options, sparse};
use sha2::{Digest as _, Sha256};
use sim::FsKind;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Counts up when the same inputs would give another image.
const FORM: u32 = 1;

/// Images by what they were made from.
#[derive(Debug, Clone)]
pub struct Images {
    folder: PathBuf,
}

impl Images {
    /// Those in this folder ([`crate::build::Cache::images`]), which need not be there yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { folder }
    }

    /// The image of a new filesystem, made now if there is none yet. Nobody writes to it: [`Images::put`]
    /// copies it.
    ///
    /// # Errors
    /// As [`create`].
    pub fn get(&self, kind: FsKind, capacity: u64, preload: &Path) -> Result<PathBuf, ImageError> {
        let (name, package) = maker(kind)?;
        let tool = find_tool(name, package)?;
        let mut all = Sha256::new();
        all.update(format!(
            "{FORM} {MADE} {capacity} {:?}\n{MKE2FS}",
            options(kind)
        ));
        all.update(fs::read(preload).map_err(|e| ImageError::io("can't read", preload, e))?);
        // Both streams: mke2fs says its version on the second.
        let version = Command::new(&tool).arg("-V").env("LC_ALL", "C").output();
        let version = version.map_err(|e| ImageError::io("can't run", &tool, e))?;
        all.update(version.stdout);
        all.update(version.stderr);
        let key: String = all.finalize()[..10]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let path = self
            .folder
            .join(format!("{}-{capacity}-{key}.img", kind.name()));
        if !path.is_file() {
            let made = fs::create_dir_all(&self.folder);
            made.map_err(|e| ImageError::io("can't make", &self.folder, e))?;
            create(kind, capacity, &path, preload)?;
        }
        Ok(path)
    }

    /// Copies a new filesystem into a new file at `to`, holes as holes.
    ///
    /// # Errors
    /// As [`create`].
    pub fn put(
        &self,
        kind: FsKind,
        capacity: u64,
        preload: &Path,
        to: &Path,
    ) -> Result<(), ImageError> {
        sparse::copy(&self.get(kind, capacity, preload)?, to)
    }
}
