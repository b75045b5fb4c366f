//! Writes a report from synthetic data, to look at the page without running an experiment.
//!
//! `cargo run -p lab --example sample_report -- OUT.html`

mod sample;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(out), None) = (args.next(), args.next()) else {
        eprintln!("usage: sample_report OUT.html");
        return ExitCode::from(2);
    };
    let page = lab::report::html(&sample::report());
    match std::fs::write(&out, page) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}: {e}", out.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}
