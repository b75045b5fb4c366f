//! The laboratory: experiments, statistics, results, reports, reproduction of published tables.
//!
//! Each folder is a room. A room uses those before it in this list and none after it, which
//! `tests/rooms.rs` holds:
//!
//! 1. [`model`] and [`diagnostic`]: the words that all rooms share;
//! 2. [`shipped`]: the files that come with the program;
//! 3. [`figures`]: the values of a cell's iterations, their statistics, what can be claimed by them;
//! 4. [`rows`]: the rows of mm reports, their formulas and names;
//! 5. [`experiment`]: experiment files in, matrix of cells out;
//! 6. [`reference`](mod@reference): what may be written there, and what stands in tables, by name;
//! 7. [`runner`]: the matrix run on all cores, as many runs at a time as memory has room for;
//! 8. [`report`]: what is read, on a terminal or as a page;
//! 9. [`results`]: the results folder, written whole or not at all;
//! 10. [`compare`]: what is in results folders, side by side;
//! 11. [`published`]: tables of published series, the runs that they ask for, scores;
//! 12. [`tune`]: settings of watermarks searched for;
//! 13. [`validate`]: how near a preset comes to a real kernel;
//! 14. [`attribute`]: which patch of a series did what;
//! 15. [`bisect`]: which side of a change a sample is on;
//! 16. [`recorded`]: figures that no run of ours gave, in our rows;
//! 17. [`diverge`]: where two runs part.
#![forbid(unsafe_code)]

pub mod attribute;
pub mod bisect;
pub mod compare;
pub mod diagnostic;
pub mod diverge;
pub mod experiment;
pub mod figures;
pub mod model;
pub mod published;
pub mod recorded;
pub mod reference;
pub mod report;
pub mod results;
pub mod rows;
pub mod runner;
pub mod shipped;
pub mod tune;
pub mod validate;
