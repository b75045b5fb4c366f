#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod attribute;
pub mod bisect;
pub mod compare;
pub mod diagnostic;
pub mod diverge;
pub mod experiment;
pub mod figures;
pub mod model;
pub mod published;
pub mod recorded;
pub mod reference;
pub mod report;
pub mod results;
pub mod rows;
pub mod runner;
pub mod shipped;
pub mod terminal;
pub mod tune;
pub mod validate;
pub mod warrant;
