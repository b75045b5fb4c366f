//! Faults on mapped files: the pages that the page cache reads, and what a filesystem does at the
//! first store (docs/reference/writeback.md#mapped-faults; `filemap_fault` and `page_mkwrite` of
//! 3.0).

use super::read::read_window;
use super::readahead::{self, Reader, Window};
use super::reuse::Found;
use super::{FsError, SimMm, of};
use mm::Pfn;
use mm::world::{Faulted, ReadAround, Touched};
use std::cell::RefCell;
use std::rc::Rc;

/// The read-ahead window of each region's open file (`vm_file->f_ra`), by region number.
#[derive(Default)]
pub struct MapWindows(RefCell<Vec<Rc<Window>>>);

impl MapWindows {
    /// Sets the window for a region that maps a file.
    pub fn map(&self, region: u32, window: Rc<Window>) {
        let (windows, at) = (&mut *self.0.borrow_mut(), region as usize);
        if windows.len() <= at {
            windows.resize_with(at + 1, Rc::default);
        }
        windows[at] = window;
    }

    /// Returns a region's window, making one if it has none.
    fn window_of(&self, region: u32) -> Rc<Window> {
        let known = self.0.borrow().get(region as usize).cloned();
        known.unwrap_or_else(|| {
            self.map(region, Rc::default());
            Rc::clone(&self.0.borrow()[region as usize])
        })
    }
}

/// Returns the index of the last page of the file that a fault is on; the error `BusError` if the
/// fault lies behind it.
fn last_page<const T: bool>(mm: &SimMm<T>, page: Faulted) -> Result<u32, Touched> {
    let size = mm.mappings[page.mapping as usize].size.get();
    let last = size.checked_sub(1).map(|b| (b / 4096) as u32);
    last.filter(|&last| page.index <= last)
        .ok_or(Touched::BusError)
}

/// Brings in the page that a fault misses, with the pages to be read around or ahead of it. A hole
/// is zeroes and needs no I/O.
///
/// # Errors
/// The page lies behind the file's end, or the page itself could not be allocated.
pub async fn fault_page<const T: bool>(
    mm: &SimMm<T>,
    page: Faulted,
    around: ReadAround,
) -> Result<(), Touched> {
    let last = last_page(mm, page)?;
    let (mapping, index) = (page.mapping, page.index);
    let window = mm.world.map_windows.window_of(page.region);
    let reader = Reader::of_fault(&window);
    let reuse = &mm.world.reuse;
    if reuse.on() {
        reuse.asked(Found::Missing);
    }
    let ahead = match around {
        ReadAround::None => {
            let only = read_window(mm, mapping, &reader, index, index);
            return only.await.map_err(fault_result);
        }
        ReadAround::Around => readahead::around(mm, mapping, &reader, index, last, false).await,
        ReadAround::Marked => readahead::around(mm, mapping, &reader, index, last, true).await,
        ReadAround::Ahead { in_order } => {
            if let Some(before) = index.checked_sub(1).filter(|_| in_order) {
                window.passed(before);
            }
            // First page and number of pages to read.
            let wanted = (index, window.most(mm, mapping));
            readahead::on_demand(mm, mapping, &reader, wanted, last, false).await
        }
    };
    // These pages are speculative: without memory for them the fault goes on with its own page.
    let _ = ahead;
    Ok(())
}

/// Reads the next window when a fault found its page, in frame `pfn`, marked for read-ahead; does
/// nothing behind the file's end.
pub async fn met_mark<const T: bool>(mm: &SimMm<T>, page: Faulted, pfn: Pfn) {
    let Ok(last) = last_page(mm, page) else {
        return;
    };
    let window = mm.world.map_windows.window_of(page.region);
    let wanted = (page.index, window.most(mm, page.mapping));
    let reader = Reader::of_fault(&window);
    // These pages are speculative too: without memory for them the fault goes on.
    let _ = readahead::met(mm, page.mapping, &reader, wanted, last, pfn).await;
}

/// Converts an error of a filesystem to the result of a fault.
fn fault_result(e: FsError) -> Touched {
    match e {
        FsError::OutOfMemory => Touched::OutOfMemory,
        FsError::Io | FsError::NoSpace | FsError::TooLarge => Touched::BusError,
    }
}

/// Returns how many of `most` pages from an index on may become writable.
pub fn page_mkwrite<const T: bool>(mm: &SimMm<T>, mapping: u32, index: u32, most: u32) -> u32 {
    let fs = of(mm, mapping);
    ask!(fs, model => model.page_mkwrite(fs, mapping, index, most))
}
