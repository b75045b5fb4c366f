use super::*;
use proptest::prelude::*;

fn texts(line: &str) -> Vec<String> {
    let lists = parse(line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
    lists
        .into_iter()
        .flat_map(|l| l.commands)
        .flat_map(|c| c.words)
        .map(|w| w.text)
        .collect()
}

#[test]
fn a_sequence_makes_words() {
    assert_eq!(
        texts("f -d{1..3}/x -n 4"),
        ["f", "-d1/x", "-d2/x", "-d3/x", "-n", "4"]
    );
    assert_eq!(texts("f {2..-1}"), ["f", "2", "1", "0", "-1"]);
    assert_eq!(
        texts("f '{1..3}' {1..} {a,b}"),
        ["f", "{1..3}", "{1..}", "{a,b}"]
    );
    let words = parse("f a{8..9}")
        .unwrap()
        .remove(0)
        .commands
        .remove(0)
        .words;
    assert_eq!((words[2].span.clone(), words[2].source(1..2)), (2..9, 3..9));
    for (line, place) in [
        ("f {1..2}{1..2}", "{1..2}"),
        ("f {1..1001}", "{1..1001}"),
        ("f {1..600}; g {1..401}", "{1..401}"),
        ("f >{1..2}", "{1..2}"),
    ] {
        let e = parse(line).unwrap_err();
        assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
    }
}

/// Returns the part of the line that an error points at, and its message.
fn refused(line: &str) -> (&str, String) {
    let e = parse(line).expect_err(line);
    assert!(!e.accepted.is_empty());
    (&line[e.span.clone()], e.message)
}

/// Formats lists as text: commands joined by `+`, `&` after background lists.
fn shape(line: &str) -> String {
    let lists = parse(line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
    let mut out = Vec::new();
    for list in lists {
        let names: Vec<_> = list
            .commands
            .iter()
            .map(|c| c.words[0].text.as_str())
            .collect();
        out.push(names.join("+") + if list.background { "&" } else { "" });
    }
    out.join(" ")
}

#[test]
fn words_are_those_of_sh() {
    let lines = [
        r#"a b  c"#,
        r#"a'b c'd "e f"g"#,
        r#"'' "" a"#,
        r#"\a\ b \' \\ \$x \*"#,
        r#""\a \" \\ \$ \` '" '\a "'"#,
        "a\\\nb c\\\n d",
        "\"a\\\nb\" 'a\\\nb'",
        "a#b #c d\n",
        "a # comment \\\n",
        "a$ $ $% \"$\" a$",
        "bs=$((1 << 4)) x$((2))y\"$((3))\"",
        "a=~ x~ a=b",
        "]x %y @ : , {a,b} a!",
        "é 'ü' \\ñ",
        "a 2>/dev/null b >/dev/null 2>&1 c 2>&\\\n1 2",
        "1>/dev/null a > /dev/null",
        "a2>/dev/null b",
        "a '2'>/dev/null b",
    ];
    for line in lines {
        // The first word of each line becomes printf's first argument; printf prints all of them.
        let script = format!("exec 3>&1; p() {{ printf '%s\\0' \"$@\" >&3; }}; p {line}");
        let out = std::process::Command::new("sh")
            .arg("-c")
            .arg(&script)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{line:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        let text = String::from_utf8(out.stdout).unwrap();
        let expected: Vec<&str> = text.split_terminator('\0').collect();
        assert_eq!(texts(&format!("p {line}"))[1..], expected, "{line:?}");
    }
}

#[test]
fn lists_of_commands() {
    assert_eq!(shape("a x; b\nc && d &\n\n e & f;"), "a b c+d& e& f");
    assert_eq!(shape("a &&\n # why\n b"), "a+b");
    assert_eq!(shape("a&b"), "a& b");
    assert_eq!(shape("a &\\\n& b"), "a+b");
    assert_eq!(shape(""), "");
    assert_eq!(shape(" \n# nothing\n"), "");
}

/// Loops, subshells and braces give the words that a shell gives.
#[test]
fn compound_commands_are_those_of_sh() {
    for line in [
        "for i in 1 2 3; do p a$i ${i}b \"$i c\" $((i * 2)) $(($i+1)); done",
        "for i in $(seq 2 4) x\ndo\np $i; p second\ndone",
        "for i in 1 2; do for j in a b; do p $i$j; done; p end $i; done; p $((1))",
        "(p a; p b); { p c; p d; }; p e",
        "(p a && p b) && p c",
        "p a && (p b; p c)",
        "( (p a); p b ) >/dev/null 2>&1; p c",
        "for for in in do; do p $for; done",
        "for i in $(seq 3 -2 -1); do p $i; done;\n\n# a comment\np $((5))",
    ] {
        let script = format!("exec 3>&1; p() {{ printf '%s\\0' \"$@\" \"\" >&3; }}; {line}");
        let out = std::process::Command::new("sh")
            .arg("-c")
            .arg(&script)
            .output()
            .unwrap();
        assert!(out.status.success(), "{line:?}");
        let text = String::from_utf8(out.stdout).unwrap();
        let expected: Vec<&str> = text.split_terminator('\0').collect();
        let mut words = Vec::new();
        for command in parse(line).unwrap_or_else(|e| panic!("{line:?}: {e}")) {
            for command in command.commands {
                words.extend(command.words[1..].iter().map(|w| w.text.clone()));
                words.push(String::new());
            }
        }
        assert_eq!(words, expected, "{line:?}");
    }
}

#[test]
fn compound_commands_make_lists() {
    assert_eq!(shape("for i in 1 2; do a & done; wait"), "a& a& wait");
    assert_eq!(shape("for i in 1 2; do a; b; done & c"), "a+b+a+b& c");
    assert_eq!(shape("(a; b) & (c && d) & wait"), "a+b& c+d& wait");
    assert_eq!(shape("(a & b; wait); c"), "a& b wait c");
    assert_eq!(shape("a && (b; c) && d; e"), "a+b+c+d e");
    assert_eq!(shape("{ a; b; } && c"), "a+b+c");
    assert_eq!(shape("((a); b)\nc"), "a b c");
}

#[test]
fn what_is_not_accepted_is_named_and_placed() {
    for (line, place, message) in [
        ("a | b", "|", "pipes"),
        ("a || b", "||", "`||`"),
        ("a $(b)", "$(", "command substitution"),
        ("a `b`", "`", "command substitution"),
        ("a \"`b`\"", "`", "command substitution"),
        ("a $HOME/x", "$HOME", "$HOME"),
        ("a \"${x}\"", "${", "variables"),
        ("a $1", "$1", "variables"),
        ("a *.c", "*", "patterns"),
        ("a b?", "?", "patterns"),
        ("a [b]", "[", "patterns"),
        ("a ~/b", "~", "home"),
        ("a >b", ">b", "redirection"),
        ("a >>/dev/null", ">>", "redirection"),
        ("a <b", "<", "input"),
        ("a 3>/dev/null", "3>/dev/null", "redirection"),
        ("a >&2", ">&2", "redirection"),
        ("a 2>", "2>", "to nothing"),
        ("a &>/dev/null", "&>", "background"),
        ("a (b)", "(", "subshells"),
        ("a)", ")", "subshells"),
        ("(a", "(", "no `)` ends this"),
        ("()", "(", "no command in here"),
        ("(a) b", "b", "a separator is missing"),
        ("(a | b)", "|", "pipes"),
        ("(a &) &", "(", "in the background"),
        ("(a; wait) && b", "(", "in the background"),
        ("{ a; ", "{", "no `}` ends this"),
        ("for i in 1; do a; ", "for", "no `done` ends this"),
        ("for 1 in 1; do a; done", "1", "no name"),
        ("for i on 1; do a; done", "on", "`in` is missing"),
        ("for i in; do a; done", "for", "no words"),
        ("for i in 1; a; done", "a", "`do` is missing"),
        ("for i in 1; do done", "for", "no command in here"),
        ("for i in 'a b'; do x $i; done", "'a b'", "blank"),
        ("for i in $(seq x); do a; done", "$(seq x)", "whole numbers"),
        ("for i in 1; do a $j; done", "$j", "$j"),
        ("for i in x; do a $((i)); done", "i", "not a decimal number"),
        (
            "for i in {1..1000}; do for j in 1 2; do a; done; done",
            "for",
            "too many",
        ),
        ("done", "done", "control"),
        ("while a; do b; done", "while", "control"),
        ("a 'b", "'", "never closed"),
        ("a \"b'", "\"", "never closed"),
        ("a b\\", "\\", "backslash"),
        ("a &&", "&&", "follows"),
        ("a && ; b", ";", "before"),
        ("; a", ";", "before"),
        ("a ;; b", ";", "before"),
        ("& a", "&", "before"),
        (">/dev/null", ">/dev/null", "without a command"),
        ("X=1 a", "X=", "`X`"),
        ("X=\"1\" a", "X=", "`X`"),
        ("a b\0", "\0", "NUL"),
        ("a b\r\n", "\r", "carriage return"),
        ("a $'x'", "$'", "quote"),
    ] {
        let (at, what) = refused(line);
        assert_eq!(at, place, "{line:?}: {what}");
        assert!(what.contains(message), "{line:?}: {what}");
    }
}

#[test]
fn a_quoted_word_is_no_keyword_and_no_assignment() {
    assert_eq!(texts("'for' x"), ["for", "x"]);
    assert_eq!(texts("'X'=1"), ["X=1"]);
    assert_eq!(texts("X\\=1"), ["X=1"]);
}

#[test]
fn words_know_where_they_come_from() {
    let line = "a 'b c'=\\d$((1+1))e";
    let word = parse(line)
        .unwrap()
        .remove(0)
        .commands
        .remove(0)
        .words
        .remove(1);
    assert_eq!(word.text, "b c=d2e");
    assert_eq!(&line[word.span.clone()], "'b c'=\\d$((1+1))e");
    for (text, source) in [
        (0..3, "b c"),
        (2..4, "c'="),
        (4..5, "\\d"),
        (5..6, "$((1+1))"),
        (5..7, "$((1+1))e"),
        (6..7, "e"),
        (3..3, "'b c'=\\d$((1+1))e"),
    ] {
        assert_eq!(&line[word.source(text.clone())], source, "{text:?}");
    }
}

#[test]
fn long_lines_are_refused() {
    assert!(parse(&"a".repeat(MAX_LINE)).is_ok());
    let line = format!("{}é", "a".repeat(MAX_LINE - 1));
    let e = parse(&line).unwrap_err();
    assert_eq!(&line[e.span], "é");
}

/// Generates strings mostly of characters with a meaning for the shell.
fn shellish() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        4 => proptest::sample::select(vec![
            " ", "\t", "\n", "\\", "\\\n", "'", "\"", "$", "$((", "))", "(", ")", ";", "&", "&&",
            "|", ">", "<", "2>&1", ">/dev/null", "#", "=", "1", "08", "0x", "+", "-", "<<", "?",
            "for i in 1 2;", "for", " in ", "do ", "done", "$i", "${i}", "{ ", "; }", "$(seq 2)",
            ":", "a", "é", "`", "*", "~", "\r", "\0",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(atom, 0..40).prop_map(|v| v.concat())
}

proptest! {
    #[test]
    fn no_line_panics_and_spans_lie_inside(line in shellish()) {
        match parse(&line) {
            Err(e) => prop_assert!(line.get(e.span.clone()).is_some(), "{:?}", e),
            Ok(lists) => for word in lists.iter().flat_map(|l| &l.commands).flat_map(|c| &c.words) {
                prop_assert!(line.get(word.span.clone()).is_some_and(|s| !s.is_empty()));
                for (i, c) in word.text.char_indices() {
                    let source = word.source(i..i + c.len_utf8());
                    prop_assert!(line.get(source.clone()).is_some(), "{:?} {:?}", word, source);
                    prop_assert!(word.span.start <= source.start && source.end <= word.span.end);
                }
            }
        }
    }

    #[test]
    fn arbitrary_strings_do_not_panic(line in any::<String>()) {
        if let Err(e) = parse(&line) {
            prop_assert!(line.get(e.span).is_some());
        }
    }
}
