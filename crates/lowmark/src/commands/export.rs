//! `lowmark export`.

use crate::cli::Export;
use front::failure::Failure;
use front::{Exports, Results};

/// Writes a results folder in the formats of other tools that the options name.
pub fn run(args: &Export) -> Result<(), Failure> {
    let results = Results::open(&args.results).map_err(Failure::Said)?;
    let to = Exports {
        openmetrics: args.openmetrics.as_deref(),
        jsonl: args.jsonl.as_deref(),
        parquet: args.parquet.as_deref(),
        replace: args.replace,
    };
    results.export(&to).map_err(Failure::Said)
}
