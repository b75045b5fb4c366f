//! Measures whether the engine predicts what a *change* does in a real kernel: of a setting, a
//! disk, the memory, a filesystem, a patch. A pair is one scenario before and behind one change;
//! both sides run in a kernel and in the engine, and the changes of the pair's headline figures are
//! compared.
//!
//! [`rule`] decides from two samples whether a figure changed. [`pairs`] reads the list of pairs,
//! [`kept`] stores the kernels' figures, so that the engine is judged without a guest, and
//! [`score`] is the table. docs/effects.md describes all of them.

pub mod kept;
pub mod pairs;
pub mod rule;
pub mod score;
