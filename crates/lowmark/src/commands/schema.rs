//! `lowmark schema`.

use crate::cli::{Schema, What};
use crate::text;
use front::failure::Failure;

/// Prints the JSON schema of machine files, or of experiments.
pub fn run(args: &Schema) -> Result<(), Failure> {
    match args.what {
        What::Machine => text::print_json(&schemars::schema_for!(sim::spec::Machine)),
        What::Experiment => text::print_json(&lab::experiment::schema()),
    }
}
