//! Measures a filesystem's device and fits a disk model to it.

use sim::spec::DiskKind;

/// The smallest file that is probed with.
pub const LEAST_SIZE: u64 = 16 << 20;
/// The largest.
pub const MOST_SIZE: u64 = 64 << 30;

/// A fitted parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Its name in the parameter table.
    pub name: &'static str,
    /// Its value, in the table's unit.
    pub value: f64,
    /// What it was fitted to.
    pub from: String,
}

/// A disk model fitted to measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The kind that comes nearest.
    pub kind: DiskKind,
    /// Its parameters.
    pub params: Vec<Fitted>,
}

impl Fit {
    /// The measurements against the model's predictions.
    pub fn to_text(&self) -> String {
        String::new()
    }
}
