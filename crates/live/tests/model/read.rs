//! Reads like a file's handle, but without a cache around the engine; for the unit tests and the
//! models.

use super::task;
use crate::LiveMm;
use crate::ahead::Ahead;
use crate::arena::Pinned;
use crate::error::Error;
use crate::file;
use mm::world::event::TrackPath;

/// Reads as `File::read` does, for the task `who`.
pub fn read(mm: &LiveMm, who: u32, mapping: u32, pos: u64, buf: &mut [u8]) -> Result<usize, Error> {
    let ahead = Ahead::default();
    let missing = |at, behind, buf: &mut [u8]| {
        let read = file::read_page(mm, mapping, &ahead, (at, behind), buf);
        task(mm, who, read)
    };
    let path = TrackPath::BufferedRead;
    let mark = |page: &Pinned<'_>| {
        if !mm.mark_accessed_in_passing(page.pfn()) {
            task(mm, who, async { mm.mark_page_accessed(page.pfn(), path) });
        }
        Ok(())
    };
    file::read(mm, mapping, pos, buf, missing, mark)
}
