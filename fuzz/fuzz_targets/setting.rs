//! Any text as a `--set` option changes an experiment, or is refused.
#![no_main]

use lab::diagnostic::Source;
use lab::experiment::{Overrides, parse};
use libfuzzer_sys::fuzz_target;

const EXPERIMENT: &str = include_str!("../seeds/experiment/small.toml");
const MACHINE: &str = include_str!("../seeds/machine/small.toml");

fuzz_target!(|setting: &str| {
    let files = |name: &str| Ok((name.to_owned(), MACHINE.to_owned()));
    let overrides = Overrides {
        set: vec![setting.to_owned()],
        ..Overrides::default()
    };
    let _ = parse(&Source::new("fuzz.toml", EXPERIMENT), &files, &overrides);
});
