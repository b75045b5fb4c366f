//! A trial.
use kernel::{disk::Disk, process::Process, server::*, store::Store};
use sim::spec::{DiskKind, DiskSpec, Size};
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let linux = std::env::args().nth(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    std::process::Command::new("cp")
        .arg("--sparse=always")
        .arg(format!("{dir}/disk0.img"))
        .arg(&disk)
        .status()
        .unwrap();
    let store = Store::new(
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&disk)
            .unwrap(),
    )
    .unwrap();
    let spec = DiskSpec::new(DiskKind::Disk, Size(store.capacity()));
    let d = Disk::new(&spec, &sim::Params::default(), 1, "disk", store);
    let mut server = Server::new(folder.path(), vec![d]).unwrap();
    let mut args: Vec<String> = [
        "mem=512M",
        "con=null",
        "con0=null,fd:1",
        "init=/init",
        "panic=1",
        "loglevel=4",
        "root=/dev/ram0",
    ]
    .map(String::from)
    .to_vec();
    args.push(format!("initrd={dir}/initrd"));
    args.push(format!("time-travel=ext:{CLOCK}"));
    args.push(format!("virtio_uml.device={}:2", port_name(0)));
    args.push("virtio_blk.queue_depth=1".into());
    args.extend(std::env::args().skip(3));
    let console = std::fs::File::create(format!("{dir}/console")).unwrap();
    let env = [
        ("HOME", ".".to_string()),
        ("TMPDIR", "/dev/shm".to_string()),
        ("LD_PRELOAD", format!("{dir}/seed.so")),
    ];
    let t = std::time::Instant::now();
    let mut p = Process::start(linux.as_ref(), &args, &env, folder.path(), console, &[]).unwrap();
    let ending = server.serve(
        Limits {
            time_ns: 0,
            patience: std::time::Duration::from_secs(30),
        },
        &Default::default(),
        &mut || p.alive(),
    );
    println!(
        "{ending:?} now {} messages {} digest {:x} {:?} wall {:?}",
        server.now(),
        server.messages(),
        server.disks().next().unwrap().digest(),
        server.disks().next().unwrap().done(),
        t.elapsed()
    );
    println!("{:?} peak {}", p.ended(2000), p.peak() >> 20);
}
