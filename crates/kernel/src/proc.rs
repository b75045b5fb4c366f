//! Parsers for the texts of `/proc`.

use std::collections::BTreeMap;

/// Returns the number of each line of `/proc/vmstat` by its name; lines without a number are left
/// out.
pub fn vmstat(text: &str) -> BTreeMap<&str, u64> {
    let pair = |line: &'_ str| -> Option<(usize, u64)> {
        let (name, number) = line.split_once(' ')?;
        Some((name.len(), number.trim().parse().ok()?))
    };
    let lines = text.lines();
    lines
        .filter_map(|line| pair(line).map(|(len, n)| (&line[..len], n)))
        .collect()
}

/// Returns true if a name of `/proc/vmstat` is a level (how much there is), false if it counts
/// events.
pub fn is_level(name: &str) -> bool {
    const EVENTS: [&str; 8] = [
        "nr_dirtied",
        "nr_written",
        "nr_throttled_written",
        "nr_vmscan_write",
        "nr_vmscan_immediate_reclaim",
        "nr_foll_pin_acquired",
        "nr_foll_pin_released",
        "nr_tlb_remote_flush",
    ];
    const LEVELS: [&str; 1] = ["workingset_nodes"];
    LEVELS.contains(&name) || name.starts_with("nr_") && !EVENTS.contains(&name)
}

/// Returns the increase of the event counters between two texts of `/proc/vmstat`. A name that is
/// missing in the first is left out, because its earlier count is unknown.
pub fn events_between(first: &str, last: &str) -> BTreeMap<String, u64> {
    let before = vmstat(first);
    let events = vmstat(last).into_iter().filter(|(name, _)| !is_level(name));
    let since = |(name, n): (&str, u64)| {
        let then = before.get(name)?;
        Some((name.to_owned(), n.saturating_sub(*then)))
    };
    events.filter_map(since).collect()
}

/// A zone of `/proc/zoneinfo`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Zone {
    /// The zone's name; with its node in front if several nodes have memory.
    pub name: String,
    /// The number of its node.
    pub node: u32,
    /// Pages that the allocator manages.
    pub managed: u64,
    /// The figures by name: `free`, `min`, `low`, `high`, `nr_zone_inactive_file`, …
    pub figures: BTreeMap<String, u64>,
}

/// Returns the zones in the text of `/proc/zoneinfo` that have memory, in its order.
pub fn zones(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    // The first zone of a node also has the figures of the whole node, below their own heading.
    let mut of_node = false;
    let mut per_cpu = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Node ") {
            let (node, name) = name.split_once(", zone").unwrap_or(("", name));
            zones.push(Zone {
                name: name.trim().to_owned(),
                node: node.trim().parse().unwrap_or(0),
                ..Zone::default()
            });
            (of_node, per_cpu) = (false, false);
            continue;
        }
        let Some(zone) = zones.last_mut() else {
            continue;
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["per-node", "stats"] => of_node = true,
            ["pages", "free", n] => {
                of_node = false;
                if let Ok(n) = n.parse() {
                    zone.figures.insert("free".to_owned(), n);
                }
            }
            ["pagesets"] => per_cpu = true,
            ["managed", n] => zone.managed = n.parse().unwrap_or(0),
            [name, n] if !of_node && !per_cpu && !name.ends_with(':') => {
                if let Ok(n) = n.parse() {
                    zone.figures.insert(name.to_owned(), n);
                }
            }
            _ => {}
        }
    }
    zones.retain(|z| z.managed > 0);
    name_by_node(&mut zones);
    zones
}

/// Puts the node in front of the zones' names (`node1/Normal`), as the engine does, if several
/// nodes have memory.
fn name_by_node(zones: &mut [Zone]) {
    let first = zones.first().map(|z| z.node);
    if zones.iter().all(|z| Some(z.node) == first) {
        return;
    }
    for zone in zones {
        zone.name = format!("node{}/{}", zone.node, zone.name);
    }
}

/// The counters of a disk in `/proc/diskstats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Sectors read, of 512 bytes.
    pub read: u64,
    /// Sectors written.
    pub written: u64,
    /// Requests in flight; `None` where the kernel does not say.
    pub in_flight: Option<u64>,
}

/// Returns the names and counters of the disks and partitions in the text of `/proc/diskstats`.
pub fn all_diskstats(text: &str) -> impl Iterator<Item = (String, DiskStats)> {
    text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse().ok();
        let stats = DiskStats {
            read: number(5)?,
            written: number(9)?,
            in_flight: number(11),
        };
        Some(((*words.get(2)?).to_owned(), stats))
    })
}

/// Returns the total stall time in microseconds from `/proc/pressure/*`; `who` is `some` or `full`.
/// `None` where the kernel has no such line.
pub fn pressure(text: &str, who: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(who))?;
    let total = line
        .split_whitespace()
        .find_map(|w| w.strip_prefix("total="))?;
    total.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmstat_has_levels_and_events() {
        let stat = vmstat("nr_free_pages 5\npgscan_kswapd 7\nbroken\n");
        assert_eq!(
            stat.into_iter().collect::<Vec<_>>(),
            [("nr_free_pages", 5), ("pgscan_kswapd", 7)]
        );
        assert!(is_level("nr_free_pages") && !is_level("nr_dirtied") && !is_level("pgscan_kswapd"));
        assert!(is_level("workingset_nodes") && !is_level("workingset_refault_file"));
    }

    #[test]
    fn zones_with_memory_are_read() {
        let text = "Node 0, zone   Normal\n  per-node stats\n      nr_inactive_anon 9\n      nr_dirty 3\n  \
                    pages free     100\n        boost    0\n        min      10\n        low      12\n        \
                    high     14\n        managed  1000\n        protection: (0, 0)\n      nr_zone_inactive_file 77\n  \
                    pagesets\n    cpu: 0\n              count: 5\n              high:  99\n  node_unreclaimable:  0\n\
                    Node 0, zone  Movable\n  pages free     0\n        managed  0\n";
        let zones = zones(text);
        assert_eq!(zones.len(), 1);
        let zone = &zones[0];
        let of = |name: &str| zone.figures.get(name).copied();
        assert_eq!((zone.name.as_str(), zone.managed), ("Normal", 1000));
        assert_eq!(
            (of("free"), of("high"), of("nr_zone_inactive_file")),
            (Some(100), Some(14), Some(77))
        );
        assert_eq!(of("nr_dirty"), None, "that is the node's");
    }

    #[test]
    fn zones_of_several_nodes_have_the_node_in_their_name() {
        let zone = |node: u32, name: &str, managed: u64| {
            format!("Node {node}, zone {name:>8}\n  pages free 5\n        managed  {managed}\n")
        };
        let names =
            |text: &str| -> Vec<String> { zones(text).into_iter().map(|z| z.name).collect() };
        let empty = zone(1, "Normal", 0);
        assert_eq!(names(&[zone(0, "DMA32", 9), empty].concat()), ["DMA32"]);
        let text = [
            zone(0, "DMA32", 9),
            zone(0, "Normal", 9),
            zone(1, "Normal", 9),
        ]
        .concat();
        assert_eq!(
            names(&text),
            ["node0/DMA32", "node0/Normal", "node1/Normal"]
        );
    }

    #[test]
    fn disks_and_pressure() {
        let text = " 254  0 vda 1 0 8 0 2 0 16 0 3 0 0 0\n 254 16 vdb 5 0 80 0 6 0 160 0 1 0 0 0\n";
        let disks: BTreeMap<String, DiskStats> = all_diskstats(text).collect();
        let vdb = disks["vdb"];
        assert_eq!((vdb.read, vdb.written, vdb.in_flight), (80, 160, Some(1)));
        assert_eq!(disks.len(), 2);
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=3\n";
        assert_eq!(
            (pressure(text, "some"), pressure(text, "full")),
            (Some(12), Some(3))
        );
        assert_eq!(pressure("", "some"), None);
    }
}
