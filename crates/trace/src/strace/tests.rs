use super::*;

/// Returns the records of a log, as text.
fn records(text: &str) -> Vec<String> {
    let (mut strace, mut tables, mut out) = (Strace::new(), Tables::default(), Vec::new());
    for line in text.lines().filter(|l| !l.is_empty()) {
        let line = line.replacen(' ', " 1795247166.", 1);
        if let Err(e) = strace.line(line.as_bytes(), &mut tables, &mut out) {
            panic!("{line}: {e:?}");
        }
    }
    out.iter()
        .map(|r| {
            let (file, process) = (
                &tables.files[r.file as usize],
                &tables.processes[r.process as usize],
            );
            format!(
                "{process} {} {file}#{} {}+{}",
                r.op.name(),
                r.file,
                r.offset,
                r.len
            )
        })
        .collect()
}

#[test]
fn positions_follow_reads_writes_and_seeks() {
    assert_eq!(
        records(
            r#"
1 000001 openat(AT_FDCWD, "a, (b)\n", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3 <0.000001>
1 000002 write(3, "x) = 7 <"..., 100) = 100 <0.000001>
1 000003 pwrite64(3, "", 10, 1000) = 10 <0.000001>
1 000004 write(3, "\"\\", 5)   = 5 <0.000001>
1 000005 lseek(3, 4, SEEK_SET) = 4 <0.000001>
1 000006 read(3, "", 10) = 10 <0.000001>
1 000007 read(3, 0x7ff, 10) = -1 EIO (Input/output error) <0.000001>
1 000008 ftruncate(3, 50) = 0 <0.000001>
1 000009 fsync(3) = 0 <0.000001>
1 000010 close(3) = 0 <0.000001>"#
        ),
        [
            "1 create-empty a, (b)\n#0 0+0",
            "1 write a, (b)\n#0 0+100",
            "1 write a, (b)\n#0 1000+10",
            "1 write a, (b)\n#0 100+5",
            "1 read a, (b)\n#0 4+10",
            "1 truncate a, (b)\n#0 50+0",
            "1 fsync a, (b)\n#0 0+0",
            "1 close a, (b)\n#0 0+0",
        ]
    );
}

#[test]
fn children_inherit_descriptors_and_share_positions() {
    assert_eq!(
        records(
            r#"
1 000001 chdir("/d/./e/..") = 0 <0.000001>
1 000002 openat(AT_FDCWD, "f", O_RDONLY) = 3 <0.000001>
1 000003 vfork( <unfinished ...>
2 000004 read(3, "", 10) = 10 <0.000001>
2 000005 close(3) = 0 <0.000001>
1 000006 <... vfork resumed>) = 2 <0.000001>
1 000007 read(3,  <unfinished ...>
2 000008 openat(AT_FDCWD, "/d/f", O_WRONLY|O_APPEND|O_CLOEXEC) = 3 <0.000001>
1 000009 <... read resumed>"", 5) = 5 <0.000001>
2 000010 dup2(3, 9) = 9 <0.000001>
2 000011 execve("/x", [], 0x1 /* 3 vars, ( */) = 0 <0.000001>
2 000012 write(3, "", 1) = 1 <0.000001>
2 000013 write(9, "", 1) = 1 <0.000001>
2 000014 +++ exited with 0 +++
1 000015 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES) = 3 <0.000001>
3 000016 close(3) = 0 <0.000001>
1 000017 read(3, "", 1) = 1 <0.000001>"#
        ),
        [
            "1 open /d/f#0 0+0",
            "2 read /d/f#0 0+10",
            "1 read /d/f#0 10+5",
            "2 open /d/f#0 0+0",
            "2 write /d/f#0 15+1",
            "2 close /d/f#0 0+0",
            "3 close /d/f#0 0+0",
        ]
        .map(String::from)
        .into_iter()
        // An open may come before a read that started earlier and ended later.
        .enumerate()
        .map(|(i, r)| match i {
            2 => "2 open /d/f#0 0+0".to_owned(),
            3 => "1 read /d/f#0 10+5".to_owned(),
            _ => r,
        })
        .collect::<Vec<_>>()
    );
}

#[test]
fn close_range_closes_now_or_at_exec() {
    assert_eq!(
        records(
            r#"
1 000001 openat(AT_FDCWD, "f", O_RDONLY) = 3 <0.000001>
1 000002 dup2(3, 9) = 9 <0.000001>
1 000003 dup2(3, 20) = 20 <0.000001>
1 000004 close_range(15, 4294967295, 0) = 0 <0.000001>
1 000005 read(20, "", 4) = 4 <0.000001>
1 000006 close_range(5, 4294967295, CLOSE_RANGE_CLOEXEC) = 0 <0.000001>
1 000007 read(9, "", 1) = 1 <0.000001>
1 000008 execve("/x", [], 0x1 /* 3 vars */) = 0 <0.000001>
1 000009 read(9, "", 2) = 2 <0.000001>
1 000010 read(3, "", 3) = 3 <0.000001>"#
        ),
        ["1 open f#0 0+0", "1 read f#0 0+1", "1 read f#0 1+3"]
    );
}

#[test]
fn files_keep_their_identity_across_names() {
    assert_eq!(
        records(
            r#"
1 000001 creat("d/a", 0600) = 3 <0.000001>
1 000002 openat(AT_FDCWD, "b", O_RDONLY) = 4 <0.000001>
1 000003 rename("d/a", "b") = 0 <0.000001>
1 000004 openat(AT_FDCWD, "b", O_RDONLY) = 5 <0.000001>
1 000005 openat(AT_FDCWD, "d/a", O_RDONLY) = 6 <0.000001>
1 000006 rename("d", "e") = 0 <0.000001>
1 000007 link("e/a", "c") = 0 <0.000001>
1 000008 unlink("e/a") = 0 <0.000001>
1 000009 unlinkat(AT_FDCWD, "c", 0) = 0 <0.000001>
1 000010 unlink("nowhere") = 0 <0.000001>"#
        ),
        [
            "1 create-empty d/a#0 0+0",
            "1 open b#1 0+0",
            "1 unlink b#1 0+0",
            "1 open d/a#0 0+0",
            "1 open d/a#2 0+0",
            "1 unlink d/a#2 0+0",
            "1 unlink nowhere#3 0+0",
        ]
    );
}

#[test]
fn broken_lines_are_faults() {
    for line in [
        "",
        "x",
        "1 2",
        "1 1795247166.640568",
        "1 1795247166.640568 write(1, \"hi",
        "1 1795247166.640568 write(1, \"hi\", 3)",
        "1 1795247166.640568 write(1, \"hi\", 3) = ",
        "1 1795247166.640568 write(1, \"hi\", 3) = x",
        "1 1795247166.640568 openat(AT_FDCWD) = 3 <0.000001>",
        "1 25:00:01 write(1, \"hi\", 3) = 3",
    ] {
        let (mut strace, mut tables) = (Strace::new(), Tables::default());
        let result = strace.line(line.as_bytes(), &mut tables, &mut Vec::new());
        assert!(result.is_err(), "{line}");
    }
}

/// 100,000 processes, each made while those before it are still in a call, all alive: a walk over
/// all of them for each took minutes.
#[test]
fn many_processes_are_read_in_one_pass() {
    let (mut strace, mut tables, mut out) = (Strace::new(), Tables::default(), Vec::new());
    let mut line = |text: String, out: &mut Vec<Record>| {
        let done = strace.line(text.as_bytes(), &mut tables, out);
        done.unwrap_or_else(|e| panic!("{text}: {e:?}"));
    };
    for i in 0..100_000 {
        let (pid, at) = (100 + i, format!("1795247166.{i:06}"));
        line(
            format!("{pid} {at} clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>"),
            &mut out,
        );
        let open = format!("openat(AT_FDCWD, \"f{i}\", O_RDONLY) = 3 <0.000001>");
        line(format!("{} {at} {open}", 1_000_000 + i), &mut out);
        let by_dir = "openat(3, \"x\", O_RDONLY) = 4 <0.000001>".to_owned();
        line(format!("{} {at} {by_dir}", 1_000_000 + i), &mut out);
    }
    assert_eq!(tables.processes.len(), 200_000);
    assert_eq!(tables.files[1], "f0/x");
    assert_eq!(out.len(), 200_000);
}

/// Returns the times of a log's records, in microseconds, or the message of the first error.
fn times(text: &str) -> Result<Vec<u64>, String> {
    let (mut strace, mut tables, mut out) = (Strace::new(), Tables::default(), Vec::new());
    for line in text.lines().filter(|l| !l.is_empty()) {
        assert!(is_call(line.as_bytes()), "not recognised: {line}");
        strace
            .line(line.as_bytes(), &mut tables, &mut out)
            .map_err(|e| e.message)?;
    }
    Ok(out.iter().map(|r| r.time_ns / 1000).collect())
}

#[test]
fn each_form_of_time_gives_the_same_times() {
    let forms = [
        // -ttt, and --absolute-timestamps=unix,precision:ns
        [
            "7 1795247166.000100 ",
            "7 1795247166.500100 ",
            "7 1795247168.000000 ",
        ],
        [
            "1795247166.000100000 ",
            "1795247166.500100000 ",
            "1795247168.000000000 ",
        ],
        // -tt, with and without a pid
        [
            "7 22:13:20.000100 ",
            "7 22:13:20.500100 ",
            "7 22:13:22.000000 ",
        ],
        ["22:13:20.000100 ", "22:13:20.500100 ", "22:13:22.000000 "],
        [
            "[pid    7] 22:13:20.000100 ",
            "[pid    7] 22:13:20.500100 ",
            "[pid 7] 22:13:22.000000 ",
        ],
        // -r, alone and beside another form
        ["7      0.000000 ", "7      0.500000 ", "7      1.499900 "],
        ["     0.000000 ", "     0.500000 ", "     1.499900 "],
        [
            "7 22:13:20.000100 (+     0.000000) ",
            "7 22:13:20.500100 (+     0.500000) ",
            "7 22:13:22.000000 (+     1.499900) ",
        ],
        // Past midnight.
        [
            "7 23:59:59.000100 ",
            "7 23:59:59.500100 ",
            "7 00:00:01.000000 ",
        ],
    ];
    let calls = [
        r#"openat(AT_FDCWD, "f", O_RDWR) = 3"#,
        r#"pread64(3, "", 10, 0) = 10"#,
        "fsync(3) = 0",
    ];
    for form in forms {
        let lines: Vec<String> = form
            .iter()
            .zip(calls)
            .map(|(t, c)| format!("{t}{c}"))
            .collect();
        assert_eq!(
            times(&lines.join("\n")),
            Ok(vec![0, 500_000, 1_999_900]),
            "{form:?}"
        );
    }
    // -t and precision:s have whole seconds.
    for form in ["22:13:20 ", "7 22:13:20 ", "1795247166 ", "7 1795247166 "] {
        let lines: Vec<String> = calls.iter().map(|c| format!("{form}{c}")).collect();
        assert_eq!(times(&lines.join("\n")), Ok(vec![0, 0, 0]), "{form}");
    }
}

#[test]
fn a_log_without_times_is_refused_with_the_way_to_record_one() {
    for head in ["", "7 ", "[pid 7] "] {
        let line = format!("{head}{}", r#"openat(AT_FDCWD, "f", O_RDWR) = 3"#);
        assert!(
            times(&line)
                .unwrap_err()
                .starts_with("no time before the call:"),
            "{line}"
        );
    }
    for other in [
        "f(x),1,2",
        "sum (a) of b",
        "7 f(x)",
        "12 1.5 f",
        "25:00:00 f(1) = 2",
    ] {
        assert!(!is_call(other.as_bytes()), "{other}");
    }
}
