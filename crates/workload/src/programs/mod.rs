//! The programs of scripts: one file each, one line each in the table below.

pub mod bound;
pub mod burst;
pub mod cgexec;
pub mod copy;
pub mod dd;
pub mod desktop;
pub mod drop_caches;
pub mod fs_mark;
pub mod mapped_file_stream;
pub mod memhog;
pub mod mmap_strm;
pub mod simoop;
pub mod sleep;
pub mod stress;
pub mod sync;
pub mod tiobench;
pub mod tree;
pub mod tree_copy;
pub mod truncate;
pub mod umount;

use crate::error::CommandError;
use crate::host::{Cpus, Host, HostResult, Task};
use crate::program::{ExistingFile, Program};
use crate::report::{Figures, Medians, Metric, Report};
use crate::session::Session;
use crate::shell::Word;

/// Makes [`Command`], which is any of the programs, and the functions that ask all of them.
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

        /// The description of each program.
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

            /// Returns the name of the program that this command runs.
            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(program) => program.name(),)+
                }
            }

            /// Runs the program with its options.
            async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
                match self {
                    $(Self::$variant(program) => program.run(host, session).await,)+
                }
            }
        }

        impl Program for Command {
            const USAGE: &'static str = "PROGRAM …";

            /// Finds the program that `name` names and lets it parse its operands. Programs without
            /// a usage can't be named in a line.
            fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
                // Accept `./fs_mark`, the form in which published lines call it from its folder.
                let plain = name.text.strip_prefix("./").unwrap_or(&name.text);
                $(
                    if plain == <$program>::NAME && !<$program>::USAGE.is_empty() {
                        return <$program>::parse(name, operands).map(Self::$variant);
                    }
                )+
                let instead = instead_of(plain).map(|near| format!("{near}; all programs: "));
                Err(CommandError::new(
                    name.span.clone(),
                    format!("unknown program `{}`", name.text),
                    format!("{}{}, wait", instead.unwrap_or_default(), names()),
                ))
            }

            programs!(ask program -> &'static str: $($variant)+);
            programs!(ask children -> u64: $($variant)+);
            programs!(ask files -> u64: $($variant)+);
            programs!(ask copies_trees -> bool: $($variant)+);
            programs!(ask existing_files -> Vec<ExistingFile>: $($variant)+);
            programs!(ask existing_directories -> Vec<String>: $($variant)+);
            programs!(ask needs -> &[String]: $($variant)+);
            programs!(ask endless -> bool: $($variant)+);
            programs!(ask cpus -> Option<Cpus>: $($variant)+);
            programs!(ask group -> Option<&str>: $($variant)+);
            programs!(ask recorded_ns -> Option<u64>: $($variant)+);

            /// Returns the command with bursts of `factor` times the memory; `None` if its program
            /// makes no bursts.
            fn with_bursts(&self, factor: f64) -> Option<Self> {
                match self {
                    $(Self::$variant(program) => program.with_bursts(factor).map(Self::$variant),)+
                }
            }

            /// Adds the program's shared state to the session.
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
    Cat = copy::Cat,
    Cgexec = cgexec::Cgexec<Command>,
    Cp = copy::Cp,
    Dd = dd::Dd,
    Desktop = desktop::Desktop,
    DropCaches = drop_caches::DropCaches,
    Find = tree::Find,
    Fio = crate::fio::Worker,
    FsMark = fs_mark::FsMark,
    MappedFileStream = mapped_file_stream::MappedFileStream,
    Memhog = memhog::Memhog,
    MmapStrm = mmap_strm::MmapStrm,
    Numactl = bound::Numactl<Command>,
    Replay = crate::recorded::Lane,
    Rm = tree::Rm,
    Rsync = tree_copy::Rsync,
    Simoop = simoop::Simoop,
    Sleep = sleep::Sleep,
    StressNg = stress::StressNg,
    Sync = sync::Sync,
    Tar = tree_copy::Tar,
    Taskset = bound::Taskset<Command>,
    Tiobench = tiobench::Tiobench,
    Truncate = truncate::Truncate,
    Umount = umount::Umount,
    Usemem = stress::Usemem,
}

/// Returns what to write for a program that people know and that is none of ours: the nearest
/// command line that is. `None` if there is none.
fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "grep" | "less" | "md5sum" | "sha256sum" | "tail" | "vmtouch" | "wc" => {
            "cat FILE reads a whole file"
        }
        "scp" | "install" | "mv" => "cp FILE … DEST copies files, cp -r trees of them",
        "fallocate" | "mkfile" => "truncate -s SIZE FILE makes a hole, dd writes data",
        "du" | "ls" | "locate" | "updatedb" => "find PATH visits every name",
        "stress" | "memtester" => {
            "stress-ng --vm N --vm-bytes SIZE -t TIME, or memhog SIZE, fill anonymous memory"
        }
        "ioping" | "iozone" | "bonnie++" | "filebench" => {
            "a fio job (`lowmark run --fio FILE`), tiobench, fs_mark"
        }
        "bash" | "sh" => "the commands themselves, without `-c`",
        "timeout" => "a program's own limit (fio runtime, fs_mark -t, burst -n), or `time_limit_s`",
        "echo" | "true" | ":" => "sleep 0; or `echo 3 > /proc/sys/vm/drop_caches`",
        "mount" | "mkfs" => "a disk with `mount` in the machine",
        "sysctl" => "`[machine.sysctl]`, or [[at]] during the run; here vm.drop_caches alone",
        _ => return None,
    })
}

/// The description of a program, independent of its options.
struct About {
    name: &'static str,
    usage: &'static str,
    metrics: &'static [Metric],
    medians: Option<Medians>,
    summary: fn(Figures<'_>) -> Option<String>,
}

/// Returns the names of the programs that a command line can run, in the order of the table.
pub fn named() -> impl Iterator<Item = &'static str> {
    let named = ALL.iter().filter(|about| !about.usage.is_empty());
    named.map(|about| about.name)
}

/// Returns the programs that a command line can run, each with its usage.
pub fn usages() -> impl Iterator<Item = (&'static str, &'static str)> {
    let named = ALL.iter().filter(|about| !about.usage.is_empty());
    named.map(|about| (about.name, about.usage))
}

/// Returns the names of [`named`], joined by commas.
pub fn names() -> String {
    named().collect::<Vec<_>>().join(", ")
}

/// Returns the metrics of all programs, in the order of the table. Metrics of one name differ in
/// their texts.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    ALL.iter().flat_map(|about| about.metrics)
}

/// Returns the tables of the programs' figures for comparisons.
pub fn medians() -> impl Iterator<Item = Medians> {
    ALL.iter().filter_map(|about| about.medians)
}

/// Returns the programs' own summaries of a run: each one's name, and its text. `figure` looks up
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
    fn an_unknown_program_names_the_nearest() {
        let e = crate::script::parse("stress --vm 2").unwrap_err();
        assert!(e.accepted.starts_with("stress-ng --vm N "), "{e:?}");
        let e = crate::script::parse("frobnicate").unwrap_err();
        assert!(e.accepted.starts_with(names().as_str()), "{e:?}");
        assert!(named().all(|name| instead_of(name).is_none()));
    }

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
