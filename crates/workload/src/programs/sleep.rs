//! GNU sleep: `sleep NUMBER[smhd]…` waits for the sum of its operands.
//!
//! Unlike in coreutils, numbers are decimal and finite: at most 9 digits before the point and nine
//! behind it.

use crate::error::CommandError;
use crate::host::{Host, HostResult, Task};
use crate::program::Program;
use crate::report::Report;
use crate::session::Session;
use crate::shell::Word;
use crate::units;

const ACCEPTED: &str =
    "sleep NUMBER[s|m|h|d] …, with at most 9 digits before and after the decimal point";

/// sleep with its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep {
    /// The time in nanoseconds.
    pub ns: u64,
}

impl Task for Sleep {
    const NAME: &'static str = "sleep";

    /// Sleeps for the time; the report is empty.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        host.sleep(self.ns).await;
        Ok(Report::default())
    }
}

impl Program for Sleep {
    const USAGE: &'static str = ACCEPTED;

    /// Parses the operands into the sum of their times.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        if operands.is_empty() {
            let what = "sleep has no operand";
            return Err(CommandError::new(name.span.clone(), what, ACCEPTED));
        }
        let mut ns = 0_u64;
        for word in operands {
            let part = nanoseconds(&word.text).and_then(|part| ns.checked_add(part));
            ns = part.ok_or_else(|| {
                let what = format!("`{}` is not a time to sleep", word.text);
                CommandError::new(word.span.clone(), what, ACCEPTED)
            })?;
        }
        Ok(Self { ns })
    }
}

/// Parses a number of seconds, minutes, hours or days (no suffix: seconds) into nanoseconds; `None`
/// if the text is no such time or too long.
fn nanoseconds(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b's' => (&text[..text.len() - 1], 1),
        b'm' => (&text[..text.len() - 1], 60),
        b'h' => (&text[..text.len() - 1], 3600),
        b'd' => (&text[..text.len() - 1], 86_400),
        _ => (text, 1),
    };
    // Nine digits behind the point are nanoseconds.
    units::decimal(number, 9)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use crate::programs::Command;
    use crate::script::{Step, parse};

    fn ns(line: &str) -> u64 {
        match &parse(line).unwrap_or_else(|e| panic!("{line}: {e}")).steps[0] {
            Step::Foreground(p) => match p.commands[0] {
                Command::Sleep(s) => s.ns,
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_add_up() {
        assert_eq!(ns("sleep 5"), 5_000_000_000);
        assert_eq!(ns("sleep 1m 0.5 .25s 2."), 62_750_000_000);
        assert_eq!(ns("sleep 1d 1h"), 90_000_000_000_000);
        assert_eq!(ns("sleep 0.000000001"), 1);
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("sleep", "sleep"),
            ("sleep -1", "-1"),
            ("sleep 1 x", "x"),
            ("sleep .", "."),
            ("sleep s", "s"),
            ("sleep ''", "''"),
            ("sleep 1e3", "1e3"),
            ("sleep infinity", "infinity"),
            ("sleep 1.2.3", "1.2.3"),
            ("sleep 1.0000000001", "1.0000000001"),
            ("sleep 999999999d", "999999999d"),
            ("sleep 0é", "0é"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
            assert!(!e.accepted.is_empty());
        }
    }
}
