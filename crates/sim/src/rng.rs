//! The simulator's random numbers: xoshiro256++ (Blackman and Vigna, <https://prng.di.unimi.it/>)
//! seeded by SplitMix64, and the few distributions that the models draw from.
//!
//! The generator is written here, not taken from a crate, because a results folder must be
//! reproducible by a later build: the `rand` crates reserve the right to change the numbers behind
//! their distributions between versions, and these sixty lines never change under us. Not for
//! cryptography.

/// The step of SplitMix64's counter: 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Advances `state` by one step of SplitMix64 and returns a well mixed word.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the FNV-1a hash of some bytes, for labels and digests.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A deterministic stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// Returns the stream of one seed for one label. Drawing more under one label (a disk, a
    /// scheduler) never shifts the numbers under another label.
    pub fn new(seed: u64, label: &str) -> Self {
        let mut state = splitmix64(&mut { seed }) ^ fnv1a(label.as_bytes());
        // SplitMix64 is a bijection of a counter: four consecutive outputs are never all zero.
        Self {
            s: std::array::from_fn(|_| splitmix64(&mut state)),
        }
    }

    /// Returns the next 64 random bits (one step of xoshiro256++).
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a uniform number in `[0, 1)`, with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns a uniform number in `0..n`, without bias: draws again where a plain product would
    /// favour some numbers (Lemire 2019, "Fast random integer generation in an interval"). `n` must
    /// not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "an empty interval has no random element");
        let reject_under = n.wrapping_neg() % n;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            if wide as u64 >= reject_under {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Returns a uniform number in `lo..hi`.
    pub fn range(&mut self, lo: u64, hi: u64) -> u64 {
        assert!(lo < hi, "an empty interval has no random element");
        lo + self.below(hi - lo)
    }

    /// Returns a standard normal number (Marsaglia's polar method; the second value is thrown away
    /// so that the state is only the four words).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, s) = self.pair();
            if is_inside(s) {
                return u * stretch(s);
            }
        }
    }

    /// Returns the first coordinate of a random point in the square from -1 to 1, and the square of
    /// the point's distance from 0.
    #[inline(always)]
    fn pair(&mut self) -> (f64, f64) {
        let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
        (u, u * u + v * v)
    }

    /// Returns a lognormal number with median 1; `sigma` is the deviation of its logarithm.
    pub fn lognormal(&mut self, sigma: f64) -> f64 {
        (sigma * self.normal()).exp()
    }

    /// Returns a random factor around 1 with mean exactly 1: a lognormal number divided by its
    /// mean. `sigma` is the deviation of its logarithm; if it is 0, returns 1 and draws nothing.
    pub fn noise(&mut self, sigma: f64) -> f64 {
        if sigma == 0.0 {
            1.0
        } else {
            self.lognormal(sigma) * (-0.5 * sigma * sigma).exp()
        }
    }

    /// Returns an exponential number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// Returns true if the polar method accepts a point with this squared distance.
#[inline(always)]
fn is_inside(s: f64) -> bool {
    s > 0.0 && s < 1.0
}

/// Returns the factor by which the polar method stretches a point with this squared distance.
#[inline(always)]
fn stretch(s: f64) -> f64 {
    (-2.0 * s.ln() / s).sqrt()
}

/// Number of [`Lognormals`] that are computed at once: 0.5 KiB.
const BATCH: usize = 64;

/// The numbers that [`Rng::lognormal`] gives a stream's only user, bit by bit the same, but
/// computed in batches: a processor computes several logarithms and roots side by side, without
/// branches to predict.
#[derive(Debug, Clone)]
pub struct Lognormals {
    rng: Rng,
    sigma: f64,
    made: [f64; BATCH],
    next: usize,
}

impl Lognormals {
    /// Returns the lognormal numbers of one `sigma`, from a stream that nothing else draws from.
    pub fn new(rng: Rng, sigma: f64) -> Self {
        Self {
            rng,
            sigma,
            made: [0.0; BATCH],
            next: BATCH,
        }
    }

    /// Returns the next lognormal number, after computing a batch of them if none is left.
    #[inline]
    pub fn draw(&mut self) -> f64 {
        if self.next == BATCH {
            self.make();
        }
        self.next += 1;
        self.made[self.next - 1]
    }

    /// Computes a batch of lognormal numbers as [`Rng::normal`] and [`Rng::lognormal`] do, but each
    /// step for all numbers before the next step.
    #[inline(never)]
    fn make(&mut self) {
        let (mut us, mut squares) = ([0.0; BATCH], [0.0_f64; BATCH]);
        let mut n = 0;
        while n < BATCH {
            (us[n], squares[n]) = self.rng.pair();
            // The next pair overwrites a pair that is refused.
            n += usize::from(is_inside(squares[n]));
        }
        for s in &mut squares {
            *s = stretch(*s);
        }
        for ((made, u), root) in self.made.iter_mut().zip(us).zip(squares) {
            *made = (self.sigma * (u * root)).exp();
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lognormals_are_the_same_made_at_once() {
        for (seed, sigma) in (0..50).zip([0.0, 0.1, 0.5, 3.0].into_iter().cycle()) {
            let mut one_by_one = Rng::new(seed, "wakeups");
            let mut at_once = Lognormals::new(one_by_one.clone(), sigma);
            for _ in 0..3 * BATCH + 1 {
                let wanted = one_by_one.lognormal(sigma);
                assert_eq!(at_once.draw().to_bits(), wanted.to_bits());
            }
        }
    }

    #[test]
    fn the_published_test_vectors() {
        let mut state = 0;
        assert_eq!(splitmix64(&mut state), 0xe220_a839_7b1d_cdaf);
        let mut rng = Rng { s: [1, 2, 3, 4] };
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
        ];
        for e in expected {
            assert_eq!(rng.next_u64(), e);
        }
    }

    #[test]
    fn a_stream_depends_on_seed_and_label() {
        let first = |seed, label| Rng::new(seed, label).next_u64();
        assert_eq!(first(7, "disk"), first(7, "disk"));
        assert_ne!(first(7, "disk"), first(8, "disk"));
        assert_ne!(first(7, "disk"), first(7, "swap"));
    }

    #[test]
    fn moments() {
        let mut rng = Rng::new(1, "moments");
        let n = 200_000;
        let mut moments = |draw: fn(&mut Rng) -> f64| {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let x = draw(&mut rng);
                sum += x;
                squares += x * x;
            }
            let mean = sum / f64::from(n);
            (mean, squares / f64::from(n) - mean * mean)
        };
        let near = |(mean, var): (f64, f64), m: f64, v: f64| {
            assert!(
                (mean - m).abs() < 0.02 && (var - v).abs() < 0.05,
                "{mean} {var}"
            );
        };
        near(moments(Rng::unit), 0.5, 1.0 / 12.0);
        near(moments(Rng::normal), 0.0, 1.0);
        near(moments(Rng::exponential), 1.0, 1.0);
        near(moments(|r| r.noise(0.3)), 1.0, 0.09f64.exp() - 1.0);
        near(moments(|r| r.below(2) as f64), 0.5, 0.25);
    }

    #[test]
    fn ranges_hold_their_bounds() {
        let mut rng = Rng::new(3, "ranges");
        assert!((0..1000).all(|_| (10..13).contains(&rng.range(10, 13))));
        assert_eq!(rng.below(1), 0);
    }
}
