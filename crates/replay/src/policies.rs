//! The policies that a curve can have: those of [`evict`], and [OPT](crate::opt), which needs the
//! whole trace.

use crate::opt::OPT;
use evict::registry::{self, Entry};

/// Iterates over all policies in the order of lists.
pub fn policies() -> impl Iterator<Item = &'static Entry> {
    registry::ALL.iter().chain([&OPT])
}

/// Returns the policy of that name, in upper or lower case; `None` if there is none.
pub fn find(name: &str) -> Option<&'static Entry> {
    policies().find(|e| e.name.eq_ignore_ascii_case(name))
}

/// Returns all names, for messages.
pub fn names() -> String {
    format!("{}, {}", registry::names(), OPT.name)
}

/// Returns true if a policy needs the whole trace with its objects numbered in the order of their
/// first requests: OPT to know the future, and W-TinyLFU because collisions in its sketch, and so
/// its figures, depend on the numbers.
pub(crate) fn needs_numbers(name: &str) -> bool {
    [OPT.name, "w-tinylfu"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_differ() {
        for (i, entry) in policies().enumerate() {
            assert_eq!(find(&entry.name.to_uppercase()), Some(entry));
            let first = policies().position(|e| e.name.eq_ignore_ascii_case(entry.name));
            assert_eq!(first, Some(i));
            assert!(names().split(", ").any(|n| n == entry.name));
        }
        assert_eq!(find("mru"), None);
    }
}
