//! The laboratory: experiments, statistics, results, reports, reproduction of published tables.
#![forbid(unsafe_code)]

pub mod model;
pub mod output;
pub mod runner;
