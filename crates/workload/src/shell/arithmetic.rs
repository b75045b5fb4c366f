//! `$(( … ))`: the integer arithmetic of the shell.
//!
//! The operators of C on signed 64-bit integers, by their precedence there: `?:`, `||`, `&&`, `|`,
//! `^`, `&`, `==` `!=`, `<` `<=` `>` `>=`, `<<` `>>`, `+` `-`, `*` `/` `%`, unary `+` `-` `!` `~`
//! and parentheses. Constants are decimal, octal (`017`) or hexadecimal (`0x1f`). Results wrap;
//! shifts take the low six bits of their count, as x86-64 does and with it the usual shells.
//! A branch that C would not evaluate may divide by zero. There are no variables, so nothing can
//! be assigned.
//!
//! Reference: POSIX.1-2017, Shell & Utilities, 1.1.2.1 Arithmetic Precision and Operations and
//! 2.6.4 Arithmetic Expansion.

use crate::script::CommandError;
use crate::shell::Cursor;
use std::ops::Range;

/// How deep parentheses, unary operators and conditionals may nest.
const MAX_DEPTH: u32 = 64;

const OPERANDS: &str = "a decimal, octal (017) or hexadecimal (0x1f) number, a unary + - ! ~, or (";
const OPERATORS: &str =
    "+ - * / % << >> & | ^ && || == != < <= > >= ?: and )) at the end of the expression";

/// Evaluates an expansion that begins at byte `start`; the cursor stands behind its `$((` and is
/// left behind its `))`.
pub(crate) fn expansion(at: &mut Cursor<'_>, start: usize) -> Result<i64, CommandError> {
    Evaluator { at, depth: 0 }.until_close(start, true)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Op {
    /// How tightly the operator binds; all are left-associative.
    fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::BitOr => 3,
            Self::BitXor => 4,
            Self::BitAnd => 5,
            Self::Equal | Self::NotEqual => 6,
            Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual => 7,
            Self::ShiftLeft | Self::ShiftRight => 8,
            Self::Add | Self::Subtract => 9,
            Self::Multiply | Self::Divide | Self::Remainder => 10,
        }
    }

    /// The value; `None` for a division by zero.
    fn apply(self, a: i64, b: i64) -> Option<i64> {
        Some(match self {
            Self::Or => i64::from(a != 0 || b != 0),
            Self::And => i64::from(a != 0 && b != 0),
            Self::BitOr => a | b,
            Self::BitXor => a ^ b,
            Self::BitAnd => a & b,
            Self::Equal => i64::from(a == b),
            Self::NotEqual => i64::from(a != b),
            Self::Less => i64::from(a < b),
            Self::LessEqual => i64::from(a <= b),
            Self::Greater => i64::from(a > b),
            Self::GreaterEqual => i64::from(a >= b),
            Self::ShiftLeft => a.wrapping_shl((b & 63) as u32),
            Self::ShiftRight => a.wrapping_shr((b & 63) as u32),
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide if b == 0 => return None,
            Self::Divide => a.wrapping_div(b),
            Self::Remainder if b == 0 => return None,
            Self::Remainder => a.wrapping_rem(b),
        })
    }
}

struct Evaluator<'c, 'a> {
    at: &'c mut Cursor<'a>,
    depth: u32,
}

impl Evaluator<'_, '_> {
    /// An expression and its `))`. With `live` false only the syntax counts.
    fn until_close(&mut self, start: usize, live: bool) -> Result<i64, CommandError> {
        let value = self.conditional(live)?;
        self.blanks();
        let here = self.at.here();
        if !self.at.eat(')') {
            return Err(match here.is_empty() {
                true => CommandError::new(start..here.end, "this `$((` is never closed", "))"),
                false => CommandError::new(here, "an operator is expected here", OPERATORS),
            });
        }
        if !self.at.eat(')') {
            return Err(CommandError::new(
                here,
                "a single `)` can't end `$((`",
                "))",
            ));
        }
        Ok(value)
    }

    fn blanks(&mut self) {
        while matches!(self.at.peek(), Some(' ' | '\t' | '\n')) {
            self.at.bump();
        }
    }

    /// Runs `inner` one level deeper, or refuses to.
    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        if self.depth == MAX_DEPTH {
            return Err(CommandError::new(
                self.at.here(),
                "the expression nests too deep",
                format!("at most {MAX_DEPTH} levels of parentheses, unary operators and ?:"),
            ));
        }
        self.depth += 1;
        let value = inner(self);
        self.depth -= 1;
        value
    }

    fn conditional(&mut self, live: bool) -> Result<i64, CommandError> {
        let condition = self.binary(1, live)?;
        self.blanks();
        let question = self.at.here();
        if !self.at.eat('?') {
            return Ok(condition);
        }
        let then = self.deeper(|s| s.conditional(live && condition != 0))?;
        self.blanks();
        if !self.at.eat(':') {
            return Err(CommandError::new(
                question,
                "this `?` has no `:`",
                "condition ? a : b",
            ));
        }
        let otherwise = self.deeper(|s| s.conditional(live && condition == 0))?;
        Ok(if condition != 0 { then } else { otherwise })
    }

    /// Operators of at least `least` precedence, by precedence climbing: at most one call per
    /// precedence is open at each level of nesting.
    fn binary(&mut self, least: u8, live: bool) -> Result<i64, CommandError> {
        let mut left = self.unary(live)?;
        loop {
            let before = self.at.pos;
            self.blanks();
            let Some(op) = self.operator()?.filter(|op| op.precedence() >= least) else {
                self.at.pos = before;
                return Ok(left);
            };
            self.blanks();
            let start = self.at.pos;
            let live = match op {
                Op::And => live && left != 0,
                Op::Or => live && left == 0,
                _ => live,
            };
            let right = self.binary(op.precedence() + 1, live)?;
            left = match op.apply(left, right) {
                Some(value) => value,
                None if live => {
                    return Err(CommandError::new(
                        start..self.at.pos,
                        "division by zero",
                        "a divisor other than 0",
                    ));
                }
                None => 0,
            };
        }
    }

    /// The binary operator that is next, if one is.
    fn operator(&mut self) -> Result<Option<Op>, CommandError> {
        let start = self.at.here().start;
        let Some(first) = self.at.peek() else {
            return Ok(None);
        };
        if !"|&^=!<>+-*/%".contains(first) {
            return Ok(None);
        }
        self.at.bump();
        let op = match first {
            '|' if self.at.eat('|') => return Ok(Some(Op::Or)),
            '&' if self.at.eat('&') => return Ok(Some(Op::And)),
            '=' if self.at.eat('=') => return Ok(Some(Op::Equal)),
            '!' if self.at.eat('=') => return Ok(Some(Op::NotEqual)),
            '<' if self.at.eat('=') => return Ok(Some(Op::LessEqual)),
            '>' if self.at.eat('=') => return Ok(Some(Op::GreaterEqual)),
            '=' => return Err(assignment(start..self.at.pos)),
            '!' => {
                self.at.pos = start;
                return Ok(None);
            }
            '|' => Op::BitOr,
            '&' => Op::BitAnd,
            '^' => Op::BitXor,
            '<' if self.at.eat('<') => Op::ShiftLeft,
            '<' => return Ok(Some(Op::Less)),
            '>' if self.at.eat('>') => Op::ShiftRight,
            '>' => return Ok(Some(Op::Greater)),
            '+' => Op::Add,
            '-' => Op::Subtract,
            '*' => Op::Multiply,
            '/' => Op::Divide,
            _ => Op::Remainder,
        };
        if self.at.eat('=') {
            return Err(assignment(start..self.at.pos));
        }
        Ok(Some(op))
    }

    fn unary(&mut self, live: bool) -> Result<i64, CommandError> {
        self.blanks();
        let here = self.at.here();
        let Some(c) = self.at.peek() else {
            return Err(CommandError::new(
                here,
                "the expression ends too early",
                OPERANDS,
            ));
        };
        match c {
            '+' | '-' | '!' | '~' => {
                self.at.bump();
                let value = self.deeper(|s| s.unary(live))?;
                Ok(match c {
                    '+' => value,
                    '-' => value.wrapping_neg(),
                    '!' => i64::from(value == 0),
                    _ => !value,
                })
            }
            '(' => {
                self.at.bump();
                let value = self.deeper(|s| s.conditional(live))?;
                self.blanks();
                let end = self.at.here();
                if self.at.eat(')') {
                    Ok(value)
                } else if end.is_empty() {
                    Err(CommandError::new(
                        here,
                        "this parenthesis is never closed",
                        ")",
                    ))
                } else {
                    Err(CommandError::new(
                        end,
                        "an operator or `)` is expected here",
                        OPERATORS,
                    ))
                }
            }
            '0'..='9' => self.number(),
            '$' => {
                self.at.bump();
                if self.at.eat('(') && self.at.eat('(') {
                    return self.deeper(|s| s.until_close(here.start, live));
                }
                let name = self.name();
                Err(CommandError::new(
                    here.start..self.at.pos,
                    format!("variables and command substitution aren't accepted: ${name}"),
                    OPERANDS,
                ))
            }
            c if c == '_' || c.is_ascii_alphabetic() => {
                let name = self.name();
                Err(CommandError::new(
                    here.start..self.at.pos,
                    format!("variables aren't accepted: {name}"),
                    OPERANDS,
                ))
            }
            _ => Err(CommandError::new(
                here,
                "a number is expected here",
                OPERANDS,
            )),
        }
    }

    /// Letters, digits and underscores.
    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self
            .at
            .peek()
            .filter(|c| *c == '_' || c.is_ascii_alphanumeric())
        {
            name.push(c);
            self.at.bump();
        }
        name
    }

    fn number(&mut self) -> Result<i64, CommandError> {
        let start = self.at.pos;
        let text = self.name();
        let span = start..self.at.pos;
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
            None => (text.as_str(), 10),
        };
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            let kind = match radix {
                16 => "hexadecimal",
                8 => "octal",
                _ => "decimal",
            };
            let message = format!("`{text}` is not a {kind} number");
            return Err(CommandError::new(span, message, OPERANDS));
        }
        i64::from_str_radix(digits, radix).map_err(|_| {
            CommandError::new(
                span,
                format!("`{text}` does not fit a signed 64-bit number"),
                "at most 9223372036854775807",
            )
        })
    }
}

fn assignment(span: Range<usize>) -> CommandError {
    CommandError::new(span, "assignments aren't accepted", OPERATORS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;
    use proptest::prelude::*;

    fn value(expression: &str) -> Result<i64, CommandError> {
        let line = format!("echo $(({expression}))");
        let mut lists = shell::parse(&line)?;
        let word = lists.remove(0).commands.remove(0).words.remove(1);
        Ok(word.text.parse().expect("an integer"))
    }

    #[test]
    fn the_real_shell_agrees() {
        let expressions = [
            "10 << 15",
            "1+2*3-4/2%3",
            "-7 / 2",
            "-7 % 3",
            "7 % -3",
            "1 ? 2 : 3 ? 4 : 5",
            "0 ? 1 / 0 : 7",
            "0 && 1 / 0",
            "2 || 1 / 0",
            "1 || 1 && 0",
            "~5 & 0xff ^ 017 | 1",
            "1 < 2 == 2 > 1",
            "- -3 - -3",
            "!0 + !5",
            "1 << 2 + 1",
            "(1 << 2) + 1",
            "9223372036854775807 + 1",
            "0x10 * 010",
            "1024*1024*64",
            "1 - 1 - 1",
            "100 / 10 / 5",
            "5 & 3 == 3",
            "\n1\n+\t1\n",
            "$((2)) * $(( 3 + 1 ))",
            "1\\\n2 <\\\n< 1",
            "1 <= 1 >= 1 != 0",
            "-1 >> 1",
            "1 ? 0 ? 1 : 2 : 3",
        ];
        for e in expressions {
            let script = format!("printf %s \"$(({e}))\"");
            let out = std::process::Command::new("sh")
                .arg("-c")
                .arg(script)
                .output()
                .unwrap();
            assert!(
                out.status.success(),
                "{e}: {}",
                String::from_utf8_lossy(&out.stderr)
            );
            let expected = String::from_utf8(out.stdout).unwrap();
            assert_eq!(
                value(e).unwrap_or_else(|x| panic!("{e}: {x}")).to_string(),
                expected,
                "{e}"
            );
        }
    }

    #[test]
    fn extremes_wrap() {
        let min = "(-9223372036854775807 - 1)";
        assert_eq!(value(&format!("{min} / -1")), Ok(i64::MIN));
        assert_eq!(value(&format!("{min} % -1")), Ok(0));
        assert_eq!(value(&format!("-{min}")), Ok(i64::MIN));
        assert_eq!(value("1 << 64"), Ok(1));
        assert_eq!(value("1 << -1"), Ok(i64::MIN));
    }

    #[test]
    fn errors_point_at_their_cause() {
        for (expression, place, message) in [
            ("1 / 0", "0", "division by zero"),
            ("1 % (2 - 2) + 1", "(2 - 2)", "division by zero"),
            ("size * 2", "size", "size"),
            ("$size * 2", "$size", "$size"),
            ("1 + $(x)", "$(x", "substitution"),
            ("1 = 2", "=", "assignments"),
            ("1 <<= 2", "<<=", "assignments"),
            ("08", "08", "octal"),
            ("0x", "0x", "hexadecimal"),
            ("12k", "12k", "decimal"),
            ("9223372036854775808", "9223372036854775808", "fit"),
            ("", ")", "a number"),
            ("1 +", ")", "a number"),
            ("1 2", "2", "operator"),
            ("1 ? 2", "?", "no `:`"),
            ("(1", ")", "single"),
            ("1, 2", ",", "operator"),
            ("é", "é", "a number"),
            ("1 ! 2", "!", "operator"),
        ] {
            let line = format!("echo $(({expression}))");
            let e = value(expression).expect_err(expression);
            assert_eq!(&line[e.span.clone()], place, "{expression}: {e}");
            assert!(e.message.contains(message), "{expression}: {e}");
        }
        for (line, place, message) in [
            ("a $((1) )", ")", "single"),
            ("a $((1", "$((1", "never closed"),
            ("a $((1 + (2", "(", "never closed"),
            ("a $((1 +", "", "too early"),
        ] {
            let e = shell::parse(line).unwrap_err();
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
            assert!(e.message.contains(message), "{line}: {e}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(value(&nested(64)), Ok(1));
        for deep in [
            nested(65),
            nested(30_000),
            format!("{}1", "-".repeat(60_000)),
            "1?".repeat(20_000),
            format!("{}0", "1?1:".repeat(10_000)),
            "$((".repeat(20_000),
        ] {
            assert!(value(&deep).unwrap_err().message.contains("deep"));
        }
    }

    /// A tree to print and to evaluate independently of the parser.
    #[derive(Debug, Clone)]
    enum Tree {
        Number(i64),
        Unary(char, Box<Tree>),
        Binary(&'static str, Box<Tree>, Box<Tree>),
        Conditional(Box<Tree>, Box<Tree>, Box<Tree>),
    }

    /// C's precedence, loosest first, written down a second time.
    const LEVELS: [&[&str]; 10] = [
        &["||"],
        &["&&"],
        &["|"],
        &["^"],
        &["&"],
        &["==", "!="],
        &["<", "<=", ">", ">="],
        &["<<", ">>"],
        &["+", "-"],
        &["*", "/", "%"],
    ];

    impl Tree {
        fn level(&self) -> usize {
            match self {
                Self::Number(n) if *n < 0 => 0,
                Self::Number(_) => 12,
                Self::Unary(..) => 11,
                Self::Binary(op, ..) => LEVELS.iter().position(|l| l.contains(op)).unwrap() + 1,
                Self::Conditional(..) => 0,
            }
        }

        /// With the fewest parentheses that keep the tree's meaning.
        fn print(&self, least: usize, out: &mut String) {
            let parentheses = self.level() < least;
            if parentheses {
                out.push('(');
            }
            match self {
                Self::Number(n) if *n < 0 => {
                    out.push_str(&format!("~0x{:x}", !n));
                }
                Self::Number(n) if n % 3 == 0 => out.push_str(&format!("0{n:o}")),
                Self::Number(n) => out.push_str(&n.to_string()),
                Self::Unary(op, a) => {
                    out.push(*op);
                    a.print(11, out);
                }
                Self::Binary(op, a, b) => {
                    a.print(self.level(), out);
                    out.push_str(if op.len() == 1 { " " } else { "\n\t" });
                    out.push_str(op);
                    b.print(self.level() + 1, out);
                }
                Self::Conditional(c, a, b) => {
                    c.print(1, out);
                    out.push('?');
                    a.print(0, out);
                    out.push_str(" :");
                    b.print(0, out);
                }
            }
            if parentheses {
                out.push(')');
            }
        }

        /// In 128 bits, cut to 64 after each step; `None` divides by zero.
        fn evaluate(&self) -> Option<i64> {
            Some(match self {
                Self::Number(n) => *n,
                Self::Unary(op, a) => {
                    let a = i128::from(a.evaluate()?);
                    match op {
                        '-' => -a as i64,
                        '+' => a as i64,
                        '~' => (-a - 1) as i64,
                        _ => (a == 0) as i64,
                    }
                }
                Self::Conditional(c, a, b) => {
                    if c.evaluate()? != 0 {
                        a.evaluate()?
                    } else {
                        b.evaluate()?
                    }
                }
                Self::Binary("&&", a, b) => (a.evaluate()? != 0 && b.evaluate()? != 0) as i64,
                Self::Binary("||", a, b) => (a.evaluate()? != 0 || b.evaluate()? != 0) as i64,
                Self::Binary(op, a, b) => {
                    let (a, b) = (i128::from(a.evaluate()?), i128::from(b.evaluate()?));
                    let count = b.rem_euclid(64) as u32;
                    match *op {
                        "|" => (a | b) as i64,
                        "^" => (a ^ b) as i64,
                        "&" => (a & b) as i64,
                        "==" => (a == b) as i64,
                        "!=" => (a != b) as i64,
                        "<" => (a < b) as i64,
                        "<=" => (a <= b) as i64,
                        ">" => (a > b) as i64,
                        ">=" => (a >= b) as i64,
                        "<<" => (a << count) as i64,
                        ">>" => (a >> count) as i64,
                        "+" => (a + b) as i64,
                        "-" => (a - b) as i64,
                        "*" => (a * b) as i64,
                        "/" => a.checked_div(b)? as i64,
                        "%" => a.checked_rem(b)? as i64,
                        other => unreachable!("{other}"),
                    }
                }
            })
        }
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let number = prop_oneof![
            3 => -5..20_i64,
            1 => any::<i64>(),
            1 => proptest::sample::select(vec![i64::MIN, i64::MAX, 63, 64]),
        ];
        let operators: Vec<&'static str> = LEVELS.concat();
        number.prop_map(Tree::Number).prop_recursive(6, 48, 3, move |inner| {
            let op = proptest::sample::select(operators.clone());
            let sign = proptest::sample::select(vec!['-', '+', '~', '!']);
            prop_oneof![
                1 => (sign, inner.clone()).prop_map(|(op, a)| Tree::Unary(op, Box::new(a))),
                5 => (op, inner.clone(), inner.clone())
                    .prop_map(|(op, a, b)| Tree::Binary(op, Box::new(a), Box::new(b))),
                1 => (inner.clone(), inner.clone(), inner)
                    .prop_map(|(c, a, b)| Tree::Conditional(Box::new(c), Box::new(a), Box::new(b))),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_reference_evaluator_agrees(tree in trees()) {
            let mut text = String::new();
            tree.print(0, &mut text);
            match (tree.evaluate(), value(&text)) {
                (Some(expected), Ok(got)) => prop_assert_eq!(got, expected, "{}", text),
                (None, Err(e)) => prop_assert_eq!(e.message, "division by zero"),
                (expected, got) => prop_assert!(false, "{}: {:?} {:?}", text, expected, got),
            }
        }
    }
}
