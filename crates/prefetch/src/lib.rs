//! Asks the processor for memory that will be wanted soon (the kernel's `prefetch()`).
//!
//! A load whose value nobody uses looks like the same thing and is not: it keeps its place in the processor's window
//! until the memory answers, and with it everything behind it.

/// Begins to bring what lies at a place into the processor's caches, as far as a line of it reaches, and waits for
/// nothing. It changes no outcome, and does nothing on processors that it knows no instruction of.
#[inline(always)]
pub fn prefetch<T: ?Sized>(at: &T) {
    let at = std::ptr::from_ref(at).cast::<u8>();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction reads nothing that a program could see, and faults at no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above; no register, flag or memory changes.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}
