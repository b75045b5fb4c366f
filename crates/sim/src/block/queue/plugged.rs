//! Requests that a task holds in a plug (`struct blk_plug`, docs/reference/writeback.md#plugs):
//! they have their tokens and tags already, but the scheduler does not see them yet.

use super::Queue;
use crate::block::{Bio, IoContext, Slot, Wake};

impl Queue {
    /// Returns the number of blocks of a request in a plug.
    pub fn blocks_of(&self, slot: Slot) -> u32 {
        self.requests[slot as usize].blocks()
    }

    /// Moves a request from its task's plug to the scheduler, where it joins the request in front
    /// of it if the two touch and fit and there is a scheduler; call [`Self::dispatch`] next
    /// (`elv_attempt_insert_merge`).
    pub fn unplug(&mut self, now: u64, task: &IoContext, slot: Slot) -> Wake {
        self.insert(now, task, slot);
        match self.scheduled {
            true => self.join_in_front(now, slot),
            false => Wake::default(),
        }
    }

    /// Extends a plug's request by the bio, if the two touch and fit; returns true if it did.
    pub(super) fn extend_plugged(&mut self, slot: Slot, bio: &Bio) -> bool {
        let request = &self.requests[slot as usize];
        if request.class != self.class_of(bio) || !self.fits(slot, bio) {
            return false;
        }
        if request.end == bio.block {
            self.append(slot, bio);
        } else if request.block == bio.end() {
            self.prepend(slot, bio);
        } else {
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{queue, tags, write};
    use super::*;
    use crate::block::{Class, Submit};
    use crate::spec::DiskKind;

    #[test]
    fn a_plugs_request_grows_at_both_ends_and_is_the_devices_once_it_leaves() {
        let (mut q, mut rng) = queue(DiskKind::Disk, vec![]);
        let mut task = IoContext::default();
        let Submit::Plugged(slot) = q.submit_plugged(0, &mut task, None, write(1, 10, 2)) else {
            panic!("a new request")
        };
        assert_eq!(
            (q.dispatch(0, &mut rng), q.in_flight(Class::Async)),
            (None, 1)
        );
        for (tag, block) in [(2, 12), (3, 9)] {
            let bio = write(tag, block, 1);
            assert!(!q.may_merge(&bio), "nobody else sees it");
            let answer = q.submit_plugged(0, &mut task, Some(slot), bio);
            assert!(matches!(answer, Submit::Merged(_)), "{answer:?}");
        }
        assert_eq!(q.blocks_of(slot), 4);
        // Another task's request lies in front of the plugged one: the two join on unplug.
        q.submit(0, &mut task, write(4, 8, 1));
        assert_eq!(q.in_flight(Class::Async), 2);
        let wake = q.unplug(0, &task, slot);
        assert_eq!((q.in_flight(Class::Async), wake.requests), (1, [0, 1]));
        let due = q.dispatch(0, &mut rng).expect("a request in service");
        assert_eq!(tags(&mut q, due), [4, 3, 1, 2]);
        assert!(q.is_idle());
    }
}
