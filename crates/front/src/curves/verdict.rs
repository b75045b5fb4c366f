//! Says in a sentence which policy misses least, and how far it is from the bound, OPT.

use replay::Bound;
use replay::curve::{Curve, Curves, Point};
use replay::opt::OPT;

/// OPT as the sentence names it: it needs the future, so it is never announced as a choice.
const BOUND: &str = "opt (Belady), a bound and no policy to choose";

/// Most policies that the sentence names; if there are more, they are counted.
const NAMED: usize = 3;

/// Returns the verdict on the curves as a sentence without a full stop: which policy has fewest
/// misses, by how much less than LRU (or than the first policy), and how many more than OPT if it
/// is among the policies. Several sizes count by the sum of their miss ratios.
pub fn verdict(curves: &Curves) -> String {
    let all = curves.curves.iter();
    let (bounds, policies): (Vec<&Curve>, Vec<&Curve>) = all.partition(|c| c.policy == OPT.name);
    let bound = bounds.first().copied();
    let told = match policies[..] {
        [] => format!("{BOUND}: name a policy to compare with it"),
        [only] => alone(only, bound),
        _ => compared(&policies, bound),
    };
    match curves.sample {
        Some(_) => format!("by estimates, {told}{}", overlaps(&policies)),
        None => told,
    }
}

/// Describes one policy with nothing but the bound beside it.
fn alone(only: &Curve, bound: Option<&Curve>) -> String {
    let sum = match only.points.len() {
        1 => String::new(),
        n => format!(", in sum over {n} sizes"),
    };
    if let Some(bound) = bound {
        return format!("{} misses {}{sum}", only.policy, distance(only, bound));
    }
    let (first, last) = (only.points[0], only.points[only.points.len() - 1]);
    let (name, least, most) = (only.policy, first.size, last.size);
    if least == most {
        return format!("{name} at {least} pages is all that was asked for: nothing is compared");
    }
    match less(last.miss_ratio, first.miss_ratio) {
        Some(share) => format!("{name} misses {share} less with {most} pages than with {least}"),
        None => format!("{name} misses no less with {most} pages than with {least}"),
    }
}

/// Describes the best of several policies, its lead and its distance to the bound.
fn compared(policies: &[&Curve], bound: Option<&Curve>) -> String {
    let best = least(policies, misses);
    let sizes = policies[0].points.len();
    let at = |i: usize| least(policies, |c| c.points[i].miss_ratio);
    let same = (0..sizes).all(|i| at(i) == best);
    let place = match (sizes, same) {
        (1, _) => String::new(),
        (2, true) => " at both sizes".to_owned(),
        (n, true) => format!(" at all {n} sizes"),
        (n, false) => format!(" over the {n} sizes"),
    };
    let mut out = match best.len() {
        1 => format!("{} misses least{place}", best[0]),
        n if n == policies.len() => format!("{} miss equally often{place}", named(&best, n)),
        _ => format!(
            "{} tie for the fewest misses{place}",
            named(&best, policies.len())
        ),
    };
    let own = policies.iter().find(|c| c.policy == best[0]);
    let own = own.expect("the best is one of them");
    let parts: Vec<String> = [
        lead(own, policies, &best),
        bound.map(|bound| distance(own, bound)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !parts.is_empty() {
        let sum = if sizes > 1 { "in sum " } else { "" };
        out += &format!(", {sum}{}", parts.join(" and "));
    }
    if !same {
        out += &singles(&(0..sizes).map(at).collect::<Vec<_>>());
    }
    out
}

/// Returns how much less than LRU (or than the first policy) the best policy misses, or than the
/// next one if LRU is itself among the best; `None` if nothing is left to compare with.
fn lead(own: &Curve, policies: &[&Curve], best: &[&str]) -> Option<String> {
    let lru = policies.iter().find(|c| c.policy == "lru");
    let base = lru.unwrap_or(&policies[0]);
    if !best.contains(&base.policy) {
        let share = less(misses(own), misses(base))?;
        return Some(format!("{share} less than {}", base.policy));
    }
    let others = policies.iter().filter(|c| !best.contains(&c.policy));
    let others: Vec<&Curve> = others.copied().collect();
    let next = least(&others, misses);
    let sum = others
        .iter()
        .find(|c| c.policy == *next.first().unwrap_or(&""))?;
    let share = less(misses(own), misses(sum))?;
    Some(format!(
        "{share} less than the next, {}",
        named(&next, usize::MAX)
    ))
}

/// Says at how many single sizes which policy is the best, given the best ones at each.
fn singles(winners: &[Vec<&str>]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in winners.iter().filter(|w| w.len() == 1).map(|w| w[0]) {
        match counts.iter_mut().find(|c| c.0 == name) {
            Some(count) => count.1 += 1,
            None => counts.push((name, 1)),
        }
    }
    // The sort is stable: of equal counts the policy of the smaller sizes stands first.
    counts.sort_by_key(|c| std::cmp::Reverse(c.1));
    let ties = winners.iter().filter(|w| w.len() > 1).count();
    let others: usize = counts.iter().skip(NAMED).map(|c| c.1).sum();
    let shown = counts.iter().take(NAMED);
    let mut parts: Vec<String> = shown.map(|(name, n)| format!("{name} at {n}")).collect();
    if others > 0 {
        parts.push(format!("others at {others}"));
    }
    if ties > 0 {
        parts.push(format!("ties at {ties}"));
    }
    format!("; size by size: {}", parts.join(", "))
}

/// Returns how many more misses than the bound a policy has.
fn distance(own: &Curve, bound: &Curve) -> String {
    match less(misses(bound), misses(own)) {
        None => format!("as little as {BOUND}"),
        // Only an estimate can be 0: the first request for an object misses under every policy.
        Some(_) if misses(bound) <= 0.0 => format!("some where none are estimated for {BOUND}"),
        Some(_) => {
            let more = misses(own) / misses(bound) - 1.0;
            format!("{} more than {BOUND}", percent(more))
        }
    }
}

/// Says at how many sizes of a sample the best estimate can't be told from another; empty if it can
/// be everywhere.
fn overlaps(policies: &[&Curve]) -> String {
    let Some(sizes) = policies.first().map(|c| c.points.len()) else {
        return String::new();
    };
    let open = |i: &usize| {
        let mut points: Vec<&Point> = policies.iter().map(|c| &c.points[*i]).collect();
        points.sort_by(|a, b| a.miss_ratio.total_cmp(&b.miss_ratio));
        let (best, others) = points.split_first().expect("there are policies");
        let high = best.bound.map_or(best.miss_ratio, |b: Bound| b.high);
        let low = |p: &&Point| p.bound.map_or(p.miss_ratio, |b| b.low);
        others.iter().any(|p| low(p) <= high)
    };
    match ((0..sizes).filter(open).count(), sizes) {
        (0, _) => String::new(),
        (_, 1) => "; bounds overlap, so the order is open".to_owned(),
        (n, of) => format!("; bounds overlap at {n} of {of} sizes, where the order is open"),
    }
}

/// Returns the sum of a policy's miss ratios over the sizes.
fn misses(curve: &Curve) -> f64 {
    curve.points.iter().map(|p| p.miss_ratio).sum()
}

/// Returns the names of the policies with the least figure: several if they tie.
fn least(policies: &[&Curve], figure: impl Fn(&Curve) -> f64) -> Vec<&'static str> {
    let figures = || policies.iter().map(|c| figure(c));
    let least = figures().fold(f64::INFINITY, f64::min);
    let ties = policies.iter().zip(figures());
    let ties = ties.filter(|(_, own)| less(least, *own).is_none());
    ties.map(|(c, _)| c.policy).collect()
}

/// Returns by which share of `most` the figure `least` is below it; `None` if they are equal or
/// their distance is nothing but rounding of sums.
fn less(least: f64, most: f64) -> Option<String> {
    let share = (most - least) / most;
    (share > 1e-9).then(|| percent(share))
}

/// Formats a share in per cent with one digit; a small one is not rounded to 0.
fn percent(share: f64) -> String {
    match 100.0 * share {
        small if small < 0.05 => "under 0.1 %".to_owned(),
        x => format!("{x:.1} %"),
    }
}

/// Joins names with commas and `and`; if there are more than [`NAMED`], they are counted, of `all`.
fn named(names: &[&str], all: usize) -> String {
    match names {
        _ if names.len() > NAMED && names.len() == all => format!("all {all} policies"),
        _ if names.len() > NAMED => format!("{} policies", names.len()),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::{Counts, SampleFacts};

    /// Returns curves with these miss ratios in thousandths, at sizes 10, 20, …
    fn curves(policies: &[(&'static str, &[u64])]) -> Curves {
        let point = |(i, misses): (usize, &u64)| Point {
            size: 10 * (i as u32 + 1),
            counts: Counts {
                requests: 1000,
                misses: *misses,
            },
            miss_ratio: *misses as f64 / 1000.0,
            bound: None,
            writes: None,
        };
        let curve = |(policy, ratios): &(&'static str, &[u64])| Curve {
            policy,
            points: ratios.iter().enumerate().map(point).collect(),
        };
        Curves {
            trace: "t".to_owned(),
            format: "csv",
            requests: 1000,
            objects: None,
            sample: None,
            skipped: 0,
            model: None,
            curves: policies.iter().map(curve).collect(),
        }
    }

    fn told(policies: &[(&'static str, &[u64])]) -> String {
        verdict(&curves(policies))
    }

    #[test]
    fn the_best_policy_is_named_with_its_lead_and_its_distance_to_the_bound() {
        assert_eq!(
            told(&[("opt", &[400]), ("lru", &[600]), ("sieve", &[500])]),
            "sieve misses least, 16.7 % less than lru and 25.0 % more than opt (Belady), a bound \
             and no policy to choose"
        );
        assert_eq!(
            told(&[("lru", &[800, 400]), ("arc", &[700, 300])]),
            "arc misses least at both sizes, in sum 16.7 % less than lru"
        );
        // Without LRU the first policy is the base, and a base that is best has a next one.
        assert_eq!(
            told(&[("2q", &[500]), ("arc", &[400])]),
            "arc misses least, 20.0 % less than 2q"
        );
        assert_eq!(
            told(&[("lru", &[400]), ("fifo", &[500]), ("2q", &[800])]),
            "lru misses least, 20.0 % less than the next, fifo"
        );
    }

    #[test]
    fn the_bound_is_never_the_best_policy() {
        assert_eq!(
            told(&[("lru", &[500]), ("opt", &[400])]),
            "lru misses 25.0 % more than opt (Belady), a bound and no policy to choose"
        );
        assert_eq!(
            told(&[
                ("lru", &[500, 400]),
                ("sieve", &[500, 400]),
                ("opt", &[500, 400])
            ]),
            "lru and sieve miss equally often at both sizes, in sum as little as opt (Belady), a \
             bound and no policy to choose"
        );
        assert_eq!(
            told(&[("opt", &[400])]),
            "opt (Belady), a bound and no policy to choose: name a policy to compare with it"
        );
    }

    #[test]
    fn ties_and_single_sizes_are_told() {
        assert_eq!(
            told(&[("lru", &[500]), ("arc", &[400]), ("sieve", &[400])]),
            "arc and sieve tie for the fewest misses, 20.0 % less than lru"
        );
        assert_eq!(
            told(&[("lru", &[900, 500, 300]), ("arc", &[700, 600, 300])]),
            "arc misses least over the 3 sizes, in sum 5.9 % less than lru; size by size: arc at \
             1, lru at 1, ties at 1"
        );
        let five: Vec<(&str, &[u64])> = ["lru", "fifo", "arc", "2q", "sieve"]
            .map(|name| (name, &[300_u64][..]))
            .to_vec();
        assert_eq!(told(&five), "all 5 policies miss equally often");
    }

    #[test]
    fn one_policy_is_compared_with_less_memory() {
        assert_eq!(
            told(&[("lru", &[800, 500, 200])]),
            "lru misses 75.0 % less with 30 pages than with 10"
        );
        assert_eq!(
            told(&[("fifo", &[800, 801])]),
            "fifo misses no less with 20 pages than with 10"
        );
        assert_eq!(
            told(&[("lru", &[800])]),
            "lru at 10 pages is all that was asked for: nothing is compared"
        );
        assert!(told(&[("lru", &[100_000]), ("arc", &[99_999])]).contains("under 0.1 % less"));
    }

    #[test]
    fn an_estimate_says_where_its_order_is_open() {
        let mut sampled = curves(&[("lru", &[800, 500]), ("arc", &[600, 480])]);
        sampled.sample = Some(SampleFacts {
            rate: 0.1,
            objects: 10,
            requests: 100,
        });
        for point in sampled.curves.iter_mut().flat_map(|c| &mut c.points) {
            point.bound = Some(Bound {
                low: point.miss_ratio - 0.05,
                high: point.miss_ratio + 0.05,
            });
        }
        assert_eq!(
            verdict(&sampled),
            "by estimates, arc misses least at both sizes, in sum 16.9 % less than lru; bounds \
             overlap at 1 of 2 sizes, where the order is open"
        );
    }
}
