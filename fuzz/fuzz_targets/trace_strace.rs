#![no_main]
//! Any bytes through the reader of one format.

#[path = "trace/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_bytes::read(bytes, Some(trace::Format::Strace)));
