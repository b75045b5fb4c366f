//! Searches the unit cube of settings with CMA-ES, beginning with the machine's own settings.

use super::goals::{Figures, Goal, Goals};
use super::space::{Setting, Space};
use super::trial::{Interrupted, Trials};
use cmaes::{CMAESOptions, DVector};
use mm::NoMemory;

/// Cost of missing a goal: outweighs all memory and throughput saved.
const MISSED: f64 = 10.0;
/// Weight of throughput. Among settings that meet the goals the one that keeps least memory free is
/// best; a tenth of the throughput is worth as much as a tenth of that memory.
const THROUGHPUT: f64 = 1.0;
/// Weight of latency: halving the longest allocation is worth as much as a twentieth of the memory.
const LATENCY: f64 = 0.07;

/// The result of a search that was not interrupted.
pub struct Found {
    /// The figures of the machine's own settings.
    pub own: Figures,
    /// Settings with their figures, in the order of their cost, the cheapest first.
    pub by_cost: Vec<(Setting, Figures)>,
}

/// Returns the cost of a setting with the figures `f`: lower is better. A missed goal outweighs all
/// else; then count memory kept free, throughput and latency as logarithms of their ratio to those
/// of the machine's own settings (`own`).
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

/// Tries up to `budget` settings of `space`, beginning with the machine's own, for the one that
/// reaches the goals at the lowest cost. `seed` is that of the search. Returns all settings tried,
/// the cheapest first.
///
/// # Errors
/// Fails if the user interrupts it.
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

/// Minimises the cost over the unit cube with CMA-ES, starting from the point `start`, until
/// `budget` different settings were tried, as counted by `tried`.
///
/// The first search looks wide, the next ones nearer and nearer around the best point that is
/// known. The budget counts settings tried, not samples; a search that only meets known settings
/// ends.
///
/// # Errors
/// Fails if the user interrupts it.
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
    // The point around which a round searches, and the standard deviation of its samples.
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
        // Samples are evaluated on the pool's threads; the count is read on this one only.
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

/// Returns the settings that no other beats in memory kept free, longest allocation, direct
/// reclaims and throughput together (the Pareto front), ascending by memory. Settings with a failed
/// run are left out.
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

/// Returns the best setting for one goal among those that miss no other goal: the one that misses
/// this goal by least; `None` if every setting misses another goal. `own` has the figures of the
/// machine's own settings.
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
