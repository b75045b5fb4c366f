//! `lowmark params`.

use crate::cli::Params;
use crate::text;
use front::failure::Failure;
use lab::terminal::spaced;
use sim::params::ParamInfo;
use std::fmt::Write as _;

/// Lists every parameter of the model with its value, unit, range and source, as a table or JSON.
pub fn run(args: &Params) -> Result<(), Failure> {
    let rows: &[ParamInfo] = sim::Params::TABLE;
    if args.json {
        return text::print_json(&rows);
    }
    let screen = text::listing();
    let mut out = String::new();
    for p in rows {
        let unit = spaced(p.unit);
        let _ = writeln!(
            out,
            "{} = {}{unit}, {} to {}",
            p.name, p.value, p.min, p.max
        );
        let fitted = match p.fitted.is_empty() {
            true => String::new(),
            false => format!("; fitted to {}", p.fitted.join(", ")),
        };
        out += &screen.broken(&format!("    {}{fitted}\n", p.source));
    }
    text::print(&out)
}
