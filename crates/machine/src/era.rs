//! The kernel's formulas by release.
//!
//! Sources: kernel 2.6.37 to 6.18 (`mm/page_alloc.c`, `mm/page-writeback.c`, `mm/khugepaged.c`);
//! docs/reference/memory-model.md and docs/reference/writeback.md.

use mm::memory::watermark::MarkFormula;
use mm::policy::{DirtyRatios, Preset, WatermarkFormula, nearest, next_after};

/// The forms of the formulas in one kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Era {
    release: (u32, u32),
}

impl Era {
    /// Returns the formulas of a release, given as (major, minor).
    pub fn of(release: (u32, u32)) -> Self {
        Self { release }
    }

    /// Returns the limit of the kernel's formula for `min_free_kbytes`, in kB: 64 MiB, from 5.7 on
    /// 256 MiB.
    pub fn most_min_free_kbytes(self) -> u64 {
        if self.release >= (5, 7) {
            262_144
        } else {
            65_536
        }
    }

    /// Returns the form of the watermark formula: `watermark_scale_factor` exists since 4.6;
    /// before, low and high lie a quarter and a half of min above it.
    pub fn watermark_formula(self) -> WatermarkFormula {
        if self.release >= (4, 6) {
            WatermarkFormula::ScaleFactor
        } else {
            WatermarkFormula::Quarter
        }
    }

    /// Returns the watermark formula with this `watermark_scale_factor` (ten-thousandths of a
    /// zone), which kernels before 4.6 ignore.
    pub fn marks(self, scale_factor: u64) -> MarkFormula {
        MarkFormula {
            scale_factor: match self.watermark_formula() {
                WatermarkFormula::Quarter => None,
                WatermarkFormula::ScaleFactor => Some(scale_factor),
            },
            movable_apart: self.release >= (6, 6),
            low_kbytes: None,
            high_kbytes: None,
        }
    }

    /// Returns how dirty limits are computed from the dirty ratios: in 4096ths since 4.2, in
    /// percent before.
    pub fn dirty_ratios(self) -> DirtyRatios {
        if self.release >= (4, 2) {
            DirtyRatios::In4096ths
        } else {
            DirtyRatios::Percent
        }
    }

    /// Returns the preset whose release is closest to this kernel, and the known differences
    /// between them: sentences without a full stop.
    pub fn preset(self) -> (&'static Preset, Vec<String>) {
        let preset = nearest(self.release);
        let (major, minor) = preset.release;
        let mut differs = Vec::new();
        // The preset that follows the kernel's release.
        match next_after(self.release) {
            None if self.release > preset.release => differs.push(format!(
                "the kernel is newer: changes after {major}.{minor} are not in {}",
                preset.name
            )),
            Some(next) if self.release > preset.release => {
                let changes: Vec<String> = (next.changes.iter())
                    .map(|c| format!("{} ({})", c.switch, c.meaning))
                    .collect();
                differs.push(format!(
                    "the kernel may have some of the changes of {} over {}: {}",
                    next.name,
                    next.base_name().unwrap_or(preset.name),
                    changes.join("; ")
                ));
            }
            Some(_) if self.release < preset.release => differs.push(format!(
                "the kernel is older: {} has all changes until {major}.{minor}",
                preset.name
            )),
            _ => {}
        }
        (preset, differs)
    }

    /// Returns true if the zones' reserves are no part of dirtyable memory (3.3 and later).
    pub fn reserves_are_not_dirtyable(self) -> bool {
        self.release >= (3, 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::policy::PRESETS;

    /// Each preset has the formulas of its release, except linux-4.9, whose documentation says so:
    /// it models the inodes of 4.9 on the formulas of 3.16.
    #[test]
    fn presets_have_the_formulas_of_their_release() {
        for preset in PRESETS.iter().filter(|p| p.name != "linux-4.9") {
            let (era, policy) = (Era::of(preset.release), preset.policy());
            let formulas = (policy.watermark_formula, policy.dirty_ratios);
            let of_release = (era.watermark_formula(), era.dirty_ratios());
            assert_eq!(formulas, of_release, "{}", preset.name);
        }
    }

    #[test]
    fn a_kernel_has_its_nearest_preset() {
        let of = |major, minor| {
            let (preset, differs) = Era::of((major, minor)).preset();
            (preset.name, differs.join(". "))
        };
        assert_eq!(of(6, 12), ("linux-6.12", String::new()));
        let (name, differs) = of(6, 18);
        assert!(
            name == "linux-6.12" && differs.contains("after 6.12"),
            "{differs}"
        );
        let (name, differs) = of(6, 6);
        assert!(
            name == "linux-6.1" && differs.contains("scheduler (") && !differs.contains("after")
        );
        let (name, differs) = of(2, 4);
        assert!(
            name == "linux-2.6.37" && differs.contains("older"),
            "{differs}"
        );
    }

    #[test]
    fn each_change_has_its_release() {
        let era = |major, minor| Era::of((major, minor));
        assert_eq!(era(4, 5).marks(10).scale_factor, None);
        assert_eq!(era(4, 6).marks(10).scale_factor, Some(10));
        assert!(!era(6, 1).marks(10).movable_apart && era(6, 6).marks(10).movable_apart);
        assert_eq!(era(4, 19).most_min_free_kbytes(), 65_536);
        assert_eq!(era(6, 1).most_min_free_kbytes(), 262_144);
        assert_eq!(era(4, 1).dirty_ratios(), DirtyRatios::Percent);
        assert_eq!(era(4, 2).dirty_ratios(), DirtyRatios::In4096ths);
        assert!(!era(3, 2).reserves_are_not_dirtyable());
    }
}
