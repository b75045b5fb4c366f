//! What a program wants of its buffer pool: pages of a file by number, changed in memory, written some time.

use lowmark_cache::Error;

/// What a call gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// The bytes of one.
pub type Bytes = [u8; PAGE];

/// A buffer pool over one file of a fixed length.
pub trait Pool: Send + Sync {
    /// Looks at a page.
    fn read(&self, page: u32, f: &mut dyn FnMut(&Bytes)) -> Result<()>;
    /// Changes a page.
    fn change(&self, page: u32, f: &mut dyn FnMut(&mut Bytes)) -> Result<()>;
    /// Waits until every change is on the device.
    fn sync(&self) -> Result<()>;
}
