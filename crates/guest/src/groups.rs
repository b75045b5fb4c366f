//! Memory control groups (cgroup v2).

use crate::wire::GroupJob;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The mount point of the kernel's groups.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// The controller that all groups have.
const MEMORY: &str = "memory";

/// Returns the controllers that groups with these settings need: memory, and those of their files
/// (`io` for `io.weight`). As with systemd, a controller is on only where a setting needs it: with
/// `io` dirty pages are limited and written group by group, which is another kernel to a writer.
fn controllers(groups: &[GroupJob]) -> Vec<&str> {
    let files = groups.iter().flat_map(|group| &group.settings);
    let named = files.filter_map(|(file, _)| file.split('.').next());
    let mut all = vec![MEMORY];
    for controller in named {
        if !all.contains(&controller) {
            all.push(controller);
        }
    }
    all
}

/// Returns the folder of a group from its name, which has points between nested groups.
pub fn folder(name: &str) -> PathBuf {
    Path::new(CGROUPS).join(name.replace('.', "/"))
}

/// Makes groups, parents before their children, and writes their settings.
///
/// # Errors
/// The kernel has no memory control groups, or refuses a setting; in one line.
pub fn make(groups: &[GroupJob]) -> Result<(), String> {
    if groups.is_empty() {
        return Ok(());
    }
    let controllers = controllers(groups);
    hand_down(Path::new(CGROUPS), &controllers)?;
    for group in groups {
        let folder = folder(&group.name);
        let of_group = |why: io::Error| format!("the group `{}`: {why}", group.name);
        fs::create_dir(&folder).map_err(of_group)?;
        let inside = format!("{}.", group.name);
        if groups.iter().any(|g| g.name.starts_with(&inside)) {
            hand_down(&folder, &controllers)?;
        }
        for (file, text) in &group.settings {
            let written = fs::write(folder.join(file), text);
            written.map_err(|why| format!("the group `{}`: {file} = {text}: {why}", group.name))?;
        }
    }
    Ok(())
}

/// Gives the groups inside a group these controllers.
fn hand_down(folder: &Path, controllers: &[&str]) -> Result<(), String> {
    let listed = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    let has = |controller: &str| {
        listed
            .split_ascii_whitespace()
            .any(|word| word == controller)
    };
    controllers.iter().try_for_each(|controller| {
        if !has(controller) {
            return Err(match *controller {
                MEMORY => "this kernel has no memory control groups (CONFIG_MEMCG)".to_owned(),
                other => format!("this kernel's groups have no controller `{other}`"),
            });
        }
        let file = folder.join("cgroup.subtree_control");
        let written = fs::write(&file, format!("+{controller}"));
        written.map_err(|why| format!("`+{controller}` into {}: {why}", file.display()))
    })
}

/// Moves the calling process into a group. Memory that it has been charged for stays with the group
/// that it leaves.
///
/// # Errors
/// There is no such group, or it has groups inside it.
pub fn enter(name: &str) -> io::Result<()> {
    fs::write(folder(name).join("cgroup.procs"), "0")
}

/// Returns how many processes of a group the OOM killer has ended; 0 if there is no such group.
pub fn oom_kills(name: &str) -> u64 {
    let text = fs::read_to_string(folder(name).join("memory.events")).unwrap_or_default();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    count.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_groups_are_nested_folders() {
        assert_eq!(folder("web.worker"), Path::new("/sys/fs/cgroup/web/worker"));
    }

    #[test]
    fn a_controller_is_on_where_a_setting_needs_it() {
        let group = |file: &str| GroupJob {
            name: "a".to_owned(),
            settings: vec![(file.to_owned(), "1".to_owned())],
        };
        assert_eq!(controllers(&[group("memory.max")]), ["memory"]);
        let both = [group("io.weight"), group("cpu.weight"), group("io.weight")];
        assert_eq!(controllers(&both), ["memory", "io", "cpu"]);
    }

    #[test]
    fn a_run_without_groups_needs_no_controllers() {
        assert_eq!(make(&[]), Ok(()));
        assert_eq!(oom_kills("there-is-no-such-group"), 0);
    }
}
