//! Swap areas and partition tables, in the form that `mkswap` and `fdisk` write.

use super::error::ImageError;
use super::{new_file, sparse};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes of a page, and of a slot of a swap area.
const PAGE: u64 = 4096;
/// The smallest swap area that `mkswap` makes, in pages.
const FEWEST_PAGES: u64 = 10;
/// Bytes of a sector, the unit of a partition table.
const SECTOR: u64 = 512;
/// Partitions start at multiples of this many bytes, the first at the first multiple.
pub const ALIGN: u64 = 1 << 20;
/// Partition types: Linux, and Linux swap.
const LINUX: u8 = 0x83;
const SWAP: u8 = 0x82;

/// Returns the header page of a swap area of `bytes` bytes: version 1, a fixed UUID, no bad pages.
///
/// # Errors
/// The area is too small, or larger than the header can say (16 TiB).
pub fn swap_page(bytes: u64) -> Result<Vec<u8>, ImageError> {
    let pages = bytes / PAGE;
    let last = u32::try_from(pages.saturating_sub(1));
    let Some(last) = last.ok().filter(|_| pages >= FEWEST_PAGES) else {
        return Err(ImageError::input(
            format!("a swap area of {bytes} bytes can't be made"),
            format!("{} bytes to 16 TiB", FEWEST_PAGES * PAGE),
        ));
    };
    let mut page = vec![0; PAGE as usize];
    page[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
    page[1028..1032].copy_from_slice(&last.to_le_bytes());
    page[1036..1052].copy_from_slice(&super::uuid(3));
    page[4086..].copy_from_slice(b"SWAPSPACE2");
    Ok(page)
}

/// Makes a swap area of `bytes` bytes, as `mkswap` does, in a new sparse file.
///
/// # Errors
/// As [`swap_page`]; or the file can't be written.
pub fn swap_header(path: &Path, bytes: u64) -> Result<(), ImageError> {
    let page = swap_page(bytes)?;
    new_file(path, |path, file| {
        let io = |e| ImageError::io("can't write", path, e);
        file.set_len(bytes).map_err(io)?;
        file.write_all_at(&page, 0).map_err(io)
    })
}

/// The layout of a disk with two partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitions {
    /// Bytes of the whole disk.
    pub bytes: u64,
    /// Start and length of the filesystem, in bytes.
    pub filesystem: (u64, u64),
    /// Start and length of the swap area, in bytes.
    pub swap: (u64, u64),
}

impl Partitions {
    /// Lays out a disk for a filesystem and then a swap area, both given in bytes and aligned to 1
    /// MiB.
    ///
    /// # Errors
    /// The disk would exceed 2 TiB, the limit of an MBR partition table.
    pub fn of(filesystem: u64, swap: u64) -> Result<Self, ImageError> {
        // The next multiple of the alignment.
        let up = |bytes: u64| bytes.checked_next_multiple_of(ALIGN);
        let lay = || {
            let first = (ALIGN, filesystem);
            let second = (ALIGN.checked_add(up(filesystem)?)?, swap);
            let bytes = second.0.checked_add(up(swap)?)?;
            (bytes / SECTOR <= u64::from(u32::MAX)).then_some(Self {
                bytes,
                filesystem: first,
                swap: second,
            })
        };
        lay().ok_or_else(|| {
            ImageError::input(
                format!("a disk with {filesystem} bytes of files and {swap} of swap can't be partitioned"),
                "2 TiB together, or a disk of its own for swap",
            )
        })
    }

    /// Returns the disk's first sector: a master boot record with a fixed signature and both
    /// partitions.
    fn record(&self) -> [u8; SECTOR as usize] {
        let mut out = [0; SECTOR as usize];
        out[440..444].copy_from_slice(b"lowm");
        for (i, (kind, (start, bytes))) in [(LINUX, self.filesystem), (SWAP, self.swap)]
            .iter()
            .enumerate()
        {
            let entry = &mut out[446 + 16 * i..][..16];
            // Marks addresses beyond what cylinders, heads and sectors can express.
            entry[1..4].copy_from_slice(&[0xfe, 0xff, 0xff]);
            entry[4] = *kind;
            entry[5..8].copy_from_slice(&[0xfe, 0xff, 0xff]);
            entry[8..12].copy_from_slice(&((start / SECTOR) as u32).to_le_bytes());
            entry[12..16].copy_from_slice(&((bytes / SECTOR) as u32).to_le_bytes());
        }
        out[510..].copy_from_slice(&[0x55, 0xaa]);
        out
    }
}

/// Makes a disk of a filesystem's image and a swap area of `swap` bytes, in a new sparse file `to`,
/// and returns its layout. In a guest the filesystem is the first partition (`vda1`), swap the
/// second.
///
/// # Errors
/// As [`Partitions::of`] and [`swap_page`]; or a file can't be read or written.
pub fn partitioned(filesystem: &Path, swap: u64, to: &Path) -> Result<Partitions, ImageError> {
    let length = filesystem
        .metadata()
        .map_err(|e| ImageError::io("can't read", filesystem, e))?
        .len();
    let disk = Partitions::of(length, swap)?;
    let page = swap_page(swap)?;
    new_file(to, |path, file: &File| {
        let io = |e| ImageError::io("can't write", path, e);
        file.set_len(disk.bytes).map_err(io)?;
        file.write_all_at(&disk.record(), 0).map_err(io)?;
        file.write_all_at(&page, disk.swap.0).map_err(io)?;
        sparse::copy_data(filesystem, file, path, disk.filesystem.0)
    })?;
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn a_swap_area_has_its_size_and_mark() {
        let page = swap_page(1 << 30).unwrap();
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(page[1028..1032], ((1_u32 << 18) - 1).to_le_bytes());
        assert!(swap_page(9 * 4096).is_err() && swap_page(u64::MAX).is_err());
    }

    #[test]
    fn partitions_follow_each_other() {
        let dir = TempDir::new().unwrap();
        let (fs_image, disk) = (dir.path().join("fs"), dir.path().join("disk"));
        let mut bytes = vec![0; 5 << 20 | 4096];
        bytes[0x438] = 0x53;
        *bytes.last_mut().unwrap() = 7;
        fs::write(&fs_image, &bytes).unwrap();
        let found = partitioned(&fs_image, 1 << 20, &disk).unwrap();
        assert_eq!(found.filesystem, (1 << 20, bytes.len() as u64));
        assert_eq!(found.swap, (7 << 20, 1 << 20));
        let all = fs::read(&disk).unwrap();
        assert_eq!(all.len() as u64, found.bytes);
        assert!(all[1 << 20..][..bytes.len()] == bytes);
        assert_eq!(&all[(7 << 20) + 4086..][..10], b"SWAPSPACE2");
        assert_eq!(all[510..512], [0x55, 0xaa]);
        assert_eq!((all[450], all[466]), (LINUX, SWAP));
        assert_eq!(all[454..458], 2048_u32.to_le_bytes());
        assert!(Partitions::of(3 << 40, 1 << 20).is_err());
        assert!(Partitions::of(u64::MAX, 1).is_err());
    }
}
