//! The contents of a run's disks when its workload starts.

use crate::build::hex;
use crate::guest;
use crate::image::{self, ALIGN, ImageError, Images};
use ::guest::wire::Job;
use sha2::{Digest as _, Sha256};
use sim::spec::{FsKind, RunSpec};
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the layout; raised when the same inputs would give other disks.
const FORM: u32 = 1;

/// The disks of a run, in the guest's order.
pub struct Layout<'a> {
    spec: &'a RunSpec,
    preload: &'a Path,
    digest: &'a str,
    images: Images,
    /// The disks' files, in the run's folder.
    pub paths: Vec<PathBuf>,
}

impl<'a> Layout<'a> {
    /// Describes the disks of a run in this folder; nothing is made yet. `preload` is the library
    /// with which filesystems are made in a fixed form, `digest` that of the kernel.
    pub fn new(
        spec: &'a RunSpec,
        (preload, digest): (&'a Path, &'a str),
        images: Images,
        folder: &Path,
    ) -> Self {
        let paths =
            (0..guest::disks(&spec.machine).count()).map(|i| folder.join(format!("image{i}")));
        Self {
            paths: paths.collect(),
            spec,
            preload,
            digest,
            images,
        }
    }

    /// Returns true if the workload or the boot finds files on the disks, which have to be laid out
    /// before the workload starts.
    pub fn finds(&self) -> bool {
        let script = &self.spec.workload;
        let found = !script.files.is_empty() || !script.directories.is_empty();
        found || self.spec.machine.boot.cache.0 > 0
    }

    /// Returns the kind of each filesystem and its size in bytes. As in the engine, swap on the
    /// tested disk is taken from the first filesystem's space.
    fn filesystems(&self) -> impl Iterator<Item = (FsKind, u64)> {
        let machine = &self.spec.machine;
        let swap = machine.swap.as_ref().filter(|s| s.disk.is_none());
        // The partition table before the first partition, and swap rounded up to whole partitions.
        let taken = swap.map(|s| ALIGN + s.size.0.next_multiple_of(ALIGN));
        let mounted = machine.mounted().enumerate();
        mounted.map(move |(i, m)| {
            let kind = m.filesystem.unwrap_or(self.spec.filesystem);
            let capacity = m.disk.capacity.0;
            let bytes = match taken.filter(|_| i == 0) {
                Some(taken) => capacity.saturating_sub(taken) / ALIGN * ALIGN,
                None => capacity,
            };
            (kind, bytes)
        })
    }

    /// Makes the files of the disks as new: empty filesystems, and swap areas.
    ///
    /// # Errors
    /// An image can't be made.
    pub fn fresh(&self) -> Result<(), ImageError> {
        let preload = self.preload;
        for (i, (kind, bytes)) in self.filesystems().enumerate() {
            let path = &self.paths[i];
            // Swap without a disk of its own becomes the second partition of the first filesystem's
            // disk.
            match self.swap_behind(i) {
                Some(swap) => {
                    let image = self.images.get(kind, bytes, preload)?;
                    image::partitioned(&image, swap, path)?;
                }
                None => self.images.put(kind, bytes, preload, path)?,
            }
        }
        let swap = self.spec.machine.swap.as_ref();
        match swap.filter(|s| s.disk.is_some()) {
            Some(swap) => image::swap_header(&self.paths[self.paths.len() - 1], swap.size.0),
            None => Ok(()),
        }
    }

    /// Returns the bytes of swap that share the disk of the filesystem with this index; `None` if
    /// none do.
    fn swap_behind(&self, filesystem: usize) -> Option<u64> {
        let shared = filesystem == 0 && guest::swap_is_shared(self.spec);
        let swap = self.spec.machine.swap.as_ref().filter(|_| shared);
        swap.map(|s| s.size.0)
    }

    /// Returns the key under which laid-out disks are kept: a digest, in hex, of all inputs of the
    /// guest that lays them out, among them its job and its kernel's arguments.
    ///
    /// # Errors
    /// As [`Self::fresh`].
    pub fn key(&self, job: &Job, arguments: &[String]) -> Result<String, String> {
        let mut all = Sha256::new();
        let mut part = |bytes: &[u8]| {
            all.update((bytes.len() as u64).to_le_bytes());
            all.update(bytes);
        };
        part(&FORM.to_le_bytes());
        part(self.digest.as_bytes());
        part(crate::guest_binary()?);
        part(&serde_json::to_vec(job).map_err(|e| e.to_string())?);
        part(arguments.join(" ").as_bytes());
        part(format!("{:?}", self.spec.machine.swap.as_ref().map(|s| s.size.0)).as_bytes());
        for (kind, bytes) in self.filesystems() {
            let image = self.images.get(kind, bytes, self.preload);
            let image = image.map_err(|e| said(&e))?;
            part(image.file_name().unwrap_or_default().as_encoded_bytes());
        }
        Ok(hex(&all.finalize()[..10]))
    }

    /// Copies the disks that were laid out in an earlier run under this key; returns false if none
    /// are kept, and then leaves no file behind.
    ///
    /// # Errors
    /// The disks can't be copied.
    pub fn again(&self, key: &str) -> Result<bool, ImageError> {
        let found = self.images.copy_disks(key, &self.paths)?;
        if !found {
            for path in &self.paths {
                let _ = fs::remove_file(path);
            }
        }
        Ok(found)
    }

    /// Keeps the disks in their present state under this key for later runs. If there is no space,
    /// the next run lays them out again.
    ///
    /// # Errors
    /// The disks can't be read.
    pub fn keep(&self, key: &str) -> Result<(), ImageError> {
        match self.images.keep_disks(key, &self.paths) {
            Err(ImageError::Full(_)) => Ok(()),
            kept => kept,
        }
    }

    /// Returns the path of the image of the root folder from which a user's own program runs in the
    /// guest; makes the image if needed.
    ///
    /// # Errors
    /// The image can't be made.
    pub fn root(&self, foreign: &workload::Foreign) -> Result<PathBuf, ImageError> {
        let preload = self.preload;
        self.images
            .of_folder(&foreign.root, &foreign.digest, preload)
    }
}

/// Formats an error together with the input that would be accepted.
pub fn said(e: &ImageError) -> String {
    e.help()
        .map_or_else(|| e.to_string(), |help| format!("{e}; {help}"))
}
