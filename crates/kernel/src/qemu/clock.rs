//! The clock of QEMU guests: a library that makes their virtual time of executed instructions.
//!
//! `clock/vt.c` is a plugin of QEMU's translator and a preloaded library in one; its head says how
//! time passes. A guest's CPU has no caches and no frequency here: its speed is a number of
//! instructions a virtual second, whatever they are.

use crate::build::Cache;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::PathBuf;

/// The library; empty if it could not be compiled.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// The reason why it could not be compiled.
const MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/clock-missing"));

/// Nanoseconds of a window, in which each CPU runs after the others: CPUs see what another one did
/// (a lock, an interrupt between CPUs) at most so much later.
pub const QUANTUM_NS: u64 = 2_000;

/// The default speed of a CPU, in millions of instructions a virtual second.
pub const MIPS: u64 = 2_000;

/// Returns a digest of the library, in hexadecimal digits.
pub fn digest() -> String {
    crate::build::hex(&Sha256::digest(LIBRARY)[..10])
}

/// Writes the library into the user's cache, unless it is there already, and returns its path.
///
/// # Errors
/// This program was built without the library, or the cache can't be written; in one line.
pub fn library() -> Result<PathBuf, String> {
    if LIBRARY.is_empty() {
        return Err(format!(
            "this lowmark was built without the clock of QEMU guests: {MISSING}"
        ));
    }
    let cache = Cache::of_user().map_err(|e| e.to_string())?;
    let folder = cache.root().join("qemu");
    let path = folder.join(format!("clock-{}.so", digest()));
    if fs::read(&path).is_ok_and(|bytes| bytes == LIBRARY) {
        return Ok(path);
    }
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(&folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        std::io::Write::write_all(&mut file, LIBRARY)?;
        file.persist(&path)?;
        Ok(())
    };
    written().map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_shared_library_or_says_why_not() {
        if LIBRARY.is_empty() {
            assert!(!MISSING.is_empty() && !MISSING.contains('\n'), "{MISSING}");
        } else {
            assert!(LIBRARY.starts_with(b"\x7fELF") && MISSING.is_empty());
        }
    }
}
