//! Makes the engine's machines equal to the guests of real kernels in the same experiment, so that
//! figures differ by what the engine and a kernel do, and not by their machines.
//!
//! A guest's allocator owns less than the machine's memory: the kernel keeps its text, its data and
//! the page descriptors. A guest that only boots tells how much it owns, zone by zone
//! ([`Worlds::owned`](crate::runner::Worlds::owned)).

use super::suite::nearest;
use super::tick_like_guest;
use crate::model::{Cell, Experiment};
use crate::runner::Simulate;
use kernel::Kernel;
use mm::size::Size;
use sim::Control;
use sim::spec::{Machine, ZoneSpec};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Pages of a machine that a kernel's allocator owns, one number for each zone in the machine's
/// order; or the reason why they are not known.
pub type Owned = Result<Vec<u64>, String>;

/// Sets the sizes of a machine's zones, in their order, to these numbers of pages, such as a
/// guest's allocator owns.
///
/// # Panics
/// Panics if the number of zones is another one.
pub fn give_memory(machine: &mut Machine, pages: &[u64]) {
    let zones = machine.nodes.iter_mut().flat_map(|n| &mut n.zones);
    let zones: Vec<&mut ZoneSpec> = zones.collect();
    assert_eq!(zones.len(), pages.len(), "an amount for each zone");
    for (zone, pages) in zones.into_iter().zip(pages) {
        zone.size = Size(pages * 4096);
    }
}

/// Makes the engine's machines equal to the guests of the kernels beside them: the memory of each
/// zone, and the parameters that [`tick_like_guest`] sets. Adds to [`Experiment::said`] what was
/// set, and what differs all the same. Does nothing if the experiment runs only kernels or only the
/// engine. Ends early if `stop` is set.
///
/// If several kernels have the same machine, an engine's cell follows the kernel whose nearest
/// preset has the name of the cell's policy, else the first kernel.
pub fn like_guests(experiment: &mut Experiment, worlds: Simulate<'_>, stop: &AtomicBool) {
    let (kernels, engines): (Vec<usize>, Vec<usize>) =
        (0..experiment.cells.len()).partition(|&nth| experiment.cells[nth].kernel.is_some());
    // The guests booted so far: kernel, zones of the machine, and the pages owned there.
    let mut booted: Vec<(Kernel, Vec<ZoneSpec>, Owned)> = Vec::new();
    // Notes on memory by machine.
    let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut any_follows = false;
    for engine in engines {
        let cells = &experiment.cells;
        let own = zones(&cells[engine]);
        // The kernels' cells with the same zones as this cell of the engine.
        let beside = kernels.iter().map(|&nth| &cells[nth]);
        let beside: Vec<&Cell> = beside.filter(|cell| zones(cell) == own).collect();
        let kernel_of = |cell: &Cell| cell.kernel.clone().expect("it is a kernel's cell");
        let release = |kernel: &Kernel| {
            let known = worlds.release(kernel);
            known.unwrap_or_else(|| kernel.build.clone())
        };
        // Each kernel beside this cell, once, with the pages that it owns.
        let mut builds: Vec<(Kernel, Owned)> = Vec::new();
        for cell in &beside {
            let kernel = kernel_of(cell);
            if stop.load(Relaxed) {
                return;
            }
            if builds.iter().any(|(k, _)| k.build == kernel.build) {
                continue;
            }
            let known = booted
                .iter()
                .find(|(k, z, _)| k.build == kernel.build && *z == own);
            let owned = match known {
                Some((.., owned)) => owned.clone(),
                None => {
                    let owned = ask(worlds, cell, &kernel, stop);
                    booted.push((kernel.clone(), own.clone(), owned.clone()));
                    owned
                }
            };
            builds.push((kernel, owned));
        }
        let named =
            |(kernel, _): &&(Kernel, Owned)| nearest(&release(kernel)) == cells[engine].policy;
        let Some((kernel, owned)) = builds.iter().find(named).or(builds.first()) else {
            continue;
        };
        any_follows = true;
        let lines = notes.entry(cells[engine].machine.clone()).or_default();
        let mut add_note = |line: String| {
            if !lines.contains(&line) {
                lines.push(line);
            }
        };
        add_note(memory_text(&kernel.build, &own, owned));
        for (other, has) in &builds {
            if other.build != kernel.build && has != owned {
                add_note(other_text(&other.build, &cells[engine].policy, &own, has));
            }
        }
        let hz = kernel::build::ticks::of_name(&kernel.build);
        let (release, owned) = (release(kernel), owned.clone());
        let cell = &mut experiment.cells[engine];
        tick_like_guest(cell, &release, hz);
        if let Ok(pages) = owned {
            give_memory(&mut cell.spec.machine, &pages);
        }
    }
    if any_follows {
        experiment.said.push(
            "Beside real kernels the engine's machines are like their guests (docs/kernel.md): a guest's \
             ticks, scheduler, clock and caches at boot, and the memory that the kernel's allocator owns."
                .to_owned(),
        );
        for (machine, lines) in notes {
            experiment
                .said
                .push(format!("{machine}: {}.", lines.join("; ")));
        }
    }
}

/// Returns the zones of a cell's machine.
fn zones(cell: &Cell) -> Vec<ZoneSpec> {
    let nodes = cell.spec.machine.nodes.iter();
    nodes.flat_map(|n| n.zones.clone()).collect()
}

/// Boots a guest of a cell to learn how many pages of each zone its kernel's allocator owns, in the
/// order of the machine's zones; ends the guest when `stop` is set. Returns the reason if that is
/// not known.
pub fn ask(worlds: Simulate<'_>, cell: &Cell, kernel: &Kernel, stop: &AtomicBool) -> Owned {
    let control = Control::default();
    let owned = std::thread::scope(|scope| {
        let guest = scope.spawn(|| worlds.owned(&cell.spec, kernel, &control));
        while !guest.is_finished() {
            if stop.load(Relaxed) {
                control.stop.store(true, Relaxed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        guest
            .join()
            .unwrap_or_else(|why| std::panic::resume_unwind(why))
    });
    let owned = owned?.ok_or("nobody can be asked")?;
    by_zone(&zones(cell), &owned)
}

/// Sorts a guest's pages, given by zone name in `guest`, in the order of a machine's zones. Fails
/// if the guest has other zones, or the machine has two of one kind.
fn by_zone(zones: &[ZoneSpec], guest: &[(String, u64)]) -> Owned {
    let of = |zone: &ZoneSpec| {
        let name = zone.zone.name();
        let same_kind = zones.iter().filter(|z| z.zone == zone.zone).count();
        let found = guest.iter().find(|(own, _)| own == name);
        found.filter(|_| same_kind == 1).map(|(_, pages)| *pages)
    };
    let pages: Option<Vec<u64>> = zones.iter().map(of).collect();
    pages.filter(|_| guest.len() == zones.len()).ok_or_else(|| {
        let names: Vec<&str> = guest.iter().map(|(name, _)| name.as_str()).collect();
        format!("its zones are {}", names.join(" and "))
    })
}

/// Formats how many pages of each zone are owned: `61145 of 65536 pages`, with the zones' names if
/// there are several.
fn amounts(zones: &[ZoneSpec], pages: &[u64]) -> String {
    let one = |(zone, pages): (&ZoneSpec, &u64)| {
        let of = format!("{pages} of {} pages", zone.size.pages());
        match zones.len() {
            1 => of,
            _ => format!("{of} ({})", zone.zone.name()),
        }
    };
    let all: Vec<String> = zones.iter().zip(pages).map(one).collect();
    all.join(" and ")
}

/// Describes the memory that the engine's machine was given, following the kernel `build`; or,
/// where the kernel's memory is not known, says that the machine was left as large as it is.
fn memory_text(build: &str, zones: &[ZoneSpec], owned: &Owned) -> String {
    match owned {
        Ok(pages) => format!("{}, as kernel:{build} owns", amounts(zones, pages)),
        Err(why) => {
            let all: u64 = zones.iter().map(|z| z.size.pages()).sum();
            format!(
                "the memory is UNEQUAL: what kernel:{build} owns is not known ({why}), so the engine has all {all} pages, \
                 which is more, and their figures differ for that reason too"
            )
        }
    }
}

/// Warns that another kernel `build` in the comparison owns other memory than the machine of the
/// engine's cell `policy`, which follows a different kernel.
fn other_text(build: &str, policy: &str, zones: &[ZoneSpec], owned: &Owned) -> String {
    match owned {
        Ok(pages) => format!(
            "kernel:{build} owns {}: {policy} has other memory than it",
            amounts(zones, pages)
        ),
        Err(why) => format!("what kernel:{build} owns is not known ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use crate::experiment::{Overrides, parse};
    use crate::runner::Worlds;
    use sim::{RunResult, RunSpec};
    use std::sync::Mutex;

    /// Kernels that own a sixteenth less of each zone, `6.1` an eighth less; `mute` does not boot.
    /// Notes which guests were asked.
    #[derive(Default)]
    struct Guests(Mutex<Vec<String>>);

    impl Worlds for Guests {
        fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
            sim::run(spec, control)
        }

        fn owned(
            &self,
            spec: &RunSpec,
            kernel: &Kernel,
            _: &Control,
        ) -> Result<Option<Vec<(String, u64)>>, String> {
            let machine = &spec.machine;
            self.0
                .lock()
                .unwrap()
                .push(format!("{} {}", kernel.build, machine.name));
            if kernel.build == "mute" {
                return Err("it died".to_owned());
            }
            let part = if kernel.build == "6.1" { 8 } else { 16 };
            let zones = machine.nodes.iter().flat_map(|n| &n.zones);
            let owns = zones.map(|z| {
                let all = z.size.pages();
                (z.zone.name().to_owned(), all - all / part)
            });
            Ok(Some(owns.collect()))
        }
    }

    fn experiment(policies: &str) -> Experiment {
        let machine = |name: &str, zones: &str| {
            format!(
                "{{ name = \"{name}\", cpus = 1, node = [{{ zones = [{zones}] }}], \
                 disk = {{ kind = \"ssd\", capacity = \"1G\" }} }}"
            )
        };
        let text = format!(
            "name = \"t\"\npolicy = [{policies}]\nfilesystem = [\"ext4\", \"xfs\"]\nmachine = [{}, {}]\n\
             workload = {{ command = \"sleep 1\" }}\n",
            machine("512M", "{ zone = \"Normal\", size = \"512M\" }"),
            machine(
                "two",
                "{ zone = \"Normal\", size = \"128M\" }, { zone = \"Movable\", size = \"384M\" }"
            ),
        );
        let source = Source::new("t.toml", text);
        parse(&source, &|_| Err(String::new()), &Overrides::default()).unwrap()
    }

    /// Names of cells with the pages of their zones.
    type Pages = Vec<(String, Vec<u64>)>;

    /// Applies `like_guests` to the experiment. Returns it with the guests that were asked and the
    /// pages of each cell's zones.
    fn beside(policies: &str) -> (Experiment, Vec<String>, Pages) {
        let (mut e, guests) = (experiment(policies), Guests::default());
        like_guests(&mut e, &guests, &AtomicBool::new(false));
        let pages = |c: &Cell| zones(c).iter().map(|z| z.size.pages()).collect();
        let has = e.cells.iter().filter(|c| c.filesystem == "ext4");
        let has = has.map(|c| (format!("{} {}", c.policy, c.machine), pages(c)));
        let has = has.collect();
        (e, guests.0.into_inner().unwrap(), has)
    }

    #[test]
    fn memory_is_given_zone_by_zone_and_each_guest_is_asked_once() {
        let (e, asked, has) = beside("\"kernel:6.12\", \"linux-6.12\", \"linux-4.9\"");
        assert_eq!(asked, ["6.12 512M", "6.12 two"]);
        for (name, pages) in has {
            let expected: &[u64] = match name.as_str() {
                "kernel:6.12 512M" => &[131_072],
                "kernel:6.12 two" => &[32_768, 98_304],
                name if name.ends_with("512M") => &[122_880],
                _ => &[30_720, 92_160],
            };
            assert_eq!(pages, expected, "{name}");
        }
        for cell in &e.cells {
            let params = &cell.spec.params;
            let like = (cell.spec.machine.hz, params.just_booted, params.cost_look);
            match &cell.kernel {
                None => assert_eq!(
                    like,
                    (kernel::build::ticks::HZ, 1.0, super::super::GUEST_LOOK)
                ),
                Some(_) => assert_eq!(params.just_booted, 0.0),
            }
        }
        assert!(e.said[0].contains("a guest's ticks"), "{:?}", e.said);
        assert_eq!(
            e.said[1..],
            [
                "512M: 122880 of 131072 pages, as kernel:6.12 owns.",
                "two: 30720 of 32768 pages (Normal) and 92160 of 98304 pages (Movable), as kernel:6.12 owns."
            ]
        );
    }

    #[test]
    fn of_several_kernels_a_preset_is_like_its_own() {
        let (e, _, has) = beside("\"kernel:6.12\", \"kernel:6.1\", \"linux-6.1\", \"linux-3.1\"");
        let of = |name: &str| has.iter().find(|(n, _)| n == name).unwrap().1[0];
        assert_eq!(of("linux-6.1 512M"), 114_688);
        assert_eq!(of("linux-3.1 512M"), 122_880, "the first");
        let said = &e.said[1];
        assert!(
            said.contains(
                "kernel:6.12 owns 122880 of 131072 pages: linux-6.1 has other memory than it"
            ),
            "{said}"
        );
    }

    #[test]
    fn memory_that_is_not_known_is_said() {
        let (e, _, has) = beside("\"kernel:mute\", \"linux-6.12\"");
        assert_eq!(has[1].1, [131_072]);
        let unequal = "512M: the memory is UNEQUAL: what kernel:mute owns is not known (it died)";
        assert!(e.said[1].starts_with(unequal), "{:?}", e.said);
        assert!(by_zone(&zones(&e.cells[0]), &[("Movable".into(), 5)]).is_err());
    }

    #[test]
    fn a_world_alone_stays_as_it_is() {
        for policies in [
            "\"linux-6.12\", \"linux-6.1\"",
            "\"kernel:6.12\", \"kernel:6.1\"",
        ] {
            let (e, asked, _) = beside(policies);
            assert!(asked.is_empty() && e.said.is_empty(), "{policies}");
            assert!(e.cells.iter().all(|c| c.spec.params.just_booted == 0.0));
        }
    }
}
