//! `lowmark-swarm`: random legal experiments held to laws.
#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use swarm::case::Case;
use swarm::hunt::{Bag, Hunt, Tasks};
use swarm::law::Law;
use swarm::space::Space;
use swarm::watch::{End, Limits, Worker};
use swarm::worker::{self, Task};
use swarm::{ends, hunt};

/// Random legal experiments over everything that the schema allows, each held to laws.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    hunt: HuntArgs,
}

#[derive(Args, Clone)]
struct HuntArgs {
    /// Number of machines; absent: until stopped (300 with --trends, all with --ends).
    count: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after so many seconds; finds are then minimised for at most as long again.
    #[arg(long)]
    seconds: Option<u64>,
    /// Try every parameter at its ends on every filesystem and disk instead of random machines.
    #[arg(long)]
    ends: bool,
    /// Test only the laws of medians: more memory, a faster disk.
    #[arg(long, conflicts_with = "ends")]
    trends: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Clone)]
struct Common {
    /// Processes at a time; absent: one for each core.
    #[arg(long, global = true)]
    jobs: Option<usize>,
    /// Folder that finds are written to.
    #[arg(long, default_value = "swarm-finds", global = true)]
    out: PathBuf,
    /// CPU seconds that a case may take before it counts as spinning.
    #[arg(long, default_value_t = 20, global = true)]
    cpu: u64,
    /// Address space of a worker in MiB.
    #[arg(long, default_value_t = 4096, global = true)]
    memory: u64,
    /// Tries for minimising a find; 0: do not minimise.
    #[arg(long, default_value_t = 1500, global = true)]
    tries: u32,
}

#[derive(Subcommand)]
enum Command {
    /// Hold experiment files to the laws.
    Replay {
        /// Experiment files; a folder stands for the TOML files in it.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Test only this law.
        #[arg(long)]
        law: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Minimise an experiment file that breaks a law.
    Minimise {
        /// The experiment file.
        file: PathBuf,
        /// The law that it breaks; absent: that of `--check`.
        #[arg(long)]
        law: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Print the experiment of a seed.
    Show {
        /// The seed.
        seed: u64,
    },
    /// Examine the tasks on standard input; started by the other commands.
    #[command(hide = true)]
    Worker {
        /// The worker's folder.
        folder: PathBuf,
        /// Limit of the address space in bytes.
        memory: u64,
    },
}

/// Runs the command: a hunt without one. Returns the command's exit code, or 2 with a message if it
/// failed.
fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        None => hunt(&cli.hunt),
        Some(Command::Replay { files, law, common }) => replay(&files, law.as_deref(), &common),
        Some(Command::Minimise { file, law, common }) => smaller(&file, law.as_deref(), &common),
        Some(Command::Show { seed }) => show(seed),
        Some(Command::Worker { folder, memory }) => {
            worker::serve(&folder, memory).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|e| {
        eprintln!("lowmark-swarm: {e}");
        ExitCode::from(2)
    })
}

impl Common {
    /// Returns the limits of a worker for each case: CPU time and address space from the options,
    /// the others as by default.
    fn limits(&self) -> Limits {
        Limits {
            cpu: Duration::from_secs(self.cpu),
            memory: self.memory << 20,
            ..Limits::default()
        }
    }

    /// Returns the hunt of these options over `tasks`, ended after `seconds` if given; its workers
    /// are this program.
    fn hunt(&self, tasks: Tasks, seconds: Option<u64>) -> io::Result<Hunt> {
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        Ok(Hunt {
            program: std::env::current_exe()?,
            tasks,
            jobs: self.jobs.unwrap_or_else(cores),
            time: seconds.map(Duration::from_secs),
            out: self.out.clone(),
            limits: self.limits(),
            questions: self.tries,
        })
    }
}

/// Runs a hunt for cases that break a law until its end or Ctrl-C, and prints the finds and the
/// coverage. Returns the exit code.
fn hunt(args: &HuntArgs) -> io::Result<ExitCode> {
    let tasks = if args.ends {
        let all = ends::count(&Space::new());
        Tasks::Ends(0, args.count.unwrap_or(all).min(all))
    } else if args.trends {
        Tasks::Trends(args.seed, args.count.unwrap_or(TRENDS))
    } else {
        Tasks::Seeds(args.seed, args.count.unwrap_or(u64::MAX))
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    ctrlc::set_handler(move || stopped.store(true, Relaxed)).map_err(io::Error::other)?;
    let hunt = args.common.hunt(tasks, args.seconds)?;
    let bag = hunt.run(&stop, &mut |text| eprintln!("{text}"))?;
    Ok(tell(&bag, tasks))
}

/// Default number of cases for the laws of medians: each takes a quarter of a second of CPU time.
const TRENDS: u64 = 300;

/// Number of cases from which on every rare path must have been taken.
const ENOUGH: u64 = 5000;

/// Prints the coverage, the slowest cases and the finds. The exit code is 1 if there are finds or
/// missing paths.
fn tell(bag: &Bag, tasks: Tasks) -> ExitCode {
    print!("{}", bag.cover.to_text());
    for (cpu, task) in &bag.slowest {
        println!("slowest: {} {:.2} s", hunt::name(task), cpu.as_secs_f64());
    }
    for find in &bag.finds {
        let file = find.file.as_ref();
        let file = file.map_or_else(
            || "another of its kind".to_owned(),
            |f| f.display().to_string(),
        );
        println!(
            "find: {} ({file}): {}",
            hunt::name(&find.task),
            find.breach.what
        );
    }
    let random = matches!(tasks, Tasks::Seeds(..)) && bag.cases >= ENOUGH;
    let missing = if random { bag.cover.missing().len() } else { 0 };
    let what = match tasks {
        Tasks::Seeds(first, _) => format!("machines from seed {first} on"),
        Tasks::Ends(..) => "ends of parameters".to_owned(),
        Tasks::Trends(first, _) => format!("medians of nine from seed {first} on"),
    };
    let cpu = bag.cpu.as_secs_f64();
    println!(
        "{} {what}: {} finds, {missing} rare paths missing, {cpu:.0} s of CPU ({:.3} s each)",
        bag.cases,
        bag.finds.len(),
        cpu / bag.cases.max(1) as f64
    );
    ExitCode::from(u8::from(missing > 0 || !bag.finds.is_empty()))
}

/// Returns the law of this name; `None` if there is no name. An error names those accepted.
fn law(name: Option<&str>) -> io::Result<Option<Law>> {
    let Some(name) = name else { return Ok(None) };
    let known = [&Law::ANY[..], &Law::TRENDS, &[Law::Check]].concat();
    let names: Vec<&str> = known.iter().map(|l| l.name()).collect();
    match known.iter().find(|l| l.name() == name) {
        Some(law) => Ok(Some(*law)),
        None => Err(io::Error::other(format!(
            "there is no law `{name}`; accepted: {}",
            names.join(", ")
        ))),
    }
}

/// Returns the laws that a file is held to: the given one, or all that hold of any experiment.
fn laws(only: Option<Law>) -> Vec<Law> {
    match only {
        Some(Law::Check) => Vec::new(),
        Some(law) => vec![law],
        None => Law::ANY.to_vec(),
    }
}

/// Holds experiment files, and the TOML files of folders, to the law `name` or to all laws, and
/// prints each breach. The exit code is 1 if there is one.
fn replay(files: &[PathBuf], name: Option<&str>, common: &Common) -> io::Result<ExitCode> {
    let only = law(name)?;
    let mut all = Vec::new();
    for file in files {
        if file.is_dir() {
            let entries = std::fs::read_dir(file)?.collect::<io::Result<Vec<_>>>()?;
            let toml = |p: &PathBuf| p.extension().is_some_and(|e| e == "toml");
            all.extend(entries.into_iter().map(|e| e.path()).filter(toml));
        } else {
            all.push(file.clone());
        }
    }
    all.sort();
    let mut worker = Worker::new(&std::env::current_exe()?, common.limits())?;
    let mut broken = 0;
    for file in &all {
        let task = Task::Case(Box::new(Case::read(file)?), laws(only));
        let breach = match worker.ask(&task)? {
            End::Lost(breach) => Some(breach),
            End::Answered(answer) => answer.breach,
        };
        if let Some(breach) = breach {
            broken += 1;
            println!(
                "{}: law {}: {}",
                file.display(),
                breach.law.name(),
                breach.what
            );
        }
    }
    println!("{} files, {broken} that break a law", all.len());
    Ok(ExitCode::from(u8::from(broken > 0)))
}

/// Minimises an experiment file that breaks the law `name` (absent: that of checks) and prints the
/// result. The exit code is 1, or 0 if the file keeps the law.
fn smaller(file: &Path, name: Option<&str>, common: &Common) -> io::Result<ExitCode> {
    let only = law(name)?.unwrap_or(Law::Check);
    let hunt = common.hunt(Tasks::Seeds(0, 0), None)?;
    let case = Case::read(file)?;
    let mut worker = Worker::new(&hunt.program, hunt.limits)?;
    let task = Task::Case(Box::new(case.clone()), laws(Some(only)));
    let breach = match worker.ask(&task)? {
        End::Lost(breach) => Some(breach),
        End::Answered(answer) => answer.breach,
    };
    let Some(breach) = breach else {
        println!("{} keeps the law {}", file.display(), only.name());
        return Ok(ExitCode::SUCCESS);
    };
    let small = hunt.small(&case, &breach, None)?;
    println!(
        "# law: {}\n# {}\n\n{}",
        breach.law.name(),
        breach.what,
        small.text()
    );
    Ok(ExitCode::from(1))
}

/// Prints the experiment that a seed draws, and the sizes of the files that it refers to.
fn show(seed: u64) -> io::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    match Case::of_seed(seed, &Space::new(), folder.path())? {
        Ok((case, ..)) => {
            print!("{}", case.text());
            for (name, bytes) in &case.beside {
                println!("\n# {name}: {} bytes", bytes.len());
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(refused) => Err(io::Error::other(format!(
            "every draw is refused: {refused}"
        ))),
    }
}
