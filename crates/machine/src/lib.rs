//! The running Linux as a machine that an experiment can name.
//!
//! - [`root`] reads files of `/proc` and `/sys`, or of a saved tree of them; [`parse`] makes sense
//!   of their texts: pure functions, safe for any input.
//! - [`capture`] puts them together: nodes, zones, counters, settings, disks.
//! - [`era`] says which kernels' formulas hold, [`verify`] runs the engine's formulas over a
//!   captured machine and compares the results with what its kernel says.
//! - [`describe`] writes the machine file.
//! - [`probe`] measures a filesystem's device and fits a disk model to it.
#![forbid(unsafe_code)]

pub mod capture;
pub mod describe;
pub mod era;
pub mod parse;
pub mod probe;
pub mod root;
pub mod verify;

pub use capture::Captured;
pub use root::{ReadError, Root};
