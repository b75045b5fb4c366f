use super::*;
use crate::programs::Command;
use crate::script::{Script, parse};

fn program(line: &str) -> Simoop {
    let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    match &script.steps[0] {
        crate::Step::Foreground(p) => match &p.commands[0] {
            Command::Simoop(s) => s.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

const PUBLISHED: &str = "simoop -t 128 -m 50 -M 128 -C 14 -r 60000 -f 2 -T 20 -R1 -W1 -i 60 -w 300 \
                         -D 2 /mnt/scratch";
const FIRST: &str = "simoop -t 512 -m 190 -M 128 -C 28 -r 60000 -f 70 -T 20 -R1 -W1 -i 60 -w 300 -D 2 \
                     /hammer/0 /hammer/1 /hammer/2";

#[test]
fn both_published_command_lines_are_read() {
    let s = program(PUBLISHED);
    let sizes = (s.working_set, s.allocation, s.file_size, s.read, s.write);
    assert_eq!(sizes, (50, 128, 2, 1, 1));
    assert_eq!((s.threads, s.cpu_threads, s.du_threads), (128, 14, 2));
    assert_eq!((s.runtime, s.warm_up, s.interval), (60_000, 300, 60));
    assert_eq!((s.io_threads, s.keep), (20, false));
    // Two file names per thread in turn.
    assert_eq!((s.children(), s.files()), (145 + 128 * 20, 2 * 128 * 20));
    let kept = program(&format!("{PUBLISHED} --keep 1"));
    assert_eq!(kept.files(), 128 * 20);
    let s = program(FIRST);
    assert_eq!((s.threads, s.working_set, s.file_size), (512, 190, 70));
    assert_eq!(s.paths.len(), 3);
    let long = "simoop --threads=128 --memory 50 --mmapsize=128 --cputhreads 14 --runtime 60000 \
                --filesize 2 --readthreads 20 --readsize=1 --writesize 1 --interval 60 \
                --warmuptime 300 --duthreads 2 --numfiles 65536 /mnt/scratch";
    assert_eq!(program(long), program(PUBLISHED));
}

#[test]
fn files_and_directories_are_there_before() {
    let script = parse("simoop -n 1500 -f 3 -t 5 -T 3 b /a/").unwrap();
    let Script {
        files, directories, ..
    } = &script;
    assert_eq!(
        *directories,
        [
            "b",
            "b/dir0000",
            "b/dir0001",
            "/a/",
            "/a//dir0000",
            "/a//dir0001"
        ]
    );
    assert_eq!((files.len(), files[0].len), (3000, 3 << 20));
    assert_eq!(files[1499].path, "b/dir0001/file0475");
    assert_eq!(files[1500].path, "/a//dir0000/file0000");
    assert_eq!((script.files_made(), script.children()), (30, 1 + 5 * 4));
    // The same files named twice are one set, of the larger length.
    let twice = parse("simoop -n 9 -f 3 b & simoop -n 8 -f 4 b").unwrap();
    let lengths: Vec<u64> = twice.files.iter().map(|f| f.len >> 20).collect();
    assert_eq!(lengths, [4, 4, 4, 4, 4, 4, 4, 4, 3]);
    assert_eq!(twice.directories, ["b", "b/dir0000"]);
}

#[test]
fn what_is_not_accepted_is_named_and_placed() {
    for (line, place) in [
        ("simoop", "simoop"),
        ("simoop -t 4", "simoop -t 4"),
        ("simoop -t 0 a", "0"),
        ("simoop -t0 a", "0"),
        ("simoop -t 4097 a", "4097"),
        ("simoop -m +5 a", "+5"),
        ("simoop -M 1.5 a", "1.5"),
        ("simoop a -r", "-r"),
        ("simoop --runtime= a", "--runtime="),
        ("simoop --run 5 a", "--run"),
        ("simoop -x 5 a", "-x"),
        ("simoop -x5 a", "-x5"),
        ("simoop -é5 a", "-é5"),
        ("simoop /", "/"),
        ("simoop ''", "''"),
        ("simoop -n 1048576 a b", "simoop -n 1048576 a b"),
        ("simoop -t 4096 -T 9 a", "simoop -t 4096 -T 9 a"),
    ] {
        let e = parse(line).expect_err(line);
        assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        assert!(!e.accepted.is_empty());
    }
}
