//! `lowmark schema`.

use crate::failure::Failure;
use crate::text;

/// Prints the JSON schema of machine files.
pub fn run() -> Result<(), Failure> {
    text::print_json(&schemars::schema_for!(sim::spec::Machine))
}
