//! `lowmark explain`.

use crate::cli::Explain;
use crate::text;
use front::failure::Failure;
use lab::reference;
use lab::rows::explain::{Parts, entries, list};
use std::fmt::Write as _;

/// Explains the name of a row, counter, figure or word, or lists all names. An unknown name is an
/// error that gives similar ones.
pub fn run(args: &Explain) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        return if args.json {
            let words = entries().map(|e| e.parts());
            let all: Vec<Parts> = words.chain(reference::entries().iter().cloned()).collect();
            text::print_json(&all)
        } else {
            text::print(&(list() + &reference_list()))
        };
    };
    let found = reference::find(name).map_err(|near| {
        let help = if near.is_empty() {
            "`lowmark explain` lists every name".to_owned()
        } else {
            format!(
                "similar names: {}; `lowmark explain` lists every name",
                near.join(", ")
            )
        };
        Failure::Input(miette::miette!(help = help, "unknown name `{name}`"))
    })?;
    if args.json {
        return text::print_json(&found);
    }
    let texts: Vec<String> = found.iter().map(Parts::to_text).collect();
    text::print(&texts.join("\n"))
}

/// Lists the names of the reference as text, below a heading for each kind.
fn reference_list() -> String {
    let mut out = String::new();
    let mut kind = "";
    for e in reference::entries() {
        if e.kind != kind {
            kind = e.kind;
            let _ = writeln!(out, "\n{kind}");
        }
        // Some names begin with a prefix and `: `, which the list leaves out.
        let label = e.name.split_once(": ").map_or(e.name, |(_, l)| l);
        let _ = writeln!(out, "  {label}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str) -> Result<(), Failure> {
        run(&Explain {
            name: Some(name.into()),
            json: true,
        })
    }

    /// The words of `mrc`'s screen: every policy, and those of the verdict and the tables.
    #[test]
    fn words_of_miss_ratio_curves_are_known() {
        let policies = replay::policies().map(|e| e.name);
        let words = [
            "bound",
            "bounds overlap",
            "ties",
            "size by size",
            "objects",
            "requests",
            "sample",
            "miniature",
            "miss ratio",
            "ghosts",
            "stall",
            "longest stall",
            "dirty pages met",
            "pages written",
        ];
        for word in policies.chain(words) {
            asked(word).unwrap_or_else(|e| panic!("{word}: {e:?}"));
        }
        let lru = reference::find("lru").expect("known");
        assert!(lru.iter().any(|e| e.definition.contains("eviction policy")));
    }

    #[test]
    fn an_unknown_name_is_wrong_input_with_near_names() {
        let Err(Failure::Input(report)) = asked("kswapd_steel") else {
            panic!("not refused as input");
        };
        assert!(report.to_string().contains("kswapd_steel"));
        let help = report.help().expect("near names").to_string();
        assert!(help.starts_with("similar names: kswapd_steal"), "{help}");
        asked("kswapd_steal").expect("it is known");
    }
}
