//! `lowmark params`.

use crate::cli::Params;
use crate::failure::Failure;
use crate::text;
use sim::params::ParamInfo;

/// Lists every parameter.
pub fn run(args: &Params) -> Result<(), Failure> {
    let rows: &[ParamInfo] = sim::Params::TABLE;
    if args.json {
        return text::print_json(&rows);
    }
    let mut table = text::table(["name", "value", "unit", "range", "source", "fitted to"]);
    for p in rows {
        let range = format!("{} to {}", p.min, p.max);
        let (value, fitted) = (p.value.to_string(), p.fitted.join(", "));
        table.add_row([p.name, &value, p.unit, &range, p.source, &fitted]);
    }
    text::print(&format!("{table}\n"))
}
