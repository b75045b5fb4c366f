//! Says in a sentence which policy misses least, and how far it is from the bound, OPT.

use replay::curve::{Curve, Curves, Point};
use replay::opt::OPT;
use replay::{Bound, LEAST_SLOTS, SampleFacts};

/// OPT as the sentence names it: it needs the future, so it is never announced as a choice.
const BOUND: &str = "opt (Belady), a bound and no policy to choose";

/// Most policies that the sentence names; if there are more, they are counted.
const NAMED: usize = 3;

/// Returns the verdict on the curves as a sentence without a full stop: which policy has fewest
/// misses, by how much less than LRU (or than the first policy), and how many more than OPT if it
/// is among the policies. Several sizes count by the sum of their miss ratios; of a sample only
/// those where a bound claims anything. With writes the sentence ends with the price: the stalls.
pub fn verdict(curves: &Curves) -> String {
    let Some(sample) = curves.sample else {
        return told(&curves.curves) + &price(&curves.curves);
    };
    let sizes = curves.curves.first().map_or(0, |c| c.points.len());
    let claims = |i: &usize| curves.curves.iter().any(|c| claims(&c.points[*i]));
    let claimed: Vec<usize> = (0..sizes).filter(claims).collect();
    let only = |c: &Curve| Curve {
        policy: c.policy,
        points: claimed.iter().map(|i| c.points[*i]).collect(),
    };
    let told = match claimed.len() {
        0 => return nothing(curves, sample),
        n if n == sizes => told(&curves.curves),
        n => {
            let curves: Vec<Curve> = curves.curves.iter().map(only).collect();
            let of = if n == 1 { "the size" } else { "the sizes" };
            let told = told(&curves);
            format!("{told}; at {n} of {sizes} sizes, {of} where a bound claims anything")
        }
    };
    let policies = curves.curves.iter().filter(|c| c.policy != OPT.name);
    let policies: Vec<Curve> = policies.map(only).collect();
    let policies: Vec<&Curve> = policies.iter().collect();
    format!("by estimates, {told}{}", overlaps(&policies))
}

/// Describes the curves by their miss ratios, without what a sample leaves open.
fn told(curves: &[Curve]) -> String {
    let all = curves.iter();
    let (bounds, policies): (Vec<&Curve>, Vec<&Curve>) = all.partition(|c| c.policy == OPT.name);
    let bound = bounds.first().copied();
    match policies[..] {
        [] => format!("{BOUND}: name a policy to compare with it"),
        [only] => alone(only, bound),
        _ => compared(&policies, bound),
    }
}

/// Returns true unless the point's bound reaches over 0 to 1.
fn claims(point: &Point) -> bool {
    point.bound.is_none_or(|b| b.low > 0.0 || b.high < 1.0)
}

/// Says that a sample is too small for any of the sizes, and the rate that the largest one needs.
fn nothing(curves: &Curves, sample: SampleFacts) -> String {
    let points = curves.curves.iter().flat_map(|c| &c.points);
    let largest = points.map(|p| p.size).max().unwrap_or(1);
    let slots = f64::from(largest) * sample.rate;
    if slots >= LEAST_SLOTS {
        return "nothing is claimed: bounds reach over 0 to 1 (take a larger sample)".to_owned();
    }
    // Rounded up to per cent.
    let rate = (100.0 * LEAST_SLOTS / f64::from(largest) - 1e-9).ceil() / 100.0;
    let way = match rate {
        1.0.. => "leave out --sample".to_owned(),
        _ => format!("--sample rate={rate:.2}"),
    };
    format!(
        "nothing is claimed: a cache of {largest} pages has {slots:.1} pages of the sample, and an \
         estimate needs {LEAST_SLOTS} or more ({way})"
    )
}

/// Returns the time that requests waited under a policy at all sizes, in nanoseconds; `None` if
/// writes are not modelled.
fn stall(curve: &Curve) -> Option<u64> {
    let writes = curve.points.iter().map(|p| p.writes);
    writes.map(|w| w.map(|w| w.stall_ns())).sum()
}

/// Returns the end of the verdict where writes are modelled: how long requests stall under the
/// policy with fewest misses, beside the policy with the shortest stalls and LRU (or the first
/// policy). Empty without writes.
fn price(curves: &[Curve]) -> String {
    let all: Vec<&Curve> = curves.iter().collect();
    let stalls = || all.iter().filter_map(|c| Some((c.policy, stall(c)?)));
    // Of equal stalls the first policy counts.
    let Some((short, least)) = stalls().min_by_key(|(_, ns)| *ns) else {
        return String::new();
    };
    let of = |name: &str| stalls().find(|(policy, _)| *policy == name);
    let best = self::least(&all, misses);
    let tied = stalls().filter(|(policy, _)| best.contains(policy));
    let (own, ns) = tied.min_by_key(|(_, ns)| *ns).unwrap_or((short, least));
    let sum = match curves[0].points.len() {
        1 => "",
        _ => " in sum",
    };
    if stalls().all(|(_, ns)| ns == 0) {
        return "; no request stalls".to_owned();
    }
    let mut out = match ns {
        _ if all.len() == 1 => format!("; requests stall for {}{sum}", time(ns)),
        _ if ns == least => format!("; it stalls least, {}{sum}", time(ns)),
        _ => format!(
            "; but {own} stalls for {}{sum}, {short} least with {}",
            time(ns),
            time(least)
        ),
    };
    if ns == least && all.len() > 1 && best.len() > 1 {
        out = format!("; {own} stalls least, {}{sum}", time(ns));
    }
    if let Some((base, ns)) = of("lru").or_else(|| stalls().next())
        && ![own, short].contains(&base)
    {
        out += &format!(", {base} {}", time(ns));
    }
    out
}

/// Formats a time in nanoseconds with three digits: seconds, or milliseconds below one.
fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    match value {
        100.0.. => format!("{value:.0} {unit}"),
        10.0.. => format!("{value:.1} {unit}"),
        1.0.. => format!("{value:.2} {unit}"),
        _ => format!("{value:.3} {unit}"),
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
    use replay::{Counts, WriteCounts};

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
            unit: None,
            unit_guess: None,
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

    /// Below 16 pages of the sample bounds reach over 0 to 1: the order of such estimates is none.
    #[test]
    fn nothing_is_claimed_where_the_sample_is_too_small() {
        let mut sampled = curves(&[("lru", &[800, 500]), ("arc", &[600, 480]), ("opt", &[1, 2])]);
        sampled.sample = Some(SampleFacts {
            rate: 0.01,
            objects: 1000,
            requests: 100,
        });
        let bounds = |sampled: &mut Curves, at: usize, low, high| {
            for c in &mut sampled.curves {
                c.points[at].bound = Some(Bound { low, high });
            }
        };
        bounds(&mut sampled, 0, 0.0, 1.0);
        bounds(&mut sampled, 1, 0.4, 0.6);
        let told = verdict(&sampled);
        assert!(
            told.starts_with("by estimates, arc misses least, 4.0 % less than lru and"),
            "{told}"
        );
        assert!(
            told.contains("at 1 of 2 sizes, the size where a bound claims anything"),
            "{told}"
        );
        assert!(
            told.ends_with("; bounds overlap, so the order is open"),
            "{told}"
        );
        bounds(&mut sampled, 1, 0.0, 1.0);
        assert_eq!(
            verdict(&sampled),
            "nothing is claimed: a cache of 20 pages has 0.2 pages of the sample, and an estimate \
             needs 16 or more (--sample rate=0.80)"
        );
    }

    #[test]
    fn the_price_of_few_misses_is_told() {
        let stalling = |policies: &[(&'static str, &[u64], u64)]| {
            let plain: Vec<_> = policies.iter().map(|(name, m, _)| (*name, *m)).collect();
            let mut curves = curves(&plain);
            for (c, (.., ns)) in curves.curves.iter_mut().zip(policies) {
                for p in &mut c.points {
                    p.writes = Some(WriteCounts {
                        limit_stall_ns: *ns,
                        ..WriteCounts::default()
                    });
                }
            }
            verdict(&curves)
        };
        let (lru, arc, fifo): (&[u64], &[u64], &[u64]) = (&[500], &[400], &[600]);
        assert_eq!(
            stalling(&[("lru", lru, 1_000_000_000), ("arc", arc, 2_000_000_000)]),
            "arc misses least, 20.0 % less than lru; but arc stalls for 2.00 s, lru least with \
             1.00 s"
        );
        assert_eq!(
            stalling(&[
                ("lru", lru, 5_000_000),
                ("fifo", fifo, 80_000),
                ("arc", arc, 4_000_000)
            ]),
            "arc misses least, 20.0 % less than lru; but arc stalls for 4.00 ms, fifo least with \
             0.080 ms, lru 5.00 ms"
        );
        assert_eq!(
            stalling(&[("lru", lru, 5_000_000), ("arc", arc, 4_000_000)]),
            "arc misses least, 20.0 % less than lru; it stalls least, 4.00 ms, lru 5.00 ms"
        );
        assert_eq!(
            stalling(&[("lru", lru, 0), ("arc", arc, 0)]),
            "arc misses least, 20.0 % less than lru; no request stalls"
        );
        assert_eq!(
            stalling(&[("lru", &[800, 200], 7_000_000)]),
            "lru misses 75.0 % less with 20 pages than with 10; requests stall for 14.0 ms in sum"
        );
        assert_eq!(
            stalling(&[("lru", lru, 5_000_000), ("2q", lru, 4_000_000)]),
            "lru and 2q miss equally often; 2q stalls least, 4.00 ms, lru 5.00 ms"
        );
    }
}
