//! `tune`: finds settings for a machine, a workload and goals by trying them in simulation.
//!
//! A search (CMA-ES) finds settings that meet the goals on a few seeds; the one that keeps least
//! memory free is then tried under other seeds and with every cost parameter half as large again
//! and half as large. If it misses a goal there, its watermarks are widened until it does not. The
//! answer therefore says at which price in memory the goals hold, and why not below.

pub mod adversary;
pub mod gaps;
pub mod goals;
pub mod learn;
pub mod margin;
pub mod page;
pub mod running;
pub mod search;
pub mod space;
pub mod sysctl_d;
pub mod text;
pub mod trial;
pub mod verdict;
pub mod verify;

use crate::model::Experiment;
use crate::runner::Simulate;
use goals::{Figures, Goal, Goals, mib, time};
use margin::{Borne, Margin, Refused, try_cases};
use search::{best_for, front, search};
use space::{Form, Knob, Setting, Space, kept_free};
use trial::{Interrupted, TrialOptions, Trials};

/// The question that `tune` answers.
#[derive(Debug, Clone)]
pub struct Question {
    /// The goals that settings have to reach.
    pub goals: Goals,
    /// The settings that may be changed. Empty: only the machine's own settings, or the profile
    /// that it runs under, are tried.
    pub knobs: Vec<Knob>,
    /// The way in which distances between watermarks are set.
    pub form: Form,
    /// Most settings that are tried.
    pub budget: usize,
    /// Runs of each setting while searching.
    pub search_seeds: u32,
    /// Runs of the chosen setting under other seeds.
    pub seeds: u32,
    /// The seed of the search itself.
    pub seed: u64,
}

/// A setting that was tried on the way to the chosen one.
#[derive(Debug, Clone)]
pub struct Rung {
    /// The setting.
    pub setting: Setting,
    /// Memory that the setting keeps free, in bytes.
    pub kept_free: u64,
    /// The reason why it was not taken; `None` for the chosen one.
    pub refused: Option<Refused>,
}

/// The chosen setting.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Its values.
    pub setting: Setting,
    /// Its figures with the search's seeds.
    pub figures: Figures,
    /// Its figures under other seeds, bursts and costs.
    pub margins: Vec<Margin>,
    /// True if every case that must hold does.
    pub holds: bool,
    /// Figures of the nearest setting that a current Linux accepts; `None` if that is the same
    /// setting.
    pub modern: Option<Figures>,
}

/// The answer to a question.
#[derive(Debug, Clone)]
pub struct Answer {
    /// True if the machine's own settings meet every goal, so that no others were searched for.
    pub already: bool,
    /// The knobs that have an effect on this machine.
    pub knobs: Vec<Knob>,
    /// Number of settings that were tried.
    pub tried: usize,
    /// The figures of the machine's own settings, with the search's seeds.
    pub own: Figures,
    /// All settings that were tried with the search's seeds.
    pub all: Vec<(Setting, Figures)>,
    /// Settings that no other setting beats in every figure.
    pub front: Vec<(Setting, Figures)>,
    /// The settings tried on the way to the chosen one, cheapest first.
    pub rungs: Vec<Rung>,
    /// The chosen setting.
    pub chosen: Chosen,
}

/// The reason why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The user interrupted the search.
    Interrupted,
    /// The goals can't be met.
    Impossible {
        /// The goal that is missed, and by how much.
        reason: String,
        /// The nearest goals that could be met.
        nearest: String,
    },
}

impl From<Interrupted> for NoAnswer {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// Factor by which watermarks are widened at a step, and the most settings tried on the way.
const WIDER: f64 = 1.25;
const RUNGS: usize = 16;

/// Finds settings (sysctls) with which the machine of the experiment's only cell reaches the goals
/// of `question`: tries the machine's own, searches for others in simulation, and tests the result
/// under other seeds, bursts and costs. `simulate` runs the cell.
///
/// # Errors
/// Fails if the goals can't be met, or the user interrupts it.
pub fn tune(
    experiment: &Experiment,
    question: &Question,
    options: TrialOptions,
    simulate: Simulate<'_>,
) -> Result<Answer, NoAnswer> {
    let goals = &question.goals;
    let trials = Trials::new(experiment, question.search_seeds, options, simulate);
    let machine = &trials.cell().spec.machine;
    let space = Space::new(machine, &question.knobs, question.form, goals.max_free);
    refuse_at_once(&trials, &space, goals)?;
    let answer = answer(&trials, &space, question);
    trials.done();
    answer
}

/// Refuses goals that are seen to be impossible without a run: less memory kept free than the
/// lowest watermarks of `space` keep, or allocations faster than the refill of a CPU's list of
/// pages takes.
///
/// # Errors
/// Returns the impossible goal with its reason and the nearest possible one.
fn refuse_at_once(trials: &Trials<'_>, space: &Space, goals: &Goals) -> Result<(), NoAnswer> {
    let cell = trials.cell();
    let machine = &cell.spec.machine;
    if let Some(most) = goals.max_free {
        let least = kept_free(&space.setting(&vec![0.0; space.dimensions()]).on(machine));
        if least > most {
            return Err(NoAnswer::Impossible {
                reason: format!(
                    "the least that can be kept free on this machine is {}, more than {}",
                    mib(least),
                    mib(most)
                ),
                nearest: format!("--max-free {}K", least.div_ceil(1024)),
            });
        }
    }
    if let Some(most) = goals.alloc_latency_ns {
        let p = machine.params(&cell.spec.params);
        let zones = sim::run::engine_config(machine).zones;
        let largest = zones.iter().map(|z| z.size).max().unwrap_or(0);
        let batch = mm::memory::watermark::pcp_batch(largest, cell.spec.policy.pcp_batch_cap());
        // Nanoseconds.
        let refill = p.cost_page_alloc + f64::from(batch) * p.cost_page_bulk;
        if (most as f64) < refill {
            return Err(NoAnswer::Impossible {
                reason: format!(
                    "an allocation that has to refill its CPU's list takes {} with nothing in its \
                     way (cost_page_alloc + {batch} x cost_page_bulk), longer than {}",
                    time(refill as u64),
                    time(most)
                ),
                nearest: format!("--alloc-latency {}ns", refill.ceil() as u64),
            });
        }
    }
    Ok(())
}

/// Tries the machine's own settings, searches `space` for others if the own miss a goal, and tests
/// the margins of the result: whether the goals hold under other seeds, bursts and costs.
fn answer(trials: &Trials<'_>, space: &Space, question: &Question) -> Result<Answer, NoAnswer> {
    let goals = &question.goals;
    // Without a knob only the present settings are tried.
    let budget = if space.knobs().is_empty() {
        1
    } else {
        question.budget
    };
    let runs = budget as u64 * u64::from(question.search_seeds);
    trials.phase(
        "the machine's own settings",
        u64::from(question.search_seeds),
    );
    let own = trials.figures(&Setting::default())?;
    if let Some((goal, nearest)) = goals.unmeasured(&own) {
        return Err(NoAnswer::Impossible {
            reason: format!("nothing in the workload measures {}", goal.name()),
            nearest: format!("accepted: {nearest}"),
        });
    }
    if goals.missed(&own, own.throughput).is_empty() && !space.knobs().is_empty() {
        let machine = &trials.cell().spec.machine;
        let fixed = Space::new(machine, &[], question.form, goals.max_free);
        let only_own = vec![Setting::default()];
        let (rungs, borne) = try_ladder(trials, &fixed, question, only_own, &own)?;
        if rungs.last().is_some_and(|r| r.refused.is_none()) {
            let chosen = test_margins(trials, question, &rungs, borne, &own)?;
            return Ok(Answer {
                already: true,
                knobs: space.knobs().to_vec(),
                tried: trials.count(),
                front: front(&trials.tried()),
                all: trials.tried(),
                own,
                rungs,
                chosen,
            });
        }
    }
    trials.phase("searching", runs);
    let found = search(trials, space, goals, budget, question.seed)?;
    let meets = |f: &Figures| goals.missed(f, found.own.throughput).is_empty();
    let good: Vec<_> = found.by_cost.iter().filter(|(_, f)| meets(f)).collect();
    let Some((first, figures)) = good.first() else {
        return Err(impossible(trials, question, &found)?);
    };
    // The candidates, in the order in which they are tried.
    let mut ladder = vec![first.clone()];
    if goals.of_programs() {
        // Wider watermarks alone do not make a program answer earlier: the next candidates are
        // settings that meet the goals with an eighth less time each.
        let mut left = good.clone();
        let mut most = goals.time_of(figures);
        left.retain(|(_, f)| goals.time_of(f) < most);
        while let Some((setting, f)) = left.first() {
            ladder.push(setting.clone());
            most = goals.time_of(f) - goals.time_of(f) / 8;
            left.retain(|(_, f)| goals.time_of(f) < most);
        }
    }
    let (rungs, borne) = try_ladder(trials, space, question, ladder, &found.own)?;
    let chosen = test_margins(trials, question, &rungs, borne, &found.own)?;
    Ok(Answer {
        already: false,
        knobs: space.knobs().to_vec(),
        tried: trials.count(),
        own: found.own,
        front: front(&trials.tried()),
        all: trials.tried(),
        rungs,
        chosen,
    })
}

/// Tries the settings of `ladder` one after the other, then the last one with wider and wider
/// watermarks, until one bears every case that must hold (other seeds, other costs), keeps more
/// memory free than the goals allow, or can't be widened. Returns the settings tried and the cases
/// that the last one was tried under. `own` has the figures of the machine's own settings.
fn try_ladder(
    trials: &Trials<'_>,
    space: &Space,
    question: &Question,
    ladder: Vec<Setting>,
    own: &Figures,
) -> Result<(Vec<Rung>, Borne), NoAnswer> {
    let goals = &question.goals;
    let machine = &trials.cell().spec.machine;
    let most = margin::most_runs(question);
    let mut rungs: Vec<Rung> = Vec::new();
    let mut borne = Borne::default();
    let mut ladder = ladder.into_iter();
    let mut next = ladder.next();
    while let Some(setting) = next {
        let kept_free = kept_free(&setting.on(machine));
        if rungs.len() == RUNGS || goals.max_free.is_some_and(|most| kept_free > most) {
            break;
        }
        trials.phase(&format!("trying {}", mib(kept_free)), most);
        borne = Borne::default();
        let refused = try_cases(trials, &setting, question, own, &mut borne, false)?;
        let taken = refused.is_none();
        let fixed = space.knobs().is_empty();
        next = match ladder.next() {
            None if fixed => None,
            None => space.wider(&setting, WIDER),
            other => other,
        };
        rungs.push(Rung {
            setting,
            kept_free,
            refused,
        });
        if taken {
            break;
        }
    }
    Ok((rungs, borne))
}

/// Tries the last setting of `rungs` under the cases that are not in `borne` yet, and returns it
/// with all margins, and with the figures of the nearest setting that a current Linux accepts.
/// `own` has the figures of the machine's own settings.
fn test_margins(
    trials: &Trials<'_>,
    question: &Question,
    rungs: &[Rung],
    mut borne: Borne,
    own: &Figures,
) -> Result<Chosen, NoAnswer> {
    let machine = &trials.cell().spec.machine;
    let last = rungs.last().ok_or(NoAnswer::Interrupted)?;
    let (setting, holds) = (last.setting.clone(), last.refused.is_none());
    // The cases that the last rung was not tried under.
    let most = margin::most_runs(question) + u64::from(question.search_seeds);
    trials.phase("margins", most);
    try_cases(trials, &setting, question, own, &mut borne, true)?;
    let modern = sysctl_d::modern(&setting, machine);
    let modern = if modern == setting {
        None
    } else {
        Some(trials.figures(&modern)?)
    };
    Ok(Chosen {
        figures: trials.figures(&setting)?,
        margins: borne.margins(),
        setting,
        holds,
        modern,
    })
}

/// Builds the answer for goals that no setting in `found` meets: how near the nearest came, and for
/// each goal that it missed the value that one setting does meet, as command line options.
fn impossible(
    trials: &Trials<'_>,
    question: &Question,
    found: &search::Found,
) -> Result<NoAnswer, Interrupted> {
    let goals = &question.goals;
    let (setting, nearest) = &found.by_cost[0];
    let missed = goals.missed(nearest, found.own.throughput);
    let say = |f: &Figures| {
        format!(
            "{}, {} direct reclaims, {} kept free, {:.0} MB/s{}",
            goals.times(f),
            f.direct,
            mib(f.kept_free),
            f.throughput,
            f.failed
                .as_ref()
                .map_or(String::new(), |w| format!(", {w}"))
        )
    };
    let n = found.by_cost.len();
    let reason = format!(
        "{} all goals: {goals}. The nearest gives {} ({})",
        if n == 1 {
            "the setting misses some of".into()
        } else {
            format!("none of {n} settings meets")
        },
        say(nearest),
        text::values(setting, &trials.cell().spec.machine)
    );
    let mut ways = Vec::new();
    for (goal, _) in &missed {
        let best = best_for(*goal, goals, &found.by_cost, &found.own);
        let Some((_, f)) = best else { continue };
        ways.push(match goal {
            Goal::AllocLatency => format!("--alloc-latency {}us", f.worst_ns.div_ceil(1000)),
            Goal::DirectReclaim => format!("--direct-reclaim {}", f.direct),
            Goal::Response => format!("--response {}us", goals.time_of(&f).div_ceil(1000)),
            Goal::FioP99 => format!("--fio-p99 {}us", f.fio_p99_ns.unwrap_or(0).div_ceil(1000)),
            Goal::MaxFree => format!("--max-free {}K", f.kept_free.div_ceil(1024)),
            Goal::Throughput => format!("--throughput {:.1}MB/s", f.throughput * 0.999),
            Goal::Completes => continue,
        });
    }
    // With a limit of memory: also search for the memory at which the other goals hold.
    if goals.max_free.is_some() && n > 1 {
        let free = Goals {
            max_free: None,
            ..*goals
        };
        let machine = &trials.cell().spec.machine;
        let space = Space::new(machine, &question.knobs, question.form, None);
        trials.phase(
            "searching without a limit of memory",
            question.budget as u64 * u64::from(question.search_seeds),
        );
        let budget = trials.count() + question.budget;
        let wider = search(trials, &space, &free, budget, question.seed)?;
        let meets = |f: &Figures| free.missed(f, wider.own.throughput).is_empty();
        if let Some((_, f)) = wider.by_cost.iter().find(|(_, f)| meets(f)) {
            ways.push(format!("--max-free {}K", f.kept_free.div_ceil(1024)));
        }
    }
    ways.dedup();
    let nearest = if ways.is_empty() {
        "no goal alone stands in the way: several have to be eased".into()
    } else {
        format!(
            "with the search's seeds one of these instead was met, and under other seeds it may not be: {}",
            ways.join(", ")
        )
    };
    Ok(NoAnswer::Impossible { reason, nearest })
}

#[cfg(test)]
mod tests;
