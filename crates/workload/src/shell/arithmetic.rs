//! `$(( … ))`: the integer arithmetic of the shell.
//!
//! The operators of C on signed 64-bit integers, with C's precedence: `?:`, `||`, `&&`, `|`, `^`,
//! `&`, `==` `!=`, `<` `<=` `>` `>=`, `<<` `>>`, `+` `-`, `*` `/` `%`, unary `+` `-` `!` `~` and
//! parentheses. Constants are decimal, octal (`017`) or hexadecimal (`0x1f`). Results wrap; shifts
//! take the low six bits of their count, as x86-64 and with it the usual shells do. A branch that C
//! would not evaluate may divide by zero. The only variables are those of loops, and there are no
//! assignments.
//!
//! Reference: POSIX.1-2017, Shell & Utilities, 1.1.2.1 Arithmetic Precision and Operations and
//! 2.6.4 Arithmetic Expansion.

use super::cursor::Cursor;
use crate::error::CommandError;
use std::ops::Range;

/// The deepest nesting of parentheses, unary operators and conditionals.
const MAX_DEPTH: u32 = 64;

const OPERANDS: &str = "a decimal, octal (017) or hexadecimal (0x1f) number, a unary + - ! ~, or (";
const OPERATORS: &str =
    "+ - * / % << >> & | ^ && || == != < <= > >= ?: and )) at the end of the expression";

/// Evaluates an expansion that begins at byte `start`; the cursor is behind its `$((` and is left
/// behind its `))`.
pub(super) fn expansion(at: &mut Cursor<'_>, start: usize) -> Result<i64, CommandError> {
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
    /// Returns how tightly the operator binds, from 1 (loosest) to 10; all are left-associative.
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

    /// Returns the value of the operator with the operands `a` and `b`, wrapping as in the usual
    /// shells; `None` for a division by zero.
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
    /// Evaluates an expression up to its `))` and moves behind them. `start` is the offset of its
    /// `$((`, for errors. With `live` false the expression stands in a branch that is not taken:
    /// its syntax is checked, but a division by zero is no error.
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

    /// Moves past blanks, tabs and newlines.
    fn blanks(&mut self) {
        while matches!(self.at.peek(), Some(' ' | '\t' | '\n')) {
            self.at.bump();
        }
    }

    /// Calls `inner` one level of nesting deeper and returns its result; an error beyond
    /// [`MAX_DEPTH`], which bounds the recursion.
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

    /// Evaluates `condition ? a : b`, or an expression without `?`. Only the branch that is taken
    /// is evaluated with `live`.
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

    /// Evaluates operators of at least `least` precedence, by precedence climbing: at most one call
    /// per precedence is open at each level of nesting. With `live` false a division by zero gives
    /// 0.
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
            // The right side of a decided `&&` or `||` is not evaluated.
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

    /// Reads the next binary operator; `None`: another character or the end follows, and the cursor
    /// stays there. Assignments such as `+=` are an error.
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

    /// Evaluates an operand: a number, a parenthesis, a nested `$(( … ))`, or a unary operator
    /// before an operand. Variables and command substitution are refused.
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
                let what =
                    || format!("variables and command substitution aren't accepted: ${name}");
                self.variable(&name, here.start, what)
            }
            c if c == '_' || c.is_ascii_alphabetic() => {
                let name = self.name();
                let what = || format!("variables aren't accepted: {name}");
                self.variable(&name, here.start, what)
            }
            _ => Err(CommandError::new(
                here,
                "a number is expected here",
                OPERANDS,
            )),
        }
    }

    /// Returns the number that a loop's variable holds. `start` is where it stands in the line, and
    /// `none` the message if there is no such variable.
    fn variable(
        &self,
        name: &str,
        start: usize,
        none: impl FnOnce() -> String,
    ) -> Result<i64, CommandError> {
        let what = match self.at.variable(name).map(str::parse) {
            Some(Ok(number)) => return Ok(number),
            Some(Err(_)) => format!("`{name}` is not a decimal number"),
            None => none(),
        };
        Err(CommandError::new(start..self.at.pos, what, OPERANDS))
    }

    /// Reads letters, digits and underscores, and returns them; empty if none follows.
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

    /// Reads a decimal, octal (`017`) or hexadecimal (`0x1f`) number.
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
mod tests;
