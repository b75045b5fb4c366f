#![no_main]
//! Any bytes go through trace readers, with the format recognised from the bytes.

#[path = "trace/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_bytes::read(bytes, None));
