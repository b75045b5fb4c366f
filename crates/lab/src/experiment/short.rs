//! Reads a machine that is written in a line, `16G,8cpus,nvme`, or as a table of the same words,
//! `{ memory = "16G", cpus = 8, disk = "nvme" }`.
//!
//! Zones lie as Linux lays them out on x86-64: DMA below 16 MiB, DMA32 below the hole for devices
//! that ends at 4 GiB ([`HOLE`]), Normal above it. Several nodes share the addresses evenly, in
//! order. The kernel's own memory at boot grows with the memory, because `struct page` takes 64
//! bytes for each page of 4 KiB. Everything that the line does not say is stated in
//! [`Short::said`], which every result of the experiment shows.
//!
//! With a real kernel among the policies all memory of a node is one zone Normal
//! ([`Layout::Guest`]): that is all that User-Mode Linux has, and QEMU lays the kernel's own zones
//! over it. A kernel takes its memory of the zone DMA itself.

use super::node::{Entry, Node, Table, Value};
use crate::diagnostic::{Diagnostic, Source};
use mm::size::Size;
use sim::DiskKind;
use std::fmt::Write as _;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The end of zone DMA, less what firmware keeps below 1 MiB: the size that /proc/zoneinfo gives
/// for it on PCs.
const DMA: u64 = 15_904 * KIB;
/// The end of the addresses of zone DMA.
const DMA_END: u64 = 16 * MIB;
/// The address at which the hole for devices begins; memory beyond it continues at 4 GiB.
const HOLE: u64 = 3 * GIB;
/// The least memory that a machine has, in bytes.
const LEAST: u64 = 32 * MIB;
/// CPUs of a machine that says nothing of them.
const CPUS: u32 = 4;
/// The disk of a machine that says nothing of it.
const DISK: &str = "ssd";
/// The words of a line, for messages.
pub const ACCEPTED: &str = "accepted: memory and, in any order, CPUs, a disk with its capacity, swap, nodes, ticks: \
                            16G,8cpus,nvme=1T,swap=2G,2nodes,hz=250";

/// The layout of a machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The zones of Linux on x86-64, for the engine.
    X86,
    /// One zone Normal a node, for guests with real kernels and the engine beside them.
    Guest,
}

/// A machine in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Short {
    /// The line as it was written.
    line: String,
    memory: u64,
    cpus: u32,
    disk: String,
    capacity: String,
    swap: Option<String>,
    nodes: u64,
    hz: Option<u32>,
    layout: Layout,
    /// Keys that a table lays over the line.
    over: Vec<String>,
}

/// Returns true if a text is meant as such a line and not as the name of a file: its first word is
/// an amount of memory.
pub fn is_meant(text: &str) -> bool {
    let first = text.split(',').next().unwrap_or(text).trim();
    Size::parse(first).is_ok_and(|size| size.0 >= LEAST)
}

/// Returns the capacity, as a size with its unit, that is assumed for a kind of disk if the user
/// states none.
fn usual_capacity(kind: &str) -> &'static str {
    match kind {
        "usb-flash" => "32G",
        "volume" => "100G",
        "ssd" => "512G",
        _ => "1T",
    }
}

impl Short {
    /// Reads a machine in a line, such as `16G,8cpus,nvme=1T`: first the memory, then other words
    /// in any order. Values that are not stated get their defaults, and `layout` decides on zones.
    ///
    /// # Errors
    /// Returns what is wrong with one of its words.
    pub fn parse(line: &str, layout: Layout) -> Result<Self, String> {
        let mut words = line.split(',').map(str::trim);
        let first = words.next().unwrap_or_default();
        let memory = Size::parse(first).map_err(|e| format!("`{first}`: {e}"))?.0;
        if memory < LEAST {
            return Err(format!("`{first}`: less than 32M of memory"));
        }
        let mut short = Self {
            line: line.to_owned(),
            memory,
            cpus: CPUS,
            disk: DISK.to_owned(),
            capacity: usual_capacity(DISK).to_owned(),
            swap: None,
            nodes: 1,
            hz: None,
            layout,
            over: Vec::new(),
        };
        let mut seen: Vec<&str> = Vec::new();
        for word in words {
            // The subject of the word, such as "CPUs".
            let what = short.word(word)?;
            if seen.contains(&what) {
                return Err(format!("`{word}`: {what} stand there twice"));
            }
            seen.push(what);
        }
        if short.memory / short.nodes < LEAST {
            return Err(format!(
                "{} nodes: less than 32M of memory each",
                short.nodes
            ));
        }
        Ok(short)
    }

    /// Takes over the value of one word, such as `8cpus` or `nvme=1T`; returns its subject, such as
    /// "CPUs", so that a second word about the same can be refused.
    fn word(&mut self, word: &str) -> Result<&'static str, String> {
        // The number before one of the suffixes; `None` if the word is not of this form.
        let number = |suffixes: &[&str]| -> Option<Result<u32, String>> {
            let digits = suffixes
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix))?;
            let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            whole.then(|| digits.parse().map_err(|_| format!("`{word}`: too many")))
        };
        if let Some(cpus) = number(&["cpus", "cpu"]) {
            self.cpus = cpus?;
            return Ok("CPUs");
        }
        if let Some(nodes) = number(&["nodes", "node"]) {
            self.nodes = nodes?.max(1).into();
            return Ok("nodes");
        }
        if let Some(hz) = word.strip_prefix("hz=") {
            self.hz = Some(
                hz.parse()
                    .map_err(|_| format!("`{word}`: no number of ticks"))?,
            );
            return Ok("ticks");
        }
        if let Some(swap) = word.strip_prefix("swap=") {
            Size::parse(swap).map_err(|e| format!("`{word}`: {e}"))?;
            self.swap = Some(swap.to_owned());
            return Ok("swap");
        }
        let (kind, capacity) = word
            .split_once('=')
            .map_or((word, None), |(k, c)| (k, Some(c)));
        if !DiskKind::ALL.iter().any(|known| known.name() == kind) {
            return Err(format!("unknown word `{word}`"));
        }
        if (DiskKind::ALL.iter()).any(|k| k.name() == kind && k.about().array.is_some()) {
            return Err(format!(
                "`{word}`: an array has members, and so needs a table: disk = {{ kind = \"{kind}\", members = 4, \
                 capacity = \"4T\" }}"
            ));
        }
        if let Some(capacity) = capacity {
            Size::parse(capacity).map_err(|e| format!("`{word}`: {e}"))?;
        }
        self.disk = kind.to_owned();
        self.capacity = capacity.unwrap_or(usual_capacity(kind)).to_owned();
        Ok("disks")
    }

    /// Returns the zones of each node as (zone's name, bytes). Nodes share the memory evenly, in
    /// order of addresses, and zones lie as the layout says; empty zones are left out.
    fn zones(&self) -> Vec<Vec<(&'static str, u64)>> {
        // Bytes of each node, in whole pages of 4 KiB.
        let share = self.memory / self.nodes / (4 * KIB) * 4 * KIB;
        let node = |nth: u64| {
            let (from, to) = (nth * share, (nth + 1) * share);
            if self.layout == Layout::Guest {
                return vec![("Normal", share)];
            }
            // Bytes of this node between two addresses.
            let within = |low: u64, high: u64| to.min(high).saturating_sub(from.max(low));
            let dma = within(0, DMA_END).min(DMA);
            let zones = [
                ("DMA", dma),
                ("DMA32", within(DMA_END, HOLE)),
                ("Normal", within(HOLE, u64::MAX)),
            ];
            zones.into_iter().filter(|zone| zone.1 > 0).collect()
        };
        (0..self.nodes).map(node).collect()
    }

    /// Returns the bytes in use at boot, in whole MiB: the kernel's, anonymous memory, page cache.
    /// They are estimated from the size of the memory.
    fn boot(&self) -> [u64; 3] {
        let whole = |bytes: u64| bytes / MIB * MIB;
        let kernel = (64 * MIB + self.memory / 64).min(self.memory / 4);
        let anon = (200 * MIB).min(self.memory / 16);
        let cache = (100 * MIB).min(self.memory / 20);
        [kernel, anon, cache].map(whole)
    }

    /// Returns the machine as the text of a machine file in TOML, with everything spelt out that
    /// the line leaves out.
    fn toml(&self) -> String {
        let mut out = format!(
            "name = \"{}\"\ncpus = {}\n",
            self.line.replace([',', '='], "-"),
            self.cpus
        );
        if let Some(hz) = self.hz {
            let _ = writeln!(out, "hz = {hz}");
        }
        for zones in self.zones() {
            let zones: Vec<String> = zones
                .iter()
                .map(|(zone, bytes)| {
                    format!("{{ zone = \"{zone}\", size = \"{}K\" }}", bytes / KIB)
                })
                .collect();
            let _ = writeln!(out, "[[node]]\nzones = [{}]", zones.join(", "));
        }
        let [kernel, anon, cache] = self.boot().map(|bytes| bytes / MIB);
        let _ = writeln!(
            out,
            "[boot]\nkernel = \"{kernel}M\"\ndma = \"{}\"\nanon = \"{anon}M\"\ncache = \"{cache}M\"",
            match self.layout {
                Layout::X86 => "1M",
                Layout::Guest => "0",
            }
        );
        let _ = writeln!(
            out,
            "[disk]\nkind = \"{}\"\ncapacity = \"{}\"",
            self.disk, self.capacity
        );
        if let Some(swap) = &self.swap {
            let _ = writeln!(out, "[swap]\nsize = \"{swap}\"");
        }
        out
    }

    /// Returns a sentence for the user that states all values of the machine, including those that
    /// were assumed; keys that a table lays over the machine are left out.
    pub fn said(&self) -> String {
        let own = |key: &str| !self.over.iter().any(|over| over == key);
        let mut parts = Vec::new();
        if own("node") {
            let zones: Vec<String> = self
                .zones()
                .iter()
                .map(|zones| {
                    let told = zones
                        .iter()
                        .map(|(zone, bytes)| format!("{zone} {} MiB", bytes / MIB));
                    told.collect::<Vec<_>>().join(" + ")
                })
                .collect();
            parts.push(zones.join(" | "));
        }
        if own("cpus") {
            parts.push(format!("{} CPUs", self.cpus));
        }
        if own("disk") {
            parts.push(format!("{} of {}", self.disk, self.capacity));
        }
        if own("boot") {
            let [kernel, anon, cache] = self.boot().map(|bytes| bytes / MIB);
            parts.push(format!(
                "at boot {kernel} MiB of the kernel, {anon} MiB anonymous, {cache} MiB of page cache"
            ));
        }
        if own("swap") {
            parts.push(match &self.swap {
                Some(swap) => format!("{swap} of swap"),
                None => "no swap".to_owned(),
            });
        }
        format!(
            "machine {}: {}. `lowmark machine` describes a real one.",
            self.line,
            parts.join("; ")
        )
    }

    /// Notes the keys of the table `over`, which is laid over the machine, so that `said` leaves
    /// them out. If the table states another kind of disk, that kind's usual capacity is taken.
    pub fn laid_over(&mut self, over: &Node) {
        let Some(table) = over.table() else { return };
        self.over = table.0.iter().map(|entry| entry.key.clone()).collect();
        let kind = table.get("disk").and_then(|disk| disk.at(&["kind"]));
        if let Some(kind) = kind.and_then(Node::text) {
            usual_capacity(kind).clone_into(&mut self.capacity);
        }
    }

    /// Returns the machine's tree, as it would be read from a machine file.
    ///
    /// # Errors
    /// Does not fail on lines that [`Self::parse`] accepts.
    pub fn node(&self) -> Result<Node, Diagnostic> {
        Node::parse(&Source::new(format!("machine {}", self.line), self.toml()))
    }
}

/// Reads a table with the key `memory` as a machine in words. Returns the machine, and the rest of
/// the table's keys, which are laid over it; `None` for other tables.
///
/// # Errors
/// Returns a word that does not fit, at its place.
pub fn of_table(node: &Node, layout: Layout) -> Result<Option<(Short, Node)>, Diagnostic> {
    let Some(table) = node.table().filter(|t| t.get("memory").is_some()) else {
        return Ok(None);
    };
    let mut words: Vec<(String, &Node)> = Vec::new();
    let mut rest = Table::default();
    for Entry { key, place, node } in &table.0 {
        let value = node.scalar();
        // The entry as a word of a line; `None` if it is not a word but a key for the rest.
        let word = match (key.as_str(), &value) {
            ("memory", Some(memory)) => Some(memory.clone()),
            ("cpus", Some(cpus)) => Some(format!("{cpus}cpus")),
            ("nodes", Some(nodes)) => Some(format!("{nodes}nodes")),
            ("hz", Some(hz)) => Some(format!("hz={hz}")),
            ("disk", Some(disk)) => Some(disk.clone()),
            ("swap", Some(swap)) => Some(format!("swap={swap}")),
            _ => None,
        };
        match word {
            Some(word) if key == "memory" => words.insert(0, (word, node)),
            Some(word) => words.push((word, node)),
            None => rest.0.push(Entry {
                key: key.clone(),
                place: place.clone(),
                node: node.clone(),
            }),
        }
    }
    let line: Vec<&str> = words.iter().map(|(word, _)| &word[..]).collect();
    if let Some(memory) = table.get("memory").filter(|m| m.scalar().is_none()) {
        return Err(Diagnostic::at(
            &memory.place,
            format!("`machine.memory`: {} does not fit here", memory.kind()),
            "accepted: one amount such as \"16G\"; a list of machines such as [\"8G\", \"16G\"] makes an axis",
        ));
    }
    let mut short = Short::parse(&line.join(","), layout).map_err(|why| {
        let at = words
            .iter()
            .find(|(word, _)| why.contains(&format!("`{word}`")));
        let place = at.map_or(&node.place, |(_, node)| &node.place);
        Diagnostic::at(place, format!("`machine`: {why}"), ACCEPTED)
    })?;
    let rest = Node {
        place: node.place.clone(),
        value: Value::Table(rest),
    };
    short.laid_over(&rest);
    Ok(Some((short, rest)))
}

/// Puts a name and the usual CPUs and disk into a machine's table that has none, and spells a disk
/// or swap in a word out (`disk = "nvme=1T"`, `swap = "2G"`). Returns a sentence for the user that
/// states the assumed values, and the memory in use at boot if the table does not say that either;
/// `None` if nothing was missing.
///
/// # Errors
/// Returns a disk or an amount of swap that does not fit, at its place.
pub fn fill(tree: &mut Node) -> Result<Option<String>, Diagnostic> {
    let place = tree.place.clone();
    let Value::Table(table) = &mut tree.value else {
        return Ok(None);
    };
    spell_out(table)?;
    let disk = serde_json::json!({ "kind": DISK, "capacity": usual_capacity(DISK) });
    let mut taken = Vec::new();
    let name = named_by_memory(table);
    for (key, value, told) in [
        (
            "name",
            name.clone(),
            format!("the name {} (`name`)", name.as_str().unwrap_or_default()),
        ),
        (
            "cpus",
            serde_json::json!(CPUS),
            format!("{CPUS} CPUs (`cpus`)"),
        ),
        (
            "disk",
            disk,
            format!("an {DISK} of {} (`disk`)", usual_capacity(DISK)),
        ),
    ] {
        if table.get(key).is_none() && !value.is_null() {
            table.0.push(Entry {
                key: key.to_owned(),
                place: place.clone(),
                node: Node::from_json(&value, &place),
            });
            taken.push(told);
        }
    }
    if taken.is_empty() {
        return Ok(None);
    }
    if table.get("boot").is_none() {
        let boot = sim::spec::Boot::default();
        let [kernel, anon, cache] = [boot.kernel, boot.anon, boot.cache].map(|size| size.0 / MIB);
        taken.push(format!(
            "at boot {kernel} MiB of the kernel, {anon} MiB anonymous, {cache} MiB of page cache (`boot`)"
        ));
    }
    let name = table.get("name").and_then(Node::text).unwrap_or("");
    Ok(Some(format!(
        "machine {name}: taken for keys that it lacks: {}.",
        taken.join("; ")
    )))
}

/// Returns the size of a machine's memory as the name of the machine, such as `512M`; null if its
/// zones can't be read, or are lists, each value of which needs a name of its own.
fn named_by_memory(table: &Table) -> serde_json::Value {
    let list = |node: &Node| match &node.value {
        Value::List(list) => Some(list.clone()),
        _ => None,
    };
    let bytes = || -> Option<u64> {
        let mut sum = 0u64;
        for node in list(table.get("node")?)? {
            for zone in list(node.at(&["zones"])?)? {
                let size = Size::parse(zone.at(&["size"])?.text()?).ok()?;
                sum = sum.checked_add(size.0)?;
            }
        }
        Some(sum / MIB)
    };
    bytes().map_or(serde_json::Value::Null, |mib| format!("{mib}M").into())
}

/// Replaces a disk in a word (`"nvme"`, `"nvme=1T"`) and an amount of swap (`"2G"`) by their
/// tables.
///
/// # Errors
/// Returns the word that is neither, at its place.
fn spell_out(table: &mut Table) -> Result<(), Diagnostic> {
    if let Some(node) = table.get_mut("disk")
        && let Some(word) = node.text().map(str::to_owned)
    {
        let mut short = Short::parse("1G", Layout::X86).expect("an amount of memory");
        match short.word(&word) {
            Ok("disks") => {}
            other => {
                let why = other
                    .err()
                    .unwrap_or_else(|| format!("`{word}` is no disk"));
                let kinds: Vec<&str> = DiskKind::ALL.iter().map(|k| k.name()).collect();
                return Err(Diagnostic::at(
                    &node.place,
                    format!("`machine.disk`: {why}"),
                    format!(
                        "accepted: one of {}, with a capacity as in \"nvme=1T\"; or a table [disk] with `kind`",
                        kinds.join(", ")
                    ),
                ));
            }
        }
        let disk = serde_json::json!({ "kind": short.disk, "capacity": short.capacity });
        *node = Node::from_json(&disk, &node.place);
    }
    if let Some(node) = table.get_mut("swap")
        && let Some(size) = node.text().map(str::to_owned)
    {
        Size::parse(&size).map_err(|e| {
            let accepted = "accepted: an amount such as \"2G\", or a table [swap] with `size`";
            Diagnostic::at(&node.place, format!("`machine.swap`: {e}"), accepted)
        })?;
        *node = Node::from_json(&serde_json::json!({ "size": size }), &node.place);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(line: &str) -> Short {
        Short::parse(line, Layout::X86).unwrap()
    }

    #[test]
    fn zones_lie_as_on_x86_64() {
        let mib = |line: &str| -> Vec<Vec<(&'static str, u64)>> {
            let zones = short(line).zones();
            let of = |node: Vec<(&'static str, u64)>| {
                node.into_iter()
                    .map(|(zone, bytes)| (zone, bytes / MIB))
                    .collect()
            };
            zones.into_iter().map(of).collect()
        };
        assert_eq!(mib("1G"), [[("DMA", 15), ("DMA32", 1008)]]);
        assert_eq!(
            mib("16G"),
            [[("DMA", 15), ("DMA32", 3056), ("Normal", 13 * 1024)]]
        );
        assert_eq!(
            mib("8G,2nodes"),
            [
                vec![("DMA", 15), ("DMA32", 3056), ("Normal", 1024)],
                vec![("Normal", 4096)]
            ]
        );
        assert_eq!(
            mib("4G,4nodes")[1..],
            [
                vec![("DMA32", 1024)],
                vec![("DMA32", 1024)],
                vec![("Normal", 1024)]
            ]
        );
    }

    #[test]
    fn guests_have_one_zone_a_node() {
        let guest = Short::parse("8G,2nodes", Layout::Guest).unwrap();
        assert_eq!(
            guest.zones(),
            [[("Normal", 4 * GIB)], [("Normal", 4 * GIB)]]
        );
        assert!(
            guest.toml().contains("dma = \"0\"") && short("8G").toml().contains("dma = \"1M\"")
        );
    }

    #[test]
    fn words_stand_in_any_order_and_the_rest_is_stated() {
        let s = short("16G,nvme=2T,8cpus,swap=2G,hz=1000");
        assert_eq!((s.cpus, &s.disk[..], &s.capacity[..]), (8, "nvme", "2T"));
        assert_eq!((s.swap.as_deref(), s.hz), (Some("2G"), Some(1000)));
        let said = short("2G").said();
        for part in [
            "4 CPUs",
            "ssd of 512G",
            "no swap",
            "at boot 96 MiB of the kernel",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, why) in [
            ("16G,8cpus,nmve", "unknown word `nmve`"),
            ("16G,8cpus,4cpus", "CPUs stand there twice"),
            ("16G,nvme=much", "`nvme=much`"),
            ("1M", "less than 32M"),
            ("64M,4nodes", "less than 32M of memory each"),
            ("16G,hz=fast", "no number of ticks"),
            ("16G,raid0", "an array has members"),
        ] {
            let said = Short::parse(line, Layout::X86).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
        assert!(is_meant("16G") && is_meant("16G,nvme"));
        assert!(!is_meant("machines/16G.toml") && !is_meant("desktop") && !is_meant("16"));
    }
}
