//! The policies by name.

use crate::{AnyPolicy, Clock, Fifo, Generational, LfuAgeing, Lru, Policy, S3Fifo, Sieve, TwoList};

/// What is done with a policy once its type is known: generic code that is compiled for each.
pub trait Visitor {
    /// What comes out.
    type Output;

    /// The work, with the policy `P`; it makes its own by [`Policy::new`].
    fn visit<P: Policy + Clone + Send + 'static>(self) -> Self::Output;
}

/// A line of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The name in options and results.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

macro_rules! policies {
    ($($name:literal: $policy:ty, $about:literal;)+) => {
        /// Every policy, in the order of lists.
        pub const ALL: &[Entry] = &[$(Entry { name: $name, about: $about }),+];

        /// Calls the visitor with the policy of that name; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            match name {
                $($name => Some(visitor.visit::<$policy>()),)+
                _ => None,
            }
        }
    };
}

policies! {
    "two-list": TwoList, "Linux's active and inactive list: the second use on the inactive list activates a page.";
    "lru": Lru, "Evicts the page whose last use is longest ago.";
    "fifo": Fifo, "Evicts the page that came first, however much it is used.";
    "clock": Clock, "First in, first out, with another round for pages used since the last one.";
    "s3-fifo": S3Fifo, "A small queue before the main one, and ghosts of pages that were not used in it.";
    "sieve": Sieve, "A hand passes over used pages, which keep their places, and evicts the first other one.";
    "lfu-ageing": LfuAgeing, "Evicts the page with the fewest uses; counts are halved every eight turns of the cache.";
    "generational": Generational, "Linux's multi-generational LRU: refaults decide which often used pages stay for another generation.";
}

/// The policy's line.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name)
}

/// The policy of that name over the slots `0..slots`; `None` if there is none.
pub fn make(name: &str, slots: u32) -> Option<Box<dyn AnyPolicy>> {
    struct Make(u32);
    impl Visitor for Make {
        type Output = Box<dyn AnyPolicy>;
        fn visit<P: Policy + Clone + Send + 'static>(self) -> Self::Output {
            Box::new(P::new(self.0))
        }
    }
    visit(name, Make(slots))
}

/// All names, for messages.
pub fn names() -> String {
    let names: Vec<_> = ALL.iter().map(|e| e.name).collect();
    names.join(", ")
}
