//! Any bytes as the frames of a recording make a result, or are refused.
#![no_main]

use kernel::running::file::{About, Recording, writer};
use libfuzzer_sys::fuzz_target;
use std::io::Write;

fuzz_target!(|bytes: &[u8]| {
    let mut packed = writer(Vec::new(), &About::default()).expect("memory");
    packed.write_all(bytes).expect("memory");
    let packed = packed.finish().expect("memory");
    if let Ok(recording) = Recording::of(&|| Ok(Box::new(&packed[..]))) {
        recording.result();
    }
});
