//! Guesses the meaning of object numbers from the first block of a trace.

use crate::objects::Unit;
use crate::record::MAX_FILE;
use std::fmt;

/// A guess at the meaning of object numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guess {
    /// The meaning: sectors, pages or names.
    pub unit: Unit,
    /// False if the first block would look alike with another meaning, so that a user should say.
    pub certain: bool,
    /// The reason, as the second half of a sentence about the objects.
    pub reason: &'static str,
}

impl Guess {
    /// Returns how sure the guess is, and its reason.
    pub fn because(&self) -> String {
        let doubt = match self.certain {
            true => "guessed",
            false => "not certain (--unit)",
        };
        format!("{doubt}: {}", self.reason)
    }
}

impl fmt::Display for Guess {
    /// Writes the guess and its reason as one line for a screen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Sector => "sectors",
            Unit::Page => "pages",
            Unit::Auto | Unit::Object => "names",
        };
        write!(f, "objects are {unit}, {}", self.because())
    }
}

const WHOLE_SECTORS: &str = "sizes are whole sectors, not all whole pages";
const EXTENTS_OVERLAP: &str = "numbers are multiples of 8, extents overlap";
const SMALL: &str = "none is larger than 4 KiB";
const SMALL_EIGHTHS: &str = "numbers are multiples of 8";
const FAR: &str = "they are words, or numbers past 16 TiB";
const ODD_SIZES: &str = "sizes are no whole sectors";
const WHOLE_PAGES: &str = "sizes are whole pages";

/// Different numbers from which on it is no accident that all are multiples of 8.
const ENOUGH: usize = 8;

impl Guess {
    /// Guesses what the object numbers of a trace mean from pairs of number and size in bytes of
    /// its first block, by the rules of [`Unit::Auto`].
    pub(crate) fn of(objects: impl Iterator<Item = (u64, u64)>) -> Self {
        // True while it holds for all objects: the sizes are whole sectors, or whole pages; the
        // number is a sector of a disk, a page of a file, a multiple of 8; no size is above a page.
        let (mut sectors, mut whole_pages) = (true, true);
        let (mut on_disk, mut in_file) = (true, true);
        let (mut eighths, mut small) = (true, true);
        let mut all = Vec::new();
        for (id, size) in objects {
            sectors &= size.is_multiple_of(512);
            whole_pages &= size.is_multiple_of(4096);
            on_disk &= id <= MAX_FILE / 512;
            in_file &= id < MAX_FILE / 4096;
            eighths &= id.is_multiple_of(8);
            small &= size <= 4096;
            if eighths && on_disk {
                all.push((id, size));
            }
        }
        // Sorted numbers without repetitions, where all are multiples of 8.
        let mut ids = Vec::new();
        if eighths && on_disk && whole_pages {
            ids.extend(all.iter().map(|(id, _)| *id));
            ids.sort_unstable();
            ids.dedup();
        }
        let enough = ids.len() >= ENOUGH;
        let overlap = |(id, size): &(u64, u64)| {
            let next = ids.get(ids.partition_point(|other| other <= id));
            next.is_some_and(|next| *next < id + size / 512)
        };
        let (unit, certain, reason) = if sectors && on_disk && !whole_pages {
            (Unit::Sector, true, WHOLE_SECTORS)
        } else if !small && all.iter().any(overlap) {
            (Unit::Sector, enough, EXTENTS_OVERLAP)
        } else if small && in_file {
            let reason = if enough { SMALL_EIGHTHS } else { SMALL };
            (Unit::Page, !enough, reason)
        } else if !on_disk {
            (Unit::Object, true, FAR)
        } else if !sectors {
            (Unit::Object, true, ODD_SIZES)
        } else {
            (Unit::Object, false, WHOLE_PAGES)
        };
        Self {
            unit,
            certain,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(objects: &[(u64, u64)]) -> Guess {
        Guess::of(objects.iter().copied())
    }

    #[test]
    fn units_are_guessed_from_sizes_and_numbers() {
        let said = |objects: &[(u64, u64)]| {
            let guess = guess(objects);
            assert!(guess.to_string().len() <= 80, "{guess}");
            (guess.unit, guess.certain)
        };
        assert_eq!(said(&[(128, 65_536), (7, 512)]), (Unit::Sector, true));
        assert_eq!(said(&[(5, 4096), (6, 4096)]), (Unit::Page, true));
        assert_eq!(said(&[(5, 1)]), (Unit::Page, true));
        assert_eq!(said(&[(1 << 40, 4096)]), (Unit::Object, true));
        assert_eq!(said(&[(u64::MAX, 4096)]), (Unit::Object, true));
        assert_eq!(said(&[(5, 100), (6, 70_000)]), (Unit::Object, true));
        assert_eq!(said(&[(5, 4096), (6, 8192)]), (Unit::Object, false));
        assert_eq!(said(&[]).0, Unit::Page);
    }

    /// Requests of a block device for whole pages, as drivers of file systems make them.
    #[test]
    fn sectors_of_whole_pages_are_multiples_of_8_that_overlap() {
        let blocks =
            |size: u64| -> Vec<(u64, u64)> { (0..20).map(|i| (8 * (i * 7 % 20), size)).collect() };
        let both = guess(&blocks(16_384));
        assert_eq!((both.unit, both.certain), (Unit::Sector, true));
        assert_eq!(
            both.to_string(),
            "objects are sectors, guessed: numbers are multiples of 8, extents overlap"
        );
        // Two numbers may be multiples of 8 by chance.
        let two = guess(&[(0, 16_384), (8, 4096)]);
        assert_eq!((two.unit, two.certain), (Unit::Sector, false));
        // Single pages are the same pages in either unit, but in a file eight times as long.
        let single = guess(&blocks(4096));
        assert_eq!((single.unit, single.certain), (Unit::Page, false));
        assert_eq!(
            single.to_string(),
            "objects are pages, not certain (--unit): numbers are multiples of 8"
        );
        // Extents that touch do not overlap, and one number that is no multiple is enough.
        let touching: Vec<(u64, u64)> = (0..20).map(|i| (32 * i, 16_384)).collect();
        assert_eq!(guess(&touching).unit, Unit::Object);
        let odd = [blocks(16_384), vec![(3, 16_384)]].concat();
        assert_eq!(
            (guess(&odd).unit, guess(&odd).certain),
            (Unit::Object, false)
        );
    }
}
