//! Reads watermark profiles from files.

use super::node::Node;
use super::read::read;
use crate::diagnostic::{Diagnostic, Source};
use mm::policy::WatermarkProfile;
use sim::spec::Machine;
use std::path::Path;

/// Reads a watermark profile that `tune --learn` wrote, and checks that its zones are those of a
/// machine.
///
/// # Errors
/// Fails if the file can't be read, or the profile does not fit the machine.
pub fn load_profile(path: &Path, machine: &Machine) -> Result<WatermarkProfile, Diagnostic> {
    let name = path.display().to_string();
    let accepted = "accepted: a profile that `lowmark tune --learn` wrote";
    let text = super::read_text(path)
        .map_err(|e| Diagnostic::placeless(format!("{name} can't be read: {e}"), accepted))?;
    let root = Node::parse(&Source::new(&name, text))?;
    let profile: WatermarkProfile = read(&root, "profile")?;
    let zones = sim::run::engine_config(machine).zones;
    let fault = if profile.zones.is_empty() {
        Some("it names no zone".to_owned())
    } else {
        profile.fault(&zones)
    };
    match fault {
        None => Ok(profile),
        Some(fault) => Err(Diagnostic::at(
            &root.place,
            format!(
                "the profile does not fit the machine {}: {fault}",
                machine.name
            ),
            accepted,
        )),
    }
}
