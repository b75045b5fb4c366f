//! Places the objects of a cache trace in one file.

use crate::error::Fault;
use crate::record::MAX_FILE;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// The meaning of object numbers in libCacheSim's formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Guessed from the first block of the trace ([`crate::Guess`]): sectors if all sizes are whole
    /// sectors and one is not a whole number of pages, or if all sizes are whole pages, all numbers
    /// multiples of 8, and one request reaches the number of another; pages if no object is larger
    /// than a page and all numbers are below 2³²; else objects.
    #[default]
    Auto,
    /// Sectors of 512 bytes of one device.
    Sector,
    /// Pages of 4 KiB of one file.
    Page,
    /// Names of objects. Each object gets its own pages, in the order of first appearance; an
    /// object that grows keeps them and gets more, so that a page of an object is always the same.
    /// Needs memory for every object.
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
}

pub(crate) const TOO_FAR: &str =
    "requests that end within 16 TiB (2^44 bytes), or unit = \"object\" if numbers are only names";

/// Places objects in a file.
pub(crate) struct Objects {
    pub unit: Unit,
    known: HashMap<u64, ObjectPages, BuildHasherDefault<Mix>>,
    /// The extents of objects that have grown where other objects follow them.
    extents: Vec<Extent>,
    /// The next free page of 4 KiB, or the next number of an object ([`Self::number`]).
    next: u64,
    /// Places count one page each, whatever the objects' sizes ([`Self::number`]).
    numbered: bool,
}

/// The pages of an object.
#[derive(Clone, Copy, Default)]
struct ObjectPages {
    /// The first page; the object's first extent, by its index, if `pages` is 0.
    first: u32,
    /// Number of pages, one after another; [`ANY`] where sizes do not count; 0: the object has
    /// several extents, or is not known.
    pages: u32,
}

/// The pages of an object of any size.
const ANY: u32 = u32::MAX;

/// Consecutive pages of an object that has grown.
#[derive(Clone, Copy)]
struct Extent {
    first: u32,
    pages: u32,
    /// The object's next extent, by its index; [`NO_MORE`] if there is none.
    next: u32,
}

/// The index of no extent.
const NO_MORE: u32 = u32::MAX;

/// The place of an object in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this offset in bytes, in one piece.
    Whole(u64),
    /// In several pieces, from this extent on: [`Objects::parts`] returns them.
    Parts(u32),
}

/// Objects that [`Objects::look`] looks up together.
pub(crate) const LOOKS: usize = 64;

/// The pages that some objects had when they were looked up together. An object keeps its pages,
/// so they are right later too, but it may have got more.
pub(crate) struct Looked([ObjectPages; LOOKS]);

impl Objects {
    /// Makes an empty table of places; `unit` is the meaning of object numbers.
    pub fn new(unit: Unit) -> Self {
        Self {
            unit,
            known: HashMap::default(),
            extents: Vec::new(),
            next: 0,
            numbered: false,
        }
    }

    /// Gives each object one page, whatever its sizes, in the order of first appearance, so that
    /// pages number the objects. Returns false, and changes nothing, if object numbers are no
    /// names. Nothing may have been placed so far.
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
        Looked(pages)
    }

    /// Returns the place of the object `id`, which is only named, as [`Self::place`] does. `looked`
    /// has the object at `at`. A second look-up is needed where the object is new or has grown.
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
    ) -> Result<Place, Fault> {
        let ObjectPages { first, pages } = looked.0[at];
        if pages >= own(size) {
            return Ok(Place::Whole(u64::from(first) * 4096));
        }
        self.own_pages(id, size)
    }

    /// Returns the place of an object of `size` bytes in the file: its number times the unit, or
    /// pages of its own if numbers are only names.
    ///
    /// # Errors
    /// The object would end past 16 TiB.
    #[inline]
    pub fn place(&mut self, id: u64, size: u32) -> Result<Place, Fault> {
        let Some(unit) = self.unit.log2() else {
            return self.own_pages(id, size);
        };
        match id.checked_mul(1 << unit) {
            Some(at) if at <= MAX_FILE - u64::from(size) => Ok(Place::Whole(at)),
            _ => Err(Fault::new(format!("object {id} lies past 16 TiB"), TOO_FAR)),
        }
    }

    /// Iterates over the pieces of a request for the first `size` bytes of an object at `place`:
    /// the offset and the length of each, in bytes, in the object's order.
    pub fn parts(&self, place: Place, size: u32) -> impl Iterator<Item = (u64, u32)> {
        let (whole, mut at) = match place {
            Place::Whole(offset) => (Some((offset, size)), NO_MORE),
            Place::Parts(first) => (None, first),
        };
        let mut left = size;
        let extents = std::iter::from_fn(move || {
            let extent = self.extents.get(at as usize).filter(|_| left > 0)?;
            let bytes = u64::from(extent.pages) * 4096;
            let len = bytes.min(left.into()) as u32;
            left -= len;
            at = extent.next;
            Some((u64::from(extent.first) * 4096, len))
        });
        whole.into_iter().chain(extents)
    }

    /// Returns the place of the pages that belong to the object `id` alone. An object seen for the
    /// first time gets the next free pages. An object that has grown keeps its pages, and gets the
    /// next free ones for the rest: they follow its last ones only if no other object does.
    ///
    /// # Errors
    /// The objects together exceed 16 TiB.
    fn own_pages(&mut self, id: u64, size: u32) -> Result<Place, Fault> {
        let pages = own(size);
        let next = self.next;
        let known = match self.known.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let own = if self.numbered {
                    // A record of any length fits behind the last number.
                    self.next = taken(next, 1, MAX_FILE / 4096 - (1 << 20))?;
                    ANY
                } else {
                    self.next = taken(next, pages, MAX_FILE / 4096)?;
                    pages
                };
                new.insert(ObjectPages {
                    first: next as u32,
                    pages: own,
                });
                return Ok(Place::Whole(next * 4096));
            }
        };
        let ObjectPages { first, pages: had } = *known;
        if had >= pages {
            return Ok(Place::Whole(u64::from(first) * 4096));
        }
        if had > 0 {
            let more = pages - had;
            self.next = taken(next, more, MAX_FILE / 4096)?;
            if u64::from(first) + u64::from(had) == next {
                known.pages = pages;
                return Ok(Place::Whole(u64::from(first) * 4096));
            }
            let index = self.extents.len() as u32;
            *known = ObjectPages {
                first: index,
                pages: 0,
            };
            self.extents.push(Extent {
                first,
                pages: had,
                next: index + 1,
            });
            self.extents.push(Extent {
                first: next as u32,
                pages: more,
                next: NO_MORE,
            });
            return Ok(Place::Parts(index));
        }
        let (mut at, mut left) = (first, pages);
        loop {
            let extent = self.extents[at as usize];
            left = left.saturating_sub(extent.pages);
            if left == 0 {
                return Ok(Place::Parts(first));
            }
            if extent.next == NO_MORE {
                break;
            }
            at = extent.next;
        }
        self.next = taken(next, left, MAX_FILE / 4096)?;
        let index = self.extents.len() as u32;
        let last = &mut self.extents[at as usize];
        if u64::from(last.first) + u64::from(last.pages) == next {
            last.pages += left;
        } else {
            last.next = index;
            self.extents.push(Extent {
                first: next as u32,
                pages: left,
                next: NO_MORE,
            });
        }
        Ok(Place::Parts(first))
    }
}

/// Returns the first page after `pages` more ones from `next`, if it is at most `end`.
///
/// # Errors
/// It is not.
fn taken(next: u64, pages: u32, end: u64) -> Result<u64, Fault> {
    match next + u64::from(pages) {
        after if after <= end => Ok(after),
        _ => Err(Fault::new(
            "the objects together exceed 16 TiB",
            "traces whose objects take 16 TiB or less",
        )),
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

    /// Returns the pieces of an object, in bytes.
    fn pieces(o: &mut Objects, id: u64, size: u32) -> Vec<(u64, u32)> {
        let place = o.place(id, size).unwrap();
        o.parts(place, size).collect()
    }

    #[test]
    fn objects_keep_their_pages_and_get_more() {
        let mut o = Objects::new(Unit::Object);
        assert_eq!(pieces(&mut o, u64::MAX, 5000), [(0, 5000)]);
        assert_eq!(pieces(&mut o, 3, 1), [(8192, 1)]);
        // The last object grows where it is.
        assert_eq!(pieces(&mut o, 3, 5000), [(8192, 5000)]);
        assert_eq!(pieces(&mut o, u64::MAX, 8192), [(0, 8192)]);
        assert_eq!(pieces(&mut o, u64::MAX, 8193), [(0, 8192), (16_384, 1)]);
        assert_eq!(
            pieces(&mut o, u64::MAX, 16_384),
            [(0, 8192), (16_384, 8192)]
        );
        assert_eq!(pieces(&mut o, 4, 0), [(24_576, 0)]);
        let three = [(0, 8192), (16_384, 8192), (28_672, 4000)];
        assert_eq!(pieces(&mut o, u64::MAX, 20_384), three);
        assert_eq!(pieces(&mut o, u64::MAX, 100), [(0, 100)]);
        assert!(Objects::new(Unit::Page).place(1 << 32, 1).is_err());
        assert!(Objects::new(Unit::Page).place(u64::MAX, 1).is_err());
        assert_eq!(pieces(&mut Objects::new(Unit::Sector), 3, 1), [(1536, 1)]);
    }

    #[test]
    fn numbers_have_no_gaps_and_no_sizes() {
        let mut o = Objects::new(Unit::Object);
        assert!(o.number());
        assert_eq!(pieces(&mut o, u64::MAX, 5000), [(0, 5000)]);
        assert_eq!(pieces(&mut o, 3, 1), [(4096, 1)]);
        assert_eq!(pieces(&mut o, u64::MAX, 8193), [(0, 8193)]);
        assert_eq!(pieces(&mut o, u64::MAX, u32::MAX), [(0, u32::MAX)]);
        assert_eq!(pieces(&mut o, 4, 0), [(8192, 0)]);
        let mut pages = Objects::new(Unit::Page);
        assert!(!pages.number());
        assert_eq!(pieces(&mut pages, 3, 1), [(12_288, 1)]);
    }

    /// Objects that are new, known, repeated or growing within a block have the same places whether
    /// they are looked up together or singly, and page `n` of an object is always the same page.
    #[test]
    fn pages_of_objects_never_change() {
        let (mut ahead, mut singly) = (Objects::new(Unit::Object), Objects::new(Unit::Object));
        let mut pages: HashMap<(u64, u64), u64> = HashMap::new();
        let mut rng = crate::random::Rng::new(1);
        for round in 0..200 {
            let block: Vec<(u64, u32)> = (0..LOOKS)
                .map(|_| {
                    let most = 4 + round / 10;
                    (rng.below(300), 4096 * rng.below(most) as u32 + 1)
                })
                .collect();
            let looked = ahead.look(block.iter().map(|(id, _)| *id));
            for (at, (id, size)) in block.into_iter().enumerate() {
                let place = ahead.place_looked(id, size, &looked, at).unwrap();
                let parts: Vec<_> = ahead.parts(place, size).collect();
                assert_eq!(parts, pieces(&mut singly, id, size));
                assert_eq!(parts.iter().map(|(_, len)| len).sum::<u32>(), size);
                let places = parts.iter().flat_map(|(offset, len)| {
                    (offset / 4096..).take(u64::from(len.div_ceil(4096)) as usize)
                });
                for (n, page) in (0..).zip(places) {
                    assert_eq!(*pages.entry((id, n)).or_insert(page), page);
                }
            }
        }
        assert!(ahead.extents.len() > 300);
        // No two pages share a place, and none is free in between.
        let mut places: Vec<u64> = pages.into_values().collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..ahead.next));
    }
}
