//! The programs that scripts run: one file each, one line each in the table below.

pub mod bound;
pub mod burst;
pub mod dd;
pub mod desktop;
pub mod fs_mark;
pub mod mapped_file_stream;
pub mod mmap_strm;
pub mod simoop;
pub mod sleep;
pub mod sync;
pub mod tiobench;
pub mod tree;
pub mod umount;

use crate::error::CommandError;
use crate::host::{Cpus, Host, HostResult, Task};
use crate::program::{ExistingFile, Program};
use crate::report::{Figures, Medians, Metric, Report};
use crate::session::Session;
use crate::shell::Word;

/// Makes [`Command`], which is any of the programs, and what asks all of them.
macro_rules! programs {
    ($($variant:ident = $program:ty,)+) => {
        /// A program with its options: any of those in the table.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Command {
            $(
                #[doc = concat!("[`", stringify!($program), "`].")]
                $variant($program),
            )+
        }

        /// What each program says of itself.
        const ALL: &[About] = &[$(
            About {
                name: <$program>::NAME,
                usage: <$program>::USAGE,
                metrics: <$program>::METRICS,
                medians: <$program>::MEDIANS,
                summary: <$program>::summary,
            },
        )+];

        impl Task for Command {
            const NAME: &'static str = "";

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(program) => program.name(),)+
                }
            }

            async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
                match self {
                    $(Self::$variant(program) => program.run(host, session).await,)+
                }
            }
        }

        impl Program for Command {
            const USAGE: &'static str = "PROGRAM …";

            fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
                // Where the shell's folder has the program, as fs_mark is called in published lines.
                let plain = name.text.strip_prefix("./").unwrap_or(&name.text);
                $(
                    if plain == <$program>::NAME && !<$program>::USAGE.is_empty() {
                        return <$program>::parse(name, operands).map(Self::$variant);
                    }
                )+
                Err(CommandError::new(
                    name.span.clone(),
                    format!("there is no program `{}` here", name.text),
                    format!("{}, wait", names()),
                ))
            }

            programs!(ask program -> &'static str: $($variant)+);
            programs!(ask children -> u64: $($variant)+);
            programs!(ask files -> u64: $($variant)+);
            programs!(ask existing_files -> Vec<ExistingFile>: $($variant)+);
            programs!(ask existing_directories -> Vec<String>: $($variant)+);
            programs!(ask needs -> &[String]: $($variant)+);
            programs!(ask endless -> bool: $($variant)+);
            programs!(ask cpus -> Option<Cpus>: $($variant)+);
            programs!(ask recorded_ns -> Option<u64>: $($variant)+);

            fn with_bursts(&self, factor: f64) -> Option<Self> {
                match self {
                    $(Self::$variant(program) => program.with_bursts(factor).map(Self::$variant),)+
                }
            }

            fn prepare(&self, session: &mut Session) {
                match self {
                    $(Self::$variant(program) => program.prepare(session),)+
                }
            }
        }
    };
    (ask $method:ident -> $answer:ty: $($variant:ident)+) => {
        fn $method(&self) -> $answer {
            match self {
                $(Self::$variant(program) => program.$method(),)+
            }
        }
    };
}

programs! {
    Burst = burst::Burst,
    Dd = dd::Dd,
    Desktop = desktop::Desktop,
    Find = tree::Find,
    Fio = crate::fio::Worker,
    FsMark = fs_mark::FsMark,
    MappedFileStream = mapped_file_stream::MappedFileStream,
    MmapStrm = mmap_strm::MmapStrm,
    Numactl = bound::Numactl<Command>,
    Replay = crate::recorded::Lane,
    Rm = tree::Rm,
    Simoop = simoop::Simoop,
    Sleep = sleep::Sleep,
    Sync = sync::Sync,
    Taskset = bound::Taskset<Command>,
    Tiobench = tiobench::Tiobench,
    Umount = umount::Umount,
}

/// What a program says of itself, whatever its options.
struct About {
    name: &'static str,
    usage: &'static str,
    metrics: &'static [Metric],
    medians: Option<Medians>,
    summary: fn(Figures<'_>) -> Option<String>,
}

/// The names of the programs that a command line can hold, in the order of the table.
pub fn named() -> impl Iterator<Item = &'static str> {
    let named = ALL.iter().filter(|about| !about.usage.is_empty());
    named.map(|about| about.name)
}

/// The programs that a command line can hold, each with its usage.
pub fn usages() -> impl Iterator<Item = (&'static str, &'static str)> {
    let named = ALL.iter().filter(|about| !about.usage.is_empty());
    named.map(|about| (about.name, about.usage))
}

/// The same with commas.
pub fn names() -> String {
    named().collect::<Vec<_>>().join(", ")
}

/// The figures of all programs, in the order of the table; those of one name are told apart by their
/// texts.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    ALL.iter().flat_map(|about| about.metrics)
}

/// The tables that comparisons have of the programs' figures.
pub fn medians() -> impl Iterator<Item = Medians> {
    ALL.iter().filter_map(|about| about.medians)
}

/// What programs say of a run in their own words: each one's name, and what follows it. `figure` gives
/// the run's figures.
pub fn summaries(figure: Figures<'_>) -> impl Iterator<Item = (&'static str, String)> {
    ALL.iter()
        .filter_map(move |about| Some((about.name, (about.summary)(figure)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_program_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = ALL.iter().map(|about| about.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(names.iter().all(|name| !name.is_empty()));
        for about in ALL {
            let figures: BTreeSet<&str> = about.metrics.iter().map(|m| m.name).collect();
            assert_eq!(figures.len(), about.metrics.len(), "{}", about.name);
        }
    }
}
