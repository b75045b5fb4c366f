//! Random numbers that are the same on every machine and in every version: SplitMix64, a Zipf
//! distribution by the alias method, and permutations. Floating point functions are libm's, not the
//! system's.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// Starts the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `n`, which must not be 0; the bias is below n / 2⁶⁴.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0);
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a uniform number in `[0, 1)`, with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}

/// Scrambles the bits of `z`, one to one: the output function of SplitMix64.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Ranks with probabilities proportional to 1/(rank+1)^skew, by Vose's alias method: one random
/// number and two table look-ups a draw, 8 bytes a rank.
#[derive(Debug, Clone)]
pub struct Zipf {
    /// Per rank: the share of the own rank in units of 2⁻³², and the alternative rank.
    table: Vec<(u32, u32)>,
}

impl Zipf {
    /// Makes a distribution over `n` ranks, at least 1, in which the rank k, from 0, has a
    /// probability proportional to 1/(k+1)^skew. Builds the table of Vose's alias method: each rank
    /// keeps a share of its own column, and a more probable rank gets the rest.
    pub fn new(n: u32, skew: f64) -> Self {
        let n = n.max(1);
        let weights: Vec<f64> = (1..=n)
            .map(|k| 1.0 / libm::pow(f64::from(k), skew))
            .collect();
        let total: f64 = weights.iter().sum();
        let mut scaled: Vec<f64> = weights.iter().map(|w| w / total * f64::from(n)).collect();
        let mut table: Vec<(u32, u32)> = (0..n).map(|i| (u32::MAX, i)).collect();
        // Ranks below the average probability, and the others.
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..n).rev().partition(|&i| scaled[i as usize] < 1.0);
        while let (Some(s), Some(&l)) = (small.pop(), large.last()) {
            let share = scaled[s as usize];
            table[s as usize] = ((share * 4_294_967_296.0) as u32, l);
            scaled[l as usize] -= 1.0 - share;
            if scaled[l as usize] < 1.0 {
                large.pop();
                small.push(l);
            }
        }
        Self { table }
    }

    /// Draws a rank, from 0: a column at random, then the column's own rank or its alternative by
    /// the share.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let random = rng.next_u64();
        let n = self.table.len() as u64;
        let rank = (((random >> 32) * n) >> 32) as u32;
        let (share, other) = self.table[rank as usize];
        if random as u32 <= share { rank } else { other }
    }
}

/// Ranks after fio's `pareto:h`: a share h of the ranks gets about 1 − h of the draws.
#[derive(Debug, Clone)]
pub struct Pareto {
    n: u64,
    power: f64,
}

impl Pareto {
    /// Makes a distribution over `n` ranks, at least 1, as fio's `pareto:h` has it: a share `h` of
    /// the ranks, between 0 and 1, gets about 1 − h of the draws.
    pub fn new(n: u64, h: f64) -> Self {
        Self {
            n: n.max(1),
            power: libm::log(h) / libm::log(1.0 - h),
        }
    }

    /// Draws a rank, from 0; low ranks are the popular ones.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let rank = libm::pow(rng.unit(), self.power) * self.n as f64;
        (rank as u64).min(self.n - 1)
    }
}

/// A permutation of `0..n` without a table: a Feistel network on the next even number of bits,
/// walked until it falls below `n` (Black and Rogaway 2002, "Ciphers with arbitrary finite
/// domains").
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    half: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// Makes the permutation of `0..n` that belongs to the seed: a Feistel network with four random
    /// keys on the next even number of bits.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = (64 - n.max(2).saturating_sub(1).leading_zeros()).next_multiple_of(2);
        let mut rng = Rng::new(seed);
        Self {
            n,
            half: bits / 2,
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// Returns the image of `i`, which must be below `n`, under the permutation. The network
    /// permutes a power of two, so it is applied again until the result is below `n`.
    #[inline]
    pub fn apply(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mask = (1_u64 << self.half) - 1;
        let mut x = i;
        loop {
            let (mut left, mut right) = (x >> self.half, x & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (mix(right ^ key) & mask));
            }
            x = left << self.half | right;
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    #[test]
    fn the_published_test_vector() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn zipf_draws_by_rank() {
        let (zipf, mut rng) = (Zipf::new(1000, 1.0), Rng::new(7));
        let mut seen = vec![0_u32; 1000];
        let draws = 1_000_000;
        for _ in 0..draws {
            seen[zipf.draw(&mut rng) as usize] += 1;
        }
        let harmonic: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [0_usize, 1, 9, 99] {
            let expected = f64::from(draws) / (rank as f64 + 1.0) / harmonic;
            let off = (f64::from(seen[rank]) - expected).abs();
            assert!(
                off < 5.0 * expected.sqrt(),
                "rank {rank}: {} for {expected}",
                seen[rank]
            );
        }
        let flat = Zipf::new(4, 0.0);
        let mut seen = [0_u32; 4];
        (0..40_000).for_each(|_| seen[flat.draw(&mut rng) as usize] += 1);
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert_eq!(Zipf::new(0, 1.0).draw(&mut rng), 0);
    }

    #[test]
    fn pareto_gives_few_ranks_most_draws() {
        let (pareto, mut rng) = (Pareto::new(1000, 0.2), Rng::new(3));
        let low = (0..100_000).filter(|_| pareto.draw(&mut rng) < 200).count();
        assert!((79_000..81_000).contains(&low), "{low}");
    }

    proptest! {
        #[test]
        fn permutations_reach_everything_once(n in 1_u64..3000, seed in any::<u64>()) {
            let p = Permutation::new(n, seed);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let to = p.apply(i) as usize;
                prop_assert!(!std::mem::replace(&mut seen[to], true));
            }
        }
    }
}
