//! Samples files of `/proc` and `/sys`: those of a job in a guest, or the running system's.

use crate::{sys, wire};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// The kernel computes the dirty limits in this file for the reading task; they are higher for
/// real-time tasks.
const VMSTAT: &str = "/proc/vmstat";

/// Files that are read repeatedly. They stay open and the buffers keep their size, so a look takes
/// hardly any memory, here or in the kernel.
pub struct Looks {
    files: Vec<(String, File)>,
    /// Files that are read by [`Self::take_all`] alone.
    ends: Vec<(String, File)>,
    contents: Vec<u8>,
    frame: Vec<u8>,
}

impl Looks {
    /// Opens those of the files that can be read; a look then reads them all. The others are passed
    /// over.
    pub fn open(paths: &[String]) -> Self {
        Self::with_ends(paths, &[])
    }

    /// Opens files as [`Self::open`] does, and further ones, `ends`, that are read only where
    /// [`Self::take_all`] is called.
    pub fn with_ends(paths: &[String], ends: &[String]) -> Self {
        let readable = |path: &String| {
            let file = File::open(path).ok()?;
            file.read_at(&mut [0; 1], 0).ok()?;
            Some((path.clone(), file))
        };
        Self {
            files: paths.iter().filter_map(readable).collect(),
            ends: ends.iter().filter_map(readable).collect(),
            contents: vec![0; 16 << 10],
            frame: Vec::new(),
        }
    }

    /// Returns the paths of the open files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(path, _)| path.as_str())
    }

    /// Takes a look: reads all files and writes their contents to `to` as frames; `at` is the time
    /// in the frames, in nanoseconds.
    ///
    /// # Errors
    /// A file can't be read any more, or the writer fails.
    pub fn take(&mut self, at: u64, to: &mut impl Write) -> io::Result<()> {
        self.read_all(at, false, to)
    }

    /// Takes a look at all files, those included that are read at the ends alone.
    ///
    /// # Errors
    /// A file can't be read any more, or the writer fails.
    pub fn take_all(&mut self, at: u64, to: &mut impl Write) -> io::Result<()> {
        self.read_all(at, true, to)
    }

    /// Reads the files, those of the ends too if it is one (`end`), and writes them as frames.
    fn read_all(&mut self, at: u64, end: bool, to: &mut impl Write) -> io::Result<()> {
        let ends = self.ends.iter().filter(|_| end);
        for (path, file) in self.files.iter().chain(ends) {
            let contents = &mut self.contents;
            let len = match path.as_str() {
                VMSTAT => sys::as_others(|| read(file, contents)),
                _ => read(file, contents),
            };
            let len = len.map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))?;
            wire::look(&mut self.frame, at, path, &self.contents[..len]);
            to.write_all(&self.frame)?;
        }
        Ok(())
    }
}

/// Reads a file from its start into `contents`, which grows as needed; returns the file's length in
/// bytes.
fn read(file: &File, contents: &mut Vec<u8>) -> io::Result<usize> {
    let mut len = 0;
    loop {
        if len == contents.len() {
            contents.resize(len * 2, 0);
        }
        // Positioned reads: the kernel generates such files anew when they are read from the start.
        match file.read_at(&mut contents[len..], len as u64) {
            Ok(0) => return Ok(len),
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Frame;

    #[test]
    fn files_of_the_ends_are_read_there_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for name in ["a", "b"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let mut looks = Looks::with_ends(&[path("a")], &[path("b")]);
        let mut frames = |all: bool| {
            let mut out = Vec::new();
            match all {
                true => looks.take_all(0, &mut out).unwrap(),
                false => looks.take(0, &mut out).unwrap(),
            }
            let mut from = &out[..];
            std::iter::from_fn(|| Frame::read(&mut from).unwrap()).count()
        };
        assert_eq!((frames(true), frames(false), frames(true)), (2, 1, 2));
    }

    #[test]
    fn files_are_read_anew_and_missing_ones_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("a"), vec![b'x'; 40_000]).unwrap();
        let mut looks = Looks::open(&[path("a"), path("b"), "/proc/vmstat".into()]);
        let mut out = Vec::new();
        looks.take(0, &mut out).unwrap();
        std::fs::write(path("a"), "y").unwrap();
        looks.take(5, &mut out).unwrap();
        let mut from = &out[..];
        let mut seen = Vec::new();
        while let Some(frame) = Frame::read(&mut from).unwrap() {
            let Frame::Look(at, path, contents) = frame else {
                panic!("{frame:?}")
            };
            assert!(!contents.is_empty());
            let file = path.rsplit('/').next().unwrap().to_owned();
            seen.push((at, file, contents.len()));
        }
        assert_eq!((seen[0].0, &*seen[0].1, seen[0].2), (0, "a", 40_000));
        assert_eq!((seen[2].0, &*seen[2].1, seen[2].2), (5, "a", 1));
        assert_eq!(seen.len(), 4);
    }
}
