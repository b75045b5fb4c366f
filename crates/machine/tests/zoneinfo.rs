//! The engine's `/proc/zoneinfo` and its OOM reports, read by the parsers for a kernel's.

use machine::parse;
use sim::spec::RunSpec;
use sim::world::{Listener, Moment};
use sim::{Control, Outcome, Params, RunResult};
use std::sync::{Arc, Mutex};

/// Keeps the text at the end of a run.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<String>>);

impl Listener for Kept {
    fn heard(&mut self, _: Moment<'_>, _: &mm::world::event::Event) {
        panic!("it wants no events");
    }

    fn marked(&mut self, _: Moment<'_>, _: &str) {}

    fn ended(&mut self, zoneinfo: &dyn Fn() -> String) {
        *self.0.lock().expect("no panic") = zoneinfo();
    }

    fn hears(&self) -> bool {
        false
    }
}

/// Returns a run of `command` under this policy and these sysctls on a machine of 64 MiB.
fn spec(policy: mm::Policy, sysctl: &str, command: &str) -> RunSpec {
    let machine = "name = '64M'\ncpus = 2\nnode = [{ zones = [{ zone = 'DMA', size = '16M' }, \
                   { zone = 'DMA32', size = '48M' }] }]\nboot = { kernel = '4M', dma = '1M', anon = '4M', cache = '0M' }\n\
                   disk = { kind = 'disk', capacity = '4G' }\n";
    RunSpec {
        machine: toml::from_str(&format!("{machine}sysctl = {{ {sysctl} }}\n")).expect("a machine"),
        filesystem: sim::FsKind::Xfs,
        policy,
        workload: workload::parse(command).expect("a command"),
        changes: Vec::new(),
        membind: None,
        groups: sim::spec::Groups::default(),
        monitors: false,
        params: Params::default(),
        seed: 7,
        sample_ns: 0,
        check_ns: 0,
        check_full: false,
        track_pages: false,
        time_limit_ns: 0,
    }
}

fn run(policy: mm::Policy, sysctl: &str) -> (RunResult, String) {
    let spec = spec(policy, sysctl, "dd if=/dev/zero of=a bs=64k count=1600");
    let kept = Kept::default();
    let control = Control::default();
    *control.listener.lock().expect("no panic") = Some(Box::new(kept.clone()));
    let result = sim::run(&spec, &control);
    assert_eq!(result.outcome, Outcome::Completed);
    let alone = sim::run(&spec, &Control::default());
    assert_eq!(alone.digest, result.digest);
    let text = std::mem::take(&mut *kept.0.lock().expect("no panic"));
    (result, text)
}

/// Returns the number after a name, for each zone that has it.
fn numbers(text: &str, name: &str) -> Vec<u64> {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    };
    text.lines().filter_map(of).collect()
}

#[test]
fn the_parser_of_a_kernels_reads_the_engines() {
    let (result, text) = run(mm::Policy::linux_3_0(), "");
    let zones = parse::zoneinfo(&text).expect("as a kernel's");
    let of = |z: usize| (zones[z].node, zones[z].name.as_str(), zones[z].managed);
    assert_eq!(zones.len(), 2);
    assert_eq!(of(0), (0, "DMA", 4096));
    assert_eq!(of(1), (0, "DMA32", 12288));
    for zone in &zones {
        let [min, low, high] = zone.marks;
        assert!(
            0 < min && min < low && low < high && zone.boost == 0,
            "{zone:?}"
        );
        assert!(zone.free < zone.present, "{zone:?}");
    }
    // Requests for the second zone respect a reserve of the first, but none of their own.
    assert!(
        zones[0].protection[1] > 0 && zones[1].protection[1] == 0,
        "{text}"
    );
    // The run's counters are the sums over its zones.
    for name in [
        "nr_free_pages",
        "nr_inactive_file",
        "nr_dirty",
        "nr_dirtied",
    ] {
        let sum: u64 = numbers(&text, name).iter().sum();
        if name == "nr_dirtied" {
            assert!(sum >= result.counters[name], "{name}");
        } else {
            assert_eq!(sum, result.counters[name], "{name}");
        }
    }
    let free: u64 = zones.iter().map(|z| z.free).sum();
    assert_eq!(free, result.counters["nr_free_pages"]);
    assert_eq!(text.matches("    cpu: ").count(), 4);
}

/// Boosted watermarks are read without their boost.
#[test]
fn a_boost_has_its_line() {
    let grouped = mm::Policy {
        mobility: mm::policy::Mobility::Grouped,
        ..mm::Policy::linux_4_9()
    };
    let (_, text) = run(grouped, "watermark_boost_factor = 15000");
    assert_eq!(numbers(&text, "boost").len(), 2, "{text}");
    parse::zoneinfo(&text).expect("as a kernel's");
    let (_, text) = run(mm::Policy::linux_3_0(), "");
    assert!(numbers(&text, "boost").is_empty());
}

/// The engine's OOM report has the machine's zones and watermarks, and is explained as a kernel's.
#[test]
fn the_engine_s_oom_report_is_a_machine() {
    for preset in ["linux-3.1", "linux-6.12"] {
        let policy = mm::Policy::preset(preset).expect("a preset");
        let spec = spec(policy, "", "desktop -w 80M -p 4K -i 50ms -t 2s");
        let Outcome::Oom { report } = sim::run(&spec, &Control::default()).outcome else {
            panic!("{preset}: memory did not run out");
        };
        let reports = machine::dmesg::parse(&report).expect("a report");
        let first = &reports[0];
        assert_eq!(first.killed[0].name, "desktop", "{preset}");
        let (captured, _) = machine::dmesg::captured(first).expect("zones");
        let described =
            machine::describe::describe(&captured, &machine::describe::Options::default());
        let zones = &described.expect("a machine").machine.nodes[0].zones;
        assert_eq!(*zones, spec.machine.nodes[0].zones, "{preset}");
        let told = machine::dmesg::explain(first).join("\n");
        assert!(
            told.contains("without swap nothing of theirs can be reclaimed"),
            "{told}"
        );
    }
}
