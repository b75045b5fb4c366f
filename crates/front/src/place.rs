//! Claims folders for results, and reports where results went.

use crate::failure::Failure;
use lab::results::{ClaimedFolder, Published, Terms};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Claims the requested folder `out` for results, or else a new one in `results/NAME`. `terms` say
/// what the results are of, and whether earlier ones may be replaced.
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

/// Reports on published results; fails if they are in another place than requested.
pub fn settled(published: &Published) -> Result<(), Failure> {
    say(&published.notes);
    match &published.trouble {
        None => Ok(()),
        Some(trouble) => Err(Failure::Results(trouble.clone())),
    }
}
