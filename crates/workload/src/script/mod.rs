//! From a command line to programs that run.
//!
//! The programs Lowmark knows stand in one table, `programs!` below. A new one is a module with a
//! type that has `parse` and `run`, and one line in that table.

use crate::fio;
use crate::host::{Cpus, Host, HostResult};
use crate::programs::bound;
use crate::programs::burst;
use crate::programs::dd;
use crate::programs::desktop;
use crate::programs::fs_mark;
use crate::programs::mapped_file_stream;
use crate::programs::mmap_strm;
use crate::programs::simoop;
use crate::programs::sleep;
use crate::programs::tiobench;
use crate::programs::tree;
use crate::replay;
use crate::session::{Session, Shared};
use crate::shell::{self, AndList, Word};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Why a command line was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; accepted: {accepted}")]
pub struct CommandError {
    /// The part of the line that is at fault, in bytes; always on character boundaries. Empty if
    /// something is missing there.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub accepted: String,
}

impl CommandError {
    pub(crate) fn new(
        span: Range<usize>,
        message: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Self {
        Self {
            span,
            message: message.into(),
            accepted: accepted.into(),
        }
    }
}

/// What a program measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Name, unit and value of each metric, in the order in which to show them.
    pub metrics: Vec<(String, &'static str, f64)>,
}

impl Report {
    /// Adds what another process measured: figures of one name are summed.
    pub(crate) fn add(&mut self, other: Self) {
        for metric in other.metrics {
            match self.metrics.iter_mut().find(|(name, ..)| *name == metric.0) {
                Some((.., sum)) => *sum += metric.2,
                None => self.metrics.push(metric),
            }
        }
    }
}

/// A parsed command line: what a shell would do, step by step.
///
/// A host executes the steps in order. The script ends after its last step; background processes
/// that still run then are stopped.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// The steps; at least one is not [`Step::Background`], so the script does not end at once.
    pub steps: Vec<Step>,
    /// Files that are there before the script starts, on the device and not cached.
    pub files: Vec<ExistingFile>,
    /// Directories that are there before the script starts, parents first. Others, where a file of
    /// `files` lies, are the root under another name.
    pub directories: Vec<String>,
    /// The line that it was read from; empty for what no line made, or what was changed since.
    pub line: String,
    /// What the script's programs share; [`Session::new`] gives it to a run.
    pub shared: Vec<Shared>,
    /// What a reader of the results must know, one sentence each.
    pub notes: Vec<String>,
}

/// A file that is there before a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingFile {
    /// Its path.
    pub path: String,
    /// Its length in bytes.
    pub len: u64,
}

/// One step of a [`Script`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run a process; the next step starts when it has ended, well or not.
    Foreground(Process),
    /// Start a process (`&`) and go on with the next step at once.
    Background(Process),
    /// Go on when every background process started so far has ended (`wait`).
    Wait,
}

/// Programs that run one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// The programs in order (`&&`), at least one. The first that fails ends the process.
    pub commands: Vec<Command>,
}

/// Makes [`Command`] and what chooses among its variants from the table of programs.
macro_rules! programs {
    ($($(#[$doc:meta])* $name:literal => $variant:ident($program:ty),)+) => {
        /// A program with its operands.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Command {
            $($(#[$doc])* $variant($program),)+
            /// Some processes of a trace; made by [`crate::Replay::script`] and not by a shell.
            Replay(replay::Lane),
            /// A process of a fio job, or one of several that keep its queue full; made by
            /// [`fio::Jobs::script`] and not by a shell.
            Fio(fio::Worker),
            /// A process that a mapped-file-stream forks.
            Stream(mapped_file_stream::Stream),
            /// A process that an mmap-strm forks.
            MmapWorker(mmap_strm::Worker),
            /// A process that an fs_mark forks.
            FsMarkProcess(fs_mark::Child),
            /// A thread of a tiobench in one phase.
            TiobenchThread(tiobench::Thread),
            /// A thread of a simoop.
            SimoopThread(simoop::Thread),
        }

        impl Command {
            /// The names of the programs that a command line can hold.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// The program's name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                    Self::Replay(_) => "replay",
                    Self::Fio(_) => "fio",
                    Self::Stream(_) => "mapped-file-stream",
                    Self::MmapWorker(_) => "mmap-strm",
                    Self::FsMarkProcess(_) => "fs_mark",
                    Self::TiobenchThread(_) => "tiobench",
                    Self::SimoopThread(_) => "simoop",
                }
            }

            /// Reads a program's name and its operands.
            pub(crate) fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
                match name.text.as_str() {
                    $($name => <$program>::parse(name, operands).map(Self::$variant),)+
                    other => Err(CommandError::new(
                        name.span.clone(),
                        format!("there is no program `{other}` here"),
                        format!("{}, wait", Self::NAMES.join(", ")),
                    )),
                }
            }

            /// Runs the program to its end.
            ///
            /// # Errors
            /// The first error of the host that the program does not expect.
            pub async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
                match self {
                    $(Self::$variant(program) => program.run(host, session).await.map(Report::from),)+
                    Self::Replay(lane) => lane.run(host, session).await,
                    Self::Fio(worker) => worker.run(host, session).await,
                    Self::Stream(stream) => stream.run(host).await,
                    Self::MmapWorker(worker) => worker.run(host).await,
                    Self::FsMarkProcess(child) => child.run(host).await,
                    Self::TiobenchThread(thread) => thread.run(host).await,
                    Self::SimoopThread(thread) => thread.run(host, session).await,
                }
            }
        }
    };
}

programs! {
    /// burst: takes kernel pages in bursts and measures each allocation.
    "burst" => Burst(burst::Burst),
    /// GNU dd: copies a file record by record.
    "dd" => Dd(dd::Dd),
    /// desktop: an interactive task that measures how long it takes to respond.
    "desktop" => Desktop(desktop::Desktop),
    /// find: walks trees.
    "find" => Find(tree::Find),
    /// fs_mark: creates files in several processes.
    "fs_mark" => FsMark(fs_mark::FsMark),
    /// mapped-file-stream: reads mapped files page by page, in several processes.
    "mapped-file-stream" => MappedFileStream(mapped_file_stream::MappedFileStream),
    /// mmap-strm: streams through mapped memory in several processes.
    "mmap-strm" => MmapStrm(mmap_strm::MmapStrm),
    /// numactl: runs a program on the CPUs of a node.
    "numactl" => Numactl(bound::Bound),
    /// rm -r: removes trees.
    "rm" => Rm(tree::Rm),
    /// simoop: workers that read, write and allocate memory, and threads that burn CPU and walk trees.
    "simoop" => Simoop(simoop::Simoop),
    /// GNU sleep.
    "sleep" => Sleep(sleep::Sleep),
    /// taskset: runs a program on some CPUs.
    "taskset" => Taskset(bound::Bound),
    /// tiobench: threads that write and read files of their own, in four timed phases.
    "tiobench" => Tiobench(tiobench::Tiobench),
}

impl Command {
    /// Processes that it forks at a time ([`Host::fork`]).
    pub fn children(&self) -> u64 {
        match self {
            Self::FsMark(f) => f.processes,
            Self::MappedFileStream(m) => m.children(),
            Self::MmapStrm(m) => m.children(),
            Self::Simoop(s) => s.children(),
            Self::Taskset(b) | Self::Numactl(b) => b.command.children(),
            Self::Tiobench(t) => t.children(),
            _ => 0,
        }
    }

    /// Files that it makes at most and that no [`ExistingFile`] stands for.
    pub fn files(&self) -> u64 {
        match self {
            Self::Dd(_) => 1,
            Self::FsMark(f) => f.files(),
            Self::MappedFileStream(m) => m.files(),
            Self::MmapStrm(m) => m.files(),
            Self::Simoop(s) => s.files(),
            Self::Taskset(b) | Self::Numactl(b) => b.command.files(),
            Self::Tiobench(t) => t.files(),
            _ => 0,
        }
    }

    /// The files that it finds.
    fn existing_files(&self) -> Vec<ExistingFile> {
        match self {
            Self::Desktop(d) => vec![d.existing_file()],
            Self::Simoop(s) => s.existing_files(),
            Self::Taskset(b) | Self::Numactl(b) => b.command.existing_files(),
            _ => Vec::new(),
        }
    }

    /// The directories that it finds, parents first.
    fn existing_directories(&self) -> Vec<String> {
        match self {
            Self::Simoop(s) => s.existing_directories(),
            Self::Taskset(b) | Self::Numactl(b) => b.command.existing_directories(),
            _ => Vec::new(),
        }
    }

    /// The same with bursts that take `factor` times the memory; `None` if it has none.
    pub(crate) fn with_bursts(&self, factor: f64) -> Option<Self> {
        let larger = |bytes: u64, block: u64| {
            let blocks = (bytes as f64 * factor / block as f64).round() as u64;
            blocks.max(1) * block
        };
        match self {
            Self::Burst(b) => Some(Self::Burst(burst::Burst {
                bytes: larger(b.bytes, 4096 << b.order),
                ..b.clone()
            })),
            Self::MappedFileStream(m) => Some(Self::MappedFileStream(
                mapped_file_stream::MappedFileStream {
                    bytes: larger(m.bytes, 4096),
                    ..m.clone()
                },
            )),
            Self::Taskset(b) => Some(Self::Taskset(b.with_bursts(factor)?)),
            Self::Numactl(b) => Some(Self::Numactl(b.with_bursts(factor)?)),
            _ => None,
        }
    }

    /// Whether it only ends when the script does.
    fn endless(&self) -> bool {
        match self {
            Self::Desktop(d) => d.runtime_ns.is_none(),
            Self::Burst(b) => b.repeats.is_none(),
            Self::Taskset(b) | Self::Numactl(b) => b.command.endless(),
            _ => false,
        }
    }

    /// The CPUs that it is bound to, if it is.
    pub fn cpus(&self) -> Option<Cpus> {
        match self {
            Self::Taskset(b) | Self::Numactl(b) => Some(b.cpus),
            _ => None,
        }
    }
}

/// Processes that a script may have at a time.
pub const MOST_PROCESSES: u64 = 16_384;

impl Script {
    fn processes(&self, background: bool) -> impl Iterator<Item = &Process> {
        self.steps.iter().filter_map(move |s| match s {
            Step::Foreground(p) if !background => Some(p),
            Step::Background(p) if background => Some(p),
            _ => None,
        })
    }

    /// The same script with bursts that take `factor` times the memory (`burst`,
    /// `mapped-file-stream`); `None` if no program makes bursts.
    pub fn with_bursts(&self, factor: f64) -> Option<Self> {
        let mut script = self.clone();
        script.line.clear();
        let mut any = false;
        for step in &mut script.steps {
            let (Step::Foreground(process) | Step::Background(process)) = step else {
                continue;
            };
            for command in &mut process.commands {
                if let Some(larger) = command.with_bursts(factor) {
                    *command = larger;
                    any = true;
                }
            }
        }
        any.then_some(script)
    }

    /// Processes that its programs fork at a time, at most.
    pub fn children(&self) -> u64 {
        let of = |p: &Process| p.commands.iter().map(Command::children).max().unwrap_or(0);
        let behind: u64 = self.processes(true).map(of).sum();
        behind + self.processes(false).map(of).max().unwrap_or(0)
    }

    /// Processes at a time, at most: the script's shell, its background processes and what they fork.
    pub fn processes_at_a_time(&self) -> u64 {
        1 + self.processes(true).count() as u64 + self.children()
    }

    fn commands(&self) -> impl Iterator<Item = &Command> {
        let all = self.processes(true).chain(self.processes(false));
        all.flat_map(|p| &p.commands)
    }

    /// Whether a simoop is among its programs.
    pub(crate) fn has_simoop(&self) -> bool {
        self.commands().any(|c| match c {
            Command::Taskset(b) | Command::Numactl(b) => matches!(*b.command, Command::Simoop(_)),
            other => matches!(other, Command::Simoop(_)),
        })
    }

    /// Enters the files and directories that its programs find: one of each path, a file as long as
    /// the longest.
    fn find_files(&mut self) {
        let found: Vec<_> = self.commands().flat_map(Command::existing_files).collect();
        let mut places = BTreeMap::new();
        for file in found {
            match places.get(&file.path) {
                Some(&known) => {
                    let known: &mut ExistingFile = &mut self.files[known];
                    known.len = known.len.max(file.len);
                }
                None => {
                    places.insert(file.path.clone(), self.files.len());
                    self.files.push(file);
                }
            }
        }
        let found = self.commands().flat_map(Command::existing_directories);
        let mut known = BTreeSet::new();
        self.directories = found.filter(|d| known.insert(d.clone())).collect();
    }

    /// The CPUs that its programs are bound to.
    pub fn cpus(&self) -> impl Iterator<Item = Cpus> {
        self.commands().filter_map(Command::cpus)
    }

    /// Files that its programs make, at most.
    pub fn files_made(&self) -> u64 {
        self.commands().map(Command::files).sum()
    }
}

/// Reads a shell command line; [`shell`] says what of the shell is known.
///
/// # Errors
/// A line that the shell or a program would refuse, that uses what Lowmark does not know, or that
/// runs nothing in the foreground.
pub fn parse(line: &str) -> Result<Script, CommandError> {
    let mut steps = Vec::new();
    // A background program that does not end by itself.
    let mut endless = None;
    for list in &shell::parse(line)? {
        let step = step(list)?;
        let here = endless_in(list, &step);
        let waits_for = match &step {
            Step::Foreground(_) => here.as_ref(),
            Step::Background(_) => None,
            Step::Wait => endless.as_ref(),
        };
        if let Some(program) = waits_for {
            return Err(CommandError::new(
                program.span.clone(),
                format!("the script would wait for `{}` for ever", program.text),
                "a time that it ends after (-t), or `&` behind it and no `wait`",
            ));
        }
        endless = endless.or(here);
        steps.push(step);
    }
    if steps.is_empty() {
        return Err(CommandError::new(
            0..line.len(),
            "the line holds no command",
            format!("a command line with {}", Command::NAMES.join(", ")),
        ));
    }
    if steps.iter().all(|s| matches!(s, Step::Background(_))) {
        return Err(CommandError::new(
            0..line.len(),
            "every command runs in the background, so the script would end at once",
            "a last command without `&`, or `wait` as the last command",
        ));
    }
    let mut script = Script {
        steps,
        line: line.to_owned(),
        ..Script::default()
    };
    script.find_files();
    let processes = script.processes_at_a_time() - 1;
    if processes > MOST_PROCESSES {
        return Err(CommandError::new(
            0..line.len(),
            format!("the line has {processes} processes at a time"),
            format!("at most {MOST_PROCESSES}"),
        ));
    }
    if script.files_made() > fs_mark::MAX_TOTAL_FILES {
        return Err(CommandError::new(
            0..line.len(),
            format!("the line makes {} files", script.files_made()),
            format!("at most {}", fs_mark::MAX_TOTAL_FILES),
        ));
    }
    Ok(script)
}

/// The name of the program in a list that ends only with the script, if there is one.
fn endless_in(list: &AndList, step: &Step) -> Option<Word> {
    let (Step::Foreground(process) | Step::Background(process)) = step else {
        return None;
    };
    let at = process.commands.iter().position(Command::endless)?;
    Some(list.commands[at].words[0].clone())
}

fn step(list: &AndList) -> Result<Step, CommandError> {
    if let Some(wait) = list.commands.iter().find(|c| c.words[0].text == "wait") {
        if list.commands.len() > 1 || list.background || wait.words.len() > 1 {
            return Err(CommandError::new(
                wait.words[0].span.start..wait.words[wait.words.len() - 1].span.end,
                "`wait` takes no operands and is never part of `&&` or `&`",
                "`;` or a newline before and after a plain `wait`",
            ));
        }
        return Ok(Step::Wait);
    }
    let commands = list
        .commands
        .iter()
        .map(|c| Command::parse(&c.words[0], &c.words[1..]))
        .collect::<Result<Vec<_>, _>>()?;
    let process = Process { commands };
    Ok(if list.background {
        Step::Background(process)
    } else {
        Step::Foreground(process)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryHost, block_on};
    use proptest::prelude::*;

    /// Steps as text: `f` or `b` with the number of commands, `w`.
    fn shape(line: &str) -> String {
        let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let step = |s: &Step| match s {
            Step::Foreground(p) => format!("f{}", p.commands.len()),
            Step::Background(p) => format!("b{}", p.commands.len()),
            Step::Wait => "w".to_owned(),
        };
        script.steps.iter().map(step).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn scripts_are_steps() {
        let dd = "dd if=/dev/zero of=x count=1";
        assert_eq!(shape(dd), "f1");
        assert_eq!(shape(&format!("{dd} & {dd}; {dd} && {dd}")), "b1 f1 f2");
        assert_eq!(
            shape(&format!("{dd} & {dd} && {dd} &\nwait # all\n{dd}")),
            "b1 b2 w f1"
        );
    }

    #[test]
    fn bursts_grow_and_nothing_else() {
        let script = |n: &str, s: &str| {
            let line = format!(
                "dd if=/dev/zero of=x & taskset -c 0 mapped-file-stream 1 {n}; burst -s {s} -n 2"
            );
            parse(&line).unwrap()
        };
        let twice = script("65536", "1M").with_bursts(2.0).unwrap();
        assert_eq!(twice.steps, script("131072", "2M").steps);
        assert_eq!(twice.line, "", "no line made it");
        let odd = script("65536", "1M").with_bursts(1.03).unwrap();
        assert_eq!(odd.steps, script("65536", "1056K").steps);
        assert_eq!(parse("sleep 1").unwrap().with_bursts(2.0), None);
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place, message) in [
            ("", "", "no command"),
            (" # dd", " # dd", "no command"),
            ("dd if=a of=b; bonnie -d x", "bonnie", "`bonnie`"),
            ("dd if=a of=b &", "dd if=a of=b &", "background"),
            ("dd if=a of=b & wait 1", "wait 1", "operands"),
            ("dd if=a of=b && wait", "wait", "&&"),
            ("dd if=a of=b; wait &", "wait", "&"),
            ("dd if=a of=b; dd bs='1'Q", "1'Q", "1Q"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
            assert!(e.message.contains(message), "{line}: {e}");
            assert!(!e.accepted.is_empty());
        }
    }

    #[test]
    fn a_command_runs_and_reports() {
        let host = MemoryHost::default();
        let script = parse("dd if=/dev/zero of=x bs=32k count=$((1 << 1))").unwrap();
        let [Step::Foreground(process)] = &script.steps[..] else {
            panic!("{script:?}")
        };
        assert_eq!(process.commands[0].name(), "dd");
        let report = {
            let session = Session::new(&script);
            block_on(process.commands[0].run(&host, &session)).unwrap()
        };
        assert_eq!(host.contents("x"), [0; 65536]);
        assert!(
            report
                .metrics
                .contains(&("bytes".to_owned(), "bytes", 65536.0)),
            "{report:?}"
        );
    }

    fn pieces() -> impl Strategy<Value = String> {
        let piece = proptest::sample::select(vec![
            "dd ",
            "if=",
            "of=",
            "/dev/zero ",
            "bs=",
            "ibs=",
            "count=",
            "seek=",
            "iflag=",
            "conv=",
            "fsync",
            "direct",
            ",",
            "1",
            "0",
            "x",
            "K",
            "kB",
            "B",
            "Q",
            "$((1<<",
            "))",
            " ",
            "'",
            "\"",
            "\\",
            "& ",
            "; ",
            "wait",
            "&& ",
            "é",
            "=",
            "99999999999",
            "status=none ",
            "desktop ",
            "mmap-strm ",
            "sleep ",
            "-w ",
            "-t ",
            "20ms ",
            "4K ",
            "1.5 ",
        ]);
        proptest::collection::vec(piece, 0..30).prop_map(|v| v.concat())
    }

    fn spans_lie_inside(line: &str) -> Result<(), TestCaseError> {
        if let Err(e) = parse(line) {
            prop_assert!(line.get(e.span.clone()).is_some(), "{:?} {:?}", line, e);
            prop_assert!(!e.message.is_empty() && !e.accepted.is_empty());
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn arbitrary_strings_do_not_panic(line in any::<String>()) {
            spans_lie_inside(&line)?;
        }

        #[test]
        fn almost_commands_do_not_panic(line in pieces(), before in "(dd )?") {
            spans_lie_inside(&(before + &line))?;
        }
    }
}
