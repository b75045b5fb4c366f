//! Any fio job file is read, or refused at a place inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match workload::fio::parse(text) {
        Ok(jobs) => drop(jobs.script()),
        Err(e) => assert!(text.get(e.span.clone()).is_some(), "{e:?}"),
    }
});
