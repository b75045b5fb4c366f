//! How much a setting can bear: other seeds, larger bursts, other costs.

use super::goals::{Figures, Goals};
use super::space::Setting;
use super::trial::{Interrupted, Trials, figures, kept_free_of};
use crate::model::Cell;
use sim::Params;

/// Families of seeds, beside the search's own, which is 0.
const OTHER_SEEDS: u64 = 1;
const CASES: u64 = 2;

/// Other seeds that are tried before anything else: most settings that can't bear them show it here.
const FIRST_SEEDS: u32 = 8;

/// Runs of each case other than that of the seeds.
const RUNS_OF_CASE: u32 = 2;

/// A change of the world under which a setting is tried.
#[derive(Debug, Clone, PartialEq)]
pub enum Case {
    /// Other seeds than the search's.
    Seeds,
    /// Every burst takes so many times the memory.
    Bursts(f64),
    /// A cost parameter times a factor.
    Cost(&'static str, f64),
}

impl Case {
    /// In words.
    pub fn name(&self) -> String {
        match self {
            Self::Seeds => "other seeds".into(),
            Self::Bursts(by) => format!("bursts x {by}"),
            Self::Cost(name, by) => format!("{name} {:+.0} %", (by - 1.0) * 100.0),
        }
    }

    /// Whether a setting that misses a goal under it is not taken.
    pub fn must_hold(&self) -> bool {
        !matches!(self, Self::Bursts(_))
    }

    /// The cell under this case; `None` where the case means nothing.
    fn on(&self, cell: &Cell) -> Option<Cell> {
        let mut cell = cell.clone();
        match self {
            Self::Seeds => {}
            Self::Bursts(by) => {
                cell.spec.workload = cell.spec.workload.with_bursts(*by)?;
            }
            Self::Cost(name, by) => {
                let p = cell.spec.machine.params(&cell.spec.params);
                let info = Params::TABLE.iter().find(|i| i.name == *name)?;
                let value = (p.get(name)? * by).clamp(info.min, info.max);
                cell.spec.machine.params.insert((*name).to_owned(), value);
            }
        }
        Some(cell)
    }
}

/// What a setting gave under a case.
#[derive(Debug, Clone)]
pub struct Margin {
    /// The case.
    pub case: Case,
    /// What it gave.
    pub figures: Figures,
    /// What the machine's own settings give in the same case, for goals that are relative to them.
    pub own_throughput: f64,
    /// Whether every goal was met.
    pub holds: bool,
}

/// The names of all cost parameters.
pub fn cost_parameters() -> Vec<&'static str> {
    let names = Params::TABLE.iter().map(|info| info.name);
    names.filter(|name| name.starts_with("cost_")).collect()
}

/// Why a setting was not taken.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The case in which it missed a goal.
    pub case: Case,
    /// What it gave there.
    pub figures: Figures,
}

/// Tries a setting under every case. With `whole`, all of them; else it ends with the first in which
/// a goal is missed that must hold.
///
/// # Errors
/// The user stopped it.
pub fn margins(
    trials: &Trials<'_>,
    setting: &Setting,
    goals: &Goals,
    own_throughput: f64,
    seeds: u32,
    whole: bool,
) -> Result<Result<Vec<Margin>, Refused>, Interrupted> {
    let kept = kept_free_of(trials.cell(), setting);
    let cell = trials.with(setting);
    let relative = goals.throughput.is_some();
    let judge = |case: Case, figures: Figures, own: f64| Margin {
        holds: goals.missed(&figures, own).is_empty(),
        own_throughput: own,
        case,
        figures,
    };
    let first = trials.cells(vec![cell.clone()], seeds.min(FIRST_SEEDS), OTHER_SEEDS)?;
    let quick = judge(Case::Seeds, figures(kept, &first[0]), own_throughput);
    if !quick.holds && !whole {
        return Ok(Err(Refused {
            case: quick.case,
            figures: quick.figures,
        }));
    }
    let mut cases: Vec<Case> = Vec::new();
    for name in cost_parameters() {
        cases.push(Case::Cost(name, 0.5));
        cases.push(Case::Cost(name, 1.5));
    }
    cases.push(Case::Bursts(2.0));
    let mut all = Vec::new();
    for part in cases.chunks(trials.jobs().max(4)) {
        let (mut cells, mut of) = (Vec::new(), Vec::new());
        for case in part {
            if !whole && !case.must_hold() {
                continue;
            }
            let Some(changed) = case.on(&cell) else {
                continue;
            };
            cells.push(changed);
            if relative {
                // A cost changes what the machine's own settings reach, too.
                cells.extend(case.on(trials.cell()));
            }
            of.push(case.clone());
        }
        let results = trials.cells(cells, RUNS_OF_CASE, CASES)?;
        for (i, case) in of.into_iter().enumerate() {
            let step = 1 + usize::from(relative);
            let own = if relative {
                figures(0, &results[i * step + 1]).throughput
            } else {
                own_throughput
            };
            let margin = judge(case, figures(kept, &results[i * step]), own);
            if !whole && !margin.holds && margin.case.must_hold() {
                let (case, figures) = (margin.case, margin.figures);
                return Ok(Err(Refused { case, figures }));
            }
            all.push(margin);
        }
    }
    let every = trials.cells(vec![cell], seeds, OTHER_SEEDS)?;
    let seeds = judge(Case::Seeds, figures(kept, &every[0]), own_throughput);
    if !whole && !seeds.holds {
        let (case, figures) = (seeds.case, seeds.figures);
        return Ok(Err(Refused { case, figures }));
    }
    all.insert(0, seeds);
    Ok(Ok(all))
}
