//! The part of its chain of clusters that an inode remembers (Linux 6.12 fs/fat/cache.c,
//! fs/exfat/cache.c).
//!
//! Finding a file's n-th cluster takes following the table's entries from the first one on, or from
//! the nearest run of clusters that the inode remembers. A run is contiguous on the disk; the last
//! few are kept.

use std::ops::Range;

/// A run of a file's clusters that are contiguous on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u32,
    /// Number of clusters behind the first one.
    more: u32,
}

/// The remembered runs of one inode, most recently used first.
#[derive(Debug, Default)]
pub struct Chain(Vec<Run>);

impl Chain {
    /// Finds a cluster by its number in the file, from the nearest remembered run, and remembers
    /// the run that the cluster lies in; at most `most` runs are kept. Returns the numbers of the
    /// clusters whose table entries have to be read on the way. `follows` returns true if a cluster
    /// is contiguous with its predecessor.
    pub fn locate(
        &mut self,
        cluster: u32,
        most: usize,
        follows: impl Fn(u32) -> bool,
    ) -> Range<u32> {
        if cluster == 0 {
            return 0..0;
        }
        let known = self.0.iter().enumerate();
        let near = known
            .filter(|(_, run)| run.first <= cluster)
            .max_by_key(|(_, run)| run.first);
        let (mut run, start) = match near {
            Some((at, run)) => {
                let run = *run;
                self.0[..=at].rotate_right(1);
                (run, cluster.min(run.first + run.more))
            }
            None => (Run { first: 0, more: 0 }, 0),
        };
        for next in start + 1..=cluster {
            if follows(next) {
                run.more = run.more.max(next - run.first);
            } else {
                run = Run {
                    first: next,
                    more: 0,
                };
            }
        }
        self.keep(run, most);
        start..cluster
    }

    /// Puts a run first among the remembered ones, of which `most` are kept. Of two runs with the
    /// same first cluster the longer one is kept.
    fn keep(&mut self, mut run: Run, most: usize) {
        // The file's first cluster is stored in the inode itself.
        if run.first == 0 && run.more == 0 {
            return;
        }
        if let Some(at) = self.0.iter().position(|r| r.first == run.first) {
            run.more = run.more.max(self.0.remove(at).more);
        }
        self.0.insert(0, run);
        self.0.truncate(most);
    }

    /// Forgets all runs.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_in_a_row_is_followed_once() {
        let mut chain = Chain::default();
        let all = |_| true;
        assert_eq!(chain.locate(0, 8, all), 0..0);
        assert_eq!(chain.locate(1000, 8, all), 0..1000);
        assert_eq!(chain.locate(1000, 8, all), 1000..1000);
        assert_eq!(chain.locate(10, 8, all), 10..10);
        assert_eq!(chain.locate(1500, 8, all), 1000..1500);
        chain.forget();
        assert_eq!(chain.locate(10, 8, all), 0..10);
    }

    #[test]
    fn of_a_scattered_file_the_last_runs_are_known() {
        let mut chain = Chain::default();
        let pairs = |c: u32| c % 2 == 1;
        assert_eq!(chain.locate(101, 2, pairs), 0..101);
        // Only the run 100..=101 is remembered, and the search for 50 begins before it.
        assert_eq!(chain.locate(50, 2, pairs), 0..50);
        assert_eq!(chain.locate(103, 2, pairs), 101..103);
        assert_eq!(chain.locate(51, 2, pairs), 0..51, "two runs were kept, and not its");
        assert_eq!(chain.locate(50, 2, pairs), 50..50);
        assert_eq!(chain.locate(30, 2, pairs), 0..30);
        assert_eq!(chain.locate(103, 2, pairs), 51..103, "from the nearest one on");
    }

    proptest! {
        /// The entries read end before the cluster and begin at a remembered place. With room for
        /// all runs, no entry of a chain that was followed to its end is read twice.
        #[test]
        fn no_entry_is_read_twice_with_room(
            breaks in prop::collection::vec(any::<bool>(), 64),
            asked in prop::collection::vec(0..64u32, 1..60),
        ) {
            let mut chain = Chain::default();
            let follows = |c: u32| breaks[c as usize];
            let mut whole = chain.locate(63, 64, follows);
            prop_assert_eq!(&whole, &(0..63));
            for at in asked {
                whole = chain.locate(at, 64, follows);
                prop_assert!(whole.end == at && whole.start <= at);
                let again = chain.locate(at, 64, follows);
                prop_assert!(again.is_empty());
            }
        }
    }
}
