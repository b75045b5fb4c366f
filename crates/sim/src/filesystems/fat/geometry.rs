//! The places of all areas on a FAT volume, as its mkfs sets them. All are in blocks of 4 KiB,
//! which have eight sectors.

use crate::params::Params;

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Bytes of an entry in a table.
const ENTRY: u64 = 4;
/// Number of the first cluster; entries 0 and 1 are the table's own.
const FIRST: u64 = 2;
/// Blocks reserved before the tables of a FAT32: 32 sectors (mkfs.fat.c `setup_tables`).
const RESERVED: u64 = 32 * 512 / BLOCK;
/// Alignment of table and clusters by mkfs.exfat: 1 MiB (libexfat.h `DEFAULT_BOUNDARY_ALIGNMENT`).
const ALIGNMENT: u64 = (1 << 20) / BLOCK;
/// Blocks of exFAT's up-case table (`EXFAT_UPCASE_TABLE_SIZE`: 5836 bytes).
const UP_CASE: u64 = 2;

/// The places of one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of a cluster. Clusters smaller than 4 KiB are allocated together, a block at a time.
    pub cluster: u32,
    /// Clusters in a block: 1, unless clusters are smaller than 4 KiB.
    per_block: u64,
    /// First block of the first table, and the blocks of each table.
    fat: u64,
    fat_blocks: u64,
    /// Number of tables.
    pub fats: u64,
    /// First block of the allocation bitmap, and its blocks; 0 on FAT32.
    bitmap: u64,
    bitmap_blocks: u64,
    /// Block of the first cluster.
    heap: u64,
    /// Block of the root directory's cluster.
    pub root: u64,
}

/// Returns the blocks of 4 KiB in a cluster of a FAT filesystem, and the clusters in a block; one
/// of them is 1. `asked` is the cluster's size in bytes by the parameter, rounded down to a power
/// of two from 512 on; 0: `by_size` bytes, which mkfs chooses by the size of the volume.
fn cluster(asked: f64, by_size: u64) -> (u64, u64) {
    let bytes = match asked as u64 {
        0 => by_size,
        bytes => 1 << bytes.max(512).ilog2(),
    };
    (bytes.div_ceil(BLOCK), (BLOCK / bytes).max(1))
}

/// Returns the bytes of a FAT32's cluster on a volume of `bytes` bytes (mkfs.fat.c
/// `establish_params`).
fn vfat_cluster(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match bytes.div_ceil(MIB) {
        ..=260 => 512,
        261..=8192 => 4 << 10,
        8193..=16_384 => 8 << 10,
        16_385..=32_768 => 16 << 10,
        _ => 32 << 10,
    }
}

/// Returns the bytes of an exFAT's cluster on a volume of `bytes` bytes (libexfat.c
/// `exfat_set_default_cluster_size`).
fn exfat_cluster(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match bytes.div_ceil(MIB) {
        ..7 => 512,
        7..=256 => 4 << 10,
        257..=32_768 => 32 << 10,
        _ => 128 << 10,
    }
}

impl Geometry {
    /// Returns the geometry of a FAT32 of `capacity` blocks, as mkfs.fat computes it: reserved
    /// sectors, tables, then clusters, with the root directory in the first one.
    pub fn vfat(capacity: u64, p: &Params) -> Self {
        let (asked, per_block) = cluster(p.vfat_cluster, vfat_cluster(capacity * BLOCK));
        Self::that_fits(capacity, asked, |cluster| {
            let fats = p.vfat_fats as u64;
            let fat = RESERVED.next_multiple_of(cluster);
            // Bytes that a cluster and its table entries take of the whole tracks (mkfs.fat.c
            // `setup_tables`).
            let bytes = cluster * BLOCK / per_block + fats * ENTRY;
            let sectors = capacity * 8;
            let track = if sectors <= 524_288 { 32 } else { 63 };
            let sectors = (sectors - sectors % track).saturating_sub(fat * 8);
            let clusters = (sectors * 512 + fats * 2 * ENTRY) / bytes;
            let table = ((clusters + FIRST) * ENTRY).div_ceil(BLOCK);
            let fat_blocks = table.next_multiple_of(cluster);
            let heap = fat + fats * fat_blocks;
            Self {
                cluster: cluster as u32,
                per_block,
                fat,
                fat_blocks,
                fats,
                bitmap: 0,
                bitmap_blocks: 0,
                heap,
                root: heap,
            }
        })
    }

    /// Returns the geometry of an exFAT of `capacity` blocks: the table, then clusters, of which
    /// the first hold bitmap, up-case table and root directory (mkfs.c `exfat_build_mkfs_info`).
    pub fn exfat(capacity: u64, p: &Params) -> Self {
        let (asked, per_block) = cluster(p.exfat_cluster, exfat_cluster(capacity * BLOCK));
        // A volume of a few MiB has no room for areas aligned to a MiB.
        let align = ALIGNMENT.min((capacity / 64).next_power_of_two());
        Self::that_fits(capacity, asked, |cluster| {
            let fat = align;
            let most = capacity.saturating_sub(fat) / cluster * per_block;
            let fat_blocks = ((most + FIRST) * ENTRY).div_ceil(BLOCK);
            let heap = (fat + fat_blocks).next_multiple_of(align.max(cluster));
            let clusters = capacity.saturating_sub(heap) / cluster * per_block;
            let bitmap_blocks = clusters.div_ceil(8 * BLOCK).max(1);
            let up_case = heap + bitmap_blocks.next_multiple_of(cluster);
            Self {
                cluster: cluster as u32,
                per_block,
                fat,
                fat_blocks,
                fats: 1,
                bitmap: heap,
                bitmap_blocks,
                heap,
                root: up_case + UP_CASE.next_multiple_of(cluster),
            }
        })
    }

    /// Returns the geometry with the largest clusters, at most `asked` blocks long, that leaves
    /// half of a small volume to files. `with` computes the geometry for a cluster size.
    fn that_fits(capacity: u64, asked: u64, with: impl Fn(u64) -> Self) -> Self {
        let mut cluster = asked;
        loop {
            let g = with(cluster);
            if cluster == 1 || g.front() <= capacity / 2 {
                return g;
            }
            cluster /= 2;
        }
    }

    /// Returns the number of blocks that mkfs writes: files begin behind them.
    pub fn front(&self) -> u64 {
        self.root + u64::from(self.cluster)
    }

    /// Returns the number of the first cluster in a block.
    fn number(&self, block: u64) -> u64 {
        FIRST + block.saturating_sub(self.heap) / u64::from(self.cluster) * self.per_block
    }

    /// Returns the block of the first table that holds a cluster's entry.
    pub fn entry(&self, block: u64) -> u64 {
        let nth = self.number(block) * ENTRY / BLOCK;
        self.fat + nth.min(self.fat_blocks - 1)
    }

    /// Returns the blocks of all tables that hold a cluster's entry.
    pub fn entries(&self, block: u64) -> impl Iterator<Item = u64> {
        let first = self.entry(block);
        (0..self.fats).map(move |copy| first + copy * self.fat_blocks)
    }

    /// Returns the blocks of the first table.
    pub fn table(&self) -> std::ops::Range<u64> {
        self.fat..self.fat + self.fat_blocks
    }

    /// Returns the blocks of all tables.
    pub fn tables(&self) -> std::ops::Range<u64> {
        self.fat..self.fat + self.fats * self.fat_blocks
    }

    /// Returns the block of the bitmap that holds a cluster's bit.
    pub fn bit(&self, block: u64) -> u64 {
        let nth = (self.number(block) - FIRST) / (8 * BLOCK);
        self.bitmap + nth.min(self.bitmap_blocks.saturating_sub(1))
    }

    /// Returns the blocks of the bitmap.
    pub fn bitmap(&self) -> std::ops::Range<u64> {
        self.bitmap..self.bitmap + self.bitmap_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 18;

    /// Cluster sizes follow the tools' tables, at their bounds.
    #[test]
    fn clusters_are_those_of_mkfs() {
        let p = Params::default();
        let vfat = |blocks| {
            let g = Geometry::vfat(blocks, &p);
            u64::from(g.cluster) * BLOCK / g.per_block
        };
        let mib = GIB / 1024;
        let sizes = [260 * mib, 260 * mib + 1, 8 * GIB, 8 * GIB + 1, 16 * GIB, 32 * GIB, 33 * GIB];
        assert_eq!(
            sizes.map(vfat),
            [512, 4096, 4096, 8192, 8192, 16_384, 32_768]
        );
        let exfat = |blocks| {
            let g = Geometry::exfat(blocks, &p);
            u64::from(g.cluster) * BLOCK / g.per_block
        };
        let sizes = [7 * mib - 257, 7 * mib, 256 * mib, 256 * mib + 1, 32 * GIB, 33 * GIB];
        assert_eq!(
            sizes.map(exfat),
            [512, 4096, 4096, 32_768, 32_768, 131_072]
        );
    }

    /// Compared with images made and described by dosfstools 4.2 (`mkfs.vfat -F 32`, `fsck.fat -v`)
    /// and exfatprogs 1.2 (`mkfs.exfat`, `dump.exfat`).
    #[test]
    fn places_of_sticks_are_those_of_mkfs() {
        let p = Params::default();
        // Blocks of a table, and the first sector of the data area.
        for (blocks, table, data) in [
            (16 * GIB, 2048, 32_800),
            (8 * GIB, 2045, 32_752),
            (4 * GIB, 1022, 16_384),
            // Tables of 3151 sectors, each rounded up to whole blocks here.
            (GIB / 1024 * 200, 394, 6336),
        ] {
            let g = Geometry::vfat(blocks, &p);
            assert_eq!((g.fat, g.fat_blocks, g.heap * 8), (4, table, data));
        }
        // Sectors of the table, the first sector of the clusters, and the number of the root
        // directory's cluster.
        for (blocks, table, data, root) in [
            (16 * GIB, 4096, 6144, 5),
            (8 * GIB, 2048, 4096, 4),
            (4 * GIB, 1024, 4096, 4),
            (GIB / 1024 * 200, 400, 4096, 6),
        ] {
            let g = Geometry::exfat(blocks, &p);
            assert_eq!((g.fat, g.fat_blocks * 8, g.heap * 8), (256, table, data));
            assert_eq!(g.number(g.root), root);
        }
    }

    /// Areas follow each other and leave space for files on every volume; entries and bits lie in
    /// their areas.
    #[test]
    fn areas_follow_each_other_on_any_volume() {
        let mut p = Params::default();
        for asked in [0.0, 512.0, 3000.0, 4096.0, 65536.0, 1048576.0] {
            for fats in [1.0, 2.0, 4.0] {
                (p.vfat_cluster, p.exfat_cluster, p.vfat_fats) = (asked, asked, fats);
                for capacity in [64, 100, 1000, 5000, 24_576, 1 << 20, 1 << 24, 1 << 29] {
                    for g in [Geometry::vfat(capacity, &p), Geometry::exfat(capacity, &p)] {
                        assert!(g.front() < capacity, "{capacity}: {g:?}");
                        assert!(g.tables().end <= g.heap && g.heap <= g.root, "{g:?}");
                        let room = (capacity - g.heap) / u64::from(g.cluster);
                        let last = g.heap + (room - 1) * u64::from(g.cluster);
                        assert!(g.table().contains(&g.entry(last)), "{capacity}: {g:?}");
                        assert!(g.bitmap_blocks == 0 || g.bitmap().contains(&g.bit(last)));
                        // mkfs.vfat leaves an incomplete last track unused; here its few blocks are
                        // used.
                        let nth = g.number(last) * ENTRY / BLOCK;
                        assert!(nth <= g.fat_blocks, "{capacity}: {nth} {g:?}");
                    }
                }
            }
        }
    }
}
