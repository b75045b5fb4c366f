//! Changes of the running system, and the process that undoes them if this one is killed.

use crate::place;
use kernel::running::tracefs::Instance;
use kernel::running::undo::{self, FOLDER, Guard, Undo};
use std::path::Path;

/// Starts the process that undoes what a log has, once this process has ended in any way
/// ([`Undo::guard`]).
pub type StartGuard = fn(&Undo) -> std::io::Result<Guard>;

/// Undoes the changes that killed processes left to the running system, and reports them.
pub fn sweep() {
    place::say(&undo::sweep(Path::new(FOLDER)));
}

/// Makes an instance of tracefs for a recording, and its guard, which `start` starts: it removes
/// the instance if this process is killed. Returns the reason instead if there is none: `unwanted`,
/// or no permission.
pub fn instance(unwanted: bool, start: StartGuard) -> (Result<Instance, String>, Option<Guard>) {
    if unwanted {
        return (Err("switched off by --no-events".to_owned()), None);
    }
    let made = || -> std::io::Result<(Instance, Guard)> {
        let undo = Undo::new(Path::new(FOLDER))?;
        let guard = start(&undo)?;
        Ok((Instance::new(undo)?, guard))
    };
    match made() {
        Ok((instance, guard)) => (Ok(instance), Some(guard)),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            (Err(format!("only root can read them ({e})")), None)
        }
        Err(e) => (Err(e.to_string()), None),
    }
}
