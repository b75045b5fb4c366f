//! The help page: keys and words.

use ratatui::text::Line;

/// The help text. It fits 80 columns and 22 lines.
const TEXT: &str = " q, Esc      quit                        space      stop here, go on
 ← →         one moment back, on         PgUp PgDn  20 moments back, on
 Home End    the first, the last         + -        twice, half as fast
 c           the next cell of a folder   ?          this, or back

 zones       free pages; kswapd wakes below low (l) and works up to high (h),
             below min (m) tasks reclaim for themselves
 dirty       █ dirty, ▒ under writeback; above b flushers write, from the middle
             between b and d on writers are slowed, at d they wait
 scanned     pages that reclaim looked at, freed: those it got; few of many
             scanned is trouble (dirty, in use or locked pages)
 allocstall  allocations that had to reclaim for themselves
 refaults    pages that were reclaimed too early: they were needed again
 pressure    share of the last 10 s that some task, or all, stood still (PSI)
 tasks       in state D, with the kernel's function that they wait in; of a
             simulated run the engine's kinds of waits, and crowds by name
 timed       of a live cache: calls whose time was taken (of hits one in 512)
 unsupported this world does not tell it; 0 is a figure
 `lowmark explain NAME` says more of each word; docs/top.md of this screen";

/// Returns the text as lines.
pub fn lines() -> Vec<Line<'static>> {
    TEXT.lines().map(Line::raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_the_smallest_screen() {
        assert!(lines().len() <= 22);
        assert!(TEXT.lines().all(|l| l.chars().count() <= 80));
    }
}
