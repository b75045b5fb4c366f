#!/usr/bin/env python3
"""Lists the engine's public functions without a check of their arguments.

    tests/tidy/assertions.py        lists them; exit code 1 if there are any
    tests/tidy/assertions.py all    all examined functions, with their checks

A function of crates/mm that an outside caller may use (`pub`, of a type that is `pub`) and that
indexes a table, counts or changes a state has a precondition: `assert!`, `debug_assert!`, an
`expect` with the condition in its text, or `?` on a lookup. Functions that only read a word or
compute from their arguments need none; neither do constructors, nor the functions in EXEMPT, which
have a reason.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "crates/mm/src"
# Functions that are right with any call.
EXEMPT = {
    "watch_pages": "watching begins whenever it is asked for",
    "vmstat": "indexes zones by their own numbers",
    "learned_watermarks": "indexes zones by their own numbers",
    "tracker_rows": "indexes its tables by their own numbers",
    "update_completion_period": "from the machine's own state",
    "run": "recounts whatever it finds",
    "bench_allocate": "for the benchmark of the layout alone",
    "bench_reclaim": "for the benchmark of the layout alone",
    "parse": "a name may be any",
    "name": "a table of constants",
    "page": "every look-up of a frame; the table's own bounds are the check",
    "note_path": "any path, at any time",
    "hope_again": "of all zones, at any time",
    "wakeup_flusher_threads": "any number of pages; 0 means all",
    "set_flags": "any bits, of a page that was looked up",
    "clear_flags": "any bits, of a page that was looked up",
}
FUNCTION = re.compile(r"^( *)pub (?:const )?(?:async )?fn (\w+)", re.M)
# A function must check its arguments if it indexes a table by an argument's number or changes a
# word.
CHANGES = re.compile(r"as usize\]|\w\[\w+\](?!\s*=>)|\.(?:set|fetch_(?:add|sub|or|and)|replace)\(")
SAYS = re.compile(r"\b(?:debug_)?assert(?:_eq|_ne)?!\(|\.expect\(|\.get\([^)]+\)\?|\.get\([^)]+\)\.map")


def body(text, at):
    """Returns the function's text from its name to its closing brace."""
    depth = 0
    for i in range(text.index("(", at), len(text)):
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return text[at:i + 1]
        elif text[i] == ";" and depth == 0:
            return ""  # a method that a trait asks for
    return text[at:]


def public_types(files):
    texts = "\n".join(file.read_text() for file in files)
    return set(re.findall(r"^pub (?:struct|enum|trait) (\w+)", texts, re.M))


def functions():
    files = sorted(SOURCE.rglob("*.rs"))
    types = public_types(files)
    for file in files:
        text = file.read_text()
        text = text[:text.find("#[cfg(test)]\nmod ")] if "#[cfg(test)]\nmod " in text else text
        code = re.sub(r"//[^\n]*", "", text)
        for found in FUNCTION.finditer(code):
            part = body(code, found.end(2))
            owners = re.findall(r"^impl(?:<[^>]*>)? (?:.* for )?(\w+)", code[:found.start()], re.M)
            inside = found.group(1) == "" or not owners or owners[-1] in types
            if found.group(2) in EXEMPT or found.group(2) == "new" or not inside:
                continue
            if CHANGES.search(part):
                line = text[:text.index(found.group(0))].count("\n") + 1
                yield f"{file.relative_to(ROOT)}:{line}", found.group(2), bool(SAYS.search(part))


def main():
    missing = 0
    for place, name, says in functions():
        missing += not says
        if sys.argv[1:] == ["all"]:
            print(f"{place}: {name}{'' if says else ': no precondition'}")
        elif not says:
            print(f"{place}: {name} has no precondition")
    sys.exit(1 if missing else 0)


main()
