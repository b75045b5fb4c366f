//! Tries the settings of real kernels before anything is run: a setting that a kernel does not know
//! or take is a mistake in the text, reported once and not by every iteration.

use super::Simulate;
use crate::diagnostic::{Diagnostic, one_of};
use crate::model::{Cell, Experiment};
use kernel::{Kernel, Refused};
use sim::Control;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The result of trying settings, if none was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// Every kernel takes every setting.
    Taken,
    /// The user stopped the trials.
    Stopped,
}

/// Boots each real kernel of an experiment to try the settings of its cells, each combination once,
/// and ends early when `stop` is set.
///
/// # Errors
/// Returns the first setting that a kernel does not know, or does not take.
pub fn settings(
    experiment: &Experiment,
    worlds: Simulate<'_>,
    stop: &AtomicBool,
) -> Result<Tried, Diagnostic> {
    let mut tried: Vec<(&Kernel, &Cell)> = Vec::new();
    for cell in &experiment.cells {
        let Some(kernel) = &cell.kernel else { continue };
        let same = |&(other, at): &(&Kernel, &Cell)| other == kernel && alike(at, cell);
        if tried.iter().any(same) {
            continue;
        }
        tried.push((kernel, cell));
        match refusal(worlds, cell, kernel, stop) {
            _ if stop.load(Relaxed) => return Ok(Tried::Stopped),
            Some(refused) => return Err(explain(experiment, cell, kernel, &refused)),
            None => {}
        }
    }
    Ok(Tried::Taken)
}

/// Returns true if a kernel accepts the same settings in both cells: equal settings on machines of
/// equal memory, because accepted values may depend on memory.
fn alike(a: &Cell, b: &Cell) -> bool {
    let (one, other) = (&a.spec.machine, &b.spec.machine);
    one.sysctl == other.sysctl
        && kernel::guest::memory(one) == kernel::guest::memory(other)
        && a.spec.changes == b.spec.changes
}

/// Tries the settings of one cell on its kernel, in a thread of its own, and stops the trial when
/// `stop` is set. Returns the setting that the kernel refused; `None` if it took all, or could not
/// be tried.
fn refusal(
    worlds: Simulate<'_>,
    cell: &Cell,
    kernel: &Kernel,
    stop: &AtomicBool,
) -> Option<Refused> {
    let control = Control::default();
    std::thread::scope(|scope| {
        let trial = scope.spawn(|| worlds.refuses(&cell.spec, kernel, &control));
        while !trial.is_finished() {
            if stop.load(Relaxed) {
                control.stop.store(true, Relaxed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // A kernel that can't be tried can't be run either: each iteration reports it with the
        // kernel's last words.
        trial.join().ok()?.ok()?
    })
}

/// Builds the error for a setting that the cell's kernel does not have or whose value it refused,
/// at the place in the text that sets it.
fn explain(experiment: &Experiment, cell: &Cell, kernel: &Kernel, refused: &Refused) -> Diagnostic {
    let Refused {
        name,
        text,
        why,
        known,
    } = refused;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let (what, accepted) = if known.contains(&name.as_str()) {
        let what = format!("`{name} = {text}` was refused by the kernel");
        (
            what,
            "accepted: a value that this kernel accepts".to_owned(),
        )
    } else {
        (format!("the kernel has no `{name}`"), one_of(name, &known))
    };
    let message = format!(
        "{what} in `{}` (the kernel `{}`, {}): {why}",
        cell.policy, kernel.build, cell.machine
    );
    Diagnostic {
        message,
        accepted,
        place: experiment.settings.get(name).cloned().map(Box::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use crate::experiment::{Overrides, parse};
    use crate::runner::{Worlds, fixture};
    use sim::{RunResult, RunSpec};
    use std::sync::Mutex;

    /// A kernel that knows `vm.swappiness` up to 200 and nothing else, and notes each trial.
    struct Picky(Mutex<Vec<String>>);

    impl Worlds for Picky {
        fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
            fixture::simulate(spec, control)
        }

        fn refuses(
            &self,
            spec: &RunSpec,
            kernel: &Kernel,
            _: &Control,
        ) -> Result<Option<Refused>, String> {
            let mut tried = self.0.lock().unwrap();
            tried.push(format!("{} {}", kernel.build, spec.machine.name));
            let wrong = |(name, text): (&String, &String)| {
                let known = name == "vm.swappiness";
                let fits = known && text.parse::<u32>().is_ok_and(|n| n <= 200);
                (!fits).then(|| Refused {
                    name: name.clone(),
                    text: text.clone(),
                    why: "no".into(),
                    known: vec!["vm.dirty_ratio".into(), "vm.swappiness".into()],
                })
            };
            Ok(kernel.sysctl.iter().find_map(wrong))
        }
    }

    fn experiment(sysctl: &str) -> Experiment {
        let machine = |size: &str| {
            format!(
                "{{ name = \"{size}\", cpus = 1, node = [{{ zones = [{{ zone = \"Normal\", size = \
                 \"{size}\" }}] }}], disk = {{ kind = \"ssd\", capacity = \"1G\" }} }}"
            )
        };
        let text = format!(
            "name = \"t\"\npolicy = [\"linux-4.9\", \"kernel:6.12\", \"mine\"]\nfilesystem = [\"ext4\", \"xfs\"]\n\
             machine = [{}, {}]\nworkload = {{ command = \"sleep 1\" }}\n\
             [policies.mine]\nkernel = \"6.12\"\nsysctl = {{ {sysctl} }}\n",
            machine("512M"),
            machine("1G")
        );
        let source = Source::new("t.toml", text);
        parse(&source, &|_| Err(String::new()), &Overrides::default()).unwrap()
    }

    fn tried(sysctl: &str) -> (Result<Tried, String>, Vec<String>) {
        let picky = Picky(Mutex::default());
        let said = settings(&experiment(sysctl), &picky, &AtomicBool::new(false));
        let said = said.map_err(|e| format!("{} {}; {}", e.place.unwrap(), e.message, e.accepted));
        (said, picky.0.into_inner().unwrap())
    }

    #[test]
    fn each_kernel_is_tried_once_on_each_machine() {
        let (said, tried) = tried("swappiness = 150");
        assert_eq!(said, Ok(Tried::Taken));
        assert_eq!(tried, ["6.12 512M", "6.12 512M", "6.12 1G", "6.12 1G"]);
    }

    #[test]
    fn what_is_not_known_or_taken_is_told_at_its_place() {
        let (said, _) = tried("swapiness = 5");
        assert_eq!(
            said.unwrap_err(),
            "t.toml:8:12 the kernel has no `vm.swapiness` in `mine` (the kernel `6.12`, 512M): no; did you mean \
             `vm.swappiness`? accepted: vm.dirty_ratio, vm.swappiness"
        );
        let (said, _) = tried("swappiness = 500");
        let said = said.unwrap_err();
        assert!(
            said.starts_with(
                "t.toml:8:12 `vm.swappiness = 500` was refused by the kernel in `mine`"
            ),
            "{said}"
        );
    }

    #[test]
    fn trying_can_be_stopped() {
        let picky = Picky(Mutex::default());
        let said = settings(&experiment("swapiness = 5"), &picky, &AtomicBool::new(true));
        assert_eq!(said.unwrap(), Tried::Stopped);
    }
}
