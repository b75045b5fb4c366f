//! A trial.
use kernel::Kernel;
use kernel::build::{Request, Source, build};
use sim::spec::*;
use sim::{Params, RunSpec};

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (version, fs, command) = (&a[1], &a[2], &a[3]);
    let mib: u64 = a.get(4).map_or(512, |m| m.parse().unwrap());
    let built = build(
        &Request {
            source: Source::Debian(version.clone()),
            patches: vec![],
            fragments: vec![],
            name: None,
            costs: true,
        },
        &mut (),
    );
    match built {
        Ok(b) => eprintln!("{} {}", b.name, b.linux.display()),
        Err(e) => {
            eprintln!("{e}");
            return;
        }
    }
    let kind = if a.get(5).is_some_and(|k| k == "usb") {
        DiskKind::UsbFlash
    } else {
        DiskKind::Disk
    };
    let mut params = Params::default();
    if kind == DiskKind::UsbFlash {
        params.set("usb_write_bandwidth", 20.0).unwrap();
    }
    let machine = Machine {
        name: "m".into(),
        cpus: 1,
        params: Default::default(),
        hz: 250,
        nodes: vec![NodeSpec {
            zones: vec![ZoneSpec {
                zone: mm::ZoneType::Normal,
                size: Size(mib << 20),
            }],
            cpus: vec![],
        }],
        boot: Boot {
            kernel: Size(32 << 20),
            dma: Size(0),
            anon: Size(16 << 20),
            cache: Size(16 << 20),
        },
        swap: None,
        sysctl: Default::default(),
        disk: DiskSpec::new(kind, Size(16 << 30)),
        filesystem: None,
        mounts: vec![],
    };
    let fs = *FsKind::ALL.iter().find(|k| k.name() == fs).unwrap();
    let spec = RunSpec {
        machine,
        filesystem: fs,
        policy: mm::Policy::linux_4_9(),
        workload: workload::parse(command).unwrap(),
        changes: vec![],
        membind: None,
        monitors: false,
        params,
        seed: 1,
        sample_ns: 1_000_000_000,
        check_ns: 0,
        track_pages: false,
        time_limit_ns: 86_400_000_000_000,
    };
    let mut k = Kernel::new(version);
    k.costs = a.get(6).is_none_or(|c| c != "free");
    for _ in 0..2 {
        let (r, used) = kernel::run(&spec, &k, &Default::default());
        println!(
            "{:?} {:x} {:.1} s virtual {:.2} wall {:.2} cpu {} MiB",
            r.outcome,
            r.digest,
            r.sim_ns as f64 / 1e9,
            used.wall_ns as f64 / 1e9,
            used.cpu_ns as f64 / 1e9,
            used.peak_bytes >> 20
        );
        println!("{:?}", r.notes);
        for m in r.metrics {
            print!("{}={:.4}{} ", m.0, m.1.value, m.1.unit);
        }
        println!();
        for n in [
            "allocstall_normal",
            "allocstall_movable",
            "pgscan_kswapd",
            "pgscan_direct",
            "pgsteal_kswapd",
            "nr_dirtied",
            "nr_written",
            "pgpgout",
        ] {
            print!("{n}={:?} ", r.counters.get(n));
        }
        println!(
            "\nseries {} samples, {} columns",
            r.series.t.len(),
            r.series.columns.len()
        );
    }
}
