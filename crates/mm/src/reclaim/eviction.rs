//! File pages in the order of an eviction policy (`policy.eviction`, docs/eviction.md) instead of
//! the active and the inactive list.
//!
//! A zone's file pages are then all on its inactive list, which is an unordered set: the list says
//! which pages there are, and the zone's policy says in which order they leave. So every counter,
//! the isolated lists and other code that finds pages by lists stay as they are, and this module is
//! only called where a page joins the list, leaves it, is used or is chosen. A slot is a frame's
//! number in its zone, an object a page of a file.
//!
//! **Where a page is.** The policy holds its slot if and only if the page is on the list (`LRU`),
//! or reclaim still holds it but has asked the policy about it (`RETURNED`).
//!
//! **Locks.** Both bits and the policy belong to the zone's `lru_lock`. The mutex inside is only
//! there because safe Rust requires it; it is never contended.

use crate::memory::frame::{Page, flag};
use crate::memory::zone::Lru;
use crate::memory::zone::Zone;
use crate::policy::Eviction;
use crate::watch::vmstat::VmEvent;
use crate::world::{ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};
use evict::{AnyPolicy, Dirty, Slot, registry};
use std::sync::{Mutex, PoisonError};

/// The eviction policy of each zone.
pub(crate) struct Orders {
    name: &'static str,
    zones: Box<[Mutex<Box<dyn AnyPolicy>>]>,
}

impl Orders {
    /// Makes the eviction policy that the switch names for each zone; `None` if the file pages are
    /// on Linux's two lists.
    pub fn new<W: World>(eviction: Eviction, zones: &[Zone<W>]) -> Option<Box<Self>> {
        let Eviction::Policy(name) = eviction else {
            return None;
        };
        let make = |slots| registry::make(name, slots).expect("a name of the registry");
        Some(Self::of(name, zones, make))
    }

    /// Makes an eviction policy called `name` for each zone; `make` gets the zone's number of
    /// frames.
    fn of<W: World>(
        name: &'static str,
        zones: &[Zone<W>],
        make: impl Fn(u32) -> Box<dyn AnyPolicy>,
    ) -> Box<Self> {
        let zones = zones.iter().map(|z| Mutex::new(make(z.size))).collect();
        Box::new(Self { name, zones })
    }

    /// Calls `f` with the eviction policy of zone `z` and returns its result; the caller holds the
    /// zone's `lru_lock`.
    fn with<R>(&self, z: usize, f: impl FnOnce(&mut dyn AnyPolicy) -> R) -> R {
        let mut policy = self.zones[z].lock().unwrap_or_else(PoisonError::into_inner);
        f(&mut **policy)
    }
}

/// Returns the number by which an eviction policy knows a page among the pages of all files: file
/// in the upper half, index in the lower.
fn object<W: World>(page: Page<'_, W>) -> u64 {
    u64::from(page.mapping()) << 32 | u64::from(page.index())
}

impl<W: World> Mm<W> {
    /// Lets eviction policies that are not in the registry order the file pages, one for each zone;
    /// `name` stands in errors, and `make` gets the zone's number of slots (frames).
    ///
    /// # Panics
    /// If a page is cached already.
    pub fn order_file_pages(
        &mut self,
        name: &'static str,
        make: impl Fn(u32) -> Box<dyn AnyPolicy>,
    ) {
        assert_eq!(self.tree_nodes(), 0, "no page is cached yet");
        self.orders = Some(Orders::of(name, &self.zones, make));
    }

    /// Returns true if there is an active list of file pages: no eviction policy is in use.
    pub fn has_active_file(&self) -> bool {
        self.orders.is_none()
    }

    /// Returns true if an eviction policy orders pages with these flags: file pages that are not
    /// unevictable, where there is a policy.
    #[inline(always)]
    pub(crate) fn is_ordered(&self, flags: u32) -> bool {
        self.orders.is_some() && Lru::of(flags) == Lru::InactiveFile
    }

    /// Returns the zones' eviction policies, if they order the pages of this LRU list.
    #[inline(always)]
    pub(crate) fn ordering(&self, lru: Lru) -> Option<&Orders> {
        match &self.orders {
            Some(orders) if lru == Lru::InactiveFile => Some(orders),
            _ => None,
        }
    }

    /// Returns a page's slot in its zone's eviction policy: the frame's number within the zone.
    fn slot(&self, z: usize, pfn: Pfn) -> Slot {
        pfn - self.zones[z].start
    }

    /// Tells the eviction policy of zone `z`, if there is one for the list `lru`, that pages joined
    /// the list; the list lock is held. `pages`: words with frame numbers.
    #[inline(always)]
    pub(crate) fn admit_ordered(&self, z: usize, lru: Lru, pages: &[W::U32]) {
        if let Some(orders) = self.ordering(lru) {
            self.admit(orders, z, pages);
        }
    }

    /// Tells the eviction policy of zone `z` of pages that missed the cache and are on the list
    /// now.
    fn admit(&self, orders: &Orders, z: usize, pages: &[W::U32]) {
        orders.with(z, |policy| {
            for pfn in pages.iter().map(Word32::get) {
                let page = self.frames.page(pfn);
                let (slot, object) = (self.slot(z, pfn), object(page));
                policy.miss(object);
                policy.admit(slot, object);
                // The page was used again while it waited in the batch.
                if page.has(flag::REFERENCED) {
                    policy.access(slot);
                }
            }
        });
    }

    /// Tells the eviction policy of a file page's zone that the page was used. Returns false if no
    /// policy orders the page.
    ///
    /// Admission itself stands for the first use after the page entered the cache, whether the page
    /// was brought in for that use or read ahead.
    pub(crate) fn use_ordered(&self, pfn: Pfn) -> bool {
        let page = self.frames.page(pfn);
        if !self.is_ordered(page.flags()) {
            return false;
        }
        if !page.test_and_set(flag::TOUCHED) {
            return true;
        }
        // Pages that were brought in before this use come before it in the policy's order.
        self.lru_add_drain();
        let z = page.zone();
        let zone = &self.zones[z];
        zone.lru_lock.with(|| {
            // If reclaim holds the page, the policy is told of the use when the page is put back.
            let f = page.set_flags(flag::REFERENCED);
            if f & (flag::LRU | flag::RETURNED) != 0
                && let Some(orders) = self.ordering(Lru::of(f))
            {
                orders.with(z, |policy| policy.access(self.slot(z, pfn)));
            }
            // To the balance of anon and file such a use is what an activation is to Linux's lists.
            if f & flag::REFERENCED == 0 {
                zone.recent_scanned[1].fetch_add(1);
                zone.recent_rotated[1].fetch_add(1);
            }
        });
        true
    }

    /// Moves up to `n` pages that the eviction policy of zone `z` chooses to the task's list
    /// `own_list`, in place of a list's tail; the list lock is held. Returns the numbers of pages
    /// scanned and taken: pages that other tasks hold are only scanned.
    pub(crate) fn isolate_ordered(
        &self,
        orders: &Orders,
        z: usize,
        n: u32,
        own_list: Pfn,
    ) -> (u32, u32) {
        let (mut scanned, mut taken) = (0, 0);
        orders.with(z, |policy| {
            while scanned < n {
                let Some(slot) = policy.evict() else {
                    assert!(
                        self.frames.list_empty(self.lru_list(z, Lru::InactiveFile)),
                        "eviction policy {} gives no slot of {} but holds some",
                        orders.name,
                        self.zone_name(z)
                    );
                    break;
                };
                scanned += 1;
                let zone = &self.zones[z];
                let pfn = zone.start + slot.min(zone.size - 1);
                let page = self.frames.page(pfn);
                let f = page.flags();
                assert!(
                    slot < zone.size
                        && f & (flag::LRU | flag::RETURNED) != 0
                        && Lru::of(f) == Lru::InactiveFile,
                    "eviction policy {} gives slot {slot} of {}, which it does not hold",
                    orders.name,
                    self.zone_name(z)
                );
                if f & flag::LRU == 0 {
                    // Reclaim of another task holds the page, and had asked the policy about it.
                    self.give_back(policy, z, pfn);
                    continue;
                }
                page.clear_flags(flag::LRU | flag::REFERENCED);
                self.frames.del(pfn);
                self.frames.add(own_list, pfn);
                taken += 1;
            }
        });
        (scanned, taken)
    }

    /// Gives a page that the eviction policy chose back to it and returns its answer, which says
    /// where a dirty page goes. A policy that would have the page written and its slot taken
    /// (`Dirty::Write`) gets the page as a new one instead, because reclaim waits for no page.
    fn give_back(&self, policy: &mut dyn AnyPolicy, z: usize, pfn: Pfn) -> Dirty {
        let slot = self.slot(z, pfn);
        let answer = policy.dirty(slot);
        if answer == Dirty::Write {
            let object = object(self.frames.page(pfn));
            policy.miss(object);
            policy.admit(slot, object);
        }
        // The mark makes the end of the page's writeback reach `cleaned_ordered`.
        if answer == Dirty::WriteBehind && self.frames.any(pfn, flag::DIRTY | flag::WRITEBACK) {
            self.frames.set_flags(pfn, flag::RECLAIM);
        }
        answer
    }

    /// Asks the eviction policy of its zone about a dirty page that it chose, and returns the
    /// answer. From here on the page is in the policy's order, though reclaim still holds it.
    pub(crate) fn ask_ordered(&self, pfn: Pfn) -> Dirty {
        let z = self.frames.zone(pfn);
        self.zones[z].lru_lock.with(|| {
            let orders = self.orders.as_ref().expect("asked for ordered pages");
            self.frames.set_flags(pfn, flag::RETURNED);
            orders.with(z, |policy| self.give_back(policy, z, pfn))
        })
    }

    /// Gives an isolated page that is on its list again back to the eviction policy of zone `z`, if
    /// there is one for the list `lru`; the list lock is held.
    #[inline(always)]
    pub(crate) fn keep_ordered(&self, z: usize, lru: Lru, pfn: Pfn) {
        if let Some(orders) = self.ordering(lru) {
            self.keep(orders, z, pfn);
        }
    }

    /// Gives an isolated page back to the eviction policy of zone `z`, unless the policy has it
    /// already (`RETURNED`).
    fn keep(&self, orders: &Orders, z: usize, pfn: Pfn) {
        let f = self.frames.clear_flags(pfn, flag::RETURNED);
        if f & flag::RETURNED != 0 {
            return;
        }
        orders.with(z, |policy| {
            self.give_back(policy, z, pfn);
            // The page was used while the policy could not be told.
            if f & flag::REFERENCED != 0 {
                policy.access(self.slot(z, pfn));
            }
        });
    }

    /// Takes an isolated page of zone `z` that is about to be freed from its eviction policy, if
    /// the policy was asked about it and so has it again.
    pub(crate) fn forget_returned(&self, z: usize, pfn: Pfn) {
        if self.orders.is_none() {
            return;
        }
        self.zones[z].lru_lock.with(|| {
            let f = self.frames.clear_flags(pfn, flag::RETURNED);
            if f & flag::RETURNED != 0
                && let Some(orders) = &self.orders
            {
                orders.with(z, |policy| policy.remove(self.slot(z, pfn)));
            }
        });
    }

    /// Takes a page that left its list for good from the eviction policy of zone `z`, if there is
    /// one for the list `lru`; the list lock is held.
    #[inline(always)]
    pub(crate) fn remove_ordered(&self, z: usize, lru: Lru, pfn: Pfn) {
        if let Some(orders) = self.ordering(lru) {
            orders.with(z, |policy| policy.remove(self.slot(z, pfn)));
        }
    }

    /// Tells the eviction policy that a page which it got back dirty has been written. Returns
    /// false if no policy orders the page.
    pub(crate) fn cleaned_ordered(&self, pfn: Pfn) -> bool {
        let z = self.frames.zone(pfn);
        if !self.is_ordered(self.frames.flags(pfn)) {
            return false;
        }
        self.zones[z].lru_lock.with(|| {
            let f = self.frames.flags(pfn);
            if f & (flag::LRU | flag::RETURNED) != 0
                && f & flag::DIRTY == 0
                && let Some(orders) = self.ordering(Lru::of(f))
            {
                orders.with(z, |policy| policy.cleaned(self.slot(z, pfn)));
                self.stat.event(VmEvent::PgRotated, 1);
            }
        });
        true
    }

    /// Checks the eviction policy of zone `z` by emptying a copy of it: the policy must hold once
    /// each slot whose page's flags say so, and no other. Returns a text about the first error.
    pub(crate) fn check_order(&self, z: usize) -> Result<(), String> {
        let Some(orders) = &self.orders else {
            return Ok(());
        };
        let zone = &self.zones[z];
        let mut policy = orders.with(z, |policy| policy.duplicate());
        let mut held = vec![false; zone.size as usize];
        let complain = |what: String| {
            let (name, zone) = (orders.name, self.zone_name(z));
            Err(format!("eviction policy {name} of {zone} {what}"))
        };
        while let Some(slot) = policy.evict() {
            match held.get_mut(slot as usize) {
                Some(known @ false) => *known = true,
                Some(_) => return complain(format!("holds slot {slot} twice")),
                None => return complain(format!("holds slot {slot}, which does not exist")),
            }
        }
        for (pfn, held) in (zone.start..).zip(held) {
            let f = self.frames.flags(pfn);
            let should =
                f & flag::RETURNED != 0 || f & flag::LRU != 0 && Lru::of(f) == Lru::InactiveFile;
            if held != should {
                let what = if held { "holds" } else { "lacks" };
                return complain(format!("{what} frame {pfn} (flags {f:#x})"));
            }
        }
        Ok(())
    }
}
