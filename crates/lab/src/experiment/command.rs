//! Reads the workload's command line, with errors at their place inside the string.

use super::node::Node;
use crate::diagnostic::{Diagnostic, Place};

/// Reads the value of `workload.command`, a string with a command line of Lowmark's own programs,
/// as the script that the workload runs. A mistake is reported at its place inside the string.
///
/// # Errors
/// Fails on a command line that `workload` does not accept.
pub fn script(node: &Node) -> Result<workload::Script, Diagnostic> {
    let Some(line) = node.text() else {
        return Err(Diagnostic::at(
            &node.place,
            format!("`workload.command`: {} does not fit here", node.kind()),
            "accepted: a command line in quotes, such as \"dd if=/dev/zero of=disk/zeroes bs=32k count=1000\"",
        ));
    };
    workload::parse(line).map_err(|e| {
        // In a string with escapes, offsets into it are not offsets into the file.
        let place = match node.contents_span() {
            Some(span) => {
                let start = span.start + e.span.start.min(line.len());
                let end = span.start + e.span.end.min(line.len());
                Place {
                    source: node.place.source.clone(),
                    span: start..end.max(start),
                }
            }
            None => node.place.clone(),
        };
        Diagnostic::at(
            &place,
            format!("`workload.command`: {}", e.message),
            format!("accepted: {}", e.accepted),
        )
    })
}
