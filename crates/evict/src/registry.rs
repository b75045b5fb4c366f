//! The policies by name. A new one takes a file beside this one, and a line in `policies!`. Those
//! below `boxed` are called through a table: some nanoseconds more a request, a tenth of a megabyte
//! of program less.

use crate::{AnyPolicy, Policy};

/// Generic code that runs with a policy of a known type; compiled for each policy.
pub trait Visitor {
    /// The result.
    type Output;

    /// Runs with the policy `P`, which it creates with [`Policy::new`].
    fn visit<P: Policy + Clone + Send + 'static>(self) -> Self::Output;
}

/// Generic code like [`Visitor`], of which there should not be a copy for every policy: all those
/// listed as `boxed` are called through one type, `Box<dyn AnyPolicy>`.
pub trait Runner {
    /// The result.
    type Output;

    /// Runs with a policy that `make` creates for a number of slots.
    fn run<P: Policy>(self, make: &dyn Fn(u32) -> P) -> Self::Output;
}

/// An entry of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The policy's name in options and results.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
}

macro_rules! policies {
    (
        $($name:literal: $module:ident::$Policy:ident in $file:literal, $about:literal;)+
        boxed:
        $($boxed:literal: $box_module:ident::$Boxed:ident in $box_file:literal, $box_about:literal;)+
    ) => {
        $(#[path = $file] mod $module;)+
        $(#[path = $box_file] mod $box_module;)+

        /// The policies' types.
        pub mod types {
            $(pub use super::$module::$Policy;)+
            $(pub use super::$box_module::$Boxed;)+
        }

        /// Every policy, in the order of lists.
        pub const ALL: &[Entry] = &[
            $(Entry { name: $name, about: $about },)+
            $(Entry { name: $boxed, about: $box_about },)+
        ];

        /// Calls the visitor with the policy of that name; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            match name {
                $($name => Some(visitor.visit::<$module::$Policy>()),)+
                $($boxed => Some(visitor.visit::<$box_module::$Boxed>()),)+
                _ => None,
            }
        }

        /// Calls the runner with the policy of that name; `None` if there is none.
        pub fn run<R: Runner>(name: &str, runner: R) -> Option<R::Output> {
            match name {
                $($name => Some(runner.run(&<$module::$Policy as Policy>::new)),)+
                _ => {
                    find(name)?;
                    Some(runner.run(&|slots| make(name, slots).expect("it was found")))
                }
            }
        }
    };
}

policies! {
    "two-list": two_list::TwoList in "two_list.rs", "Linux's active and inactive list: the second use on the inactive list activates a page.";
    "lru": lru::Lru in "lru.rs", "Evicts the page whose last use is longest ago.";
    "fifo": fifo::Fifo in "fifo.rs", "Evicts the page that came first, however much it is used.";
    "clock": clock::Clock in "clock.rs", "First in, first out, with another round for pages used since the last one.";
    "s3-fifo": s3_fifo::S3Fifo in "s3_fifo.rs", "A small queue before the main one, and ghosts of pages that were not used in it.";
    "sieve": sieve::Sieve in "sieve.rs", "A hand passes over used pages, which keep their places, and evicts the first other one.";
    "lfu-ageing": lfu_ageing::LfuAgeing in "lfu_ageing.rs", "Evicts the page with the fewest uses; counts are halved every eight turns of the cache.";
    "generational": generational::Generational in "generational.rs", "Linux's multi-generational LRU: refaults decide which often used pages stay for another generation.";
    "arc": arc::AdaptiveReplacement in "arc.rs", "Pages used once and pages used again in two lists, whose shares follow from which of their ghosts come back.";
    "2q": two_q::TwoQ in "two_q.rs", "A queue before an LRU list; a page joins the list if it comes back after it left the queue.";
    "lirs": lirs::Lirs in "lirs.rs", "Keeps pages with few others between their last two uses; the rest go through a queue of a hundredth of the cache.";
    "w-tinylfu": w_tiny_lfu::WTinyLfu in "w_tiny_lfu.rs", "A window before a segmented LRU that lets in only what was asked for more often than what would go.";
    boxed:
    "clock-pro": clock_pro::ClockPro in "clock_pro.rs", "A ring of hot pages, cold pages and ghosts of cold ones, with a hand for each.";
    "hyperbolic": hyperbolic::Hyperbolic in "hyperbolic.rs", "Evicts the page with the fewest uses by its time in the cache, of 64 drawn at random.";
}

/// Returns the registry's entry for the policy of that name; `None` if there is no such policy.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name)
}

/// Creates the policy of that name over the slots `0..slots`, in a box, for callers that choose it
/// at run time; `None` if there is no such policy.
pub fn make(name: &str, slots: u32) -> Option<Box<dyn AnyPolicy>> {
    // The visitor that `visit` calls with the policy's type; it holds the number of slots.
    struct Make(u32);
    impl Visitor for Make {
        type Output = Box<dyn AnyPolicy>;
        fn visit<P: Policy + Clone + Send + 'static>(self) -> Self::Output {
            Box::new(P::new(self.0))
        }
    }
    visit(name, Make(slots))
}

/// Returns the names of all policies, separated by commas, for error messages.
pub fn names() -> String {
    let names: Vec<_> = ALL.iter().map(|e| e.name).collect();
    names.join(", ")
}
