//! `truncate -s SIZE FILE…` of coreutils: sets the length of files, which are made if they are
//! missing. A longer file ends with a hole, whose pages are read as zeros without the disk.

use crate::error::CommandError;
use crate::host::{Host, HostResult, OpenFlags, Task};
use crate::options::{Style, Syntax};
use crate::program::Program;
use crate::report::Report;
use crate::session::Session;
use crate::shell::Word;
use crate::units::Suffixes;

/// coreutils' suffixes that are powers of 1024.
const SUFFIXES: Suffixes = &[
    ("", 1),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

const USAGE: &str = "truncate -s SIZE[K|M|G|T] FILE …";

const OPTIONS: Syntax = Syntax {
    values: &[("-s", "--size")],
    unknown: "truncate has no option `{option}` here",
    operand: "",
    ..Syntax::new(Style::Inline, USAGE)
};

/// `truncate` with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncate {
    /// The new length in bytes.
    len: u64,
    files: Vec<String>,
}

impl Task for Truncate {
    const NAME: &'static str = "truncate";

    /// Opens each file, sets its length and closes it.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let flags = OpenFlags {
            write: true,
            create: true,
            ..OpenFlags::default()
        };
        for path in &self.files {
            let fd = host.open(path, flags).await?;
            let cut = host.truncate(fd, self.len).await;
            let closed = host.close(fd).await;
            cut.and(closed)?;
        }
        Ok(Report::default())
    }
}

impl Program for Truncate {
    const USAGE: &'static str = USAGE;

    /// Parses `-s SIZE` and the files, of which there is at least one.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let (mut len, mut files) = (None, Vec::new());
        for value in OPTIONS.read(operands) {
            let value = value?;
            match value.option {
                "-s" => len = Some(value.scaled(SUFFIXES, 0..=1 << 50)?),
                _ => files.push(value.text.to_owned()),
            }
        }
        let lacks = |what: &str| {
            let what = format!("{} has no {what}", name.text);
            CommandError::new(name.span.clone(), what, USAGE)
        };
        let len = len.ok_or_else(|| lacks("size"))?;
        match files.iter().all(String::is_empty) {
            true => Err(lacks("file")),
            false => Ok(Self { len, files }),
        }
    }

    fn files(&self) -> u64 {
        self.files.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use crate::host::Task;
    use crate::script::{Step, parse};
    use crate::testing::{MemoryHost, block_on};

    #[test]
    fn files_get_the_length_and_are_made() {
        let script = parse("truncate -s 1K a b").unwrap();
        let [Step::Foreground(process)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        let host = MemoryHost::default();
        host.put("a", &[7; 5000]);
        block_on(process.commands[0].run(&host, &script.session())).unwrap();
        assert_eq!(host.contents("a"), [7; 1024]);
        assert_eq!(host.contents("b"), [0; 1024]);
        assert_eq!(host.open_files(), 0);
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("truncate", "truncate"),
            ("truncate -s 1K", "truncate"),
            ("truncate a", "truncate"),
            ("truncate -s +1K a", "+1K"),
            ("truncate -c -s 1K a", "-c"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
        assert!(parse("truncate --size=2G a").is_ok());
    }
}
