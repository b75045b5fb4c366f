//! Reads policies by name: a preset, a real kernel, or a `[policies.name]` table that changes one
//! of them or the policy of another such table.

use super::expand::{Variant, expand};
use super::guest::values;
use super::kernels;
use super::machine::{self, Files, with_base};
use super::node::{Node, Value};
use super::range::{self, At};
use super::read::read;
use crate::diagnostic::{Diagnostic, did_you_mean};
use kernel::Kernel;
use mm::Policy;
use sim::spec::{Machine, Sysctl};

/// A policy with the vm sysctls that it sets.
#[derive(Debug, Clone)]
pub struct Named {
    /// The switches, under the policy's name. A real kernel has no switches: for it this is the
    /// newest preset, of which only the name is used.
    pub policy: Policy,
    /// The real kernel that runs in the engine's place; `None`: the engine runs.
    pub kernel: Option<Kernel>,
    /// `[policies.NAME.sysctl]`, which overrides the machine's sysctls.
    sysctl: Option<Node>,
    /// The policy's table; `None` for a preset.
    at: Option<Node>,
}

impl Named {
    /// Builds the policy of a preset, without sysctls or a table of its own.
    fn preset(policy: Policy) -> Self {
        Self {
            policy,
            kernel: None,
            sysctl: None,
            at: None,
        }
    }

    /// Builds a policy that is a real kernel. Its switches are those of the newest preset and are
    /// not read; only its name is used.
    fn kernel(kernel: Kernel, name: &str) -> Self {
        let newest = Policy::PRESETS.last().and_then(|name| Policy::preset(name));
        let policy = newest.expect("there are presets").named(name);
        Self {
            kernel: Some(kernel),
            ..Self::preset(policy)
        }
    }

    /// Returns the machine with this policy's sysctls laid over its own, and checks them. As on a
    /// running kernel, writing `min_free_kbytes` resets the machine's settings of the three
    /// watermarks, and `wmark_min_kbytes` is another name of it. With a real kernel the machine is
    /// returned as it is: the kernel's sysctls are written in its guest, after the machine's.
    ///
    /// # Errors
    /// Fails on sysctls that can't be on this machine.
    pub fn on(&self, machine: &Machine) -> Result<Machine, Diagnostic> {
        if self.kernel.is_some() {
            return Ok(machine.clone());
        }
        self.profile_fits(machine)?;
        let mut machine = machine.clone();
        machine.sysctl = machine.sysctl.under(&self.policy);
        let Some(over) = &self.sysctl else {
            if let Some((key, what, accepted)) = range::not_of(&self.policy, &machine.sysctl) {
                return Err(Diagnostic::placeless(
                    format!("`machine.sysctl.{key}`: {what}"),
                    format!("accepted: {accepted}"),
                ));
            }
            return Ok(machine);
        };
        let path = format!("policies.{}.sysctl", self.policy.name);
        let mut below = machine.sysctl.clone();
        let says = |key| over.table().is_some_and(|t| t.get(key).is_some());
        if says("min_free_kbytes") {
            below.reset_wmarks();
        }
        if says("wmark_min_kbytes") {
            below.min_free_kbytes = None;
        }
        let laid = serde_json::to_value(below).map_err(|e| {
            Diagnostic::at(&over.place, format!("sysctls can't be laid out: {e}"), "")
        })?;
        let mut laid = Node::from_json(&laid, &over.place);
        laid.overlay(over.clone());
        let machine = Machine {
            sysctl: read(&laid, &path)?,
            ..machine
        };
        let at = At {
            node: over,
            path: &path,
        };
        range::sysctl(&machine, &[], &at)?;
        range::sysctl_of(&self.policy, &machine.sysctl, &at)?;
        Ok(machine)
    }
}

impl Named {
    /// Refuses a policy whose watermark profile names no zone, or zones that the machine does not
    /// have. Policies without a profile fit every machine.
    fn profile_fits(&self, machine: &Machine) -> Result<(), Diagnostic> {
        let (Some(profile), Some(at)) = (&self.policy.profile, &self.at) else {
            return Ok(());
        };
        let zones = sim::run::engine_config(machine).zones;
        let fault = if profile.zones.is_empty() {
            Some("it names no zone".to_owned())
        } else {
            profile.fault(&zones)
        };
        fault.map_or(Ok(()), |fault| {
            Err(Diagnostic::at(
                &at.nearest(&["profile"]).place,
                format!("`policies.{}.profile`: {fault}", self.policy.name),
                format!(
                    "accepted: the profile of a run on machine `{}`",
                    machine.name
                ),
            ))
        })
    }
}

/// Refuses numbers of a policy that are out of their range, and learned watermarks without a
/// profile. `laid` is the policy's full table, and `path` its key in messages.
fn ranges(policy: &Policy, laid: &Node, path: &str) -> Result<(), Diagnostic> {
    let at = At { node: laid, path };
    for (switch, number, least, most) in policy.numbers() {
        let key: Vec<&str> = switch.name.split('.').collect();
        at.range(&key, number, least, most)?;
    }
    if policy.watermarks == mm::policy::Watermarks::Learned && policy.profile.is_none() {
        return Err(Diagnostic::at(
            &laid.nearest(&["watermarks"]).place,
            format!("`{path}.watermarks`: learned watermarks need a profile"),
            "accepted: `profile` beside it, the file that `lowmark tune --learn` wrote or its tables",
        ));
    }
    Ok(())
}

/// Returns the policies that a name stands for: one, or several if its table holds lists. A policy
/// of a list carries its choices in its name: `mine[kswapd_writeback_priority=3]`. `at` is the
/// place where the name is used, and `tables` are the policies that the experiment defines.
///
/// # Errors
/// Fails on an unknown name, an unknown base, and a table that does not make a policy.
pub fn policies(name: &str, at: &Node, tables: Option<&Node>) -> Result<Vec<Named>, Diagnostic> {
    above(&[], name, at, tables)
}

/// Returns true if one of the policies that an experiment compares is a real kernel: by its name,
/// or by its table or a base of it. `root` is the experiment's tree, which need not be valid;
/// tables in other files are not looked into.
pub fn names_kernel(root: &Node) -> bool {
    let is_kernel = |name: &str| {
        let mut name = name.to_owned();
        for _ in 0..=MOST_BASES {
            if name.starts_with(kernels::PREFIX) {
                return true;
            }
            let Some(table) = root.at(&["policies", &name]) else {
                return false;
            };
            if table.at(&["kernel"]).is_some() {
                return true;
            }
            match table.at(&["base"]).and_then(Node::text) {
                Some(base) => name = base.to_owned(),
                None => return false,
            }
        }
        false
    };
    let named = values(root, &["policy"]).iter();
    named.filter_map(Node::text).any(is_kernel)
}

/// Longest chain of bases: each policy is laid over all below it.
const MOST_BASES: usize = 32;
/// Most policies that an experiment may define.
const MOST_TABLES: usize = 1000;

/// Returns the [`policies`] of a name, with a check for bases that lead back to a user. `users` are
/// the names of the policies whose base this one is, the outermost first; empty for a policy that
/// the experiment names itself.
fn above(
    users: &[&str],
    name: &str,
    at: &Node,
    tables: Option<&Node>,
) -> Result<Vec<Named>, Diagnostic> {
    if let Some(kernel) = kernels::by_name(name, at)? {
        return Ok(vec![Named::kernel(kernel, name)]);
    }
    let defined = tables.and_then(Node::table);
    let Some(entry) = defined.and_then(|t| t.entry(name)) else {
        if let Some(preset) = Policy::preset(name) {
            return Ok(vec![Named::preset(preset)]);
        }
        let mut known: Vec<&str> = defined
            .iter()
            .flat_map(|t| &t.0)
            .map(|e| &e.key[..])
            .filter(|known| !users.contains(known))
            .collect();
        known.extend(Policy::PRESETS);
        let what = if users.is_empty() { "policy" } else { "base" };
        return Err(unknown(what, name, at, &known));
    };
    if users.contains(&name) {
        return Err(Diagnostic::at(
            &at.place,
            format!("`{name}` is its own base: {} → {name}", users.join(" → ")),
            "accepted: a base that leads to a preset",
        ));
    }
    if users.len() == MOST_BASES {
        return Err(Diagnostic::at(
            &at.place,
            format!(
                "`{}` has more than {MOST_BASES} policies as bases",
                users[0]
            ),
            format!(
                "accepted: a base that leads to a preset over at most {MOST_BASES} other policies"
            ),
        ));
    }
    let path = format!("policies.{name}");
    let users = [users, &[name]].concat();
    expand(&entry.node, &path)?
        .iter()
        .map(|v| policy(&users, &path, v, tables))
        .collect()
}

/// Returns the policy that the key `base` of another policy's table names; it must be a single one.
/// `users` are the names of the policies that are laid over it, and `path` is the other table's
/// key.
fn base_of(
    users: &[&str],
    base: &Node,
    path: &str,
    tables: Option<&Node>,
) -> Result<Named, Diagnostic> {
    let name: String = read(base, &format!("{path}.base"))?;
    let mut all = above(users, &name, base, tables)?;
    if all.len() > 1 {
        return Err(Diagnostic::at(
            &base.place,
            format!(
                "`{path}.base`: `{name}` has lists and so defines {} policies",
                all.len()
            ),
            "accepted: a policy whose table has no lists",
        ));
    }
    Ok(all.remove(0))
}

/// Returns the table of all policies that the experiment defines, with the names of files replaced
/// by their contents: `node` is the value of the key `policies`, its own tables, the name of a file
/// of them, or both (`base`). `None` if the key is absent.
///
/// # Errors
/// Fails if a file can't be read.
pub fn tables(node: Option<&Node>, files: &Files<'_>) -> Result<Option<Node>, Diagnostic> {
    let of = machine::Named {
        key: "policies",
        holds: "policies",
        example: "tables [policies.NAME], or the name of a file with tables [NAME]",
    };
    let mut tables = node.map(|node| with_base(&of, node, files)).transpose()?;
    if let Some(Value::Table(table)) = tables.as_mut().map(|t| &mut t.value) {
        for entry in &mut table.0 {
            profile_from_file(&entry.key, &mut entry.node, files)?;
        }
    }
    Ok(tables)
}

/// Replaces the name of a watermark profile's file in a policy's table by the file's contents.
/// `name` is the policy's name, for messages.
fn profile_from_file(name: &str, policy: &mut Node, files: &Files<'_>) -> Result<(), Diagnostic> {
    let Value::Table(table) = &mut policy.value else {
        return Ok(());
    };
    let Some(profile) = table.get_mut("profile") else {
        return Ok(());
    };
    let of = machine::Named {
        key: &format!("policies.{name}.profile"),
        holds: "a watermark profile",
        example: "a profile that `lowmark tune --learn` wrote, such as \"watermarks.toml\", or its tables",
    };
    *profile = with_base(&of, profile, files)?;
    Ok(())
}

/// Checks all tables of policies, including those that the experiment does not use.
///
/// # Errors
/// Fails as [`policies`] does.
pub fn check_all(tables: Option<&Node>) -> Result<(), Diagnostic> {
    let Some(table) = tables.and_then(Node::table) else {
        return Ok(());
    };
    if table.0.len() > MOST_TABLES {
        return Err(Diagnostic::at(
            &table.0[MOST_TABLES].place,
            format!("`policies`: {} policies", table.0.len()),
            format!("accepted: at most {MOST_TABLES}"),
        ));
    }
    for entry in &table.0 {
        if Policy::preset(&entry.key).is_some() {
            return Err(Diagnostic::at(
                &entry.place,
                format!("`policies.{}`: a preset has this name", entry.key),
                "accepted: another name; the preset can be its `base`",
            ));
        }
        if entry.key.starts_with(kernels::PREFIX) {
            return Err(Diagnostic::at(
                &entry.place,
                format!(
                    "`policies.{}`: a name of this form is reserved for the real kernel of that build",
                    entry.key
                ),
                "accepted: another name, and the key `kernel` in the table",
            ));
        }
        policies(&entry.key, &entry.node, tables)?;
    }
    Ok(())
}

/// Builds the engine's policy of one variant of a table: its base with the table's switches and
/// sysctls. `users` are the names of the policies from the outermost to this one, `path` is its key
/// in messages, and `tables` are all policies that the experiment defines. A table of a real kernel
/// gives that kernel's policy.
fn policy(
    users: &[&str],
    path: &str,
    variant: &Variant,
    tables: Option<&Node>,
) -> Result<Named, Diagnostic> {
    let name = users[users.len() - 1];
    let Value::Table(table) = &variant.node.value else {
        return Err(Diagnostic::at(
            &variant.node.place,
            format!("`{path}`: {} does not fit here", variant.node.kind()),
            "accepted: a table with `base`, the switches that differ from the base, and \
             optionally `sysctl`; or with `kernel`",
        ));
    };
    if let Some(named) = kernel_policy(users, path, variant, tables)? {
        return Ok(named);
    }
    let mut over = variant.node.clone();
    let Value::Table(changes) = &mut over.value else {
        unreachable!("cloned from a table")
    };
    let Some(base) = changes.remove("base") else {
        return Err(Diagnostic::at(
            &variant.node.place,
            format!("missing key `{path}.base`"),
            format!(
                "accepted: base = another policy of this file, or one of {}; or kernel = the name of a built kernel",
                Policy::PRESETS.join(", ")
            ),
        ));
    };
    let mut base_of = base_of(users, &base.node, path, tables)?;
    if let Some(own) = changes.remove("sysctl") {
        let path = format!("{path}.sysctl");
        // Checks keys and types only; values are checked against the machine later.
        let _: Sysctl = read(&own.node, &path)?;
        match &mut base_of.sysctl {
            Some(sysctl) => sysctl.overlay(own.node),
            none => *none = Some(own.node),
        }
    }
    if let Some(entry) = table.entry("name") {
        return Err(Diagnostic::at(
            &entry.place,
            format!("unknown key `{path}.name`"),
            "accepted: the name in the table's header, [policies.NAME]",
        ));
    }
    let preset = serde_json::to_value(base_of.policy)
        .map_err(|e| Diagnostic::at(&base.place, format!("the base can't be laid out: {e}"), ""))?;
    let mut laid = Node::from_json(&preset, &variant.node.place);
    laid.overlay(over);
    // Messages should not offer `name`, which is in the header, but `base` and `sysctl`.
    let policy: Policy = read(&laid, path).map_err(|mut e| {
        e.accepted = e
            .accepted
            .replacen("accepted: name, ", "accepted: base, sysctl, ", 1);
        e
    })?;
    ranges(&policy, &laid, path)?;
    Ok(Named {
        policy: policy.named(&chosen_name(name, path, variant)),
        kernel: None,
        sysctl: base_of.sysctl,
        at: Some(laid),
    })
}

/// Returns a policy's name, followed by the choices in the lists of its table, in brackets, if
/// there are any: `mine[kswapd_writeback_priority=3]`. `path` is the table's key.
fn chosen_name(name: &str, path: &str, variant: &Variant) -> String {
    let prefix = format!("{path}.");
    let chosen: Vec<String> = variant
        .choices
        .iter()
        .map(|(k, v)| format!("{}={v}", k.strip_prefix(&prefix).unwrap_or(k)))
        .collect();
    match chosen.is_empty() {
        true => name.to_owned(),
        false => format!("{name}[{}]", chosen.join(",")),
    }
}

/// Returns the policy of a table that has `kernel`, or whose base is a real kernel; `None`: the
/// table is that of one of the engine's policies. `users` are the names of the policies from the
/// outermost to this one, and `path` is its key in messages.
fn kernel_policy(
    users: &[&str],
    path: &str,
    variant: &Variant,
    tables: Option<&Node>,
) -> Result<Option<Named>, Diagnostic> {
    let name = users[users.len() - 1];
    let table = variant.node.table();
    let entry = |key| table.and_then(|t| t.entry(key));
    let base = match (entry("base"), entry("kernel")) {
        (Some(_), Some(kernel)) => {
            return Err(Diagnostic::at(
                &kernel.place,
                format!("`{path}`: both `base` and `kernel`"),
                "accepted: `base` for a policy of the engine or another policy that is a \
                 kernel, or `kernel` for a built kernel",
            ));
        }
        (None, None) => return Ok(None),
        (None, Some(_)) => None,
        (Some(base), None) => match base_of(users, &base.node, path, tables)?.kernel {
            Some(kernel) => Some(kernel),
            None => return Ok(None),
        },
    };
    let kernel = kernels::from_table(path, &variant.node, base)?;
    let name = chosen_name(name, path, variant);
    Ok(Some(Named::kernel(kernel, &name)))
}

/// Builds the error for an unknown policy or base (`what` says which), with the nearest of the
/// `known` names as a guess, and a hint that `kernel:` is needed if the name looks like a release
/// of Linux.
fn unknown(what: &str, name: &str, at: &Node, known: &[&str]) -> Diagnostic {
    let guess = did_you_mean(name, known.iter().copied())
        .map_or(String::new(), |g| format!("did you mean `{g}`? "));
    let version = name.strip_prefix("linux-").unwrap_or(name);
    let real = match version.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!(
            "; a bare name is a policy of the engine, and `kernel:{version}` is a real Linux"
        ),
        false => String::new(),
    };
    Diagnostic::at(
        &at.place,
        format!("unknown {what} `{name}`"),
        format!(
            "{guess}accepted: {}; or define it in a table [policies.…]{real}",
            known.join(", ")
        ),
    )
}
