//! Any text as a machine file makes a machine, or is refused.
#![no_main]

use lab::diagnostic::Source;
use lab::experiment::{Overrides, parse};
use libfuzzer_sys::fuzz_target;

const EXPERIMENT: &str = include_str!("../seeds/experiment/small.toml");

fuzz_target!(|text: &str| {
    let files = |name: &str| Ok((name.to_owned(), text.to_owned()));
    let source = Source::new("fuzz.toml", EXPERIMENT);
    let _ = parse(&source, &files, &Overrides::default());
});
