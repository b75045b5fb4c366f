//! Pages of a read bio that are unlocked together (`file_readahead = "together"`;
//! docs/reference/workloads.md#sequential-read).
//!
//! A bio holds pages that are contiguous in the file and on the disk, as far as its vector reaches,
//! in which adjacent frames share one entry (`bio_add_page`, 5.1). The block layer cuts it into
//! requests, but its pages are unlocked when the last of them has completed.

use super::super::{Fs, SimMm, of};
use super::{End, Ends, Growing, close};
use crate::Tag;
use crate::block::{Bio, Dir, Purpose};
use mm::Pfn;
use smallvec::SmallVec;

/// Number of pages of the second-largest vector: a bio for more pages takes one of the largest
/// ([`mm::Mm::bio_begun`], `biovec_slabs`).
const SMALL_VECTOR: u32 = 128;

/// Submits the reading of `n` locked pages of a file from `index` on, in bios as long as contiguous
/// blocks allow. Holes are zeroes and need no I/O. A worker or the completion unlocks the pages of
/// a bio together.
pub(in super::super) async fn read_together<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    index: u32,
    n: u32,
) {
    if n == 0 {
        return;
    }
    let fs = of(mm, mapping);
    ask!(fs, model => model.find_blocks(mm, fs, mapping, index, n).await);
    let vector = ask!(fs, model => model.read_vector(n)).min(Ends::BIO.segments);
    let mut pfns: SmallVec<[Pfn; 64]> = SmallVec::new();
    let cached = mm.cached_run(mapping, index, n, |pfn| pfns.push(pfn));
    assert!(cached == n, "locked pages stay");
    let end = index + n;
    let (mut at, mut bio) = (index, Growing::default());
    while at < end {
        let Some((block, len)) = fs.mapped(mapping, at) else {
            submit(mm, fs, (mapping, at), std::mem::take(&mut bio), vector).await;
            let n = fs.hole(mapping, at, end - at);
            mm.end_read(mapping, at, n, false);
            at += n;
            continue;
        };
        let len = len.min(end - at);
        mm.world.reuse.fetched(mapping, at, len);
        let (first, to) = (at, at + len);
        while at < to {
            let block = block + u64::from(at - first);
            let pfns = &pfns[(at - index) as usize..(to - index) as usize];
            let follows =
                bio.block + u64::from(bio.pages) == block && bio.has_room(pfns[0], vector);
            if bio.pages > 0 && !follows {
                submit(mm, fs, (mapping, at), std::mem::take(&mut bio), vector).await;
            }
            at += bio.grow(block, pfns, vector);
        }
    }
    submit(mm, fs, (mapping, end), bio, vector).await;
}

/// Submits the reading of a bio whose last page is right before page `to` of a file; does nothing
/// for an empty bio. `vector`: the segments that the bio has room for.
async fn submit<const T: bool>(
    mm: &SimMm<T>,
    fs: &Fs,
    (mapping, to): (u32, u32),
    bio: Growing,
    vector: u32,
) {
    let Growing { block, pages, .. } = bio;
    if pages == 0 {
        return;
    }
    let bios = u32::from(vector > SMALL_VECTOR);
    if bios > 0 {
        mm.bio_begun();
    }
    let id = mm.world.ends.open(End {
        mapping,
        first: to - pages,
        pages,
        left: pages,
        bios,
        open: false,
        failed: false,
        fresh: false,
        read: true,
    });
    let bio = Bio {
        tag: Tag::End { id }.pack(),
        dir: Dir::Read,
        sync: true,
        block,
        blocks: pages,
        purpose: Purpose::Waited,
    };
    mm.world.submit_parts(fs.volume, bio).await;
}

/// Handles a bio whose pages are all read: unlocks them, or leaves that to a worker.
pub(super) fn all_read<const T: bool>(mm: &SimMm<T>, id: u32) {
    let fs = of(mm, mm.world.ends.pages(id).0);
    if !ask!(fs, model => model.ends_reads_later(mm, id)) {
        finish_read(mm, id);
    }
}

/// Unlocks the pages of a bio and marks them up to date.
pub(in super::super) fn finish_read<const T: bool>(mm: &SimMm<T>, id: u32) {
    let end = close(mm, id);
    debug_assert!(end.read && end.left == 0, "a bio that was read");
    mm.end_read(end.mapping, end.first, end.pages, end.failed);
}
