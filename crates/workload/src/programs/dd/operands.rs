//! dd's operands: their names, numbers with suffixes, and refused ones.

use crate::error::CommandError;
use crate::host::OpenFlags;
use crate::shell::Word;
use std::ops::Range;

/// The largest record, in bytes.
pub const MAX_RECORD: u64 = 2 << 30;

/// A length in a file: whole records, and further bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Whole records.
    pub records: u64,
    /// Bytes after the last whole record; less than a record.
    pub bytes: u64,
}

impl Extent {
    /// Returns true if the length is 0.
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the length in bytes, with records of `record` bytes; `None` if it exceeds a file
    /// offset.
    pub(super) fn length(self, record: u64) -> Option<u64> {
        let length = self.records.checked_mul(record)?.checked_add(self.bytes)?;
        i64::try_from(length).ok().map(|_| length)
    }
}

/// dd with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dd {
    /// `if=`: the file to read.
    pub input: String,
    /// `of=`: the file to write.
    pub output: String,
    /// Input record, in bytes: 1 to [`MAX_RECORD`].
    pub ibs: u64,
    /// Output record, in bytes: 1 to [`MAX_RECORD`].
    pub obs: u64,
    /// Gather input records into output records, because `bs=` was not given.
    pub reblock: bool,
    /// How much to read, in input records; `None`: to the end.
    pub count: Option<Extent>,
    /// The input to skip, in input records.
    pub skip: Extent,
    /// The output to skip, in output records.
    pub seek: Extent,
    /// `iflag=fullblock`: repeat reads until a record is full.
    pub fullblock: bool,
    /// `conv=notrunc`: do not truncate the output file.
    pub notrunc: bool,
    /// `conv=nocreat`: fail if the output file is missing.
    pub nocreat: bool,
    /// `conv=fdatasync`: sync the data at the end.
    pub fdatasync: bool,
    /// `conv=fsync`: sync data and metadata at the end.
    pub fsync: bool,
    /// The flags with which the input is opened.
    pub input_flags: OpenFlags,
    /// The flags with which the output is opened.
    pub output_flags: OpenFlags,
}

const OPERANDS: &str = "if= of= bs= ibs= obs= count= skip= (iseek=) seek= (oseek=) conv= iflag= \
     oflag= status=";
const NUMBERS: &str = "a whole number, optionally with a suffix: c=1 w=2 b=512 kB=1000 K=KiB=1024 \
     MB M GB G TB T PB P EB E; products such as 2x512; for count, skip and seek a final B counts \
     bytes";
const CONVERSIONS: &str = "notrunc, fsync, fdatasync, excl, nocreat";
/// Conversions of GNU dd that are not supported: most look at the data.
const UNSUPPORTED: [&str; 11] = [
    "ascii", "ebcdic", "ibm", "block", "unblock", "lcase", "ucase", "sparse", "swab", "sync",
    "noerror",
];
const INPUT_FLAGS: &str = "direct, dsync, sync, append, fullblock, count_bytes, skip_bytes";
const OUTPUT_FLAGS: &str = "direct, dsync, sync, append, seek_bytes";
const LEVELS: &str = "none, noxfer, progress";

/// A number operand as given.
struct Number {
    value: u64,
    /// Whether it ended in `B` and so counts bytes instead of records.
    in_bytes: bool,
    span: Range<usize>,
}

impl Number {
    /// Converts the number to a length in whole records of `record` bytes and further bytes. The
    /// number counts bytes if `in_bytes` says so or it ended in `B`, else records.
    fn extent(&self, in_bytes: bool, record: u64) -> Extent {
        if in_bytes || self.in_bytes {
            Extent {
                records: self.value / record,
                bytes: self.value % record,
            }
        } else {
            Extent {
                records: self.value,
                bytes: 0,
            }
        }
    }
}

/// The part of an operand after its `=`.
struct OperandValue<'a> {
    word: &'a Word,
    at: usize,
}

impl<'a> OperandValue<'a> {
    /// Returns the value's text.
    fn text(&self) -> &'a str {
        &self.word.text[self.at..]
    }

    /// Converts a range of [`text`](Self::text) to its place in the line.
    fn span(&self, range: Range<usize>) -> Range<usize> {
        self.word.source(self.at + range.start..self.at + range.end)
    }

    /// Builds an error at the place of the value.
    fn error(&self, message: String, accepted: &str) -> CommandError {
        CommandError::new(self.span(0..self.text().len()), message, accepted)
    }

    /// Returns the value as a file name, which may not be empty.
    fn path(&self) -> Result<String, CommandError> {
        if self.text().is_empty() {
            return Err(self.error("an empty file name".to_owned(), "the name of a file"));
        }
        Ok(self.text().to_owned())
    }

    /// Returns the value's comma-separated symbols with their places in the line.
    fn symbols(&self) -> impl Iterator<Item = (&'a str, Range<usize>)> {
        let mut at = 0;
        self.text().split(',').map(move |symbol| {
            let range = at..at + symbol.len();
            at = range.end + 1;
            (symbol, self.span(range))
        })
    }

    /// Parses the value as dd's numbers: a product of terms joined with `x`, each with an optional
    /// suffix. Fails on other texts, on numbers of 2^63 or more, and on a leading `0x`.
    fn number(&self) -> Result<Number, CommandError> {
        let text = self.text();
        let whole = self.span(0..text.len());
        let too_large = || self.error(format!("`{text}` is too large"), "less than 2^63");
        if text.starts_with("0x") {
            return Err(CommandError::new(
                self.span(0..2),
                "`0x` is a product with zero and not a hexadecimal number",
                NUMBERS,
            ));
        }
        let (mut value, mut in_bytes, mut at) = (1_u64, false, 0);
        for term in text.split('x') {
            let digits = term.bytes().take_while(u8::is_ascii_digit).count();
            let suffix = &term[digits..];
            let Some((unit, bytes)) = suffix_value(suffix).filter(|_| !term.is_empty()) else {
                let bad = if suffix.is_empty() {
                    at..at
                } else {
                    at + digits..at + term.len()
                };
                let what = if suffix.is_empty() {
                    format!("`{text}` is not a number")
                } else {
                    format!("`{suffix}` in `{text}` is not a suffix of numbers")
                };
                return Err(CommandError::new(self.span(bad), what, NUMBERS));
            };
            // A suffix alone means one of it.
            let count = match &term[..digits] {
                "" => 1,
                digits => digits.parse().map_err(|_| too_large())?,
            };
            value = unit
                .and_then(|unit| value.checked_mul(unit)?.checked_mul(count))
                .filter(|v| i64::try_from(*v).is_ok())
                .ok_or_else(too_large)?;
            in_bytes |= bytes;
            at += term.len() + 1;
        }
        Ok(Number {
            value,
            in_bytes,
            span: whole,
        })
    }

    /// Parses the value as the size of a record, 1 to [`MAX_RECORD`] bytes.
    fn record(&self) -> Result<u64, CommandError> {
        let value = self.number()?.value;
        if !(1..=MAX_RECORD).contains(&value) {
            let message = format!("a record of {value} bytes");
            return Err(self.error(message, &format!("1 to {MAX_RECORD} bytes")));
        }
        Ok(value)
    }
}

/// Returns the factor of a number's suffix (`None` if it exceeds 64 bits), and true if the suffix
/// ends in `B`, so that the number counts bytes where it could count records; `None` for an unknown
/// suffix.
fn suffix_value(suffix: &str) -> Option<(Option<u64>, bool)> {
    let in_bytes = suffix.ends_with('B');
    let simple = |unit| Some((Some(unit), in_bytes));
    match suffix {
        "" | "B" | "c" | "cB" => return simple(1),
        "w" | "wB" => return simple(2),
        "b" | "bB" => return simple(512),
        _ => {}
    }
    let mut rest = suffix.chars();
    let power = match rest.next()? {
        'k' | 'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        'P' => 5,
        'E' => 6,
        'Z' => 7,
        'Y' => 8,
        'R' => 9,
        'Q' => 10,
        _ => return None,
    };
    let base: u64 = match rest.as_str() {
        "" | "iB" => 1024,
        "B" => 1000,
        _ => return None,
    };
    Some((base.checked_pow(power), in_bytes))
}

/// Parses dd's operands (`if=`, `of=`, `bs=`, …) into a program; `name` is the word `dd`.
///
/// # Errors
/// An operand is one that GNU dd would refuse or that the module documentation excludes.
pub(super) fn parse(name: &Word, operands: &[Word]) -> Result<Dd, CommandError> {
    let mut given = Given::new();
    for word in operands {
        let Some(equals) = word.text.find('=') else {
            return Err(unknown_operand(word, &word.text));
        };
        let value = OperandValue {
            word,
            at: equals + 1,
        };
        given.set(&word.text[..equals], &value)?;
    }
    given.finish(name)
}

/// The operands read so far.
struct Given {
    input: Option<String>,
    output: Option<String>,
    bs: Option<u64>,
    count: Option<Number>,
    skip: Option<Number>,
    seek: Option<Number>,
    /// Set by the flags `count_bytes`, `skip_bytes` and `seek_bytes`.
    count_bytes: bool,
    skip_bytes: bool,
    seek_bytes: bool,
    /// The place of `conv=nocreat`.
    nocreat_at: Option<Range<usize>>,
    /// The fields that depend on one operand only.
    dd: Dd,
}

impl Given {
    /// Starts with the values of a dd without operands: records of 512 bytes, gathered.
    fn new() -> Self {
        Self {
            input: None,
            output: None,
            bs: None,
            count: None,
            skip: None,
            seek: None,
            count_bytes: false,
            skip_bytes: false,
            seek_bytes: false,
            nocreat_at: None,
            dd: Dd {
                input: String::new(),
                output: String::new(),
                ibs: 512,
                obs: 512,
                reblock: true,
                count: None,
                skip: Extent::default(),
                seek: Extent::default(),
                fullblock: false,
                notrunc: false,
                nocreat: false,
                fdatasync: false,
                fsync: false,
                input_flags: OpenFlags {
                    read: true,
                    ..OpenFlags::default()
                },
                output_flags: OpenFlags {
                    write: true,
                    ..OpenFlags::default()
                },
            },
        }
    }

    /// Applies one operand, such as `bs`, with its value; fails if dd has no such operand, or not
    /// with this value.
    fn set(&mut self, operand: &str, value: &OperandValue<'_>) -> Result<(), CommandError> {
        match operand {
            "if" => self.input = Some(value.path()?),
            "of" => self.output = Some(value.path()?),
            "bs" => self.bs = Some(value.record()?),
            "ibs" => self.dd.ibs = value.record()?,
            "obs" => self.dd.obs = value.record()?,
            "count" => self.count = Some(value.number()?),
            "skip" | "iseek" => self.skip = Some(value.number()?),
            "seek" | "oseek" => self.seek = Some(value.number()?),
            "conv" => {
                for (symbol, span) in value.symbols() {
                    self.convert(symbol, span)?;
                }
            }
            "iflag" => {
                for (symbol, span) in value.symbols() {
                    match symbol {
                        "fullblock" => self.dd.fullblock = true,
                        "count_bytes" => self.count_bytes = true,
                        "skip_bytes" => self.skip_bytes = true,
                        _ if open_flag(&mut self.dd.input_flags, symbol) => {}
                        _ => return Err(unknown_symbol("input flag", symbol, span, INPUT_FLAGS)),
                    }
                }
            }
            "oflag" => {
                for (symbol, span) in value.symbols() {
                    match symbol {
                        "seek_bytes" => self.seek_bytes = true,
                        _ if open_flag(&mut self.dd.output_flags, symbol) => {}
                        _ => return Err(unknown_symbol("output flag", symbol, span, OUTPUT_FLAGS)),
                    }
                }
            }
            // The report has all figures in any case.
            "status" => {
                if !matches!(value.text(), "none" | "noxfer" | "progress") {
                    let message = format!("`{}` is not a status level", value.text());
                    return Err(value.error(message, LEVELS));
                }
            }
            unknown => return Err(unknown_operand(value.word, unknown)),
        }
        Ok(())
    }

    /// Applies a symbol of `conv=` at the place `span`; refuses conversions of the data, and excl
    /// together with nocreat.
    fn convert(&mut self, symbol: &str, span: Range<usize>) -> Result<(), CommandError> {
        let dd = &mut self.dd;
        match symbol {
            "notrunc" => dd.notrunc = true,
            "fsync" => dd.fsync = true,
            "fdatasync" => dd.fdatasync = true,
            "excl" => dd.output_flags.exclusive = true,
            "nocreat" => {
                dd.nocreat = true;
                self.nocreat_at = Some(span);
            }
            _ if UNSUPPORTED.contains(&symbol) => {
                return Err(CommandError::new(
                    span,
                    format!("the conversion `{symbol}` isn't supported"),
                    CONVERSIONS,
                ));
            }
            _ => return Err(unknown_symbol("conversion", symbol, span, CONVERSIONS)),
        }
        match &self.nocreat_at {
            Some(span) if dd.output_flags.exclusive => Err(CommandError::new(
                span.clone(),
                "excl and nocreat can't be combined",
                "one of them",
            )),
            _ => Ok(()),
        }
    }

    /// Completes the program with the values that depend on several operands; fails if a file is
    /// missing (`name` is the place of that error) or an offset is too large. The output is
    /// truncated at the start unless records are skipped or `conv=notrunc` is given.
    fn finish(self, name: &Word) -> Result<Dd, CommandError> {
        let mut dd = self.dd;
        let missing = |what: &str, accepted: &str| {
            CommandError::new(name.span.clone(), format!("dd without {what}"), accepted)
        };
        dd.input = self.input.ok_or_else(|| {
            missing(
                "if= would read standard input, which the simulation does not have",
                "if=FILE, such as if=/dev/zero",
            )
        })?;
        dd.output = self.output.ok_or_else(|| {
            missing(
                "of= would write standard output, which the simulation does not have",
                "of=FILE, such as of=/dev/null",
            )
        })?;
        if let Some(bs) = self.bs {
            (dd.ibs, dd.obs, dd.reblock) = (bs, bs, false);
        }
        dd.count = self.count.map(|n| n.extent(self.count_bytes, dd.ibs));
        dd.skip = offset(self.skip, self.skip_bytes, dd.ibs)?;
        dd.seek = offset(self.seek, self.seek_bytes, dd.obs)?;
        dd.output_flags.create = !dd.nocreat;
        dd.output_flags.truncate = dd.seek.records == 0 && !dd.notrunc;
        // GNU dd opens the output for reading only if it seeks, because seeking may have to read.
        dd.output_flags.read = dd.seek.records != 0;
        Ok(dd)
    }
}

/// Returns the offset in a file that `skip=` or `seek=` asks for (none: 0), as records of `record`
/// bytes and further bytes; `in_bytes` says that the number counts bytes. Fails if it exceeds 63
/// bits.
fn offset(number: Option<Number>, in_bytes: bool, record: u64) -> Result<Extent, CommandError> {
    let Some(number) = number else {
        return Ok(Extent::default());
    };
    let extent = number.extent(in_bytes, record);
    match extent.length(record) {
        Some(_) => Ok(extent),
        None => Err(CommandError::new(
            number.span,
            "the offset is larger than any file",
            "less than 2^63 bytes",
        )),
    }
}

/// Sets the flag of open(2) that a symbol of `iflag=` or `oflag=` names; returns false if the
/// symbol names none.
fn open_flag(flags: &mut OpenFlags, symbol: &str) -> bool {
    match symbol {
        "direct" => flags.direct = true,
        "dsync" => flags.dsync = true,
        "sync" => flags.sync = true,
        "append" => flags.append = true,
        _ => return false,
    }
    true
}

/// Builds the error for an operand that dd does not have.
fn unknown_operand(word: &Word, operand: &str) -> CommandError {
    CommandError::new(
        word.source(0..operand.len()),
        format!("dd has no operand `{operand}`"),
        OPERANDS,
    )
}

/// Builds the error for a symbol (of `kind`, such as "conversion") that is not supported, at the
/// place `span`.
fn unknown_symbol(kind: &str, symbol: &str, span: Range<usize>, accepted: &str) -> CommandError {
    CommandError::new(
        span,
        format!("`{symbol}` is not a supported {kind}"),
        accepted,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::dd::tests::dd;

    #[test]
    fn numbers_are_those_of_gnu_dd() {
        for (text, value, in_bytes) in [
            ("0", 0, false),
            ("010", 10, false),
            ("1c", 1, false),
            ("3w", 6, false),
            ("2b", 1024, false),
            ("b", 512, false),
            ("1kB", 1000, true),
            ("1K", 1024, false),
            ("32k", 32768, false),
            ("1KiB", 1024, true),
            ("2MB", 2_000_000, true),
            ("M", 1 << 20, false),
            ("1xM", 1 << 20, false),
            ("1G", 1 << 30, false),
            ("3TiB", 3 << 40, true),
            ("1PB", 1_000_000_000_000_000, true),
            ("7E", 7 << 60, false),
            ("2x512", 1024, false),
            ("2x3x4k", 24 << 10, false),
            ("5B", 5, true),
            ("2bB", 1024, true),
            ("00x3", 0, false),
            ("9223372036854775807", i64::MAX as u64, false),
        ] {
            let word = operand(&format!("x={text}"));
            let number = OperandValue { word: &word, at: 2 }.number().unwrap();
            assert_eq!((number.value, number.in_bytes), (value, in_bytes), "{text}");
        }
    }

    fn operand(text: &str) -> Word {
        let line = format!("dd {text}");
        crate::shell::parse(&line)
            .unwrap()
            .remove(0)
            .commands
            .remove(0)
            .words
            .remove(1)
    }

    #[test]
    fn wrong_operands_are_named_and_placed() {
        for (operands, place, message) in [
            ("if=a", "dd", "of="),
            ("of=a", "dd", "if="),
            ("if= of=a", "if=", "empty"),
            ("if=a of=b foo", "foo", "`foo`"),
            ("if=a of=b fo\\o=1", "fo\\o", "`foo`"),
            ("if=a of=b =1", "=1", "``"),
            ("if=a of=b cbs=1", "cbs", "cbs"),
            ("if=a of=b bs=1X", "X", "`X`"),
            ("if=a of=b bs=12'k'ib", "k'ib", "`kib`"),
            ("if=a of=b bs=1BB", "BB", "`BB`"),
            ("if=a of=b bs=-1", "-1", "`-1`"),
            ("if=a of=b bs=", "bs=", "not a number"),
            ("if=a of=b bs=1x", "bs=1x", "not a number"),
            ("if=a of=b bs=x1", "bs=x1", "not a number"),
            ("if=a of=b bs=0x10", "0x", "hexadecimal"),
            ("if=a of=b bs=0", "0", "record"),
            ("if=a of=b bs=$((1 - 1))", "$((1 - 1))", "record"),
            ("if=a of=b ibs=3G", "3G", "record"),
            ("if=a of=b count=1Z", "1Z", "too large"),
            (
                "if=a of=b count=9223372036854775808",
                "9223372036854775808",
                "too large",
            ),
            (
                "if=a of=b count=99999999999999999999",
                "99999999999999999999",
                "too large",
            ),
            ("if=a of=b count=4Gx4G", "4Gx4G", "too large"),
            ("if=a of=b bs=1M seek=8E", "8E", "too large"),
            ("if=a of=b skip=7E bs=1M", "7E", "larger than any file"),
            ("if=a of=b conv=fsync,foo,excl", "foo", "`foo`"),
            ("if=a of=b conv=", "conv=", "``"),
            ("if=a of=b conv=sparse", "sparse", "isn't supported"),
            ("if=a of=b conv=excl conv=nocreat", "nocreat", "combined"),
            (
                "if=a of=b iflag=direct,seek_bytes",
                "seek_bytes",
                "input flag",
            ),
            ("if=a of=b oflag=fullblock", "fullblock", "output flag"),
            ("if=a of=b status=loud", "loud", "status"),
            ("if=a of=b --help", "--help", "--help"),
        ] {
            let line = format!("dd {operands}");
            let e = dd(operands).expect_err(operands);
            assert_eq!(&line[e.span.clone()], place, "{operands}: {e}");
            assert!(e.message.contains(message), "{operands}: {e}");
            assert!(!e.accepted.is_empty());
        }
    }

    #[test]
    fn operands_become_fields() {
        let parsed = dd("if=/dev/zero of=disk/zeroes bs=32k count=$((10 << 15))").unwrap();
        assert_eq!(
            (parsed.ibs, parsed.obs, parsed.reblock),
            (32768, 32768, false)
        );
        assert_eq!(
            parsed.count,
            Some(Extent {
                records: 327_680,
                bytes: 0
            })
        );
        let flags = parsed.output_flags;
        assert!(flags.write && flags.create && flags.truncate && !flags.read && !flags.exclusive);
        let parsed =
            dd("ibs=10 obs=7 iflag=skip_bytes skip=25 count=25B oseek=1 if=a of=b if=c").unwrap();
        assert_eq!(
            parsed.skip,
            Extent {
                records: 2,
                bytes: 5
            }
        );
        assert_eq!(
            parsed.count,
            Some(Extent {
                records: 2,
                bytes: 5
            })
        );
        assert_eq!(
            parsed.seek,
            Extent {
                records: 1,
                bytes: 0
            }
        );
        assert_eq!(parsed.input, "c");
        assert!(parsed.output_flags.read && !parsed.output_flags.truncate);
        let parsed = dd("if=a of=b bs=4k ibs=1 obs=2 oflag=direct,sync,dsync,append conv=excl");
        let parsed = parsed.unwrap();
        assert_eq!((parsed.ibs, parsed.obs), (4096, 4096));
        let f = parsed.output_flags;
        assert!(f.direct && f.sync && f.dsync && f.append && f.exclusive);
    }
}
