use super::*;

/// Returns different values around a middle.
fn around(middle: f64, runs: u32, salt: u64) -> Vec<f64> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..runs)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            middle + (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        })
        .collect()
}

#[test]
fn looks_begin_where_a_difference_can_be_seen_and_end_at_the_most() {
    let power = Power::of_search(0.05, 13, 40);
    assert_eq!(power.decisions, 5);
    let looks: Vec<u32> = std::iter::successors(power.next(0), |n| power.next(*n)).collect();
    assert_eq!(looks.len(), LOOKS as usize, "{looks:?}");
    assert_eq!((looks[0], looks[4]), (power.fewest(), 40));
    let apart = |n: u32| mann_whitney(&around(1.0, n, 1), &around(9.0, n, 2));
    assert!(apart(looks[0]) <= power.level());
    assert!(apart(looks[0] - 1) > power.level());
}

#[test]
fn ends_that_differ_are_told_at_once_and_others_at_the_most() {
    let power = Power::of_search(0.05, 12, 30);
    let n = power.fewest();
    let said = ends(&around(10.0, n, 1), &around(12.0, n, 2), &power);
    assert!(
        matches!(said, Ends::Differ(error) if error <= power.error),
        "{said:?}"
    );
    let few = ends(&around(10.0, 2, 1), &around(12.0, 2, 2), &power);
    assert_eq!(few, Ends::More(n));
    let same = ends(&around(10.0, 30, 1), &around(10.0, 30, 2), &power);
    assert_eq!(same, Ends::Alike);
}

#[test]
fn a_state_is_like_the_end_that_it_does_not_differ_from() {
    let power = Power::of_search(0.05, 12, 30);
    let n = power.fewest();
    let (good, bad) = (around(10.0, n, 1), around(12.0, n, 2));
    let of = |middle: f64, runs: u32| side(&around(middle, runs, 3), &good, &bad, &power);
    assert!(matches!(of(10.0, n), Decision::On(Side::Good, _, false)));
    assert!(matches!(of(12.0, n), Decision::On(Side::Bad, _, false)));
    // A second change, which makes it worse than the bad end.
    assert!(matches!(of(15.0, n), Decision::On(Side::Bad, _, true)));
    assert!(matches!(of(10.0, 2), Decision::More(_)));
}

#[test]
fn a_shift_that_would_be_seen_is_seen() {
    let power = Power::of_search(0.05, 12, 30);
    let sample = around(10.0, 30, 5);
    let share = visible(&sample, &power).unwrap();
    assert!((0.0..0.1).contains(&share), "{share}");
    let moved = |by: f64| -> Vec<f64> { sample.iter().map(|v| v + 10.0 * by).collect() };
    assert!(matches!(
        ends(&sample, &moved(share * 1.02), &power),
        Ends::Differ(_)
    ));
    assert_eq!(ends(&sample, &moved(share * 0.5), &power), Ends::Alike);
    assert_eq!(visible(&[0.0; 30], &power), None);
}

/// Ends of the same distribution must not be told apart more often than the error allows.
#[test]
fn chance_decides_seldom() {
    let power = Power::of_search(0.05, 12, 20);
    let looks: Vec<u32> = std::iter::successors(power.next(0), |n| power.next(*n)).collect();
    let apart = |salt: u64| {
        let draw = |k: u64| around(5.0, 20, (2 * salt + k + 1).wrapping_mul(77));
        let (a, b) = (draw(0), draw(1));
        looks.iter().any(|n| {
            let n = *n as usize;
            matches!(ends(&a[..n], &b[..n], &power), Ends::Differ(_))
        })
    };
    let wrong = (0..60).filter(|salt| apart(*salt)).count();
    assert!(wrong <= 3, "{wrong} of 60");
}
