//! Doubly linked lists of slots in one array: 8 bytes a slot, each slot in one list at most.

use crate::policy::Slot;

const NEWER: usize = 0;
const OLDER: usize = 1;

/// Some lists over the same slots, each ordered from its newest to its oldest end.
///
/// List `k` is a ring through a sentinel behind the last slot, so neither end is a special case.
#[derive(Debug, Clone)]
pub struct Lists {
    /// For each slot and sentinel: the newer and the older neighbour.
    links: Vec<[u32; 2]>,
    slots: u32,
}

impl Lists {
    /// `lists` empty lists over the slots `0..slots`.
    ///
    /// # Panics
    /// If slots and lists together pass 2³².
    pub fn new(slots: u32, lists: u32) -> Self {
        let all = slots
            .checked_add(lists)
            .expect("slots and lists fit 32 bits");
        let mut links = vec![[0, 0]; all as usize];
        for s in slots..all {
            links[s as usize] = [s, s];
        }
        Self { links, slots }
    }

    fn slot(&self, at: u32) -> Option<Slot> {
        (at < self.slots).then_some(at)
    }

    #[inline]
    fn insert(&mut self, slot: Slot, newer: u32, older: u32) {
        self.links[slot as usize] = [newer, older];
        self.links[newer as usize][OLDER] = slot;
        self.links[older as usize][NEWER] = slot;
    }

    /// Adds a slot that is in no list at the newest end.
    #[inline]
    pub fn push_newest(&mut self, list: u32, slot: Slot) {
        let end = self.slots + list;
        self.insert(slot, end, self.links[end as usize][OLDER]);
    }

    /// Adds a slot that is in no list at the oldest end.
    #[inline]
    pub fn push_oldest(&mut self, list: u32, slot: Slot) {
        let end = self.slots + list;
        self.insert(slot, self.links[end as usize][NEWER], end);
    }

    /// Adds a slot that is in no list just on the older side of `at`, which is in one.
    #[inline]
    pub fn push_behind(&mut self, at: Slot, slot: Slot) {
        self.insert(slot, at, self.links[at as usize][OLDER]);
    }

    /// Takes a slot out of its list.
    #[inline]
    pub fn unlink(&mut self, slot: Slot) {
        let [newer, older] = self.links[slot as usize];
        self.links[newer as usize][OLDER] = older;
        self.links[older as usize][NEWER] = newer;
    }

    /// Moves a slot from its list to the newest end of `list`.
    #[inline]
    pub fn renew(&mut self, list: u32, slot: Slot) {
        self.unlink(slot);
        self.push_newest(list, slot);
    }

    /// The slot at the oldest end.
    #[inline]
    pub fn oldest(&self, list: u32) -> Option<Slot> {
        self.slot(self.links[(self.slots + list) as usize][NEWER])
    }

    /// The neighbour on the newer side of a slot that is in a list.
    #[inline]
    pub fn newer(&self, slot: Slot) -> Option<Slot> {
        self.slot(self.links[slot as usize][NEWER])
    }

    /// Whether a list has no slot.
    #[inline]
    pub fn is_empty(&self, list: u32) -> bool {
        let end = self.slots + list;
        self.links[end as usize][OLDER] == end
    }

    /// Moves all of `from`, in its order, to the newest end of `to`.
    pub fn append(&mut self, to: u32, from: u32) {
        if to == from || self.is_empty(from) {
            return;
        }
        let (to, from) = (self.slots + to, self.slots + from);
        let [oldest, newest] = self.links[from as usize];
        let before = self.links[to as usize][OLDER];
        self.links[to as usize][OLDER] = newest;
        self.links[newest as usize][NEWER] = to;
        self.links[oldest as usize][OLDER] = before;
        self.links[before as usize][NEWER] = oldest;
        self.links[from as usize] = [from, from];
    }
}

/// Lists that know which of them a slot is in, and how long they are.
#[derive(Debug, Clone)]
pub(crate) struct Counted<const N: usize> {
    lists: Lists,
    /// By slot: the list that it is in, or was in.
    list: Vec<u8>,
    /// Slots of each list.
    pub pages: [u32; N],
}

impl<const N: usize> Counted<N> {
    /// Empty lists over the slots `0..slots`.
    pub fn new(slots: u32) -> Self {
        Self {
            lists: Lists::new(slots, N as u32),
            list: vec![0; slots as usize],
            pages: [0; N],
        }
    }

    /// The list that a slot is in, or was in last.
    #[inline]
    pub fn of(&self, slot: Slot) -> u32 {
        self.list[slot as usize].into()
    }

    /// Adds a slot that is in no list at the newest end.
    #[inline]
    pub fn push(&mut self, list: u32, slot: Slot) {
        self.list[slot as usize] = list as u8;
        self.pages[list as usize] += 1;
        self.lists.push_newest(list, slot);
    }

    /// Takes a slot out of its list.
    #[inline]
    pub fn unlink(&mut self, slot: Slot) {
        self.pages[usize::from(self.list[slot as usize])] -= 1;
        self.lists.unlink(slot);
    }

    /// Moves a slot to the newest end of its list.
    #[inline]
    pub fn renew(&mut self, slot: Slot) {
        self.lists.renew(self.of(slot), slot);
    }

    /// The slot at the oldest end.
    #[inline]
    pub fn oldest(&self, list: u32) -> Option<Slot> {
        self.lists.oldest(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lists: &Lists, list: u32) -> Vec<Slot> {
        std::iter::successors(lists.oldest(list), |s| lists.newer(*s)).collect()
    }

    #[test]
    fn lists_keep_their_order() {
        let mut l = Lists::new(6, 2);
        assert!(l.is_empty(0) && l.oldest(1).is_none());
        (0..3).for_each(|s| l.push_newest(0, s));
        l.push_oldest(1, 3);
        l.push_oldest(1, 4);
        l.push_behind(3, 5);
        assert_eq!((all(&l, 0), all(&l, 1)), (vec![0, 1, 2], vec![4, 5, 3]));
        l.renew(0, 0);
        l.unlink(5);
        l.append(1, 0);
        assert_eq!((all(&l, 0), all(&l, 1)), (vec![], vec![4, 3, 1, 2, 0]));
        l.append(0, 1);
        l.append(0, 0);
        l.append(0, 1);
        assert_eq!((all(&l, 0), all(&l, 1)), (vec![4, 3, 1, 2, 0], vec![]));
    }
}
