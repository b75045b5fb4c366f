//! Random legal experiments over everything that the schema allows. Each is held to laws that need
//! no expected figures: the engine's accounts balance, no run panics or spins, and observing a run
//! changes nothing.
//!
//! - [`space`]: the keys and values that an experiment may have, read from the code's own tables
//! - [`case`]: one experiment drawn from a seed, with [`machine`], [`policy`], [`numbers`],
//!   [`programs`] and [`inputs`]
//! - [`law`]: the laws; [`noop`] has changes without effect, [`trend`] the laws that hold in the
//!   median
//! - [`worker`] and [`watch`]: examining cases in processes of their own, with bounded CPU time and
//!   memory
//! - [`minimise`]: makes a find as small as possible
//! - [`cover`]: what the cases covered
#![forbid(unsafe_code)]

pub mod case;
pub mod changes;
pub mod cover;
pub mod dice;
pub mod ends;
pub mod hunt;
pub mod inputs;
pub mod law;
pub mod machine;
pub mod minimise;
pub mod noop;
pub mod numbers;
pub mod policy;
pub mod programs;
pub mod space;
pub mod trend;
pub mod watch;
pub mod worker;
