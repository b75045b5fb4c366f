//! Temporary.
use sim::FsKind;
use std::path::Path;
use std::process::Command;
/// Temporary.
pub fn create(kind: FsKind, capacity: u64, path: &Path, _preload: &Path) -> Result<(), String> {
    let f = std::fs::File::create(path).map_err(|e| e.to_string())?;
    f.set_len(capacity).map_err(|e| e.to_string())?;
    let mut c = match kind.name() {
        "xfs" => {
            let mut c = Command::new("mkfs.xfs");
            c.args(["-q", "-f"]);
            c
        }
        "btrfs" => {
            let mut c = Command::new("mkfs.btrfs");
            c.args(["-q", "-f"]);
            c
        }
        n => {
            let mut c = Command::new("mke2fs");
            c.args([
                "-q",
                "-F",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
                "-t",
                n,
            ]);
            c
        }
    };
    let s = c.arg(path).status().map_err(|e| e.to_string())?;
    s.success().then_some(()).ok_or("mkfs".into())
}
/// Temporary.
pub fn swap(bytes: u64, path: &Path) -> Result<(), String> {
    std::fs::File::create(path)
        .and_then(|f| f.set_len(bytes))
        .map_err(|e| e.to_string())?;
    let s = Command::new("mkswap")
        .arg("-q")
        .arg(path)
        .status()
        .map_err(|e| e.to_string())?;
    s.success().then_some(()).ok_or("mkswap".into())
}
