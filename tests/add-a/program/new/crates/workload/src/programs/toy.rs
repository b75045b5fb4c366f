//! An example of a program: the processes of `toy [-n COUNT]` make a file each and end.

use crate::error::CommandError;
use crate::host::{Host, HostResult, OpenFlags, Task};
use crate::options::{Style, Syntax};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

const USAGE: &str = "toy [-n COUNT]; COUNT is 1 to 16";

const OPTIONS: Syntax = Syntax {
    values: &[("-n", "-n")],
    unknown: "`{option}` is no option of toy",
    ..Syntax::new(Style::Words, USAGE)
};

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toy {
    /// `-n`: the number of processes.
    pub count: u64,
}

/// One of the program's processes.
struct Child {
    nth: u64,
}

impl Task for Toy {
    const NAME: &'static str = "toy";

    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let children: Vec<Child> = (0..self.count).map(|nth| Child { nth }).collect();
        let files = host.fork(children).await?.len();
        Ok(Report {
            metrics: vec![("toy_files".into(), "files", files as f64)],
        })
    }
}

impl Program for Toy {
    const USAGE: &'static str = USAGE;

    const METRICS: &'static [Metric] = &[Metric::new(
        "toy_files",
        "files",
        "Files that the toy has made.",
    )];

    fn parse(_: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let mut count = 1;
        for value in OPTIONS.read(operands) {
            count = value?.number(1..=16)?;
        }
        Ok(Self { count })
    }

    fn children(&self) -> u64 {
        self.count
    }

    fn files(&self) -> u64 {
        self.count
    }
}

impl Task for Child {
    const NAME: &'static str = Toy::NAME;

    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let path = format!("toy.{}", self.nth);
        let fd = host.open(&path, OpenFlags::EMPTY_FILE).await?;
        host.close(fd).await?;
        Ok(Report::default())
    }
}
