//! The memory that page tables take (`page_tables = "pages"`): a kernel page for each 512 entries
//! of a region, from the first fault among them until the region ends (Linux mm/memory.c,
//! `__pte_alloc` and `free_pgtables`). The page can be neither moved nor reclaimed. The levels
//! above, a page for each gigabyte and three for a process, are left out.

use super::mmap::{ENTRIES_OF_TABLE, Region};
use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::policy::PageTables;
use crate::world::{Word32, World};

/// Returns the number of page-table entries from `index` on to the end of its page of 512 entries.
pub(super) fn left_of_table(index: u32) -> u32 {
    ENTRIES_OF_TABLE as u32 - index % ENTRIES_OF_TABLE as u32
}

impl<W: World> Region<W> {
    /// Returns the place for the page of page table of entry `index` if that page is not allocated
    /// yet; `None` if it is, or if page tables take no memory.
    #[inline(always)]
    pub(super) fn missing_table(&self, index: u32) -> Option<&W::U32> {
        let table = self.tables.get(index as usize / ENTRIES_OF_TABLE);
        table.filter(|page| page.get() == 0)
    }
}

impl<W: World> Mm<W> {
    /// Returns the number of page-table pages that a region of `pages` pages may need; 0 if page
    /// tables take no memory.
    pub(super) fn tables_of(&self, pages: u32) -> usize {
        match self.policy.page_tables {
            PageTables::Nothing => 0,
            PageTables::Pages => (pages as usize).div_ceil(ENTRIES_OF_TABLE),
        }
    }

    /// Allocates a page of page table and enters it at `table` (frame plus 1; 0: none). Returns
    /// false if there is no memory.
    #[cold]
    pub(super) async fn pte_alloc(&self, table: &W::U32) -> bool {
        let Some(pfn) = self.alloc_kernel_page(Gfp::KERNEL).await else {
            return false;
        };
        if table.get() == 0 {
            table.set(pfn + 1);
        } else {
            // Another thread has set the page meanwhile.
            self.free_kernel_page(pfn);
        }
        true
    }

    /// Frees the pages of page table of a region that has ended.
    pub(super) fn free_tables(&self, tables: &[W::U32]) {
        for table in tables.iter().filter(|table| table.get() != 0) {
            self.free_kernel_page(table.get() - 1);
            table.set(0);
        }
    }
}
