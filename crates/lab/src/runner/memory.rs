//! Estimates how much of the host's memory an experiment takes and how much is left, so that a lack
//! is reported before anything is computed.
//!
//! The memory that a process may have is the least of what the kernel could give without swapping
//! (`MemAvailable`), what is left of the memory limits of its control groups, and, for its address
//! space, what is left of `ulimit -v`. Where the system does not say, nothing is refused.
//!
//! A real kernel's run takes the guest's memory, and space in the folder for temporary files.

use super::host;
use crate::diagnostic::Diagnostic;
use crate::model::{Cell, Experiment};
use mm::footprint::Use;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Nine tenths of the memory that is left are for runs; the rest is kept for results, tables and
/// pages of this program.
const SHARE: (u64, u64) = (9, 10);
/// Bytes kept of a finished run: its histograms, counters and sums. Its series come on top, with
/// some 60 columns of 8 bytes a sample.
pub const BYTES_PER_RESULT: u64 = 96 << 10;
/// Bytes of a worker's stack.
const BYTES_PER_WORKER: u64 = 2 << 20;

/// The memory that one run takes, part by part, the largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    uses: Vec<Use>,
    /// Bytes in the folder for temporary files.
    disk: u64,
}

impl Need {
    /// Returns what each run of a cell takes: the parts of the engine's memory, or the resources of
    /// a real kernel's guest.
    pub fn of(cell: &Cell) -> Self {
        if cell.kernel.is_some() {
            return Self::of_kernel(cell);
        }
        let mut uses = sim::footprint::uses(&cell.spec);
        uses.sort_by_key(|u| std::cmp::Reverse((u.touched, u.reserved)));
        Self { uses, disk: 0 }
    }

    /// Returns what a real kernel's run takes: the guest's memory, the kernel and its disks, and
    /// bytes of temporary files.
    fn of_kernel(cell: &Cell) -> Self {
        let guest = kernel::guest::memory(&cell.spec.machine);
        let all = host::estimate(&cell.spec);
        // The guest is another process, so it takes nothing of this one's address space.
        let touched = |what, bytes| Use {
            what,
            reserved: 0,
            touched: bytes,
        };
        Self {
            uses: vec![
                touched("the guest's memory", guest),
                touched("its kernel and disks", all.memory.saturating_sub(guest)),
            ],
            disk: all.disk,
        }
    }

    /// Returns the bytes taken in the folder for temporary files.
    pub fn disk(&self) -> u64 {
        self.disk
    }

    /// Returns the bytes that are resident once the simulated machine has been in full use, of all
    /// parts together.
    pub fn touched(&self) -> u64 {
        self.uses.iter().map(|u| u.touched).sum()
    }

    /// Returns the bytes of address space that all parts take together.
    pub fn reserved(&self) -> u64 {
        self.uses.iter().map(|u| u.reserved).sum()
    }

    /// Names the three largest parts with their sizes; `of` measures a part in bytes of memory or
    /// of address space.
    fn parts(&self, of: fn(&Use) -> u64) -> String {
        let mut uses: Vec<&Use> = self.uses.iter().collect();
        uses.sort_by_key(|u| std::cmp::Reverse(of(u)));
        let named = uses.iter().take(3).filter(|u| of(u) > 0);
        let named: Vec<String> = named
            .map(|u| format!("{} {}", u.what, bytes(of(u))))
            .collect();
        named.join(", ")
    }

    /// Returns the setting that would make the largest part smaller; `of` measures a part in bytes
    /// of memory or of address space.
    fn remedy(&self, of: fn(&Use) -> u64) -> &'static str {
        let largest = self.uses.iter().max_by_key(|u| of(u)).map(|u| u.what);
        match largest {
            Some("swap slots") => "a smaller `machine.swap.size`",
            Some("allocation groups") => "a smaller `params.xfs_ags`",
            Some("files and inodes" | "files of the world") => "a workload of fewer files",
            Some("tasks of the engine" | "tasks of the world") => "a workload of fewer processes",
            Some("request queues") => "a smaller `params.nr_requests`",
            _ => "a machine with less memory (`machine.node.0.zones.0.size` and the other zones)",
        }
    }
}

/// Formats a number of bytes in KiB, MiB or GiB.
pub fn bytes(n: u64) -> String {
    let (unit, shift) = match n {
        0..0x10_0000 => ("KiB", 10),
        0x10_0000..0x4000_0000 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    format!("{:.1} {unit}", n as f64 / (1u64 << shift) as f64)
}

/// The resources that a process of this host can still obtain. `None`: the system does not say, and
/// nothing is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Bytes of memory, and the name of the limit that this number comes from.
    pub memory: Option<(u64, &'static str)>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Bytes free in the folder for temporary files.
    pub disk: Option<u64>,
}

/// A resource of the host that may run short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Memory,
    AddressSpace,
    Disk,
}

impl Resource {
    /// Returns the resource's name for messages.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::AddressSpace => "address space",
            Self::Disk => "room for temporary files",
        }
    }

    /// Returns how many bytes of this resource a run with this need takes.
    fn of(self, need: &Need) -> u64 {
        match self {
            Self::Memory => need.touched(),
            Self::AddressSpace => need.reserved(),
            Self::Disk => need.disk,
        }
    }

    /// Names the largest parts of a need of this resource, in brackets, for messages.
    fn parts(self, need: &Need) -> String {
        match self {
            Self::Memory => format!(" ({})", need.parts(|u| u.touched)),
            Self::AddressSpace => format!(" ({})", need.parts(|u| u.reserved)),
            Self::Disk => {
                " (images of the guest's disks, and its memory where /dev/shm is small)".into()
            }
        }
    }

    /// Returns the advice that goes with a shortage: make the need smaller, or the host's room
    /// larger.
    fn remedy(self, need: &Need) -> String {
        match self {
            Self::Memory => format!("{}, or more memory", need.remedy(|u| u.touched)),
            Self::AddressSpace => {
                format!("{}, or more address space", need.remedy(|u| u.reserved))
            }
            Self::Disk => {
                "a machine with less memory, or TMPDIR set to a folder with more room".into()
            }
        }
    }
}

impl Host {
    /// Reads the limits of the computer that this process runs on.
    pub fn here() -> Self {
        let free = rustix::fs::statvfs(std::env::temp_dir().as_path());
        Self {
            disk: free.ok().map(|s| s.f_bavail.saturating_mul(s.f_frsize)),
            ..Self::below(Path::new("/"))
        }
    }

    /// Returns the bytes of memory that runs may use: the least of the known limits of memory and
    /// address space, without the tenth kept for this program. `None` if no limit is known.
    pub fn least(&self) -> Option<u64> {
        let memory = self.memory.map(|(left, _)| left);
        let least = memory.into_iter().chain(self.address_space).min()?;
        Some(least / SHARE.1 * SHARE.0)
    }

    /// Reads the limits of memory and address space of a host whose `/proc` and `/sys` are below
    /// `root`; tests pass a folder of their own.
    pub fn below(root: &Path) -> Self {
        let meminfo = read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let available = meminfo.lines().find_map(|line| {
            let kb = line.strip_prefix("MemAvailable:")?.trim();
            kb.strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
        let available = available.map(|kb| (kb.saturating_mul(1024), "MemAvailable"));
        let groups = cgroups(root).map(|left| (left, "the memory limit of its control group"));
        Self {
            memory: available.into_iter().chain(groups).min(),
            address_space: address_space(root),
            disk: None,
        }
    }
}

/// Returns how many bytes are left of the tightest memory limit of this process's control groups
/// (v1 or v2), of the group itself or one above it; `None` if no limit can be read. `root` is the
/// folder that holds `/proc` and `/sys`.
fn cgroups(root: &Path) -> Option<u64> {
    let own = read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least = None;
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (mount, files) = match controllers {
            "" => ("sys/fs/cgroup", ["memory.max", "memory.current"]),
            c if c.split(',').any(|c| c == "memory") => (
                "sys/fs/cgroup/memory",
                ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            ),
            _ => continue,
        };
        let mount = root.join(mount);
        let mut group: PathBuf = mount.join(path.trim_start_matches('/'));
        // A group's limit holds for all groups below it.
        while group.starts_with(&mount) {
            let read = |file: &str| read_to_string(group.join(file)).ok();
            let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
            if let (Some(limit), Some(used)) = (number(files[0]), number(files[1])) {
                // Inactive page cache is reclaimed before the limit is hit, so it counts as free.
                let stat = read("memory.stat").unwrap_or_default();
                let cache = stat.lines().find_map(|line| {
                    let (key, value) = line.split_once(' ')?;
                    let cache = ["inactive_file", "total_inactive_file"].contains(&key);
                    cache.then(|| value.trim().parse::<u64>().ok())?
                });
                let used = used.saturating_sub(cache.unwrap_or(0));
                let left = limit.saturating_sub(used);
                least = Some(least.map_or(left, |l: u64| l.min(left)));
            }
            if !group.pop() {
                break;
            }
        }
    }
    least
}

/// Returns how many bytes are left of the address space limit (`ulimit -v`: `Max address space`
/// less `VmSize`); `None` if there is no limit or it cannot be read. `root` is the folder that
/// holds `/proc`.
fn address_space(root: &Path) -> Option<u64> {
    let limits = read_to_string(root.join("proc/self/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let status = read_to_string(root.join("proc/self/status")).ok()?;
    let kb = status.lines().find_map(|l| l.strip_prefix("VmSize:"))?;
    let kb: u64 = kb.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(limit.saturating_sub(kb * 1024))
}

/// Describes in a sentence how much memory, address space and room for temporary files the largest
/// run of an experiment takes, and how much of each the host has.
pub fn summary(experiment: &Experiment, host: &Host) -> String {
    let needs = experiment.cells.iter().map(Need::of);
    let Some(largest) = needs.max_by_key(Need::touched) else {
        return "no run".into();
    };
    let left = host.memory.map_or_else(String::new, |(left, by)| {
        format!("; {} are available ({by})", bytes(left))
    });
    let needs = experiment.cells.iter().map(Need::of);
    let disk = match (needs.map(|n| n.disk).max(), host.disk) {
        (None | Some(0), _) => String::new(),
        (Some(most), None) => format!("; and up to {} of temporary files", bytes(most)),
        (Some(most), Some(left)) => format!(
            "; and up to {} of temporary files, for which {} are free",
            bytes(most),
            bytes(left)
        ),
    };
    let space = match largest.reserved() {
        0 => String::new(),
        reserved => format!(" and {} of address space", bytes(reserved)),
    };
    format!(
        "a run takes up to {} of memory ({}){space}{left}{disk}",
        bytes(largest.touched()),
        largest.parts(|u| u.touched),
    )
}

/// How many runs at a time fit in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Threads to use, at least 1.
    pub jobs: usize,
    /// The reason, if there are fewer threads than there could be.
    pub note: Option<String>,
}

/// The amount of one resource that several runs at a time take.
struct Together {
    /// The need of one run of each cell, the largest first.
    each: Vec<u64>,
    iterations: usize,
    /// The need of results and of this program itself.
    besides: u64,
}

impl Together {
    /// Returns the need of the `jobs` largest runs together, in bytes. A cell has as many runs as
    /// there are iterations.
    fn of(&self, jobs: usize) -> u64 {
        let mut left = jobs;
        let mut sum = self.besides;
        for need in &self.each {
            let n = left.min(self.iterations);
            sum = sum.saturating_add(need.saturating_mul(n as u64));
            left -= n;
        }
        sum
    }

    /// Returns how many runs at a time, up to `most`, fit into nine tenths of `left` bytes; 0 if
    /// not even one does.
    fn fit(&self, most: usize, left: u64) -> usize {
        let left = left / SHARE.1 * SHARE.0;
        (1..=most).rev().find(|n| self.of(*n) <= left).unwrap_or(0)
    }
}

/// Returns how many of an experiment's runs fit the host at a time: up to `cores`, or exactly
/// `wanted` if the user says so. The result notes which resource of the host makes it fewer.
///
/// # Errors
/// Fails if one run does not fit, or not as many runs at a time as are wanted.
pub fn fit(
    experiment: &Experiment,
    wanted: Option<usize>,
    cores: usize,
    host: &Host,
) -> Result<Fit, Diagnostic> {
    let needs: Vec<Need> = experiment.cells.iter().map(Need::of).collect();
    let iterations = experiment.iterations as usize;
    let runs = needs.len().saturating_mul(iterations).max(1);
    let most = wanted.unwrap_or(cores).clamp(1, runs);
    let results = runs as u64 * BYTES_PER_RESULT;
    let together = |of: Resource, besides: u64, worker: u64| {
        let mut each: Vec<u64> = needs.iter().map(|n| of.of(n) + worker).collect();
        each.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        Together {
            each,
            iterations,
            besides,
        }
    };
    let memory = host
        .memory
        .map(|(left, by)| (Resource::Memory, 0, results, left, by));
    let address = host.address_space.map(|left| {
        let of = Resource::AddressSpace;
        (of, BYTES_PER_WORKER, results, left, "ulimit -v")
    });
    let disk = host.disk.map(|left| (Resource::Disk, 0, 0, left, "TMPDIR"));
    let mut fit = Fit {
        jobs: most,
        note: None,
    };
    for (of, worker, besides, left, by) in memory.into_iter().chain(address).chain(disk) {
        let all = together(of, besides, worker);
        let jobs = all.fit(most, left);
        if jobs >= fit.jobs {
            continue;
        }
        let kind = of.name();
        let Some(largest) = needs.iter().max_by_key(|n| of.of(n)) else {
            continue;
        };
        let takes = format!(
            "a run takes up to {} of {kind}{}",
            bytes(of.of(largest)),
            of.parts(largest)
        );
        let left = format!("{} are available ({by})", bytes(left));
        if jobs == 0 {
            let kept = match besides {
                0..0x1000_0000 => String::new(),
                kept => format!(", the results of {runs} runs {}", bytes(kept)),
            };
            return Err(Diagnostic::placeless(
                format!("there is not enough {kind}: {takes}{kept}, and {left}"),
                format!("accepted: {}", of.remedy(largest)),
            ));
        }
        if wanted.is_some() {
            let all = bytes(all.of(most));
            return Err(Diagnostic::placeless(
                format!(
                    "there is not enough {kind} for `--jobs {most}`: {takes}, together {all}, and {left}"
                ),
                format!("accepted: `--jobs {jobs}` or less, or more {kind}"),
            ));
        }
        fit = Fit {
            jobs,
            note: Some(format!(
                "{jobs} at a time instead of {most}: {takes}, {left}"
            )),
        };
    }
    Ok(fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Overrides, parse};

    fn experiment(size: &str) -> Experiment {
        let text = format!(
            "name = \"t\"\niterations = 3\npolicy = [\"linux-3.0\", \"linux-3.1\"]\n\
             filesystem = \"ext4\"\n[machine]\nname = \"m\"\ncpus = 1\n[[machine.node]]\n\
             zones = [{{ zone = \"Normal\", size = \"{size}\" }}]\n[machine.disk]\nkind = \"ssd\"\n\
             capacity = \"1G\"\n[workload]\ncommand = \"dd if=/dev/zero of=z count=1\"\n"
        );
        let source = crate::diagnostic::Source::new("t.toml", text);
        parse(&source, &|_| Err(String::new()), &Overrides::default()).unwrap()
    }

    fn host(memory: u64, address_space: u64) -> Host {
        Host {
            memory: Some((memory, "MemAvailable")),
            address_space: Some(address_space),
            disk: None,
        }
    }

    #[test]
    fn as_many_runs_as_fit() {
        let e = experiment("1G");
        let need = Need::of(&e.cells[0]);
        assert!(need.touched() > 32 << 18, "a frame takes 32 bytes");
        assert!(need.reserved() > need.touched());
        let one = need.touched() * 3 / 2;
        let fits = |wanted, memory, space| fit(&e, wanted, 4, &host(memory, space));
        assert_eq!(fits(None, 1 << 40, 1 << 40).unwrap().jobs, 4);
        assert_eq!(fits(Some(6), 1 << 40, 1 << 40).unwrap().jobs, 6);
        // Asking for more runs at a time than there are in all is no mistake.
        assert_eq!(fits(Some(100), 1 << 40, 1 << 40).unwrap().jobs, 6);
        let few = fits(None, one, 1 << 40).unwrap();
        assert_eq!(few.jobs, 1);
        let note = few.note.unwrap();
        assert!(
            note.starts_with("1 at a time instead of 4: a run takes up to"),
            "{note}"
        );
        let e = fits(Some(2), one, 1 << 40).unwrap_err();
        assert!(e.message.contains("`--jobs 2`"), "{e}");
        assert!(e.accepted.contains("`--jobs 1` or less"), "{}", e.accepted);
        let e = fits(None, 1 << 20, 1 << 40).unwrap_err();
        assert!(e.message.contains("the frame table 8.0 MiB"), "{e}");
        assert!(e.accepted.contains("zones.0.size"), "{}", e.accepted);
        let e = fits(None, 1 << 40, 1 << 20).unwrap_err();
        assert!(e.message.contains("address space"), "{e}");
        assert!(e.message.contains("ulimit -v"), "{e}");
        let unknown = fit(&experiment("1G"), None, 2, &Host::default()).unwrap();
        assert_eq!((unknown.jobs, unknown.note), (2, None));
    }

    #[test]
    fn a_kernels_run_takes_its_guests_memory_and_room_for_temporary_files() {
        let mut e = experiment("512M");
        let engine = Need::of(&e.cells[0]);
        assert_eq!(engine.disk(), 0);
        assert!(!summary(&e, &Host::default()).contains("temporary"));
        e.cells[1].kernel = Some(kernel::Kernel::new("6.12"));
        let need = Need::of(&e.cells[1]);
        assert_eq!(need.touched(), 712 << 20);
        assert!(need.disk() >= 64 << 20);
        assert!(need.touched() > engine.touched());
        let here = |disk: u64| Host {
            disk: Some(disk),
            ..host(1 << 40, 1 << 40)
        };
        assert_eq!(fit(&e, None, 4, &here(1 << 40)).unwrap().jobs, 4);
        // The largest runs count, and two iterations of the same cell may run at a time.
        let few = fit(&e, None, 4, &here(need.disk() * 3 / 2)).unwrap();
        let note = few.note.unwrap();
        assert!(note.contains("of room for temporary files"), "{note}");
        assert_eq!(few.jobs, 1);
        let e = fit(&e, None, 4, &here(1 << 20)).unwrap_err();
        assert!(e.message.starts_with("there is not enough room"), "{e}");
        assert!(e.accepted.contains("TMPDIR"), "{}", e.accepted);
    }

    #[test]
    fn the_least_limit_counts() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(Host::below(dir.path()), Host::default());
        put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    2048 kB\n");
        let memory = |at: &Path| Host::below(at).memory;
        assert_eq!(memory(dir.path()), Some((2 << 20, "MemAvailable")));
        put("proc/self/cgroup", "0::/a/b\n");
        put("sys/fs/cgroup/a/b/memory.max", "max\n");
        put("sys/fs/cgroup/a/b/memory.current", "4096\n");
        put("sys/fs/cgroup/a/memory.max", "1048576\n");
        put("sys/fs/cgroup/a/memory.current", "524288\n");
        put(
            "sys/fs/cgroup/a/memory.stat",
            "anon 1\ninactive_file 4096\n",
        );
        let (left, by) = memory(dir.path()).unwrap();
        assert_eq!(left, (512 << 10) + 4096);
        assert!(by.contains("control group"), "{by}");
        put("proc/self/cgroup", "5:cpu:/\n4:memory:/v1\n");
        put("sys/fs/cgroup/memory/v1/memory.limit_in_bytes", "100\n");
        put("sys/fs/cgroup/memory/v1/memory.usage_in_bytes", "40\n");
        assert_eq!(memory(dir.path()).unwrap().0, 60);
        let limit =
            |text: &str| format!("Limit  Soft  Hard  Units\nMax address space  {text}  x  bytes\n");
        put("proc/self/limits", &limit("unlimited"));
        put("proc/self/status", "Name:\tx\nVmSize:\t  100 kB\n");
        assert_eq!(Host::below(dir.path()).address_space, None);
        put("proc/self/limits", &limit("204800"));
        assert_eq!(Host::below(dir.path()).address_space, Some(102_400));
    }
}
