//! Copies trees of files: what `cp -r`, `rsync -a` and `tar c` do.
//!
//! `cp -r FILE … DEST` and `rsync -a FILE … DEST` read every directory below their sources, stat
//! each name (stat(2)), make the directories and write the files anew; a source of rsync that ends
//! with a slash stands for its contents. rsync compares nothing with what DEST has, as on a first
//! run, and writes no temporary names. `tar cf ARCHIVE FILE …` writes everything into one file: a
//! header of 512 bytes each, contents in whole blocks of 512 bytes, records of 10 KiB (GNU tar).
//! Into /dev/null GNU tar reads no contents; `-` is a pipe to a program that drops everything. An
//! archive is not unpacked, because contents are not kept.

use super::copy::{self, BUFFER, copy_file, is_directory, open_to_read};
use crate::error::CommandError;
use crate::host::{Fd, Host, HostError, HostResult, OpenFlags, Task, joined};
use crate::options::paths;
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

/// Bytes of a block of an archive, of its header for a file, and of its end.
const BLOCK: u64 = 512;
/// Bytes of a record, in which an archive is written and files are read for it.
const RECORD: u64 = 20 * BLOCK;
/// User time of a name in ns: comparing and joining it.
const NAME_NS: u64 = 300;

const RSYNC: &str = "rsync -a SOURCE … DEST, both on this machine";
const TAR: &str = "tar cf ARCHIVE PATH …";

/// The work on the files and directories of a tree.
pub(super) trait Visitor<H: Host> {
    /// Meets the directory `path`; `below` is its path below the root of the tree, empty for the
    /// root.
    async fn directory(&mut self, path: &str, below: &str) -> HostResult<()>;
    /// Meets a file of `len` bytes.
    async fn file(&mut self, path: &str, below: &str, len: u64) -> HostResult<()>;
}

/// Visits `root`, a directory with everything below it or a file, directories before what is in
/// them and names in the order in which the filesystem lists them.
pub(super) async fn walk<H: Host>(
    host: &H,
    root: &str,
    visitor: &mut impl Visitor<H>,
) -> HostResult<()> {
    let stat = host.stat(root).await?;
    if !stat.directory {
        return visitor.file(root, "", stat.len).await;
    }
    // Directories that are still to be read, the next one last.
    let mut left = vec![(root.to_owned(), String::new())];
    while let Some((path, below)) = left.pop() {
        visitor.directory(&path, &below).await?;
        let (names, dir) = (host.read_dir(&path).await?, host.dir(&path));
        let mut inside = Vec::new();
        for nth in 0..names.len() {
            host.compute(NAME_NS).await;
            let stat = match host.stat_listed(&dir, &names, nth).await {
                // Another task has removed it.
                Err(HostError::NotFound(_)) => continue,
                stat => stat?,
            };
            let path = joined(&path, &names[nth]);
            let below = match below.is_empty() {
                true => names[nth].to_string(),
                false => joined(&below, &names[nth]),
            };
            match stat.directory {
                true => inside.push((path, below)),
                false => visitor.file(&path, &below, stat.len).await?,
            }
        }
        left.extend(inside.into_iter().rev());
    }
    Ok(())
}

/// Copies a tree to another place.
struct Copier<'a, H: Host> {
    host: &'a H,
    /// The path of the root's copy.
    to: String,
    buffer: H::Buf,
    bytes: u64,
    files: u64,
}

impl<H: Host> Copier<'_, H> {
    /// Returns the path of the copy of what lies `below` the root.
    fn copy_of(&self, below: &str) -> String {
        match below {
            "" => self.to.clone(),
            below => joined(&self.to, below),
        }
    }
}

impl<H: Host> Visitor<H> for Copier<'_, H> {
    /// Makes the directory; one that exists is used.
    async fn directory(&mut self, _: &str, below: &str) -> HostResult<()> {
        match self.host.mkdir(&self.copy_of(below)).await {
            Err(HostError::Exists(_)) => Ok(()),
            made => made,
        }
    }

    /// Copies a file.
    async fn file(&mut self, path: &str, below: &str, _: u64) -> HostResult<()> {
        let to = self.copy_of(below);
        self.bytes += copy_file(self.host, path, &to, &mut self.buffer).await?;
        self.files += 1;
        Ok(())
    }
}

/// Copies the trees `sources` to `to`, into it if it is a directory, and returns bytes and files.
pub(super) async fn copy_trees<H: Host>(
    host: &H,
    sources: &[String],
    to: &str,
    contents_of_slash: bool,
) -> HostResult<(u64, u64)> {
    let there = is_directory(host, to).await?;
    let to = to.trim_end_matches('/');
    let (mut bytes, mut files) = (0, 0);
    for source in sources {
        let plain = source.trim_end_matches('/');
        let name = plain.rsplit('/').next().unwrap_or(plain);
        let contents = contents_of_slash && source.ends_with('/');
        // rsync makes DEST and puts a source without a slash into it; cp names the copy DEST.
        let into = !contents && (there || contents_of_slash || sources.len() > 1);
        let mut copier = Copier {
            host,
            to: if into {
                joined(to, name)
            } else {
                to.to_owned()
            },
            buffer: host.buffer(BUFFER),
            bytes: 0,
            files: 0,
        };
        if into && !there {
            match host.mkdir(to).await {
                Ok(()) | Err(HostError::Exists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        walk(host, plain, &mut copier).await?;
        bytes += copier.bytes;
        files += copier.files;
    }
    Ok((bytes, files))
}

/// Reports the bytes and files of a program that took so many nanoseconds.
fn report((bytes, files): (u64, u64), ns: u64, names: [&str; 3]) -> Report {
    let [amount, rate, number] = names;
    let mut report = copy::report(bytes, ns, [amount, rate]);
    report
        .metrics
        .push((number.to_owned(), "files", files as f64));
    report
}

/// `rsync -a` between two places of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rsync {
    sources: Vec<String>,
    to: String,
}

impl Task for Rsync {
    const NAME: &'static str = "rsync";

    /// Copies the trees.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        let copied = copy_trees(host, &self.sources, &self.to, true).await?;
        let names = ["rsync_bytes", "rsync_rate", "rsync_files"];
        Ok(report(copied, host.now() - begun, names))
    }
}

impl Program for Rsync {
    const USAGE: &'static str = RSYNC;

    const METRICS: &'static [Metric] = &[
        Metric::new("rsync_bytes", "bytes", "Bytes that rsync copied."),
        Metric::new(
            "rsync_rate",
            "bytes/s",
            "Bytes that rsync copied per second.",
        ),
        Metric::new("rsync_files", "files", "Files that rsync copied."),
    ];

    /// Parses `-a` or `-r`, with letters that change nothing here, and the paths.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let options = operands
            .iter()
            .take_while(|w| w.text.starts_with('-'))
            .count();
        let (options, rest) = operands.split_at(options);
        let mut recursive = false;
        for option in options {
            let letters = option.text.trim_start_matches('-');
            let long = option.text.starts_with("--");
            let known = match long {
                true => [
                    "archive",
                    "recursive",
                    "verbose",
                    "progress",
                    "stats",
                    "quiet",
                ]
                .contains(&letters),
                false => {
                    !letters.is_empty() && letters.chars().all(|c| "arvhqPtpogDlHAX".contains(c))
                }
            };
            if !known {
                let what = format!("`{}` is not an option here", option.text);
                return Err(CommandError::new(option.span.clone(), what, RSYNC));
            }
            recursive |= match long {
                true => letters.starts_with('a') || letters == "recursive",
                false => letters.contains(['a', 'r']),
            };
        }
        let mut sources = paths(rest, RSYNC)?;
        if !recursive || sources.len() < 2 {
            let what = match recursive {
                true => "rsync has too few paths",
                false => "rsync has no `-a`, and copies no directories without it",
            };
            return Err(CommandError::new(name.span.clone(), what, RSYNC));
        }
        if let Some(remote) = rest.iter().find(|w| w.text.contains(':')) {
            let what = format!("`{}` is on another machine", remote.text);
            return Err(CommandError::new(remote.span.clone(), what, RSYNC));
        }
        let to = sources.pop().expect("there are two");
        Ok(Self { sources, to })
    }

    fn needs(&self) -> &[String] {
        &self.sources
    }

    fn copies_trees(&self) -> bool {
        true
    }
}

/// `tar c` with the archive and the paths that go into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tar {
    archive: String,
    sources: Vec<String>,
}

/// Writes an archive.
struct Archiver<'a, H: Host> {
    host: &'a H,
    /// The archive; `None`: GNU tar knows that /dev/null keeps nothing, and reads no contents.
    to: Option<Fd>,
    buffer: H::Buf,
    /// Bytes of the record that is not written yet.
    filled: u64,
    bytes: u64,
    files: u64,
}

impl<H: Host> Archiver<'_, H> {
    /// Adds bytes to the archive and writes the records that are full.
    async fn add(&mut self, bytes: u64) -> HostResult<()> {
        self.bytes += bytes;
        self.filled += bytes;
        while self.filled >= RECORD {
            if let Some(to) = self.to {
                let mut written = 0;
                while written < RECORD {
                    written += self.host.write(to, &self.buffer, RECORD - written).await?;
                }
            }
            self.filled -= RECORD;
        }
        Ok(())
    }

    /// Writes the two empty blocks at the end, and fills the last record.
    async fn end(&mut self) -> HostResult<()> {
        self.add(2 * BLOCK).await?;
        let rest = (RECORD - self.filled) % RECORD;
        self.add(rest).await
    }
}

impl<H: Host> Visitor<H> for Archiver<'_, H> {
    /// Adds the header of a directory.
    async fn directory(&mut self, _: &str, _: &str) -> HostResult<()> {
        self.add(BLOCK).await
    }

    /// Adds a file: its header, its contents and what fills the last block.
    async fn file(&mut self, path: &str, _: &str, len: u64) -> HostResult<()> {
        self.add(BLOCK).await?;
        self.files += 1;
        if self.to.is_none() {
            return self.add(len.next_multiple_of(BLOCK)).await;
        }
        let from = open_to_read(self.host, path).await?;
        let mut read = 0;
        let result = loop {
            let got = match self.host.read(from, &mut self.buffer, RECORD).await {
                Ok(0) => break Ok(()),
                Ok(got) => got,
                Err(error) => break Err(error),
            };
            read += got;
            if let Err(error) = self.add(got).await {
                break Err(error);
            }
        };
        let closed = self.host.close(from).await;
        result?;
        closed?;
        self.add(read.next_multiple_of(BLOCK) - read).await
    }
}

impl Task for Tar {
    const NAME: &'static str = "tar";

    /// Writes the archive.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        let flags = OpenFlags {
            write: true,
            create: true,
            truncate: true,
            ..OpenFlags::default()
        };
        let to = match self.archive.as_str() {
            "/dev/null" => None,
            "-" => Some(
                host.open(
                    "/dev/null",
                    OpenFlags {
                        create: false,
                        truncate: false,
                        ..flags
                    },
                )
                .await?,
            ),
            archive => Some(host.open(archive, flags).await?),
        };
        let mut archiver = Archiver {
            host,
            to,
            buffer: host.buffer(RECORD),
            filled: 0,
            bytes: 0,
            files: 0,
        };
        for source in &self.sources {
            walk(host, source.trim_end_matches('/'), &mut archiver).await?;
        }
        archiver.end().await?;
        let sums = (archiver.bytes, archiver.files);
        if let Some(to) = to {
            host.close(to).await?;
        }
        Ok(report(
            sums,
            host.now() - begun,
            ["tar_bytes", "tar_rate", "tar_files"],
        ))
    }
}

impl Program for Tar {
    const USAGE: &'static str = TAR;

    const METRICS: &'static [Metric] = &[
        Metric::new(
            "tar_bytes",
            "bytes",
            "Bytes of the archives that tar wrote.",
        ),
        Metric::new("tar_rate", "bytes/s", "Bytes that tar wrote per second."),
        Metric::new("tar_files", "files", "Files that tar put into archives."),
    ];

    /// Parses `cf`, with or without a dash, the archive and the paths.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let wrong = |word: &Word, what: String| CommandError::new(word.span.clone(), what, TAR);
        let Some((option, rest)) = operands.split_first() else {
            return Err(wrong(name, "tar has no operands".into()));
        };
        let letters = option.text.trim_start_matches('-');
        if letters.contains('x') || letters.contains('t') {
            let what = "reading an archive is not modelled: contents are not kept".into();
            return Err(wrong(option, what));
        }
        if letters.contains(['z', 'j', 'J', 'a']) || option.text.starts_with("--") {
            let what = format!(
                "`{}`: compression and long options are not modelled",
                option.text
            );
            return Err(wrong(option, what));
        }
        let known = letters.chars().all(|c| "cfvpS".contains(c));
        if !known || !letters.contains('c') || !letters.contains('f') {
            return Err(wrong(
                option,
                format!("`{}` is not an option here", option.text),
            ));
        }
        let Some((archive, rest)) = rest.split_first().filter(|(a, _)| !a.text.is_empty()) else {
            return Err(wrong(option, "tar has no archive".into()));
        };
        let sources = paths(rest, TAR)?;
        if sources.is_empty() {
            return Err(wrong(name, "tar has no path".into()));
        }
        Ok(Self {
            archive: archive.text.clone(),
            sources,
        })
    }

    fn files(&self) -> u64 {
        1
    }

    fn needs(&self) -> &[String] {
        &self.sources
    }
}

#[cfg(test)]
mod tests {
    use crate::script::parse;

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("rsync a b", "rsync"),
            ("rsync -a a", "rsync"),
            ("rsync -az a b", "-az"),
            ("rsync -a a host:b", "host:b"),
            ("tar", "tar"),
            ("tar xf a", "xf"),
            ("tar czf a b", "czf"),
            ("tar c a", "c"),
            ("tar cf", "cf"),
            ("tar cf a", "tar"),
            ("cp -x a b", "-x"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
        for line in [
            "rsync -a a/ b",
            "rsync -rv --progress a b",
            "tar -cf a b c",
            "tar cvf - b",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    /// A copy of a tree may make as many files as there are.
    #[test]
    fn copies_of_trees_count_their_files() {
        let made = |line: &str| parse(line).unwrap().files_made();
        let plain = made("fs_mark -d a -n 10 -s 4096 -k -t 1 -L 1");
        assert_eq!(
            made("fs_mark -d a -n 10 -s 4096 -k -t 1 -L 1; cp -r a b"),
            2 * plain
        );
        assert_eq!(
            made("fs_mark -d a -n 10 -s 4096 -k -t 1 -L 1; tar cf b a"),
            plain + 1
        );
    }
}
