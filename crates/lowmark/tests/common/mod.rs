//! The program as tests call it: its arguments as a line, in a folder.

use std::path::Path;
use std::process::{Command, Output};

/// What becomes of it.
pub fn lowmark(dir: &Path, args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
    let command = command.current_dir(dir).args(args.split(' '));
    command.output().expect("the program")
}

/// What it prints where it succeeds.
pub fn good(dir: &Path, args: &str) -> Vec<u8> {
    let output = lowmark(dir, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {said}");
    output.stdout
}

/// It refuses its input, and says why.
pub fn wrong(dir: &Path, args: &str, told: &str) {
    let output = lowmark(dir, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args}: {said}");
    assert!(said.contains(told), "{args}: {said}");
}
