//! Lays out directories and files before a workload: the files are written with zeroes, so that
//! reading them causes I/O.

use super::{CACHE, ROOT, Step, of};
use crate::wire::Job;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A file of at least this many bytes is written to disk before the next is started, so that each
/// is as contiguous as its filesystem allows.
const LARGE: u64 = 1 << 20;

/// Lays out the directories and files of a job's script on the mounted filesystems, and the file
/// that fills the cache at boot; all is on the disks at the end.
pub(super) fn lay_out(job: &Job) -> Step {
    let root = Path::new(ROOT);
    if job.boot.cache > 0 {
        write_zeroes(&root.join(CACHE), job.boot.cache)?;
    }
    for path in &job.directories {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(&path).map_err(of(path.display()))?;
    }
    for (path, len) in &job.files {
        write_zeroes(&root.join(path.trim_start_matches('/')), *len)?;
    }
    rustix::fs::sync();
    Ok(())
}

/// Writes a file of `len` zeroes, and the directories above it. A large file is on disk before the
/// next one begins, so that each is contiguous.
fn write_zeroes(path: &Path, len: u64) -> Step {
    let write = || -> io::Result<()> {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        let mut file = File::create(path)?;
        let zeroes = vec![0; len.min(LARGE) as usize];
        let mut left = len;
        while left > 0 {
            let piece = left.min(LARGE);
            file.write_all(&zeroes[..piece as usize])?;
            left -= piece;
        }
        if len >= LARGE {
            file.sync_all()
        } else {
            Ok(())
        }
    };
    write().map_err(of(format_args!("{} ({len} bytes)", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        write_zeroes(&path, (3 << 20) + 5).unwrap();
        let file = fs::metadata(&path).unwrap();
        assert_eq!(file.len(), (3 << 20) + 5);
        assert!(file.blocks() * 512 >= file.len(), "no holes");
        let error = write_zeroes(&path.join("c"), 1).unwrap_err();
        assert!(error.contains("(1 bytes)"), "{error}");
    }
}
