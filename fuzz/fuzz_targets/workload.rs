//! Any text as a command line is parsed, or refused at a place inside the text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    if let Err(e) = workload::parse(line) {
        assert!(line.get(e.span.clone()).is_some(), "{e:?}");
    }
});
