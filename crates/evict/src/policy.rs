//! The hooks.

/// A frame of the cache, from 0.
pub type Slot = u32;

/// What becomes of a dirty page that a policy has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dirty {
    /// The cache writes it, the request waits, and the slot is taken. The policy leaves it out.
    Write,
    /// The policy has put it back; writing it is left to the flusher. The cache asks for another.
    Skip,
    /// The policy has put it back; the cache begins to write it and asks for another. When it has
    /// been written, [`Policy::cleaned`] is called.
    WriteBehind,
}

/// Which page leaves. The order of calls that a policy can rely on is in the [crate's](crate)
/// documentation.
pub trait Policy {
    /// A policy over the slots `0..slots`, none of which is in; `slots` is from 1 to
    /// [`MOST`](crate::MOST).
    fn new(slots: u32) -> Self
    where
        Self: Sized;

    /// A page of `object` is not in the cache and is about to be brought in: called before
    /// [`evict`](Self::evict) makes room for it, and before [`admit`](Self::admit). For policies
    /// with ghosts: what leaves to make room must not push out the ghost that is asked for.
    fn miss(&mut self, object: u64) {
        let _ = object;
    }

    /// A page of `object` has been brought into `slot`.
    fn admit(&mut self, slot: Slot, object: u64);

    /// The page in `slot` has been used.
    fn access(&mut self, slot: Slot);

    /// Takes out the page that should leave.
    fn evict(&mut self) -> Option<Slot>;

    /// Takes out a page that is gone for another reason: its file was truncated or deleted.
    fn remove(&mut self, slot: Slot);

    /// The page in `slot`, which [`evict`](Self::evict) has returned, is dirty or being written (in
    /// the engine also: locked or used meanwhile). Without this hook the request waits for the disk.
    /// In the simulator no other hook comes between; the engine takes up to 32 pages before it looks
    /// at the first.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let _ = slot;
        Dirty::Write
    }

    /// The page in `slot` has been written after [`dirty`](Self::dirty) had put it back.
    fn cleaned(&mut self, slot: Slot) {
        let _ = slot;
    }
}

/// A policy whose type is known to the registry alone, for whoever chooses it at run time.
pub trait AnyPolicy: Policy + Send {
    /// Another one in the same state; the engine's recount empties it to see what it holds.
    fn duplicate(&self) -> Box<dyn AnyPolicy>;
}

/// Whatever policy is in the box; [`Policy::new`] makes Linux's two lists, [`registry::make`](crate::registry::make)
/// any.
impl Policy for Box<dyn AnyPolicy> {
    fn new(slots: u32) -> Self {
        Box::new(crate::TwoList::new(slots))
    }
    fn miss(&mut self, object: u64) {
        (**self).miss(object);
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        (**self).admit(slot, object);
    }
    fn access(&mut self, slot: Slot) {
        (**self).access(slot);
    }
    fn evict(&mut self) -> Option<Slot> {
        (**self).evict()
    }
    fn remove(&mut self, slot: Slot) {
        (**self).remove(slot);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        (**self).dirty(slot)
    }
    fn cleaned(&mut self, slot: Slot) {
        (**self).cleaned(slot);
    }
}

impl<P: Policy + Clone + Send + 'static> AnyPolicy for P {
    fn duplicate(&self) -> Box<dyn AnyPolicy> {
        Box::new(self.clone())
    }
}
