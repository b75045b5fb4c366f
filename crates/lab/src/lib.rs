//! The laboratory.
#![forbid(unsafe_code)]
