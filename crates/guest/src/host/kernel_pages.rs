//! Kernel pages for a program: the pages of pipes.
//!
//! In packet mode each write takes a page of its own (`alloc_page(GFP_HIGHUSER | __GFP_ACCOUNT)`),
//! which is neither on an LRU list nor movable. Pages are interchangeable, so giving back a page
//! frees the oldest of its pipe. A pipe keeps up to two pages that were read for its next writes;
//! they are freed with its last page.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The pages that a pipe should hold; it holds fewer if the limit does not allow that.
const PAGES: usize = 256;

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    room: usize,
    held: usize,
}

impl Pipe {
    /// Makes a pipe in packet mode, in which each write takes a page of its own, with room for 256
    /// pages or as many as the limit allows.
    fn new() -> Result<Self, Errno> {
        let (read, write) = pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC)?;
        let bytes = fcntl_setpipe_size(&write, PAGES * 4096)
            .or_else(|_| rustix::pipe::fcntl_getpipe_size(&write))?;
        Ok(Self {
            read,
            write,
            room: (bytes / 4096).max(1),
            held: 0,
        })
    }
}

/// The kernel pages of a task.
#[derive(Debug, Default)]
pub(super) struct KernelPages(Vec<Option<Pipe>>);

impl KernelPages {
    /// Makes the kernel take a page for this task, by a write of one byte into a pipe with room; a
    /// new pipe is made if there is none. Returns the pipe's number, with which a page is given
    /// back.
    pub(super) fn take(&mut self) -> Result<u32, Errno> {
        let has_room = |p: &Option<Pipe>| p.as_ref().is_some_and(|p| p.held < p.room);
        let last = self
            .0
            .len()
            .checked_sub(1)
            .filter(|&at| has_room(&self.0[at]));
        let at = match last.or_else(|| self.0.iter().position(has_room)) {
            Some(at) => at,
            None => {
                let pipe = Some(Pipe::new()?);
                match self.0.iter().position(Option::is_none) {
                    Some(free) => {
                        self.0[free] = pipe;
                        free
                    }
                    None => {
                        self.0.push(pipe);
                        self.0.len() - 1
                    }
                }
            }
        };
        let pipe = self.0[at].as_mut().expect("one with room");
        rustix::io::write(&pipe.write, &[0])?;
        pipe.held += 1;
        Ok(at as u32)
    }

    /// Makes the kernel free a page of the pipe `id`, by a read from it; the last one closes the
    /// pipe.
    pub(super) fn give_back(&mut self, id: u32) -> Result<(), Errno> {
        let slot = self.0.get_mut(id as usize).ok_or(Errno::BADF)?;
        let pipe = slot.as_mut().ok_or(Errno::BADF)?;
        rustix::io::read(&pipe.read, &mut [0; 1])?;
        pipe.held -= 1;
        if pipe.held == 0 {
            *slot = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_pipe_by_pipe() {
        let mut pages = KernelPages::default();
        let taken: Vec<u32> = (0..600).map(|_| pages.take().unwrap()).collect();
        let pipes = pages.0.iter().flatten();
        assert_eq!(pipes.map(|p| p.held).sum::<usize>(), 600);
        for &id in &taken[..300] {
            pages.give_back(id).unwrap();
        }
        let again = pages.take().unwrap();
        for &id in taken[300..].iter().chain([&again]) {
            pages.give_back(id).unwrap();
        }
        assert!(pages.0.iter().all(Option::is_none));
        assert_eq!(pages.give_back(0), Err(Errno::BADF));
    }
}
