//! The memory of all frames: one anonymous mapping, 4096 bytes a frame, found by frame number.
//! `arena` has the rules for who may touch which bytes.
#![allow(unsafe_code)]

use crate::class::Held;
use crate::error::OutOfMemory;
use crate::page_size::PAGE;
use mm::Pfn;
use rustix::io::Errno;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// The memory of all frames.
pub struct Arena {
    /// The first frame, aligned to a huge page.
    base: NonNull<u8>,
    /// Size of the frames in bytes.
    size: usize,
    _map: Map,
}

/// A mapping as the system returned it.
struct Map {
    at: *mut c_void,
    len: usize,
}

#[cfg(not(miri))]
impl Map {
    /// Maps `len` bytes of zeroed memory at an address of the system's choice.
    fn new(len: usize) -> Result<Self, OutOfMemory> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let may = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches nobody's memory.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, may, MapFlags::PRIVATE) };
        let at = at.map_err(|_| OutOfMemory)?;
        Ok(Self { at, len })
    }
}

/// Under Miri, which does not support rustix's mmap, the memory comes from the allocator.
#[cfg(miri)]
impl Map {
    fn layout(len: usize) -> Result<std::alloc::Layout, OutOfMemory> {
        std::alloc::Layout::from_size_align(len, PAGE).map_err(|_| OutOfMemory)
    }

    fn new(len: usize) -> Result<Self, OutOfMemory> {
        // SAFETY: the layout has a size other than zero.
        let at = unsafe { std::alloc::alloc_zeroed(Self::layout(len)?) };
        Ok(Self { at: at.cast(), len })
    }
}

/// Returns true if the system has `bytes` bytes of memory, which is tested by mapping and unmapping
/// them. The allocator is not used for this test: glibc's takes the size of a freed block as its
/// new mmap threshold, and would keep and clear such blocks itself from then on.
pub fn room_for(bytes: u64) -> bool {
    let len = usize::try_from(bytes).ok();
    len.is_some_and(|len| Map::new(len.max(1)).is_ok())
}

impl Drop for Map {
    /// Unmaps the memory.
    fn drop(&mut self) {
        // SAFETY: the memory was made by `new` with this length, and no reference into it is left.
        unsafe {
            #[cfg(not(miri))]
            let _ = rustix::mm::munmap(self.at, self.len);
            #[cfg(miri)]
            std::alloc::dealloc(self.at.cast(), Self::layout(self.len).expect("as before"));
        }
    }
}

// SAFETY: the arena is memory without thread affinity; who may touch which bytes when is ruled by
// the page bits (module documentation).
unsafe impl Send for Arena {}
// SAFETY: as above; the arena itself hands out no reference to bytes but through its tokens.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps zeroed memory for `frames` pages, at least one; the system allocates it as it is
    /// touched.
    ///
    /// # Errors
    /// There is no address space or memory for so many.
    pub fn new(frames: usize) -> Result<Self, OutOfMemory> {
        assert!(frames > 0);
        let size = frames.checked_mul(PAGE).ok_or(OutOfMemory)?;
        let map = Map::new(size.checked_add(HUGE).ok_or(OutOfMemory)?)?;
        let base = NonNull::new(map.at.cast::<u8>()).ok_or(OutOfMemory)?;
        let skipped = base.align_offset(HUGE);
        assert!(skipped < HUGE);
        // SAFETY: less than `HUGE` bytes further, so inside the mapping, which has `HUGE` bytes in
        // addition to the frames.
        let base = unsafe { base.add(skipped) };
        Ok(Self {
            base,
            size,
            _map: map,
        })
    }

    /// Tells the system how to hold the memory of some frames.
    ///
    /// # Errors
    /// The system's error: [`Held::Locked`] beyond RLIMIT_MEMLOCK.
    pub fn hold(&self, frames: Range<usize>, how: Held) -> Result<(), Errno> {
        let bytes = frames.start * PAGE..frames.end * PAGE;
        assert!(bytes.start <= bytes.end && bytes.end <= self.size);
        // SAFETY: the bytes lie inside the mapping, and neither call moves or changes them.
        unsafe {
            let at = self.base.add(bytes.start).as_ptr().cast();
            match how {
                Held::Ordinary => Ok(()),
                Held::Locked => rustix::mm::mlock(at, bytes.len()),
                Held::HugePages => {
                    // A kernel without huge pages returns EINVAL; the memory works all the same.
                    let advice = rustix::mm::Advice::LinuxHugepage;
                    rustix::mm::madvise(at, bytes.len(), advice).or_else(|e| match e {
                        Errno::INVAL => Ok(()),
                        e => Err(e),
                    })
                }
            }
        }
    }

    /// Has the system allocate the memory of some frames, one huge page at a time, until `stop`
    /// returns true, so that later accesses cause no page faults. A kernel before 5.14 (no
    /// `MADV_POPULATE_WRITE`) allocates it as it is touched.
    pub fn populate(&self, frames: Range<usize>, stop: impl Fn() -> bool) {
        let end = frames.end * PAGE;
        assert!(end <= self.size);
        for from in (frames.start * PAGE..end).step_by(HUGE) {
            let len = HUGE.min(end - from);
            // SAFETY: the bytes lie inside the mapping; the call maps pages and changes no bytes.
            let told = unsafe {
                let at = self.base.add(from).as_ptr().cast();
                rustix::mm::madvise(at, len, rustix::mm::Advice::LinuxPopulateWrite)
            };
            if told.is_err() || stop() {
                return;
            }
        }
    }

    /// Has the system free the memory of `n` frames from `first` on, whose bytes are zero if they
    /// are touched again. Memory that is locked stays.
    pub fn release(&self, first: Pfn, n: usize) {
        let (from, len) = (first as usize * PAGE, n * PAGE);
        assert!(
            from + len <= self.size,
            "frame {first} is outside the arena"
        );
        // SAFETY: the bytes lie inside the mapping, and the caller owns the frames, so that no task
        // looks at them. The system refuses for locked memory, which changes nothing.
        let _ = unsafe {
            let at = self.base.add(from).as_ptr().cast();
            rustix::mm::madvise(at, len, rustix::mm::Advice::LinuxDontNeed)
        };
    }

    /// Returns the address of a frame's page; `arena` has the rules for its use.
    pub fn page(&self, pfn: Pfn) -> NonNull<[u8; PAGE]> {
        let at = pfn as usize * PAGE;
        assert!(at < self.size, "frame {pfn} is outside the arena");
        // SAFETY: `at` lies inside the allocation and so does the page that begins there, for the
        // size is a multiple of the page size.
        unsafe { self.base.add(at).cast() }
    }
}
