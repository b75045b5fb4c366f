#![no_main]
//! Any bytes, whatever format they are taken for.

#[path = "trace/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_bytes::read(bytes, None));
