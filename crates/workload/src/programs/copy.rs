//! Copies whole files: `cat FILE…` and `cp FILE… DEST` of coreutils.
//!
//! Both announce sequential reading (posix_fadvise(2)) and go through a buffer of 128 KiB, the
//! least that coreutils 8 and 9 use for either. `cat` writes to /dev/null, where a script's output
//! goes. `cp` makes its destination anew or cuts it to zero length; if that is a directory the
//! copies lie in it. From 9.0 on GNU cp first asks for copy_file_range(2), which shares blocks on
//! btrfs and xfs; here every byte is read and written, as with `--reflink=never`.

use super::tree_copy::copy_trees;
use crate::error::CommandError;
use crate::host::{Advice, Fd, Host, HostError, HostResult, OpenFlags, Task, joined};
use crate::options::paths;
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

/// Bytes of a read, and of a write.
pub(super) const BUFFER: u64 = 128 << 10;

const CAT: &str = "cat FILE …";
const CP: &str = "cp [-r] FILE … DEST, where DEST is a file, or a directory for several files";

/// `cat` with the files that it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cat {
    files: Vec<String>,
}

/// `cp` with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cp {
    sources: Vec<String>,
    to: String,
    /// Whether directories are copied with everything in them.
    recursive: bool,
}

/// Returns the operands as paths, of which there are at least `least`.
fn at_least(
    least: usize,
    name: &Word,
    operands: &[Word],
    usage: &str,
) -> Result<Vec<String>, CommandError> {
    let paths = paths(operands, usage)?;
    if paths.len() < least {
        let what = format!("{} has too few operands", name.text);
        return Err(CommandError::new(name.span.clone(), what, usage));
    }
    Ok(paths)
}

/// Opens a file that is read from its start to its end, and says so to the kernel.
pub(super) async fn open_to_read<H: Host>(host: &H, path: &str) -> HostResult<Fd> {
    let flags = OpenFlags {
        read: true,
        ..OpenFlags::default()
    };
    let fd = host.open(path, flags).await?;
    match host.fadvise(fd, Advice::Sequential).await {
        // Advice is no promise, and some hosts take none.
        Ok(()) | Err(HostError::Unsupported(_)) => Ok(fd),
        Err(error) => {
            // The first error is the one to report.
            let _ = host.close(fd).await;
            Err(error)
        }
    }
}

/// Reads an open file to its end and writes what it reads to `to`. Returns the number of bytes.
async fn transfer<H: Host>(host: &H, from: Fd, to: Fd, buffer: &mut H::Buf) -> HostResult<u64> {
    let mut copied = 0;
    loop {
        let got = host.read(from, buffer, BUFFER).await?;
        if got == 0 {
            return Ok(copied);
        }
        let mut written = host.write(to, buffer, got).await?;
        // A short write is followed by one of the rest, which has no contents of its own here.
        while written < got {
            written += host.write(to, buffer, got - written).await?;
        }
        copied += got;
    }
}

/// Copies the file `path` to `to`, which is open, and closes the file.
async fn copy_to<H: Host>(host: &H, path: &str, to: Fd, buffer: &mut H::Buf) -> HostResult<u64> {
    let from = open_to_read(host, path).await?;
    let copied = transfer(host, from, to, buffer).await;
    let closed = host.close(from).await;
    let copied = copied?;
    closed.map(|()| copied)
}

/// Copies the file `from` to the path `to`, which is made anew or cut to zero length, and returns
/// its bytes.
pub(super) async fn copy_file<H: Host>(
    host: &H,
    from: &str,
    to: &str,
    buffer: &mut H::Buf,
) -> HostResult<u64> {
    let flags = OpenFlags {
        write: true,
        create: true,
        truncate: true,
        ..OpenFlags::default()
    };
    let to = host.open(to, flags).await?;
    let copied = copy_to(host, from, to, buffer).await;
    let closed = host.close(to).await;
    let copied = copied?;
    closed.map(|()| copied)
}

/// Returns true if `path` is a directory; false if it is a file, or does not exist.
pub(super) async fn is_directory<H: Host>(host: &H, path: &str) -> HostResult<bool> {
    match host.stat(path).await {
        Ok(stat) => Ok(stat.directory),
        Err(HostError::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reports the bytes of a program that took so many nanoseconds.
pub(super) fn report(bytes: u64, ns: u64, [amount, rate]: [&str; 2]) -> Report {
    Report::of_amount(bytes as f64, ns, [(amount, "bytes"), (rate, "bytes/s")])
}

impl Task for Cat {
    const NAME: &'static str = "cat";

    /// Reads the files one after the other.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        let output = OpenFlags {
            write: true,
            ..OpenFlags::default()
        };
        let to = host.open("/dev/null", output).await?;
        let mut buffer = host.buffer(BUFFER);
        let mut bytes = 0;
        for path in &self.files {
            bytes += copy_to(host, path, to, &mut buffer).await?;
        }
        host.close(to).await?;
        Ok(report(bytes, host.now() - begun, ["cat_bytes", "cat_rate"]))
    }
}

impl Program for Cat {
    const USAGE: &'static str = CAT;

    const METRICS: &'static [Metric] = &[
        Metric::new("cat_bytes", "bytes", "Bytes that cat read."),
        Metric::new("cat_rate", "bytes/s", "Bytes that cat read per second."),
    ];

    /// Parses the operands, all of which are files; at least one is required.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let files = at_least(1, name, operands, CAT)?;
        Ok(Self { files })
    }

    fn needs(&self) -> &[String] {
        &self.files
    }
}

impl Cp {
    /// Returns the path of the copy of `source`: the destination, or a name in it if it is a
    /// directory.
    fn copy_of(&self, source: &str, into: bool) -> String {
        let name = source.trim_end_matches('/').rsplit('/').next();
        match (into, name) {
            (true, Some(name)) => joined(self.to.trim_end_matches('/'), name),
            _ => self.to.clone(),
        }
    }

    /// Copies one file and returns its bytes.
    async fn copy<H: Host>(
        &self,
        host: &H,
        source: &str,
        into: bool,
        buffer: &mut H::Buf,
    ) -> HostResult<u64> {
        if host.stat(source).await?.directory {
            return Err(HostError::IsDirectory(source.to_owned()));
        }
        copy_file(host, source, &self.copy_of(source, into), buffer).await
    }
}

impl Task for Cp {
    const NAME: &'static str = "cp";

    /// Copies the files one after the other.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        if self.recursive {
            let (bytes, _) = copy_trees(host, &self.sources, &self.to, false).await?;
            return Ok(report(bytes, host.now() - begun, ["cp_bytes", "cp_rate"]));
        }
        let into = is_directory(host, &self.to).await?;
        if self.sources.len() > 1 && !into {
            return Err(HostError::NotFound(self.to.clone()));
        }
        let mut buffer = host.buffer(BUFFER);
        let mut bytes = 0;
        for source in &self.sources {
            bytes += self.copy(host, source, into, &mut buffer).await?;
        }
        Ok(report(bytes, host.now() - begun, ["cp_bytes", "cp_rate"]))
    }
}

impl Program for Cp {
    const USAGE: &'static str = CP;

    const METRICS: &'static [Metric] = &[
        Metric::new("cp_bytes", "bytes", "Bytes that cp copied."),
        Metric::new("cp_rate", "bytes/s", "Bytes that cp copied per second."),
    ];

    /// Parses `-r`, `-R` or `-a`, alone or with letters that change nothing here, then files and
    /// the destination.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let known = |w: &&Word| {
            let letters = w.text.strip_prefix('-').unwrap_or("");
            !letters.is_empty() && letters.chars().all(|c| "rRapvfd".contains(c))
        };
        let options = operands.iter().take_while(known).count();
        let (options, operands) = operands.split_at(options);
        let recursive = options.iter().any(|w| w.text.contains(['r', 'R', 'a']));
        let mut sources = at_least(2, name, operands, CP)?;
        let to = sources.pop().expect("there are two");
        if let Some(same) = sources.iter().position(|source| *source == to) {
            let what = format!("`{to}` would be copied onto itself");
            return Err(CommandError::new(operands[same].span.clone(), what, CP));
        }
        Ok(Self {
            sources,
            to,
            recursive,
        })
    }

    fn files(&self) -> u64 {
        match self.recursive {
            true => 0,
            false => self.sources.len() as u64,
        }
    }

    fn copies_trees(&self) -> bool {
        self.recursive
    }

    fn needs(&self) -> &[String] {
        &self.sources
    }
}

#[cfg(test)]
mod tests {
    use crate::host::Task;
    use crate::script::{Step, parse};
    use crate::testing::{MemoryHost, block_on};

    /// Runs the one program of a line on a host with a file `a` of 300,000 bytes. Returns the
    /// report's first figure and the host.
    fn run(line: &str) -> (f64, MemoryHost) {
        let script = parse(line).unwrap();
        let [Step::Foreground(process)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        let host = MemoryHost::default();
        host.put("a", &vec![7; 300_000]);
        host.longest_write.set(100_000);
        let report = block_on(process.commands[0].run(&host, &script.session())).unwrap();
        (report.metrics[0].2, host)
    }

    #[test]
    fn a_file_is_read_to_its_end() {
        let (bytes, host) = run("cat a a");
        assert_eq!(bytes, 600_000.0);
        let reads = |call: &&String| call.starts_with("read ");
        // Three with contents and the one that finds the end, for each file.
        assert_eq!(host.calls.borrow().iter().filter(reads).count(), 8);
    }

    #[test]
    fn a_copy_has_the_length_of_its_source() {
        let (bytes, host) = run("cp a b");
        assert_eq!(bytes, 300_000.0);
        assert_eq!(host.contents("b").len(), 300_000);
        assert_eq!(host.open_files(), 0);
        assert_eq!(host.count("fadvise a Sequential"), 1);
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("cat", "cat"),
            ("cat -n a", "-n"),
            ("cp a", "cp"),
            ("cp -l a b", "-l"),
            ("cp a a", "a"),
            ("cp a ''", "''"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
        assert!(parse("cat a").unwrap().needs_are_met(&[]).is_err());
    }
}
