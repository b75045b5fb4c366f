//! The laboratory: experiments, statistics, results, reports, reproduction of published tables.
//!
//! Each module folder may use the modules before it in this list and none after it;
//! `tests/rooms.rs` enforces this order:
//!
//! 1. [`model`] and [`diagnostic`]: the types that all other modules share;
//! 2. [`shipped`]: the files that come with the program;
//! 3. [`figures`]: the values of a cell's iterations, their statistics, and the claims they allow;
//! 4. [`rows`]: the rows of mm reports, their formulas and names;
//! 5. [`experiment`]: experiment files in, matrix of cells out;
//! 6. [`reference`](mod@reference): keys of experiments and columns of tables, by name;
//! 7. [`runner`]: runs the matrix on all cores, as many runs at a time as memory allows;
//! 8. [`report`]: reports for a terminal or as an HTML page;
//! 9. [`results`]: the results folder, written whole or not at all;
//! 10. [`compare`]: results folders side by side;
//! 11. [`published`]: tables of published series, the runs that they ask for, scores;
//! 12. [`tune`]: searches for settings of watermarks;
//! 13. [`validate`]: measures how near a preset comes to a real kernel;
//! 14. [`attribute`]: attributes an effect to the patches of a series;
//! 15. [`bisect`]: decides which side of a change a sample is on;
//! 16. [`recorded`]: figures measured elsewhere, shown in Lowmark's report rows;
//! 17. [`diverge`]: finds the first event in which two runs differ.
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
