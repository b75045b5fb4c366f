//! Hash index from object numbers to slots: open addressing, 4 bytes an entry.
//!
//! An entry holds a slot and, above it, those bits of the object's hash that its place does not
//! imply. The object itself is in an array by slot, so a look-up detects a wrong entry. For this
//! reason an entry may stay where it is when its slot is taken for another object
//! ([`Index::replace`]): it is wrong from then on, and costs at most one comparison. When five
//! eighths of the table are used, the table is filled anew from the array. The small table, and the
//! fact that an eviction touches nothing else, make the look-ups of a full cache fast: they are
//! misses in the processor's caches.
//!
//! A used place becomes empty only when the table is filled anew, so no chain of entries is ever
//! cut, and [`Index::remove`] finds all entries of its slot that would still be right.

use crate::policy::Slot;

/// The largest number of slots: 4 TiB in pages of 4 KiB.
pub const MOST: u32 = 1 << 30;

/// Marks an entry that was removed: the low bits, which hold slot + 1 in other entries, are 0.
const REMOVED: u32 = 1 << 31;

/// The end of a search that found nothing ([`Index::seek`]): the object's hash, and the empty place
/// that an entry for the object would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    hash: u32,
    at: u32,
}

/// The map from objects to slots.
#[derive(Debug, Clone)]
pub struct Index {
    /// Entries: the low bits of the hash above, and slot + 1 below in as many bits as the logarithm
    /// of the length; 0 is empty.
    table: Vec<u32>,
    /// The logarithm of the table's length: 4 to 31.
    bits: u32,
    /// Number of entries that are not empty.
    used: usize,
    /// The object of each slot; meaningful only for slots that hold one.
    objects: Vec<u64>,
    /// One bit for each slot: it holds an object.
    held: Vec<u64>,
}

/// Returns a 32-bit hash of an object's number: a multiplication to 128 bits, folded.
#[inline]
fn hash(object: u64) -> u32 {
    let wide = u128::from(object ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
    ((wide >> 64) as u64 ^ wide as u64) as u32
}

impl Index {
    /// Creates an empty index of the slots `0..slots`, at most [`MOST`]. The table has at least
    /// twice as many entries as there are slots, rounded up to a power of two.
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

    /// Returns the place in the table where the search for a hash begins: the hash's upper bits.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        (hash >> (32 - self.bits)) as usize & (self.table.len() - 1)
    }

    /// Returns the place after `at`, round the table's end: the next probe of a search.
    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    /// Returns the slot of an entry for a hash. If the entry is for another hash, removed or empty,
    /// the result is no slot's number: bits above those of a slot remain, or 0 - 1 wraps around.
    #[inline]
    fn slot(&self, entry: u32, hash: u32) -> Slot {
        (entry ^ hash << self.bits).wrapping_sub(1)
    }

    /// Returns true if `slot`, a number below [`Index::slots`], holds an object: `held` has a bit
    /// for each.
    #[inline]
    fn holds(&self, slot: Slot) -> bool {
        self.held[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// Returns the object that a slot was last inserted for.
    #[inline]
    pub fn object(&self, slot: Slot) -> u64 {
        self.objects[slot as usize]
    }

    /// Returns the slot that holds `object`.
    #[inline]
    pub fn find(&self, object: u64) -> Option<Slot> {
        self.search(object).ok()
    }

    /// Searches the table for the slot that holds `object`, place after place from the hash's home.
    /// Returns `Err` with the empty place at which the search ended if no slot holds it.
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

    /// Takes a first look for each of at most 64 objects, to bring the memory that the real
    /// look-ups need into the processor's caches; the reads do not wait for each other. `slots`
    /// receives the slots that [`find`](Self::find) would most likely return, and numbers that are
    /// no slots where it is not clear at once.
    #[inline]
    pub fn guess(&self, objects: &[u64], slots: &mut [Slot; 64]) {
        for (slot, object) in slots.iter_mut().zip(objects) {
            let hash = hash(*object);
            *slot = self.slot(self.table[self.home(hash)], hash);
        }
        let sum = slots.iter().take(objects.len()).fold(0, |sum, slot| {
            sum ^ self.objects.get(*slot as usize).unwrap_or(&0)
        });
        // The sum is of no use; without it the compiler would drop the reads.
        std::hint::black_box(sum);
    }

    /// Returns the slot that holds `object`, or `None`. `guess` is a slot to look at first, and may
    /// be wrong.
    #[inline]
    pub fn find_guessed(&self, object: u64, guess: Slot) -> Option<Slot> {
        self.seek(object, guess).ok()
    }

    /// Finds the slot that holds `object`; `guess` is looked at first, and may be wrong. If no slot
    /// holds the object, returns `Err` with the end of the search, so that
    /// [`insert_at`](Self::insert_at) and [`replace_at`](Self::replace_at) need not search again.
    #[inline]
    pub fn seek(&self, object: u64, guess: Slot) -> Result<Slot, End> {
        if self.objects.get(guess as usize) == Some(&object) && self.holds(guess) {
            return Ok(guess);
        }
        self.search(object)
    }

    /// Records that the empty `slot` now holds `object`, as [`insert`](Self::insert) does, at the
    /// `end` of the search that [`seek`](Self::seek) returned; nothing may have been inserted
    /// since.
    #[inline]
    pub fn insert_at(&mut self, object: u64, slot: Slot, end: End) {
        self.held[slot as usize / 64] |= 1 << (slot % 64);
        self.replace_at(object, slot, end);
    }

    /// Records that `slot`, which holds another object, now holds `object`, as
    /// [`replace`](Self::replace) does, at the `end` of the search that [`seek`](Self::seek)
    /// returned; nothing may have been inserted since. If five eighths of the table are used, it is
    /// filled anew instead.
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

    /// Writes an entry for `slot` into the empty place where the search for its object ended: the
    /// hash's low bits above, slot + 1 below.
    #[inline]
    fn take(&mut self, end: End, slot: Slot) {
        self.table[end.at as usize] = end.hash << self.bits | (slot + 1);
        self.used += 1;
    }

    /// Records that `slot`, which holds nothing, now holds `object`, which no slot holds.
    #[inline]
    pub fn insert(&mut self, object: u64, slot: Slot) {
        self.insert_at(object, slot, self.vacant(object));
    }

    /// Records that `slot`, which holds another object, now holds `object`, which no slot holds.
    #[inline]
    pub fn replace(&mut self, object: u64, slot: Slot) {
        self.replace_at(object, slot, self.vacant(object));
    }

    /// Returns the empty place at which the search for `object` ends, where its entry may be
    /// written. No slot holds the object, so entries on the way are not compared.
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

    /// Fills the table anew from the slots that hold an object, without the removed and outdated
    /// entries.
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

    /// Records that `slot`, which holds an object, holds nothing from now on. Its entries in the
    /// table are marked as removed, not emptied, because an empty place would end other searches.
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

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        self.objects.len() as u32
    }

    /// Adds one slot, and doubles the table where it has less than twice as many entries as slots.
    /// Returns the slot, or `None` if there are [`MOST`] already.
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
