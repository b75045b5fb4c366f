//! The kernel's reports of out-of-memory kills, cut out of its log.

/// The most reports that are sent: the first ones tell how memory ran out.
const MOST: usize = 8;

/// Returns the reports of OOM kills in the text of the kernel's log ([`crate::sys::kernel_log`]),
/// without the lines' levels and times and without the dump of the stack: each from the task that
/// asked for memory to the process that was killed, and at most [`MOST`] of them.
pub fn reports(log: &str) -> String {
    let mut out = String::new();
    let (mut inside, mut in_stack, mut ended) = (false, false, 0);
    for line in log.lines() {
        let text = plain(line);
        if text.contains(" invoked oom-killer: ") {
            inside = true;
        }
        if !inside {
            continue;
        }
        // The dump is indented, and the line behind it is not.
        in_stack = text == "Stack:" || text == "Call Trace:" || in_stack && text.starts_with(' ');
        if in_stack {
            continue;
        }
        out += text;
        out.push('\n');
        if text.contains("Killed process ") {
            inside = false;
            ended += 1;
            if ended == MOST {
                break;
            }
        }
    }
    out
}

/// Returns a line of the log without its level (`<4>`) and its time (`[   12.345678] `).
fn plain(line: &str) -> &str {
    let line = match line.strip_prefix('<').and_then(|l| l.split_once('>')) {
        Some((level, rest)) if level.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => line,
    };
    match line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
        Some((time, rest)) if time.contains('.') => rest,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_go_from_the_request_to_the_kill() {
        let log = "<6>[    0.100000] Linux version 6.12\n\
            <4>[    1.000000] dd invoked oom-killer: gfp_mask=0x0, order=0\n\
            <4>[    1.000001] Call Trace:\n\
            <4>[    1.000001]  out_of_memory+0x11f/0x420\n\
            <4>[    1.000001] Mem-Info:\n\
            <4>[    1.000001]  active_anon:5\n\
            <6>[    1.000002] [     30]     0    30      200 dd\n\
            <3>[    1.000003] Out of memory: Killed process 30 (dd) total-vm:800kB\n\
            <6>[    1.100000] something else\n";
        let expected = "dd invoked oom-killer: gfp_mask=0x0, order=0\nMem-Info:\n active_anon:5\n\
            [     30]     0    30      200 dd\nOut of memory: Killed process 30 (dd) total-vm:800kB\n";
        assert_eq!(reports(log), expected);
        assert_eq!(reports(&log.repeat(20)).lines().count(), 5 * MOST);
        assert_eq!(reports("nothing\n"), "");
    }
}
