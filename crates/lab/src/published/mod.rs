//! Published series: tables of figures from the threads where kernel patches were discussed, the runs
//! that they ask for, and how near the engine comes.
//!
//! A series is a folder with `series.toml` and tables, found and never listed ([`series`]). Its
//! [`plan()`] makes a run for every row that can have one, and the reason for every other. What was run
//! is scored by the rules of `data/published/README.md` ([`score`]), and stands in
//! `data/scores.json` ([`scores`]).

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
