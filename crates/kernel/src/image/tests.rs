//! Tests of images with the host's own tools, skipped where they are missing. (CI has them.)

use super::*;
use tempfile::TempDir;

/// Compiles the preloaded library for the tests; `None`, with a message, where there is no
/// compiler.
fn preload(dir: &Path) -> Option<PathBuf> {
    let source = dir.join("fixed.c");
    fs::write(&source, crate::build::FIXED).unwrap();
    let library = dir.join("seed.so");
    let gcc = Command::new("gcc")
        .args(["-Wall", "-Werror", "-O2", "-fPIC", "-shared", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status();
    match gcc {
        Ok(status) => assert!(status.success(), "fixed.c"),
        Err(e) => {
            eprintln!("skipped: no gcc ({e})");
            return None;
        }
    }
    Some(library)
}

fn has(kind: FsKind) -> bool {
    let (name, package) = maker(kind).unwrap();
    let found = find_tool(name, package).is_ok();
    if !found {
        eprintln!("skipped: no {name}");
    }
    found
}

const SIZE: u64 = 512 << 20;

/// Images are equal although made at different times, by different processes, in different folders.
#[test]
fn two_calls_give_the_same_bytes() {
    let dir = TempDir::new().unwrap();
    let Some(preload) = preload(dir.path()) else {
        return;
    };
    for kind in KINDS.into_iter().filter(|k| has(*k)) {
        let [a, b] = ["a", "longer-name"].map(|name| dir.path().join(name));
        create(kind, SIZE, &a, &preload).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1100));
        create(kind, SIZE, &b, &preload).unwrap();
        let (bytes, other) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
        assert_eq!(bytes.len() as u64, SIZE);
        assert!(bytes == other, "{}", kind.name());
        let blocks = fs::metadata(&a).unwrap().blocks() * 512;
        assert!(
            blocks < 16 << 20,
            "{}: {blocks} bytes are no holes",
            kind.name()
        );
    }
}

#[test]
fn kept_images_are_copied() {
    let dir = TempDir::new().unwrap();
    let Some(preload) = preload(dir.path()).filter(|_| has(FsKind::Ext4)) else {
        return;
    };
    let images = Images::at(dir.path().join("images"));
    let first = images.get(FsKind::Ext4, 64 << 20, &preload).unwrap();
    let made = fs::metadata(&first).unwrap().ino();
    let to = dir.path().join("disk");
    images.put(FsKind::Ext4, 64 << 20, &preload, &to).unwrap();
    assert_eq!(
        fs::metadata(&first).unwrap().ino(),
        made,
        "it was made again"
    );
    assert!(fs::read(&first).unwrap() == fs::read(&to).unwrap());
    assert_ne!(images.get(FsKind::Ext4, 65 << 20, &preload).unwrap(), first);
    assert_eq!(fs::read_dir(dir.path().join("images")).unwrap().count(), 2);
}

/// Images are equal for the same files in another order, of another time and with another history.
#[test]
fn a_folder_gives_the_same_bytes() {
    let dir = TempDir::new().unwrap();
    let Some(preload) = preload(dir.path()).filter(|_| has(FsKind::Ext4)) else {
        return;
    };
    let make = |name: &str, files: &[&str]| {
        let root = dir.path().join(name);
        fs::create_dir_all(root.join("bin")).unwrap();
        for file in files {
            fs::write(
                root.join("bin").join(file),
                format!("{file}\n").repeat(3000),
            )
            .unwrap();
        }
        std::os::unix::fs::symlink("bin/a", root.join("link")).unwrap();
        let image = dir.path().join(format!("{name}.img"));
        let size = from_folder(&root, None, &image, &preload).unwrap();
        let bytes = fs::read(&image).unwrap();
        assert_eq!(bytes.len() as u64, size);
        (image, bytes)
    };
    let (image, bytes) = make("one", &["a", "b", "c", "d"]);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let (_, other) = make("two", &["d", "b", "a", "c"]);
    assert!(bytes == other);
    let mut check = Command::new("/sbin/e2fsck");
    check.args(["-f", "-n"]).arg(&image);
    if let Ok(output) = check.output() {
        assert!(output.status.success());
    }
}

#[test]
fn wrong_input_is_one_sentence() {
    let dir = TempDir::new().unwrap();
    let said = |e: ImageError| format!("{e}; {}", e.help().unwrap_or_default());
    let path = dir.path().join("disk");
    let e = create(FsKind::FuseNtfs, SIZE, &path, Path::new("no")).unwrap_err();
    assert_eq!(
        said(e),
        "a kernel guest has no fuse-ntfs; accepted: ext4, ext3, xfs, btrfs"
    );
    let e = find_tool("mkfs.none", "none-progs").unwrap_err();
    assert!(said(e).contains("apt install none-progs"));
    let e = from_folder(&dir.path().join("no"), None, &path, Path::new("no")).unwrap_err();
    assert!(said(e).contains("is not a folder"));
    let Some(preload) = preload(dir.path()) else {
        return;
    };
    if has(FsKind::Xfs) {
        let e = said(create(FsKind::Xfs, 1 << 20, &path, &preload).unwrap_err());
        assert!(
            e.contains("xfs can't be made on a disk of 1048576 bytes"),
            "{e}"
        );
    }
    if has(FsKind::Ext4) {
        fs::write(dir.path().join("big"), vec![1; 20 << 20]).unwrap();
        let e = from_folder(dir.path(), Some(8 << 20), &path, &preload).unwrap_err();
        assert!(said(e).contains("don't fit"));
    }
    assert!(!path.exists());
    let left = fs::read_dir(dir.path()).unwrap().flatten();
    assert!(
        !left
            .map(|e| e.file_name())
            .any(|n| n.to_string_lossy().ends_with(".new"))
    );
}
