//! The Lowmark engine.
#![forbid(unsafe_code)]
pub mod policy;
pub mod zone;
pub use policy::Policy;
