//! The subcommands, one module each.

pub mod bench;
pub mod machine;
pub mod params;
pub mod reproduce;
pub mod run;
pub mod schema;
pub mod trace;
