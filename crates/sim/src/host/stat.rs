//! stat(2): a name's inode is brought into memory and asked.

use super::TaskHost;
use super::names::{Named, Names};
use crate::filesystems as fs;
use crate::stack::Bottom;
use mm::world::Tasks;
use workload::{HostError, HostResult, Stat};

impl<const T: bool> TaskHost<'_, T> {
    /// stat(2) of what is found, or the path of what is not there.
    pub(super) async fn stat_found(
        &self,
        find: impl FnOnce(&Names) -> Option<Named>,
        path: impl FnOnce(&Names) -> String,
    ) -> HostResult<Stat> {
        if self.dies_here() {
            self.die().await;
        }
        let w = &self.mm.world;
        self.calls(Bottom::Other, 1);
        w.sched.charge(w.calls.lookup);
        let named = find(&self.names.names.borrow());
        if let Some(named) = named {
            let id = match named {
                Named::File(id) => id,
                Named::Dir(dir) => fs::inode_of_dir(self.mm, dir),
            };
            self.hold_inode(id).await?;
            self.put_inode(id);
        }
        w.relax().await;
        match named {
            Some(Named::File(id)) => Ok(Stat {
                directory: false,
                len: self.mm.mappings[id as usize].size.get(),
            }),
            Some(Named::Dir(_)) => Ok(Stat {
                directory: true,
                len: 0,
            }),
            None => Err(HostError::NotFound(path(&self.names.names.borrow()))),
        }
    }
}
