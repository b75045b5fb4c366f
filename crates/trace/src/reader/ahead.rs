//! Reading in a thread of its own, ahead of who uses the records.

use super::{Decoder, Reader};
use crate::error::TraceError;
use crate::record::Record;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;

/// Batches that wait for their user at most.
const AHEAD: usize = 4;

impl Reader {
    /// Calls `take` with everything that `keep` makes of the records, batch by batch, in order. With
    /// more than one thread the trace is read, decompressed and parsed in others than the caller's,
    /// where `take` is called, the lines of a CSV in as many as there are; what it is called with is the
    /// same for any number.
    ///
    /// # Errors
    /// A record that can't be read, unless lenient, or what `take` says.
    pub fn each_batch<T: Send>(
        &mut self,
        threads: usize,
        keep: impl Fn(&Record) -> T + Sync,
        take: &mut dyn FnMut(&[T]) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        if threads > 1 {
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
                    // Who reads may have ended.
                    let _ = used.send(batch);
                }
                // Who waits for room learns that nobody wants more.
                drop(batches);
                match thread.join() {
                    Ok(read) => Some(result.and(read)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            });
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

    /// [`Self::each_batch`] with the records themselves.
    ///
    /// # Errors
    /// As there.
    pub fn each_records(
        &mut self,
        threads: usize,
        take: &mut dyn FnMut(&[Record]) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.each_batch(threads, |record| *record, take)
    }
}

/// Fills batches, those that were used first, until the trace ends or nobody wants more.
fn read_ahead<T>(
    reader: &mut Reader,
    threads: usize,
    keep: impl Fn(&Record) -> T,
    filled: &SyncSender<Vec<T>>,
    empty: &Receiver<Vec<T>>,
) -> Result<(), TraceError> {
    if matches!(reader.decoder, Decoder::Csv(_)) {
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
