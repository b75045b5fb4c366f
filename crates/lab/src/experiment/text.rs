//! Reads texts written by people, with a limit of size, and quotes words for them.

use std::io::Error;
use std::path::Path;

/// Largest text that is read, in bytes: a hundred times the longest shipped experiment.
pub const MOST: u64 = 1 << 20;

/// Reads a text file of at most 1 MiB, or a pipe that was passed as a descriptor.
///
/// # Errors
/// Fails as [`input::text`] does.
pub fn read_text(path: &Path) -> Result<String, Error> {
    input::text(path, MOST)
}

/// Returns a TOML string with this text. TOML takes JSON's strings, except that a DEL (U+007F) must
/// be escaped.
pub fn quoted(text: &str) -> String {
    let json = serde_json::Value::String(text.to_owned()).to_string();
    json.replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_can_be_quoted() {
        let all: String = (1..0x2100).filter_map(char::from_u32).collect();
        for text in [&all, "", "a'\"\\ \u{10ffff}"] {
            let table: toml::Table = format!("a = {}", quoted(text)).parse().unwrap();
            assert_eq!(table["a"].as_str(), Some(text));
        }
    }

    #[test]
    fn a_text_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        for (len, fits) in [(MOST, true), (MOST + 1, false)] {
            std::fs::write(&path, "a".repeat(len as usize)).unwrap();
            let read = read_text(&path).map_err(|e| e.to_string());
            assert_eq!(read.is_ok(), fits, "{len} bytes");
            assert!(fits || read.unwrap_err().contains("longer than 1 MiB"));
        }
        let e = read_text(Path::new("/dev/zero")).unwrap_err();
        assert!(e.to_string().contains("a device"), "{e}");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(read_text(&path).is_err());
    }
}
