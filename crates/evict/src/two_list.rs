//! Linux's active and inactive list of file pages, as read(2) and write(2) use them (reclaim of
//! Linux 3.1: `mark_page_accessed`, `shrink_active_list`, `inactive_file_is_low`,
//! `rotate_reclaimable_page` in mm/).

use crate::{Dirty, Lists, Policy, Slot};

const INACTIVE: u32 = 0;
const ACTIVE: u32 = 1;

/// Most pages that one shrinking of the active list moves: SWAP_CLUSTER_MAX.
const CLUSTER: u32 = 32;

/// New pages go to the inactive list; a second use there moves a page to the active list, which
/// returns pages while it is the longer one.
#[derive(Debug, Clone)]
pub struct TwoList {
    lists: Lists,
    pages: [u32; 2],
    slots: Vec<Flags>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    active: bool,
    referenced: bool,
}

impl TwoList {
    /// Puts a page at the newest end of the inactive list; `referenced` is its new reference mark.
    fn push_inactive(&mut self, slot: Slot, referenced: bool) {
        self.slots[slot as usize] = Flags {
            active: false,
            referenced,
        };
        self.pages[INACTIVE as usize] += 1;
        self.lists.push_newest(INACTIVE, slot);
    }

    /// Moves up to `CLUSTER` of the oldest active pages to the inactive list, with their reference
    /// marks, as the kernel's shrink_active_list() does for file pages.
    fn shrink_active(&mut self) {
        for _ in 0..CLUSTER {
            let Some(slot) = self.lists.oldest(ACTIVE) else {
                return;
            };
            let referenced = self.slots[slot as usize].referenced;
            self.remove(slot);
            self.push_inactive(slot, referenced);
        }
    }
}

impl Policy for TwoList {
    /// Creates Linux's active and inactive list for an empty cache of `slots` slots.
    fn new(slots: u32) -> Self {
        Self {
            lists: Lists::new(slots, 2),
            pages: [0; 2],
            slots: vec![Flags::default(); slots as usize],
        }
    }

    /// Adds the page brought into `slot` to the inactive list, not referenced yet.
    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.push_inactive(slot, false);
    }

    /// Records a use of the page in `slot`, as mark_page_accessed() does: the first use on the
    /// inactive list sets the reference mark, the second one activates the page.
    #[inline]
    fn access(&mut self, slot: Slot) {
        let flags = &mut self.slots[slot as usize];
        if flags.active || !flags.referenced {
            flags.referenced = true;
            return;
        }
        *flags = Flags {
            active: true,
            referenced: false,
        };
        self.pages[INACTIVE as usize] -= 1;
        self.pages[ACTIVE as usize] += 1;
        self.lists.renew(ACTIVE, slot);
    }

    /// Takes out the oldest page of the inactive list and returns its slot; `None` if there is no
    /// page. While the active list is the longer one, it first gives up to 32 pages to the inactive
    /// one.
    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        if self.pages[ACTIVE as usize] > self.pages[INACTIVE as usize] {
            self.shrink_active();
        }
        let slot = self.lists.oldest(INACTIVE)?;
        self.remove(slot);
        Some(slot)
    }

    /// Takes the page in `slot` out of its list and out of that list's count.
    fn remove(&mut self, slot: Slot) {
        let list = usize::from(self.slots[slot as usize].active);
        self.pages[list] -= 1;
        self.lists.unlink(slot);
    }

    /// Puts the page that `evict` chose back at the newest end of the inactive list, because it is
    /// dirty. A page that was referenced is only skipped; another one is to be written in the
    /// background (`PAGEREF_RECLAIM_CLEAN`).
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let referenced = self.slots[slot as usize].referenced;
        self.push_inactive(slot, false);
        if referenced {
            Dirty::Skip
        } else {
            Dirty::WriteBehind
        }
    }

    /// Moves the page in `slot`, which has been written after `dirty`, to the oldest end of the
    /// inactive list, so that it is the next to leave (rotate_reclaimable_page()). An activated
    /// page stays.
    fn cleaned(&mut self, slot: Slot) {
        if !self.slots[slot as usize].active {
            self.lists.unlink(slot);
            self.lists.push_oldest(INACTIVE, slot);
        }
    }
}
