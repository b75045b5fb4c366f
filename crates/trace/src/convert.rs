//! Converts a trace to libCacheSim's oracleGeneral, page by page.

use crate::error::TraceError;
use crate::reader::Reader;
use crate::write;
use std::collections::HashMap;
use std::io::{self, Write};

/// The pages that a trace asks for, in order: 12 bytes of memory each while they are written, and
/// some 30 for each different one while they are read.
pub struct Pages {
    /// The second of each request since the first record.
    seconds: Vec<u32>,
    /// The number of each request's page, from 0 in the order of first requests.
    pages: Vec<u32>,
    different: u32,
}

impl Pages {
    /// Reads a trace to its end. Each page of 4 KiB that a read or write touches is a request for
    /// an object of its own; pages of different files are different.
    ///
    /// # Errors
    /// The trace can't be read, or removes pages from files, for which oracleGeneral has no record.
    pub fn of(mut reader: Reader) -> Result<Self, TraceError> {
        let wrong = |reader: &Reader, message: &str, accepted: &str| TraceError {
            file: reader.name().to_owned(),
            record: None,
            text: false,
            message: message.to_owned(),
            accepted: accepted.to_owned(),
        };
        if reader.format().can_cut() {
            let what =
                "the trace may remove pages from files, and oracleGeneral has no such record";
            return Err(wrong(&reader, what, "a trace of a device or a cache"));
        }
        let mut all = Self {
            seconds: Vec::new(),
            pages: Vec::new(),
            different: 0,
        };
        let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch)? {
            for r in batch.iter().filter(|r| r.op.is_data() && r.len > 0) {
                let second = write::second(r.time_ns);
                // Records end within 16 TiB, so pages have 32 bits.
                let (first, last) = (r.offset / 4096, (r.end() - 1) / 4096);
                for page in first as u32..=last as u32 {
                    let next = all.different;
                    let number = *numbers.entry((r.file, page)).or_insert(next);
                    if number == next {
                        all.different += 1;
                    }
                    all.seconds.push(second);
                    all.pages.push(number);
                }
            }
            if all.pages.len() > u32::MAX as usize - (1 << 30) {
                return Err(wrong(
                    &reader,
                    "too many requests",
                    "up to 3,000,000,000 pages",
                ));
            }
        }
        Ok(all)
    }

    /// Returns the number of requests and of different pages.
    pub fn numbers(&self) -> (usize, u32) {
        (self.pages.len(), self.different)
    }

    /// Writes the requests as records of 24 bytes, with objects of 4096 bytes. The format has no
    /// writes.
    ///
    /// # Errors
    /// `out` fails.
    pub fn oracle_general(&self, out: &mut impl Write) -> io::Result<()> {
        write::pages(&self.pages, self.seconds.iter().copied(), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Options, Unit};

    #[test]
    fn a_converted_trace_asks_for_the_same_pages() {
        let text = "0,0,16,0,a\n1,0,8,1,b\n1,8,8,0,a\n3,0,8,0,b\n";
        let options = Options {
            format: Some(Format::TencentCbs),
            ..Options::default()
        };
        let stream = io::Cursor::new(text);
        let pages = Pages::of(Reader::from_stream(stream, "x", &options).unwrap()).unwrap();
        assert_eq!(pages.numbers(), (5, 3));
        let mut out = Vec::new();
        pages.oracle_general(&mut out).unwrap();
        assert_eq!(out[16..24], (-1_i64).to_le_bytes());
        assert_eq!(out[40..48], 4_i64.to_le_bytes());
        let stream = io::Cursor::new(out);
        let mut reader = Reader::from_stream(stream, "x", &Options::default()).unwrap();
        assert_eq!(
            (reader.format(), reader.unit()),
            (Format::OracleGeneral, Some(Unit::Page))
        );
        let mut batch = Vec::new();
        assert!(reader.next_batch(&mut batch).unwrap());
        let read: Vec<_> = batch
            .iter()
            .map(|r| (r.time_ns / 1_000_000_000, r.offset / 4096))
            .collect();
        assert_eq!(read, [(0, 0), (0, 1), (1, 2), (1, 1), (3, 2)]);
    }
}
