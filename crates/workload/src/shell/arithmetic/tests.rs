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

/// An expression tree, printed and evaluated independently of the parser.
#[derive(Debug, Clone)]
enum Tree {
    Number(i64),
    Unary(char, Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
    Conditional(Box<Tree>, Box<Tree>, Box<Tree>),
}

/// C's precedence, loosest first, independent of the parser's table.
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

    /// Prints with the fewest parentheses that keep the tree's meaning.
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

    /// Evaluates in 128 bits, cut to 64 after each step; `None` for a division by zero.
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
    number
        .prop_map(Tree::Number)
        .prop_recursive(6, 48, 3, move |inner| {
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
