//! Reads time series of a results folder (`series/N-CELL.csv`) as moments.

use crate::moment::{Class, Disk, Moment, PRESSURES, Pressure, Wait, Zone};
use std::collections::BTreeMap;
use std::io::Read;

/// The header of a column: `free Normal [pages]`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    name: String,
    scope: String,
}

/// The scope of columns that belong to no zone and no mount point.
const GLOBAL: &str = "global";

/// Parses the header of a column, `NAME SCOPE [UNIT]`; `None` if it has another form.
fn head(text: &str) -> Option<Head> {
    let (own, _) = text.rsplit_once(" [")?;
    let (name, scope) = own.split_once(' ')?;
    Some(Head {
        name: name.to_owned(),
        scope: scope.to_owned(),
    })
}

/// The values of one sample, by column.
struct Row<'a> {
    heads: &'a [Option<Head>],
    values: &'a [Option<f64>],
}

impl<'a> Row<'a> {
    /// Returns the columns of the row that have a header and a value.
    fn all(&self) -> impl Iterator<Item = (&'a Head, f64)> {
        let pairs = self.heads.iter().zip(self.values);
        pairs.filter_map(|(head, value)| Some((head.as_ref()?, (*value)?)))
    }

    /// Returns the value of the column of that name and scope; `None` if it is missing.
    fn of(&self, name: &str, scope: &str) -> Option<f64> {
        let found = |(h, _): &(&Head, f64)| h.name == name && h.scope == scope;
        self.all().find(found).map(|(_, v)| v)
    }

    /// Returns the zones of the row: free pages and the watermarks min, low and high of each.
    fn zones(&self) -> Vec<Zone> {
        let names = self.all().filter(|(h, _)| h.name == "free");
        let zone = |(h, free): (&Head, f64)| {
            let mark = |name| self.of(name, &h.scope);
            Some(Zone {
                name: h.scope.clone(),
                free,
                marks: [mark("min")?, mark("low")?, mark("high")?],
            })
        };
        names.filter_map(zone).collect()
    }

    /// Returns the sum of a figure over all zones; `None` if no column has it.
    fn over_zones(&self, name: &str) -> Option<f64> {
        let own = self.all().filter(|(h, _)| h.name == name);
        own.map(|(_, v)| v).reduce(|a, b| a + b)
    }

    /// Returns the disks with their throughput and queue: that of the first filesystem, others by
    /// mount point or as the second, that of swap.
    fn disks(&self) -> Vec<Disk> {
        let mut disks: Vec<Disk> = Vec::new();
        for (head, value) in self.all() {
            let forms = [("second_", "second disk"), ("swap_", "swap"), ("", "disk")];
            let (start, own) = forms
                .into_iter()
                .find(|(start, _)| head.name.starts_with(start))
                .expect("the last fits all");
            let what = &head.name[start.len()..];
            if !["write_throughput", "read_throughput", "queue"].contains(&what) {
                continue;
            }
            let name = match head.scope.as_str() {
                GLOBAL => own.to_owned(),
                mount => mount.to_owned(),
            };
            // The disk's index; its first column adds it.
            let at = disks.iter().position(|d| d.name == name);
            let at = at.unwrap_or_else(|| {
                disks.push(Disk {
                    name,
                    ..Disk::default()
                });
                disks.len() - 1
            });
            let disk = &mut disks[at];
            match what {
                "write_throughput" => disk.write = Some(value),
                "read_throughput" => disk.read = Some(value),
                _ => disk.queue = Some(value),
            }
        }
        disks
    }

    /// Returns the waiting tasks, the largest group first; `None` if the world does not count them.
    /// The engine counts them by kind, and leaves out kinds that no sample has.
    fn waits(&self) -> Option<Vec<Wait>> {
        // Only the engine's samples have this column: a real kernel does not report why its tasks
        // wait.
        self.of("kswapd_awake", GLOBAL)?;
        let kinds = self
            .all()
            .filter(|(h, v)| h.name == sim::sample::WAITING && *v > 0.0);
        let wait = |(h, v): (&Head, f64)| Wait {
            tasks: v as u32,
            who: String::new(),
            on: Some(h.scope.clone()),
            means: "",
        };
        let mut waits: Vec<Wait> = kinds.map(wait).collect();
        waits.sort_by_key(|w| std::cmp::Reverse(w.tasks));
        Some(waits)
    }

    /// Makes the moment of a row at the time `at` in seconds; figures without a column are not
    /// reported.
    fn moment(&self, at: f64) -> Moment {
        let global = |name: &str| self.of(name, GLOBAL);
        let mut moment = Moment {
            at,
            zones: self.zones(),
            kswapd_cpu: global("kswapd_cpu"),
            waits: self.waits(),
            disks: self.disks(),
            pressure: PRESSURES.map(|of| Pressure {
                some: global(&format!("psi_{of}_some")),
                full: global(&format!("psi_{of}_full")),
            }),
            ..Moment::default()
        };
        moment.reclaim.both = Class {
            scanned: self.over_zones("scanned"),
            freed: self.over_zones("stolen"),
        };
        moment.dirty.dirty = global("dirty");
        moment.dirty.writeback = global("writeback");
        moment.dirty.background = global("background_limit");
        moment.dirty.limit = global("dirty_limit");
        moment
    }
}

/// Reads a series (`series/N-CELL.csv` of a results folder) as moments, one per row.
///
/// # Errors
/// The file is malformed; in one line.
pub fn read(from: impl Read) -> Result<Vec<Moment>, String> {
    let mut reader = csv::Reader::from_reader(from);
    let heads = reader.headers().map_err(|e| e.to_string())?.clone();
    if heads.get(0) != Some("time [s]") {
        return Err("its first column is not `time [s]`".to_owned());
    }
    let heads: Vec<Option<Head>> = heads.iter().skip(1).map(head).collect();
    let mut moments = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| e.to_string())?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|v| v.is_finite());
        let at = record.get(0).and_then(number);
        let at = at.ok_or_else(|| format!("line {} has no time", moments.len() + 2))?;
        let values: Vec<Option<f64>> = record.iter().skip(1).map(number).collect();
        let row = Row {
            heads: &heads,
            values: &values,
        };
        moments.push(row.moment(at));
    }
    Ok(moments)
}

/// A crowd in `waits.json`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct Crowd {
    iteration: u32,
    object: String,
    since_ns: u64,
    lasted_ns: u64,
    most: u32,
    members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
struct Member {
    task: String,
}

/// Returns the crowds (tasks that waited for one object) of a cell's first iteration, to which the
/// series belongs. `waits` is the text of `waits.json`, `cell` the cell's index from 0; empty if
/// there are none.
pub fn crowds(waits: &str, cell: usize) -> Vec<Crowd> {
    #[derive(serde::Deserialize)]
    struct Cell {
        #[serde(default)]
        crowds: Vec<Crowd>,
    }
    let cells: Vec<Cell> = serde_json::from_str(waits).unwrap_or_default();
    let own = cells.into_iter().nth(cell);
    let mut crowds = own.map_or_else(Vec::new, |c| c.crowds);
    crowds.retain(|c| c.iteration == 0);
    crowds
}

/// Adds to each moment the crowds that stood at its time: the number of tasks at the most, their
/// names, and the object that they waited for. Moments without waits stay so.
pub fn add(moments: &mut [Moment], crowds: &[Crowd]) {
    for moment in moments {
        let at = (moment.at * 1e9) as u64;
        let own = crowds
            .iter()
            .filter(|c| (c.since_ns..=c.since_ns + c.lasted_ns).contains(&at));
        let Some(waits) = &mut moment.waits else {
            continue;
        };
        waits.extend(own.map(|crowd| {
            let mut names: BTreeMap<&str, u32> = BTreeMap::new();
            // The last member holds the object.
            for member in crowd
                .members
                .split_last()
                .map_or(&[][..], |(_, others)| others)
            {
                // The task's name without its number.
                let name = member.task.rsplit_once(' ').map_or("", |(name, _)| name);
                *names.entry(name).or_default() += 1;
            }
            let who: Vec<&str> = names.into_keys().collect();
            Wait {
                tasks: crowd.most,
                who: who.join(", "),
                on: Some(crowd.object.clone()),
                means: "a crowd, at its most",
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "time [s],free DMA32 [pages],min DMA32 [pages],low DMA32 [pages],high DMA32 [pages],dirty \
        global [pages],dirty_limit global [pages],kswapd_cpu global [share],kswapd_awake global [share],write_throughput \
        global [MB/s],queue global [requests],second_queue global [requests],write_throughput /mnt/b [MB/s],waiting page \
        lock [tasks],waiting dirty limit [tasks]\n\
        0.25,500,10,20,30,7,,0.5,1,12.5,3,2,1,0,2\n0.5,400,10,20,30,8,90,0,0,0,0,0,0,1,4\n";

    #[test]
    fn a_series_is_read_as_moments() {
        let moments = read(CSV.as_bytes()).unwrap();
        let m = &moments[0];
        let zone = Zone {
            name: "DMA32".into(),
            free: 500.0,
            marks: [10.0, 20.0, 30.0],
        };
        assert_eq!((m.at, &m.zones[..]), (0.25, &[zone][..]));
        assert_eq!((m.dirty.dirty, m.dirty.limit), (Some(7.0), None));
        assert!(m.reclaim.is_silent() && m.pressure[0].some.is_none());
        let disks: Vec<_> = m
            .disks
            .iter()
            .map(|d| (&*d.name, d.write, d.queue))
            .collect();
        let expected = [
            ("disk", Some(12.5), Some(3.0)),
            ("second disk", None, Some(2.0)),
            ("/mnt/b", Some(1.0), None),
        ];
        assert_eq!(disks, expected);
        let kinds = |m: &Moment| -> Vec<(u32, String)> {
            let waits = m.waits.iter().flatten();
            waits.map(|w| (w.tasks, w.on.clone().unwrap())).collect()
        };
        assert_eq!(kinds(m), [(2, "dirty limit".to_owned())]);
        assert_eq!(kinds(&moments[1])[0], (4, "dirty limit".to_owned()));
    }

    #[test]
    fn what_is_no_series_is_said() {
        assert!(read(&b"a,b\n1,2\n"[..]).unwrap_err().contains("time [s]"));
        assert!(
            read(&b"time [s],a b [c]\nx,2\n"[..])
                .unwrap_err()
                .contains("line 2")
        );
    }

    #[test]
    fn a_real_kernels_series_does_not_say_who_waits() {
        let guest = "time [s],dirty global [pages],psi_io_some global [share]\n1,2,0.25\n";
        let m = &read(guest.as_bytes()).unwrap()[0];
        assert_eq!((m.waits.as_ref(), m.pressure[1].some), (None, Some(0.25)));
    }

    #[test]
    fn crowds_have_names_while_they_last() {
        let waits = r#"[{"cell":"x","unsupported":"why"},{"cell":"y","kinds":[],"crowds":[{"iteration":0,
            "object":"lock of page 4 of file 3","since_ns":400000000,"lasted_ns":200000000,"most":3,"most_at_ns":1,
            "task_ns":5,"members":[{"task":"dd 7"},{"task":"dd 9"},{"task":"flusher 2"}]}]}]"#;
        assert!(crowds(waits, 0).is_empty());
        let mut moments = read(CSV.as_bytes()).unwrap();
        add(&mut moments, &crowds(waits, 1));
        let last = |m: &Moment| m.waits.clone().unwrap().pop().unwrap();
        assert_eq!(last(&moments[0]).means, "");
        let crowd = last(&moments[1]);
        assert_eq!((crowd.tasks, &*crowd.who), (3, "dd"));
        assert_eq!(crowd.on.as_deref(), Some("lock of page 4 of file 3"));
    }
}
