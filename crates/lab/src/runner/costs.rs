//! Checks that computing takes time in all policies of a comparison, or in none.
//!
//! In the engine computing always takes time. In a kernel it does unless its cell says `costs =
//! false` or the kernel was built without Lowmark's patch. A run in which computing is free is
//! faster for that reason alone, whatever its policy does.

use super::Simulate;
use crate::diagnostic::Diagnostic;
use crate::model::{Cell, Experiment};

const ACCEPTED: &str = "accepted: policies that all charge computing time, with kernels built \
    with Lowmark's patch for it (without `--without-costs`); or only kernels, all with `costs = \
    false`";

/// Records in each kernel's cell whether computing takes time in it, and refuses comparisons in
/// which computing takes time in some cells of a group only. `worlds` knows how each kernel was
/// built.
///
/// # Errors
/// Fails if two cells of a group differ in whether computing takes time.
pub fn costs(experiment: &mut Experiment, worlds: Simulate<'_>) -> Result<(), Diagnostic> {
    let mut built_without = Vec::new();
    for kernel in experiment
        .cells
        .iter_mut()
        .filter_map(|c| c.kernel.as_mut())
    {
        if kernel.costs && !worlds.has_costs(kernel) {
            kernel.costs = false;
            built_without.push(kernel.build.clone());
        }
    }
    let mut free = experiment.cells.iter().filter(|c| !takes_time(c));
    // A cell of the same group as `cell` in which computing takes time.
    let other = |cell: &&Cell| {
        let group = cell.group();
        let mut all = experiment.cells.iter();
        all.find(|c| takes_time(c) && c.group() == group)
    };
    let Some((cell, other)) = free.find_map(|cell| Some((cell, other(&cell)?))) else {
        return Ok(());
    };
    let build = cell.kernel.as_ref().map_or("", |k| &k.build);
    let built = built_without.iter().any(|own| own == build);
    let why = match built {
        true => format!("kernel:{build} was built without costs"),
        false => "it has `costs = false`".to_owned(),
    };
    // The line of the text that sets `costs`, if the setting is the reason and not the build.
    let place = experiment.settings.get("costs").filter(|_| !built);
    Err(Diagnostic {
        place: place.cloned().map(Box::new),
        ..unequal(&other.said(), &cell.said(), &why)
    })
}

/// Returns true if computing takes time in a cell: always in the engine, and in a real kernel
/// unless its costs are off.
pub fn takes_time(cell: &Cell) -> bool {
    cell.kernel.as_ref().is_none_or(|kernel| kernel.costs)
}

/// Builds the error for two compared cells, of which only the one named `paying` spends simulated
/// time on computing and `free` does not, for the reason `why`.
pub fn unequal(paying: &str, free: &str, why: &str) -> Diagnostic {
    let what = format!(
        "`{paying}` and `{free}` can't be compared: computing takes time in the first and none in the second ({why})"
    );
    Diagnostic::placeless(what, ACCEPTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use crate::experiment::{Overrides, parse};
    use crate::runner::Worlds;
    use kernel::Kernel;
    use sim::{Control, RunResult, RunSpec};

    /// Stands in for real kernels: all but `bare` were built with costs.
    struct Built;

    impl Worlds for Built {
        fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
            sim::run(spec, control)
        }

        fn has_costs(&self, kernel: &Kernel) -> bool {
            kernel.build != "bare"
        }
    }

    fn held(policies: &str, set: &[&str]) -> Result<Vec<bool>, String> {
        let text = format!(
            "name = \"t\"\npolicy = [{policies}]\nfilesystem = \"ext4\"\nworkload = {{ command = \"sleep 1\" }}\n\
             machine = {{ name = \"m\", cpus = 1, node = [{{ zones = [{{ zone = \"Normal\", size = \"512M\" }}] }}], \
             disk = {{ kind = \"ssd\", capacity = \"1G\" }} }}\n\
             [policies.free]\nkernel = \"6.12\"\ncosts = false\n[policies.too]\nkernel = \"6.1\"\ncosts = false\n\
             [policies.either]\nkernel = \"6.12\"\ncosts = [true, false]\n"
        );
        let source = Source::new("t.toml", text);
        let overrides = Overrides {
            set: set.iter().map(|s| (*s).to_owned()).collect(),
            ..Overrides::default()
        };
        let mut e = parse(&source, &|_| Err(String::new()), &overrides).unwrap();
        costs(&mut e, &Built)
            .map(|()| e.cells.iter().map(takes_time).collect())
            .map_err(|e| {
                let at = e.place.map_or_else(String::new, |p| format!("{p} "));
                format!("{at}{}; {}", e.message, e.accepted)
            })
    }

    #[test]
    fn computing_takes_time_in_all_or_in_none() {
        assert_eq!(
            held("\"kernel:6.12\", \"linux-6.12\"", &[]),
            Ok(vec![true; 2])
        );
        assert_eq!(held("\"free\", \"too\"", &[]), Ok(vec![false; 2]));
        assert_eq!(held("\"free\", \"kernel:bare\"", &[]), Ok(vec![false; 2]));
        assert_eq!(
            held("\"linux-6.12\", \"linux-6.1\"", &[]),
            Ok(vec![true; 2])
        );
    }

    #[test]
    fn where_it_takes_time_in_one_alone_both_are_named() {
        for (policies, paying, free) in [
            ("\"kernel:6.12\", \"free\"", "kernel:6.12", "free"),
            ("\"free\", \"linux-6.12\"", "linux-6.12", "free"),
        ] {
            let said = held(policies, &[]).unwrap_err();
            let both = format!("`{paying}` and `{free}` can't be compared: computing takes time");
            assert!(said.contains(&both), "{said}");
            assert!(
                said.starts_with("t.toml:") && said.contains("`costs = false`"),
                "{said}"
            );
        }
        let said = held("\"kernel:6.12\", \"kernel:bare\"", &[]).unwrap_err();
        assert!(
            said.contains("kernel:bare was built without costs"),
            "{said}"
        );
        let said = held("\"either\"", &[]).unwrap_err();
        assert!(said.contains("can't be compared"), "{said}");
    }
}
