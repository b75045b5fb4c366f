//! The recount of inodes.

use super::state::InodeList;
use super::state::*;
use super::xfs::state::*;
use crate::Mm;
use crate::world::{Word32, Word64, World};

impl<W: World> Mm<W> {
    /// Recounts the engine's inodes: each one's state bits, the lists of unused dentries and inodes
    /// of each filesystem and node, the objects of the slab caches and, for an XFS, tags and
    /// groups. Returns a text about the first error.
    pub(crate) fn check_inodes(&self) -> Result<(), String> {
        if !self.keeps_inodes() {
            return Ok(());
        }
        let mut listed = [0u64; 2];
        // `objects`: by cache; the first is the dentries', then one of inodes for each filesystem.
        let mut objects = vec![0u64; self.caches.len()];
        for ino in 0..self.mapping_count() {
            let row = self.inode(ino);
            let s = row.state.get();
            let fail = |what: &str| Err(format!("inode {ino} ({s:#x}): {what}"));
            objects[0] += u64::from(s & DENTRY != 0);
            objects[1 + row.sb.get() as usize] += u64::from(s & CACHED != 0);
            listed[0] += u64::from(s & ON_DENTRIES != 0);
            listed[1] += u64::from(s & ON_INODES != 0);
            if s & DENTRY != 0 && s & CACHED == 0 {
                return fail("a dentry without an inode");
            }
            if s & DENTRY == 0 && row.users.get() > 0 {
                return fail("used without a dentry");
            }
            let xfs = DIRTY | PINNED | LOGGING | FLUSHING | IN_WRITE | ON_AIL | RECLAIMABLE;
            if s & CACHED == 0 && s & xfs != 0 {
                return fail("not in memory and not in its place");
            }
            let pages = self.mappings[ino as usize].nrpages.get();
            if s & (CACHED | PLACED | UNLINKED) == PLACED && pages > 0 {
                return fail("pages without an inode");
            }
            self.check_xfs_inode(ino)?;
        }
        for (i, kind) in ["dentries", "inodes"].into_iter().enumerate() {
            let list = [InodeList::Dentries, InodeList::Inodes][i];
            let bit = [ON_DENTRIES, ON_INODES][i];
            let mut on_lists = 0;
            for sb in 0..self.super_count() {
                for nid in 0..self.nodes.len() as u32 {
                    let mut n = 0;
                    let head = self.lru_head(sb, nid);
                    let mut at = self.inodes.first(list, head);
                    while let Some(ino) = at {
                        n += 1;
                        let row = self.inode(ino);
                        if !row.has(bit) || row.sb.get() != sb || n > u64::from(self.inodes.files) {
                            return Err(format!(
                                "{kind} of filesystem {sb}: inode {ino} is astray"
                            ));
                        }
                        at = self.inodes.after(list, head, ino);
                    }
                    let counted = self.sb(sb).unused[nid as usize][i].get();
                    if n != counted {
                        return Err(format!("unused {kind}: {n}, counted {counted}"));
                    }
                    on_lists += n;
                }
            }
            if on_lists != listed[i] {
                return Err(format!(
                    "{} {kind} say they are unused, {on_lists} are",
                    listed[i]
                ));
            }
        }
        self.check_xfs()?;
        // An object may have just been allocated for a row and not be recorded in it yet.
        for (cache, found) in objects.into_iter().enumerate() {
            let known = self.slab_usage(cache as u32).0;
            if known < found {
                return Err(format!(
                    "cache {cache}: {found} objects in use, counted {known}"
                ));
            }
        }
        Ok(())
    }
}
