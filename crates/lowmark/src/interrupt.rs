//! Ctrl-C: the first keeps finished iterations and stops, the second stops at once.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// Returns a flag that the first Ctrl-C sets; the second ends the process with exit code 130.
///
/// On systems without the signal the flag is never set.
pub fn flag() -> Arc<AtomicBool> {
    flag_saying("stopping; finished iterations are kept; once more to stop at once")
}

/// Makes Ctrl-C call `last` and then end the process with exit code 130, for work that can't be
/// stopped in the middle.
pub fn before_exit(mut last: impl FnMut() + Send + 'static) {
    let _ = ctrlc::set_handler(move || {
        last();
        std::process::exit(130);
    });
}

/// Does the same as [`flag`], with the message `words` for the first Ctrl-C. There is one flag per
/// process: commands that run several things in a row get it for each, so Ctrl-C stops the current
/// one. The first message stays.
pub fn flag_saying(words: &'static str) -> Arc<AtomicBool> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let install = || {
        let stop = Arc::new(AtomicBool::new(false));
        let handler = Arc::clone(&stop);
        let _ = ctrlc::set_handler(move || {
            if handler.swap(true, SeqCst) {
                std::process::exit(130);
            }
            eprintln!("{words}");
        });
        stop
    };
    Arc::clone(STOP.get_or_init(install))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_again_hears_the_same_ctrl_c() {
        assert!(Arc::ptr_eq(&flag(), &flag_saying("others")));
    }
}
