//! From object numbers to slots: open addressing, 4 bytes an entry.
//!
//! An entry holds a slot and, above it, those bits of the object's hash that its place does not tell;
//! the object itself stands in an array by slot, so a wrong entry is noticed there. That is why an
//! entry may stay where it is when its slot is taken for another object ([`Index::replace`]): it has
//! become wrong, and costs a look at most. When five eighths of the table are taken, it is filled
//! anew from the array. A table of fewer bytes, and nothing else touched for what leaves, is what
//! makes the look-ups of a full cache quick: they are misses in the processor's caches.
//!
//! A place that was taken is empty again only when the table is filled anew, so no chain of entries
//! is ever cut, and [`Index::remove`] finds all entries of its slot that would still be right.

use crate::policy::Slot;

/// The largest number of slots: 4 TiB in pages of 4 KiB.
pub const MOST: u32 = 1 << 30;

/// Marks an entry that was removed: no slot, whose number + 1 stands in the low bits.
const REMOVED: u32 = 1 << 31;

/// Where a search ended that found nothing ([`Index::seek`]): the object's hash, and the empty place that an entry for
/// it would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    hash: u32,
    at: u32,
}

/// Which slot holds an object.
#[derive(Debug, Clone)]
pub struct Index {
    /// The hash's low bits above, slot + 1 below in as many bits as the length, a power of two, has
    /// behind its first; 0 is empty.
    table: Vec<u32>,
    /// The logarithm of the table's length: 4 to 31.
    bits: u32,
    /// Entries that are not empty.
    used: usize,
    /// By slot; means something only for slots that hold an object.
    objects: Vec<u64>,
    /// A bit a slot: whether it holds an object.
    held: Vec<u64>,
}

#[inline]
fn hash(object: u64) -> u32 {
    let wide = u128::from(object ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
    ((wide >> 64) as u64 ^ wide as u64) as u32
}

impl Index {
    /// An empty index of the slots `0..slots`, which are at most [`MOST`].
    pub fn new(slots: u32) -> Self {
        let length = (slots.clamp(8, MOST) * 2).next_power_of_two();
        Self {
            table: vec![0; length as usize],
            bits: length.trailing_zeros(),
            used: 0,
            objects: vec![0; slots as usize],
            held: vec![0; slots.div_ceil(64) as usize],
        }
    }

    /// Where the search for a hash begins: its upper bits.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        (hash >> (32 - self.bits)) as usize & (self.table.len() - 1)
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    /// The slot of an entry for a hash. A number that is no slot's if the entry is for another one, was removed or is
    /// empty: bits above those of a slot are left then, or nothing, less one.
    #[inline]
    fn slot(&self, entry: u32, hash: u32) -> Slot {
        (entry ^ hash << self.bits).wrapping_sub(1)
    }

    /// Whether a slot, which is one, holds an object.
    #[inline]
    fn holds(&self, slot: Slot) -> bool {
        self.held[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// The object that a slot was last inserted for.
    #[inline]
    pub fn object(&self, slot: Slot) -> u64 {
        self.objects[slot as usize]
    }

    /// The slot that holds `object`.
    #[inline]
    pub fn find(&self, object: u64) -> Option<Slot> {
        self.search(object).ok()
    }

    #[inline]
    fn search(&self, object: u64) -> Result<Slot, End> {
        let hash = hash(object);
        let mut at = self.home(hash);
        loop {
            let entry = self.table[at];
            if entry == 0 {
                return Err(End {
                    hash,
                    at: at as u32,
                });
            }
            let slot = self.slot(entry, hash);
            if self.objects.get(slot as usize) == Some(&object) {
                return Ok(slot);
            }
            at = self.next(at);
        }
    }

    /// A first look for each of at most 64 objects: `slots` becomes what [`find`](Self::find) would
    /// most likely return, a number that is no slot's where that is nothing or not clear at once. What it reads is
    /// in the processor's caches afterwards; the reads do not wait for each other.
    #[inline]
    pub fn guess(&self, objects: &[u64], slots: &mut [Slot; 64]) {
        for (slot, object) in slots.iter_mut().zip(objects) {
            let hash = hash(*object);
            *slot = self.slot(self.table[self.home(hash)], hash);
        }
        let sum = slots.iter().take(objects.len()).fold(0, |sum, slot| {
            sum ^ self.objects.get(*slot as usize).unwrap_or(&0)
        });
        std::hint::black_box(sum);
    }

    /// As [`find`](Self::find), with a guess that may have come true or not.
    #[inline]
    pub fn find_guessed(&self, object: u64, guess: Slot) -> Option<Slot> {
        self.seek(object, guess).ok()
    }

    /// As [`find_guessed`](Self::find_guessed); for an object that is nowhere, where the search ended: what
    /// [`insert_at`](Self::insert_at) and [`replace_at`](Self::replace_at) need not search again.
    #[inline]
    pub fn seek(&self, object: u64, guess: Slot) -> Result<Slot, End> {
        if self.objects.get(guess as usize) == Some(&object) && self.holds(guess) {
            return Ok(guess);
        }
        self.search(object)
    }

    /// As [`insert`](Self::insert), at the end that [`seek`](Self::seek) has found; nothing has been inserted since.
    #[inline]
    pub fn insert_at(&mut self, object: u64, slot: Slot, end: End) {
        self.held[slot as usize / 64] |= 1 << (slot % 64);
        self.replace_at(object, slot, end);
    }

    /// As [`replace`](Self::replace), at the end that [`seek`](Self::seek) has found; nothing has been inserted since.
    #[inline]
    pub fn replace_at(&mut self, object: u64, slot: Slot, end: End) {
        debug_assert!(self.holds(slot), "the slot holds an object");
        debug_assert!(
            end.hash == hash(object) && self.table[end.at as usize] == 0,
            "the search for this object ended here"
        );
        self.objects[slot as usize] = object;
        if self.used >= self.table.len() / 8 * 5 {
            self.fill();
        } else {
            self.take(end, slot);
        }
    }

    /// An entry for a slot, in an empty place.
    #[inline]
    fn take(&mut self, end: End, slot: Slot) {
        self.table[end.at as usize] = end.hash << self.bits | (slot + 1);
        self.used += 1;
    }

    /// Notes that `slot`, which holds nothing, holds `object`, which is nowhere.
    #[inline]
    pub fn insert(&mut self, object: u64, slot: Slot) {
        self.insert_at(object, slot, self.vacant(object));
    }

    /// Notes that `slot`, which holds another object, holds `object` instead, which is nowhere.
    #[inline]
    pub fn replace(&mut self, object: u64, slot: Slot) {
        self.replace_at(object, slot, self.vacant(object));
    }

    /// Where a search for an object ends that is nowhere.
    #[inline]
    fn vacant(&self, object: u64) -> End {
        let hash = hash(object);
        let mut at = self.home(hash);
        while self.table[at] != 0 {
            at = self.next(at);
        }
        End {
            hash,
            at: at as u32,
        }
    }

    /// Fills the table anew from the slots that hold an object.
    #[cold]
    fn fill(&mut self) {
        self.table.fill(0);
        self.used = 0;
        for slot in 0..self.slots() {
            if self.holds(slot) {
                self.take(self.vacant(self.objects[slot as usize]), slot);
            }
        }
    }

    /// Notes that `slot`, which holds an object, holds nothing.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        debug_assert!(self.holds(slot), "the slot holds an object");
        self.held[slot as usize / 64] &= !(1 << (slot % 64));
        let hash = hash(self.objects[slot as usize]);
        let right = hash << self.bits | (slot + 1);
        let mut at = self.home(hash);
        // The slot may have held the same object before, and another one meanwhile.
        while self.table[at] != 0 {
            if self.table[at] == right {
                self.table[at] = REMOVED;
            }
            at = self.next(at);
        }
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.objects.len() as u32
    }

    /// Adds one slot, and makes the table larger where that is less than twice the slots. Returns
    /// the slot, or `None` if there are [`MOST`] already.
    pub fn add_slot(&mut self) -> Option<Slot> {
        let slot = self.slots();
        if slot == MOST {
            return None;
        }
        self.objects.push(0);
        if slot.is_multiple_of(64) {
            self.held.push(0);
        }
        if self.objects.len() * 2 > self.table.len() {
            self.bits += 1;
            self.table = vec![0; 1 << self.bits];
            self.fill();
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(
            slots in 1_u32..60,
            steps in prop::collection::vec((any::<(bool, bool)>(), 0_u64..80), 0..800),
            growing in any::<bool>(),
            seeking in any::<bool>(),
        ) {
            let mut index = Index::new(if growing { 0 } else { slots });
            let mut model: HashMap<u64, u32> = HashMap::new();
            let mut free: Vec<u32> = (0..slots).rev().collect();
            if growing {
                while index.slots() < slots {
                    index.add_slot();
                }
            }
            for ((add, replaced), object) in steps {
                let known = model.get(&object).copied();
                prop_assert_eq!(index.find(object), known);
                for guess in [0, slots - 1, slots, Slot::MAX] {
                    prop_assert_eq!(index.find_guessed(object, guess), known);
                }
                let end = index.seek(object, Slot::MAX).err();
                prop_assert_eq!(end.is_some(), known.is_none());
                let mut slots = [0; 64];
                index.guess(&[object], &mut slots);
                prop_assert!(known.is_some() || index.find_guessed(object, slots[0]).is_none());
                match known {
                    Some(slot) if !add => {
                        prop_assert_eq!(index.object(slot), object);
                        index.remove(slot);
                        model.remove(&object);
                        free.push(slot);
                    }
                    None if replaced => {
                        let Some((&old, &slot)) = model.iter().min() else { continue };
                        model.remove(&old);
                        match end.filter(|_| seeking) {
                            Some(end) => index.replace_at(object, slot, end),
                            None => index.replace(object, slot),
                        }
                        model.insert(object, slot);
                    }
                    None if add && !free.is_empty() => {
                        let slot = free.pop().unwrap();
                        match end.filter(|_| seeking) {
                            Some(end) => index.insert_at(object, slot, end),
                            None => index.insert(object, slot),
                        }
                        model.insert(object, slot);
                    }
                    _ => {}
                }
            }
            for object in 0..80 {
                prop_assert_eq!(index.find(object), model.get(&object).copied());
            }
        }

        #[test]
        fn it_grows_with_what_it_holds(objects in prop::collection::hash_set(any::<u64>(), 0..500)) {
            let mut index = Index::new(0);
            for object in &objects {
                prop_assert_eq!(index.find(*object), None);
                let slot = index.add_slot().unwrap();
                index.insert(*object, slot);
            }
            for object in &objects {
                prop_assert_eq!(index.object(index.find(*object).unwrap()), *object);
            }
        }
    }
}
