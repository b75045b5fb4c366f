//! The subcommands, one module each.

pub mod attribute;
pub mod bench;
pub mod bisect;
pub mod compare;
pub mod diverge;
pub mod examples;
pub mod explain;
pub mod export;
pub mod installed;
pub mod kernel;
pub mod learn;
mod listen;
pub mod machine;
pub mod mrc;
pub mod params;
pub mod policies;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod run;
pub mod schema;
pub mod top;
pub mod trace;
pub mod tune;
pub mod validate;
