//! Faults on mapped files: what the page cache brings in, and what a filesystem says to a first
//! store (docs/reference/writeback.md#mapped-faults; `filemap_fault` and `page_mkwrite` of 3.0).

use super::model::Model as _;
use super::read::read_window;
use super::{FsError, SimMm, of};
use mm::world::{ReadAround, Touched};

/// Brings in a missing page and, as asked, those around it. A hole is zeroes, without I/O.
pub async fn fault_page<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    around: ReadAround,
) -> Result<(), Touched> {
    let size = mm.mappings[mapping as usize].size.get();
    let Some(last) = size.checked_sub(1).map(|b| (b / 4096) as u32) else {
        return Err(Touched::BusError);
    };
    if index > last {
        return Err(Touched::BusError);
    }
    let window = of(mm, mapping).read_ahead;
    let (from, to) = match around {
        ReadAround::None => (index, index),
        ReadAround::Ahead => (index, last),
        ReadAround::Around => {
            let from = index.saturating_sub(window / 2);
            (from, last.min(from.saturating_add(window.max(1) - 1)))
        }
    };
    let reuse = &mm.world.reuse;
    if reuse.on() {
        reuse.asked(false);
    }
    // One call per run of missing pages, the asked one included.
    let mut at = from;
    while at <= to {
        if mm.find_page(mapping, at).is_none() {
            read_window(mm, mapping, at, to).await.map_err(touched)?;
            if around == ReadAround::Ahead {
                break;
            }
        }
        at = match (at..=to).find(|&i| mm.find_page(mapping, i).is_none()) {
            Some(next) => next,
            None => break,
        };
        // What was brought in may be gone already; only the asked page is worth another try.
        if at > index && mm.find_page(mapping, index).is_none() {
            break;
        }
    }
    Ok(())
}

fn touched(e: FsError) -> Touched {
    match e {
        FsError::OutOfMemory => Touched::OutOfMemory,
        FsError::Io | FsError::NoSpace => Touched::BusError,
    }
}

/// Whether a page may become writable.
pub fn page_mkwrite<const T: bool>(mm: &SimMm<T>, mapping: u32, index: u32) -> bool {
    let fs = of(mm, mapping);
    ask!(fs, model => model.page_mkwrite(fs, mapping, index))
}
