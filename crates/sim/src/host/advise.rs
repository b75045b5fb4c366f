//! What a program says of the order in which it will read an open file (posix_fadvise(2), madvise(2)).

use super::TaskHost;
use crate::filesystems as fs;
use crate::stack::Bottom;
use mm::cache::mmap;
use std::rc::Rc;
use workload::{Advice, Fd, HostResult};

/// The engine's word for an advice.
pub(super) fn of(advice: Advice) -> mmap::Advice {
    match advice {
        Advice::Normal => mmap::Advice::Normal,
        Advice::Sequential => mmap::Advice::Sequential,
        Advice::Random => mmap::Advice::Random,
    }
}

impl<const T: bool> TaskHost<'_, T> {
    /// An open file's window for reading ahead.
    pub(super) fn window(&self, fd: Fd) -> Rc<fs::Window> {
        let mut open = self.names.open.borrow_mut();
        let open = open.get_mut(fd.0 as usize);
        open.map_or_else(Rc::default, |o| Rc::clone(o.window.get_or_insert_default()))
    }

    /// posix_fadvise(2) of an open file: one system call, whatever the range, as the kernel keeps it for the whole file.
    pub(super) fn advise(&self, fd: Fd, advice: Advice) -> HostResult<()> {
        self.get(fd)?;
        self.calls(Bottom::Other, 1);
        self.window(fd).advise(of(advice));
        Ok(())
    }
}
