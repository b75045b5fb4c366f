//! Builds an experiment from a machine file and a command line, without an experiment file.

use super::{Overrides, files_near, parse, quoted};
use crate::diagnostic::{Diagnostic, Source};
use crate::model::Experiment;
use std::path::Path;

/// Returns the experiment that runs a command line once on a machine, without an experiment file:
/// the arguments are the values of the keys of such a file.
///
/// # Errors
/// Returns the first mistake in the arguments.
pub fn of_command(
    machine: &str,
    command: &str,
    filesystem: &str,
    policy: &str,
    overrides: &Overrides,
) -> Result<Experiment, Diagnostic> {
    let text = format!(
        "name = \"command\"\niterations = 1\npolicy = {}\nfilesystem = {}\nmachine = {}\n\n\
         [workload]\ncommand = {}\n",
        quoted(policy),
        quoted(filesystem),
        quoted(machine),
        quoted(command),
    );
    let name = "command line";
    parse(
        &Source::new(name, text),
        &files_near(Path::new(name)),
        overrides,
    )
}
