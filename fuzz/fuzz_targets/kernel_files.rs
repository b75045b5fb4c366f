//! Any text as a file of `/proc` or `/sys` is parsed, or refused at a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::parse;

fuzz_target!(|text: &str| {
    let _ = parse::zoneinfo(text);
    let _ = parse::counters(text);
    let _ = parse::kilobytes(text);
    let _ = parse::number(text);
    let _ = parse::numbers(text);
    let _ = parse::choice(text);
    let _ = parse::cpus(text);
    let _ = parse::swaps(text);
    let _ = parse::release(text);
    let _ = parse::mount_device(&parse::root_mount(text));
    let _ = parse::config_hz(&parse::config_line(text));
});
