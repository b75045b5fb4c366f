//! `umount DIR`: unmounts the filesystem that is mounted there.
//!
//! Like umount(8) without options, the call returns when all data is on the device and nothing of
//! the filesystem is left in memory. The mount point selects the filesystem; `/` is the tested
//! filesystem, whose files lie in the current directory. None of its files may be open. Later steps
//! of the script find the filesystem mounted again.
//!
//! On XFS the unmount has to free every inode: its walk waits for each (`SYNC_WAIT`), and has its
//! own figures.

use crate::error::CommandError;
use crate::host::{Host, HostResult, Task};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

const ACCEPTED: &str = "umount DIR";

/// umount with its operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Umount {
    /// The mount point.
    pub dir: String,
}

impl Task for Umount {
    const NAME: &'static str = "umount";

    /// Unmounts the filesystem and returns the duration and its parts in seconds; on XFS also how
    /// long its inode walk took, and how many inodes it freed and left.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        let parts = host.unmount(&self.dir).await?;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut metrics = vec![
            ("umount_time", "s", seconds(host.now() - begun)),
            ("umount_sync_time", "s", seconds(parts.sync_ns)),
            ("umount_evict_time", "s", seconds(parts.evict_ns)),
        ];
        if let Some(walk) = parts.walk {
            metrics.extend([
                ("umount_log_time", "s", seconds(walk.log_ns)),
                ("umount_walk_time", "s", seconds(walk.walk_ns)),
                ("umount_inodes", "inodes", walk.inodes as f64),
                ("umount_inodes_left", "inodes", walk.left as f64),
            ]);
        }
        let named = metrics.into_iter();
        Ok(Report {
            metrics: named.map(|(n, u, v)| (n.to_owned(), u, v)).collect(),
        })
    }
}

impl Program for Umount {
    const USAGE: &'static str = ACCEPTED;

    const METRICS: &'static [Metric] = &[
        Metric::new("umount_time", "s", "Duration of umount(2)."),
        Metric::new(
            "umount_sync_time",
            "s",
            "Of umount_time, until data and metadata were on the device.",
        ),
        Metric::new(
            "umount_evict_time",
            "s",
            "Of umount_time, dropping dentries, inodes and their pages.",
        ),
        Metric::new(
            "umount_log_time",
            "s",
            "Of umount_time on XFS, forcing the log and pushing every change to its place.",
        ),
        Metric::new(
            "umount_walk_time",
            "s",
            "Of umount_time on XFS, the walk that frees all inodes and waits for each (SYNC_WAIT).",
        ),
        Metric::new(
            "umount_inodes",
            "inodes",
            "Inodes that the walk of an XFS's unmount had to free.",
        ),
        Metric::new(
            "umount_inodes_left",
            "inodes",
            "Of umount_inodes, those that the walk did not reach, whose memory a real kernel leaks. With xfs-inode-reclaim as posted each group's walk begins at its cursor.",
        )
        .harmful(),
    ];

    /// Parses the one operand, the mount point. Options are refused.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let [dir] = operands else {
            let what = format!("umount has {} operands", operands.len());
            return Err(CommandError::new(name.span.clone(), what, ACCEPTED));
        };
        if dir.text.is_empty() || dir.text.starts_with('-') {
            let what = format!("`{}` is not a mount point", dir.text);
            return Err(CommandError::new(dir.span.clone(), what, ACCEPTED));
        }
        Ok(Self {
            dir: dir.text.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::script::parse;

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("umount", "umount"),
            ("umount a b", "umount"),
            ("umount -f", "-f"),
            ("umount ''", "''"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
        assert!(parse("umount /mnt/data").is_ok());
    }
}
