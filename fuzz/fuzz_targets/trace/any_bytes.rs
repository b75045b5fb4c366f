//! Promises that every trace reader must keep for any input.

use std::io::Cursor;
use trace::{Format, MAX_FILE, Options, Reader};

/// Reads `bytes` strictly and leniently; panics if a reader breaks a promise.
pub fn read(bytes: &[u8], format: Option<Format>) {
    for lenient in [false, true] {
        let options = Options {
            format,
            lenient,
            ..Options::default()
        };
        let stream = Cursor::new(bytes.to_vec());
        let Ok(mut reader) = Reader::from_stream(stream, "fuzz", &options) else {
            return;
        };
        let mut batch = Vec::new();
        loop {
            match reader.next_batch(&mut batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    assert!(!lenient && e.record.is_some(), "{e}");
                    break;
                }
            }
            for r in &batch {
                assert!(r.end() <= MAX_FILE && r.offset <= MAX_FILE);
                assert!((r.file as usize) < reader.files().len());
                assert!((r.process as usize) < reader.processes().len());
            }
        }
    }
}
