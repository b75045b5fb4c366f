//! Collects the waits of tasks in all iterations of a cell, and the crowds of waiters behind one
//! object.

use serde::Serialize;
use sim::RunResult;
use sim::waiting::{Crowd, KindSum, LONGEST};

/// The waits of a cell's iterations together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Waits {
    /// Sums over the iterations; `most` is the largest of any iteration.
    pub kinds: Vec<KindSum>,
    /// The crowds that cost most, with their iterations, the worst first.
    pub crowds: Vec<CrowdOf>,
}

/// A crowd of waiters in one iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrowdOf {
    /// The iteration.
    pub iteration: u32,
    /// The crowd.
    #[serde(flatten)]
    pub crowd: Crowd,
}

/// Collects the waits of tasks in the iterations of a cell: sums by kind of wait, and the crowds of
/// waiters that lost most time. `iterations` yields a number and a result each; runs without
/// recorded waits are left out.
pub fn waits<'a>(iterations: impl IntoIterator<Item = (u32, &'a RunResult)>) -> Waits {
    let mut all = Waits::default();
    let told = iterations
        .into_iter()
        .filter_map(|(i, r)| Some((i, r.waits.as_ref()?)));
    for (iteration, own) in told {
        for kind in &own.kinds {
            match all.kinds.iter_mut().find(|k| k.kind == kind.kind) {
                Some(sum) => {
                    sum.count += kind.count;
                    sum.total_ns += kind.total_ns;
                    sum.most = sum.most.max(kind.most);
                }
                None => all.kinds.push(kind.clone()),
            }
        }
        let crowds = own.crowds.iter().cloned();
        all.crowds
            .extend(crowds.map(|crowd| CrowdOf { iteration, crowd }));
    }
    // The sort is stable: equal ones stay in the order of iterations.
    // Sorts by the time that the crowd's tasks lost in all, the largest first.
    let lost = |c: &CrowdOf| std::cmp::Reverse(c.crowd.task_ns);
    all.crowds.sort_by_key(lost);
    all.crowds.truncate(LONGEST);
    all
}
