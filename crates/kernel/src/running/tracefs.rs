//! A part of tracefs of our own: an instance, whose rings, events and clock are nobody else's.

use super::undo::{Action, Undo};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where it is mounted, if it is.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The filesystem.
#[derive(Debug)]
pub struct Tracefs {
    dir: PathBuf,
    /// Where it is mounted nowhere: a mount that has no place and goes with its descriptor.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds it, or mounts it where nobody sees it.
    ///
    /// # Errors
    /// There is none, or it takes root.
    pub fn find() -> io::Result<Self> {
        for place in PLACES {
            match fs::read_dir(Path::new(place).join("instances")) {
                Ok(_) => {
                    return Ok(Self {
                        dir: place.into(),
                        _mount: None,
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
                Err(_) => {}
            }
        }
        let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let mount = rustix::mount::fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::empty(),
        )?;
        Ok(Self {
            dir: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(),
            _mount: Some(mount),
        })
    }

    fn instance(&self, name: &str) -> PathBuf {
        self.dir.join("instances").join(name)
    }

    /// Removes an instance. One that is not there is no error.
    ///
    /// # Errors
    /// Somebody has a file of it open.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let dir = self.instance(name);
        let _ = fs::write(dir.join("tracing_on"), "0");
        match fs::remove_dir(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

/// An instance of ours; it goes when this does.
#[derive(Debug)]
pub struct Instance {
    tracefs: Tracefs,
    name: String,
    undo: Undo,
}

impl Instance {
    /// Makes one of a name that nobody has. How to remove it is written down before it is there.
    ///
    /// # Errors
    /// No tracefs, no right to it, or nowhere to write down what has to be undone.
    pub fn new(mut undo: Undo) -> io::Result<Self> {
        let tracefs = Tracefs::find()?;
        let name = undo.name().to_owned();
        undo.add(Action::Instance(name.clone()))?;
        if let Err(e) = fs::create_dir(tracefs.instance(&name)) {
            // One of this name is somebody else's.
            undo.done()?;
            return Err(e);
        }
        Ok(Self {
            tracefs,
            name,
            undo,
        })
    }

    /// Its folder.
    pub fn dir(&self) -> PathBuf {
        self.tracefs.instance(&self.name)
    }

    /// Removes it; files of it have to be closed.
    ///
    /// # Errors
    /// It is still there, and the next start removes it.
    pub fn end(mut self) -> io::Result<()> {
        self.tracefs.remove(&self.name)?;
        self.undo.done()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.tracefs.remove(&self.name).is_ok() {
            // What stays written down is undone once more, which does nothing.
            let _ = self.undo.done();
        }
    }
}
