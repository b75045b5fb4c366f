//! Loads the modules of a kernel that does not have all drivers built in.

use super::{Step, of};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of modules in the initramfs, whose names begin with their place in the order of
/// loading.
const FOLDER: &str = "/modules";

/// Loads all modules in order, and removes their files, which take memory.
pub(super) fn load() -> Step {
    for path in in_order(Path::new(FOLDER))? {
        let file = fs::File::open(&path).map_err(of(path.display()))?;
        let loaded = rustix::system::finit_module(&file, c"", 0);
        loaded.map_err(of(format_args!("module {}", path.display())))?;
        fs::remove_file(&path).map_err(of(path.display()))?;
    }
    Ok(())
}

/// Returns the files of a folder in the order of their names; none if there is no such folder.
fn in_order(folder: &Path) -> Step<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(of(folder.display()))?.path());
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["10-ext4.ko", "02-jbd2.ko", "00-lowmark.ko"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let files = in_order(dir.path()).unwrap();
        let names: Vec<&str> = files
            .iter()
            .filter_map(|path| path.file_name()?.to_str())
            .collect();
        assert_eq!(names, ["00-lowmark.ko", "02-jbd2.ko", "10-ext4.ko"]);
        assert!(in_order(&dir.path().join("none")).unwrap().is_empty());
    }
}
