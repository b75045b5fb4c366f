//! XFS's buffers of blocks and of inode clusters (Linux fs/xfs/xfs_buf.c), in order of last use.

use std::collections::BTreeMap;

/// Number of times a shrinker skips a buffer after its last use (`XFS_INO_REF`,
/// `XFS_DIR_BTREE_REF`).
const REFERENCES: u32 = 2;

/// A buffer in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buffer {
    pub pages: u32,
    /// The inode cluster that it holds, as allocation group and number in the group; `None` for
    /// other blocks.
    pub cluster: Option<(u32, u32)>,
    references: u32,
}

impl Buffer {
    /// Returns the buffer of the root's inode, which the mount holds: it has no pages of its own
    /// and is never freed by a shrinker.
    pub fn of_mount() -> Self {
        Self {
            pages: 0,
            ..Self::of_block()
        }
    }

    /// Returns the buffer of one block.
    pub fn of_block() -> Self {
        Self {
            pages: 1,
            cluster: None,
            references: REFERENCES,
        }
    }

    /// Returns the buffer of a cluster of inodes.
    pub fn of_cluster(pages: u32, cluster: (u32, u32)) -> Self {
        Self {
            pages,
            cluster: Some(cluster),
            references: REFERENCES,
        }
    }
}

/// All buffers in memory, by the number of their last use and by their first block.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Maximum number of buffers kept.
    most: usize,
    uses: u64,
    by_use: BTreeMap<u64, u64>,
    by_block: BTreeMap<u64, (u64, Buffer)>,
}

impl Buffers {
    /// Makes an empty set that keeps at most `most` buffers.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            uses: 0,
            by_use: BTreeMap::new(),
            by_block: BTreeMap::new(),
        }
    }

    /// Keeps all buffers from now on, until a shrinker frees them.
    pub fn keep_all(&mut self) {
        self.most = usize::MAX;
    }

    /// Returns true if all buffers are kept until a shrinker frees them.
    pub fn keeps_all(&self) -> bool {
        self.most == usize::MAX
    }

    /// Returns the number of buffers.
    pub fn len(&self) -> usize {
        self.by_block.len()
    }

    /// Marks the buffer at `block` as used, adding it if it is missing; above the maximum the least
    /// recently used buffer is dropped. Returns true if the buffer was in memory.
    pub fn used(&mut self, block: u64, buffer: Buffer) -> bool {
        self.uses += 1;
        let place = self.by_block.entry(block).or_insert((0, buffer));
        let last = std::mem::replace(&mut place.0, self.uses);
        place.1.references = buffer.references;
        self.by_use.insert(self.uses, block);
        if last != 0 {
            self.by_use.remove(&last);
        } else if self.by_block.len() > self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_block.remove(&oldest);
        }
        last != 0
    }

    /// Drops all buffers; returns the number of pages of each that has any.
    pub fn clear(&mut self) -> impl Iterator<Item = u32> + use<> {
        self.by_use.clear();
        let all = std::mem::take(&mut self.by_block).into_values();
        all.map(|(_, buffer)| buffer.pages).filter(|&n| n > 0)
    }

    /// Scans `n` buffers, least recently used first, for a shrinker. A buffer that was used within
    /// [`REFERENCES`] scans, has no pages or is `held` moves to the end; the others are freed
    /// (`xfs_buftarg_isolate`). Returns the number of pages of each freed buffer.
    pub fn scan(&mut self, n: u64, held: impl Fn(u64, Buffer) -> bool) -> Vec<u32> {
        let mut gone = Vec::new();
        for _ in 0..n.min(self.len() as u64) {
            let Some((_, block)) = self.by_use.pop_first() else {
                break;
            };
            let (last, buffer) = self
                .by_block
                .get_mut(&block)
                .expect("a buffer that was used");
            if buffer.references == 0 && !held(block, *buffer) && buffer.pages > 0 {
                gone.push(buffer.pages);
                self.by_block.remove(&block);
                continue;
            }
            buffer.references = buffer.references.saturating_sub(1);
            self.uses += 1;
            *last = self.uses;
            self.by_use.insert(self.uses, block);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least recently used buffer is dropped, however often it was used before.
    #[test]
    fn the_buffers_used_last_stay() {
        let mut buffers = Buffers::new(3);
        let mut used = |block| buffers.used(block, Buffer::of_block());
        assert_eq!([1, 2, 3, 1].map(&mut used), [false, false, false, true]);
        assert!((0..100).all(|_| used(2)));
        // Buffer 3 was used longest ago, then 1.
        assert!(!used(4) && !used(3) && !used(1));
        assert!(used(3) && used(4));
    }

    /// A shrinker skips each buffer twice, held ones always, and those used in between twice again.
    #[test]
    fn what_nobody_uses_goes_the_third_time() {
        let mut buffers = Buffers::new(1);
        buffers.keep_all();
        for block in 0..4 {
            buffers.used(block, Buffer::of_cluster(4, (0, block as u32)));
        }
        buffers.used(4, Buffer::of_block());
        let held = |block, buffer: Buffer| block == 2 && buffer.cluster == Some((0, 2));
        assert!(buffers.scan(5, held).is_empty());
        assert!(buffers.used(1, Buffer::of_cluster(4, (0, 1))));
        assert!(buffers.scan(5, held).is_empty());
        assert_eq!(buffers.scan(100, held), [4, 4, 1]);
        assert_eq!(buffers.len(), 2);
        buffers.used(9, Buffer::of_mount());
        assert_eq!(buffers.scan(9, |_, _| false), [4, 4]);
        buffers.used(1, Buffer::of_block());
        assert_eq!(buffers.clear().collect::<Vec<_>>(), [1]);
        assert_eq!((buffers.scan(1, held).len(), buffers.len()), (0, 0));
    }
}
