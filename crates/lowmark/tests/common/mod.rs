//! Runs the program in a folder, with its arguments as one line.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program and returns its output.
pub fn lowmark(dir: &Path, args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
    let command = command.current_dir(dir).args(args.split(' '));
    command.output().expect("the program")
}

/// Runs the program, which must succeed, and returns its standard output.
pub fn good(dir: &Path, args: &str) -> Vec<u8> {
    let output = lowmark(dir, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {said}");
    output.stdout
}

/// Runs the program, which must refuse its input with a message that contains `told`.
pub fn wrong(dir: &Path, args: &str, told: &str) {
    let output = lowmark(dir, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args}: {said}");
    assert!(said.contains(told), "{args}: {said}");
}
