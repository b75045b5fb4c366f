//! Claiming a place for results, and saying where they went.

use crate::failure::Failure;
use lab::results::{ClaimedFolder, Published, Terms};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Claims the folder that the user wants, or else a new one in `results/NAME`.
pub fn claim(out: Option<&Path>, name: &str, terms: Terms<'_>) -> Result<ClaimedFolder, Failure> {
    let place = match out {
        Some(dir) => ClaimedFolder::claim(dir, terms)?,
        None => {
            let root = PathBuf::from("results").join(name);
            ClaimedFolder::claim_new(&root, SystemTime::now(), terms)?
        }
    };
    say(place.notes());
    Ok(place)
}

/// Prints sentences to standard error.
pub fn say(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}

/// Says what there is to say of results that are written: a failure if they are elsewhere.
pub fn settled(published: &Published) -> Result<(), Failure> {
    say(&published.notes);
    match &published.trouble {
        None => Ok(()),
        Some(trouble) => Err(Failure::Results(trouble.clone())),
    }
}
