//! The buffer pool as it is often written: a mutex, a map, a list by last use, dirty flags. A miss
//! takes the frame that was used longest ago, writes it out first if it is dirty, and reads the
//! page, all under the mutex.

use super::pool::{Bytes, PAGE, Pool, Result};
use lowmark_cache::Error;
use lowmark_cache::storage::{Backing, Storage};
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Mutex;

const NONE: usize = usize::MAX;

struct Frame {
    page: u32,
    dirty: bool,
    bytes: Box<Bytes>,
    // Neighbours in the list by last use.
    newer: usize,
    older: usize,
}

struct Frames {
    all: Vec<Frame>,
    map: HashMap<u32, usize>,
    newest: usize,
    oldest: usize,
}

/// The pool.
pub struct ByHand {
    file: Box<dyn Backing>,
    most: usize,
    frames: Mutex<Frames>,
}

impl ByHand {
    /// Creates a pool of `memory` bytes over a file of `pages` pages.
    pub fn new(storage: &dyn Storage, path: &Path, pages: u32, memory: u64) -> Result<Self> {
        let file = storage.open(path)?.file;
        file.truncate(u64::from(pages) * PAGE as u64)
            .map_err(Error::Io)?;
        let none = Frames {
            all: Vec::new(),
            map: HashMap::new(),
            newest: NONE,
            oldest: NONE,
        };
        Ok(Self {
            file,
            most: memory as usize / PAGE,
            frames: Mutex::new(none),
        })
    }

    fn write_out(&self, frame: &mut Frame) -> Result<()> {
        let (mut done, at) = (0, u64::from(frame.page) * PAGE as u64);
        while frame.dirty && done < PAGE {
            let rest = IoSlice::new(&frame.bytes[done..]);
            done += self
                .file
                .write(&[rest], at + done as u64)
                .map_err(Error::Io)?;
        }
        frame.dirty = false;
        Ok(())
    }

    fn read_in(&self, frame: &mut Frame) -> Result<()> {
        let (mut done, at) = (0, u64::from(frame.page) * PAGE as u64);
        while done < PAGE {
            let rest = IoSliceMut::new(&mut frame.bytes[done..]);
            match self
                .file
                .read(&mut [rest], at + done as u64)
                .map_err(Error::Io)?
            {
                0 => return Err(Error::BehindEnd),
                n => done += n,
            }
        }
        Ok(())
    }

    /// Returns the frame of a page, which becomes the newest.
    fn frame<'a>(&self, frames: &'a mut Frames, page: u32) -> Result<&'a mut Frame> {
        let found = frames.map.get(&page).copied();
        let i = match found {
            Some(i) => i,
            None if frames.all.len() < self.most => {
                let bytes = Box::new([0; PAGE]);
                let fresh = Frame {
                    page,
                    dirty: false,
                    bytes,
                    newer: NONE,
                    older: NONE,
                };
                frames.all.push(fresh);
                frames.all.len() - 1
            }
            None => frames.oldest,
        };
        if found.is_none() {
            let frame = &mut frames.all[i];
            self.write_out(frame)?;
            if frames.map.get(&frame.page) == Some(&i) {
                frames.map.remove(&frame.page);
            }
            frame.page = page;
            self.read_in(frame)?;
            frames.map.insert(page, i);
        }
        frames.touch(i);
        Ok(&mut frames.all[i])
    }
}

impl Frames {
    /// Makes a frame the newest.
    fn touch(&mut self, i: usize) {
        if self.newest == i {
            return;
        }
        let (newer, older) = (self.all[i].newer, self.all[i].older);
        if newer != NONE {
            self.all[newer].older = older;
            match older {
                NONE => self.oldest = newer,
                _ => self.all[older].newer = newer,
            }
        }
        self.all[i].newer = NONE;
        self.all[i].older = self.newest;
        match self.newest {
            NONE => self.oldest = i,
            n => self.all[n].newer = i,
        }
        self.newest = i;
    }
}

impl Pool for ByHand {
    fn read(&self, page: u32, f: &mut dyn FnMut(&Bytes)) -> Result<()> {
        let mut frames = self.frames.lock().expect("no panic");
        f(&self.frame(&mut frames, page)?.bytes);
        Ok(())
    }

    fn change(&self, page: u32, f: &mut dyn FnMut(&mut Bytes)) -> Result<()> {
        let mut frames = self.frames.lock().expect("no panic");
        let frame = self.frame(&mut frames, page)?;
        frame.dirty = true;
        f(&mut frame.bytes);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut frames = self.frames.lock().expect("no panic");
        for frame in &mut frames.all {
            self.write_out(frame)?;
        }
        self.file.sync().map_err(Error::Io)
    }
}
