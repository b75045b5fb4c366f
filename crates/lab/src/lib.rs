//! The laboratory: experiments, statistics, results, reports, reproduction of published tables.
#![forbid(unsafe_code)]

pub mod compare;
pub mod diagnostic;
pub mod experiment;
pub mod memory;
pub mod model;
pub mod output;
pub mod page;
pub mod published;
pub mod report;
pub mod reproduce;
pub mod rows;
pub mod runner;
pub mod scores;
pub mod stats;
pub mod tune;
