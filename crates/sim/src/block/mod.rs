//! The block layer of a 2011 Linux.

mod bio;

pub use bio::{Bio, Class, Dir, Done, IoError};
