//! Watermark profiles: watermarks that a stress run has found to be sufficient, for the next boot.
//!
//! This is the answer of *tunable-watermarks*' author to watermarks that adjust themselves:
//! feedback cannot rule out the first stall, so test once and keep the result
//! (docs/reference/memory-model.md#tunable-watermarks).

use crate::{ZoneInfo, ZoneType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The watermarks of one zone, in kB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileZone {
    /// The zone's node.
    #[serde(default)]
    pub node: u32,
    /// The zone's type.
    pub zone: ZoneType,
    /// The zone's min watermark.
    pub min_kbytes: u64,
    /// The zone's low watermark, at least min.
    pub low_kbytes: u64,
    /// The zone's high watermark, at least low.
    pub high_kbytes: u64,
}

/// The watermarks of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatermarkProfile {
    /// The machine on which the watermarks were learned.
    #[serde(default)]
    pub machine: String,
    /// The zones; a zone that is not listed keeps the watermarks that the sysctls give it.
    #[serde(rename = "zone", default)]
    pub zones: Vec<ProfileZone>,
}

impl WatermarkProfile {
    /// Returns the sums of the min, low and high watermarks over all zones, in kB, as the sysctls
    /// `wmark_min_kbytes`, `wmark_low_kbytes` and `wmark_high_kbytes` have them.
    pub fn sums(&self) -> [u64; 3] {
        self.zones.iter().fold([0; 3], |sums, z| {
            [
                sums[0] + z.min_kbytes,
                sums[1] + z.low_kbytes,
                sums[2] + z.high_kbytes,
            ]
        })
    }

    /// Checks that the profile fits a machine with these zones: each zone exists, is listed once,
    /// and has ascending watermarks of at most half of its size. Returns a text about the first
    /// error; `None` if there is none.
    pub fn fault(&self, zones: &[ZoneInfo]) -> Option<String> {
        for (i, p) in self.zones.iter().enumerate() {
            let name = format!("{} of node {}", p.zone.name(), p.node);
            let same = |q: &&ProfileZone| (q.node, q.zone) == (p.node, p.zone);
            if self.zones[..i].iter().any(|q| same(&q)) {
                return Some(format!("zone {name} stands there twice"));
            }
            if p.low_kbytes < p.min_kbytes || p.high_kbytes < p.low_kbytes {
                return Some(format!(
                    "zone {name}: min {}, low {}, high {} kB do not ascend",
                    p.min_kbytes, p.low_kbytes, p.high_kbytes
                ));
            }
            match zones.iter().find(|z| (z.node, z.kind) == (p.node, p.zone)) {
                None => return Some(format!("the machine has no zone {name}")),
                Some(z) if p.high_kbytes / 4 > z.size / 2 => {
                    return Some(format!(
                        "zone {name}: high {} kB is more than half of its {} kB",
                        p.high_kbytes,
                        z.size * 4
                    ));
                }
                Some(_) => {}
            }
        }
        None
    }

    /// Overwrites the watermarks (min, low, high) in `marks`, in pages and in the order of `zones`,
    /// with those of the profile; zones that it does not list keep theirs.
    pub(crate) fn lay_over(&self, marks: &mut [[u64; 3]], zones: &[ZoneInfo]) {
        for p in &self.zones {
            let at = zones
                .iter()
                .position(|z| (z.node, z.kind) == (p.node, p.zone));
            if let Some(at) = at {
                marks[at] = [p.min_kbytes, p.low_kbytes, p.high_kbytes].map(|kb| kb / 4);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> WatermarkProfile {
        let zone = |zone, min_kbytes| ProfileZone {
            node: 0,
            zone,
            min_kbytes,
            low_kbytes: 2 * min_kbytes,
            high_kbytes: 3 * min_kbytes,
        };
        WatermarkProfile {
            machine: "m".into(),
            zones: vec![zone(ZoneType::Dma, 40), zone(ZoneType::Dma32, 4000)],
        }
    }

    fn machine() -> Vec<ZoneInfo> {
        [
            (ZoneType::Dma, 4000),
            (ZoneType::Dma32, 100_000),
            (ZoneType::Normal, 50_000),
        ]
        .map(|(kind, size)| ZoneInfo {
            node: 0,
            kind,
            size,
        })
        .to_vec()
    }

    #[test]
    fn zones_that_are_named_get_their_marks() {
        let mut marks = vec![[1, 2, 3]; 3];
        profile().lay_over(&mut marks, &machine());
        assert_eq!(marks, [[10, 20, 30], [1000, 2000, 3000], [1, 2, 3]]);
        assert_eq!(profile().sums(), [4040, 8080, 12_120]);
        assert_eq!(profile().fault(&machine()), None);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut twice = profile();
        twice.zones[1].zone = ZoneType::Dma;
        assert!(twice.fault(&machine()).unwrap().contains("twice"));
        let mut order = profile();
        order.zones[0].high_kbytes = 1;
        assert!(order.fault(&machine()).unwrap().contains("ascend"));
        assert!(
            profile()
                .fault(&machine()[..1])
                .unwrap()
                .contains("no zone")
        );
        let mut large = profile();
        large.zones[0].high_kbytes = 9000;
        assert!(large.fault(&machine()).unwrap().contains("half"));
    }
}
