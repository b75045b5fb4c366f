//! Any bytes as the text of a kernel trace are summed up, or refused at a line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = sim::ftrace::read::rows(bytes);
});
