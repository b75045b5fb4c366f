//! Policies as data: every behaviour that the published threads argue about is one named switch.
//!
//! A preset names a kernel release and is nothing but a set of switches. The engine never asks for
//! a release; it asks for a switch, which is a plain field of [`Policy`].
//!
//! To add a switch: an entry in the table of `switches.rs`, and the code that reads it. The field,
//! its form in experiments, the schema, the range check, `lowmark explain`, the draws of the swarm
//! and `docs/switches.md` follow from the entry. To add a preset: an entry in `presets.rs`.

mod auto;
mod block;
mod filesystems;
mod memory;
mod presets;
mod profile;
mod reclaim;
mod switches;
mod table;

pub use auto::*;
pub use block::{
    CfqIdling, Plugs, RequestQueue, WritebackBios, WritebackEnds, WritebackThrottling,
};
pub use filesystems::{
    BlockAllocation, BtrfsTrees, BtrfsWriteback, Ext4Bitmaps, Ext4Writeback, ExtentMaps,
    InodeReclaim, IomapWriteback, JournalPlace, XfsFormat, XfsLog, XfsLogPush, XfsRoots,
};
pub use memory::{
    BelowHigh, Compaction, Mobility, PageMetadata, PageTables, PerCpuLists, SwapBios,
};
pub use presets::{Change, PRESETS, Preset, nearest, next_after};
pub use profile::{ProfileZone, WatermarkProfile};
pub use reclaim::{
    HopelessCheck, KswapdRequest, KswapdSlab, KswapdSleepCheck, ReclaimWrites, ScanSizes,
    SkippedPages,
};
pub use switches::*;

use evict::registry;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A row of the table of switches.
#[derive(Debug, Clone, Copy)]
pub struct Switch {
    /// The switch's key in a policy's table: `kswapd_writeback`, `auto.cap`.
    pub name: &'static str,
    doc: &'static str,
    /// The values that the switch accepts.
    pub form: Form,
    /// The pages that document its source, as paths from the project's root, some with a heading.
    pub sources: &'static [&'static str],
    value: fn(&Policy) -> Setting,
}

/// The values that a switch accepts.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// One of these words.
    Words(&'static [Word]),
    /// `true` or `false`.
    OnOff,
    /// A whole number.
    Number {
        /// The smallest accepted value.
        least: u64,
        /// The largest accepted value.
        most: u64,
        /// The unit of the number.
        unit: &'static str,
    },
}

/// A word that a switch can be set to.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// The word as experiments spell it.
    pub name: &'static str,
    doc: &'static str,
}

/// The value of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// A word.
    Word(&'static str),
    /// On or off.
    OnOff(bool),
    /// A number.
    Number(u64),
}

impl Switch {
    /// Returns what the switch decides, as one text.
    pub fn about(&self) -> &'static str {
        self.doc.trim()
    }

    /// Returns the value that `policy` gives this switch.
    pub fn of(&self, policy: &Policy) -> Setting {
        (self.value)(policy)
    }
}

impl Word {
    /// Returns the meaning of the word.
    pub fn about(&self) -> &'static str {
        self.doc.trim()
    }
}

impl fmt::Display for Setting {
    /// Writes the value as experiments spell it: the word, `true` or `false`, or the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::OnOff(on) => on.fmt(f),
            Self::Number(n) => n.fmt(f),
        }
    }
}

impl From<bool> for Setting {
    fn from(on: bool) -> Self {
        Self::OnOff(on)
    }
}

impl From<u8> for Setting {
    fn from(n: u8) -> Self {
        Self::Number(n.into())
    }
}

impl From<u32> for Setting {
    fn from(n: u32) -> Self {
        Self::Number(n.into())
    }
}

/// The type of a switch that is not a number.
trait Choice {
    /// The values that the type accepts.
    const FORM: Form;
}

impl Choice for bool {
    const FORM: Form = Form::OnOff;
}

/// The order in which a zone's file pages leave: `linux` is the active and the inactive list with
/// all their rules, any other name a policy of the crate `evict` in their place (docs/eviction.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// The active and the inactive list.
    Linux,
    /// A policy by its name in the registry.
    Policy(&'static str),
}

impl Eviction {
    const WORDS: [Word; registry::ALL.len() + 1] = {
        let linux = Word {
            name: "linux",
            doc: "The active and the inactive list with all their rules.",
        };
        let mut words = [linux; registry::ALL.len() + 1];
        let mut i = 0;
        while i < registry::ALL.len() {
            words[i + 1] = Word {
                name: registry::ALL[i].name,
                doc: registry::ALL[i].about,
            };
            i += 1;
        }
        words
    };

    /// Every accepted name, `linux` first.
    pub const NAMES: &'static [&'static str] = &{
        let mut names = [""; Self::WORDS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = Self::WORDS[i].name;
            i += 1;
        }
        names
    };

    /// Returns the eviction order with the name `name`, one of [`Self::NAMES`], in upper or lower
    /// case; `None` for another name.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::NAMES.iter();
        let own = all.find(|own| own.eq_ignore_ascii_case(name))?;
        Some(match registry::find(own) {
            Some(entry) => Self::Policy(entry.name),
            None => Self::Linux,
        })
    }

    /// Returns the name as experiments spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => Self::NAMES[0],
            Self::Policy(name) => name,
        }
    }
}

impl Choice for Eviction {
    const FORM: Form = Form::Words(&Self::WORDS);
}

impl From<Eviction> for Setting {
    fn from(order: Eviction) -> Self {
        Self::Word(order.name())
    }
}

impl Serialize for Eviction {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Eviction {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let name = String::deserialize(d)?;
        Self::parse(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, Self::NAMES))
    }
}

impl JsonSchema for Eviction {
    fn schema_name() -> Cow<'static, str> {
        "Eviction".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "enum": Self::NAMES })
    }
}

/// Returns every switch: those of the policy itself, then the rules under its key `auto`.
pub fn switches() -> impl Iterator<Item = &'static Switch> {
    Policy::SWITCHES.iter().chain(AutoWatermarks::SWITCHES)
}

impl Policy {
    /// Returns true if the policy's reclaim can go by memory control groups: nodes have the LRU
    /// lists, the scan balance goes by costs, and reclaimers wait for reasons, as since 5.16.
    pub fn knows_groups(&self) -> bool {
        self.lru == LruScope::Node
            && self.eviction == Eviction::Linux
            && self.scan_balance == ScanBalance::Cost
            && self.reclaim_throttle == ReclaimThrottle::Reasons
    }

    /// Returns the upper bound, in pages, of four times the batch of a CPU's list: 512 KiB, since
    /// 4.20 1 MiB.
    pub fn pcp_batch_cap(&self) -> u64 {
        match self.per_cpu_lists {
            PerCpuLists::Batches => 128,
            PerCpuLists::Watermark | PerCpuLists::Tuned => 256,
        }
    }

    /// Returns the switches that are numbers: each switch, its value in this policy, and the
    /// smallest and the largest value accepted.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static Switch, u64, u64, u64)> {
        switches().filter_map(|switch| match (switch.form, switch.of(self)) {
            (Form::Number { least, most, .. }, Setting::Number(n)) => {
                Some((switch, n, least, most))
            }
            _ => None,
        })
    }

    /// Returns the same policy under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the value that a policy's serialised form has for a switch, given by its path.
    fn written(policy: &Policy, name: &str) -> String {
        let all = serde_json::to_value(policy).expect("a policy can be written");
        let value = name.split('.').fold(&all, |table, key| &table[key]);
        value.to_string().trim_matches('"').to_owned()
    }

    #[test]
    fn every_field_is_a_switch_and_its_setting_is_what_is_written() {
        let policy = Policy::linux_4_9();
        let mut names = BTreeSet::new();
        for switch in switches() {
            assert!(names.insert(switch.name), "{}", switch.name);
            assert!(!switch.about().is_empty(), "{}", switch.name);
            let setting = switch.of(&policy).to_string();
            assert_eq!(setting, written(&policy, switch.name), "{}", switch.name);
            if let Form::Words(words) = switch.form {
                assert!(words.iter().any(|w| w.name == setting), "{}", switch.name);
                assert!(words.iter().all(|w| !w.about().is_empty()));
            }
        }
        let all = serde_json::to_value(&policy).expect("a policy can be written");
        let keys = |table: &serde_json::Value| -> Vec<String> {
            let table = table.as_object().expect("a table");
            table.keys().cloned().collect()
        };
        let auto = keys(&all["auto"]);
        let fields = keys(&all)
            .into_iter()
            .filter(|key| !["name", "auto"].contains(&&key[..]))
            .chain(auto.into_iter().map(|rule| format!("auto.{rule}")));
        for field in fields {
            assert!(names.contains(&field[..]), "{field}");
        }
    }

    #[test]
    fn numbers_come_with_their_ranges() {
        let mut policy = Policy::linux_3_0();
        policy.oom_retries = 65;
        policy.auto.cap = 0;
        let outside = |(_, n, least, most): &(&Switch, u64, u64, u64)| n < least || n > most;
        let outside = policy.numbers().filter(outside);
        let outside: Vec<_> = outside.map(|(s, n, ..)| (s.name, n)).collect();
        assert_eq!(outside, [("oom_retries", 65), ("auto.cap", 0)]);
    }

    #[test]
    fn presets_change_what_they_say_and_nothing_else() {
        for preset in PRESETS {
            let (policy, base) = (preset.policy(), preset.base());
            assert_eq!(policy.name, preset.name);
            for (switch, n, least, most) in policy.numbers() {
                assert!((least..=most).contains(&n), "{}", switch.name);
            }
            let own = switches().filter(|s| s.of(&policy) != s.of(&base));
            let own: BTreeSet<&str> = own.map(|s| s.name).collect();
            let said: BTreeSet<&str> = preset.changes.iter().map(|c| c.switch).collect();
            assert_eq!(own, said, "{}", preset.name);
            assert_eq!(preset.changes.len(), said.len(), "{}", preset.name);
        }
        let releases: Vec<_> = PRESETS.iter().map(|p| p.release).collect();
        assert!(releases.is_sorted(), "{releases:?}");
    }
}
