//! The simulated cache without writes: the map of objects to slots, and the calls of the policy's
//! hooks.

use evict::{Index, Policy, Slot};
use serde::Serialize;

/// A map between objects and the slots that hold them.
pub trait Map {
    /// The end of a search for an object that no slot holds.
    type End: Copy;
    /// Returns the slot of an object.
    fn find(&self, object: u64) -> Option<Slot>;
    /// Returns the object of a slot that holds one.
    fn object(&self, slot: Slot) -> u64;
    /// Puts an object that no slot holds into an empty slot.
    fn insert(&mut self, object: u64, slot: Slot);
    /// Puts an object that no slot holds into a slot that holds another one, which leaves.
    fn replace(&mut self, object: u64, slot: Slot);
    /// Empties a slot that holds an object.
    fn remove(&mut self, slot: Slot);
    /// Takes a first look for each of at most 64 objects, so that the cache misses of the look-ups
    /// overlap; writes to `slots` the guesses for [`seek`](Self::seek).
    fn guess(&self, objects: &[u64], slots: &mut Guesses);
    /// Finds a slot as [`find`](Self::find) does, with the guess of [`guess`](Self::guess) or any
    /// other number; if no slot holds the object, returns the end of the search.
    fn seek(&self, object: u64, guess: Slot) -> Result<Slot, Self::End>;
    /// Does what [`insert`](Self::insert) does, where a search for the object has just ended.
    fn insert_at(&mut self, object: u64, slot: Slot, end: Self::End);
    /// Does what [`replace`](Self::replace) does, where a search for the object has just ended.
    fn replace_at(&mut self, object: u64, slot: Slot, end: Self::End);
}

/// The slots guessed for a block of objects.
pub type Guesses = [Slot; BLOCK];

impl Map for Index {
    type End = evict::End;
    #[inline]
    fn find(&self, object: u64) -> Option<Slot> {
        Self::find(self, object)
    }
    #[inline]
    fn object(&self, slot: Slot) -> u64 {
        Self::object(self, slot)
    }
    #[inline]
    fn insert(&mut self, object: u64, slot: Slot) {
        Self::insert(self, object, slot);
    }
    #[inline]
    fn remove(&mut self, slot: Slot) {
        Self::remove(self, slot);
    }
    #[inline]
    fn replace(&mut self, object: u64, slot: Slot) {
        Self::replace(self, object, slot);
    }
    #[inline]
    fn guess(&self, objects: &[u64], slots: &mut Guesses) {
        Self::guess(self, objects, slots);
    }
    #[inline]
    fn seek(&self, object: u64, guess: Slot) -> Result<Slot, evict::End> {
        Self::seek(self, object, guess)
    }
    #[inline]
    fn insert_at(&mut self, object: u64, slot: Slot, end: evict::End) {
        Self::insert_at(self, object, slot, end);
    }
    #[inline]
    fn replace_at(&mut self, object: u64, slot: Slot, end: evict::End) {
        Self::replace_at(self, object, slot, end);
    }
}

/// A map of objects that are numbered without gaps: an array.
#[derive(Debug, Clone)]
pub struct Table {
    /// By object: slot + 1, or 0.
    slots: Vec<u32>,
    objects: Vec<u32>,
}

impl Table {
    /// Creates a map of the objects `0..objects` in `slots` slots. It grows where an object with a
    /// larger number is put into a slot.
    pub fn new(objects: u32, slots: u32) -> Self {
        Self {
            slots: vec![0; objects as usize],
            objects: vec![0; slots as usize],
        }
    }

    /// Makes room for at least `objects` objects, and for twice as many as before.
    #[cold]
    fn grow(&mut self, objects: usize) {
        let objects = objects.max(2 * self.slots.len());
        self.slots.resize(objects, 0);
    }
}

impl Map for Table {
    /// Nothing: the array has a place for every object.
    type End = ();
    /// Returns the slot that holds the object; `None` if no slot does.
    #[inline]
    fn find(&self, object: u64) -> Option<Slot> {
        self.slots.get(object as usize)?.checked_sub(1)
    }
    #[inline]
    fn object(&self, slot: Slot) -> u64 {
        self.objects[slot as usize].into()
    }
    /// Puts an object into an empty slot.
    #[inline]
    fn insert(&mut self, object: u64, slot: Slot) {
        if object as usize >= self.slots.len() {
            self.grow(object as usize + 1);
        }
        self.slots[object as usize] = slot + 1;
        self.objects[slot as usize] = object as u32;
    }
    #[inline]
    fn remove(&mut self, slot: Slot) {
        self.slots[self.objects[slot as usize] as usize] = 0;
    }
    #[inline]
    fn replace(&mut self, object: u64, slot: Slot) {
        self.remove(slot);
        self.insert(object, slot);
    }
    /// Touches the table's entry of each object, so that the processor fetches these entries at the
    /// same time. An array needs no guesses, so none are written.
    #[inline]
    fn guess(&self, objects: &[u64], _: &mut Guesses) {
        let sum = objects
            .iter()
            .fold(0, |sum, o| sum ^ self.slots.get(*o as usize).unwrap_or(&0));
        std::hint::black_box(sum);
    }
    /// Returns the slot that holds the object; an error if no slot does.
    #[inline]
    fn seek(&self, object: u64, _: Slot) -> Result<Slot, ()> {
        self.find(object).ok_or(())
    }
    #[inline]
    fn insert_at(&mut self, object: u64, slot: Slot, (): ()) {
        self.insert(object, slot);
    }
    #[inline]
    fn replace_at(&mut self, object: u64, slot: Slot, (): ()) {
        self.replace(object, slot);
    }
}

/// Requests whose look-ups are started together.
pub const BLOCK: usize = 64;

/// Counts of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Requests for objects that the cache did not hold.
    pub misses: u64,
}

impl Counts {
    /// Returns the number of requests for objects that the cache held.
    pub fn hits(&self) -> u64 {
        self.requests - self.misses
    }

    /// Returns misses by requests; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests.max(1) as f64
    }
}

/// The empty slots: those never used so far, and those emptied since.
#[derive(Debug)]
pub(crate) struct Free {
    unused: u32,
    slots: u32,
    emptied: Vec<Slot>,
}

impl Free {
    /// Makes the set of `slots` empty slots, none of which was used so far.
    pub fn new(slots: u32) -> Self {
        Self {
            unused: 0,
            slots,
            emptied: Vec::new(),
        }
    }

    /// Takes an empty slot, one that was emptied before a new one; `None`: all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Slot> {
        if let Some(slot) = self.emptied.pop() {
            return Some(slot);
        }
        if self.unused == self.slots {
            return None;
        }
        self.unused += 1;
        Some(self.unused - 1)
    }

    pub fn give(&mut self, slot: Slot) {
        self.emptied.push(slot);
    }
}

/// A cache in which no page is ever dirty.
#[derive(Debug)]
pub struct Cache<P, M> {
    policy: P,
    map: M,
    free: Free,
    counts: Counts,
}

impl<P: Policy, M: Map> Cache<P, M> {
    /// Creates an empty cache of `slots` slots, at least one; `map` has as many.
    pub fn new(slots: u32, map: M) -> Self {
        Self::of(P::new(slots), slots, map)
    }

    /// Creates a cache as [`Self::new`] does, with a given policy of as many slots.
    pub fn of(policy: P, slots: u32, map: M) -> Self {
        Self {
            policy,
            map,
            free: Free::new(slots),
            counts: Counts::default(),
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Makes requests for these objects one after another. The look-ups of [`BLOCK`] objects start
    /// together, so that their cache misses overlap.
    #[inline]
    pub fn request_block(&mut self, objects: &[u64]) {
        let mut guesses = [0; BLOCK];
        for objects in objects.chunks(BLOCK) {
            self.guess(objects, &mut guesses);
            self.counts.requests += objects.len() as u64;
            for (object, guess) in objects.iter().zip(&guesses) {
                self.answer(*object, *guess);
            }
        }
    }

    /// Starts the look-ups of the next objects, at most [`BLOCK`], and writes to `guesses` in which
    /// slots they probably are.
    #[inline]
    pub(crate) fn guess(&self, objects: &[u64], guesses: &mut Guesses) {
        self.map.guess(objects, guesses);
    }

    /// Makes a request for an object, which is in the cache afterwards; returns true if it was
    /// before.
    #[inline]
    pub fn request(&mut self, object: u64) -> bool {
        self.request_guessed(object, Slot::MAX)
    }

    /// Makes a request as [`request`](Self::request) does, with the object's result of
    /// [`guess`](Self::guess), which may be wrong by now.
    #[inline]
    pub(crate) fn request_guessed(&mut self, object: u64, guess: Slot) -> bool {
        self.counts.requests += 1;
        self.answer(object, guess)
    }

    /// Serves a request that is counted already; returns true if the cache held the object. After a
    /// miss the object takes an empty slot, or that of the page that the policy evicts.
    #[inline]
    fn answer(&mut self, object: u64, guess: Slot) -> bool {
        // `end`: where the search for the object ended, so that the insertion does not search
        // again.
        let end = match self.map.seek(object, guess) {
            Ok(slot) => {
                self.policy.access(slot);
                return true;
            }
            Err(end) => end,
        };
        self.counts.misses += 1;
        self.policy.miss(object);
        let slot = match self.free.take() {
            Some(slot) => {
                self.map.insert_at(object, slot, end);
                slot
            }
            None => {
                let slot = self
                    .policy
                    .evict()
                    .expect("a full cache has a page to evict");
                self.map.replace_at(object, slot, end);
                slot
            }
        };
        self.policy.admit(slot, object);
        false
    }

    /// Removes an object whose file was cut or deleted from the cache, if the cache holds it. Its
    /// slot is empty then.
    pub fn remove(&mut self, object: u64) {
        if let Some(slot) = self.map.find(object) {
            self.map.remove(slot);
            self.policy.remove(slot);
            self.free.give(slot);
        }
    }
}
