//! The simulator's random numbers: xoshiro256++ seeded by splitmix64.
//!
//! Written here and not taken from a crate because results must stay the same bytes for ever,
//! which general-purpose generators do not promise across versions. Reference: Blackman and Vigna,
//! "Scrambled linear pseudorandom number generators" (2018).

/// A generator.
#[derive(Debug, Clone)]
pub struct Rng {
    s: [u64; 4],
}

/// One step of splitmix64; also the hash that derives seeds.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// FNV-1a, for labels and digests.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

impl Rng {
    /// A stream for one purpose: `label` keeps streams of one seed apart.
    pub fn new(seed: u64, label: &str) -> Self {
        let mut state = seed ^ fnv1a(label.as_bytes());
        Self {
            s: std::array::from_fn(|_| splitmix64(&mut state)),
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.s;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n; n > 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0);
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Standard normal (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let u = 1.0 - self.unit();
        let v = self.unit();
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Lognormal with median 1 and the given sigma of the logarithm.
    pub fn lognormal(&mut self, sigma: f64) -> f64 {
        (sigma * self.normal()).exp()
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs for the state that splitmix64 gives from seed 0, as published with the
    /// reference implementation of splitmix64.
    #[test]
    fn splitmix_matches_its_reference() {
        let mut s = 0;
        assert_eq!(splitmix64(&mut s), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(&mut s), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn moments() {
        let mut r = Rng::new(1, "moments");
        let n = 200_000;
        let (mut sum, mut squares, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let x = r.normal();
            sum += x;
            squares += x * x;
            uniform += r.unit();
        }
        let n = f64::from(n);
        assert!((sum / n).abs() < 0.01 && (squares / n - 1.0).abs() < 0.02);
        assert!((uniform / n - 0.5).abs() < 0.01);
        assert_ne!(Rng::new(1, "a").next_u64(), Rng::new(1, "b").next_u64());
    }
}
