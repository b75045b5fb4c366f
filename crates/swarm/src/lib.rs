//! Random legal experiments over everything that the schema allows, each held to laws that need no
//! expected figures: the books balance, nothing panics or spins, and who watches changes nothing.
//!
//! - [`space`]: what an experiment may say, read from the code's own tables
//! - [`case`]: one experiment drawn from a seed, with [`machine`], [`policy`], [`numbers`], [`programs`] and
//!   [`inputs`]
//! - [`law`]: what must hold; [`noop`] has changes that change nothing, [`trend`] what holds in the median
//! - [`worker`] and [`watch`]: cases run in processes of their own, whose CPU time and memory are bounded
//! - [`minimise`]: a find as small as it gets
//! - [`cover`]: what was tried
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
