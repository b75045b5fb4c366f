//! A page of the tree: entries in the order of their keys.
//!
//! ```text
//! 0        1        2        4        6        8         16
//! | level  |   -    | count  | low    | dead   | epoch   | slots: 2 bytes each -> free | cells |
//! ```
//!
//! A cell has the lengths of key and value, 2 bytes each, the key and the value. `low` is the
//! offset of the lowest cell, `dead` the bytes of cells that no slot refers to any more. Level 0 is
//! a leaf. Above it a value is the 4 bytes of a child's number, and a key the smallest that the
//! child may have.

use super::PAGE;

/// Bytes of a page.
pub type Bytes = [u8; PAGE];

const HEAD: usize = 16;
/// The longest key and value in bytes: two and a half entries fit a page, so each half of a split
/// has room.
pub const MOST_KEY: usize = 256;
/// See [`MOST_KEY`].
pub const MOST_VALUE: usize = 1024;

fn number(p: &Bytes, at: usize) -> usize {
    usize::from(u16::from_le_bytes([p[at], p[at + 1]]))
}

fn set_number(p: &mut Bytes, at: usize, n: usize) {
    p[at..at + 2].copy_from_slice(&(n as u16).to_le_bytes());
}

/// Returns the page's height above the leaves.
pub fn level(p: &Bytes) -> u8 {
    p[0]
}

/// Returns the number of entries.
pub fn count(p: &Bytes) -> usize {
    number(p, 2)
}

/// Returns the epoch in which the page was written.
pub fn epoch(p: &Bytes) -> u64 {
    u64::from_le_bytes(p[8..16].try_into().expect("eight bytes"))
}

pub fn set_epoch(p: &mut Bytes, epoch: u64) {
    p[8..16].copy_from_slice(&epoch.to_le_bytes());
}

/// Returns a page without entries.
pub fn empty(level: u8, epoch: u64) -> Bytes {
    let mut p = [0; PAGE];
    p[0] = level;
    set_number(&mut p, 4, PAGE);
    set_epoch(&mut p, epoch);
    p
}

/// Returns the offset of a cell's key, and the lengths of its key and value.
fn cell(p: &Bytes, i: usize) -> (usize, usize, usize) {
    let at = number(p, HEAD + 2 * i);
    (at + 4, number(p, at), number(p, at + 2))
}

pub fn key(p: &Bytes, i: usize) -> &[u8] {
    let (at, key, _) = cell(p, i);
    &p[at..at + key]
}

pub fn value(p: &Bytes, i: usize) -> &[u8] {
    let (at, key, value) = cell(p, i);
    &p[at + key..at + key + value]
}

/// Finds the position of a key; `Err`: where it would be inserted. Above the leaves the first child
/// has all keys below the second child's smallest.
pub fn find(p: &Bytes, wanted: &[u8]) -> Result<usize, usize> {
    let (mut low, mut high) = (usize::from(level(p) > 0), count(p));
    while low < high {
        let middle = (low + high) / 2;
        match key(p, middle).cmp(wanted) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Ok(middle),
        }
    }
    Err(low)
}

/// Returns the entry, above the leaves, whose child has a key if any child has.
pub fn child_for(p: &Bytes, wanted: &[u8]) -> usize {
    find(p, wanted).unwrap_or_else(|i| i - 1)
}

/// Returns the child of an entry.
pub fn child(p: &Bytes, i: usize) -> u32 {
    u32::from_le_bytes(value(p, i).try_into().expect("a page's number"))
}

pub fn set_child(p: &mut Bytes, i: usize, child: u32) {
    let (at, key, _) = cell(p, i);
    p[at + key..at + key + 4].copy_from_slice(&child.to_le_bytes());
}

/// Inserts an entry at `i`. `false`: there is no room, and nothing was changed.
pub fn insert(p: &mut Bytes, i: usize, key: &[u8], value: &[u8]) -> bool {
    let (n, need) = (count(p), 4 + key.len() + value.len());
    let room = number(p, 4) - HEAD - 2 * n;
    if room + number(p, 6) < need + 2 {
        return false;
    }
    if room < need + 2 {
        let all = entries(p);
        fill(p, &all);
    }
    let at = number(p, 4) - need;
    set_number(p, at, key.len());
    set_number(p, at + 2, value.len());
    p[at + 4..at + 4 + key.len()].copy_from_slice(key);
    p[at + 4 + key.len()..at + need].copy_from_slice(value);
    p.copy_within(HEAD + 2 * i..HEAD + 2 * n, HEAD + 2 * i + 2);
    set_number(p, HEAD + 2 * i, at);
    set_number(p, 2, n + 1);
    set_number(p, 4, at);
    true
}

pub fn remove(p: &mut Bytes, i: usize) {
    let (n, (_, key, value)) = (count(p), cell(p, i));
    p.copy_within(HEAD + 2 * i + 2..HEAD + 2 * n, HEAD + 2 * i);
    set_number(p, 2, n - 1);
    let dead = number(p, 6) + 4 + key + value;
    set_number(p, 6, dead);
}

/// A key and a value, copied out of the page.
pub type Entry = (Vec<u8>, Vec<u8>);

pub fn entries(p: &Bytes) -> Vec<Entry> {
    let entry = |i| (key(p, i).to_vec(), value(p, i).to_vec());
    (0..count(p)).map(entry).collect()
}

/// Replaces the page's entries by these, which must fit.
pub fn fill(p: &mut Bytes, all: &[Entry]) {
    let (level, epoch) = (level(p), epoch(p));
    *p = empty(level, epoch);
    for (i, (key, value)) in all.iter().enumerate() {
        assert!(insert(p, i, key, value), "entries that fitted before");
    }
}

/// Returns where to split entries so that both halves have about as many bytes.
pub fn middle(all: &[Entry]) -> usize {
    let size = |e: &Entry| 6 + e.0.len() + e.1.len();
    let half = all.iter().map(size).sum::<usize>() / 2;
    let mut sum = 0;
    let whole = |e: &&Entry| {
        sum += size(e);
        sum <= half
    };
    all.iter().take_while(whole).count().clamp(1, all.len() - 1)
}
