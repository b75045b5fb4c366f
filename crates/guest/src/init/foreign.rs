//! Runs a user's own program in its own root.
//!
//! The root is a tmpfs with all entries of the user's folder bound into it, read-only like its
//! device, and in addition the guest's `/proc`, `/sys` and `/dev`, an empty `/tmp`, and the tested
//! filesystem on `/mnt`, where the program starts. Directories of these names in the folder are
//! hidden.

use super::{ROOT, Step, mounts, of, read_job};
use crate::groups;
use crate::host::clock;
use crate::programs::Voice;
use crate::wire::{Frame, ScriptJob};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// The mount point of the user's folder.
const IMAGE: &str = "/root-image";
/// The program's root.
const NEW_ROOT: &str = "/new-root";

/// Directories of the root that belong to the guest.
const OURS: [&str; 5] = ["proc", "sys", "dev", "tmp", "mnt"];

/// Lines of the program's stderr that an error quotes.
const LINES: usize = 10;

/// Runs as the process of a user's own program: makes the root folder and enters it, says hello to
/// the first process, waits for the start time (8 bytes on standard input), runs the command line,
/// and sends the end and a failure as frames.
///
/// # Errors
/// The program can't be started; how it ended is sent as a frame.
pub fn run() -> Result<(), String> {
    let job = read_job()?;
    let ScriptJob::Foreign { run, root } = job.script else {
        return Err("the job has no program of the user's".to_owned());
    };
    let voice = Voice::new(mounts::output()?);
    let say = |frames: &[Frame]| voice.say(frames).map_err(of("the first process"));
    if let Err(why) = enter(&root) {
        return say(&[Frame::Failed(why)]);
    }
    say(&[Frame::Hello(String::new())])?;
    let mut start = [0; 8];
    io::stdin()
        .read_exact(&mut start)
        .map_err(of("the first process"))?;
    let start = u64::from_le_bytes(start);
    if let Some(group) = &job.group {
        groups::enter(group).map_err(of(format_args!("the group `{group}`")))?;
    }
    let outcome = execute(&run);
    let mut frames = vec![Frame::End(clock().saturating_sub(start))];
    frames.extend(outcome.err().map(Frame::Failed));
    frames.push(Frame::Bye);
    say(&frames)
}

/// Makes the program's root, a tmpfs with the entries of the user's folder (on the disk `device`)
/// and the guest's own directories bound into it, and changes to it with chroot(2).
fn enter(device: &str) -> Step {
    mount_image(device)?;
    let (image, root) = (Path::new(IMAGE), Path::new(NEW_ROOT));
    mounts::mount("tmpfs", root, "tmpfs", "mode=755")?;
    let entries = fs::read_dir(image).map_err(of(IMAGE))?;
    for entry in entries {
        let name = entry.map_err(of(IMAGE))?.file_name();
        if OURS.iter().any(|ours| *ours == name) {
            continue;
        }
        let (from, to) = (image.join(&name), root.join(&name));
        bring(&from, &to).map_err(of(from.display()))?;
    }
    for name in OURS {
        let to = root.join(name);
        fs::create_dir(&to).map_err(of(to.display()))?;
        if name == "tmp" {
            mounts::mount("tmpfs", &to, "tmpfs", "mode=1777")?;
            continue;
        }
        let from = Path::new("/").join(name);
        rustix::mount::mount_bind_recursive(&from, &to).map_err(of(to.display()))?;
    }
    rustix::process::chroot(root).map_err(of(NEW_ROOT))?;
    std::env::set_current_dir(ROOT).map_err(of(ROOT))
}

/// Mounts the user's folder, which is on the disk `device`, read-only: tries the kernel's
/// filesystems until one accepts the disk.
fn mount_image(device: &str) -> Step {
    const KNOWN: &str = "/proc/filesystems";
    let text = fs::read_to_string(KNOWN).map_err(of(KNOWN))?;
    // Filesystems without a device begin with a word. ext4's driver claims ext2, too, so those
    // names come last.
    let kinds = text.lines().filter_map(|line| line.strip_prefix('\t'));
    let mut kinds: Vec<&str> = kinds.collect();
    kinds.sort_by_key(|kind| matches!(*kind, "ext2" | "ext3"));
    let mut why = format!("{device}: this kernel has no filesystem for it");
    for kind in kinds {
        match mounts::mount(device, Path::new(IMAGE), kind, "ro") {
            Ok(()) => return Ok(()),
            Err(e) => why = e,
        }
    }
    Err(why)
}

/// Puts one entry of the user's folder into the program's root: copies a symbolic link, binds a
/// directory or file to an empty one.
fn bring(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
    } else {
        fs::write(to, "")?;
    }
    Ok(rustix::mount::mount_bind_recursive(from, to)?)
}

/// Runs a command line with the root's shell to its end. If it fails, the error is its exit status
/// with the last lines of its stderr.
fn execute(run: &str) -> Step {
    const SHELL: &str = "/bin/sh";
    let mut command = Command::new(SHELL);
    command
        .args(["-c", run])
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("HOME", "/tmp")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(of(format_args!("{SHELL} of the root folder")))?;
    let errors = child.stderr.take().expect("it was piped");
    let last = last_lines(errors);
    let status = child.wait().map_err(of(SHELL))?;
    if status.success() {
        return Ok(());
    }
    let last = if last.is_empty() {
        "it said nothing".to_owned()
    } else {
        last
    };
    Err(format!("`{run}` ended ({status}): {last}"))
}

/// Reads a stream to its end and returns its last ten lines, joined by ` / `.
fn last_lines(from: impl Read) -> String {
    let mut from = BufReader::new(from);
    let mut last: VecDeque<String> = VecDeque::with_capacity(LINES);
    let mut line = Vec::new();
    // Overlong lines are cut to limit memory.
    while let Ok(1..) = from.by_ref().take(1024).read_until(b'\n', &mut line) {
        if last.len() == LINES {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    Vec::from(last).join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_kept() {
        let text: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let last = last_lines(text.as_bytes());
        assert!(
            last.starts_with("line 20 / ") && last.ends_with("line 29"),
            "{last}"
        );
        assert_eq!(last_lines(&b""[..]), "");
    }

    #[test]
    fn a_program_that_fails_is_told_with_its_words() {
        assert_eq!(execute("true"), Ok(()));
        let error = execute("echo no >&2; exit 3").unwrap_err();
        assert!(
            error.contains("exit status: 3") && error.ends_with(": no"),
            "{error}"
        );
    }
}
