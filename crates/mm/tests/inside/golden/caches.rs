//! Caches of objects: inodes and dentries of an ordinary filesystem and of an XFS, and their
//! shrinkers.

use super::*;

/// Makes the files of a tree on one filesystem, directories among them; the first is the root.
fn plant(mm: &Engine, sb: u32, bdi: u32, n: u32) -> Vec<u32> {
    let files: Vec<u32> = (0..n)
        .map(|_| file(mm, MappingKind::File, bdi, 3))
        .collect();
    for (i, &ino) in files.iter().enumerate() {
        let parent = match i {
            0 => None,
            1..8 => Some(files[0]),
            _ => Some(files[1 + i % 7]),
        };
        mm.place_inode(ino, sb, parent, i as u32 % 4, i as u32 / 4);
    }
    files
}

/// Makes tasks that walk parts of a tree, beside a reader and anonymous memory that cause reclaim.
fn walks<'a>(mm: &'a Engine, files: Vec<u32>) -> Vec<Job<'a>> {
    let read = file(mm, MappingKind::File, 0, 2600);
    let mut jobs: Vec<Job<'a>> = Vec::new();
    let per_task = (files.len() - 8) / 3;
    for (i, part) in files[8..].chunks(per_task).take(3).enumerate() {
        let (part, dir) = (part.to_vec(), files[1 + i]);
        // The part also has entries of other directories; new files are made in the directory
        // given.
        jobs.push(Box::pin(async move {
            p::tree(mm, &part, dir, 2500, 50 + i as u64).await
        }));
    }
    jobs.push(Box::pin(async move {
        p::read_all(mm, read, 0, 2600).await;
        p::read_all(mm, read, 0, 2600).await;
    }));
    jobs.push(Box::pin(p::anonymous(mm, 1100, 3000, 77)));
    jobs.push(Box::pin(p::bursts(mm, 60, 110)));
    jobs.push(Box::pin(p::bursts(mm, 45, 90)));
    jobs
}

fn plain(name: &'static str, policy: Policy) {
    let mut s = Scenario::new(name, policy);
    s.zones = small_zones();
    s.supers = vec![SuperInfo {
        inode_bytes: 592,
        ags: 0,
        sync_interval: 0,
    }];
    s.play(|mm| {
        let files = plant(mm, 0, 0, 2600);
        walks(mm, files)
    });
}

#[test]
fn shrinkers_3_0() {
    plain("inodes-3.0", Policy::linux_3_0());
}

#[test]
fn shrinkers_3_1() {
    plain("inodes-3.1", Policy::linux_3_1());
}

#[test]
fn shrinkers_2_6_37() {
    plain("inodes-2.6.37", Policy::linux_2_6_37());
}

#[test]
fn shrinkers_by_node() {
    let mut s = Scenario::new("inodes-3.16", Policy::linux_3_16());
    s.supers = vec![SuperInfo {
        inode_bytes: 592,
        ags: 0,
        sync_interval: 0,
    }];
    s.zones = small_zones();
    s.zones.push(zone(1, ZoneType::Normal, 900));
    s.play(|mm| {
        let files = plant(mm, 0, 0, 2600);
        walks(mm, files)
    });
}

#[test]
fn shrinkers_by_priority() {
    let policy = Policy {
        shrinker_core: ShrinkerCore::ByPriority,
        ..Policy::linux_4_9()
    };
    plain("inodes-priority", policy);
}

fn xfs(name: &'static str, policy: Policy, manners: Manners) {
    let mut s = Scenario::new(name, policy);
    let xfs = SuperInfo {
        inode_bytes: 960,
        ags: 4,
        sync_interval: 1_500_000_000,
    };
    s.supers = vec![
        xfs,
        SuperInfo {
            inode_bytes: 592,
            ags: 0,
            sync_interval: 0,
        },
    ];
    let failing = DeviceSpec {
        fails_every: 23,
        ..DeviceSpec::DISK
    };
    s.devices = vec![failing, DeviceSpec::DISK, DeviceSpec::DISK];
    s.manners = manners;
    s.zones = small_zones();
    s.play(|mm| {
        let files = plant(mm, 0, 0, 2400);
        let others = plant(mm, 1, 1, 300);
        let mut jobs = walks(mm, files);
        let (part, dir) = (others[8..].to_vec(), others[1]);
        jobs.push(Box::pin(
            async move { p::tree(mm, &part, dir, 400, 60).await },
        ));
        jobs
    });
}

#[test]
fn xfs_that_blocks_3_0() {
    xfs("xfs-3.0", Policy::linux_3_0(), Manners::default());
}

#[test]
fn xfs_that_blocks_3_1() {
    xfs(
        "xfs-3.1",
        Policy::linux_3_1(),
        Manners {
            log_failures: 2,
            ..Manners::default()
        },
    );
}

#[test]
fn xfs_that_blocks_4_9() {
    xfs("xfs-4.9", Policy::linux_4_9(), Manners::default());
}

#[test]
fn xfs_that_does_not_block() {
    let policy = Policy {
        inode_reclaim: InodeReclaim::NonBlocking,
        ..Policy::linux_4_9()
    };
    xfs("xfs-non-blocking", policy, Manners::default());
}
