//! `validate`.

use super::key_value;
use clap::Args;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// Experiment files; their own policies are ignored
    #[arg(required_unless_present_any = ["suite", "effects"], value_name = "EXPERIMENT")]
    pub experiments: Vec<PathBuf>,
    /// A real kernel to compare with, by the name that it was built under; may be repeated
    /// [default: 6.12; with --against all that are kept]
    #[arg(long = "kernel", value_name = "NAME")]
    pub kernels: Vec<String>,
    /// The engine's preset to judge; may be repeated [default: for each kernel the nearest one]
    #[arg(long = "preset", value_name = "POLICY")]
    pub presets: Vec<String>,
    /// Run and score all scenarios of a suite: `modern`, or a folder of experiments with one cell
    /// each
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "experiments",
        help_heading = "Suites"
    )]
    pub suite: Option<String>,
    /// Run only this scenario of the suite, and print tables of its figures; may be repeated
    #[arg(
        long = "scenario",
        value_name = "NAME",
        requires = "suite",
        help_heading = "Suites"
    )]
    pub scenarios: Vec<String>,
    /// Keep the kernels' figures in this folder, one file per kernel, beside those of other
    /// scenarios
    #[arg(
        long,
        value_name = "DIR",
        requires = "suite",
        conflicts_with = "against",
        help_heading = "Suites"
    )]
    pub keep: Option<PathBuf>,
    /// Compare with kept figures, without running a guest
    #[arg(long, value_name = "DIR", requires = "suite", conflicts_with_all = ["place", "replace"], help_heading = "Suites")]
    pub against: Option<PathBuf>,
    /// Print tables as Markdown, of a suite or of effects
    #[arg(long, conflicts_with_all = ["json", "experiments"], help_heading = "Suites")]
    pub markdown: bool,
    /// Judge whether the engine predicts what changes do in a real kernel: the folder of pairs of
    /// one change each [default: data/validate/effects]
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        default_missing_value = "data/validate/effects",
        conflicts_with_all = ["experiments", "suite", "place", "kernels", "set"],
        help_heading = "Effects"
    )]
    pub effects: Option<PathBuf>,
    /// Run the sides of the pairs in their kernels first, and keep the figures in the folder; sides
    /// that are kept already are not run again
    #[arg(long, requires = "effects", help_heading = "Effects")]
    pub measure: bool,
    /// Write the score by kind of change into the folder (`score.json`); the one of the project is
    /// quoted below verdicts
    #[arg(
        long,
        requires = "effects",
        conflicts_with = "pairs",
        help_heading = "Effects"
    )]
    pub keep_score: bool,
    /// Only this pair; may be repeated
    #[arg(
        long = "pair",
        value_name = "NAME",
        requires = "effects",
        help_heading = "Effects"
    )]
    pub pairs: Vec<String>,
    /// Most iterations of a pair of which the runs do not tell whether a figure changes
    #[arg(
        long,
        value_name = "N",
        default_value = "24",
        requires = "measure",
        help_heading = "Effects"
    )]
    pub most_iterations: NonZeroU32,
    /// Iterations of each, instead of the file's: the kernel's range over them is the reference
    /// [default: 5; with --effects 6]
    #[arg(long, value_name = "N")]
    pub iterations: Option<NonZeroU32>,
    /// Threads; the results are the same for any number [default: all cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// The results folder, a new one; with several experiments it contains one folder for each
    /// [default: results/NAME/TIME]
    #[arg(long, value_name = "DIR", group = "place")]
    pub out: Option<PathBuf>,
    /// Replace earlier results in the folder of `--out` or `--resume`, when the new ones are
    /// complete
    #[arg(long, requires = "place")]
    pub replace: bool,
    /// Continue an interrupted or killed validation: the results folder, or the one beside it that
    /// ends in `.partial`; for several experiments the folder of `--out`; all other settings as at
    /// its start
    #[arg(long, value_name = "DIR", group = "place")]
    pub resume: Option<PathBuf>,
    /// Seconds of wall time without progress in virtual time after which a real kernel's guest is
    /// killed
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Set a key of the experiments, as in `--set filesystem=xfs`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Print the figures as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// No progress and no tables
    #[arg(long, short)]
    pub quiet: bool,
}

/// Iterations of experiments and suites by default.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(5).expect("above 0");

/// The kernel with which presets are compared by default.
const KERNEL: &str = "6.12";

impl Validate {
    /// Returns the number of iterations of an experiment or a suite.
    pub fn iterations(&self) -> u32 {
        self.iterations.unwrap_or(ITERATIONS).get()
    }

    /// Returns the names under which the kernels of `--kernel` were built, without `kernel:`; 6.12
    /// if the option is absent.
    pub fn kernels(&self) -> Vec<String> {
        let bare = |name: &String| name.strip_prefix("kernel:").unwrap_or(name).to_owned();
        match self.kernels.is_empty() {
            true => vec![KERNEL.to_owned()],
            false => self.kernels.iter().map(bare).collect(),
        }
    }
}
