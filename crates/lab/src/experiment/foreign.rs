//! Reads a user's own program: `command = { run = "…", root = "DIR" }`.

use super::node::{Node, Table, Value};
use super::read::read;
use crate::diagnostic::{Diagnostic, one_of};
use std::path::Path;
use workload::{Foreign, Script};

/// The keys of the table.
const KEYS: [&str; 2] = ["run", "root"];

/// An example for error messages.
const EXAMPLE: &str = "accepted: { run = \"sqlite3 db.sqlite < /bench.sql\", root = \"DIR\" }, \
 a command line for /bin/sh and a folder with all files that it needs";

/// Returns the tables of users' own programs (`{ run, root }`) among the values of
/// `workload.command`; values that are command lines of Lowmark's programs are left out.
pub fn nodes(command: &Node) -> Vec<&Node> {
    let all = match &command.value {
        Value::List(list) => &list[..],
        _ => std::slice::from_ref(command),
    };
    all.iter().filter(|n| n.table().is_some()).collect()
}

/// Refuses a user's own program together with a policy of the engine, since only a real kernel can
/// run it. `policies` yields the name of each policy of the experiment, and true if it is a real
/// kernel.
///
/// # Errors
/// Fails if there is a user's program and a policy of the engine.
pub fn needs_kernels<'a>(
    workload: &Node,
    mut policies: impl Iterator<Item = (&'a str, bool)>,
) -> Result<(), Diagnostic> {
    let Some(program) = workload
        .at(&["command"])
        .and_then(|c| nodes(c).into_iter().next())
    else {
        return Ok(());
    };
    let Some((model, _)) = policies.find(|(_, kernel)| !kernel) else {
        return Ok(());
    };
    Err(Diagnostic::at(
        &program.place,
        format!(
            "`workload.command`: only a real kernel can run your own program, and policy `{model}` is a model"
        ),
        "accepted: only real kernels as policies, such as \"kernel:6.12\"; or a command line of Lowmark's own \
         programs",
    ))
}

/// Reads the table of a user's own program: the command line `run`, and the folder `root`, relative
/// to `folder`, which becomes the guest's root. Returns the script that runs it, with a digest of
/// the folder.
///
/// # Errors
/// Fails on a key that is missing, unknown or of the wrong type, and on a root that is no folder,
/// can't be read or has no `/bin/sh`.
pub fn script(node: &Node, table: &Table, folder: &Path) -> Result<Script, Diagnostic> {
    if let Some(e) = table.0.iter().find(|e| !KEYS.contains(&e.key.as_str())) {
        let what = format!("unknown key `workload.command.{}`", e.key);
        return Err(Diagnostic::at(&e.place, what, one_of(&e.key, &KEYS)));
    }
    let value = |key: &str| -> Result<(&Node, String), Diagnostic> {
        let path = format!("workload.command.{key}");
        let Some(value) = table.get(key) else {
            return Err(Diagnostic::at(
                &node.place,
                format!("missing key `{path}`"),
                EXAMPLE,
            ));
        };
        let text: String = read(value, &path)?;
        if text.trim().is_empty() || text.contains('\0') {
            let what =
                format!("`{path}`: not a command line or folder: empty, or with a NUL character");
            return Err(Diagnostic::at(&value.place, what, EXAMPLE));
        }
        Ok((value, text))
    };
    let (_, run) = value("run")?;
    let (at, name) = value("root")?;
    let wrong = |why: String| {
        Diagnostic::at(
            &at.place,
            format!("`workload.command.root`: {why}"),
            "accepted: a folder, relative to the experiment's file, laid out as the program's \
             root: /bin/sh, the program, its libraries",
        )
    };
    let root =
        std::path::absolute(folder.join(&name)).map_err(|e| wrong(format!("{name}: {e}")))?;
    let digest = kernel::image::folder_digest(&root).map_err(|e| wrong(e.to_string()))?;
    // The target of a link is a path in the guest, which need not exist here.
    if root.join("bin/sh").symlink_metadata().is_err() {
        return Err(wrong(format!(
            "{name} has no bin/sh, which runs the command line"
        )));
    }
    Ok(Foreign { run, root, digest }.script())
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::{Diagnostic, Source};
    use crate::experiment::{Overrides, parse};
    use crate::model::Experiment;
    use std::fs;
    use workload::Source as Origin;

    const MACHINE: &str = "name = \"m\"\ncpus = 1\n[[node]]\nzones = [{ zone = \"Normal\", \
        size = \"512M\" }]\n[disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n";

    /// Parses an experiment with this policy and command, beside the folders `root`, which has a
    /// shell, and `empty`.
    fn experiment(policy: &str, command: &str) -> Result<Experiment, Diagnostic> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/bin")).unwrap();
        fs::write(dir.path().join("root/bin/sh"), "").unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        let text = format!(
            "name = \"t\"\niterations = 1\npolicy = {policy}\nfilesystem = \"ext4\"\n\
             machine = \"m.toml\"\n[workload]\ncommand = {command}\n"
        );
        let files = |name: &str| Ok((name.to_owned(), MACHINE.to_owned()));
        let source = Source::new(dir.path().join("t.toml").display().to_string(), text);
        parse(&source, &files, &Overrides::default())
    }

    #[test]
    fn a_kernel_runs_any_program() {
        let command = "[{ run = \"sqlite3 a < b\", root = \"root\" }, \"dd if=/dev/zero of=a\"]";
        let e = experiment("\"kernel:6.12\"", command).unwrap();
        assert_eq!(e.axes, ["workload.command"]);
        let Origin::Foreign(program) = &e.cells[0].spec.workload.source else {
            panic!("{:?}", e.cells[0].spec.workload)
        };
        assert_eq!(program.run, "sqlite3 a < b");
        assert!(program.root.is_absolute() && program.digest.len() == 32);
        assert_eq!(e.cells[1].spec.workload.source, Origin::Line);
        let one = experiment("\"kernel:6.12\"", "{ run = \"true\", root = \"root\" }").unwrap();
        assert_eq!((one.cells.len(), one.axes.len()), (1, 0));
    }

    #[test]
    fn what_is_wrong_is_said_at_its_place() {
        let kernel = "\"kernel:6.12\"";
        let both = "[\"kernel:6.12\", \"linux-4.9\"]";
        for (policy, command, place, message) in [
            (
                both,
                "{ run = \"true\", root = \"root\" }",
                "{ run",
                "policy `linux-4.9` is a model",
            ),
            (
                kernel,
                "{ run = \"true\" }",
                "{ run",
                "missing key `workload.command.root`",
            ),
            (
                kernel,
                "{ run = \"\", root = \"root\" }",
                "\"\"",
                "not a command line",
            ),
            (
                kernel,
                "{ run = 3, root = \"root\" }",
                "3",
                "workload.command.run",
            ),
            (
                kernel,
                "{ run = \"a\", root = \"none\" }",
                "\"none\"",
                "is not a folder",
            ),
            (
                kernel,
                "{ run = \"a\", root = \"empty\" }",
                "\"empty\"",
                "has no bin/sh",
            ),
            (kernel, "{ run = \"a\", cwd = \"/\" }", "cwd", "unknown key"),
            (
                kernel,
                "[{ run = \"a\", root = \"root\" }, { run = \"a\", root = \"empty\" }]",
                "{ run",
                "is listed twice",
            ),
        ] {
            let e = experiment(policy, command).expect_err(command);
            assert!(e.message.contains(message), "{command}: {e}");
            assert!(e.accepted.contains("accepted"), "{command}: {}", e.accepted);
            let found = e.place.as_ref().unwrap().text();
            assert!(found.starts_with(place), "{command}: {found}");
        }
    }
}
