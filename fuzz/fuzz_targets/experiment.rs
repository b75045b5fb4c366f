//! Any text as an experiment file is expanded into runs, or refused.
#![no_main]

use lab::diagnostic::Source;
use lab::experiment::{Overrides, parse};
use libfuzzer_sys::fuzz_target;

const MACHINE: &str = include_str!("../seeds/machine/small.toml");

fuzz_target!(|text: &str| {
    let files = |name: &str| Ok((name.to_owned(), MACHINE.to_owned()));
    let _ = parse(
        &Source::new("fuzz.toml", text),
        &files,
        &Overrides::default(),
    );
});
