//! `lowmark policies`.

use crate::cli::Policies;
use crate::failure::Failure;
use crate::text;
use serde_json::json;

/// Lists the eviction policies with short descriptions, as a table or JSON.
pub fn run(args: &Policies) -> Result<(), Failure> {
    if args.json {
        let rows: Vec<_> = replay::policies()
            .map(|e| json!({ "name": e.name, "about": e.about }))
            .collect();
        return text::print_json(&rows);
    }
    let mut table = text::table_on(text::listing(), ["policy", "what it does"]);
    for entry in replay::policies() {
        table.add_row([entry.name, entry.about]);
    }
    text::print(&format!("{table}\n"))
}
