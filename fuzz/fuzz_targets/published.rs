//! Any text as a published table is parsed, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = lab::published::table::parse("fuzz.csv", text);
});
