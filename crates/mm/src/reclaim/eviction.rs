//! File pages in the order of an eviction policy (`policy.eviction`, docs/eviction.md) instead of
//! the active and the inactive list.
//!
//! A zone's file pages are then all on its inactive list, which is a bag: it says which pages there
//! are, and the zone's policy says in which order they leave. So every counter, the isolated lists
//! and whatever else finds pages by lists stay as they are, and this module is only called where a
//! page joins the list, leaves it, is used or is chosen. A slot is a frame's number in its zone, an
//! object a page of a file.
//!
//! **Where a page is.** The policy holds its slot if and only if the page is on the list (`LRU`), or
//! reclaim still holds it but has asked the policy about it (`RETURNED`).
//!
//! **Locks.** Both bits and the policy belong to the zone's `lru_lock`. The mutex inside is what
//! safe Rust asks for; nobody ever waits for it.

use crate::memory::frame::{Page, flag};
use crate::memory::zone::Lru;
use crate::memory::zone::Zone;
use crate::policy::Eviction;
use crate::watch::vmstat::VmEvent;
use crate::world::{ShortLock, Word32, Word64, World};
use crate::{Mm, Pfn};
use evict::{AnyPolicy, Dirty, Slot, registry};
use std::sync::{Mutex, PoisonError};

/// Each zone's policy.
pub(crate) struct Orders {
    name: &'static str,
    zones: Box<[Mutex<Box<dyn AnyPolicy>>]>,
}

impl Orders {
    pub fn new<W: World>(eviction: Eviction, zones: &[Zone<W>]) -> Option<Box<Self>> {
        let Eviction::Policy(name) = eviction else {
            return None;
        };
        let make = |slots| registry::make(name, slots).expect("a name of the registry");
        Some(Self::of(name, zones, make))
    }

    fn of<W: World>(
        name: &'static str,
        zones: &[Zone<W>],
        make: impl Fn(u32) -> Box<dyn AnyPolicy>,
    ) -> Box<Self> {
        let zones = zones.iter().map(|z| Mutex::new(make(z.size))).collect();
        Box::new(Self { name, zones })
    }

    /// Under the zone's `lru_lock`.
    fn with<R>(&self, z: usize, f: impl FnOnce(&mut dyn AnyPolicy) -> R) -> R {
        let mut policy = self.zones[z].lock().unwrap_or_else(PoisonError::into_inner);
        f(&mut **policy)
    }
}

/// The page's number among the pages of all files.
fn object<W: World>(page: Page<'_, W>) -> u64 {
    u64::from(page.mapping()) << 32 | u64::from(page.index())
}

impl<W: World> Mm<W> {
    /// Orders file pages by policies that the registry does not know, one a zone; `make` gets the
    /// number of slots.
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

    /// Whether there is an active list of file pages.
    pub fn has_active_file(&self) -> bool {
        self.orders.is_none()
    }

    /// Whether a policy orders pages with these flags.
    #[inline(always)]
    pub(crate) fn is_ordered(&self, flags: u32) -> bool {
        self.orders.is_some() && Lru::of(flags) == Lru::InactiveFile
    }

    /// The policies, if they order this list.
    #[inline(always)]
    pub(crate) fn ordering(&self, lru: Lru) -> Option<&Orders> {
        match &self.orders {
            Some(orders) if lru == Lru::InactiveFile => Some(orders),
            _ => None,
        }
    }

    fn slot(&self, z: usize, pfn: Pfn) -> Slot {
        pfn - self.zones[z].start
    }

    /// Pages joined a list; the list lock is held.
    #[inline(always)]
    pub(crate) fn admit_ordered(&self, z: usize, lru: Lru, pages: &[W::U32]) {
        if let Some(orders) = self.ordering(lru) {
            self.admit(orders, z, pages);
        }
    }

    fn admit(&self, orders: &Orders, z: usize, pages: &[W::U32]) {
        orders.with(z, |policy| {
            for pfn in pages.iter().map(Word32::get) {
                let page = self.frames.page(pfn);
                let (slot, object) = (self.slot(z, pfn), object(page));
                policy.miss(object);
                policy.admit(slot, object);
                // Used again while it waited in the batch.
                if page.has(flag::REFERENCED) {
                    policy.access(slot);
                }
            }
        });
    }

    /// A page is used. `false`: no policy orders it.
    ///
    /// The first use after it entered the cache is the one that admission stands for, whether it
    /// was brought in for it or read ahead.
    pub(crate) fn use_ordered(&self, pfn: Pfn) -> bool {
        let page = self.frames.page(pfn);
        if !self.is_ordered(page.flags()) {
            return false;
        }
        if !page.test_and_set(flag::TOUCHED) {
            return true;
        }
        // What was brought in before this use stands before it in the order.
        self.lru_add_drain();
        let z = page.zone();
        let zone = &self.zones[z];
        zone.lru_lock.with(|| {
            // A use that the policy can't hear of now is told when the page is back.
            let f = page.set_flags(flag::REFERENCED);
            if f & (flag::LRU | flag::RETURNED) != 0
                && let Some(orders) = self.ordering(Lru::of(f))
            {
                orders.with(z, |policy| policy.access(self.slot(z, pfn)));
            }
            // To the balance of anon and file it is what activation is to Linux's lists.
            if f & flag::REFERENCED == 0 {
                zone.recent_scanned[1].fetch_add(1);
                zone.recent_rotated[1].fetch_add(1);
            }
        });
        true
    }

    /// Isolates what the policy chooses, in place of a list's tail; the list lock is held. Returns
    /// scanned and taken: pages that others hold are scanned only.
    pub(crate) fn isolate_ordered(
        &self,
        orders: &Orders,
        z: usize,
        n: u32,
        mine: Pfn,
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
                    self.give_back(policy, z, pfn);
                    continue;
                }
                page.clear_flags(flag::LRU | flag::REFERENCED);
                self.frames.del(pfn);
                self.frames.add(mine, pfn);
                taken += 1;
            }
        });
        (scanned, taken)
    }

    /// Puts a chosen page back. A policy that would have the page taken after a wait gets it as a
    /// new one: reclaim waits for no page.
    fn give_back(&self, policy: &mut dyn AnyPolicy, z: usize, pfn: Pfn) -> Dirty {
        let slot = self.slot(z, pfn);
        let answer = policy.dirty(slot);
        if answer == Dirty::Write {
            let object = object(self.frames.page(pfn));
            policy.miss(object);
            policy.admit(slot, object);
        }
        // The mark has the end of its writeback reported.
        if answer == Dirty::WriteBehind && self.frames.any(pfn, flag::DIRTY | flag::WRITEBACK) {
            self.frames.set_flags(pfn, flag::RECLAIM);
        }
        answer
    }

    /// What is to become of a dirty page that the policy chose. From here on it is in its order,
    /// though reclaim still holds it.
    pub(crate) fn ask_ordered(&self, pfn: Pfn) -> Dirty {
        let z = self.frames.zone(pfn);
        self.zones[z].lru_lock.with(|| {
            let orders = self.orders.as_ref().expect("asked for ordered pages");
            self.frames.set_flags(pfn, flag::RETURNED);
            orders.with(z, |policy| self.give_back(policy, z, pfn))
        })
    }

    /// An isolated page is on its list again; the list lock is held.
    #[inline(always)]
    pub(crate) fn keep_ordered(&self, z: usize, lru: Lru, pfn: Pfn) {
        if let Some(orders) = self.ordering(lru) {
            self.keep(orders, z, pfn);
        }
    }

    fn keep(&self, orders: &Orders, z: usize, pfn: Pfn) {
        let f = self.frames.clear_flags(pfn, flag::RETURNED);
        if f & flag::RETURNED != 0 {
            return;
        }
        orders.with(z, |policy| {
            self.give_back(policy, z, pfn);
            // Used while nobody could tell the policy.
            if f & flag::REFERENCED != 0 {
                policy.access(self.slot(z, pfn));
            }
        });
    }

    /// An isolated page is freed: the policy must not have it.
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

    /// A page left its list for good; the list lock is held.
    #[inline(always)]
    pub(crate) fn remove_ordered(&self, z: usize, lru: Lru, pfn: Pfn) {
        if let Some(orders) = self.ordering(lru) {
            orders.with(z, |policy| policy.remove(self.slot(z, pfn)));
        }
    }

    /// A page that the policy put back dirty has been written. `false`: no policy orders it.
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

    /// Empties a copy of a zone's policy: it must hold each slot once that the flags say it holds,
    /// and no other.
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
