#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::sync::OnceLock;

/// The program, deflated, as it is half the size and seldom needed; empty if it could not be built. Not a
/// constant: each crate that names one has a copy.
static DEFLATED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lowmark-guest"));

/// The program as it runs.
static BINARY: OnceLock<Vec<u8>> = OnceLock::new();

/// Why it could not.
const MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/missing"));

/// The program that a guest's first process is.
///
/// # Errors
/// What was missing when `lowmark` was built, in one line.
pub fn guest_binary() -> Result<&'static [u8], String> {
    if DEFLATED.is_empty() {
        return Err(format!(
            "this lowmark was built without its guest program: {MISSING}"
        ));
    }
    Ok(BINARY.get_or_init(|| {
        miniz_oxide::inflate::decompress_to_vec(DEFLATED).expect("the build script deflated it")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_static_program_or_says_why_not() {
        match guest_binary() {
            Ok(binary) => {
                assert!(binary.starts_with(b"\x7fELF"));
                // PT_INTERP, which names a loader, is what other programs have.
                let number = |at: usize, bytes: usize| {
                    let field = binary[at..at + bytes].iter().rev();
                    field.fold(0, |n: usize, b| n << 8 | usize::from(*b))
                };
                let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
                assert!((0..count).all(|nth| number(headers + nth * size, 4) != 3));
            }
            Err(why) => assert!(!MISSING.is_empty() && !why.contains('\n'), "{why}"),
        }
    }
}
