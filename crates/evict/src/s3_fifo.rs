//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi 2023, "FIFO queues are all you need for cache eviction",
//! SOSP), in the form of the authors' simulator: promotion from the small queue takes two uses
//! after the first, the main queue counts to three, and a page found among the ghosts is admitted
//! to the main queue.

use crate::{Dirty, Ghost, Lists, Policy, Slot};

const SMALL: u32 = 0;
const MAIN: u32 = 1;

/// Uses, besides the first, that a page needs to move from the small queue to the main one.
const PROMOTE: u8 = 2;
/// Most rounds in the main queue that a page's uses are worth.
const ROUNDS: u8 = 3;

/// A small queue in which new pages must be used to reach the main one, and ghosts of pages that
/// were not used enough.
#[derive(Debug, Clone)]
pub struct S3Fifo {
    /// The two queues, with the object of each page.
    queues: Lists<u64>,
    /// Number of pages in each queue.
    pages: [u32; 2],
    slots: Vec<Known>,
    ghost: Ghost,
    /// True if the object about to be admitted was among the ghosts.
    returns: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    uses: u8,
    queue: u8,
}

impl S3Fifo {
    /// Puts the page in `slot` at the newest end of `queue` (`SMALL` or `MAIN`) with a count of
    /// `uses`.
    fn push(&mut self, queue: u32, slot: Slot, uses: u8) {
        self.slots[slot as usize] = Known {
            uses,
            queue: queue as u8,
        };
        self.pages[queue as usize] += 1;
        self.queues.push_newest(queue, slot);
    }

    /// Takes the oldest page out of `queue` and returns its slot; `None` if the queue is empty.
    fn pop(&mut self, queue: u32) -> Option<Slot> {
        let slot = self.queues.oldest(queue)?;
        self.queues.unlink(slot);
        self.pages[queue as usize] -= 1;
        Some(slot)
    }

    /// Takes out the small queue's oldest page that was not used enough, makes it a ghost and
    /// returns its slot. Pages used at least `PROMOTE` times move to the main queue. `None`: no
    /// page of the small queue is left.
    fn evict_small(&mut self) -> Option<Slot> {
        loop {
            let slot = self.pop(SMALL)?;
            let uses = self.slots[slot as usize].uses;
            if uses < PROMOTE {
                self.ghost.push(self.queues.kept(slot));
                return Some(slot);
            }
            self.push(MAIN, slot, 0);
        }
    }

    /// Takes out the main queue's oldest page without uses left and returns its slot; `None` if the
    /// queue is empty. A page with uses gets another round for one of them.
    fn evict_main(&mut self) -> Option<Slot> {
        loop {
            let slot = self.pop(MAIN)?;
            let uses = self.slots[slot as usize].uses;
            if uses == 0 {
                return Some(slot);
            }
            self.push(MAIN, slot, uses.min(ROUNDS) - 1);
        }
    }
}

impl Policy for S3Fifo {
    /// Creates S3-FIFO for an empty cache of `slots` slots, with ghosts for nine tenths as many
    /// objects.
    fn new(slots: u32) -> Self {
        Self {
            queues: Lists::new(slots, 2),
            pages: [0; 2],
            slots: vec![Known::default(); slots as usize],
            ghost: Ghost::new((u64::from(slots) * 9 / 10) as u32),
            returns: false,
        }
    }

    /// Looks whether the object about to be brought in is a ghost, and keeps that for `admit`; the
    /// ghost is forgotten.
    fn miss(&mut self, object: u64) {
        self.returns = self.ghost.take(object).is_some();
    }

    /// Adds the page of `object`, just brought into `slot`: to the main queue if the object was a
    /// ghost, else to the small one.
    #[inline]
    fn admit(&mut self, slot: Slot, object: u64) {
        self.queues.keep(slot, object);
        let queue = if std::mem::take(&mut self.returns) {
            MAIN
        } else {
            SMALL
        };
        self.push(queue, slot, 0);
    }

    /// Counts a use of the page in `slot`; the queues look at it when the page is the oldest.
    #[inline]
    fn access(&mut self, slot: Slot) {
        let uses = &mut self.slots[slot as usize].uses;
        *uses = uses.saturating_add(1);
    }

    /// Takes out a page and returns its slot: one of the main queue while that has more than nine
    /// tenths of the pages, else one of the small queue. `None` if there is no page.
    fn evict(&mut self) -> Option<Slot> {
        // `evict` is called only when the cache is full, so the shares are taken of its pages, not
        // of the slots: nine tenths, rounded up, for the main queue, and the rest for the small
        // one.
        let [small, main] = self.pages;
        if main > small + main - (small + main) / 10 || small == 0 {
            self.evict_main()
        } else {
            // If all pages of the small queue moved to the main one, the main one evicts.
            self.evict_small().or_else(|| self.evict_main())
        }
    }

    /// Takes the page in `slot`, whose object is gone, out of its queue and its queue's count.
    fn remove(&mut self, slot: Slot) {
        self.pages[usize::from(self.slots[slot as usize].queue)] -= 1;
        self.queues.unlink(slot);
    }

    /// Puts the page that `evict` chose back at the newest end of its queue, with its uses and
    /// without its ghost, because it is dirty; asks the cache to write it in the background and to
    /// choose another page.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let Known { uses, queue } = self.slots[slot as usize];
        if u32::from(queue) == SMALL {
            self.ghost.take(self.queues.kept(slot));
        }
        self.push(queue.into(), slot, uses);
        Dirty::WriteBehind
    }
}
