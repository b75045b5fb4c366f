//! Statistics of iterations, with their sources.
//!
//! Conventions follow benchstat (`~` where nothing can be claimed, p and n always shown) and
//! hyperfine (outliers are reported, never dropped).

use std::sync::OnceLock;

use serde::Serialize;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

/// The confidence level of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// A difference with a p-value below this is claimed.
pub const ALPHA: f64 = 0.05;
/// Samples smaller than this get a warning (benchstat).
pub const FEW: usize = 6;

/// A sample's summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Sample size.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n − 1.
    pub sd: f64,
    /// Smallest value.
    pub min: f64,
    /// Median (mean of the two middle values).
    pub median: f64,
    /// Largest value.
    pub max: f64,
    /// Interval of the mean by Student's t, or by the bootstrap where Student's t would reach below
    /// 0 and no value does; `None` below two samples.
    pub mean_interval: Option<(f64, f64)>,
    /// Distribution-free interval of the median by order statistics; `None` where n is too small.
    pub median_interval: Option<(f64, f64)>,
}

/// Summarises a sample: mean, spread, median, and confidence intervals; `None` if it is empty.
pub fn summary(values: &[f64]) -> Option<Summary> {
    if values.is_empty() {
        return None;
    }
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    let n = v.len();
    let mean = v.iter().sum::<f64>() / n as f64;
    let sd = variance(&v, mean).sqrt();
    let mean_interval = (n > 1).then(|| {
        let t = StudentsT::new(0.0, 1.0, (n - 1) as f64).expect("positive freedom");
        // Half the width of the interval.
        let half = t.inverse_cdf(0.5 + CONFIDENCE / 2.0) * sd / (n as f64).sqrt();
        let low = mean - half;
        if low < 0.0 && v[0] >= 0.0 {
            // Student's t assumes a normal distribution; for values that can't be negative use the
            // bootstrap.
            bootstrap(&v, &mean_of).unwrap_or((0.0, mean + half))
        } else {
            (low, mean + half)
        }
    });
    Some(Summary {
        n,
        mean,
        sd,
        min: v[0],
        median: median_sorted(&v),
        max: v[n - 1],
        mean_interval,
        median_interval: median_interval(&v),
    })
}

/// Returns the median (mean of the two middle values), ignoring values that are not finite; `None`
/// if no value is left.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut v: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    v.sort_by(f64::total_cmp);
    (!v.is_empty()).then(|| median_sorted(&v))
}

/// Returns the variance of a sample around its mean, with n − 1; 0 below two values.
fn variance(v: &[f64], mean: f64) -> f64 {
    if v.len() < 2 {
        return 0.0;
    }
    v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (v.len() - 1) as f64
}

/// Returns the median of sorted values, of which there must be one: the middle one, or the mean of
/// the middle two.
fn median_sorted(v: &[f64]) -> f64 {
    let n = v.len();
    if n % 2 == 1 {
        v[n / 2]
    } else {
        (v[n / 2 - 1] + v[n / 2]) / 2.0
    }
}

/// Returns the confidence interval of the median (lower and upper end) of sorted values: the
/// narrowest pair of order statistics whose coverage by the binomial distribution reaches the
/// confidence (Conover, Practical Nonparametric Statistics, 3.2). `None` if there are too few
/// values.
fn median_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    let b = Binomial::new(0.5, n as u64).ok()?;
    let k = (0..n / 2)
        .take_while(|&k| b.cdf(k as u64) <= (1.0 - CONFIDENCE) / 2.0)
        .count();
    (k > 0).then(|| (sorted[k - 1], sorted[n - k]))
}

/// Returns the two-sided p-value of the Mann–Whitney U test (1947) for the difference of two
/// samples: exact by counting for small samples, else normal with tie and continuity corrections.
/// With ties the count is of the rank sums that are as far from their mean, since their
/// distribution is not symmetrical. Returns 1 if all values are equal or a sample is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return 1.0;
    }
    let mut all: Vec<(f64, bool)> = a
        .iter()
        .map(|&x| (x, true))
        .chain(b.iter().map(|&x| (x, false)))
        .collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    // Twice the rank of each value, which is a whole number with ties, too.
    let mut doubled = vec![0; all.len()];
    let (mut rank_sum, mut ties, mut i) = (0.0, 0.0, 0);
    while i < all.len() {
        // `i..j` are tied values; they share the mean of their ranks.
        let j = (i..all.len())
            .take_while(|&j| all[j].0 == all[i].0)
            .last()
            .expect("itself")
            + 1;
        let tied = (j - i) as f64;
        doubled[i..j].fill(i + 1 + j);
        let rank = (i + 1 + j) as f64 / 2.0;
        rank_sum += rank * all[i..j].iter().filter(|x| x.1).count() as f64;
        ties += tied * tied * tied - tied;
        i = j;
    }
    let (nf, mf) = (n as f64, m as f64);
    let u = rank_sum - nf * (nf + 1.0) / 2.0;
    let mean = nf * mf / 2.0;
    if doubled[0] == doubled[doubled.len() - 1] {
        return 1.0;
    }
    if ties == 0.0 && n.max(m) <= MOST_APART {
        let least = u.min(nf * mf - u) as usize;
        return (2.0 * exact_tail(n, m, least)).min(1.0);
    }
    if n + m <= MOST_TIED {
        return exact_tied(&doubled, n, (2.0 * rank_sum) as usize);
    }
    let total = nf + mf;
    let var = nf * mf / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if var <= 0.0 {
        return 1.0;
    }
    let z = ((u - mean).abs() - 0.5).max(0.0) / var.sqrt();
    2.0 * (1.0 - Normal::standard().cdf(z))
}

/// Returns true if samples of `n` and `m` values can differ with p below [`ALPHA`]: if they lie
/// wholly apart, p is 2 / (n + m over n).
pub fn can_differ(n: usize, m: usize) -> bool {
    let ways = (1..=n.min(m)).fold(1.0, |ways, k| ways * (n + m + 1 - k) as f64 / k as f64);
    2.0 / ways < ALPHA
}

/// Returns the warning about cells of which so few iterations completed, `least` of the fewest and
/// at least one, that little can be claimed; `None` if they are enough.
pub fn warning_of_few(least: usize) -> Option<String> {
    match least {
        0 | FEW.. => None,
        n if can_differ(n, n) => Some(format!(
            "fewer than {FEW} iterations completed in some cells: only large differences can be \
             claimed; raise --iterations"
        )),
        _ => Some(
            "in some cells so few iterations completed that no difference can be claimed; raise \
             --iterations"
                .to_owned(),
        ),
    }
}

/// The largest sample without ties whose p-value is counted.
const MOST_APART: usize = 30;

/// Returns P(U ≤ u) for samples of `n` and `m` values under the null hypothesis, each at most
/// [`MOST_APART`]. The distribution of a pair of sizes is counted once: a sweep of a thousand cells
/// asks for it tens of thousands of times.
fn exact_tail(n: usize, m: usize, u: usize) -> f64 {
    static KNOWN: [[OnceLock<Box<[f64]>>; MOST_APART + 1]; MOST_APART + 1] =
        [const { [const { OnceLock::new() }; MOST_APART + 1] }; MOST_APART + 1];
    KNOWN[n][m].get_or_init(|| counted_tails(n, m))[u.min(n * m)]
}

/// Returns P(U ≤ u) for each u of 0 to n·m, by counting for each value of U the subsets of ranks
/// that give it, with the recurrence f(n, m, u).
fn counted_tails(n: usize, m: usize) -> Box<[f64]> {
    // Counts of subsets of 1..=n+m of size n by U, built item by item.
    let most = n * m;
    let mut counts = vec![vec![0.0f64; most + 1]; n + 1];
    counts[0][0] = 1.0;
    for item in 0..n + m {
        for k in (0..n.min(item + 1)).rev() {
            // The rank of the item among those that the subset leaves out.
            let add = item - k;
            if add <= most {
                add_shifted(&mut counts, k, most + 1 - add, add);
            }
        }
    }
    let total: f64 = counts[n].iter().sum();
    let mut below = 0.0;
    let tail = |count: &f64| {
        below += count;
        below / total
    };
    counts[n].iter().map(tail).collect()
}

/// Adds the first `len` counts of the subsets of `k` items to those of `k + 1`, `by` places on.
fn add_shifted(counts: &mut [Vec<f64>], k: usize, len: usize, by: usize) {
    let (fewer, more) = counts.split_at_mut(k + 1);
    for (into, subsets) in more[0][by..].iter_mut().zip(&fewer[k][..len]) {
        *into += subsets;
    }
}

/// The most values of two samples with ties whose p-value is counted: the count takes time with
/// their cube.
const MOST_TIED: usize = 40;

/// Returns the share of all ways to choose `n` of the ranks whose sum is at least as far from its
/// mean as `seen`. `doubled` are twice the ranks of both samples, and `seen` is twice the rank sum
/// of the first.
fn exact_tied(doubled: &[usize], n: usize, seen: usize) -> f64 {
    let all: usize = doubled.iter().sum();
    assert!(n <= doubled.len() && seen <= all);
    // The number of subsets by size and sum, built rank by rank.
    let mut counts = vec![vec![0.0f64; all + 1]; n + 1];
    counts[0][0] = 1.0;
    let mut most = 0;
    for (item, rank) in doubled.iter().enumerate() {
        for k in (0..n.min(item + 1)).rev() {
            add_shifted(&mut counts, k, most + 1, *rank);
        }
        most += rank;
    }
    // All sums times the number of values, so that the mean is a whole number.
    let values = doubled.len();
    let far = |sum: usize| (sum * values).abs_diff(n * all);
    let tail: f64 = (0..=all)
        .filter(|&sum| far(sum) >= far(seen))
        .map(|sum| counts[n][sum])
        .sum();
    let total: f64 = counts[n].iter().sum();
    (tail / total).min(1.0)
}

/// Number of resamples of a bootstrap.
const RESAMPLES: usize = 1000;
/// Smallest sample that is resampled.
const LEAST_RESAMPLED: usize = 3;

/// Returns the confidence interval (lower and upper end) of a sample's statistic by the percentile
/// bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 13.3). It lies within the
/// measured values, so that no latency comes out below 0. `None` below three values. The same
/// sample gives the same interval.
pub fn bootstrap(values: &[f64], statistic: &dyn Fn(&mut [f64]) -> f64) -> Option<(f64, f64)> {
    resampled(&[values], &mut |drawn| statistic(&mut drawn[0]))
}

/// Returns the confidence interval of the relative change of a statistic, new / base − 1, by the
/// percentile bootstrap of both samples; `None` below three values of either, or if a change is
/// not finite.
pub fn change_interval(
    new: &[f64],
    base: &[f64],
    statistic: &dyn Fn(&mut [f64]) -> f64,
) -> Option<(f64, f64)> {
    resampled(&[new, base], &mut |drawn| {
        let new = statistic(&mut drawn[0]);
        let old = statistic(&mut drawn[1]);
        // Equal statistics are no change, even if both are 0.
        if new == old { 0.0 } else { new / old - 1.0 }
    })
}

/// Draws from each of the samples with replacement, 1000 times, and computes the statistic of what
/// was drawn. Returns the interval (lower and upper end) that holds the middle [`CONFIDENCE`] of
/// its values; `None` if a sample is too small or a value is not finite. The random numbers are the
/// same in each call.
fn resampled(
    samples: &[&[f64]],
    statistic: &mut dyn FnMut(&mut [Vec<f64>]) -> f64,
) -> Option<(f64, f64)> {
    if samples.iter().any(|s| s.len() < LEAST_RESAMPLED) {
        return None;
    }
    let mut rng = sim::rng::Rng::new(1, "bootstrap");
    let mut drawn: Vec<Vec<f64>> = samples.iter().map(|s| s.to_vec()).collect();
    let mut found = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for (into, from) in drawn.iter_mut().zip(samples) {
            for x in into.iter_mut() {
                *x = from[rng.below(from.len() as u64) as usize];
            }
        }
        found.push(statistic(&mut drawn));
    }
    if found.iter().any(|x| !x.is_finite()) {
        return None;
    }
    found.sort_by(f64::total_cmp);
    let beyond = ((1.0 - CONFIDENCE) / 2.0 * RESAMPLES as f64) as usize;
    Some((found[beyond], found[RESAMPLES - 1 - beyond]))
}

/// Returns the arithmetic mean, as a statistic for the bootstrap.
pub fn mean_of(values: &mut [f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the median, as a statistic for the bootstrap; sorts the values.
pub fn median_of(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    median_sorted(values)
}

/// Formats a p-value for tables: `0.012`, and `< 0.001` where three digits would show 0.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".into()
    } else {
        format!("{p:.3}")
    }
}

/// Formats a p-value for sentences: `p=0.012`, `p<0.001`.
pub fn p_said(p: f64) -> String {
    if p < 0.001 {
        "p<0.001".into()
    } else {
        format!("p={p:.3}")
    }
}

/// Returns the indexes of the values that are outliers by the modified z-score (Iglewicz and
/// Hoaglin, 1993): |0.6745 (x − median) / MAD| > 10, hyperfine's threshold of 14.826 MAD, the
/// median absolute deviation. Empty if that is 0.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(s) = summary(values) else {
        return Vec::new();
    };
    let mut deviations: Vec<f64> = values.iter().map(|x| (x - s.median).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    let mad = median_sorted(&deviations);
    if mad == 0.0 {
        return Vec::new();
    }
    (0..values.len())
        .filter(|&i| (values[i] - s.median).abs() > 14.826 * mad)
        .collect()
}

/// Splits a sample into two groups of at least two values each if the gap between them is more than
/// four times the next largest gap between neighbours, and more than a tenth of the median. Returns
/// the indexes of the lower and of the higher group; `None` if there are no such groups. Of samples
/// of one normal distribution, four in a hundred are split (of four values; fewer with more).
pub fn two_groups(values: &[f64]) -> Option<[Vec<usize>; 2]> {
    if values.len() < 4 {
        return None;
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let gap = |i: usize| values[order[i]] - values[order[i - 1]];
    // Positions in `order` at which a second group could begin.
    let all = 2..order.len() - 1;
    let widest = all.max_by(|&a, &b| gap(a).total_cmp(&gap(b)))?;
    let others = (1..order.len()).filter(|&i| i != widest).map(gap);
    let next = others.fold(0.0, f64::max);
    let median = summary(values)?.median.abs();
    let apart = gap(widest) > 4.0 * next && gap(widest) > 0.1 * median;
    apart.then(|| {
        let high = order.split_off(widest);
        [order, high]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sample_of_two_groups_is_told_from_one_of_noise() {
        let both = two_groups(&[145.6, 100.2, 146.9, 101.0, 144.8]);
        assert_eq!(both, Some([vec![1, 3], vec![4, 0, 2]]));
        // A single distant value is an outlier and not a group, and three values are too few.
        assert_eq!(two_groups(&[100.0, 101.0, 102.0, 150.0]), None);
        assert_eq!(two_groups(&[100.0, 100.1, 150.0]), None);
        // The groups are distinct but too close to matter.
        assert_eq!(two_groups(&[100.0, 100.1, 102.0, 102.1]), None);
        let mut rng = sim::rng::Rng::new(7, "two groups");
        for n in [4, 6, 10, 25] {
            let normal = |_| {
                let (u, v) = (rng.unit().max(1e-12), rng.unit());
                (-2.0_f64 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
            };
            let many: Vec<f64> = (0..n * 4000).map(normal).collect();
            let found = many.chunks(n).filter(|s| two_groups(s).is_some()).count();
            assert!(found * 25 <= 4000, "{found} of 4000 samples of {n}");
        }
    }

    #[test]
    fn an_interval_of_what_cannot_be_negative_is_not() {
        // With one long stall among short ones Student's t reaches to -90.
        let s = summary(&[1.0, 1.0, 2.0, 1.0, 1.0, 200.0]).unwrap();
        let (low, high) = s.mean_interval.unwrap();
        assert!(low >= 1.0 && high > s.mean && high <= 200.0, "{low} {high}");
        assert_eq!(summary(&[0.0, 1.0]).unwrap().mean_interval.unwrap().0, 0.0);
        // Figures that can be negative keep Student's interval.
        let t = summary(&[-1.0, 1.0, 2.0]).unwrap();
        assert!(t.mean_interval.unwrap().0 < -1.0);
    }

    #[test]
    fn a_change_has_an_interval_around_it() {
        let (new, base) = ([9.0, 9.5, 9.2, 9.1, 9.4], [10.0, 10.4, 9.9, 10.1, 10.2]);
        let (low, high) = change_interval(&new, &base, &mean_of).unwrap();
        assert!(
            -0.13 < low && low < -0.087 && -0.087 < high && high < -0.05,
            "{low} {high}"
        );
        assert_eq!(change_interval(&new, &base, &mean_of), Some((low, high)));
        assert_eq!(change_interval(&new, &base[..2], &mean_of), None);
        assert_eq!(
            change_interval(&[0.0; 3], &[0.0; 3], &median_of),
            Some((0.0, 0.0))
        );
        assert_eq!(change_interval(&[1.0; 3], &[0.0; 3], &median_of), None);
    }

    #[test]
    fn no_p_value_is_shown_as_nothing() {
        assert_eq!([p_value(0.0002), p_value(0.0124)], ["< 0.001", "0.012"]);
        assert_eq!([p_said(0.0), p_said(1.0)], ["p<0.001", "p=1.000"]);
    }

    /// Computes U by definition, and p by going through every split of the pooled ranks.
    fn brute(a: &[f64], b: &[f64]) -> f64 {
        let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
        let u_of = |mask: u32| {
            let (mut u, n) = (0usize, pooled.len());
            for i in (0..n).filter(|i| mask >> i & 1 == 1) {
                u += (0..n)
                    .filter(|j| mask >> j & 1 == 0 && pooled[*j] < pooled[i])
                    .count();
            }
            u
        };
        let seen = u_of((1 << a.len()) - 1);
        let least = seen.min(a.len() * b.len() - seen);
        let masks: Vec<u32> = (0..1u32 << pooled.len())
            .filter(|m| m.count_ones() as usize == a.len())
            .collect();
        let tail = masks.iter().filter(|&&m| u_of(m) <= least).count() as f64;
        (2.0 * tail / masks.len() as f64).min(1.0)
    }

    /// Computes p of samples with ties by going through every split of the pooled values: the share
    /// of those whose U, with half a point for a tie, is as far from its mean.
    fn brute_tied(a: &[f64], b: &[f64]) -> f64 {
        let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
        let n = pooled.len();
        let far = |mask: u32| {
            let mut u = 0.0;
            for i in (0..n).filter(|i| mask >> i & 1 == 1) {
                for j in (0..n).filter(|j| mask >> j & 1 == 0) {
                    u += match pooled[j].total_cmp(&pooled[i]) {
                        std::cmp::Ordering::Less => 1.0,
                        std::cmp::Ordering::Equal => 0.5,
                        std::cmp::Ordering::Greater => 0.0,
                    };
                }
            }
            (u - (a.len() * b.len()) as f64 / 2.0).abs()
        };
        let seen = far((1 << a.len()) - 1);
        let masks: Vec<u32> = (0..1u32 << n)
            .filter(|m| m.count_ones() as usize == a.len())
            .collect();
        let tail = masks.iter().filter(|&&m| far(m) >= seen - 1e-9).count();
        tail as f64 / masks.len() as f64
    }

    #[test]
    fn no_p_is_below_that_of_samples_wholly_apart() {
        // By the normal approximation with ties this was 0.047, and three against three can't be
        // below 0.1.
        let p = mann_whitney(&[1.0; 3], &[2.0; 3]);
        assert!((p - 0.1).abs() < 1e-9, "{p}");
        let p = mann_whitney(&[1.0, 1.0, 2.0, 2.0], &[3.0, 3.0, 3.0, 4.0]);
        assert!((p - 2.0 / 70.0).abs() < 1e-9, "{p}");
    }

    #[test]
    fn few_values_can_differ_if_p_can_be_small() {
        assert!(!can_differ(3, 3) && can_differ(4, 4) && can_differ(3, 5));
        assert!(!can_differ(0, 9) && !can_differ(1, 30) && can_differ(1, 40));
        for (n, m) in [(4, 4), (3, 5), (2, 7), (2, 8), (5, 3)] {
            let apart = |from: usize, n: usize| (from..from + n).map(|x| x as f64).collect();
            let (a, b): (Vec<f64>, Vec<f64>) = (apart(0, n), apart(100, m));
            assert_eq!(mann_whitney(&a, &b) < ALPHA, can_differ(n, m), "{n} {m}");
        }
    }

    proptest! {
        #[test]
        fn exact_u_matches_counting(
            mut values in prop::collection::btree_set(0u32..1000, 4..10), cut in 1usize..4,
        ) {
            let v: Vec<f64> = std::mem::take(&mut values).into_iter().map(f64::from).collect();
            let mut shuffled = v.clone();
            shuffled.reverse();
            let (a, b) = shuffled.split_at(cut.min(shuffled.len() - 1));
            prop_assert!((mann_whitney(a, b) - brute(a, b)).abs() < 1e-9);
        }

        #[test]
        fn with_ties_p_is_counted_too(
            a in prop::collection::vec(0u8..4, 1..6), b in prop::collection::vec(0u8..4, 1..6),
        ) {
            let floats = |v: &[u8]| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
            let (a, b) = (floats(&a), floats(&b));
            let p = mann_whitney(&a, &b);
            prop_assert!((p - brute_tied(&a, &b)).abs() < 1e-9, "{p}");
        }

        #[test]
        fn p_is_a_probability_and_symmetric(
            a in prop::collection::vec(0.0f64..10.0, 1..20),
            b in prop::collection::vec(0.0f64..10.0, 1..20),
        ) {
            let p = mann_whitney(&a, &b);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!((p - mann_whitney(&b, &a)).abs() < 1e-9);
        }
    }

    #[test]
    fn textbook_summary() {
        let s = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("a sample");
        assert_eq!((s.mean, s.median, s.min, s.max), (5.0, 4.5, 2.0, 9.0));
        assert!((s.sd - 2.138_09).abs() < 1e-4);
        let (low, high) = s.mean_interval.expect("n > 1");
        assert!((low - 3.212_5).abs() < 1e-3 && (high - 6.787_5).abs() < 1e-3);
        // For n = 8 the extreme order statistics cover 99.2 %.
        assert_eq!(s.median_interval, Some((2.0, 9.0)));
        assert_eq!(
            summary(&[1.0, 2.0, 3.0]).expect("a sample").median_interval,
            None
        );
    }

    #[test]
    fn separated_samples_differ_and_equal_ones_do_not() {
        let a: Vec<f64> = (0..10).map(f64::from).collect();
        let b: Vec<f64> = (20..30).map(f64::from).collect();
        assert!(mann_whitney(&a, &b) < 0.001);
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 5]), 1.0);
    }

    #[test]
    fn an_outlier_is_named_and_ties_are_not() {
        assert_eq!(outliers(&[1.0, 1.1, 0.9, 1.05, 0.95, 9.0]), [5]);
        assert!(outliers(&[1.0, 1.0, 1.0, 50.0]).is_empty());
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, f64::NAN, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
