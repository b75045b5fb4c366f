use super::*;

fn machine(nodes: &str) -> Machine {
    let text = format!(
        "name = \"m\"\ncpus = 4\nnode = {nodes}\ndisk = {{ kind = \"nvme\", capacity = \"1G\" }}\n"
    );
    toml::from_str(&text).unwrap()
}

const TWO: &str = "[{ zones = [{ zone = \"Normal\", size = \"512M\" }] }, \
                    { zones = [{ zone = \"Normal\", size = \"512M\" }] }]";

fn regions(nodes: &str) -> Vec<(u64, usize, u64, u64)> {
    let layout = Layout::of(&machine(nodes)).unwrap();
    let all = layout.regions.iter();
    all.map(|r| (r.at / MIB, r.node, r.offset / MIB, r.len / MIB))
        .collect()
}

#[test]
fn memory_lies_where_q35_has_it() {
    let one = "[{ zones = [{ zone = \"Normal\", size = \"1G\" }] }]";
    assert_eq!(regions(one), [(0, 0, 0, 1024)]);
    let large = "[{ zones = [{ zone = \"Normal\", size = \"4G\" }] }]";
    assert_eq!(regions(large), [(0, 0, 0, 2048), (4096, 0, 2048, 2048)]);
    let zones = "[{ zones = [{ zone = \"DMA32\", size = \"256M\" }, \
                  { zone = \"Normal\", size = \"768M\" }] }, \
                  { zones = [{ zone = \"Normal\", size = \"512M\" }] }]";
    assert_eq!(
        regions(zones),
        [(0, 0, 0, 256), (4096, 0, 256, 768), (4864, 1, 0, 512)]
    );
    assert_eq!(regions(TWO), [(0, 0, 0, 512), (512, 1, 0, 512)]);
}

#[test]
fn zones_that_no_such_machine_has_are_refused() {
    for (nodes, key, why) in [
        (
            "[{ zones = [{ zone = \"Normal\", size = \"512M\" }] }, \
              { zones = [{ zone = \"DMA32\", size = \"512M\" }] }]",
            "machine.node.1.zones.0.zone",
            "another node",
        ),
        (
            "[{ zones = [{ zone = \"HighMem\", size = \"512M\" }] }]",
            "machine.node.0.zones.0.zone",
            "32-bit",
        ),
        (
            "[{ zones = [{ zone = \"DMA\", size = \"16M\" }, \
              { zone = \"Normal\", size = \"512M\" }] }]",
            "machine.node.0.zones",
            "128 MiB",
        ),
        (
            "[{ zones = [{ zone = \"Normal\", size = \"64M\" }] }]",
            "machine.node",
            "64 MiB",
        ),
    ] {
        let (at, said) = Layout::of(&machine(nodes)).unwrap_err();
        assert_eq!(at, key);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn memory_is_mapped_and_shared() {
    use std::os::unix::fs::FileExt;
    use vm_memory::Bytes;
    let layout = Layout::of(&machine(
        "[{ zones = [{ zone = \"DMA32\", size = \"128M\" }, { zone = \"Normal\", size = \"1M\" }] }]",
    ))
    .unwrap();
    let (files, memory) = layout.make().unwrap();
    memory.write_obj(7_u8, GuestAddress(FOUR_GIB)).unwrap();
    let mut byte = [0];
    files[0].read_exact_at(&mut byte, 128 << 20).unwrap();
    assert_eq!(byte, [7]);
}

#[test]
fn cpus_are_spread_over_nodes() {
    let machine = machine(TWO);
    let layout = Layout::of(&machine).unwrap();
    let args = arguments(&machine, &layout, &[101, 102]).join(" ");
    for node in [
        "nodeid=0,memdev=m0,cpus=0,cpus=2 ",
        "nodeid=1,memdev=m1,cpus=1,cpus=3 ",
    ] {
        assert!(args.contains(node), "{args}");
    }
    assert!(args.contains("max-ram-below-4g=1024M"), "{args}");
}
