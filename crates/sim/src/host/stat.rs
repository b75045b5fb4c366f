//! stat(2): reads a name's inode into memory and returns its attributes.

use super::TaskHost;
use super::names::Named;
use crate::filesystems as fs;
use crate::stack::Bottom;
use mm::world::Tasks;
use workload::{HostResult, Stat};

impl<const T: bool> TaskHost<'_, T> {
    /// Performs stat(2) on the result of a look-up. Brings the inode into memory, if it is not
    /// there, and drops the reference again. Returns `None` if the name does not exist, which costs
    /// the call and the look-up.
    pub(super) async fn stat_named(&self, named: Option<Named>) -> HostResult<Option<Stat>> {
        if self.dies_here() {
            self.die().await;
        }
        let w = &self.mm.world;
        self.calls(Bottom::Other, 1);
        w.sched.charge(w.calls.lookup);
        if let Some(named) = named {
            let id = match named {
                Named::File(id) => id,
                Named::Dir(dir) => fs::inode_of_dir(self.mm, dir),
            };
            self.hold_inode(id).await?;
            self.put_inode(id);
        }
        w.relax().await;
        let stat = match named {
            None => return Ok(None),
            Some(Named::File(id)) => Stat {
                directory: false,
                len: self.mm.mappings[id as usize].size.get(),
            },
            Some(Named::Dir(_)) => Stat {
                directory: true,
                len: 0,
            },
        };
        Ok(Some(stat))
    }
}
