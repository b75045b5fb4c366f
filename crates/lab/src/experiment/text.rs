//! Texts that people write, of a size that people write.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

/// The longest text that is read, in bytes: a hundred times the longest experiment that is shipped.
pub const MOST: u64 = 1 << 20;

/// Reads a text file of at most 1 MiB.
///
/// # Errors
/// A file that can't be read, is longer, or is no text.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    // A device or a pipe does not say how long it is.
    File::open(path)?.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        let what = format!("it is longer than {} MiB", MOST >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        for (len, fits) in [(MOST, true), (MOST + 1, false)] {
            std::fs::write(&path, "a".repeat(len as usize)).unwrap();
            assert_eq!(read_text(&path).is_ok(), fits, "{len} bytes");
        }
        let e = read_text(Path::new("/dev/zero")).unwrap_err();
        assert!(e.to_string().contains("longer than 1 MiB"), "{e}");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(read_text(&path).is_err());
    }
}
