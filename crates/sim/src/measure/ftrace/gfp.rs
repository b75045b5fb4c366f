//! Allocation flags as the kernel prints them (`show_gfp_flags` of Linux 6.18).

use mm::memory::gfp::Gfp;

const DMA: u32 = 1 << 0;
const HIGHMEM: u32 = 1 << 1;
const DMA32: u32 = 1 << 2;
const MOVABLE: u32 = 1 << 3;
const RECLAIMABLE: u32 = 1 << 4;
const HIGH: u32 = 1 << 5;
const IO: u32 = 1 << 6;
const FS: u32 = 1 << 7;
const DIRECT_RECLAIM: u32 = 1 << 10;
const KSWAPD_RECLAIM: u32 = 1 << 11;
const WRITE: u32 = 1 << 12;
const RETRY_MAYFAIL: u32 = 1 << 14;
const NOFAIL: u32 = 1 << 15;
const NORETRY: u32 = 1 << 16;
const HARDWALL: u32 = 1 << 20;
const THISNODE: u32 = 1 << 21;
const RECLAIM: u32 = DIRECT_RECLAIM | KSWAPD_RECLAIM;

/// Names in the kernel's order: a name whose flags are all set is printed, and its flags are
/// cleared.
const NAMES: [(u32, &str); 21] = [
    (
        RECLAIM | IO | FS | HARDWALL | HIGHMEM | MOVABLE,
        "GFP_HIGHUSER_MOVABLE",
    ),
    (RECLAIM | IO | FS | HARDWALL, "GFP_USER"),
    (RECLAIM | IO | FS, "GFP_KERNEL"),
    (RECLAIM | IO, "GFP_NOFS"),
    (HIGH | KSWAPD_RECLAIM, "GFP_ATOMIC"),
    (RECLAIM, "GFP_NOIO"),
    (DMA, "GFP_DMA"),
    (DMA32, "GFP_DMA32"),
    (HIGHMEM, "__GFP_HIGHMEM"),
    (MOVABLE, "__GFP_MOVABLE"),
    (RECLAIMABLE, "__GFP_RECLAIMABLE"),
    (HIGH, "__GFP_HIGH"),
    (IO, "__GFP_IO"),
    (FS, "__GFP_FS"),
    (KSWAPD_RECLAIM, "__GFP_KSWAPD_RECLAIM"),
    (WRITE, "__GFP_WRITE"),
    (RETRY_MAYFAIL, "__GFP_RETRY_MAYFAIL"),
    (NOFAIL, "__GFP_NOFAIL"),
    (NORETRY, "__GFP_NORETRY"),
    (HARDWALL, "__GFP_HARDWALL"),
    (THISNODE, "__GFP_THISNODE"),
];

/// Converts the engine's allocation flags to the bits that a kernel's `gfp_t` has.
fn bits(gfp: Gfp) -> u32 {
    let flags = [
        (Gfp::WAIT, RECLAIM),
        (Gfp::IO, IO),
        (Gfp::FS, FS),
        (Gfp::HIGH, HIGH | KSWAPD_RECLAIM),
        (Gfp::NORETRY, NORETRY),
        (Gfp::NOFAIL, NOFAIL),
        (Gfp::WRITE, WRITE),
        (Gfp::REPEAT, RETRY_MAYFAIL),
        (Gfp::THISNODE, THISNODE),
        (Gfp::RECLAIMABLE, RECLAIMABLE),
    ];
    let set = flags.iter().filter(|(flag, _)| gfp.has(*flag));
    let zone = match gfp.high_zoneidx() {
        _ if gfp.0 == 0 => 0, // no request: a boosted zone wakes kswapd itself
        0 => DMA,
        1 => DMA32,
        2 => 0,
        _ => HIGHMEM | MOVABLE | HARDWALL,
    };
    set.fold(zone, |all, (_, bits)| all | bits)
}

/// Appends the names of an allocation's flags, given as the engine's bits, separated by `|`; `none`
/// if no flag is set. As in the kernel, a name that stands for several flags comes first.
pub fn put(gfp: u32, out: &mut String) {
    let (mut left, mut any) = (bits(Gfp(gfp)), false);
    for (flags, name) in NAMES {
        if left & flags == flags {
            left &= !flags;
            if std::mem::replace(&mut any, true) {
                out.push('|');
            }
            out.push_str(name);
        }
    }
    debug_assert!(left == 0, "flags {left:#x} have no name");
    if !any {
        out.push_str("none");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_kernels_names() {
        let text = |gfp: Gfp| {
            let mut out = String::new();
            put(gfp.0, &mut out);
            out
        };
        assert_eq!(text(Gfp::USER), "GFP_HIGHUSER_MOVABLE");
        assert_eq!(text(Gfp::USER_WRITE), "GFP_HIGHUSER_MOVABLE|__GFP_WRITE");
        assert_eq!(text(Gfp::NOFS), "GFP_NOFS|__GFP_RECLAIMABLE");
        assert_eq!(text(Gfp::KERNEL), "GFP_KERNEL");
        assert_eq!(text(Gfp::ATOMIC), "GFP_ATOMIC");
        assert_eq!(text(Gfp(0)), "none");
        let dma = Gfp(1).or(Gfp::NORETRY);
        assert_eq!(text(dma), "GFP_NOIO|GFP_DMA|__GFP_NORETRY");
    }
}
