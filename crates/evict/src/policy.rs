//! The hooks of an eviction policy.

/// The number of a frame of the cache, from 0.
pub type Slot = u32;

/// A policy's answer for a dirty page that it chose to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dirty {
    /// The cache writes the page, the request waits, and the slot is taken. The policy leaves the
    /// page out.
    Write,
    /// The policy has put the page back; the flusher will write it. The cache asks for another
    /// page.
    Skip,
    /// The policy has put the page back; the cache starts to write it and asks for another page.
    /// When the page has been written, [`Policy::cleaned`] is called.
    WriteBehind,
}

/// An eviction policy: chooses the page that leaves. The order of calls that it can rely on is in
/// the [crate's](crate) documentation.
pub trait Policy {
    /// Creates a policy over the slots `0..slots`, none of which is in; `slots` is from 1 to
    /// [`MOST`](crate::MOST).
    fn new(slots: u32) -> Self
    where
        Self: Sized;

    /// Announces that a page of `object` is not in the cache and is about to be brought in. Called
    /// before [`evict`](Self::evict) makes room for it, and before [`admit`](Self::admit). For
    /// policies with ghosts: the page that leaves to make room must not push out the ghost of
    /// `object`.
    fn miss(&mut self, object: u64) {
        let _ = object;
    }

    /// Adds the page of `object`, which has been brought into `slot`.
    fn admit(&mut self, slot: Slot, object: u64);

    /// Records a use of the page in `slot`.
    fn access(&mut self, slot: Slot);

    /// Takes out the page that should leave; `None` only if the policy holds no page.
    fn evict(&mut self) -> Option<Slot>;

    /// Takes out a page that is gone for another reason: its file was truncated or deleted.
    fn remove(&mut self, slot: Slot);

    /// Decides about the page in `slot`, which [`evict`](Self::evict) has returned and which is
    /// dirty or being written (in the engine also: locked, or used meanwhile). Without this hook
    /// the request waits for the disk. In the simulator no other hook is called in between; the
    /// engine takes up to 32 pages before it looks at the first.
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let _ = slot;
        Dirty::Write
    }

    /// Announces that the page in `slot` has been written after [`dirty`](Self::dirty) had put it
    /// back.
    fn cleaned(&mut self, slot: Slot) {
        let _ = slot;
    }
}

/// A policy whose type only the registry knows, for callers that choose it at run time.
pub trait AnyPolicy: Policy + Send {
    /// Returns a copy in the same state; the engine's recount empties the copy to see its pages.
    fn duplicate(&self) -> Box<dyn AnyPolicy>;
}

/// The policy in the box; [`Policy::new`] makes Linux's two lists,
/// [`registry::make`](crate::registry::make) any policy.
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
