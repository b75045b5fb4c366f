#![doc = include_str!("../README.md")]

/// Starts to bring the first cache line at an address into the processor's caches, without waiting.
/// It changes no result, and does nothing on processors whose prefetch instruction it does not
/// know.
#[inline(always)]
pub fn prefetch<T: ?Sized>(at: &T) {
    let at = std::ptr::from_ref(at).cast::<u8>();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction has no effect that a program could see, and faults at no address.
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
