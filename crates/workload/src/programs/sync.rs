//! `sync` of coreutils without operands: calls sync(2), which returns when all data that was dirty
//! at its start is on the devices, and measures its duration.

use crate::error::CommandError;
use crate::host::{Host, HostResult, Task};
use crate::program::Program;
use crate::report::{Metric, Report};
use crate::session::Session;
use crate::shell::Word;

const ACCEPTED: &str = "sync without operands, which writes back every filesystem";

/// sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sync;

impl Task for Sync {
    const NAME: &'static str = "sync";

    /// Calls sync(2) and returns its duration in seconds as `sync_time`.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let begun = host.now();
        host.sync_all().await?;
        let seconds = (host.now() - begun) as f64 / 1e9;
        Ok(Report {
            metrics: vec![("sync_time".to_owned(), "s", seconds)],
        })
    }
}

impl Program for Sync {
    const USAGE: &'static str = ACCEPTED;

    const METRICS: &'static [Metric] = &[Metric::new(
        "sync_time",
        "s",
        "Duration of sync: until all data that was dirty at its start was on the devices.",
    )];

    /// Accepts no operand: `sync` always writes back every filesystem.
    fn parse(_: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        match operands {
            [] => Ok(Self),
            [first, ..] => {
                let what = format!("`{}` is an operand of sync", first.text);
                Err(CommandError::new(first.span.clone(), what, ACCEPTED))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::host::Task;
    use crate::script::{Step, parse};
    use crate::testing::{MemoryHost, block_on};

    #[test]
    fn it_is_one_call_and_says_how_long_it_took() {
        let script = parse("sync").unwrap();
        let [Step::Foreground(process)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        let host = MemoryHost::default();
        let session = script.session();
        let report = block_on(process.commands[0].run(&host, &session)).unwrap();
        assert_eq!(*host.calls.borrow(), ["sync"]);
        assert_eq!(report.metrics[0].0, "sync_time");
        let e = parse("sync /mnt").unwrap_err();
        assert_eq!(e.span, 5..9);
    }
}
