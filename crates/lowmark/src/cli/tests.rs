//! Tests of the command line's definition.

use super::*;

#[test]
fn the_definition_holds() {
    Cli::command().debug_assert();
}

#[test]
fn help_shows_only_what_this_build_can_do() {
    let help = Cli::command().render_long_help().to_string();
    for command in ["\n  bisect ", "\n  kernel "] {
        assert_eq!(help.contains(command), ::kernel::includes_guest(), "{help}");
    }
    assert_eq!(help.contains("Parquet"), cfg!(feature = "parquet"));
    let export = Cli::command()
        .find_subcommand_mut("export")
        .expect("a subcommand")
        .render_long_help()
        .to_string();
    assert_eq!(export.contains("--parquet"), cfg!(feature = "parquet"));
    assert!(export.contains("--jsonl"), "{export}");
}

#[test]
fn settings_are_split_at_the_first_equals_sign() {
    let dd = "workload.command=dd if=a of=b";
    assert_eq!(
        key_value(dd),
        Ok(("workload.command".into(), "dd if=a of=b".into()))
    );
    assert!(key_value("machine.cpus").is_err());
    assert!(key_value(" =2").is_err());
}

#[test]
fn a_trace_has_a_machine_and_a_policy_and_no_experiment() {
    let parse = |args: &[&str]| Cli::try_parse_from([&["lowmark", "run"], args].concat());
    for source in ["--trace", "--fio", "--fio-args"] {
        let Command::Run(run) = parse(&[source, "t"]).unwrap().command else {
            panic!("it runs")
        };
        let experiment = run.trace.run().unwrap();
        assert_eq!(experiment.policies, [POLICY]);
        assert_eq!(experiment.machine, MACHINE);
        let taken = run.trace.taken().unwrap();
        assert!(
            taken.contains(" --policy linux-6.12 --machine 512M (a computer of 2011: "),
            "{taken}"
        );
    }
    let cli = parse(&["e.toml", "--machine", "16G,8cpus,nvme"]).unwrap();
    let Command::Run(run) = cli.command else {
        panic!("{cli:?}")
    };
    assert_eq!(run.trace.of_experiment().as_deref(), Some("16G,8cpus,nvme"));
    assert!(parse(&["e.toml", "--trace", "t", "--machine", "m"]).is_err());
    let cli = parse(&["--trace", "t", "--machine", "m", "--policy", "a,b"]).unwrap();
    let Command::Run(run) = cli.command else {
        panic!("{cli:?}")
    };
    assert_eq!(run.trace.run().unwrap().policies, ["a", "b"]);
    assert_eq!(run.trace.taken(), None);
    assert!(parse(&[]).is_ok());
}

#[test]
fn counts_have_suffixes() {
    assert_eq!(count("10M"), Ok(10_000_000));
    assert_eq!(count("7"), Ok(7));
    for wrong in ["", "0", "M", "1K", "-1", "99999999999G"] {
        assert!(count(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn probes_are_bounded() {
    assert_eq!(probe_size("256M"), Ok(256 << 20));
    assert!(probe_size("1M").is_err() && probe_size("1P").is_err());
    assert_eq!(probe_time("60s"), Ok(Duration::from_secs(60)));
    assert_eq!(probe_time("5"), Ok(Duration::from_secs(5)));
    assert!(probe_time("0s").is_err() && probe_time("1h").is_err());
}

/// Arbitrary options cause no panic, and accepted values are within their bounds.
#[test]
fn arbitrary_options() {
    let samples = ["10M", "7k", "256M", "60s", "machine.cpus=2", " a = b=c"];
    let samples: Vec<Vec<u8>> = samples.iter().map(|s| s.as_bytes().to_vec()).collect();
    let mut taken = [0; 4];
    trace::damage::feed(1, &samples, trace::damage::AMOUNT, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(n) = count(&text) {
            assert!(n > 0, "{text}");
            taken[0] += 1;
        }
        if let Ok(size) = probe_size(&text) {
            let accepted = machine::probe::LEAST_SIZE..=machine::probe::MOST_SIZE;
            assert!(accepted.contains(&size), "{text}");
            taken[1] += 1;
        }
        if let Ok(time) = probe_time(&text) {
            assert!((2..=3600).contains(&time.as_secs()), "{text}");
            taken[2] += 1;
        }
        if let Ok((key, value)) = key_value(&text) {
            assert!(!key.is_empty() && !key.contains('='), "{text}");
            assert_eq!(value, value.trim(), "{text}");
            taken[3] += 1;
        }
    });
    assert!(taken.iter().all(|&n| n > 100), "{taken:?}");
}

/// The error of clap's own parser is about an option `-1`, and its tip `-- -1` would be read as
/// the experiment's name.
#[test]
fn a_negative_number_is_refused_as_a_value() {
    for (command, option) in [("run", "--seed"), ("run", "--jobs"), ("tune", "--seed")] {
        let Err(e) = parse(["lowmark", command, option, "-1"]) else {
            panic!("{option} -1 was taken")
        };
        let text = e.to_string();
        assert!(text.contains("invalid value '-1' for '--"), "{text}");
    }
}

#[test]
fn zero_is_refused_where_it_means_nothing() {
    for option in ["--jobs", "--iterations"] {
        assert!(Cli::try_parse_from(["lowmark", "run", option, "0"]).is_err());
    }
}
