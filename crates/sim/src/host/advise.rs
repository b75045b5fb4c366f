//! Advice that a program gives on the order in which it will read an open file (posix_fadvise(2),
//! madvise(2)).

use super::TaskHost;
use crate::filesystems as fs;
use crate::stack::Bottom;
use mm::cache::mmap;
use std::rc::Rc;
use workload::{Advice, Fd, HostResult};

/// Converts a workload's advice to the engine's.
pub(super) fn of(advice: Advice) -> mmap::Advice {
    match advice {
        Advice::Normal => mmap::Advice::Normal,
        Advice::Sequential => mmap::Advice::Sequential,
        Advice::Random => mmap::Advice::Random,
    }
}

impl<const T: bool> TaskHost<'_, T> {
    /// Returns an open file's read-ahead window, making it on first use.
    pub(super) fn window(&self, fd: Fd) -> Rc<fs::Window> {
        let mut open = self.names.open.borrow_mut();
        let open = open.get_mut(fd.0 as usize);
        open.map_or_else(Rc::default, |o| Rc::clone(o.window.get_or_insert_default()))
    }

    /// Performs posix_fadvise(2) on an open file: one system call, whatever the range, because the
    /// kernel keeps the advice for the whole file.
    pub(super) fn advise(&self, fd: Fd, advice: Advice) -> HostResult<()> {
        self.get(fd)?;
        self.calls(Bottom::Other, 1);
        self.window(fd).advise(of(advice));
        Ok(())
    }
}
