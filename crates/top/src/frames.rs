//! Converts the frames of a guest or a recorder to looks: from a recording, or from a guest's
//! growing file.

use crate::look::{FILES, Look};
use crate::tasks::Tasks;
use guest::wire::Frame;
use kernel::running::live::LATENCY;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Combines the files of one time to a look.
#[derive(Debug, Default)]
pub struct Looks {
    /// The kernel's release, once it was received.
    pub release: Option<String>,
    /// Whether the last frame was received.
    pub over: bool,
    at: u64,
    files: BTreeMap<String, String>,
}

impl Looks {
    /// Takes the next frame of a stream. The files of one time are collected; when a frame of
    /// another time or the end comes, the look made of them is returned, else `None`.
    pub fn frame(&mut self, frame: Frame) -> Option<Look> {
        match frame {
            Frame::Hello(release) => {
                self.release = Some(release);
                None
            }
            Frame::Look(at, path, text) => {
                let done = match at == self.at {
                    true => None,
                    false => self.whole(),
                };
                self.at = at;
                if FILES.contains(&path.as_str()) || path == LATENCY {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    self.files.insert(path, text);
                }
                done
            }
            Frame::Bye | Frame::Failed(_) => {
                self.over = true;
                self.whole()
            }
            _ => None,
        }
    }

    /// Returns the look made of the files collected so far, and forgets them; `None` if there are
    /// none.
    pub fn whole(&mut self) -> Option<Look> {
        let files = std::mem::take(&mut self.files);
        let text = |path: &str| files.get(path).map(String::as_str);
        // Guests and recordings have no data about tasks.
        (!files.is_empty()).then(|| Look::of(self.at, text, Tasks::default()))
    }
}

/// Reads all looks of a recording, which may be cut off at its end. Returns the state after the
/// last frame (with the kernel's release) and the looks.
///
/// # Errors
/// The source can't be read, or has something that is no frame.
pub fn all(mut from: impl Read) -> io::Result<(Looks, Vec<Look>)> {
    let mut looks = Looks::default();
    let mut found = Vec::new();
    while let Some(frame) = Frame::read(&mut from)? {
        found.extend(looks.frame(frame));
    }
    found.extend(looks.whole());
    Ok((looks, found))
}

/// A reader that counts its bytes.
struct Counted<R>(R, u64);

impl<R: Read> Read for Counted<R> {
    /// Reads bytes and adds their number to the count.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(into)?;
        self.1 += n as u64;
        Ok(n)
    }
}

/// A file of frames that grows while a guest runs.
#[derive(Debug)]
pub struct Growing {
    file: File,
    path: PathBuf,
    /// Bytes of complete frames read so far.
    read: u64,
    looks: Looks,
}

/// The file's name in the folder of a guest's run.
const NAME: &str = "frames";

impl Growing {
    /// Opens the file of frames that a running guest writes; nothing is read yet.
    ///
    /// # Errors
    /// The file can't be opened, or is no regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: input::file(path)?,
            path: path.to_owned(),
            read: 0,
            looks: Looks::default(),
        })
    }

    /// Returns the kernel's release, once it was received.
    pub fn release(&self) -> Option<&str> {
        self.looks.release.as_deref()
    }

    /// Returns true if no more frames will come: the last one was read, or the run has removed its
    /// file.
    pub fn over(&self) -> bool {
        self.looks.over || self.file.metadata().is_ok_and(|m| m.nlink() == 0)
    }

    /// Returns the looks that were completed since the last call, from the frames that the guest
    /// has added to its file. A frame that is cut off is read again when it is complete.
    ///
    /// # Errors
    /// The file can't be read, or has something that is no frame; the error names the file.
    pub fn more(&mut self) -> io::Result<Vec<Look>> {
        let read = self.complete();
        read.map_err(|e| {
            let what = format!(
                "can't read {} as a guest's frames: {e}",
                self.path.display()
            );
            io::Error::new(e.kind(), what)
        })
    }

    /// Reads the complete frames behind those that were read; see [`Self::more`].
    fn complete(&mut self) -> io::Result<Vec<Look>> {
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut from = Counted(BufReader::new(&self.file), 0);
        let mut found = Vec::new();
        // Bytes up to the end of the last complete frame.
        let mut whole = 0;
        while let Some(frame) = Frame::read(&mut from)? {
            whole = from.1;
            found.extend(self.looks.frame(frame));
        }
        self.read += whole;
        Ok(found)
    }
}

/// Returns the frame files of guests that run on this machine, the youngest first: each run has a
/// folder `lowmark-…` below `temporary`.
pub fn guests(temporary: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(temporary).into_iter().flatten().flatten();
    let ours = entries.filter(|e| e.file_name().to_string_lossy().starts_with("lowmark-"));
    let frames = ours.map(|e| e.path().join(NAME));
    let mut found: Vec<_> = frames
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn look(at: u64, pages: u64) -> Frame {
        let text = format!("nr_free_pages 5\npgscan_kswapd {pages}\n");
        Frame::Look(at, "/proc/vmstat".into(), text.into_bytes())
    }

    #[test]
    fn a_growing_file_is_followed_and_a_cut_frame_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("lowmark-x");
        std::fs::create_dir(&run).unwrap();
        assert!(guests(dir.path()).is_empty());
        let path = run.join("frames");
        let mut file = File::create(&path).unwrap();
        assert_eq!(guests(dir.path()), std::slice::from_ref(&path));
        Frame::Hello("6.12".into()).write(&mut file).unwrap();
        look(0, 1).write(&mut file).unwrap();
        let mut growing = Growing::open(&path).unwrap();
        assert!(growing.more().unwrap().is_empty(), "the first is not over");
        assert_eq!(growing.release(), Some("6.12"));
        let next = look(1_000_000_000, 7).to_bytes();
        file.write_all(&next[..20]).unwrap();
        assert!(growing.more().unwrap().is_empty());
        file.write_all(&next[20..]).unwrap();
        let first = growing.more().unwrap();
        assert_eq!(first.iter().map(Look::at).collect::<Vec<_>>(), [0]);
        assert!(!growing.over());
        Frame::Bye.write(&mut file).unwrap();
        let last = growing.more().unwrap();
        assert!(growing.over() && last[0].at() == 1_000_000_000);
        let moment = crate::look::between(&first[0], &last[0], &[]);
        assert_eq!(moment.reclaim.kswapd.scanned, Some(6.0));
        assert_eq!(moment.reclaim.direct.scanned, None, "not said is not 0");
        assert_eq!(moment.waits, None);
    }

    #[test]
    fn a_run_that_takes_its_file_away_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frames");
        File::create(&path).unwrap();
        let growing = Growing::open(&path).unwrap();
        assert!(!growing.over());
        std::fs::remove_file(&path).unwrap();
        assert!(growing.over());
    }
}
