//! `lowmark-guest`: the first process of a guest, and the processes that it starts.

/// Runs as the guest's first process, or in the role that the arguments name. Returns 2 with a
/// message on failure.
#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use guest::init;

    if std::process::id() == 1 {
        init::life();
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let lived = match words[..] {
        [init::PROGRAMS] => init::run_programs(),
        [init::FOREIGN] => init::run_foreign(),
        [init::MEMBER, step, nth, start] => init::run_member(step, nth, start),
        [init::IDLE, bytes] => init::idle(bytes),
        _ => Err("it is the first process of a guest that lowmark boots".to_owned()),
    };
    match lived {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("lowmark-guest: {why}");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("lowmark-guest: it runs in Linux only");
    std::process::exit(2);
}
