//! Tests every policy against the simplest program that does the same: same victims, request by
//! request.

#[path = "models/adaptive.rs"]
mod adaptive;

use adaptive::{AdaptiveReplacement, ClockPro, Figure4, Hyperbolic, Lirs, TwoQ, WTinyLfu};
use evict::{Dirty, Policy, Slot};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// An event.
#[derive(Debug, Clone, Copy)]
enum Step {
    Request(u64),
    Dirty(u64),
    Remove(u64),
    /// All dirty pages have been written.
    Clean,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    // Objects with low numbers are popular.
    let object = || prop_oneof![3 => 0_u64..8, 2 => 0_u64..40, 1 => 0_u64..200];
    prop::collection::vec(
        prop_oneof![
            12 => object().prop_map(Step::Request),
            3 => object().prop_map(Step::Dirty),
            1 => object().prop_map(Step::Remove),
            1 => Just(Step::Clean),
        ],
        0..most,
    )
}

#[derive(Default, Clone, Copy)]
struct Page {
    dirty: bool,
    put_back: bool,
}

/// Runs policy and model over a small cache and compares every answer.
fn same<P: Policy, M: Policy>(slots: u32, steps: &[Step]) {
    let (mut policy, mut model) = (P::new(slots), M::new(slots));
    let mut cached: HashMap<u64, Slot> = HashMap::new();
    let mut holds: Vec<Option<u64>> = vec![None; slots as usize];
    let mut pages = vec![Page::default(); slots as usize];
    for step in steps {
        match *step {
            Step::Request(object) | Step::Dirty(object) => {
                let slot = match cached.get(&object) {
                    Some(&slot) => {
                        policy.access(slot);
                        model.access(slot);
                        slot
                    }
                    None => {
                        policy.miss(object);
                        model.miss(object);
                        let slot = match holds.iter().position(Option::is_none) {
                            Some(free) => free as Slot,
                            None => evict(&mut policy, &mut model, &mut pages),
                        };
                        if let Some(old) = holds[slot as usize].replace(object) {
                            cached.remove(&old);
                        }
                        cached.insert(object, slot);
                        pages[slot as usize] = Page::default();
                        policy.admit(slot, object);
                        model.admit(slot, object);
                        slot
                    }
                };
                pages[slot as usize].dirty |= matches!(step, Step::Dirty(_));
            }
            Step::Remove(object) => {
                if let Some(slot) = cached.remove(&object) {
                    holds[slot as usize] = None;
                    policy.remove(slot);
                    model.remove(slot);
                }
            }
            Step::Clean => {
                for slot in 0..slots {
                    let page = std::mem::take(&mut pages[slot as usize]);
                    if page.put_back && holds[slot as usize].is_some() {
                        policy.cleaned(slot);
                        model.cleaned(slot);
                    }
                }
            }
        }
    }
    // At the end both evict the remaining pages in the same order.
    for _ in 0..=holds.iter().flatten().count() {
        assert_eq!(policy.evict(), model.evict());
    }
    assert_eq!(policy.evict(), None);
}

/// Evicts a page, after at most a few dirty ones.
fn evict(policy: &mut impl Policy, model: &mut impl Policy, pages: &mut [Page]) -> Slot {
    for _ in 0..5 {
        let slot = policy.evict().expect("a full cache");
        assert_eq!(model.evict(), Some(slot));
        let page = &mut pages[slot as usize];
        if !page.dirty {
            return slot;
        }
        let answer = policy.dirty(slot);
        assert_eq!(model.dirty(slot), answer);
        match answer {
            Dirty::Write => return slot,
            Dirty::WriteBehind => page.put_back = true,
            Dirty::Skip => {}
        }
    }
    let slot = pages.iter().position(|p| p.dirty).expect("a dirty page") as Slot;
    policy.remove(slot);
    model.remove(slot);
    slot
}

/// A queue whose front is its oldest end.
type Queue = VecDeque<Slot>;

fn drop_from(queue: &mut Queue, slot: Slot) -> bool {
    let at = queue.iter().position(|s| *s == slot);
    at.and_then(|at| queue.remove(at)).is_some()
}

struct Fifo(Queue);

impl Policy for Fifo {
    fn new(_: u32) -> Self {
        Self(Queue::new())
    }
    fn admit(&mut self, slot: Slot, _: u64) {
        self.0.push_back(slot);
    }
    fn access(&mut self, _: Slot) {}
    fn evict(&mut self) -> Option<Slot> {
        self.0.pop_front()
    }
    fn remove(&mut self, slot: Slot) {
        drop_from(&mut self.0, slot);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.0.push_back(slot);
        Dirty::WriteBehind
    }
}

struct Lru(Queue);

impl Policy for Lru {
    fn new(_: u32) -> Self {
        Self(Queue::new())
    }
    fn admit(&mut self, slot: Slot, _: u64) {
        self.0.push_back(slot);
    }
    fn access(&mut self, slot: Slot) {
        drop_from(&mut self.0, slot);
        self.0.push_back(slot);
    }
    fn evict(&mut self) -> Option<Slot> {
        self.0.pop_front()
    }
    fn remove(&mut self, slot: Slot) {
        drop_from(&mut self.0, slot);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.0.push_back(slot);
        Dirty::WriteBehind
    }
}

/// A ring of frames with a hand, as in textbooks. New pages go just behind the hand.
struct Clock {
    ring: Vec<(Slot, bool)>,
    hand: usize,
}

impl Clock {
    fn put_behind_hand(&mut self, slot: Slot) {
        self.ring.insert(self.hand, (slot, false));
        self.hand += 1;
    }
}

impl Policy for Clock {
    fn new(_: u32) -> Self {
        Self {
            ring: Vec::new(),
            hand: 0,
        }
    }
    fn admit(&mut self, slot: Slot, _: u64) {
        self.put_behind_hand(slot);
    }
    fn access(&mut self, slot: Slot) {
        self.ring.iter_mut().find(|p| p.0 == slot).unwrap().1 = true;
    }
    fn evict(&mut self) -> Option<Slot> {
        if self.ring.is_empty() {
            return None;
        }
        loop {
            self.hand %= self.ring.len();
            if !self.ring[self.hand].1 {
                return Some(self.ring.remove(self.hand).0);
            }
            self.ring[self.hand].1 = false;
            self.hand += 1;
        }
    }
    fn remove(&mut self, slot: Slot) {
        let at = self.ring.iter().position(|p| p.0 == slot).unwrap();
        self.ring.remove(at);
        if at < self.hand {
            self.hand -= 1;
        }
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.put_behind_hand(slot);
        Dirty::WriteBehind
    }
}

/// Pages in order, oldest first, and the hand as an index between them.
struct Sieve {
    pages: Vec<(Slot, bool)>,
    hand: usize,
}

impl Policy for Sieve {
    fn new(_: u32) -> Self {
        Self {
            pages: Vec::new(),
            hand: 0,
        }
    }
    fn admit(&mut self, slot: Slot, _: u64) {
        // A hand at the newest end starts again at the oldest.
        if self.hand == self.pages.len() {
            self.hand = 0;
        }
        self.pages.push((slot, false));
    }
    fn access(&mut self, slot: Slot) {
        self.pages.iter_mut().find(|p| p.0 == slot).unwrap().1 = true;
    }
    fn evict(&mut self) -> Option<Slot> {
        if self.pages.is_empty() {
            return None;
        }
        loop {
            if self.hand == self.pages.len() {
                self.hand = 0;
            }
            if !self.pages[self.hand].1 {
                return Some(self.pages.remove(self.hand).0);
            }
            self.pages[self.hand].1 = false;
            self.hand += 1;
        }
    }
    fn remove(&mut self, slot: Slot) {
        let at = self.pages.iter().position(|p| p.0 == slot).unwrap();
        self.pages.remove(at);
        if at < self.hand {
            self.hand -= 1;
        }
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.pages.insert(self.hand, (slot, false));
        self.hand += 1;
        Dirty::WriteBehind
    }
}

struct S3Fifo {
    small: VecDeque<(Slot, u32)>,
    main: VecDeque<(Slot, u32)>,
    ghosts: VecDeque<u64>,
    object: HashMap<Slot, u64>,
    from_main: bool,
    uses: u32,
    returns: bool,
    slots: usize,
}

impl Policy for S3Fifo {
    fn new(slots: u32) -> Self {
        Self {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            object: HashMap::new(),
            from_main: false,
            uses: 0,
            returns: false,
            slots: slots as usize,
        }
    }
    fn miss(&mut self, object: u64) {
        let at = self.ghosts.iter().position(|g| *g == object);
        self.returns = at.and_then(|at| self.ghosts.remove(at)).is_some();
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        self.object.insert(slot, object);
        if self.returns {
            self.main.push_back((slot, 0));
        } else {
            self.small.push_back((slot, 0));
        }
    }
    fn access(&mut self, slot: Slot) {
        let mut all = self.small.iter_mut().chain(&mut self.main);
        all.find(|p| p.0 == slot).unwrap().1 += 1;
    }
    fn evict(&mut self) -> Option<Slot> {
        let pages = self.small.len() + self.main.len();
        let main_size = pages - pages / 10;
        if self.main.len() <= main_size {
            while let Some((slot, uses)) = self.small.pop_front() {
                if uses >= 2 {
                    self.main.push_back((slot, 0));
                    continue;
                }
                (self.from_main, self.uses) = (false, uses);
                self.ghosts.push_back(self.object[&slot]);
                if self.ghosts.len() > self.slots * 9 / 10 {
                    self.ghosts.pop_front();
                }
                return Some(slot);
            }
        }
        while let Some((slot, uses)) = self.main.pop_front() {
            if uses == 0 {
                (self.from_main, self.uses) = (true, 0);
                return Some(slot);
            }
            self.main.push_back((slot, uses.min(3) - 1));
        }
        None
    }
    fn remove(&mut self, slot: Slot) {
        self.small.retain(|p| p.0 != slot);
        self.main.retain(|p| p.0 != slot);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        if self.from_main {
            self.main.push_back((slot, 0));
        } else {
            let object = self.object[&slot];
            self.ghosts.retain(|g| *g != object);
            self.small.push_back((slot, self.uses));
        }
        Dirty::WriteBehind
    }
}

struct TwoList {
    inactive: VecDeque<(Slot, bool)>,
    active: VecDeque<(Slot, bool)>,
    referenced: bool,
}

impl Policy for TwoList {
    fn new(_: u32) -> Self {
        Self {
            inactive: VecDeque::new(),
            active: VecDeque::new(),
            referenced: false,
        }
    }
    fn admit(&mut self, slot: Slot, _: u64) {
        self.inactive.push_back((slot, false));
    }
    fn access(&mut self, slot: Slot) {
        if let Some(p) = self.active.iter_mut().find(|p| p.0 == slot) {
            p.1 = true;
            return;
        }
        let at = self.inactive.iter().position(|p| p.0 == slot).unwrap();
        if self.inactive[at].1 {
            self.inactive.remove(at);
            self.active.push_back((slot, false));
        } else {
            self.inactive[at].1 = true;
        }
    }
    fn evict(&mut self) -> Option<Slot> {
        if self.active.len() > self.inactive.len() {
            for page in self.active.drain(..self.active.len().min(32)) {
                self.inactive.push_back(page);
            }
        }
        let (slot, referenced) = self.inactive.pop_front()?;
        self.referenced = referenced;
        Some(slot)
    }
    fn remove(&mut self, slot: Slot) {
        self.inactive.retain(|p| p.0 != slot);
        self.active.retain(|p| p.0 != slot);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.inactive.push_back((slot, false));
        if self.referenced {
            Dirty::Skip
        } else {
            Dirty::WriteBehind
        }
    }
    fn cleaned(&mut self, slot: Slot) {
        if let Some(at) = self.inactive.iter().position(|p| p.0 == slot) {
            let page = self.inactive.remove(at).unwrap();
            self.inactive.push_front(page);
        }
    }
}

/// Every page with its count, in order of last use; halving sorts them.
struct LfuAgeing {
    pages: Vec<(u32, Slot)>,
    hooks: u64,
    slots: u64,
    last: u32,
}

impl LfuAgeing {
    fn tick(&mut self) {
        self.hooks += 1;
        if self.hooks.is_multiple_of(8 * self.slots) {
            // A stable sort: pages of equal halved counts stay in order of their counts and uses.
            self.pages.sort_by_key(|p| p.0);
            self.pages.iter_mut().for_each(|p| p.0 /= 2);
        }
    }
    fn take(&mut self, slot: Slot) -> u32 {
        let at = self.pages.iter().position(|p| p.1 == slot).unwrap();
        self.pages.remove(at).0
    }
}

impl Policy for LfuAgeing {
    fn new(slots: u32) -> Self {
        Self {
            pages: Vec::new(),
            hooks: 0,
            slots: slots.into(),
            last: 0,
        }
    }
    fn admit(&mut self, slot: Slot, _: u64) {
        self.pages.push((1, slot));
        self.tick();
    }
    fn access(&mut self, slot: Slot) {
        let count = self.take(slot);
        self.pages.push(((count + 1).min(63), slot));
        self.tick();
    }
    fn evict(&mut self) -> Option<Slot> {
        // The first page with the smallest count is the one unused for longest.
        let (count, slot) = *self.pages.iter().min_by_key(|p| p.0)?;
        self.take(slot);
        self.last = count;
        Some(slot)
    }
    fn remove(&mut self, slot: Slot) {
        self.take(slot);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.pages.push((self.last, slot));
        Dirty::WriteBehind
    }
}

/// The generations as queues of pages with their uses, oldest first; the counts as sums over
/// events.
struct Generational {
    generations: VecDeque<VecDeque<(Slot, u32)>>,
    /// Number of the oldest generation.
    min_seq: u64,
    object: HashMap<Slot, u64>,
    /// Evicted pages: object, oldest generation at that time, tier, whether it had too many uses to
    /// count.
    shadows: VecDeque<(u64, u64, usize, bool)>,
    returns: Option<(u64, u64, usize, bool)>,
    /// By tier: refaults, and all pages that came up, in this oldest generation and before.
    now: [(u64, u64); 4],
    before: [(u64, u64); 4],
    slots: usize,
}

impl Generational {
    fn tier(uses: u32) -> usize {
        match uses {
            0..=1 => 0,
            2 => 1,
            3..=4 => 2,
            _ => 3,
        }
    }
    fn total(&self) -> usize {
        self.generations.iter().map(VecDeque::len).sum()
    }
    fn drop_empty(&mut self) {
        let mut moved = false;
        while self.generations.len() > 2 && self.generations[0].is_empty() {
            self.generations.pop_front();
            self.min_seq += 1;
            moved = true;
        }
        if moved {
            for t in 0..4 {
                let now = std::mem::take(&mut self.now[t]);
                let (refaulted, evicted) = self.before[t];
                self.before[t] = ((refaulted + now.0) / 2, (evicted + now.1) / 2);
            }
        }
    }
    fn is_protected(&self, tier: usize) -> bool {
        let of = |t: usize| {
            let (refaulted, all) = (
                self.now[t].0 + self.before[t].0,
                self.now[t].1 + self.before[t].1,
            );
            (refaulted, all)
        };
        let (first, first_all) = of(0);
        // A tier up to the page's own comes back more than twice as often as the first.
        (1..=tier).any(|t| {
            let (refaulted, all) = of(t);
            refaulted >= 64 && refaulted * (first_all + 64) > 2 * (first + 1) * all
        })
    }
}

impl Policy for Generational {
    fn new(slots: u32) -> Self {
        Self {
            generations: vec![VecDeque::new(); 4].into(),
            min_seq: 0,
            object: HashMap::new(),
            shadows: VecDeque::new(),
            returns: None,
            now: [(0, 0); 4],
            before: [(0, 0); 4],
            slots: slots as usize,
        }
    }
    fn miss(&mut self, object: u64) {
        let at = self.shadows.iter().position(|s| s.0 == object);
        self.returns = at.and_then(|at| self.shadows.remove(at));
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        self.object.insert(slot, object);
        let mut uses = 1;
        if let Some((_, seq, tier, many)) = self.returns.take()
            && seq == self.min_seq
        {
            self.now[tier].0 += 1;
            uses = if many { 2 } else { 1 };
        }
        self.generations[0].push_back((slot, uses));
    }
    fn access(&mut self, slot: Slot) {
        let mut all = self.generations.iter_mut().flatten();
        all.find(|p| p.0 == slot).unwrap().1 += 1;
    }
    fn evict(&mut self) -> Option<Slot> {
        if self.total() == 0 {
            return None;
        }
        loop {
            let few = self.generations.len() < 3;
            let uneven = self.generations.len() == 3
                && (2 * self.generations[2].len() > self.total()
                    || 4 * self.generations[0].len() < self.total());
            if few || uneven {
                self.generations.push_back(VecDeque::new());
            }
            self.drop_empty();
            let Some((slot, uses)) = self.generations[0].pop_front() else {
                continue;
            };
            let tier = Self::tier(uses);
            if self.is_protected(tier) {
                self.now[tier].1 += 1;
                self.generations[1].push_front((slot, 0));
                continue;
            }
            self.drop_empty();
            self.now[tier].1 += 1;
            if self.shadows.len() == self.slots {
                self.shadows.pop_front();
            }
            let object = self.object[&slot];
            self.shadows
                .push_back((object, self.min_seq, tier, uses >= 5));
            return Some(slot);
        }
    }
    fn remove(&mut self, slot: Slot) {
        for generation in &mut self.generations {
            generation.retain(|p| p.0 != slot);
        }
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let object = self.object[&slot];
        if let Some(at) = self.shadows.iter().position(|s| s.0 == object) {
            let (_, seq, tier, _) = self.shadows.remove(at).unwrap();
            if seq == self.min_seq {
                self.now[tier].1 -= 1;
            }
        }
        self.generations[1].push_back((slot, 0));
        Dirty::WriteBehind
    }
    fn cleaned(&mut self, slot: Slot) {
        let mut all = self.generations.iter().flatten();
        let page = *all.find(|p| p.0 == slot).unwrap();
        self.remove(slot);
        self.generations[0].push_front(page);
    }
}

macro_rules! models {
    ($($test:ident: $policy:ident;)+) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(400))]
            $(
                #[test]
                fn $test(slots in 1_u32..50, steps in steps(600)) {
                    same::<evict::$policy, $policy>(slots, &steps);
                }
            )+
        }
    };
}

models! {
    fifo: Fifo;
    lru: Lru;
    clock: Clock;
    sieve: Sieve;
    s3_fifo: S3Fifo;
    two_list: TwoList;
    lfu_ageing: LfuAgeing;
    generational: Generational;
    arc: AdaptiveReplacement;
    two_q: TwoQ;
    lirs: Lirs;
    w_tiny_lfu: WTinyLfu;
    clock_pro: ClockPro;
    hyperbolic: Hyperbolic;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// A tier is protected only after 64 refaults, which takes many requests.
    #[test]
    fn generational_with_protected_tiers(slots in 4_u32..40, steps in steps(12_000)) {
        same::<evict::Generational, Generational>(slots, &steps);
    }

    /// ARC makes the same decisions as the paper's figure 4.
    #[test]
    fn arc_is_figure_4(slots in 1_u32..40, requests in prop::collection::vec(0_u64..120, 0..3000)) {
        // Some objects are requested again soon, some after a long time.
        let requests = requests.iter().enumerate().map(|(i, o)| if i / 300 % 2 == 0 { o / 4 } else { *o });
        let mut cache: replay::Cache<evict::AdaptiveReplacement, _> =
            replay::Cache::new(slots, evict::Index::new(slots));
        let mut figure = Figure4::new(slots as usize);
        for (i, object) in requests.enumerate() {
            prop_assert_eq!(!cache.request(object), figure.request(object), "request {}", i);
        }
    }

    /// With more than 64 pages, 64 are drawn.
    #[test]
    fn hyperbolic_that_draws(slots in 65_u32..140, steps in steps(3000)) {
        same::<evict::Hyperbolic, Hyperbolic>(slots, &steps);
    }

    /// With caches this large, windows and queues of a hundredth have more than one page.
    #[test]
    fn shares_of_a_hundredth(slots in 200_u32..450, objects in prop::collection::vec(0_u64..1500, 3000..6000)) {
        let steps: Vec<Step> = objects.iter().map(|o| match o % 7 {
            0 => Step::Dirty(o * o % 1500),
            1 if o % 5 == 0 => Step::Remove(o / 2),
            _ => Step::Request(o / (1 + o % 4)),
        }).collect();
        same::<evict::Lirs, Lirs>(slots, &steps);
        same::<evict::WTinyLfu, WTinyLfu>(slots, &steps);
        same::<evict::ClockPro, ClockPro>(slots, &steps);
        same::<evict::AdaptiveReplacement, AdaptiveReplacement>(slots, &steps);
    }
}

struct Names;

impl evict::registry::Visitor for Names {
    type Output = &'static str;
    fn visit<P: Policy + 'static>(self) -> &'static str {
        std::any::type_name::<P>()
    }
}

#[test]
fn the_registry_has_every_policy_once() {
    let mut types: Vec<_> = evict::registry::ALL
        .iter()
        .map(|e| evict::registry::visit(e.name, Names).expect("its own name"))
        .collect();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), evict::registry::ALL.len());
    assert_eq!(evict::registry::visit("mru", Names), None);
}
