//! The size of a page, and so of a frame of the arena.

/// Bytes of a page.
pub const PAGE: usize = 4096;
