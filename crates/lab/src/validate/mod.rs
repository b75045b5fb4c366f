//! Measures how near a preset of the engine comes to a real kernel: runs the same experiment in
//! both and compares them figure by figure.
//!
//! A committed file lists the figures ([`judged`]); [`mod@measured`] holds a run's values of them.
//! [`Standing`] is the verdict on one figure, and [`Parting`] the time from which two runs differ.
//! A [`suite`] is a folder of experiments whose kernels' figures can be [`kept`], so that presets
//! are judged without a guest; [`score`] is its table.

pub mod beside;
pub mod effects;
pub mod judged;
pub mod kept;
pub mod measured;
pub mod score;
pub mod suite;
pub mod text;

#[cfg(test)]
mod tests;

use crate::figures::stats::Summary;
use crate::model::{Cell, Experiment, Outcomes};
use judged::Figure;
pub use judged::column;
use measured::Measured;
use serde::Serialize;
use sim::result::Series;
use sim::spec::FsKind;

/// Largest distance of the engine's median from the kernel's, as a share of the latter.
pub const TOLERANCE: f64 = 0.1;
/// Largest difference of a count of pages that is accepted in any case, in pages.
pub const SLACK_PAGES: f64 = 64.0;
/// Likewise, as a share of the pages that the devices moved; the larger slack counts.
pub const SLACK_SHARE: f64 = 0.001;

/// The columns of the time series that are searched for a parting; the first of them is taken if
/// several part at the same time.
pub const PARTING: [&str; 4] = ["free", "dirty", "writeback", "inactive_file"];

/// The order of a guest's pageblocks: its kernel is built without huge pages.
pub const GUEST_PAGEBLOCK_ORDER: f64 = 10.0;

/// The time that a program's reading of the clock takes in a guest (ns): 256 of User-Mode Linux's
/// clock, which moves by that much with every reading, and a system call, because its vDSO makes
/// one. (The kernel side's costs are the engine's.)
pub const GUEST_LOOK: f64 = 406.0;

/// The time that a failing system call takes in a guest (ns): User-Mode Linux lets that much time
/// pass, lest a program repeat the call forever in no time.
pub const GUEST_ERROR: f64 = 1000.0;

/// How many additional times a store to a page of a shared mapping faults. User-Mode Linux up to
/// 6.10 flushes the one entry before it returns to the program, but not if the fault ended with
/// `VM_FAULT_COMPLETED`, as faults that call `balance_dirty_pages` do.
const GUEST_STORES_AGAIN: [(&str, f64); 2] = [("linux-6.1", 1.0), ("linux-6.12", 0.0)];

/// Pages in caches of a freshly booted guest that reclaim could free (SReclaimable of its
/// /proc/meminfo), in pageblocks of their kind: 6.1 makes inodes and names of all of tracefs at
/// boot. `crates/lowmark/tests/guests.rs` measures them in a guest.
const GUEST_RECLAIMABLE: [(&str, f64); 2] = [("linux-6.1", 1346.0), ("linux-6.12", 143.0)];

/// Pages that a guest's kernel has in unmovable pageblocks once it has booted and before a
/// filesystem is mounted (/proc/pagetypeinfo, blocks less the free pages in them, of guests of 128
/// MiB to 2 GiB). The rest of [`machine.boot`](sim::spec::Boot)'s kernel is locked memory of the
/// guest's first process, which is movable.
const GUEST_UNMOVABLE: [(&str, f64); 2] = [("linux-6.1", 2980.0), ("linux-6.12", 3270.0)];

/// Unmovable pages that a mounted filesystem adds: xfs's and btrfs's own caches and logs.
const MOUNTED_UNMOVABLE: f64 = 90.0;

/// Returns the table's value of the preset that is nearest to a kernel, given by its name or
/// release; the last value, of the newest kernel, if the table does not have that preset.
fn of_nearest(table: &[(&str, f64)], kernel: &str) -> f64 {
    let nearest = suite::nearest(kernel);
    let known = table.iter().find(|(of, _)| *of == nearest);
    known.or(table.last()).expect("a table").1
}

/// Returns the pages in a guest's caches at boot that reclaim could free, by its kernel's name or
/// release; for kernels that were not measured, those of the newest kernel that was.
pub fn guest_reclaimable(kernel: &str) -> f64 {
    of_nearest(&GUEST_RECLAIMABLE, kernel)
}

/// Returns the pages in unmovable pageblocks of a guest at boot with this filesystem mounted,
/// chosen by kernel as by [`guest_reclaimable`].
pub fn guest_unmovable(kernel: &str, filesystem: FsKind) -> f64 {
    let mounted = match filesystem {
        FsKind::Xfs | FsKind::Btrfs => MOUNTED_UNMOVABLE,
        _ => 0.0,
    };
    of_nearest(&GUEST_UNMOVABLE, kernel) + mounted
}

/// Applies [`tick_like_guest`] to all cells of the engine; `kernel` is the name of the guest's
/// build, from which the timer frequency follows.
pub fn tick_like_guests(experiment: &mut Experiment, kernel: &str) {
    let engine = experiment.cells.iter_mut().filter(|c| c.kernel.is_none());
    let hz = kernel::build::ticks::of_name(kernel);
    engine.for_each(|cell| tick_like_guest(cell, kernel, hz));
}

/// Sets the parameters of an engine's cell to those of a guest of `kernel`, whatever their
/// defaults: scheduler times, pageblock size, the costs of a program's clock and of system calls,
/// btrfs checksums without a CPU instruction, one queue depth for all disks, the dirty limit,
/// caches and wall clock of a machine that has just booted, and free context switches. The timer
/// ticks `hz` times a second unless the cell's machine says how often. `kernel` is the name of the
/// guest's build or its release.
pub fn tick_like_guest(cell: &mut Cell, kernel: &str, hz: u32) {
    if !cell.says_hz {
        cell.spec.machine.hz = hz;
    }
    // CFS's times grow with the number of CPUs, up to eight; the defaults are those of four CPUs.
    let times = f64::from(1 + cell.spec.machine.cpus.min(8).ilog2());
    // Pages of the booted kernel that are not movable; the rest of its memory counts as locked.
    let kernels = guest_reclaimable(kernel) + guest_unmovable(kernel, cell.spec.filesystem);
    let locked = cell.spec.machine.boot.kernel.pages() as f64 - kernels;
    let own = [
        ("pageblock_order", GUEST_PAGEBLOCK_ORDER),
        ("cost_look", GUEST_LOOK),
        ("cost_look_later", cell.spec.params.cost_syscall),
        (
            "cost_gettimeofday",
            cell.spec.params.cost_gettimeofday + GUEST_LOOK,
        ),
        ("name_calls", 1.0),
        ("cost_exists", GUEST_ERROR),
        (
            "cost_mkwrite",
            of_nearest(&GUEST_STORES_AGAIN, kernel) * cell.spec.params.cost_fault,
        ),
        ("cost_slab_make", 0.0),
        ("cost_lru_delete", 0.0),
        ("cost_clear", 0.0),
        ("cost_touch", 0.0),
        ("btrfs_fast_checksum", 0.0),
        ("disks_alike", 1.0),
        ("just_booted", 1.0),
        ("boot_offset", 1.0),
        ("idle_wakeup", 0.0),
        ("sched_switch", 0.0),
        ("boot_reclaimable", guest_reclaimable(kernel)),
        ("boot_locked", locked.max(0.0)),
        ("sched_latency", 6e6 * times),
        ("sched_min_granularity", 0.75e6 * times),
        ("sched_wakeup_granularity", 1e6 * times),
        ("sched_place", 2.0),
    ];
    for (name, value) in own {
        cell.spec
            .params
            .set(name, value)
            .expect("a parameter in its range");
    }
    // A guest's kernel counts each zone that it looks at, including the one that gives the page;
    // the engine counts only zones that it passes by.
    cell.spec.params.cost_page_alloc += cell.spec.params.cost_zone_walk;
}

/// The verdict on a figure of the engine beside the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The engine's median is in the kernel's range, or near the kernel's median.
    Inside,
    /// The engine's median is neither in the range nor near the median.
    Outside,
    /// The kernel has the figure and the engine does not produce it: a miss.
    Unsupported,
    /// The figure is 0 in every run of both: not scored.
    Idle,
    /// The kernel does not have the figure, or no run of one of the two completed: not scored.
    Untold,
    /// The kernel's figures were kept before this one was added to the list: not scored.
    Unmeasured,
}

impl Standing {
    /// Judges one figure from the summaries of the kernel's and the engine's iterations (`None`:
    /// the runs do not have the figure). `slack` is the difference of the medians, in the figure's
    /// unit, that is accepted in any case.
    fn of(kernel: Option<&Summary>, engine: Option<&Summary>, slack: f64) -> Self {
        let Some(kernel) = kernel else {
            return Self::Untold;
        };
        let Some(engine) = engine else {
            return Self::Unsupported;
        };
        if [kernel.min, kernel.max, engine.min, engine.max] == [0.0; 4] {
            return Self::Idle;
        }
        let off = (engine.median - kernel.median).abs();
        let in_range = (kernel.min..=kernel.max).contains(&engine.median);
        match in_range || off <= kernel.median.abs() * TOLERANCE || off <= slack {
            true => Self::Inside,
            false => Self::Outside,
        }
    }

    /// Returns true if the figure counts for the score.
    pub fn scored(self) -> bool {
        matches!(self, Self::Inside | Self::Outside | Self::Unsupported)
    }
}

/// One figure of the kernel and of the engine.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// The name of the figure.
    pub name: String,
    /// The unit of the figure.
    pub unit: String,
    /// Summary of the kernel's completed iterations; `None` if it does not have the figure.
    pub kernel: Option<Summary>,
    /// Summary of the engine's completed iterations; `None` if it does not produce the figure.
    pub engine: Option<Summary>,
    /// The engine's median divided by the kernel's; `None` where the kernel's is 0.
    pub ratio: Option<f64>,
    /// The verdict.
    pub standing: Standing,
}

/// The first time from which the series of the first iterations differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parting {
    /// Seconds from the beginning of the workload.
    pub at: f64,
    /// The name of the column.
    pub column: &'static str,
    /// The kernel's value, in pages.
    pub kernel: f64,
    /// The engine's value, in pages.
    pub engine: f64,
}

impl Parting {
    /// Returns the earliest time at which a column of [`PARTING`] differs between the kernel's run
    /// and the engine's, by [`first_apart`]. `None` if no column does; a column that was not
    /// sampled is passed over.
    fn of(kernel: &Series, engine: &Series) -> Option<Self> {
        let first = |name: &'static str| {
            let (at, ours, theirs) = first_apart(kernel, engine, name)?;
            Some(Self {
                at,
                column: name,
                kernel: ours,
                engine: theirs,
            })
        };
        let all = PARTING.into_iter().filter_map(first);
        all.min_by(|a, b| a.at.total_cmp(&b.at))
    }
}

/// Returns the time in seconds of the first of two samples in a row at which a column differs by
/// more than a tenth of its maximum in `ours` (and, if it counts pages, by more than
/// [`SLACK_PAGES`]), with both values. Samples of `theirs` are read at the times of `ours`. `None`
/// if the column does not differ, or one of the two does not have it.
pub fn first_apart(ours: &Series, theirs: &Series, name: &str) -> Option<(f64, f64, f64)> {
    let (a, b) = (column(ours, name)?, column(theirs, name)?);
    let most = a.iter().copied().fold(0.0, f64::max);
    let of_pages = ours
        .columns
        .iter()
        .any(|c| c.name == name && c.unit == "pages");
    let tolerance = (most * TOLERANCE).max(if of_pages { SLACK_PAGES } else { 0.0 });
    // The time, the value in `ours`, and the value in `theirs` of each sample.
    let pairs = ours.t.iter().zip(&a).map_while(|(&t, &value)| {
        // After the end of `theirs` there is nothing to compare.
        let at = theirs.t.partition_point(|&e| e < t);
        Some((t, value, *b.get(at)?))
    });
    let pairs: Vec<(f64, f64, f64)> = pairs.collect();
    let apart = |of: &(f64, f64, f64)| (of.1 - of.2).abs() > tolerance;
    let mut in_a_row = pairs.windows(2);
    Some(in_a_row.find(|two| two.iter().all(apart))?[0])
}

/// Returns the values of all judged figures for every cell of an experiment, in matrix order.
pub fn measured(outcomes: &Outcomes) -> Vec<Measured> {
    let figures = judged::figures();
    let cells = 0..outcomes.experiment.cells.len();
    cells
        .map(|nth| Measured::of(outcomes, nth, &figures))
        .collect()
}

/// A kernel and a preset on one combination of the other axes.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// The label of the other axes.
    pub group: String,
    /// The name of the kernel's policy.
    pub kernel: String,
    /// The name of the preset.
    pub preset: String,
    /// Completed iterations of the kernel and of the preset.
    pub completed: (usize, usize),
    /// Every figure of the list with its verdict.
    pub figures: Vec<Judged>,
    /// The time from which they differ; `None` if they do not.
    pub parting: Option<Parting>,
}

impl Pair {
    /// Judges every figure of the list for one preset of the engine beside one kernel, and finds
    /// the time from which their runs differ.
    pub fn of(kernel: &Measured, engine: &Measured, figures: &[Figure]) -> Self {
        // Pages; only figures that count pages have this slack.
        let slack = SLACK_PAGES.max(kernel.moved * SLACK_SHARE);
        let judge = |figure: &Figure| {
            let name = &figure.name;
            let (k, e) = (kernel.summary(name), engine.summary(name));
            let of_kernel = k.as_ref().filter(|k| k.median != 0.0);
            // The unit comes from whichever of the two has the figure.
            let mut told = [kernel, engine].into_iter();
            let unit = told.find_map(|of| of.figures.get(name)).map(|t| &t.unit);
            Judged {
                name: name.clone(),
                unit: unit.cloned().unwrap_or_default(),
                ratio: of_kernel.and_then(|k| Some(e.as_ref()?.median / k.median)),
                standing: match engine.completed {
                    0 => Standing::Untold,
                    _ => {
                        let slack = if figure.pages { slack } else { 0.0 };
                        Standing::of(k.as_ref(), e.as_ref(), slack)
                    }
                },
                kernel: k,
                engine: e,
            }
        };
        Self {
            group: kernel.group.clone(),
            kernel: kernel.policy.clone(),
            preset: engine.policy.clone(),
            completed: (kernel.completed, engine.completed),
            figures: figures.iter().map(judge).collect(),
            parting: Parting::of(&kernel.course.series(), &engine.course.series()),
        }
    }

    /// Marks the figures that were added to the list of figures after `version`, by which the
    /// kernel was measured, as not measured. `figures` is the list, in the order of the pair's
    /// figures.
    #[must_use]
    pub fn measured_by(mut self, version: u32, figures: &[Figure]) -> Self {
        for (judged, figure) in self.figures.iter_mut().zip(figures) {
            if figure.since > version {
                judged.standing = Standing::Unmeasured;
            }
        }
        self
    }

    /// Returns the number of figures inside (near the kernel's), and the number of those that are
    /// scored.
    pub fn score(&self) -> (usize, usize) {
        let of = |f: fn(Standing) -> bool| self.figures.iter().filter(|j| f(j.standing)).count();
        (of(|s| s == Standing::Inside), of(Standing::scored))
    }
}

/// An experiment's validation: every kernel beside every preset, group by group.
#[derive(Debug, Clone, Serialize)]
pub struct Validation {
    /// The experiment's name.
    pub experiment: String,
    /// Iterations of each cell that the experiment asks for.
    pub iterations: u32,
    /// Notes for the reader of any figure, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// The pairs in matrix order.
    pub pairs: Vec<Pair>,
}

impl Validation {
    /// Judges the outcomes of an experiment: each cell of a real kernel beside each cell of the
    /// engine with the same other axes.
    pub fn new(outcomes: &Outcomes) -> Self {
        let figures = judged::figures();
        let cells = &outcomes.experiment.cells;
        let of = |real: bool| {
            let all = cells.iter().enumerate();
            all.filter(move |(_, cell)| cell.kernel.is_some() == real)
        };
        let measured = |nth| Measured::of(outcomes, nth, &figures);
        let beside = |(k, kernel): (usize, &Cell)| {
            let group = kernel.group();
            let engines = of(false).filter(move |(_, cell)| cell.group() == group);
            let kernel = measured(k);
            let pairs = engines.map(|(e, _)| Pair::of(&kernel, &measured(e), &figures));
            pairs.collect::<Vec<Pair>>()
        };
        Self {
            experiment: outcomes.experiment.name.clone(),
            iterations: outcomes.experiment.iterations,
            said: outcomes.experiment.said.clone(),
            pairs: of(true).flat_map(beside).collect(),
        }
    }

    /// Returns the number of figures inside (near the kernel's), and the number of those that are
    /// scored, over all pairs.
    pub fn score(&self) -> (usize, usize) {
        let add = |sum: (usize, usize), one: (usize, usize)| (sum.0 + one.0, sum.1 + one.1);
        self.pairs.iter().map(Pair::score).fold((0, 0), add)
    }
}
