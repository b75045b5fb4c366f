//! Reads policies that are real kernels: the name `kernel:BUILD`, or a table `[policies.NAME]` with
//! `kernel`.

use super::node::{Entry, Node, Value};
use super::read::read;
use crate::diagnostic::{Diagnostic, Place, one_of};
use kernel::Kernel;
use mm::size::Size;
use mm::sysctl::{self, Fits};
use std::collections::BTreeMap;

/// The prefix of a build's name used as a policy; a name without it is always the engine's.
pub const PREFIX: &str = "kernel:";

/// The keys of a kernel's table.
pub const KEYS: [&str; 5] = ["base", "kernel", "sysctl", "lru_gen", "costs"];

/// Sysctls of the engine that no kernel has: *tunable-watermarks* was never merged.
pub const OF_NO_KERNEL: [&str; 3] = ["wmark_min_kbytes", "wmark_low_kbytes", "wmark_high_kbytes"];

/// Longest value of a sysctl, in bytes: a page, the most that /proc/sys accepts in one write.
const MOST_VALUE: usize = 4095;

/// Returns the real kernel that a policy's name `kernel:BUILD` stands for; `None` if the name has
/// no `kernel:`, so that it is one of the engine's policies. Whether the build exists is not
/// checked here.
///
/// # Errors
/// Fails on a name after `kernel:` that no build can have.
pub fn by_name(name: &str, at: &Node) -> Result<Option<Kernel>, Diagnostic> {
    let Some(build) = name.strip_prefix(PREFIX) else {
        return Ok(None);
    };
    plain_build(build, &format!("policy `{name}`"), at)?;
    Ok(Some(Kernel::new(build)))
}

/// Refuses a name that no build of a kernel can have. `what` says in messages where the name
/// stands, and `at` is its place in the file.
fn plain_build(build: &str, what: &str, at: &Node) -> Result<(), Diagnostic> {
    kernel::build::check_name(build).map_err(|e| {
        let help = e.help().unwrap_or_default();
        Diagnostic::at(
            &at.place,
            format!("{what}: {e}"),
            format!("{help}; `lowmark kernel list` lists the built kernels"),
        )
    })
}

/// Reads the table of a policy that is a real kernel (`kernel`, `sysctl`, `lru_gen`, `costs`), in
/// which lists were expanded before. `base` is the kernel that the table's key `base` stands for,
/// and which the table changes; without it the key `kernel` names the build. `path` is the table's
/// key in messages.
///
/// # Errors
/// Returns the first mistake in it.
pub fn from_table(path: &str, table: &Node, base: Option<Kernel>) -> Result<Kernel, Diagnostic> {
    let entries = table.table().map_or(&[][..], |t| &t.0);
    if let Some(e) = entries.iter().find(|e| !KEYS.contains(&e.key.as_str())) {
        let switch = mm::policy::switches().any(|s| {
            let first = s.name.split('.').next();
            first == Some(&e.key)
        });
        let accepted = if switch {
            format!(
                "{}; `{}` is a switch of the engine, which a real kernel does not have",
                one_of("", &KEYS),
                e.key
            )
        } else {
            one_of(&e.key, &KEYS)
        };
        let what = format!("unknown key `{path}.{}`", e.key);
        return Err(Diagnostic::at(&e.place, what, accepted));
    }
    let value = |key: &str| table.at(&[key]);
    let mut kernel = match (base, value("kernel")) {
        (Some(base), _) => base,
        (None, Some(node)) => {
            let key = format!("{path}.kernel");
            let build: String = read(node, &key)?;
            plain_build(&build, &format!("`{key}`"), node)?;
            Kernel::new(&build)
        }
        (None, None) => unreachable!("a kernel's table has `kernel`, or a base that is a kernel"),
    };
    if let Some(node) = value("lru_gen") {
        kernel.lru_gen = Some(read(node, &format!("{path}.lru_gen"))?);
    }
    if let Some(node) = value("costs") {
        kernel.costs = read(node, &format!("{path}.costs"))?;
    }
    if let Some(node) = value("sysctl") {
        kernel
            .sysctl
            .extend(sysctls(node, &format!("{path}.sysctl"))?);
    }
    Ok(kernel)
}

/// Reads a kernel's table of sysctls: whole names with points, or with slashes where a part of the
/// name has a point itself. Returns the text to write to each sysctl, by its whole name.
fn sysctls(node: &Node, path: &str) -> Result<BTreeMap<String, String>, Diagnostic> {
    if node.table().is_none() {
        return Err(Diagnostic::at(
            &node.place,
            format!("`{path}`: {} does not fit here", node.kind()),
            "accepted: a table of sysctls by their names, such as { \"vm.dirty_ratio\" = 5 }",
        ));
    }
    let mut all = BTreeMap::new();
    collect("", node, path, &mut all)?;
    Ok(all)
}

/// Collects the sysctls of a table into `all`: whole name and the text to write. Names in nested
/// tables are joined with points; `above` is the part of the name that leads to `node`, and `path`
/// is the whole table's key in messages. Refuses a sysctl that is set twice.
fn collect(
    above: &str,
    node: &Node,
    path: &str,
    all: &mut BTreeMap<String, String>,
) -> Result<(), Diagnostic> {
    for entry in node.table().map_or(&[][..], |t| &t.0) {
        let spelt = match above {
            "" => entry.key.clone(),
            above => format!("{above}.{}", entry.key),
        };
        if entry.node.table().is_some() {
            collect(&spelt, &entry.node, path, all)?;
            continue;
        }
        let Some(name) = whole_name(&spelt) else {
            return Err(Diagnostic::at(
                &entry.place,
                format!("`{path}`: `{spelt}` can't be a sysctl's name"),
                "accepted: a name below /proc/sys with dots or slashes, such as vm.dirty_ratio, \
                 or the last part of a name below vm",
            ));
        };
        let text = value(&name, &entry.node, &format!("{path}.{spelt}"))?;
        if all.insert(name.clone(), text).is_some() {
            return Err(Diagnostic::at(
                &entry.place,
                format!("`{path}`: `{name}` is set twice, here as `{spelt}`"),
                "accepted: each sysctl once",
            ));
        }
    }
    Ok(())
}

/// Returns the places where a text sets something that a kernel may refuse: sysctls by their whole
/// names, and `lru_gen`, each with its first place; and the first `costs = false` under the key
/// `costs`.
pub fn settings(root: &Node) -> BTreeMap<String, Place> {
    let mut all = BTreeMap::new();
    find("", root, &mut all);
    all
}

/// Collects into `all` the first place of each setting that a kernel may refuse ([`settings`]),
/// from a tree; `key` is the key of `node`.
fn find(key: &str, node: &Node, all: &mut BTreeMap<String, Place>) {
    match &node.value {
        Value::Table(table) if key == "sysctl" => enter("", &table.0, all),
        Value::Table(table) => {
            for entry in &table.0 {
                // `costs = false`: computing takes no virtual time.
                let free = matches!(entry.node.value, Value::Bool(false));
                if entry.key == "lru_gen" || entry.key == "costs" && free {
                    let place = entry.place.clone();
                    all.entry(entry.key.clone()).or_insert(place);
                }
                find(&entry.key, &entry.node, all);
            }
        }
        Value::List(list) => list.iter().for_each(|node| find(key, node, all)),
        _ => {}
    }
}

/// Collects into `all` the first place of each sysctl of a table, by its whole name, with names
/// joined as in [`collect`].
fn enter(above: &str, entries: &[Entry], all: &mut BTreeMap<String, Place>) {
    for entry in entries {
        let spelt = match above {
            "" => entry.key.clone(),
            above => format!("{above}.{}", entry.key),
        };
        if let Some(table) = entry.node.table() {
            enter(&spelt, &table.0, all);
        } else if let Some(name) = whole_name(&spelt) {
            all.entry(name).or_insert_with(|| entry.place.clone());
        }
    }
}

/// Returns the whole name of a sysctl as the experiment spells it: the last part alone is one that
/// the engine knows, or one below `vm`. Parts are joined with points, or with slashes where a part
/// has a point itself. `None` if it can't be a name.
fn whole_name(spelt: &str) -> Option<String> {
    let path = if spelt.contains('/') {
        spelt.to_owned()
    } else if spelt.contains('.') {
        spelt.replace('.', "/")
    } else {
        match sysctl::info(spelt) {
            Some(info) => info.name.replace('.', "/"),
            None => format!("vm/{spelt}"),
        }
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    let plain =
        |part: &str| !part.is_empty() && part.chars().any(|c| c != '.') && part.chars().all(fits);
    (path.len() <= 200 && path.split('/').all(plain)).then(|| match path.contains('.') {
        true => path,
        false => path.replace('/', "."),
    })
}

/// Returns the text that is written to the file of the sysctl `name` in the guest: sizes in bytes,
/// lists with spaces between. Fails on a value that has no such text.
fn value(name: &str, node: &Node, path: &str) -> Result<String, Diagnostic> {
    let info = sysctl::info(name);
    let text = match &node.value {
        Value::Int(n) => Some(n.to_string()),
        // Sizes are written as in a machine's file.
        Value::Text(t) if info.is_some_and(|i| matches!(i.fits, Fits::Bytes(..))) => {
            Size::parse(t).ok().map(|size| size.0.to_string())
        }
        Value::Text(t) => {
            let plain = !t.is_empty() && t.len() <= MOST_VALUE && !t.contains(['\n', '\0']);
            plain.then(|| t.clone())
        }
        Value::List(list) => {
            let numbers = list.iter().map(|n| match n.value {
                Value::Int(n) => Some(n.to_string()),
                _ => None,
            });
            let numbers: Option<Vec<String>> = numbers.collect();
            numbers.filter(|n| !n.is_empty()).map(|n| n.join(" "))
        }
        Value::Bool(_) | Value::Float(_) | Value::Table(_) => None,
    };
    text.ok_or_else(|| {
        Diagnostic::at(
            &node.place,
            format!("`{path}`: {} does not fit here", node.kind()),
            "accepted: a whole number, or a string as it would be written to the sysctl's file",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;

    #[test]
    fn names_are_whole_however_they_are_spelt() {
        for (spelt, whole) in [
            ("dirty_ratio", Some("vm.dirty_ratio")),
            ("vm.dirty_ratio", Some("vm.dirty_ratio")),
            ("vm/dirty_ratio", Some("vm.dirty_ratio")),
            ("page-cluster", Some("vm.page-cluster")),
            ("xfssyncd_centisecs", Some("fs.xfs.xfssyncd_centisecs")),
            ("kernel.panic", Some("kernel.panic")),
            ("net/ipv4/conf/eth0.1/mtu", Some("net/ipv4/conf/eth0.1/mtu")),
            ("vm/../kernel/panic", None),
            ("/proc/sys/vm/swappiness", None),
            ("vm..swappiness", None),
            ("vm.", None),
            ("", None),
            ("vm.dirty ratio", None),
        ] {
            assert_eq!(whole_name(spelt).as_deref(), whole, "{spelt}");
        }
        assert!(OF_NO_KERNEL.iter().all(|key| sysctl::info(key).is_some()));
    }

    #[test]
    fn settings_are_known_by_their_places() {
        let text = "machine = { sysctl = { dirty_ratio = 5 } }\n\
                    at = [{ t = 1, sysctl = { vm = { dirty_ratio = 7, swappiness = 1 } } }]\n\
                    [policies.a]\nlru_gen = true\nsysctl = { 'kernel.panic' = 1 }\n";
        let node = Node::parse(&Source::new("f", text)).unwrap();
        let places = settings(&node);
        let said: Vec<String> = places
            .iter()
            .map(|(name, place)| format!("{name} {place}"))
            .collect();
        assert_eq!(
            said,
            [
                "kernel.panic f:5:12",
                "lru_gen f:4:1",
                "vm.dirty_ratio f:1:24",
                "vm.swappiness f:2:51"
            ]
        );
    }

    fn read_one(text: &str) -> Result<String, String> {
        let mut node = Node::parse(&Source::new("f", text)).unwrap();
        super::super::sysctls::last_parts(&mut node, None).map_err(|e| e.message)?;
        let kernel = from_table("policies.mine", &node, None);
        let kernel = kernel.map_err(|e| format!("{} {}", e.place.as_ref().unwrap(), e.message))?;
        let sysctl = kernel.sysctl.iter().map(|(k, v)| format!(" {k}={v}"));
        Ok(format!(
            "{} {:?} {}{}",
            kernel.build,
            kernel.lru_gen,
            kernel.costs,
            sysctl.collect::<String>()
        ))
    }

    #[test]
    fn a_table_is_read() {
        assert_eq!(read_one("kernel = '6.12'").unwrap(), "6.12 None true");
        let text = "kernel = '6.12-mine'\nlru_gen = true\ncosts = false\n[sysctl]\nswappiness = 150\n\
                    dirty_bytes = '1M'\nvm.overcommit_memory = 2\n'vm/page-cluster' = 0\n\
                    lowmem_reserve_ratio = [256, 32]\nkernel.printk = '7 4 1 7'\n";
        assert_eq!(
            read_one(text).unwrap(),
            "6.12-mine Some(true) false kernel.printk=7 4 1 7 vm.dirty_bytes=1048576 \
             vm.lowmem_reserve_ratio=256 32 vm.overcommit_memory=2 vm.page-cluster=0 vm.swappiness=150"
        );
    }

    /// A patched kernel may have sysctls that were proposed and not merged; the guest is asked.
    #[test]
    fn sysctls_that_were_not_merged_are_taken() {
        let said = read_one("kernel = '6'\nsysctl = { 'vm/wmark_min_kbytes' = 3 }").unwrap();
        assert!(said.ends_with("vm.wmark_min_kbytes=3"), "{said}");
    }

    #[test]
    fn what_is_wrong_in_a_table_is_said_at_its_place() {
        for (text, message) in [
            (
                "kernel = '../x'",
                "f:1:10 `policies.mine.kernel`: `../x` can't be a kernel's name",
            ),
            (
                "kernel = 6.12",
                "f:1:10 `policies.mine.kernel`: a number with a fraction",
            ),
            (
                "kernel = '6'\nlru_gen = 1",
                "f:2:11 `policies.mine.lru_gen`",
            ),
            ("kernel = '6'\ncosts = 'no'", "f:2:9 `policies.mine.costs`"),
            (
                "kernel = '6'\nlrugen = true",
                "f:2:1 unknown key `policies.mine.lrugen`",
            ),
            (
                "kernel = '6'\nimmediate_reclaim = true",
                "f:2:1 unknown key `policies.mine.immediate_reclaim`",
            ),
            ("kernel = '6'\nsysctl = 3", "f:2:10 `policies.mine.sysctl`"),
            (
                "kernel = '6'\nsysctl = { swappiness = 1.5 }",
                "f:2:25 `policies.mine.sysctl.swappiness`",
            ),
            (
                "kernel = '6'\nsysctl = { swappiness = true }",
                "f:2:25 `policies.mine.sysctl.swappiness`",
            ),
            (
                "kernel = '6'\nsysctl = { dirty_bytes = 'lots' }",
                "f:2:26 `policies.mine.sysctl.dirty_bytes`",
            ),
            (
                "kernel = '6'\nsysctl = { swappiness = '' }",
                "f:2:25 `policies.mine.sysctl.swappiness`",
            ),
            (
                "kernel = '6'\nsysctl = { swappiness = 1, 'vm/swappiness' = 2 }",
                "f:2:28 `policies.mine.sysctl`: `vm.swappiness` is set twice",
            ),
        ] {
            let said = read_one(text).unwrap_err();
            assert!(said.starts_with(message), "{text}: {said}");
        }
    }
}
