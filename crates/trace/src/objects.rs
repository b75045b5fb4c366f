//! Places the objects of a cache trace in one file.

use crate::error::Fault;
use crate::record::MAX_FILE;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The meaning of object numbers in libCacheSim's formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Guessed from the first block of the trace: sectors if all sizes are whole sectors and one is
    /// not a whole number of pages; pages if no object is larger than a page and all numbers are
    /// below 2³²; else objects.
    #[default]
    Auto,
    /// Sectors of 512 bytes of one device.
    Sector,
    /// Pages of 4 KiB of one file.
    Page,
    /// Names of objects. Each object gets its own pages, in the order of first appearance; an
    /// object that grows beyond them gets new ones. Needs memory for every object.
    Object,
}

impl Unit {
    /// The names in options.
    pub const NAMES: [&'static str; 4] = ["auto", "sector", "page", "object"];

    /// Returns the unit of that name, one of [`Self::NAMES`]; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "sector" => Self::Sector,
            "page" => Self::Page,
            "object" => Self::Object,
            _ => return None,
        })
    }

    /// Returns the name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Sector => "sector",
            Self::Page => "page",
            Self::Object => "object",
        }
    }

    /// Returns the binary logarithm of the bytes that one object number stands for (sector 9, page
    /// 12); `None`: numbers are names.
    #[inline]
    pub(crate) fn log2(self) -> Option<u32> {
        match self {
            Self::Sector => Some(9),
            Self::Page => Some(12),
            Self::Auto | Self::Object => None,
        }
    }

    /// Guesses what the object numbers of a trace mean from pairs of number and size in bytes of
    /// its first block: sectors if all sizes are whole sectors and one is no whole number of pages;
    /// pages if no object is larger than a page; else names.
    pub(crate) fn guess(objects: impl Iterator<Item = (u64, u64)>) -> Self {
        let (mut sectors, mut pages) = (true, true);
        let (mut whole_pages, mut any) = (true, false);
        for (id, size) in objects {
            any = true;
            sectors &= size.is_multiple_of(512) && id <= MAX_FILE / 512;
            whole_pages &= size.is_multiple_of(4096);
            pages &= size <= 4096 && id < MAX_FILE / 4096;
        }
        if any && sectors && !whole_pages {
            Self::Sector
        } else if pages {
            Self::Page
        } else {
            Self::Object
        }
    }
}

pub(crate) const TOO_FAR: &str =
    "requests that end within 16 TiB (2^44 bytes), or unit = \"object\" if numbers are only names";

/// Places objects in a file.
pub(crate) struct Objects {
    pub unit: Unit,
    known: HashMap<u64, ObjectPages, BuildHasherDefault<Mix>>,
    /// The next free page of 4 KiB.
    next: u64,
    /// Number of places given so far: of new objects, and of objects that have grown.
    places: u64,
    /// Places count one page each, whatever the objects' sizes ([`Self::number`]).
    numbered: bool,
    /// How often a known object got new pages.
    grown: u64,
}

/// The pages of an object; none for an object that is not known.
#[derive(Clone, Copy, Default)]
struct ObjectPages {
    first: u32,
    pages: u32,
}

/// Objects that [`Objects::look`] looks up together.
pub(crate) const LOOKS: usize = 64;

/// The pages that some objects had when they were looked up together.
pub(crate) struct Looked {
    pages: [ObjectPages; LOOKS],
    /// [`Objects::grown`] at that time.
    grown: u64,
}

impl Objects {
    /// Makes an empty table of places; `unit` is the meaning of object numbers.
    pub fn new(unit: Unit) -> Self {
        Self {
            unit,
            known: HashMap::default(),
            next: 0,
            places: 0,
            numbered: false,
            grown: 0,
        }
    }

    /// Gives each object one page, whatever its size, in the order of first appearance, so that
    /// pages number the objects. An object that outgrows its real pages gets the next number, as it
    /// would get other pages. Returns false, and changes nothing, if object numbers are no names.
    /// Nothing may have been placed so far.
    pub fn number(&mut self) -> bool {
        self.numbered = self.unit == Unit::Object;
        self.numbered
    }

    /// Looks up the names of at most [`LOOKS`] objects for [`Self::place_looked`]. No look-up
    /// depends on another, so the processor waits for their memory at the same time.
    #[inline]
    pub fn look(&self, ids: impl Iterator<Item = u64>) -> Looked {
        let mut pages = [ObjectPages::default(); LOOKS];
        for (pages, id) in pages.iter_mut().zip(ids) {
            *pages = self.known.get(&id).copied().unwrap_or_default();
        }
        Looked {
            pages,
            grown: self.grown,
        }
    }

    /// Returns the offset in bytes of the pages of the object `id`, which is only named, as
    /// [`Self::place`] does. `looked` has the object at `at`. A second look-up is needed where the
    /// object is new or has grown, or where any object has grown since.
    ///
    /// # Errors
    /// As of [`Self::place`].
    #[inline]
    pub fn place_looked(
        &mut self,
        id: u64,
        size: u32,
        looked: &Looked,
        at: usize,
    ) -> Result<u64, Fault> {
        let ObjectPages { first, pages } = looked.pages[at];
        if pages >= own(size) && looked.grown == self.grown {
            return Ok(u64::from(first) * 4096);
        }
        self.own_pages(id, size)
    }

    /// Returns the offset in bytes at which an object of `size` bytes lies in the file: its number
    /// times the unit, or pages of its own if numbers are only names.
    ///
    /// # Errors
    /// The object would end past 16 TiB.
    #[inline]
    pub fn place(&mut self, id: u64, size: u32) -> Result<u64, Fault> {
        let Some(unit) = self.unit.log2() else {
            return self.own_pages(id, size);
        };
        match id.checked_mul(1 << unit) {
            Some(at) if at <= MAX_FILE - u64::from(size) => Ok(at),
            _ => Err(Fault::new(format!("object {id} lies past 16 TiB"), TOO_FAR)),
        }
    }

    /// Returns the offset in bytes of the pages that belong to the object `id` alone. An object
    /// seen for the first time, or one that has grown beyond its pages, gets the next free pages.
    ///
    /// # Errors
    /// The objects together exceed 16 TiB.
    fn own_pages(&mut self, id: u64, size: u32) -> Result<u64, Fault> {
        let pages = own(size);
        let place = self
            .known
            .entry(id)
            .or_insert(ObjectPages { first: 0, pages: 0 });
        if place.pages < pages {
            if self.next + u64::from(pages) > MAX_FILE / 4096 {
                return Err(Fault::new(
                    "the objects together exceed 16 TiB",
                    "traces whose objects take 16 TiB or less",
                ));
            }
            self.grown += u64::from(place.pages > 0);
            // Either is less than 2³², as an object has at least one page.
            let first = if self.numbered {
                self.places
            } else {
                self.next
            };
            *place = ObjectPages {
                first: first as u32,
                pages,
            };
            self.next += u64::from(pages);
            self.places += 1;
        }
        Ok(u64::from(place.first) * 4096)
    }
}

/// Returns the number of pages of an object of `size` bytes: at least one.
#[inline]
fn own(size: u32) -> u32 {
    size.div_ceil(4096).max(1)
}

/// A multiplicative hash of a number; the map's order is never used.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    /// Returns the hash.
    fn finish(&self) -> u64 {
        self.0
    }

    /// Mixes bytes into the hash one by one; the map's keys are numbers, so `write_u64` is called
    /// instead.
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    /// Mixes a number into the hash: a multiplication to 128 bits, folded.
    fn write_u64(&mut self, n: u64) {
        let wide = u128::from(self.0 ^ n) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_guessed_from_sizes_and_numbers() {
        let guess = |o: &[(u64, u64)]| Unit::guess(o.iter().copied());
        assert_eq!(guess(&[(128, 65_536), (7, 512)]), Unit::Sector);
        assert_eq!(guess(&[(5, 4096), (6, 4096)]), Unit::Page);
        assert_eq!(guess(&[(5, 1)]), Unit::Page);
        assert_eq!(guess(&[(1 << 40, 4096)]), Unit::Object);
        assert_eq!(guess(&[(5, 100), (6, 70_000)]), Unit::Object);
        assert_eq!(guess(&[]), Unit::Page);
    }

    #[test]
    fn objects_keep_their_pages_until_they_outgrow_them() {
        let mut o = Objects::new(Unit::Object);
        assert_eq!(o.place(u64::MAX, 5000).unwrap(), 0);
        assert_eq!(o.place(3, 1).unwrap(), 8192);
        assert_eq!(o.place(u64::MAX, 8192).unwrap(), 0);
        assert_eq!(o.place(u64::MAX, 8193).unwrap(), 12_288);
        assert_eq!(o.place(4, 0).unwrap(), 24_576);
        assert!(Objects::new(Unit::Page).place(1 << 32, 1).is_err());
        assert!(Objects::new(Unit::Page).place(u64::MAX, 1).is_err());
        assert_eq!(Objects::new(Unit::Sector).place(3, 1).unwrap(), 1536);
    }

    #[test]
    fn numbers_have_no_gaps() {
        let mut o = Objects::new(Unit::Object);
        assert!(o.number());
        assert_eq!(o.place(u64::MAX, 5000).unwrap(), 0);
        assert_eq!(o.place(3, 1).unwrap(), 4096);
        assert_eq!(o.place(u64::MAX, 8192).unwrap(), 0);
        assert_eq!(o.place(u64::MAX, 8193).unwrap(), 8192);
        assert_eq!(o.place(4, 0).unwrap(), 12_288);
        let mut pages = Objects::new(Unit::Page);
        assert!(!pages.number());
        assert_eq!(pages.place(3, 1).unwrap(), 12_288);
    }

    /// Objects that are new, known, repeated or growing within a block have the same places whether
    /// they are looked up together or singly.
    #[test]
    fn looking_ahead_changes_no_place() {
        let (mut ahead, mut singly) = (Objects::new(Unit::Object), Objects::new(Unit::Object));
        let mut rng = crate::random::Rng::new(1);
        for _ in 0..200 {
            let block: Vec<(u64, u32)> = (0..LOOKS)
                .map(|_| (rng.below(300), 4096 * rng.below(4) as u32 + 1))
                .collect();
            let looked = ahead.look(block.iter().map(|(id, _)| *id));
            for (at, (id, size)) in block.into_iter().enumerate() {
                let place = ahead.place_looked(id, size, &looked, at).unwrap();
                assert_eq!(place, singly.place(id, size).unwrap());
            }
        }
        assert!(ahead.grown > 300);
    }
}
