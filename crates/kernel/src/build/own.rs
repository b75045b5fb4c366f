//! Lowmark's own patches to guests' kernels, and the releases that each is made for.
//!
//! To add one: put a file into `patches/` (GPL-2.0, as the kernel, which its first line says) and
//! add a line to [`ALL`]. For a release without a line of its own the nearest older one is tried,
//! or else the oldest.

use super::error::BuildError;
use super::patch::{Patch, Patched};
use super::scan::Scan;
use super::source::Release;

/// A patch that comes with the program.
#[derive(Debug)]
pub struct Own {
    /// The file's name.
    pub file: &'static str,
    /// The file's contents.
    pub text: &'static str,
    /// The release that the patch is made for, by its first two numbers.
    pub series: (u32, u32),
}

/// All patches, oldest release first. They make computation take virtual time.
pub const ALL: &[Own] = &[
    Own {
        file: "costs-6.1.patch",
        text: include_str!("../../patches/costs-6.1.patch"),
        series: (6, 1),
    },
    Own {
        file: "costs-6.12.patch",
        text: include_str!("../../patches/costs-6.12.patch"),
        series: (6, 12),
    },
];

/// Returns the patch for a release from `all` (oldest first): the newest that is not newer than the
/// release, else the oldest; `None` if there are no patches.
pub fn for_release(all: &'static [Own], release: &Release) -> Option<&'static Own> {
    let older = all.iter().rev().find(|own| own.series <= release.series);
    older.or(all.first())
}

/// Applies Lowmark's own patch, in memory, to the files of a tree (`scan`) that already have the
/// user's patches (`patched`).
///
/// # Errors
/// The patch does not fit; the error says how to go on.
pub fn apply(
    own: &Own,
    patched: &mut Patched,
    scan: &Scan,
    release: &Release,
) -> Result<(), BuildError> {
    let patch = Patch {
        name: own.file.to_owned(),
        bytes: own.text.into(),
    };
    patched.apply(scan, &patch, &release.text).map_err(|e| {
        // The release that the patch is made for.
        let (major, minor) = own.series;
        BuildError::input(
            format!("{e} (Lowmark's own patch, made for {major}.{minor}, which charges computing time)"),
            "`--without-costs`, for a kernel in which computing takes no time; or a tree of a release \
             that the patch is made for, with patches that do not change the same lines",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_release() {
        const SOME: &[Own] = &[
            Own {
                file: "a",
                text: "",
                series: (6, 1),
            },
            Own {
                file: "b",
                text: "",
                series: (6, 12),
            },
        ];
        let file = |major, minor| {
            let release = Release {
                series: (major, minor),
                text: String::new(),
            };
            for_release(SOME, &release).map(|own| own.file)
        };
        assert_eq!(file(6, 1), Some("a"));
        assert_eq!(file(6, 6), Some("a"));
        assert_eq!(file(5, 15), Some("a"));
        assert_eq!(file(6, 12), Some("b"));
        assert_eq!(file(7, 0), Some("b"));
        let release = Release {
            series: (6, 1),
            text: String::new(),
        };
        assert!(for_release(&[], &release).is_none());
        assert!(ALL.is_sorted_by_key(|own| own.series));
    }
}
