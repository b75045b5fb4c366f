//! USB flash sticks.
//!
//! Physics, after A. Bergmann, "Optimizing Linux with cheap flash drives" (LWN, February 2011):
//! the stick maps memory in allocation units of some MiB and keeps only a few of them open. An open
//! unit is written front to back. A write ahead of the unit's write pointer first copies the gap
//! from the old unit; a write behind it, or to one unit more than may be open, closes a unit: the
//! rest of it is copied and the old one erased. A unit that was written to its end closes free of
//! copying. Streams are fast; scattered writes cost a unit's copying each.

use crate::params::Params;
use crate::rng::Rng;

#[derive(Debug, Clone, Copy)]
struct OpenUnit {
    unit: u64,
    /// Blocks written so far.
    pointer: u64,
    used_at: u64,
}

/// A stick.
#[derive(Debug)]
pub struct UsbFlash {
    open: Vec<OpenUnit>,
    most_open: usize,
    unit_blocks: u64,
    write_block: f64,
    read_block: f64,
    copy_block: f64,
    erase: f64,
    command: f64,
    sigma: f64,
    uses: u64,
    /// Largest request in bytes.
    pub max_request: u64,
}

impl UsbFlash {
    /// A stick whose speed is drawn once around the parameter.
    pub fn new(p: &Params, rng: &mut Rng) -> Self {
        let wear = rng.lognormal(p.usb_speed_sigma);
        Self {
            open: Vec::new(),
            most_open: p.usb_open_units as usize,
            unit_blocks: (p.usb_unit as u64 / 4096).max(1),
            write_block: wear * 4096.0 * 1e3 / p.usb_write_bandwidth,
            read_block: 4096.0 * 1e3 / p.usb_read_bandwidth,
            copy_block: wear * 4096.0 * 1e3 / p.usb_copy_bandwidth,
            erase: p.usb_erase,
            command: p.usb_command,
            sigma: p.usb_request_sigma,
            uses: 0,
            max_request: p.usb_max_request as u64,
        }
    }

    /// Copying what a unit still lacks, and erasing the old one.
    fn close(&self, unit: OpenUnit) -> f64 {
        if unit.pointer >= self.unit_blocks {
            return 0.0;
        }
        (self.unit_blocks - unit.pointer) as f64 * self.copy_block + self.erase
    }

    /// Nanoseconds for one request.
    pub fn service(&mut self, write: bool, block: u64, blocks: u32, rng: &mut Rng) -> u64 {
        let mut time = self.command;
        if !write {
            time += f64::from(blocks) * self.read_block;
            return (time * rng.lognormal(self.sigma)) as u64;
        }
        let (mut at, end) = (block, block + u64::from(blocks));
        while at < end {
            let unit = at / self.unit_blocks;
            let offset = at % self.unit_blocks;
            let n = (end - at).min(self.unit_blocks - offset);
            self.uses += 1;
            let i = match self.open.iter().position(|u| u.unit == unit) {
                Some(i) if self.open[i].pointer <= offset => i,
                found => {
                    // Behind the write pointer, or not open: make room, start the unit afresh.
                    let victim = found.or_else(|| {
                        (self.open.len() >= self.most_open).then(|| {
                            (0..self.open.len())
                                .min_by_key(|&i| self.open[i].used_at)
                                .expect("an open unit")
                        })
                    });
                    if let Some(v) = victim {
                        let old = self.open.swap_remove(v);
                        time += self.close(old);
                    }
                    self.open.push(OpenUnit {
                        unit,
                        pointer: 0,
                        used_at: 0,
                    });
                    self.open.len() - 1
                }
            };
            let u = &mut self.open[i];
            time += (offset - u.pointer) as f64 * self.copy_block;
            time += n as f64 * self.write_block;
            u.pointer = offset + n;
            u.used_at = self.uses;
            at += n;
        }
        (time * rng.lognormal(self.sigma)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stick(open: f64) -> (UsbFlash, Rng) {
        let mut rng = Rng::new(1, "stick");
        let p = Params {
            usb_open_units: open,
            usb_request_sigma: 0.0,
            usb_speed_sigma: 0.0,
            ..Params::default()
        };
        (UsbFlash::new(&p, &mut rng), rng)
    }

    #[test]
    fn two_streams_need_two_open_units() {
        let run = |open: f64| {
            let (mut s, mut rng) = stick(open);
            (0..200u64)
                .map(|i| s.service(true, (i % 2) * 1_000_000 + i / 2 * 8, 8, &mut rng))
                .sum::<u64>()
        };
        assert!(
            run(1.0) > 20 * run(2.0),
            "one open unit is closed at every request"
        );
    }

    #[test]
    fn writing_behind_the_pointer_costs_a_unit() {
        let (mut s, mut rng) = stick(5.0);
        let forward = s.service(true, 0, 30, &mut rng);
        let onward = s.service(true, 30, 30, &mut rng);
        let back = s.service(true, 10, 1, &mut rng);
        assert!(
            onward <= forward && back > 10 * onward,
            "{forward} {onward} {back}"
        );
    }

    #[test]
    fn a_gap_costs_its_copying() {
        let (mut s, mut rng) = stick(5.0);
        let near = s.service(true, 0, 1, &mut rng);
        let far = s.service(true, 500, 1, &mut rng);
        assert!(far > 100 * near / 10 && far > near);
    }
}
