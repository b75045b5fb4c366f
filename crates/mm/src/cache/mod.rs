//! The page cache: files' trees, locks of pages, mappings, swap, refaults.

mod at_once;
pub(crate) mod check;
pub(crate) mod extents;
mod file_fault;
pub(crate) mod filemap;
pub mod log_items;
pub mod mapping;
pub(crate) mod metadata;
pub mod mmap;
pub mod pagecache;
pub mod readahead;
pub mod swap;
mod swap_readahead;
mod tables;
pub mod tree;
pub(crate) mod workingset;
