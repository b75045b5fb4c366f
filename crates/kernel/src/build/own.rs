//! Patches of ours to guests' kernels, and the releases that each is made for.
//!
//! To add one: a file in `patches/` (GPL-2.0, as the kernel, which its first line says) and a line of [`ALL`]. For a release that has
//! no line the nearest older one is tried, or the oldest.

use super::error::BuildError;
use super::patch::{Patch, Patched};
use super::scan::Scan;
use super::source::Release;

/// A patch that comes with the program.
#[derive(Debug)]
pub struct Own {
    /// Its file's name.
    pub file: &'static str,
    /// Its contents.
    pub text: &'static str,
    /// The release that it is made for, by its first two numbers.
    pub series: (u32, u32),
}

/// All of them, the oldest release first: what computing costs.
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

/// The one for a release; `None` if there is none at all.
pub fn for_release(all: &'static [Own], release: &Release) -> Option<&'static Own> {
    let older = all.iter().rev().find(|own| own.series <= release.series);
    older.or(all.first())
}

/// Applies it to a tree that has the user's patches.
///
/// # Errors
/// It does not fit; says what to do then.
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
        let (major, minor) = own.series;
        BuildError::input(
            format!("{e} (Lowmark's own, made for {major}.{minor}: what computing costs)"),
            "`--without-costs`, for a kernel in which computing takes no time; or a tree of a release \
             that the patch is made for, with patches that leave those lines alone",
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
