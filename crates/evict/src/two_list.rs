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
    /// Puts a page at the newest end of the inactive list.
    fn push_inactive(&mut self, slot: Slot, referenced: bool) {
        self.slots[slot as usize] = Flags {
            active: false,
            referenced,
        };
        self.pages[INACTIVE as usize] += 1;
        self.lists.push_newest(INACTIVE, slot);
    }

    /// Moves up to [`CLUSTER`] of the oldest active pages to the inactive list.
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
    fn new(slots: u32) -> Self {
        Self {
            lists: Lists::new(slots, 2),
            pages: [0; 2],
            slots: vec![Flags::default(); slots as usize],
        }
    }

    #[inline]
    fn admit(&mut self, slot: Slot, _object: u64) {
        self.push_inactive(slot, false);
    }

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

    #[inline]
    fn evict(&mut self) -> Option<Slot> {
        if self.pages[ACTIVE as usize] > self.pages[INACTIVE as usize] {
            self.shrink_active();
        }
        let slot = self.lists.oldest(INACTIVE)?;
        self.remove(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot) {
        let list = usize::from(self.slots[slot as usize].active);
        self.pages[list] -= 1;
        self.lists.unlink(slot);
    }

    /// Gives the page another round of the inactive list; it is written unless it was referenced
    /// (`PAGEREF_RECLAIM_CLEAN`).
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let referenced = self.slots[slot as usize].referenced;
        self.push_inactive(slot, false);
        if referenced {
            Dirty::Skip
        } else {
            Dirty::WriteBehind
        }
    }

    /// Makes the page the next to leave, unless it was activated in the meantime.
    fn cleaned(&mut self, slot: Slot) {
        if !self.slots[slot as usize].active {
            self.lists.unlink(slot);
            self.lists.push_oldest(INACTIVE, slot);
        }
    }
}
