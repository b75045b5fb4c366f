//! Tries a setting under other seeds, larger bursts and other costs, to see what it can bear.

use super::Question;
use super::goals::Figures;
use super::space::Setting;
use super::trial::{Interrupted, Trials, figures, kept_free_of};
use crate::model::Cell;
use sim::Params;

/// Numbers of the seed families; the search's own is 0.
const OTHER_SEEDS: u64 = 1;
const CASES: u64 = 2;

/// Seeds tried before any other case: most settings that miss a goal under other seeds miss it in
/// these.
const FIRST_SEEDS: u32 = 8;

/// Runs of each case other than [`Case::Seeds`].
const RUNS_OF_CASE: u32 = 2;

/// A change of the simulated world under which a setting is tried.
#[derive(Debug, Clone, PartialEq)]
pub enum Case {
    /// Other seeds than the search's.
    Seeds,
    /// Every burst allocates memory multiplied by this factor.
    Bursts(f64),
    /// A cost parameter, by name, multiplied by a factor.
    Cost(&'static str, f64),
}

impl Case {
    /// Returns the case in words: `bursts x 2`, `cost_lru +50 %`.
    pub fn name(&self) -> String {
        match self {
            Self::Seeds => "other seeds".into(),
            Self::Bursts(by) => format!("bursts x {by}"),
            Self::Cost(name, by) => format!("{name} {:+.0} %", (by - 1.0) * 100.0),
        }
    }

    /// Returns true if a setting that misses a goal in this case must be refused.
    pub fn must_hold(&self) -> bool {
        !matches!(self, Self::Bursts(_))
    }

    /// Returns true if the case is reported by name even if the setting bears it.
    pub fn is_main(&self) -> bool {
        !matches!(self, Self::Cost(..))
    }

    /// Returns a copy of the cell under this case: with larger bursts or another cost parameter,
    /// within the parameter's range. `None` where the case has no meaning, such as larger bursts of
    /// a workload that has none.
    fn applied_to(&self, cell: &Cell) -> Option<Cell> {
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

/// The figures of a setting under one case.
#[derive(Debug, Clone)]
pub struct Margin {
    /// The case.
    pub case: Case,
    /// The figures in that case.
    pub figures: Figures,
    /// Throughput of the machine's own settings in the same case, for goals that are relative to
    /// it.
    pub own_throughput: f64,
    /// True if every goal was met.
    pub holds: bool,
}

/// Returns the names of all model parameters that are costs of computing (`cost_…`).
pub fn cost_parameters() -> Vec<&'static str> {
    let names = Params::TABLE.iter().map(|info| info.name);
    names.filter(|name| name.starts_with("cost_")).collect()
}

/// The reason why a setting was not taken.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The case in which it missed a goal.
    pub case: Case,
    /// The figures in that case.
    pub figures: Figures,
}

/// Returns every case but the seeds, in the order of reports: each cost parameter halved, and half
/// as large again, then bursts of twice the memory.
fn cases() -> Vec<Case> {
    let costs = cost_parameters().into_iter();
    costs
        .flat_map(|name| [0.5, 1.5].map(|by| Case::Cost(name, by)))
        .chain([Case::Bursts(2.0)])
        .collect()
}

/// Returns the most runs that a setting takes under all cases: a quick look at the seeds, all
/// seeds, then each case. With a goal relative to the machine's own settings each case runs those,
/// too.
pub fn most_runs(question: &Question) -> u64 {
    let each = match question.goals.throughput.is_some() {
        true => 2 * RUNS_OF_CASE,
        false => RUNS_OF_CASE,
    };
    let seeds = question.seeds.min(FIRST_SEEDS) + question.seeds;
    u64::from(seeds) + cases().len() as u64 * u64::from(each)
}

/// The cases that one setting was tried under so far.
#[derive(Debug, Default)]
pub struct Borne(Vec<Margin>);

impl Borne {
    /// Returns true if the setting was tried under this case.
    fn was_tried(&self, case: &Case) -> bool {
        self.0.iter().any(|m| m.case == *case)
    }

    /// Returns the first of these results whose case must hold and in which a goal is missed, as
    /// the reason to refuse the setting; `None` if there is none.
    fn refused(of: &[Margin]) -> Option<Refused> {
        let bad = of.iter().find(|m| !m.holds && m.case.must_hold())?;
        Some(Refused {
            case: bad.case.clone(),
            figures: bad.figures.clone(),
        })
    }

    /// Returns the results of a setting under all cases tried: the seeds, then the other cases in
    /// the order of reports.
    pub fn margins(mut self) -> Vec<Margin> {
        let order: Vec<Case> = [Case::Seeds].into_iter().chain(cases()).collect();
        self.0
            .sort_by_key(|m| order.iter().position(|case| *case == m.case));
        self.0
    }
}

/// Tries a setting under the cases that are not in `borne` yet, and adds the results there. With
/// `whole` all cases are tried and `None` is returned; otherwise only those that must hold, up to
/// the first in which a goal is missed, which is returned. `own` has the figures of the machine's
/// own settings with the search's seeds.
///
/// # Errors
/// Fails if the user interrupts it.
pub fn try_cases(
    trials: &Trials<'_>,
    setting: &Setting,
    question: &Question,
    own: &Figures,
    borne: &mut Borne,
    whole: bool,
) -> Result<Option<Refused>, Interrupted> {
    let goals = &question.goals;
    // Bytes that the setting keeps free.
    let kept = kept_free_of(trials.cell(), setting);
    let cell = trials.with(setting);
    let relative = goals.throughput.is_some();
    // Compares the figures under a case with the goals; `own` is the throughput of the machine's
    // own settings under the same case.
    let judge = |case: Case, figures: Figures, own: f64| Margin {
        holds: goals.missed(&figures, own).is_empty(),
        own_throughput: own,
        case,
        figures,
    };
    // Runs the setting under `n` other seeds.
    let of_seeds = |n: u32| {
        let results = trials.cells(vec![cell.clone()], n, OTHER_SEEDS)?;
        let figures = figures(kept, &results[0]);
        Ok::<_, Interrupted>(judge(Case::Seeds, figures, own.throughput))
    };
    if !whole {
        let quick = of_seeds(question.seeds.min(FIRST_SEEDS))?;
        if let Some(refused) = Borne::refused(&[quick]) {
            return Ok(Some(refused));
        }
    }
    let wanted = |case: &Case| (whole || case.must_hold()) && !borne.was_tried(case);
    let cases: Vec<Case> = cases().into_iter().filter(wanted).collect();
    for part in cases.chunks(trials.jobs().max(4)) {
        let (mut cells, mut of) = (Vec::new(), Vec::new());
        for case in part {
            let Some(changed) = case.applied_to(&cell) else {
                continue;
            };
            cells.push(changed);
            if relative {
                // A cost changes the throughput of the machine's own settings, too.
                cells.extend(case.applied_to(trials.cell()));
            }
            of.push(case.clone());
        }
        let results = trials.cells(cells, RUNS_OF_CASE, CASES)?;
        // Results for each case: those of the setting, then, for goals relative to it, those of the
        // machine's own settings.
        let step = 1 + usize::from(relative);
        let first = borne.0.len();
        for (case, results) in of.into_iter().zip(results.chunks(step)) {
            let own = match results.get(1) {
                Some(own) => figures(0, own).throughput,
                None => own.throughput,
            };
            borne.0.push(judge(case, figures(kept, &results[0]), own));
        }
        if let Some(refused) = Borne::refused(&borne.0[first..]).filter(|_| !whole) {
            return Ok(Some(refused));
        }
    }
    if borne.was_tried(&Case::Seeds) {
        return Ok(None);
    }
    borne.0.push(of_seeds(question.seeds)?);
    let last = &borne.0[borne.0.len() - 1..];
    Ok(Borne::refused(last).filter(|_| !whole))
}
