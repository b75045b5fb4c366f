//! Disk models: how long a device takes for a request, given where its head is, which erase blocks
//! are open, how deep its queue is.
//!
//! To add a kind: add a file here and a line in `kinds!`. The file has the rows of its parameters
//! (`Figures`), the properties that other modules and crates ask about (`KIND`: request size,
//! members, how a probe recognises and fits it) and the model (`impl Model`). Names, parameter
//! table, schema, machine files, probe and the tests that walk all kinds follow from the line.
//!
//! Models have neither faults nor a queue: [`crate::block::Queue`] has both. Everything is
//! converted once, at construction: times to nanoseconds, sizes to 4 KiB blocks.

mod die;
mod flash;
#[cfg(test)]
mod throughput;

use crate::params::{ParamInfo, Params, Rows, join};
use crate::rng::Rng;
use crate::spec::{DiskSpec, Scheduler};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The direction in which data move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dir {
    /// From the device to memory.
    Read,
    /// From memory to the device.
    Write,
}

/// Bytes in a block.
const BLOCK: f64 = 4096.0;

/// A request as a device sees it: a direction and consecutive blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Read or write.
    pub dir: Dir,
    /// First 4 KiB block.
    pub block: u64,
    /// Number of blocks, at least 1.
    pub blocks: u32,
}

impl Transfer {
    /// Returns the block after the last one.
    pub fn end(&self) -> u64 {
        self.block + u64::from(self.blocks)
    }
}

/// A model of a device, with its state.
trait Model: Sized {
    /// Returns the model of this disk with the parameters of its run. `rng` draws the properties
    /// that differ between runs.
    fn new(spec: &DiskSpec, params: &Params, rng: &mut Rng) -> Self;

    /// See [`DiskModel::service`].
    fn service(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64;

    /// See [`DiskModel::depth`].
    fn depth(&self) -> u32 {
        1
    }

    /// See [`DiskModel::queues`].
    fn queues(&self) -> u32 {
        1
    }

    /// See [`DiskModel::max_request_blocks`].
    fn max_request_blocks(&self) -> u32;

    /// See [`DiskModel::members`].
    fn members(&self) -> u32 {
        1
    }
}

/// The properties of a kind of disk that other modules and crates ask about.
pub struct Kind {
    /// Parameter rows of other kinds that this kind's model uses too.
    pub uses: &'static [&'static [ParamInfo]],
    /// True if the largest request is the queue's `max_request`, false if the kind has a parameter
    /// for that.
    pub max_request: bool,
    /// True if a kernel takes the device for a rotating disk (`queue/rotational`).
    pub rotates: bool,
    /// The scheduler that Linux gives the device where none is chosen: none if the device may have
    /// several hardware queues (block/elevator.c `elevator_get_default`).
    pub scheduler: Scheduler,
    /// The members of an array; `None` for a single device.
    pub array: Option<Array>,
    /// Returns true if a disk with this description is likely of this kind. Exactly one kind does
    /// for each description.
    pub suits: fn(&Described<'_>) -> bool,
    /// How a probe fits the model to measurements; without knobs, a probe never does.
    pub fit: Fit,
}

impl Kind {
    /// The defaults of a single device; a kind states what differs.
    const SINGLE: Self = Self {
        uses: &[],
        max_request: true,
        rotates: false,
        scheduler: Scheduler::Deadline,
        array: None,
        suits: |_| false,
        fit: Fit {
            others: &[],
            knobs: &[],
            start: |_, _| Vec::new(),
            follows: None,
        },
    };
}

/// An array over disks of one kind, each member with a request queue of its own.
pub struct Array {
    /// The permitted numbers of members.
    pub members: RangeInclusive<u32>,
    /// Number of members where a specification gives none.
    pub default: u32,
    /// Kind of the members.
    pub of: DiskKind,
    /// Bytes of a chunk: consecutive bytes on one member before the next member follows.
    pub chunk: fn(&Params) -> f64,
    /// Least read-ahead window of the array, in stripes; 0: the array raises none.
    pub read_ahead: fn(&Params) -> f64,
}

/// The description of a disk by a running kernel.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// Name of the block device.
    pub name: &'a str,
    /// `queue/rotational`.
    pub rotational: bool,
    /// `removable`.
    pub removable: bool,
    /// `md/raid_disks` of a RAID-0.
    pub raid0_members: Option<u64>,
}

impl Described<'_> {
    fn one_device(&self) -> bool {
        !matches!(self.raid0_members, Some(2..=16))
    }

    fn nvme(&self) -> bool {
        self.name.starts_with("nvme")
    }
}

/// How a probe fits a model to measurements.
pub struct Fit {
    /// Other kinds that a disk may be although it describes itself as one of this kind.
    pub others: &'static [DiskKind],
    /// The parameters that the search moves, in this order.
    pub knobs: &'static [Knob],
    /// Returns starting values near the measurements, given what was measured and the disk's own
    /// parameters.
    pub start: fn(&Seen, &Params) -> Vec<(&'static str, f64)>,
    /// A parameter that keeps its ratio to another: its name, the other's name, and a word for the
    /// other in messages.
    pub follows: Option<(&'static str, &'static str, &'static str)>,
}

/// A parameter that the search moves, and how.
#[derive(Debug, Clone, Copy)]
pub enum Knob {
    /// Multiplied by factors.
    Scale(&'static str),
    /// Chosen among values.
    OneOf(&'static str, &'static [f64]),
}

impl Knob {
    /// Returns the parameter's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scale(name) | Self::OneOf(name, _) => name,
        }
    }
}

/// The measurements that a search starts from.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The best rate of sequential reads, in MB/s.
    pub read: f64,
    /// The best rate of sequential writes, in MB/s.
    pub write: f64,
    /// Time of a single random read, in nanoseconds.
    pub latency_ns: f64,
}

impl Seen {
    /// Returns the program time, in nanoseconds, with which `dies` flash dies with pages of `page`
    /// bytes write at the measured rate.
    fn program_ns(&self, dies: f64, page: f64) -> f64 {
        page * dies / (self.write.max(1e-3) * 1e6) * 1e9
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:literal $Kind:ident: $module:ident::$Model:ident;)*) => {
        $(mod $module;)*

        /// The kind of block device; its figures stand in the parameter table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum DiskKind { $($(#[$doc])* #[serde(rename = $name)] $Kind,)* }

        impl DiskKind {
            /// All kinds, in the order of the parameter table.
            pub const ALL: &'static [Self] = &[$(Self::$Kind,)*];

            /// Returns the kind's name in experiments and machine files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$Kind => $name,)* }
            }

            /// Returns the properties that other modules and crates ask about.
            pub fn about(self) -> &'static Kind {
                match self { $(Self::$Kind => const { &$module::KIND },)* }
            }

            /// Returns the rows of the kind's own parameters.
            pub fn rows(self) -> &'static [ParamInfo] {
                match self { $(Self::$Kind => $module::Figures::ROWS,)* }
            }
        }

        /// The model parameters of every kind of disk.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Figures { $($(#[$doc])* pub $module: $module::Figures,)* }

        impl Rows for Figures {
            const ROWS: &'static [ParamInfo] =
                &join::<{ 0 $(+ $module::Figures::ROWS.len())* }>(&[$($module::Figures::ROWS),*]);

            fn get(&self, name: &str) -> Option<f64> {
                None$(.or_else(|| self.$module.get(name)))*
            }

            fn slot(&mut self, name: &str) -> Option<&mut f64> {
                None$(.or_else(|| self.$module.slot(name)))*
            }
        }

        /// The model of one device of some kind, with its state.
        #[derive(Debug, Clone)]
        enum Device { $($Kind($module::$Model),)* }

        impl Device {
            fn new(spec: &DiskSpec, params: &Params, rng: &mut Rng) -> Self {
                match spec.kind {
                    $(DiskKind::$Kind => Self::$Kind(Model::new(spec, params, rng)),)*
                }
            }

            fn service(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64 {
                match self { $(Self::$Kind(disk) => Model::service(disk, now, t, in_service, rng),)* }
            }

            fn depth(&self) -> u32 {
                match self { $(Self::$Kind(disk) => Model::depth(disk),)* }
            }

            fn queues(&self) -> u32 {
                match self { $(Self::$Kind(disk) => Model::queues(disk),)* }
            }

            fn max_request_blocks(&self) -> u32 {
                match self { $(Self::$Kind(disk) => Model::max_request_blocks(disk),)* }
            }

            fn members(&self) -> u32 {
                match self { $(Self::$Kind(disk) => Model::members(disk),)* }
            }
        }
    };
}

kinds! {
    /// USB flash stick with large erase blocks, few of them open at a time.
    "usb-flash" UsbFlash: usb_flash::UsbFlash;
    /// One rotating disk.
    "disk" Disk: rotating::Rotating;
    /// RAID-0 over `members` rotating disks.
    "raid0" Raid0: raid0::Raid0;
    /// SATA solid-state drive.
    "ssd" Ssd: ssd::Ssd;
    /// NVMe solid-state drive.
    "nvme" Nvme: nvme::Nvme;
    /// Volume of a cloud, or metered virtio disk: latency, caps, a burst bucket.
    "volume" Volume: cloud_volume::CloudVolume;
}

impl DiskKind {
    /// Returns true if a disk of this kind uses a parameter: one of its own model, or one of its
    /// request queue.
    pub fn takes(self, param: &ParamInfo) -> bool {
        let about = self.about();
        let has = |rows: &[ParamInfo]| rows.iter().any(|r| r.name == param.name);
        match param.name {
            "nr_requests" => true,
            "max_request" => about.max_request,
            _ => has(self.rows()) || about.uses.iter().any(|rows| has(rows)),
        }
    }

    /// Returns the kind of model that suits a kernel's description of a disk.
    pub fn likely(described: &Described<'_>) -> Self {
        let suits = |kind: &&Self| (kind.about().suits)(described);
        *Self::ALL
            .iter()
            .find(suits)
            .expect("a kind suits every disk")
    }
}

/// The model of a device, with its state.
#[derive(Debug, Clone)]
pub struct DiskModel(Device);

impl DiskModel {
    /// Returns the model of this disk. `rng` draws the properties that differ between runs.
    pub fn new(spec: &DiskSpec, params: &Params, rng: &mut Rng) -> Self {
        Self(Device::new(spec, params, rng))
    }

    /// Returns the nanoseconds from `now` until a request that is started now is complete.
    /// `in_service` counts the requests that the device holds, this one included. `now` never
    /// decreases between calls.
    pub fn service(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64 {
        debug_assert!(t.blocks > 0 && in_service > 0);
        self.0.service(now, t, in_service, rng)
    }

    /// Returns how many requests the device takes at a time in one of its hardware queues.
    pub fn depth(&self) -> u32 {
        self.0.depth()
    }

    /// Returns how many hardware queues the device has at most; Linux makes one per CPU.
    pub fn queues(&self) -> u32 {
        self.0.queues()
    }

    /// Returns the most blocks that the device takes in one request.
    pub fn max_request_blocks(&self) -> u32 {
        self.0.max_request_blocks()
    }

    /// Returns the number of disks behind the device, each with a request queue of its own in
    /// Linux. The one queue of an array has the requests of all of them: streaming spreads evenly
    /// over the members, so they congest together.
    pub fn members(&self) -> u32 {
        self.0.members()
    }
}

/// Returns the nanoseconds that a block takes at this many MB/s (powers of 1000).
fn block_ns(megabytes_per_second: f64) -> f64 {
    BLOCK / megabytes_per_second * 1e3
}

/// Returns the number of whole blocks in this many bytes, at least one.
pub(crate) fn whole_blocks(bytes: f64) -> u32 {
    ((bytes / BLOCK) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every description suits exactly one kind, and every kind that a probe can fit is found by
    /// some.
    #[test]
    fn every_description_suits_one_kind() {
        let mut found = Vec::new();
        for name in ["sda", "nvme0n1"] {
            for bits in 0..8u32 {
                let described = Described {
                    name,
                    rotational: bits & 1 != 0,
                    removable: bits & 2 != 0,
                    raid0_members: (bits & 4 != 0).then_some(3),
                };
                let suits = |kind: &&DiskKind| (kind.about().suits)(&described);
                assert_eq!(
                    DiskKind::ALL.iter().filter(suits).count(),
                    1,
                    "{described:?}"
                );
                found.push(DiskKind::likely(&described));
            }
        }
        // Every kind that a probe can fit is reachable by a description; other kinds are for
        // machine files.
        let fitted = |kind: &&DiskKind| !kind.about().fit.knobs.is_empty();
        assert!(
            DiskKind::ALL
                .iter()
                .filter(fitted)
                .all(|kind| found.contains(kind))
        );
    }

    /// Every knob of a kind is a parameter that a disk of this kind takes.
    #[test]
    fn knobs_are_parameters_of_their_kind() {
        let seen = Seen {
            read: 100.0,
            write: 80.0,
            latency_ns: 1e5,
        };
        for kind in DiskKind::ALL {
            let fit = &kind.about().fit;
            let start = (fit.start)(&seen, &Params::default());
            let moved = fit.knobs.iter().map(Knob::name);
            let begun = start.iter().map(|(name, _)| *name);
            for name in moved.chain(begun).chain(fit.follows.map(|f| f.0)) {
                let row = Params::TABLE.iter().find(|p| p.name == name);
                assert!(kind.takes(row.expect(name)), "{kind:?} {name}");
            }
        }
    }
}
