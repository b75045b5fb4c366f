//! Random command lines, with every program that a command line can have.

use crate::dice::Dice;
use crate::machine::Drawn;
use std::fmt::Write;
use toml::{Table, Value};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Maximum number of records and files of a program: a run should cost milliseconds.
const RECORDS: u64 = 4096;
const FILES: u64 = 1200;

/// A command line and the files that it needs.
#[derive(Debug, Clone)]
pub struct Line {
    /// The command line.
    pub command: String,
    /// Size in bytes by path of the files that exist before the run.
    pub files: Table,
}

/// The state of drawing one command line.
struct Programs<'a> {
    d: Dice,
    machine: &'a Drawn,
    files: Table,
}

/// Draws the command line of a seed for a machine: one to three programs, one after the other or at
/// the same time, and the files that must exist before they run.
pub fn line(seed: u64, machine: &Drawn) -> Line {
    let mut p = Programs {
        d: Dice::new(seed, "programs"),
        machine,
        files: Table::new(),
    };
    let n = match p.d.between(0, 5) {
        0..=2 => 1,
        3 | 4 => 2,
        _ => 3,
    };
    let mut command = String::new();
    // Whether a final `wait` would end: no program runs for ever.
    let mut waits = true;
    let programs: Vec<&str> = drawn().collect();
    for nth in 0..n {
        let last = nth + 1 == n;
        let name = *p.d.pick(&programs);
        let endless = ["desktop", "burst"].contains(&name) && p.d.one_in(3) && !last;
        let text = p.program(name, endless);
        command += &text;
        command += match (last, endless) {
            (true, _) if n > 1 && waits && p.d.one_in(4) => " & wait",
            (true, _) => "",
            (_, true) => {
                waits = false;
                " & "
            }
            _ => *p.d.pick(&["; ", " & ", " && ", "\n"]),
        };
    }
    Line {
        command,
        files: p.files,
    }
}

/// Returns the programs that are drawn: all but those that only real kernels run.
pub fn drawn() -> impl Iterator<Item = &'static str> {
    const OF_KERNELS: &str = "cgexec";
    workload::programs::named().filter(|name| *name != OF_KERNELS)
}

/// Draws a call of the program `name` alone, with the files that it needs, for tests of the
/// generator.
pub fn one(seed: u64, name: &str, machine: &Drawn) -> Line {
    let mut p = Programs {
        d: Dice::new(seed, name),
        machine,
        files: Table::new(),
    };
    let command = p.program(name, false);
    Line {
        command,
        files: p.files,
    }
}

impl Programs<'_> {
    /// Draws a call of the program `name` with its operands, and with what must run before it.
    /// `endless`: it runs until the workload ends.
    fn program(&mut self, name: &str, endless: bool) -> String {
        match name {
            "burst" => self.burst(endless),
            "cat" => format!("cat {}", self.read_whole()),
            "cp" => {
                let copy = self.path("copy");
                format!("cp {} {copy}", self.read_whole())
            }
            "dd" => self.dd(),
            "desktop" => self.desktop(endless),
            "find" => {
                let tree = self.tree();
                format!("{}; find {tree}", self.fs_mark(Some(&tree)))
            }
            "fs_mark" => self.fs_mark(None),
            "mapped-file-stream" => {
                let processes = self.d.magnitude(1, 8);
                let bytes = self.size(4 * KIB, 2) / processes;
                format!("mapped-file-stream {processes} {}", bytes.max(4 * KIB))
            }
            "memhog" => {
                let rounds = self.d.between(1, 3);
                format!("memhog -r {rounds} {}", self.size(4 * KIB, 2))
            }
            "mmap-strm" => self.mmap_strm(),
            "numactl" => {
                // CPUs are distributed over the nodes in turn, so some nodes may have none.
                let with_cpus = self.machine.nodes.min(self.machine.cpus);
                let node = self.d.between(0, with_cpus - 1);
                format!("numactl --cpunodebind={node} {}", self.simple())
            }
            "rm" => {
                let tree = self.tree();
                format!("{}; rm -r {tree}", self.fs_mark(Some(&tree)))
            }
            "simoop" => self.simoop(),
            "sleep" => format!("sleep 0.{:03}", self.d.magnitude(1, 999)),
            "taskset" => {
                let cpu = self.d.between(0, self.machine.cpus - 1);
                format!("taskset -c {cpu} {}", self.simple())
            }
            "tiobench" => self.tiobench(),
            "truncate" => {
                let path = self.path("cut");
                format!("truncate -s {} {path}; cat {path}", self.size(0, 1))
            }
            "stress-ng" => {
                let size = self.size(4096, 1) >> 10;
                format!(
                    "stress-ng --vm {} --vm-bytes {}k -t 1s",
                    self.d.between(1, 3),
                    size.max(4)
                )
            }
            "usemem" => {
                let size = self.size(4096, 1) >> 10;
                format!("usemem -n {} {}k", self.d.between(1, 3), size.max(4))
            }
            "rsync" => {
                let tree = self.tree();
                format!("{}; rsync -a {tree} {tree}-copy", self.fs_mark(Some(&tree)))
            }
            "tar" => {
                let tree = self.tree();
                format!("{}; tar cf {tree}.tar {tree}", self.fs_mark(Some(&tree)))
            }
            "drop_caches" => format!(
                "{}; drop_caches {}",
                self.simple(),
                1 + self.d.between(0, 2)
            ),
            "umount" => format!("{}; umount /", self.simple()),
            // A program not known here is called without operands.
            other => other.to_owned(),
        }
    }

    /// Draws a program that another one starts: fs_mark, mmap-strm or dd.
    fn simple(&mut self) -> String {
        match self.d.between(0, 3) {
            0 => self.fs_mark(None),
            1 => self.mmap_strm(),
            _ => self.dd(),
        }
    }

    /// Draws a size in bytes: at least `least`, at most `times` the memory and, mostly, a third of
    /// the smallest disk.
    fn size(&mut self, least: u64, times: u64) -> u64 {
        let most = self.machine.memory * times;
        // A full disk is legal too; it may fill up before all of memory is written.
        let most = if self.d.one_in(8) {
            most
        } else {
            most.min(self.machine.disk / 3)
        };
        self.d.amount(least, most.max(least))
    }

    /// Returns a path of this name, half the time on another mounted filesystem.
    fn path(&mut self, name: &str) -> String {
        let mounts = &self.machine.mounts;
        let below = !mounts.is_empty() && self.d.one_in(2);
        if below {
            let mount = match mounts.len() {
                1 => &mounts[0],
                _ => self.d.pick(mounts),
            };
            format!("{mount}/{name}")
        } else {
            name.to_owned()
        }
    }

    /// Draws the path of a tree that one program makes and another uses.
    fn tree(&mut self) -> String {
        let name = format!("tree{}", self.d.between(0, 1));
        self.path(&name)
    }

    /// Draws the path of a file that exists before the run and has at least `len` bytes.
    fn given(&mut self, len: u64) -> String {
        let name = format!("r{}", self.d.between(0, 1));
        let name = self.path(&name);
        let entry = self.files.entry(name.clone()).or_insert(Value::Integer(0));
        let known = entry.as_integer().unwrap_or(0) as u64;
        *entry = crate::numbers::whole(known.max(len));
        name
    }

    /// Draws a file that exists before the run, with as many bytes as a program is to read.
    fn read_whole(&mut self) -> String {
        let len = self.size(4 * KIB, 2).min(RECORDS * 64 * KIB);
        self.given(len)
    }

    /// Draws a call of dd that reads, writes or copies files; a file to be read is added to those
    /// that exist before the run.
    fn dd(&mut self) -> String {
        let d = &mut self.d;
        let bs = match d.between(0, 3) {
            0 => *d.pick(&[512, 1024, 4095, 4097]),
            1 => 4096,
            _ => d.magnitude(4, 1024) * KIB,
        };
        // 0: reads a file; 1 and 2: writes one; 3: copies.
        let kind = d.between(0, 3);
        let bytes = self.size(4 * KIB, 2);
        let count = (bytes / bs).clamp(1, RECORDS);
        let mut line = String::from("dd");
        if kind == 0 || kind == 3 {
            let name = self.given((count * bs).max(4 * KIB));
            let _ = write!(line, " if={name}");
        } else {
            line += " if=/dev/zero";
        }
        if kind == 0 {
            line += " of=/dev/null";
        } else {
            let name = format!("w{}", self.d.between(0, 2));
            let name = self.path(&name);
            let _ = write!(line, " of={name}");
        }
        let d = &mut self.d;
        if d.one_in(8) {
            let _ = write!(line, " ibs={bs} obs={}", d.magnitude(1, 64) * 512);
        } else {
            let _ = write!(line, " bs={bs}");
        }
        let _ = write!(line, " count={count}");
        let whole_pages = bs % 4096 == 0;
        if d.one_in(6) {
            let _ = write!(line, " skip={}", d.between(0, 9));
        }
        if kind != 0 {
            if d.one_in(6) {
                let _ = write!(line, " seek={}", d.magnitude(1, 999));
            }
            match d.between(0, 9) {
                0 => line += " conv=fsync",
                1 => line += " conv=fdatasync",
                2 => line += " conv=notrunc",
                3 if whole_pages => line += " oflag=direct",
                4 => line += " oflag=dsync",
                5 => line += " oflag=sync",
                6 => line += " oflag=append conv=notrunc",
                _ => {}
            }
        } else if whole_pages && d.one_in(8) {
            line += " iflag=direct";
        }
        line
    }

    /// Draws a call of fs_mark (makes many files): in `tree`, where they stay for another program,
    /// or in a directory of its own. Numbers and sizes are kept such that a run costs milliseconds.
    fn fs_mark(&mut self, tree: Option<&str>) -> String {
        let dir = match tree {
            Some(tree) => tree.to_owned(),
            None => self.path("marks"),
        };
        let d = &mut self.d;
        let mut line = format!("fs_mark -d {dir}");
        let threads = d.magnitude(1, 6);
        let rounds = d.magnitude(1, 3);
        let mut files = d.amount(1, FILES / threads / rounds);
        let size = match d.between(0, 2) {
            0 => 0,
            1 => d.magnitude(1, 4 * KIB),
            _ => d.magnitude(1, 256 * KIB),
        };
        if let Some(fitting) = (16 * MIB).checked_div(size) {
            files = files.min(fitting.max(1));
        }
        let _ = write!(
            line,
            " -n {files} -s {size} -t {threads} -S {}",
            d.between(0, 6)
        );
        if size > 0 {
            // fs_mark counts writes: small ones make many calls.
            let _ = write!(
                line,
                " -w {}",
                d.magnitude(512, 64 * KIB).max(size / 64 + 1)
            );
        }
        if rounds > 1 {
            let _ = write!(line, " -L {rounds}");
        }
        if tree.is_some() || d.one_in(2) {
            line += " -k";
        }
        if d.one_in(3) {
            let _ = write!(line, " -D {}", d.magnitude(2, 40));
            if d.one_in(2) {
                let _ = write!(line, " -N {}", d.magnitude(1, 20));
            }
        }
        if d.one_in(4) {
            let random = d.between(0, 8);
            let _ = write!(line, " -p {} -r {random}", random + d.between(12, 40));
        }
        line
    }

    /// Draws a call of mmap-strm, which stores to mapped memory: processes, the memory that it
    /// scales by, and the parts of that for its two stages.
    fn mmap_strm(&mut self) -> String {
        let dir = self.path("strm");
        let bytes = self.size(64 * KIB, 2);
        let d = &mut self.d;
        let mut line = format!(
            "mmap-strm -d {dir} -t {} --memory {bytes}",
            d.magnitude(1, 5)
        );
        let (stream, mixed) = (d.between(0, 15), d.between(1, 15));
        let _ = write!(
            line,
            " --stream {}.{} --mixed {}.{}",
            stream / 10,
            stream % 10,
            mixed / 10,
            mixed % 10
        );
        let _ = write!(
            line,
            " --file-share {} --file-passes {} --anon-passes {}",
            *d.pick(&[0, 1, 50, 70, 99, 100]),
            d.between(1, 2),
            d.between(1, 2)
        );
        line
    }

    /// Draws a call of burst, which takes kernel pages in bursts; `endless`: without a number of
    /// bursts, so that it runs until the workload ends.
    fn burst(&mut self, endless: bool) -> String {
        let most = self.machine.memory / 4;
        let d = &mut self.d;
        let mut line = format!("burst -s {}", d.amount(4 * KIB, most.max(4 * KIB)));
        if d.one_in(2) {
            let _ = write!(line, " -r {}", d.magnitude(MIB, 512 * MIB));
        }
        if d.one_in(2) {
            let _ = write!(line, " -o {}", d.between(0, 3));
        }
        if d.one_in(2) {
            line += " -a";
        }
        let interval = d.magnitude(1, 500);
        let _ = match d.between(0, 2) {
            0 => write!(line, " -A periodic -i {interval}ms"),
            1 => write!(line, " -A poisson -i {interval}ms"),
            _ => write!(
                line,
                " -A onoff -i {interval}ms -j {}ms",
                d.magnitude(1, 100)
            ),
        };
        if d.one_in(2) {
            let _ = write!(line, " -h {}ms", d.magnitude(0, 1000));
        }
        if d.one_in(4) {
            let _ = write!(line, " -d {}us", d.magnitude(0, 1_000_000));
        }
        if !endless {
            let _ = write!(line, " -n {}", d.magnitude(1, 12));
        }
        line
    }

    /// Draws a call of desktop, which models an interactive task with a working set; `endless`:
    /// without an end.
    fn desktop(&mut self, endless: bool) -> String {
        let most = self.machine.memory / 2;
        let d = &mut self.d;
        let mut line = format!(
            "desktop -w {} -p {} -n {} -f {} -c {}us -i {}ms",
            d.amount(4 * KIB, most),
            d.amount(4 * KIB, most),
            d.magnitude(0, 100),
            d.magnitude(0, 100),
            d.magnitude(0, 5000),
            d.magnitude(5, 500)
        );
        if d.one_in(3) {
            let _ = write!(
                line,
                " -l {}ms -s {}ms",
                d.magnitude(1, 500),
                d.magnitude(0, 900)
            );
        }
        if !endless {
            let _ = write!(line, " -t {}ms", d.magnitude(10, 2000));
        }
        line
    }

    /// Draws a call of simoop, which models the memory pressure of jobs like Hadoop's: workers,
    /// other threads, sizes, and files on one path or two.
    fn simoop(&mut self) -> String {
        let mib = self.machine.memory / MIB;
        let (first, second) = (self.path("loop"), self.path("pool"));
        let d = &mut self.d;
        let mut line = format!(
            "simoop -t {} -m {} -M {} -C {} -D {} -r {} -w {} -i 1 -f {} -n {} -T {} -R {} -W {} --keep {}",
            d.magnitude(1, 3),
            d.amount(0, mib / 4),
            d.amount(0, mib / 4),
            d.magnitude(0, 2),
            d.magnitude(0, 2),
            d.magnitude(1, 2),
            d.magnitude(0, 1),
            d.magnitude(1, 2),
            d.magnitude(1, 24),
            d.magnitude(1, 4),
            // At least 1: units without any work are so many that a second of them takes minutes.
            d.magnitude(1, 2),
            d.magnitude(0, 2),
            d.between(0, 1)
        );
        let _ = write!(line, " {first}");
        if d.one_in(4) && first != second {
            let _ = write!(line, " {second}");
        }
        line
    }

    /// Draws a call of tiobench, whose threads write and read files of their own: total size in
    /// MiB, threads, block size and number of random operations.
    fn tiobench(&mut self) -> String {
        let dir = self.path("tio");
        let megabytes = self.size(MIB, 2) / MIB;
        let d = &mut self.d;
        let threads = d.magnitude(1, 6).min(megabytes);
        let mut line = format!(
            "tiobench --size {megabytes} --threads {threads} --dir {dir} --random {} --block {}",
            d.magnitude(0, 500),
            *d.pick(&[4096, 8192, 65536])
        );
        if d.one_in(4) {
            line += " --numruns 2";
        }
        if d.one_in(4) {
            line += " --threads 1";
        }
        line
    }
}
