//! The programs.

pub mod bound;
pub mod burst;
pub mod dd;
pub mod desktop;
pub mod fs_mark;
pub mod mapped_file_stream;
pub mod mmap_strm;
pub mod simoop;
pub mod sleep;
pub mod tiobench;
pub mod tree;
