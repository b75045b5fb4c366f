//! From object numbers to slots: open addressing, 8 bytes an entry, at most half full.
//!
//! An entry holds 32 bits of the object's hash and the slot; the object itself stands in an array
//! by slot. The place of an entry follows from its 32 bits, so removal (which moves later entries
//! back, Knuth 6.4 R) and growth read no other memory.

use crate::policy::Slot;

/// The largest number of slots: 4 TiB in pages of 4 KiB.
pub const MOST: u32 = 1 << 30;

/// Which slot holds an object.
#[derive(Debug, Clone)]
pub struct Index {
    /// Hash above, slot + 1 below; 0 is empty.
    table: Vec<u64>,
    /// 32 less the logarithm of the table's length.
    shift: u32,
    /// By slot; means something only for slots that the table holds.
    objects: Vec<u64>,
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
            shift: length.leading_zeros() + 1,
            objects: vec![0; slots as usize],
        }
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    /// The object that a slot was last inserted for.
    #[inline]
    pub fn object(&self, slot: Slot) -> u64 {
        self.objects[slot as usize]
    }

    /// The slot that holds `object`.
    #[inline]
    pub fn find(&self, object: u64) -> Option<Slot> {
        let hash = hash(object);
        let mut at = self.home(hash);
        loop {
            let entry = self.table[at];
            if entry == 0 {
                return None;
            }
            let slot = entry as u32 - 1;
            if (entry >> 32) as u32 == hash && self.objects[slot as usize] == object {
                return Some(slot);
            }
            at = self.next(at);
        }
    }

    /// Reads what [`find`](Self::find) will look at for these objects, so that it is in the
    /// processor's caches: the reads do not wait for each other, and nothing is decided by them.
    #[inline]
    pub fn warm(&self, objects: &[u64]) {
        let mut slots = [0_u32; 64];
        let last = self.slots().saturating_sub(1);
        for objects in objects.chunks(slots.len()) {
            for (slot, object) in slots.iter_mut().zip(objects) {
                let entry = self.table[self.home(hash(*object))];
                *slot = (entry as u32).saturating_sub(1).min(last);
            }
            let known = slots.iter().take(objects.len());
            let sum = known.fold(0, |sum, s| {
                sum ^ self.objects.get(*s as usize).unwrap_or(&0)
            });
            std::hint::black_box(sum);
        }
    }

    /// Notes that `slot`, which holds nothing, holds `object`, which is nowhere.
    #[inline]
    pub fn insert(&mut self, object: u64, slot: Slot) {
        self.objects[slot as usize] = object;
        self.place(u64::from(hash(object)) << 32 | u64::from(slot + 1));
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mut at = self.home((entry >> 32) as u32);
        while self.table[at] != 0 {
            at = self.next(at);
        }
        self.table[at] = entry;
    }

    /// Notes that `slot`, which holds an object, holds nothing.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        let wanted = u64::from(hash(self.objects[slot as usize])) << 32 | u64::from(slot + 1);
        let mut hole = self.home((wanted >> 32) as u32);
        while self.table[hole] != wanted {
            debug_assert_ne!(self.table[hole], 0, "the slot holds an object");
            hole = self.next(hole);
        }
        let mask = self.table.len() - 1;
        let mut at = hole;
        loop {
            at = self.next(at);
            let entry = self.table[at];
            if entry == 0 {
                break;
            }
            // An entry may fill the hole unless its home lies behind it.
            let home = self.home((entry >> 32) as u32);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.table[hole] = entry;
                hole = at;
            }
        }
        self.table[hole] = 0;
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.objects.len() as u32
    }

    /// Adds one slot, and makes the table larger where that makes it more than half full. Returns
    /// the slot, or `None` if there are [`MOST`] already.
    pub fn add_slot(&mut self) -> Option<Slot> {
        let slot = self.slots();
        if slot == MOST {
            return None;
        }
        self.objects.push(0);
        if self.objects.len() * 2 > self.table.len() {
            let length = self.table.len() * 2;
            let old = std::mem::replace(&mut self.table, vec![0; length]);
            self.shift -= 1;
            for entry in old.into_iter().filter(|e| *e != 0) {
                self.place(entry);
            }
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
            steps in prop::collection::vec((any::<bool>(), 0_u64..80), 0..400),
            growing in any::<bool>(),
        ) {
            let mut index = Index::new(if growing { 0 } else { slots });
            let mut model: HashMap<u64, u32> = HashMap::new();
            let mut free: Vec<u32> = (0..slots).rev().collect();
            if growing {
                while index.slots() < slots {
                    index.add_slot();
                }
            }
            for (add, object) in steps {
                let known = model.get(&object).copied();
                prop_assert_eq!(index.find(object), known);
                match known {
                    Some(slot) if !add => {
                        prop_assert_eq!(index.object(slot), object);
                        index.remove(slot);
                        model.remove(&object);
                        free.push(slot);
                    }
                    None if add && !free.is_empty() => {
                        let slot = free.pop().unwrap();
                        index.insert(object, slot);
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
