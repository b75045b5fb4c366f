//! Filesystem models: the questions that reclaim and writeback ask of a real filesystem
//! (`docs/reference/writeback.md#filesystems`).
//!
//! To add one: a file here and a line in `filesystems!`. The file has a type of the line's name
//! that holds the filesystem's own state, and its `impl Model`: the differences from a filesystem
//! that takes blocks in the order of writing, writes every page it is asked to and has no metadata.
//! Names, schema, experiment files, places in the engine's tables and the tests that walk all
//! filesystems follow from the line.
//!
//! Common to all: files and their extents (`files`), free blocks (`space`), system calls (`calls`,
//! `read`, `write`), the walk over a file's dirty pages (`walk`), names (`names`), inodes
//! (`inode`).
//!
//! A machine has one filesystem, or several on disks of their own. Files of all filesystems share
//! one range of numbers; a file's filesystem is found from its bdi ([`of`]), and each filesystem
//! takes its bdi numbers in a row when it is mounted. Everything else belongs to one filesystem.

use crate::SimMm;
use crate::params::Params;
use layout::Layout;
use model::{Kind, Model};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the filesystems from their list: modules, each with the names and types of its
/// filesystems. `$` is passed as the first token because the macro defines another one, `ask!`.
macro_rules! filesystems {
    ($d:tt $($module:ident { $($(#[$doc:meta])* $name:literal $Kind:ident)* })*) => {
        /// Asks the model of a filesystem: `ask!(fs, model => model.commit(mm, fs).await)`. Brings
        /// the trait into scope, so that files which serve all filesystems import no model.
        macro_rules! ask {
            ($d fs:expr, $d model:ident => $d answer:expr) => {{
                use $crate::filesystems::model::Model as _;
                match &$d fs.state {
                    $($($crate::filesystems::State::$Kind($d model) => $d answer,)*)*
                }
            }};
        }

        $(mod $module;)*

        /// The filesystem models.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum FsKind { $($($(#[$doc])* #[serde(rename = $name)] $Kind,)*)* }

        impl FsKind {
            /// All filesystem kinds.
            pub const ALL: &'static [Self] = &[$($(Self::$Kind,)*)*];

            /// Returns the name that tables and experiment files use.
            pub fn name(self) -> &'static str {
                match self { $($(Self::$Kind => $name,)*)* }
            }

            /// Returns the fixed properties of this kind.
            pub(crate) fn about(self) -> &'static Kind {
                match self { $($(Self::$Kind => const { &<$module::$Kind as Model>::KIND },)*)* }
            }
        }

        /// The model of one filesystem with its own state.
        enum State { $($($Kind($module::$Kind),)*)* }

        impl State {
            fn new(kind: FsKind, p: &Params, front: Layout) -> Self {
                match kind { $($(FsKind::$Kind => Self::$Kind(Model::new(p, front)),)*)* }
            }
        }
    };
}

filesystems! { $
    xfs {
        /// XFS.
        "xfs" Xfs
    }
    ext {
        /// ext4, ordered mode with delayed allocation.
        "ext4" Ext4
        /// ext3, ordered mode.
        "ext3" Ext3
    }
    btrfs {
        /// btrfs.
        "btrfs" Btrfs
    }
    fuse_ntfs {
        /// NTFS by ntfs-3g over FUSE.
        "fuse-ntfs" FuseNtfs
    }
    fat {
        /// FAT32 with long names.
        "vfat" Vfat
        /// exFAT.
        "exfat" Exfat
    }
}

mod beside;
mod buffers;
mod calls;
pub mod cil;
mod files;
pub mod inode;
pub mod ioend;
mod jbd2;
mod known;
mod layout;
pub mod mapped;
mod model;
mod names;
mod read;
mod readahead;
mod reuse;
mod ring;
mod space;
mod unmount;
mod walk;
mod write;

pub use calls::{
    before_direct, create, create_in, inode_gone, inode_of_dir, lay_out, lay_out_dir, lay_out_in,
    make_dir, map_direct, read_dir, released, remove, truncate, unlink,
};
pub use files::{DirId, Fs};
pub use known::known;
pub use mapped::MapWindows;
pub use model::{Daemon, Life};
pub use read::{read, read_with};
pub use readahead::{Dropped, Window};
pub use reuse::Reuse;
pub use unmount::{is_on, unmount};
pub(crate) use walk::holds;
pub use walk::{
    reclaim_writes_ranges, refuses_writepages, writepage, writepages, writepages_refused,
};
pub use write::{fsync, sync_all, write};

impl FsKind {
    /// Returns true if a daemon serves it over FUSE, so that no kernel's mount(2) knows it by
    /// itself.
    pub fn over_fuse(self) -> bool {
        self.about().over_fuse
    }
}

/// The volume of the first filesystem: the tested disk.
pub const DEVICE: u32 = 0;
/// Pages handled between two relax points.
const BATCH: u32 = 32;

/// Why a filesystem call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsError {
    /// No memory.
    OutOfMemory,
    /// The device failed.
    Io,
    /// The device is full.
    NoSpace,
    /// The file would exceed the filesystem's largest file size.
    TooLarge,
}

/// Returns the filesystem that a file is on. Each filesystem's bdis, made when it is mounted, are a
/// range of numbers.
#[inline]
pub fn of<const T: bool>(mm: &SimMm<T>, mapping: u32) -> &Fs {
    let bdi = mm.mappings[mapping as usize].bdi();
    &mm.world.fs[mm.world.fs_of(bdi)]
}

/// Returns the filesystem of a directory.
fn of_dir<const T: bool>(mm: &SimMm<T>, dir: DirId) -> &Fs {
    &mm.world.fs[dir.fs as usize]
}

/// Creates the bdis, metadata files and root directories of all filesystems; called once at boot.
pub fn mount<const T: bool>(mm: &SimMm<T>) {
    for (nth, fs) in (0..).zip(&mm.world.fs) {
        fs.bdi.set(mm.new_bdi(0, 100).expect("room for a bdi"));
        mm.world.bdis_made(nth, mm.bdi_count());
        inode::mount(mm, fs);
        ask!(fs, model => model.mount(mm, fs));
        mm.world.bdis_made(nth, mm.bdi_count());
        names::make_root(mm, fs);
    }
}

/// Returns the daemons of all filesystems.
pub fn daemons<const T: bool>(mm: &SimMm<T>) -> Vec<Daemon<'_>> {
    let all = mm.world.fs.iter();
    all.flat_map(|fs| ask!(fs, model => model.daemons(mm, fs)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Experiment files use the same names as tables, and no two filesystems share a name.
    #[test]
    fn a_filesystem_has_one_name() {
        for &kind in FsKind::ALL {
            let name = toml::Value::String(kind.name().to_owned());
            assert_eq!(toml::Value::try_from(kind).as_ref(), Ok(&name));
            assert_eq!(name.try_into(), Ok(kind));
        }
    }

    /// Only XFS takes groups of the engine's XFS inode cache, and every filesystem has at least one
    /// allocation group.
    #[test]
    fn groups_are_those_of_the_kind() {
        use crate::spec::{DiskKind, DiskSpec, Size};
        let disk = DiskSpec::new(DiskKind::Disk, Size(64 << 30));
        for &kind in FsKind::ALL {
            let about = kind.about();
            let groups = (about.groups)(1 << 24, &disk, &Params::default());
            let in_cache = about.inode_groups(1 << 24, &disk, &Params::default());
            assert!(groups >= 1 && about.inode_bytes > 0, "{kind:?}");
            assert_eq!(
                u64::from(in_cache),
                groups * u64::from(about.xfs_inodes),
                "{kind:?}"
            );
        }
    }
}
