//! `lowmark explain`.

use crate::cli::Explain;
use crate::failure::Failure;
use crate::text;
use lab::rows::explain::{entries, explain, list};

/// Says what a name means, or lists every name.
pub fn run(args: &Explain) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        return if args.json {
            text::print_json(&entries().map(|e| e.parts()).collect::<Vec<_>>())
        } else {
            text::print(&list())
        };
    };
    let found = explain(name).map_err(|near| {
        let help = if near.is_empty() {
            "`lowmark explain` lists every name".to_owned()
        } else {
            format!(
                "near: {}; `lowmark explain` lists every name",
                near.join(", ")
            )
        };
        Failure::Input(miette::miette!(help = help, "nothing is called `{name}`"))
    })?;
    if args.json {
        return text::print_json(&found.iter().map(|e| e.parts()).collect::<Vec<_>>());
    }
    let texts: Vec<String> = found.iter().map(|e| e.to_text()).collect();
    text::print(&texts.join("\n"))
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

    #[test]
    fn an_unknown_name_is_wrong_input_with_near_names() {
        let Err(Failure::Input(report)) = asked("kswapd_steel") else {
            panic!("not refused as input");
        };
        assert!(report.to_string().contains("kswapd_steel"));
        let help = report.help().expect("near names").to_string();
        assert!(help.starts_with("near: kswapd_steal"), "{help}");
        asked("kswapd_steal").expect("it is known");
    }
}
