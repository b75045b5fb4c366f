//! The laboratory: experiments, statistics, results, reports, reproduction of published tables.
//!
//! Each folder is a room. A room uses those before it in this list and none after it, which
//! `tests/rooms.rs` holds:
//!
//! 1. [`model`] and [`diagnostic`]: the words that all rooms share;
//! 2. [`figures`]: the values of a cell's iterations, their statistics, what can be claimed by them;
//! 3. [`rows`]: the rows of mm reports, their formulas and names;
//! 4. [`experiment`]: experiment files in, matrix of cells out;
//! 5. [`runner`]: the matrix run on all cores, as many runs at a time as memory has room for;
//! 6. [`report`]: what is read, on a terminal or as a page;
//! 7. [`results`]: the results folder, written whole or not at all;
//! 8. [`published`]: tables of published series, the runs that they ask for, scores;
//! 9. [`tune`]: settings of watermarks searched for;
//! 10. [`validate`]: how near a preset comes to a real kernel;
//! 11. [`attribute`]: which patch of a series did what;
//! 12. [`bisect`]: which side of a change a sample is on;
//! 13. [`recorded`]: figures that no run of ours gave, in our rows;
//! 14. [`diverge`]: where two runs part.
#![forbid(unsafe_code)]

pub mod attribute;
pub mod bisect;
pub mod diagnostic;
pub mod diverge;
pub mod experiment;
pub mod figures;
pub mod model;
pub mod published;
pub mod recorded;
pub mod report;
pub mod results;
pub mod rows;
pub mod runner;
pub mod tune;
pub mod validate;
