//! Scores of published series in README and docs, and the file of measured figures that they are from.
#![forbid(unsafe_code)]

pub mod markers;
