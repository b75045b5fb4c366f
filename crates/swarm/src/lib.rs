#![doc = include_str!("../README.md")]
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
