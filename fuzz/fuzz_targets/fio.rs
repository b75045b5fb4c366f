//! Any text as a fio job file is parsed, or refused at a place inside the text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match workload::fio::parse(text) {
        Ok(jobs) => drop(jobs.script()),
        Err(e) => assert!(text.get(e.span.clone()).is_some(), "{e:?}"),
    }
});
