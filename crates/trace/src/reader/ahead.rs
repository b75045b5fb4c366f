//! Reads in a separate thread, ahead of the consumer of the records.

use super::{Decoder, Reader};
use crate::error::TraceError;
use crate::record::Record;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;

/// The most batches that wait for the consumer.
const AHEAD: usize = 4;

impl Reader {
    /// Calls `take` with the values that `keep` returns for the records, batch by batch, in order,
    /// until the trace ends. With more than one thread the trace is read, decompressed and parsed
    /// in other threads than the caller's, in which `take` is called; the lines of a CSV are parsed
    /// in all of them. The arguments of `take` are the same for any number of threads.
    ///
    /// # Errors
    /// A record is malformed and the reader is not lenient, or `take` returns an error.
    pub fn each_batch<T: Send>(
        &mut self,
        threads: usize,
        keep: impl Fn(&Record) -> T + Sync,
        take: &mut dyn FnMut(&[T]) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        if threads > 1 {
            // Full batches come from the reading thread, used ones go back to it for their memory.
            let (filled, batches) = sync_channel(AHEAD);
            let (used, empty) = channel();
            let (reader, keep) = (&mut *self, &keep);
            let read = std::thread::scope(|scope| {
                let ahead = move || read_ahead(reader, threads, keep, &filled, &empty);
                let thread = Builder::new().spawn_scoped(scope, ahead).ok()?;
                let mut result = Ok(());
                while let Ok(batch) = batches.recv() {
                    result = take(&batch);
                    if result.is_err() {
                        break;
                    }
                    // The reading thread may have ended.
                    let _ = used.send(batch);
                }
                // Unblocks a reading thread that waits to send a batch.
                drop(batches);
                match thread.join() {
                    Ok(read) => Some(result.and(read)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            });
            // `None`: no thread could be started, and the caller's reads.
            if let Some(read) = read {
                return read;
            }
        }
        let mut batch = Vec::new();
        while self.next_batch_of(&mut batch, &keep)? {
            take(&batch)?;
        }
        Ok(())
    }

    /// As [`Self::each_batch`], with the records themselves.
    ///
    /// # Errors
    /// As [`Self::each_batch`].
    pub fn each_records(
        &mut self,
        threads: usize,
        take: &mut dyn FnMut(&[Record]) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.each_batch(threads, |record| *record, take)
    }
}

/// Reads the trace in its own thread: fills batches, used ones from `empty` first, and sends them
/// through `filled` until the trace ends or the receiver is gone. The lines of a CSV are parsed on
/// `threads` threads.
fn read_ahead<T>(
    reader: &mut Reader,
    threads: usize,
    keep: impl Fn(&Record) -> T,
    filled: &SyncSender<Vec<T>>,
    empty: &Receiver<Vec<T>>,
) -> Result<(), TraceError> {
    if matches!(reader.decoder, Decoder::Csv(_)) {
        // Sends a batch and returns an empty one; `None`: the receiver is gone.
        let send = |batch| {
            filled
                .send(batch)
                .ok()
                .map(|()| empty.try_recv().unwrap_or_default())
        };
        if !reader.lines_in_threads(threads, &keep, send)? {
            return Ok(());
        }
    }
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        if !reader.next_batch_of(&mut batch, &keep)? || filled.send(batch).is_err() {
            return Ok(());
        }
    }
}
