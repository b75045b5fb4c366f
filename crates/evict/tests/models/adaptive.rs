//! Models of the policies with ghosts, written from their papers.

use crate::{Queue, drop_from};
use evict::{Dirty, Policy, Sketch, Slot};
use std::collections::{HashMap, HashSet, VecDeque};

/// The four lists; the bounds of cases A and B are restored when a page comes in, so that they hold
/// where pages are removed or put back. [`Figure4`] is the paper's own program, for requests alone.
pub struct AdaptiveReplacement {
    t: [Queue; 2],
    b: [VecDeque<u64>; 2],
    object: HashMap<Slot, u64>,
    p: f64,
    c: usize,
    /// The ghost queue in which the object was found.
    from: Option<usize>,
    /// The list of the last victim.
    last: usize,
}

impl AdaptiveReplacement {
    fn replace(&mut self) -> Option<Slot> {
        let t1 = self.t[0].len() as f64;
        let first = t1 >= 1.0 && ((self.from == Some(1) && t1 == self.p) || t1 > self.p);
        let list = if first || self.t[1].is_empty() { 0 } else { 1 };
        let slot = self.t[list].pop_front()?;
        self.b[list].push_back(self.object[&slot]);
        self.last = list;
        Some(slot)
    }
    fn all(&self) -> usize {
        self.t.iter().map(VecDeque::len).sum::<usize>()
            + self.b.iter().map(VecDeque::len).sum::<usize>()
    }
}

impl Policy for AdaptiveReplacement {
    fn new(slots: u32) -> Self {
        Self {
            t: Default::default(),
            b: Default::default(),
            object: HashMap::new(),
            p: 0.0,
            c: slots as usize,
            from: None,
            last: 0,
        }
    }
    fn miss(&mut self, object: u64) {
        self.from = (0..2).find(|b| self.b[*b].contains(&object));
        let [b1, b2] = [self.b[0].len() as f64, self.b[1].len() as f64];
        match self.from {
            Some(0) => self.p = (self.p + if b1 >= b2 { 1.0 } else { b2 / b1 }).min(self.c as f64),
            Some(_) => self.p = (self.p - if b2 >= b1 { 1.0 } else { b1 / b2 }).max(0.0),
            None => {}
        }
        self.b.iter_mut().for_each(|b| b.retain(|o| *o != object));
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        self.object.insert(slot, object);
        self.t[usize::from(self.from.take().is_some())].push_back(slot);
        while self.t[0].len() + self.b[0].len() > self.c && self.b[0].pop_front().is_some() {}
        while self.all() > 2 * self.c && self.b[1].pop_front().is_some() {}
    }
    fn access(&mut self, slot: Slot) {
        self.t.iter_mut().for_each(|t| t.retain(|s| *s != slot));
        self.t[1].push_back(slot);
    }
    fn evict(&mut self) -> Option<Slot> {
        let pages = self.t[0].len() + self.t[1].len();
        self.p = self.p.min(pages as f64);
        self.replace()
    }
    fn remove(&mut self, slot: Slot) {
        self.t.iter_mut().for_each(|t| t.retain(|s| *s != slot));
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let object = self.object[&slot];
        self.b.iter_mut().for_each(|b| b.retain(|o| *o != object));
        self.t[self.last].push_back(slot);
        Dirty::WriteBehind
    }
}

/// Figure 4 of the ARC paper, for requests alone: [T1, T2, B1, B2], oldest first, and p.
pub struct Figure4 {
    lists: [VecDeque<u64>; 4],
    p: f64,
    c: usize,
}

impl Figure4 {
    pub fn new(c: usize) -> Self {
        Self {
            lists: Default::default(),
            p: 0.0,
            c,
        }
    }
    fn drop(&mut self, lists: [usize; 2], x: u64) -> bool {
        let has = |list: &usize| self.lists[*list].contains(&x);
        let found = lists.iter().any(has);
        for list in lists {
            self.lists[list].retain(|o| *o != x);
        }
        found
    }
    fn replace(&mut self, x_in_b2: bool) {
        let t1 = self.lists[0].len();
        let at_target = x_in_b2 && t1 as f64 == self.p;
        let list = usize::from(!(t1 >= 1 && (at_target || t1 as f64 > self.p)));
        let gone = self.lists[list].pop_front();
        self.lists[list + 2].extend(gone);
    }
    /// Makes a request; returns true if it misses.
    pub fn request(&mut self, x: u64) -> bool {
        if self.drop([0, 1], x) {
            self.lists[1].push_back(x);
            return false;
        }
        let [t1, t2, b1, b2] = [0, 1, 2, 3].map(|list: usize| self.lists[list].len());
        let (n1, n2) = (b1 as f64, b2 as f64);
        if self.lists[2].contains(&x) {
            let step = if n1 >= n2 { 1.0 } else { n2 / n1 };
            self.p = (self.p + step).min(self.c as f64);
            self.replace(false);
        } else if self.lists[3].contains(&x) {
            let step = if n2 >= n1 { 1.0 } else { n1 / n2 };
            self.p = (self.p - step).max(0.0);
            self.replace(true);
        } else {
            if t1 + b1 == self.c {
                if t1 < self.c {
                    self.lists[2].pop_front();
                    self.replace(false);
                } else {
                    self.lists[0].pop_front();
                }
            } else if t1 + t2 + b1 + b2 >= self.c {
                if t1 + t2 + b1 + b2 == 2 * self.c {
                    self.lists[3].pop_front();
                }
                self.replace(false);
            }
            self.lists[0].push_back(x);
            return true;
        }
        self.drop([2, 3], x);
        self.lists[1].push_back(x);
        true
    }
}

pub struct TwoQ {
    a1in: Queue,
    a1out: VecDeque<u64>,
    am: Queue,
    object: HashMap<Slot, u64>,
    kout: usize,
    returns: bool,
    from_queue: bool,
}

impl Policy for TwoQ {
    fn new(slots: u32) -> Self {
        Self {
            a1in: Queue::new(),
            a1out: VecDeque::new(),
            am: Queue::new(),
            object: HashMap::new(),
            kout: (slots as usize / 2).max(1),
            returns: false,
            from_queue: false,
        }
    }
    fn miss(&mut self, object: u64) {
        self.returns = self.a1out.contains(&object);
        self.a1out.retain(|o| *o != object);
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        self.object.insert(slot, object);
        if self.returns {
            self.am.push_back(slot);
        } else {
            self.a1in.push_back(slot);
        }
    }
    fn access(&mut self, slot: Slot) {
        if drop_from(&mut self.am, slot) {
            self.am.push_back(slot);
        }
    }
    fn evict(&mut self) -> Option<Slot> {
        let kin = ((self.a1in.len() + self.am.len()) / 4).max(1);
        self.from_queue = self.a1in.len() > kin || self.am.is_empty();
        if !self.from_queue {
            return self.am.pop_front();
        }
        let slot = self.a1in.pop_front()?;
        self.a1out.push_back(self.object[&slot]);
        if self.a1out.len() > self.kout {
            self.a1out.pop_front();
        }
        Some(slot)
    }
    fn remove(&mut self, slot: Slot) {
        drop_from(&mut self.a1in, slot);
        drop_from(&mut self.am, slot);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let object = self.object[&slot];
        if self.from_queue {
            self.a1out.retain(|o| *o != object);
            self.a1in.push_back(slot);
        } else {
            self.am.push_back(slot);
        }
        Dirty::WriteBehind
    }
}

/// An entry of LIRS's stack: an object, its slot if it is cached, and whether it is LIR.
#[derive(Clone, Copy)]
struct Entry {
    object: u64,
    slot: Option<Slot>,
    low: bool,
}

/// The stack, from its bottom, and the queue.
pub struct Lirs {
    stack: Vec<Entry>,
    queue: Queue,
    /// Objects that left, in that order; some are no longer in the stack.
    left: VecDeque<u64>,
    object: HashMap<Slot, u64>,
    most_low: usize,
    /// Pages in the queue that are dirty or being written.
    held: HashSet<Slot>,
    slots: usize,
    returns: bool,
}

impl Lirs {
    fn low(&self) -> usize {
        self.stack.iter().filter(|e| e.low).count()
    }
    fn prune(&mut self) {
        let first = self.stack.iter().position(|e| e.low);
        let gone: Vec<_> = self
            .stack
            .drain(..first.unwrap_or(self.stack.len()))
            .collect();
        for entry in gone.iter().filter(|e| e.slot.is_none()) {
            self.left.retain(|o| *o != entry.object);
        }
    }
    fn top(&mut self, slot: Slot, low: bool) {
        self.stack.push(Entry {
            object: self.object[&slot],
            slot: Some(slot),
            low,
        });
        if self.low() > self.most_low {
            self.demote();
        }
        self.prune();
    }
    fn demote(&mut self) {
        let entry = self.stack.remove(0);
        assert!(entry.low, "the bottom is LIR");
        self.queue.extend(entry.slot);
        self.prune();
    }
}

impl Policy for Lirs {
    fn new(slots: u32) -> Self {
        Self {
            stack: Vec::new(),
            queue: Queue::new(),
            left: VecDeque::new(),
            object: HashMap::new(),
            most_low: slots as usize - (slots as usize / 100).max(1),
            held: HashSet::new(),
            slots: slots as usize,
            returns: false,
        }
    }
    fn miss(&mut self, object: u64) {
        self.returns = self.left.contains(&object);
        self.left.retain(|o| *o != object);
        self.stack.retain(|e| e.object != object);
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        self.object.insert(slot, object);
        let low = self.returns || self.low() < self.most_low;
        if !low {
            self.queue.push_back(slot);
        }
        self.top(slot, low);
    }
    fn access(&mut self, slot: Slot) {
        let at = self.stack.iter().position(|e| e.slot == Some(slot));
        let entry = at.map(|at| self.stack.remove(at));
        if entry.is_none_or(|e| !e.low) {
            drop_from(&mut self.queue, slot);
        }
        if entry.is_none() {
            self.queue.push_back(slot);
        } else {
            self.held.remove(&slot);
        }
        self.top(slot, entry.is_some());
    }
    fn evict(&mut self) -> Option<Slot> {
        let pages = self.low() + self.queue.len();
        if pages == 0 {
            return None;
        }
        self.most_low = (pages - (pages / 100).max(1)).saturating_sub(self.held.len());
        while self.low() > self.most_low {
            self.demote();
        }
        let slot = self.queue.pop_front()?;
        self.held.remove(&slot);
        if let Some(at) = self.stack.iter().position(|e| e.slot == Some(slot)) {
            self.stack[at].slot = None;
            if self.left.len() == self.slots
                && let Some(old) = self.left.pop_front()
            {
                self.stack.retain(|e| e.slot.is_some() || e.object != old);
            }
            self.left.push_back(self.object[&slot]);
        }
        Some(slot)
    }
    fn remove(&mut self, slot: Slot) {
        self.held.remove(&slot);
        drop_from(&mut self.queue, slot);
        self.stack.retain(|e| e.slot != Some(slot));
        self.prune();
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let object = self.object[&slot];
        self.queue.push_back(slot);
        if self.left.contains(&object) {
            self.left.retain(|o| *o != object);
            let entry = self.stack.iter_mut().find(|e| e.object == object);
            entry.expect("what has left is in the stack").slot = Some(slot);
        }
        self.held.insert(slot);
        Dirty::WriteBehind
    }
    fn cleaned(&mut self, slot: Slot) {
        self.held.remove(&slot);
    }
}

/// Four queues; request counts come from the crate's own sketch, which is tested beside it.
pub struct WTinyLfu {
    /// The window, probation, the protected segment, and pages that left the window uncompared.
    queues: [Queue; 4],
    sketch: Sketch,
    object: HashMap<Slot, u64>,
    full: usize,
    was_full: bool,
    last: usize,
}

impl WTinyLfu {
    fn most_in_window(&self) -> usize {
        (self.full / 100).max(1)
    }
}

impl Policy for WTinyLfu {
    fn new(slots: u32) -> Self {
        Self {
            queues: [Queue::new(), Queue::new(), Queue::new(), Queue::new()],
            sketch: Sketch::new(slots),
            object: HashMap::new(),
            full: slots as usize,
            was_full: false,
            last: 0,
        }
    }
    fn miss(&mut self, object: u64) {
        self.sketch.add(object);
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        self.object.insert(slot, object);
        self.queues[0].push_back(slot);
        while self.queues[0].len() > self.most_in_window() {
            let oldest = self.queues[0].pop_front();
            self.queues[if self.was_full { 3 } else { 1 }].extend(oldest);
        }
    }
    fn access(&mut self, slot: Slot) {
        self.sketch.add(self.object[&slot]);
        if drop_from(&mut self.queues[0], slot) {
            self.queues[0].push_back(slot);
            return;
        }
        let was_protected = drop_from(&mut self.queues[2], slot);
        self.remove(slot);
        self.queues[2].push_back(slot);
        let main = self.full.saturating_sub(self.most_in_window());
        if !was_protected && self.queues[2].len() > main * 4 / 5 {
            let oldest = self.queues[2].pop_front();
            self.queues[1].extend(oldest);
        }
    }
    fn evict(&mut self) -> Option<Slot> {
        let pages: usize = self.queues.iter().map(Queue::len).sum();
        if pages > 0 {
            (self.full, self.was_full) = (pages, true);
        }
        let segment = if self.queues[1].is_empty() { 2 } else { 1 };
        let due = if self.queues[3].is_empty() { 0 } else { 3 };
        let is_due = due == 3 || self.queues[0].len() >= self.most_in_window();
        let victim = self.queues[segment].front().copied();
        let candidate = self.queues[due].front().copied().filter(|_| is_due);
        let count = |slot: Slot| self.sketch.count(self.object[&slot]);
        self.last = match (candidate, victim) {
            (Some(candidate), Some(victim)) if count(candidate) > count(victim) => {
                drop_from(&mut self.queues[segment], victim);
                let candidate = self.queues[due].pop_front();
                self.queues[1].extend(candidate);
                self.last = segment;
                return Some(victim);
            }
            (Some(_), _) => due,
            (None, Some(_)) => segment,
            (None, None) => 0,
        };
        let last = self.last;
        self.queues[last].pop_front()
    }
    fn remove(&mut self, slot: Slot) {
        for queue in &mut self.queues {
            drop_from(queue, slot);
        }
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let list = if self.last == 3 { 1 } else { self.last };
        self.queues[list].push_back(slot);
        Dirty::WriteBehind
    }
}

#[derive(Clone, Copy)]
struct Node {
    object: u64,
    slot: Option<Slot>,
    hot: bool,
    test: bool,
    used: bool,
}

/// The ring as an array that wraps around, the hands as indices into it.
pub struct ClockPro {
    ring: Vec<Node>,
    /// The cold, hot and test hand.
    hands: [usize; 3],
    object: HashMap<Slot, u64>,
    mc: usize,
    m: usize,
    slots: usize,
    returns: bool,
    last_test: bool,
}

impl ClockPro {
    fn take(&mut self, at: usize) -> Node {
        let node = self.ring.remove(at);
        for hand in &mut self.hands {
            if *hand > at {
                *hand -= 1;
            }
            if *hand == self.ring.len() {
                *hand = 0;
            }
        }
        node
    }
    fn head(&mut self, node: Node) {
        let at = self.hands[1];
        self.ring.insert(at, node);
        if self.ring.len() > 1 {
            self.hands
                .iter_mut()
                .filter(|h| **h >= at)
                .for_each(|h| *h += 1);
        }
    }
    fn forward(&mut self, hand: usize) {
        self.hands[hand] = (self.hands[hand] + 1) % self.ring.len();
    }
    fn count(&self, is: impl Fn(&Node) -> bool) -> usize {
        self.ring.iter().filter(|n| is(n)).count()
    }
    fn end_test(&mut self, hand: usize) {
        let at = self.hands[hand];
        let node = self.ring[at];
        if node.slot.is_none() {
            self.take(at);
            self.mc = (self.mc - 1).max(1);
            return;
        }
        if node.test {
            self.ring[at].test = false;
            if !node.used {
                self.mc = (self.mc - 1).max(1);
            }
        }
        self.forward(hand);
    }
    fn run_hot(&mut self) {
        loop {
            let at = self.hands[1];
            if !self.ring[at].hot {
                self.end_test(1);
                continue;
            }
            let used = std::mem::replace(&mut self.ring[at].used, false);
            self.ring[at].hot = used;
            self.forward(1);
            if !used {
                return;
            }
        }
    }
    fn balance(&mut self) {
        while self.count(|n| n.hot) > self.m.saturating_sub(self.mc) {
            self.run_hot();
        }
    }
}

impl Policy for ClockPro {
    fn new(slots: u32) -> Self {
        Self {
            ring: Vec::new(),
            hands: [0; 3],
            object: HashMap::new(),
            mc: (slots as usize / 100).max(1),
            m: slots as usize,
            slots: slots as usize,
            returns: false,
            last_test: false,
        }
    }
    fn miss(&mut self, object: u64) {
        let at = |n: &Node| n.slot.is_none() && n.object == object;
        let at = self.ring.iter().position(at);
        self.returns = at.is_some();
        if let Some(at) = at {
            self.take(at);
            self.mc = (self.mc + 1).min(self.m);
        }
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        self.object.insert(slot, object);
        self.head(Node {
            object,
            slot: Some(slot),
            hot: self.returns,
            test: !self.returns,
            used: false,
        });
        if self.returns {
            self.balance();
        }
    }
    fn access(&mut self, slot: Slot) {
        let node = self.ring.iter_mut().find(|n| n.slot == Some(slot));
        node.unwrap().used = true;
    }
    fn evict(&mut self) -> Option<Slot> {
        let pages = self.count(|n| n.slot.is_some());
        if pages == 0 {
            return None;
        }
        (self.m, self.mc) = (pages, self.mc.min(pages));
        loop {
            if self.count(|n| n.slot.is_some() && !n.hot) == 0 {
                self.run_hot();
            }
            let at = self.hands[0];
            let mut node = self.ring[at];
            if node.hot || node.slot.is_none() {
                self.forward(0);
            } else if node.used {
                self.take(at);
                node.used = false;
                if node.test {
                    self.mc = (self.mc + 1).min(self.m);
                    (node.hot, node.test) = (true, false);
                    self.head(node);
                    self.balance();
                } else {
                    node.test = true;
                    self.head(node);
                }
            } else {
                self.last_test = node.test;
                if node.test {
                    while self.count(|n| n.slot.is_none()) == self.slots {
                        self.end_test(2);
                    }
                    let at = self.ring.iter().position(|n| n.slot == node.slot).unwrap();
                    // The page becomes a ghost in its place; hands that point at it move on.
                    self.ring[at].slot = None;
                    let next = (at + 1) % self.ring.len();
                    for hand in self.hands.iter_mut().filter(|h| **h == at) {
                        *hand = next;
                    }
                } else {
                    self.take(at);
                }
                return node.slot;
            }
        }
    }
    fn remove(&mut self, slot: Slot) {
        let at = self.ring.iter().position(|n| n.slot == Some(slot)).unwrap();
        self.take(at);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        let object = self.object[&slot];
        let ghost = |n: &Node| n.slot.is_none() && n.object == object;
        let at = self.ring.iter().position(ghost);
        if let Some(at) = at {
            self.take(at);
        }
        self.head(Node {
            object,
            slot: Some(slot),
            hot: false,
            test: at.is_some(),
            used: false,
        });
        Dirty::WriteBehind
    }
}

/// Values as fractions; draws by the published generator, over pages in the order of the list.
pub struct Hyperbolic {
    held: Vec<Slot>,
    pages: HashMap<Slot, (u64, u64)>,
    now: u64,
    state: u64,
}

impl Hyperbolic {
    fn draw(&mut self) -> Slot {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
            z = (z ^ (z >> shift)).wrapping_mul(factor);
        }
        let z = u128::from(z ^ (z >> 31));
        self.held[(z * self.held.len() as u128 / (1 << 64)) as usize]
    }
}

impl Policy for Hyperbolic {
    fn new(_: u32) -> Self {
        Self {
            held: Vec::new(),
            pages: HashMap::new(),
            now: 0,
            state: 0,
        }
    }
    fn admit(&mut self, slot: Slot, _: u64) {
        self.pages.insert(slot, (1, self.now));
        self.held.push(slot);
        self.now += 1;
    }
    fn access(&mut self, slot: Slot) {
        self.now += 1;
        self.pages.get_mut(&slot).unwrap().0 += 1;
    }
    fn evict(&mut self) -> Option<Slot> {
        let drawn: Vec<Slot> = match self.held.len() {
            0 => return None,
            1..=64 => self.held.clone(),
            _ => (0..64).map(|_| self.draw()).collect(),
        };
        // Counts and times are small here, so 2^64 as a factor makes the quotients exact enough.
        let worth = |slot: &Slot| {
            let (uses, since) = self.pages[slot];
            (u128::from(uses) << 64) / u128::from(self.now - since)
        };
        let least = *drawn.iter().min_by_key(|s| worth(s))?;
        self.remove(least);
        Some(least)
    }
    fn remove(&mut self, slot: Slot) {
        let at = self.held.iter().position(|s| *s == slot).unwrap();
        self.held.swap_remove(at);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.held.push(slot);
        Dirty::WriteBehind
    }
}
