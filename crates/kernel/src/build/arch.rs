//! The purpose of a kernel: an ordinary program of the host (User-Mode Linux), or an x86-64
//! machine of QEMU with Lowmark's driver of its disks built in.

use super::error::BuildError;
use super::for_qemu::DRIVER;
use super::patch::Patched;
use super::scan::{Kind, Scan};
use super::source::Release;
use std::path::Path;

/// The purpose of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arch {
    /// User-Mode Linux: one CPU, one node.
    #[default]
    Um,
    /// QEMU guests: several CPUs, nodes and zones.
    X86_64,
}

impl Arch {
    /// Returns the kernel's own word, as `ARCH=` has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Um => "um",
            Self::X86_64 => "x86_64",
        }
    }

    /// Returns make's target, and the file that a guest boots: its place among the objects, and its
    /// name in the kernel's folder.
    pub(super) fn image(self) -> [&'static str; 3] {
        match self {
            Self::Um => ["linux", "linux", "linux"],
            Self::X86_64 => ["bzImage", "arch/x86/boot/bzImage", "vmlinuz"],
        }
    }
}

/// The makefile that takes the driver in.
const MAKEFILE: &str = "drivers/block/Makefile";

/// Adds the driver of Lowmark's disks to a tree, built in.
///
/// # Errors
/// The tree has no block drivers where Linux has them.
pub(super) fn add_driver(
    patched: &mut Patched,
    scan: &Scan,
    release: &Release,
) -> Result<(), BuildError> {
    let path = Path::new(MAKEFILE);
    let Some((kind, mut bytes)) = patched.read(scan, path).ok().flatten() else {
        return Err(BuildError::input(
            format!("Linux {release} has no {MAKEFILE}"),
            "a tree of Linux with its block drivers",
        ));
    };
    bytes.extend_from_slice(b"\nobj-y += lowmark/\n");
    patched.0.insert(path.to_owned(), Some((kind, bytes)));
    let folder = Path::new("drivers/block/lowmark");
    let makefile = (
        "Makefile",
        "# SPDX-License-Identifier: GPL-2.0\nobj-y := lowmark.o\n",
    );
    for (name, text) in DRIVER.into_iter().chain([makefile]) {
        let file = Some((Kind::Plain, text.as_bytes().to_vec()));
        patched.0.insert(folder.join(name), file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_driver_is_built_into_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let release = Release {
            series: (6, 12),
            text: "6.12".into(),
        };
        let add = || {
            let scan = Scan::read(dir.path()).unwrap();
            let mut patched = Patched::default();
            add_driver(&mut patched, &scan, &release).map(|()| patched)
        };
        let e = add().unwrap_err().to_string();
        assert!(e.contains("6.12 has no drivers/block/Makefile"), "{e}");
        fs::create_dir_all(dir.path().join("drivers/block")).unwrap();
        fs::write(dir.path().join(MAKEFILE), "obj-y += loop.o\n").unwrap();
        let patched = add().unwrap();
        let text = |path: &str| {
            let file = patched.0.get(Path::new(path)).and_then(Option::as_ref);
            String::from_utf8(file.expect(path).1.clone()).unwrap()
        };
        assert_eq!(text(MAKEFILE), "obj-y += loop.o\n\nobj-y += lowmark/\n");
        assert!(text("drivers/block/lowmark/Makefile").ends_with("obj-y := lowmark.o\n"));
        for (name, source) in DRIVER {
            assert_eq!(text(&format!("drivers/block/lowmark/{name}")), source);
        }
        assert_eq!(patched.0.len(), 4);
    }
}
