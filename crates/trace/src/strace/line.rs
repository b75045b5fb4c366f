//! Parses one line of strace's log: its parts, a call's arguments and result, and the class of a
//! call.

use crate::number::{parse_i64, parse_seconds, parse_u64};
use crate::record::{MAX_FILE, NO_LATENCY, Op};

/// The number of a call's arguments that are used.
const MOST_ARGS: usize = 6;

/// The kinds of lines.
pub(super) enum Line<'a> {
    Call { name: &'a [u8], rest: &'a [u8] },
    Unfinished { text: &'a [u8] },
    Resumed { rest: &'a [u8] },
    Exited,
    Signal,
}

/// A time stamp of strace, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Since 1970 (`-ttt`).
    Unix(u64),
    /// Since midnight (`-t`, `-tt`).
    Day(u64),
    /// Since the line before (`-r`).
    Relative(u64),
    /// The line has no time.
    Missing,
}

/// Splits a line of strace. Returns the pid (0 if the line has none), the time, and the text after
/// both; `None` if the line does not begin so.
pub(super) fn head(line: &[u8]) -> Option<(u64, Stamp, &[u8])> {
    let mut rest = line.trim_ascii_start();
    let mut pid = None;
    if let Some(r) = rest.strip_prefix(b"[pid") {
        let end = memchr::memchr(b']', r)?;
        pid = Some(parse_u64(r[..end].trim_ascii())?);
        rest = r[end + 1..].trim_ascii_start();
    }
    let (mut word, mut behind) = split_word(rest)?;
    // A whole number is the pid, unless it is the time of `--absolute-timestamps=unix,precision:s`.
    if pid.is_none()
        && let Some(number) = parse_u64(word)
    {
        let next = behind.trim_ascii_start();
        if word.len() < UNIX_DIGITS || next.first().is_some_and(u8::is_ascii_digit) {
            pid = Some(number);
            rest = next;
            (word, behind) = split_word(rest)?;
        }
    }
    let pid = pid.unwrap_or(0);
    let Some(stamp) = stamp(word) else {
        return Some((pid, Stamp::Missing, rest));
    };
    let mut rest = behind.trim_ascii_start();
    // `-r` beside another form of time: `22:13:20.010000 (+     0.000123) read(…`.
    if let Some(both) = rest.strip_prefix(b"(+") {
        rest = both[memchr::memchr(b')', both)? + 1..].trim_ascii_start();
    }
    Some((pid, stamp, rest))
}

/// The least number of digits of seconds since 1970: those of the year 2001 and later.
const UNIX_DIGITS: usize = 10;

/// Parses a time stamp: seconds since 1970 or since the line before, or the time of day
/// (`22:13:20.010000`), with or without a fraction; `None` if the text is none.
fn stamp(word: &[u8]) -> Option<Stamp> {
    let Some(minutes) = memchr::memchr(b':', word) else {
        let ns = parse_seconds(word)?;
        let digits = memchr::memchr(b'.', word).unwrap_or(word.len());
        return match digits < UNIX_DIGITS {
            true if digits == word.len() => None,
            true => Some(Stamp::Relative(ns)),
            false => Some(Stamp::Unix(ns)),
        };
    };
    let (hours, rest) = (parse_u64(&word[..minutes])?, &word[minutes + 1..]);
    let at = memchr::memchr(b':', rest)?;
    let (minutes, ns) = (parse_u64(&rest[..at])?, parse_seconds(&rest[at + 1..])?);
    if hours > 23 || minutes > 59 || ns > 60 * SECOND {
        return None;
    }
    Some(Stamp::Day((hours * 3600 + minutes * 60) * SECOND + ns))
}

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of a day.
const DAY: u64 = 24 * 3600 * SECOND;

/// The clock of a log: makes times since its first line of the stamps.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The first line's stamp, in nanoseconds; with days that have gone by added for `Stamp::Day`.
    first: Option<u64>,
    /// The last stamp, in nanoseconds.
    last: u64,
    /// Nanoseconds of the days that have gone by since the first line.
    days: u64,
}

impl Clock {
    /// Returns nanoseconds since the first line. A time of day that lies more than half a day
    /// before the line above is of the next day; one that lies less before it is as it stands
    /// (lines of several processes need not be in order). `None`: the line has no time.
    pub fn since_first(&mut self, stamp: Stamp) -> Option<u64> {
        let now = match stamp {
            Stamp::Unix(ns) => ns,
            Stamp::Day(ns) => {
                let now = ns + self.days;
                if self.last > now + DAY / 2 {
                    self.days += DAY;
                    now + DAY
                } else {
                    now
                }
            }
            Stamp::Relative(_) if self.first.is_none() => 0,
            Stamp::Relative(ns) => self.last.saturating_add(ns),
            Stamp::Missing => return None,
        };
        self.last = now;
        Some(now.saturating_sub(*self.first.get_or_insert(now)))
    }
}

/// Splits a text at its first blank into the word before it and the rest, which begins with the
/// blank; `None` if there is no blank.
fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', text)?;
    Some((&text[..end], &text[end..]))
}

/// Splits a call's text into its name and the text behind the opening parenthesis; `None` if it is
/// no call.
pub(super) fn call_name(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = rest
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || *b == b'_'))?;
    (end > 0 && rest[end] == b'(').then(|| (&rest[..end], &rest[end + 1..]))
}

/// Recognises the kind of a line by its text after pid and time: a signal, an exit, a whole call,
/// or the first or last part of one; `None` if it is none of them.
pub(super) fn kind(rest: &[u8]) -> Option<Line<'_>> {
    const UNFINISHED: &[u8] = b"<unfinished ...>";
    if rest.starts_with(b"---") {
        return Some(Line::Signal);
    }
    if rest.starts_with(b"+++") {
        return Some(Line::Exited);
    }
    if let Some(resumed) = rest.strip_prefix(b"<... ") {
        let end = memchr::memmem::find(resumed, b" resumed>")?;
        return Some(Line::Resumed {
            rest: &resumed[end + b" resumed>".len()..],
        });
    }
    if let Some(text) = rest.trim_ascii_end().strip_suffix(UNFINISHED) {
        call_name(text)?;
        return Some(Line::Unfinished {
            text: text.trim_ascii_end(),
        });
    }
    let (name, rest) = call_name(rest)?;
    Some(Line::Call { name, rest })
}

/// Returns true if a line is one of strace, by which the format is recognised. A line without a
/// time must have the form of a whole call, with ` = ` before its result, because a name and a
/// parenthesis stand in other texts too.
pub(crate) fn is_call(line: &[u8]) -> bool {
    head(line).is_some_and(|(_, stamp, rest)| match kind(rest) {
        Some(Line::Call { .. }) if stamp == Stamp::Missing => {
            memchr::memmem::find(rest, b") = ").is_some()
        }
        kind => kind.is_some() && stamp != Stamp::Missing,
    })
}

/// A call with its arguments, result and duration.
pub(super) struct Call<'a> {
    pub args: [&'a [u8]; MOST_ARGS],
    /// The result; `None` for `?`.
    pub result: Option<i64>,
    pub latency_ns: u64,
}

impl<'a> Call<'a> {
    /// Parses a call's text after the opening parenthesis: arguments, result and duration; `None`
    /// if it is broken or cut. Commas inside of strings, comments, brackets and `<path>` after a
    /// descriptor do not separate arguments.
    pub fn parse(rest: &'a [u8]) -> Option<Self> {
        let mut args: [&[u8]; MOST_ARGS] = [b""; MOST_ARGS];
        // The argument's index, the depth of brackets, the argument's first byte, the current byte.
        let (mut n, mut depth, mut start, mut at) = (0, 0_u32, 0, 0);
        let end = loop {
            match *rest.get(at)? {
                b'"' => at = string_end(rest, at)?,
                b'/' if rest.get(at + 1) == Some(&b'*') => {
                    at += memchr::memmem::find(&rest[at..], b"*/")? + 1;
                }
                // `3</path>` of strace -y.
                b'<' if at > 0
                    && (rest[at - 1].is_ascii_digit() || rest[..at].ends_with(b"AT_FDCWD")) =>
                {
                    at += memchr::memchr(b'>', &rest[at..])?;
                }
                b'(' | b'[' | b'{' => depth += 1,
                b')' if depth == 0 => break at,
                b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
                b',' if depth == 0 => {
                    if n < MOST_ARGS {
                        args[n] = rest[start..at].trim_ascii();
                    }
                    n += 1;
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        };
        if n < MOST_ARGS {
            args[n] = rest[start..end].trim_ascii();
        }
        let tail = rest[end + 1..]
            .trim_ascii()
            .strip_prefix(b"=")?
            .trim_ascii();
        let word = tail.split(|b| *b == b' ').next().unwrap_or(b"");
        let result = if word == b"?" {
            None
        } else if let Some(hex) = word.strip_prefix(b"0x") {
            // Addresses are results of mmap only, for which success is all that counts.
            if hex.is_empty() || !hex.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            Some(0)
        } else {
            // `3</path>` of strace -y.
            let digits = memchr::memchr(b'<', word).map_or(word, |at| &word[..at]);
            Some(parse_i64(digits)?)
        };
        let latency_ns = match tail.strip_suffix(b">") {
            Some(t) => memchr::memrchr(b'<', t)
                .and_then(|at| parse_seconds(&t[at + 1..]))
                .unwrap_or(NO_LATENCY),
            None => NO_LATENCY,
        };
        Some(Self {
            args,
            result,
            latency_ns,
        })
    }

    /// Returns the result of a call that succeeded; `None` if it failed or has none.
    pub fn ok(&self) -> Option<i64> {
        self.result.filter(|r| *r >= 0)
    }

    /// Returns the descriptor in the argument of index `arg`, without the `<path>` that strace -y
    /// prints; `None` if it is no number.
    pub fn fd(&self, arg: usize) -> Option<i64> {
        let text = self.args[arg];
        parse_i64(memchr::memchr(b'<', text).map_or(text, |at| &text[..at]))
    }

    /// Returns the number in the argument of index `arg`; `None` if it is none.
    pub fn number(&self, arg: usize) -> Option<u64> {
        parse_u64(self.args[arg])
    }

    /// Returns true if the argument of index `arg` contains the text `flag`.
    pub fn has(&self, arg: usize, flag: &str) -> bool {
        memchr::memmem::find(self.args[arg], flag.as_bytes()).is_some()
    }
}

/// Returns the index of the closing quote of the string that begins at `at`; `None` if the text
/// ends before.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        match *text.get(at)? {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
    }
}

/// Returns a quoted path's bytes with C escapes resolved; `None`: the argument is no string, or was
/// cut.
pub(super) fn unquote(arg: &[u8]) -> Option<Vec<u8>> {
    let body = arg.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut out = Vec::with_capacity(body.len());
    let mut i = 0;
    while let Some(&b) = body.get(i) {
        i += 1;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let e = *body.get(i)?;
        i += 1;
        match e {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(11),
            b'f' => out.push(12),
            b'x' => {
                let digits = std::str::from_utf8(body.get(i..i + 2)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                i += 2;
            }
            b'0'..=b'7' => {
                let mut n = u32::from(e - b'0');
                while let Some(d @ b'0'..=b'7') = body.get(i).filter(|_| n < 32) {
                    n = n * 8 + u32::from(d - b'0');
                    i += 1;
                }
                out.push(n as u8);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// Returns true if the text of a clone says that the child shares its parent's table of
/// descriptors.
pub(super) fn shares(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"CLONE_FILES").is_some()
}

/// Returns the size in bytes that a printed `struct stat` of a regular file has; `None` if there is
/// none.
pub(super) fn stat_size(arg: &[u8]) -> Option<u64> {
    memchr::memmem::find(arg, b"S_IFREG")?;
    let at = memchr::memmem::find(arg, b"st_size=")? + b"st_size=".len();
    let digits = arg[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    parse_u64(&arg[at..at + digits]).filter(|n| *n <= MAX_FILE)
}

/// The class of a call.
#[derive(Clone, Copy)]
pub(super) enum Class {
    Open {
        dir: bool,
        flags: bool,
    },
    Close,
    CloseRange,
    Transfer {
        op: Op,
        offset_arg: Option<usize>,
    },
    Copy {
        to_first: bool,
    },
    Seek,
    Sync(Op),
    Truncate {
        path: bool,
    },
    Unlink {
        dir: bool,
    },
    Rename {
        dirs: bool,
    },
    Link {
        dirs: bool,
    },
    Dup {
        new: bool,
        cloexec: bool,
    },
    Fcntl,
    Fork,
    Exec,
    Chdir,
    Fchdir,
    Stat,
    Mmap,
    /// Counted by name.
    Ignored,
    /// Neither followed nor counted.
    Nothing,
}

impl Class {
    /// Returns the class of a system call by its name: how its arguments are to be read, or that it
    /// is ignored.
    pub fn of(name: &[u8]) -> Self {
        let read = |offset_arg| Self::Transfer {
            op: Op::Read,
            offset_arg,
        };
        let write = |offset_arg| Self::Transfer {
            op: Op::Write,
            offset_arg,
        };
        match name {
            b"open" => Self::Open {
                dir: false,
                flags: true,
            },
            b"openat" | b"openat2" => Self::Open {
                dir: true,
                flags: true,
            },
            b"creat" => Self::Open {
                dir: false,
                flags: false,
            },
            b"close" => Self::Close,
            b"close_range" => Self::CloseRange,
            b"read" | b"readv" => read(None),
            b"pread64" | b"pread" | b"preadv" | b"preadv2" => read(Some(3)),
            b"write" | b"writev" => write(None),
            b"pwrite64" | b"pwrite" | b"pwritev" | b"pwritev2" => write(Some(3)),
            b"sendfile" | b"sendfile64" => Self::Copy { to_first: true },
            b"copy_file_range" => Self::Copy { to_first: false },
            b"lseek" | b"_llseek" => Self::Seek,
            b"fsync" => Self::Sync(Op::Sync),
            b"fdatasync" => Self::Sync(Op::DataSync),
            b"ftruncate" | b"ftruncate64" => Self::Truncate { path: false },
            b"truncate" | b"truncate64" => Self::Truncate { path: true },
            b"unlink" => Self::Unlink { dir: false },
            b"unlinkat" => Self::Unlink { dir: true },
            b"rename" => Self::Rename { dirs: false },
            b"renameat" | b"renameat2" => Self::Rename { dirs: true },
            b"link" => Self::Link { dirs: false },
            b"linkat" => Self::Link { dirs: true },
            b"dup" => Self::Dup {
                new: false,
                cloexec: false,
            },
            b"dup2" => Self::Dup {
                new: true,
                cloexec: false,
            },
            b"dup3" => Self::Dup {
                new: true,
                cloexec: true,
            },
            b"fcntl" | b"fcntl64" => Self::Fcntl,
            b"clone" | b"clone3" | b"fork" | b"vfork" => Self::Fork,
            b"execve" | b"execveat" => Self::Exec,
            b"chdir" => Self::Chdir,
            b"fchdir" => Self::Fchdir,
            b"newfstatat" | b"fstatat64" => Self::Stat,
            b"mmap" | b"mmap2" => Self::Mmap,
            b"sync" | b"syncfs" | b"sync_file_range" | b"msync" | b"fallocate" | b"splice"
            | b"io_submit" | b"io_uring_enter" | b"process_vm_readv" => Self::Ignored,
            _ => Self::Nothing,
        }
    }
}
