//! What page tables take of memory (`page_tables = "pages"`): a page of the kernel's for each 512 entries of a
//! region, from the first fault among them until the region ends (Linux mm/memory.c, `__pte_alloc` and
//! `free_pgtables`). It can be neither moved nor reclaimed. The levels above, a page for each gigabyte and three for a
//! process, are left out.

use super::mmap::{ENTRIES_OF_TABLE, Region};
use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::policy::PageTables;
use crate::world::{Word32, World};

/// Entries from one on to the end of its table.
pub(super) fn left_of_table(index: u32) -> u32 {
    ENTRIES_OF_TABLE as u32 - index % ENTRIES_OF_TABLE as u32
}

impl<W: World> Region<W> {
    /// The table of an entry that has no memory to stand in yet.
    #[inline(always)]
    pub(super) fn missing_table(&self, index: u32) -> Option<&W::U32> {
        let table = self.tables.get(index as usize / ENTRIES_OF_TABLE);
        table.filter(|page| page.get() == 0)
    }
}

impl<W: World> Mm<W> {
    /// Pages of page tables that a region of so many pages may come to.
    pub(super) fn tables_of(&self, pages: u32) -> usize {
        match self.policy.page_tables {
            PageTables::Nothing => 0,
            PageTables::Pages => (pages as usize).div_ceil(ENTRIES_OF_TABLE),
        }
    }

    /// Takes the page that a table's entries will stand in. `false`: there is none.
    #[cold]
    pub(super) async fn pte_alloc(&self, table: &W::U32) -> bool {
        let Some(pfn) = self.alloc_kernel_page(Gfp::KERNEL).await else {
            return false;
        };
        if table.get() == 0 {
            table.set(pfn + 1);
        } else {
            // Another thread was faster.
            self.free_kernel_page(pfn);
        }
        true
    }

    /// A region has ended: so have its tables.
    pub(super) fn free_tables(&self, tables: &[W::U32]) {
        for table in tables.iter().filter(|table| table.get() != 0) {
            self.free_kernel_page(table.get() - 1);
            table.set(0);
        }
    }
}
