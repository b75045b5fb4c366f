//! Mounts and unmounts a guest's filesystems.

use super::{ROOT, Step, of};
use crate::tracing::TRACEFS;
use crate::wire::MountJob;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Mounts the filesystem `kind` of a device on the directory `on`, which is made if missing;
/// `options` are separated by commas.
pub(super) fn mount(device: &str, on: &Path, kind: &str, options: &str) -> Step {
    let (flags, data) = flags_of(options);
    let what = format!("mount {device} on {} ({kind})", on.display());
    fs::create_dir_all(on).map_err(of(&what))?;
    let data = CString::new(data).map_err(of(&what))?;
    rustix::mount::mount(device, on, kind, flags, Some(&*data)).map_err(of(&what))
}

/// Splits mount options into flags of mount(2) and the rest, which the filesystem parses.
fn flags_of(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',').filter(|o| !o.is_empty()) {
        match option {
            "rw" | "defaults" | "atime" => {}
            "ro" => flags |= MountFlags::RDONLY,
            "noatime" => flags |= MountFlags::NOATIME,
            "nodiratime" => flags |= MountFlags::NODIRATIME,
            "relatime" => flags |= MountFlags::RELATIME,
            "strictatime" => flags |= MountFlags::STRICTATIME,
            "lazytime" => flags |= MountFlags::LAZYTIME,
            "sync" => flags |= MountFlags::SYNCHRONOUS,
            "dirsync" => flags |= MountFlags::DIRSYNC,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            "nosuid" => flags |= MountFlags::NOSUID,
            other => rest.push(other),
        }
    }
    (flags, rest.join(","))
}

/// Mounts the kernel's own filesystems: proc, sysfs, devtmpfs and, as far as the kernel has them,
/// tracefs and cgroup2.
pub(super) fn system() -> Step {
    mount("proc", Path::new("/proc"), "proc", "")?;
    mount("sysfs", Path::new("/sys"), "sysfs", "")?;
    match mount("devtmpfs", Path::new("/dev"), "devtmpfs", "") {
        // The kernel may have mounted it by itself.
        Err(_) if fs::exists("/dev/null").unwrap_or(false) => {}
        other => other?,
    }
    for (kind, on) in [("tracefs", TRACEFS), ("cgroup2", "/sys/fs/cgroup")] {
        if fs::exists(on).unwrap_or(false) {
            // Code that needs it reports its absence.
            let _ = mount(kind, Path::new(on), kind, "");
        }
    }
    Ok(())
}

/// Returns the mount point of a job's filesystem: `/mnt`, or a path below it.
fn place(mount: &MountJob) -> PathBuf {
    match mount.mount.as_str() {
        "" => PathBuf::from(ROOT),
        below => Path::new(ROOT).join(below),
    }
}

/// Mounts the filesystems of a job, in order.
pub(super) fn filesystems(mounts: &[MountJob]) -> Step {
    let mut mounts = mounts.iter();
    mounts.try_for_each(|m| mount(&m.device, &place(m), &m.filesystem, &m.options))
}

/// Unmounts the filesystems of a job in reverse order, which writes all data to the disks.
pub(super) fn unmount(mounts: &[MountJob]) -> Step {
    let mut last_first = mounts.iter().rev();
    last_first.try_for_each(|m| {
        let on = place(m);
        let done = rustix::mount::unmount(&on, UnmountFlags::empty());
        done.map_err(of(format_args!("umount {}", on.display())))
    })
}

/// Opens the directory `path` as a base for relative paths.
pub(super) fn open(path: &str) -> Step<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(of(path))
}

/// Returns standard output, without a buffer.
pub(super) fn output() -> Step<File> {
    let out = rustix::io::dup(rustix::stdio::stdout());
    out.map(File::from).map_err(of::<Errno>("standard output"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_apart() {
        let (flags, data) = flags_of("noatime,discard,ro,commit=5");
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::RDONLY);
        assert_eq!(data, "discard,commit=5");
        assert_eq!(flags_of("").1, "");
    }
}
