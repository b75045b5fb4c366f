//! Arbitrary command lines and fio jobs cause no panic, and the place of an error lies in the text.

use trace::damage::{AMOUNT, feed};

fn samples(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn command_lines(seed: u64, texts: &[&str]) {
    for text in texts {
        workload::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    let mut accepted = 0_u64;
    feed(seed, &samples(texts), AMOUNT, |bytes| {
        let line = String::from_utf8_lossy(bytes);
        match workload::parse(&line) {
            Ok(_) => accepted += 1,
            Err(e) => {
                assert!(line.get(e.span.clone()).is_some(), "{line:?}: {e:?}");
                let _ = e.to_string();
            }
        }
    });
    // Some damaged lines are still valid, and are laid out to the end.
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn ten_million_bytes_as_shell() {
    command_lines(
        1,
        &[
            "dd if=/dev/zero of=a bs=4k count=$(( (3+4) * 2 << 1 )) && dd if=a of=/dev/null &\nwait",
            "dd if=/dev/zero of=\"b c\" bs=1M count=1; dd if='b c' of=d\\ e; dd of=e if=/dev/zero count=010",
            "wait; dd if=/dev/zero of=x count=$(( 0x10 | 7 % 3 - ~1 )) & wait",
        ],
    );
}

#[test]
fn ten_million_bytes_as_dd() {
    command_lines(
        2,
        &[
            "dd if=/dev/zero of=disk/zeroes bs=32k count=$((10 << 15))",
            "dd if=/dev/zero of=a ibs=4k obs=8K count=1k seek=2 conv=notrunc,fsync",
            "dd if=a of=/dev/null bs=1MB skip=3 count=9 iflag=fullblock",
        ],
    );
}

#[test]
fn ten_million_bytes_as_fs_mark() {
    command_lines(
        3,
        &[
            "fs_mark -d A -d B -D 100 -N 37 -n 37 -L 25 -S0 -s 10485760",
            "fs_mark -d DIR -D 100 -N 150 -n 150 -L 25 -t 1 -S1 -s 4096 -w 4096 -k",
        ],
    );
}

#[test]
fn ten_million_bytes_as_mmap_strm() {
    command_lines(
        4,
        &[
            "mmap-strm -t 4",
            "mmap-strm -t 4 -d here --stream 10 --mixed 3.9 --file-share 50 --file-passes 10 --anon-passes 5 --memory 512M",
        ],
    );
}

#[test]
fn ten_million_bytes_as_fio_jobs() {
    let texts = [
        include_str!("../../../experiments/eviction.fio"),
        "; a comment\n[global]\nrw=randrw\nbs=4k,8k\nsize=64m\nrwmixread=70\nfsync=32\nthinktime=10\n\
         directory=d\n[one]\nnumjobs=4\niodepth=8\nrandom_distribution=zipf:1.2\nruntime=10s\n\
         time_based\nramp_time=1s\nrate=1m,2m\n[two]\nstonewall\nrw=write\nio_size=128m\n\
         filename=f\nend_fsync=1\nstartdelay=5ms\nrandom_distribution=pareto:0.3\nnorandommap\n",
    ];
    for text in texts {
        workload::fio::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    let mut accepted = 0_u64;
    feed(5, &samples(&texts), AMOUNT, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match workload::fio::parse(&text) {
            Ok(jobs) => {
                let _ = jobs.script();
                accepted += 1;
            }
            Err(e) => {
                assert!(text.get(e.span.clone()).is_some(), "{text:?}: {e:?}");
                let _ = e.to_string();
            }
        }
    });
    assert!(accepted > 100, "{accepted}");
}
