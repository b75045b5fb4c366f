//! Doubly linked lists of slots in one array: 8 bytes a slot and a value beside the links; each
//! slot is in at most one list.

use crate::policy::Slot;

const NEWER: usize = 0;
const OLDER: usize = 1;

/// Several lists over the same slots, each ordered from its newest to its oldest end.
///
/// List `k` is a ring through a sentinel behind the last slot, so neither end is a special case. A
/// value kept for a slot is beside its links, in the same cache line, because it is needed when the
/// slot leaves its list.
#[derive(Debug, Clone)]
pub struct Lists<T = ()> {
    links: Vec<Link<T>>,
    slots: u32,
}

/// The link of a slot or a sentinel.
#[derive(Debug, Clone, Copy)]
struct Link<T> {
    /// The newer and the older neighbour.
    ends: [u32; 2],
    kept: T,
}

impl<T: Copy + Default> Lists<T> {
    /// Creates `lists` empty lists over the slots `0..slots`. Each list has a sentinel behind the
    /// last slot, which is its own neighbour while the list is empty.
    ///
    /// # Panics
    /// If the number of slots and lists together exceeds 2³².
    pub fn new(slots: u32, lists: u32) -> Self {
        let all = slots
            .checked_add(lists)
            .expect("slots and lists fit 32 bits");
        let link = |ends| Link {
            ends,
            kept: T::default(),
        };
        let mut links = vec![link([0, 0]); slots as usize];
        links.extend((slots..all).map(|s| link([s, s])));
        Self { links, slots }
    }

    /// Returns the value kept for a slot.
    #[inline]
    pub fn kept(&self, slot: Slot) -> T {
        self.links[slot as usize].kept
    }

    /// Keeps a value for a slot, whether the slot is in a list or not.
    #[inline]
    pub fn keep(&mut self, slot: Slot, what: T) {
        self.links[slot as usize].kept = what;
    }

    /// Returns `at` if it is a slot, `None` if it is a list's sentinel, that is, the end of the
    /// list.
    fn slot(&self, at: u32) -> Option<Slot> {
        (at < self.slots).then_some(at)
    }

    /// Links a slot between two neighbours of a list; either may be the list's sentinel.
    #[inline]
    fn insert(&mut self, slot: Slot, newer: u32, older: u32) {
        self.links[slot as usize].ends = [newer, older];
        self.links[newer as usize].ends[OLDER] = slot;
        self.links[older as usize].ends[NEWER] = slot;
    }

    /// Adds a slot that is in no list at the newest end of `list`.
    #[inline]
    pub fn push_newest(&mut self, list: u32, slot: Slot) {
        let end = self.slots + list;
        self.insert(slot, end, self.links[end as usize].ends[OLDER]);
    }

    /// Adds a slot that is in no list at the oldest end of `list`.
    #[inline]
    pub fn push_oldest(&mut self, list: u32, slot: Slot) {
        let end = self.slots + list;
        self.insert(slot, self.links[end as usize].ends[NEWER], end);
    }

    /// Adds a slot that is in no list just on the older side of `at`, which is in one.
    #[inline]
    pub fn push_behind(&mut self, at: Slot, slot: Slot) {
        self.insert(slot, at, self.links[at as usize].ends[OLDER]);
    }

    /// Takes a slot out of its list.
    #[inline]
    pub fn unlink(&mut self, slot: Slot) {
        let [newer, older] = self.links[slot as usize].ends;
        self.links[newer as usize].ends[OLDER] = older;
        self.links[older as usize].ends[NEWER] = newer;
    }

    /// Moves a slot from its list to the newest end of `list`.
    #[inline]
    pub fn renew(&mut self, list: u32, slot: Slot) {
        self.unlink(slot);
        self.push_newest(list, slot);
    }

    /// Returns the slot at the list's oldest end; `None` if the list is empty.
    #[inline]
    pub fn oldest(&self, list: u32) -> Option<Slot> {
        self.slot(self.links[(self.slots + list) as usize].ends[NEWER])
    }

    /// Returns the neighbour on the newer side of a slot that is in a list; `None` if the slot is
    /// the newest.
    #[inline]
    pub fn newer(&self, slot: Slot) -> Option<Slot> {
        self.slot(self.links[slot as usize].ends[NEWER])
    }

    /// Returns true if a list has no slot.
    #[inline]
    pub fn is_empty(&self, list: u32) -> bool {
        let end = self.slots + list;
        self.links[end as usize].ends[OLDER] == end
    }

    /// Moves all slots of the list `from`, in their order, to the newest end of the list `to`, in
    /// constant time.
    pub fn append(&mut self, to: u32, from: u32) {
        if to == from || self.is_empty(from) {
            return;
        }
        let (to, from) = (self.slots + to, self.slots + from);
        // The neighbours of the sentinel: on its newer side the oldest slot, on its older side the
        // newest.
        let [oldest, newest] = self.links[from as usize].ends;
        let before = self.links[to as usize].ends[OLDER];
        self.links[to as usize].ends[OLDER] = newest;
        self.links[newest as usize].ends[NEWER] = to;
        self.links[oldest as usize].ends[OLDER] = before;
        self.links[before as usize].ends[NEWER] = oldest;
        self.links[from as usize].ends = [from, from];
    }
}

/// Lists that record which list a slot is in, and their lengths.
#[derive(Debug, Clone)]
pub(crate) struct Counted<const N: usize> {
    lists: Lists,
    /// By slot: the list that it is in, or was in last.
    list: Vec<u8>,
    /// Number of slots in each list.
    pub pages: [u32; N],
}

impl<const N: usize> Counted<N> {
    /// Creates `N` empty lists over the slots `0..slots`.
    pub fn new(slots: u32) -> Self {
        Self {
            lists: Lists::new(slots, N as u32),
            list: vec![0; slots as usize],
            pages: [0; N],
        }
    }

    /// Returns the list that a slot is in, or was in last.
    #[inline]
    pub fn of(&self, slot: Slot) -> u32 {
        self.list[slot as usize].into()
    }

    /// Adds a slot that is in no list at the newest end of `list`, and counts it there.
    #[inline]
    pub fn push(&mut self, list: u32, slot: Slot) {
        self.list[slot as usize] = list as u8;
        self.pages[list as usize] += 1;
        self.lists.push_newest(list, slot);
    }

    /// Takes a slot out of the list it is in, and out of that list's count.
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

    /// Returns the slot at the list's oldest end; `None` if the list is empty.
    #[inline]
    pub fn oldest(&self, list: u32) -> Option<Slot> {
        self.lists.oldest(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lists: &Lists<u64>, list: u32) -> Vec<Slot> {
        std::iter::successors(lists.oldest(list), |s| lists.newer(*s)).collect()
    }

    #[test]
    fn lists_keep_their_order() {
        let mut l = Lists::new(6, 2);
        assert!(l.is_empty(0) && l.oldest(1).is_none());
        l.keep(3, 30);
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
        // A value kept for a slot stays when the slot moves.
        assert_eq!((l.kept(3), l.kept(4)), (30, 0));
    }
}
