//! `lowmark policies`.

use crate::cli::Policies;
use crate::text;
use front::failure::Failure;
use serde_json::json;

/// Lists the eviction policies with short descriptions, as a table or JSON.
pub fn run(args: &Policies) -> Result<(), Failure> {
    if args.json {
        let rows: Vec<_> = replay::policies()
            .map(|e| json!({ "name": e.name, "about": e.about }))
            .collect();
        return text::print_json(&rows);
    }
    let mut table = text::listing().table(["policy", "what it does"]);
    for entry in replay::policies() {
        table.add_row([entry.name, entry.about]);
    }
    text::print(&format!("{table}\n"))
}
