//! A program that is built on `front` links nothing of the command line's: no parser of arguments,
//! no dashboard, no progress bars.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The crates of the command line and of its dashboard.
const COMMAND_LINE: [&str; 8] = [
    "clap",
    "clap_complete",
    "clap_mangen",
    "ctrlc",
    "indicatif",
    "lowmark",
    "ratatui",
    "top",
];

/// Returns the names of the crates that a crate of the workspace links: its normal dependencies on
/// this computer, and theirs.
fn linked(krate: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"]);
    let told = tree.args(["--package", krate]).current_dir(root).output();
    let told = told.expect("cargo");
    assert!(told.status.success(), "cargo tree: {told:?}");
    let lines = String::from_utf8(told.stdout).expect("names in UTF-8");
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn programs_link_nothing_of_the_command_line() {
    for krate in ["front", "lowmark-c"] {
        let linked = linked(krate);
        assert!(linked.contains("lab"), "{krate} links {linked:?}");
        let own: Vec<_> = COMMAND_LINE
            .iter()
            .filter(|c| linked.contains(**c))
            .collect();
        assert!(own.is_empty(), "{krate} links {own:?}");
    }
    let linked = linked("lowmark");
    let gone: Vec<_> = COMMAND_LINE
        .iter()
        .filter(|c| !linked.contains(**c))
        .collect();
    assert!(gone.is_empty(), "the command line has no {gone:?} any more");
}
