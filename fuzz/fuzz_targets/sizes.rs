//! Any text as a `--sizes` list gives ascending sizes, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(sizes) = text.parse::<replay::Sizes>() {
        let list = sizes.of(1000).pages;
        assert!(!list.is_empty() && list.is_sorted_by(|a, b| a < b));
    }
});
