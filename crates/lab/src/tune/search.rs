//! The search: CMA-ES over the unit cube of settings, from the machine's own settings on.

use super::goals::{Figures, Goal, Goals};
use super::space::{Setting, Space};
use super::trial::{Interrupted, Trials};
use cmaes::{CMAESOptions, DVector};
use mm::NoMemory;

/// What is worth more is cheaper: every goal missed outweighs all memory and throughput saved.
const MISSED: f64 = 10.0;
/// Of the settings that meet the goals, the one that keeps least memory free is best; a tenth of
/// the throughput is worth as much as a tenth of that memory.
const THROUGHPUT: f64 = 1.0;
/// Half of the longest allocation is worth as much as a twentieth of the memory.
const LATENCY: f64 = 0.07;

/// How a search ends that nobody stopped.
pub struct Found {
    /// What the machine's own settings give.
    pub own: Figures,
    /// Settings in the order of their cost, cheapest first, with what they gave.
    pub by_cost: Vec<(Setting, Figures)>,
}

/// The cost of what a setting gave.
pub fn cost(goals: &Goals, f: &Figures, own: &Figures) -> f64 {
    let missed: f64 = goals
        .missed(f, own.throughput)
        .iter()
        .map(|m| MISSED * (0.1 + m.1))
        .sum();
    let ratio = |a: f64, b: f64| (a.max(1e-9) / b.max(1e-9)).ln();
    missed
        + ratio(f.kept_free as f64, own.kept_free as f64)
        + THROUGHPUT * ratio(own.throughput, f.throughput)
        + LATENCY * ratio(f.worst_ns as f64, own.worst_ns as f64)
}

/// Tries up to `budget` settings.
///
/// # Errors
/// The user stopped it.
pub fn search(
    trials: &Trials<'_>,
    space: &Space,
    goals: &Goals,
    budget: usize,
    seed: u64,
) -> Result<Found, Interrupted> {
    let own = trials.figures(&Setting::default())?;
    let key = |f: &Figures| cost(goals, f, &own);
    minimize(
        trials,
        space.own(&trials.cell().spec.machine),
        budget,
        seed,
        &|| trials.count(),
        &|point| match trials.figures(&space.setting(point)) {
            Ok(f) => key(&f),
            Err(Interrupted) => f64::NAN,
        },
    )?;
    let mut by_cost = trials.tried();
    by_cost.sort_by(|a, b| key(&a.1).total_cmp(&key(&b.1)));
    Ok(Found { by_cost, own })
}

/// Looks for the least cost over the unit cube from `start` on, until `tried` things were tried.
///
/// The first search looks wide, the next ones nearer and nearer around the best that is known: the
/// budget counts what was tried, not samples, and a search that only meets what it knows ends.
///
/// # Errors
/// The user stopped it.
pub(super) fn minimize(
    trials: &Trials<'_>,
    start: Vec<f64>,
    budget: usize,
    seed: u64,
    tried: &dyn Fn() -> usize,
    cost: &(dyn Fn(&[f64]) -> f64 + Sync),
) -> Result<(), Interrupted> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(trials.jobs())
        .build()
        .unwrap_or_else(|_| NoMemory::thread(2 << 20).raise());
    let evaluate = |x: &DVector<f64>| cost(x.as_slice());
    let (mut mean, mut width) = (start, 0.3);
    for round in 0..8 {
        let before = tried();
        if before >= budget {
            break;
        }
        let options = CMAESOptions::new(mean.clone(), width)
            .seed(seed.wrapping_add(round))
            .tol_fun(1e-3)
            .tol_x(5e-3)
            .max_function_evals(2 * (budget - before));
        let Ok(mut state) = options.build(&evaluate) else {
            break;
        };
        // Evaluated on the pool's threads; only this one counts.
        while tried() < budget {
            if pool.install(|| state.next_parallel().is_some()) {
                break;
            }
        }
        if trials.is_stopped() {
            return Err(Interrupted);
        }
        if let Some(best) = state.overall_best_individual() {
            mean = best.point.as_slice().to_vec();
        }
        width = (width * 0.5).max(0.05);
    }
    Ok(())
}

/// The settings of which no other keeps less memory free, has a shorter longest allocation and a
/// higher throughput: in the order of memory.
pub fn front(all: &[(Setting, Figures)]) -> Vec<(Setting, Figures)> {
    let better = |a: &Figures, b: &Figures| {
        let le = a.kept_free <= b.kept_free
            && a.worst_ns <= b.worst_ns
            && a.direct <= b.direct
            && a.throughput >= b.throughput;
        let lt = a.kept_free < b.kept_free
            || a.worst_ns < b.worst_ns
            || a.direct < b.direct
            || a.throughput > b.throughput;
        le && lt
    };
    let complete = || all.iter().filter(|(_, f)| f.failed.is_none());
    let mut front: Vec<_> = complete()
        .filter(|(_, f)| !complete().any(|(_, other)| better(other, f)))
        .cloned()
        .collect();
    front.sort_by_key(|(_, f)| (f.kept_free, f.worst_ns));
    front
}

/// The best that a goal alone can get among settings that miss none of the others.
pub fn best_for(
    goal: Goal,
    goals: &Goals,
    all: &[(Setting, Figures)],
    own: &Figures,
) -> Option<(Setting, Figures)> {
    let others = all.iter().filter(|(_, f)| {
        let missed = goals.missed(f, own.throughput);
        missed.iter().all(|m| m.0 == goal)
    });
    others
        .min_by(|a, b| {
            let by = |f: &Figures| {
                let missed = goals.missed(f, own.throughput);
                missed.first().map_or(0.0, |m| m.1)
            };
            by(&a.1).total_cmp(&by(&b.1))
        })
        .cloned()
}
