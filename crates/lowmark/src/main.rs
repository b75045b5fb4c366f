//! The command line of Lowmark as a program.
#![forbid(unsafe_code)]

use heap::Heap;
use std::alloc::System;
use std::process::ExitCode;

#[global_allocator]
static HEAP: Heap = Heap::new(System, lowmark::MORE_MEMORY);

fn main() -> ExitCode {
    lowmark::main()
}
