use sim::spec::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let kind = match a[1].as_str() {
        "xfs" => FsKind::Xfs,
        "ext4" => FsKind::Ext4,
        "btrfs" => FsKind::Btrfs,
        "ext3" => FsKind::Ext3,
        _ => FsKind::FuseNtfs,
    };
    let mut policy = mm::Policy::linux_3_1();
    if a[2] == "pz" {
        policy.dirty_limits = mm::policy::DirtyLimits::PerZone;
    }
    if a[2] == "wfr" {
        policy.kswapd_writeback = mm::policy::ReclaimWriteback::InTrouble;
        policy.direct_writeback = mm::policy::ReclaimWriteback::Never;
        policy.immediate_reclaim = true;
        policy.reclaim_throttle = mm::policy::ReclaimThrottle::Writeback;
    }
    if a[2] == "30" {
        policy = mm::Policy::linux_3_0();
    }
    let seed: u64 = a[3].parse().unwrap();
    let check: u64 = a.get(4).map_or(0, |v| v.parse().unwrap());
    let count = a.get(5).cloned().unwrap_or("$((10 << 15))".into());
    let mut params = sim::Params::default();
    for kv in a.iter().skip(6) {
        let (k, v) = kv.split_once('=').unwrap();
        params.set(k, v.parse().unwrap()).unwrap();
    }
    let z = |zone, mb: u64| ZoneSpec {
        zone,
        size: Size(mb << 20),
    };
    use mm::zone::ZoneType::*;
    let spec = RunSpec {
        machine: Machine {
            name: "3765M".into(),
            cpus: std::env::var("CPUS").map_or(4, |v| v.parse().unwrap()),
            hz: 250,
            nodes: vec![NodeSpec {
                zones: vec![z(Dma, 15), z(Dma32, 3246), z(Normal, 504)],
            }],
            boot: Boot {
                dma: Size(1 << 20),
                kernel: Size(std::env::var("KERN").map_or(120, |v| v.parse().unwrap()) << 20),
                anon: Size(std::env::var("ANON").map_or(100, |v| v.parse().unwrap()) << 20),
                cache: Size(60 << 20),
            },
            swap: None,
            sysctl: Sysctl {
                dirty_ratio: 40,
                ..Default::default()
            },
            disk: DiskSpec {
                kind: DiskKind::UsbFlash,
                capacity: Size(16 << 30),
                members: None,
                faults: vec![],
            },
        },
        filesystem: kind,
        policy,
        workload: workload::parse(&format!(
            "dd if=/dev/zero of=disk/zeroes bs=32k count={count}"
        ))
        .unwrap(),
        params,
        seed,
        sample_ns: 0,
        check_ns: check,
        track_pages: false,
        time_limit_ns: 4_000_000_000_000,
    };
    let t = std::time::Instant::now();
    let r = sim::run(&spec, &sim::Control::default());
    println!(
        "{} {} seed {seed}: {:?} elapsed {:.2} sim {:.1} wall {:.2} digest {:x}",
        a[1],
        a[2],
        r.outcome,
        r.metrics.get("elapsed").map_or(-1.0, |m| m.value),
        r.sim_ns as f64 / 1e9,
        t.elapsed().as_secs_f64(),
        r.digest
    );
    if std::env::var("V").is_ok() {
        for (k, v) in &r.counters {
            if *v > 0 {
                println!("   {k} {v}");
            }
        }
        for (p, h) in &r.alloc_latency.paths {
            println!(
                "   {p}: n {} p50 {} p99 {} max {}",
                h.len(),
                h.value_at_quantile(0.5),
                h.value_at_quantile(0.99),
                h.max()
            );
        }
    } else {
        for k in [
            "nr_vmscan_write",
            "pgactivate",
            "allocstall",
            "pgalloc_normal",
            "pgalloc_dma32",
            "pgsteal_normal",
            "pgscan_kswapd_normal",
        ] {
            print!("  {k}={}", r.counters.get(k).unwrap_or(&0));
        }
        println!();
    }
}
