//! A private part of tracefs: an instance with its own rings, events and clock.

use super::undo::{Action, Undo};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The usual mount points of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The tracefs filesystem.
#[derive(Debug)]
pub struct Tracefs {
    dir: PathBuf,
    /// Held where tracefs is not mounted: a detached mount that ends with its descriptor.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds the folder where tracefs is mounted; if there is none, mounts it for this process only
    /// (detached).
    ///
    /// # Errors
    /// The kernel has none, or access needs root.
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

    /// Returns the folder of the instance with this name.
    fn instance(&self, name: &str) -> PathBuf {
        self.dir.join("instances").join(name)
    }

    /// Stops and removes an instance; succeeds if it does not exist.
    ///
    /// # Errors
    /// A file of the instance is open.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let dir = self.instance(name);
        let _ = fs::write(dir.join("tracing_on"), "0");
        match fs::remove_dir(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

/// An instance of this process, removed when dropped.
#[derive(Debug)]
pub struct Instance {
    tracefs: Tracefs,
    name: String,
    undo: Undo,
}

impl Instance {
    /// Makes an instance of tracefs with a unique name. Its removal is written into the undo log
    /// first, so that the next start removes the instance if this process is killed.
    ///
    /// # Errors
    /// There is no tracefs, no right to use it, or the undo file can't be written.
    pub fn new(mut undo: Undo) -> io::Result<Self> {
        let tracefs = Tracefs::find()?;
        let name = undo.name().to_owned();
        undo.add(Action::Instance(name.clone()))?;
        if let Err(e) = fs::create_dir(tracefs.instance(&name)) {
            // An existing instance of this name belongs to another process.
            undo.done()?;
            return Err(e);
        }
        Ok(Self {
            tracefs,
            name,
            undo,
        })
    }

    /// Returns the instance's folder.
    pub fn dir(&self) -> PathBuf {
        self.tracefs.instance(&self.name)
    }

    /// Removes the instance; its files must be closed.
    ///
    /// # Errors
    /// The instance could not be removed; the next start removes it.
    pub fn end(mut self) -> io::Result<()> {
        self.tracefs.remove(&self.name)?;
        self.undo.done()
    }
}

impl Drop for Instance {
    /// Removes the instance, and its entry in the undo log if that succeeds; otherwise the next
    /// start removes it.
    fn drop(&mut self) {
        if self.tracefs.remove(&self.name).is_ok() {
            // An entry that stays is undone once more, which does nothing.
            let _ = self.undo.done();
        }
    }
}
