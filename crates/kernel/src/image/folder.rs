//! A digest of a folder's contents.

use super::error::ImageError;
use crate::build::hex;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns a digest of all that an image takes from a folder ([`super::from_folder`]), in
/// hexadecimal digits: names, kinds, modes, contents and targets of links, but not owners and
/// times.
///
/// # Errors
/// The path is no folder, or something in it can't be read.
pub fn digest(root: &Path) -> Result<String, ImageError> {
    if !root.is_dir() {
        return Err(ImageError::input(
            format!("{} is not a folder", root.display()),
            "a folder for a guest's root, with programs and the files that they need",
        ));
    }
    let mut sum = Sha256::new();
    add(root, Path::new(""), &mut sum)?;
    Ok(hex(&sum.finalize()[..16]))
}

/// Adds the names, modes and contents of everything in the folder `below` (a path below `root`) to
/// the digest, sorted by name, subfolders included.
fn add(root: &Path, below: &Path, sum: &mut Sha256) -> Result<(), ImageError> {
    let folder = root.join(below);
    let io = |e| ImageError::io("can't read", &folder, e);
    let mut names = fs::read_dir(&folder)
        .and_then(|all| {
            all.map(|e| e.map(|e| e.file_name()))
                .collect::<io::Result<Vec<_>>>()
        })
        .map_err(io)?;
    names.sort();
    for name in names {
        let (below, path) = (below.join(&name), folder.join(&name));
        let io = |e| ImageError::io("can't read", &path, e);
        let meta = fs::symlink_metadata(&path).map_err(io)?;
        let kind = meta.file_type();
        let mut part = |bytes: &[u8]| {
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        };
        part(below.as_os_str().as_bytes());
        // The mode includes the kind.
        part(&meta.mode().to_le_bytes());
        if kind.is_symlink() {
            part(fs::read_link(&path).map_err(io)?.as_os_str().as_bytes());
        } else if kind.is_file() {
            part(&meta.size().to_le_bytes());
            let mut file = File::open(&path).map_err(io)?;
            let mut buffer = vec![0; 64 << 10];
            loop {
                match file.read(&mut buffer).map_err(io)? {
                    0 => break,
                    n => sum.update(&buffer[..n]),
                }
            }
        } else if kind.is_dir() {
            add(root, &below, sum)?;
        } else {
            part(&meta.rdev().to_le_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn what_is_in_an_image_is_in_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("bin")).unwrap();
        let mut seen = vec![digest(dir.path()).unwrap()];
        let mut changed = |what: &str| {
            let now = digest(dir.path()).unwrap();
            assert!(!seen.contains(&now), "{what}");
            assert_eq!(now, digest(dir.path()).unwrap());
            seen.push(now);
        };
        fs::write(path("bin/sh"), "one").unwrap();
        changed("a file");
        fs::write(path("bin/sh"), "two").unwrap();
        changed("its contents");
        fs::set_permissions(path("bin/sh"), fs::Permissions::from_mode(0o755)).unwrap();
        changed("its mode");
        symlink("bin", path("sbin")).unwrap();
        changed("a link");
        fs::rename(path("sbin"), path("usr")).unwrap();
        changed("a name");
        assert!(digest(&path("bin/sh")).is_err());
        assert!(
            digest(&path("none"))
                .unwrap_err()
                .to_string()
                .contains("is not a folder")
        );
    }
}
