//! Changed blocks in XFS's log (`xfs_log = "relogged"`): the committed items of delayed logging
//! (Linux Documentation/filesystems/xfs/xfs-delayed-logging-design.rst, fs/xfs/xfs_buf_item.c,
//! xfs_log_cil.c; docs/reference/writeback.md#the-log-of-xfs).
//!
//! ```text
//! a change ──> chunks of 128 bytes of its block, marked until the block is written in place
//! a force  ──> for each block changed since the last one: a header and all its marked chunks
//! ```
//!
//! So the block that a directory's entries go to is logged from its front again with every name,
//! and the log grows with everything that was changed since the block was written in place, not
//! with the latest change.

use super::SimMm;
use mm::cache::log_items::LogItem;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};

/// The way a log record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogWrite {
    /// In one go, in requests as long as the device takes them.
    Whole,
    /// In buffers of XFS's log.
    Buffers,
    /// In buffers of XFS's log, the last of which waits for those before it (5.14).
    BuffersLastAlone,
}

/// Bytes of a chunk (`XFS_BLF_CHUNK`), of which a block of 4 KiB has 32.
const CHUNK: u32 = 128;
/// Bytes of a buffer's format (`xfs_buf_log_format`, one word of marks) and its operation header
/// (`xlog_op_header`).
const OF_BUFFER: u64 = 28 + OPERATION;
/// Bytes of the header of an operation: each run of chunks is one operation.
const OPERATION: u64 = 12;
/// Bytes of an inode: its format (`xfs_inode_log_format`), core (`xfs_log_dinode`, version 3) and
/// one extent.
const OF_INODE: u64 = 56 + 176 + 16 + 3 * OPERATION;
/// Bytes of a checkpoint's start, header (`xfs_trans_header`) and end.
const OF_CHECKPOINT: u64 = 16 + 3 * OPERATION;
/// Bytes of a sector: the size of a log record's header (`xlog_rec_header`), and the unit to which
/// a record is rounded up.
const SECTOR: u64 = 512;
/// Sectors of a block.
const SECTORS: u64 = 4096 / SECTOR;
/// Bytes of a log record beside its header (`XLOG_BIG_RECORD_BSIZE`).
const RECORD: u64 = 32 * 1024 - SECTOR;

/// Bytes before the first entry of a directory block, hash index or list of free space
/// (`xfs_dir3_*_hdr`).
const HEADER: u32 = 64;
/// Bytes of a directory entry with a name of 40 characters.
const ENTRY: u32 = 56;
/// Bytes of an entry in a directory's hash index.
const HASH: u32 = 8;
/// Maximum number of entries of a directory that is one block, with its hash index at the end
/// (`XFS_DIR2_BLOCK_FORMAT`).
const ONE_BLOCK: u32 = (4096 - HEADER - 8) / (ENTRY + HASH);
/// Number of entries in a block of the hash index.
const LEAF: u32 = (4096 - HEADER) / HASH;
/// Bytes of a record in the tree of inodes, and of the header of that tree's blocks.
const INODE_RECORD: u32 = 16;
const TREE_HEADER: u32 = 56;

/// Marks a block number as one of a directory's hash index, which has no place on the disk here.
const INDEX: u64 = 1 << 63;

/// The log item of a changed block.
#[derive(Debug, Clone, Copy, Default)]
struct Item {
    /// Bit mask of the chunks that were changed since the block was written in place.
    chunks: u32,
    /// Number of the last force that it is part of.
    force: u64,
    /// The memory that the item takes.
    buffers: LogItem,
}

/// Accounting of the memory that items take.
pub(super) trait Memory {
    /// Notes that the memory of an item has changed from `before` to `now`.
    fn became(&self, before: LogItem, now: LogItem);
}

impl<const T: bool> Memory for SimMm<T> {
    fn became(&self, before: LogItem, now: LogItem) {
        self.block_item_became(before, now);
    }
}

/// The items of all changed blocks that are not written in place.
#[derive(Debug)]
pub(super) struct Cil {
    items: RefCell<FxHashMap<u64, Item>>,
    /// Blocks that changed since the last force.
    changed: RefCell<Vec<u64>>,
    /// Bytes that these blocks would take in the log.
    space: Cell<u64>,
    /// Number of the next force, counted from 1.
    force: Cell<u64>,
    /// Sector within the log's last block at which the log ends.
    tail: Cell<u64>,
}

/// A record that one force writes to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Number of device blocks that it covers.
    pub blocks: u64,
    /// True if the first of them is the last block of the record before.
    pub shares: bool,
    /// Number of sectors in these blocks that are not part of the record.
    pub beside: u64,
}

impl Record {
    /// Returns a record that begins and ends with a block.
    pub fn of_blocks(blocks: u64) -> Self {
        Self {
            blocks,
            shares: false,
            beside: 0,
        }
    }
}

/// A name that was made in or removed from a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirChange {
    /// Number of the directory.
    pub dir: u32,
    /// Block of the directory's last entries.
    pub block: u64,
    /// Number of entries that lie in blocks, and the number of entries in a block.
    pub entries: u32,
    pub of_block: u32,
    /// Inode of the name, from which its place in the hash index is computed.
    pub ino: u32,
}

/// Returns the mask of the chunks that hold bytes `first..end` of a block.
fn chunks(first: u32, end: u32) -> u32 {
    debug_assert!(
        first < end && end <= 4096,
        "bytes {first} to {end} of a block"
    );
    let (from, to) = (first / CHUNK, (end - 1) / CHUNK);
    (u32::MAX >> (31 - to)) & (u32::MAX << from)
}

/// Returns the number of bytes in the chunks of a mask, and the number of runs that they form.
fn bytes_and_runs(chunks: u32) -> (u32, u32) {
    let runs = (chunks & !(chunks << 1)).count_ones();
    (chunks.count_ones() * CHUNK, runs)
}

/// Returns the bytes that a block with these changed chunks takes in the log.
fn log_bytes(chunks: u32) -> u64 {
    let (bytes, runs) = bytes_and_runs(chunks);
    OF_BUFFER + u64::from(runs) * OPERATION + u64::from(bytes)
}

/// Returns a well mixed number that stands for the hash of a name.
fn hash(ino: u32) -> u32 {
    ino.wrapping_mul(0x9e37_79b9)
        .rotate_left(13)
        .wrapping_mul(0x85eb_ca6b)
}

impl Cil {
    /// Makes an empty list of committed items.
    pub fn new() -> Self {
        Self {
            items: RefCell::default(),
            changed: RefCell::default(),
            space: Cell::new(0),
            force: Cell::new(1),
            tail: Cell::new(0),
        }
    }

    /// Adds `chunks` (a mask) of a block to what has changed since the block was written in place.
    /// Updates the bytes that wait for the log and the memory that the block's log item takes; the
    /// first change since the last force puts the block on the list of changed ones.
    fn change(&self, memory: &impl Memory, block: u64, chunks: u32) {
        let mut items = self.items.borrow_mut();
        let item = items.entry(block).or_default();
        let before = if item.force == self.force.get() {
            log_bytes(item.chunks)
        } else {
            0
        };
        item.chunks |= chunks;
        self.space
            .set(self.space.get() + log_bytes(item.chunks) - before);
        let (bytes, runs) = bytes_and_runs(item.chunks);
        let now = item.buffers.block_changed(bytes, runs);
        memory.became(std::mem::replace(&mut item.buffers, now), now);
        if item.force != self.force.get() {
            item.force = self.force.get();
            self.changed.borrow_mut().push(block);
        }
    }

    /// Records that blocks of a group are taken or given back: changes its header (the second
    /// sector) and the first records of the two trees behind it.
    pub fn space_changed(&self, memory: &impl Memory, group: u64) {
        self.change(memory, group, chunks(512, 640));
        self.change(memory, group + 1, 1);
        self.change(memory, group + 2, 1);
    }

    /// Records that an inode of a group is taken or given back: changes the header (the third
    /// sector), record `record` of the tree of inodes, and the first record of the tree of free
    /// inodes. `new`: the record is new.
    pub fn inodes_changed(&self, memory: &impl Memory, group: u64, record: u32, new: bool) {
        self.change(memory, group, chunks(1024, 1152));
        let of_block = (4096 - TREE_HEADER) / INODE_RECORD;
        let at = TREE_HEADER + record % of_block * INODE_RECORD;
        self.change(
            memory,
            group + 3,
            chunks(at, at + INODE_RECORD) | u32::from(new),
        );
        self.change(memory, group + 4, 1);
    }

    /// Records that an entry of a directory is made or removed: changes its bytes, its block's
    /// header and the length of the free space behind it; in the hash index everything from its
    /// place on, which moves; and the list of free space in each block.
    pub fn name_changed(&self, memory: &impl Memory, change: DirChange) {
        let DirChange {
            dir,
            block,
            entries,
            of_block,
            ino,
        } = change;
        let last = entries.saturating_sub(1);
        // A block here may hold one entry more than fits at 56 bytes each; it shares the place of
        // the last.
        let at = (HEADER + last % of_block * ENTRY).min(4096 - ENTRY);
        let entry = chunks(0, HEADER) | chunks(at, at + ENTRY);
        let hash = hash(ino);
        if entries <= ONE_BLOCK {
            let place = ((u64::from(hash) * u64::from(entries + 1)) >> 32) as u32;
            let behind = (entries - place.min(last)).max(1) * HASH;
            self.change(memory, block, entry | chunks(4096 - 8 - behind, 4096));
            return;
        }
        self.change(memory, block, entry | chunks(4096 - 2, 4096));
        let leaves = entries.div_ceil(LEAF).next_power_of_two();
        let of_leaf = entries / leaves;
        let place = ((u64::from(hash) * u64::from(of_leaf)) >> 32) as u32;
        let moved = chunks(
            HEADER + place * HASH,
            HEADER + of_leaf.max(place + 1) * HASH,
        );
        let index = INDEX | (u64::from(dir) << 16);
        let leaf = u64::from(hash % leaves);
        if leaves == 1 {
            // With one index block, the list is at that block's end.
            self.change(memory, index, 1 | moved | chunks(4096 - 2, 4096));
        } else {
            let listed = HEADER + last / of_block % (LEAF * 4) * 2;
            self.change(memory, index | leaf, 1 | moved);
            self.change(memory, index | 0xffff, chunks(listed, listed + 2));
        }
    }

    /// Returns true if changes of a block are in the log but not in place, or wait for the log.
    pub fn has(&self, block: u64) -> bool {
        self.items.borrow().contains_key(&block)
    }

    /// Ends the checkpoint that is being gathered, with `inodes` changed inodes, and returns the
    /// record to be written to the log. A record begins at the sector where the last one ended.
    pub fn force(&self, memory: &impl Memory, inodes: u32) -> Record {
        let tail = self.tail.get();
        let sectors = self.sectors(memory, inodes);
        let end = tail + sectors;
        self.tail.set(end % SECTORS);
        let blocks = end.div_ceil(SECTORS);
        Record {
            blocks,
            shares: tail != 0,
            beside: blocks * SECTORS - sectors,
        }
    }

    /// Returns the bytes that changed blocks and `inodes` inodes would take in the log now
    /// (`space_used` of a `xfs_cil_ctx`).
    pub fn space(&self, inodes: u32) -> u64 {
        self.space.get() + u64::from(inodes) * OF_INODE
    }

    /// Returns the number of log sectors that a force with `inodes` changed inodes writes, headers
    /// of records included, and begins the next force: no bytes wait for the log then.
    fn sectors(&self, memory: &impl Memory, inodes: u32) -> u64 {
        let mut items = self.items.borrow_mut();
        let changed = self.changed.take();
        let blocks: u64 = changed
            .iter()
            .map(|block| {
                let item = items.get_mut(block).expect("a changed block has an item");
                let now = item.buffers.forced();
                memory.became(std::mem::replace(&mut item.buffers, now), now);
                log_bytes(item.chunks)
            })
            .sum();
        debug_assert!(self.space.get() == blocks, "bytes that wait for the log");
        self.space.set(0);
        self.force.set(self.force.get() + 1);
        let bytes = OF_CHECKPOINT + u64::from(inodes) * OF_INODE + blocks;
        bytes.div_ceil(SECTOR) + bytes.div_ceil(RECORD)
    }

    /// Returns the blocks to be written in place, in ascending order, and drops their log items,
    /// whose memory is freed. Blocks that changed since the last force are not in the log yet and
    /// keep their items; blocks of hash indices have no place and are only dropped.
    pub fn write_in_place(&self, memory: &impl Memory) -> Vec<u64> {
        let force = self.force.get();
        let mut blocks = Vec::new();
        self.items.borrow_mut().retain(|&block, item| {
            let stays = item.force == force;
            if !stays {
                memory.became(item.buffers, LogItem::default());
                if block & INDEX == 0 {
                    blocks.push(block);
                }
            }
            stays
        });
        blocks.sort_unstable();
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that is not counted.
    impl Memory for () {
        fn became(&self, _before: LogItem, _now: LogItem) {}
    }

    #[test]
    fn chunks_are_those_of_the_bytes() {
        assert_eq!(chunks(0, 128), 1);
        assert_eq!(chunks(127, 129), 3);
        assert_eq!(chunks(0, 4096), u32::MAX);
        assert_eq!(chunks(4094, 4096), 1 << 31);
        assert_eq!(log_bytes(0b1), 40 + 12 + 128);
        assert_eq!(log_bytes(0b1011), 40 + 2 * 12 + 3 * 128);
    }

    /// Makes a file of one extent in a directory and forces the log. Returns the bytes written.
    fn make_file(cil: &Cil, nth: u32) -> u64 {
        let (inline, of_block) = (3, 73);
        if nth >= inline {
            cil.name_changed(
                &(),
                DirChange {
                    dir: 1,
                    block: 1_000 + u64::from((nth - inline) / of_block),
                    entries: nth - inline + 1,
                    of_block,
                    ino: nth,
                },
            );
        }
        cil.inodes_changed(&(), 0, nth / 64, nth.is_multiple_of(64));
        cil.space_changed(&(), 0);
        cil.sectors(&(), 2) * SECTOR
    }

    /// Compares the log's bytes for files that are made and synced with those of a guest of Linux
    /// 6.12, as means over 50 files: the directory's block and its index fill up; the index is
    /// split with the 505th file.
    #[test]
    fn what_a_log_has_of_files_is_what_a_guest_has() {
        let cil = Cil::new();
        let mean = |from: u32| (from..from + 50).map(|n| make_file(&cil, n)).sum::<u64>() / 50;
        let first = make_file(&cil, 0);
        assert_eq!(first, 2560);
        let means: Vec<u64> = (0..30).map(|n| mean(1 + 50 * n)).collect();
        let guest = [
            4362, 5621, 6635, 6410, 6768, 7761, 8038, 7905, 8857, 9543, 7208, 7741, 8488, 7669,
            8181, 9041, 8796, 8785, 9605, 9881, 8570, 8550, 9533, 8273, 8960, 9359, 8837, 9052,
            9707, 9195,
        ];
        for (nth, (&here, there)) in means.iter().zip(guest).enumerate() {
            let off = here as f64 / f64::from(there) - 1.0;
            assert!(
                off.abs() < 0.15,
                "{nth}: {here} bytes, {there} in a guest: {means:?}"
            );
        }
    }

    /// A block written in place is logged from scratch again; one that no force has logged is not
    /// written in place.
    #[test]
    fn what_is_in_place_is_logged_no_more() {
        let cil = Cil::new();
        let sizes: Vec<u64> = (0..60).map(|n| make_file(&cil, n)).collect();
        assert!(sizes[59] > 2 * sizes[1]);
        cil.space_changed(&(), 0);
        // The trees of inodes and of free inodes, and the directory; the group's header and its
        // trees of free space wait for a force.
        assert_eq!(cil.write_in_place(&()), [3, 4, 1000]);
        assert!(make_file(&cil, 60) < sizes[2] + 1024);
        assert_eq!(cil.write_in_place(&()).len(), 6);
        assert!(cil.write_in_place(&()).is_empty());
    }

    /// Records follow each other in the log: a block that two records share is written with each of
    /// them.
    #[test]
    fn records_share_blocks() {
        let cil = Cil::new();
        assert_eq!(OF_CHECKPOINT + 20 * OF_INODE, 5732);
        // A record has 12 sectors and a header.
        let forces: Vec<Record> = (0..800).map(|_| cil.force(&(), 20)).collect();
        let shared = forces.iter().filter(|force| force.shares).count() as u64;
        let sum = |of: fn(&Record) -> u64| forces.iter().map(of).sum::<u64>();
        assert_eq!(sum(|force| force.blocks) - shared, 800 * 13 / 8);
        assert_eq!(shared, 700);
        assert_eq!(
            8 * sum(|force| force.blocks) - sum(|force| force.beside),
            800 * 13
        );
    }
}
