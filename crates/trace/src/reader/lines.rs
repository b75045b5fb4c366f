//! Parses the lines of a CSV on many threads: one reads blocks of whole lines, some parse each line
//! by itself, and the caller's makes records of the parsed lines in order.

use super::{BATCH, Decoder, Reader};
use crate::error::{Fault, TraceError};
use crate::input::Input;
use crate::object_csv::{ObjectCsv, Request};
use crate::record::Record;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// The parsed lines of a block.
struct Parsed {
    /// Each line that is not blank, parsed, with the number of lines before it in the block.
    lines: Vec<(u32, Result<Request, Fault>)>,
    /// The number of lines, including blank ones.
    count: u32,
    /// The block's buffer, to be reused.
    block: Vec<u8>,
}

/// Blocks in flight per parsing thread.
const BLOCKS: usize = 2;

impl Reader {
    /// Reads all whole lines of a CSV with three kinds of threads: one reads blocks of lines,
    /// `threads` ones parse them, the caller's makes records in order and gives what `keep` returns
    /// to batches. `send` takes each full batch, and returns an empty one, or `None` if no more are
    /// wanted. Returns true if the rest is still wanted: the last records, and a file's end without
    /// a newline.
    ///
    /// # Errors
    /// A record is malformed, and the reader is not lenient.
    pub(super) fn lines_in_threads<T>(
        &mut self,
        threads: usize,
        keep: &impl Fn(&Record) -> T,
        mut send: impl FnMut(Vec<T>) -> Option<Vec<T>>,
    ) -> Result<bool, TraceError> {
        // Reads past the header, if there is one, from which the columns were taken.
        let mut batch = Vec::new();
        if !self.next_batch_of(&mut batch, keep)? || self.ended {
            return Ok(batch.is_empty() || send(batch).is_some());
        }
        let Some(next) = send(batch) else {
            return Ok(false);
        };
        let Decoder::Csv(csv) = &self.decoder else {
            return Ok(true);
        };
        let parser = csv.parser();
        let input = Mutex::new(std::mem::replace(&mut self.input, Input::empty()));
        let (blocks, to_parse) = channel();
        let (parsed, in_any_order) = channel();
        let (used, empty) = channel();
        for _ in 0..threads * BLOCKS {
            let _ = used.send(Vec::new());
        }
        let to_parse = Mutex::new(to_parse);
        let (wanted, failed) = std::thread::scope(|scope| {
            let mut started = false;
            for _ in 0..threads {
                let parsed = parsed.clone();
                let work = || parse(&parser, &to_parse, parsed);
                started |= Builder::new().spawn_scoped(scope, work).is_ok();
            }
            drop(parsed);
            let input = &input;
            let feed = move || feed(&mut owned(input), &empty, &blocks);
            // If no thread can be started, the lines are read like those of other formats.
            let feeder = match started {
                true => Builder::new().spawn_scoped(scope, feed).ok(),
                false => None,
            };
            let Some(feeder) = feeder else {
                return (Ok(true), Ok(None));
            };
            let wanted = self.in_order(&in_any_order, &used, keep, next, &mut send);
            // Unblocks threads that wait for a block or for a receiver.
            drop(in_any_order);
            drop(used);
            (wanted, feeder.join())
        });
        self.input = input.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failed {
            Ok(failed) => {
                let wanted = wanted?;
                if let Some(e) = failed {
                    self.filled(Err(e))?;
                }
                Ok(wanted)
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Makes records of parsed blocks in the order of the blocks' numbers, whatever the order in
    /// which they arrive, and fills `batch` with what `keep` returns for them. `send` takes a full
    /// batch and returns an empty one; `used` takes the blocks' buffers back. Returns false if no
    /// more batches are wanted.
    ///
    /// # Errors
    /// A line is malformed, and the reader is not lenient.
    fn in_order<T>(
        &mut self,
        parsed: &Receiver<(u64, Parsed)>,
        used: &Sender<Vec<u8>>,
        keep: &impl Fn(&Record) -> T,
        mut batch: Vec<T>,
        send: &mut impl FnMut(Vec<T>) -> Option<Vec<T>>,
    ) -> Result<bool, TraceError> {
        // Blocks that arrived before an earlier one, and the number of the block that is due.
        let mut early: BTreeMap<u64, Parsed> = BTreeMap::new();
        let mut next = 0;
        batch.clear();
        while let Ok((number, block)) = parsed.recv() {
            early.insert(number, block);
            while let Some(block) = early.remove(&next) {
                next += 1;
                let before = self.passed;
                for (line, request) in block.lines {
                    let Decoder::Csv(csv) = &mut self.decoder else {
                        return Ok(false);
                    };
                    let each = |record| batch.push(keep(&record));
                    let tables = &mut self.tables;
                    if let Err(fault) = request.and_then(|r| csv.record(r, tables, each)) {
                        self.passed = before + u64::from(line);
                        if let Err(e) = self.fault(fault) {
                            self.ended = true;
                            return Err(e);
                        }
                    }
                    if batch.len() >= BATCH {
                        match send(batch) {
                            Some(empty) => batch = empty,
                            None => return Ok(false),
                        }
                        batch.clear();
                    }
                }
                self.passed = before + u64::from(block.count);
                // The reading thread may have ended.
                let _ = used.send(block.block);
            }
        }
        // The remaining records are less than a batch, and start the next one.
        Ok(batch.is_empty() || send(batch).is_some())
    }
}

/// Locks a mutex, also if a thread panicked while it held the lock: the panic is passed on
/// elsewhere.
fn owned<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cuts the input into blocks of whole lines, numbers them from 0, and sends them to the parsing
/// threads through `blocks`, in buffers from `empty`. Ends when no whole line is left or the
/// receivers are gone. Returns the error if reading fails.
fn feed(
    input: &mut Input,
    empty: &Receiver<Vec<u8>>,
    blocks: &Sender<(u64, Vec<u8>)>,
) -> Option<io::Error> {
    for number in 0.. {
        let whole = loop {
            match memchr::memrchr(b'\n', input.data()) {
                Some(at) => break at + 1,
                None => match input.fill() {
                    Ok(true) => {}
                    // Less than a line is left, or a line exceeds a block.
                    Ok(false) => return None,
                    Err(e) => return Some(e),
                },
            }
        };
        let Ok(mut block) = empty.recv() else { break };
        block.clear();
        block.extend_from_slice(&input.data()[..whole]);
        input.consume(whole);
        if blocks.send((number, block)).is_err() {
            break;
        }
    }
    None
}

/// Runs a parsing thread: takes numbered blocks of lines, parses each line by itself and sends the
/// results, until there are no more blocks or the receiver is gone.
fn parse(
    parser: &ObjectCsv,
    blocks: &Mutex<Receiver<(u64, Vec<u8>)>>,
    parsed: Sender<(u64, Parsed)>,
) {
    loop {
        let block = owned(blocks).recv();
        let Ok((number, block)) = block else { return };
        // The parsed lines, the number of lines so far (blank ones too), and the next line's first
        // byte.
        let (mut lines, mut count, mut from) = (Vec::with_capacity(block.len() / 24), 0, 0);
        for end in memchr::memchr_iter(b'\n', &block) {
            let line = &block[from..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.iter().all(u8::is_ascii_whitespace) {
                lines.push((count, parser.parse(line)));
            }
            from = end + 1;
            count += 1;
        }
        let done = Parsed {
            lines,
            count,
            block,
        };
        if parsed.send((number, done)).is_err() {
            return;
        }
    }
}
