//! Reads and writes of an open file at its position, and the end of the last one's use.

use super::{Object, TaskHost, Use};
use crate::filesystems as fs;
use crate::stack::Bottom;
use mm::world::Tasks;
use workload::{HostError, HostResult};

impl<const T: bool> TaskHost<'_, T> {
    /// Reads up to `len` bytes at the position of `o`; returns the number read, less at the end.
    pub(super) async fn read_open(&self, o: Use, len: u64) -> HostResult<u64> {
        if self.dies_here() {
            self.die().await;
        }
        self.calls(Bottom::Read, 1);
        let n = match o.object {
            Object::Zero => {
                let w = &self.mm.world;
                let mut left = len;
                while left > 0 {
                    let n = left.min(32_768);
                    w.sched.charge(w.calls.clear * n / 4096);
                    w.relax().await;
                    left -= n;
                }
                len
            }
            Object::Null => 0,
            Object::File(id) if o.flags.direct => {
                let size = self.mm.mappings[id as usize].size.get();
                let n = len.min(size.saturating_sub(o.pos));
                if n > 0 {
                    self.direct(o, id, n.next_multiple_of(4096), false).await?;
                }
                n
            }
            Object::File(id) => fs::read_with(self.mm, id, o.pos, len, &self.window(o.fd))
                .await
                .map_err(|e| Self::error(self.path(o.fd), e))?,
        };
        if let Object::File(_) = o.object {
            self.mm.world.note_moved(n);
        }
        if self.mm.is_over_high() {
            self.mm.handle_over_high().await;
        }
        Ok(n)
    }

    /// Writes at the position of `o`; returns that position, which O_APPEND moves to the end.
    pub(super) async fn write_open(&self, mut o: Use, len: u64) -> HostResult<u64> {
        if self.dies_here() {
            self.die().await;
        }
        self.calls(Bottom::Write, 1);
        if let Object::File(id) = o.object {
            if o.flags.append {
                o.pos = self.mm.mappings[id as usize].size.get();
            }
            let failed = |e| Self::error(self.path(o.fd), e);
            let passes = o.flags.direct
                && fs::before_direct(self.mm, id, o.pos + len)
                    .await
                    .map_err(failed)?;
            if passes {
                self.direct(o, id, len, true).await?;
                let size = &self.mm.mappings[id as usize].size;
                size.set(size.get().max(o.pos + len));
            } else {
                fs::write(self.mm, id, o.pos, len).await.map_err(failed)?;
                // Waits for a direct write that went through the cache (`direct_write_fallback`).
                if o.flags.direct && !self.mm.sync_mapping(id).await {
                    return Err(HostError::Io(self.path(o.fd)));
                }
            }
            self.mm.world.note_moved(len);
            if (o.flags.sync || o.flags.dsync) && !fs::fsync(self.mm, id).await {
                return Err(HostError::Io(self.path(o.fd)));
            }
        }
        if self.mm.is_over_high() {
            self.mm.handle_over_high().await;
        }
        Ok(o.pos)
    }

    /// Drops a descriptor or mapping of a file; a file without a name is removed with the last one.
    pub(super) async fn let_go(&self, id: u32) {
        let last = {
            let users = &mut *self.names.users.borrow_mut();
            users[id as usize] -= 1;
            users[id as usize] == 0
        };
        if last && self.names.nameless.borrow_mut().remove(&id) {
            fs::remove(self.mm, id).await;
        }
        self.put_inode(id);
    }
}
