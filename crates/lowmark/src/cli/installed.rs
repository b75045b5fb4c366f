//! `completions` and `man`: files that a package installs beside the program.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder for the pages, created if missing; existing pages are replaced
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}
