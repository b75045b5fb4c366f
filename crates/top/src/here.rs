//! Samples the running Linux.

use crate::look::{FILES, Look};
use crate::tasks;
use machine::{Captured, Root, describe};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The system below a root.
#[derive(Debug)]
pub struct Here {
    root: PathBuf,
    begun: Instant,
    /// The kernel's release.
    pub release: String,
    /// The disks to show, that of the root filesystem first.
    pub disks: Vec<String>,
}

/// The longest file that is read, in bytes.
const MOST: u64 = 64 << 20;

impl Here {
    /// Determines the kernel's release and the disks of the system whose files lie below `root`
    /// (`/`, or a copy in tests). The disk that is likely to hold the root filesystem comes first.
    ///
    /// # Errors
    /// `/proc/vmstat` can't be read; in one line.
    pub fn new(root: &Path) -> Result<Self, String> {
        let vmstat = root.join("proc/vmstat");
        input::bytes(&vmstat, MOST).map_err(|e| format!("can't read {}: {e}", vmstat.display()))?;
        let release = input::text(&root.join("proc/sys/kernel/osrelease"), MOST);
        let mut here = Self {
            root: root.to_owned(),
            begun: Instant::now(),
            release: release.map_or_else(|_| "Linux".to_owned(), |r| r.trim().to_owned()),
            disks: Vec::new(),
        };
        here.disks = match Captured::read(&Root::at(root)) {
            Ok(captured) => {
                let likely = describe::likely_disk(&captured).map(|d| d.name.clone());
                let names = captured.disks.iter().map(|d| d.name.clone());
                let others = names.filter(|n| Some(n) != likely.as_ref());
                likely.clone().into_iter().chain(others).collect()
            }
            Err(_) => here.look().busy_disks(),
        };
        Ok(here)
    }

    /// Reads the files of a look and the states of all tasks. A file that can't be read is missing
    /// in the look.
    pub fn look(&self) -> Look {
        let at = self.begun.elapsed().as_nanos() as u64;
        let text = |path: &&'static str| {
            let path_here = self.root.join(path.trim_start_matches('/'));
            let bytes = input::bytes(&path_here, MOST).ok()?;
            Some((*path, String::from_utf8_lossy(&bytes).into_owned()))
        };
        let files: BTreeMap<&str, String> = FILES.iter().filter_map(text).collect();
        let tasks = tasks::look(&self.root.join("proc"));
        Look::of(at, |path| files.get(path).map(String::as_str), tasks)
    }
}
