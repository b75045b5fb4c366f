//! Artificial traces: the same seed gives the same requests on every machine.

use crate::random::{Permutation, Rng, Zipf};

/// The distribution of requests over objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Popular objects, scattered over the file: rank r has probability proportional to 1/r^skew.
    Zipf,
    /// Every object once, in order; after the last one, from the first again.
    Scan,
    /// As `Scan`, over a quarter of the objects, repeatedly.
    Loop,
    /// Six of ten requests are Zipf over the objects, two from a loop over a quarter as many other
    /// objects, two from a scan of objects that never repeat.
    Mixed,
}

impl Pattern {
    /// The names in options.
    pub const NAMES: [&'static str; 4] = ["zipf", "scan", "loop", "mixed"];

    /// Returns the pattern of that name, one of [`Self::NAMES`]; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "zipf" => Self::Zipf,
            "scan" => Self::Scan,
            "loop" => Self::Loop,
            "mixed" => Self::Mixed,
            _ => return None,
        })
    }
}

/// The parameters of an artificial trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The distribution of requests.
    pub pattern: Pattern,
    /// Number of objects, each a page of 4 KiB; at least 1.
    pub objects: u32,
    /// Number of requests.
    pub requests: u64,
    /// The exponent of Zipf.
    pub skew: f64,
    /// Share of writes, 0 to 1.
    pub writes: f64,
    /// Requests a second; at least 1.
    pub rate: u64,
    /// The seed.
    pub seed: u64,
}

/// A request for one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Nanoseconds since the first request.
    pub time_ns: u64,
    /// The object.
    pub object: u32,
    /// Whether the request is a write.
    pub write: bool,
}

/// The requests of a plan, in order.
#[derive(Debug, Clone)]
pub struct Generator {
    plan: Plan,
    rng: Rng,
    zipf: Option<(Zipf, Permutation)>,
    done: u64,
    scanned: u32,
    looped: u32,
}

/// Returns 2⁶⁴ times a share of 0 to 1: a random `u64` is at most that with the share's
/// probability.
fn threshold(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0) as u64
}

impl Generator {
    /// Makes the generator of the requests of `plan`. Zipf's ranks are scattered over the objects
    /// by a permutation, which follows from the seed too.
    pub fn new(plan: &Plan) -> Self {
        let plan = Plan {
            objects: plan.objects.max(1),
            rate: plan.rate.max(1),
            ..plan.clone()
        };
        let popular = matches!(plan.pattern, Pattern::Zipf | Pattern::Mixed).then(|| {
            (
                Zipf::new(plan.objects, plan.skew),
                Permutation::new(u64::from(plan.objects), plan.seed),
            )
        });
        Self {
            rng: Rng::new(plan.seed),
            zipf: popular,
            done: 0,
            scanned: 0,
            looped: 0,
            plan,
        }
    }

    /// Returns an upper bound of the object numbers of all requests: each is below it.
    pub fn objects(&self) -> u64 {
        let n = u64::from(self.plan.objects);
        match self.plan.pattern {
            Pattern::Zipf | Pattern::Scan => n,
            Pattern::Loop => n.div_ceil(4),
            Pattern::Mixed => (n + n.div_ceil(4) + self.plan.requests).min(1 << 32),
        }
    }

    /// Draws an object from the Zipf distribution; the object of rank r is the permutation's image
    /// of r.
    fn draw_popular(&mut self) -> u32 {
        match &self.zipf {
            Some((zipf, scatter)) => {
                let rank = zipf.draw(&mut self.rng);
                scatter.apply(u64::from(rank)) as u32
            }
            None => 0,
        }
    }

    /// Returns the next object of the loop over a quarter of the objects, counted from 0.
    fn next_of_loop(&mut self) -> u32 {
        let at = self.looped;
        self.looped = (at + 1) % self.plan.objects.div_ceil(4);
        at
    }
}

impl Iterator for Generator {
    type Item = Request;

    /// Returns the next request of the plan: its object by the pattern, a write or a read by the
    /// plan's share of writes, its time by the rate. `None` when all requests have been made.
    #[inline]
    fn next(&mut self) -> Option<Request> {
        if self.done == self.plan.requests {
            return None;
        }
        let n = self.plan.objects;
        let object = match self.plan.pattern {
            Pattern::Zipf => self.draw_popular(),
            Pattern::Loop => self.next_of_loop(),
            Pattern::Scan => {
                let at = self.scanned;
                self.scanned = (at + 1) % n;
                at
            }
            // Six of ten are popular; the loop's objects have the numbers after those, the scan's
            // the numbers after the loop's.
            Pattern::Mixed => match self.rng.below(10) {
                0..6 => self.draw_popular(),
                6..8 => n.wrapping_add(self.next_of_loop()),
                _ => {
                    self.scanned = self.scanned.wrapping_add(1);
                    n.wrapping_add(n.div_ceil(4)).wrapping_add(self.scanned - 1)
                }
            },
        };
        let write = self.plan.writes > 0.0 && self.rng.next_u64() <= threshold(self.plan.writes);
        let time_ns = u128::from(self.done) * 1_000_000_000 / u128::from(self.plan.rate);
        self.done += 1;
        Some(Request {
            time_ns: time_ns as u64,
            object,
            write,
        })
    }

    /// Returns the exact number of requests that are left, as lower and upper bound.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.plan.requests - self.done) as usize;
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pattern: Pattern) -> Plan {
        Plan {
            pattern,
            objects: 100,
            requests: 1000,
            skew: 1.0,
            writes: 0.25,
            rate: 1000,
            seed: 1,
        }
    }

    #[test]
    fn the_same_plan_gives_the_same_requests_for_ever() {
        let digest = |pattern| {
            let g = Generator::new(&plan(pattern));
            let most = g.objects();
            g.fold(0_u64, |h, r| {
                assert!(u64::from(r.object) < most);
                let word = r.time_ns ^ u64::from(r.object) << 32 ^ u64::from(r.write);
                (h ^ word).wrapping_mul(0x100_0000_01b3)
            })
        };
        let digests = [Pattern::Zipf, Pattern::Scan, Pattern::Loop, Pattern::Mixed].map(digest);
        insta::assert_debug_snapshot!(digests);
    }

    #[test]
    fn patterns_are_what_they_say() {
        let objects = |p| {
            Generator::new(&plan(p))
                .map(|r| r.object)
                .collect::<Vec<_>>()
        };
        let scan: Vec<u32> = (0..1000).map(|i| i % 100).collect();
        assert_eq!(objects(Pattern::Scan), scan);
        let round: Vec<u32> = (0..1000).map(|i| i % 25).collect();
        assert_eq!(objects(Pattern::Loop), round);
        let mixed = objects(Pattern::Mixed);
        let popular = mixed.iter().filter(|o| **o < 100).count();
        assert!((540..660).contains(&popular), "{popular}");
        let writes = Generator::new(&plan(Pattern::Zipf))
            .filter(|r| r.write)
            .count();
        assert!((200..300).contains(&writes), "{writes}");
        assert_eq!(
            Generator::new(&plan(Pattern::Zipf)).last().unwrap().time_ns,
            999_000_000
        );
    }
}
