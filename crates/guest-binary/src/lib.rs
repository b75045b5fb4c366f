#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::sync::OnceLock;

/// The program, deflated to half its size since it is seldom needed; empty if it could not be
/// built. A static, because every crate that uses a constant gets a copy.
static DEFLATED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lowmark-guest"));

/// The inflated program.
static BINARY: OnceLock<Vec<u8>> = OnceLock::new();

/// The reason why it could not be built.
const MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/missing"));

/// Returns true if the program was built. Takes no time, where [`guest_binary`] inflates it.
pub fn includes_guest() -> bool {
    MISSING.is_empty()
}

/// Returns the program that runs as a guest's first process, inflated at the first call.
///
/// # Errors
/// The program could not be built with `lowmark`; the reason in one line.
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
                assert!(includes_guest());
                assert!(binary.starts_with(b"\x7fELF"));
                // Other programs have a PT_INTERP header, which names a loader.
                let number = |at: usize, bytes: usize| {
                    let field = binary[at..at + bytes].iter().rev();
                    field.fold(0, |n: usize, b| n << 8 | usize::from(*b))
                };
                let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
                assert!((0..count).all(|nth| number(headers + nth * size, 4) != 3));
            }
            Err(why) => assert!(!includes_guest() && !why.contains('\n'), "{why}"),
        }
    }
}
