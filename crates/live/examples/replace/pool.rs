//! The interface of a buffer pool: pages of a file by number, changed in memory and written later.

use lowmark_cache::Error;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// The contents of a page.
pub type Bytes = [u8; PAGE];

/// A buffer pool over one file of a fixed length.
pub trait Pool: Send + Sync {
    /// Calls `f` with a page to be read.
    fn read(&self, page: u32, f: &mut dyn FnMut(&Bytes)) -> Result<()>;
    /// Calls `f` with a page to be changed.
    fn change(&self, page: u32, f: &mut dyn FnMut(&mut Bytes)) -> Result<()>;
    /// Waits until every change is on the device.
    fn sync(&self) -> Result<()>;
}
