//! Measures how near a kernel comes to itself: judges figures of other runs of it by the kept ones,
//! as a preset is judged.
//!
//! ```text
//! cargo run --release -p lab --example beside_itself -- \
//!     data/validate/modern/6.12.json data/validate/modern-again/6.12.json
//! ```

use lab::diagnostic::Diagnostic;
use lab::terminal::Screen;
use lab::validate::score::{Form, Row, Verdict, to_text};
use lab::validate::{Pair, judged, kept};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kept, anew] = &args[..] else {
        eprintln!(
            "usage: beside_itself KEPT ANEW: two files that `lowmark validate --suite … --keep` wrote"
        );
        return ExitCode::from(2);
    };
    match verdict(Path::new(kept), Path::new(anew)) {
        Ok(verdict) => {
            print!("{}", to_text(&[verdict], Form::Text, Screen::default()));
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::from(2)
        }
    }
}

fn verdict(kept: &Path, anew: &Path) -> Result<Verdict, Diagnostic> {
    let (kept, anew) = (kept::read(kept)?, kept::read(anew)?);
    let figures = judged::figures();
    let rows = kept.scenarios.iter().filter_map(|(name, of)| {
        let again = anew.scenarios.get(name)?;
        let pair = Pair::of(&of.measured, &again.measured, &figures);
        Some(Row::new(name, pair))
    });
    let (kernel, rows) = (&kept.kernel, rows.collect());
    let again = format!("kernel:{}, once more,", anew.kernel);
    Ok(Verdict::new(kernel, &kept.release, &again, rows))
}
