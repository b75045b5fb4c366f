//! Published series: tables of figures from the threads in which kernel patches were discussed, the
//! runs that reproduce them, and how near the engine comes.
//!
//! A series is a folder with `series.toml` and tables; series are found by their files and never
//! listed ([`series`]). Its [`plan()`] makes a run for every row that can have one, and gives a
//! reason for every other row. The results are scored by the rules of `data/published/README.md`
//! ([`score`]), and kept in `data/scores.json` ([`scores`]).

pub mod plan;
pub mod score;
pub mod scores;
pub mod series;
pub mod table;
pub mod text;

pub use crate::shipped as files;
pub use plan::{Plan, plan};
pub use score::{Scored, count, directions, is_fitted};
pub use series::{Series, find, read_folder, replace_tables, shipped};
pub use table::{Direction, PublishedRow, TableError, Tolerance};
