//! Eviction policies behind hooks: they choose the page that leaves a full cache.
//!
//! A cache of `n` frames numbers them from 0: a [`Slot`]. A [`Policy`] keeps its state of a page in
//! arrays by slot, so that no hook allocates, and only policies with ghosts hash (a ghost is a page
//! that has left and is known by its object's number).
//!
//! # The life of a slot
//!
//! ```text
//!            admit                  evict                    the cache takes the slot
//!   (free) --------> policy's lists -------> out, clean ---------------------------> (free)
//!                     |  ^  access    |
//!                     |  |            +----> out, dirty --dirty()--> Write: as clean, after a wait
//!                     |  +---------------------------------------- Skip, WriteBehind: back in
//!                     +-- remove --> (free)
//! ```
//!
//! - A slot is either in the policy or out of it. `admit` puts it in; `evict` and `remove` take it
//!   out; `dirty` puts it back in if it answers anything but [`Dirty::Write`].
//! - `access`, `remove` and `cleaned` are called for slots that are in, `admit` and `dirty` for
//!   slots that are out.
//! - `evict` returns `None` only if the policy holds no slot.
//!
//! The policies are listed in [`registry`]; one more takes a file and a line there.
#![forbid(unsafe_code)]

mod ghost;
mod index;
mod lists;
mod policy;
pub mod registry;
mod sketch;

pub use ghost::Ghost;
pub use index::{End, Index, MOST};
pub use lists::Lists;
pub use policy::{AnyPolicy, Dirty, Policy, Slot};
pub use registry::types::*;
pub use sketch::Sketch;
