//! `lowmark learn`.

use super::record::guard;
use crate::cli::Learn;
use crate::{interrupt, text};
use front::failure::Failure;
use front::learn::{Wanted, learn};
use front::place;

/// Learns watermarks on the running Linux, prints each step as it is taken, and at the end causes
/// and effects.
pub fn run(args: &Learn) -> Result<(), Failure> {
    let tell = |step: &str| match args.json {
        true => Ok(()),
        false => text::print(step).map_err(|_| "standard output".to_owned()),
    };
    let learned = learn(&Wanted {
        root: args.root.as_deref(),
        duration: args.duration,
        interval: args.interval,
        apply: args.apply,
        tell: &tell,
        guard,
        stop: || interrupt::flag_saying("stopping; the original settings are restored"),
    })?;
    if args.json {
        text::print_json(&learned.json)?;
    } else {
        text::print(&learned.text)?;
        place::say(&learned.restored);
    }
    learned
        .stopped
        .map_or(Ok(()), |why| Err(Failure::Stopped(why)))
}
